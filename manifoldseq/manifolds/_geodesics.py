"""Geodesics in closed form, over leading axes."""

from __future__ import annotations

import numpy as np

from ..linalg._eigen import eigh
from ..linalg._polar import polar


def skew_exponential(A: np.ndarray) -> np.ndarray:
    """Return the rotation ``expm(A)`` of skew-symmetric A, through the eigenvalues of the Hermitian iA."""
    # iA = Q diag(w) Q* with real w, so that A = Q diag(−iw) Q* and expm(A) = Q diag(exp(−iw)) Q*
    w, Q = eigh(1j * A.astype(np.float64, copy=False))
    return np.real((Q * np.exp(-1j * w)[..., None, :]) @ Q.conj().swapaxes(-1, -2))


def growth(z: np.ndarray) -> np.ndarray:
    """Return exp(z), by no more than 1/√eps up or down: longer steps would leave the range of numbers, not help."""
    longest = -0.5 * np.log(np.finfo(z.dtype).eps)
    return np.exp(np.clip(z, -longest, longest))


def stiefel_geodesic(X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return the end of the geodesic of the embedded metric from X with velocity U, at time one.

    ``[X, Q] expm([[2A, -Rᵀ], [R, 0]])[:, :p] expm(-A)`` with ``A = XᵀU`` and ``QR = U - XA``: one exponential of size
    2p, of a skew-symmetric matrix (Zimmermann and Hüper 2022, Euclidean metric); ``X expm(A)`` for square X.
    """
    p = X.shape[-1]
    base, velocity = X.astype(np.float64, copy=False), U.astype(np.float64, copy=False)
    # A = XᵀU is skew for a tangent vector; its symmetric part is rounding
    A = base.swapaxes(-1, -2) @ velocity
    A = 0.5 * (A - A.swapaxes(-1, -2))
    if X.shape[-2] == p:
        return polar(base @ skew_exponential(A)).astype(X.dtype, copy=False)
    # the part of U beside span X: the geodesic stays in the span of [X, Q], where 2p×2p exponentials give it
    Q, R = np.linalg.qr(velocity - base @ A)
    generator = np.concatenate(
        [
            np.concatenate([2 * A, -R.swapaxes(-1, -2)], axis=-1),
            np.concatenate([R, np.zeros_like(R)], axis=-1),
        ],
        axis=-2,
    )
    rotation = skew_exponential(generator)[..., :p]
    end = np.concatenate([base, Q], axis=-1) @ rotation @ skew_exponential(-A)
    # the polar factor takes off the rounding of the exponentials
    return polar(end).astype(X.dtype, copy=False)


def grassmann_geodesic(X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return the end of the geodesic from span X with horizontal velocity U (XᵀU = 0), at time one.

    ``X cos(√S) + U sinc(√S)`` with ``S = UᵀU``: the form by the thin SVD of U (Edelman, Arias, Smith 1998, theorem 2.3)
    with only p×p eigenvectors, since both functions are even.
    """
    base, velocity = X.astype(np.float64, copy=False), U.astype(np.float64, copy=False)
    # UᵀU = V diag(w) Vᵀ, p×p: the square roots of w are the principal angles that the step turns by
    w, V = eigh(velocity.swapaxes(-1, -2) @ velocity)
    angle = np.sqrt(np.maximum(w, 0))[..., None, :]
    end = (base @ (V * np.cos(angle)) + velocity @ (V * np.sinc(angle / np.pi))) @ V.swapaxes(-1, -2)
    return polar(end).astype(X.dtype, copy=False)
