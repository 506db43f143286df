"""Sums, products, normalized kernels and Gaussians; kernels inside scikit-learn."""

import pickle

import numpy as np
import pytest
from helpers import parametrize
from lds.items import example
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq.kernels import NormalizedKernel, ProductKernel, RBFKernel, RowKernel, SumKernel
from manifoldseq_lds import LDSKernelMatrix, LDSKMeans, LDSSpectralClustering, Systems

BINET = ms.get_kernel("binet-cauchy", form="trace")
MADE = {
    "sum": SumKernel(("projection", "martin"), weights=(1.0, 0.5)),
    "sum of others": SumKernel((BINET, ms.get_kernel("binet-cauchy"))),
    "product": ProductKernel(("projection", "martin", "grassmann")),
    "product of others": ProductKernel((BINET, BINET)),
    "sum of constant and varying diagonals": SumKernel((BINET, NormalizedKernel(BINET)), weights=(0.1, 2.0)),
    "product of constant and varying diagonals": ProductKernel((NormalizedKernel(BINET), BINET)),
    "normalized": NormalizedKernel("projection"),
    "normalized other": NormalizedKernel(BINET),
    "rbf": RBFKernel("projection", scale=2.0),
    "rbf of another": RBFKernel(NormalizedKernel(BINET), scale=0.5),
    "rbf of a varying diagonal": RBFKernel(BINET, scale=50.0),
    "normalized sum": NormalizedKernel(SumKernel((ProductKernel(("projection", "martin")), "grassmann"))),
}


@parametrize("name", MADE, fast=1)
def test_conformance(name):
    ms.testing.check_kernel(MADE[name]).raise_for_failure()
    assert MADE[name].positive_definite and MADE[name].products_only


def test_values_by_their_definitions():
    data = example(np.random.default_rng(0))

    def gram(kernel):
        P = kernel.pack(data)
        return kernel.cross(P, P)

    p, m = gram(ms.get_kernel("projection")), gram(ms.get_kernel("martin"))
    g, b = gram(ms.get_kernel("grassmann")), gram(BINET)
    np.testing.assert_allclose(gram(MADE["sum"]), p + 0.5 * m, rtol=1e-14)
    np.testing.assert_allclose(gram(MADE["product"]), p * m * g, rtol=1e-14)
    np.testing.assert_allclose(gram(MADE["normalized"]), p / 3, rtol=1e-12)
    norms = np.sqrt(np.diag(b))
    np.testing.assert_allclose(gram(MADE["normalized other"]), b / np.outer(norms, norms), rtol=1e-12)
    squared = np.diag(b)[:, None] + np.diag(b) - 2 * b
    np.testing.assert_allclose(gram(MADE["rbf of a varying diagonal"]), np.exp(-squared / 50), rtol=1e-12)


def test_they_can_be_pickled_and_name_the_domain():
    for kernel in MADE.values():
        again = pickle.loads(pickle.dumps(kernel))
        assert again.domain == "lds" and again.constant_diagonal == kernel.constant_diagonal
    assert not SumKernel(("projection", "martin-rbf")).positive_definite


def test_bad_combinations_raise_an_error():
    for make, match in (
        (lambda: SumKernel(()), "no kernels"),
        (lambda: SumKernel((3,)), "3 is not a kernel"),
        (lambda: SumKernel(("projection",), weights=(-1.0,)), "one non-negative number for each kernel"),
        (lambda: SumKernel(("projection", "martin"), weights=(1.0,)), "one non-negative number for each kernel"),
        (lambda: ProductKernel(("projection", "chi2")), r"several domains, \['histograms', 'lds'\]"),
        (lambda: SumKernel(("projection", "binet-cauchy")).manifold(6, 3), "points of different manifolds"),
        (lambda: RBFKernel("projection", scale=0), "pass a number above 0"),
        (lambda: RowKernel(ms.get_kernel("martin"), example(np.random.default_rng(0)), dtype="float32"), "an object"),
    ):
        with pytest.raises(ValueError, match=match):
            make()
    zero = [(np.eye(2) / 2, np.eye(3, 2), np.ones(2)), (np.eye(2) / 2, np.eye(3, 2), np.zeros(2))]
    kernel = NormalizedKernel(BINET)
    with pytest.raises(ValueError, match=r"cannot be normalized, because item 1 has k\(x, x\) = 0: remove"):
        kernel.cross(kernel.pack(zero), kernel.pack(zero))
    point = (np.full(2, 0.5), np.eye(2), np.eye(3, 2), np.zeros(2))
    with pytest.raises(ValueError, match=r"because k\(S, S\) = 0 at the point S"):
        kernel.weighted(point, kernel.pack(zero[:1]), [1.0])


def motions(N=8, seed=0):
    """Return sequences of two slow and two fast oscillations in noise, and their classes."""
    rng, t = np.random.default_rng(seed), np.arange(50)[:, None]
    y = np.arange(4 * N) % 4
    X = [
        np.cos(t * (0.2 + 0.25 * k) + rng.uniform(0, 6) + np.arange(3)) + 0.1 * rng.standard_normal((50, 3)) for k in y
    ]
    return X, y


def test_means_and_clusters_take_combined_kernels():
    X, y = motions()
    model = LDSKMeans(4, n_states=2, kernel=RBFKernel("projection"), random_state=0, n_init=2).fit(X)
    assert len(set(zip(model.labels_, y, strict=True))) <= 6
    problem = ms.get_model("lds.mean").problem(model.systems_, kernel=SumKernel(("projection", "grassmann")))
    assert [update.name for update in problem.objective.updates] == ["polar"]
    ms.testing.check_gradient(problem).raise_for_failure()


def test_grid_search_over_kernels_and_their_parameters():
    X, y = motions()
    model = make_pipeline(LDSKernelMatrix(n_states=2), SVC(kernel="precomputed"))
    grid = [
        {"ldskernelmatrix__kernel": ["grassmann"], "ldskernelmatrix__kernel__n_steps": [1, 4]},
        {"ldskernelmatrix__kernel": ["projection", "martin"]},
    ]
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ >= 0.9 and scores[0] < scores[1]  # one step of observation shows no frequency
    assert search.predict(X).shape == y.shape


def test_kernel_matrix_of_systems_and_sequences():
    X, _ = motions(2)
    model = LDSKernelMatrix(n_states=2)
    K = model.fit_transform(X)
    np.testing.assert_allclose(K, model.transform(X), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.diag(K), 2, atol=1e-12)
    by_systems = LDSKernelMatrix().fit(model.systems_)
    np.testing.assert_allclose(by_systems.transform(model.systems_), K, rtol=0, atol=1e-13)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ValueError, match="was fitted on Systems"):
        by_systems.transform(X)
    with pytest.raises(ValueError, match="systems of the same size"):
        by_systems.transform(Systems(np.zeros((1, 1, 1)), np.eye(3, 1)[None]))
    states = LDSKernelMatrix(ms.get_kernel("binet-cauchy", form="trace"), n_states=2).fit_transform(X)
    assert states.shape == (8, 8) and np.linalg.eigvalsh(states).min() > -1e-9 * states.max()


def test_kernel_as_a_function_inside_an_estimator():
    X, y = motions()
    systems = LDSKernelMatrix(n_states=2).fit(X).systems_
    rows = np.arange(len(y))[:, None]
    kernel = RowKernel("projection", systems)
    half = rows[:16]
    model = SVC(kernel=kernel).fit(half, y[:16])
    assert model.score(rows[16:], y[16:]) >= 0.9
    precomputed = SVC(kernel="precomputed").fit(kernel(half, half), y[:16])
    np.testing.assert_array_equal(precomputed.predict(kernel(rows, half)), model.predict(rows))
    assert clone(model).kernel is kernel
    for bad in (rows[:, 0:0], rows + 0.5, np.array([["a"]])):
        with pytest.raises(ValueError, match="pass row numbers"):
            kernel(bad, rows)


def indefinite(first, second):
    """A symmetric function that is not a positive definite kernel."""
    return -1.0 + 0.0 * first[0].sum()


def test_indefinite_kernels_are_announced():
    X, _ = motions(2)
    kernel = ms.kernel(indefinite, positive_definite=False, constant_diagonal=True)
    with pytest.warns(UserWarning, match="is indefinite, with eigenvalues from -8 to"):
        LDSKernelMatrix(kernel, n_states=2).fit_transform(X)
    with pytest.warns(UserWarning, match="the kernel martin-rbf is not positive definite"):
        RowKernel("martin-rbf", example(np.random.default_rng(0)))
    LDSKernelMatrix("martin-rbf", n_states=2).fit_transform(X)  # not claimed, but this matrix is: no warning
    assert ms.kernels.warn_if_indefinite(ms.get_kernel("projection")) is False


def test_conventions_of_estimators():
    ms.testing.check_sequence_estimator(LDSKernelMatrix(n_states=2)).raise_for_failure()


def test_a_rejected_fit_of_a_kernel_matrix_leaves_the_last_one():
    X = np.random.default_rng(0).standard_normal((4, 20, 3))
    model = LDSKernelMatrix(n_states=2).fit(X)
    expected = model.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(np.arange(3) == 1, np.nan, X))
    np.testing.assert_array_equal(model.transform(X), expected)


class Compares:
    """The projection kernel without what centres need."""

    domain, name = "lds", "compares"
    constant_diagonal = positive_definite = products_only = True
    convex_in_output = False
    weighted = manifold = self_term = None

    def __init__(self) -> None:
        of = ms.get_kernel("projection")
        self.pack, self.cross, self.diag = of.pack, of.cross, of.diag


def test_a_kernel_that_only_compares_has_no_centres():
    t, rng = np.arange(60)[:, None], np.random.default_rng(0)
    X = [np.sin(w * t) + 0.05 * rng.standard_normal((60, 2)) for w in (0.2, 0.21, 0.9, 0.91)]
    settings = {"kernel": Compares(), "n_states": 2, "identifier__delay": 1}
    spectral = LDSSpectralClustering(2, random_state=0).set_params(**settings)
    np.testing.assert_array_equal(spectral.fit(X).labels_, spectral.set_params(kernel="projection").fit(X).labels_)
    with pytest.raises(ValueError, match="has no method `manifold`, which centres and atoms require"):
        LDSKMeans(2, random_state=0).set_params(**settings).fit(X)
