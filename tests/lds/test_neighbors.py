"""Nearest sequences, outliers, spectral clustering, and settings chosen without labels."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
from lds.clusterings import CLASSES, generated, linear_kernel, oscillations, projection
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, LDSNeighbors, LDSSpectralClustering, choose_clustering


@pytest.mark.parametrize("estimator", [LDSNeighbors(n_states=3), LDSSpectralClustering(3, n_states=3)])
def test_conformance(estimator):
    ms.testing.check_sequence_estimator(estimator).raise_for_failure()


def test_neighbours_agree_with_the_definition():
    data, new = generated(N=12), generated(N=4, noise=0.4)
    neighbors = LDSNeighbors(3).fit(data)
    D = np.sqrt(np.maximum([[6 - 2 * projection(x, y) for y in data] for x in new], 0))
    distances, rows = neighbors.kneighbors(new)
    np.testing.assert_array_equal(rows, D.argsort(axis=1)[:, :3])
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :3], atol=1e-6)
    np.testing.assert_allclose(neighbors.score_samples(new), -distances.mean(axis=1))


def test_a_sequence_is_not_its_own_neighbour():
    data = generated(N=12)
    distances, rows = LDSNeighbors(2).fit(data).kneighbors()
    assert (rows != np.arange(12)[:, None]).all() and (distances > 1e-3).all()
    assert (rows % CLASSES == np.arange(12)[:, None] % CLASSES).all()
    twice = LDSNeighbors(1).fit(data[[0, 0, 1]])
    assert twice.kneighbors()[0][0, 0] == pytest.approx(0, abs=1e-6)  # a duplicate is a neighbour


def test_outliers_have_the_lowest_scores():
    X = [*oscillations(), np.random.default_rng(0).standard_normal((60, 4))]
    assert LDSNeighbors(3, n_states=2).fit(X).score_samples().argmin() == 24


def test_neighbours_raise_an_error_where_there_are_none():
    neighbors = LDSNeighbors(5).fit(generated(N=5))
    sentence = (
        "n_neighbors=5, but fit had 5 sequences, and a sequence is not its own neighbour: lower n_neighbors to 4, or"
    )
    with pytest.raises(ValueError, match=sentence):
        neighbors.kneighbors()
    with pytest.raises(ValueError, match="n_neighbors=6, but fit had 5 sequences: lower n_neighbors to 5, or fit"):
        neighbors.kneighbors(generated(N=1), 6)
    with pytest.raises(ValueError, match=r"n_neighbors=1\.5 is not valid"):
        neighbors.kneighbors(n_neighbors=1.5)
    assert neighbors.kneighbors(generated(N=1))[1].shape == (1, 5)
    with pytest.raises(ValueError, match="n_neighbors=0 is not valid"):
        LDSNeighbors(0).fit(generated())
    with pytest.raises(ValueError, match="X contains no systems"):
        LDSNeighbors().fit(generated()[:0])
    with pytest.raises(ValueError, match="X has systems with 6 outputs"):
        neighbors.kneighbors(generated(m=6))


@pytest.mark.parametrize("N", [1, 2, 3, 4])
def test_the_default_number_of_neighbours_on_few_sequences_says_what_to_do(N):
    neighbors = LDSNeighbors(n_states=2).fit(oscillations(N=N), np.arange(N))
    few = f"n_neighbors=5, but fit had {N} sequence{'' if N == 1 else 's'}: lower n_neighbors to {N}, or fit more"
    for ask in (neighbors.predict, neighbors.predict_proba, neighbors.score_samples):
        with pytest.raises(ValueError, match=few):
            ask(oscillations(N=6))
    alone = "fit had 1 sequence, and a sequence is not its own neighbour: fit two or more"
    with pytest.raises(
        ValueError, match=alone if N == 1 else f"is not its own neighbour: lower n_neighbors to {N - 1}"
    ):
        neighbors.score_samples()


def test_neighbours_are_scored_by_accuracy_in_stratified_folds():
    """Sorted classes: folds that are not stratified would hold out a class that was not seen."""
    X, y = oscillations(), np.repeat([0, 1, 2], 8)
    X = [X[i] for i in np.argsort(np.arange(24) % 3, kind="stable")]
    assert cross_val_score(LDSNeighbors(3, n_states=2), X, y, cv=3).tolist() == [1.0] * 3
    y[0], y[-1] = 1, 0
    model = LDSNeighbors(3, n_states=2).fit(X, y)
    assert model.score(X, y) == pytest.approx(np.mean(model.predict(X) == y)) and model.score(X, y) < 1
    weights = (np.arange(24) > 0).astype(float)
    assert model.score(X, y, sample_weight=weights) == pytest.approx((model.predict(X) == y)[1:].mean())
    search = GridSearchCV(LDSNeighbors(n_states=2), {"n_neighbors": [1, 3]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8
    with pytest.raises(NotFittedError):
        LDSNeighbors().score(X, y)
    with pytest.raises(ValueError, match="score requires the classes y: pass y"):
        model.score(X)


def test_without_classes_the_reason_is_the_error():
    X = oscillations(N=8)
    model = LDSNeighbors(2, n_states=2).fit(X)
    assert is_classifier(model) and not hasattr(model, "predict") and not hasattr(model, "predict_proba")
    for ask in (lambda: model.predict(X), lambda: model.predict_proba(X), lambda: model.score(X, np.arange(8))):
        with pytest.raises(
            AttributeError, match=r"^this LDSNeighbors was fitted without y: call fit\(X, y\) with the classes y"
        ):
            ask()
    with pytest.raises(AttributeError, match=r"^this LDSNeighbors is not fitted yet"):
        LDSNeighbors().predict(X)
    assert "most frequent class" in LDSNeighbors.predict.__doc__
    assert not hasattr(model.fit(X, np.arange(8) % 2).fit(X), "predict")


def test_evaluation_knows_neighbours_with_and_without_classes():
    X, y = oscillations(), np.arange(24) % 3
    found = ms.evaluation.evaluate(LDSNeighbors(2, n_states=2).fit(X), X, controls=())
    assert (found.task, found.measure) == ("neighbours", "halves_found")
    found = ms.evaluation.evaluate(LDSNeighbors(2, n_states=2).fit(X, y), X, y, controls=())
    assert (found.task, found.measure, found.rows[0]["accuracy"]) == ("classes", "accuracy", 1.0)


def test_neighbours_are_stored(tmp_path):
    fitted = LDSNeighbors(2, n_states=2).fit(oscillations())
    ms.storage.save_model(fitted, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.kneighbors(oscillations(seed=1))[1], fitted.kneighbors(oscillations(seed=1))[1])


@pytest.mark.parametrize("kernel", ["projection", "martin"])
def test_spectral_clustering_finds_the_classes(kernel):
    fitted = LDSSpectralClustering(CLASSES, kernel=kernel, sharpness=2, random_state=0).fit(generated())
    assert adjusted_rand_score(np.arange(30) % CLASSES, fitted.labels_) == 1
    np.testing.assert_allclose(np.diag(fitted.affinity_matrix_), 1)
    expected = (projection(generated()[0], generated()[1]) / 3) ** 2
    if kernel == "projection":
        assert fitted.affinity_matrix_[0, 1] == pytest.approx(expected, abs=1e-9)


def test_spectral_clustering_of_an_indefinite_kernel_has_no_negative_affinity():
    fitted = LDSSpectralClustering(2, kernel=ms.kernel(linear_kernel), random_state=0).fit(generated(N=8, m=4, n=2))
    assert fitted.affinity_matrix_.min() >= 0


def test_equal_systems_are_said_to_be_no_clusters():
    """As by `LDSKMeans`; as many clusters as there are different systems are no reason to warn."""
    X = oscillations(N=10)
    for same, n_clusters, sharpness in (([X[0]] * 10, 2, 1.0), ([*X[:1] * 9, X[1]], 3, 2.0), ([X[0]] * 4, 4, 1.0)):
        model = LDSSpectralClustering(n_clusters, n_states=2, sharpness=sharpness, random_state=0)
        different = len({x.tobytes() for x in same})
        sentence = (
            f"X has {different} different system{'s' * (different > 1)} for n_clusters={n_clusters}: the choice among"
        )
        with pytest.warns(ConvergenceWarning, match=sentence):
            model.fit(same)
    with pytest.warns(ConvergenceWarning, match="X has 1 different system for n_clusters=2"):
        LDSSpectralClustering(2, random_state=0).fit([X[0]] * 10)
    LDSSpectralClustering(2, n_states=2, random_state=0).fit([*X[:1] * 9, X[1]])


def test_the_silhouette_of_the_estimator_stands_in_the_table():
    fitted = LDSSpectralClustering(3, n_states=2, random_state=0).fit(oscillations())
    found = ms.evaluation.evaluate(fitted, oscillations(), controls=())
    assert found.rows[0]["silhouette"] == pytest.approx(fitted.silhouette_) and fitted.silhouette_ > 0.5
    one = LDSSpectralClustering(1, n_states=2, random_state=0).fit(oscillations())
    assert "silhouette" not in ms.evaluation.evaluate(one, oscillations(), controls=()).rows[0]


def test_spectral_clustering_rejects():
    for params, sentence in (
        ({"n_clusters": 31}, "X has 30 sequences for n_clusters=31"),
        ({"sharpness": 0}, "sharpness=0"),
        ({"sharpness": np.inf}, "sharpness=inf"),
        ({"n_clusters": 0}, "n_clusters=0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            LDSSpectralClustering(**params).fit(generated())
    X = [*oscillations(N=4), np.ones((60, 4))]
    with pytest.raises(ValueError, match=r"system 4 has k\(x, x\) = 0 under 'binet-cauchy'"):
        LDSSpectralClustering(2, n_states=2, kernel="binet-cauchy").fit(X)
    assert sorted(LDSSpectralClustering(5, random_state=0).fit(generated(N=5)).labels_) == list(range(5))


def test_the_number_of_clusters_is_found():
    grid = {"n_clusters": [2, 3, 6]}
    choice = choose_clustering(LDSKMeans(n_init=1, random_state=0), generated(), grid, n_splits=2, random_state=0)
    assert choice.best_params == {"n_clusters": CLASSES}
    (step,) = choice.steps
    assert step.figure[step.chosen[0]] == pytest.approx(1)
    assert str(choice).count(">") == 1 and "n_clusters=3" in str(choice)


@pytest.mark.filterwarnings("ignore:n_clusters=3 is the largest of the compared numbers")
def test_the_number_of_states_forecasts_best():
    """A sine in noise has two states; the halves are compared for these only."""
    X, grid = oscillations(), {"n_states": [1, 2], "identifier__center": [True, False], "n_clusters": [2, 3]}
    choice = choose_clustering(LDSKMeans(n_init=1), X, grid, n_splits=2, random_state=0)
    best = choice.best_params
    assert best["n_states"] == 2 and best["n_clusters"] == 3
    forecasts, halves = choice.steps
    settings = [{"n_states": n, "identifier__center": center} for n in (1, 2) for center in (True, False)]
    assert len(forecasts.params) == 4 and all(one in forecasts.params for one in settings)
    assert forecasts.chosen == [int(forecasts.figure.argmin())]
    assert halves.params == [best | {"n_clusters": 2}, best] and halves.chosen == [1]
    again = choose_clustering(LDSKMeans(n_init=1), X, grid, n_splits=2, random_state=0)
    np.testing.assert_array_equal(again.steps[1].figure, halves.figure)
    # one setting alone is no comparison: the plot is that of the forecasts
    ax = dataclasses.replace(choice, steps=[forecasts, dataclasses.replace(halves, params=[best])]).plot()
    assert ax.get_ylabel() == "forecast error, relative" and ax.get_xlabel() in settings[0]
    plt.close("all")


def test_forecast_errors_agree_with_a_loop():
    X = [x[: 40 + i] for i, x in enumerate(oscillations(N=8))]
    unit = np.concatenate(X).std(axis=0)
    X = [x / unit for x in X]
    for settings in ({"n_states": 2, "delay": 1, "center": True}, {"n_states": 3, "delay": 2, "center": False}):
        error = total = 0.0
        for x in X:
            seen = x[: 2 * len(x) // 3]
            identified = LDSIdentifier(**settings, scale=False).fit_transform([seen])
            A, C, mean = identified.A[0], identified.C[0], np.zeros(4 * settings["delay"])
            if settings["center"]:
                mean = identified.mean[0]
            for t in range(len(seen), len(x)):
                before = np.concatenate([x[t - lag] for lag in range(settings["delay"], 0, -1)])
                error += np.sum((x[t] - (mean + C @ A @ C.T @ (before - mean))[-4:]) ** 2)
                total += np.sum((x[t] - seen.mean(axis=0)) ** 2)
        grid = {name if name == "n_states" else f"identifier__{name}": [value] for name, value in settings.items()}
        choice = choose_clustering(LDSKMeans(2, n_init=1), X, grid, n_splits=2, random_state=0)
        assert choice.steps[0].figure == pytest.approx([error / total])


@pytest.mark.parametrize(
    ("grid", "options", "sentence"),
    [
        ({}, {}, "the grid is empty"),
        ({"n_cluster": [2]}, {}, "no such parameter"),
        ({"n_clusters": 3}, {}, "pass a list of values"),
        ([2, 3], {}, "the grid is of type list"),
        ({"n_clusters": ["two"]}, {}, "the grid has n_clusters='two'"),
        ({"n_clusters": [16]}, {}, "too few for n_clusters=16"),
        ({"n_clusters": [2]}, {"n_splits": 1}, "n_splits=1"),
    ],
)
def test_choices_raise_an_error(grid, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        choose_clustering(LDSKMeans(), generated(), grid, **options)


def test_systems_and_short_sequences_raise_an_error_in_forecasts():
    with pytest.raises(ValueError, match="already identified"):
        choose_clustering(LDSKMeans(), generated(), {"n_states": [2], "n_clusters": [2]})
    with pytest.raises(ValueError, match="only 0 of 24 sequences have at least 5 time steps in their first two thirds"):
        choose_clustering(LDSKMeans(3), [x[:7] for x in oscillations()], {"n_states": [2, 4]})
