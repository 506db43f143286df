"""Derivatives by autograd."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .._result import Tree
from ..linalg import leaves
from ._cost import Differentiated, NotANumber, like, number


class ByAutograd(Differentiated):
    """Derivatives of a cost written with ``autograd.numpy``."""

    library = "autograd"
    advice = (
        "autograd ({cause}): write it with autograd.numpy, without float(), .item() or in-place assignment, or pass "
        "its gradient"
    )

    def value(self, rest: tuple[Any, ...], x: Tree) -> float:
        return number(self.returned_value(rest, x))

    def returned_value(self, rest: tuple[Any, ...], x: Tree) -> Any:
        """Return the result of the function, which may be any object of this library."""
        try:
            value = self.cost(x, *rest)
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            if library := self.other_library(error):
                raise self.written_with(library) from error
            raise
        self.check_library(value)
        return value

    def value_and_gradient(self, rest: tuple[Any, ...], x: Tree) -> tuple[float, Tree]:
        autograd: Any = import_module("autograd")
        value, gradient = self._followed(autograd.value_and_grad(self._scalar), x, *rest)
        return float(value), like(gradient, x)

    def hessian_product(self, rest: tuple[Any, ...], x: Tree, u: Tree) -> Tree:
        autograd: Any = import_module("autograd")
        anp: Any = import_module("autograd.numpy")
        gradient = autograd.grad(self._scalar)

        def slope(y: Tree) -> Any:
            constant = 0.0 * anp.sum(_boxed_leaves(y)[0])  # autograd warns where the gradient does not depend on y
            pairs = zip(_boxed_leaves(gradient(y, *rest)), leaves(u), strict=True)
            return constant + sum(anp.sum(a * b) for a, b in pairs)

        return like(self._followed(autograd.grad(slope), x), x)

    def _scalar(self, x: Tree, *rest: Any) -> Any:
        value = self.cost(x, *rest)
        known = import_module("autograd.tracer").getval(value)
        self.check_library(known)
        if isinstance(known, float):  # numpy's too: the usual case
            return value
        if isinstance(known, tuple | list | dict):
            raise self.returned(f"a {type(known).__name__} of {len(known)}", (len(known),))
        number(known)
        return import_module("autograd.numpy").reshape(value, ())

    def _followed(self, function: Callable[..., Any], x: Tree, *rest: Any) -> Any:
        try:
            return function(x, *rest)
        except NotANumber:
            raise
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            if library := self.other_library(error):
                raise self.written_with(library) from error
            self.returned_value(rest, x)  # the error of the cost itself, or of what it is written with, if there is one
            raise self.explained(error) from error


class ArrayByAutograd(ByAutograd):
    """Derivatives of a function written with ``autograd.numpy`` that returns an array."""

    what = "function"

    def array(self, x: Tree) -> Any:
        return self.returned_value((), x)

    def linearize(self, x: Tree) -> tuple[Any, Callable[[np.ndarray], Tree]]:
        """Return the value and its pull-back, a function of weights with the shape of the value."""
        value, pull = self._pair(x)
        return value, lambda w: like(pull(np.asarray(w, dtype=float)), x)

    def jacobian_product(self, x: Tree, u: Tree) -> np.ndarray:
        """Return the derivative of the value along a vector, as the pull-back of the linear pull-back."""
        value, pull = self._pair(x)
        along, _ = import_module("autograd").make_vjp(pull)(np.zeros(np.shape(value)))
        return np.asarray(along(u), dtype=float)

    def weighted_hessian_product(self, x: Tree, w: np.ndarray, u: Tree) -> Tree:
        total = ByAutograd(lambda y: import_module("autograd.numpy").sum(w * self.cost(y)))
        return total.hessian_product((), x, u)

    def _pair(self, x: Tree) -> tuple[Any, Callable[[Any], Any]]:
        pull, value = self._followed(import_module("autograd").make_vjp(self._array), x)
        return value, pull

    def _array(self, x: Tree) -> Any:
        value = self.cost(x)
        self.check_library(import_module("autograd.tracer").getval(value))
        return value


def _boxed_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree that autograd may have boxed (which makes tuples sequences of another type)."""
    if isinstance(tree, tuple) or type(tree).__name__ == "SequenceBox":
        return [leaf for part in tree for leaf in _boxed_leaves(part)]
    return [tree]
