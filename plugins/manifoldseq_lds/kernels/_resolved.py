"""The kernel that a parameter stands for: a registered name, or an object."""

from typing import Any

import manifoldseq as ms

_METHODS = ("pack", "cross", "diag", "weighted", "manifold", "constant_diagonal")


def check_kernel(name: str, value: Any) -> None:
    """Raise ValueError unless the value is the name of a kernel on systems, or such a kernel."""
    resolved_kernel(value)


def resolved_kernel(kernel: Any) -> Any:
    """Return the kernel object that a registered name stands for, or the object itself."""
    if isinstance(kernel, str):
        return _on_systems(ms.get_kernel(kernel), kernel)
    missing = [name for name in _METHODS if not hasattr(kernel, name)]
    if not missing and not kernel.constant_diagonal and not hasattr(kernel, "self_term"):
        missing = ["self_term, which constant_diagonal=False asks for"]
    if isinstance(kernel, type):
        raise ValueError(f"kernel={kernel.__name__} is a class: pass an instance of it")
    if missing and callable(kernel) and len(missing) == len(_METHODS):
        raise ValueError(f"kernel={kernel!r} is a function: wrap it with @ms.kernel(domain='lds')")
    if len(missing) == len(_METHODS):
        raise ValueError(f"kernel={kernel!r} is not a kernel: pass a registered name such as 'projection' or an object")
    if missing:
        raise ValueError(f"the kernel {kernel!r} has no {', '.join(missing)}: see docs/develop/hooks.md")
    return _on_systems(kernel, kernel)


def _on_systems(made: Any, kernel: Any) -> Any:
    """Refuse a kernel of another domain."""
    domain = getattr(made, "domain", "lds")
    if domain != "lds":
        raise ValueError(f"the kernel {kernel!r} is one of {domain}, not of systems: pass one such as 'projection'")
    return made
