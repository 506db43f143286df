"""Linear algebra of manifolds and models: polar factors, Cayley curves, Stein equations, Gramians, flat points.

Names that are not in ``__all__`` are for other packages of the project and are not public:

* trees (points and tangent vectors, which are arrays or nested tuples of arrays): ``leaves``, ``norm``, ``freeze``,
  ``shapes``, ``dtype_of``, ``unflattener_of``, ``sums_of_parts``, and the numbers ``EPS`` and ``SMALLEST`` by dtype;
* axes (the arithmetic of one problem and of many): ``ONE``, ``ROWS``, ``axis_of`` and the types ``One``, ``Rows``,
  ``Scalar``, ``Decision``, ``Vector``;
* matrices: ``symmetric``, ``eigh``, ``smallest_eigenvalue``, ``orthonormality``, ``qr_retraction``, ``cayley_curve``,
  ``cayley_retraction``, ``Multifrontal``, ``quadratic_program``, and ``AXPY``, the routines of BLAS by dtype.
"""

from ._axis import ONE as ONE
from ._axis import ROWS as ROWS
from ._axis import Decision as Decision
from ._axis import One as One
from ._axis import Rows as Rows
from ._axis import Scalar as Scalar
from ._axis import Vector as Vector
from ._axis import axis_of as axis_of
from ._blas import AXPY as AXPY
from ._cayley import cayley
from ._cayley import cayley_curve as cayley_curve
from ._cayley import cayley_retraction as cayley_retraction
from ._eigen import eigh as eigh
from ._eigen import smallest_eigenvalue as smallest_eigenvalue
from ._gramians import gramians
from ._multifrontal import Multifrontal as Multifrontal
from ._normal_equations import LINEAR as LINEAR
from ._normal_equations import method_for as method_for
from ._polar import orthonormality as orthonormality
from ._polar import polar
from ._polar import qr_retraction as qr_retraction
from ._polar import symmetric as symmetric
from ._quadratic_program import clarabel as clarabel
from ._quadratic_program import quadratic_program as quadratic_program
from ._stein import stein, stein_adjoint
from ._tree import EPS as EPS
from ._tree import SMALLEST as SMALLEST
from ._tree import dtype_of as dtype_of
from ._tree import flatten, tree_map, unflattener
from ._tree import freeze as freeze
from ._tree import leaves as leaves
from ._tree import norm as norm
from ._tree import shapes as shapes
from ._tree import sums_of_parts as sums_of_parts
from ._tree import unflattener_of as unflattener_of

__all__ = ["cayley", "flatten", "gramians", "polar", "stein", "stein_adjoint", "tree_map", "unflattener"]
