"""Barzilai–Borwein steps for many independent problems at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._quoted import quoted
from .._result import Point
from ..linalg._eigen import eigh
from ..linalg._tree import dtype_of, leaves, tree_map
from ..manifolds import Manifold
from ..solvers._base import whole_numbers
from ..solvers._claims import compared, first_reach, probing, slope_beyond
from ..solvers._search import SUFFICIENT

Rows = dict[str, Any]
Oracle = Callable[[Any, np.ndarray], tuple[np.ndarray, Any]]


@dataclass(frozen=True)
class BatchBB:
    """Nonmonotone Barzilai–Borwein on many problems over one manifold: the solver of ``minimize_batch``.

    Every row has its own step size (the long and the short one in turn) and its own reference value (a weighted mean
    of its past values, after Zhang and Hager); a row whose trial step is refused shortens it alone.

    Parameters
    ----------
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    averaging : float
        Between 0 (monotone) and 1: the weight of the past in the reference value.
    max_trials : int
        Trial steps per iteration before a row gives up.

    References
    ----------
    Wen, Yin, "A feasible method for optimization with orthogonality constraints", 2013; Zhang, Hager, "A nonmonotone
    line search technique", 2004.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(1), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize_batch(problem, [[0.0], [5.0]], options={"averaging": 0.5}).x.round(6).tolist()
    [[1.0], [1.0]]
    """

    retraction: str | None = None
    averaging: float = 0.85
    max_trials: int = 30

    def __post_init__(self) -> None:
        whole_numbers("BatchBB", max_trials=self.max_trials)
        if isinstance(self.averaging, bool) or not isinstance(self.averaging, Real) or not 0 <= self.averaging < 1:
            raise ValueError(
                f"BatchBB(averaging={quoted(self.averaging)}): averaging must be a number from 0 to below 1"
            )

    def init(self, manifold: Manifold[Point], oracle: Oracle, points: Point) -> Rows:
        """Return the rows: arrays with one entry per problem, and the number of steps taken."""
        which = np.arange(leaves(points)[0].shape[0])
        at = evaluated_rows(manifold, oracle, points, which)
        return {
            "which": which,
            **at,
            "step": first_steps(manifold, oracle, {**at, "which": which}),
            "reference": at["fun"],
            "weight": np.ones(which.size),
            "length": np.zeros(which.size),
            "curvature": np.full(which.size, np.nan),
            "trials": np.full(which.size, 2.0),
            "failed": np.zeros(which.size, bool),
            "count": 0,
        }

    def step(self, manifold: Manifold, oracle: Oracle, rows: Rows) -> Rows:
        """Move every row; those that find no decrease stay where they are, marked as failed."""
        steps = rows["step"].copy()
        if manifold.metric != "embedded":
            steps = np.minimum(steps, manifold.longest(rows["x"], tree_map(np.negative, rows["grad"])))
        trials = np.zeros(steps.size)
        new: Rows = {}
        refused = np.arange(steps.size)
        for _ in range(self.max_trials):
            # rows whose step is refused try again with a shorter one, without those that have moved
            everyone = refused.size == steps.size
            at = rows if everyone else {key: take(rows[key], refused) for key in (*AT, "which", "reference", "step")}
            t = steps if everyone else steps[refused]
            trial = evaluated_rows(
                manifold, oracle, manifold.retract(at["x"], times(-t, at["grad"]), self.retraction), at["which"]
            )
            trials[refused] += 1
            accepted = _sufficient(manifold, at, trial, t)
            if everyone:
                new = trial if accepted.all() else {key: where_rows(accepted, trial[key], at[key]) for key in AT}
            else:
                moved = refused[accepted]
                new = {key: put_rows(new[key], moved, take(trial[key], accepted)) for key in AT}
            refused = refused[~accepted]
            if refused.size == 0:
                break
            steps[refused] *= np.where(np.isfinite(trial["fun"][~accepted]), 0.3, 0.1)
        failed = np.zeros(steps.size, bool)
        failed[refused] = True
        # the reference value is a weighted mean of all values so far (Zhang and Hager 2004)
        weight = self.averaging * rows["weight"] + 1.0
        past = self.averaging * rows["weight"] * rows["reference"]
        return {
            "which": rows["which"],
            **new,
            **_next_steps(manifold, rows, new, steps),
            "reference": (past + new["fun"]) / weight,
            "weight": weight,
            "trials": trials,
            "failed": failed,
            "count": rows["count"] + 1,
        }


MEASURED = ("fun", "grad_norm", "curvature", "curvature_ahead", "scale", "pushed_inward")
CURVATURE, AHEAD = MEASURED.index("curvature"), MEASURED.index("curvature_ahead")
AT = ("x", "fun", "egrad", "grad", "grad_norm")


def evaluated_rows(manifold: Manifold[Point], oracle: Oracle, points: Point, which: np.ndarray) -> Rows:
    fun, egrad = oracle(points, which)
    with np.errstate(all="ignore"):
        grad = manifold.gradient(points, egrad)
        grad_norm = np.sqrt(_dots(manifold, points, grad, grad))
    return {"x": points, "fun": fun, "egrad": egrad, "grad": grad, "grad_norm": grad_norm}


def _sufficient(manifold: Manifold, at: Rows, trial: Rows, t: np.ndarray) -> np.ndarray:
    """Return which rows fall enough below their reference value (Armijo along the retraction or the clipped arc)."""
    # sufficient decrease from the reference value, up to the rounding of the value itself
    if manifold.bounded:
        predicted = np.minimum(0.0, flat_dots(at["egrad"], tree_map(np.subtract, trial["x"], at["x"])))
    else:
        predicted = -t * at["grad_norm"] ** 2
    rounding = 50 * float(np.finfo(dtype_of(at["x"])).eps) * np.abs(at["fun"])
    enough = trial["fun"] <= at["reference"] + SUFFICIENT * predicted + rounding
    # a step shortened a million times rounds to no step at all: it must decrease the value
    honest = (t > 1e-6 * at["step"]) | (trial["fun"] < at["fun"])
    return enough & honest & np.isfinite(trial["fun"]) & np.isfinite(trial["grad_norm"])


def _next_steps(manifold: Manifold, old: Rows, new: Rows, steps: np.ndarray) -> Rows:
    x, y = old["x"], new["x"]
    if manifold.metric == "embedded":
        s, z = tree_map(np.subtract, y, x), tree_map(np.subtract, new["grad"], old["grad"])
    else:
        s = manifold.transport(x, y, times(-steps, old["grad"]))
        z = tree_map(np.subtract, new["grad"], manifold.transport(x, y, old["grad"]))
    # Barzilai and Borwein: ⟨s, s⟩/|⟨s, z⟩| and |⟨s, z⟩|/⟨z, z⟩ in turn, of the step s and the change z of the gradient
    ss, signed = _dots(manifold, y, s, s), _dots(manifold, y, s, z)
    sz = np.abs(signed)
    curved = sz > 1e-14 * old["grad_norm"] * np.sqrt(ss)
    if old["count"] % 2:
        zz = _dots(manifold, y, z, z)
        step = np.where(curved, sz / np.where(curved, zz, 1.0), 10.0 * steps)
    else:
        step = np.where(curved, ss / np.where(curved, sz, 1.0), 10.0 * steps)
    with np.errstate(all="ignore"):
        curvature = np.where(ss > 0, signed / ss, np.nan)
    return {
        "step": np.where((step > 0) & np.isfinite(step), step, steps),
        "length": np.sqrt(ss),
        "curvature": curvature,
    }


def first_steps(manifold: Manifold, oracle: Oracle, rows: Rows) -> np.ndarray:
    """Return for every row what :func:`manifoldseq.solvers._hessian.first_step` chooses."""
    with np.errstate(all="ignore"):
        scale = np.asarray(manifold.scale(rows["x"]))
        longest = np.where(scale > 0, scale, 1.0) / rows["grad_norm"]
        u = times(1 / rows["grad_norm"], rows["grad"])
        curvature = _dots(manifold, rows["x"], u, _product(manifold, oracle, rows)(u))
        step = np.minimum(np.where(curvature > 0, 1 / curvature, longest), 10 * longest)
    # rounded to seven bits: a step that rounding of the curvature does not change
    mantissa, exponent = np.frexp(np.where(np.isfinite(step), step, 1.0))
    return np.ldexp(np.round(64 * mantissa) / 64, exponent)


def _product(manifold: Manifold[Point], oracle: Oracle, rows: Rows) -> Callable[[Point], Point]:
    """Return the product of every row with its Hessian, by a difference of gradients."""
    x, g, which = rows["x"], rows["grad"], rows["which"]
    eps = float(np.finfo(dtype_of(x)).eps)
    reach = eps**0.5 * np.maximum(1.0, np.sqrt(flat_dots(x, x)))
    free = manifold.free(x, rows["egrad"]) if manifold.bounded else None
    across = manifold.project if manifold.bounded and manifold.metric == "embedded" else manifold.gradient

    def product(u: Point) -> Point:
        # H u ≈ (T grad f(R(h u)) − grad f(x)) / h, row by row
        y = manifold.retract(x, times(reach, u))
        back = manifold.transport(y, x, across(y, oracle(y, which)[1]))
        hu = times(1 / reach, tree_map(np.subtract, back, g))
        return hu if free is None else tree_map(lambda leaf, mask: np.where(mask, leaf, leaf.dtype.type(0)), hu, free)

    return product


def curvatures_ahead(manifold: Manifold[Point], oracle: Oracle, rows: Rows, start: Point) -> np.ndarray:
    """Return for every row what :func:`manifoldseq.solvers._saddle.confirm` measures, for two evaluations each.

    `start` spans the Krylov spaces: the gradients, or any other tangent vectors.
    """
    x, product, eps = rows["x"], _product(manifold, oracle, rows), float(np.finfo(dtype_of(rows["x"])).eps)

    def unit(u: Point) -> tuple[Point, np.ndarray]:
        length = np.sqrt(_dots(manifold, x, u, u))
        return times(1 / np.maximum(length, 1e-300), u), length

    with np.errstate(all="ignore"):
        # two steps of Lanczos: the Hessian in the plane of b and c, (rows, 2, 2), where H b leaves the line of b
        b = unit(start)[0]
        hb = product(b)
        a = _dots(manifold, x, b, hb)
        c, off = unit(manifold.project(x, tree_map(np.subtract, hb, times(a, b))))
        plane = off > 1e-8 * np.abs(a)
        hc = product(c)
        d, e = _dots(manifold, x, c, hc), 0.5 * (_dots(manifold, x, b, hc) + _dots(manifold, x, c, hb))
        H = np.stack([a, np.where(plane, e, 0.0), np.where(plane, e, 0.0), np.where(plane, d, np.abs(a))], axis=-1)
    w, V = eigh(H.reshape(-1, 2, 2))
    with np.errstate(all="ignore"):
        known = np.nanmax(np.abs(rows["recent"][:, :, CURVATURE]), axis=1, initial=0.0)
        # below the rounding of differences of gradients an eigenvalue is noise
        noise = eps**0.5 * np.maximum(np.abs(w).max(axis=1), known)
        # 1 / ‖H⁻¹ b‖ in the plane, b being its first coordinate
        ahead = 1 / np.linalg.norm(V[:, 0] / np.maximum(w, noise[:, None] + 1e-300), axis=1)
        ahead = np.where(ahead <= 10 * noise, 0.0, ahead)
        return np.nan_to_num(np.where(w[:, 0] < -10 * noise, w[:, 0], ahead))


def contradicted(manifold: Manifold[Point], oracle: Oracle, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows contradict their gradients along a random tangent vector, and the evaluations of every row.

    Two where the gradient is right; see :func:`manifoldseq.solvers._claims.slope_beyond` of the others.
    """
    x, which, eps = rows["x"], rows["which"], float(np.finfo(dtype_of(rows["x"])).eps)
    v = manifold.random_tangent(x, probing())
    free = manifold.free(x, rows["egrad"]) if manifold.bounded else None
    if free is not None:
        v = tree_map(lambda leaf, mask: np.where(mask, leaf, leaf.dtype.type(0)), v, free)
    with np.errstate(all="ignore"):
        length = np.sqrt(_dots(manifold, x, v, v))
        v = times(1 / np.where(length > 0, length, 1.0), v)
        claimed = _dots(manifold, x, rows["grad"], v)
        scales = np.broadcast_to(np.asarray(manifold.scale(x)), which.shape)
        h = first_reach(scales, eps)

        def values(some: np.ndarray, t: np.ndarray) -> np.ndarray:
            there = manifold.retract(take(x, some), times(t, take(v, some)))
            return oracle(there, which[some])[0]

        every = np.arange(which.size)
        differs, seen = compared(values(every, h), values(every, -h), rows["fun"], 2 * h * claimed, eps)
        spent, wrong = np.full(which.size, 2.0), np.zeros(which.size, bool)
        for k in np.flatnonzero((differs | ~seen) & (length > 0)).tolist():

            def along(t: float, k: int = k) -> float:
                spent[k] += 1
                return float(values(np.array([k]), np.array([t]))[0])

            fun, slope, norm = (float(numbers[k]) for numbers in (rows["fun"], claimed, rows["grad_norm"]))
            wrong[k] = slope_beyond(along, fun, slope, norm, float(scales[k]), abs(fun), eps) != 0
    return wrong, spent


def _dots(manifold: Manifold[Point], x: Point, u: Point, v: Point) -> np.ndarray:
    return flat_dots(u, v) if manifold.metric == "embedded" else np.asarray(manifold.inner(x, u, v))


def flat_dots(u: Point, v: Point) -> Any:
    """Return the dot product of two trees, row by row, in float64."""
    return sum(_leaf_dots(a, b) for a, b in zip(leaves(u), leaves(v), strict=True))


def _leaf_dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows = a.shape[0]
    return np.vecdot(a.reshape(rows, -1).astype(float, copy=False), b.reshape(rows, -1).astype(float, copy=False))


def times(t: np.ndarray, tree: Point) -> Point:
    return tree_map(lambda leaf: t.astype(leaf.dtype).reshape(-1, *[1] * (leaf.ndim - 1)) * leaf, tree)


def take(tree: Any, rows: np.ndarray) -> Any:
    """Return some rows of every leaf."""
    return tree_map(lambda leaf: leaf[rows], tree)


def without(rows: Rows, ended: np.ndarray) -> Rows:
    """Return the rows of a batch that have not ended.

    Parameters
    ----------
    rows : dict
        Of `BatchBB` or `BatchLBFGS`.
    ended : array of bool

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> solver, line = ms.batch.BatchLBFGS(), ms.manifolds.Euclidean(1)
    >>> square = lambda x, which: ((x**2).sum(axis=1), 2 * x)
    >>> rows = solver.init(line, square, np.array([[1.0], [2.0]]))
    >>> ms.batch.without(rows, np.array([True, False]))["which"].tolist()
    [1]
    """
    if not ended.any():
        return rows
    return {key: value if key == "count" else take(value, ~ended) for key, value in rows.items()}


def where_rows(rows: np.ndarray, new: Any, old: Any) -> Any:
    return tree_map(lambda a, b: np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)


def put_rows(tree: Any, rows: np.ndarray, values: Any) -> Any:
    """Return the tree with some rows replaced; written in place, for the trees that :func:`_where` made."""

    def write(leaf: np.ndarray, part: np.ndarray) -> np.ndarray:
        leaf[rows] = part
        return leaf

    return tree_map(write, tree, values)
