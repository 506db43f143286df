"""k-means in the feature space of a kernel as one pure step: starts, assignment, repair, relocation; mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, silhouette_score

import manifoldseq as ms
from manifoldseq.estimators import differing
from manifoldseq.execution import cached_property, map_ordered
from manifoldseq.models import restarts

from ..kernels._moments import MomentKernel, PackedMoments
from ..means import _stable_systems as stable
from ..means._best_datum import best_datum
from ..means._centre_rules import CanonicalMean, CentreRule, ExactMean, descended
from ..means._common_problem import BOUND_ADVICE, COSTLY, beyond, common_objective, own_weight, points_of, whole_point
from ..means._mean import medoid_row
from ..systems._record import Systems, replaced, to_item

Array = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]
Point = tuple[Array, ...]
State = dict[str, Any]


_SETTLED = 0.01
"""The assignment is settled if at most this fraction of the systems has moved; the inner iterations then double."""
_MOST_INNER = 8
_PATIENCE = 10
_PROGRESS = 1e-4
"""Additional rounds of a descent that is worse than the best member, and the relative gain that each must reach."""
MEDOIDS = 200
"""Number of candidates for the medoid of a large cluster."""
GRAM_ROWS = 2000
"""Up to this number of systems, all pairs are compared once; otherwise the members next to a centre are used."""
_NEAREST = 40
"""Number of candidates for the medoid of a cluster if there is no matrix of all pairs."""
_TASK_BYTES = 2**26
"""Maximum number of output values of the members of several centres in one call."""
RACE = "race"
"""The initialization by the best of several k-means runs on the kernel matrix."""
_RACED = 1000
"""Maximum number of systems for these runs."""
_SILHOUETTE = 250
"""Maximum number of systems for the silhouette, unless all pairs are known.

With 500, it took half of the time of a short fit of 1000 systems.
"""
SAME = 1e-10
"""Centres are equal if their squared distance is at most this fraction of the largest k(x, x)."""
_EQUAL = 1e-12
"""Squared distances that differ by less than this fraction of k(x, x) count as equal."""


@dataclass(frozen=True)
class Clustering:
    """The data of one clustering problem, with the functions of k-means.

    Parameters
    ----------
    kernel : kernel object
    manifold : Manifold
        The manifold of the centres.
    systems : Systems
        The systems, with exactly the fields of the kernel's items.
    n_clusters : int
    rule : CentreRule
    solver : str or solver
        The solver of the exact mean.
    inner_iter : int
        Iterations of the solver per centre and epoch while the assignment changes.
    packed, self_values
        The systems in the packed form of the kernel, and k(x, x) of each.
    relocate : bool
        Whether centres may move to other clusters once the assignment has settled.
    """

    kernel: Any
    manifold: Any
    systems: Systems
    n_clusters: int
    rule: CentreRule
    solver: Any
    inner_iter: int
    packed: Any
    self_values: Array
    relocate: bool = False

    def start(self, init: Any, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the initial state of k-means and its measures."""
        labels, rows, agreement = None, None, None
        if isinstance(init, Systems):
            centres = self.canonical(init)
        else:
            if isinstance(init, str) and init == RACE:
                labels, rows, agreement = self._raced(rng)
            elif isinstance(init, str) and init == "k-means++":
                rows = ms.kernels.spread_rows(len(self.systems), self.n_clusters, rng, self.squared_to)
            else:
                labels = rng.permutation(len(self.systems)) % self.n_clusters if isinstance(init, str) else init
                rows = np.array([self.medoid(np.flatnonzero(labels == k)) for k in range(self.n_clusters)])
            centres = self._points(rows)
        state: State = {"start": number, "x": centres, "labels": labels, "inner": self.inner_iter, "tried": 0}
        if agreement is not None:
            state["agreement"] = agreement
        if self.stable:
            state["steps"] = np.full(self.n_clusters, np.nan)
        if labels is None:
            state, measures = self._assigned(centres, state)
        else:
            values, measures = self._of_members(centres, labels)
            state |= {"values": values} if self.stable else {}
        return self._with_path(state, centres, self.feasible(centres)), measures

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch, which updates every centre and assigns every system."""
        if self.stable:
            centres, steps, spent = self._descended(state)
            return self._assigned(centres, {**state, "steps": steps}, spent)
        members = [np.flatnonzero(state["labels"] == k) for k in range(self.n_clusters)]
        old = state["x"]
        path = state["path"] if "path" in state else self.feasible(old)

        def update(k: int) -> tuple[Point, Point, float]:
            centre, start = tuple(leaf[k] for leaf in old), tuple(leaf[k] for leaf in path)
            if not len(members[k]):
                return centre, start, 0.0
            return self.improved(centre, start, members[k], state["inner"])

        updated = map_ordered(update, range(self.n_clusters))
        centres, path = (
            tuple(np.stack([part[i] for part in parts]) for i in range(len(old)))
            for parts in ([new for new, _, _ in updated], [start for _, start, _ in updated])
        )
        spent = sum(calls * len(rows) for (*_, calls), rows in zip(updated, members, strict=True)) / len(self.systems)
        new, measures = self._assigned(centres, state, spent)
        return self._with_path(new, centres, path), measures

    @cached_property
    def stable(self) -> bool:
        """Whether the centres are points ``[A; C]`` of all stable systems, with moments if moments are compared."""
        return isinstance(self.rule, ExactMean) and stable.covers(self.dynamics)

    @cached_property
    def dynamics(self) -> Any:
        """The kernel of the dynamics."""
        return self.kernel.kernel if isinstance(self.kernel, MomentKernel) else self.kernel

    def _descended(self, state: State) -> tuple[Point, Array, float]:
        """Return all centres after descent from the last centres or from better medoids, step sizes and evaluations."""
        labels, steps = state["labels"], state["steps"]
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=self.n_clusters)).tolist()
        members = [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        starts = tuple(leaf.copy() for leaf in state["x"])
        for k, rows in enumerate(members):
            if self.wide[rows].any():
                row, value = self._best_member(rows, state["values"][rows])
                if value > state["values"][rows].sum() * (1 + _EQUAL):
                    for leaf, new in zip(starts, self.point(row), strict=True):
                        leaf[k] = new

        def task(some: list[int]) -> tuple[Point, Array, float]:
            rows = [members[k] for k in some]
            return self._fitted(tuple(leaf[some] for leaf in starts), rows, state["inner"], steps[some])

        parts = map_ordered(task, self._tasks(members))
        centres = tuple(np.concatenate(leaves) for leaves in zip(*(part[0] for part in parts), strict=True))
        sizes = np.concatenate([part[1] for part in parts])
        return centres, sizes, sum(part[2] for part in parts) / len(labels)

    def _fitted(
        self, starts: Point, members: list[Labels], inner: int, steps: Array | None = None
    ) -> tuple[Point, Array, float]:
        """Return centres fitted to their members, step sizes, and the number of evaluated kernel values."""
        sizes = np.array([len(rows) for rows in members])
        ends = np.cumsum(sizes).tolist()
        groups = list(zip([0, *ends], ends, strict=False))
        packed, beta = self.packed[np.concatenate(members)], np.repeat(-2 / np.maximum(sizes, 1), sizes)
        return _fitted(self, starts, packed, beta, groups, inner, steps)

    def _tasks(self, members: list[Labels]) -> list[list[int]]:
        """Return lists of centres that are fitted in one call, with members of limited size."""
        tasks, size = [[]], 0
        per_row = (self.packed.dynamics if self.dynamics is not self.kernel else self.packed).Ct[0].nbytes
        for k, rows in enumerate(members):
            if tasks[-1] and size + len(rows) * per_row > _TASK_BYTES:
                tasks.append([])
                size = 0
            tasks[-1].append(k)
            size += len(rows) * per_row
        return tasks

    @cached_property
    def wide(self) -> NDArray[np.bool_]:
        """Mask of systems with singular values above 0.99, whose means can be worse than the medoid at first."""
        return np.linalg.norm(self.systems.A, 2, axis=(1, 2)) > stable.RADIUS

    @cached_property
    def gram(self) -> Array | None:
        """The kernel matrix of all pairs, (N, N), if there are not too many."""
        return self.kernel.cross(self.packed, self.packed) if len(self.systems) <= GRAM_ROWS else None

    def _best_member(self, rows: Labels, values: Array) -> tuple[int, float]:
        """Return the member with the largest sum of kernel values to the members, and this sum."""
        if self.gram is not None:
            sums, some = self.gram[np.ix_(rows, rows)].sum(axis=1), rows
        else:
            some = rows[np.argsort(-values, kind="stable")[:_NEAREST]]
            sums = self.kernel.cross(self.packed[some], self.packed[rows]).sum(axis=1)
        best = int(sums.argmax())
        return int(some[best]), float(sums[best])

    def silhouette(self, labels: Labels) -> float:
        """Return the mean silhouette of labels in feature space; many systems are subsampled evenly."""
        if "gram" in vars(self) and self.gram is not None:
            return silhouette(self.self_values, self.gram, labels)
        rows = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _SILHOUETTE)).astype(int))
        packed = self.packed[rows]
        return silhouette(self.self_values[rows], self.kernel.cross(packed, packed), labels[rows])

    def count_different(self, centres: Point) -> int:
        """Return the number of different centres, up to rounding."""
        packed = self.pack_centres(centres)
        size = self.kernel.diag(packed)
        squared = size[:, None] + size - 2 * self.kernel.cross(packed, packed)
        return len(differing(squared.__getitem__, np.full(len(size), np.inf), SAME * size.max(), len(size)))

    def pack_centres(self, centres: Point) -> Any:
        """Return stacked centres in the packed form of the kernel."""
        if not self.stable:
            return self.kernel.pack(as_systems(centres, self.kernel))
        packed = self.dynamics.pack_points(centres[0])
        return packed if self.dynamics is self.kernel else PackedMoments(packed, centres[1])

    def systems_of(self, centres: Point) -> tuple[Systems, NDArray[np.bool_]]:
        """Return stacked centres as systems with orthonormal outputs, and a mask of those without an equivalent one."""
        if self.stable:
            systems, deficient = stable.orthonormal(centres[0])
            return (systems if self.dynamics is self.kernel else replaced(systems, moments=centres[1])), deficient
        return as_systems(centres, self.kernel), np.zeros(self.n_clusters, dtype=bool)

    def improved(self, centre: Point, start: Point, rows: Labels, inner: int) -> tuple[Point, Point, float]:
        """Return the new centre of the members `rows`, the point of the rule from `start`, and its evaluations.

        The two differ if singular values of A exceed the bound of (12), which restricts the descent of the mean. The
        centre then stays the same, or becomes the medoid of its members, unless the rule computes a point nearer to
        them.
        """
        found, spent = self.rule(self, start, rows, inner)
        if not self.cut.any():
            return found, found, spent
        packed, beta, own = self.packed[rows], np.full(len(rows), -2 / len(rows)), own_weight(self.kernel, 1.0)
        known = [centre]
        if self.cut[rows].any():
            known.append(self.point(int(rows[best_datum(self.kernel, packed, beta, own, MEDOIDS)[0]])))
        values = point_values(self.kernel, [found, *known], packed, beta, own)
        value, best = values[0], int(values[1:].argmin())
        least = values[1 + best] + _EQUAL * np.abs(values).max()
        for _ in range(_PATIENCE):  # an epoch that changes no centre ends the run: the descent must have settled first
            if value <= least:
                break
            again, more = self.rule(self, found, rows, inner)
            before, value = value, point_values(self.kernel, [again], packed, beta, own)[0]
            found, spent = again, spent + more
            if before - value <= _PROGRESS * abs(value):
                break
        return (found if value <= least else known[best]), found, spent

    @cached_property
    def cut(self) -> Any:
        """Mask of systems with singular values beyond the bound that restricts the descent of the mean."""
        if self.stable or not isinstance(self.rule, CanonicalMean):
            return np.zeros(len(self.systems), dtype=bool)
        return beyond(self.manifold, points_of(self.systems))

    def feasible(self, centres: Point) -> Point:
        """Return the starting points of descents from one centre or from several centres."""
        return self.manifold.nearest(centres) if self.cut.any() else centres

    def _with_path(self, state: State, centres: Point, path: Point) -> State:
        """Return a state with the starting points of the next descents: `path`, if it contains one of `centres`."""
        if not self.cut.any():
            return state
        pairs = zip(state["x"], centres, strict=True)
        kept = np.all([(new == old).reshape(len(new), -1).all(axis=1) for new, old in pairs], axis=0)
        return {**state, "path": chosen(kept, path, self.feasible(state["x"]))}

    def cost_of_bound(self, state: State) -> str | None:
        """Return a warning about the effect of the bound of (12) if it is not negligible."""
        if "path" not in state:
            return None
        replaced = beyond(self.manifold, state["x"])
        if not replaced.any():
            return None
        labels, everyone = state["labels"], np.arange(len(self.systems))
        within = chosen(replaced, state["path"], state["x"])
        which = 0 if self.kernel.constant_diagonal else 1
        name = ("kernel value", "squared distance")[which]
        best, worse = (float(self.distances(x)[which][labels, everyone].mean()) for x in (state["x"], within))
        if abs(worse - best) <= COSTLY * self.self_values.mean():
            return None
        bound = float(np.abs(self.manifold.nearest(state["x"])[0]).max())
        return (
            f"{int(replaced.sum())} of {self.n_clusters} centres are members whose A has singular values up to "
            f"{float(np.abs(state['x'][0]).max()):.4g}, although problem (12) of the paper requires "
            f"bound={bound:.4g}. With centres within the bound, the mean {name} would be {worse:.4g} instead of "
            f"{best:.4g}: {BOUND_ADVICE}"
        )

    def _of_members(self, centres: Point, labels: Labels) -> tuple[Array, ms.Measures]:
        """Return kernel values of the systems with their own centres for given labels, and the measures."""
        of_centres, values = self.pack_centres(centres), np.empty(len(labels))
        for k in range(self.n_clusters):
            rows = np.flatnonzero(labels == k)
            values[rows] = self.kernel.cross(of_centres[k : k + 1], self.packed[rows])[0]
        # |phi(x) - phi(c)|² = k(x, x) + k(c, c) - 2 k(x, c), each system with its own centre, (N,)
        squared = np.maximum(self.self_values + self.kernel.diag(of_centres)[labels] - 2 * values, 0.0)
        return values, _measures(values, squared, len(labels))

    def _assigned(self, centres: Point, state: State, spent: float = 0.0) -> tuple[State, ms.Measures]:
        """Return the state with these centres and every system assigned to the nearest centre, and its measures."""
        values, squared = self.distances(centres)
        everyone = np.arange(len(self.systems))
        centres, labels, values, squared = self._repaired(centres, squared.argmin(axis=0), values, squared)
        moved = len(everyone) if state["labels"] is None else int(np.count_nonzero(labels != state["labels"]))
        tried = state["tried"]
        if self.relocate and state["labels"] is not None and moved <= _SETTLED * len(everyone):
            found = relocated(self, centres, labels, values, squared, tried)
            centres, labels, values, squared = found or (centres, labels, values, squared)
            tried = 0 if found else tried + 1
        inner = state["inner"] * 2 if moved <= _SETTLED * len(everyone) else state["inner"]
        inner = min(inner, max(_MOST_INNER, self.inner_iter))
        made = {**state, "x": centres, "labels": labels, "inner": inner, "tried": tried}
        if self.stable:
            made |= {"values": values[labels, everyone], "steps": state["steps"]}
        return made, _measures(values[labels, everyone], squared[labels, everyone], moved, spent)

    def _repaired(
        self, centres: Point, labels: Labels, values: Array, squared: Array
    ) -> tuple[Point, Labels, Array, Array]:
        """Move the centre of an empty cluster to the system with the largest distance in a cluster of two or more."""
        for _ in range(self.n_clusters):
            sizes, own = np.bincount(labels, minlength=self.n_clusters), squared[labels, np.arange(len(labels))]
            found = next(restarts(sizes == 0, sizes, own, labels), None)
            if found is None:
                break
            k, i = found
            # the system becomes the centre; what is nearer to it than to its own centre follows
            centre = self._points([i])
            row_values, row = self.distances(centre)
            centres = tuple(_with_row(leaf, k, new[0]) for leaf, new in zip(centres, centre, strict=True))
            values, squared = _with_row(values, k, row_values[0]), _with_row(squared, k, row[0])
            labels = np.where(row[0] < own - _EQUAL * self.self_values, k, labels)
            labels[i] = k
        return centres, labels, values, squared

    def distances(self, centres: Point, rows: Labels | None = None) -> tuple[Array, Array]:
        """Return kernel values and squared distances from stacked centres to all systems or to a subset."""
        packed, own = (self.packed, self.self_values) if rows is None else (self.packed[rows], self.self_values[rows])
        return distances(self.kernel, self.pack_centres(centres), packed, own)

    def squared_to(self, rows: Any, others: Any = slice(None)) -> Array:
        """Return the squared distances from some systems to all systems or to a subset."""
        rows = np.asarray(rows)
        cross = self.kernel.cross(self.packed[rows], self.packed[others])
        return np.maximum(self.self_values[others] + self.self_values[rows, None] - 2 * cross, 0.0)

    def point(self, row: int) -> Point:
        """Return one system as a point."""
        return tuple(leaf[0] for leaf in self._points([row]))

    def medoid(self, rows: Labels) -> int:
        """Return the row of the member with the smallest sum of squared distances to the members."""
        return int(rows[medoid_row(self.kernel, self.packed[rows])])

    def objective(self, rows: Labels, beta: Array) -> ms.Objective:
        """Return ``sum_i beta_i k(S, S_i)`` over some systems as an objective of points S."""
        return common_objective(self.kernel, self.packed[rows], beta)

    def packed_by(self, kernel: str) -> tuple[Any, Any]:
        """Return another registered kernel of (A, C) and the systems packed by it; both are cached."""
        if kernel not in self._packed_by:
            other = ms.get_kernel(kernel)
            packed = other.pack(Systems.trusted({"A": self.systems.A, "C": self.systems.C}))
            self._packed_by[kernel] = other, packed
        return self._packed_by[kernel]

    @cached_property
    def _packed_by(self) -> dict[str, tuple[Any, Any]]:
        """The results of `packed_by` by the name of the kernel."""
        return {}

    def _points(self, rows: Any) -> Point:
        return self.canonical(self.systems[np.asarray(rows)])

    def canonical(self, systems: Systems) -> Point:
        """Return systems as stacked points, ([A; C],) or (lam, V, U), with moments or x1 if the kernel uses them."""
        if self.stable:
            packed = self.kernel.pack(systems)
            if self.dynamics is self.kernel:
                return (stable.points_of(packed),)
            return stable.points_of(packed.dynamics), packed.moments
        form = points_of(systems)
        return self.manifold.nearest(form) if isinstance(self.rule, CanonicalMean) and not self.cut.any() else form

    def _raced(self, rng: np.random.Generator) -> tuple[Labels | None, Labels, float]:
        """Return the labels (None for too many systems), the rows of medoids and the agreement of several starts.

        Each start is a kernel k-means, whose centres are means in feature space rather than systems.
        """
        N, K = len(self.systems), self.n_clusters
        some = np.arange(N) if N <= _RACED else np.sort(rng.permutation(N)[:_RACED])
        gram = (
            self.kernel.cross(self.packed[some], self.packed[some]) if self.gram is None else self.gram[some][:, some]
        )
        labels, *others = ms.kernels.kernel_kmeans((gram + gram.T) / 2, K, rng)
        agreement = float(np.mean([adjusted_rand_score(labels, other) for other in others]))
        rows = np.array([some[members[medoid_of(gram, members)]] for members in _members(labels, K)])
        return (labels if len(some) == N else None), rows, agreement


def silhouette(own: Array, gram: Array, labels: Labels) -> float:
    """Return the mean silhouette of labels for kernel values k(x, x) and k(x, y); NaN for one cluster or N clusters.

    Distances are computed in feature space.
    """
    if not 1 < len(np.unique(labels)) < len(labels):
        return float("nan")
    distance = np.sqrt(np.maximum(own[:, None] + own - gram - gram.T, 0.0))
    np.fill_diagonal(distance, 0.0)
    return float(silhouette_score(distance, labels, metric="precomputed"))


def _members(labels: Labels, n_clusters: int) -> list[Labels]:
    return [np.flatnonzero(labels == k) for k in range(n_clusters)]


def medoid_of(gram: Array, members: Labels) -> int:
    """Return the index of the member with the smallest sum of squared distances to the members."""
    inner = gram[np.ix_(members, members)]
    return int((len(members) * inner.diagonal() - 2 * inner.sum(axis=1)).argmin())


def distances(kernel: Any, of_centres: Any, packed: Any, self_values: Array) -> tuple[Array, Array]:
    """Return kernel values and squared distances k(x, x) + k(c, c) - 2 k(x, c) in feature space, both (K, N)."""
    cross = kernel.cross(of_centres, packed)
    return cross, np.maximum(self_values + kernel.diag(of_centres)[:, None] - 2 * cross, 0.0)


def point_values(kernel: Any, points: list[Point], packed: Any, beta: Array, own: float) -> Array:
    """Return ``sum_i beta_i k(S, S_i) + own k(S, S)`` of points S."""
    of_points = kernel.pack(as_systems(_stacked(tuple(points)), kernel))
    values = kernel.cross(of_points, packed) @ beta
    return values + own * kernel.diag(of_points) if own else values


def as_systems(point: Point, kernel: Any = None) -> Systems:
    """Return stacked points of the canonical manifold, or of the manifold of a kernel with moments, as systems."""
    last = "moments" if isinstance(kernel, MomentKernel) else "x1"
    return Systems.trusted(dict(zip(("A", "C", last), to_item(point), strict=False)))


def _measures(values: Array, squared: Array, moved: int, spent: float = 0.0) -> ms.Measures:
    """Return the measures of kernel values and squared distances of the systems to their centres."""
    return ms.Measures(
        fun=float(squared.mean()),
        evaluations=ms.Evaluations(spent, spent),
        extra={"mean_kernel_value": float(values.mean()), "moved": float(moved)},
    )


def chosen(rows: Any, some: Point, others: Point) -> Point:
    """Return stacked points: `some` where `rows` is true, and `others` elsewhere."""
    return tuple(
        np.where(rows.reshape(-1, *[1] * (one.ndim - 1)), one, other) for one, other in zip(some, others, strict=True)
    )


def _with_row(array: Array, k: int, row: Array) -> Array:
    array = array.copy()
    array[k] = row
    return array


# Leaving a poor local optimum of k-means: one cluster is dissolved where another is better split in two.


_CANDIDATES = 200
"""Number of candidates for the second centre of a split cluster."""
_INNER = 3
"""Number of iterations for both centres of a split cluster."""


def relocated(
    task: Clustering, centres: Point, labels: Labels, values: Array, squared: Array, tried: int = 0
) -> tuple[Point, Labels, Array, Array] | None:
    """Return centres, labels, kernel values and squared distances after a relocation that lowers the objective.

    The cluster whose removal raises the objective least is dissolved; its members move to their second nearest centres.
    Its centre moves into the cluster with the largest sum of squared distances except those in `tried`, where both
    centres are fitted. None if the objective does not decrease.
    """
    K = task.n_clusters
    if K < 2:
        return None
    everyone = np.arange(len(labels))
    own = squared[labels, everyone]
    second = np.partition(squared, 1, axis=0)[1]
    # what dissolving each cluster costs, and what each has to gain: sums over its members, (K,)
    loss = np.bincount(labels, second - own, minlength=K)
    totals = np.bincount(labels, own, minlength=K)
    k = int(loss.argmin())
    others = [int(j) for j in np.argsort(-totals, kind="stable") if j != k]
    j = others[tried % len(others)]
    rows = np.flatnonzero(labels == j)
    if len(rows) < 3 or totals[j] <= loss[k]:
        return None
    split, rest = _split(task, tuple(leaf[j] for leaf in centres), rows, own[rows])
    if totals[j] - rest <= loss[k]:
        return None
    two_values, two = task.distances(split)
    trial, trial_values = _with_rows(squared, [k, j], two), _with_rows(values, [k, j], two_values)
    assigned = trial.argmin(axis=0)
    if trial[assigned, everyone].sum() < own.sum() and np.bincount(assigned, minlength=K).all():
        new = tuple(_with_rows(leaf, [k, j], part) for leaf, part in zip(centres, split, strict=True))
        return new, assigned, trial_values, trial
    return None


def _split(task: Clustering, centre: Point, rows: Labels, own: Array) -> tuple[Point, float]:
    """Return two stacked centres for the members `rows` of one cluster, and the sum of squared distances to them."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES)).astype(int))]
    # the candidate whose own cluster would reduce the sum most; then it and the centre are fitted to their sides
    gains = np.maximum(own - task.squared_to(some, rows), 0.0).sum(axis=1)
    pair = (task.point(int(some[gains.argmax()])), centre)
    fitted = _stacked(pair)
    side = task.distances(fitted, rows)[1].argmin(axis=0)
    if task.stable:
        fitted = task._fitted(fitted, [rows[side == i] for i in (0, 1)], _INNER)[0]
    else:
        fitted = _stacked(
            tuple(
                task.improved(point, task.feasible(point), rows[side == i], _INNER)[0] if (side == i).any() else point
                for i, point in enumerate(pair)
            )
        )
    return fitted, float(task.distances(fitted, rows)[1].min(axis=0).sum())


def _stacked(points: tuple[Point, ...]) -> Point:
    return tuple(np.stack(leaves) for leaves in zip(*points, strict=True))


def _with_rows(array: Array, rows: Any, new: Array) -> Array:
    array = array.copy()
    array[rows] = new
    return array


# Mini-batch k-means: every centre meets its new members with the weight of all that it has seen.


def absorbed(task: Clustering, centres: Point, counts: NDArray[np.int64]) -> tuple[Point, NDArray[np.int64]]:
    """Return the centres and their counts after an update with the systems of a clustering problem as a mini-batch."""
    squared = task.distances(centres)[1]
    labels = squared.argmin(axis=0)
    if task.stable:
        return _absorbed(task, centres, counts, labels), counts + np.bincount(labels, minlength=task.n_clusters)
    old = as_systems(centres, task.kernel)
    moved = [tuple(leaf[k] for leaf in centres) for k in range(task.n_clusters)]
    for k in np.unique(labels):
        rows = np.flatnonzero(labels == k)
        members, weights = task.systems[rows], np.ones(len(rows))
        # the mean so far is one more member, with the weight of the systems that it stands for
        if counts[k]:
            members = Systems.concatenate([old[[k]], members])
            weights = np.append(float(counts[k]), weights)
        beta, own = -2 * weights / weights.sum(), own_weight(task.kernel, 1.0)
        packed = task.kernel.pack(members)
        cut = beyond(task.manifold, points_of(members))
        if not cut.any():
            moved[k] = descended(task, moved[k], packed, beta, task.inner_iter)[0]
            continue
        found = descended(task, task.manifold.nearest(moved[k]), packed, beta, task.inner_iter)[0]
        member = whole_point(members, best_datum(task.kernel, packed, beta, own, MEDOIDS)[0])
        points = [found, moved[k], member]  # as in a fit: no centre is worse than its last place or the best member
        moved[k] = points[int(point_values(task.kernel, points, packed, beta, own).argmin())]
    stacked = tuple(np.stack([point[i] for point in moved]) for i in range(len(centres)))
    return stacked, counts + np.bincount(labels, minlength=task.n_clusters)


def _absorbed(task: Clustering, centres: Point, counts: NDArray[np.int64], labels: Labels) -> Point:
    """Return points ``[A; C]`` after descent on the weighted mean of their new members and their previous points."""
    old, parts, weights, groups, moving = stable.general(centres[0]), [], [], [], np.unique(labels)
    old = old if task.dynamics is task.kernel else replaced(old, moments=centres[1])
    for k in moving:
        rows = np.flatnonzero(labels == k)
        # the mean so far is one more member, with the weight of the systems that it stands for
        seen = [float(counts[k])] if counts[k] else []
        parts += [old[[k]]] * len(seen) + [task.systems[rows]]
        weights.append(np.array([*seen, *np.ones(len(rows))]))
        first = groups[-1][1] if groups else 0
        groups.append((first, first + len(weights[-1])))
    joined = Systems.concatenate(parts)
    packed, points = task.kernel.pack(joined), task.canonical(joined)
    beta = np.concatenate([-2 * w / w.sum() for w in weights])
    starts = tuple(leaf[moving].copy() for leaf in centres)
    for i, (first, end) in enumerate(groups):  # as in a fit: from the best member, if it is better than the last place
        if task.wide[labels == moving[i]].any():
            row, value = best_datum(task.kernel, packed[first:end], beta[first:end], 0.0, MEDOIDS)
            here = task.pack_centres(tuple(leaf[i : i + 1] for leaf in starts))
            if value < task.kernel.cross(here, packed[first:end])[0] @ beta[first:end]:
                for leaf, new in zip(starts, points, strict=True):
                    leaf[i] = new[first + row]
    moved = tuple(leaf.copy() for leaf in centres)
    for leaf, new in zip(moved, _fitted(task, starts, packed, beta, groups, task.inner_iter)[0], strict=True):
        leaf[moving] = new
    return moved


def _fitted(
    task: Clustering,
    starts: Point,
    packed: Any,
    beta: Array,
    groups: list[tuple[int, int]],
    inner: int,
    steps: Array | None = None,
) -> tuple[Point, Array, float]:
    """Return stacked centres after descent on ``sum_i beta_i k(S_k, S_i)``, step sizes, and evaluations.

    Moments are updated first; the dynamics then descend with the resulting weights. Neither step raises the sum.
    """
    spent, shifted = 0.0, ()
    if isinstance(task.kernel, MomentKernel):
        of_points, moments, weights = task.dynamics.pack_points(starts[0]), starts[1].copy(), beta.copy()
        for k, (first, end) in enumerate(groups):
            values = task.dynamics.cross(of_points[k : k + 1], packed.dynamics[first:end])[0]
            found = task.kernel.shifted(moments[k], values, packed.moments[first:end], beta[first:end])
            moments[k], weights[first:end] = found
        packed, beta, spent, shifted = packed.dynamics, weights, float(len(beta)), (moments,)
    points, _, more, steps = stable.descended(
        task.dynamics, packed, beta, groups, starts[0], inner, solver=task.solver, steps=steps
    )
    return (points, *shifted), steps, spent + more
