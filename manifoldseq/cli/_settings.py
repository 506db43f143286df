"""``--set name=value``: the parameters of an estimator from the command line."""

import ast
import difflib
from collections.abc import Iterable
from typing import Any

from ._shared import BadInput


def parse_settings(settings: Iterable[str], known: Iterable[str], what: str) -> dict[str, Any]:
    """Parse ``name=value`` pairs; a value is a Python literal, or else a string.

    Raises
    ------
    BadInput
        If a pair has no ``=``, or its name is not among `known`.
    """
    names = sorted(known)
    values: dict[str, Any] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        name = name.strip()
        if not separator:
            raise BadInput(f"--set {setting!r} has no '=': write --set name=value")
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise BadInput(f"{what} has no parameter {name!r}: {hint}It has {', '.join(names)}")
        values[name] = _literal(text)
    return values


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
