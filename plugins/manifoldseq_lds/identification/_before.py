"""Settings of the identifier and of kernels as parameters themselves, as in the release before: keywords and files."""

import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import manifoldseq as ms

from ._identifier import LDSIdentifier

F = TypeVar("F", bound=Callable[..., Any])

_BOUND = ("bound",)
_SETTINGS = ("center", "scale", "delay", "stabilizer")


def into_objects(given: dict[str, Any], moved: Iterable[str]) -> dict[str, Any]:
    """Return parameters with an identifier, and a kernel, in place of settings of them."""
    settings = {name: given[name] for name in moved if name in given}
    made = {name: value for name, value in given.items() if name not in (*settings, "kernel_params")}
    if settings:
        if made.get("identifier") is not None:
            raise TypeError(f"{_written(settings)} beside an identifier: set {', '.join(settings)} there")
        also = {"bound": made["bound"]} if "bound" in made else {}  # which was that of stabilizer="clip" too
        made["identifier"] = LDSIdentifier(**settings, **also)
    if given.get("kernel_params"):
        made["kernel"] = ms.get_kernel(given.get("kernel", "projection"), **given["kernel_params"])
    return made


def settings_moved(function: F) -> F:
    """Take the keywords of before, with a warning."""
    shape = signature(function)
    moved = moved_settings(function)

    @wraps(function)
    def taking(*args: Any, **given: Any) -> Any:
        old = {name: given[name] for name in (*moved, "kernel_params") if name in given}
        if old:
            given = {**shape.bind_partial(*args).arguments, **given}
            args, made = (), into_objects(given, moved)
            warn_of(given.get("self", function), old, {k: v for k, v in made.items() if v is not given.get(k)})
            given = made
        return function(*args, **given)

    return cast(F, taking)


def moved_settings(owner: Callable[..., Any]) -> list[str]:
    """Return the settings of an identifier that once were parameters of a class or function."""
    known = signature(owner).parameters
    return [name for name in _SETTINGS + _BOUND if name not in known] if "identifier" in known else []


def warn_of(owner: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Warn that parameters have moved; to be called by what was called with them."""
    name = getattr(owner, "__name__", type(owner).__name__)
    warnings.warn(f"{name}({_written(old)}) is {name}({_written(new)}) now", DeprecationWarning, stacklevel=3)


def _written(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _upgrade(*moved: str) -> Callable[..., Any]:
    def upgrade(parameters: dict[str, Any], attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return into_objects(parameters, moved), attributes

    return upgrade


KEEPS_BOUND = (_upgrade(*_SETTINGS),)
"""Stored upgrades of the first versions of classes with a bound of their own."""
MOVES_BOUND = (_upgrade(*_SETTINGS, *_BOUND),)
"""Of those whose bound was that of their identifier only."""
