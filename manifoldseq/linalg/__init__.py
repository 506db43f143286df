"""Linear algebra of manifolds and models: polar factors, Cayley curves, Stein equations, Gramians, flat points."""

from ._cayley import cayley
from ._gramians import gramians
from ._polar import polar
from ._stein import stein, stein_adjoint
from ._tree import flatten, tree_map, unflattener

__all__ = ["cayley", "flatten", "gramians", "polar", "stein", "stein_adjoint", "tree_map", "unflattener"]
