"""Stabilizers of the transition matrix of least squares: one function each, in one table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import csc_matrix

Array = NDArray[np.floating[Any]]

SEMIDEFINITE = ("LB1", "LB2")
"""Stabilizers that need the extra [sdp]."""
_ACCURACY = 1e-10
"""Tolerance of semidefinite programs for the duality gap and feasibility, relative to the largest coefficient."""


def load_clarabel(name: str) -> Any:
    """Return the module clarabel, or raise an error that says how to install it."""
    try:
        import clarabel
    except ImportError as error:
        raise ImportError(
            f"stabilizer={name!r} needs clarabel, which is not installed: run `pip install 'manifoldseq-lds[sdp]'`, or "
            "use stabilizer='CG'"
        ) from error
    return clarabel


def minimize_quadratic(name: str, H: Array, g: Array, F0: Array, F: Array) -> Array:
    """Minimize ``x'Hx / 2 - g'x`` over the x for which ``F0 + sum_i x_i F_i`` is positive semidefinite, by clarabel.

    An interior-point method on the homogeneous embedding (Goulart and Chen 2024).

    Parameters
    ----------
    name : str
        The stabilizer, for messages.
    H : ndarray of shape (p, p)
        Positive semidefinite.
    g : ndarray of shape (p,)
    F0 : ndarray of shape (k, k)
        Symmetric.
    F : ndarray of shape (p, k, k)
        Symmetric matrices.

    Returns
    -------
    ndarray of shape (p,)

    Raises
    ------
    ImportError
        If clarabel is not installed.
    ValueError
        If there is no solution.
    """
    clarabel = load_clarabel(name)
    scale = max(np.abs(H).max(), np.abs(g).max())
    # clarabel takes A x + s = b with s the upper triangle of a positive semidefinite matrix, column by column, entries
    # off the diagonal times sqrt(2): s = vec(F0) + sum_i x_i vec(F_i)
    columns, rows = np.tril_indices(len(F0))
    weights = np.where(rows == columns, 1.0, np.sqrt(2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    solver = clarabel.DefaultSolver(
        csc_matrix(np.triu(H / scale)),
        -g / scale,
        csc_matrix(-(F[:, rows, columns] * weights).T),
        F0[rows, columns] * weights,
        [clarabel.PSDTriangleConeT(len(F0))],
        settings,
    )
    solution = solver.solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise ValueError(
            f"the semidefinite program of stabilizer={name!r} ended with {solution.status}: use stabilizer='CG'"
        )
    return np.array(solution.x)


Stabilizer = Callable[[Array, Array, float], Array]

_RADIUS = 1 - 1e-9
"""Maximum spectral radius after stabilization."""
_CUT = 1 - 2e-9
"""Bound of singular values in cuts: below the radius, so that rotations (singular values of one) are also cut."""
_MOST_CUTS = 500
_BISECTION = 1e-12
"""Distance of solutions to the boundary: least squares on the unit circle, as for a sine, is not changed."""


def stabilize(name: str, A: Array, X: Array, bound: float) -> Array:
    """Return stable transition matrices for the least-squares solutions of sequences of states.

    Parameters
    ----------
    name : str
        A key of `STABILIZERS`.
    A : ndarray of shape (N, n, n)
        Least squares, ``X[:, :, 1:] @ pinv(X[:, :, :-1])``.
    X : ndarray of shape (N, n, T)
        States ``S V'`` of a singular value decomposition: rows are orthogonal, and rows of zeros are last.
    bound : float
        Bound of ``"clip"``.

    Returns
    -------
    ndarray of shape (N, n, n)
        Matrices with a spectral radius below one; for ``"NONE"``, the least-squares solutions.
    """
    made = STABILIZERS[name](A, X, bound)
    return made if name == "NONE" else _inside(made)


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
    """UN: divide A by 1.5 until it is stable."""
    excess = np.maximum(np.log(np.maximum(spectral_radius(A), 1e-300) / _RADIUS) / np.log(1.5), 1)
    return A / 1.5 ** np.ceil(excess)[:, None, None]


def _minimal(A: Array, X: Array) -> list[Array]:
    """MN: a multiple of A (Huang, Cao, Sun, Zhao, Liu and Yu 2016); `_one_by_one` also tries it for all methods."""
    return []


def _hzp(A: Array, X: Array) -> list[Array]:
    """HZP: towards ``S V2'V1 S^-1``, similar to a product of two contractions."""
    s = np.linalg.norm(X, axis=1)
    V = X / s[:, None]
    return [_on_line(A, s[:, None] * (V[:, 1:] @ V[:, :-1].T) / s)]


def _constraint_generation(A: Array, X: Array) -> list[Array]:
    """CG: least squares under cuts ``u'Av < 1`` from leading singular pairs (Siddiqi, Boots and Gordon 2007)."""
    # |X2 - A X1|² is |(A - A_ls) (X1 X1')^½|² and a constant: the unknown e is that product, (n²,)
    root = _inverse_root(X[:, :-1] @ X[:, :-1].T)

    def back(e: Array) -> Array:
        return A + e.reshape(A.shape) @ root

    return _generate(back, lambda M: M, lambda u, v: np.outer(u, root @ v).ravel(), A.size)


def _weighted_least_squares(A: Array, X: Array) -> list[Array]:
    """WLS: least squares under cuts on ``S^-1 A S = P (Abar W) P'`` (Huang, Cao, Sun, Zhao, Liu and Yu 2016).

    With W full, ``Abar W`` is any matrix, so that only the norm in which the cuts are taken differs from CG.
    """
    s = np.linalg.norm(X, axis=1)
    root = _inverse_root(X[:, :-1] @ X[:, :-1].T)

    def back(e: Array) -> Array:
        return A + e.reshape(A.shape) @ root

    return _generate(back, lambda M: M / s[:, None] * s, lambda u, v: np.outer(u / s, root @ (s * v)).ravel(), A.size)


def _diagonally_weighted_least_squares(A: Array, X: Array) -> list[Array]:
    """DWLS: as WLS, with W diagonal: ``A = S P (Abar W) P' S^-1``, ``V1'V1 = P L P'``, ``Abar = P'V2'V1 P L^-1``."""
    s = np.linalg.norm(X, axis=1)
    V = X / s[:, None]
    L, P = np.linalg.eigh(V[:, :-1] @ V[:, :-1].T)
    Abar = P.T @ (A / s[:, None] * s) @ P  # least squares is W = I
    # the objective is sum_j length_j² (W_jj - 1)²: e are the changes of W in these units
    length = np.sqrt(np.maximum(L, 0)) * np.linalg.norm(s[:, None] * (P @ Abar), axis=0)
    length = np.maximum(length, 1e-12 * length.max())

    def back(e: Array) -> Array:
        return s[:, None] * (P @ (Abar * (1 + e / length)) @ P.T) / s

    def cut(u: Array, v: Array) -> Array:
        return (Abar.T @ (P.T @ u)) * (P.T @ v) / length

    return _generate(back, lambda M: M / s[:, None] * s, cut, len(s))


def _lb1(A: Array, X: Array) -> list[Array]:
    """LB1: least squares under ``sigma_max(A) <= 1``, a semidefinite program (Lacy and Bernstein 2002)."""
    n = len(A)
    # [[I, A], [A', I]] >= 0 says that no singular value is above one; the unknowns are the n² entries of A
    F = np.zeros((n, n, 2 * n, 2 * n))
    i, j = np.indices((n, n))
    F[i, j, i, n + j] = F[i, j, n + j, i] = 1
    # |X2 - A X1|² = tr A X1 X1' A' - 2 tr A X1 X2' + const, row by row of A
    H = np.kron(np.eye(n), X[:, :-1] @ X[:, :-1].T)
    g = X[:, 1:] @ X[:, :-1].T
    x = minimize_quadratic("LB1", H, g.ravel(), np.eye(2 * n), F.reshape(n * n, 2 * n, 2 * n))
    U, s, Vt = np.linalg.svd(x.reshape(n, n))
    return [(U * np.minimum(s, _RADIUS)) @ Vt]  # the constraint holds to the accuracy of the solver only


def _lb2(A: Array, X: Array) -> list[Array]:
    """LB2: ``min |Q - A P|`` under ``[[P - d I, Q], [Q', P]] >= 0``, then ``Q P^-1`` (Lacy and Bernstein 2003).

    The result does not depend on d > 0, which only scales P and Q; here it is 1. The program does not bound P, so that
    ``1e-6 |P|^2`` is added to the squared objective.
    """
    n = len(A)
    # unknowns: the lower triangle of P, and Q row by row; F are their matrices in [[P - I, Q], [Q', P]]
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
    x = minimize_quadratic("LB2", H, np.zeros(len(F)), F0, F)
    made = np.tensordot(x[: len(P)], P, 1)
    return [np.linalg.solve(made, x[len(P) :].reshape(n, n).T).T]


def _one_by_one(
    solve: Callable[[Array, Array], list[Array]],
    radius: Callable[[Array], Array] = spectral_radius,
    *,
    least_change: bool = False,
) -> Stabilizer:
    """Return a stabilizer that keeps systems with `radius` below one and calls `solve` for each other system.

    With `least_change`, the result is the matrix nearest to least squares among those of `solve`, the largest stable
    multiple of A, and A with its unstable eigenvalues scaled onto the bound. The distance is ``|(M - A) X1|``
    (Frobenius norm), whose square is the increase of the squared one-step error.
    """

    def stabilizer(A: Array, X: Array, bound: float) -> Array:
        made = A.copy()
        for i in np.flatnonzero(radius(A) > _RADIUS):
            rank = int(X[i].any(axis=1).sum())  # states of zeros come last
            a, x = A[i, :rank, :rank], X[i, :rank]
            tried = solve(a, x)
            if least_change:
                tried = [_inside(M) for M in (*tried, a, _scaled_eigenvalues(a))]
            made[i, :rank, :rank] = min(tried, key=lambda M, a=a, x=x: float(np.linalg.norm((M - a) @ x[:, :-1])))
        return made

    return stabilizer


def _inside(A: Array) -> Array:
    """Return A (..., n, n), or its largest multiple that is stable."""
    return A * np.minimum(1.0, _RADIUS / np.maximum(spectral_radius(A), _RADIUS))[..., None, None]


def _scaled_eigenvalues(A: Array) -> Array:
    """Return A with eigenvalues outside the bound scaled to the bound; inaccurate for parallel eigenvectors."""
    w, V = np.linalg.eig(A)
    outside = np.abs(w) > _RADIUS
    change = w[outside] * (_RADIUS / np.abs(w[outside]) - 1)
    return A + ((V[:, outside] * change) @ np.linalg.pinv(V)[outside]).real


def _on_line(unstable: Array, stable: Array) -> Array:
    """Return the first stable matrix on the line from an unstable one to a stable one, by bisection."""
    near, far = 0.0, 1.0
    while far - near > _BISECTION:
        middle = 0.5 * (near + far)
        if spectral_radius(unstable + middle * (stable - unstable)) > _RADIUS:
            near = middle
        else:
            far = middle
    return unstable + far * (stable - unstable)


def _generate(
    back: Callable[[Array], Array],
    image: Callable[[Array], Array],
    cut: Callable[[Array, Array], Array],
    size: int,
) -> list[Array]:
    """Return stable matrices near least squares by adding cuts until the solution is stable.

    The unknown e of `size` numbers is zero at least squares, and its squared length is the increase of the objective.
    ``back(e)`` is the matrix, ``image(A)`` the matrix whose singular values are cut, and ``cut(u, v) @ e`` the change
    of ``u' image(A) v``. Each round adds the cut of the leading singular pair. Cuts also exclude stable matrices. The
    results therefore lie on the lines to the first stable solution from the last unstable solution (Siddiqi, Boots and
    Gordon 2007) and from least squares; the latter is nearer if cuts move stable eigenvalues.
    """
    start = back(np.zeros(size))
    least = image(start)
    rows, limits = [], []
    last = made = start
    while spectral_radius(made) > _RADIUS and len(rows) < _MOST_CUTS:
        U, _, Vt = np.linalg.svd(image(made))
        rows.append(cut(U[:, 0], Vt[0]))
        limits.append(_CUT - U[:, 0] @ least @ Vt[0])
        last, made = made, back(_least_distance(-np.array(rows), -np.array(limits)))
    return [_on_line(last, made), _on_line(start, made)]


def _least_distance(G: Array, h: Array) -> Array:
    """Return the shortest x with ``G x >= h`` (Lawson and Hanson, Solving Least Squares Problems, chapter 23)."""
    # min |x| under G x >= h by non-negative least squares: with r = [G'; h'] u - [0; 1] at its solution x = -r / r_last
    length = np.linalg.norm(G, axis=1)
    G, h = G / length[:, None], h / length
    scale = np.abs(h).max()
    E = np.vstack([G.T, h / scale])
    target = np.zeros(len(E))
    target[-1] = 1
    dual, _ = nnls(E, target)
    residual = E @ dual - target
    return -scale * residual[:-1] / residual[-1]


def _inverse_root(G: Array) -> Array:
    w, W = np.linalg.eigh(G)
    return (W / np.sqrt(np.maximum(w, 1e-14 * w[-1]))) @ W.T


STABILIZERS: dict[str, Stabilizer] = {
    "SN": _soft_normalization,
    "clip": _clip,
    "UN": _uniform,
    "MN": _one_by_one(_minimal, least_change=True),
    "HZP": _one_by_one(_hzp, least_change=True),
    "WLS": _one_by_one(_weighted_least_squares, least_change=True),
    "DWLS": _one_by_one(_diagonally_weighted_least_squares, least_change=True),
    "CG": _one_by_one(_constraint_generation, least_change=True),
    "LB1": _one_by_one(_lb1, lambda A: np.linalg.norm(A, 2, axis=(1, 2))),
    "LB2": _one_by_one(_lb2),
    "NONE": lambda A, X, bound: A,
}
_CLOSE = ("CG", "WLS", "DWLS", "MN", "HZP", "NONE")
"""These stabilizers keep stable systems and change unstable systems little; the others also damp stable systems."""


def stabilizer_of_forecasts(name: str | None) -> str:
    """Return the stabilizer for forecasts: CG if the selected stabilizer damps stable systems."""
    name = name or "NONE"
    return name if name in _CLOSE else "CG"
