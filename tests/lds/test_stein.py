"""Stein equations, their adjoint and Gramians against scipy, Kronecker products, autograd and finite differences."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg

import manifoldseq as ms

DEFECTIVE = 0.6 * np.eye(4) + np.diag(np.ones(3), 1)


def stable(rng, *shape, radius=0.9):
    A = rng.standard_normal(shape)
    return A * (radius / np.abs(np.linalg.eigvals(A)).max(-1))[..., None, None]


def kronecker(A1, A2, Q):
    """Solve A1' X A2 - X + Q = 0 as one linear system."""
    system = np.eye(Q.size) - np.kron(A1.T, A2.T)
    return np.linalg.solve(system, Q.ravel()).reshape(Q.shape)


@pytest.mark.parametrize("radius", [0.0, 0.5, 0.9, 0.99, 0.999])
def test_equals_the_kronecker_solution(radius):
    rng = np.random.default_rng(0)
    A1, A2, Q = stable(rng, 4, 4, radius=radius), stable(rng, 3, 3, radius=radius), rng.standard_normal((4, 3))
    X = ms.linalg.stein(A1, A2, Q)
    np.testing.assert_allclose(X, kronecker(A1, A2, Q), rtol=0, atol=1e-13 * np.abs(X).max() / (1 - radius**2))
    assert np.abs(A1.T @ X @ A2 - X + Q).max() <= 1e-13 * max(1, np.abs(X).max())


@pytest.mark.parametrize("A", [DEFECTIVE, 0.999 * np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))[0]])
def test_equals_scipy(A):
    Q = np.diag([1.0, 2.0, 3.0, 4.0])
    X = ms.linalg.stein(A, A, Q)
    np.testing.assert_allclose(X, scipy.linalg.solve_discrete_lyapunov(A.T, Q), rtol=0, atol=1e-12 * np.abs(X).max())


def test_broadcasts_over_leading_axes():
    rng = np.random.default_rng(1)
    A1, A2, Q = stable(rng, 5, 4, 4), stable(rng, 2, 1, 3, 3), rng.standard_normal((4, 3))
    X = ms.linalg.stein(A1, A2, Q)
    assert X.shape == (2, 5, 4, 3)
    for i, j in np.ndindex(2, 5):
        np.testing.assert_allclose(X[i, j], kronecker(A1[j], A2[i, 0], Q), atol=1e-13)


def test_nothing_to_sum_gives_a_copy_of_q():
    Q = np.eye(2)
    X = ms.linalg.stein(np.zeros((3, 2, 2)), np.zeros((2, 2)), Q)
    assert X.shape == (3, 2, 2)
    X[:] = 5
    assert np.array_equal(Q, np.eye(2))
    assert ms.linalg.stein(np.zeros((2, 2)), np.zeros((2, 2)), Q) is not Q


def test_an_unstable_and_a_stable_matrix_are_accepted():
    X = ms.linalg.stein([[1.5]], [[0.5]], [[1]])
    np.testing.assert_allclose(X, [[4.0]])


def test_float32_is_summed_in_float64():
    rng = np.random.default_rng(2)
    A, Q = stable(rng, 4, 4, radius=0.99).astype(np.float32), np.eye(4, dtype=np.float32)
    X = ms.linalg.stein(A, A, Q)
    assert X.dtype == np.float32
    assert np.array_equal(X, ms.linalg.stein(A.astype(float), A.astype(float), Q.astype(float)).astype(np.float32))
    assert ms.linalg.gramians(A).dtype == np.float32


def test_gramians_equal_scipy_and_the_sum():
    rng = np.random.default_rng(3)
    A, C = stable(rng, 6, 3, 3), rng.standard_normal((6, 5, 3))
    for a, c, G, H in zip(A, C, ms.linalg.gramians(A, C), ms.linalg.gramians(A), strict=True):
        np.testing.assert_allclose(G, scipy.linalg.solve_discrete_lyapunov(a.T, c.T @ c), rtol=1e-11, atol=1e-11)
        rows = np.concatenate([np.linalg.matrix_power(a, t) for t in range(400)])
        np.testing.assert_allclose(H, rows.T @ rows, rtol=1e-11, atol=1e-11)
        assert np.array_equal(G, G.T)


def test_adjoint_has_slope_two():
    rng = np.random.default_rng(4)
    A1, A2, Q = stable(rng, 5, 4, 4, radius=0.7), stable(rng, 3, 3, radius=0.7), rng.standard_normal((1, 4, 3))
    H = rng.standard_normal((5, 4, 3))
    X = ms.linalg.stein(A1, A2, Q)
    gradients = ms.linalg.stein_adjoint(A1, A2, X, H)
    assert [g.shape for g in gradients] == [(5, 4, 4), (3, 3), (5, 4, 3)]
    steps = np.array([1e-2, 1e-3, 1e-4])
    for i, gradient in enumerate(gradients):
        parts = [A1, A2, np.broadcast_to(Q, X.shape)]
        D = rng.standard_normal(parts[i].shape)

        def error(h, i=i, parts=parts, D=D, gradient=gradient):
            moved = [part + h * D if j == i else part for j, part in enumerate(parts)]
            return abs(np.sum(H * (ms.linalg.stein(*moved) - X)) - h * np.sum(gradient * D))

        errors = np.array([error(h) for h in steps])
        if i == 2:  # linear in Q
            assert errors.max() < 1e-12
        else:
            assert np.all(np.diff(np.log10(errors)) < -1.9)


def test_autograd_differentiates_twice():
    from autograd.test_util import check_grads

    rng = np.random.default_rng(5)
    A1, A2, Q = stable(rng, 2, 3, 3, radius=0.6), stable(rng, 2, 1, 2, 2, radius=0.6), rng.standard_normal((3, 2))
    check_grads(ms.linalg.stein, modes=["rev"], order=2)(A1, A2, Q)
    check_grads(lambda A: ms.linalg.gramians(A), modes=["rev"], order=2)(A1)
    check_grads(ms.linalg.gramians, modes=["rev"], order=2)(A1, rng.standard_normal((4, 3)))


def test_adjoint_equals_autograd():
    import autograd

    rng = np.random.default_rng(6)
    A1, A2, Q, H = stable(rng, 3, 3), stable(rng, 2, 2), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    by_autograd = autograd.grad(lambda parts: (H * ms.linalg.stein(*parts)).sum())((A1, A2, Q))
    X = ms.linalg.stein(A1, A2, Q)
    for a, b in zip(ms.linalg.stein_adjoint(A1, A2, X, H), by_autograd, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_solving_imports_no_autograd():
    code = "import sys, manifoldseq as ms; ms.linalg.stein([[.5]], [[.5]], [[1.]]); sys.exit('autograd' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("factor", [1.0001 / 0.9, 1.2, 50.0])
def test_unstable_is_one_sentence_with_place_and_radius(factor):
    A = stable(np.random.default_rng(7), 4, 3, 3)
    A[2] *= factor
    with pytest.raises(ValueError, match=rf"index \(2,\): A has spectral radius {0.9 * factor:.3g}.*below 1"):
        ms.linalg.gramians(A)
    with pytest.raises(ValueError, match=r"index \(2,\): A1 and A2 have spectral radii"):
        ms.linalg.stein(A, A.swapaxes(1, 2), np.eye(3))


def test_other_bad_input_is_named():
    A = 0.5 * np.eye(2)
    with pytest.raises(ValueError, match=r"shapes are \(2, 2\), \(2, 2\) and \(3, 2\)"):
        ms.linalg.stein(A, A, np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"Q has a value that is not finite at index \(0, 1\)"):
        ms.linalg.stein(A, A, [[0, np.nan], [0, 0]])
    with pytest.raises(ValueError, match=r"A1 has a value that is not finite at index \(1, 0\)"):
        ms.linalg.stein([[0, 0], [np.inf, 0]], A, A)


def test_complex_input_raises_an_error():
    A = 0.5 * np.eye(2)
    for arrays in ((1j * A, A, A), (A, 1j * A, A), (A, A, 1j * A)):
        with pytest.raises(ValueError, match="has dtype complex128: pass real numbers"):
            ms.linalg.stein(*arrays)
    with pytest.raises(ValueError, match="pass real numbers"):
        ms.linalg.gramians(A, 1j * A)
