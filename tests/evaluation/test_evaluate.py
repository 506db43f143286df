"""Quality figures against scikit-learn's cross-validation, naive loops and known answers."""

from __future__ import annotations

import json
from itertools import count
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import FunctionTransformer

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.evaluation import Evaluation, StatisticsKMeans, default_controls, evaluate
from manifoldseq.report._quality import cell


def rows(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.standard_normal((n, 5)) + 2.0 * np.eye(3, 5)[y], y


def sequences(n: int = 24) -> tuple[list[np.ndarray], np.ndarray]:
    """Two speeds of a sine, in noise."""
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    t = np.arange(40.0)
    waves = [np.sin((0.3 + 0.5 * k) * t + rng.uniform(0, 6)) for k in y]
    return [np.column_stack([w, np.roll(w, 3)]) + 0.1 * rng.standard_normal((40, 2)) for w in waves], y


def test_accuracy_is_that_of_scikit_learn_s_cross_validation() -> None:
    X, y = rows()
    model = KNeighborsClassifier(3).fit(X, y)
    found = evaluate(model, X, y, input="samples", random_state=4)
    expected = cross_val_score(model, X, y, cv=StratifiedKFold(5, shuffle=True, random_state=4))
    assert found.rows[0]["accuracy"] == pytest.approx(expected.mean(), abs=1e-12)
    assert found.rows[0]["accuracy_se"] == pytest.approx(expected.std(ddof=1) / np.sqrt(5), abs=1e-12)
    assert [row["name"] for row in found.rows] == ["KNeighborsClassifier", "linear-classifier", "chance"]
    assert found.confusion is not None
    truth, said = found.confusion
    assert len(truth) == 90 and np.mean(truth == said) == pytest.approx(expected.mean())


def test_where_time_is_short_one_split_is_held_out() -> None:
    X, y = rows()
    found = evaluate(KNeighborsClassifier(3).fit(X, y), X, y, input="samples", took=50.0)
    assert (
        found.confusion is not None and len(found.confusion[0]) in (22, 23, 24) and "one part held out" in found.verdict
    )


def test_agreement_of_parts_is_that_of_fits_to_halves() -> None:
    X, _ = rows()
    model = KMeans(4, n_init=1, random_state=7).fit(X)
    found = evaluate(model, X, input="samples", random_state=7, controls=())
    rng, expected = np.random.default_rng(7), []
    for k in range(3):
        halves = [sorted(half) for half in np.array_split(rng.permutation(90), 2)]
        fits = [KMeans(4, n_init=1, random_state=8 + 2 * k + i).fit(X[half]) for i, half in enumerate(halves)]
        expected.append(adjusted_rand_score(*(fit.predict(X) for fit in fits)))
    assert found.rows[0]["agreement_of_parts"] == pytest.approx(np.mean(expected))
    assert found.measure == "agreement_of_parts" and model.random_state == 7
    assert ("not repeatable" in found.verdict) == (np.mean(expected) < 0.5)


class Choosing(KMeans):
    """Chooses its number of clusters by the size of the data."""

    def __init__(self, n_clusters: Any = "auto") -> None:
        super().__init__(n_clusters, random_state=0, n_init=1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters}

    def fit(self, X: Any, y: object = None, sample_weight: object = None) -> Self:
        asked, self.n_clusters = self.n_clusters, 3 if len(X) == 90 else 2
        super().fit(X)
        self.n_clusters = asked
        self.choice_ = SimpleNamespace(best_params={"n_clusters": 3}, time=0.0)
        CHOSEN.append((asked, len(X)))
        return self


CHOSEN: list[tuple[Any, int]] = []


def test_agreement_repeats_the_choice_of_settings() -> None:
    X, _ = rows()
    model = Choosing().fit(X)
    CHOSEN.clear()
    evaluate(model, X, input="samples", controls=())
    assert [("auto", 45)] * 6 == CHOSEN


def test_no_verdict_calls_repeatable_clusters_right() -> None:
    X = np.repeat([1.0, 5.0, 9.0], 30)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((90, 1))
    found = evaluate(KMeans(3, n_init=5, random_state=0).fit(X), X, input="samples")
    assert found.rows[0]["agreement_of_parts"] == 1.0
    assert "repeatable: agreement 1.00" in found.verdict and "does not show that they are correct" in found.verdict
    assert "stable" not in found.verdict


def test_time_is_compared_with_that_of_the_fits_that_are_made() -> None:
    """The fit to 25,000 rows took an hour, that to the 20,000 that are drawn takes a moment."""
    X = np.random.default_rng(0).standard_normal((25_000, 2)) + 9.0 * (np.arange(25_000) % 2)[:, None]
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    found = evaluate(model, X, input="samples", controls=(), took=3600.0, seconds=20.0)
    assert found.rows[0]["agreement_of_parts"] == pytest.approx(1.0)
    found = evaluate(model, X[:90], input="samples", controls=(), took=3600.0, seconds=20.0)
    assert "two fits to halves of the data would take longer than the limit of 20 s" in found.rows[0]["why"]


def test_time_of_a_control_is_that_of_all_its_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by one second per look: a fit to 200 of 2,400 rows takes one, and four fits to all 48."""
    X = np.random.default_rng(0).standard_normal((2400, 2))
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    seconds = count(0.0)
    monkeypatch.setattr("manifoldseq.evaluation._evaluate.time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    for limit, measured in ((47.0, False), (49.0, True)):
        found = evaluate(model, X, input="samples", controls=("normalized-kmeans",), seconds=limit)
        assert ("agreement_of_parts" in found.rows[1]) == measured
        assert measured or found.rows[1]["why"] == "its fits would take about 48 s, longer than the limit of 47 s"


def test_silhouette_is_that_of_distances_to_centres() -> None:
    X, _ = rows(30)
    model = KMeans(3, n_init=10, random_state=0).fit(X)
    expected = []
    for x in X:
        near, next_ = np.sort(np.linalg.norm(x - model.cluster_centers_, axis=1))[:2]
        expected.append((next_ - near) / next_)
    found = evaluate(model, X, input="samples", controls=())
    assert found.rows[0]["silhouette"] == pytest.approx(np.mean(expected))


def test_silhouette_of_directions_is_that_of_cosines() -> None:
    X, _ = rows(30)
    model = ms.get_estimator("spherical-kmeans")(3, random_state=0).fit(X)
    expected = []
    for x in X:
        near, next_ = np.sort(1 - model.cluster_centers_ @ x / np.linalg.norm(x))[:2]
        expected.append((next_ - near) / next_)
    found = evaluate(model, X, input="samples", controls=())
    assert found.rows[0]["silhouette"] == pytest.approx(np.mean(expected))


def test_labels_decide_who_is_best() -> None:
    X, y = sequences()
    model = StatisticsKMeans(2, random_state=0).fit(X)
    found = evaluate(model, X, y, name="mine", controls=("autocovariance-kmeans",))
    assert found.measure == "ari" and found.winner == "autocovariance-kmeans" and found.rows[1]["ari"] == 1.0
    assert found.rows[0]["ari"] == pytest.approx(adjusted_rand_score(y, model.labels_))
    assert "the control autocovariance-kmeans is better (1.00)" in found.verdict
    assert found.as_dict()["winner"] == "autocovariance-kmeans" and json.dumps(found.as_dict())


def test_features_without_labels_tell_held_out_rows() -> None:
    """R² of k components is what least squares on them tells."""
    X, _ = rows()
    order = np.random.default_rng(0).permutation(90)
    test, train = (np.sort(part) for part in np.array_split(order, [22]))
    model = PCA(2).fit(X[train])
    Z, W = (np.column_stack([np.ones(len(part)), model.transform(X[part])]) for part in (train, test))
    error = X[test] - W @ np.linalg.lstsq(Z, X[train], rcond=None)[0]
    expected = 1 - np.sum(error**2) / np.sum((X[test] - X[train].mean(axis=0)) ** 2)
    found = evaluate(PCA(2).fit(X), X, input="samples", controls=())
    assert found.rows[0]["r2"] == pytest.approx(expected, abs=1e-5)


def test_as_many_features_as_columns_are_judged_by_neighbours() -> None:
    """A linear map of them tells all of a row without any merit."""
    X, _ = rows()
    record = hooks.get_record(hooks.EstimatorSpec, "pca")
    for constant, said in (([], "5 features of 5 columns"), ([3, 4], "5 features of 3 columns")):
        Z = X.copy()
        Z[:, constant] = 7.0
        W = np.delete(Z, constant, axis=1)
        whitened = PCA(whiten=True).fit_transform(W)
        nearest = NearestNeighbors(n_neighbors=1).fit(whitened).kneighbors(return_distance=False)[:, 0]
        W = (W - W.mean(axis=0)) / W.std(axis=0)
        expected = 1 - np.sum((W - W[nearest]) ** 2) / W.size
        for model, controls in ((PCA(5), ["pca"]), (record.factory(), [])):  # type: ignore[operator]
            found = evaluate(model.fit(Z), Z, input="samples", name="mine", record=record if not controls else None)
            assert found.measure == "r2" and found.rows[0]["r2"] == pytest.approx(expected)
            assert [row["name"] for row in found.rows] == ["mine", *controls, "nearest-rows", "chance"]
            assert found.winner == "nearest-rows" and found.verdict.startswith(
                f"{said} do not reduce the dimension; the nearest"
            )
    fewer = evaluate(PCA(4).fit(X), X, input="samples", name="mine", controls=("pca",))
    assert fewer.winner == "mine" and fewer.best == (0, 1) and "nothing" not in fewer.verdict


def test_a_control_that_compresses_nothing_is_not_compared() -> None:
    class All(PCA):
        def set_params(self, **params: Any) -> Any:
            return super().set_params(**(params | {"n_components": 5}))

    ms.register(ms.hooks.EstimatorSpec("all-of-it", All, input="samples"))
    X, _ = rows()
    found = evaluate(PCA(2).fit(X), X, input="samples", name="mine", controls=("all-of-it", "pca"))
    assert found.rows[1] == {"name": "all-of-it", "why": "5 features of 5 columns do not reduce the dimension"}
    assert found.winner == "mine" and found.best == (0, 2)


def test_a_column_with_nearly_all_of_the_variance_is_named() -> None:
    X, y = rows()
    X[:, 2] *= 1e6
    for names, column in ((None, "column 2"), (list("abcde"), "column 'c'")):
        found = evaluate(KMeans(3, n_init=1, random_state=0).fit(X), X, y, input="samples", columns=names)
        assert f"; {column} has 99.9% of the variance: standardize the data if the units are arbitrary" in found.verdict
    control = hooks.get_record(hooks.EstimatorSpec, "kmeans").factory(n_clusters=3)  # type: ignore[operator]
    for model, Z in ((control, X), (KMeans(3), X[:, 1:3])):  # of two columns, one is the larger
        assert "of the variance" not in evaluate(model.fit(Z), Z, y, input="samples").verdict
    waves, y = sequences()
    wide = [np.column_stack([x, 1e9 * x[:, 0]]) for x in waves]
    found = evaluate(ms.get_estimator("lds-kmeans")(n_clusters=2, n_states=2, random_state=0).fit(wide), wide, y)
    assert "; channel 2 has 99.9% of the variance" in found.verdict


def test_clusters_and_classes_are_counted() -> None:
    X, y = rows()
    said = [evaluate(KMeans(k, n_init=3, random_state=0).fit(X), X, y, input="samples").verdict for k in (3, 8)]
    assert "of 8 clusters and 3 classes" in said[1] and "clusters and" not in said[0]


def test_halves_of_a_sequence_find_each_other() -> None:
    rng = np.random.default_rng(0)
    X = [10 * k + (1 + k) * np.where(np.arange(40)[:, None] % 2, 1.0, -1.0) for k in rng.permutation(15)]
    control = hooks.get_record(hooks.EstimatorSpec, "statistics").factory()  # type: ignore[operator]
    found = evaluate(control.fit(X), X, controls=("autocovariance",))
    assert found.measure == "halves_found" and found.rows[0]["halves_found"] > 0.9 > found.rows[1]["halves_found"]
    assert "by chance 7%" in found.verdict


def test_what_cannot_be_judged_says_why() -> None:
    X, y = rows(3)
    found = evaluate(KMeans(2, n_init=1).fit(X), X, input="samples")
    assert found.rows == ({"name": "KMeans", "why": "3 members are too few: at least 4 are needed"},)
    assert (
        found.verdict == "the quality was not measured: 3 members are too few: at least 4 are needed"
        and found.winner is None
    )
    X, y = rows()
    found = evaluate(KNeighborsClassifier(3).fit(X, y), X, input="samples")
    assert found.rows[0]["why"] == "accuracy needs labels of two classes or more"
    found = evaluate(KNeighborsClassifier(3).fit(X, y), X, np.arange(90), input="samples")
    assert found.rows[0]["why"] == "class 0 has a single member, which cannot be held out"
    assert "object has none of labels_, predict, transform" in evaluate(object(), X, input="samples").verdict


@pytest.mark.parametrize("task", ["classes", "clusters", "features", "neighbours"])
@pytest.mark.parametrize("input", ["sequences", "samples", "views", "bags"])
def test_every_default_control_is_registered(task: str, input: str) -> None:
    assert all(hooks.get_record(hooks.EstimatorSpec, name) for name in default_controls(task, input))


def test_a_control_is_not_compared_with_itself() -> None:
    X, y = sequences()
    found = evaluate(StatisticsKMeans(2, random_state=0).fit(X), X, y)
    assert [row["name"] for row in found.rows] == [
        "statistics-kmeans",
        "autocovariance-kmeans",
        "spectrum-kmeans",
        "curves-kmeans",
        "convolutions-kmeans",
        "warping-kmedoids",
        "chance",
    ]


def test_rows_of_one_recording_are_never_in_two_parts() -> None:
    """Labels drawn for each recording cannot be told from other recordings, however alike its own rows are."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 20)
    X = rng.standard_normal((24, 8))[groups] + 1e-3 * rng.standard_normal((480, 8))
    y = (np.arange(24) % 2)[groups]
    model = KNeighborsClassifier(1).fit(X, y)
    assert evaluate(model, X, y, input="samples", controls=()).rows[0]["accuracy"] == 1.0
    assert evaluate(model, X, y, input="samples", controls=(), groups=groups).rows[0]["accuracy"] < 0.8
    told = [evaluate(PCA(3).fit(X), X, input="samples", controls=(), groups=g).rows[0]["r2"] for g in (None, groups)]
    assert told[1] < told[0]


def test_one_cluster_is_called_one_cluster() -> None:
    X, y = sequences()
    for labels in (None, y):
        assert (
            evaluate(StatisticsKMeans(1, random_state=0).fit(X), X, labels).verdict == "all members are in one cluster"
        )


@pytest.mark.filterwarnings("ignore:X has 1 different direction:sklearn.exceptions.ConvergenceWarning")
def test_one_cluster_of_several_is_compared_with_controls_with_as_many() -> None:
    """Directions of positive numbers are all the same: the model says nothing, a control may."""
    X = np.repeat([1.0, 5.0, 9.0], 20)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((60, 1))
    y = np.repeat(["a", "b", "c"], 20)
    model = ms.get_estimator("spherical-kmeans")(3, random_state=0).fit(X)
    for labels, measure in ((None, "agreement_of_parts"), (y, "ari")):
        found = evaluate(model, X, labels)
        assert found.verdict.startswith("all members are in one cluster of 3; the control kmeans ")
        assert found.measure == measure and found.winner == "kmeans" and found.rows[0]["clusters"] == 1
        assert found.rows[1][measure] == pytest.approx(1.0) and cell(found.rows[0], "clusters") == "1"


def test_copies_are_kept_in_one_part_and_said() -> None:
    """Labels drawn at random: a nearest neighbour knows them of the copies, and of nothing else."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((30, 4)), 5, axis=0)[rng.permutation(150)]
    y = np.array([int(1e6 * abs(row[0])) % 2 for row in X])
    model = KNeighborsClassifier(1).fit(X, y)
    found = evaluate(model, X, y, input="samples", controls=())
    assert found.rows[0]["accuracy"] < 0.75 and "; 120 of 150 members are copies of others" in found.verdict
    waves = [wave for wave in sequences(8)[0] for _ in range(3)]
    record = hooks.get_record(hooks.EstimatorSpec, "statistics").factory()  # type: ignore[operator]
    assert "; 16 of 24 members are copies of others" in evaluate(record.fit(waves), waves).verdict
    narrow = KNeighborsClassifier(1).fit(X[:, :2], y)
    assert "copies" not in evaluate(narrow, X[:, :2], y, input="samples", controls=()).verdict  # equal by chance
    X[:, 0] += np.arange(150)
    assert "copies" not in evaluate(model.fit(X, y), X, y, input="samples", controls=()).verdict


def test_less_than_the_mean_tells_nothing() -> None:
    X = np.random.default_rng(0).standard_normal((60, 5))
    found = evaluate(FunctionTransformer(lambda Z: np.sin(1e6 * Z)).fit(X), X, input="samples", controls=())
    assert found.rows[0]["r2"] < 0 and "does not explain the variance of a row" in found.verdict


@pytest.mark.filterwarnings("error")
def test_columns_that_do_not_vary_are_no_warning() -> None:
    X = np.ones((20, 3))
    control = hooks.get_record(hooks.EstimatorSpec, "pca").factory()  # type: ignore[operator]
    assert evaluate(control.fit(X), X, input="samples").winner is None


@pytest.mark.filterwarnings("ignore:no sequence varies", "ignore:.*different centres")
def test_equal_members_are_not_called_stable_clusters() -> None:
    """Every seed gives the same two clusters of six copies of one sequence."""
    X = [np.ones((30, 2))] * 6
    for model in (ms.get_estimator("lds-kmeans")(2, random_state=0).fit(X), StatisticsKMeans(1, random_state=0).fit(X)):
        found = evaluate(model, X)
        said = "all 6 members are equal: there is nothing to distinguish"
        assert found.verdict == f"the quality was not measured: {said}" and found.winner is None


def test_halves_far_from_zero_are_found_as_well() -> None:
    control = hooks.get_record(hooks.EstimatorSpec, "statistics").factory()  # type: ignore[operator]
    X = [np.random.default_rng(k).standard_normal((30, 2)) * (1 + k) + 10 * k for k in range(12)]
    shares = [evaluate(control.fit(X), [x + far for x in X], controls=()).rows[0]["halves_found"] for far in (0, 1e9)]
    assert shares[0] == shares[1] >= 0.5


class Odd(KNeighborsClassifier):
    """Predicts a column."""

    def predict(self, X: Any) -> Any:
        return super().predict(X)[:, None]


def test_a_column_of_classes_is_compared_member_by_member() -> None:
    X, y = rows()
    expected = evaluate(KNeighborsClassifier(3).fit(X, y), X, y, input="samples", controls=()).rows[0]["accuracy"]
    assert evaluate(Odd(3).fit(X, y), X, y, input="samples", controls=()).rows[0]["accuracy"] == expected


def test_noise_has_no_silhouette_and_what_does_not_vary_no_share() -> None:
    X, _ = rows(40)
    model = KMeans(3, n_init=10, random_state=0).fit(X)
    model.labels_ = np.where(np.arange(40) == 7, -1, model.labels_)
    assert "silhouette" not in evaluate(model, X, input="samples", controls=()).rows[0]
    found = evaluate(PCA(1).fit(np.eye(20, 3)), np.ones((20, 3)), input="samples", controls=())
    assert found.rows[0]["why"].startswith("all 20 members are equal") and "r2" not in found.rows[0]


SMALL: dict[str, dict[str, Any]] = {
    "lds-kmeans": {"n_clusters": 2, "n_states": 2},
    "lds-spectral": {"n_clusters": 2, "n_states": 2},
    "lds-dictionary": {"n_atoms": 3, "n_states": 2, "max_iter": 2},
    "hope": {"n_components": 3, "n_latent": 3},
    "pca-movmf": {"n_components": 3, "n_latent": 3},
    "vmf-mixture": {"n_components": 3},
    "spherical-kmeans": {"n_clusters": 3},
    "subspace-kmeans": {"n_clusters": 3},
    "hope-stack": {"layers": [(3, 6)]},
    "mixture-pcca": {"n_components": 2, "n_latent": 1},
    "super-vector": {"n_components": 2, "n_latent": 1},
    "fisher-vector": {"n_components": 2},
    "bag-of-systems": {"n_clusters": 3, "n_states": 2, "window": 10},
    "pyramid-pooling": {"n_atoms": 3, "n_states": 2, "window": 10},
    "pca": {"n_components": 2},
}
NOT_HERE = ("convolutional-features", "hope-network")  # images; torch
BUNDLED = [
    record.name
    for plugin, record in hooks.records("estimators")
    if plugin.name in ("manifoldseq", "lds", "hope", "mpcca", "hierarchical") and record.name not in NOT_HERE
]


@pytest.mark.filterwarnings("ignore")
@parametrize("labelled", [True, False], fast=1, ids=["labels", "none"])
@parametrize("name", BUNDLED, fast=8)
def test_every_bundled_estimator_has_a_figure_and_a_control(name: str, labelled: bool) -> None:
    record: Any = hooks.get_record(hooks.EstimatorSpec, name)
    data, y = sequences()
    X: Any = data
    if record.input in ("samples", "views"):
        X, y = rows()
    if record.input == "views":
        X = [X[:, :3], X[:, 3:]]
    if record.input == "bags":
        X = [[x[:, :1] for x in data], [x[:, 1:] for x in data]]
    model = record.factory().set_params(**SMALL.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    own = y if record.input in ("sequences", "samples") else None
    if not labelled and "classifier" in name:
        return  # cannot be fitted, and says so
    model.fit(X, own if labelled else None)
    given = y if labelled else None
    found = evaluate(model, X, given)
    own, *others = found.rows
    assert own["name"] == name and np.isfinite(own[found.measure]) and "why" not in own
    assert others and any(found.measure in row for row in others), [row.get("why") for row in others]
    assert "chance" in [row["name"] for row in others] or record.quality
    assert not [row for row in others if "why" in row]


# Strangers: classes that say little about themselves, and data that are not as they should be.


class PlainClusters:
    """Nearest of the first rows; no scikit-learn."""

    def fit(self, X: Any) -> None:
        self.centres = X[:3]

    def predict(self, X: Any) -> Any:
        return np.argmin(np.square(X[:, None] - self.centres).sum(axis=2), axis=1)


class PlainClasses:
    """Nearest mean; no scikit-learn."""

    def fit(self, X: Any, y: Any) -> None:
        self.names = np.unique(y)
        self.means = np.stack([X[y == name].mean(axis=0) for name in self.names])

    def predict(self, X: Any) -> Any:
        return self.names[np.argmin(np.square(X[:, None] - self.means).sum(axis=2), axis=1)]


def test_a_plain_class_that_predicts_classes_is_cross_validated() -> None:
    X, y = rows()
    model = PlainClasses()
    model.fit(X, y)
    names = np.array(["a", "b", "c"])[y]
    shares = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        means = np.stack([X[train][y[train] == k].mean(axis=0) for k in range(3)])
        nearest = [min(range(3), key=lambda k: float(np.linalg.norm(x - means[k]))) for x in X[test]]
        shares.append(np.mean(nearest == y[test]))
    found = evaluate(model, X, names, input="samples")
    assert found.task == "classes" and found.rows[0]["accuracy"] == pytest.approx(np.mean(shares))
    assert len(model.names) == 3 and model.names[0] == 0  # a copy was fitted, not the model


def test_a_plain_class_that_groups_is_compared_on_parts() -> None:
    X, y = rows()
    model = PlainClusters()
    model.fit(X)
    found = evaluate(model, X, input="samples")
    assert found.measure == "agreement_of_parts" and [row["name"] for row in found.rows][1:] == [
        "kmeans",
        "normalized-kmeans",
        "chance",
    ]
    rng, expected = np.random.default_rng(0), []
    for _ in range(3):
        firsts = [sorted(half)[:3] for half in np.array_split(rng.permutation(90), 2)]
        sides = [[int(np.argmin([np.linalg.norm(x - X[k]) for k in first])) for x in X] for first in firsts]
        expected.append(adjusted_rand_score(*sides))
    assert found.rows[0]["agreement_of_parts"] == pytest.approx(np.mean(expected))
    assert "between fits to parts of the data" in found.verdict
    assert evaluate(model, X, y, input="samples").measure == "ari"  # its fit takes no labels, so it does not classify


def test_a_clustering_without_randomness_is_compared_on_parts_in_bags_and_sequences() -> None:
    X, y = sequences()

    class Lengths(PlainClusters):
        def fit(self, X: Any) -> None:
            self.labels_ = self.predict(X)

        def predict(self, X: Any) -> Any:
            return np.array([int(x.std() > 0.7) for x in X])

    model = Lengths()
    model.fit(X)
    found = evaluate(model, X, y)
    assert found.rows[0]["agreement_of_parts"] == 1.0 and "why" not in found.rows[0]


def test_nearest_rows_without_labels_tell_the_row() -> None:
    X, y = rows(40)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    error = 0.0
    for i, z in enumerate(Z):
        others = [j for j in range(40) if j != i]
        nearest = min(others, key=lambda j: float(np.linalg.norm(X[i] - X[j])))
        error += float(np.sum((z - Z[nearest]) ** 2))
    found = evaluate(NearestNeighbors().fit(X), X, input="samples")
    assert found.measure == "r2" and found.rows[0]["r2"] == pytest.approx(1 - error / np.sum(Z**2))
    assert [row["name"] for row in found.rows] == ["NearestNeighbors", "nearest-rows", "chance"]
    assert all("why" not in row for row in found.rows)
    found = evaluate(NearestNeighbors().fit(X), X, y, input="samples")
    assert found.measure == "accuracy" and found.rows[1]["accuracy"] > 0.5


class Sums(BaseEstimator):
    """The sums of views."""

    def fit(self, X: Any, Y: Any = None) -> Sums:
        return self

    def transform(self, X: Any) -> Any:
        return np.stack([view.sum(axis=1) for view in X], axis=1)


def test_features_of_views_without_labels_tell_held_out_rows() -> None:
    X, _ = rows()
    views = [X[:, :2], X[:, 2:]]
    found = evaluate(Sums().fit(views), views, input="views")
    alone = evaluate(
        FunctionTransformer(lambda Z: np.stack([Z[:, :2].sum(axis=1), Z[:, 2:].sum(axis=1)], axis=1)).fit(X),
        X,
        input="samples",
    )
    assert found.measure == "r2" and found.rows[0]["r2"] == pytest.approx(alone.rows[0]["r2"])


def test_chance_is_the_largest_class_and_shuffled_clusters() -> None:
    X, y = rows()
    skewed = np.where(np.arange(90) < 60, 0, y)
    found = evaluate(KNeighborsClassifier(3).fit(X, skewed), X, skewed, input="samples")
    shares = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, skewed):
        shares.append(np.mean(skewed[test] == np.bincount(skewed[train]).argmax()))
    assert found.rows[-1] == {"name": "chance", "accuracy": pytest.approx(np.mean(shares))}
    found = evaluate(KMeans(3, n_init=1, random_state=0).fit(X), X, y, input="samples")
    assert abs(found.rows[-1]["ari"]) < 0.05 and 1 / 3 < found.rows[-1]["purity"] < 0.5


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.r_[np.arange(89.0), np.nan], r"1 of 90 members have no label \(the first is member 89"),
        ([None] * 90, r"90 of 90 members have no label \(the first is member 0"),
        (["a"] * 89 + [" "], "the first is member 89"),
        (np.ma.array(np.arange(90), mask=np.arange(90) > 80), r"9 of 90 members have no label \(the first is"),
        (np.arange(5), r"labels have shape \(5,\) for 90 members"),
        (np.zeros((90, 1)), r"labels have shape \(90, 1\) for 90 members"),
        ([[1], [2, 3]], "labels have shape"),
        (np.linspace(0, 1, 90), "labels have fractions, such as 0.0112"),
        (np.array(["a", 1] * 45, dtype=object), "labels are of several types, int and str"),
        (np.zeros(90, dtype=complex), "labels have the type complex128"),
    ],
)
def test_labels_that_are_none_raise_an_error(labels: Any, sentence: str) -> None:
    X, _ = rows()
    with pytest.raises(ValueError, match=sentence):
        evaluate(KMeans(3, n_init=1, random_state=0).fit(X), X, labels, input="samples")
    with pytest.raises(ValueError, match=r"groups have shape \(2,\) for 90 members"):
        evaluate(KMeans(3, n_init=1, random_state=0).fit(X), X, input="samples", groups=[0, 1])


def test_labels_stored_as_objects_and_whole_floats_are_labels() -> None:
    X, y = rows()
    model = KMeans(3, n_init=1, random_state=0).fit(X)
    expected = evaluate(model, X, y, input="samples", controls=()).rows
    for same in (y.astype(float), y.astype(object), y.astype(str).astype(object)):
        assert evaluate(model, X, same, input="samples", controls=()).rows == expected


def test_of_many_rows_some_are_drawn() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_500, 2)) + 6.0 * np.eye(2)[np.arange(20_500) % 2]
    found = evaluate(KMeans(2, n_init=1, random_state=0).fit(X), X, np.arange(20_500) % 2, input="samples")
    assert found.verdict.endswith("; all values are from fits to 20000 of 20500 rows") and found.rows[0]["ari"] > 0.99


def test_the_record_of_a_class_is_used() -> None:
    """Its name, what it takes, its controls."""
    X, y = rows()
    model = ms.get_estimator("spherical-kmeans")(n_clusters=3, random_state=0).fit(X)
    found = evaluate(model, X, y)
    assert [row["name"] for row in found.rows] == ["spherical-kmeans", "kmeans", "normalized-kmeans", "chance"]


def test_equal_figures_are_all_best() -> None:
    rows = [{"name": name, "ari": ari} for name, ari in (("a", 0.5), ("b", 0.75), ("c", 0.75))]
    found = Evaluation("clusters", "ari", rows, "so")
    assert found.best == (1, 2) and found.winner == "b"
    assert Evaluation("clusters", "ari", rows[:1], "so").winner is None
    close = [{"name": "a", "ari": 0.5}, {"name": "b", "ari": 0.50004}]  # both are shown as 0.500
    assert Evaluation("clusters", "ari", close, "so").best == (0, 1)
    old = Evaluation("clusters", "ari", close, "so").as_dict() | {"winner": "b"}
    assert Evaluation.from_dict(old).winner == "a"
    assert Evaluation.from_dict(found.as_dict()) == found


def test_controls_get_straight_lines_over_missing_values() -> None:
    rng, t = np.random.default_rng(0), np.arange(40)[:, None]
    X = [np.cos(t * (0.3, 0.9)[i % 2] + np.arange(3) + rng.uniform(0, 6)) + i % 2 for i in range(12)]
    filled = [x.copy() for x in X]
    for x, y in zip(X, filled, strict=True):
        y[7] = (x[6] + x[8]) / 2
        x[7] = np.nan
    model = ms.get_estimator("lds-kmeans")(2, n_states=2, random_state=0).set_params(identifier__missing="smooth")
    found = evaluate(model.fit(X), X, np.arange(12) % 2)
    expected = evaluate(model.fit(filled), filled, np.arange(12) % 2)
    assert len(found.rows) == 8 and found.rows[0]["ari"] == 1 and not [row for row in found.rows if "why" in row]
    assert found.rows[1:] == expected.rows[1:] and all(np.isnan(x[7]).all() for x in X)


def test_forecasts_that_are_worse_than_the_mean_do_not_win() -> None:
    """Waves that turn over where the forecast begins: neither what comes before nor its last value helps."""
    t, turned = np.arange(50.0), np.where(np.arange(50) < 40, 1.0, -1.0)[:, None]
    flips = [turned * np.column_stack([np.sin(0.2 * t + k), np.cos(0.2 * t + k)]) for k in range(6)]
    found = evaluate(ms.get_estimator("lds-identifier")(2).fit(flips), flips)
    assert [row["name"] for row in found.rows] == [
        "lds-identifier",
        "last value",
        "last season",
        "autoregression",
        "mean",
    ]
    assert found.rows[0]["r2"] < 0 and found.winner == "mean" and "the mean is better than all" in found.verdict
    waves = [turned * flip for flip in flips]
    assert evaluate(ms.get_estimator("lds-identifier")(2).fit(waves), waves).rows[0]["r2"] > 0.9


def test_a_better_baseline_of_forecasts_is_named() -> None:
    """Channels with a season that one system of two states does not have."""
    rng = np.random.default_rng(0)
    seasons = [np.tile(rng.standard_normal((12, 1)), (8, 1)) + 0.05 * rng.standard_normal((96, 1)) for _ in range(6)]
    found = evaluate(ms.get_estimator("lds-identifier")(1).fit(seasons), seasons)
    assert found.winner == "last season" and found.rows[2]["r2"] > 0.9
    assert "the baseline last season is better, with R² = 0.9" in found.verdict
