"""Checks of parameters of estimators and of options of solvers: one error message for each kind."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from ._quoted import quoted

Rule = Callable[..., Any] | tuple[Any, ...]
"""A function ``rule(name, value)`` that raises ValueError for an invalid value, or a tuple with further arguments."""


def check_parameters(estimator: Any, rules: Mapping[str, Rule]) -> None:
    """Raise ValueError if a parameter of an estimator is invalid.

    Parameters
    ----------
    estimator : estimator
        The estimator, which has `get_params`.
    rules : mapping of str to callable or tuple
        For each parameter a function ``rule(name, value)`` that raises ValueError, such as `check_whole`; or a tuple of
        such a function and its further arguments, ``(check_number, 0.0, 1.0)``. The parameters `n_init`, `max_iter`,
        `tol`, `n_jobs` and `verbose` are validated without an entry, if the estimator has them.

    Examples
    --------
    >>> from manifoldseq_hope import SphericalKMeans
    >>> RULES = {"n_clusters": check_whole, "threshold": (check_number, -1.0, 1.0)}
    >>> check_parameters(SphericalKMeans(8, threshold=2), RULES)
    Traceback (most recent call last):
    ...
    ValueError: threshold=2 is not valid: pass a number of at least -1 and at most 1
    """
    values = estimator.get_params(deep=False)
    for name, rule in {**{name: COMMON[name] for name in COMMON if name in values}, **rules}.items():
        _apply(rule, name, values[name])


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise ValueError unless the value is a whole number of at least `least`.

    Examples
    --------
    >>> check_whole("seeds", 0)
    Traceback (most recent call last):
    ...
    ValueError: seeds=0 is not valid: pass a whole number of at least 1
    """
    if not _whole(value) or value < least:
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a whole number of at least {least}")


def check_number(name: str, value: Any, least: float = 0.0, most: float = inf, open_: bool = False) -> None:
    """Raise ValueError unless the value is a finite number from `least` to `most`, or above `least` if `open_`.

    Examples
    --------
    >>> check_number("quantile", 2, 0.0, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: quantile=2 is not valid: pass a number of at least 0 and at most 1
    """
    real = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    if not (real and least <= float(value) <= most) or (open_ and value == least):
        above = "" if least == -inf else f" above {least:g}" if open_ else f" of at least {least:g}"
        below = "" if most == inf else f" and at most {most:g}"
        kind = "finite number" if inf in (-least, most) else "number"
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a {kind}{above}{below}")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a finite number above zero.

    Examples
    --------
    >>> check_positive("alpha", 0)
    Traceback (most recent call last):
    ...
    ValueError: alpha=0 is not valid: pass a finite number above 0
    """
    check_number(name, value, open_=True)


def check_choice(name: str, value: Any, choices: Sequence[Any], others: str = "") -> None:
    """Raise ValueError unless the value is one of the choices; `others` describes further accepted values.

    Examples
    --------
    >>> check_choice("init", "best", ("random", "spread"), "an array of labels")
    Traceback (most recent call last):
    ...
    ValueError: init='best' is not known: choose 'random', 'spread' or an array of labels
    """
    if type(value) is str and value in choices:  # nearly always
        return
    same = isinstance(value, str | Integral) and not isinstance(value, bool)
    if not any(value is choice or (same and value == choice) for choice in choices):
        *known, last = [*map(repr, choices), *([others] if others else [])]
        raise ValueError(
            f"{name}={quoted(value)} is not known: choose {', '.join(known)}{' or ' if known else ''}{last}"
        )


def check_switch(name: str, value: Any) -> None:
    """Raise ValueError unless the value is True or False.

    Examples
    --------
    >>> check_switch("center", "no")
    Traceback (most recent call last):
    ...
    ValueError: center='no' is not valid: pass True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass True or False")


def check_optional(name: str, value: Any, *rule: Any) -> None:
    """Raise ValueError unless the value is None or satisfies a rule, which is given with its further arguments.

    Examples
    --------
    >>> check_optional("batch_size", None, check_whole)
    >>> check_optional("batch_size", 0, check_whole)
    Traceback (most recent call last):
    ...
    ValueError: batch_size=0 is not valid: pass a whole number of at least 1, or None
    """
    if value is None:
        return
    try:
        _apply(rule, name, value)
    except ValueError as error:
        raise ValueError(f"{error}, or None") from None


def _apply(rule: Rule, name: str, value: Any) -> None:
    check, *limits = rule if isinstance(rule, tuple) else (rule,)
    check(name, value, *limits)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_jobs(name: str, value: Any) -> None:
    if value is not None and not (_whole(value) and (value == -1 or value >= 1)):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a number of threads, -1 for one per core, or None")


def _check_verbose(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        check_whole(name, value, 0)


COMMON: Mapping[str, Rule] = {
    "n_init": check_whole,
    "max_iter": check_whole,
    "tol": check_number,
    "n_jobs": _check_jobs,
    "verbose": _check_verbose,
}
"""Constraints of the parameters that have the same meaning in every estimator."""
