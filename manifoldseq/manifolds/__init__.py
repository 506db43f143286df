"""Manifolds: points, tangent vectors, retractions and transports.

Names that are not in ``__all__`` are for other packages of the project and are not public: ``Factored`` is the base
class of products and powers, ``base_of`` repeats a point for a stack of tangent vectors, ``leaf_shapes`` and ``filled``
handle trees of arrays, and ``logarithmic_longest`` returns the longest step of manifolds that measure lengths in
logarithms.
"""

from . import _bures_wasserstein, _log_euclidean  # noqa: F401  # metrics of SymmetricPositiveDefinite
from ._base import InFrame, Manifold
from ._base import base_of as base_of
from ._base import filled as filled
from ._base import leaf_shapes as leaf_shapes
from ._base import logarithmic_longest as logarithmic_longest
from ._bounded import BoundedDiagonal, Box
from ._euclidean import Euclidean
from ._frozen import Frozen
from ._generalized_stiefel import GeneralizedStiefel
from ._grassmann import Grassmann
from ._hyperbolic import Hyperbolic
from ._positive import OpenBox, Positive
from ._power import Power
from ._product import CanonicalLDS, Product, SpecialEuclidean
from ._product import Factored as Factored
from ._simplex import Simplex
from ._spd import SymmetricPositiveDefinite
from ._special_orthogonal import SpecialOrthogonal
from ._sphere import Oblique, Sphere
from ._stiefel import Orthogonal, Stiefel

__all__ = [
    "BoundedDiagonal",
    "Box",
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
