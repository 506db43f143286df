"""Barzilai–Borwein steps for many independent problems at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._result import Point
from ..linalg._tree import dtype_of, leaves, tree_map
from ..manifolds import Manifold
from ._base import whole_numbers
from ._search import SUFFICIENT

Rows = dict[str, Any]
Oracle = Callable[[Point, np.ndarray], tuple[np.ndarray, Point]]


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
            raise ValueError(f"BatchBB(averaging={self.averaging!r}): averaging must be a number from 0 to below 1")

    def init(self, manifold: Manifold, oracle: Oracle, points: Point) -> Rows:
        """Return the rows: arrays with one entry per problem, and the number of steps taken."""
        which = np.arange(leaves(points)[0].shape[0])
        at = _evaluate(manifold, oracle, points, which)
        return {
            "which": which,
            **at,
            "step": np.minimum(1.0, 1.0 / np.maximum(at["grad_norm"], 1e-300)),
            "reference": at["fun"],
            "weight": np.ones(which.size),
            "length": np.zeros(which.size),
            "trials": np.ones(which.size),
            "failed": np.zeros(which.size, bool),
            "count": 0,
        }

    def step(self, manifold: Manifold, oracle: Oracle, rows: Rows) -> Rows:
        """Move every row; those that find no decrease stay where they are, marked as failed."""
        steps = rows["step"].copy()
        trials = np.zeros(steps.size)
        new: Rows = {}
        refused = np.arange(steps.size)
        for _ in range(self.max_trials):
            everyone = refused.size == steps.size
            at = rows if everyone else {key: take(rows[key], refused) for key in (*_AT, "which", "reference", "step")}
            t = steps if everyone else steps[refused]
            trial = _evaluate(
                manifold, oracle, manifold.retract(at["x"], _times(-t, at["grad"]), self.retraction), at["which"]
            )
            trials[refused] += 1
            accepted = _sufficient(manifold, at, trial, t)
            if everyone:
                new = trial if accepted.all() else {key: _where(accepted, trial[key], at[key]) for key in _AT}
            else:
                moved = refused[accepted]
                new = {key: _put(new[key], moved, take(trial[key], accepted)) for key in _AT}
            refused = refused[~accepted]
            if refused.size == 0:
                break
            steps[refused] *= np.where(np.isfinite(trial["fun"][~accepted]), 0.3, 0.1)
        failed = np.zeros(steps.size, bool)
        failed[refused] = True
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


_AT = ("x", "fun", "egrad", "grad", "grad_norm")


def _evaluate(manifold: Manifold, oracle: Oracle, points: Point, which: np.ndarray) -> Rows:
    fun, egrad = oracle(points, which)
    grad = manifold.gradient(points, egrad)
    with np.errstate(over="ignore"):
        grad_norm = np.sqrt(_dots(manifold, points, grad, grad))
    return {"x": points, "fun": fun, "egrad": egrad, "grad": grad, "grad_norm": grad_norm}


def _sufficient(manifold: Manifold, at: Rows, trial: Rows, t: np.ndarray) -> np.ndarray:
    """Return which rows fall enough below their reference value (Armijo along the retraction or the clipped arc)."""
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
        s = manifold.transport(x, y, _times(-steps, old["grad"]))
        z = tree_map(np.subtract, new["grad"], manifold.transport(x, y, old["grad"]))
    ss, sz = _dots(manifold, y, s, s), np.abs(_dots(manifold, y, s, z))
    curved = sz > 1e-14 * ss
    if old["count"] % 2:
        zz = _dots(manifold, y, z, z)
        step = np.where(curved, sz / np.where(curved, zz, 1.0), 10.0 * steps)
    else:
        step = np.where(curved, ss / np.where(curved, sz, 1.0), 10.0 * steps)
    return {"step": np.clip(step, 1e-12, 1e12), "length": np.sqrt(ss)}


def _dots(manifold: Manifold, x: Point, u: Point, v: Point) -> np.ndarray:
    return flat_dots(u, v) if manifold.metric == "embedded" else np.asarray(manifold.inner(x, u, v))


def flat_dots(u: Point, v: Point) -> Any:
    """Return the dot product of two trees, row by row, in float64."""
    return sum(_leaf_dots(a, b) for a, b in zip(leaves(u), leaves(v), strict=True))


def _leaf_dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows = a.shape[0]
    return np.vecdot(a.reshape(rows, -1).astype(float, copy=False), b.reshape(rows, -1).astype(float, copy=False))


def _times(t: np.ndarray, tree: Point) -> Point:
    return tree_map(lambda leaf: t.astype(leaf.dtype).reshape(-1, *[1] * (leaf.ndim - 1)) * leaf, tree)


def take(tree: Any, rows: np.ndarray) -> Any:
    """Return some rows of every leaf."""
    return tree_map(lambda leaf: leaf[rows], tree)


def _where(rows: np.ndarray, new: Any, old: Any) -> Any:
    return tree_map(lambda a, b: np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)


def _put(tree: Any, rows: np.ndarray, values: Any) -> Any:
    """Return the tree with some rows replaced; written in place, for the trees that :func:`_where` made."""

    def write(leaf: np.ndarray, part: np.ndarray) -> np.ndarray:
        leaf[rows] = part
        return leaf

    return tree_map(write, tree, values)
