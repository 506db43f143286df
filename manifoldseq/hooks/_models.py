"""Complete records of models: with the parts of the base, and initializers and updates of other records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

from ._plugin import Origin, Plugin
from ._records import InitializerSpec, ModelSpec, Record, UpdateSpec
from ._registry import Registry

_OWN = ("name", "api", "base", "summary", "reference")
_COST = ("value", "value_and_gradient", "statistics")
_OF_THE_COST = (
    *("value", "value_and_gradient", "hessian_product", "batched", "batch", "updates", "update_factors", "carry"),
    *("units", "repair", "equivalences", "exact", "solver"),
)
"""Parts that describe one cost; a record with another cost does not inherit them."""


@dataclass(frozen=True)
class Source:
    """The plugin of a record, for fitted estimators, their files and reports, and the fingerprints of checkpoints.

    Attributes
    ----------
    name : str
        ``"plugin:name"`` of the record.
    version : str
        The version of the plugin's distribution; "" for records that were registered in this process.
    digest : str
        A digest of the code, for records that were registered in this process and have no version; otherwise "".
    """

    name: str
    version: str = ""
    digest: str = ""

    @classmethod
    def of(cls, plugin: Plugin, record: Record) -> Source:
        """Return the source of a record."""
        digest = "" if plugin.distribution else _digest(record)
        return cls(f"{plugin.name}:{record.name}", plugin.version, digest)

    def __str__(self) -> str:
        return f"{self.name} {self.version or self.digest[:8]}".strip()


def complete_model(registry: Registry, plugin: Plugin, record: ModelSpec, asked: tuple[str, ...] = ()) -> ModelSpec:
    """Return a resolved model with all of its parts, cached until a new registration."""
    kept = record.__dict__.get("_completed")
    if kept is None or kept[0] != (plugin.name, registry.state):
        kept = (plugin.name, registry.state), _complete(registry, plugin, record, asked)
        object.__setattr__(record, "_completed", kept)
    return kept[1]


def sources(model: ModelSpec) -> Mapping[str, Source]:
    """Return the sources of a complete model (key "") and of its parts (``field``, or ``field name`` of a mapping)."""
    return model.__dict__.get("_sources", {})


def _complete(registry: Registry, plugin: Plugin, record: ModelSpec, asked: tuple[str, ...]) -> ModelSpec:
    full_name = f"{plugin.name}:{record.name}"
    if full_name in asked:
        raise ValueError(
            f"model {full_name!r}: its base refers back to the model ({' -> '.join((*asked, full_name))}): name the "
            "base with "
            "its plugin, as in base='hope:hope.movmf'"
        )
    spec, own = record.resolved(), Source.of(plugin, record)
    changes: dict[str, Any] = {"initializers": dict(spec.initializers), "updates": dict(spec.updates)}
    given_by = dict.fromkeys(_parts_of(spec), own)
    if spec.base:
        giver, given = registry.owner("models", spec.base)
        base = complete_model(registry, giver, cast(ModelSpec, given), (*asked, full_name))
        other_cost = any(getattr(spec, part) is not None for part in _COST)
        if base.build is not None and other_cost:
            raise ValueError(
                f"model {full_name!r} cannot replace the cost of its base {spec.base!r}, because the function build of "
                "the base creates the whole problem: register a model with build=… instead"
            )
        for one in fields(spec):
            if one.name in _OWN or (other_cost and one.name in _OF_THE_COST):
                continue
            mine, theirs = getattr(spec, one.name), getattr(base, one.name)
            if isinstance(mine, Mapping):
                changes[one.name] = {**theirs, **mine}
            elif one.default is not MISSING and mine == one.default:
                changes[one.name] = theirs
        if base.build is not None:
            changes["base"] = ""
        lost = _OF_THE_COST if other_cost else ()
        given_by = {**{key: who for key, who in sources(base).items() if key.split(" ")[0] not in lost}, **given_by}
    for kind in ("initializers", "updates"):
        for name, giver, added in _added(registry, kind, record.name, full_name, tuple(changes[kind])):
            if kind == "initializers" and name in changes[kind]:  # replaced: no longer known to be the minimum
                changes["exact"] = tuple(one for one in changes.get("exact", spec.exact) if one != name)
            if isinstance(added, UpdateSpec):
                known = changes.get("update_factors", spec.update_factors)
                changes["update_factors"] = partial(_with_factors, known, tuple(changes[kind]), name, added.factors)
            changes[kind][name] = added.resolved().target
            given_by[f"{kind} {name}"] = Source.of(giver, added)
    made = copy(spec)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    for name in made.exact:
        if name not in made.initializers:
            raise ValueError(f"model {full_name!r}: exact names {name!r}, which is not one of its initializers")
    object.__setattr__(made, "_resolved", made)
    object.__setattr__(made, "_sources", {**given_by, "": own})
    return made


def _parts_of(spec: ModelSpec) -> Iterator[str]:
    """Yield the keys of `sources`: the fields that are set, and the names in mappings."""
    for one in fields(spec):
        value = getattr(spec, one.name)
        if isinstance(value, Mapping):
            yield from (f"{one.name} {name}" for name in value)
        elif value:
            yield one.name


def _added(
    registry: Registry, kind: str, model: str, full_name: str, taken: tuple[str, ...]
) -> Iterator[tuple[str, Plugin, InitializerSpec | UpdateSpec]]:
    """Yield the records that add to a model, each with its name in the model.

    A record of this process has its own name and replaces other records. A record of a third party is named
    ``"plugin:name"``, and also by its own name if this name is free. An update has only one name, because all updates
    are applied.
    """
    found = [(plugin, cast(Any, record)) for plugin, record in registry.entries(kind)]
    models = (model, full_name, *([""] if kind == "initializers" else []))
    found = [(plugin, record) for plugin, record in found if record.model in models]
    givers = Counter(record.name for plugin, record in found if plugin.origin is not Origin.SESSION)
    for plugin, record in sorted(found, key=lambda one: one[0].origin is Origin.SESSION):
        own = plugin.origin is Origin.SESSION or (record.name not in taken and givers[record.name] == 1)
        if own:
            yield record.name, plugin, record
        if plugin.origin is not Origin.SESSION and (kind == "initializers" or not own):
            yield f"{plugin.name}:{record.name}", plugin, record


def _with_factors(known: Any, others: tuple[str, ...], name: str, factors: tuple[str, ...], model: Any) -> Any:
    """Return the factors of the updates of a model, including one additional update."""
    return {**(dict.fromkeys(others, ()) if known is None else known(model)), name: factors}


def _digest(record: Record) -> str:
    """Return a digest of a record and of its code."""
    digest, seen = sha256(repr(sorted(record.as_dict().items())).encode()), set[int]()
    resolved = record.resolved()
    for one in fields(resolved):
        value = getattr(resolved, one.name)
        for target in value.values() if isinstance(value, Mapping) else (value,):
            _feed_code(digest.update, target, seen)
    return digest.hexdigest()


def _feed_code(update: Callable[[bytes], None], part: Any, seen: set[int]) -> None:
    """Feed the code of a function or class to a digest: instructions, constants, and the used objects of its module."""
    inside: Iterable[Any] = ()
    if isinstance(part, int | float | str | bytes | None):
        update(repr(part).encode())
    elif id(part) in seen:
        return
    elif isinstance(part, CodeType):
        update(part.co_code + repr(part.co_names).encode())
        inside = part.co_consts
    elif isinstance(part, partial):
        inside = (part.func, *part.args, *part.keywords.values())
    elif isinstance(part, FunctionType):
        closed_over = (cell.cell_contents for cell in part.__closure__ or ())
        defaults = (*(part.__defaults__ or ()), *(part.__kwdefaults__ or {}).values())
        used = (part.__globals__.get(name) for name in _names(part.__code__))
        ours = (one for one in used if getattr(one, "__module__", part.__module__) == part.__module__)
        inside = (part.__code__, *defaults, *closed_over, *ours)
    elif isinstance(part, tuple):  # lists and dicts may be records of calls
        inside = part
    elif isinstance(part, np.ndarray):
        update(part.tobytes())
    elif isinstance(part, type):
        inside = [getattr(one, "__func__", one) for one in vars(part).values()]
    elif is_dataclass(part):
        inside = [getattr(part, one.name) for one in fields(part)]
    seen.add(id(part))
    for one in inside:
        _feed_code(update, one, seen)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function and its inner functions look up."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
