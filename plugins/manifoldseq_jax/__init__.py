"""Compiled solvers on manifolds in jax, and derivatives of their solutions.

Names are imported on first use, so that the import of the package does not import jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._geometry import Geometry, geometry
    from ._pure import Solution, minimize, status

_HOMES = {
    "Geometry": "_geometry",
    "Solution": "_pure",
    "geometry": "_geometry",
    "minimize": "_pure",
    "status": "_pure",
}
__all__ = ["Geometry", "Solution", "geometry", "minimize", "status"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
