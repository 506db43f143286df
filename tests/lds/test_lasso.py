"""The kernel Lasso: against scikit-learn's on explicit features, and by its optimality conditions."""

import numpy as np
import pytest
from lds.sparse_problems import clustered, violation
from sklearn.linear_model import Lasso

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSSparseCoder, Systems, sparse_codes


def features(J, N, d=20, seed=0):
    rng = np.random.default_rng(seed)
    F, X = rng.standard_normal((J, d)), rng.standard_normal((N, d))
    return F, X, F @ F.T, F @ X.T


@pytest.mark.parametrize(("J", "alpha"), [(1, 0.5), (4, 0.1), (8, 2.0), (16, 20.0)])
def test_codes_are_those_of_sklearn(J, alpha):
    F, X, gram, cross = features(J, 12)
    Z = sparse_codes(gram, cross, alpha)
    for x, z in zip(X, Z.T, strict=True):
        peer = Lasso(alpha / (2 * len(x)), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(F.T, x)
        np.testing.assert_allclose(z, peer.coef_, atol=1e-7)


@pytest.mark.parametrize(("J", "N"), [(3, 200), (40, 30), (100, 5)])
@pytest.mark.parametrize("alpha", [0.1, 5.0])
def test_codes_satisfy_the_optimality_conditions(J, N, alpha):
    _, _, gram, cross = features(J, N, d=30, seed=J)
    assert violation(gram, cross, alpha, sparse_codes(gram, cross, alpha)) <= 1e-8 * gram.max()


def test_nearly_equal_atoms_are_no_obstacle():
    """Eighteen directions within a degree or two of three others: coordinate descent alone would crawl."""
    rng = np.random.default_rng(0)
    F = np.repeat(rng.standard_normal((3, 30)), 6, axis=0) + 0.02 * rng.standard_normal((18, 30))
    gram, cross = F @ F.T, F @ (F + 0.02 * rng.standard_normal((18, 30))).T
    Z = sparse_codes(gram, cross, 0.1, max_sweeps=200)
    assert violation(gram, cross, 0.1, Z) <= 1e-9 * gram.max()


def test_duplicate_atoms_share_a_code():
    gram, cross = np.ones((3, 3)), np.array([[1.0, -2.0]] * 3)
    Z = sparse_codes(gram, cross, 0.1)
    np.testing.assert_allclose(Z.sum(axis=0), [0.95, -1.95], atol=1e-9)


def test_large_penalty_leaves_zeros_and_a_start_changes_nothing():
    _, _, gram, cross = features(5, 7)
    assert not sparse_codes(gram, cross, 2.01 * np.abs(cross).max()).any()
    again = sparse_codes(gram, cross, 1.0, start=np.ones((5, 7)))
    np.testing.assert_allclose(again, sparse_codes(gram, cross, 1.0), atol=1e-9)


def test_no_atoms_or_no_data():
    assert sparse_codes(np.zeros((0, 0)), np.zeros((0, 4)), 1.0).shape == (0, 4)
    assert sparse_codes(np.eye(2), np.zeros((2, 0)), 1.0).shape == (2, 0)


def test_objective_is_the_distance_in_feature_space():
    """Features of the kernel of two steps: the projections onto the columns of [C; C A]."""

    def feature(item):
        A, C = item[:2]
        Q = np.linalg.qr(np.vstack([C, C @ A]))[0]
        return (Q @ Q.T).ravel()

    data, kernel = clustered(), ms.get_kernel("grassmann", n_steps=2)
    learned = LDSDictionaryLearning(4, kernel=kernel, alpha=0.3, random_state=0, max_iter=3).fit(data)
    F, X = np.array([feature(atom) for atom in learned.systems_]), np.array([feature(item) for item in data])
    Z = learned.transform(data)
    squared, penalty = ((X - Z @ F) ** 2).sum(axis=1), 0.3 * np.abs(Z).sum(axis=1)
    assert penalty.min() > 0.1 and squared.min() > 0.01
    assert learned.score(data) == pytest.approx(-np.mean(squared + penalty), rel=1e-9)


def test_an_indefinite_matrix_is_repaired_with_a_warning():
    C = np.broadcast_to(np.eye(3, 2), (2, 3, 2))
    atoms, data = Systems([np.diag([0.5, 0.0]), np.diag([0.0, 0.5])], C), Systems([np.diag([0.25, 0.0])], C[:1])

    def codes(second):
        kernel = ms.kernel(lambda x, y: 8 * x[0][0, 0] * y[0][0, 0] + second * x[0][1, 1] * y[0][1, 1], domain="lds")
        return LDSSparseCoder(atoms, kernel=kernel, alpha=0.5).fit(data).transform(data)

    with pytest.warns(UserWarning, match="eigenvalue -1"):
        repaired = codes(-4)  # the kernel matrix of the atoms is diag(2, -1)
    expected = sparse_codes(np.diag([2.0, 0.0]), np.array([[1.0], [0.0]]), 0.5).T
    np.testing.assert_allclose(repaired, expected, atol=1e-12)
    np.testing.assert_allclose(codes(4), expected, atol=1e-12)  # diag(2, 1): no warning


@pytest.mark.parametrize(
    ("gram", "cross", "alpha", "sentence"),
    [
        (np.eye(3), np.ones((2, 2)), 0.1, "gram and cross have shapes"),
        (np.eye(2) * np.nan, np.ones((2, 2)), 0.1, "not finite"),
        (np.eye(2), np.ones((2, 2)), -1.0, "alpha=-1.0 is not valid"),
    ],
)
def test_codes_raise_an_error_for_what_is_no_problem(gram, cross, alpha, sentence):
    with pytest.raises(ValueError, match=sentence):
        sparse_codes(gram, cross, alpha)


def test_chunks_of_data_are_the_same_on_every_executor(monkeypatch):
    """Six chunks or more; in one chunk the codes differ by rounding only."""
    _, _, gram, cross = features(6, 80)
    whole = sparse_codes(gram, cross, 0.3)
    monkeypatch.setattr("manifoldseq_lds.coding._lasso._CHUNK_BYTES", 8 * 6 * 6 * 11)
    serial = sparse_codes(gram, cross, 0.3)
    with ms.execution.using("threads", 2):
        np.testing.assert_array_equal(sparse_codes(gram, cross, 0.3), serial)
    np.testing.assert_allclose(serial, whole, rtol=1e-9, atol=1e-12)
