"""The laws that every registered model obeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .. import hooks
from .._minimize import minimize
from .._problem import Problem
from .._start import start_point
from .._stopping import MaxIterations
from ._objective import objective_laws
from ._points import same, start
from ._report import Examination, Report, Verdict, unless


def check_model(model: hooks.ModelSpec | str, data: Any = None, *, seed: int = 0, **params: Any) -> Report:
    """Check a model: it builds a problem, starts on the manifold, and its objective obeys every law.

    Parameters
    ----------
    model : manifoldseq.hooks.ModelSpec or str
        The record, or the name that it is registered under.
    data : optional
        By default the record's own example.
    seed : int
    **params
        Handed to ``build``.

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
    record = model.resolved()
    if data is None and record.example is None:
        raise ValueError(f"check_model: the model {record.name!r} has no example, pass data=…")
    build, rng = cast(Callable[..., Any], record.build), np.random.default_rng(seed)
    if data is None:
        data = cast(Callable[..., Any], record.example)(rng)
    exam = Examination(f"model {record.name}")
    built: list[Any] = []

    def builds() -> Verdict:
        built.append(build(data, **params))
        good = isinstance(built[0], Problem)
        return good, repr(built[0].manifold) if good else f"build returned {type(built[0]).__name__}, not a Problem"

    if not exam.law("builds a problem", builds):
        return exam.report()
    problem: Problem = built[0]
    for name in problem.initializers:
        exam.law(f"initializer {name!r} starts on the manifold", lambda name=name: _initializer(problem, name, seed))
    exam.part("objective", lambda part: objective_laws(part, problem, start(problem, None, rng), rng))
    if problem.objective.value_and_gradient is not None:
        exam.law("ten iterations of the default solver lower the objective", lambda: _descends(problem, seed))
    return exam.report()


def _initializer(problem: Problem, name: str, seed: int) -> Verdict:
    x, y = (start_point(problem, name, np.random.default_rng(seed)) for _ in range(2))
    if not same(x, y):
        return False, "the same generator gave different points: draw from rng only"
    value = problem.objective.value(x)
    return bool(np.isfinite(value)), f"value {value:.6g}"


def _descends(problem: Problem, seed: int) -> Verdict:
    result = minimize(problem, seed=seed, stop=MaxIterations(10))
    first = float(result.history["fun"][0])
    return unless(None if result.fun <= first + 1e-12 * abs(first) else f"from {first:.10g} to {result.fun:.10g}")
