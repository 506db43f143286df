"""Checks of objectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._problem import Problem
from .._result import Point
from ..linalg import dtype_of, freeze, norm, tree_map
from ..manifolds import Manifold
from ..objectives import BlockUpdate, Objective
from ._derivatives import gradient_laws, hessian_laws
from ._points import (
    as_problem,
    at_boundary,
    copied,
    direction,
    distance,
    interior_point,
    leaf_names,
    magnitude,
    same,
    scaled,
    start,
)
from ._report import Examination, Report, Verdict, unless, within

_CLOSE = 1e-9


def check_objective(problem: Problem | tuple[Manifold, Objective], x: Any = None, *, seed: int = 0) -> Report:
    """Check the value, the derivatives and all other functions of an objective.

    The laws of :func:`check_gradient` and :func:`check_hessian` are checked if the objective has derivatives. Further
    laws: evaluations at the same point are equal after evaluations elsewhere, points are not modified, float32 points
    are supported, batches average to the whole objective, ``batched`` evaluations equal a loop, and block updates never
    increase the value and replace only their factors.

    Parameters
    ----------
    problem : Problem or (Manifold, Objective)
    x : point or str, optional
        As in :func:`check_gradient`.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If there is no problem, or `x` is not a point of the manifold.

    Examples
    --------
    >>> import autograd.numpy as np, manifoldseq as ms
    >>> data = np.arange(6.0)
    >>> mean = ms.finite_sum(lambda x, i: np.sum((x - data[i]) ** 2), n=6)
    >>> report = ms.testing.check_objective((ms.manifolds.Euclidean(1), mean))
    >>> report.raise_for_failure()
    """
    problem = as_problem(problem)
    rng = np.random.default_rng(seed)
    exam = Examination(f"objective on {problem.manifold!r}")
    objective_laws(exam, problem, start(problem, x, rng), rng)
    return exam.report()


def objective_laws(exam: Examination, problem: Problem[Point], x: Point, rng: np.random.Generator) -> None:
    """Judge the objective of a problem at `x`."""
    raw, f = problem.objective, at_boundary(problem.objective)
    if not exam.law("value is a finite number", lambda: _finite_value(f, x)):
        return
    other = freeze(interior_point(problem.manifold, rng, dtype_of(x)))
    exam.law("does not write into its point", lambda: _writes_nothing(f, x))
    exam.law("gives the same value at the same point", lambda: _pure(problem, f, x, other))
    if raw.value_and_gradient is not None:
        gradient_laws(exam, problem, x, rng)
        exam.law("accepts float32 points", lambda: _single_precision(f, x))
    if raw.hessian_product is not None and raw.value_and_gradient is not None:
        hessian_laws(exam, problem, x, rng)
    if raw.terms is not None:
        exam.law("batches average to the full objective", lambda: _batches(f, x, rng))
    if raw.batched is not None:
        exam.law("batched equals a loop over points", lambda: _batched(problem, x, other))
    for update in raw.updates:
        exam.law(f"update {update.name!r}", lambda update=update: _update(problem, update, x))


def _finite_value(f: Objective, x: Point) -> Verdict:
    value = f.value(x)
    return bool(np.isfinite(value)), f"{value:.6g}"


def _answers(f: Objective, x: Point, u: Point | None) -> list[Any]:
    answers: list[Any] = [f.value(x)]
    if f.value_and_gradient is not None:
        answers.append(copied_answer(f.value_and_gradient(x)))
    if f.hessian_product is not None and u is not None:
        answers.append(copied(f.hessian_product(x, u)))
    return answers


def copied_answer(answer: tuple[float, Point]) -> tuple[float, Point]:
    """Return value and gradient with the gradient copied, in case its array is reused."""
    return answer[0], copied(answer[1])


def _writes_nothing(f: Objective, x: Point) -> Verdict:
    before = copied(x)
    try:
        _answers(f, x, None)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        return False, "it assigns into the point, which is read-only"
    return unless(None if same(copied(x), before) else "the point was changed")


def _pure(problem: Problem[Point], f: Objective, x: Point, other: Point) -> Verdict:
    u = direction(problem.manifold, x, np.random.default_rng(0))
    first = _answers(f, x, u)
    if not same(first, _answers(f, x, u)):
        return False, "a second evaluation at the point differs"
    _answers(f, other, u)
    if not same(first, _answers(f, freeze(copied(x)), u)):
        return False, "an evaluation after an evaluation at another point differs"
    return True, ""


def _single_precision(f: Objective, x: Point) -> Verdict:
    single = freeze(tree_map(lambda leaf: leaf.astype(np.float32), x))
    fun, egrad = f.value_and_gradient(x)  # type: ignore[misc]
    value, gradient = f.value_and_gradient(single)  # type: ignore[misc]
    scale = max(norm(egrad), abs(fun), 1e-6)
    if dtype_of(gradient) != np.float32:
        return False, f"the gradient has dtype {dtype_of(gradient)}"
    return within(max(abs(value - fun), norm(tree_map(np.subtract, gradient, egrad))) / scale, 1e-2)


def _batches(f: Objective, x: Point, rng: np.random.Generator) -> Verdict:
    terms = f.terms
    assert terms is not None
    parts = np.array_split(rng.permutation(terms.n), min(terms.n, 4))
    batches = [(len(part) / terms.n, terms.batch(part)) for part in parts]
    values = [weight * batch.value(x) for weight, batch in batches]
    off = abs(sum(values) - f.value(x)) / max(sum(map(abs, values)), 1e-300)
    if off > _CLOSE or f.value_and_gradient is None:
        return within(off, _CLOSE)
    whole = f.value_and_gradient(x)[1]
    shares = [scaled(weight, batch.value_and_gradient(x)[1]) for weight, batch in batches]  # type: ignore[misc]
    mean = tree_map(lambda *leaves: np.sum(leaves, axis=0), *shares)
    return within(distance(mean, whole) / max(*map(magnitude, shares), magnitude(whole), 1e-300), _CLOSE)


def _batched(problem: Problem[Point], x: Point, other: Point) -> Verdict:
    f = problem.objective
    points = freeze(tree_map(lambda *leaves: np.stack(leaves), x, other))
    values, gradients = f.batched(points, np.arange(2))  # type: ignore[misc]
    loop = [at_boundary(f).value_and_gradient(y) for y in (x, other)]  # type: ignore[misc]
    expected = tree_map(lambda *leaves: np.stack(leaves), *(gradient for _, gradient in loop))
    scale = max(*(abs(value) for value, _ in loop), magnitude(expected), 1e-300)
    off = max(float(np.max(np.abs(values - [value for value, _ in loop]))), distance(gradients, expected))
    return within(off / scale, _CLOSE)


def _update(problem: Problem[Point], update: BlockUpdate, x: Point) -> Verdict:
    manifold, f = problem.manifold, at_boundary(problem.objective)
    names = list(leaf_names(manifold, x)) if isinstance(x, tuple) else None
    top = list(manifold.names or ()) if names else []
    unknown = [name for name in update.factors if names and name not in top]
    if unknown:
        return False, f"names the factors {unknown}, but the manifold has {top}"
    y = freeze(update.apply(x))
    before, after = f.value(x), f.value(y)
    if not after <= before + 1e-10 * max(1.0, abs(before)):
        return False, f"raised the value from {before:.10g} to {after:.10g}"
    if not float(manifold.feasibility(y)) <= 1e-8:
        return False, f"left the manifold by {float(manifold.feasibility(y)):.2g}"
    if isinstance(x, tuple):
        kept = [name for name, a, b in zip(top, x, y, strict=True) if name not in update.factors and not same(a, b)]
        if kept:
            return False, f"changed the factors {kept}, which are not its own"
    return True, f"lowered the value by {before - after:.3g}"
