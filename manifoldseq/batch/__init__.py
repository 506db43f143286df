"""Many independent problems over one manifold, minimized together."""

from ._bb import BatchBB
from ._minimize import minimize_batch

__all__ = ["BatchBB", "minimize_batch"]
