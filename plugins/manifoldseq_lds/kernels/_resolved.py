"""The kernel of a parameter: a registered name or an object."""

from typing import Any

from manifoldseq.kernels import Kernel, as_kernel
from manifoldseq.manifolds import Manifold


def check_kernel(name: str, value: Any) -> None:
    """Raise ValueError unless the value is the name of a kernel on systems, or such a kernel."""
    resolved_kernel(value)


def resolved_kernel(kernel: str | Kernel) -> Kernel:
    """Return the kernel on systems with a registered name, or the object itself."""
    return as_kernel(kernel, "lds")


def manifold_of(kernel: Kernel, n_outputs: int, n_states: int, bound: float) -> Manifold[Any]:
    """Return the manifold of centres and atoms of a kernel; raise ValueError for a kernel without a manifold."""
    if kernel.manifold is None:
        raise ValueError(
            f"the kernel {kernel!r} has no method `manifold`, which centres and atoms require: use another "
            "kernel, or define `manifold` and `weighted`"
        )
    return kernel.manifold(n_outputs, n_states, bound)
