"""Checks of registered models."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .. import hooks
from .._minimize import minimize
from .._problem import Problem
from .._start import start_point
from .._stopping import MaxIterations
from ..linalg import flatten, freeze
from ..solvers import in_structure_of
from ._objective import objective_laws
from ._points import same, start
from ._report import Examination, Report, Verdict, unless

_MOST = 300
_DAMPINGS = tuple(4.0**k for k in range(9))


def check_model(model: hooks.ModelSpec | str, data: Any = None, *, seed: int = 0, **params: Any) -> Report:
    """Check a model: its problem, its starts and the laws of its parts.

    Values and derivatives agree (finite differences). The statistics over two halves of the rows add up to the
    statistics over all rows. Block updates stay on the manifold, never increase the value, do not change other factors,
    and reach their minimum: repeated updates stop at a point with zero gradient. Damped updates decrease the value with
    enough damping. A step in the units of EM changes the value as the gradient predicts. Equivalences do not change the
    value. Exact starts are minima.

    Parameters
    ----------
    model : manifoldseq.hooks.ModelSpec or str
        The record, or its registered name.
    data : optional
        By default the record's own example.
    seed : int
    **params
        Parameters of `prepare` or `build` of the model.

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If it is not a model, or has no example and no data are given.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> print(ms.testing.check_model("lds.mean").ok)
    True
    """
    if isinstance(model, str):
        model = hooks.get_model(model)
    if not isinstance(model, hooks.ModelSpec):
        raise TypeError(
            f"check_model needs a manifoldseq.hooks.ModelSpec or the name of one, got {type(model).__name__}"
        )
    record = hooks.with_all_parts(model)
    if data is None and record.example is None:
        raise ValueError(f"check_model: the model {record.name!r} has no example: pass data=…")
    rng = np.random.default_rng(seed)
    if data is None:
        data = cast(Any, record.example)(rng)
    exam = Examination(f"model {record.name}")
    built: list[Problem] = []

    def builds() -> Verdict:
        built.append(record.problem(data, **params))
        return True, repr(built[0].manifold)

    if not exam.law("makes a problem", builds):
        return exam.report()
    problem = built[0]
    for name in problem.initializers:
        exam.law(f"initializer {name!r} starts on the manifold", lambda name=name: _initializer(problem, name, seed))
    if problem.objective.additive is not None:
        _additive_laws(exam, problem, rng, seed)
    exam.part("objective", lambda part: objective_laws(part, problem, start(problem, None, rng), rng))
    for name, equivalence in record.equivalences.items():
        exam.law(f"equivalence {name!r} leaves the value", lambda f=equivalence: _equal(problem, f, rng))
    for name in record.exact:
        exam.law(f"exact initializer {name!r} is a minimum", lambda name=name: _exact(problem, name, seed))
    if problem.objective.value_and_gradient is not None:
        exam.law("ten iterations of the default solver lower the objective", lambda: _descends(problem, seed))
    return exam.report()


def _initializer(problem: Problem, name: str, seed: int) -> Verdict:
    first, again = (start_point(problem, name, np.random.default_rng(seed)) for _ in range(2))
    off = float(np.asarray(problem.manifold.feasibility(first)))
    if not same(first, again):
        return False, "the same generator gave different points: draw from rng only"
    return off < 1e-10, f"feasibility {off:.1e}"


def _descends(problem: Problem, seed: int) -> Verdict:
    result = minimize(problem, seed=seed, stop=MaxIterations(10))
    first = float(result.history["fun"][0])
    return unless(None if result.fun <= first + 1e-12 * abs(first) else f"from {first:.10g} to {result.fun:.10g}")


def _additive_laws(exam: Examination, problem: Problem, rng: np.random.Generator, seed: int) -> None:
    """Add the laws of a model whose data enter through sums over rows."""
    additive, x = cast(Any, problem.objective.additive), freeze(start(problem, None, rng))
    # where an initializer has solved a part of the problem, errors in the rest are not outweighed by that part
    starts = [x, *(freeze(start_point(problem, name, np.random.default_rng(seed))) for name in problem.initializers)]
    exam.law("statistics of two halves add up to the statistics of all rows", lambda: _adds(additive, x))
    exam.law("the value is a mean over the rows of the sums", lambda: _is_mean(additive, x))
    for update in (*additive.damped, *additive.plain):
        exam.law(f"update {update.name!r} stays on the manifold", lambda u=update: _stays(problem, u, x))
        exam.law(
            f"update {update.name!r} does not change factors that it does not name",
            lambda u=update: _others(problem, u, x),
        )
    for update in additive.damped:
        exam.law(
            f"damped update {update.name!r} lowers the value, other factors fixed",
            lambda u=update: min((_damped(problem, u, point) for point in starts), key=lambda verdict: verdict[0]),
        )
    if additive.plain:
        exam.law(
            "updates never raise the value, and stop where the gradient vanishes", lambda: _stops(problem, starts[-1])
        )
    if additive.units is not None:
        exam.law(
            "a step in the units of EM changes the value as the gradient predicts", lambda: _chart(problem, additive, x)
        )


def _adds(additive: Any, x: Any) -> Verdict:
    """Compare the value and the updates from the sums over all rows with those from two halves, added."""
    rows = np.arange(additive.blocks.n)
    whole = additive.batch(x, rows)
    parts = [additive.batch(x, part) for part in np.array_split(rows, 2)]
    halves = parts[0] + parts[1]
    off = abs(halves.n - whole.n) / abs(whole.n)
    a, b = additive.value(x, whole), additive.value(x, halves)
    off = max(off, abs(a - b) / max(1.0, abs(a)))
    for update in (*additive.plain, *additive.damped):
        rest = (1.0,) if update in additive.damped else ()
        one, two = (flatten(in_structure_of(x, update.apply(x, sums, *rest))) for sums in (whole, halves))
        off = max(off, float(np.abs(one - two).max() / max(1.0, np.abs(one).max())))
    return off < 1e-9, f"relative difference {off:.1e}"


def _is_mean(additive: Any, x: Any) -> Verdict:
    """Compare the value of the sums of all rows twice with that of the sums of all rows once."""
    whole = additive.sums(x)
    once, twice = additive.value(x, whole), additive.value(x, whole + whole)
    same_value = abs(once - twice) <= 1e-9 * max(1.0, abs(once))
    return same_value, f"the value is {once:.10g} with each row once, and {twice:.10g} with each row twice"


def _after(problem: Problem, update: Any, x: Any) -> Any:
    additive = cast(Any, problem.objective.additive)
    rest = (1.0,) if update in additive.damped else ()
    return in_structure_of(x, update.apply(x, additive.sums(x), *rest))


def _stays(problem: Problem, update: Any, x: Any) -> Verdict:
    off = float(np.asarray(problem.manifold.feasibility(_after(problem, update, x))))
    return off < 1e-8, f"feasibility {off:.1e}"


def _others(problem: Problem, update: Any, x: Any) -> Verdict:
    """Return whether an update replaces only the factors that it names."""
    names = problem.manifold.names or ()
    if not names or set(update.factors) >= set(names):
        return True, "it replaces all factors"
    new = _after(problem, update, x)
    changed = [n for n, a, b in zip(names, x, new, strict=True) if n not in update.factors and not same(a, b)]
    return unless(f"it changes {', '.join(changed)} too" if changed else None)


def _damped(problem: Problem, update: Any, x: Any) -> Verdict:
    """Compare the value at a point with that after a damped update, the factors of plain updates held fixed.

    A damped update may contain a plain update, such as an M-step after a step of the projection, which decreases the
    value by itself and would hide an error in the other part.
    """
    f, additive = problem.objective, cast(Any, problem.objective.additive)
    sums, before, names = additive.sums(x), f.value(x), problem.manifold.names or ()
    fixed = {name for plain in additive.plain for name in plain.factors}
    alone = bool(names) and not fixed.issuperset(names)
    values = []
    for damping in _DAMPINGS:
        new = in_structure_of(x, update.apply(x, sums, damping))
        if alone:
            new = freeze(tuple(old if name in fixed else moved for name, old, moved in zip(names, x, new, strict=True)))
        values.append(f.value(new))
    best = min(values)
    return best <= before + 1e-10 * max(1.0, abs(before)), f"from {before:.10g} to {best:.10g}"


def _stops(problem: Problem, x: Any) -> Verdict:
    """Repeat the plain updates until they change nothing; compare the gradient of their factors there and before."""
    f, additive, names = problem.objective, cast(Any, problem.objective.additive), problem.manifold.names or ()
    moved = {name for update in additive.plain for name in update.factors}

    def slope(point: Any) -> float:
        gradient = problem.manifold.gradient(point, f.value_and_gradient(point)[1])  # type: ignore[misc]
        parts = [g for name, g in zip(names, gradient, strict=True) if name in moved] if names else [gradient]
        return float(np.linalg.norm(np.concatenate([flatten(g) for g in parts])))

    value, first = f.value(x), x
    for n in range(_MOST):
        sums, new = additive.sums(x), x
        for update in additive.plain:
            new = in_structure_of(new, update.apply(new, sums))
        reached = f.value(new)
        if not reached <= value + 1e-9 * max(1.0, abs(value)):
            return False, f"repetition {n + 1} raised the value from {value:.10g} to {reached:.10g}"
        done, x, value = value - reached <= 1e-13 * max(1.0, abs(value)), new, reached
        if done:
            break
    else:
        return True, f"the updates still lower the value after {_MOST} repetitions"
    if f.value_and_gradient is None:
        return True, f"after {n + 1} repetitions"
    before, after = slope(first), slope(x)
    said = f"gradient {before:.1e} at the start, {after:.1e} after {n + 1} repetitions"
    return after <= 1e-3 * max(before, 1e-12), said


def _chart(problem: Problem, additive: Any, x: Any) -> Verdict:
    f, chart = problem.objective, additive.units(x)
    slope = chart.gradient()
    expected, h = float(slope @ slope) / additive.sums(x).n, 1e-5 / max(1.0, float(np.linalg.norm(slope)))
    there = [f.value(in_structure_of(x, chart.moved(t * slope))) for t in (h, -h)]
    found = (there[0] - there[1]) / (2 * h)
    return abs(found - expected) <= 1e-4 * max(
        abs(expected), 1e-8
    ), f"the derivative is {found:.6g}, and the gradient predicts {expected:.6g}"


def _equal(problem: Problem, equivalence: Any, rng: np.random.Generator) -> Verdict:
    x = freeze(start(problem, None, rng))
    moved = in_structure_of(x, equivalence(problem.data.model, x, rng))
    a, b = problem.objective.value(x), problem.objective.value(moved)
    return abs(a - b) <= 1e-9 * max(1.0, abs(a)), f"{a:.10g} and {b:.10g}"


def _exact(problem: Problem, name: str, seed: int) -> Verdict:
    x = start_point(problem, name, np.random.default_rng(seed))
    first = problem.objective.value(x)
    result = minimize(problem, x, seed=seed)
    return result.fun >= first - 1e-9 * max(
        1.0, abs(first)
    ), f"the initializer has the value {first:.10g}, and a solver reaches {result.fun:.10g}"
