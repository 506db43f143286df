"""Views on the command line: columns of one file (``--views``), or several files whose members are paired."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import SequenceData
from ..storage.readers._columns import PLACES, matching
from ._shared import BadInput, suggestion

_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,:"]*?))\s*([,:]|\Z)')
_COUNTS = re.compile(r"\s*[0-9]+\s*(,\s*[0-9]+\s*)*\Z")
_SHOWN = 8


@dataclass(frozen=True)
class Columns:
    """The columns of a view: their numbers in one of the files, and their names if they have names."""

    file: int
    numbers: tuple[int, ...]
    names: tuple[str, ...] | None

    def of(self, data: SequenceData) -> SequenceData:
        """Return the data of these columns as contiguous arrays."""
        if self.numbers == tuple(range(data.sequences[0].shape[1])):
            return data
        chosen = [np.ascontiguousarray(x[:, self.numbers]) for x in data.sequences]
        return replace(data, sequences=chosen, channel_names=self.names)


def all_columns(file: int, data: SequenceData) -> Columns:
    """Return all columns of a file as one view."""
    return Columns(file, tuple(range(data.sequences[0].shape[1])), data.channel_names)


def chosen_columns(text: str, sources: Sequence[str], files: Sequence[SequenceData]) -> list[Columns]:
    """Return the columns that ``--views`` assigns to views, in one file or in several files.

    Raises
    ------
    BadInput
        If a column does not exist or occurs in two views, or if counts do not add up to the number of columns.
    """
    widths = [data.sequences[0].shape[1] for data in files]
    if _COUNTS.match(text):
        sizes = [int(size) for size in text.split(",")]
        if len(files) == 1 and (min(sizes) < 1 or sum(sizes) != widths[0]):
            raise BadInput(
                f"--views {text}: the numbers of columns must be positive and their sum must be {widths[0]}: correct "
                f"them, or name the columns, such as --views {example(files[0])}"
            )
        if len(files) > 1 and sizes != widths:
            raise BadInput(
                f"--views {text}: each of the files {' and '.join(sources)} is one view, and they have {_and(widths)} "
                "columns: remove the option --views, or name the columns of each file, with a colon between files"
            )
        ends = np.cumsum(sizes).tolist()
        if len(files) == 1:
            numbers = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
            return [_columns(0, files[0], some) for some in numbers]
        return [all_columns(i, data) for i, data in enumerate(files)]
    parts = _parts(text)
    if len(files) > 1 and len(parts) != len(files):
        raise BadInput(
            f"--views {text} has columns for {len(parts)} view{'s' * (len(parts) > 1)}, but {len(files)} files are "
            "given: name the columns of each file, with a colon between files"
        )
    found: list[Columns] = []
    for v, items in enumerate(parts):
        file = v if len(files) > 1 else 0
        numbers = _numbers(text, items, sources[file], files[file])
        if not numbers:
            raise BadInput(f"--views {text}: view {v} has no columns: name at least one column on each side of a colon")
        for u, other in enumerate(found):
            if other.file == file and (both := [j for j in numbers if j in set(other.numbers)]):
                raise BadInput(
                    f"--views {text}: column {_named(files[file], both[0])} is in view {u} and in view {v}: assign it "
                    "to one view"
                )
        found.append(_columns(file, files[file], numbers))
    return found


def example(data: SequenceData) -> str:
    """Return an example of ``--views`` that assigns these columns to two views."""
    width = data.sequences[0].shape[1]
    names = data.channel_names
    if names is None:
        return f"0-{width - 2}:{width - 1}" if width > 2 else "0:1"
    quoted = [f'"{name}"' if _must_be_quoted(name) else name for name in names]
    return f"{quoted[0]}{',…' if width > 3 else ',' + quoted[1] if width == 3 else ''}:{quoted[-1]}"


def _must_be_quoted(name: str) -> bool:
    return bool(set(name) & set(',:"*?')) or name.startswith("-")


def _parts(text: str) -> list[list[str]]:
    """Return the names and patterns of each view."""
    parts: list[list[str]] = [[]]
    place = 0
    while True:
        match = _ITEM.match(text, place)
        if match is None:
            raise BadInput(f"--views {text}: a quote is not closed or is inside a name: put the whole name in quotes")
        quoted, plain, separator = match.groups()
        if quoted is not None or plain:
            parts[-1].append(plain if quoted is None else quoted.replace('""', '"'))
        if separator == ":":
            parts.append([])
        if not separator:
            return parts
        place = match.end()


def _numbers(text: str, items: list[str], source: str, data: SequenceData) -> tuple[int, ...]:
    """Return the columns of one view, each once, in the order in which they are named."""
    width = data.sequences[0].shape[1]
    names = data.channel_names or ()
    try:
        return tuple(matching(names or [""] * width, items, places=True))
    except LookupError as error:
        item = str(error.args[0])
    if PLACES.fullmatch(item):
        raise BadInput(f"--views {text}: {source} has columns 0 to {width - 1}, but no column {item}")
    if set(item) & {"*", "?"}:
        raise BadInput(f"--views {text}: no column of {source} matches {item!r}: {_has(data)}")
    raise BadInput(f"--views {text}: {source} has no column {item!r}: {suggestion(item, names)}{_has(data)}")


def named_columns(
    text: str | None, memory: Mapping[str, Any] | None, n_files: int, file: int, header: Sequence[str]
) -> list[str]:
    """Return the column names of a file that ``--views``, or else a run, requires; none without names.

    Other columns need not be read.
    """
    if text is None:
        wanted: set[str] = set()
        for v, view in enumerate([] if memory is None else memory["views"]):
            of = 0 if memory is None or n_files == 1 else view["file"] if n_files == len(memory["widths"]) else v
            wanted |= set(view.get("names", ())) if of == file else set()
        return [name for name in header if name in wanted]
    if _COUNTS.match(text):
        return []
    parts = _parts(text)
    items = [item for part in (parts if n_files == 1 else parts[file : file + 1]) for item in part]
    try:
        return [header[j] for j in sorted(matching(header, items))]
    except LookupError:  # places, or what is not there
        return []


def _has(data: SequenceData) -> str:
    if data.channel_names is None:
        width = data.sequences[0].shape[1]
        return f"its columns have no names (pass numbers from 0 to {width - 1}, such as {example(data)})"
    return f"it has {shown(data.channel_names)}"


def shown(names: Sequence[str]) -> str:
    """Return names as one text, abbreviated if there are many."""
    rest = len(names) - _SHOWN
    return ", ".join(names) if rest <= 1 else f"{', '.join(names[:_SHOWN])} and {rest} more"


def _columns(file: int, data: SequenceData, numbers: Sequence[int]) -> Columns:
    names = data.channel_names
    return Columns(file, tuple(numbers), None if names is None else tuple(names[j] for j in numbers))


def _named(data: SequenceData, j: int) -> str:
    return f"{j}" if data.channel_names is None else repr(data.channel_names[j])


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


# Members of several files, paired.


def paired(
    sources: Sequence[str], parts: Sequence[SequenceData], *, by_row: bool, advice: Callable[[], str] | None
) -> tuple[list[SequenceData], str]:
    """Return the views with the same members in the same order, and a description of the pairing.

    If every file has ids, members are paired by id: first in the order of the first file, then members that occur only
    in other files. Otherwise members are paired in order, and all files must have the same number of members.

    Parameters
    ----------
    sources : sequence of str
        Names of the files in messages.
    parts : sequence of SequenceData
        The data of each view.
    by_row : bool
        Whether members are rows, not sequences. Rows with the same id are paired in order.
    advice : callable or None
        A function that returns the end of the error message about missing values. None: members that are missing in a
        file are filled with NaN.

    Raises
    ------
    BadInput
        If members cannot be paired, or if their lengths or labels differ.
    """
    if not any(part.numbered for part in parts):
        if by_row:
            _check_repeated(sources, parts)
        return _by_id(sources, parts, advice)
    what = "rows" if by_row else "sequences"
    counts = [sum(map(len, part.sequences)) if by_row else len(part) for part in parts]
    for source, count in zip(sources[1:], counts[1:], strict=True):
        if count != counts[0]:
            without = [one for one, part in zip(sources, parts, strict=True) if part.numbered]
            raise BadInput(
                f"{sources[0]} has {counts[0]} {what} but {source} has {count}, and {' and '.join(without)} "
                f"{'has' if len(without) == 1 else 'have'} no ids for pairing: add a column 'id' to each file (or "
                f"name it by --read id=NAME), or pass the same {what} in the same order"
            )
    leader = max(parts, key=lambda part: (not part.numbered, len(part)))
    lengths = [len(x) for x in leader.sequences]
    aligned = []
    for source, part in zip(sources, parts, strict=True):
        if by_row and [len(x) for x in part.sequences] != lengths:
            if part.labels is not None:
                raise BadInput(
                    f"the labels of {source} are for rows that differ from the rows with ids or labels of "
                    f"{sources[_place(leader, parts)]}: keep the labels in one file only"
                )
            rows = part.sequences[0] if len(part) == 1 else np.concatenate(part.sequences)
            part = replace(part, sequences=np.split(rows, np.cumsum(lengths)[:-1]), ids=leader.ids)
        aligned.append(part)
    _check_lengths(sources, aligned, leader.ids)
    labels = _labels(sources, aligned, leader.ids)
    return [replace(part, ids=leader.ids, labels=labels) for part in aligned], f"{counts[0]} {what} paired in order"


def _place(one: SequenceData, parts: Sequence[SequenceData]) -> int:
    return next(i for i, part in enumerate(parts) if part is one)


def _by_id(
    sources: Sequence[str], parts: Sequence[SequenceData], advice: Callable[[], str] | None
) -> tuple[list[SequenceData], str]:
    places = [{name: i for i, name in enumerate(part.ids)} for part in parts]
    ids = tuple(dict.fromkeys(name for part in parts for name in part.ids))
    lacking = [[name for name in ids if name not in place] for place in places]
    if not any(all(name in place for place in places) for name in ids):
        raise BadInput(
            f"{' and '.join(sources)} have no id in common (their first ids are {parts[0].ids[0]!r} and "
            f"{parts[1].ids[0]!r}): write the same ids, or remove the ids so that members are paired in order"
        )
    for source, names in zip(sources, lacking, strict=True):
        if names and advice is not None:
            there = next(one for one, place in zip(sources, places, strict=True) if names[0] in place)
            raise BadInput(f"{source} does not have {_some(names)} of {there}, so values are missing{advice()}")
    both = list(zip(parts, places, strict=True))
    lengths = [next(len(part.sequences[place[name]]) for part, place in both if name in place) for name in ids]
    aligned = []
    for part, place, names in zip(parts, places, lacking, strict=True):
        if part.ids != ids:
            width = part.sequences[0].shape[1]
            absent = set(names)
            sequences = [
                np.full((length, width), np.nan) if name in absent else part.sequences[place[name]]
                for name, length in zip(ids, lengths, strict=True)
            ]
            labels = None
            if part.labels is not None:
                known = part.labels.tolist()
                labels = np.empty(len(ids), dtype=object)
                labels[:] = [None if name in absent else known[place[name]] for name in ids]
            order = part.order  # of the rows that are still in their places, before what only others have
            if order is not None:
                more = np.arange(len(order), sum(lengths))
                order = np.append(order, more) if part.ids == ids[: len(part)] else None
            part = replace(part, sequences=sequences, labels=labels, ids=ids, order=order)
        aligned.append(part)
    _check_lengths(sources, aligned, ids)
    labels = _labels(sources, aligned, ids)
    said = f"{len(ids) - len(set().union(*lacking))} ids in {'both' if len(parts) == 2 else 'all'} files"
    for source, names in zip(sources, lacking, strict=True):
        if names:
            said += f"; missing in {source}: {_some(names)}"
    if labels is not None:
        aligned = [replace(part, labels=labels) for part in aligned]
    return aligned, said


def _check_repeated(sources: Sequence[str], parts: Sequence[SequenceData]) -> None:
    """Raise BadInput for an id that is repeated in one file and not as often in another."""
    counts = [dict(zip(part.ids, map(len, part.sequences), strict=True)) for part in parts]
    for i, of_first in enumerate(counts):
        for j, of_other in enumerate(counts[:i]):
            for name, count in of_first.items():
                if name in of_other and count != of_other[name]:
                    more, less = (i, j) if count > of_other[name] else (j, i)
                    raise BadInput(
                        f"{name!r} occurs {_times(counts[more][name])} in {sources[more]} but "
                        f"{_times(counts[less][name])} in {sources[less]}: use a unique id for each row, or pass the "
                        "same rows in each file"
                    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _some(names: Sequence[str]) -> str:
    more = len(names) - 1
    return f"{names[0]!r}" + (f" and {more} more id{'s' * (more > 1)}" if more else "")


def _check_lengths(sources: Sequence[str], parts: Sequence[SequenceData], ids: Sequence[str]) -> None:
    for source, part in zip(sources[1:], parts[1:], strict=True):
        for name, x, y in zip(ids, parts[0].sequences, part.sequences, strict=True):
            if len(x) != len(y):
                raise BadInput(
                    f"{name!r} has {len(x)} rows in {sources[0]} but {len(y)} in {source}: pass the same rows in each "
                    "file"
                )


def _labels(sources: Sequence[str], parts: Sequence[SequenceData], ids: Sequence[str]) -> NDArray[Any] | None:
    """Return the labels from all files, and raise BadInput if labels are contradictory or partly missing."""
    found: list[Any] = [None] * len(ids)
    origin: list[str] = [""] * len(ids)
    for source, part in zip(sources, parts, strict=True):
        if part.labels is None:
            continue
        for i, label in enumerate(part.labels.tolist()):
            if found[i] is None:
                found[i], origin[i] = label, source
            elif label is not None and str(label) != str(found[i]):
                raise BadInput(
                    f"{ids[i]!r} has the label {found[i]!r} in {origin[i]} but {label!r} in {source}: correct one "
                    "label, or remove the labels from one of the files"
                )
    if all(label is None for label in found):
        return None
    for i, label in enumerate(found):
        if label is None:
            raise BadInput(f"{ids[i]!r} has no label, but other members have labels: add a label, or remove all labels")
    return np.array(found)


# What a run directory remembers of its views, so that the same columns are taken from other files.


def remembered(files: Sequence[SequenceData], views: Sequence[Columns]) -> dict[str, Any]:
    """Return the columns and files of the views in a form for JSON."""
    return {
        "widths": [data.sequences[0].shape[1] for data in files],
        "views": [
            {"file": view.file, "columns": _compact(view.numbers), **({"names": view.names} if view.names else {})}
            for view in views
        ],
    }


def _compact(numbers: Sequence[int]) -> str:
    """Return numbers as ranges, ``"0-75,80"``."""
    cuts = [0, *(i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1), len(numbers)]
    ends = [(numbers[a], numbers[b - 1]) for a, b in pairwise(cuts)]
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ends)


def _spelt_out(text: str) -> tuple[int, ...]:
    spans = [part.partition("-") for part in text.split(",")]
    return tuple(j for first, _, last in spans for j in range(int(first), int(last or first) + 1))


def same_columns(
    memory: Mapping[str, Any], run: str, sources: Sequence[str], files: Sequence[SequenceData], *, missing: bool
) -> list[Columns | None]:
    """Return the columns of new files that correspond to the views of a run; None for a view that no file contains.

    Columns are matched by name, or by position if they have no names.

    Raises
    ------
    BadInput
        If a column is missing, or if the number of files differs.
    """
    views = [
        Columns(view["file"], _spelt_out(view["columns"]), tuple(view["names"]) if "names" in view else None)
        for view in memory["views"]
    ]
    widths = memory["widths"]
    if len(files) not in {1, len(widths), len(views)}:
        many = f"{len(widths)} files" if len(widths) > 1 else f"one file{f', or {len(views)}' * (len(views) > 1)}"
        raise BadInput(
            f"{len(files)} files are given, but {run} was fitted on {many}: pass the same number of files in the order "
            "of the fit"
        )
    found: list[Columns | None] = []
    for v, view in enumerate(views):
        file = view.file if len(files) == len(widths) else v if len(files) == len(views) else 0
        data, source = files[file], sources[file]
        if view.names is not None and data.channel_names is not None:
            shared = len(files) < len(views)
            if shared:
                _check_distinct(views, v)
            _check_swapped(views, v, run, sources, files, file)
            found.append(_by_name(view.names, v, len(views), source, file, data, missing and shared))
        elif len(files) == len(widths) and data.sequences[0].shape[1] == widths[file]:
            found.append(_columns(file, data, view.numbers))
        elif len(files) == len(views) and data.sequences[0].shape[1] == len(view.numbers):
            found.append(all_columns(file, data))
        else:
            wanted = f"{widths[view.file]} columns" if len(files) == len(widths) else "columns with names"
            raise BadInput(
                f"{source} has {data.sequences[0].shape[1]} columns without names: pass a file with "
                f"{wanted}, as {run} was fitted on"
            )
    if not any(found):
        names = shown([name for view in views for name in view.names or ()])
        raise BadInput(f"{sources[0]} has none of the columns that {run} was fitted on ({names}): {_has(files[0])}")
    return found


def _check_distinct(views: Sequence[Columns], v: int) -> None:
    """Raise BadInput if two views of one new file share a column name, because the name does not identify a view."""
    for u, other in enumerate(views[:v]):
        if other.file != views[v].file and (twice := set(views[v].names or ()) & set(other.names or ())):
            raise BadInput(
                f"a column {sorted(twice)[0]!r} is in view {u} and in view {v}: pass one file per view, as in fit"
            )


def _check_swapped(
    views: Sequence[Columns], v: int, run: str, sources: Sequence[str], files: Sequence[SequenceData], file: int
) -> None:
    """Raise BadInput for a file with no column of its view, if another file has all of them."""
    wanted = set(views[v].names or ())
    there = [set(data.channel_names or ()) for data in files]
    others = [source for source, names in zip(sources, there, strict=True) if wanted <= names]
    if wanted.isdisjoint(there[file]) and others:
        raise BadInput(
            f"{sources[file]} has no column {(views[v].names or ('',))[0]!r} of view {v}, but {others[0]} has it: pass "
            f"the files in the order in which {run} was fitted on them"
        )


def by_place(memory: Mapping[str, Any], columns: Sequence[Columns | None]) -> str:
    """Return a line about columns that are matched by position although names exist in the fit or in the file."""
    for v, (view, one) in enumerate(zip(memory["views"], columns, strict=False)):
        names = tuple(view["names"]) if "names" in view else None
        if one is not None and one.names != names:
            now, before = ("no names" if some is None else shown(some) for some in (one.names, names))
            of = f" of view {v}" if len(memory["views"]) > 1 else ""
            return f"columns{of} are matched by position (in the data: {now}; in the fit: {before})"
    return ""


def _by_name(
    names: Sequence[str], v: int, n_views: int, source: str, file: int, data: SequenceData, may_be_absent: bool
) -> Columns | None:
    there = {name: j for j, name in enumerate(data.channel_names or ())}
    lacking = [name for name in names if name not in there]
    if len(lacking) == len(names) and may_be_absent:
        return None
    if lacking:
        of = f" of view {v}" if n_views > 1 else ""
        raise BadInput(f"{source} has no column {lacking[0]!r}{of}, which the model was fitted on: {_has(data)}")
    return _columns(file, data, [there[name] for name in names])
