"""Many independent problems over one manifold, minimized together."""

from ._bb import BatchBB, without
from ._lbfgs import BatchLBFGS
from ._minimize import minimize_batch

__all__ = ["BatchBB", "BatchLBFGS", "minimize_batch", "without"]
