"""The projection as factors of a point: orthonormal, scaled (appendix A) or free rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import manifoldseq as ms

from ..families._family import Array
from ._noise import Noise, residual_energy
from ._parameters import Data
from ._penalty import penalty, penalty_gradient

KINDS = ("orthonormal", "scaled", "free")


@dataclass(frozen=True)
class Rows:
    """The part of the likelihood that depends on U only, and the conversion between the head of a point and U.

    Attributes
    ----------
    kind : {"orthonormal", "scaled", "free"}
        ``"orthonormal"``: U' on the Stiefel manifold. ``"scaled"``: ``U = diag(1 / r) Q`` with Q' on the Stiefel
        manifold and r in [-1, 1], so that rows are orthogonal and at least of length one (53), (54). ``"free"``: any
        U, with the residual energy (47), and the penalty (15) times `beta`, as printed in appendix A.
    noise : Noise
    beta : float
    sign : {1, -1}
        Sign of the Jacobian term N/2 ln det U U': 1 for the change of variables from x to z = U x, -1 as printed in
        (44) and (51).
    """

    kind: str
    noise: Noise
    beta: float = 0.0
    sign: int = 1

    @property
    def size(self) -> int:
        """The number of factors of the head of a point."""
        return {"scaled": 2, "none": 0}.get(self.kind, 1)

    def factors(self, M: int, D: int) -> dict[str, ms.manifolds.Manifold]:
        """Return the manifolds of the head by name."""
        if self.kind == "none":
            return {}
        if self.kind == "free":
            return {"projection": ms.manifolds.Euclidean(D, M)}
        factors: dict[str, ms.manifolds.Manifold] = {"projection": ms.manifolds.Stiefel(D, M)}
        if self.kind == "scaled":
            factors["shrinkage"] = ms.manifolds.BoundedDiagonal(M, 1.0)
        return factors

    def head(self, U: Array) -> tuple[Array, ...]:
        """Return the head of the point for orthonormal rows U."""
        if self.kind == "none":
            return ()
        V = np.ascontiguousarray(U.T)
        return (V, np.ones(len(U))) if self.kind == "scaled" else (V,)

    def projection(self, head: tuple[Any, ...], like: Array) -> Array:
        """Return U, (M, D)."""
        if self.kind == "none":
            return like
        U = np.asarray(head[0], dtype=np.float64).T
        return U / head[1][:, None] if self.kind == "scaled" else U

    def value_and_gradient(self, head: tuple[Any, ...], slope: Array | None, data: Data) -> tuple[float, tuple]:
        """Return J + L2 (minus the penalty), and the derivative of L1 + J + L2 by the factors of the head.

        `slope` is the derivative of L1 by U, or None if it was not computed.
        """
        if self.kind == "none":
            return 0.0, ()
        S, n = data.S, data.n
        Q = np.asarray(head[0], dtype=np.float64).T
        slope = np.zeros_like(Q) if slope is None else slope
        if self.kind == "orthonormal":
            value, by_Q = self.noise.value_and_gradient(Q, S, n, data.whole)
            return value, ((slope + by_Q).T,)
        if self.kind == "scaled":
            r = np.asarray(head[1], dtype=np.float64)
            value, by_Q = self.noise.value_and_gradient(Q, S, n, data.whole)
            with np.errstate(divide="ignore"):
                value -= self.sign * n * float(np.log(np.abs(r)).sum())  # (50): these rows are orthogonal
            # U = Q / r row by row: d/dr of L1 is -<slope, Q> / r², of the Jacobian term -n ln r it is -n / r
            by_r = -self.sign * n / r - np.einsum("md,md->m", slope, Q) / r**2
            return value, ((slope / r[:, None] + by_Q).T, by_r)
        return self._free(Q, slope, data)

    def _free(self, U: Array, slope: Array, data: Data) -> tuple[float, tuple]:
        S, n = data.S, data.n
        # J = n/2 ln det U U' (51), with the derivative n T, T = (U U')^-1 U (M, D); the residual is orthogonal to the
        # row space, whose projector is U' T
        C = U @ U.T
        inverse = np.linalg.inv(C)
        J = 0.5 * self.sign * n * float(np.linalg.slogdet(C)[1])
        T = inverse @ U
        Q = ms.linalg.polar(U.T).T
        M, D = U.shape
        value = J - n * self.beta * penalty(U)
        found = slope + self.sign * n * T - n * self.beta * penalty_gradient(U)  # (51)
        if M < D:
            variance = self.noise.variance(Q, *(data.whole or (S, n)))
            energy = residual_energy(Q, S)  # (47): that of the row space
            value += -0.5 * n * (D - M) * np.log(2 * np.pi * variance) - 0.5 * energy / variance
            found = found + (T @ S - (T @ S @ U.T) @ T) / variance  # (49)
        return float(value), (found.T,)
