"""Every stable observable system as a point [A; C] with orthonormal columns; descent on many such points at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..systems._record import Systems
from ._best_datum import best_datum

Array = NDArray[np.floating[Any]]

MODEL = "lds.mean-stable"


@dataclass(frozen=True)
class Means:
    """One or several means: ``sum_i beta_i k(S_k, S_i)`` over the systems i of group k, packed by their kernel."""

    kernel: Any
    packed: Any
    beta: Array
    groups: Sequence[tuple[int, int]]


RADIUS = 0.99
"""Points beyond this spectral radius are also started at it: the objective is flat around an undamped mode."""
_TRIALS = 10
"""Number of trial steps before a point is kept: next to the unit circle, minima of the objective are very narrow."""
_SCOUT = 20
"""Number of steps from a datum next to the unit circle, and from the radius `RADIUS`, before the better is chosen."""
_LIFT = 1e-8
"""Lower bound of singular values of outputs, relative to the largest, in divisions."""


def covers(kernel: Any) -> bool:
    """Return whether a kernel is a function of observability subspaces, so that means range over all stable systems."""
    return hasattr(kernel, "weighted_groups")


def manifold(n_outputs: int, n_states: int) -> ms.manifolds.Stiefel:
    """Return the manifold of points ``[A; C]`` with ``A'A + C'C = I``, the output-normal form of stable systems."""
    return ms.manifolds.Stiefel(n_states + n_outputs, n_states)


def points_of(packed: Any) -> Array:
    """Return packed systems as points, (N, n + m, n)."""
    points = np.concatenate([packed.powers[0], packed.Ct.swapaxes(1, 2)], axis=1)
    return points if packed.Ct.dtype == np.float64 else ms.linalg.polar(points)


def general(points: Array) -> Systems:
    """Return points as systems (A, C) whose outputs are not orthonormal."""
    n = points.shape[-1]
    return Systems.trusted({"A": points[:, :n].copy(), "C": points[:, n:].copy()})


def orthonormal(points: Array) -> tuple[Systems, NDArray[np.bool_]]:
    """Return points as equivalent systems with orthonormal outputs, and a mask of points without such a system.

    With ``C = W S Z'``, the outputs are W in the basis ``S Z' x``. If C is rank-deficient, the returned system is near
    the point and not equivalent.
    """
    n = points.shape[-1]
    W, s, Zt = np.linalg.svd(points[:, n:], full_matrices=False)
    lifted = np.maximum(s, _LIFT * s[:, :1])
    A = lifted[:, :, None] * (Zt @ points[:, :n] @ Zt.swapaxes(-1, -2)) / lifted[:, None, :]
    return Systems.trusted({"A": A, "C": W}), (lifted != s).any(axis=1)


def radii(points: Array) -> Array:
    """Return spectral radii, (N,)."""
    return np.abs(np.linalg.eigvals(points[:, : points.shape[-1]])).max(axis=-1)


def damped(kernel: Any, points: Array, radius: Array) -> Array:
    """Return points whose A is scaled to the spectral radius `RADIUS`."""
    systems = general(points)
    A = systems.A * (RADIUS / radius)[:, None, None]
    return points_of(kernel.pack(Systems.trusted({"A": A, "C": systems.C})))


def descended(
    kernel: Any,
    packed: Any,
    beta: Array,
    groups: Sequence[tuple[int, int]],
    starts: Array,
    n_steps: int,
    *,
    solver: Any = "auto",
    steps: Array | None = None,
    model: str = MODEL,
) -> tuple[Array, Array, float, Array]:
    """Descend on ``sum_i beta_i k(S_k, S_i)`` over the systems i of group k, for all points S_k at once.

    Points with a spectral radius above `RADIUS` are also started at this radius, and the better result is kept; the
    objective never increases.

    Parameters
    ----------
    kernel, packed
        A kernel that `covers` accepts, and systems packed by it.
    beta : array of shape (N,)
    groups : sequence of K pairs of int
        First row of `packed`, and the row after the last.
    starts : array of shape (K, n + m, n)
    n_steps : int
    solver : str or solver
        ``"auto"``: L-BFGS on all points together; other solvers minimize point by point.
    steps : array of shape (K,), optional
        Sizes of first steps, as returned by an earlier call; they are determined anew if one is NaN.

    Returns
    -------
    points : array of shape (K, n + m, n)
    values : array of shape (K,)
    spent : float
        Number of evaluated kernel values for all points.
    steps : array of shape (K,)
    """
    K, groups = len(starts), list(groups)
    first = np.full(K, np.nan) if steps is None else steps
    sizes = np.array([stop - start for start, stop in groups], dtype=float)
    radius = radii(starts)
    again = np.flatnonzero(radius > RADIUS)
    if again.size:
        starts = np.concatenate([starts, damped(kernel, starts[again], radius[again])])
        groups += [groups[k] for k in again]
        sizes = np.concatenate([sizes, sizes[again]])
        first = np.concatenate([first, first[again]])
    spec = ms.get_model(model)
    means = Means(kernel, packed, beta, groups)
    problem = spec.problem(means)
    M, oracle = problem.manifold, problem.objective.batched
    if solver == "auto" and oracle is not None:
        algorithm, trials = ms.solvers.LBFGS(max_trials=_TRIALS), np.zeros(len(groups))
        rows = ms.batch.RowProblem(M, oracle, np.arange(len(groups)), trials)
        state, _ = algorithm.init(rows, starts)
        state = {**state, "step": first}
        points, values, first = state["x"].copy(), state["fun"].copy(), first.copy()
        for _ in range(n_steps):
            state, measures = algorithm.step(rows, state)
            points[rows.which], values[rows.which], first[rows.which] = state["x"], state["fun"], state["step"]
            rows, state = rows.moved(state, measures)
            if not rows.which.size:
                break
        spent = float(trials @ sizes)
    else:
        found, spent = [], 0.0
        for point, group, size in zip(starts, groups, sizes, strict=True):
            problem = spec.problem(replace(means, groups=[group]))
            result = ms.minimize(problem, point, solver=solver, stop=ms.MaxIterations(n_steps))
            if result.status is ms.Status.INTERRUPTED:
                raise KeyboardInterrupt  # the outer loop ends with its last complete state
            found.append((result.x, result.fun))
            spent += result.nfev * size
        points, values = np.stack([x for x, _ in found]), np.array([fun for _, fun in found])
        first = np.full(len(points), np.nan)
    if again.size:
        better = values[K:] < values[again]
        points[again[better]], values[again[better]] = points[K:][better], values[K:][better]
        first[again[better]] = first[K:][better]
    return points[:K], values[:K], spent, first[:K]


def problem(kernel: Any, packed: Any, beta: Array, model: str = MODEL) -> ms.Problem:
    """Return the problem of one point, ``sum_i beta_i k(S, S_i)``, with the initializers "medoid" and "random"."""
    return ms.get_model(model).problem(Means(kernel, packed, beta, [(0, len(packed))]))


# the parts of the model ``lds.mean-stable``


def manifold_of(means: Means) -> ms.manifolds.Stiefel:
    """Points [A; C] with orthonormal columns."""
    n, m = means.packed.Ct.shape[1:]
    return manifold(m, n)


def batched(means: Means, points: Array, which: Any) -> tuple[Array, Array]:
    """Return the values and gradients of several means, or of one mean at several points."""
    groups = [means.groups[k % len(means.groups)] for k in which]
    return means.kernel.weighted_groups(points, means.packed, means.beta, groups)


def value_and_gradient(means: Means, point: Array) -> tuple[float, Array]:
    """Return the value and gradient of the first mean."""
    values, gradients = means.kernel.weighted_groups(point[None], means.packed, means.beta, [means.groups[0]])
    return float(values[0]), gradients[0]


def batch(means: Means, rows: Any) -> Means:
    """Return the mean of some systems."""
    share = len(means.beta) / len(rows)
    return Means(means.kernel, means.packed[rows], means.beta[rows] * share, [(0, len(rows))])


def medoid(problem: ms.Problem, rng: Any) -> Array:
    """Return the datum with the smallest objective, after a short descent if its radius is above `RADIUS`."""
    means = problem.data.model
    kernel, packed, beta = means.kernel, means.packed, means.beta
    start = points_of(packed[[best_datum(kernel, packed, beta, 0.0)[0]]])
    if radii(start)[0] > RADIUS:
        start = descended(kernel, packed, beta, [(0, len(packed))], start, _SCOUT)[0]
    return start[0]


def random(problem: ms.Problem, rng: np.random.Generator) -> Array:
    """Return a random stable system."""
    return problem.manifold.random_point(rng)
