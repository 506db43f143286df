"""Linear algebra that the manifolds and the models share: polar factors, Cayley curves, Stein equations, Gramians."""

from ._cayley import cayley
from ._gramians import gramians
from ._polar import polar
from ._stein import stein, stein_adjoint

__all__ = ["cayley", "gramians", "polar", "stein", "stein_adjoint"]
