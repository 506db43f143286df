"""Bags of descriptors in several views, checked when they are read and processed in groups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import BagsLike, check_real

from ._parameters import Array
from ._views import check_values

Bag = tuple[NDArray[Any], ...]
"""One (T, d_v) array per view, T descriptors of one object; T may be 0."""


@dataclass(frozen=True)
class Group:
    """Several concatenated bags.

    Attributes
    ----------
    views : list of ndarray of shape (R, d_v)
        The rows of all bags of the group.
    lengths : ndarray of shape (B,)
        Number of rows of each bag.
    """

    views: list[NDArray[Any]]
    lengths: NDArray[np.int64]


class Bags:
    """Bags that can be read several times.

    Parameters
    ----------
    X, Y
        The views. X is the first and Y the second, or X is a list of all of them and Y is None. A view is an array (N,
        d_v), N bags of one descriptor, an array (N, T, d_v), or a sequence of arrays (T_i, d_v). If the sequence reads
        items on indexing, only one group is in memory.
    widths : tuple of int, optional
        Number of columns of each view in an earlier fit. If they are given, all bags may be empty.

    Raises
    ------
    ValueError
        If there are no bags or no descriptors, or if views have different numbers of bags or other widths than
        expected. Bags are validated when they are read.
    """

    def __init__(self, X: BagsLike, Y: BagsLike | None = None, widths: tuple[int, ...] | None = None) -> None:
        views = [X, Y] if Y is not None else X
        if isinstance(views, np.ndarray) or not isinstance(views, Sequence) or isinstance(views, str):
            raise ValueError(f"X is of type {type(views).__name__}: pass X and Y, or a list with one entry per view")
        self.views = [_view(view, v) for v, view in enumerate(views)]
        if not self.views:
            raise ValueError("there are no views: pass X and Y, or a list with one entry per view")
        numbers = [len(view) for view in self.views]
        if len(set(numbers)) > 1:
            hint = "" if Y is not None else ", or [bags] for the bags of one view"
            found = ", ".join(map(str, numbers))
            raise ValueError(f"the views have {found} bags: pass the same objects in each view{hint}")
        if not numbers[0]:
            raise ValueError("there are no bags: pass at least one")
        filled = next((bag for bag in map(self._read, range(len(self))) if len(bag[0])), None)
        if filled is not None:
            self.widths: tuple[int, ...] = tuple(part.shape[1] for part in filled)
        elif widths is not None:
            self.widths = tuple(widths)
        else:
            raise ValueError("every bag is empty: pass bags with descriptors")
        if widths is not None and len(self.views) != len(widths):
            raise ValueError(
                f"{len(self.views)} views were passed, but the model was fitted on {len(widths)} views: pass the same "
                "views"
            )
        if widths is not None and self.widths != tuple(widths):
            raise ValueError(
                f"views have {_and(self.widths)} columns, but in fit they had {_and(widths)}: pass the same columns"
            )

    def __len__(self) -> int:
        return len(self.views[0])

    def groups(self, n_rows: int, n_bags: int) -> Iterator[Group]:
        """Yield groups of at most `n_bags` bags; a group ends with the bag that reaches `n_rows`."""
        if all(isinstance(view, np.ndarray) and view.ndim == 2 for view in self.views):
            size = max(1, min(n_rows, n_bags))
            for start in range(0, len(self), size):
                views = [view[start : start + size] for view in self.views]
                yield Group(views, np.ones(len(views[0]), dtype=np.int64))
        else:
            yield from grouped((self._bag(i) for i in range(len(self))), n_rows, n_bags)

    def sample(self, most: int | None, rng: np.random.Generator) -> list[Array]:
        """Return descriptors of all bags, at most ``ceil(most / N)`` of each, drawn without replacement."""
        quota = None if most is None else -(-most // len(self))
        if quota is not None and all(isinstance(view, np.ndarray) and view.ndim == 2 for view in self.views):
            rows = np.sort(rng.choice(len(self), min(most or 0, len(self)), replace=False))
            return [view[rows] for view in self.views]
        found: list[list[Array]] = [[] for _ in self.views]
        for group in self.groups(2**16, 2**12):
            ends = np.cumsum(group.lengths)
            for start, end in zip(ends - group.lengths, ends, strict=True):
                rows = np.arange(start, end)
                if quota is not None and len(rows) > quota:
                    rows = np.sort(rng.choice(rows, quota, replace=False))
                for kept, view in zip(found, group.views, strict=True):
                    kept.append(view[rows])
        return [np.concatenate(kept) for kept in found]

    def _bag(self, i: int) -> Bag:
        bag = self._read(i)
        if len(bag[0]) == 0:
            return tuple(np.empty((0, width)) for width in self.widths)
        if (widths := tuple(part.shape[1] for part in bag)) != self.widths:
            raise ValueError(
                f"bag {i} has {_and(widths)} columns in its views, but other bags have {_and(self.widths)}: pass the "
                "same columns in every bag"
            )
        return bag

    def _read(self, i: int) -> Bag:
        return checked_bag([view[i : i + 1] if _rows(view) else view[i] for view in self.views], i)


def grouped(bags: Iterable[Bag], n_rows: int, n_bags: int) -> Iterator[Group]:
    """Collect validated bags into groups like `Bags.groups`."""
    held: list[Bag] = []
    total = 0
    for bag in bags:
        held.append(bag)
        total += len(bag[0])
        if total >= n_rows or len(held) >= n_bags:
            yield _join(held)
            held, total = [], 0
    if held:
        yield _join(held)


def checked_bag(parts: Sequence[Any], i: int) -> Bag:
    """Validate bag i and return it, one array per view."""
    arrays = []
    for v, part in enumerate(parts):
        where = f"bag {i} of view {v}"
        part = check_real(part, where)
        try:
            array = np.asarray(part)
        except ValueError:
            raise ValueError(f"{where} has rows of different lengths: pass a (T, d) array") from None
        if array.dtype == object and array.ndim == 2:  # a frame of numbers
            array = array.astype(np.float64)
        if array.ndim != 2 or array.shape[1] == 0:
            raise ValueError(f"{where} has shape {array.shape}: pass a (T, d) array, one row per descriptor")
        check_values(array, where)
        arrays.append(array)
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"bag {i} has {_and(tuple(map(len, arrays)))} rows in its views: pass paired descriptors")
    return tuple(arrays)


def _view(view: Any, v: int) -> Any:
    if hasattr(view, "to_numpy"):  # a data frame
        view = view.to_numpy()
    if hasattr(view, "toarray"):
        raise ValueError(f"view {v} is a sparse matrix: convert it with .toarray()")
    if isinstance(view, np.ndarray):
        if view.ndim in (2, 3):
            view = check_real(view, f"view {v}")
        else:
            raise ValueError(
                f"view {v} is an array of shape {view.shape} and dtype {view.dtype}: pass (N, d), (N, T, d) or a list"
            )
        if view.ndim == 2:
            check_values(view, f"view {v}")
        return view
    if isinstance(view, str) or not (hasattr(view, "__len__") and hasattr(view, "__getitem__")):
        raise ValueError(f"view {v} is of type {type(view).__name__}: pass an array or a list of (T, d) arrays")
    if isinstance(view, list | tuple) and view and all(np.ndim(row) == 1 for row in view):
        return _view(np.asarray(check_real(view, f"view {v}")), v)  # nested lists of numbers
    return view


def _rows(view: Any) -> bool:
    return isinstance(view, np.ndarray) and view.ndim == 2


def _join(bags: list[Bag]) -> Group:
    views = [np.concatenate(parts) for parts in zip(*bags, strict=True)]
    return Group(views, np.array([len(bag[0]) for bag in bags], dtype=np.int64))


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
