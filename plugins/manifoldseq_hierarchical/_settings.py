"""Checks of settings that the estimators of this package share; one sentence each."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from ._moments import Array

_FARTHEST = 1e100
"""Beyond this, squares of many coordinates may overflow."""


def check_whole(estimator: Any, *names: str, least: int = 1) -> None:
    """Refuse settings that are no whole number of at least `least`."""
    for name in names:
        whole(name, getattr(estimator, name), least)


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not valid: pass a whole number of at least {least}")
    return int(value)


def check_not_negative(estimator: Any, *names: str) -> None:
    """Refuse settings that are no number of at least 0."""
    for name in names:
        not_negative(name, getattr(estimator, name))


def not_negative(name: str, value: Any) -> None:
    """Refuse what is no number of at least 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not value >= 0:
        raise ValueError(f"{name}={value!r} is not valid: pass a number of at least 0")


def check_choice(estimator: Any, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a setting that is none of some words."""
    value = getattr(estimator, name)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def check_components(n_components: Any, d: int) -> int | None:
    """Return a number of directions from 1 to d, or None for the optimal one."""
    if n_components is None:
        return None
    if not isinstance(n_components, Integral) or isinstance(n_components, bool) or not 1 <= n_components <= d:
        raise ValueError(
            f"n_components={n_components!r} is not valid: pass a whole number from 1 to the {d} features, or None"
        )
    return int(n_components)


def resolved_origin(center: Any, mean: Array) -> Array:
    """Return the point mu_0 that a setting `center` stands for: ``"mean"``, 0, or d numbers."""
    if isinstance(center, str):
        if center != "mean":
            raise ValueError(f"center={center!r} is not known: choose 'mean', or pass the point itself")
        return mean
    try:
        point = np.asarray(center, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"center={center!r} is no point: choose 'mean', 0, or pass {len(mean)} numbers") from None
    if point.shape not in ((), mean.shape) or not (np.abs(point) < _FARTHEST).all():
        raise ValueError(
            f"center must be 'mean', 0 or {len(mean)} finite numbers below {_FARTHEST:.0e}, one per feature of X"
        )
    return np.broadcast_to(point, mean.shape).copy()
