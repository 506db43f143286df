"""The kernel of a parameter: a registered name or an object."""

from typing import Any

from manifoldseq.kernels import Kernel, as_kernel


def check_kernel(name: str, value: Any) -> None:
    """Raise ValueError unless the value is the name of a kernel on systems, or such a kernel."""
    resolved_kernel(value)


def resolved_kernel(kernel: str | Kernel) -> Kernel:
    """Return the kernel on systems that a registered name stands for, or the object itself."""
    return as_kernel(kernel, "lds")
