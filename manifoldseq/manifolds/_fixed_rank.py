"""Tangent vectors of the fixed-rank matrices as velocities of the three factors of a singular value decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg._polar import polar, symmetric
from ._pymanopt import pymanopt

Three = tuple[np.ndarray, np.ndarray, np.ndarray]


class FixedRankVectors:
    """Between ``(du, ds, dvt)`` at a point ``(u, s, vt)`` and pymanopt's ``(Up, M, Vp)`` of the same matrix velocity

    ``du diag(s) vt + u diag(ds) vt + u diag(s) dvt = u M vt + Up vt + u Vpᵀ``. The first form is determined where no
    two singular values are equal, as is the derivative of a function of ``(u, s, vt)``.
    """

    def to_theirs(self, x: Three, u: Three) -> Any:
        (left, s, right), (dl, ds, dr) = x, u
        M = (left.T @ dl) * s + np.diag(ds) + s[:, None] * (dr @ right.T)
        Up = (dl - left @ (left.T @ dl)) * s
        Vp = (dr.T - right.T @ (right @ dr.T)) * s
        return pymanopt().manifolds.fixed_rank._FixedRankTangentVector(Up, M, Vp)

    def to_ours(self, x: Three, vector: Any) -> Three:
        (left, s, right), (Up, M, Vp) = x, vector
        gaps = s[None, :] ** 2 - s[:, None] ** 2 + np.eye(len(s), dtype=s.dtype)
        turn = M - np.diag(np.diag(M))
        a = (turn * s[None, :] + turn.T * s[:, None]) / gaps
        b = -(turn * s[:, None] + turn.T * s[None, :]) / gaps
        return left @ a + Up / s, np.diag(M), b @ right + (Vp / s).T

    def project(self, x: Three, u: Three) -> Three:
        (left, _, right), (dl, ds, dr) = x, u
        return dl - left @ symmetric(left.T @ dl), ds, dr - symmetric(dr @ right.T) @ right

    def arrived(self, x: Three, y: Three) -> Three:
        """Return a decomposition with the signs of that at `x`: pymanopt's retraction turns pairs of vectors round."""
        signs = np.where(np.sum(x[0] * y[0], axis=0) < 0, -1, 1).astype(y[0].dtype)
        return y[0] * signs, y[1], y[2] * signs[:, None]

    def nearest(self, x: Three) -> Three:
        return polar(x[0]), x[1], polar(x[2].T).T
