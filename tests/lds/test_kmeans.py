"""k-means of systems: against a naive loop, its invariants, conventions and recorded sequences."""

from importlib.util import find_spec

import numpy as np
import pytest
from helpers import parametrize
from lds.clusterings import CLASSES, FirstMember, generated, linear_kernel, oscillations, projection
from lds.items import change_state_basis
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems


@pytest.fixture(scope="module")
def data():
    return generated()


@pytest.fixture(scope="module", params=["exact", "canonical", "medoid"])
def fitted(request, data):
    return LDSKMeans(CLASSES, mean=request.param, random_state=0).fit(data)


def test_the_classes_of_generated_systems_are_found(fitted):
    assert adjusted_rand_score(np.arange(30) % CLASSES, fitted.labels_) == 1


def test_attributes(fitted, data):
    assert fitted.labels_.shape == (30,) and fitted.labels_.dtype.kind == "i"
    assert isinstance(fitted.systems_, Systems) and fitted.systems_.C.shape == (3, 8, 3)
    assert fitted.n_features_in_ == 8 and fitted.n_iter_ >= 1
    assert {"nit", "time", "fun", "nfev", "mean_kernel_value", "moved"} <= set(fitted.history_)
    assert {len(column) for column in fitted.history_.values()} == {fitted.n_iter_ + 1}
    assert fitted.history_["mean_kernel_value"][-1] == fitted.mean_kernel_value_
    Systems(fitted.systems_.A, fitted.systems_.C)  # stable, orthonormal


def test_objective_and_labels_agree_with_the_definition(fitted, data):
    K = np.array([[projection(x, c) for c in fitted.systems_] for x in data])
    np.testing.assert_array_equal(fitted.labels_, K.argmax(axis=1))
    np.testing.assert_allclose(fitted.mean_kernel_value_, K.max(axis=1).mean(), rtol=1e-9)
    np.testing.assert_allclose(fitted.inertia_, np.sum(2 * 3 - 2 * K.max(axis=1)), rtol=1e-9)
    np.testing.assert_allclose(fitted.transform(data), np.sqrt(2 * 3 - 2 * K), atol=1e-6)


def test_prediction_agrees_with_the_fit(fitted, data):
    np.testing.assert_array_equal(fitted.predict(data), fitted.labels_)
    np.testing.assert_array_equal(fitted.transform(data).argmin(axis=1), fitted.labels_)
    assert fitted.score(data) == pytest.approx(-fitted.inertia_)
    equivalent = Systems.from_items([change_state_basis(item) for item in data])
    np.testing.assert_allclose(fitted.transform(equivalent), fitted.transform(data), atol=1e-6)


@parametrize("solver", ["auto", "lbfgs", "pgd"], fast=2)
@pytest.mark.parametrize("init", ["k-means++", "medoid"])
@parametrize("seed", range(3), fast=1)
def test_the_exact_rule_never_raises_the_objective(solver, init, seed):
    data = generated(noise=0.7, seed=seed)
    history = LDSKMeans(5, solver=solver, init=init, n_init=1, tol=0, max_iter=8, random_state=seed).fit(data).history_
    assert (np.diff(history["fun"]) <= 1e-12).all()
    assert (np.diff(history["mean_kernel_value"]) >= -1e-12).all()


def test_medoids_are_members_and_medoids(data):
    fitted = LDSKMeans(CLASSES, mean="medoid", random_state=1).fit(data)
    for k, centre in enumerate(fitted.systems_):
        members = [data[i] for i in np.flatnonzero(fitted.labels_ == k)]
        sums = [sum(projection(a, b) for b in members) for a in members]
        assert projection(centre, members[int(np.argmax(sums))]) == pytest.approx(3, abs=1e-8)


def test_systems_as_start_and_empty_clusters_are_repaired(data):
    far = generated(seed=9)[[0, 1]]
    start = Systems.concatenate([data[:1], far])
    fitted = LDSKMeans(CLASSES, init=start, max_iter=30).fit(data)
    assert set(fitted.labels_) == set(range(CLASSES))
    assert (np.diff(fitted.history_["fun"]) <= 1e-12).all()
    same = LDSKMeans(CLASSES, init=data[[0, 0, 0]]).fit(data)
    assert np.bincount(same.labels_, minlength=3).min() >= 1


def test_identical_systems_fill_all_clusters(data):
    with pytest.warns(ConvergenceWarning, match="3 clusters have 1 different centres"):
        fitted = LDSKMeans(3, random_state=0).fit(data[[4] * 6])
    assert np.bincount(fitted.labels_, minlength=3).min() >= 1
    assert fitted.inertia_ == pytest.approx(0, abs=1e-6)


def test_as_many_clusters_as_systems(data):
    fitted = LDSKMeans(30, n_init=1, random_state=0).fit(data)
    assert sorted(fitted.labels_) == list(range(30))


def test_sequences():
    X = oscillations()
    before = [x.copy() for x in X]
    estimator = LDSKMeans(3, n_states=2, random_state=0).fit(X)
    assert adjusted_rand_score(np.arange(24) % 3, estimator.labels_) == 1
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict(X[:5]), estimator.labels_[:5])
    assert estimator.transform(oscillations(seed=1)).shape == (24, 3)
    for x, original in zip(X, before, strict=True):
        np.testing.assert_array_equal(x, original)


def test_random_state_repeats_and_a_generator_advances(data):
    one, two = (LDSKMeans(4, random_state=3, n_init=2).fit(data) for _ in range(2))
    np.testing.assert_array_equal(one.systems_.A, two.systems_.A)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    generator = np.random.default_rng(0)
    first, second = (LDSKMeans(4, random_state=generator, n_init=1, max_iter=1).fit(data) for _ in range(2))
    assert first.mean_kernel_value_ != second.mean_kernel_value_


def test_threads_change_nothing(data):
    one = LDSKMeans(4, random_state=0, n_init=3, max_iter=5).fit(data)
    with ms.execution.using("threads", 2):
        two = LDSKMeans(4, random_state=0, n_init=3, max_iter=5).fit(data)
    np.testing.assert_array_equal(one.systems_.A, two.systems_.A)


@pytest.mark.slow
def test_more_starts_are_not_worse(data):
    rough = generated(N=20, noise=0.8, seed=4)
    objectives = [LDSKMeans(4, n_init=k, max_iter=10, random_state=0).fit(rough).mean_kernel_value_ for k in (1, 2, 4)]
    assert objectives == sorted(objectives)


def test_conventions(data):
    estimator = LDSKMeans(4, n_states=2, kernel=ms.get_kernel("projection"), init=np.arange(30) % 4)
    copy = clone(estimator)
    assert copy.get_params().keys() == estimator.get_params().keys() and copy.n_states == 2
    with pytest.raises(NotFittedError):
        estimator.predict(data)
    assert estimator.fit(data) is estimator
    np.testing.assert_array_equal(clone(estimator).fit_predict(data), estimator.labels_)
    np.testing.assert_allclose(clone(estimator).fit_transform(data), estimator.transform(data))


def test_a_kernel_of_ten_lines_without_constant_diagonal():
    data = generated(N=9, m=4, n=2)
    kernel = ms.kernel(linear_kernel)
    fitted = LDSKMeans(2, kernel=kernel, n_init=1, max_iter=4, tol=0, random_state=0).fit(data)
    K = np.array([[linear_kernel(x, c) for c in fitted.systems_] for x in data])
    own = np.array([linear_kernel(x, x) for x in data])
    centre = np.array([linear_kernel(c, c) for c in fitted.systems_])
    squared = own[:, None] + centre - 2 * K
    np.testing.assert_allclose(fitted.transform(data) ** 2, squared, atol=1e-10)
    np.testing.assert_array_equal(fitted.labels_, squared.argmin(axis=1))
    np.testing.assert_allclose(fitted.inertia_, squared.min(axis=1).sum(), rtol=1e-9)
    assert (np.diff(fitted.history_["fun"]) <= 1e-12).all()


class WithFirstState:
    """A trace kernel of the outputs that start from x(1): points have a fourth factor."""

    def __init__(self):
        self.pairs = ms.kernel(self.pair)

    def __getattr__(self, name):
        return getattr(self.pairs, name)

    @staticmethod
    def pair(first, second):
        (A1, C1, x1), (A2, C2, x2) = first, second
        total = 0.0
        for t in range(3):
            total = total + 0.8**t * ((C1 @ x1) * (C2 @ x2)).sum()
            x1, x2 = A1 @ x1, A2 @ x2
        return total

    def manifold(self, m, n, bound):
        return ms.manifolds.Product(
            ms.manifolds.BoundedDiagonal(n, bound),
            ms.manifolds.Orthogonal(n),
            ms.manifolds.Stiefel(m, n),
            ms.manifolds.Euclidean(n),
        )


def test_a_kernel_with_first_states():
    plain = generated(N=9, m=4, n=2)
    data = Systems(plain.A, plain.C, np.random.default_rng(0).standard_normal((9, 2)), mean=np.ones((9, 4)))
    kernel = WithFirstState()
    fitted = LDSKMeans(2, kernel=kernel, n_init=1, max_iter=3, tol=0, random_state=0).fit(data)
    assert fitted.systems_.x1.shape == (2, 2)
    assert (np.diff(fitted.history_["fun"]) <= 1e-12).all()
    np.testing.assert_array_equal(fitted.predict(data), fitted.labels_)
    own = [
        [kernel.pair(x[:3], x[:3]) + kernel.pair(c, c) - 2 * kernel.pair(x[:3], c) for c in fitted.systems_]
        for x in data
    ]
    np.testing.assert_allclose(fitted.transform(data) ** 2, own, atol=1e-10)
    again = LDSKMeans(2, kernel=kernel, init=fitted.systems_, max_iter=1).fit(data)
    assert again.history_["fun"][0] == pytest.approx(fitted.history_["fun"][-1])
    with pytest.raises(
        ValueError, match="have no first states x1, which the kernel requires: pass Systems with x1, or sequences"
    ):
        LDSKMeans(2, kernel=kernel).fit(plain)
    with pytest.raises(ValueError, match=r"mean=FirstMember\(\) is not defined for the kernel"):
        LDSKMeans(2, kernel=kernel, mean=FirstMember()).fit(data)


@pytest.mark.parametrize("params", [{}, {"mean": "medoid", "init": "medoid"}])
def test_conformance(params):
    ms.testing.check_sequence_estimator(LDSKMeans(3, n_states=3, **params)).raise_for_failure()


def test_a_constant_channel_hides_no_class():
    X, classes = oscillations(), np.arange(24) % 3
    for data in (X, [np.hstack([x, np.full((60, 1), 0.1)]) for x in X]):
        assert adjusted_rand_score(classes, LDSKMeans(3, n_states=2, random_state=0).fit(data).labels_) == 1


@pytest.mark.parametrize("unit", [1e-300, 1e155, 1e300])
def test_units_do_not_matter(unit):
    X = oscillations()
    plain = LDSKMeans(3, n_states=2, random_state=0).fit(X)
    again = LDSKMeans(3, n_states=2, random_state=0).fit([x * unit for x in X])
    assert adjusted_rand_score(again.labels_, plain.labels_) == 1  # starts that end equal give the clusters their names


def test_a_failed_fit_leaves_the_fitted_model():
    X = oscillations()
    fitted = LDSKMeans(3, n_states=2, random_state=0).fit(X)
    before = fitted.scale_, fitted.n_features_in_, fitted.predict(X)
    with pytest.raises(ValueError, match="X has 2 sequences"):
        fitted.fit([x[:, :3] * 7 for x in X[:2]])
    assert fitted.scale_ is before[0] and fitted.n_features_in_ == before[1]
    np.testing.assert_array_equal(fitted.predict(X), before[2])


def test_a_fit_to_systems_has_no_scale():
    X4 = np.random.default_rng(0).standard_normal((4, 20, 6))
    fitted = LDSKMeans(2, n_states=3, random_state=0).fit(X4)
    fitted.fit(generated(N=6, m=6))
    assert not hasattr(fitted, "scale_")
    with pytest.raises(ValueError, match="was fitted on Systems: pass Systems, or fit it on sequences"):
        fitted.predict(X4)


@pytest.mark.slow
def test_spread_rows_are_those_of_a_naive_loop(data):
    estimator = LDSKMeans(5)
    clustering = estimator._clustering(data, estimator.n_clusters)
    K = np.array([[projection(x, y) for y in data] for x in data])
    squared = np.maximum(6 - 2 * K, 0)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = [int(rng.integers(30))]
        while len(rows) < 5:
            closest = squared[rows].min(axis=0)
            closest[rows] = 0
            tried = rng.choice(30, size=2 + int(np.log(5)), p=closest / closest.sum())
            rows.append(int(min(tried, key=lambda i: np.minimum(closest, squared[i]).sum())))
        found = ms.kernels.spread_rows(30, 5, np.random.default_rng(seed), clustering.squared_to)
        assert found.tolist() == rows


def test_copies_of_a_system_are_no_reason_to_move():
    """Distances that are equal up to rounding: repair takes one system per empty cluster, not all its copies."""
    one = generated(N=1)
    copies = Systems.from_items([one[0], *[change_state_basis(one[0])] * 5])
    with pytest.warns(ConvergenceWarning, match="2 clusters have 1 different centres"):
        fitted = LDSKMeans(2, init=Systems.from_items([one[0], one[0]]), max_iter=3).fit(copies)
    assert sorted(np.bincount(fitted.labels_, minlength=2)) == [1, 5]


needs_aeon = pytest.mark.skipif(find_spec("aeon") is None, reason="aeon's data files are not installed")
RECORDED = [
    ("japanese-vowels", 9, {"n_states": 3, "identifier": LDSIdentifier(center=False)}),
    ("basic-motions", 4, {"n_states": 5}),
]


def purities(dataset, K, params, seeds):
    """Purity and objective, each of shape (seeds, 2), of the exact mean and the medoid."""
    record = ms.hooks.get_dataset(dataset).loader()
    classes = np.unique(record.labels, return_inverse=True)[1]
    purity, objective = np.zeros((2, seeds, 2))
    for seed in range(seeds):
        for j, mean in enumerate(("exact", "medoid")):
            fitted = LDSKMeans(K, mean=mean, random_state=seed, **params).fit(record.sequences)
            table = np.zeros((K, K))
            np.add.at(table, (fitted.labels_, classes), 1)
            purity[seed, j] = table.max(axis=1).sum() / len(classes)
            objective[seed, j] = fitted.mean_kernel_value_
    return purity, objective


@pytest.mark.slow
@needs_aeon
@pytest.mark.parametrize(("dataset", "K", "params"), RECORDED)
def test_recorded_sequences(dataset, K, params):
    purity, objective = purities(dataset, K, params, seeds=1)
    assert purity[0, 0] >= 0.80
    assert objective[0, 0] > objective[0, 1] + 0.1


@needs_aeon
@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "K", "params"), RECORDED)
def test_recorded_sequences_over_ten_seeds(dataset, K, params):
    purity, objective = purities(dataset, K, params, seeds=10)
    exact, medoid = purity.mean(axis=0)
    assert exact >= 0.80
    assert exact > medoid - 0.02  # higher values are not always purer
    assert (objective[:, 0] > objective[:, 1]).all()


def test_new_sequences_get_the_order_that_was_chosen() -> None:
    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.standard_normal((40, 4)), axis=0) for _ in range(8)]
    model = LDSKMeans(n_clusters=2, n_states="energy:0.9", random_state=0).fit(walks)
    np.testing.assert_array_equal(model.predict(walks), model.labels_)
