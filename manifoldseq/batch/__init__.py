"""Many independent problems over one manifold, minimized together."""

from ._minimize import minimize_batch
from ._rows import RowProblem

__all__ = ["RowProblem", "minimize_batch"]
