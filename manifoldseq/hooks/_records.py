"""The frozen records that plugins yield, `ModelSpec`, `KernelSpec`, …: descriptions, validated when created."""

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..execution._by_name import portable
from ._bundled import how_to_install, missing_of_import

if TYPE_CHECKING:
    Target = Any  # a resolved record holds callables, and is called without a cast
else:
    Target = str | Callable[..., Any]
    """The target of a record: a callable, or ``"package.module:attribute"``, which is imported on demand."""

API = 1
"""The version of the meaning of the fields of records."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


def _is_target(value: object) -> bool:
    return callable(value) or (isinstance(value, str) and _PATH.match(value) is not None)


def _is_targets(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) and _is_target(v) for k, v in value.items())


_A_TARGET = "a callable or a string 'package.module:attribute'"
_RULES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a string"),
    str | None: (lambda value: value is None or isinstance(value, str), "a string, or None"),
    bool: (lambda value: isinstance(value, bool), "True or False"),
    bool | None: (lambda value: value is None or isinstance(value, bool), "True or False"),
    Target: (_is_target, _A_TARGET),
    Target | None: (lambda value: value is None or _is_target(value), f"{_A_TARGET}, or None"),
    tuple[str, ...]: (
        lambda value: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
        "a tuple of strings",
    ),
    Mapping[str, Any]: (
        lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
        "a mapping from names to settings",
    ),
    Mapping[str, Target]: (_is_targets, f"a mapping from a name to {_A_TARGET}"),
}


@dataclass(frozen=True)
class Record:
    """Base of all records: a name, the version of the hooks, validation and resolution. Abstract."""

    kind: ClassVar[str]
    """The hook of the record without its prefix: ``"models"``, ``"kernels"``, …"""
    inputs: ClassVar[tuple[str, ...]] = ("sequences", "samples", "views", "bags")
    """The accepted values of the field ``input``, if it exists."""
    name: str
    _: KW_ONLY
    api: int = API
    """The version of the hooks that the record is written for; 1 is the only one."""

    def __post_init__(self) -> None:
        if self.api != API:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} is written for version {self.api!r} of the hooks, and this "
                f"manifoldseq has version {API}: set api={API}, or install a version of manifoldseq that supports it"
            )
        if not isinstance(self.name, str) or not all(map(_NAME.match, self.name.split(":", 1))):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: name must start with a letter or digit and contain only "
                "letters, digits, '.', '_' and '-', apart from a prefix with the name of its own plugin and a colon"
            )
        for one in fields(self):
            if one.name == "api":
                continue
            value = getattr(self, one.name)
            accepts, wanted = _RULES[one.type]
            if one.name == "input" and value not in self.inputs:
                wanted = f"{', '.join(map(repr, self.inputs[:-1]))} or {self.inputs[-1]!r}"
            elif accepts(value):
                continue
            raise ValueError(f"{type(self).__name__} {self.name!r}: {one.name} must be {wanted}, not {value!r}")

    def resolved(self) -> Self:
        """Return the same record with every target imported, once."""
        known = self.__dict__.get("_resolved")
        if known is not None:
            return known
        changes: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type in (Target, Target | None) and isinstance(value, str):
                changes[one.name] = self._import(one.name, value)
            elif one.type == Mapping[str, Target]:
                changes[one.name] = {key: self._import(one.name, target) for key, target in value.items()}
        made = copy(self)  # what was validated, and warned of, once
        for name, value in changes.items():
            object.__setattr__(made, name, value)
        object.__setattr__(self, "_resolved", made)
        return made

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for a listing: strings, booleans and lists only."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        vars(made).update({one.name: getattr(self, one.name) for one in fields(self)})
        return made

    def __getstate__(self) -> dict[str, Any]:
        what = f"{type(self).__name__} {self.name!r}"
        return {one.name: _portable(getattr(self, one.name), what) for one in fields(self)}

    def _import(self, where: str, target: Target) -> Callable[..., Any]:
        try:
            found = resolve(target)
        except Exception as error:
            if bundled := missing_of_import(error):
                raise ImportError(
                    f"{self.kind.removesuffix('s')} {self.name!r} needs {bundled}, which is not installed: "
                    f"{how_to_install(bundled)}"
                ) from error
            raise ImportError(
                f"{type(self).__name__} {self.name!r}: {where} names {target!r}, which cannot be imported "
                f"({type(error).__name__}: {error})"
            ) from error
        if not callable(found):
            raise ImportError(f"{type(self).__name__} {self.name!r}: {where} names {target!r}, which is not callable")
        return found


def resolve(target: Target) -> Any:
    """Import a target ``"package.module:attribute"``; other objects than strings are returned unchanged."""
    if not isinstance(target, str):
        return target
    if not _PATH.match(target):
        raise ValueError(f"{target!r} is not of the form 'package.module:attribute'")
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _portable(value: Any, what: str) -> Any:
    if isinstance(value, Mapping):
        return {key: portable(item, what) for key, item in value.items()}
    return portable(value, what)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    if callable(value):
        return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"
    return value


@dataclass(frozen=True)
class ModelSpec(Record):
    """A model: a cost over a manifold, with closed-form starts and updates, given as a set of functions (parts).

    ``problem(data, **params)`` returns the `manifoldseq.Problem`. Every part is optional unless the table says
    otherwise. With `statistics` the data enter through sums over blocks of rows, and the parts marked * have these sums
    as an additional argument: ``value(model, point, sums)``. Values are means over the rows.

    ====================  =====================================================================================
    part                  signature
    ====================  =====================================================================================
    prepare               ``(data, **params) -> manifoldseq.Prepared``, or the model alone: validated settings, and
                          the rows in blocks; `model` is the first argument of all other parts
    manifold              ``(model) -> Manifold``, required
    statistics            ``(sweep, point, block) -> sums``: of one block of rows, see `objectives.Sums`; `sweep` is
                          ``Prepared.sweep``, which is sent to workers in place of the model
    value *               ``(model, point) -> float``; this one or the next is required
    value_and_gradient *  ``(model, point) -> (float, Euclidean gradient)``
    hessian_product *     ``(model, point, tangent) -> tangent``; the sums come before the tangent
    batched               ``(model, points, which) -> (values, gradients)``: many problems at once
    batch                 ``(model, block) -> model``: the model of a batch of rows, for mini-batches; without
                          blocks ``(model, rows)`` for the numbers of terms, from 0 to ``Prepared.n - 1``
    initializers          name to ``(problem, rng) -> point``; the first is the default; ``problem.data`` is the
                          return value of `prepare`
    updates *             name to ``(model, point) -> point``: a closed form that never increases the value; an update
                          with a last parameter ``damping`` decreases it with enough damping (usually 1)
    update_factors        ``(model) -> {update: names of the factors that it replaces}``, () for all; other updates
                          do not exist for this model; by default all updates replace all factors
    carry                 ``(model, old, new, sums) -> sums``: running sums of online EM at the new point
    units *               ``(model, point) -> chart`` or None: coordinates in which EM is steepest descent, with
                          ``gradient() -> vector`` of the sum over the rows and ``moved(step) -> point``
    repair *              ``(model, point, tried) -> (k, point)`` or None: restart of a collapsed component
    constraints           ``(model) -> inequalities``, each an `Objective` g with g(point) <= 0
    equivalences          name to ``(model, point, rng) -> point`` of equal value: symmetries, which are tested
    exact                 names of the initializers that return the minimum of this cost
    parts                 name to ``(model, point[, sums])``: functions of the `Objective` that solvers look up by
                          name and that the engine itself does not use
    ====================  =====================================================================================

    ``base`` names a model whose parts are used where this record has none. A record with another cost (`value`,
    `value_and_gradient` or `statistics`) does not inherit the parts that belong to the old cost: updates, the Hessian,
    ``batched``, ``batch``, ``carry``, ``units``, ``repair``, ``equivalences``, ``exact`` and ``solver``. ``solver`` is
    the default solver, "" for the default of `minimize`. ``build(data, **params) -> Problem`` replaces all parts for a
    model that cannot be divided into them. ``input`` is the kind of data: ``"sequences"``, a list of (T, d) arrays,
    ``"samples"``, rows of a table, or ``"views"``, a list of (N, d_v) arrays with the same rows. ``example(rng)``
    returns example data for checks. ``params`` is a dataclass of the parameters of `prepare`, if there is one.
    """

    kind = "models"
    inputs: ClassVar[tuple[str, ...]] = ("sequences", "samples", "views")
    prepare: Target | None = None
    _: KW_ONLY
    base: str = ""
    build: Target | None = None
    manifold: Target | None = None
    statistics: Target | None = None
    value: Target | None = None
    value_and_gradient: Target | None = None
    hessian_product: Target | None = None
    batched: Target | None = None
    batch: Target | None = None
    initializers: Mapping[str, Target] = field(default_factory=dict)
    updates: Mapping[str, Target] = field(default_factory=dict)
    update_factors: Target | None = None
    carry: Target | None = None
    units: Target | None = None
    repair: Target | None = None
    constraints: Target | None = None
    equivalences: Mapping[str, Target] = field(default_factory=dict)
    parts: Mapping[str, Target] = field(default_factory=dict)
    exact: tuple[str, ...] = ()
    solver: str = ""
    example: Target | None = None
    params: Target | None = None
    input: str = "sequences"
    summary: str = ""
    reference: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [part for part in _PARTS if getattr(self, part)]
        if self.build is not None and given:
            raise ValueError(
                f"Model {self.name!r} sets both build, which creates the whole problem, and {', '.join(given)}: set "
                "only one of the two"
            )
        if self.build is None and not self.base:
            lacking = [part for part in ("prepare", "manifold") if getattr(self, part) is None]
            if self.value is None and self.value_and_gradient is None:
                lacking.append("value or value_and_gradient")
            if lacking:
                raise ValueError(
                    f"Model {self.name!r} does not define a problem: set {', '.join(lacking)}, or set build to a "
                    "function that returns a Problem, or base to the name of a model whose parts are used"
                )

    def problem(self, data: Any, **params: Any) -> Any:
        """Return the `manifoldseq.Problem` of data; parts are looked up as in `manifoldseq.get_model`."""
        return resolve("manifoldseq.models:problem_of")(self, data, params)

    @property
    def entry(self) -> Any:
        """The function with the parameters of the model: `prepare`, or otherwise `build`."""
        return self.build if self.prepare is None else self.prepare


_PARTS = (
    *("prepare", "base", "manifold", "statistics", "value", "value_and_gradient", "hessian_product", "batched"),
    *("batch", "updates", "update_factors", "carry", "units", "repair", "constraints", "parts", "exact"),
)


@dataclass(frozen=True)
class InitializerSpec(Record):
    """An additional initializer ``target(problem, rng) -> point`` of a model, which may belong to another plugin.

    ``model`` is the name of the model, "" for every model. A record given to `manifoldseq.register` replaces an
    initializer of the same name. A record from a module or an installed plugin does not replace it: its initializer is
    then called ``"plugin:name"``.
    """

    kind = "initializers"
    target: Target
    _: KW_ONLY
    model: str
    summary: str = ""


@dataclass(frozen=True)
class UpdateSpec(Record):
    """An additional block update ``target(model, point[, sums][, damping]) -> point`` of a model, see `ModelSpec`.

    ``factors`` contains the names of the factors that the update replaces, () for all factors.
    """

    kind = "updates"
    target: Target
    _: KW_ONLY
    model: str
    factors: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class EstimatorSpec(Record):
    """An estimator class; ``plots`` names the default plots of its fits.

    ``input`` is ``"sequences"``, ``"samples"``, ``"views"`` (arrays with the same rows) or ``"bags"`` (views that are
    lists of arrays, one per sequence). ``controls`` names the registered estimators with which `manifoldseq fit`
    compares it, by default simple baselines of the same task (`evaluation.default_controls`). For results other than
    clusters, classes, features and neighbours, ``quality(model, X, y, seed) -> evaluation.Evaluation`` computes the
    figures; it raises ValueError with the reason if there are none. ``auto`` names the parameters that `fit` chooses if
    they are ``"auto"``; `manifoldseq fit --choose` sets the parameters among them that are not given to ``"auto"``.
    After such a `fit`, ``choice_`` is a `manifoldseq.models.Choice`, whose tables and plot are shown. ``cost(model, X)
    -> str`` describes the computations of a fit in advance; it returns "" if the fit chooses nothing. ``models`` names
    the registered models that the estimator minimizes.
    """

    kind = "estimators"
    factory: Target
    _: KW_ONLY
    input: str = "sequences"
    models: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    quality: Target | None = None
    auto: tuple[str, ...] = ()
    cost: Target | None = None
    summary: str = ""


@dataclass(frozen=True)
class RuleSpec(Record):
    """A rule that a parameter of an estimator accepts by name: ``factory(**params) -> rule``.

    ``estimator`` is the name of a registered estimator and ``parameter`` is the name of its parameter, such as the
    centres of ``"lds-kmeans"`` (``"mean"``) or the atoms of ``"lds-dictionary"`` (``"method"``). The package of the
    estimator has the base class of its rules. A rule that is a dataclass is saved in model files.
    """

    kind = "rules"
    factory: Target
    _: KW_ONLY
    estimator: str
    parameter: str
    summary: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parameter.isidentifier():
            raise ValueError(
                f"RuleSpec {self.name!r}: parameter must be the name of a parameter of the estimator, "
                f"not {self.parameter!r}"
            )


@dataclass(frozen=True)
class KernelSpec(Record):
    """A kernel: ``factory(**params) -> manifoldseq.kernels.Kernel``, whose attributes give its domain and properties.

    ``example(rng) -> items`` (by default, the example of the domain); ``invariances`` maps a name to ``transform(item)
    -> item`` that leaves the kernel unchanged.
    """

    kind = "kernels"
    factory: Target
    _: KW_ONLY
    example: Target | None = None
    invariances: Mapping[str, Target] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True)
class DomainSpec(Record):
    """The items of a kernel: ``manifold(m, n, bound)``, ``to_item(point) -> item``, ``example(rng) -> items``."""

    kind = "domains"
    manifold: Target
    to_item: Target
    example: Target
    _: KW_ONLY
    summary: str = ""


@dataclass(frozen=True)
class ManifoldSpec(Record):
    """A manifold class, and ``example(rng) -> manifold``, which returns a small manifold for checks."""

    kind = "manifolds"
    factory: Target
    example: Target
    _: KW_ONLY
    summary: str = ""


@dataclass(frozen=True)
class SolverSpec(Record):
    """A solver: ``factory(**options) -> solver``; ``needs`` names the functions of the objective that it uses.

    ``constraints`` is True if it supports equalities and inequalities.
    """

    kind = "solvers"
    factory: Target
    _: KW_ONLY
    needs: tuple[str, ...] = ("value_and_gradient",)
    constraints: bool = False
    summary: str = ""


@dataclass(frozen=True)
class ReaderSpec(Record):
    """A reader of files whose name matches one of ``patterns``: ``factory(path) -> SequenceData``.

    ``example(folder) -> path`` writes a small example file.
    """

    kind = "readers"
    patterns: tuple[str, ...]
    factory: Target
    _: KW_ONLY
    example: Target | None = None
    summary: str = ""


@dataclass(frozen=True)
class DatasetSpec(Record):
    """A data set: ``loader() -> SequenceData``, which verifies the files that it reads, and its licence."""

    kind = "datasets"
    loader: Target
    _: KW_ONLY
    licence: str = ""
    summary: str = ""


@dataclass(frozen=True)
class PlotSpec(Record):
    """A plot: ``accepts(result) -> bool`` and ``draw(ax, result)``."""

    kind = "plots"
    accepts: Target
    draw: Target
    _: KW_ONLY
    summary: str = ""


@dataclass(frozen=True)
class ReproductionSpec(Record):
    """A table or figure of a paper: ``run(**settings) -> rows``, each row with the figure of the paper.

    ``quick`` has the settings of a run of one or two minutes.
    """

    kind = "reproductions"
    run: Target
    _: KW_ONLY
    paper: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""


KINDS: dict[str, type[Record]] = {cls.kind: cls for cls in Record.__subclasses__()}
