"""Manifolds of pymanopt as manifolds of manifoldseq."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._result import Point, Tree
from ..linalg import dtype_of, eigh, leaves, norm, polar, shapes, symmetric, tree_map
from ..manifolds import InFrame, Manifold, Product, filled, leaf_shapes, logarithmic_longest
from ._pymanopt import numpy_random, pymanopt


def from_pymanopt(manifold: Any) -> Manifold:
    """Convert a manifold of pymanopt to a manifold that solvers, checks and problems accept.

    Parameters
    ----------
    manifold : pymanopt.manifolds.manifold.Manifold
        A manifold with real points. A ``Product`` becomes a :class:`Product` of manifoldseq, factor by factor.

    Returns
    -------
    Manifold
        A manifold whose points are arrays, or tuples of arrays in place of pymanopt's lists. Tangent vectors are in
        ambient coordinates, also if pymanopt represents them otherwise (skew-symmetric matrices on SO(n), three blocks
        for fixed-rank matrices, here ``(du, ds, dvt)``). For a manifold from :func:`to_pymanopt`, the original manifold
        is returned.

    Raises
    ------
    TypeError
        If `manifold` is not a manifold of pymanopt, has complex points, or lacks a method that every solver needs.

    Notes
    -----
    The retractions are the retraction of pymanopt (``"pymanopt"``) and, if pymanopt has an exponential map, ``"exp"``.
    Every operation works on one point at a time, with a loop over leading axes. ``nearest`` retracts the zero vector.
    For a point near the manifold, the result is on the manifold: the nearest point, or the factor Q of a QR
    factorization. ``feasibility`` is the distance by which ``nearest`` moves a point. It does not detect the boundary
    of an open set, such as the positive definite matrices. Random numbers come from the given generator; the state of
    ``numpy.random`` is restored. If pymanopt has no transport, vectors are projected. The Hessian of ``Product`` is
    correct for factors such as SO(n), whose tangent vectors pymanopt 2.2.1 does not embed. ``exp``, ``log``, ``dist``
    and ``typical_distance`` are the functions of pymanopt, if the manifold has them. ``log`` and ``dist`` are used only
    if they are consistent with ``exp``: at one pair of points, the exponential of the logarithm must be the other
    point, and the distance must be the length of the logarithm. In this case ``geodesic`` and
    :func:`~manifoldseq.frechet_mean` work too. Parallel transport is None. If manifoldseq has the same manifold, its
    own class is faster.

    Examples
    --------
    >>> import numpy as np, pymanopt, manifoldseq as ms
    >>> M = ms.from_pymanopt(pymanopt.manifolds.Oblique(3, 4))
    >>> M.dim, M.shape
    (8, (3, 4))
    """
    theirs = pymanopt().manifolds
    if isinstance(manifold, pymanopt().Problem):
        raise TypeError("from_pymanopt needs a manifold: for a whole problem, use ms.Problem.from_pymanopt(problem)")
    if not isinstance(manifold, theirs.manifold.Manifold):
        raise TypeError(
            f"from_pymanopt needs a manifold such as pymanopt.manifolds.Stiefel(5, 2), got {type(manifold).__name__}"
        )
    from ._as_pymanopt import OurManifold

    if isinstance(manifold, OurManifold):
        return manifold.manifold
    if isinstance(manifold, theirs.Product):
        return Product(*map(from_pymanopt, manifold.manifolds))
    return TheirManifold(manifold)


@dataclass(frozen=True, repr=False)
class TheirManifold(Manifold):
    """A manifold of pymanopt with our operations, as returned by ``ms.from_pymanopt``."""

    theirs: Any
    metric: ClassVar[str] = "pymanopt"  # type: ignore[misc]
    vectors: Any = field(init=False, compare=False)
    shapes: Any = field(init=False, compare=False)
    retractions: Any = field(init=False, compare=False)  # type: ignore[assignment]
    has_hessian: bool = field(init=False, compare=False)
    has_transport: bool = field(init=False, compare=False)
    has_log: bool = field(init=False, compare=False)
    has_dist: bool = field(init=False, compare=False)
    quotient: Any = field(init=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        theirs, manifolds = self.theirs, pymanopt().manifolds
        fixed_rank = isinstance(theirs, manifolds.FixedRankEmbedded)
        object.__setattr__(self, "vectors", FixedRankVectors() if fixed_rank else EmbeddedVectors(theirs))
        with numpy_random(np.random.default_rng(0)):
            point = theirs.random_point()
            vector = theirs.random_tangent_vector(point)
        x = _tuple(point)
        if any(leaf.dtype.kind == "c" for leaf in leaves(x)):
            raise TypeError(f"{theirs} of pymanopt has complex points: manifoldseq supports real points only")
        object.__setattr__(self, "shapes", shapes(x))
        u = self.vectors.to_ours(point, vector)
        for method, *arguments in ("euclidean_to_riemannian_gradient", point, u), ("retraction", point, vector):
            if not _implements(theirs, method, *arguments):
                raise TypeError(f"{theirs} of pymanopt does not implement {method}, which every solver needs")
        exact = not isinstance(theirs, manifolds.manifold.RetrAsExpMixin) and _implements(theirs, "exp", point, vector)
        object.__setattr__(self, "retractions", ("pymanopt", "exp") if exact else ("pymanopt",))
        curved = not fixed_rank and _implements(theirs, "euclidean_to_riemannian_hessian", point, u, u, vector)
        object.__setattr__(self, "has_hessian", curved)
        object.__setattr__(self, "has_transport", _implements(theirs, "transport", point, point, vector))
        # a logarithm counts if it inverts exp, a distance if it is its length: some of theirs are approximations
        near = theirs.exp(point, 0.1 * vector) if exact else point
        # scipy's logm warns, and draws random numbers
        with numpy_random(np.random.default_rng(0)), warnings.catch_warnings(action="ignore"):
            inverts = exact and _agrees(theirs, "log", (point, near), lambda w: theirs.norm(point, w - 0.1 * vector))
            length = 0.1 * theirs.norm(point, vector)
            measures = inverts and _agrees(theirs, "dist", (point, near), lambda d: d - length)
        object.__setattr__(self, "has_log", inverts)
        object.__setattr__(self, "has_dist", measures)
        quotients = manifolds.Grassmann | manifolds.PSDFixedRank | manifolds.Elliptope
        object.__setattr__(self, "quotient", isinstance(theirs, quotients))

    def __repr__(self) -> str:
        return f"from_pymanopt({self.theirs})"

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.shapes

    @property
    def dim(self) -> int:
        return int(self.theirs.dim)

    @property
    def second_order(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.retractions[1:]

    @property
    def frame(self) -> Manifold | None:
        return _FixedRankInFrame(self.theirs) if isinstance(self.vectors, FixedRankVectors) else None

    def euclidean_gradient(self, x: Point, u: Point) -> Point:
        return u

    def project(self, x: Point, u: Point) -> Point:
        return self._each(lambda x, u: self.vectors.project(x, u), x, u)

    def inner(self, x: Point, u: Point, v: Point) -> Any:
        def inner(x: Point, u: Point, v: Point) -> np.ndarray:
            return np.asarray(self.theirs.inner_product(*self._theirs(x, u, v)), dtype=float)

        total = self._each(inner, x, u, v, cast=False)
        return float(total) if total.ndim == 0 else total

    def gradient(self, x: Point, egrad: Point) -> Point:
        def gradient(x: Point, g: Point) -> Point:
            u = self.vectors.to_ours(x, self.theirs.euclidean_to_riemannian_gradient(x, g))
            return self.vectors.project(x, u) if self.quotient else u  # pymanopt counts on an invariant function

        return self._each(gradient, x, egrad)

    @property
    def hessian(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self._hessian if self.has_hessian else None

    def _hessian(self, x: Point, egrad: Point, ehess: Point, u: Point) -> Point:
        def hessian(x: Point, g: Point, h: Point, u: Point) -> Point:
            x, u = self._theirs(x, u)
            return self.vectors.to_ours(x, self.theirs.euclidean_to_riemannian_hessian(x, g, h, u))

        return self._each(hessian, x, egrad, ehess, u)

    def retract(self, x: Point, u: Point, kind: str | None = None) -> Point:
        move = self.theirs.exp if self._kind(kind) == "exp" else self.theirs.retraction
        return self._each(lambda x, u: self.vectors.arrived(x, _tuple(move(*self._theirs(x, u)))), x, u)

    @property
    def log(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self._log if self.has_log else None

    def _log(self, x: Point, y: Point) -> Point:
        def log(x: Point, y: Point) -> Point:
            # theirs may divide zero by zero between equal points, and scipy's logm warn of single precision
            quiet = warnings.catch_warnings(action="ignore", category=RuntimeWarning)
            with np.errstate(invalid="ignore"), quiet, numpy_random(np.random.default_rng(0)):
                u = tree_map(_real, self.vectors.to_ours(x, self.theirs.log(x, y)))
            step = tree_map(np.subtract, y, x)
            return self.vectors.project(x, step) if norm(step) < 1e-13 * norm(x) else u

        return self._each(log, *self._together(x, y))

    @property
    def dist(self) -> Callable[..., Any] | None:  # type: ignore[override]
        return self._dist if self.has_dist else self._length_of_log if self.has_log else None

    def _dist(self, x: Point, y: Point) -> Any:
        x, y = self._together(x, y)
        with numpy_random(np.random.default_rng(0)):
            length = self._each(lambda x, y: np.asarray(self.theirs.dist(x, y), dtype=float), x, y, cast=False)
        return float(length) if length.ndim == 0 else length

    @property
    def typical_distance(self) -> float | None:  # type: ignore[override]
        return float(self.theirs.typical_dist) if _implements(self.theirs, "typical_dist") else None

    def transport(self, x: Point, y: Point, u: Point) -> Point:
        def transport(x: Point, y: Point, u: Point) -> Point:
            if not self.has_transport:
                return self.vectors.project(y, u)
            x, u = self._theirs(x, u)
            return self.vectors.to_ours(y, self.theirs.transport(x, y, u))

        return self._each(transport, x, y, u)

    def nearest(self, x: Point) -> Point:
        return self._each(lambda x: self.vectors.nearest(x), x)

    def feasibility(self, x: Point) -> Any:
        def moved(x: Point) -> np.ndarray:
            y = self.vectors.nearest(x)
            return np.array(max(float(np.max(np.abs(a - b))) for a, b in zip(leaves(x), leaves(y), strict=True)))

        worst = self._each(moved, x, cast=False)
        return float(worst) if worst.ndim == 0 else worst

    @property
    def _inward(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
        """Return the predicted decrease of a step inward, on the open sets of pymanopt."""
        return _OPEN.get(type(self.theirs).__name__)

    def scale(self, x: Point) -> Any:
        return np.sqrt(Manifold.inner(self, x, x, x)) if self._inward is None else filled(x, self.shape, 1.0)

    def pushed_inward(self, x: Point, egrad: Point) -> Any:
        inward = self._inward
        if inward is None:
            return filled(x, self.shape, 0.0)
        gain = np.asarray(self._each(lambda x, g: np.max(inward(x, g)), x, egrad, cast=False))
        return float(gain) if gain.ndim == 0 else gain

    def longest(self, x: Point, u: Point) -> Any:
        return filled(x, self.shape, np.inf) if self._inward is None else logarithmic_longest(self, x, u)

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Point:
        with numpy_random(rng):
            return tree_map(lambda leaf: np.array(leaf, dtype=dtype), _tuple(self.theirs.random_point()))

    def random_tangent(self, x: Point, rng: np.random.Generator) -> Point:
        with numpy_random(rng):
            u = self._each(lambda x: self.vectors.to_ours(x, self.theirs.random_tangent_vector(x)), x)
        scale = dtype_of(x).type(max(self.dim, 1) ** 0.5 / max(norm(u), 1e-300))  # theirs are of length one
        return tree_map(lambda leaf: scale * leaf, u)

    def _theirs(self, x: Point, *vectors: Point) -> tuple[Any, ...]:
        return x, *(self.vectors.to_theirs(x, u) for u in vectors)

    def _together(self, x: Point, y: Point) -> tuple[Point, Point]:
        """Return two points with the leading axes of both."""
        shapes = iter(leaf_shapes(self.shape))

        def pair(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
            k = len(next(shapes))
            axes = np.broadcast_shapes(a.shape[: a.ndim - k], b.shape[: b.ndim - k])
            return [np.broadcast_to(leaf, (*axes, *leaf.shape[leaf.ndim - k :])) for leaf in (a, b)]

        pairs = tree_map(pair, x, y)
        return tree_map(lambda leaf, both: both[0], x, pairs), tree_map(lambda leaf, both: both[1], x, pairs)

    def _each(self, operation: Callable[..., Any], x: Point, *trees: Point, cast: bool = True) -> Any:
        """Apply an operation at every point over the leading axes; return the results in the dtype of the point."""
        first, shape = leaves(x)[0], leaf_shapes(self.shape)[0]
        axes = first.shape[: first.ndim - len(shape)]

        def at(*where: int) -> Any:
            result = operation(*(tree_map(lambda leaf: leaf[where], tree) for tree in (x, *trees)))
            return tree_map(lambda like, leaf: np.asarray(leaf, like.dtype), x, result) if cast else result

        if not axes:
            return at()
        results = [at(*where) for where in np.ndindex(*axes)]
        return tree_map(lambda *parts: np.stack(parts).reshape(*axes, *parts[0].shape), *results)


def _ball_inward(x: np.ndarray, egrad: np.ndarray) -> np.ndarray:
    """Return the decrease to first order on the way to the best point of the closed unit ball."""
    return np.linalg.norm(egrad, axis=-1) + np.sum(x * egrad, axis=-1)


_OPEN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "PoincareBall": _ball_inward,
    "Positive": lambda x, egrad: np.maximum(-egrad, 0) * x.max(),
    "SymmetricPositiveDefinite": lambda x, egrad: (
        np.maximum(-eigh(symmetric(egrad))[0][..., 0], 0) * eigh(symmetric(x))[0][..., -1]
    ),
}
"""The open sets among pymanopt's manifolds, with functions for the predicted decrease of a step inward."""


def hessian_direction(theirs: Any, x: Point, u: Any) -> Any:
    """Return the argument for `euclidean_hessian` of a pymanopt problem, from an ambient tangent vector."""
    manifolds = pymanopt().manifolds
    if type(theirs).embedding is manifolds.manifold.Manifold.embedding:
        return u
    if isinstance(theirs, manifolds.Product):
        return [hessian_direction(f, a, b) for f, a, b in zip(theirs.manifolds, x, u, strict=True)]
    return theirs.projection(x, u)


class EmbeddedVectors:
    """Tangent vectors that are arrays in pymanopt: in ambient coordinates, or converted by its `embedding`."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs
        manifolds = pymanopt().manifolds
        self.ambient = type(theirs).embedding is manifolds.manifold.Manifold.embedding
        self.linear = isinstance(theirs, manifolds.Symmetric | manifolds.SkewSymmetric)

    def to_theirs(self, x: Any, u: Any) -> Any:
        return u if self.ambient else self.theirs.projection(x, u)

    def to_ours(self, x: Any, vector: Any) -> Any:
        return vector if self.ambient else self.theirs.embedding(x, vector)

    def project(self, x: Any, u: Any) -> Any:
        return self.to_ours(x, self.theirs.projection(x, u))

    def arrived(self, x: Any, y: Any) -> Any:
        return y

    def nearest(self, x: Any) -> Any:
        return self.theirs.projection(x, x) if self.linear else self.theirs.retraction(x, self.theirs.zero_vector(x))


def _tuple(point: Any) -> Tree:
    return tuple(map(_tuple, point)) if isinstance(point, list | tuple) else np.asarray(point)


def _implements(theirs: Any, method: str, *arguments: Any) -> bool:
    try:
        found = getattr(theirs, method)
        found(*arguments) if callable(found) else found
    except NotImplementedError:
        return False
    return True


def _real(array: np.ndarray) -> np.ndarray:
    """Return a real array, or NaN for an array with imaginary parts beyond rounding, as of matrix logarithms."""
    rounding = 1e-6 * max(1.0, float(np.abs(array).max(initial=0.0)))
    return np.real(array) if np.abs(np.imag(array)).max(initial=0.0) < rounding else np.full(array.shape, np.nan)


def _agrees(theirs: Any, method: str, arguments: tuple[Any, ...], off: Callable[[Any], float]) -> bool:
    """Return whether a method exists and its result is correct up to rounding."""
    return _implements(theirs, method, *arguments) and abs(off(getattr(theirs, method)(*arguments))) < 1e-7


Three = tuple[np.ndarray, np.ndarray, np.ndarray]


class FixedRankVectors:
    """Converts ``(du, ds, dvt)`` at a point ``(u, s, vt)`` to and from pymanopt's ``(Up, M, Vp)`` of the same velocity

    ``du diag(s) vt + u diag(ds) vt + u diag(s) dvt = u M vt + Up vt + u Vpᵀ``. The first form is unique if no two
    singular values are equal, like the derivative of a function of ``(u, s, vt)``.
    """

    def to_theirs(self, x: Three, u: Three) -> Any:
        (left, s, right), (dl, ds, dr) = x, u
        M = (left.T @ dl) * s + np.diag(ds) + s[:, None] * (dr @ right.T)
        Up = (dl - left @ (left.T @ dl)) * s
        Vp = (dr.T - right.T @ (right @ dr.T)) * s
        return pymanopt().manifolds.fixed_rank._FixedRankTangentVector(Up, M, Vp)

    def to_ours(self, x: Three, vector: Any) -> Three:
        (left, s, right), (Up, M, Vp) = x, vector
        gaps = s[None, :] ** 2 - s[:, None] ** 2 + np.eye(len(s), dtype=s.dtype)
        turn = M - np.diag(np.diag(M))
        a = (turn * s[None, :] + turn.T * s[:, None]) / gaps
        b = -(turn * s[:, None] + turn.T * s[None, :]) / gaps
        return left @ a + Up / s, np.diag(M), b @ right + (Vp / s).T

    def project(self, x: Three, u: Three) -> Three:
        (left, _, right), (dl, ds, dr) = x, u
        return dl - left @ symmetric(left.T @ dl), ds, dr - symmetric(dr @ right.T) @ right

    def arrived(self, x: Three, y: Three) -> Three:
        """Return a decomposition with the signs of the decomposition at `x`, which pymanopt's retraction may flip."""
        signs = np.where(np.sum(x[0] * y[0], axis=0) < 0, -1, 1).astype(y[0].dtype)
        return y[0] * signs, y[1], y[2] * signs[:, None]

    def nearest(self, x: Three) -> Three:
        return polar(x[0]), x[1], polar(x[2].T).T


@dataclass(frozen=True, repr=False)
class _FixedRankInFrame(InFrame[Any], TheirManifold):
    """Matrices X = u diag(s) vt of fixed rank; a tangent vector Z has the coordinates ``(Z v, 0, uᵀ Z (I − v vᵀ))``.

    Their dot product is the inner product of pymanopt. Several vectors at one point are one array.
    """

    quotient: ClassVar[bool] = False  # type: ignore[misc]

    def to_frame(self, x: Any, u: Any) -> Any:
        return self._coordinates(x, self.vectors.to_theirs(x, u))

    def from_frame(self, x: Any, c: Any) -> Any:
        return self.vectors.to_ours(x, self._blocks(x, c))

    def project(self, x: Any, u: Any) -> Any:
        (_, s, right), (a, _, b) = x, u
        return a, np.zeros((*a.shape[:-2], len(s)), s.dtype), b - (b @ right.T) @ right

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        (left, _, right), (to_left, _, to_right), (a, _, b) = x, y, u
        moved = a @ (right @ to_right.T) + left @ (b @ to_right.T)
        return self.project(y, (moved, u[1], (to_left.T @ a) @ right + (to_left.T @ left) @ b))

    def gradient(self, x: Any, egrad: Any) -> Any:
        return self._coordinates(x, self.theirs.euclidean_to_riemannian_gradient(x, egrad))

    def retract(self, x: Any, u: Any, kind: str | None = None) -> Any:
        self._kind(kind)
        y = _tuple(self.theirs.retraction(x, self._blocks(x, u)))
        return tuple(leaf.astype(x[1].dtype, copy=False) for leaf in self.vectors.arrived(x, y))

    def displacement(self, x: Any, y: Any) -> Any:
        (left, s, right), (to_left, to_s, to_right) = x, y
        a = to_left * to_s - (left * s) @ (right @ to_right.T)
        return self.project(y, (a, s, -((to_left.T @ left) * s) @ right))

    def random_tangent(self, x: Any, rng: np.random.Generator) -> Any:
        return self.to_frame(x, TheirManifold.random_tangent(self, x, rng))

    def _coordinates(self, x: Any, vector: Any) -> Any:
        Up, M, Vp = vector
        return Up + x[0] @ M, np.zeros_like(x[1]), Vp.T

    def _blocks(self, x: Any, c: Any) -> Any:
        M = x[0].T @ c[0]
        return pymanopt().manifolds.fixed_rank._FixedRankTangentVector(c[0] - x[0] @ M, M, c[2].T)
