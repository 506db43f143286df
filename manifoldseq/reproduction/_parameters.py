"""Checks of the parameters of reproductions; one sentence each."""

from math import inf, isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise ValueError unless the value is a whole number of at least `least`.

    Examples
    --------
    >>> check_whole("seeds", 0)
    Traceback (most recent call last):
    ...
    ValueError: seeds=0 is not valid: pass a whole number of at least 1
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not valid: pass a whole number of at least {least}")


def check_number(name: str, value: Any, least: float = 0.0, most: float = inf, open_: bool = False) -> None:
    """Raise ValueError unless the value is a finite number from `least` to `most`, or above `least` if `open_`."""
    real = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    good = real and least <= float(value) <= most
    if not good or (open_ and value == least):
        above = "" if least == -inf else f" above {least:g}" if open_ else f" of at least {least:g}"
        below = "" if most == inf else f" and at most {most:g}"
        kind = "finite number" if inf in (-least, most) else "number"
        raise ValueError(f"{name}={value!r} is not valid: pass a {kind}{above}{below}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    """Return the values of a parameter that is one whole number or some.

    Examples
    --------
    >>> whole_numbers("K", 100), whole_numbers("K", [100, 200])
    ((100,), (100, 200))
    """
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError(f"{name}={value!r} is empty: pass at least one whole number")
    for one in values:
        check_whole(name, one)
    return values


def names(name: str, value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a parameter that is one name or some."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError(f"{name}={value!r} is empty: pass one or more of {', '.join(map(repr, known))}")
    for one in values:
        check_choice(name, one, known)
    return values


def folder_of(folder: Any) -> Path:
    """Return the folder that the parameter ``folder`` names."""
    if not isinstance(folder, str | PathLike):
        raise ValueError(f"folder={folder!r} is not valid: name a folder")
    return Path(folder)


def figure_file(figure: Any) -> Path | None:
    """Return the file that the parameter ``figure`` names, one that can be written, or None."""
    if figure is None:
        return None
    if not isinstance(figure, str | PathLike) or Path(figure).is_dir():
        raise ValueError(f"figure={figure!r} is not valid: name a file, such as figure.png")
    from matplotlib.backend_bases import FigureCanvasBase

    file, known = Path(figure), sorted(FigureCanvasBase.get_supported_filetypes())
    if file.suffix[1:].lower() not in known:
        raise ValueError(f"figure={str(figure)!r} ends in no format of figures: choose one of {', '.join(known)}")
    if not file.parent.is_dir():
        raise ValueError(f"figure={str(figure)!r} is in no folder that exists: make {str(file.parent)!r} first")
    return file
