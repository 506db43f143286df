"""DATA on the command line: the name of a data set, or a file or folder that a registered reader knows."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from .. import hooks
from ..estimators import check_sequences
from ..storage import ReadError, SequenceData, load_array, read, read_bytes
from ..storage.readers._clock import rises_alike, says_time
from ._shared import BadInput


def load_data(data: str, options: Mapping[str, Any], *, missing: bool = False) -> SequenceData:
    """Read the file or folder of that name if there is one, with options of its reader, else load the data set.

    Raises
    ------
    BadInput
        If there is neither, or it cannot be read, or a sequence is empty or has an infinite value, or one that is
        missing where `missing` values are not asked for.
    """
    try:
        if Path(data).exists():
            loaded = read(Path(data), **options)
        elif options:
            raise BadInput(f"--read sets options for reading a file, but there is no file or folder {data}")
        else:
            loaded = hooks.get_dataset(data).loader()
        check_sequences([np.where(np.isnan(x), 0.0, x) for x in loaded.sequences])  # NaN goes on to the estimator
    except hooks.UnknownName as error:
        raise BadInput(f"{data!r} is neither a file or folder nor a data set: {error}") from error
    except ReadError as error:
        raise BadInput(str(error)) from error
    except (ValueError, ImportError, OSError) as error:
        raise BadInput(f"{data}: {error}") from error
    if not missing and (where := first_missing(data, loaded)):
        raise BadInput(f"{where} is missing: interpolate by --read missing=linear")
    return loaded


def takes_missing(model: Any) -> bool:
    """Return whether an estimator, as it is set, takes missing values."""
    from sklearn.utils import get_tags

    tagged = hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.allow_nan
    return bool(tagged) or getattr(model, "missing", "error") != "error"


def first_missing(source: str, data: SequenceData) -> str:
    """Return where the first missing value is, in the words of the files, or nothing if none is missing."""
    for name, x in zip(data.ids, data.sequences, strict=True):
        if np.isnan(x).any():
            t, channel = np.argwhere(np.isnan(x))[0].tolist()
            column = f"column {channel}" if data.channel_names is None else f"column {data.channel_names[channel]}"
            path = Path(source)
            where = f"{path / name}" if path.is_dir() else f"{source}, {name}" if len(data) > 1 else source
            return f"{where}, {column}, t = {t}"
    return ""


def advice_on_missing(name: str, kind: str) -> str:
    """Return what to type so that missing values are taken: an option of this estimator, of the reader, of others."""
    takers = []
    for _, record in hooks.records("estimators"):
        with suppress(Exception):  # of a plugin that is broken, or of an extra that is not there
            made: Any = hooks.get_record(hooks.EstimatorSpec, record.name)
            if made.input == kind and "missing" in made.factory().get_params(deep=False):
                takers.append(record.name)
    if name in takers:
        return "use --set missing=smooth, or interpolate by --read missing=linear"
    others = f", or fit {' or '.join(takers)} with --set missing=smooth" if takers else ""
    return f"interpolate by --read missing=linear{others}"


def load_labels(path: Path, data: SequenceData, kind: str) -> np.ndarray:
    """Read one label per line, or a ``.npy`` array: one for each sequence, or, of ``"samples"``, for each row."""
    try:
        labels = load_array(path) if path.suffix == ".npy" else np.array(read_bytes(path).decode().splitlines())
    except ReadError as error:
        raise BadInput(str(error)) from error
    except (ValueError, OSError) as error:
        raise BadInput(f"{path} holds no labels: {error}") from error
    n, n_rows = len(data), sum(map(len, data.sequences))
    if labels.shape != (n,) and not (kind == "samples" and labels.shape == (n_rows,)):
        what = f"{n_rows} rows" if kind == "samples" else f"{n} sequences"
        raise BadInput(f"{path} holds labels of shape {labels.shape} for {what}: give one label each")
    return labels


def absolute(data: str) -> str:
    """Return what names the same data in every folder."""
    return str(Path(data).resolve()) if Path(data).exists() else data


def as_input(
    kind: str, data: SequenceData, labels: np.ndarray | None, views: tuple[int, ...] = ()
) -> tuple[Any, np.ndarray | None]:
    """Return X and y for an estimator of sequences, of their rows (``"samples"``), or of views of either.

    Views of the rows are ``"views"``; those of the sequences, each a list of arrays, are ``"bags"``.
    """
    if kind == "sequences":
        return data.sequences, labels
    if kind == "bags":
        parts = [np.split(sequence, np.cumsum(views)[:-1], axis=1) for sequence in data.sequences]
        return [list(view) for view in zip(*parts, strict=True)], labels
    rows = np.concatenate(data.sequences)
    if labels is not None and len(labels) < len(rows):
        labels = np.repeat(labels, [len(sequence) for sequence in data.sequences])
    return np.split(rows, np.cumsum(views)[:-1], axis=1) if kind == "views" else rows, labels


def view_sizes(kind: str, views: str | None, data: SequenceData) -> tuple[int, ...]:
    """Return the columns of each view from ``"76,216"``; none for an estimator of anything else."""
    if kind not in ("views", "bags"):
        if views is not None:
            raise BadInput(f"--views {views}: the estimator takes {kind}, leave it out")
        return ()
    columns = data.sequences[0].shape[1]
    if views is None:
        raise BadInput(f"the estimator takes views: share the {columns} columns out, such as --views 1,{columns - 1}")
    parts = [part.strip() for part in views.split(",")]
    sizes = tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else ()
    if not sizes or min(sizes) < 1 or sum(sizes) != columns:
        raise BadInput(f"--views {views}: give the columns of each view, whole numbers of sum {columns}")
    return sizes


def member_ids(kind: str, data: SequenceData) -> list[str]:
    """Return the id of each sequence or bag, or, for samples and views, that of the sequence of each row."""
    if kind in ("sequences", "bags"):
        return list(data.ids)
    return [name for name, sequence in zip(data.ids, data.sequences, strict=True) for _ in sequence]


def remarks(source: str, data: SequenceData) -> list[str]:
    """Return a line for what was taken as the clock of a table, and for channels that may be one."""
    said = []
    if data.clocks:
        names = " and ".join(map(repr, data.clocks))
        one = len(data.clocks) == 1
        said = [f"{'column' if one else 'columns'} {names}: taken as the clock, no channel (else: --read time=none)"]
    path = Path(source)
    if data.channel_names is None or not (path.is_dir() or path.suffix.lower() in (".csv", ".parquet")):
        return said
    for j, name in enumerate(data.channel_names):
        if says_time(name):
            said.append(f"column {name!r}: a channel, no clock (else: --read time={name})")
        elif rises_alike(data.sequences, j):
            said.append(f"column {name!r}: a channel, though it rises as a clock does (else: --read time={name})")
    return said


def describe(data: SequenceData, labels: np.ndarray | None, kind: str = "sequences") -> str:
    """Return one line about the data, as an estimator of this kind sees it."""
    lengths = [len(sequence) for sequence in data.sequences]
    classes = "" if labels is None else f", {len(np.unique(labels))} classes"
    if kind in ("samples", "views"):
        return f"{sum(lengths)} rows of {data.sequences[0].shape[1]} columns{classes}"
    spread = f"{min(lengths)}" if min(lengths) == max(lengths) else f"{min(lengths)} to {max(lengths)}"
    return f"{len(lengths)} sequences of {spread} steps, {data.sequences[0].shape[1]} channels{classes}"


def fingerprint(data: SequenceData | None, labels: np.ndarray | None, settings: Any) -> str:
    """Return a digest of everything that a resumed run must have in common with the one before."""
    digest = sha256(repr(settings).encode())
    for sequence in () if data is None else data.sequences:
        digest.update(repr(sequence.shape).encode())
        digest.update(sequence.tobytes())
    digest.update(b"" if labels is None else "\0".join(map(str, labels.tolist())).encode())
    return digest.hexdigest()
