"""Sequences from the arrays of xarray, which is recognized and never imported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._quoted import quoted
from ._data import SequenceData
from ._limits import ReadError
from .readers._clock import AUTO, seconds
from .readers._columns import Columns, matching
from .readers._long_table import Rows, assemble

_SERIES = frozenset(
    "id ids sequence sequences sample samples case cases instance instances trial trials subject subjects episode "
    "episodes recording recordings run runs".split()
)
_CHANNELS = frozenset(
    "channel channels feature features variable variables sensor sensors component components dim dims space".split()
)
"""Names of dimensions by their meaning."""


def is_xarray(data: Any) -> bool:
    """Return whether this is a ``DataArray`` or a ``Dataset``."""
    kinds = [kind for kind in type(data).__mro__ if kind.__module__.partition(".")[0] == "xarray"]
    return any(kind.__name__ in ("DataArray", "Dataset") for kind in kinds)


def from_xarray(
    data: Any, *, id: str | None, time: str | None, label: str | None, columns: Sequence[str] | None
) -> SequenceData:
    """Return the sequences of a ``DataArray``, or of a ``Dataset`` whose variables are the channels.

    The arguments are the same as for `from_frame`; all sequences have the same times.
    """
    path = f"the {type(data).__name__}"
    axis = "time" if time is None or time == AUTO else str(time)
    if axis not in data.dims and axis.lower() == "none":
        time, axis = None, "time"
    if axis not in data.dims:
        shown = ", ".join(map(str, data.dims))[:200] or "none"
        raise ReadError(f"{path} has no dimension {quoted(axis)}, only {shown}: name the dimension with time=…")
    marks = _marks(path, data, label)
    if hasattr(data, "data_vars"):
        variables = {str(name): data[name] for name in data.data_vars if str(name) != marks.label}
        block, series, names = _of_variables(path, variables, axis, id, columns)
    else:
        block, series, names = _of_array(path, data, axis, id)
    if columns is not None:
        block, names = _selected(path, block, names, columns)
    n, steps, channels = block.shape
    if block.size == 0:
        raise ReadError(
            f"{path} has {n} sequences of {steps} time steps and {channels} channels: pass at least one of each"
        )
    times, stamps = None, False
    if time is not None and axis in data.coords:
        times, stamps = _coordinate(path, axis, np.asarray(data.coords[axis].values))
    labels, label_names = marks.codes(axis, series, (n, steps))
    rows = Rows(
        np.ascontiguousarray(block.reshape(n * steps, channels)),
        None if times is None else np.tile(times, n),
        None if series is None else np.repeat(np.arange(n), steps),
        np.asarray(data.coords[series].values).tolist() if series in data.coords else range(n),
        labels,
        label_names,
    )
    chosen = Columns(
        id=series,
        time=None if times is None else axis,
        label=marks.label,
        channels=tuple(map(str, range(channels))) if names is None else names,
        certain=True,
        clocks=False,
        seconds=stamps,
    )
    found = assemble(path, chosen, rows, lambda row: f"time step {row % steps}")
    return found if names is not None else replace(found, channel_names=None)


@dataclass(frozen=True)
class _Marks:
    """The labels: a coordinate or variable with the dimension of the sequences, of time, or both."""

    path: str
    label: str | None
    array: Any

    def codes(self, axis: str, series: str | None, shape: tuple[int, int]) -> tuple[NDArray[np.intp] | None, list[Any]]:
        """Return label codes from 0, one for each time step of each sequence."""
        if self.label is None:
            return None, []
        kept = [name for name in (series, axis) if name in self.array.dims]
        if strange := [str(name) for name in self.array.dims if name not in kept]:
            raise ReadError(
                f"{self.path}, {quoted(self.label)} has the extra dimension {quoted(strange[0])}: use one label "
                "per sequence"
            )
        values = np.asarray(self.array.transpose(*kept).values)
        values = values[:, None] if kept == [series] else values
        if (values != values).any():
            raise ReadError(f"{self.path}, {quoted(self.label)} has empty cells: fill them")
        names: dict[Any, int] = {}
        codes = [names.setdefault(value, len(names)) for value in np.broadcast_to(values, shape).ravel().tolist()]
        if np.array(list(names)).dtype.kind not in "biufU":
            raise ReadError(
                f"{self.path}, {quoted(self.label)} contains {quoted(next(iter(names)))}: pass numbers or text as "
                "labels"
            )
        return np.array(codes, np.intp), list(names)


def _marks(path: str, data: Any, label: str | None) -> _Marks:
    inside = {str(name): data[name] for name in (*data.coords, *getattr(data, "data_vars", ()))}
    name = "label" if label is None and "label" in inside else label
    if name is not None and name not in inside:
        raise ReadError(
            f"{path} has no variable {quoted(name)}, only {', '.join(inside)[:200]}: name the variable with label=…"
        )
    return _Marks(path, name, None if name is None else inside[name])


def _of_array(
    path: str, array: Any, axis: str, id: str | None
) -> tuple[NDArray[np.float64], str | None, tuple[str, ...] | None]:
    """Return (sequences, time steps, channels), the dimension of the sequences, and the names of the channels."""
    series, channels = _sides(path, array.dims, axis, id)
    values = np.asarray(array.transpose(*(name for name in (series, axis, channels) if name is not None)).values)
    if values.dtype.kind not in "biuf":
        raise ReadError(
            f"{path} has dtype {values.dtype} and contains no numbers: convert it, or choose other variables with "
            "columns=[…]"
        )
    block = values.astype(np.float64)
    block = block[None] if series is None else block
    if channels is None:
        return block[..., None], series, None if array.name is None else (str(array.name),)
    named = channels in array.coords
    return block, series, tuple(map(str, array.coords[channels].values.tolist())) if named else None


def _of_variables(
    path: str, variables: dict[str, Any], axis: str, id: str | None, columns: Sequence[str] | None
) -> tuple[NDArray[np.float64], str | None, tuple[str, ...] | None]:
    """Return the variables as channels, of the same dimensions; a single one may have channels itself."""
    if len(variables) == 1:
        ((name, array),) = variables.items()
        return _of_array(f"{path}, variable {name!r}", array, axis, id)
    if columns is not None:
        variables = {name: array for name, array in variables.items() if name in set(map(str, columns))}
    if not variables:
        raise ReadError(f"{path} has no variables that are channels: name some with columns=[…]")
    first, dims = next((name, array.dims) for name, array in variables.items())
    for name, array in variables.items():
        if axis not in array.dims or set(array.dims) != set(dims):
            shown, others = (", ".join(map(str, some)) or "none" for some in (array.dims, dims))
            raise ReadError(
                f"{path}, variable {quoted(name)} has other dimensions ({shown}) than {quoted(first)} ({others}): "
                "choose the channels with columns=[…], or name the label with label=…"
            )
    others = [name for name in dims if name != axis]
    series, channels = _sides(path, dims, axis, id if id is not None or len(others) != 1 else _series(others[0]))
    if channels is not None:
        raise ReadError(f"{path} has several variables and the dimension {quoted(channels)}: pass one variable")
    blocks = [_of_array(f"{path}, variable {name!r}", array, axis, series)[0] for name, array in variables.items()]
    return np.concatenate(blocks, axis=2), series, tuple(variables)


def _series(dimension: Any) -> str | None:
    """Return the dimension of the sequences if variables are the channels; None if the dimension names channels."""
    return None if str(dimension).lower() in _CHANNELS else dimension


def _sides(path: str, dims: Iterable[Any], axis: str, id: str | None) -> tuple[str | None, str | None]:
    """Return the dimensions of the sequences and of the channels."""
    others = [name for name in dims if name != axis]
    shown = ", ".join(repr(str(name)) for name in others)[:200] or "none"
    if axis not in dims or len(others) > 2:
        found = ", ".join(map(str, dims))[:200] or "none"
        raise ReadError(
            f"{path} has the dimensions {found}: keep {quoted(axis)}, one dimension for sequences and one for channels"
        )
    if id is not None and id not in others:
        raise ReadError(
            f"{path} has no dimension {quoted(id)}; its dimensions other than {quoted(axis)} are {shown}: pass the "
            "dimension of the sequences as id=…"
        )
    series = [id] if id is not None else [name for name in others if str(name).lower() in _SERIES]
    channels = [name for name in others if name not in series and str(name).lower() in _CHANNELS]
    unknown = [name for name in others if name not in (*series, *channels)]
    if len(unknown) == 1 and len(others) == 2:  # the other one says what it is
        (channels if series else series).extend(unknown)
        unknown = []
    if unknown or len(series) > 1 or len(channels) > 1:
        remedy = "name the dimension of the sequences with id=…, or rename the dimension of the channels to 'channel'"
        raise ReadError(f"{path} has dimensions for sequences or channels whose roles are unknown, {shown}: {remedy}")
    return (series or [None])[0], (channels or [None])[0]


def _selected(
    path: str, block: NDArray[np.float64], names: tuple[str, ...] | None, columns: Sequence[str]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    have = tuple(map(str, range(block.shape[2]))) if names is None else names
    try:
        wanted = matching(have, columns)
    except LookupError as error:
        shown = ", ".join(have[:10])[:200]
        raise ReadError(
            f"{path} has no channel {quoted(error.args[0])}, only {shown}: select channels with columns=…"
        ) from None
    return block[:, :, wanted], tuple(have[j] for j in wanted)


def _coordinate(path: str, axis: str, values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
    """Return the times, and whether they were dates or times, which become seconds."""
    if values.dtype.kind in "Mm":
        return seconds(values), True
    if values.dtype.kind not in "biuf":
        raise ReadError(f"{path}, coordinate {quoted(axis)} has dtype {values.dtype}: convert it to numbers or dates")
    return values.astype(np.float64), False
