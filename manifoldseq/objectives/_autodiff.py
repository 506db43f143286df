"""Automatic differentiation of plain cost functions; the library is imported when the first cost is differentiated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from .._result import Point
from ..linalg._tree import leaves, tree_map
from ._number import number

BACKENDS = ("autograd", "jax", "torch")
_INSTALL = {
    "autograd": "pip install autograd",
    "jax": 'pip install "manifoldseq[jax]"',
    "torch": "pip install torch (without a GPU: pip install torch --index-url https://download.pytorch.org/whl/cpu)",
}


class Differentiated(ABC):
    """A cost with derivatives by one library, built when they are first asked for and pickled without them.

    `rest` are further arguments of the cost, by which it is not differentiated.
    """

    advice: ClassVar[str]

    def __init__(self, cost: Callable[..., Any], device: str | None = None, dtype: str | None = None) -> None:
        self.cost, self.device, self.dtype = cost, device, dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cost, self.device, self.dtype)

    @abstractmethod
    def value(self, rest: tuple[Any, ...], x: Point) -> float:
        """Return the value."""

    @abstractmethod
    def value_and_gradient(self, rest: tuple[Any, ...], x: Point) -> tuple[float, Point]:
        """Return the value and the Euclidean gradient, in the dtype of the point."""

    @abstractmethod
    def hessian_product(self, rest: tuple[Any, ...], x: Point, u: Point) -> Point:
        """Return the Euclidean Hessian times a direction, in the dtype of the point."""

    def explained(self, cause: object) -> TypeError:
        """Return the exception for a cost that the library cannot follow."""
        name = getattr(self.cost, "__name__", "function")
        first = str(cause).strip().split("\n", 1)[0]
        return TypeError(f"the cost {name} could not be differentiated by {self.advice.format(cause=first)}")

    def returned(self, what: str) -> TypeError:
        """Return the exception for a cost that returns no real number."""
        name = getattr(self.cost, "__name__", "function")
        return TypeError(f"the cost {name} returned {what}: it must return one real number")


def differentiated(
    cost: Callable[..., Any], backend: str, device: str | None = None, dtype: str | None = None
) -> Differentiated:
    """Return a cost with derivatives by a backend; raise a sentence if there is no such backend or it is missing."""
    if backend not in BACKENDS:
        known = ", ".join(map(repr, BACKENDS))
        raise ValueError(f"unknown backend {backend!r}: choose one of {known}, or give value_and_gradient yourself")
    for name, given in (("device", device), ("dtype", dtype)):
        if given is not None and backend != "torch":
            raise ValueError(f'{name}={given!r} goes with backend="torch", not with {backend!r}')
    if find_spec(backend) is None:
        raise ImportError(f"backend={backend!r} needs {backend}: {_INSTALL[backend]}")
    if backend == "autograd":
        return ByAutograd(cost)
    if backend == "jax":
        from ._autodiff_jax import ByJax

        return ByJax(cost)
    from ._autodiff_torch import ByTorch

    return ByTorch(cost, device, dtype)


def value_and_gradient(cost: Callable[[Point], Any]) -> Callable[[Point], tuple[float, Point]]:
    """Return ``point -> (value, Euclidean gradient)`` for a cost written with ``autograd.numpy``."""
    return partial(ByAutograd(cost).value_and_gradient, ())


def like(gradient: Point, x: Point) -> Point:
    """Return the gradient in the structure and dtype of the point."""
    return tree_map(lambda leaf, g: np.asarray(g, dtype=leaf.dtype).reshape(leaf.shape), x, gradient)


class ByAutograd(Differentiated):
    """Derivatives of a cost written with ``autograd.numpy``."""

    advice = (
        "autograd ({cause}): write it with autograd.numpy, without float(), .item() or in-place assignment, or give "
        "its gradient"
    )

    def value(self, rest: tuple[Any, ...], x: Point) -> float:
        return number(self.cost(x, *rest))

    def value_and_gradient(self, rest: tuple[Any, ...], x: Point) -> tuple[float, Point]:
        autograd: Any = import_module("autograd")
        value, gradient = self._followed(autograd.value_and_grad(self._scalar), x, *rest)
        return float(value), like(gradient, x)

    def hessian_product(self, rest: tuple[Any, ...], x: Point, u: Point) -> Point:
        autograd: Any = import_module("autograd")
        anp: Any = import_module("autograd.numpy")
        gradient = autograd.grad(self._scalar)

        def slope(y: Point) -> Any:
            constant = 0.0 * anp.sum(_boxed_leaves(y)[0])  # autograd warns where the gradient does not depend on y
            pairs = zip(_boxed_leaves(gradient(y, *rest)), leaves(u), strict=True)
            return constant + sum(anp.sum(a * b) for a, b in pairs)

        return like(self._followed(autograd.grad(slope), x), x)

    def _scalar(self, x: Point, *rest: Any) -> Any:
        value = self.cost(x, *rest)
        known = import_module("autograd.tracer").getval(value)
        if isinstance(known, float):  # numpy's too: the usual case
            return value
        number(known)
        return import_module("autograd.numpy").reshape(value, ())

    def _followed(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except (TypeError, ValueError, AttributeError) as error:
            text = str(error)
            if "ArrayBox" in text or "SequenceBox" in text or "setting an array element with a sequence" in text:
                raise self.explained(text) from error
            raise


def _boxed_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree that autograd may have boxed (a boxed tuple is no tuple, but iterates like one)."""
    if isinstance(tree, tuple) or type(tree).__name__ == "SequenceBox":
        return [leaf for part in tree for leaf in _boxed_leaves(part)]
    return [tree]
