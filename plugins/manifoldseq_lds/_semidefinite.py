"""A small interior-point method: quadratic functions under one linear matrix inequality. scipy has none."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Array = NDArray[np.float64]

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
