"""The problem of a registered model, assembled from its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from inspect import signature
from typing import Any

from .._problem import Problem
from ..execution import RowBlocks
from ..hooks import ModelSpec, with_all_parts
from ..objectives import Additive, BlockUpdate, FiniteTerms, Objective, last_point
from ..solvers import in_structure_of

Part = Callable[..., Any]


@dataclass(frozen=True)
class Prepared:
    """The return value of `prepare` of a model: settings, a summary of the data, and the rows in blocks.

    Attributes
    ----------
    model : object
        The first argument of all parts of the model.
    blocks : RowBlocks, optional
        The rows over which `statistics` are summed.
    sweep : object, optional
        The argument of `statistics` in place of `model`. It is sent to every worker for every sum, so it must be small.
    n : int, optional
        Number of terms from which `batch` chooses, if the rows are not in blocks.
    spec : ModelSpec, optional
        The model with all parts. It is set when a problem is created.
    """

    model: Any
    blocks: RowBlocks | None = None
    sweep: Any = None
    n: int | None = None
    spec: ModelSpec | None = None


def problem_of(spec: ModelSpec, data: Any, params: Mapping[str, Any]) -> Problem:
    """Return the problem of a model for data, or for data that are already prepared."""
    spec = with_all_parts(spec)
    if not isinstance(data, Prepared):
        try:
            with suppress(ValueError):  # a function of C may have no signature
                signature(spec.entry).bind(data, **params)
        except TypeError as error:
            given = f"the data and {', '.join(params)}" if params else "the data only"
            called = "build" if spec.prepare is None else "prepare"
            raise TypeError(f"model {spec.name!r}: {called} does not accept {given}: {error}") from error
    if spec.build is not None:
        problem = spec.build(data, **params)
        if not isinstance(problem, Problem):
            raise TypeError(f"model {spec.name!r}: build returned {type(problem).__name__}, not a Problem")
        starts = {**problem.initializers, **spec.initializers}
        return replace(problem, initializers=starts, data=Prepared(data, spec=spec), solver=spec.solver)
    prepare: Part = spec.prepare  # type: ignore[assignment]  # a record without build has the required parts
    prepared = data if isinstance(data, Prepared) else prepare(data, **params)
    if not isinstance(prepared, Prepared):
        prepared = Prepared(prepared)
    manifold = spec.manifold(prepared.model)  # type: ignore[misc]
    return Problem(
        manifold,
        _objective(spec, prepared, getattr(manifold, "names", None) or ()),
        spec.initializers,
        inequalities=() if spec.constraints is None else spec.constraints(prepared.model),
        data=replace(prepared, spec=spec),
        solver=spec.solver,
    )


def _objective(spec: ModelSpec, prepared: Prepared, names: tuple[str, ...]) -> Objective:
    """Return the objective of prepared data; `names` are the names of the factors."""
    if spec.statistics is None:
        return _plain(spec, prepared, names)
    if prepared.blocks is None:
        raise TypeError(f"model {spec.name!r} has statistics, so its prepare must return ms.Prepared(model, blocks)")
    model, blocks = prepared.model, prepared.blocks
    damped = {name for name, update in spec.updates.items() if _is_damped(update)}
    updates = _updates(spec, model, names)

    def bound(part: Part | None) -> Part | None:
        return None if part is None else partial(part, model)

    additive = Additive.of(
        blocks,
        partial(spec.statistics, model if prepared.sweep is None else prepared.sweep),
        value=bound(spec.value) or partial(_first, bound(spec.value_and_gradient)),
        damped=tuple(update for update in updates if update.name in damped),
        plain=tuple(update for update in updates if update.name not in damped),
        carry=bound(spec.carry),
        units=bound(spec.units),
        repair=bound(spec.repair),
    )
    sums = additive.sums
    both, product = bound(spec.value_and_gradient), bound(spec.hessian_product)
    return Objective(
        partial(_with_sums, additive.value, sums),
        None if both is None else partial(_with_sums, both, sums),
        None if product is None else partial(_with_sums, product, sums),
        FiniteTerms(blocks.n, partial(_batch, spec, prepared, names)),
        tuple(replace(update, apply=partial(_with_sums, update.apply, sums)) for update in additive.plain),
        additive=additive,
        parts={name: partial(_with_sums, partial(part, model), sums) for name, part in spec.parts.items()},
    )


def _plain(spec: ModelSpec, prepared: Prepared, names: tuple[str, ...]) -> Objective:
    """Return the objective of a model without statistics."""
    model = prepared.model
    value = None if spec.value is None else partial(spec.value, model)
    both = None if spec.value_and_gradient is None else partial(spec.value_and_gradient, model)
    if value is None:
        both = last_point(both)  # type: ignore[arg-type]  # one of the two is required
        value = partial(_first, both)
    n = prepared.n if prepared.blocks is None else prepared.blocks.n
    return Objective(
        value,
        both,
        None if spec.hessian_product is None else partial(spec.hessian_product, model),
        None if spec.batch is None or n is None else FiniteTerms(n, partial(_batch, spec, prepared, names)),
        _updates(spec, model, names),
        None if spec.batched is None else partial(spec.batched, model),
        parts={name: partial(part, model) for name, part in spec.parts.items()},
    )


def _updates(spec: ModelSpec, model: Any, names: tuple[str, ...]) -> tuple[BlockUpdate, ...]:
    """Return the block updates of a model, with the factors that each update replaces."""
    factors = dict.fromkeys(spec.updates, ()) if spec.update_factors is None else spec.update_factors(model)
    for name, replaced in factors.items():
        if unknown := {*replaced} - {*names}:
            known = f"its factors are {', '.join(names)}" if names else "the point has no named factors"
            raise ValueError(f"model {spec.name!r}: update {name!r} replaces {', '.join(sorted(unknown))}, but {known}")
    return tuple(
        BlockUpdate(
            name, factors[name] or names, partial(_updated, f"the update {name!r} of {spec.name!r}", update, model)
        )
        for name, update in spec.updates.items()
        if name in factors
    )


# Module-level functions under partial, so that a problem can be pickled when the parts of its model can.


@lru_cache(maxsize=64)
def _is_damped(update: Part) -> bool:
    return "damping" in signature(update).parameters


def _updated(what: str, update: Part, model: Any, point: Any, *rest: Any) -> Any:
    return in_structure_of(point, update(model, point, *rest), what)


def _first(both: Any, *arguments: Any) -> float:
    return both(*arguments)[0]


def _with_sums(part: Part, sums: Part, point: Any, *rest: Any) -> Any:
    return part(point, sums(point), *rest)


def _batch(spec: ModelSpec, prepared: Prepared, names: tuple[str, ...], rows: Any) -> Objective:
    """Return the objective of some rows, or terms."""
    model, blocks = prepared.model, prepared.blocks
    if blocks is None:
        return _plain(spec, Prepared(spec.batch(model, rows)), names)  # type: ignore[misc]  # there are terms
    part = blocks.take(rows)
    if spec.batch is not None:
        model = spec.batch(model, part)
    if spec.statistics is None:
        return (blocks.n / len(rows)) * _plain(spec, Prepared(model), names)
    return _objective(spec, Prepared(model, RowBlocks([partial(tuple, part)], [len(rows)]), prepared.sweep), names)
