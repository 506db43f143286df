"""The Cayley curve on matrices with orthonormal columns: (16) and (17) of the LDS paper, after Wen and Yin (2013)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._polar import orthonormality, polar

DRIFT = 1e-13
"""Re-orthonormalize a Cayley iterate whose ``max |XᵀX − I|`` exceeds this (float64; 1e-6 in float32)."""


def cayley(X: np.ndarray, G: np.ndarray, tau: float) -> np.ndarray:
    """Move along the Cayley curve ``(I + τ/2 W)⁻¹ (I − τ/2 W) X`` with ``W = G Xᵀ − X Gᵀ``.

    The low-rank form needs one 2p×2p solve: ``X − τ L (I + τ/2 RᵀL)⁻¹ RᵀX`` with ``L = [G, X]``, ``R = [X, −G]``; for
    square or nearly square X the n×n solve is used. W is skew-symmetric for any G, so the columns stay orthonormal.
    Source: equations (16), (17) of "Efficient Optimization for Linear Dynamical Systems" (2017).

    Parameters
    ----------
    X : ndarray, shape (..., n, p)
        Orthonormal columns.
    G : ndarray, shape (..., n, p)
        Euclidean gradient; the curve descends for ``tau > 0`` with slope ``−½‖W‖²``.
    tau : float
        Step size.

    Returns
    -------
    ndarray, shape (..., n, p)

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> X = np.eye(3)[:, :2]
    >>> Y = ms.linalg.cayley(X, np.ones((3, 2)), 0.1)
    >>> bool(np.allclose(Y.T @ Y, np.eye(2)))
    True
    """
    return cayley_curve(X, G)(tau)


def cayley_curve(X: np.ndarray, G: np.ndarray) -> Callable[[float], np.ndarray]:
    """Return ``tau -> cayley(X, G, tau)`` with the blocks ``XᵀG`` and ``GᵀG`` computed once for a whole line search."""
    n, p = X.shape[-2:]
    Xt, Gt = X.swapaxes(-1, -2), G.swapaxes(-1, -2)
    threshold = 1e-6 if X.dtype == np.float32 else DRIFT

    def finish(Y: np.ndarray) -> np.ndarray:
        return polar(Y) if np.max(orthonormality(Y)) > threshold else Y

    # square or nearly so: solve the n×n system (I + τ/2 W) Y = (I − τ/2 W) X of (16) as it is printed
    if n <= 2 * p:
        half = 0.5 * (G @ Xt - X @ Gt)
        eye = np.eye(n, dtype=X.dtype)

        def square(tau: float) -> np.ndarray:
            W = half * X.dtype.type(tau)
            return finish(np.linalg.solve(eye + W, X - W @ X))

        return square

    # tall: W = L Rᵀ with L = [G, X] and R = [X, −G], both n×2p; by the Sherman–Morrison–Woodbury formula (17) is
    # X − τ L (I + τ/2 RᵀL)⁻¹ RᵀX, with the 2p×2p matrix RᵀL = [[XᵀG, XᵀX], [−GᵀG, −GᵀX]]
    XtG = Xt @ G
    GtX, GtG = XtG.swapaxes(-1, -2), Gt @ G
    XtX = Xt @ X  # not I: exact for the actual X, so that the generator stays skew
    L = np.concatenate([G, X], axis=-1)
    RtL = np.concatenate(
        [np.concatenate([XtG, XtX], axis=-1), np.concatenate([-GtG, -GtX], axis=-1)],
        axis=-2,
    )
    RtX = np.concatenate([XtX, -GtX], axis=-2)
    eye = np.eye(2 * p, dtype=X.dtype)

    def low_rank(tau: float) -> np.ndarray:
        t = X.dtype.type(tau)
        return finish(X - t * (L @ np.linalg.solve(eye + (t / 2) * RtL, RtX)))

    return low_rank


def cayley_retraction(X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Retract the tangent vector U: the Cayley curve whose generator W satisfies ``W X = U``, at step one."""
    # with P = I − ½ X Xᵀ, W = P U Xᵀ − X Uᵀ P has W X = U for tangent U (Wen and Yin 2013)
    G = U - 0.5 * (X @ (X.swapaxes(-1, -2) @ U))
    return cayley_curve(X, -G)(1.0)
