"""A complete kernel from a function of two items, by loops and automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._result import Tree
from ..execution import map_ordered
from ..execution._by_name import attribute_of_module, portable, remember
from ..hooks import get_domain
from ..objectives._autodiff import value_and_gradient

Item = tuple[Any, ...]
PairFunction = Callable[[Item, Item], Any]


@dataclass(frozen=True, eq=False)
class PackedPairs:
    """Items in the packed form of a kernel of :func:`kernel`; indexed by rows like an array."""

    items: tuple[Item, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: Any) -> PackedPairs:
        return PackedPairs(tuple(self.items[i] for i in np.atleast_1d(np.arange(len(self.items))[rows])))


@dataclass(frozen=True, eq=False)
class PairKernel:
    """A kernel object derived from ``pair_function`` by loops and automatic differentiation; made by :func:`kernel`."""

    pair_function: PairFunction
    domain: str = "lds"
    constant_diagonal: bool = False
    positive_definite: bool = True
    name: str = "kernel"
    products_only = False
    convex_in_output = False

    def __post_init__(self) -> None:
        remember(self.pair_function)

    def __copy__(self) -> PairKernel:
        return self

    def __deepcopy__(self, memo: Any) -> PairKernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, one.name) for one in fields(self)]
        function = portable(self.pair_function, f"the kernel {self.name!r}")
        return attribute_of_module(self, self.pair_function) or (PairKernel, (function, *values[1:]))

    def __call__(self, first: Item, second: Item) -> Any:
        """Return k(first, second)."""
        return self.pair_function(first, second)

    def pack(self, items: Iterable[Item]) -> PackedPairs:
        """Prepare a set of items; each is a tuple of arrays."""
        packed = PackedPairs(tuple(item if isinstance(item, tuple) else tuple(item) for item in items))
        if not packed.items:
            raise ValueError(f"the kernel {self.name} got no items to pack: pass at least one")
        return packed

    def cross(self, P: PackedPairs, Q: PackedPairs) -> NDArray[np.float64]:
        """Return the matrix k(P_i, Q_j), of shape (len(P), len(Q))."""

        def row(first: Item) -> list[float]:
            return [float(self._value(first, second)) for second in Q.items]

        return np.array(map_ordered(row, P.items)).reshape(len(P), len(Q))

    def diag(self, P: PackedPairs) -> NDArray[np.float64]:
        """Return the vector k(P_i, P_i)."""
        return np.array([float(self._value(item, item)) for item in P.items])

    def weighted(self, point: Tree, P: PackedPairs, beta: ArrayLike) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        weights, to_item = np.asarray(beta), get_domain(self.domain).to_item
        if weights.dtype.kind not in "biuf" or weights.shape != (len(P),):
            raise ValueError(f"beta is of dtype {weights.dtype} and shape {weights.shape}: pass {len(P)} real numbers")

        def cost(x: Tree) -> Any:
            item = to_item(x)
            return sum(b * self._value(item, other) for b, other in zip(weights, P.items, strict=True))

        return value_and_gradient(cost)(point)

    def self_term(self, point: Tree) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``k(S(point), S(point))``."""
        to_item = get_domain(self.domain).to_item

        def cost(x: Tree) -> Any:
            item = to_item(x)
            return self._value(item, item)

        return value_and_gradient(cost)(point)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return the manifold of means and atoms."""
        return get_domain(self.domain).manifold(m, n, bound)

    def _value(self, first: Item, second: Item) -> Any:
        """Return k(first, second), a number or its autograd trace; raise an error for other results."""
        value = self.pair_function(first, second)
        array = np.asarray(getattr(value, "_value", value))  # autograd boxes keep the number in _value
        if array.dtype.kind not in "biuf" or array.shape or not np.isfinite(array):
            got = f"an array of shape {array.shape}" if array.shape else f"{type(value).__name__} {value!r}"
            raise ValueError(f"the kernel {self.name} returned {got}: it must return one finite real number")
        return value


@overload
def kernel(
    pair_function: PairFunction,
    *,
    domain: str = ...,
    constant_diagonal: bool = ...,
    positive_definite: bool = ...,
    name: str | None = ...,
) -> PairKernel: ...


@overload
def kernel(
    pair_function: Literal[None] = None,
    *,
    domain: str = ...,
    constant_diagonal: bool = ...,
    positive_definite: bool = ...,
    name: str | None = ...,
) -> Callable[[PairFunction], PairKernel]: ...


def kernel(
    pair_function: PairFunction | None = None,
    *,
    domain: str = "lds",
    constant_diagonal: bool = False,
    positive_definite: bool = True,
    name: str | None = None,
) -> PairKernel | Callable[[PairFunction], PairKernel]:
    """Build a kernel object from a function of two items.

    The methods that means, dictionaries and clustering call (``pack, cross, diag, weighted, self_term, manifold``) are
    derived from `pair_function` by loops and autograd. The function can be used as a decorator. A class with these
    methods is faster. Code that uses the kernel does not change.

    A kernel of a function at the top level of a module can be pickled, together with estimators that are fitted with
    it. Pickling stores the name of the function, so the module must be importable where the pickle is loaded.

    Parameters
    ----------
    pair_function : callable
        ``pair_function(item1, item2) -> scalar``, symmetric. Items of the domain ``"lds"`` are tuples of arrays
        ``(A, C)``, A of shape (n, n) and C of shape (m, n). Use ``autograd.numpy`` and `manifoldseq.linalg`.
    domain : str, default "lds"
        The type of the items: the name of a registered `manifoldseq.hooks.DomainSpec`. It is looked up when a gradient
        is first needed.
    constant_diagonal : bool, default False
        Whether ``k(S, S)`` is the same for every S, so that means and codes need no self term.
    positive_definite : bool, default True
        Whether every Gram matrix is positive semidefinite.
    name : str, optional
        The name in messages; by default the name of the function.

    Returns
    -------
    PairKernel
        Without `pair_function`, a decorator that returns a PairKernel.

    Examples
    --------
    The trace kernel of two systems that start in the first state:

    >>> import autograd.numpy as np, manifoldseq as ms
    >>> @ms.kernel(domain="lds")
    ... def overlap(first, second):
    ...     (A1, C1), (A2, C2) = first, second
    ...     return ms.linalg.stein(A1, A2, np.matmul(C1.T, C2))[0, 0]
    >>> packed = overlap.pack([(np.array([[0.5]]), np.eye(2, 1)), (np.array([[0.0]]), np.eye(2, 1))])
    >>> overlap.cross(packed, packed).round(3).tolist()
    [[1.333, 1.0], [1.0, 1.0]]
    """

    def make(function: PairFunction) -> PairKernel:
        if not callable(function):
            raise ValueError(f"ms.kernel needs a function of two items, got {function!r}")
        label = name or getattr(function, "__name__", "kernel")
        return PairKernel(function, domain, constant_diagonal, positive_definite, label)

    return make if pair_function is None else make(pair_function)
