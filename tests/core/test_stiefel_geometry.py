"""Geodesics, logarithms and means of orthonormal columns in two metrics, against differential equations."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.integrate
from core.cases import close

import manifoldseq as ms
from manifoldseq.manifolds import Stiefel

RADII = {"embedded": np.pi, "canonical": 0.8**0.5 * np.pi}
metrics = pytest.mark.parametrize("metric", RADII)
sizes = pytest.mark.parametrize(("n", "p"), [(3, 2), (6, 2), (5, 3), (7, 6), (12, 4)])


def drawn(M: Stiefel, length: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a point and a tangent vector of a length."""
    rng = np.random.default_rng(seed)
    X = M.random_point(rng)
    U = M.random_tangent(X, rng)
    return X, length * U / M.inner(X, U, U) ** 0.5


@metrics
def test_metric(metric: str) -> None:
    M, rng = Stiefel(6, 3, metric=metric), np.random.default_rng(0)
    X, U = drawn(M, 1.0)
    V, G = M.random_tangent(X, rng), rng.standard_normal((6, 3))
    W = np.eye(6) - (0.5 * X @ X.T if metric == "canonical" else 0)
    close(M.inner(X, U, V), np.trace(U.T @ W @ V))
    close(np.trace(M.gradient(X, G).T @ W @ V), np.trace(G.T @ V))
    close(M.euclidean_gradient(X, U), W @ U)


@metrics
@sizes
def test_geodesics_solve_their_equation(n: int, p: int, metric: str) -> None:
    """Edelman, Arias, Smith 1998: Y'' = −Y Y'ᵀY' in the embedded metric, their (2.41) in the canonical one."""
    X, U = drawn(Stiefel(n, p, metric=metric), 2.0)

    def rate(t: float, flat: np.ndarray) -> np.ndarray:
        Y, D = flat.reshape(2, n, p)
        A, S = Y.T @ D, D.T @ D
        bent = -Y @ S if metric == "embedded" else -D @ (D.T @ Y) - Y @ (A @ A + S)
        return np.concatenate([D.ravel(), bent.ravel()])

    ends = scipy.integrate.solve_ivp(rate, (0, 1), np.stack([X, U]).ravel(), rtol=1e-11, atol=1e-12).y[:, -1]
    close(Stiefel(n, p, metric=metric).exp(X, U), ends.reshape(2, n, p)[0], atol=1e-8)


@metrics
@sizes
def test_logarithms_within_the_radius(n: int, p: int, metric: str) -> None:
    M = Stiefel(n, p, metric=metric)
    parts = np.array([1e-6, 0.1, 0.5, 0.8, 0.95])
    X, U = (np.stack(a) for a in zip(*(drawn(M, t * RADII[metric], k) for k, t in enumerate(parts)), strict=True))
    Y = M.exp(X, U)
    close(M.log(X, Y), U, atol=1e-11)
    close(M.dist(X, Y), parts * RADII[metric], rtol=1e-9)
    close(M.dist(Y, X), M.dist(X, Y), rtol=1e-9)
    close(M.log(X[2], Y[2]), U[2], atol=1e-11)  # alone


@metrics
def test_no_logarithm_is_given_beyond_the_radius_or_without_numbers(metric: str) -> None:
    M = Stiefel(6, 3, metric=metric)
    X, U = drawn(M, 1.02 * RADII[metric])
    far = M.exp(X, U)
    assert not M.dist(X, far) > RADII[metric]  # a shorter one, or none
    opposite = -X  # the antipode of a rotation of columns is none: three columns cannot turn by π in their span
    broken = far.copy()
    broken[0, 0] = np.nan
    Y = np.stack([opposite, broken, X, M.exp(X, 0.3 * U)])
    assert np.isnan(M.log(X, Y)).all(axis=(1, 2)).tolist() == [True, True, False, False]
    assert M.dist(X, X) == 0 and M.log(X, X[None]).shape == (1, 6, 3)
    with pytest.raises(ValueError, match=r"no geodesic of Stiefel.* is known from points\[.\] to all other points"):
        ms.frechet_mean(M, np.stack([X, opposite]))


@metrics
def test_logarithms_between_frames_that_share_columns(metric: str) -> None:
    M = Stiefel(5, 2, metric=metric)
    X = np.eye(5)[:, :2]
    c, s = np.cos(1.2), np.sin(1.2)
    one = np.array([[c, 0], [0, 1], [s, 0], [0, 0], [0, 0]])  # a column turns out of the span, the other stays
    both = X @ np.array([[c, -s], [s, c]])  # the columns turn in their span
    close([M.dist(X, one), M.dist(X, both)], [1.2, 1.2 * (2**0.5 if metric == "embedded" else 1)], rtol=1e-12)
    close(M.exp(X, M.log(X, one)), one, atol=1e-13)
    close(M.exp(X, M.log(X, both)), both, atol=1e-13)


@metrics
def test_means_of_frames(metric: str) -> None:
    M, rng = Stiefel(6, 2, metric=metric), np.random.default_rng(1)
    X, U = drawn(M, 0.9)
    close(ms.frechet_mean(M, np.stack([M.exp(X, U), M.exp(X, -U)])), X, atol=1e-9)
    points = np.stack([M.exp(X, 0.5 * M.random_tangent(X, rng) / 3) for _ in range(10)])
    mean = ms.frechet_mean(M, points)
    assert np.abs(M.log(mean, points).mean(axis=0)).max() < 1e-9
    half = M.geodesic(X, points[0], 0.5)
    close([M.dist(X, half), M.dist(half, points[0])], np.full(2, M.dist(X, points[0]) / 2), rtol=1e-9)


def test_single_precision() -> None:
    M = Stiefel(6, 3, metric="canonical")
    X, U = (a.astype(np.float32) for a in drawn(M, 1.5))
    Y = M.exp(X, U)
    assert Y.dtype == M.log(X, Y).dtype == np.float32
    close(M.log(X, Y), U, atol=2e-6)


def test_inverse_of_the_cayley_retraction() -> None:
    M = Stiefel(5, 3, metric="canonical")
    X, U = drawn(M, 3.0)
    close(M.inverse_retraction(X, M.retract(X, U)), U, atol=1e-12)
    assert np.isnan(M.inverse_retraction(X, -X)).all()


def test_the_metric_is_part_of_what_a_manifold_is() -> None:
    M = Stiefel(5, 2, metric="canonical")
    assert repr(M) == "Stiefel(n=5, p=2, metric='canonical')" and repr(Stiefel(5, 2)) == "Stiefel(n=5, p=2)"
    assert M == Stiefel(5, 2, "canonical") != Stiefel(5, 2) and isinstance(M, Stiefel)
    assert copy.deepcopy(M) == pickle.loads(pickle.dumps(M)) == M
    with pytest.raises(ValueError, match="choose 'embedded' or 'canonical'"):
        Stiefel(5, 2, metric="euclidean")
