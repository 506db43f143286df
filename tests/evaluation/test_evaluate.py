"""Quality figures against scikit-learn's cross-validation, naive loops and known answers."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.evaluation import Evaluation, StatisticsKMeans, default_controls, evaluate


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


def judged(*args: Any, **options: Any) -> Evaluation:
    found = evaluate(*args, **options)
    assert found is not None
    return found


def test_accuracy_is_that_of_scikit_learn_s_cross_validation() -> None:
    X, y = rows()
    model = KNeighborsClassifier(3).fit(X, y)
    found = judged(model, X, y, input="samples", random_state=4)
    expected = cross_val_score(model, X, y, cv=StratifiedKFold(5, shuffle=True, random_state=4))
    assert found.rows[0]["accuracy"] == pytest.approx(expected.mean(), abs=1e-12)
    assert found.rows[0]["accuracy_se"] == pytest.approx(expected.std(ddof=1) / np.sqrt(5), abs=1e-12)
    assert [row["name"] for row in found.rows] == ["KNeighborsClassifier", "linear-classifier"]
    assert found.confusion is not None
    truth, said = found.confusion
    assert len(truth) == 90 and np.mean(truth == said) == pytest.approx(expected.mean())


def test_where_time_is_short_one_split_is_held_out() -> None:
    X, y = rows()
    found = judged(KNeighborsClassifier(3).fit(X, y), X, y, input="samples", took=50.0)
    assert (
        found.confusion is not None and len(found.confusion[0]) in (22, 23, 24) and "one part held out" in found.verdict
    )


def test_agreement_of_seeds_is_that_of_three_fits() -> None:
    X, _ = rows()
    model = KMeans(4, n_init=1, random_state=7).fit(X)
    found = judged(model, X, input="samples", random_state=7, controls=())
    runs = [KMeans(4, n_init=1, random_state=seed).fit(X).labels_ for seed in (7, 8, 9)]
    expected = np.mean([adjusted_rand_score(a, b) for a, b in combinations(runs, 2)])
    assert found.rows[0]["agreement_of_seeds"] == pytest.approx(expected) and found.measure == "agreement_of_seeds"
    assert model.random_state == 7 and ("not stable" in found.verdict) == (expected < 0.5)


def test_silhouette_is_that_of_distances_to_centres() -> None:
    X, _ = rows(30)
    model = KMeans(3, n_init=10, random_state=0).fit(X)
    expected = []
    for x in X:
        near, next_ = np.sort(np.linalg.norm(x - model.cluster_centers_, axis=1))[:2]
        expected.append((next_ - near) / next_)
    found = judged(model, X, input="samples", controls=())
    assert found.rows[0]["silhouette"] == pytest.approx(np.mean(expected))


def test_labels_decide_who_is_best() -> None:
    X, y = sequences()
    model = StatisticsKMeans(2, random_state=0).fit(X)
    found = judged(model, X, y, name="mine", controls=("autocovariance-kmeans",))
    assert found.measure == "ari" and found.winner == "autocovariance-kmeans" and found.rows[1]["ari"] == 1.0
    assert found.rows[0]["ari"] == pytest.approx(adjusted_rand_score(y, model.labels_))
    assert "the control autocovariance-kmeans is better (1.00)" in found.verdict
    assert found.as_dict()["winner"] == "autocovariance-kmeans" and json.dumps(found.as_dict())


def test_features_without_labels_tell_held_out_rows() -> None:
    """R² of an exact map is one; that of k components is what least squares on them tells."""
    X, _ = rows()
    whole = judged(PCA(5).fit(X), X, input="samples", controls=())
    assert whole.measure == "r2" and whole.rows[0]["r2"] == pytest.approx(1.0, abs=1e-5)
    order = np.random.default_rng(0).permutation(90)
    test, train = (np.sort(part) for part in np.array_split(order, [22]))
    model = PCA(2).fit(X[train])
    Z, W = (np.column_stack([np.ones(len(part)), model.transform(X[part])]) for part in (train, test))
    error = X[test] - W @ np.linalg.lstsq(Z, X[train], rcond=None)[0]
    expected = 1 - np.sum(error**2) / np.sum((X[test] - X[train].mean(axis=0)) ** 2)
    found = judged(PCA(2).fit(X), X, input="samples", controls=())
    assert found.rows[0]["r2"] == pytest.approx(expected, abs=1e-5)


def test_halves_of_a_sequence_find_each_other() -> None:
    rng = np.random.default_rng(0)
    X = [10 * k + (1 + k) * np.where(np.arange(40)[:, None] % 2, 1.0, -1.0) for k in rng.permutation(15)]
    control = hooks.get_record(hooks.EstimatorSpec, "statistics").factory()  # type: ignore[operator]
    found = judged(control.fit(X), X, controls=("autocovariance",))
    assert found.measure == "halves_found" and found.rows[0]["halves_found"] > 0.9 > found.rows[1]["halves_found"]
    assert "by chance 7%" in found.verdict


def test_what_cannot_be_judged_is_none() -> None:
    X, y = rows(3)
    assert evaluate(KMeans(2, n_init=1).fit(X), X, input="samples") is None
    X, y = rows()
    assert evaluate(KNeighborsClassifier(3).fit(X, y), X, input="samples") is None
    assert evaluate(object(), X, input="samples") is None


@pytest.mark.parametrize("task", ["classes", "clusters", "features", "neighbours"])
@pytest.mark.parametrize("input", ["sequences", "samples", "views", "bags"])
def test_every_default_control_is_registered(task: str, input: str) -> None:
    assert all(hooks.get_record(hooks.EstimatorSpec, name) for name in default_controls(task, input))


def test_a_control_is_not_put_beside_itself() -> None:
    X, y = sequences()
    found = judged(StatisticsKMeans(2, random_state=0).fit(X), X, y)
    assert [row["name"] for row in found.rows] == ["StatisticsKMeans", "autocovariance-kmeans"]


def test_rows_of_one_recording_are_never_in_two_parts() -> None:
    """Labels drawn for each recording cannot be told from other recordings, however alike its own rows are."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 20)
    X = rng.standard_normal((24, 8))[groups] + 1e-3 * rng.standard_normal((480, 8))
    y = (np.arange(24) % 2)[groups]
    model = KNeighborsClassifier(1).fit(X, y)
    assert judged(model, X, y, input="samples", controls=()).rows[0]["accuracy"] == 1.0
    assert judged(model, X, y, input="samples", controls=(), groups=groups).rows[0]["accuracy"] < 0.8
    told = [judged(PCA(3).fit(X), X, input="samples", controls=(), groups=g).rows[0]["r2"] for g in (None, groups)]
    assert told[1] < told[0]


def test_one_cluster_is_called_one_cluster() -> None:
    X, y = sequences()
    for labels in (None, y):
        assert judged(StatisticsKMeans(1, random_state=0).fit(X), X, labels).verdict == "all members are in one cluster"


def test_halves_far_from_zero_are_found_as_well() -> None:
    control = hooks.get_record(hooks.EstimatorSpec, "statistics").factory()  # type: ignore[operator]
    X = [np.random.default_rng(k).standard_normal((30, 2)) * (1 + k) + 10 * k for k in range(12)]
    shares = [judged(control.fit(X), [x + far for x in X], controls=()).rows[0]["halves_found"] for far in (0, 1e9)]
    assert shares[0] == shares[1] >= 0.5


class Odd(KNeighborsClassifier):
    """Predicts a column."""

    def predict(self, X: Any) -> Any:
        return super().predict(X)[:, None]


def test_a_column_of_classes_is_compared_member_by_member() -> None:
    X, y = rows()
    expected = judged(KNeighborsClassifier(3).fit(X, y), X, y, input="samples", controls=()).rows[0]["accuracy"]
    assert judged(Odd(3).fit(X, y), X, y, input="samples", controls=()).rows[0]["accuracy"] == expected


def test_noise_has_no_silhouette_and_what_does_not_vary_no_share() -> None:
    X, _ = rows(40)
    model = KMeans(3, n_init=10, random_state=0).fit(X)
    model.labels_ = np.where(np.arange(40) == 7, -1, model.labels_)
    assert "silhouette" not in judged(model, X, input="samples", controls=()).rows[0]
    assert evaluate(PCA(1).fit(np.eye(20, 3)), np.ones((20, 3)), input="samples", controls=()) is None


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
@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "none"])
@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_estimator_has_a_quality_figure(name: str, labelled: bool, tmp_path: Path) -> None:
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
    if not labelled and ("classifier" in name or name == "hope-stack"):
        return  # cannot be fitted, and says so
    model.fit(X, own if labelled else None)
    given = y if labelled else None
    found = record.quality(model, X, given, 0) if record.quality else judged(model, X, given, input=record.input)
    assert found.verdict and np.isfinite(found.rows[0][found.measure])
    drawings = ms.report.draw_evaluation(ms.report.Fitted(model, X, given), found)
    pictures = [*drawings, *ms.report.draw_plots(ms.report.Fitted(model, X, given))]
    assert all(drawing.svg.startswith("<") for drawing in pictures)
    assert pictures or name == "kmeans"  # the sizes of its clusters are on the page
