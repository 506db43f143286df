"""The frozen records that plugins yield, `ModelSpec`, `KernelSpec`, …: descriptions, validated when created."""

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self
from warnings import warn

from ._bundled import how_to_install, missing_of_import

if TYPE_CHECKING:
    Target = Any  # a resolved record holds callables, and is called without a cast
else:
    Target = str | Callable[..., Any]
    """What a record points to: a callable, or ``"package.module:attribute"`` which is imported when it is needed."""

API = 1
"""The version of the records: what their fields mean."""

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
    Mapping[str, Target]: (_is_targets, f"a mapping from a name to {_A_TARGET}"),
}


@dataclass(frozen=True)
class Record:
    """Base of all records: a name, the version of the hooks, validation and resolution. Abstract."""

    kind: ClassVar[str]
    """The hook that yields it, without the prefix: ``"models"``, ``"kernels"``, …"""
    families: ClassVar[tuple[str, ...]] = ()
    """What may stand before a colon in a name: kept for the core, as ``plugin:name`` selects."""

    name: str
    _: KW_ONLY
    api: int = API
    """The version of the hooks that the record is written for; 1 is the only one."""

    def __post_init__(self) -> None:
        if self.api != API:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} is written for version {self.api!r} of the hooks, and this "
                f"manifoldseq has version {API}: set api={API}, or install a manifoldseq that has the other"
            )
        if not isinstance(self.name, str) or not _NAME.match(self._within_family()):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: name must start with a letter or digit and hold only letters, "
                "digits, '.', '_' and '-'"
            )
        for one in fields(self):
            if one.name == "api":
                continue
            value = getattr(self, one.name)
            accepts, wanted = _RULES[one.type]
            if not accepts(value):
                raise ValueError(f"{type(self).__name__} {self.name!r}: {one.name} must be {wanted}, not {value!r}")

    def _within_family(self) -> str:
        family, colon, rest = self.name.partition(":")
        return rest if colon and family in self.families else self.name

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
    """Import what a target names, ``"package.module:attribute"``; anything but a string is returned as it is."""
    if not isinstance(target, str):
        return target
    if not _PATH.match(target):
        raise ValueError(f"{target!r} is not of the form 'package.module:attribute'")
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


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
    """A model: ``build(data, **params) -> Problem`` and ``example(rng) -> data`` to try it on.

    ``params`` is a dataclass of the parameters of `build`, if there is one. ``input`` says what `manifoldseq solve`
    hands on as data: ``"sequences"``, a list of (T, d) arrays, or ``"views"``, a list of (N, d_v) arrays with the same
    rows.
    """

    kind = "models"
    build: Target
    _: KW_ONLY
    example: Target | None = None
    params: Target | None = None
    input: str = "sequences"
    summary: str = ""
    reference: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input not in ("sequences", "views"):
            raise ValueError(f"Model {self.name!r}: input must be 'sequences' or 'views', not {self.input!r}")


@dataclass(frozen=True)
class EstimatorSpec(Record):
    """An estimator class; ``plots`` names the default plots of its fits.

    ``input`` is ``"sequences"``, ``"samples"``, ``"views"`` (arrays with the same rows) or ``"bags"`` (views that are
    lists of arrays, one per sequence). ``controls`` names registered estimators that `manifoldseq fit` puts beside it,
    by default simple ones for the same task (`evaluation.default_controls`). What is neither clusters, classes,
    features nor neighbours is judged by ``quality(model, X, y, seed) -> evaluation.Evaluation``, whose ValueError says
    why there is no figure.
    ``auto`` names parameters that `fit` chooses itself where they are ``"auto"``: `manifoldseq fit --choose` sets those
    that are left open. Such a `fit` leaves ``choice_``, with ``best_params`` (a dict), ``time`` (seconds) and a text,
    the table of what was tried. ``cost(model, X) -> str`` says before a fit what it will compute; "" where it chooses
    nothing.
    """

    kind = "estimators"
    factory: Target
    _: KW_ONLY
    input: str = "sequences"
    plots: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    quality: Target | None = None
    auto: tuple[str, ...] = ()
    cost: Target | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input not in ("sequences", "samples", "views", "bags"):
            raise ValueError(
                f"EstimatorSpec {self.name!r}: "
                f"input must be 'sequences', 'samples', 'views' or 'bags', not {self.input!r}"
            )


@dataclass(frozen=True)
class KernelSpec(Record):
    """A kernel: ``factory(**params) -> manifoldseq.kernels.Kernel``, which states its domain and its claims itself.

    ``example(rng) -> items`` (default: the domain's); ``invariances`` maps a name to ``transform(item) -> item``
    that leaves the kernel unchanged. ``domain``, ``positive_definite`` and ``constant_diagonal`` are deprecated here:
    they are attributes of the kernel object.
    """

    kind = "kernels"
    factory: Target
    domain: str | None = None
    _: KW_ONLY
    example: Target | None = None
    invariances: Mapping[str, Target] = field(default_factory=dict)
    positive_definite: bool | None = None
    constant_diagonal: bool | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.claims:
            named = ", ".join(f"{name}={value!r}" for name, value in self.claims.items())
            warn(
                f"manifoldseq.hooks.KernelSpec({self.name!r}): {named} are attributes of the kernel object now "
                "(manifoldseq.kernels.Kernel); state them there only",
                DeprecationWarning,
                stacklevel=3,
            )

    @property
    def claims(self) -> dict[str, Any]:
        """What the deprecated fields say of a kernel that does not say it itself."""
        said = {name: getattr(self, name) for name in ("domain", "positive_definite", "constant_diagonal")}
        return {name: value for name, value in said.items() if value is not None}


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
    """A manifold class, and ``example(rng) -> manifold``: a small one to check."""

    kind = "manifolds"
    factory: Target
    example: Target
    _: KW_ONLY
    summary: str = ""


@dataclass(frozen=True)
class SolverSpec(Record):
    """A solver: ``factory(**options) -> solver``; ``needs`` names the abilities it asks of an objective.

    ``constraints`` says that it takes equalities and inequalities.
    """

    kind = "solvers"
    families: ClassVar[tuple[str, ...]] = ("pymanopt",)
    factory: Target
    _: KW_ONLY
    needs: tuple[str, ...] = ("value_and_gradient",)
    constraints: bool = False
    summary: str = ""


@dataclass(frozen=True)
class ReaderSpec(Record):
    """A reader of files whose name matches one of ``patterns``: ``factory(path) -> SequenceData``.

    ``example(folder) -> path`` writes a small file to try it on.
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
    """A table or figure of a paper: ``run(**settings) -> rows``, each row with the paper's own figure."""

    kind = "reproductions"
    run: Target
    _: KW_ONLY
    paper: str = ""
    summary: str = ""


KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        ModelSpec,
        EstimatorSpec,
        KernelSpec,
        DomainSpec,
        ManifoldSpec,
        SolverSpec,
        ReaderSpec,
        DatasetSpec,
        PlotSpec,
        ReproductionSpec,
    )
}
