"""Arithmetic on points and tangent vectors that are arrays or nested tuples of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `function` to the leaves of trees of equal structure."""
    if isinstance(tree, tuple):
        return tuple(tree_map(function, *parts) for parts in zip(tree, *rest, strict=True))
    return function(tree, *rest)


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves in order."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def flatten(tree: Any) -> np.ndarray:
    """Return all entries as one vector; of a contiguous array, a view."""
    if isinstance(tree, tuple):
        return np.concatenate([leaf.reshape(-1) for leaf in leaves(tree)])
    return tree.reshape(-1)


def unflattener(tree: Any) -> Callable[[np.ndarray], Any]:
    """Return the inverse of :func:`flatten` for trees shaped like `tree`; its leaves are views."""
    if not isinstance(tree, tuple):
        shape = tree.shape
        return lambda vector: vector.reshape(shape)
    slots: list[tuple[int, int, tuple[int, ...]]] = []
    start = 0

    def plan(part: Any) -> Any:
        nonlocal start
        if isinstance(part, tuple):
            return tuple(plan(child) for child in part)
        slots.append((start, start + part.size, part.shape))
        start += part.size
        return len(slots) - 1

    skeleton = plan(tree)
    if all(not isinstance(part, tuple) for part in skeleton):
        return lambda vector: tuple([vector[a:b].reshape(shape) for a, b, shape in slots])
    return lambda vector: tree_map(lambda k: vector[slots[k][0] : slots[k][1]].reshape(slots[k][2]), skeleton)


def freeze(tree: Any) -> Any:
    """Make the leaves C-contiguous and read-only, in place where possible; an unchanged tree keeps its identity."""
    if isinstance(tree, tuple):
        parts = [freeze(part) for part in tree]
        return tree if all(a is b for a, b in zip(parts, tree, strict=True)) else tuple(parts)
    if not tree.flags.c_contiguous:
        tree = np.ascontiguousarray(tree)
    tree.flags.writeable = False
    return tree


def norm(tree: Any) -> float:
    """Return the Euclidean norm over all entries, summed in float64."""
    total = 0.0
    for leaf in leaves(tree):
        flat = leaf.reshape(-1)
        total += (
            float(np.dot(flat, flat)) if flat.dtype == np.float64 else float(np.sum(np.square(flat, dtype=np.float64)))
        )
    return total**0.5


def dtype_of(tree: Any) -> np.dtype:
    """Return the common dtype of the leaves."""
    return np.result_type(*(leaf.dtype for leaf in leaves(tree)))


def shapes(tree: Any) -> Any:
    """Return the tree of the shapes of the leaves."""
    if isinstance(tree, tuple):
        return tuple(shapes(part) for part in tree)
    return np.shape(tree)
