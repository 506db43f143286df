"""Manifolds: where a point lives and how to move there."""

from ._base import Manifold
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._product import CanonicalLDS, Product
from ._stiefel import Orthogonal, Stiefel

__all__ = ["BoundedDiagonal", "CanonicalLDS", "Euclidean", "Manifold", "Orthogonal", "Product", "Stiefel"]
