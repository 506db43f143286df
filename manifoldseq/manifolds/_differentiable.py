"""Exponential, logarithm and distance inside costs that autograd or jax differentiates.

Derivatives are computed along curves of the manifold by fourth-order differences; the derivative of the distance
follows from the logarithm. Derivatives of derivatives are computed in the same way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

STEP = 1e-3
"""Step of the differences for vectors of length one; the error of fourth-order differences is about 1e-11."""

POINT, VECTOR = "point", "vector at the first argument"


def library_of(*trees: Any) -> str:
    """Return the library that traces one of the arguments: ``"autograd"``, ``"jax"`` or ``""``."""
    for tree in trees:
        kind = type(tree)
        if kind is np.ndarray:
            continue
        if kind is tuple or kind is list:
            if found := library_of(*tree):
                return found
            continue
        top = kind.__module__.partition(".")[0]
        if top == "autograd":
            return "autograd"
        if top in ("jax", "jaxlib"):
            return "jax"
    return ""


def differentiable(manifold: Any, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``exp``, ``log`` or ``dist`` of a manifold as a function that also accepts arrays of autograd and jax."""

    @functools.wraps(plain)
    def function(first: Any, second: Any) -> Any:
        library = library_of(first, second)
        return plain(first, second) if not library else _traced(manifold, name, plain, library)(first, second)

    return function


def differentiable_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a class of manifolds that also accepts arrays of autograd and jax."""

    @functools.wraps(method)
    def traced(self: Any, first: Any, second: Any) -> Any:
        if type(first) is type(second) is np.ndarray or not library_of(first, second):
            return method(self, first, second)
        return differentiable(self, name, functools.partial(method, self))(first, second)

    return traced


def differentiable_property(name: str, get: Callable[..., Any]) -> Callable[..., Any]:
    """Return the getter of a property whose functions also accept arrays of autograd and jax."""

    @functools.wraps(get)
    def traced(self: Any) -> Any:
        plain = get(self)
        return None if plain is None else differentiable(self, name, plain)

    return traced


def _traced(manifold: Any, name: str, plain: Callable[..., Any], library: str) -> Callable[..., Any]:
    np_: Any = import_module("autograd.numpy" if library == "autograd" else "jax.numpy")
    rows = _Rows(manifold)

    def value(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        made = plain(rows.tree(x), rows.tree(y))
        return np.asarray(made, float)[..., None] if name == "dist" else rows.flat(made, np)

    kinds = (POINT, VECTOR if name == "exp" else POINT)
    derivatives = [functools.partial(_of_distance, manifold, rows, k) for k in (0, 1)] if name == "dist" else None
    size = 1 if name == "dist" else rows.size
    function = _Function(manifold, rows, value, kinds, (size,), derivatives).traced(library)

    def call(first: Any, second: Any) -> Any:
        flat = [rows.flat(tree, np_) for tree in (first, second)]
        lead = np.broadcast_shapes(*[np.shape(part)[:-1] for part in flat])
        flat = [part + np.zeros((*lead, 1)) for part in flat]
        made = function(*flat)
        return made[..., 0] if name == "dist" else rows.tree(made)

    return call


class _Rows:
    """Points and vectors as rows of their entries."""

    def __init__(self, manifold: Any) -> None:
        self.shape, self.shapes = manifold.shape, _shapes(manifold.shape)
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def flat(self, tree: Any, np_: Any) -> Any:
        parts = zip(_leaves(tree, self.shape), self.shapes, strict=True)
        return np_.concatenate(
            [np_.reshape(leaf, (*np.shape(leaf)[: np.ndim(leaf) - len(shape)], -1)) for leaf, shape in parts], axis=-1
        )

    def tree(self, rows: Any) -> Any:
        cuts, stop = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            cuts.append(rows[..., stop : stop + size].reshape((*np.shape(rows)[:-1], *shape)))
            stop += size
        parts = iter(cuts)

        def built(shape: Any) -> Any:
            return tuple([built(part) for part in shape]) if shape and isinstance(shape[0], tuple) else next(parts)

        return built(self.shape)


def _shapes(shape: Any) -> list[tuple[int, ...]]:
    return [leaf for part in shape for leaf in _shapes(part)] if shape and isinstance(shape[0], tuple) else [shape]


def _leaves(tree: Any, shape: Any) -> list[Any]:
    if shape and isinstance(shape[0], tuple):
        return [leaf for k, part in enumerate(shape) for leaf in _leaves(tree[k], part)]
    return [tree]


class _Function:
    """A function of rows (…, a) that returns arrays (…, *out), with its derivatives by the arguments (…, *out, a)."""

    def __init__(
        self,
        manifold: Any,
        rows: _Rows,
        value: Callable[..., np.ndarray],
        kinds: Sequence[str],
        out: tuple[int, ...],
        derivatives: Sequence[Callable[..., np.ndarray]] | None = None,
    ) -> None:
        self.manifold, self.rows, self.value, self.kinds, self.out = manifold, rows, value, kinds, out
        self.derivatives = derivatives or [functools.partial(self.by_differences, k) for k in range(len(kinds))]

    @functools.cache  # noqa: B019  # lives as long as one call of the cost
    def derivative(self, k: int) -> _Function:
        out = (*self.out, self.rows.size)
        return _Function(self.manifold, self.rows, self.derivatives[k], self.kinds, out)

    def by_differences(self, k: int, *args: np.ndarray) -> np.ndarray:
        """Return the derivative by argument `k` along tangent vectors as a factor of ambient vectors."""
        M, rows = self.manifold, self.rows
        x = args[0] if self.kinds[k] == VECTOR else args[k]
        point = rows.tree(x)
        B = M.basis(point)  # (…, a, d)
        d = B.shape[-1]
        many = [np.repeat(arg[..., None, :], d, axis=-2) for arg in args]
        u, total = B.mT, np.zeros(())
        for step, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = list(many)
            if self.kinds[k] == VECTOR:
                moved[k] = many[k] + step * STEP * u
            else:
                y = M.retract(rows.tree(many[k]), rows.tree(step * STEP * u))
                moved[k] = rows.flat(y, np)
                if VECTOR in self.kinds:  # vectors at the point stay tangent
                    at = self.kinds.index(VECTOR)
                    moved[at] = rows.flat(M.project(y, rows.tree(many[at])), np)
            total = total + weight * self.value(*moved)
        slopes = np.moveaxis(total / (12 * STEP), -1 - len(self.out), -1)  # (…, *out, d)
        dual = _duals(M, rows, x, B, self.kinds[k])
        return np.einsum(f"{'...'}{_AXES[: len(self.out)]}d,...ad->...{_AXES[: len(self.out)]}a", slopes, dual)

    def traced(self, library: str) -> Callable[..., Any]:
        """Return the function for arrays of a library."""
        return self._by_autograd() if library == "autograd" else self._by_jax()

    def _by_autograd(self) -> Callable[..., Any]:
        extend: Any = import_module("autograd.extend")
        anp: Any = import_module("autograd.numpy")
        function = extend.primitive(self.value)
        axes = _AXES[: len(self.out)]

        def back(k: int) -> Callable[..., Any]:
            def pull(answer: Any, *args: Any) -> Callable[[Any], Any]:
                J = self.derivative(k).traced("autograd")(*args)
                return lambda g: anp.einsum(f"...{axes},...{axes}z->...z", g, J)

            return pull

        extend.defvjp(function, *[back(k) for k in range(len(self.kinds))])
        return function

    def _by_jax(self) -> Callable[..., Any]:
        jax: Any = import_module("jax")
        axes = _AXES[: len(self.out)]

        @jax.custom_jvp
        def function(*args: Any) -> Any:
            lead = args[0].shape[:-1]
            shape = jax.ShapeDtypeStruct((*lead, *self.out), args[0].dtype)

            def called(*arrays: Any) -> np.ndarray:
                plain = [np.asarray(array, dtype=np.float64) for array in arrays]
                return np.asarray(self.value(*plain), dtype=shape.dtype)

            return jax.pure_callback(called, shape, *args)

        def forward(args: Any, tangents: Any) -> Any:
            along = [
                jax.numpy.einsum(f"...{axes}z,...z->...{axes}", self.derivative(k).traced("jax")(*args), tangent)
                for k, tangent in enumerate(tangents)
            ]
            return function(*args), functools.reduce(jax.numpy.add, along)

        function.defjvp(forward)
        return function


_AXES = "opqrst"


def _duals(manifold: Any, rows: _Rows, x: np.ndarray, B: np.ndarray, kind: str) -> np.ndarray:
    """Return (…, a, d): Σ cₖ dualₖ is a Euclidean gradient whose derivatives along the basis are the numbers cₖ."""
    if manifold.metric == "embedded":
        return B
    if kind == VECTOR:
        return np.linalg.solve(B.mT @ B, B.mT).mT
    columns = rows.tree(np.ascontiguousarray(B.mT))
    base = rows.tree(np.repeat(x[..., None, :], B.shape[-1], axis=-2))
    return rows.flat(manifold.euclidean_gradient(base, columns), np).mT


def _of_distance(manifold: Any, rows: _Rows, k: int, *args: np.ndarray) -> np.ndarray:
    """Return the derivative of the distance: the gradient −log/dist, and zero where the points coincide."""
    x, y = (rows.tree(arg) for arg in (args[k], args[1 - k]))
    log = manifold.log(x, y)
    length = np.sqrt(np.maximum(np.asarray(manifold.inner(x, log, log)), 0.0))[..., None]
    gradient = rows.flat(manifold.euclidean_gradient(x, log), np)
    unit = np.where(length > 1e-14, -gradient / np.where(length > 1e-14, length, 1.0), 0.0)
    return unit[..., None, :]
