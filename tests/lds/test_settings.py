"""``n_states="auto"``: the rule that chooses settings without labels, level and size with dynamics, forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import parametrize
from lds.clusterings import FirstMember
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import sem
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq.models import AGREEMENT
from manifoldseq_lds import (
    LDSClassifier,
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSKernelMatrix,
    LDSKMeans,
    LDSNeighbors,
    LDSSparseCoder,
    LDSSpectralClustering,
    MomentKernel,
    Systems,
    choose_clustering,
)
from manifoldseq_lds.clustering import _settings


def tones(levels: tuple[float, ...] = (0.0,), sizes: tuple[float, ...] = (1.0,), N: int = 24) -> list[np.ndarray]:
    """Return sequences of one channel, of two near frequencies in turn; levels and sizes go with the frequencies."""
    rng, t = np.random.default_rng(3), np.arange(80)[:, None]
    made = []
    for i in range(N):
        x = np.cos((0.5, 0.7)[i % 2] * t + rng.uniform(0, 6)) + 0.2 * rng.standard_normal((80, 1))
        made.append(sizes[i % len(sizes)] * x + levels[i % len(levels)])
    return made


@pytest.fixture(scope="module")
def fitted() -> LDSKMeans:
    return LDSKMeans(2, random_state=0).fit(tones(sizes=(1.0, 3.0)))


def test_near_tones_are_found_without_a_setting(fitted: LDSKMeans) -> None:
    """A default of two stacked steps and five states cannot tell them apart."""
    model = LDSKMeans(2, random_state=0).fit(tones())
    assert adjusted_rand_score(model.labels_, np.arange(24) % 2) == 1.0
    assert model.choice_.best_params["moments"] == "none" and model.choice_.best_params["identifier__delay"] > 2
    assert fitted.choice_.best_params["moments"] in ("size", "both")  # sizes say what the dynamics say


def test_the_choice_is_what_its_settings_give(fitted: LDSKMeans, tmp_path: Path) -> None:
    X = tones(sizes=(1.0, 3.0))
    given = LDSKMeans(2, random_state=0).set_params(**fitted.choice_.best_params).fit(X)
    assert_array_equal(given.systems_.A, fitted.systems_.A)
    assert_array_equal(fitted.predict(X), fitted.labels_)
    assert fitted.n_states == "auto" and not hasattr(given, "choice_")
    ms.storage.save_model(fitted, tmp_path)
    loaded: Any = ms.load(tmp_path)
    assert str(loaded.choice_) == str(fitted.choice_)
    assert_array_equal(loaded.transform(X), fitted.transform(X))
    with pytest.raises(ValueError, match="pass sequences, or Systems with this number of moments"):
        fitted.predict(Systems(fitted.systems_.A, fitted.systems_.C))


def test_the_figure_rings_the_choice(fitted: LDSKMeans) -> None:
    """Many settings in the order of the table; the chosen row is that of the chosen settings."""
    figure, ax = plt.subplots()
    fitted.choice_.plot(ax)
    ring = next(line for line in ax.lines if line.get_label() == "chosen")
    step, chosen = fitted.choice_.steps[-1], fitted.choice_.best_params
    (row,) = [i for i, one in enumerate(step.params) if named(one).items() >= chosen.items()]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (row + 1, fitted.stability_)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("row of the table", AGREEMENT)
    shown = [point for box in ax.containers for point in box.lines[0].get_xydata().tolist()]
    assert sorted(shown) == [[i + 1, value] for i, value in enumerate(step.figure)]
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert labels == {f"moments={one['moments']!r}" for one in step.params} | {"chosen"}
    plt.close(figure)


def named(one: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a row under the names of parameters."""
    inside = ("delay", "center", "stabilizer")
    return {f"identifier__{name}" if name in inside else name: value for name, value in one.items()}


def test_the_figure_of_forecasts_alone() -> None:
    """Two sequences have no halves."""
    figure, ax = plt.subplots()
    with pytest.warns(UserWarning, match="too few to compare clusterings of halves"):
        (step,) = (choice := LDSKMeans(2, random_state=0).fit(tones(N=2)).choice_).steps
    choice.plot(ax)
    assert ax.get_ylabel() == "forecast error, relative"
    assert list(step.figure) == sorted(step.figure) and step.chosen == [0]
    shown = [value for box in ax.containers for value in box.lines[0].get_ydata()]
    assert sorted(shown) == list(step.figure)
    plt.close(figure)


def test_forecast_errors_are_those_of_a_loop(fitted: LDSKMeans) -> None:
    X = tones(sizes=(1.0, 3.0))
    scale = np.concatenate(X).std()
    step = fitted.choice_.steps[0]
    for row, found, doubt in list(zip(step.params, step.figure, step.error, strict=True))[::7]:
        n, delay, error, total = row["n_states"], row["delay"], [], 0.0
        for x in X:
            error.append(0.0)
            z = x / scale
            seen = 2 * len(z) // 3
            stacked = np.array([z[t - delay + 1 : t + 1].ravel() for t in range(delay - 1, len(z))])
            before = stacked[: seen - delay + 1]
            mean = before.mean(axis=0) if row["center"] else np.zeros(delay)
            U, s, Vt = np.linalg.svd((before - mean).T, full_matrices=False)
            C, states = U[:, :n], s[:n, None] * Vt[:n]
            A = np.linalg.lstsq(states[:, :-1].T, states[:, 1:].T, rcond=None)[0].T
            for t in range(seen, len(z)):
                forecast = mean + C @ (A @ (C.T @ (stacked[t - delay] - mean)))
                error[-1] += (z[t, 0] - forecast[-1]) ** 2
                total += (z[t, 0] - z[:seen].mean()) ** 2
        assert found == pytest.approx(sum(error) / total, rel=1e-8)
        assert doubt == pytest.approx(sem(error) / total * len(X), rel=1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_forecast_errors_of_a_grid_are_those_of_a_loop(center: bool) -> None:
    """Two thirds of each sequence are identified with a delay, of which the newest step is forecast."""
    X = [x[: 80 - 7 * (i % 3)] for i, x in enumerate(tones(N=8))]
    scale, delays = np.concatenate(X).std(axis=0), (2, 5)
    identifiers = [LDSIdentifier(2, delay=delay, center=center) for delay in delays]
    estimator = LDSKMeans(2, n_init=1, max_iter=2, random_state=0)
    choice = choose_clustering(estimator, X, {"identifier": identifiers}, n_splits=2, random_state=0)
    for delay, found in zip(delays, choice.steps[0].figure, strict=True):
        error = total = 0.0
        for x in X:
            z, seen = x / scale, 2 * len(x) // 3
            one = LDSIdentifier(2, delay=delay, center=center, scale=False).fit_transform([z[:seen]])
            mean = one.mean[0] if center else np.zeros(delay * z.shape[1])
            for t in range(seen, len(z)):
                stacked = z[t - delay : t].ravel()
                forecast = mean + one.C[0] @ one.A[0] @ one.C[0].T @ (stacked - mean)
                error += np.square(z[t] - forecast[-z.shape[1] :]).sum()
                total += np.square(z[t] - z[:seen].mean(axis=0)).sum()
        assert found == pytest.approx(error / total, rel=1e-8)


def test_the_systems_that_are_compared_are_those_of_the_identifier() -> None:
    """The rule shares decompositions between numbers of states; its systems have no public name."""
    X = [x[: 80 - 7 * (i % 3)] for i, x in enumerate(tones(N=6))]
    for stabilizer, center in (("SN", False), ("clip", True)):
        expected = LDSIdentifier(3, delay=8, center=center, stabilizer=stabilizer, scale=False).fit_transform(X)
        parts = _settings._least_squares(_settings._decomposed(X, 8, center, 6), 3)
        found = _settings._stabilized(parts, stabilizer, 0.99)
        for name in ("A", "C", "x1"):
            assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)


def test_what_is_given_is_kept() -> None:
    X = tones()
    stacked = LDSIdentifier(delay=4)
    assert not hasattr(LDSKMeans(2, n_states=2, identifier=stacked, random_state=0).fit(X), "choice_")
    model = LDSKMeans(2, identifier=LDSIdentifier(center=False, stabilizer="clip"), random_state=0).fit(X)
    assert set(model.choice_.best_params) == {"n_states", "identifier__delay", "moments"}
    assert {one["stabilizer"] for one in model.choice_.steps[-1].params} == {"clip"}
    assert not any(one["center"] for one in model.choice_.steps[0].params)
    centred = LDSKMeans(2, identifier=LDSIdentifier(center=True), random_state=0).fit(X)
    assert set(centred.choice_.best_params) == {"n_states", "identifier__delay", "identifier__stabilizer", "moments"}
    assert all(one["center"] for one in centred.choice_.steps[0].params)
    explicit = LDSKMeans(2, n_states=2, identifier=stacked, moments="level", random_state=0).fit(tones((0.0, 5.0)))
    assert adjusted_rand_score(explicit.labels_, np.arange(24) % 2) == 1.0
    with pytest.raises(ValueError, match="moments='most' is not known: choose 'auto', 'none', 'level', 'size' or 'bo"):
        LDSKMeans(2, moments="most").fit(X)
    with pytest.raises(ValueError, match=r"mean=FirstMember\(\) is not defined with moments='size'"):
        LDSKMeans(2, n_states=2, identifier=stacked, moments="size", mean=FirstMember()).fit(X)


@pytest.mark.slow
def test_an_identifier_keeps_what_it_says_and_leaves_the_rest_open() -> None:
    """Recordings with gaps need one, which pinned mean and stabilizer at its defaults."""
    X, rng = tones(), np.random.default_rng(0)
    holed = [np.where(rng.random(x.shape) < 0.02, np.nan, x) for x in X]
    model = LDSKMeans(2, identifier=LDSIdentifier(missing="smooth"), random_state=0).fit(holed)
    expected = LDSKMeans(2, random_state=0).fit(X)
    assert model.choice_.best_params.keys() == expected.choice_.best_params.keys()
    assert {one["center"] for one in model.choice_.steps[0].params} == {True, False}
    assert {one["stabilizer"] for one in model.choice_.steps[-1].params} == {"SN", "clip"}
    assert adjusted_rand_score(model.labels_, np.arange(24) % 2) == 1.0
    # the stabilizers that are compared are those of method="pca"
    other = LDSKMeans(2, identifier=LDSIdentifier(method="n4sid", stabilizer="CG"), random_state=0).fit(X)
    assert "identifier__stabilizer" not in other.choice_.best_params
    assert other.choice_.best_params.keys() >= {"n_states", "identifier__delay", "identifier__center"}


def test_a_short_sequence_is_named_with_what_it_costs() -> None:
    X = tones()
    with pytest.warns(UserWarning) as caught:
        model = LDSKMeans(2, random_state=0).fit([*X, X[0][:6]])
    (said,) = (str(one.message) for one in caught)
    assert said.startswith("sequence 24 has 6 time steps, but n_states=") and "remove short sequences" in said
    assert model.choice_.notes == [said] and said in str(model.choice_)
    chosen = model.choice_.best_params
    assert chosen["n_states"] + chosen["identifier__delay"] <= 6
    # what the others ask for is judged, and known, all the same
    best = model.choice_.steps[0].params[0]
    assert best["n_states"] + best["delay"] > 6 and f"n_states={best['n_states']} with delay={best['delay']}" in said
    with pytest.warns(UserWarning, match=r"sequence 24 .* needs [0-9]+ \(1 more sequence is too short\). A"):
        LDSKMeans(2, random_state=0).fit([*X, X[0][:6], X[1][:7]])


@pytest.mark.parametrize("what", ["size", "level"])
@parametrize("N", [20, 60], fast=1)
def test_noise_is_told_apart_by_levels_and_sizes(what: str, N: int) -> None:
    """Dynamics predict nothing of it, so that moments need not agree with them."""
    rng, truth = np.random.default_rng([0, N]), np.arange(N) % 2
    X = [rng.standard_normal((50, 2)) for _ in range(N)]
    X = [x * 11 if group and what == "size" else x + 10 * group for x, group in zip(X, truth, strict=True)]
    with pytest.warns(UserWarning, match=r"forecast these sequences no better than a constant.* compared instead"):
        model = LDSKMeans(2, random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_, truth) == 1.0
    assert model.choice_.best_params["moments"] in (what, "both")
    assert "no better than a constant does" in model.choice_.notes[0]


def test_weak_dynamics_count_as_dynamics() -> None:
    """Of waves in noise of 32 times their variance a thousandth is forecast, and they are found, without a warning."""
    data: Any = ms.hooks.get_dataset("noisy-textures").loader(1)
    model = LDSKMeans(4, random_state=0).fit(data.sequences[::2])
    assert adjusted_rand_score(model.labels_, data.labels[::2]) == 1.0
    assert model.choice_.notes == [] and model.choice_.best_params["moments"] == "none"


def test_the_table_says_how_much_of_it_is_shown_and_what_stability_is_a_mean_of(fitted: LDSKMeans) -> None:
    forecasts, _, compared = fitted.choice_.steps
    assert len(compared.params) > 12 and compared.heading == "stability"
    for step in (forecasts, compared):
        assert f"settings (the first 12 of {len(step.params)})" in str(fitted.choice_)
    choice = LDSNeighbors().fit(tones(N=16)).choice_
    assert "mean stability over 2 and 4 clusters" in str(choice)


def test_a_control_that_is_more_stable_is_recommended_in_words() -> None:
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((60, 3)) + 8 * (i % 2) * np.array([1, -1, 1]) for i in range(32)]
    with pytest.warns(
        UserWarning, match="no better than a constant does, so the compared dynamics may be noise; the agr"
    ):
        model = LDSKMeans(2, identifier=LDSIdentifier(center=True), moments="none", random_state=0).fit(X)
    assert str(model.choice_).endswith(": try clusters by mean and deviation of the channels first")
    assert "agree better if sequences are compared by mean and deviation of the channels" in model.choice_.notes[-1]
    _, alone, compared = model.choice_.steps
    assert alone.figure[0] > compared.figure[compared.chosen[0]] + 0.05 and not alone.chosen


@parametrize(
    "estimator",
    [
        LDSSpectralClustering(2, random_state=0),
        LDSClassifier(),
        LDSClassifier("nearest"),
        LDSNeighbors(3),
        LDSDictionaryLearning(2, init="k-means", max_iter=2, random_state=0),
        LDSSparseCoder("k-means", n_atoms=2, random_state=0),
    ],
    fast=2,
    ids=lambda one: type(one).__name__,
)
def test_every_estimator_has_the_rule(estimator: Any) -> None:
    X, y = tones(), np.arange(24) % 2
    model = estimator.fit(X, y)
    assert "chosen: n_states=" in str(model.choice_)
    if not isinstance(estimator, LDSClassifier):  # it has labels, by which the shortest delay tells these classes apart
        assert model.choice_.best_params["identifier__delay"] > 2
    if hasattr(model, "predict"):
        assert adjusted_rand_score(model.predict(X), y) == 1.0
    else:
        assert model.transform(X).shape == (24, 2)


@parametrize("estimator", [LDSKernelMatrix(), LDSSparseCoder("all"), LDSSparseCoder(n_atoms=8)], fast=1)
def test_kernel_matrices_and_codes_follow_the_rule(estimator: Any, tmp_path: Path) -> None:
    """What `transform` gives is that of the chosen settings, given one by one, and of the model from its file."""
    X = tones(sizes=(1.0, 3.0))
    model = clone(estimator).set_params(**({} if isinstance(estimator, LDSKernelMatrix) else {"random_state": 0}))
    model.fit(X)
    chosen = model.choice_.best_params
    assert model.n_states == "auto" and chosen["identifier__delay"] > 2
    given = clone(model).set_params(**chosen).fit(X)
    assert not hasattr(given, "choice_")
    assert_array_equal(model.transform(X), given.transform(X))
    ms.storage.save_model(model, tmp_path)
    loaded: Any = ms.load(tmp_path)
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert str(loaded.choice_) == str(model.choice_)
    before = model.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit([*X, np.full((80, 1), np.nan)])
    assert_array_equal(model.transform(X), before)  # a fit that fails leaves the last one
    assert not hasattr(model.set_params(n_states=1).fit(X), "choice_")


def test_kernel_matrices_count_level_and_size() -> None:
    """A product of the kernel of the dynamics and a Gaussian; chosen, given, and not without being asked for."""
    X = tones(sizes=(1.0, 3.0))
    model = LDSKernelMatrix()
    K = model.fit_transform(X)
    assert model.choice_.best_params["moments"] in ("size", "both") and model.moment_weights_.shape == (2,)
    assert_allclose(model.transform(X), K, atol=1e-12)
    alone = clone(model).set_params(**model.choice_.best_params | {"moments": "none"}).fit_transform(X)
    assert (alone - K).max() > 0.1 and (alone - K).min() > -1e-12
    neighbors = LDSNeighbors().fit(X)  # the same choice: the kernel of another estimator, as its distances
    expected = np.sqrt(np.maximum(K.diagonal()[:, None] + K.diagonal() - 2 * K, 0))
    assert_allclose(neighbors.kneighbors(X, 24)[0], np.sort(expected, axis=1), atol=1e-6)
    stacked = {"n_states": 2, "identifier": LDSIdentifier(delay=4)}
    assert not hasattr(LDSKernelMatrix(**stacked).fit(X), "moment_weights_")
    assert LDSKernelMatrix(**stacked, moments="both").fit(X).moment_weights_.all()
    assert not hasattr(model.set_params(**stacked).fit(X), "moment_weights_")
    with pytest.raises(ValueError, match="moments='most' is not known"):
        LDSKernelMatrix(moments="most").fit(X)
    with pytest.raises(ValueError, match="moments='level' compares moments, but the given Systems have none"):
        LDSKernelMatrix(moments="level").fit(LDSIdentifier(1).fit_transform(X))


def test_a_dictionary_that_is_given_is_not_chosen_for() -> None:
    X = tones()
    systems = LDSIdentifier().fit_transform(X)
    model = LDSSparseCoder(systems[:4]).fit(X)
    assert not hasattr(model, "choice_") and model.transform(X).shape == (24, 4)
    assert not hasattr(
        LDSSparseCoder(n_atoms=4, random_state=0).fit(X).set_params(dictionary=systems).fit(X), "choice_"
    )


def test_neighbours_vote() -> None:
    X, y = tones(), np.array(["low", "high"] * 12)
    model = LDSNeighbors(5, n_states=2, identifier=LDSIdentifier(delay=8)).fit(X, y)
    shares, rows = model.predict_proba(X), model.kneighbors(X)[1]
    assert model.classes_.tolist() == ["high", "low"]
    assert_allclose(shares[:, 0], [(y[some] == "high").mean() for some in rows])
    assert_array_equal(model.predict(X), y)
    assert not hasattr(LDSNeighbors(n_states=2, identifier=LDSIdentifier(delay=8)).fit(X), "predict")


# The product kernel.


def systems_with_moments(N: int = 6, p: int = 4) -> Systems:
    rng = np.random.default_rng(0)
    A = 0.5 * np.linalg.qr(rng.standard_normal((N, 3, 3)))[0]
    return Systems(A, np.linalg.qr(rng.standard_normal((N, 5, 3)))[0], moments=rng.standard_normal((N, p)))


def test_the_product_kernel_is_a_product() -> None:
    systems = systems_with_moments()
    kernel = MomentKernel("projection", weights=(0.5, 0.0, 2.0, 0.1))
    packed = kernel.pack(systems)
    dynamics = ms.get_kernel("projection")
    for i in range(6):
        for j in range(6):
            one, other = (dynamics.pack(systems[[k]]) for k in (i, j))
            squared = float(np.asarray(kernel.weights) @ (systems.moments[i] - systems.moments[j]) ** 2)
            expected = dynamics.cross(one, other)[0, 0] * np.exp(-squared)
            assert kernel.cross(packed, packed)[i, j] == pytest.approx(expected, rel=1e-10)
    manifold = kernel.manifold(5, 3)
    rng = np.random.default_rng(1)
    point = manifold.random_point(rng)
    beta = rng.standard_normal(6)
    gradient = kernel.weighted(point, packed, beta)[1]
    for leaf in (0, 3):
        direction, ends = rng.standard_normal(point[leaf].shape), []
        for step in (1e-5, -1e-5):
            moved = list(point)
            moved[leaf] = point[leaf] + step * direction
            ends.append(kernel.weighted(tuple(moved), packed, beta)[0])
        slope = float((gradient[leaf] * direction).sum())
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-6)


def test_centres_have_moments_and_never_get_worse() -> None:
    X = tones(sizes=(1.0, 3.0))
    settings: dict[str, Any] = {"n_states": 3, "identifier": LDSIdentifier(delay=4), "moments": "both"}
    model = LDSKMeans(3, n_init=1, tol=0, max_iter=8, random_state=0, **settings).fit(X)
    assert model.systems_.moments.shape == (3, 2)
    assert (np.diff(model.history_["fun"]) <= 1e-12).all()
    batches = LDSKMeans(2, random_state=0, **settings)
    for batch in (X[:12], X[12:]):
        batches.partial_fit(batch)
    assert batches.counts_.sum() == 24 and np.isfinite(batches.systems_.moments).all()


def test_spectral_clusters_take_new_data() -> None:
    X = tones()
    settings: dict[str, Any] = {"n_states": 2, "identifier": LDSIdentifier(delay=8), "random_state": 0}
    model = LDSSpectralClustering(2, **settings).fit(X[:16])
    both = LDSSpectralClustering(2, **settings).fit(X)
    assert adjusted_rand_score(model.predict(X), both.labels_) == 1.0
    assert_array_equal(model.predict(X[:16]), model.labels_)


@parametrize("model", [LDSSpectralClustering(2, random_state=0), LDSNeighbors()], fast=1)
def test_settings_of_the_last_fit_outlive_a_fit_that_cannot_choose(model):
    t = np.arange(60)[:, None]
    X = [np.sin((0.2, 0.9)[i % 2] * t + np.array([i, i + 1.0])) for i in range(16)]
    last = model.fit(X).choice_
    with pytest.raises(ValueError, match="has NaN"):
        model.fit([np.full((60, 2), np.nan), *X])
    assert model.choice_ is last
