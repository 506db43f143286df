"""Manifolds: points, tangent vectors, retractions and transports."""

from . import _bures_wasserstein, _log_euclidean  # noqa: F401  # metrics of SymmetricPositiveDefinite
from ._base import InFrame, Manifold
from ._bounded import BoundedDiagonal
from ._euclidean import Euclidean
from ._frozen import Frozen
from ._generalized_stiefel import GeneralizedStiefel
from ._grassmann import Grassmann
from ._hyperbolic import Hyperbolic
from ._positive import OpenBox, Positive
from ._power import Power
from ._product import CanonicalLDS, Product, SpecialEuclidean
from ._simplex import Simplex
from ._spd import SymmetricPositiveDefinite
from ._special_orthogonal import SpecialOrthogonal
from ._sphere import Oblique, Sphere
from ._stiefel import Orthogonal, Stiefel

__all__ = [
    "BoundedDiagonal",
    "CanonicalLDS",
    "Euclidean",
    "Frozen",
    "GeneralizedStiefel",
    "Grassmann",
    "Hyperbolic",
    "InFrame",
    "Manifold",
    "Oblique",
    "OpenBox",
    "Orthogonal",
    "Positive",
    "Power",
    "Product",
    "Simplex",
    "SpecialEuclidean",
    "SpecialOrthogonal",
    "Sphere",
    "Stiefel",
    "SymmetricPositiveDefinite",
]
