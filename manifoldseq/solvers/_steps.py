"""Solver steps within an outer iteration: `take_steps`, `fixed_steps`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from .._problem import Problem
from .._result import Measures, Point, Status, Steps
from ._base import Solver, whole_numbers
from ._iterates import State


def take_steps(solver: Solver, problem: Problem, state: State, n_steps: int) -> tuple[State, Measures]:
    """Take several steps of a solver, as part of a step of an outer iteration.

    Parameters
    ----------
    solver : Solver
    problem : Problem
        To count evaluations, wrap its objective with :class:`manifoldseq.objectives.Counter`.
    state : dict
        The state from ``solver.init(problem, point)`` for this problem, or from an earlier call. It is not modified.
    n_steps : int
        The number of steps, at least one. Fewer are taken if the solver ends earlier.

    Returns
    -------
    state : dict
        The new state, with the point at ``state["x"]``.
    measures : Measures
        The measures of this state. If the solver ended, ``status`` is the reason. A step that overflows is discarded,
        and the status is NON_FINITE.

    Examples
    --------
    Two centres of points on a product: k-means with steps of L-BFGS instead of means. The assignments change the
    objective of a centre, so each step begins a new run of the solver at the previous centre:

    >>> import numpy as np, manifoldseq as ms
    >>> rng = np.random.default_rng(0)
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(3), ms.manifolds.Euclidean(1))
    >>> data = [M.retract((np.eye(3)[i % 2], np.array([5.0 * (i % 2)])), (0.1 * rng.standard_normal(3), rng.random(1)))
    ...         for i in range(40)]
    >>> def distances(x):
    ...     return np.array([((x[0] - a) ** 2).sum() + ((x[1] - b) ** 2).sum() for a, b in data])
    >>> solver, counter = ms.solvers.LBFGS(), ms.objectives.Counter()
    >>> def centre(x, members):
    ...     cost = ms.objective(lambda x: sum(((x[0] - a) ** 2).sum() + ((x[1] - b) ** 2).sum() for a, b in members))
    ...     problem = ms.Problem(M, counter.wrap(cost))
    ...     state, _ = solver.init(problem, x)
    ...     return ms.solvers.take_steps(solver, problem, state, 3)[0]["x"]
    >>> def step(state):
    ...     labels = np.argmin([distances(x) for x in state["x"]], axis=0)
    ...     x = tuple(centre(x, [data[i] for i in np.flatnonzero(labels == k)]) for k, x in enumerate(state["x"]))
    ...     inertia = float(np.min([distances(c) for c in x], axis=0).sum())
    ...     return {"x": x, "labels": labels}, ms.Measures(inertia, evaluations=counter.take())
    >>> run = ms.iterate(step, {"x": (data[0], data[2])}, stop=ms.CostChange(1e-6) | ms.MaxIterations(20))
    >>> run.status.name, run.state["labels"][:4].tolist()
    ('COST_CHANGE', [1, 0, 1, 0])
    """
    whole_numbers("take_steps", n_steps=n_steps)
    measures = Measures(math.nan)
    for _ in range(n_steps):
        new, outcome = solver.step(problem, state)
        measures = outcome.last if isinstance(outcome, Steps) else outcome
        if not (math.isfinite(measures.fun) and math.isfinite(measures.grad_norm or 0.0)):
            return state, dataclasses.replace(measures, status=Status.NON_FINITE)
        state = new
        if measures.status is not None:
            break
    return state, measures


def fixed_steps(problem: Problem[Point], x: Point, rates: float | Sequence[float], n_steps: int) -> Iterator[Point]:
    """Yield a point and the points after steps of fixed size along the ``descent_curve`` of the manifold.

    Values are not compared, so the objective may increase. For stopping rules, backtracking and a history use the
    solver :class:`PGD`.

    Parameters
    ----------
    problem : Problem
    x : point
        One point, or many points along leading axes if the objective returns the gradient of each.
    rates : float or sequence of float
        Step size, or one per factor of a product.
    n_steps : int
        The number of steps; each costs one evaluation.

    Yields
    ------
    point
        ``n_steps + 1`` points, `x` first; the last one is not evaluated.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Sphere(2), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: -x[0][0] + (x[1] ** 2).sum())
    >>> *_, (a, b) = ms.solvers.fixed_steps(problem, (np.array([0.0, 1.0]), np.array([4.0])), (1.0, 0.25), 20)
    >>> a.round(6).tolist(), float(b[0]) == 4.0 / 2**20
    ([1.0, 0.0], True)
    """
    for _ in range(n_steps):
        yield x
        _, egrad = problem.objective.value_and_gradient(x)  # type: ignore[misc]
        x = problem.manifold.descent_curve(x, egrad)(rates)
    yield x
