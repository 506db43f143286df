"""Rows of the tables that reproductions return."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .families._settings import check_choice, check_whole

Row = dict[str, Any]
Rows = list[Row]


def row(model: str, setting: str, metric: str, unit: str, values: Sequence[float], paper: float | None) -> Row:
    """Return a row: the mean of the values and its standard error, beside the paper's figure."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    ours = float(np.mean(values)) if len(values) else None
    return dict(model=model, setting=setting, metric=metric, unit=unit, ours=ours, ours_se=error, paper=paper)


def several(name: str, value: Any) -> tuple[int, ...]:
    """Return the values of a parameter that is one whole number or some."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError(f"{name}={value!r} is empty: pass at least one whole number")
    for one in values:
        check_whole(name, one)
    return values


def named(name: str, value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a parameter that is one name or some."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values:
        raise ValueError(f"{name}={value!r} is empty: pass one or more of {', '.join(map(repr, known))}")
    for one in values:
        check_choice(name, one, known)
    return values


def place_of(folder: Any) -> Path:
    """Return the folder that a parameter names."""
    if not isinstance(folder, str | PathLike):
        raise ValueError(f"folder={folder!r} is not valid: name a folder")
    return Path(folder)


def drawn_to(figure: Any) -> Path | None:
    """Return the file that a parameter names for a figure, one that can be written, or None."""
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
