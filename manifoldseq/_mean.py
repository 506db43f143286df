"""Fréchet means on manifolds: `frechet_mean`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from warnings import warn

import numpy as np

from ._iterate import iterate
from ._minimize import minimize
from ._problem import Problem
from ._result import Measures, Point, Status
from ._stopping import GradientNorm, MaxIterations, RunSoFar
from .linalg import dtype_of, freeze, leaves, tree_map
from .losses import Loss, Squared, loss_of
from .manifolds import Manifold, leaf_shapes
from .objectives._objective import Objective
from .storage._real import check_unmasked

_TOLERANCE = 1e-11
"""Norm of the Riemannian gradient, relative to the spread of the points, at which the search ends."""

_CANDIDATES = 8
"""Maximum number of points from which the search may start."""


def frechet_mean(manifold: Manifold, points: Any, weights: Any = None, *, loss: Loss | str | None = None) -> Point:
    """Return the Riemannian centre of mass: the point with the smallest mean squared distance to given points.

    The mean is computed by steps along the mean logarithm, ``x ← exp(x, t Σ wᵢ log(x, xᵢ))``, with secant step sizes t.
    On flat manifolds such as `Euclidean` and `Positive` the first step reaches the mean. If these steps converge
    slowly, L-BFGS continues on the same objective. If the manifold is not an open set (see `Manifold.open`), two more
    searches start near another point.

    Parameters
    ----------
    manifold : Manifold
        A manifold that has ``exp``, ``log`` and ``dist``.
    points : array of shape (N, …), tuple of such arrays, or list of N points
        The points, in the structure of one point with an additional leading axis.
    weights : array-like, shape (N,), optional
        Nonnegative weights that are not all zero. By default, all weights are equal. Only the ratios of the weights
        matter.
    loss : Loss or str, optional
        A robust loss of the distances, which reduces the influence of outliers. ``ms.losses.Huber(c)`` counts distances
        beyond c linearly. With a small c the result is close to the geometric median.

    Returns
    -------
    Point
        The mean, in the dtype of the points.

    Raises
    ------
    TypeError
        If the manifold has no logarithm.
    ValueError
        If points have another shape, are off the manifold, are not finite or are in different components, or if weights
        are invalid. The error message names the point.

    Warns
    -----
    UserWarning
        If another start leads to another point with the same value (the mean is not unique, as for opposite points of a
        sphere), or if the gradient does not vanish.

    Notes
    -----
    The objective ``½ Σ wᵢ d(x, xᵢ)²`` has the gradient ``−Σ wᵢ log(x, xᵢ)``. With a loss it is ``½ Σ wᵢ ρ(d²)``, and
    the weights are multiplied by ρ'(d²) at the current point (Weiszfeld's method for medians). The mean is unique on
    manifolds without positive curvature, such as the positive definite matrices, and within balls of the convexity
    radius, such as a quarter of a great circle (Karcher, "Riemannian center of mass and mollifier smoothing", 1977;
    Afsari, Tron, Vidal, "On the convergence of gradient descent for finding the Riemannian center of mass", 2013).

    Examples
    --------
    The mean of commuting covariances is the geometric one:

    >>> import numpy as np, manifoldseq as ms
    >>> covariances = np.stack([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])])
    >>> ms.frechet_mean(ms.manifolds.SymmetricPositiveDefinite(2), covariances).round(12).tolist()
    [[2.0, 0.0], [0.0, 2.0]]

    An outlier does not change the median of numbers:

    >>> numbers = np.array([[1.0], [2.0], [3.0], [900.0], [2.5]])
    >>> ms.frechet_mean(ms.manifolds.Euclidean(1), numbers, loss=ms.losses.Huber(0.01)).round(2).tolist()
    [2.5]
    """
    if manifold.exp is None or manifold.log is None or manifold.dist is None:
        raise TypeError(
            f"frechet_mean needs a logarithm, but {manifold!r} has none: minimize another distance with ms.minimize, "
            "or project the mean of the arrays with manifold.nearest"
        )
    x = _checked(manifold, points)
    w = _weights(weights, len(leaves(x)[0]))
    used = np.flatnonzero(w)
    # copies that nobody can change, so that what the manifold derives from them is remembered
    mean = _Mean(manifold, freeze(tree_map(lambda leaf: leaf[used], x)), w[used], loss_of(loss))
    # on an open manifold the mean is unique, and the start hardly matters: 1.5 times faster on SPD(20) and SPD(100)
    many = 1 if manifold.open and isinstance(mean.loss, Squared) else _CANDIDATES
    candidates = np.unique(np.linspace(0, len(used) - 1, min(len(used), many)).round().astype(int))
    starts = [_row(mean.points, k) for k in candidates]
    values = np.array([mean.fused(start)[0] for start in starts])
    if not np.isfinite(values).all():
        k = int(used[candidates[~np.isfinite(values)][0]])
        raise ValueError(
            f"no geodesic of {manifold!r} is known from points[{k}] to all other points: pass points of one connected "
            "component"
        )
    first, *others = [starts[k] for k in np.argsort(values)]
    found = [mean.solved_from(first)]
    if not manifold.open and others:  # from both sides of another point
        found += [mean.solved_from(mean.displaced(others[0], side)) for side in (0.1, -0.1)]
    best = min(found, key=lambda one: one[1])
    _say(mean, best, found)
    return best[0]


class _Mean:
    """The objective ``½ Σ wᵢ ρ(d²(x, xᵢ))``, whose gradient is already Riemannian."""

    def __init__(self, manifold: Manifold, points: Point, weights: np.ndarray, loss: Loss) -> None:
        self.manifold, self.points, self.weights, self.loss = manifold, points, weights, loss
        self.eps = float(np.finfo(dtype_of(points)).eps)
        # what logarithms of equal points may be, and every distance is known to
        self.rounding = 20 * self.eps * max(manifold.typical_distance or 0.0, manifold.dim**0.5, 1.0)

    def mean_log(self, x: Point) -> tuple[Point, float, float]:
        """Return ``Σ wᵢρ' log(x, xᵢ)``, ``½ Σ wᵢ ρ(|log(x, xᵢ)|²)`` and the sum of the weights ``Σ wᵢρ'``."""
        if not self.manifold.one_base:
            x = tree_map(lambda a, b: np.broadcast_to(a, b.shape), x, self.points)
        logs = self.manifold.log(x, self.points)  # type: ignore[misc]
        squares = np.asarray(self.manifold.inner(x, logs, logs))
        values, weights, total = squares, self.weights, 1.0
        if not isinstance(self.loss, Squared):
            values, share = self.loss(squares)
            weights = self.weights * share
            total = float(weights.sum())
        mean = tree_map(lambda leaf: np.tensordot(weights.astype(leaf.dtype), leaf, axes=1), logs)
        return mean, 0.5 * float(self.weights @ values), total

    def fused(self, x: Point) -> tuple[float, Point]:
        mean, fun, _ = self.mean_log(x)
        return fun, tree_map(np.negative, mean)

    def displaced(self, x: Point, side: float) -> Point:
        """Return a point at a part of the spread, in a direction unknown to the symmetries of the points."""
        M = self.manifold
        u = M.random_tangent(x, np.random.default_rng(0))
        length = np.sqrt(M.inner(x, u, u))
        t = side * np.sqrt(2 * self.fused(x)[0]) / length if length > 0 else 0.0
        return M.exp(x, tree_map(lambda leaf: leaf.dtype.type(t) * leaf, u))  # type: ignore[misc]

    def solved_from(self, start: Point) -> tuple[Point, float, float]:
        """Return the point reached, its value, and the norm of the gradient relative to the spread."""
        x, fun, grad, contracts = self.flow(start)
        if not contracts:
            f = Objective(lambda x: self.fused(x)[0], self.fused, riemannian=True)
            x = minimize(Problem(self.manifold, f), x, solver="lbfgs", max_iter=500, seed=0).x
            x, fun, grad, contracts = self.flow(x)
        return x, fun, 0.0 if contracts else grad / (np.sqrt(2 * fun) + 1e3 * self.rounding)

    def flow(self, start: Point) -> tuple[Point, float, float, bool]:
        """Follow the mean logarithm while it shrinks; the last flag says whether it vanished."""

        M = self.manifold

        def record(x: Point, size: float) -> tuple[dict[str, Any], Measures]:
            mean, fun, total = self.mean_log(x)
            if total != 1.0 and total > 0:  # the step of reweighted means
                mean = tree_map(lambda leaf: leaf / leaf.dtype.type(total), mean)
            length = float(np.sqrt(max(M.inner(x, mean, mean), 0.0)))
            return {"x": x, "mean": freeze(mean), "size": size}, Measures(fun, length)

        def step(state: Any) -> tuple[dict[str, Any], Measures]:
            x, u, size = state["x"], state["mean"], state["size"]
            new, measures = record(freeze(M.exp(x, tree_map(lambda leaf: leaf.dtype.type(size) * leaf, u))), 1.0)  # type: ignore[misc]
            # the curvature of the objective along the step, one on flat sets: the next step is a secant one
            y = new["x"]
            u = M.transport(x, y, u)
            change = M.inner(y, tree_map(np.subtract, u, new["mean"]), u)
            square = size * M.inner(y, u, u)
            return {**new, "size": float(np.clip(square / change, 0.02, 2)) if change > 0 else 1.0}, measures

        def slow(run: RunSoFar) -> Status | None:
            norms = [float(measures.grad_norm or 0.0) for measures in run.recent[-4:]]
            return Status.STALLED if len(norms) == 4 and not norms[-1] < 0.3 * norms[0] else None

        state, measures = record(freeze(tree_map(np.ascontiguousarray, start)), 1.0)
        level = max(_TOLERANCE, 20 * self.eps) * np.sqrt(2 * measures.fun) + self.rounding
        run = iterate(step, state, measures, stop=GradientNorm(float(level)) | slow | MaxIterations(60))
        return run.state["x"], run.measures.fun, run.measures.grad_norm or 0.0, run.status is Status.CONVERGED


def _say(mean: _Mean, best: tuple[Point, float, float], found: Sequence[tuple[Point, float, float]]) -> None:
    """Warn about a nonzero gradient, and about other minimizers."""
    M = mean.manifold
    if best[2] > max(1e-7, 1e3 * mean.eps):
        warn(
            f"frechet_mean did not converge (the norm of the gradient is {best[2]:.1e} times the spread of the "
            "points): pass points that are closer together",
            stacklevel=3,
        )
    spread = np.sqrt(2 * best[1]) + 1e3 * mean.rounding
    for other in found:
        same_value = other[1] - best[1] <= 1e-6 * best[1]
        if same_value and M.dist(best[0], other[0]) > max(1e-4, 1e3 * mean.eps) * spread:  # type: ignore[misc]
            warn(
                "the result of frechet_mean is not unique: another point has the same mean squared distance to the "
                "points",
                stacklevel=3,
            )
            return


def _checked(manifold: Manifold, points: Any) -> Point:
    """Return the points as one tree of arrays with a leading axis, in one floating dtype."""
    check_unmasked(points, "points")
    if isinstance(points, list):
        if not points:
            raise ValueError("frechet_mean needs at least one point")
        try:
            points = tree_map(lambda *parts: np.stack([np.asarray(part) for part in parts]), *points)
        except (ValueError, TypeError) as error:
            raise ValueError(f"the points have different shapes ({error})") from None
    x = tree_map(np.asarray, points)
    arrays, shapes = list(leaves(x)), leaf_shapes(manifold.shape)
    if isinstance(x, tuple) != isinstance(manifold.shape[0], tuple) or [a.shape[1:] for a in arrays] != shapes:
        got = ", ".join(str(a.shape) for a in arrays)
        wanted = ", ".join(str(("N", *shape)).replace("'N'", "N") for shape in shapes)
        raise ValueError(f"frechet_mean needs points of {manifold!r} along a leading axis, {wanted}; got {got}")
    n = len(arrays[0])
    if n == 0 or any(len(a) != n for a in arrays):
        raise ValueError(
            f"the arrays of frechet_mean have {[*map(len, arrays)]} points: pass the same number of points in each, at "
            "least one"
        )
    if any(a.dtype.kind not in "fiu" for a in arrays):
        raise ValueError(f"the points must be real numbers, got {', '.join(str(a.dtype) for a in arrays)}")
    single = all(a.dtype == np.float32 for a in arrays)
    x = tree_map(lambda a: a.astype(np.float32 if single else np.float64, copy=False), x)
    for a in leaves(x):
        bad = ~np.isfinite(a).reshape(n, -1).all(axis=1)
        if bad.any():
            raise ValueError(f"points[{int(bad.argmax())}] has entries that are not finite")
    off = np.asarray(manifold.feasibility(x))
    if (worst := int(off.argmax())) >= 0 and off[worst] > (1e-3 if single else 1e-6):
        raise ValueError(
            f"points[{worst}] is not on {manifold!r} (distance {off[worst]:.2g}): "
            "project the points with manifold.nearest(points)"
        )
    return x


def _weights(weights: Any, n: int) -> np.ndarray:
    """Return weights that sum to one."""
    if weights is None:
        return np.full(n, 1 / n)
    w = np.asarray(check_unmasked(weights, "weights"), dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"weights must have shape ({n},), one for each point; got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        raise ValueError("weights must be finite and not negative, and at least one must be positive")
    return w / w.sum()


def _row(tree: Point, k: int) -> Point:
    return tree_map(lambda leaf: leaf[k], tree)
