"""Stabilizers: what makes the transition matrix of least squares stable. One function each, in one table."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import nnls

Array = NDArray[np.float64]

# A small interior-point method: quadratic functions under one linear matrix inequality. scipy has none.


_SHRINK = 0.1
"""Factor of the weight of the barrier from one central point to the next."""


def minimize_quadratic(H: Array, g: Array, F0: Array, F: Array, x: Array, gap: float = 1e-10) -> Array:
    """Minimize ``x'Hx / 2 - g'x`` over the x for which ``F0 + sum_i x_i F_i`` is positive definite.

    Newton's method on the function plus a logarithmic barrier whose weight goes to zero (Boyd and Vandenberghe, Convex
    Optimization, 11.6). The result is strictly feasible, and its value is within ``gap`` times the scale of H of the
    least one.

    Parameters
    ----------
    H : ndarray of shape (p, p)
        Positive semidefinite.
    g : ndarray of shape (p,)
    F0 : ndarray of shape (k, k)
        Symmetric.
    F : ndarray of shape (p, k, k)
        Symmetric matrices.
    x : ndarray of shape (p,)
        A strictly feasible start.
    gap : float

    Returns
    -------
    ndarray of shape (p,)
    """
    scale = max(np.abs(H).max(), np.abs(g).max())
    H, g = H / scale, g / scale
    flat = F.reshape(len(F), -1)
    weight, k = 1.0, len(F0)
    while True:
        last = k * weight <= gap
        x = _centre(H, g, F0, F, flat, x, weight, 1e-8 if last else 0.1)
        if last:
            return x
        weight *= _SHRINK


def _centre(H: Array, g: Array, F0: Array, F: Array, flat: Array, x: Array, weight: float, tol: float) -> Array:
    """Return the minimizer of the function plus ``-weight * log det``, by damped Newton steps from x."""
    factor = _cholesky(F0, flat, x)
    if factor is None:
        raise ValueError("the start is not strictly feasible")
    for _ in range(50):
        inverse = solve_triangular(factor, np.eye(len(F0)), lower=True)
        scaled = (inverse @ F @ inverse.T).reshape(len(F), -1)
        gradient = H @ x - g - weight * np.einsum("ijj->i", scaled.reshape(F.shape))
        hessian = H + weight * (scaled @ scaled.T)
        unit = 1 / np.sqrt(np.diagonal(hessian))
        hessian *= unit * unit[:, None]
        hessian.flat[:: len(x) + 1] += 1e-13
        step = -unit * cho_solve(cho_factor(hessian, check_finite=False), unit * gradient)
        decrement = -gradient @ step
        if decrement <= tol * weight:
            return x
        value, t = _barrier(H, g, x, factor, weight), 1.0
        while True:
            moved = x + t * step
            factor_moved = _cholesky(F0, flat, moved)
            if factor_moved is not None and _barrier(H, g, moved, factor_moved, weight) <= value - 0.1 * t * decrement:
                break
            t *= 0.5
            if t < 1e-8:  # rounding: no more decrease can be measured
                return x
        x, factor = moved, factor_moved
    return x


def _barrier(H: Array, g: Array, x: Array, factor: Array, weight: float) -> float:
    return 0.5 * x @ H @ x - g @ x - 2 * weight * np.log(np.diagonal(factor)).sum()


def _cholesky(F0: Array, flat: Array, x: Array) -> Array | None:
    try:
        return np.linalg.cholesky(F0 + (x @ flat).reshape(F0.shape))
    except np.linalg.LinAlgError:
        return None


Stabilizer = Callable[[Array, Array, float], Array]

_RADIUS = 1 - 1e-9
"""The largest spectral radius that a stabilizer leaves."""
_CUT = 1 - 2e-9
"""What cuts bound singular values by: below the radius, so that a rotation, whose are all one, is cut too."""
_MOST_CUTS = 500
_BISECTION = 1e-12
"""How near to the boundary a solution is taken: least squares on the unit circle, as for a sine, stays what it is."""


def stabilize(name: str, A: Array, X: Array, bound: float) -> Array:
    """Return stable transition matrices for the least-squares solutions of sequences of states.

    Parameters
    ----------
    name : str
        A key of `STABILIZERS`.
    A : ndarray of shape (N, n, n)
        Least squares, ``X[:, :, 1:] @ pinv(X[:, :, :-1])``.
    X : ndarray of shape (N, n, T)
        States ``S V'`` of a singular value decomposition: rows are orthogonal; rows of zeros come last.
    bound : float
        Bound of ``"clip"``.

    Returns
    -------
    ndarray of shape (N, n, n)
        With a spectral radius below one (as least squares leaves it for ``"NONE"``).
    """
    made = STABILIZERS[name](A, X, bound)
    if name == "NONE":
        return made
    return made * np.minimum(1.0, _RADIUS / np.maximum(spectral_radius(made), _RADIUS))[:, None, None]


def spectral_radius(A: Array) -> Array:
    """Return the largest modulus of the eigenvalues of each matrix."""
    return np.abs(np.linalg.eigvals(A)).max(axis=-1)


def _soft_normalization(A: Array, X: Array, bound: float) -> Array:
    """SN: singular values s become tanh(2.5 s / 2) (Huang et al. 2016, LDSST)."""
    U, s, Vt = np.linalg.svd(A)
    return (U * np.minimum(np.tanh(1.25 * s), _RADIUS)[:, None, :]) @ Vt


def _clip(A: Array, X: Array, bound: float) -> Array:
    """Clip: singular values s become min(s, bound)."""
    U, s, Vt = np.linalg.svd(A)
    return (U * np.minimum(s, bound)[:, None, :]) @ Vt


def _uniform(A: Array, X: Array, bound: float) -> Array:
    """UN: A / 1.5, again until it is stable."""
    excess = np.maximum(np.log(np.maximum(spectral_radius(A), 1e-300) / _RADIUS) / np.log(1.5), 1)
    return A / 1.5 ** np.ceil(excess)[:, None, None]


def _minimal(A: Array, X: Array, bound: float) -> Array:
    """MN: one factor that is small enough for every sequence with the same last state, in units of the singular values.

    With the last row v of V and ``q = v v'``, least squares is similar to ``V2'V1 (I - v'v)^-1``.
    """
    v = np.divide(X[:, :, -1], _singular_values(X), out=np.zeros(X.shape[:2]), where=X.any(axis=2))
    rest = np.maximum(1 - (v * v).sum(axis=1), 0)
    root = np.sqrt(rest)
    return np.maximum(root / (root + 1), rest)[:, None, None] * A


def _hzp(A: Array, X: Array, bound: float) -> Array:
    """HZP: ``S V2'V1 S^-1``, similar to a product of two contractions."""
    s = _singular_values(X)
    V = np.divide(X, s[:, :, None], out=np.zeros_like(X), where=X.any(axis=2, keepdims=True))
    inverse = np.divide(1, s, out=np.zeros_like(s), where=s > 0)
    return s[:, :, None] * (V[:, :, 1:] @ V[:, :, :-1].swapaxes(1, 2)) * inverse[:, None, :]


def _constraint_generation(A: Array, X: Array) -> Array:
    """CG: least squares under cuts ``u'Av < 1`` from leading singular pairs (Siddiqi, Boots and Gordon 2007)."""
    root = _inverse_root(X[:, :-1] @ X[:, :-1].T)

    def back(e: Array) -> Array:
        return A + e.reshape(A.shape) @ root

    return _generate(back, lambda M: M, lambda u, v: np.outer(u, root @ v).ravel(), A.size)


def _weighted_least_squares(A: Array, X: Array) -> Array:
    """WLS: least squares under cuts on ``S^-1 A S = P (Abar W) P'`` (Huang, Cao, Sun, Zhao, Liu and Yu 2016).

    With W full, ``Abar W`` is any matrix, so that only the norm in which the cuts are taken differs from CG.
    """
    s = np.linalg.norm(X, axis=1)
    root = _inverse_root(X[:, :-1] @ X[:, :-1].T)

    def back(e: Array) -> Array:
        return A + e.reshape(A.shape) @ root

    return _generate(back, lambda M: M / s[:, None] * s, lambda u, v: np.outer(u / s, root @ (s * v)).ravel(), A.size)


def _diagonally_weighted_least_squares(A: Array, X: Array) -> Array:
    """DWLS: as WLS, with W diagonal: ``A = S P (Abar W) P' S^-1``, ``V1'V1 = P L P'``, ``Abar = P'V2'V1 P L^-1``."""
    s = np.linalg.norm(X, axis=1)
    V = X / s[:, None]
    L, P = np.linalg.eigh(V[:, :-1] @ V[:, :-1].T)
    Abar = P.T @ (A / s[:, None] * s) @ P  # least squares is W = I
    length = np.sqrt(np.maximum(L, 0)) * np.linalg.norm(s[:, None] * (P @ Abar), axis=0)
    length = np.maximum(length, 1e-12 * length.max())

    def back(e: Array) -> Array:
        return s[:, None] * (P @ (Abar * (1 + e / length)) @ P.T) / s

    def cut(u: Array, v: Array) -> Array:
        return (Abar.T @ (P.T @ u)) * (P.T @ v) / length

    return _generate(back, lambda M: M / s[:, None] * s, cut, len(s))


def _lb1(A: Array, X: Array) -> Array:
    """LB1: least squares under ``sigma_max(A) <= 1``, a semidefinite program (Lacy and Bernstein 2002)."""
    n = len(A)
    F = np.zeros((n, n, 2 * n, 2 * n))
    i, j = np.indices((n, n))
    F[i, j, i, n + j] = F[i, j, n + j, i] = 1
    H = np.kron(np.eye(n), X[:, :-1] @ X[:, :-1].T)
    g = X[:, 1:] @ X[:, :-1].T
    x = minimize_quadratic(H, g.ravel(), np.eye(2 * n), F.reshape(n * n, 2 * n, 2 * n), np.zeros(n * n))
    return x.reshape(n, n)


def _lb2(A: Array, X: Array) -> Array:
    """LB2: ``min |Q - A P|`` under ``[[P - d I, Q], [Q', P]] >= 0``, then ``Q P^-1`` (Lacy and Bernstein 2003).

    The result does not depend on d > 0, which only scales P and Q; here it is 1. The program does not bound P, so a
    small one is asked for: ``1e-6 |P|^2`` is added to the squared objective.
    """
    n = len(A)
    rows, columns = np.tril_indices(n)
    P = np.zeros((len(rows), n, n))
    P[np.arange(len(rows)), rows, columns] = P[np.arange(len(rows)), columns, rows] = 1
    Q = np.eye(n * n).reshape(-1, n, n)
    F = np.zeros((len(P) + len(Q), 2 * n, 2 * n))
    F[: len(P), :n, :n] = F[: len(P), n:, n:] = P
    F[len(P) :, :n, n:], F[len(P) :, n:, :n] = Q, Q.swapaxes(1, 2)
    residual = np.concatenate([-(A @ P), Q]).reshape(len(F), -1)
    size = np.concatenate([P, 0 * Q]).reshape(len(F), -1)
    H = residual @ residual.T + 1e-6 * (size @ size.T)
    F0 = np.zeros((2 * n, 2 * n))
    F0[:n, :n] = -np.eye(n)
    start = np.concatenate([2.0 * (rows == columns), np.zeros(n * n)])
    x = minimize_quadratic(H, np.zeros(len(F)), F0, F, start)
    made = np.tensordot(x[: len(P)], P, 1)
    return np.linalg.solve(made, x[len(P) :].reshape(n, n).T).T


def _one_by_one(
    solve: Callable[[Array, Array], Array], radius: Callable[[Array], Array] = spectral_radius
) -> Stabilizer:
    """Return a stabilizer that keeps least squares where `radius` is below one, and solves for each other system."""

    def stabilizer(A: Array, X: Array, bound: float) -> Array:
        made = A.copy()
        for i in np.flatnonzero(radius(A) > _RADIUS):
            rank = int(X[i].any(axis=1).sum())  # states of zeros come last
            made[i, :rank, :rank] = solve(A[i, :rank, :rank], X[i, :rank])
        return made

    return stabilizer


def _generate(
    back: Callable[[Array], Array],
    image: Callable[[Array], Array],
    cut: Callable[[Array, Array], Array],
    size: int,
) -> Array:
    """Return the matrix nearest to least squares under as many cuts as make it stable.

    The unknown e of `size` numbers is zero at least squares, and its squared length is what the objective is worse by.
    ``back(e)`` is the matrix, ``image(A)`` the matrix whose singular values are cut, and ``cut(u, v) @ e`` what
    ``u' image(A) v`` changes by. Each round adds the cut of the leading singular pair; the result lies between the
    first stable solution and the last unstable one, as near to the latter as is stable.
    """
    least = image(back(np.zeros(size)))
    rows, limits = [], []
    e, last = np.zeros(size), np.zeros(size)
    while spectral_radius(back(e)) > _RADIUS and len(rows) < _MOST_CUTS:
        U, _, Vt = np.linalg.svd(image(back(e)))
        rows.append(cut(U[:, 0], Vt[0]))
        limits.append(_CUT - U[:, 0] @ least @ Vt[0])
        last, e = e, _least_distance(-np.array(rows), -np.array(limits))
    stable, unstable = 1.0, 0.0
    while stable - unstable > _BISECTION:
        middle = 0.5 * (stable + unstable)
        if spectral_radius(back(last + middle * (e - last))) > _RADIUS:
            unstable = middle
        else:
            stable = middle
    return back(last + stable * (e - last))


def _least_distance(G: Array, h: Array) -> Array:
    """Return the shortest x with ``G x >= h`` (Lawson and Hanson, Solving Least Squares Problems, chapter 23)."""
    length = np.linalg.norm(G, axis=1)
    G, h = G / length[:, None], h / length
    scale = np.abs(h).max()
    E = np.vstack([G.T, h / scale])
    target = np.zeros(len(E))
    target[-1] = 1
    dual, _ = nnls(E, target)
    residual = E @ dual - target
    return -scale * residual[:-1] / residual[-1]


def _singular_values(X: Array) -> Array:
    return np.linalg.norm(X, axis=2)


def _inverse_root(G: Array) -> Array:
    w, W = np.linalg.eigh(G)
    return (W / np.sqrt(np.maximum(w, 1e-14 * w[-1]))) @ W.T


STABILIZERS: dict[str, Stabilizer] = {
    "SN": _soft_normalization,
    "clip": _clip,
    "UN": _uniform,
    "MN": _minimal,
    "HZP": _hzp,
    "WLS": _one_by_one(_weighted_least_squares),
    "DWLS": _one_by_one(_diagonally_weighted_least_squares),
    "CG": _one_by_one(_constraint_generation),
    "LB1": _one_by_one(_lb1, lambda A: np.linalg.norm(A, 2, axis=(1, 2))),
    "LB2": _one_by_one(_lb2),
    "NONE": lambda A, X, bound: A,
}
