"""Access to the registry of the process by names."""

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any, TypeVar, cast

from .._quoted import quoted
from ..execution._executors import CARRIED
from ._bundled import missing_of_name
from ._kernels import Kernel, completed
from ._models import Source, complete_model, sources
from ._plugin import Origin, Plugin
from ._records import (
    DatasetSpec,
    DomainSpec,
    EstimatorSpec,
    KernelSpec,
    ManifoldSpec,
    ModelSpec,
    PlotSpec,
    ReaderSpec,
    Record,
    ReproductionSpec,
    RuleSpec,
    SolverSpec,
)
from ._registry import SESSION, AmbiguousName, Registry, UnknownName

_registry = Registry()
CARRIED.append(_registry.carried)
add_core = _registry.add_core
extend = _registry.extend

R = TypeVar("R", bound=Record)


def register(item: Any) -> None:
    """Register a record, or a module with hook implementations, for this session.

    A record is valid in this Python process. It takes precedence over a record of the same name in the core or an
    installed plugin, also for the defaults of bundled estimators. Its first use in place of another record is logged. A
    later record of the same name replaces an earlier one.

    A module is equivalent to an entry point without packaging. It counts as a third party: if the core, a bundled
    plugin or another third party has a record of the same name, its record is available as ``"module:name"``.

    Parameters
    ----------
    item : manifoldseq.hooks record, module or object
        A record such as `manifoldseq.hooks.KernelSpec`, or a module or object whose functions are decorated with
        ``@manifoldseq.hookimpl``.

    Raises
    ------
    ValueError
        If the item registers no record or an invalid record.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.register(ms.hooks.DatasetSpec("constants", lambda: [[1.0], [2.0]], summary="Two constants"))
    >>> ms.hooks.get_dataset("constants").loader()
    [[1.0], [2.0]]
    """
    _registry.register(item)


def plugins() -> list[Plugin]:
    """Return every plugin, including broken and disabled plugins; see `Plugin.as_dict`."""
    return _registry.plugins()


def records(kind: str) -> list[tuple[Plugin, Record]]:
    """Return all records of a kind (``"models"``, ``"kernels"``, …), unresolved, each with its plugin."""
    return _registry.entries(kind)


def record_of(estimator: Any) -> tuple[Plugin, EstimatorSpec] | None:
    """Return the record of an estimator's class and its plugin, or None if the class is not registered.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> plugin, record = ms.hooks.record_of(ms.evaluation.RowKMeans(2))
    >>> plugin.name, record.name, record.input
    ('manifoldseq', 'kmeans', 'samples')
    """
    return registered(EstimatorSpec, estimator)


def asked_as(plugin: Plugin, record: Record) -> str:
    """Return the name under which a record is found: its name, or ``plugin:name`` if the name is taken.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> [asked_as(plugin, record) for plugin, record in records("kernels") if record.name == "grassmann"]
    ['grassmann']
    """
    return _registry.asked_as(plugin, record)


def named(kind: str) -> list[tuple[str, Record]]:
    """Return all records of a kind, unresolved, each with the name that finds it."""
    return [(asked_as(plugin, record), record) for plugin, record in records(kind)]


def stored(cls: type[R], name: str, plugin: str) -> R:
    """Return the resolved record with the name and the plugin that a file contains.

    If the plugin is missing, a record of the same name is returned, because a record of a session may have moved into a
    package since. Records of the core and of bundled plugins are excluded.
    """
    with suppress(UnknownName, AmbiguousName):
        return get_record(cls, f"{plugin}:{name}")
    owner, record = _registry.owner(cls.kind, name)
    ours = {one.name for one in (_registry.core(), *plugins()) if one.origin in (Origin.CORE, Origin.BUNDLED)}
    if plugin and not ours.isdisjoint((plugin, owner.name)):
        raise UnknownName(f"{asked_as(owner, record)!r} of plugin {owner.name!r} is another record of this name")
    return cast(R, record.resolved())


def registered(kind: type[R], made: Any) -> tuple[Plugin, R] | None:
    """Return the resolved record of a kind whose factory is the class of an object, and its plugin, or None.
    If the session has replaced the record by one with the same class, the record of the session is returned.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> plugin, record = registered(ms.hooks.SolverSpec, ms.solvers.LBFGS(memory=3))
    >>> record.name
    'lbfgs'
    """
    found = records(kind.kind)
    replaced = [(plugin, record) for plugin, record in found if plugin.origin is Origin.SESSION]
    known = {record.name for plugin, record in found if plugin.origin is not Origin.SESSION}
    replaced = [entry for entry in replaced if entry[1].name in known]
    for plugin, record in [*replaced, *found]:
        factory = getattr(record, "factory", None)
        if isinstance(factory, str) and factory.rpartition(":")[2] != type(made).__qualname__:
            continue  # another class: its module need not be imported
        with suppress(ImportError):  # another one of that name, whose package is broken or not here
            resolved = cast(R, record.resolved())
            if getattr(resolved, "factory", None) is type(made):
                return plugin, resolved
    return None


def get_record(cls: type[R], name: str) -> R:
    """Return the record of a class and name with its callables imported; raises as `get_model` does.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.hooks.get_record(ms.hooks.SolverSpec, "lbfgs").needs
    ('value_and_gradient',)
    """
    return cast(R, _registry.find(cls.kind, name).resolved())


def source_of(kind: type[Record], name: str) -> Source:
    """Return the plugin, name and version of the record with a class and name; raise as `get_model` does.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.hooks.source_of(ms.hooks.SolverSpec, "lbfgs").name
    'manifoldseq:lbfgs'
    """
    return Source.of(*_registry.owner(kind.kind, name))


def get_model(name: str) -> ModelSpec:
    """Return a model's record with its callables imported.

    Parameters
    ----------
    name : str
        A registered name, or ``"plugin:name"``.

    Returns
    -------
    manifoldseq.hooks.ModelSpec
        The record with the parts of its base, and with the initializers and updates of other records. ``problem(data,
        **params)`` returns the `manifoldseq.Problem`, ``example(rng)`` returns example data.

    Raises
    ------
    ValueError
        If there is no such name (the existing names are listed), or if several third parties use it (all are listed).
    ImportError
        If the record names something that cannot be imported.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> problem = ms.get_model("lds.mean").problem(systems)  # doctest: +SKIP
    """
    plugin, record = _registry.owner("models", name)
    return complete_model(_registry, plugin, cast(ModelSpec, record))


def with_all_parts(record: ModelSpec) -> ModelSpec:
    """Return the completed record of a model as `get_model` does; the model need not be registered."""
    return record if sources(record) else complete_model(_registry, Plugin(SESSION, origin=Origin.SESSION), record)


def get_estimator(name: str) -> type[Any]:
    """Return an estimator class by name, such as ``get_estimator("lds-kmeans")``; raise as `get_model` does."""
    return get_record(EstimatorSpec, name).factory


def get_kernel(name: str, **params: Any) -> Any:
    """Return a `manifoldseq.kernels.Kernel` by name, made with `params`; raise as `get_model` does.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.get_kernel("grassmann", n_steps=2)
    GrassmannKernel(n_steps=2, dtype='float64')
    """
    return made_kernel(get_record(KernelSpec, name), params)


def made_kernel(record: KernelSpec, params: Mapping[str, Any]) -> Kernel:
    """Return the kernel object of a resolved record."""
    return completed(_made(record, params))


def get_solver(name: str, **options: Any) -> Any:
    """Return a solver by name, made with `options`; raise as `get_model` does.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.get_solver("lbfgs", memory=5)  # doctest: +SKIP
    """
    return _made(get_record(SolverSpec, name), options)


def get_domain(name: str) -> DomainSpec:
    """Return a domain's record with its callables imported; raise as `get_model` does."""
    return get_record(DomainSpec, name)


def get_manifold(name: str) -> ManifoldSpec:
    """Return a manifold's record with its callables imported; raise as `get_model` does."""
    return get_record(ManifoldSpec, name)


def get_dataset(name: str) -> DatasetSpec:
    """Return a data set's record with its callables imported; raise as `get_model` does."""
    return get_record(DatasetSpec, name)


def get_reader(name: str) -> ReaderSpec:
    """Return a reader's record with its callables imported; raise as `get_model` does."""
    return get_record(ReaderSpec, name)


def get_plot(name: str) -> PlotSpec:
    """Return a plot's record with its callables imported; raise as `get_model` does."""
    return get_record(PlotSpec, name)


def get_reproduction(name: str) -> ReproductionSpec:
    """Return a reproduction's record with its callables imported; raise as `get_model` does."""
    return get_record(ReproductionSpec, name)


def get_rule(name: str, *, estimator: str, parameter: str, also: Sequence[str] = ()) -> Any:
    """Return the rule that a parameter of an estimator accepts by name, made with its defaults.

    Parameters
    ----------
    name : str
        A registered name, or ``"plugin:name"``.
    estimator, parameter : str
        As in `manifoldseq.hooks.RuleSpec`.
    also : sequence of str
        Further names that the parameter accepts, for the error message.

    Raises
    ------
    ValueError
        If no rule of this parameter has the name (the existing names are listed), or if several third parties use it.
    ImportError
        If the record names something that cannot be imported.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.hooks.get_rule("medoid", estimator="lds-kmeans", parameter="mean")
    Medoid()
    """
    try:
        record = get_record(RuleSpec, name) if isinstance(name, str) else None
    except UnknownName:
        if missing_of_name(RuleSpec.kind, name):
            raise
        record = None
    if record is not None and (record.estimator, record.parameter) == (estimator, parameter):
        return record.factory()
    rules = [(plugin, one) for plugin, one in records(RuleSpec.kind) if isinstance(one, RuleSpec)]
    known = [asked_as(*one) for one in rules if (one[1].estimator, one[1].parameter) == (estimator, parameter)]
    raise UnknownName(f"{parameter}={quoted(name)} is not known: choose {', '.join(map(repr, [*also, *known]))}")


def _made(record: KernelSpec | SolverSpec, options: Mapping[str, Any]) -> Any:
    """Call the factory of a resolved record; an unknown option raises an error."""
    if not options:
        return record.factory()
    known = signature(record.factory).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        for name in options:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise ValueError(
                    f"{record.kind.removesuffix('s')} {record.name!r} has no option {name!r}: {hint}"
                    f"It has {', '.join(known) or 'none'}"
                )
    return record.factory(**options)
