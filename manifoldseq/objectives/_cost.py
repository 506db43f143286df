"""Validation of what cost functions and differentiation libraries return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .._result import Tree
from ..execution._by_name import portable, remember
from ..linalg._tree import tree_map


class NotANumber(TypeError):
    """A function returned something else than one real number: `got`, of a `shape` if it is an array."""

    def __init__(self, who: str, got: str, shape: tuple[int, ...] = ()) -> None:
        super().__init__(who, got, shape)
        self.got, self.shape = got, shape

    def __str__(self) -> str:
        return f"{self.args[0]} returned {self.got}: it must return one real number"


def number(value: Any) -> float:
    """Return a value as a Python float, or raise a sentence if it is not one real number."""
    if isinstance(value, float):  # a scalar of numpy's float64 too
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size != 1:
        shape = f" of shape {array.shape}" if array.size != 1 else ""
        raise NotANumber("the objective", f"{type(value).__name__} {value!r}{shape}", array.shape)
    return float(array.reshape(()))


class Differentiated(ABC):
    """A cost with derivatives by one library, built when they are first asked for and pickled without them.

    `rest` are further arguments of the cost, by which it is not differentiated.
    """

    advice: ClassVar[str]

    def __init__(self, cost: Callable[..., Any], device: str | None = None, dtype: str | None = None) -> None:
        self.cost, self.device, self.dtype = cost, device, dtype
        remember(cost)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (portable(self.cost, "the objective"), self.device, self.dtype)

    @abstractmethod
    def value(self, rest: tuple[Any, ...], x: Tree) -> float:
        """Return the value."""

    @abstractmethod
    def value_and_gradient(self, rest: tuple[Any, ...], x: Tree) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient, in the dtype of the point."""

    @abstractmethod
    def hessian_product(self, rest: tuple[Any, ...], x: Tree, u: Tree) -> Tree:
        """Return the Euclidean Hessian times a direction, in the dtype of the point."""

    def explained(self, cause: object) -> TypeError:
        """Return the exception for a cost that the library cannot follow."""
        name = getattr(self.cost, "__name__", "function")
        first = str(cause).strip().split("\n", 1)[0]
        return TypeError(f"the cost {name} could not be differentiated by {self.advice.format(cause=first)}")

    def returned(self, what: str, shape: tuple[int, ...] = ()) -> NotANumber:
        """Return the exception for a cost that returns no real number."""
        return NotANumber(f"the cost {getattr(self.cost, '__name__', 'function')}", what, shape)


def like(gradient: Tree, x: Tree) -> Tree:
    """Return the gradient in the structure and dtype of the point."""
    return tree_map(lambda leaf, g: np.asarray(g, dtype=leaf.dtype).reshape(leaf.shape), x, gradient)
