"""To and from pymanopt: its manifolds and problems here, those of here for its optimizers."""

from ._from_pymanopt import from_pymanopt
from ._to_pymanopt import to_pymanopt

__all__ = ["from_pymanopt", "to_pymanopt"]
