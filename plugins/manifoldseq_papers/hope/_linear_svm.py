"""Linear support vector machines, one class against all others: squared hinge loss, solved to a duality gap."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk, ssyrk  # pyright: ignore[reportAttributeAccessIssue]

from manifoldseq.execution import one_blas_thread

from ._digits import Array

_STEPS = 50
"""Maximum number of Newton steps; about ten are enough."""
_ROWS = 4096
_SEARCH = 40


@dataclass(frozen=True)
class Machines:
    """One linear machine per class.

    Attributes
    ----------
    weight : ndarray of shape (classes, d + 1)
        The last column is the bias: the weight of a constant feature of value one, which is regularized as well.
    gap : float
        Largest duality gap of the machines, relative to the objective.
    """

    weight: Array
    gap: float

    def scores(self, X: Array) -> Array:
        """Return the scores of the classes, (N, classes)."""
        weight = self.weight.astype(X.dtype)
        return X @ weight[:, :-1].T + weight[:, -1]


@one_blas_thread()
def machines(
    X: Array, labels: NDArray[np.int64], C: float, *, gap: float = 1e-4, start: Machines | None = None
) -> Machines:
    """Minimize ``|w|^2 / 2 + C sum(max(0, 1 - y (x w))^2)`` for each class, y = 1 in the class and -1 elsewhere.

    The solver takes Newton steps with an exact line search; only rows within the margin contribute to the Hessian. The
    dual variables ``2 C max(0, 1 - y f)`` at w have the duality gap ``|gradient|^2 / 2``, which needs no further
    computation.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        Products of float32 rows are computed in float32.
    labels : ndarray of int of shape (N,)
        0 to classes - 1.
    C : float
    gap : float
        Duality gap, relative to the objective, at which the iteration stops.
    start : Machines, optional
        Starting point, such as the solution for another C.

    References
    ----------
    Keerthi, DeCoste, JMLR 6 (2005), "A modified finite Newton method for fast solution of large scale linear SVMs".
    """
    N, d = X.shape
    n_classes = int(labels.max()) + 1
    weight = np.zeros((n_classes, d + 1)) if start is None else start.weight.copy()
    scores = np.zeros((N, n_classes)) if start is None else Machines(weight, 0.0).scores(X).astype(np.float64)
    c, gaps, shared = 2 * C, np.zeros(n_classes), None
    for k in range(n_classes):
        y = np.where(labels == k, 1.0, -1.0)
        w, f = weight[k], scores[:, k]
        for step in range(_STEPS):
            margin = np.maximum(1 - y * f, 0)
            gradient = w - c * _back(X, y * margin)
            objective = 0.5 * w @ w + 0.5 * c * margin @ margin
            gaps[k] = 0.5 * gradient @ gradient / objective
            if gaps[k] <= gap or step == _STEPS - 1:
                break
            inside = np.flatnonzero(margin)
            if len(inside) == N:  # as at zero: the same for all classes
                shared = cho_factor(_hessian(X, None, c), overwrite_a=True) if shared is None else shared
                factor = shared
            else:
                factor = cho_factor(_hessian(X, inside, c), overwrite_a=True)
            move = -cho_solve(factor, gradient)
            along = Machines(move[None], 0.0).scores(X)[:, 0].astype(np.float64)
            t = _least(w, move, 1 - y * f, y * along, c)
            w += t * move
            f += t * along
    return Machines(weight, float(gaps.max()))


def _back(X: Array, a: Array) -> Array:
    """Return X' a and the sum of a, in float64 over blocks of rows."""
    found = np.zeros(X.shape[1] + 1)
    used = np.flatnonzero(a)
    a32 = a.astype(X.dtype)
    few = len(used) < 0.2 * len(X)
    for start in range(0, len(used) if few else len(X), _ROWS):
        part = used[start : start + _ROWS] if few else slice(start, start + _ROWS)
        found[:-1] += a32[part] @ X[part]
    found[-1] = a.sum()
    return found


def _hessian(X: Array, rows: NDArray[np.intp] | None, c: float) -> Array:
    """Return I + c [x, 1]' [x, 1], the upper triangle, summed over rows in float64."""
    d = X.shape[1]
    found = np.zeros((d + 1, d + 1))
    n = len(X) if rows is None else len(rows)
    product = ssyrk if X.dtype == np.float32 else dsyrk
    for start in range(0, n, 4 * _ROWS):
        some = slice(start, start + 4 * _ROWS)
        part = X[some] if rows is None else X[rows[some]]
        found[:-1, :-1] += product(1.0, part.T)  # part.T is in Fortran's order: not copied
        found[:-1, -1] += part.sum(axis=0, dtype=np.float64)
    found[-1, -1] = n
    found *= c
    found.flat[:: d + 2] += 1
    return found


def _least(w: Array, move: Array, margin: Array, along: Array, c: float) -> float:
    """Return the t that minimizes the objective at w + t move; its derivative increases and is piecewise linear."""
    a, b, t = float(w @ move), float(move @ move), 1.0
    low, high = 0.0, np.inf
    for _ in range(_SEARCH):
        left = margin - t * along
        inside = left > 0
        slope = a + t * b - c * float(left[inside] @ along[inside])
        if slope > 0:
            high = t
        else:
            low = t
        new = t - slope / (b + c * float(along[inside] @ along[inside]))
        if not low <= new <= high:
            new = 0.5 * (low + high) if np.isfinite(high) else 2 * t
        if abs(new - t) <= 1e-10 * max(1.0, t):
            return new
        t = new
    return t
