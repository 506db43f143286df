"""Arithmetic on points and tangent vectors that are arrays or nested tuples of arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from ._blas import DOT


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to the arrays of points or tangent vectors of equal structure.

    Parameters
    ----------
    function : callable
        A function with one array argument per tree.
    tree, *rest : array or nested tuple of arrays

    Returns
    -------
    array or nested tuple
        The results of the function, in the structure of `tree`.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> x, u = (np.ones(2), np.zeros(1)), (np.array([0.0, 1.0]), np.array([3.0]))
    >>> ms.linalg.tree_map(lambda a, b: a + 2 * b, x, u)
    (array([1., 3.]), array([6.]))
    """
    if isinstance(tree, tuple):
        return tuple(tree_map(function, *parts) for parts in zip(tree, *rest, strict=True))
    return function(tree, *rest)


def leaves(tree: Any) -> Sequence[Any]:
    """Return the leaves in order."""
    if type(tree) is not tuple:
        return (tree,)
    if tuple not in map(type, tree):
        return tree
    return [leaf for part in tree for leaf in leaves(part)]


def flatten(tree: Any) -> np.ndarray:
    """Return all entries of a point or tangent vector as one vector, in the order of the factors.

    For one contiguous array, the result is a view. Equivalent to `jax.flatten_util.ravel_pytree` of tuples of arrays.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Stiefel(3, 2), ms.manifolds.Euclidean(2))
    >>> ms.linalg.flatten((np.eye(3, 2), np.array([7.0, 8.0]))).tolist()
    [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 7.0, 8.0]
    """
    if type(tree) is not tuple:
        return tree.reshape(-1)
    return np.concatenate([leaf.ravel() for leaf in leaves(tree)])


def unflattener(tree: Any) -> Callable[[np.ndarray], Any]:
    """Return the inverse of :func:`flatten` for points with the structure of `tree`: a function of a vector.

    The arrays that it returns are views of the vector.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> x = (np.eye(3, 2), np.array([7.0, 8.0]))
    >>> unflatten = ms.linalg.unflattener(x)
    >>> unflatten(2 * ms.linalg.flatten(x))[1].tolist()
    [14.0, 16.0]
    """
    return unflattener_of(shapes(tree))


@lru_cache(maxsize=256)
def unflattener_of(shape: Any) -> Callable[[np.ndarray], Any]:
    """Return :func:`unflattener` for trees of this tree of shapes."""
    if not (shape and isinstance(shape[0], tuple)):
        return lambda vector: vector.reshape(shape)
    stops = list(accumulate(map(_size, shape)))
    cuts = [slice(a, b) for a, b in zip([0, *stops], stops, strict=False)]
    if not any([part and isinstance(part[0], tuple) for part in shape]):
        leaves = list(zip(cuts, shape, strict=True))
        return lambda vector: tuple([vector[cut].reshape(part) for cut, part in leaves])
    parts = list(zip(cuts, map(unflattener_of, shape), strict=True))
    return lambda vector: tuple([part(vector[cut]) for cut, part in parts])


def _size(shape: Any) -> int:
    return sum(map(_size, shape)) if shape and isinstance(shape[0], tuple) else math.prod(shape)


EPS = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float32, np.float64)}
"""The machine epsilon, by dtype."""


def freeze(tree: Any) -> Any:
    """Make the leaves C-contiguous and read-only, in place where possible; an unchanged tree keeps its identity."""
    if isinstance(tree, tuple):
        parts = tuple([freeze(part) for part in tree])
        return tree if all(map(operator.is_, parts, tree)) else parts
    flags = tree.flags
    if not flags.c_contiguous:
        tree = np.ascontiguousarray(tree)
        flags = tree.flags
    if flags.writeable:
        flags.writeable = False
    return tree


def norm(tree: Any) -> float:
    """Return the Euclidean norm over all entries, summed in float64; also where squares underflow or overflow."""
    square = 0.0
    for leaf in leaves(tree):
        flat = leaf.ravel().astype(np.float64, copy=False)
        square += _DOT(flat, flat) if flat.size else 0.0
    if square < SMALLEST[_FLOAT64] or square == math.inf:
        largest = max((float(np.max(np.abs(leaf), initial=0.0)) for leaf in leaves(tree)), default=0.0)
        if 0 < largest < math.inf:
            # a power of two, so that no digit changes; 1 / largest may overflow
            unit = math.ldexp(1.0, min(1023, math.frexp(largest)[1]))
            return unit * norm(tree_map(lambda leaf: leaf.astype(np.float64) / unit, tree))
    return square**0.5


_FLOAT64 = np.dtype(np.float64)
_DOT = DOT[_FLOAT64]
SMALLEST = {np.dtype(t): float(np.finfo(t).tiny) / float(np.finfo(t).eps) ** 2 for t in (np.float32, np.float64)}
"""Sums of squares below this value are inaccurate because of underflow."""


def dot(u: np.ndarray, v: np.ndarray) -> float:
    """Return the dot product of two contiguous vectors, summed in their dtype."""
    return DOT[u.dtype](u, v) if u.size else 0.0


def dot_of(dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return :func:`dot` for vectors of this dtype."""
    return DOT[dtype]


def sums_of_parts(v: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Return the sums in float64 of consecutive parts of the last axis, of these sizes; 0 for an empty part."""
    starts, filled = _parts(sizes)
    sums = np.add.reduceat(v, starts, axis=-1, dtype=np.float64) if starts.size else np.zeros((*v.shape[:-1], 0))
    if starts.size == len(sizes):
        return sums
    every = np.zeros((*v.shape[:-1], len(sizes)))
    every[..., filled] = sums
    return every


@lru_cache(maxsize=256)
def _parts(sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return where the parts begin that are not empty, and a mask of these: for others `reduceat` takes an entry."""
    filled = np.array(sizes, dtype=int) > 0
    return np.concatenate([[0], np.cumsum(sizes)])[:-1][filled].astype(np.intp), filled


def dtype_of(tree: Any) -> np.dtype:
    """Return the common dtype of the leaves."""
    if type(tree) is not tuple:
        return tree.dtype
    dtypes = {leaf.dtype for leaf in leaves(tree)}
    return dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)


def shapes(tree: Any) -> Any:
    """Return the tree of the shapes of the leaves."""
    if isinstance(tree, tuple):
        return tuple([shapes(part) for part in tree])
    return np.shape(tree)
