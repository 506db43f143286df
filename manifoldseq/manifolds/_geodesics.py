"""Geodesics, logarithms and parallel transports in closed form, over leading axes, computed in float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..linalg import eigh, polar, symmetric


def skew_exponential(A: np.ndarray) -> np.ndarray:
    """Return the rotation ``expm(A)`` of skew-symmetric A, through the eigenvalues of the Hermitian iA."""
    # iA = Q diag(w) Q* with real w, so that A = Q diag(−iw) Q* and expm(A) = Q diag(exp(−iw)) Q*
    w, Q = eigh(1j * A.astype(np.float64, copy=False))
    return np.real((Q * np.exp(-1j * w)[..., None, :]) @ Q.conj().swapaxes(-1, -2))


def growth(z: np.ndarray) -> np.ndarray:
    """Return exp(z), limited to the range from √eps to 1/√eps, because longer steps would overflow."""
    longest = -0.5 * np.log(np.finfo(z.dtype).eps)
    return np.exp(np.clip(z, -longest, longest))


def stiefel_generator(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the skew-symmetric ``[[A, -Bᵀ], [B, 0]]``."""
    rest = np.zeros((*B.shape[:-1], B.shape[-2]))
    return np.concatenate(
        [np.concatenate([A, -B.swapaxes(-1, -2)], axis=-1), np.concatenate([B, rest], axis=-1)], axis=-2
    )


def stiefel_geodesic(X: np.ndarray, U: np.ndarray, metric: str = "embedded") -> np.ndarray:
    """Return the end of the geodesic of the embedded or the canonical metric from X with velocity U, at time one.

    ``[X, Q] expm([[2A, -Rᵀ], [R, 0]])[:, :p] expm(-A)`` with ``A = XᵀU`` and ``QR = U - XA``: one exponential of size
    2p, of a skew-symmetric matrix (Zimmermann and Hüper 2022, Euclidean metric); ``X expm(A)`` for square X. Canonical:
    ``[X, Q] expm([[A, -Rᵀ], [R, 0]])[:, :p]`` (Edelman, Arias, Smith 1998, corollary 2.2).
    """
    p = X.shape[-1]
    base, velocity = X.astype(np.float64, copy=False), U.astype(np.float64, copy=False)
    # A = XᵀU is skew for a tangent vector; its symmetric part is rounding
    A = base.swapaxes(-1, -2) @ velocity
    A = 0.5 * (A - A.swapaxes(-1, -2))
    if X.shape[-2] == p:
        return polar(base @ skew_exponential(A)).astype(X.dtype, copy=False)
    # the part of U orthogonal to span X: the geodesic stays in the span of [X, Q], where 2p×2p exponentials give it
    Q, R = np.linalg.qr(velocity - base @ A)
    base = np.broadcast_to(base, (*Q.shape[:-1], p))
    if metric == "canonical":
        end = np.concatenate([base, Q], axis=-1) @ skew_exponential(stiefel_generator(A, R))[..., :p]
    else:
        rotation = skew_exponential(stiefel_generator(2 * A, R))[..., :p]
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


class Arc(NamedTuple):
    """The shortest great circle between unit vectors: its angle, and its direction at the start, a unit vector."""

    angle: np.ndarray
    direction: np.ndarray


def great_circle(x: np.ndarray, y: np.ndarray, axes: tuple[int, ...]) -> Arc:
    """Return the shortest great circle from x to y, unit vectors over `axes`; between antipodes one of many.

    Accurate for angles near zero and near π alike: Kahan's formula ``2 atan2(|x − y|, |x + y|)``.
    """
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.sum(a * b, axis=axes, keepdims=True)

    chord, rest = y - x, y + x
    angle = 2 * np.arctan2(np.sqrt(dot(chord, chord)), np.sqrt(dot(rest, rest)))
    # the part of y orthogonal to x, from the shorter one of y − x and y + x so that nothing cancels
    side = np.where(angle > np.pi / 2, rest, chord)
    side = side - x * dot(x, side)
    if np.any(angle > 3):
        # at the antipode nothing but rounding is left: the coordinate axis that is farthest from x shows the way there
        flat = np.moveaxis(x, axes, tuple(range(-len(axes), 0)))
        shape = flat.shape[: flat.ndim - len(axes)]
        flat = flat.reshape(*shape, -1)
        axis = np.eye(flat.shape[-1])[np.abs(flat).argmin(axis=-1)].reshape(*shape, *(x.shape[a] for a in axes))
        other = np.moveaxis(axis, tuple(range(-len(axes), 0)), axes)
        other = other - x * dot(x, other)
        side = np.where(dot(rest, rest) < 1e-28, other, side)
    length = np.sqrt(dot(side, side))
    return Arc(angle, np.divide(side, length, out=np.zeros_like(side), where=length > 0))


def carried_along(arc: Arc, x: np.ndarray, u: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return tangent vectors at x after parallel transport to the end of the great circle."""
    # the component along the circle turns with it, the others stay
    along = np.sum(arc.direction * u, axis=axes, keepdims=True)
    half = np.sin(arc.angle / 2)
    return u - along * (2 * half**2 * arc.direction + np.sin(arc.angle) * x)


_NEAR_HALF_A_TURN = 50.0
"""Tangent of half an angle from which logarithms are computed by the Schur decomposition."""


def rotation_logarithm(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the shortest skew-symmetric Ω with ``X expm(Ω) = Y`` of orthogonal X, Y; NaN for another determinant.

    The Cayley transform ``(XᵀY − I)(XᵀY + I)⁻¹`` has the eigenvectors of Ω and the eigenvalues ``i tan(θ/2)``; near
    half a turn, where the eigenvalues are large, the real Schur decomposition is used for full accuracy. For a half
    turn, one of the two logarithms is returned.
    """
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    X, Y = np.broadcast_arrays(X, Y)
    n = X.shape[-1]
    turn = X.mT @ (Y - X)  # XᵀY − I, without cancellation
    flat = np.ascontiguousarray(turn).reshape(-1, n, n)
    finite = np.isfinite(flat).all(axis=(-2, -1))
    # 1 + cos θ, the eigenvalues of the symmetric part of XᵀY + I, tell how near an angle is to half a turn
    slow = np.zeros(len(flat), bool)
    least = np.linalg.eigvalsh(symmetric(flat[finite]))[:, 0] + 2
    slow[finite] = least < 2 / (1 + _NEAR_HALF_A_TURN**2)
    fast = finite & ~slow
    result = np.full(flat.shape, np.nan)
    part = flat[fast]
    cayley = np.linalg.solve(part + 2 * np.eye(n), part)
    w, V = np.linalg.eigh(-0.5j * (cayley - cayley.mT))
    result[fast] = np.real((V * (2j * np.arctan(w))[:, None, :]) @ V.conj().mT)
    for k in np.flatnonzero(slow):
        result[k] = _logarithm_by_schur(flat[k] + np.eye(n))
    result = 0.5 * (result - result.mT)
    return result.reshape(turn.shape)


def _logarithm_by_schur(Q: np.ndarray) -> np.ndarray:
    """Return the shortest real logarithm of one orthogonal matrix; NaN if its determinant is negative."""
    T, Z, *_ = scipy.linalg.schur(Q)
    n = len(Q)
    angles = np.zeros((n, n))
    turned = []  # columns of eigenvalue −1: any two of them span a plane that turns by π
    k = 0
    while k < n:
        if k + 1 < n and abs(T[k + 1, k]) > 1e-12:
            angles[k + 1, k] = np.arctan2(T[k + 1, k] - T[k, k + 1], T[k, k] + T[k + 1, k + 1])
            k += 2
        else:
            turned += [k] if T[k, k] < 0 else []
            k += 1
    if len(turned) % 2:
        return np.full((n, n), np.nan)
    for a, b in zip(turned[::2], turned[1::2], strict=True):
        angles[b, a] = np.pi
    return Z @ (angles - angles.T) @ Z.T


def inverse_polar(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the tangent vector U at X with ``polar(X + U) = Y``, or NaN if there is none.

    ``U = Y S − X`` with the solution S of ``(XᵀY) S + S (XᵀY)ᵀ = 2 I``, if it is positive definite (Kaneko, Fiori,
    Tanaka, "Empirical arithmetic averaging over the compact Stiefel manifold", 2013). One Lyapunov equation per pair.
    """
    x, y = np.broadcast_arrays(X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False))
    p = x.shape[-1]
    S = np.full((*x.shape[:-2], p, p), np.nan)
    for k in np.ndindex(x.shape[:-2]):
        M = x[k].T @ y[k]
        # of all M in question: positive definite S needs eigenvalues with positive real part
        if np.isfinite(M).all() and np.linalg.eigvals(M).real.min() > 1e-12:
            S[k] = scipy.linalg.solve_continuous_lyapunov(M, 2 * np.eye(p))
    return (y @ S - x).astype(X.dtype, copy=False)


def inverse_cayley(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the tangent vector U at X whose Cayley retraction is Y, or NaN if ``I + XᵀY`` is singular.

    ``2 Y S + 2 X Sᵀ − 2 X`` with ``S = (I + XᵀY)⁻¹`` (Zhu and Sato, "Riemannian conjugate gradient methods with inverse
    retraction", 2020).
    """
    x, y = np.broadcast_arrays(X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False))
    half = np.eye(x.shape[-1]) + x.mT @ y
    W, s, Vt = _svd(half)
    with np.errstate(divide="ignore"):
        S = (Vt.mT * np.where(s > 1e-12, 1 / s, np.nan)[..., None, :]) @ W.mT
    return (2 * (y @ S + x @ (S.mT - np.eye(x.shape[-1])))).astype(X.dtype, copy=False)


class Aligned(NamedTuple):
    """Two bases of subspaces in terms of their principal angles θ.

    The basis at the end, turned to the one nearest to the start, is ``X R diag(cos θ) Rᵀ + W Rᵀ`` with ``|W_k| =
    sin θ_k``.
    """

    W: np.ndarray
    R: np.ndarray
    angle: np.ndarray
    turn: np.ndarray


def aligned(X: np.ndarray, Y: np.ndarray) -> Aligned:
    """Return the principal angles between span X and span Y, with accurate vectors near zero and near π/2."""
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    chord = Y - X
    C = X.mT @ chord + np.eye(X.shape[-1])  # XᵀY
    P, c, Qt = _svd(C)
    turn = Qt.mT @ P.mT  # Y turn is the basis of span Y nearest to X
    M = (P * c[..., None, :]) @ P.mT  # Xᵀ Y turn, with eigenvalues cos θ
    L = (chord - X @ (X.mT @ chord)) @ turn  # the part of Y turn orthogonal to X, with singular values sin θ
    # sin θ − cos θ tells all angles of [0, π/2] apart, where each of the two alone has multiple ones at an end
    _, s, Vt = _svd(L)
    _, R = eigh((Vt.mT * s[..., None, :]) @ Vt - M)
    W = L @ R
    angle = np.arctan2(np.sqrt(np.sum(W * W, axis=-2)), np.sqrt(np.sum((M @ R) ** 2, axis=-2)))
    return Aligned(W, R, angle, turn)


def grassmann_logarithm(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the horizontal velocity at X of the shortest geodesic from span X to span Y.

    The method uses the singular values of ``(I − XXᵀ) Y`` (Bendokat, Zimmermann, Absil, "A Grassmann manifold
    handbook", 2024, algorithm 5.3), here with eigenvectors that are accurate for all principal angles.
    """
    W, R, angle, _ = aligned(X, Y)
    return (W / np.sinc(angle / np.pi)[..., None, :]) @ R.mT


def grassmann_transport(X: np.ndarray, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return U, horizontal at X, after parallel transport along the shortest geodesic to span Y, at the basis Y.

    Edelman, Arias, Smith 1998, theorem 2.4, written without division by small sines.
    """
    W, R, angle, turn = aligned(X, Y)
    along = W.mT @ U
    # −X R sin θ Ŵᵀ + Ŵ (cos θ − 1) Ŵᵀ of the unit vectors Ŵ = W / sin θ
    return (U - X @ (R @ along) - W @ (along / (1 + np.cos(angle))[..., None])) @ turn.mT


def _svd(M: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the thin singular value decomposition, or NaN if M is not finite, because NumPy raises for the batch."""
    finite = np.asarray(np.isfinite(M).all(axis=(-2, -1), keepdims=True))
    W, s, Vt = np.linalg.svd(np.where(finite, M, 0), full_matrices=False)
    return np.where(finite, W, np.nan), np.where(finite[..., 0], s, np.nan), np.where(finite, Vt, np.nan)
