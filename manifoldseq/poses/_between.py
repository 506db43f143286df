"""Residuals between two poses of SE(2) or SE(3), with their derivatives in closed form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..losses import Loss
from ..objectives import Residuals, residuals

Pose = tuple[np.ndarray, np.ndarray]


def between(
    rotations: np.ndarray, translations: np.ndarray, on: Any, *, loss: Loss | str | None = None, weights: Any = None
) -> Residuals:
    """Return the residuals log(Z⁻¹ Xᵢ⁻¹ Xⱼ) of measured relative poses Z, rotation first.

    Parameters
    ----------
    rotations : ndarray of shape (K, d, d)
        Rotations of the measured relative poses, d = 2 or 3.
    translations : ndarray of shape (K, d)
    on : tuple
        The slots (i, j), see :func:`manifoldseq.residuals`, of points of ``SpecialEuclidean(d) ** n``.
    loss : Loss or str, optional
    weights : array, optional
        Inverse standard deviations (3,) or (6,), (K, m), or square roots of information matrices (K, m, m).

    Returns
    -------
    Residuals
        K residuals of 3 or 6 entries: the rotation vector (the angle in the plane), then the translation of the
        logarithm. The derivative of the logarithm is included.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> i, j, step = np.array([0, 1]), np.array([1, 2]), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> quarter = np.stack([np.array([[0.0, -1.0], [1.0, 0.0]])] * 2)
    >>> M = ms.manifolds.Power(ms.manifolds.SpecialEuclidean(2), 3, fixed=[0])
    >>> problem = ms.Problem(M, ms.least_squares(ms.poses.between(quarter, step, (i, j))))
    >>> start = np.stack([np.eye(2)] * 3), np.zeros((3, 2))
    >>> (ms.minimize(problem, start).x[1].round(6) + 0.0).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """
    Z, p = np.asarray(rotations, float), np.asarray(translations, float)
    if Z.ndim != 3 or Z.shape[1:] not in ((2, 2), (3, 3)) or p.shape != Z.shape[:2]:
        raise ValueError(
            f"rotations of shape {Z.shape} and translations of shape {p.shape}: pass (K, d, d) and (K, d) with d = 2 "
            "or 3"
        )
    value, both = (_value_2, _both_2) if Z.shape[1] == 2 else (_value_3, _both_3)
    Zt = np.ascontiguousarray(Z.mT)
    return residuals(partial(value, Zt, p), value_and_jacobian=partial(both, Zt, p), on=on, loss=loss, weights=weights)


def _times(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (A @ v[..., None])[..., 0]


def _error(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> tuple[np.ndarray, ...]:
    """Return Xᵢ⁻¹ Xⱼ = (h, u) and Z⁻¹ Xᵢ⁻¹ Xⱼ = (E, e)."""
    (Ri, ti), (Rj, tj) = first, second
    h, u = Ri.mT @ Rj, _times(Ri.mT, tj - ti)
    return h, u, Zt @ h, _times(Zt, u - p)


def cross_matrix(w: np.ndarray) -> np.ndarray:
    """Return the matrices of the cross products with vectors (…, 3)."""
    W = np.zeros((*w.shape, 3))
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    W[..., 0, 1], W[..., 0, 2], W[..., 1, 2] = -z, y, -x
    W[..., 1, 0], W[..., 2, 0], W[..., 2, 1] = z, -y, x
    return W


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """Return rotation vectors, exact next to the angles 0 and π: through the quaternion with the largest entry."""
    d0, d1, d2 = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    squares = np.stack([1 + d0 + d1 + d2, 1 + d0 - d1 - d2, 1 - d0 + d1 - d2, 1 - d0 - d1 + d2], -1)
    a, b, c = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    s, t, u = R[..., 1, 0] + R[..., 0, 1], R[..., 0, 2] + R[..., 2, 0], R[..., 2, 1] + R[..., 1, 2]
    q0, q1, q2, q3 = np.moveaxis(squares, -1, 0)
    rows = [[q0, a, b, c], [a, q1, s, t], [b, s, q2, u], [c, t, u, q3]]
    Q = np.stack([np.stack(row, -1) for row in rows], -2)
    q = np.take_along_axis(Q, squares.argmax(-1)[..., None, None], -2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    q = np.where(q[..., :1] < 0, -q, q)
    sine = np.linalg.norm(q[..., 1:], axis=-1)
    angle = 2 * np.arctan2(sine, q[..., 0])
    factor = np.where(sine > 1e-8, angle / np.where(sine > 1e-8, sine, 1.0), 2.0)
    return factor[..., None] * q[..., 1:]


def _left_inverse(w: np.ndarray, W: np.ndarray, WW: np.ndarray) -> np.ndarray:
    """Return the inverse of the left Jacobian of SO(3)."""
    square = (w * w).sum(-1)
    angle = np.sqrt(square)
    small = angle < 1e-4
    t = np.where(small, 1.0, angle)
    c = np.where(small, 1 / 12 + square / 720, 1 / (t * t) - (1 + np.cos(t)) / (2 * t * np.sin(t)))
    return np.eye(3) - 0.5 * W + c[..., None, None] * WW


def _mixed(w: np.ndarray, v: np.ndarray, W: np.ndarray, WW: np.ndarray) -> np.ndarray:
    """Return Q(w, v), the lower left block of the left Jacobian of SE(3) (Barfoot 2017, equation 7.86)."""
    V = cross_matrix(v)
    square = (w * w).sum(-1)
    angle = np.sqrt(square)
    small = angle < 1e-2
    t = np.where(small, 1.0, angle)
    sine, cosine = np.sin(t), np.cos(t)
    a = np.where(small, 1 / 6 - square / 120, (t - sine) / t**3)
    b = np.where(small, 1 / 24 - square / 720, (t * t + 2 * cosine - 2) / (2 * t**4))
    d = np.where(small, 1 / 120 - square / 2520, (2 * t - 3 * sine + t * cosine) / (2 * t**5))
    a, b, d = (factor[..., None, None] for factor in (a, b, d))
    WV, VW = W @ V, V @ W
    WVW = WV @ W
    return 0.5 * V + a * (WV + VW + WVW) + b * (W @ WV + VW @ W - 3 * WVW) + d * (WVW @ W + W @ WVW)


def _value_3(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> np.ndarray:
    _, _, E, e = _error(Zt, p, first, second)
    w = rotation_vector(E)
    W = cross_matrix(w)
    return np.concatenate([w, _times(_left_inverse(w, W, W @ W), e)], -1)


def _both_3(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> tuple[np.ndarray, list[np.ndarray]]:
    h, u, E, e = _error(Zt, p, first, second)
    w = rotation_vector(E)
    W = cross_matrix(w)
    WW = W @ W
    left = _left_inverse(w, W, WW)
    v = _times(left, e)
    # the right Jacobian's inverse at ξ = (w, v) is the left one's at −ξ: blocks Jᵀ, and −Jᵀ Q(−w, −v) Jᵀ below
    right = left.mT
    below = -right @ _mixed(-w, -v, -W, WW) @ right
    # tangent vectors of the point are (R ω×, R's own axes of t): ω/√2 in the orthonormal basis, and v = Rᵀ dt.
    # dξ = Jr⁻¹ (second's twist − Ad(h⁻¹) first's twist), Ad(h⁻¹) = [[A, 0], [a× A, A]] with A = hᵀ, a = −A u
    A = h.mT
    aA = cross_matrix(-_times(A, u)) @ A
    half = np.sqrt(0.5)
    J = np.zeros((2, len(w), 6, 6))
    J[1, :, :3, :3], J[1, :, 3:, :3], J[1, :, 3:, 3:] = half * right, half * below, right @ second[0].mT
    J[0, :, :3, :3], J[0, :, 3:, :3] = -half * (right @ A), -half * (below @ A + right @ aA)
    J[0, :, 3:, 3:] = -J[1, :, 3:, 3:]  # A Rᵢᵀ = Rⱼᵀ
    return np.concatenate([w, v], -1), [J[0], J[1]]


def _plane(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> tuple[np.ndarray, ...]:
    _, u, E, e = _error(Zt, p, first, second)
    angle = np.arctan2(E[:, 1, 0], E[:, 0, 0])
    half = angle / 2
    small = np.abs(half) < 1e-4
    t = np.where(small, 1.0, half)
    # c = (θ/2) cot(θ/2) and its derivative by θ
    c = np.where(small, 1 - half * half / 3, t / np.tan(t))
    slope = np.where(small, -half / 3, 0.5 / np.tan(t) - 0.5 * t / np.sin(t) ** 2)
    v = np.stack([c * e[:, 0] + half * e[:, 1], -half * e[:, 0] + c * e[:, 1]], -1)
    return angle, half, c, slope, u, e, v


def _value_2(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> np.ndarray:
    angle, *_, v = _plane(Zt, p, first, second)
    return np.concatenate([angle[:, None], v], -1)


def _both_2(Zt: np.ndarray, p: np.ndarray, first: Pose, second: Pose) -> tuple[np.ndarray, list[np.ndarray]]:
    angle, half, c, slope, u, e, v = _plane(Zt, p, first, second)
    inverse = np.stack([np.stack([c, half], -1), np.stack([-half, c], -1)], -2)
    by_angle = np.stack([slope * e[:, 0] + 0.5 * e[:, 1], -0.5 * e[:, 0] + slope * e[:, 1]], -1)
    by_t = inverse @ Zt @ first[0].mT  # e = Zᵀ (Rᵢᵀ (tⱼ − tᵢ) − p)
    turned = np.stack([u[:, 1], -u[:, 0]], -1)  # the derivative of Rᵢᵀ (tⱼ − tᵢ) by the angle of Rᵢ
    root = np.sqrt(0.5)
    J = np.zeros((2, len(angle), 3, 3))
    J[1, :, 0, 0], J[1, :, 1:, 0], J[1, :, 1:, 1:] = root, root * by_angle, by_t
    J[0, :, 0, 0], J[0, :, 1:, 1:] = -root, -by_t
    J[0, :, 1:, 0] = root * (-by_angle + _times(inverse @ Zt, turned))
    return np.concatenate([angle[:, None], v], -1), [J[0], J[1]]
