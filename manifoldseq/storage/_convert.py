"""Sequences from files and from other conventions; windows and scaling."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from .. import hooks
from .._quoted import quoted
from ..hooks._registry import first_origin
from ._data import SequenceData, check_steps
from ._limits import INFLATION, FilePath, ReadError, inflation_limit, naming
from ._padding import without_padding
from ._real import check_real, real_dtype


def read(
    path: FilePath,
    *,
    missing: str = "keep",
    reader: str | None = None,
    inflation: float = INFLATION,
    **options: Any,
) -> SequenceData:
    """Read a file or folder with the reader registered for its name.

    Parameters
    ----------
    path : str or path-like
        The name selects the reader, ignoring case: ``*.npz``, ``*.ts``, …; a folder ends with ``/``. If several readers
        match, the longest pattern is used. Among patterns of equal length, the order is: records given to
        `manifoldseq.register`, records of the core, records of bundled plugins.
    missing : {"keep", "linear"}
        Whether missing values stay NaN or are interpolated, see `interpolate`.
    reader : str, optional
        The registered name of a reader. This reader is used for any file name.
    inflation : float
        The number of additional bytes that a compressed file may take in memory, compared with its size on disk; see
        `inflation_limit`.
    **options
        Passed to the reader, such as ``variable=`` of `read_mat` or ``id=`` of `read_csv`.

    Returns
    -------
    SequenceData
        The sequences. If series of equal length end with missing values in every channel, these values are removed as
        padding, with a warning.

    Raises
    ------
    ReadError
        If no reader accepts the name (the message lists the patterns) or the option, if several third-party readers
        accept it, or if the file is invalid.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> read("walk.xyz")
    Traceback (most recent call last):
    ...
    FileNotFoundError: the file or folder walk.xyz does not exist
    """
    if missing not in ("keep", "linear"):
        raise ReadError(f"{path}: missing={quoted(missing)} is not valid: choose 'keep' or 'linear'")
    with inflation_limit(inflation):
        data = _call(path, reader_of(path, reader), options)
    data, padded = without_padding(data)
    if padded:
        warnings.warn(f"{path} {padded}", stacklevel=2)
    if missing == "keep":
        return data
    with naming(path):
        return interpolate(data)


def reader_of(path: FilePath, reader: str | None = None) -> hooks.ReaderSpec:
    """Return the reader with a name, or the reader for a file or folder; raise as `read` does."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"the file or folder {path} does not exist")
    if reader is not None:
        try:
            return hooks.get_reader(reader)
        except ValueError as error:
            raise ReadError(f"{path}: {error}") from error
    name = file.name.lower() + "/" * file.is_dir()
    readers = [(plugin, cast(hooks.ReaderSpec, record)) for plugin, record in hooks.records("readers")]
    lengths = [max((len(one) for one in reader.patterns if fnmatchcase(name, one)), default=0) for _, reader in readers]
    if not any(lengths):
        known = ", ".join(sorted({pattern for _, spec in readers for pattern in spec.patterns}))
        raise ReadError(f"{path}: no reader accepts this name: rename or convert the file to one of {known}")
    chosen = first_origin([one for one, length in zip(readers, lengths, strict=True) if length == max(lengths)])
    if len({plugin.name for plugin, _ in chosen}) > 1:
        raise ReadError(
            f"{path}: {' and '.join(f'plugin {plugin.name!r}' for plugin, _ in chosen)} have a reader for this name: "
            "name one of them in MANIFOLDSEQ_DISABLE_PLUGINS, or register the reader to be used with "
            "manifoldseq.register"
        )
    return chosen[0][1]


def options_of(reader: hooks.ReaderSpec) -> list[str]:
    """Return the names of the options of a reader."""
    from inspect import signature

    return [name for name in signature(cast(Any, reader.resolved().factory)).parameters if name != "path"]


def _call(path: FilePath, reader: hooks.ReaderSpec, options: dict[str, Any]) -> SequenceData:
    function = cast(Any, reader.resolved().factory)
    if options:
        known = options_of(reader)
        if unknown := [name for name in options if name not in known]:
            have = f"its options are {', '.join([*known, 'missing', 'inflation'])}"
            raise ReadError(f"{path}: the reader {quoted(reader.name)} has no option {quoted(unknown[0])}: {have}")
    return function(path, **_as_declared(function, options))


def _as_declared(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return options in the types that a reader declares, because a command line has only text and numbers."""
    try:
        hints = get_type_hints(function)
    except Exception:  # what a plugin says of its types may be found by type checkers only
        return options
    found = dict(options)
    for name, value in options.items():
        hint = hints.get(name)
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        plain = [get_origin(kind) or kind for kind in kinds]
        lists = [kind for kind, of in zip(kinds, plain, strict=True) if of in (Sequence, list, tuple)]
        if lists and str not in plain and value is not None:
            if isinstance(value, str):
                value = [part.strip() for part in value.split(",")]
            elif isinstance(value, int | float):
                value = [value]
            found[name] = [str(one) for one in value] if get_args(lists[0])[:1] == (str,) else value
        elif str in plain and type(value) in (int, float) and type(value) not in plain:
            found[name] = str(value)
    return found


def from_aeon(X: Any, y: ArrayLike | None = None) -> SequenceData:
    """Convert a collection in aeon's convention, channels first.

    Parameters
    ----------
    X : ndarray of shape (N, d, T), or list of ndarray of shape (d, T_i)
    y : array-like of shape (N,), optional
        Labels.

    Returns
    -------
    SequenceData

    Raises
    ------
    ValueError
        If a case is not two-dimensional, or y has another length.

    Examples
    --------
    >>> [x.shape for x in from_aeon(np.zeros((2, 3, 50))).sequences]
    [(50, 3), (50, 3)]
    """
    cases = [np.asarray(check_real(x, f"case {i}")) for i, x in enumerate(X)]
    for i, x in enumerate(cases):
        if x.ndim != 2:
            raise ValueError(f"case {i} has shape {x.shape}: pass (d, T) arrays, channels first")
    return SequenceData([x.T for x in cases], y)


def from_lengths(X: ArrayLike, lengths: ArrayLike, y: ArrayLike | None = None) -> SequenceData:
    """Split the rows of one array into sequences, as hmmlearn stores them.

    Parameters
    ----------
    X : array-like of shape (sum of lengths, d)
        The concatenated sequences.
    lengths : array-like of int of shape (N,)
        The lengths of the sequences, in order.
    y : array-like of shape (N,), optional
        Labels.

    Returns
    -------
    SequenceData

    Raises
    ------
    ValueError
        If the lengths are not positive whole numbers that add up to the number of rows.

    Examples
    --------
    >>> [x.shape for x in from_lengths(np.zeros((5, 2)), [3, 2]).sequences]
    [(3, 2), (2, 2)]
    """
    rows = np.asarray(check_real(X))
    rows = rows.astype(real_dtype(rows.dtype), copy=False)
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}: pass the concatenated sequences, (sum of lengths, d)")
    counts = np.asarray(lengths)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise ValueError("lengths are not positive whole numbers: pass the number of time steps of each sequence")
    total = sum(counts.tolist())
    if total != len(rows):
        raise ValueError(f"lengths add up to {total} but X has {len(rows)} rows: correct one of them")
    return SequenceData(np.split(rows, np.cumsum(counts)[:-1]), y)


def interpolate(data: SequenceData) -> SequenceData:
    """Interpolate missing values linearly between the neighbouring recorded values, channel by channel.

    At the ends the nearest recorded value is repeated. Estimators with a parameter ``missing`` accept missing values
    and replace them by the expectations of their model.

    Parameters
    ----------
    data : SequenceData

    Returns
    -------
    SequenceData
        New arrays for sequences with missing values; `data` is not changed.

    Raises
    ------
    ValueError
        If a channel of a sequence has no recorded value.

    Examples
    --------
    >>> nan = float("nan")
    >>> interpolate(SequenceData([[[nan], [1.0], [nan], [2.0]]])).sequences[0].ravel().tolist()
    [1.0, 1.0, 1.5, 2.0]
    """
    check_steps(data)
    filled = []
    for name, x in zip(data.ids, data.sequences, strict=True):
        holes = np.isnan(x)
        if holes.any():
            if empty := np.flatnonzero(holes.all(axis=0)).tolist():
                channel = empty[0] if data.channel_names is None else data.channel_names[empty[0]]
                raise ValueError(
                    f"sequence {quoted(name)} has no recorded value of channel {channel}: remove the sequence"
                )
            steps = np.arange(len(x))
            columns = [np.interp(steps, steps[~hole], x[~hole, j]) for j, hole in enumerate(holes.T)]
            x = np.column_stack(columns).astype(x.dtype, copy=False)
        filled.append(x)
    return replace(data, sequences=filled)


def windows(data: SequenceData | ArrayLike, length: int, step: int | None = None) -> SequenceData:
    """Cut long recordings into windows of equal length.

    Parameters
    ----------
    data : SequenceData, or array-like of shape (T, d) or (T,)
        Recordings; each window inherits the label of its recording.
    length : int
        Time steps of a window.
    step : int, optional
        Distance between the starts of consecutive windows. The default is `length`, so that windows do not overlap.
        Remaining steps at the end are dropped.

    Returns
    -------
    SequenceData
        Windows of shape (length, d), in order; views of the recordings, not copies. Their ids give the recording and
        the time steps: ``"walk.npy[0:100]"``.

    Raises
    ------
    ValueError
        If length or step is not positive, or a recording is shorter than a window.

    Examples
    --------
    >>> recording = np.arange(10.0)
    >>> [x[:, 0].tolist() for x in windows(recording, 4, step=3).sequences]
    [[0.0, 1.0, 2.0, 3.0], [3.0, 4.0, 5.0, 6.0], [6.0, 7.0, 8.0, 9.0]]
    """
    if isinstance(data, SequenceData):
        check_steps(data)
    step = length if step is None else step
    if length < 1 or step < 1:
        raise ValueError(f"length={length} and step={step} are not both positive: pass positive whole numbers")
    data = data if isinstance(data, SequenceData) else SequenceData([_recording(data)])
    cut, ids, origin = [], [], []
    for i, x in enumerate(data.sequences):
        if len(x) < length:
            raise ValueError(f"sequence {i} has {len(x)} time steps, fewer than one window of {length}: remove it")
        starts = range(0, len(x) - length + 1, step)
        cut += [x[start : start + length] for start in starts]
        ids += [f"{data.ids[i]}[{start}:{start + length}]" for start in starts]
        origin += [i] * len(starts)
    labels = None if data.labels is None else data.labels[origin]
    return replace(data, sequences=cut, labels=labels, ids=ids, order=None)


def _recording(data: ArrayLike) -> Any:
    array = np.asarray(check_real(data, "data"))
    return array[:, None] if array.ndim == 1 else array


def scale(data: SequenceData, mode: str = "standard", *, like: SequenceData | None = None) -> SequenceData:
    """Scale each channel, by one shift and one factor for all sequences and times.

    Missing values are excluded from the statistics and stay missing. A constant channel is only shifted.

    Parameters
    ----------
    data : SequenceData
    mode : {"standard", "minmax", "robust"}
        Scale to mean 0 and (population) standard deviation 1, to the range from 0 to 1, or to median 0 and
        interquartile range 1.
    like : SequenceData, optional
        Other sequences (training data) from which the statistics are computed.

    Returns
    -------
    SequenceData
        New sequences; `data` is not changed.

    Raises
    ------
    ValueError
        If the mode is unknown, the numbers of channels differ, or a channel has no finite value.

    Examples
    --------
    >>> data = SequenceData([[[0.0], [2.0]], [[4.0]]])
    >>> [x.ravel().tolist() for x in scale(data, "minmax").sequences]
    [[0.0, 0.5], [1.0]]
    """
    check_steps(data)
    if mode not in ("standard", "minmax", "robust"):
        raise ValueError(f"mode={quoted(mode)} is not valid: choose 'standard', 'minmax' or 'robust'")
    source = data if like is None else like
    channels = {x.shape[1] for x in [*data.sequences, *source.sequences]}
    if len(channels) != 1:
        raise ValueError(f"sequences have {sorted(channels)} channels: pass sequences with the same channels")
    shift, factor = _statistics(source.sequences, mode)
    # in the dtype of the data; the statistics are those of float64
    return replace(data, sequences=[((x - shift) / factor).astype(x.dtype, copy=False) for x in data.sequences])


def _statistics(sequences: Sequence[Any], mode: str) -> tuple[Any, Any]:
    rows = np.concatenate(sequences).astype(np.float64, copy=False)
    rows = np.where(np.isfinite(rows), rows, np.nan)
    if empty := np.flatnonzero(np.isnan(rows).all(axis=0)).tolist():
        raise ValueError(f"channel {empty[0]} has no finite value: remove it")
    if mode == "standard":
        shift, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    elif mode == "minmax":
        shift = np.nanmin(rows, axis=0)
        spread = np.nanmax(rows, axis=0) - shift
    else:
        low, shift, high = np.nanquantile(rows, (0.25, 0.5, 0.75), axis=0)
        spread = high - low
    return shift, np.where(spread > 0, spread, 1.0)
