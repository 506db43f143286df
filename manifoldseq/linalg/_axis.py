"""Operations for one problem or many at once: scalars, decisions and vectors with or without a leading axis.

Descents, searches, the frame, first steps and Krylov spaces are written once, in terms of an axis. With :data:`ONE`
scalars are floats, decisions are bools and flat vectors have shape (n,); with :data:`ROWS` scalars and decisions are
arrays (B,) and vectors (B, n), one row per problem. ``take`` and ``put`` select the rows for which a decision is true
and write them back; for one problem, they are the identity, because they are called only if the decision is true.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._blas import AXPY
from ._eigen import eigh
from ._tree import SMALLEST, dot, dot_of, flatten, leaves, norm, unflattener_of

Scalar = Any
"""A float, or an array (B,)."""
Decision = Any
"""A bool, or an array (B,) of them."""
Vector = np.ndarray
"""Of shape (n,), or (B, n)."""


class One:
    """The arithmetic of one problem."""

    any = all = staticmethod(operator.truth)
    no = staticmethod(operator.not_)
    finite = staticmethod(math.isfinite)
    least, most, number = staticmethod(min), staticmethod(max), staticmethod(float)
    flatten, norm = staticmethod(flatten), staticmethod(norm)
    tree = staticmethod(unflattener_of)
    sign = staticmethod(partial(math.copysign, 1.0))
    dot, dot_of = staticmethod(dot), staticmethod(dot_of)
    eigh = staticmethod(np.linalg.eigh)

    @staticmethod
    def length(v: Vector) -> Scalar:
        """Return the Euclidean norm of a flat vector in its dtype, in float64 where its squares underflow."""
        square = dot(v, v)
        return norm(v) if square < SMALLEST[v.dtype] else square**0.5

    @staticmethod
    def axpy_of(v: Vector) -> Callable[..., Any]:
        """Return ``(y, q, n, a)``, which adds a·y to q in place."""
        return AXPY[v.dtype]

    @staticmethod
    def times(t: Scalar, v: Vector) -> Vector:
        return v if t == 1 else t * v

    @staticmethod
    def over(v: Vector, t: Scalar) -> Vector:
        return v / v.dtype.type(t)

    @staticmethod
    def ratio(a: Scalar, b: Scalar, other: Scalar = 0.0) -> Scalar:
        """Return a/b, or `other` if b is not above zero."""
        return a / b if b > 0 else other

    @staticmethod
    def quotient(a: Scalar, b: Scalar) -> Scalar:
        """Return a/b, or zero if b is zero."""
        return a / b if b != 0 else 0.0

    @staticmethod
    def where(c: Decision, a: Any, b: Any) -> Any:
        return a if c else b

    @staticmethod
    def take(c: Decision, *trees: Any) -> Any:
        return trees[0] if len(trees) == 1 else trees

    @staticmethod
    def put(tree: Any, c: Decision, part: Any) -> Any:
        return part

    @staticmethod
    def within(c: Decision, d: Decision) -> Decision:
        """Return the decision over all rows from the decision `d` over the rows of `c`."""
        return d

    @staticmethod
    def filled(x: Any, value: Any) -> Any:
        return value

    @staticmethod
    def each(function: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a function of the numbers of one problem to every problem."""
        return function(*arguments)

    @staticmethod
    def power(size: Scalar) -> Scalar:
        """Return the power of two next above a size."""
        return 2 * math.ldexp(0.5, math.frexp(size)[1])  # infinite above the range, where ldexp alone raises an error

    @staticmethod
    def coarse(step: Scalar) -> Scalar:
        """Return a step rounded to seven bits, which does not depend on rounding of the curvature."""
        mantissa, exponent = math.frexp(step)
        return 2 * math.ldexp(round(64 * mantissa) / 128, exponent)


class Rows:
    """The arithmetic of many problems over one manifold."""

    any, all = staticmethod(np.any), staticmethod(np.all)
    no, finite = staticmethod(np.logical_not), staticmethod(np.isfinite)
    least, most, number = staticmethod(np.minimum), staticmethod(np.maximum), staticmethod(np.asarray)
    eigh = staticmethod(eigh)
    sign = staticmethod(partial(np.copysign, 1.0))

    @staticmethod
    def flatten(tree: Any) -> Vector:
        parts = [leaf.reshape(len(leaf), -1) for leaf in leaves(tree)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def norm(self, tree: Any) -> Scalar:
        return self.length(self.flatten(tree))

    def length(self, v: Vector) -> Scalar:
        """Return the Euclidean norms of flat vectors in float64, also where squares underflow."""
        square = np.vecdot(v, v, dtype=np.float64)
        small = square < SMALLEST[_FLOAT64]
        if not small.any():
            return square**0.5
        unit = np.where(small, self.power(np.abs(v).max(axis=1, initial=0.0)), 1.0)
        v = v / unit[:, None]
        return unit * np.vecdot(v, v) ** 0.5

    @staticmethod
    def tree(shape: Any) -> Callable[[Vector], Any]:
        return lambda v: _cut(shape, v, [0])

    @staticmethod
    def dot(u: Vector, v: Vector) -> Scalar:
        return np.vecdot(u, v, dtype=np.float64)

    @staticmethod
    def dot_of(dtype: np.dtype) -> Callable[[Vector, Vector], Scalar]:
        return np.vecdot if dtype == np.float64 else Rows.dot

    @staticmethod
    def axpy_of(v: Vector) -> Callable[..., Any]:
        return _axpy

    @staticmethod
    def times(t: Scalar, v: Vector) -> Vector:
        return np.asarray(t, v.dtype).reshape(-1, *[1] * (v.ndim - 1)) * v

    @staticmethod
    def over(v: Vector, t: Scalar) -> Vector:
        return v / np.asarray(t, v.dtype).reshape(-1, *[1] * (v.ndim - 1))

    @staticmethod
    def ratio(a: Scalar, b: Scalar, other: Scalar = 0.0) -> Scalar:
        with np.errstate(all="ignore"):
            return np.where(b > 0, a / b, other)

    @staticmethod
    def quotient(a: Scalar, b: Scalar) -> Scalar:
        with np.errstate(all="ignore"):
            return np.where(b != 0, a / b, 0.0)

    def where(self, c: Decision, a: Any, b: Any) -> Any:
        if not isinstance(a, tuple):
            return np.where(c if np.ndim(a) < 2 else c.reshape(-1, *[1] * (np.ndim(a) - 1)), a, b)
        if c.all() or not c.any():
            return a if c.all() else b
        return _like(a, [self.where(c, *both) for both in zip(a, b, strict=True)])

    def take(self, c: Decision, *trees: Any) -> Any:
        if not isinstance(c, slice):  # of small rows `take` is several times faster than a mask
            c = np.asarray(c)
            c = np.flatnonzero(c) if c.dtype == bool else c
        taken = tuple([self._taken(c, tree) for tree in trees])
        return taken[0] if len(taken) == 1 else taken

    def _taken(self, c: Decision, tree: Any) -> Any:
        if isinstance(tree, np.ndarray):
            return tree[c] if isinstance(c, slice) else tree.take(c, axis=0)
        if isinstance(tree, tuple):
            return _like(tree, [self._taken(c, part) for part in tree])
        if isinstance(tree, dict):
            return {name: self._taken(c, part) for name, part in tree.items()}
        return tree.take(c) if hasattr(tree, "take") else tree

    def put(self, tree: Any, c: Decision, part: Any) -> Any:
        """Return the tree with the rows of `c` replaced by the rows of `part`."""
        if isinstance(tree, tuple):
            return _like(tree, [self.put(a, c, b) for a, b in zip(tree, part, strict=True)])
        if isinstance(tree, dict):
            return {name: self.put(tree[name], c, part[name]) for name in tree}
        if not isinstance(tree, np.ndarray):
            return part
        tree = tree.copy()
        tree[c] = part
        return tree

    @staticmethod
    def within(c: Decision, d: Decision) -> Decision:
        return np.flatnonzero(c)[d]

    def join(self, tree: Any, other: Any) -> Any:
        """Return the rows of one tree, followed by the rows of another tree of the same structure."""
        if isinstance(tree, tuple):
            return _like(tree, [self.join(a, b) for a, b in zip(tree, other, strict=True)])
        if isinstance(tree, dict):
            return {name: self.join(part, other[name]) for name, part in tree.items()}
        return np.concatenate([tree, other]) if isinstance(tree, np.ndarray) else tree

    def one(self, tree: Any, k: int) -> Any:
        """Return the part of row `k` in the form of one problem."""
        if isinstance(tree, tuple):
            return _like(tree, [self.one(part, k) for part in tree])
        if isinstance(tree, dict):
            return {name: self.one(part, k) for name, part in tree.items()}
        return tree if not isinstance(tree, np.ndarray) else tree[k].copy() if tree.ndim > 1 else tree[k].item()

    @staticmethod
    def filled(x: Any, value: Any) -> Any:
        return np.full(len(leaves(x)[0]), value)

    @staticmethod
    def each(function: Callable[..., Any], *arguments: Any) -> Any:
        return np.array([function(*numbers) for numbers in zip(*[a.tolist() for a in arguments], strict=True)])

    @staticmethod
    def power(size: Scalar) -> Scalar:
        return np.ldexp(1.0, np.frexp(size)[1])

    @staticmethod
    def coarse(step: Scalar) -> Scalar:
        mantissa, exponent = np.frexp(step)
        return np.ldexp(np.round(64 * mantissa) / 64, exponent)


def _like(tree: Any, parts: list[Any]) -> Any:
    """Return the parts as a tuple of the same kind."""
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def _axpy(y: Vector, q: Vector, n: int, a: Scalar) -> None:
    q += ROWS.times(a, y)


def _cut(shape: Any, v: Vector, used: list[int]) -> Any:
    if shape and isinstance(shape[0], tuple):
        return tuple([_cut(part, v, used) for part in shape])
    start, used[0] = used[0], used[0] + math.prod(shape)
    return v[:, start : used[0]].reshape(len(v), *shape)


_FLOAT64 = np.dtype(np.float64)

ONE, ROWS = One(), Rows()


def axis_of(v: Vector) -> One | Rows:
    """Return the axis of flat vectors."""
    return ONE if v.ndim == 1 else ROWS
