"""Compiled solvers on manifolds in jax, and derivatives of their solutions."""

from ._geometry import Geometry, geometry
from ._pure import Solution, minimize, status

__all__ = ["Geometry", "Solution", "geometry", "minimize", "status"]
