"""Validation of the return values of cost functions and differentiation libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from traceback import walk_tb
from typing import Any, ClassVar

import numpy as np

from .._result import Tree
from ..execution._by_name import portable, remember
from ..linalg import tree_map


class NotANumber(TypeError):
    """Error for a function that does not return one real number, but `got`, with a `shape` if it is an array."""

    def __init__(self, who: str, got: str, shape: tuple[int, ...] = ()) -> None:
        super().__init__(who, got, shape)
        self.got, self.shape = got, shape

    def __str__(self) -> str:
        return f"{self.args[0]} returned {self.got}: it must return one real number"


def number(value: Any) -> float:
    """Return a value as a Python float, or raise an error if it is not one real number."""
    if isinstance(value, float):  # a scalar of numpy's float64 too
        return float(value)
    array = np.asarray(value.detach().cpu() if library_of(value) == "torch" else value)
    if array.dtype.kind not in "fiu" or array.size != 1:
        shape = f" of shape {array.shape}" if array.size != 1 else ""
        raise NotANumber("the objective", f"{type(value).__name__} {value!r}{shape}", array.shape)
    return float(array.reshape(()))


def library_of(value: Any) -> str:
    """Return the differentiation library of an array: ``"jax"``, ``"torch"`` or ``""``."""
    top = type(value).__module__.partition(".")[0]
    return {"torch": "torch", "jax": "jax", "jaxlib": "jax"}.get(top, "")


class Differentiated(ABC):
    """A cost with derivatives by one library, which are built on first use and not pickled.

    `rest` contains further arguments of the cost, which are not differentiated.
    """

    library: ClassVar[str]
    advice: ClassVar[str]
    what: ClassVar[str] = "cost"

    def __init__(self, cost: Callable[..., Any], device: str | None = None, dtype: str | None = None) -> None:
        self.cost, self.device, self.dtype = cost, device, dtype
        remember(cost)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (portable(self.cost, "the objective"), self.device, self.dtype)

    @property
    def traced(self) -> Callable[..., Any] | None:
        """The cost as a function that compiled solvers can trace, or None if the library has no such solvers."""
        return None

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
        """Return the exception for a cost that the library cannot differentiate."""
        name = getattr(self.cost, "__name__", "function")
        first = str(cause).strip().split("\n", 1)[0]
        return TypeError(f"the {self.what} {name} could not be differentiated by {self.advice.format(cause=first)}")

    def check_library(self, value: Any) -> None:
        """Raise an error if a cost returns an array of a library that does not differentiate it."""
        if library_of(value) not in ("", self.library):
            raise self.written_with(library_of(value))

    def other_library(self, error: BaseException) -> str:
        """Return the other library that raised an exception of the cost, or that its message names, if any."""
        frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
        inside = [name.partition(".")[0] for name in frames]
        for name, words in (("torch", ("Tensor",)), ("jax", ("JAX", "jax.", "ArrayImpl"))):
            if name != self.library and (name in inside or any(word in str(error) for word in words)):
                return name
        return ""

    def written_with(self, library: str) -> TypeError:
        """Return the exception for a cost that is written with another library."""
        name = getattr(self.cost, "__name__", "function")
        return TypeError(
            f"the {self.what} {name} is written with {library}, but would be differentiated by {self.library}: "
            f'pass manifoldseq.objective({name}, backend="{library}"), or pass its gradient'
        )

    def returned(self, what: str, shape: tuple[int, ...] = ()) -> NotANumber:
        """Return the exception for a cost that does not return a real number."""
        name = getattr(self.cost, "__name__", "function")
        return NotANumber(f"the {self.what} {name}", what, shape)


def like(gradient: Tree, x: Tree) -> Tree:
    """Return the gradient in the structure and dtype of the point."""
    return tree_map(lambda leaf, g: np.asarray(g, dtype=leaf.dtype).reshape(leaf.shape), x, gradient)
