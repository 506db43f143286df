"""DATA on the command line: names of data sets, or files and folders that a registered reader knows."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.sparse import issparse

from .. import hooks
from .._quoted import quoted
from ..estimators import check_sequences
from ..evaluation._tasks import counted
from ..hooks._lookup import named
from ..storage import ReadError, SequenceData, load_array, read, read_bytes, require_memory
from ..storage._convert import options_of, reader_of
from ..storage._numpy_files import in_one, release
from ..storage.readers._clock import rises_alike, says_time
from ..storage.readers._csv import header_of
from ..storage.readers._directory import listed_labels, names_of, sequence_files
from ..storage.readers._parquet import parquet_header
from ..storage.readers._text import Text, read_cells
from ._plugin_files import absolute_name, asked_name
from ._settings import known_settings
from ._shared import BadInput
from ._views import (
    Columns,
    all_columns,
    by_place,
    chosen_columns,
    example,
    named_columns,
    paired,
    remembered,
    same_columns,
    shown,
)

_OF_VIEWS = ("views", "bags")
_TABLES = (".csv", ".tsv", ".txt", ".parquet")
_BY_ROW = ("samples", "views")


@dataclass(frozen=True)
class Loaded:
    """DATA in the form that an estimator accepts.

    Parameters
    ----------
    kind : {"sequences", "samples", "views", "bags"}
        The kind of input of the estimator, as in its record.
    parts : tuple of SequenceData
        The data of each view, with the same members in the same order; a single entry without views.
    memory : dict
        The columns and files of the views, see `remembered`.
    remarks : tuple of str
        Remarks about time columns and the pairing of members.
    sources : tuple of str
        The names of the files, folders or data sets, as given.
    options : mapping
        Options of the reader, as given.
    """

    kind: str
    parts: tuple[SequenceData, ...]
    memory: dict[str, Any]
    remarks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> SequenceData:
        """Ids, labels and lengths, which are common to all views."""
        return self.parts[0]

    @property
    def names(self) -> list[list[str]] | None:
        """The column names of each view, or None if a view has no names."""
        if any(part.channel_names is None for part in self.parts):
            return None
        return [list(part.channel_names or ()) for part in self.parts]

    def in_names(self, message: str) -> str:
        """Return an error message with files or ids for "sequence N", and names for "column N of view V"."""
        if self.kind == "views" and self.names is not None:
            views = self.names
            return re.sub(
                r"\bcolumn ([0-9]+) of view ([0-9]+)\b",
                lambda match: f"column {str(views[int(match[2])][int(match[1])])!r} of view {match[2]}",
                message,
            )
        if self.kind not in ("sequences", "bags") or self.data.numbered:
            return message

        def name(match: re.Match[str]) -> str:
            i = int(match[1])
            return match[0] if i >= len(self.data) else _member(self.sources, self.data.ids[i])

        return re.sub(r"\bsequence ([0-9]+)\b", name, message)

    def release(self) -> None:
        """Release the memory of arrays that are on disk."""
        for part in self.parts:
            for x in part.sequences:
                release(x)


def load_data(
    sources: Sequence[str],
    options: Mapping[str, Any],
    kind: str = "sequences",
    *,
    name: str = "this",
    views: str | None = None,
    run: tuple[str, Mapping[str, Any]] | None = None,
    advice: Callable[[], str] | None = None,
) -> Loaded:
    """Read data with options of the reader, in the form that an estimator or model accepts.

    Parameters
    ----------
    sources : sequence of str
        Names of files or folders, or else of data sets. Several sources are one view each.
    options : mapping
    kind : {"sequences", "samples", "views", "bags"}
    name : str
        Name of the estimator or model, for messages.
    views : str, optional
        ``--views``.
    run : (str, mapping), optional
        A run directory and the `Loaded.memory` of its fit: the same columns are used.
    advice : callable, optional
        A function that returns the end of the error message about a missing value. None: missing values are accepted.

    Raises
    ------
    BadInput
        If a name is unknown or cannot be read, if a sequence is empty or has an infinite value, if a value is missing
        and missing values are not accepted, or if columns or members of views do not match.
    """
    _check_number(name, kind, sources, views)
    names = partial(named_columns, views, run and run[1], len(sources))
    files = [_load_one(source, options, kind, partial(names, i)) for i, source in enumerate(sources)]
    for source, data in zip(sources, files, strict=True):
        if kind != "samples" and any(map(issparse, data.sequences)):
            raise BadInput(
                f"{source} contains a sparse matrix, but {name} requires {kind}: fit {_takers_of_sparse()} to it"
            )
    remarks = [line for source, data in zip(sources, files, strict=True) for line in _remarks(source, data)]
    columns = _columns(sources, files, kind, name, views, run, missing=advice is None)
    memory = remembered(files, [one for one in columns if one is not None]) if run is None or views else dict(run[1])
    if run is not None and (said := by_place(run[1], columns)):
        remarks.append(said)
    there = [one for one in columns if one is not None]
    parts = [one.of(files[one.file]) for one in there]
    for one, part in zip(there, parts, strict=True):
        _check_values(sources[one.file], part, kind, advice)
    if len({one.file for one in there}) > 1:
        if kind == "views":
            _check_order(sources, parts, [one.file for one in there])
        parts, said = paired([sources[one.file] for one in there], parts, by_row=kind == "views", advice=advice)
        remarks.append(said)
    if len(there) < len(columns) and run is not None:
        parts, said = _with_absent(parts, columns, run[1])
        remarks.append(said)
    return Loaded(kind, tuple(parts), memory, tuple(remarks), tuple(sources), options)


def _columns(
    sources: Sequence[str],
    files: Sequence[SequenceData],
    kind: str,
    name: str,
    views: str | None,
    run: tuple[str, Mapping[str, Any]] | None,
    *,
    missing: bool,
) -> Sequence[Columns | None]:
    """Return the columns of each view from the options, the run or the files; None for a missing view."""
    if views is not None:
        chosen = chosen_columns(views, sources, files)
        if kind == "views" and len(chosen) == 1 and not views.strip().isdecimal():
            raise BadInput(
                f"--views {views} is one view, but {name} needs two or more: separate views by a colon, as in a,b:c"
            )
        return chosen
    if run is not None:
        return same_columns(run[1], run[0], sources, files, missing=missing)
    if kind not in _OF_VIEWS or len(files) > 1:
        return [all_columns(i, data) for i, data in enumerate(files)]
    width = files[0].sequences[0].shape[1]
    raise BadInput(
        f"{name} needs views: assign the {width} columns to views, such as --views 1,{width - 1} or --views "
        f"{example(files[0])}, or pass one file per view"
        if width > 1
        else f"{name} needs views, but {sources[0]} has one column: pass one file per view"
    )


def _check_values(source: str, part: SequenceData, kind: str, advice: Callable[[], str] | None) -> None:
    """Raise BadInput for infinite values, and for missing values if the estimator does not accept them."""
    if where := _first(np.isinf, source, part, kind):
        raise BadInput(
            f"{where} is infinite: clip the value, or leave the cell empty (NaN in an array) if it is missing"
        )
    if advice is not None and (where := _first(np.isnan, source, part, kind)):
        raise BadInput(f"{where} is missing{advice()}")


def _check_number(name: str, kind: str, sources: Sequence[str], views: str | None) -> None:
    """Raise BadInput for views if the estimator does not support them, and for a file that is named twice."""
    if kind in _OF_VIEWS:
        places = [Path(source).resolve() if Path(source).exists() else source for source in sources]
        if twice := [source for i, source in enumerate(sources) if places[i] in places[:i]]:
            raise BadInput(f"{twice[0]} is given twice: pass it once, and assign its columns to views by --views")
        return
    if len(sources) == 1 and views is None:
        return
    able = ", ".join(sorted(name for name, one in named("estimators") if getattr(one, "input", "") in _OF_VIEWS))
    of_views = f"; multi-view estimators are {able}" if able else ""
    if views is not None:
        raise BadInput(f"{name} requires {kind}, not views: remove the option --views {views}{of_views}")
    together = "put them into one folder and pass the folder" if kind == "sequences" else "join them into one file"
    raise BadInput(f"{name} requires {kind} from one file, but {len(sources)} files are given: {together}{of_views}")


def _load_one(
    source: str, options: Mapping[str, Any], kind: str, names: Callable[[Sequence[str]], list[str]]
) -> SequenceData:
    """Read a file or load a data set; `names` are the columns of a table that are requested by name."""
    if not source:
        raise BadInput("DATA is an empty string: pass a file, a folder or the name of a data set")
    try:
        if Path(source).exists():
            chosen = {**_defaults(source, kind, options.get("reader")), **options}
            try:
                return _read(source, chosen)
            except ReadError:  # what is not asked for may hold text
                if found := names(_header(source, chosen)):
                    with suppress(ReadError):
                        return _read(source, {**chosen, "channels": found})
                raise
        if options:
            raise BadInput(
                f"--read sets options for reading files, but the file or folder {source} does not exist: correct the "
                "path, or remove --read to load a data set by name"
            )
        loaded = hooks.get_dataset(asked_name(source, "datasets")).loader()
        dense = [x for x in loaded.sequences if not issparse(x)]
        check_sequences([np.zeros_like(x[:1]) for x in dense])  # their shapes, as readers of files do
        return loaded
    except hooks.UnknownName as error:
        said = str(error).removeprefix(f"unknown dataset {quoted(source)}: ")
        raise BadInput(f"{quoted(source)} is neither a file or folder nor the name of a data set: {said}") from error
    except ReadError as error:
        said = str(error)
        more = " (pass such options as --read NAME=VALUE)" if _OPTION.search(said) and "--read" not in said else ""
        raise BadInput(said + more) from error
    except (ValueError, ImportError, OSError) as error:
        raise BadInput(f"{source}: {error}") from error


_OPTION = re.compile(r"\b[a-z_]+=(…|None|\[)")
"""An option of a reader in a message, as it is written in Python."""


def _read(source: str, options: Mapping[str, Any]) -> SequenceData:
    """Read a file or folder; warnings become lines on the terminal."""
    with _warnings_as_lines():
        return read(Path(source), **options)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)


def _header(source: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of the channels of a table, or of the first table in a folder; None for other files."""
    file = sequence_files(source)[0][0][0] if Path(source).is_dir() else Path(source)
    suffix = file.suffix.lower()
    if not file.is_file() or suffix not in _TABLES or "channels" in options or "reader" in options:
        return []
    text = Text(**{option.name: options[option.name] for option in fields(Text) if option.name in options})
    header = parquet_header(file) if suffix == ".parquet" else header_of(file, text)
    taken = {"id", "label"} | {options.get(option) for option in ("id", "label", "time")}
    return [name for name in header if name not in taken]


def _defaults(source: str, kind: str, reader: str | None) -> dict[str, Any]:
    """Return options of a reader of tables: samples and views need no time axis and no ids, and bags no time axis."""
    wanted = {"samples": {"id": "auto", "ordered": False}, "views": {"id": "auto", "ordered": False}}
    known = options_of(reader_of(source, reader))
    chosen = wanted.get(kind, {"ordered": False} if kind == "bags" else {})
    return {option: value for option, value in chosen.items() if option in known}


def _with_absent(
    parts: Sequence[SequenceData], columns: Sequence[Columns | None], memory: Mapping[str, Any]
) -> tuple[list[SequenceData], str]:
    """Return parts with NaN for each view that no file contains."""
    there = iter(parts)
    found, absent = [], []
    for v, one in enumerate(columns):
        if one is not None:
            found.append(next(there))
            continue
        names = memory["views"][v]["names"]
        empty = [np.full((len(x), len(names)), np.nan) for x in parts[0].sequences]
        labels, ids = parts[0].labels, parts[0].ids
        found.append(SequenceData(empty, labels, channel_names=names, ids=ids))
        absent.append(f"view {v} ({shown(names)}) is missing")
    return found, "; ".join(absent)


def takes_missing(model: Any, *, fitted: bool = False) -> bool:
    """Return whether an estimator accepts missing values, with its current settings or, if `fitted`, in its methods."""
    from sklearn.utils import get_tags

    settings = _missing(model)
    taken = any(value != "error" for value in settings.values())
    if settings and not fitted:
        return taken
    return taken or (hasattr(model, "__sklearn_tags__") and bool(get_tags(model).input_tags.allow_nan))


def check_sparse(name: str, model: Any, loaded: Loaded) -> None:
    """Raise BadInput if rows are sparse and the estimator does not declare that it accepts sparse rows."""
    from sklearn.utils import get_tags

    if not any(map(issparse, loaded.data.sequences)):
        return
    if not (hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.sparse):
        raise BadInput(
            f"{loaded.sources[0]} contains a sparse matrix, which {name} does not accept: fit {_takers_of_sparse()}, "
            "or "
            "save the rows as an array, numpy.savez(path, X=rows.toarray())"
        )


def _takers_of_sparse() -> str:
    """Return the names of the estimators that accept sparse rows."""
    from sklearn.utils import get_tags

    found = []
    for name, record in named("estimators"):
        with suppress(Exception):  # of a plugin that is broken, or of an extra that is not there
            made: Any = record.resolved()
            if made.input == "samples" and get_tags(made.factory()).input_tags.sparse:
                found.append(name)
    return " or ".join(filter(None, [", ".join(found[:-1]), *found[-1:]])) or "no estimators"


def _missing(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator and of its objects that select the treatment of missing values."""
    found = known_settings(type(model), model.get_params(deep=False))
    return {path: value for path, value in found.items() if path.rpartition(".")[2] == "missing"}


def _first(wrong: Callable[[np.ndarray], np.ndarray], source: str, data: SequenceData, kind: str) -> str:
    """Return the place of the first value of that kind in terms of the files, or None."""
    before = 0
    for name, x in zip(data.ids, data.sequences, strict=True):
        values: Any = x.data if issparse(x) else x
        if not _finite(x) and wrong(values).any():
            t, channel = _first_entry(wrong, x)
            column = f"column {channel}" if data.channel_names is None else f"column {data.channel_names[channel]}"
            path = Path(source)
            if kind in _BY_ROW and data.numbered:
                return f"{source}, row {before + t}, {column}"
            if kind in _BY_ROW and not path.is_dir():
                return f"{source}, id {name}, {column}" + (f", row {t}" if len(x) > 1 else "")
            where = f"{path / name}" if path.is_dir() else f"{source}, {name}" if len(data) > 1 else source
            return f"{where}, {column}, t = {t}"
        before += x.shape[0]
    return ""


def _first_entry(wrong: Callable[[np.ndarray], np.ndarray], x: Any) -> tuple[int, int]:
    """Return row and column of the first invalid value of an array, or of sparse rows."""
    if not issparse(x):
        t, channel = np.argwhere(wrong(x))[0].tolist()
        return t, channel
    at = int(np.flatnonzero(wrong(x.data))[0])
    return int(np.searchsorted(x.indptr, at, side="right")) - 1, int(x.indices[at])


def _member(sources: Sequence[str], name: str) -> str:
    """Return the name of a sequence in messages: its file, or its id and the table."""
    if len(sources) > 1:
        return f"id {name!r}"
    file = Path(sources[0]) / name  # of a folder whose files hold a column of ids it is not there
    return f"{file}" if Path(sources[0]).is_dir() and file.exists() else f"{sources[0]}, id {name!r},"


def _finite(x: np.ndarray) -> bool:
    """Return whether the sum of the values, and therefore every value, is finite, without additional memory."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(x.sum()))


def advice_on_missing(name: str, kind: str) -> str:
    """Return advice about missing values: options of this estimator, of the reader, or other estimators."""
    takers: dict[str, str] = {}
    for taker, record in named("estimators"):
        with suppress(Exception):  # of a plugin that is broken, or of an extra that is not there
            made: Any = record.resolved()
            if made.input == kind and (settings := list(_missing(made.factory()))):
                takers[taker] = f"--set {settings[0]}={'em' if kind == 'views' else 'smooth'}"
    fill = "fill the value, or remove the row" if kind in ("views", "bags") else "interpolate by --read missing=linear"
    if name in takers:
        return f"use {takers[name]}, or {fill}"
    direct = {other: setting for other, setting in takers.items() if "." not in setting.partition("=")[0]} or takers
    others = " or ".join(f"{other} with {setting}" for other, setting in direct.items())
    return f"{fill}{', or fit ' if others else ''}{others}"


def load_labels(path: Path, loaded: Loaded) -> np.ndarray:
    """Read one label per line, lines ``name,label``, or a ``.npy`` array.

    The file has one label for each sequence or, for samples and views, for each row in the order of the data.

    Raises
    ------
    BadInput
        If the file cannot be read, if the number of labels is wrong, or if lines contain unknown names.
    """
    try:
        labels = load_array(path) if path.suffix == ".npy" else np.array(read_bytes(path).decode().splitlines())
    except ReadError as error:
        raise BadInput(str(error)) from error
    except (ValueError, OSError) as error:
        raise BadInput(f"{path} holds no labels: {error}") from error
    if path.suffix != ".npy" and (named := _by_name(path, labels.tolist(), loaded)) is not None:
        return named
    n, by_row = len(loaded.data), loaded.kind in _BY_ROW
    n_rows = sum(x.shape[0] for x in loaded.data.sequences)
    if labels.shape != (n,) and not (by_row and labels.shape == (n_rows,)):
        many, one = (n_rows, "row") if by_row else (n, "sequence")
        raise BadInput(
            f"{path} contains labels of shape {labels.shape} for {many} {one}s: write one label for each {one}"
        )
    if not by_row or len(labels) != n_rows:
        return labels
    order = loaded.data.order
    return labels if order is None else labels[order]


def _by_name(path: Path, lines: list[str], loaded: Loaded) -> np.ndarray | None:
    """Return the labels of lines ``name,label``, None if the lines are the labels."""
    ids = list(dict.fromkeys(member_ids(loaded)))
    source, options = Path(loaded.sources[0]), loaded.options
    files = names_of(sequence_files(source)[0]) if source.is_dir() else []
    files += ids[len(files) :] if files else []  # what only other views have
    known = {*ids, *files, *(Path(name).stem for name in files)}
    lines = [line.strip() for line in lines if line.strip()]
    rows = [cells for _, cells in read_cells(path)] if lines else []
    pairs = bool(rows) and all(len(cells) == 2 for cells in rows)
    table = bool(rows) and len(rows[0]) > 2 and not loaded.data.numbered
    if (pairs or table) and not known.isdisjoint(cell for cells in rows for cell in (cells if table else cells[:1])):
        try:
            with _warnings_as_lines():
                return listed_labels(path, ids, files, id=options.get("id"), label=options.get("label"))
        except ReadError as error:
            raise BadInput(str(error)) from error
    heads = [re.split(r"[,;\s]", line, maxsplit=1)[0] for line in lines]
    begin = [head in known and head != line for head, line in zip(heads[1:], lines[1:], strict=True)]
    if begin and all(begin) and not loaded.data.numbered:
        raise BadInput(
            f"{path} has the line {quoted(lines[-1])}, which begins with a name: write name,label in each line"
        )
    if pairs and len({name for name, _ in rows}) == len(rows) > 1:
        raise BadInput(
            f"{path} has lines of two cells, such as {quoted(lines[-1])}, but the first cells are not names in the "
            f"data, such as {quoted(ids[0])}: write either name,label or only the label in each line"
        )
    return None


def _check_order(sources: Sequence[str], parts: Sequence[SequenceData], files: Sequence[int]) -> None:
    """Raise BadInput if rows are paired in order but only one file was sorted or grouped by id."""
    without = [sources[file] for part, file in zip(parts, files, strict=True) if part.numbered]
    for part, file in zip(parts, files, strict=True) if without else ():
        if part.order is not None:
            raise BadInput(
                f"the rows of {sources[file]} are not sorted by id or time, and {' and '.join(without)} "
                f"{'has' if len(without) == 1 else 'have'} no ids for pairing: add a column 'id' to each file"
            )


def absolute(sources: Sequence[str]) -> str | list[str] | None:
    """Return the name of data that is valid in every folder, for `run.toml`."""
    found = [str(Path(one).resolve()) if Path(one).exists() else absolute_name(one) for one in sources]
    return found if len(found) > 1 else found[0] if found else None


def listed(data: Any) -> tuple[str, ...]:
    """Return the names of data for `run.toml`."""
    return (data,) if isinstance(data, str) else tuple(data or ())


def as_input(loaded: Loaded, labels: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    """Return X and y in the form that an estimator of this kind of data accepts.

    X is a list of arrays for ``"sequences"``, an array of all rows for ``"samples"``, a list of arrays of rows for
    ``"views"``, and a list of lists of arrays for ``"bags"``.
    """
    if loaded.kind == "sequences":
        return loaded.data.sequences, labels
    if loaded.kind == "bags":
        return [part.sequences for part in loaded.parts], labels
    views = [_joined(part.sequences) for part in loaded.parts]
    if labels is not None and len(labels) < views[0].shape[0]:
        labels = np.repeat(labels, [sequence.shape[0] for sequence in loaded.data.sequences])
    return views if loaded.kind == "views" else views[0], labels


def _joined(sequences: list[np.ndarray]) -> np.ndarray:
    """Return all rows as one array, not copied if contiguous; arrays on disk are released after the copy."""
    if len(sequences) == 1:
        return sequences[0]
    if (together := in_one(sequences)) is not None:
        return together
    for x in sequences:
        release(x)
    try:
        require_memory("the rows of all files in one array", sum(x.nbytes for x in sequences))
    except ReadError as error:
        raise BadInput(f"{error}, or join the files into one .npy file, which is not loaded as a whole") from error
    rows = np.empty((sum(map(len, sequences)), sequences[0].shape[1]), sequences[0].dtype)
    start = 0
    for x in sequences:
        rows[start : (start := start + len(x))] = x
        release(x)
    return rows


def member_ids(loaded: Loaded) -> list[str]:
    """Return the id of each sequence or bag or, for samples and views, the id of the sequence of each row."""
    data = loaded.data
    if loaded.kind not in _BY_ROW:
        return list(data.ids)
    if data.numbered and len(data) == 1:  # the file has no ids
        return list(map(str, range(data.sequences[0].shape[0])))
    return [name for name, sequence in zip(data.ids, data.sequences, strict=True) for _ in sequence]


def _remarks(source: str, data: SequenceData) -> list[str]:
    """Return lines about the column that is used as the time axis, and about channels that may be a time axis."""
    said = []
    if data.clocks:
        names = " and ".join(map(repr, data.clocks))
        what, channels = ("column {} is", "a channel") if len(data.clocks) == 1 else ("columns {} are", "channels")
        said = [f"{what.format(names)} used as the time axis, not as {channels} (to change this: --read time=none)"]
    path = Path(source)
    if data.channel_names is None or not (path.is_dir() or path.suffix.lower() in _TABLES):
        return said
    for j, name in enumerate(data.channel_names):
        if says_time(name):
            said.append(
                f"column {name!r} is used as a channel, not as the time axis (to change this: --read time={name})"
            )
        elif rises_alike(data.sequences, j):
            said.append(
                f"column {name!r} increases steadily and is used as a channel (if it is the time axis: --read "
                f"time={name})"
            )
    return said


def describe(loaded: Loaded, labels: np.ndarray | None) -> str:
    """Return one line about the data in the form for an estimator of this kind."""
    lengths = [sequence.shape[0] for sequence in loaded.data.sequences]
    classes = "" if labels is None else f", {counted(len(np.unique(labels)), 'class')}"
    *others, last = (part.sequences[0].shape[1] for part in loaded.parts)
    what = "column" if loaded.kind in _BY_ROW else "channel"
    widths = "".join(f"{width} and " for width in others) + counted(last, what)
    if loaded.kind in _BY_ROW:
        sparse: Any = loaded.data.sequences[0]
        entries = f" ({sparse.nnz} values that are not zero)" if issparse(sparse) else ""
        return f"{counted(sum(lengths), 'row')} of {widths}{entries}{classes}"
    spread = "" if min(lengths) == max(lengths) else f"{min(lengths)} to "
    return f"{counted(len(lengths), 'sequence')} of {spread}{counted(max(lengths), 'step')}, {widths}{classes}"


def named_views(loaded: Loaded) -> str:
    """Return one line about the columns of each view, or nothing without views or names."""
    if loaded.kind not in _OF_VIEWS or loaded.names is None:
        return ""
    return "; ".join(f"view {v}: {shown(names)}" for v, names in enumerate(loaded.names))
