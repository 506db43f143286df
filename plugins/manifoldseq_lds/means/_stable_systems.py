"""Every stable observable system as a point [A; C] with orthonormal columns; descent on many such points at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..systems._record import Systems
from ._best_datum import best_datum

Array = NDArray[np.floating[Any]]

RADIUS = 0.99
"""Points of a larger spectral radius are tried from this one, too: the objective is flat around an undamped mode."""
_TRIALS = 10
"""Trial steps before a point is left where it is: next to the unit circle the objective has minima of no width."""
_SCOUT = 20
"""Steps from a datum next to the unit circle, and from the radius `RADIUS`, before the better of both is chosen."""
_LIFT = 1e-8
"""Singular values of outputs below this, relative to the largest, are raised to it before they are divided by."""


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
    """Return points as systems (A, C), with the outputs as they are: not orthonormal."""
    n = points.shape[-1]
    return Systems.trusted({"A": points[:, :n].copy(), "C": points[:, n:].copy()})


def orthonormal(points: Array) -> tuple[Systems, NDArray[np.bool_]]:
    """Return points as equivalent systems with orthonormal outputs, and which of them have none.

    With ``C = W S Z'`` the basis ``S Z' x`` makes the outputs W. Where C has lost a rank the system returned is near,
    not equivalent.
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
) -> tuple[Array, Array, float, Array]:
    """Descend on ``sum_i beta_i k(S_k, S_i)`` over the systems i of group k, for all points S_k at once.

    Points whose spectral radius is above `RADIUS` are tried from there as well, and the better end is kept; no point
    ends above its start.

    Parameters
    ----------
    kernel, packed
        A kernel that `covers`, and systems as it packs them.
    beta : array of shape (N,)
    groups : sequence of K pairs of int
        First row of `packed`, and the one after the last.
    starts : array of shape (K, n + m, n)
    n_steps : int
    solver : str or solver
        ``"auto"``: L-BFGS on all points at once; another one minimizes point by point.
    steps : array of shape (K,), optional
        Sizes of first steps, as they were returned before; measured if one is NaN.

    Returns
    -------
    points : array of shape (K, n + m, n)
    values : array of shape (K,)
    spent : float
        Evaluations of all points, in kernel values.
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
    m, n = starts.shape[1] - starts.shape[2], starts.shape[2]
    M = manifold(m, n)
    if solver == "auto":
        oracle = partial(_several, kernel, packed, beta, groups)
        algorithm = ms.batch.BatchLBFGS(max_trials=_TRIALS)
        rows = algorithm.init(M, oracle, starts, first if np.isfinite(first).all() else None)
        spent = float(rows["trials"] @ sizes)
        points, values, first = (rows[name].copy() for name in ("x", "fun", "step"))
        for _ in range(n_steps):
            rows = algorithm.step(M, oracle, rows)
            which = rows["which"]
            spent += float(rows["trials"] @ sizes[which])
            points[which], values[which], first[which] = rows["x"], rows["fun"], rows["step"]
            rows = ms.batch.without(rows, rows["failed"])
            if not rows["which"].size:
                break
    else:
        found, spent = [], 0.0
        for point, group, size in zip(starts, groups, sizes, strict=True):
            both = partial(_one, kernel, packed, beta, group)
            problem = ms.Problem(M, ms.objective(value_and_gradient=both))
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


def problem(kernel: Any, packed: Any, beta: Array) -> ms.Problem:
    """Return the problem of one point, ``sum_i beta_i k(S, S_i)``, with the initializers "medoid" and "random"."""
    n, m = packed.Ct.shape[1:]
    both = ms.objectives.last_point(partial(_one, kernel, packed, beta, (0, len(packed))))
    starts = {"medoid": partial(_from_best_datum, kernel, packed, beta), "random": _random}
    objective = ms.Objective(
        partial(_value, both), both, terms=ms.objectives.FiniteTerms(len(packed), partial(_batch, kernel, packed, beta))
    )
    return ms.Problem(manifold(m, n), objective, starts)


def _value(both: Any, point: Array) -> float:
    return both(point)[0]


def _batch(kernel: Any, packed: Any, beta: Array, rows: Any) -> ms.Objective:
    return problem(kernel, packed[rows], beta[rows] * (len(beta) / len(rows))).objective


def _from_best_datum(kernel: Any, packed: Any, beta: Array, problem: ms.Problem, rng: Any) -> Array:
    """Return the datum where the objective is least; of a radius above `RADIUS`, what a short descent finds."""
    start = points_of(packed[[best_datum(kernel, packed, beta, 0.0)[0]]])
    if radii(start)[0] > RADIUS:
        start = descended(kernel, packed, beta, [(0, len(packed))], start, _SCOUT)[0]
    return start[0]


def _random(problem: ms.Problem, rng: np.random.Generator) -> Array:
    return problem.manifold.random_point(rng)


def _several(kernel: Any, packed: Any, beta: Array, groups: Any, points: Array, which: Any) -> tuple[Array, Array]:
    return kernel.weighted_groups(points, packed, beta, [groups[k] for k in which])


def _one(kernel: Any, packed: Any, beta: Array, group: tuple[int, int], point: Array) -> tuple[float, Array]:
    values, gradients = kernel.weighted_groups(point[None], packed, beta, [group])
    return float(values[0]), gradients[0]
