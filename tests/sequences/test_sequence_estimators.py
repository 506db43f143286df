"""Estimators of sequences that choose among kernels: what they find, what decides, strangers, conventions."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers import needs
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq.models import Choice, Step
from manifoldseq_sequences import SequenceClassifier, SequenceKMeans, SequenceNeighbors
from manifoldseq_sequences._components import gram_of
from manifoldseq_sequences._weights import BUNDLED, learned_weights, separated


def steps(seed=3, N=27):
    """Return noisy recordings of three step frequencies, whose channels drift a little apart."""
    rng, amplitudes = np.random.default_rng(seed), (25, 45, 12, 6)
    X = []
    for i in range(N):
        t, f, phase = np.arange(int(rng.integers(130, 180))) / 100, (0.8, 1.3, 1.9)[i % 3], rng.uniform(0, 2 * np.pi)
        channels = [
            a * np.sin(2 * np.pi * f * (1 + 0.02 * rng.standard_normal()) * t + phase + j)
            + 0.3 * a * np.sin(4 * np.pi * f * t + phase)
            for j, a in enumerate(amplitudes)
        ]
        X.append(np.column_stack(channels) + rng.standard_normal((len(t), 4)))
    return X, np.arange(N) % 3


def bumps(seed=0, N=48):
    """Return noisy curves with a bump at one of three places."""
    rng, X = np.random.default_rng(seed), []
    for i in range(N):
        t = np.linspace(0, 1, int(rng.integers(80, 120)))
        curve = np.exp(-np.square((t - 0.25 * (1 + i % 3) - 0.02 * rng.standard_normal()) / 0.07))
        X.append(1e3 * (curve + 0.2 * rng.standard_normal(len(t)))[:, None])
    return X, np.arange(N) % 3


def levels(seed=0, N=45):
    """Return short noise of three levels."""
    rng = np.random.default_rng(seed)
    return [(2.0 * (i % 3) + rng.standard_normal((int(rng.integers(12, 30)), 2))) for i in range(N)], np.arange(N) % 3


CASES = {
    "steps": (steps, {"spectrum", "autocovariance", "convolutions"}),
    "bumps": (bumps, {"shape", "warping"}),
    "levels": (levels, {"statistics", "dynamics", "warping", "convolutions"}),
}


@cache
def clustered(case: str, seed: int = 0) -> SequenceKMeans:
    """Return the default fit to a case."""
    return SequenceKMeans(3, random_state=seed).fit(CASES[case][0]()[0])


@pytest.mark.parametrize("case", CASES)
def test_clusters_are_found_by_the_descriptions_that_show_them(case: str) -> None:
    data, deciding = CASES[case]
    X, y = data()
    model = clustered(case)
    assert adjusted_rand_score(y, model.labels_) >= 0.9
    assert sum(model.weights_.get(name, 0.0) for name in deciding) > 0.5
    again = SequenceKMeans(3, random_state=0, kernel=model.choice_.best_params["kernel"]).fit(X)
    assert adjusted_rand_score(model.labels_, again.labels_) > 0.9


def test_three_step_frequencies_are_found_with_every_seed() -> None:
    y = np.arange(27) % 3
    assert min(adjusted_rand_score(y, clustered("steps", seed).labels_) for seed in range(3)) >= 0.99


def test_new_sequences_join_the_clusters_of_the_fit() -> None:
    X, model = steps()[0], clustered("steps")
    assert (model.predict(X) == model.labels_).all()
    new, kinds = steps(seed=8, N=12)
    assert adjusted_rand_score(kinds, model.predict(new)) == 1.0
    distances = model.transform(X)
    np.testing.assert_allclose(np.square(distances.min(axis=1)).sum(), model.inertia_, rtol=1e-6)
    assert -model.score(X) == pytest.approx(model.inertia_)


def test_a_large_set_is_clustered_by_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq_sequences._kmeans.REFERENCE", 18)
    X, y = steps()
    model = SequenceKMeans(3, random_state=0).fit(X)
    assert len(model.sequences_) == 18 and adjusted_rand_score(y, model.labels_) == 1.0


def test_the_number_of_clusters_is_chosen_without_labels() -> None:
    X, y = levels()
    model = SequenceKMeans("auto", random_state=0).fit(X)
    assert model.n_clusters_ == 3 and adjusted_rand_score(y, model.labels_) >= 0.9
    numbers, weights = model.choice_.steps
    assert [one["n_clusters"] for one in numbers.params] == list(range(2, 12))  # 45 sequences
    assert model.choice_.best_params == {"n_clusters": 3, "kernel": weights_of(weights)}
    again = SequenceKMeans(random_state=0).set_params(**model.choice_.best_params).fit(X)
    assert adjusted_rand_score(model.labels_, again.labels_) == 1.0
    alone = SequenceKMeans("auto", kernel="statistics", random_state=0).fit(X)
    assert alone.choice_.best_params == {"n_clusters": alone.n_clusters_} and len(alone.choice_.steps) == 1
    plot = ms.hooks.get_record(ms.hooks.PlotSpec, "choice")
    for fitted, label in ((model, "kernel"), (alone, "n_clusters")):
        result, ax = SimpleNamespace(estimator=fitted), Figure().subplots()
        assert plot.accepts(result)
        plot.draw(ax, result)
        assert ax.get_xlabel() == label and len(ax.get_xticks()) == len(fitted.choice_.steps[-1].params)
    with pytest.raises(ValueError, match="X has 3 sequences, but n_clusters='auto' compares clusterings of halves"):
        SequenceKMeans("auto").fit(X[:3])


def test_the_largest_number_that_is_compared_is_told() -> None:
    rng = np.random.default_rng(0)
    X = [level + 0.05 * rng.standard_normal((30, 2)) for level in np.repeat([0.0, 1.0, 3.0, 7.0], 4)]
    said = r"n_clusters=4 is the largest of the compared numbers \(2 to 4\): try larger numbers, such as n_clusters=8"
    with pytest.warns(UserWarning, match=f"^{said}$"):
        model = SequenceKMeans("auto", kernel="statistics", random_state=0).fit(X)
    assert model.n_clusters_ == 4 and str(model.choice_).endswith("n_clusters=8")


def test_a_function_as_a_kernel_says_how_to_wrap_it() -> None:
    with pytest.raises(ValueError, match=r"is a function: wrap it with @ms.kernel\(domain='sequences'\)"):
        SequenceKMeans(2, kernel=np.dot).fit(steps()[0])


def weights_of(step: Step) -> dict[str, float]:
    return {step.params[i]["kernel"]: round(float(step.columns["weight"][i]), 4) for i in step.chosen}


@needs("lds")
@pytest.mark.parametrize("after", [1, 4, 7])
def test_an_interrupted_fit_goes_on_to_the_same_result(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manifoldseq_sequences._kmeans.REFERENCE", 18)
    X = steps()[0]
    whole = SequenceKMeans(3, random_state=0).fit(X)

    def interrupt(event: ms.Event) -> None:
        if event.nit == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SequenceKMeans(3, random_state=0).fit(X, observers=[interrupt], checkpoint=tmp_path)
    compared = Mock(wraps=gram_of)
    monkeypatch.setattr("manifoldseq_sequences._estimator.gram_of", compared)
    resumed = SequenceKMeans(3, random_state=0).fit(X, checkpoint=tmp_path, resume=True)
    assert compared.call_count == 7 - after  # the matrices of the first kernels are in the checkpoint
    assert resumed.weights_ == whole.weights_ and resumed.inertia_ == whole.inertia_
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    np.testing.assert_array_equal(resumed.transform(X), whole.transform(X))
    with pytest.raises(ms.storage.CheckpointError):
        SequenceKMeans(2, random_state=0).fit(X, checkpoint=tmp_path, resume=True)


@needs("lds")
@pytest.mark.parametrize("model", [SequenceClassifier(), SequenceNeighbors(2)])
def test_an_interrupted_fit_of_classes_goes_on_to_the_same_result(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = steps()
    whole = clone(model).fit(X, y)

    def interrupt(event: ms.Event) -> None:
        if event.nit == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, y, observers=[interrupt], checkpoint=tmp_path)
    compared = Mock(wraps=gram_of)
    monkeypatch.setattr("manifoldseq_sequences._estimator.gram_of", compared)
    resumed = clone(model).fit(X, y, checkpoint=tmp_path, resume=True)
    assert compared.call_count == 4  # the matrices of the first three kernels are in the checkpoint
    assert resumed.weights_ == whole.weights_
    np.testing.assert_array_equal(resumed.coordinates_, whole.coordinates_)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    with pytest.raises(ms.storage.CheckpointError):
        clone(model).fit(X, y[::-1], checkpoint=tmp_path, resume=True)


def test_a_fit_does_not_depend_on_the_executor() -> None:
    X, model = steps()[0], clustered("steps")
    with ms.execution.using("threads", 3):
        again = SequenceKMeans(3, random_state=0).fit(X)
    assert again.weights_ == model.weights_ and again.inertia_ == model.inertia_


def test_missing_values_are_an_error_that_names_them() -> None:
    X = [x.copy() for x in levels()[0]]
    X[3][5, 1] = np.nan
    with pytest.raises(ValueError, match="sequence 3 has NaN at t=5, channel 1: remove or fill it"):
        SequenceKMeans(3).fit(X)
    with pytest.raises(ValueError, match="sequence 3 has NaN at t=5, channel 1: remove or fill it"):
        clustered("levels").predict(X)


# The rule without labels, on coordinates whose clusters are known.


def blobs(rng, y, spread, width=6, d=3):
    return rng.standard_normal((y.max() + 1, d))[y] * width + spread * rng.standard_normal((len(y), d))


def test_one_right_description_is_not_diluted_by_noise() -> None:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 20)
    coordinates = {"right": blobs(rng, y, 1.0)}
    coordinates |= {f"noise {i}": rng.standard_normal((60, 8)) for i in range(4)}
    weights = learned_weights(coordinates, 3, np.random.default_rng(0)).best_params["kernel"]
    assert weights["right"] > 0.9


def test_descriptions_that_confirm_each_other_outweigh_a_stable_one_that_stands_alone() -> None:
    """The latter has two outliers, and one cluster of all others."""
    rng, y = np.random.default_rng(1), np.repeat(np.arange(3), 20)
    coordinates = {f"right {i}": blobs(rng, y, 2.0) for i in range(3)}
    alone = 0.1 * rng.standard_normal((60, 2))
    alone[0], alone[1] = (30, 0), (0, 30)
    weights = learned_weights({**coordinates, "alone": alone}, 3, np.random.default_rng(0)).best_params["kernel"]
    assert weights.get("alone", 0.0) < 0.1


def test_noise_alone_gives_equal_weights_and_a_note() -> None:
    """A long Gaussian is split in two halves reliably, and is no more separated than any Gaussian."""
    rng = np.random.default_rng(0)
    step = learned_weights(
        {"long": rng.standard_normal((80, 2)) * (20, 1), "round": rng.standard_normal((80, 5))},
        2,
        np.random.default_rng(0),
    ).steps[0]
    stability, above = step.figure[0], step.columns["separated"][0]
    assert stability > 0.6 and above < 0.1


def test_separation_is_the_share_of_variance_between_clusters() -> None:
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 7)
    Z = rng.standard_normal((21, 4))
    Z -= Z.mean(axis=0)
    within = sum(np.square(Z[labels == k] - Z[labels == k].mean(axis=0)).sum() for k in range(3))
    assert separated(Z @ Z.T, labels) == pytest.approx(1 - within / np.square(Z).sum())


def test_few_sequences_have_equal_weights_and_a_warning() -> None:
    X, _ = steps(N=9)
    with pytest.warns(UserWarning, match="too few to compare"):
        model = SequenceKMeans(3, random_state=0).fit(X)
    assert len(set(np.round(list(model.weights_.values()), 3))) == 1


@pytest.mark.parametrize("N", [6, 12])
@pytest.mark.parametrize("n_clusters", [2, "auto"])
def test_equal_sequences_are_an_error(n_clusters, N: int) -> None:
    walk = np.cumsum(np.random.default_rng(0).standard_normal((50, 3)), axis=0)
    for same in (np.ones((20, 1)), walk, 1e9 * walk):  # distances of the last two are rounding, but not zero
        with pytest.raises(ValueError, match="all sequences are equal under every kernel"):
            SequenceKMeans(n_clusters).fit([same] * N)


@pytest.mark.parametrize("Estimator", [SequenceClassifier, SequenceNeighbors])
def test_equal_sequences_of_two_classes_are_an_error(Estimator: type) -> None:
    walk = np.cumsum(np.random.default_rng(0).standard_normal((50, 3)), axis=0)
    with pytest.raises(ValueError, match="all sequences are equal under every kernel"):
        Estimator().fit([walk] * 10, [0, 1] * 5)


@needs("lds")
def test_an_error_about_new_sequences_names_the_kernel() -> None:
    X, _ = steps(N=9)
    model = SequenceKMeans(3, kernel="dynamics", random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"the kernel 'dynamics', which this model uses, .* has 1 time steps"):
        model.predict([x[:1] for x in X])


@pytest.mark.parametrize("Estimator", [SequenceKMeans, SequenceNeighbors])
def test_one_sequence_is_an_error_that_says_so(Estimator: type) -> None:
    with pytest.raises(ValueError, match=r"X has 1 sequence .* pass at least two"):
        Estimator(1).fit(steps(N=1)[0], [0])


# Kernels of strangers.


@ms.kernel(domain="sequences", constant_diagonal=True)
def last_value(first, second):
    """Compare the last values of the first channel."""
    (x,), (y,) = first, second
    return np.exp(-((x[-1, 0] - y[-1, 0]) ** 2))


def test_the_kernel_of_a_stranger_takes_part_only_where_it_is_named() -> None:
    X, before = levels()[0], clustered("levels")
    with_end = []
    for i, x in enumerate(X):
        x = x.copy()
        x[-1, 0] = 10.0 * (i % 2)
        with_end.append(x)
    ms.register(ms.hooks.KernelSpec("last-value", lambda: last_value))
    after = SequenceKMeans(3, random_state=0).fit(X)
    assert after.weights_ == before.weights_ and (after.labels_ == before.labels_).all()
    named = SequenceKMeans(2, kernels=["statistics", "last-value"], random_state=0).fit(with_end)
    assert named.weights_["last-value"] > 0.5 and set(named.weights_) <= {"statistics", "last-value"}
    assert adjusted_rand_score(np.arange(len(X)) % 2, named.labels_) == 1.0
    object_ = SequenceKMeans(2, kernel=last_value, random_state=0).fit(with_end)
    assert adjusted_rand_score(np.arange(len(X)) % 2, object_.labels_) == 1.0


@needs("lds")
def test_the_default_kernels_are_registered_and_belong_to_this_repository() -> None:
    for name in BUNDLED:
        assert ms.get_kernel(name).domain == "sequences"


# Labels.


@pytest.mark.parametrize("Estimator", [SequenceClassifier, SequenceNeighbors])
@pytest.mark.parametrize("case", CASES)
def test_classes_are_learned_by_the_kernels_that_show_them(case: str, Estimator: type) -> None:
    data, deciding = CASES[case]
    X, y = data()
    words = np.array(["a", "b", "c"])[y]
    model = Estimator().fit(X, words)
    new, kinds = data(seed=11)
    assert model.score(new, np.array(["a", "b", "c"])[kinds]) > 0.9
    assert set(model.weights_) & (deciding | {"convolutions"})  # used unless another kernel is clearly better
    assert isinstance(model.choice_, Choice) and "accuracy" in str(model.choice_)


def test_neighbours_without_classes_and_outliers() -> None:
    X = steps(N=18)[0]
    X = [*X, np.random.default_rng(0).standard_normal((200, 4)) * 20]
    model = SequenceNeighbors(3).fit(X)
    assert int(model.score_samples().argmin()) == len(X) - 1
    distances, rows = model.kneighbors()
    assert (rows != np.arange(len(X))[:, None]).all() and (np.diff(distances, axis=1) >= 0).all()
    np.testing.assert_allclose(model.kneighbors(X[:3], 1)[0], 0, atol=1e-12)
    with pytest.raises(AttributeError, match="fitted without y"):
        model.predict(X)


# Conventions.

ESTIMATORS = [
    SequenceKMeans(2, n_init=1, kernels=["statistics", "spectrum", "warping"], random_state=0),
    SequenceKMeans(2, n_init=1, kernel="sum", random_state=0),
    SequenceClassifier(kernels=["spectrum", "autocovariance", "shape"]),
    pytest.param(SequenceNeighbors(kernels=["spectrum", "dynamics"]), marks=needs("lds")),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_estimators_follow_the_conventions(estimator: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = ms.testing.check_sequence_estimator(estimator)
    assert report.ok, str(report)


def test_model_files_hold_the_default_fit(tmp_path: Path) -> None:
    X, _ = levels()
    for model in (clustered("levels"), SequenceClassifier().fit(X, np.arange(45) % 3)):
        ms.storage.save_model(model, tmp_path / "model.npz")
        again = ms.storage.load_model(tmp_path / "model.npz")
        assert (again.predict(X) == model.predict(X)).all() and str(again.choice_) == str(model.choice_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param({"kernel": "projection"}, "of the domain 'lds': use a kernel of 'sequences'", marks=needs("lds")),
        ({"kernel": "none"}, "none"),
        ({"kernel": {}}, "pass a dict from kernel names to weights"),
        ({"kernel": {"shape": -1.0}}, "pass a dict from kernel names to weights"),
        ({"kernels": "shape"}, "pass a list of names"),
        ({"kernels": []}, "pass a list of names"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": "x"}, r"n_clusters='x' is not valid: .* or 'auto'$"),
    ],
)
def test_wrong_parameters_are_errors(params: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceKMeans(**{"n_clusters": 2, **params}).fit(levels()[0])


# The record of choices.


def test_the_record_prints_and_plots_what_decided() -> None:
    model = clustered("steps")
    choice = model.choice_
    lines = str(choice).splitlines()
    marked = {line.rpartition("kernel=")[2].strip("'") for line in lines if line.startswith(">")}
    assert marked == set(model.weights_) and lines[-1].startswith("chosen: kernel={")
    ax = choice.plot()
    assert ax.get_ylabel().startswith("agreement of random halves")
    ring = next(line for line in ax.lines if line.get_label() == "chosen")
    np.testing.assert_allclose(np.asarray(ring.get_ydata()), choice.steps[0].figure[choice.steps[0].chosen])


@pytest.mark.parametrize("data", [steps, bumps])
def test_sequences_of_the_fit_are_predicted_as_in_the_fit(data: Any) -> None:
    X, _ = data(seed=5)
    model = SequenceKMeans(3, random_state=0).fit(X)
    assert model.fusion_ is not None and model.cluster_centers_.shape == (3, 3)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    rng = np.random.default_rng(1)
    noisy = [x + 0.02 * x.std() * rng.standard_normal(x.shape) for x in X]
    assert adjusted_rand_score(model.labels_, model.predict(noisy)) >= 0.9
    new, classes = data(seed=6)
    assert adjusted_rand_score(classes, model.predict(new)) >= 0.9


def test_equal_sequences_have_equal_embeddings() -> None:
    X, _ = bumps(N=12)
    model = SequenceKMeans(3, kernel="sum", random_state=0).fit([*X, *X, *X])
    labels = model.labels_.reshape(3, 12)
    assert (labels == labels[0]).all() and np.isfinite(model.transform(X)).all()


def test_a_single_kernel_needs_no_graph() -> None:
    assert SequenceKMeans(3, kernel="shape", random_state=0).fit(bumps()[0]).fusion_ is None


def test_convolutions_are_used_unless_another_kernel_is_clearly_better() -> None:
    rng, classes = np.random.default_rng(0), np.arange(40) % 2
    groups = 2.0 * classes[:, None] - 1
    clear, vague = (groups + noise * rng.standard_normal((40, 3)) for noise in (0.1, 1.5))

    def chosen(convolutions: np.ndarray, shape: np.ndarray) -> dict[str, float]:
        coordinates = {"convolutions": convolutions, "shape": shape}
        return SequenceClassifier()._chosen(coordinates, classes).best_params["kernel"]

    assert "shape" in chosen(vague, clear)
    assert chosen(clear, clear) == {"convolutions": 1.0}
    almost = clear.copy()
    almost[0] *= -1  # one error of 40, less than two standard errors
    assert chosen(almost, clear) == {"convolutions": 1.0}


def test_a_kernel_of_negligible_weight_changes_nothing() -> None:
    X, y = steps()
    model = SequenceKMeans(3, kernel={"spectrum": 1.0, "shape": 1e-300}, random_state=0).fit(X)
    assert np.isfinite(model.transform(X)).all() and adjusted_rand_score(y, model.labels_) == 1
