"""Functions in the form of pymanopt: parts of a point are positional arguments, value and gradient are separate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._result import Tree
from ..linalg import leaves, tree_map
from ..objectives._cost import number
from ..objectives._objective import Objective

Parts = tuple[np.ndarray, ...]


class Positional:
    """An objective with positional arguments that caches the results for the last points.

    pymanopt evaluates the value at an accepted point up to three times, and evaluates the gradient again with every
    product with the Hessian.
    """

    def __init__(self, objective: Objective, tree: Callable[[Parts], Tree]) -> None:
        self.objective, self.tree = objective, tree
        self.valued: tuple[Parts, float] | None = None
        self.differentiated: tuple[Parts, Tree, Any] | None = None

    def cost(self, parts: Parts) -> float:
        """Return the value."""
        if self.valued is None or not _same(self.valued[0], parts):
            self.valued = parts, number(self.objective.value(self.tree(parts)))
        return self.valued[1]

    def gradient(self, parts: Parts) -> Any:
        """Return the Euclidean gradient: an array, or a list with one array per argument."""
        if self.differentiated is None or not _same(self.differentiated[0], parts):
            x = self.tree(parts)
            fun, egrad = self.objective.value_and_gradient(x)  # type: ignore[misc]
            self.valued = parts, number(fun)
            self.differentiated = parts, x, _listed(egrad)
        return self.differentiated[2]

    def hessian_product(self, parts: Parts) -> Any:
        """Return the Hessian product at the first half of the arguments along the second."""
        point, vector = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        self.gradient(point)
        x = self.differentiated[1]  # type: ignore[index]
        u = tree_map(lambda leaf, v: np.asarray(v, leaf.dtype), x, self.tree(vector))
        return _listed(self.objective.hessian_product(x, u))  # type: ignore[misc]


def _same(a: Parts, b: Parts) -> bool:
    return len(a) == len(b) and all(p is q for p, q in zip(a, b, strict=True))


def _listed(tree: Tree) -> Any:
    parts = list(leaves(tree))
    return parts if len(parts) > 1 else parts[0]


def of_pymanopt(theirs: Any, has_hessian: bool, direction: Callable[[Any, Any], Any], flat: bool) -> Objective:
    """Return the objective of a ``pymanopt.Problem``.

    Parameters
    ----------
    theirs : pymanopt.Problem
    has_hessian : bool
        Whether the manifold can convert Euclidean Hessian products to Riemannian ones.
    direction : callable
        ``(x, u) -> vector``, the argument of ``theirs.euclidean_hessian`` for the ambient tangent vector u.
    flat : bool
        Whether points of pymanopt are flat lists of arrays while ours are nested.
    """

    def point(x: Tree) -> Any:
        copies = tree_map(np.array, x)  # torch warns of arrays that are read-only
        return list(leaves(copies)) if flat else copies

    def value(x: Tree) -> float:
        return number(theirs.cost(point(x)))

    gradient = _supported(theirs, "euclidean_gradient")
    riemannian = gradient is None and theirs._riemannian_gradient is not None
    if riemannian:
        gradient = theirs.riemannian_gradient
    if gradient is None:
        return Objective(value)

    def value_and_gradient(x: Tree) -> tuple[float, Tree]:
        at = point(x)
        return number(theirs.cost(at)), _grouped(gradient(at), x)

    if riemannian:
        return Objective(value, value_and_gradient, riemannian=True)
    product = _supported(theirs, "euclidean_hessian") if has_hessian else None
    if product is None:
        return Objective(value, value_and_gradient)

    def hessian_product(x: Tree, u: Tree) -> Tree:
        return _grouped(product(point(x), direction(x, point(u))), x)

    return Objective(value, value_and_gradient, hessian_product, costly_hessian=theirs._euclidean_hessian is None)


def _supported(theirs: Any, operator: str) -> Any:
    """Return an operator of a problem, or None if it is not given and the backend cannot differentiate."""
    try:
        return getattr(theirs, operator)
    except NotImplementedError:
        return None


def _grouped(gradient: Any, x: Tree) -> Tree:
    rest = _arrays(gradient)
    return tree_map(lambda leaf: np.asarray(next(rest), leaf.dtype), x)


def _arrays(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Sequence):
        for part in tree:
            yield from _arrays(part)
    else:
        yield tree
