"""Checks of the parameters of reproductions."""

from os import PathLike
from pathlib import Path
from typing import Any

from .._extras import needing
from ..estimators import check_choice, check_whole


def whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    """Return the values of a parameter that is one whole number or a list of them.

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
    """Return the values of a parameter that is one name or a list of names."""
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
    """Return the path in the parameter ``figure`` and create its folder; None if `figure` is None."""
    if figure is None:
        return None
    if not isinstance(figure, str | PathLike) or Path(figure).is_dir():
        raise ValueError(f"figure={figure!r} is not valid: name a file, such as figure.png")
    with needing("figures need", "cli"):
        from matplotlib.backend_bases import FigureCanvasBase

    file, known = Path(figure), sorted(FigureCanvasBase.get_supported_filetypes())
    if file.suffix[1:].lower() not in known:
        raise ValueError(f"figure={str(figure)!r} has no suffix of a known format: choose one of {', '.join(known)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
