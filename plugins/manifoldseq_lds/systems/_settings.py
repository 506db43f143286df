"""Checks of settings that identification, means and clustering share; one sentence each."""

from numbers import Integral, Real
from typing import Any

import numpy as np

import manifoldseq as ms

_METHODS = ("pack", "cross", "diag", "weighted", "manifold", "constant_diagonal")


def check_whole(estimator: Any, *names: str) -> None:
    """Refuse settings that are no whole number of at least 1."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} is not valid: pass a whole number of at least 1")


def check_switches(estimator: Any, *names: str) -> None:
    """Refuse settings that are neither True nor False."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name}={value!r} is not valid: pass True or False")


def check_positive(estimator: Any, *names: str) -> None:
    """Refuse settings that are no positive number."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < float("inf"):
            raise ValueError(f"{name}={value!r} is not valid: pass a positive number")


def check_bound(bound: Any) -> None:
    """Refuse a bound of singular values that is not between 0 and 1."""
    if not isinstance(bound, Real) or not 0 < float(bound) < 1:
        raise ValueError(f"bound={bound!r} is not valid: pass a number between 0 and 1, such as 0.99")


def resolved_kernel(kernel: Any, params: dict[str, Any] | None = None) -> Any:
    """Return the kernel object that a registered name stands for, made with `params`, or the object itself."""
    if params is not None and not isinstance(params, dict):
        raise ValueError(f"kernel_params={params!r} is not valid: pass a dict of the kernel's parameters, or None")
    if isinstance(kernel, str):
        return _on_systems(ms.get_kernel(kernel, **(params or {})), kernel)
    if params:
        raise ValueError(f"kernel_params={params!r} are for a registered name: the kernel is an object already")
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


def check_solver(solver: Any) -> None:
    """Refuse what is neither a registered name nor a solver."""
    if isinstance(solver, str):
        ms.get_solver(solver)
    elif not isinstance(solver, ms.solvers.Solver):
        raise ValueError(f"solver={solver!r} is not a solver: pass a name such as 'lbfgs' or a ms.solvers.Solver")
