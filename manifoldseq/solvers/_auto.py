"""The choice of the default solver of `minimize`."""

from __future__ import annotations

from .._extras import absent
from .._problem import Problem
from ..hooks import SolverSpec, get_record

LARGE = 500_000
"""Dimension from which the vectors of L-BFGS and of conjugate gradients cost more than the evaluations they save."""

SMALL = 60
"""Dimension up to which sequential quadratic programming takes no more time than the augmented Lagrangian: on four
kinds of problems it took 0.07 to 1.1 times the CPU time at 60 dimensions, and 0.12 to 3.2 times at 100 (`python -m
benchmarks.engine sqp`)."""


def choose_solver(problem: Problem) -> str:
    """Return the name of the solver that ``solver="auto"``, the default of :func:`manifoldseq.minimize`, chooses.

    The first rule that applies decides:

    * with equalities or inequalities, ``"sqp"`` up to 60 dimensions if the extra ``[constraints]`` is installed and the
      manifold has no bounds, otherwise ``"augmented-lagrangian"``;
    * ``problem.solver``, the default of a registered model, if the objective has the functions that this solver needs;
    * ``"lm"`` if the objective is from ``ms.least_squares`` and the manifold has no bounds;
    * ``"alternating"`` if the objective has closed-form updates and no gradient;
    * ``"bb"`` from 500,000 dimensions on;
    * ``"lbfgs-tr"``, which begins with L-BFGS and continues with trust regions if L-BFGS is slow.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> A, M = np.diag([3.0, 1.0, 0.0]), ms.manifolds.Sphere(3)
    >>> ms.solvers.choose_solver(ms.Problem(M, lambda x: x @ A @ x))
    'lbfgs-tr'
    >>> ms.solvers.choose_solver(ms.Problem(M, lambda x: x @ A @ x, equalities=lambda x: x[0]))
    'sqp'
    """
    f = problem.objective
    if problem.equalities or problem.inequalities:
        small = problem.manifold.dim <= SMALL and not problem.manifold.bounded
        return "sqp" if small and not absent("clarabel") else "augmented-lagrangian"
    if problem.solver and all(getattr(f, need, None) for need in get_record(SolverSpec, problem.solver).needs):
        return problem.solver
    if f.residuals is not None and not problem.manifold.bounded:
        return "lm"
    if f.value_and_gradient is None and f.updates:
        return "alternating"
    if problem.manifold.dim >= LARGE:
        return "bb"
    return "lbfgs-tr"
