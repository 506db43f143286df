"""Parameters that are objects with their own settings, such as an identifier, a kernel or a solver."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, signature
from typing import Any, Self, get_args

import numpy as np

from .. import hooks
from .._extras import needing
from .._quoted import quoted
from ..hooks._bundled import missing_of_name
from ..hooks._lookup import asked_as, registered

_NAMED = {"kernel": (hooks.KernelSpec, hooks.get_kernel), "solver": (hooks.SolverSpec, hooks.get_solver)}
"""Parameters whose string values are registered names."""


@dataclass(frozen=True)
class _Held:
    """The object in a parameter: its settings, the class that declares them, and a function that changes settings."""

    settings: dict[str, Any]
    declared_by: Callable[..., Any]
    changed: Callable[..., Any]


class ObjectParameters:
    """Support object parameters of estimators: ``set_params(kernel__n_steps=2)`` sets a parameter of the object.

    Place the class before `sklearn.base.BaseEstimator` in the list of bases. An object is an estimator (its settings
    are ``get_params``) or a dataclass. The name of a registered kernel or solver in a parameter called ``kernel`` or
    ``solver`` is resolved. None stands for a default instance of the class in the annotation of the parameter. The
    object itself is not changed: it is replaced by a copy with the new settings.

    Examples
    --------
    >>> from manifoldseq_lds import LDSIdentifier, LDSKMeans
    >>> identifier = LDSIdentifier(delay=2)
    >>> LDSKMeans(kernel="grassmann", identifier=identifier).set_params(identifier__delay=4, kernel__n_steps=2)
    LDSKMeans(identifier=LDSIdentifier(delay=4),
              kernel=GrassmannKernel(n_steps=2, dtype='float64'))
    >>> identifier.delay
    2
    """

    def set_params(self, **params: Any) -> Self:
        """Set parameters; the parameters of objects are given as ``parameter__setting``."""
        current = self.get_params(deep=False)  # type: ignore[attr-defined]
        return super().set_params(**with_objects(type(self), current, params))  # type: ignore[misc]


def with_objects(owner: Callable[..., Any], current: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in which objects are replaced by copies with changed settings.

    Parameters
    ----------
    owner : callable
        The class or function that has the parameters.
    current : mapping of str to object
        The current parameters.
    params : mapping of str to object
        The changes: ``name``, or ``name__setting`` for a setting of the object in a parameter.

    Raises
    ------
    ValueError
        If a parameter with a setting is not an object, or if a setting is unknown.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with_objects(ms.minimize, {"solver": "lbfgs"}, {"solver__memory": 3})["solver"].memory
    3
    """
    made = {name: value for name, value in params.items() if "__" not in name}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in params.items():
        name, separator, setting = path.partition("__")
        if separator:
            inner.setdefault(name, {})[setting] = value
    for name, settings in inner.items():
        _check_name(name, current, f"{owner.__name__} has no parameter")
        value = made.get(name, current[name])
        held = _held(owner, name, value)
        if held is None:
            setting = next(iter(settings))
            if name in _NAMED and isinstance(value, str) and missing_of_name(_NAMED[name][0].kind, value):
                hooks.get_record(_NAMED[name][0], value)  # raises the error that says what to install
            raise ValueError(f"{name}={quoted(value)} is not an object with settings: leave out {name}__{setting}")
        for setting in settings:
            _check_name(setting.partition("__")[0], held.settings, f"{name} has no setting")
        made[name] = held.changed(**with_objects(held.declared_by, held.settings, settings))
    return made


def _check_name(name: str, known: Mapping[str, Any], has_no: str) -> None:
    if name not in known:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"{has_no} {quoted(name)}: {hint}It has {', '.join(known) or 'none'}")


def all_settings(owner: Callable[..., Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters and, as ``name__setting``, the settings of the objects among them.

    Parameters
    ----------
    owner : callable
        The class or function that has the parameters.
    current : mapping of str to object

    Examples
    --------
    >>> import manifoldseq as ms
    >>> list(all_settings(ms.minimize, {"solver": "pgd", "seed": 0}))[:3]
    ['solver', 'solver__step_size', 'solver__halve_every']
    """
    return {path: value for path, _, value in settings_of(owner, current)}


def settings_of(
    owner: Callable[..., Any], current: Mapping[str, Any], above: tuple[Any, ...] = ()
) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Yield the items of `all_settings`, each with the class or function that declares it."""
    for name, value in current.items():
        yield name, owner, value
        held = _held(owner, name, value)
        if held is not None and held.declared_by not in above:  # a class that makes its own kind would never end
            inside = settings_of(held.declared_by, held.settings, (*above, held.declared_by))
            yield from ((f"{name}__{path}", declared_by, one) for path, declared_by, one in inside)


def plain_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in which objects are replaced by their settings, the inverse of `with_objects`.

    Registered kernels and solvers are represented by their names, other objects by the class of the annotation.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> plain = plain_settings({"solver": ms.get_solver("pgd", step_size=0.2), "seed": 0})
    >>> plain["solver"], plain["solver__step_size"]
    ('pgd', 0.2)
    """
    found: dict[str, Any] = {}
    for name, value in params.items():
        settings = _settings(value)
        if settings is None:
            found[name] = value
            continue
        if name in _NAMED and (known := registered(_NAMED[name][0], value)) is not None:
            found[name] = asked_as(*known)
        found |= {f"{name}__{setting}": one for setting, one in plain_settings(settings).items()}
    return found


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword parameters of a function or class with their defaults, or None without a default."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    found = {name: one for name, one in signature(function).parameters.items() if one.kind in kinds}
    return {name: None if one.default is Parameter.empty else one.default for name, one in found.items()}


def _settings(value: Any) -> dict[str, Any] | None:
    """Return the settings of an estimator or dataclass, or None for other objects."""
    if isinstance(value, type):
        return None
    if callable(getattr(value, "get_params", None)):
        return value.get_params(deep=False)
    return {one.name: getattr(value, one.name) for one in fields(value) if one.init} if is_dataclass(value) else None


def _held(owner: Callable[..., Any], name: str, value: Any) -> _Held | None:
    if name in _NAMED and isinstance(value, str):
        kind, make = _NAMED[name]
        try:
            factory = hooks.get_record(kind, value).factory
        except (ValueError, ImportError):
            return None
        return _Held(defaults(factory), factory, partial(make, value))
    if value is None:
        value = _default_of_annotation(owner, name)
    settings = _settings(value)
    if settings is None:
        return None
    return _Held(settings, type(value), partial(replace if is_dataclass(value) else _clone, value))


def _clone(value: Any, **settings: Any) -> Any:
    with needing("estimators need", "cli"):
        from sklearn.base import clone

    made: Any = clone(value)
    return made.set_params(**settings)


def _default_of_annotation(owner: Callable[..., Any], name: str) -> Any:
    """Return a default instance of the class in the annotation of a parameter, or None without such a class."""
    with suppress(NameError, KeyError, TypeError, ValueError):  # of type checkers only; a class that asks for more
        annotation = signature(owner, eval_str=True).parameters[name].annotation
        for kind in (annotation, *get_args(annotation)):
            if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "get_params")):
                return kind()
    return None


def used_settings(model: Any) -> dict[str, Any]:
    """Return the values that a fit used for chosen settings, and for settings that another setting overrides.

    They are the attribute ``name_`` of each parameter that is ``"auto"`` or None and, with dotted names,
    ``used_parameters_``. Settings with the same last name and value, such as ``n_states`` and ``identifier.n_states``,
    are merged.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import LDSKMeans
    >>> t = np.arange(40)[:, None]
    >>> sequences = [np.sin([0.2, 0.5] * t + i) + 0.1 * np.cos(i * t) for i in range(8)]
    >>> sorted(used_settings(LDSKMeans(n_clusters=2, random_state=0).fit(sequences)))[-2:]
    ['moments', 'n_states']
    """
    found: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        used = getattr(model, f"{name}_", None)
        if (value is None or (isinstance(value, str) and value == "auto")) and isinstance(
            used, str | int | float | np.number
        ):
            found[name] = used
    found |= getattr(getattr(model, "choice_", None), "best_params", {})
    found |= getattr(model, "used_parameters_", {})
    return {name.replace("__", "."): one.item() if isinstance(one, np.generic) else one for name, one in found.items()}
