"""Limited-memory BFGS for many independent problems at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._result import Point
from ..linalg._tree import dtype_of, leaves
from ..manifolds import Manifold
from ..solvers._base import whole_numbers
from ..solvers._search import SUFFICIENT
from ._bb import AT, Oracle, Rows, evaluated_rows, first_steps, put_rows, take, where_rows

RowPairs = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class BatchLBFGS:
    """Limited-memory BFGS on many problems over one manifold, each row with pairs and a step size of its own.

    No row ever rises: a step is shortened until it decreases the objective enough (Armijo). The manifold has the
    embedded metric and no bounds; pairs are not transported, as in :class:`manifoldseq.solvers.LBFGS`.

    Parameters
    ----------
    memory : int
        Number of stored pairs.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    max_trials : int
        Trial steps per iteration before a row gives up.

    References
    ----------
    Huang, Gallivan, Absil, "A Broyden class of quasi-Newton methods for Riemannian optimization", 2015.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(1), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize_batch(problem, [[0.0], [5.0]], solver="lbfgs").x.round(6).tolist()
    [[1.0], [1.0]]
    """

    memory: int = 10
    retraction: str | None = None
    max_trials: int = 20

    def __post_init__(self) -> None:
        whole_numbers("BatchLBFGS", memory=self.memory, max_trials=self.max_trials)

    def init(self, manifold: Manifold[Point], oracle: Oracle, points: Point, steps: np.ndarray | None = None) -> Rows:
        """Return the rows: arrays with one entry per problem, and the number of steps taken.

        `steps` are the sizes of the first steps along the negative gradients, where they are known, as ``rows["step"]``
        of an earlier run is; by default they are measured, for one more evaluation.

        Raises
        ------
        ValueError
            For a manifold with bounds or another metric.
        """
        if manifold.metric != "embedded" or manifold.bounded:
            raise ValueError(f"BatchLBFGS needs the embedded metric and no bounds, not {manifold!r}: use solver='bb'")
        which = np.arange(leaves(points)[0].shape[0])
        at = evaluated_rows(manifold, oracle, points, which)
        return {
            "which": which,
            **at,
            "step": first_steps(manifold, oracle, {**at, "which": which}) if steps is None else steps,
            "pairs": (),
            "length": np.zeros(which.size),
            "curvature": np.full(which.size, np.nan),
            "trials": np.full(which.size, 2.0 if steps is None else 1.0),
            "failed": np.zeros(which.size, bool),
            "count": 0,
        }

    def step(self, manifold: Manifold[Point], oracle: Oracle, rows: Rows) -> Rows:
        """Move every row; those that find no decrease stay where they are, marked as failed."""
        g, tree = _flat(rows["grad"]), _unflattener(rows["x"])
        steepest = -rows["step"].astype(g.dtype)[:, None] * g
        # pairs of earlier points are not tangent here
        direction = _flat(manifold.project(rows["x"], tree(_two_loops(-g, rows["pairs"], rows["step"]))))
        slope, size = np.vecdot(g, direction), np.linalg.norm(direction, axis=1)
        uphill = ~(slope < -1e-10 * rows["grad_norm"] * size)
        direction = np.where(uphill[:, None], steepest, direction)
        slope = np.where(uphill, np.vecdot(g, steepest), slope)
        new, t, trials, failed = self._searched(manifold, oracle, rows, tree, direction, slope)
        # the secant pair s = t d, y = g⁺ − g; a row without curvature, or one that has failed, gets a pair of no effect
        s = np.where(failed, 0, t).astype(g.dtype)[:, None] * direction
        y = _flat(new["grad"]) - g
        ss, sy, yy = np.vecdot(s, s), np.vecdot(s, y), np.vecdot(y, y)
        curved = (yy > 0) & (sy > 1e-12 * np.sqrt(ss * yy))
        forget = uphill | failed
        kept = tuple((a, b, np.where(forget, 0, inverse)) for a, b, inverse in rows["pairs"])
        with np.errstate(all="ignore"):
            pair = s, y, np.where(curved, 1 / sy, 0)
            curvature = np.where(ss > 0, sy / ss, np.nan)
            step = np.where(curved, sy / yy, rows["step"])
        return {
            "which": rows["which"],
            **new,
            "step": step,
            "pairs": (*kept, pair)[-self.memory :],
            "length": np.sqrt(ss),
            "curvature": curvature,
            "trials": trials,
            "failed": failed,
            "count": rows["count"] + 1,
        }

    def _searched(
        self,
        manifold: Manifold[Point],
        oracle: Oracle,
        rows: Rows,
        tree: Callable[[np.ndarray], Any],
        direction: np.ndarray,
        slope: np.ndarray,
    ) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray]:
        """Return what every row finds along its direction, its step size and trials, and whether it found nothing."""
        n = slope.size
        t, trials, refused, new = np.ones(n), np.zeros(n), np.arange(n), {}
        rounding = 50 * float(np.finfo(dtype_of(rows["x"])).eps) * np.abs(rows["fun"])
        for _ in range(self.max_trials):
            # rows whose step is refused try again with a shorter one, without those that have moved
            everyone = refused.size == n
            at = rows if everyone else {key: take(rows[key], refused) for key in (*AT, "which")}
            tried, fall = t[refused], t[refused] * slope[refused]
            moves = tree(tried.astype(direction.dtype)[:, None] * direction[refused])
            trial = evaluated_rows(manifold, oracle, manifold.retract(at["x"], moves, self.retraction), at["which"])
            trials[refused] += 1
            accepted = (trial["fun"] <= at["fun"] + SUFFICIENT * fall + rounding[refused]) & np.isfinite(
                trial["grad_norm"]
            )
            if everyone:
                new = trial if accepted.all() else {key: where_rows(accepted, trial[key], at[key]) for key in AT}
            else:
                new = {key: put_rows(new[key], refused[accepted], take(trial[key], accepted)) for key in AT}
            if accepted.all():
                return new, t, trials, np.zeros(n, bool)
            # the minimum of the parabola through value, slope and the refused value, between .1 and .5 of the step
            with np.errstate(all="ignore"):
                least = -0.5 * fall / (trial["fun"] - at["fun"] - fall)
            shorter = tried * np.clip(np.where(np.isfinite(least), least, 0.1), 0.1, 0.5)
            refused, shorter = refused[~accepted], shorter[~accepted]
            t[refused] = shorter
        failed = np.zeros(n, bool)
        failed[refused] = True
        return new, t, trials, failed


def _two_loops(q: np.ndarray, pairs: RowPairs, first: np.ndarray) -> np.ndarray:
    """Multiply the inverse Hessian of every row by a vector of its own, as `manifoldseq.solvers.two_loop` does."""
    alphas = []
    for s, y, inverse in reversed(pairs):
        alphas.append(inverse * np.vecdot(s, q))
        q = q - alphas[-1][:, None] * y
    q = first.astype(q.dtype)[:, None] * q
    for s, y, inverse in pairs:
        q = q + (alphas.pop() - inverse * np.vecdot(y, q))[:, None] * s
    return q


def _flat(tree: Any) -> np.ndarray:
    """Return the rows of a tree as vectors, (rows, d)."""
    parts = [leaf.reshape(len(leaf), -1) for leaf in leaves(tree)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _unflattener(like: Any) -> Callable[[np.ndarray], Any]:
    """Return the inverse of `_flat`, for any number of rows."""

    def tree(flat: np.ndarray) -> Any:
        return _unflatten(like, flat, [0])

    return tree


def _unflatten(like: Any, flat: np.ndarray, used: list[int]) -> Any:
    if isinstance(like, tuple):
        return tuple([_unflatten(part, flat, used) for part in like])
    size = int(np.prod(like.shape[1:]))
    used[0] += size
    return flat[:, used[0] - size : used[0]].reshape(len(flat), *like.shape[1:])
