"""Manifolds: where a point lives and how to move there."""

from ._base import Manifold
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._from_pymanopt import from_pymanopt
from ._frozen import Frozen
from ._grassmann import Grassmann
from ._positive import Positive
from ._product import CanonicalLDS, Product
from ._simplex import Simplex
from ._spd import SymmetricPositiveDefinite
from ._special_orthogonal import SpecialOrthogonal
from ._sphere import Oblique, Sphere
from ._stiefel import Orthogonal, Stiefel
from ._to_pymanopt import to_pymanopt

__all__ = [
    "BoundedDiagonal",
    "CanonicalLDS",
    "Euclidean",
    "Frozen",
    "Grassmann",
    "Manifold",
    "Oblique",
    "Orthogonal",
    "Positive",
    "Product",
    "Simplex",
    "SpecialOrthogonal",
    "Sphere",
    "Stiefel",
    "SymmetricPositiveDefinite",
    "from_pymanopt",
    "to_pymanopt",
]
