"""Conversion of manifolds and problems to and from pymanopt."""

from ._from_pymanopt import from_pymanopt
from ._to_pymanopt import to_pymanopt

__all__ = ["from_pymanopt", "to_pymanopt"]
