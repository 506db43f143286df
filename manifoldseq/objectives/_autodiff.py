"""Automatic differentiation of plain cost functions; the library is imported when the first cost is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._result import Point
from ..linalg._tree import leaves, tree_map

_SENTENCE = (
    "the cost {name} could not be differentiated by autograd ({cause}): write it with autograd.numpy, without float(), "
    ".item() or in-place assignment, or give its gradient"
)


def backend(name: str) -> SimpleNamespace:
    """Return the namespace ``value_and_gradient(cost), hessian_product(cost)`` of a backend."""
    if name != "autograd":
        raise ValueError(f"unknown backend {name!r}: choose 'autograd', or give value_and_gradient yourself")
    return SimpleNamespace(value_and_gradient=value_and_gradient, hessian_product=hessian_product)


def value_and_gradient(cost: Callable[[Point], Any]) -> Callable[[Point], tuple[float, Point]]:
    """Return ``point -> (value, Euclidean gradient)`` for a cost written with ``autograd.numpy``."""
    return partial(_value_and_gradient, cost)


def hessian_product(cost: Callable[[Point], Any]) -> Callable[[Point, Point], Point]:
    """Return ``(point, tangent) -> Euclidean Hessian times tangent`` by two reverse passes."""
    return partial(_hessian_product, cost)


def _value_and_gradient(cost: Callable[[Point], Any], x: Point) -> tuple[float, Point]:
    autograd: Any = import_module("autograd")
    value, gradient = _explained(cost, autograd.value_and_grad(cost), x)
    return float(value), _match(gradient, x)


def _hessian_product(cost: Callable[[Point], Any], x: Point, u: Point) -> Point:
    autograd: Any = import_module("autograd")
    anp: Any = import_module("autograd.numpy")
    gradient = autograd.grad(cost)

    def slope(y: Point) -> Any:
        return sum(anp.sum(a * b) for a, b in zip(_boxed_leaves(gradient(y)), leaves(u), strict=True))

    return _match(_explained(cost, autograd.grad(slope), x), x)


def _boxed_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree that autograd may have boxed (a boxed tuple is no tuple, but iterates like one)."""
    if isinstance(tree, tuple) or type(tree).__name__ == "SequenceBox":
        return [leaf for part in tree for leaf in _boxed_leaves(part)]
    return [tree]


def _explained(cost: Callable[..., Any], function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (TypeError, ValueError, AttributeError) as error:
        text = str(error)
        if "ArrayBox" in text or "SequenceBox" in text or "setting an array element with a sequence" in text:
            raise TypeError(_SENTENCE.format(name=getattr(cost, "__name__", "function"), cause=text)) from error
        raise


def _match(gradient: Point, x: Point) -> Point:
    """Return the gradient in the structure and dtype of the point (a cost that ignores a factor has a zero there)."""
    return tree_map(lambda leaf, g: np.asarray(g, dtype=leaf.dtype).reshape(leaf.shape), x, gradient)
