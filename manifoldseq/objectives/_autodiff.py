"""Automatic differentiation of cost functions; the library is imported at the first derivative."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from ._autodiff_autograd import ByAutograd
from ._cost import Differentiated

BACKENDS = ("autograd", "jax", "torch")
_INSTALL = {
    "autograd": "pip install autograd",
    "jax": 'pip install "manifoldseq[jax]"',
    "torch": "pip install torch (without a GPU: pip install torch --index-url https://download.pytorch.org/whl/cpu)",
}


def differentiated(
    cost: Callable[..., Any], backend: str, device: str | None = None, dtype: str | None = None
) -> Differentiated:
    """Return a cost with derivatives by a backend; raise an error if there is no such backend or it is missing."""
    if backend not in BACKENDS:
        known = ", ".join(map(repr, BACKENDS))
        raise ValueError(f"unknown backend {backend!r}: choose one of {known}, or pass value_and_gradient")
    for name, given in (("device", device), ("dtype", dtype)):
        if given is not None and backend != "torch":
            raise ValueError(f'{name}={given!r} is an option of backend="torch", not of {backend!r}')
    if find_spec(backend) is None:
        raise ImportError(f"backend={backend!r} needs {backend}: {_INSTALL[backend]}")
    if backend == "autograd":
        return ByAutograd(cost)
    if backend == "jax":
        from ._autodiff_jax import ByJax

        return ByJax(cost)
    from ._autodiff_torch import ByTorch

    return ByTorch(cost, device, dtype)


def value_and_gradient(cost: Callable[[Any], Any]) -> Callable[[Any], tuple[float, Any]]:
    """Return ``point -> (value, Euclidean gradient)`` for a cost written with ``autograd.numpy``."""
    return partial(ByAutograd(cost).value_and_gradient, ())
