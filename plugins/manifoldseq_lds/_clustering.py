"""k-means in the feature space of a kernel: starts, assignment, centre rules and repair, as one pure step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import manifoldseq as ms
import numpy as np
from manifoldseq.execution import map_ordered
from numpy.typing import NDArray

from ._mean import canonical_form
from ._systems import Systems, to_item

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Point = tuple[Array, ...]
State = dict[str, Any]

_SETTLED = 0.01
"""The assignment settles when at most this fraction of the systems has moved; the inner iterations then double."""
_MOST_INNER = 40


@dataclass(frozen=True)
class Clustering:
    """The data of one clustering problem, with the functions of it that k-means is made of.

    Parameters
    ----------
    kernel : kernel object
    manifold : Manifold
        Where the centres live.
    systems : Systems
        With exactly the fields that the kernel's items have.
    n_clusters : int
    mean : {"exact", "toolbox", "medoid"}
    solver : str or solver
        For the exact mean.
    inner_iter : int
        Its iterations per centre and epoch while the assignment moves.
    packed, self_values
        The systems as the kernel packs them, and k(x, x) of each.
    """

    kernel: Any
    manifold: Any
    systems: Systems
    n_clusters: int
    mean: str
    solver: Any
    inner_iter: int
    packed: Any
    self_values: Array

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the state that k-means begins with, and its measures."""
        labels, rows = None, None
        if isinstance(init, Systems):
            centres = points(init, self.manifold)
        else:
            if isinstance(init, str) and init == "k-means++":
                rows = self._spread_rows(rng)
            else:
                labels = rng.permutation(len(self.systems)) % self.n_clusters if isinstance(init, str) else init
                rows = np.array([self._medoid(np.flatnonzero(labels == k)) for k in range(self.n_clusters)])
            centres = points(self.systems[rows], self.manifold)
        return self._assigned(centres, {"start": number, "inner": self.inner_iter, "labels": None}, labels)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch: every centre updated, every system assigned."""
        members = [np.flatnonzero(state["labels"] == k) for k in range(self.n_clusters)]
        old = state["x"]
        rule = self._rule(state["inner"])
        updated = map_ordered(lambda k: rule(tuple(leaf[k] for leaf in old), members[k]), range(self.n_clusters))
        centres = tuple(np.stack([point[i] for point, _ in updated]) for i in range(len(old)))
        spent = sum(calls * len(rows) for (_, calls), rows in zip(updated, members, strict=True)) / len(self.systems)
        return self._assigned(centres, state, None, spent)

    def _assigned(
        self, centres: Point, state: State, labels: Labels | None, spent: float = 0.0
    ) -> tuple[State, ms.Measures]:
        values, squared = distances(self.kernel, as_systems(centres), self.packed, self.self_values)
        everyone = np.arange(len(self.systems))
        if labels is None:
            labels = squared.argmin(axis=0)
            centres, values, squared = self._repaired(centres, labels, values, squared)
        moved = len(everyone) if state["labels"] is None else int(np.count_nonzero(labels != state["labels"]))
        inner = state["inner"] * 2 if moved <= _SETTLED * len(everyone) else state["inner"]
        state = {"start": state["start"], "x": centres, "labels": labels, "inner": min(inner, _MOST_INNER)}
        return state, ms.Measures(
            fun=float(squared[labels, everyone].mean()),
            evaluations=ms.Evaluations(spent, spent),
            extra={"objective": float(values[labels, everyone].mean()), "moved": float(moved)},
        )

    def _repaired(
        self, centres: Point, labels: Labels, values: Array, squared: Array
    ) -> tuple[Point, Array, Array]:
        """Give every empty cluster the worst represented system of a cluster that can spare one; writes into `labels`."""
        for k in np.flatnonzero(np.bincount(labels, minlength=self.n_clusters) == 0):
            own = squared[labels, np.arange(len(labels))]
            spare = np.bincount(labels, minlength=self.n_clusters)[labels] > 1
            i = int(np.where(spare, own, -1.0).argmax())
            centre = points(self.systems[[i]], self.manifold)
            centres = tuple(_with_row(leaf, k, new[0]) for leaf, new in zip(centres, centre, strict=True))
            row, row_squared = distances(self.kernel, as_systems(centre), self.packed, self.self_values)
            values, squared = _with_row(values, k, row[0]), _with_row(squared, k, row_squared[0])
            labels[i] = k
        return centres, values, squared

    def _spread_rows(self, rng: np.random.Generator) -> Labels:
        """Choose the rows of K spread systems: greedy k-means++ with the squared distance k(x, x) + k(c, c) - 2 k(x, c)."""
        trials = 2 + int(np.log(self.n_clusters))
        rows = [int(rng.integers(len(self.systems)))]
        closest = self._squared_to(rows)[0]
        while len(rows) < self.n_clusters:
            weights = closest.copy()
            weights[rows] = 0.0
            if weights.sum() <= 0:  # all others coincide with a chosen one
                weights = np.isin(np.arange(len(weights)), rows, invert=True).astype(float)
            candidates = rng.choice(len(weights), size=trials, p=weights / weights.sum())
            nearer = np.minimum(closest, self._squared_to(candidates))
            best = int(nearer.sum(axis=1).argmin())
            rows.append(int(candidates[best]))
            closest = nearer[best]
        return np.array(rows)

    def _squared_to(self, rows: Any) -> Array:
        cross = self.kernel.cross(self.packed[np.asarray(rows)], self.packed)
        return np.maximum(self.self_values + self.self_values[rows, None] - 2 * cross, 0.0)

    def _medoid(self, rows: Labels) -> int:
        """Return the row of the member with the least sum of squared distances to the members."""
        members = self.packed[rows]
        own = self.self_values[rows]
        return int(rows[(len(rows) * own - 2 * self.kernel.cross(members, members).sum(axis=1)).argmin()])

    def _rule(self, inner: int) -> Callable[[Point, Labels], tuple[Point, float]]:
        """Return ``update(centre, rows) -> (centre, evaluations)`` for one cluster."""
        if self.mean == "exact":
            return lambda centre, rows: self._solved(centre, rows, inner)
        if self.mean == "toolbox":
            return self._toolbox_steps
        return lambda centre, rows: (point_at(points(self.systems[[self._medoid(rows)]], self.manifold), 0), 0.0)

    def _solved(self, centre: Point, rows: Labels, inner: int) -> tuple[Point, float]:
        """Descend on the mean problem (7), (8) of the members from the present centre."""
        problem = ms.Problem(self.manifold, mean_objective(self.kernel, self.packed[rows], len(rows)))
        result = ms.minimize(problem, centre, solver=self.solver, stop=ms.MaxIterations(inner))
        if result.status is ms.Status.INTERRUPTED:
            raise KeyboardInterrupt  # the outer loop ends with its last complete state
        return result.x, result.nfev

    def _toolbox_steps(self, centre: Point, rows: Labels) -> tuple[Point, float]:
        """Five steps of Algorithm 1 as the authors' toolbox takes them: on -(1/N) sum k, lam rescaled as a whole."""
        members, beta = self.packed[rows], np.full(len(rows), -1 / len(rows))
        lam, V, U = centre
        for _ in range(5):
            _, (g_lam, g_V, g_U) = self.kernel.weighted((lam, V, U), members, beta)
            lam = lam - 0.1 * g_lam
            lam = lam * (0.999 / max(0.999, np.abs(lam).max()))
            V, U = ms.linalg.cayley(V, g_V, 0.1), ms.linalg.cayley(U, g_U, 1.0)
        return (lam, V, U), 5.0


def distances(kernel: Any, centres: Systems, packed: Any, self_values: Array) -> tuple[Array, Array]:
    """Return kernel values and squared distances k(x, x) + k(c, c) - 2 k(x, c) in feature space, both (K, N)."""
    of_centres = kernel.pack(centres)
    cross = kernel.cross(of_centres, packed)
    return cross, np.maximum(self_values + kernel.diag(of_centres)[:, None] - 2 * cross, 0.0)


def mean_objective(kernel: Any, packed: Any, count: int) -> ms.Objective:
    """Return the objective of the mean problem: (8), with k(S, S) where it is not constant, as (7) demands."""
    beta = np.full(count, -2 / count)

    def value_and_gradient(point: Point) -> tuple[float, Point]:
        value, gradient = kernel.weighted(point, packed, beta)
        if kernel.constant_diagonal:
            return value, gradient
        own, own_gradient = kernel.self_term(point)
        return value + own, tuple(g + h for g, h in zip(gradient, own_gradient, strict=True))

    return ms.objective(value_and_gradient=value_and_gradient)


def points(systems: Systems, manifold: Any) -> Point:
    """Return systems as points of the canonical manifold, (lam, V, U) and a first state where there is a fourth factor."""
    lam, V, U = canonical_form(systems.A, systems.C)
    point = (lam, V, U)
    if systems.x1 is not None:
        basis = systems.C.swapaxes(-1, -2) @ U
        point = (*point, (basis.swapaxes(-1, -2) @ systems.x1[..., None])[..., 0])
    return manifold.nearest(point)


def as_systems(point: Point) -> Systems:
    """Return a stack of points of the canonical manifold as systems."""
    return Systems.trusted(dict(zip(("A", "C", "x1"), to_item(point), strict=False)))


def point_at(point: Point, k: int) -> Point:
    """Return row k of a stack of points."""
    return tuple(leaf[k] for leaf in point)


def _with_row(array: Array, k: int, row: Array) -> Array:
    array = array.copy()
    array[k] = row
    return array
