"""The record that readers and dataset loaders return."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from .._extras import needing
from .._quoted import quoted
from ._real import check_real, warn_of_order


class _Numbers(tuple[str, ...]):
    """Default ids, which `dataclasses.replace` preserves."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class SequenceData:
    """Sequences with their labels, ids, channel names and sampling rate.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, d)
        The first axis is time, and NaN marks a missing value. The dtype is float32 if all arrays have this dtype,
        otherwise float64. Sparse rows are kept as a `scipy.sparse.csr_array`, which only estimators of samples accept.
    labels : ndarray of shape (N,) or None
        One label per sequence.
    name : str
        The name of the data.
    sampling_rate : float or None
        Time steps per second, or per unit of the time column if its unit is unknown.
    channel_names : tuple of str or None
        One name per channel.
    ids : tuple of str
        One unique id per sequence: the names of the files of a folder, or the values of the column ``id`` of a long
        table. The default ids are the numbers of the sequences, from 0.
    clocks : tuple of str
        The columns of the file that were used as the time axis and are therefore not channels.
    order : ndarray of int of shape (sum of T_i,) or None
        For each row, its row number in the file (or in the concatenated files of a folder); None if the rows are in
        this order. An order with another number of rows is dropped, because it belongs to the data from which these
        sequences were derived.

    Raises
    ------
    ValueError
        If a sequence is not a (T, d) array of real numbers, if the number of labels, ids or channel names is wrong, or
        if two ids are equal.

    Examples
    --------
    >>> data = SequenceData([[[0.0], [1.0]]], labels=["up"])
    >>> len(data), data.sequences[0].shape, data.ids
    (1, (2, 1), ('0',))
    >>> data
    <SequenceData: 1 sequences of 2 steps, 1 channels, 1 labels>
    """

    sequences: list[NDArray[Any]]
    labels: NDArray[Any] | None = None
    name: str = ""
    sampling_rate: float | None = None
    channel_names: tuple[str, ...] | None = None
    ids: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = None

    def __init__(
        self,
        sequences: Sequence[ArrayLike],
        labels: ArrayLike | None = None,
        name: str = "",
        sampling_rate: float | None = None,
        channel_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        clocks: Sequence[str] = (),
        order: NDArray[np.intp] | None = None,
    ) -> None:
        if isinstance(sequences, np.ndarray) and sequences.ndim == 3:
            check_real(sequences, "sequences")
            warn_of_order(sequences.shape, "sequences", "pass from_aeon(sequences), else list(sequences)")
        real = [check_real(x, f"sequence {i}") for i, x in enumerate(sequences)]
        single = bool(real) and all(getattr(x, "dtype", None) == np.float32 for x in real)
        dtype = np.dtype(np.float32 if single else np.float64)
        arrays: list[Any] = [
            csr_array(x, dtype=dtype) if issparse(x) else np.ascontiguousarray(x, dtype=dtype) for x in real
        ]
        for i, x in enumerate(arrays):
            if x.ndim != 2:
                raise ValueError(f"sequence {i} has shape {x.shape}: pass a (T, d) array, time first")
            if channel_names is not None and x.shape[1] != len(channel_names):
                raise ValueError(
                    f"sequence {i} has {x.shape[1]} channels but {len(channel_names)} channel_names: pass one name per "
                    "channel"
                )
        labels = None if labels is None else np.asarray(labels)
        if labels is not None and labels.shape != (len(arrays),):
            raise ValueError(
                f"labels have shape {labels.shape} but there are {len(arrays)} sequences: pass one label per sequence"
            )
        if ids is None or isinstance(ids, _Numbers):
            names: tuple[str, ...] = _Numbers(map(str, range(len(arrays))))
        else:
            names = tuple(ids)
        if len(names) != len(arrays) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"there are {len(names)} ids for {len(arrays)} sequences: pass one string per sequence")
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ValueError(f"two sequences have the id {quoted(twice)}: pass unique ids")
        object.__setattr__(self, "sequences", arrays)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sampling_rate", sampling_rate)
        object.__setattr__(self, "channel_names", None if channel_names is None else tuple(channel_names))
        object.__setattr__(self, "ids", names)
        object.__setattr__(self, "clocks", tuple(clocks))
        kept = order is not None and len(order) == sum(x.shape[0] for x in arrays) and not (np.diff(order) == 1).all()
        object.__setattr__(self, "order", order if kept else None)

    @property
    def numbered(self) -> bool:
        """Whether the ids are the default numbers."""
        return isinstance(self.ids, _Numbers)

    def __len__(self) -> int:
        return len(self.sequences)

    def plot(self, *, sequences: int = 12, channels: int = 6) -> Any:
        """Draw channels against time, one below the other; sequences with the same label have the same colour.

        Parameters
        ----------
        sequences, channels : int
            The maximum numbers. Sequences are evenly spaced; the first channels are drawn.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> figure = SequenceData([[[0.0, 1.0], [2.0, 3.0]]] * 3, labels=["a", "a", "b"]).plot()
        >>> len(figure.axes), [len(ax.lines) for ax in figure.axes]
        (2, [3, 3])
        >>> plt.close(figure)
        """
        with needing("figures need", "cli"):
            import matplotlib.pyplot as plt

        check_steps(self)
        rows = np.unique(np.linspace(0, len(self) - 1, min(sequences, len(self))).round().astype(int))
        number = min(channels, self.sequences[0].shape[1])
        size = (7, 1.2 + 1.3 * number)
        figure, axes = plt.subplots(number, sharex=True, squeeze=False, figsize=size, layout="constrained")
        kinds = None if self.labels is None else self.labels[rows].tolist()
        known = [] if kinds is None else sorted(set(kinds), key=str)
        rate = 1.0 if self.sampling_rate is None else self.sampling_rate
        for j, ax in enumerate(axes[:, 0]):
            for k, i in enumerate(rows):
                x, colour, label = self.sequences[i], f"C{k % 10}", None
                if kinds is not None:
                    colour = f"C{known.index(kinds[k]) % 10}"
                    label = str(kinds[k]) if kinds[k] not in kinds[:k] else None
                ax.plot(np.arange(len(x)) / rate, x[:, j], color=colour, linewidth=1, label=label)
            ax.set_ylabel(f"channel {j}" if self.channel_names is None else self.channel_names[j])
        axes[-1, 0].set_xlabel("step" if self.sampling_rate is None else "time (s)")
        if known:
            axes[0, 0].legend(fontsize="small", ncols=min(len(known), 6))
        return figure

    def __repr__(self) -> str:
        lengths = sorted({x.shape[0] for x in self.sequences}) or [0]
        steps = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        channels = self.sequences[0].shape[1] if self.sequences else 0
        names = self.channel_names or ()
        shown = f" ({', '.join(names[:6])}{', …' if len(names) > 6 else ''})" if names else ""
        classes = "" if self.labels is None else f", {len(np.unique(self.labels))} labels"
        rate = "" if self.sampling_rate is None else f", {self.sampling_rate:.4g} per second"
        what = f"{len(self)} sequences of {steps} steps, {channels} channels{shown}{classes}{rate}"
        return f"<SequenceData {self.name!r}: {what}>" if self.name else f"<SequenceData: {what}>"


def check_steps(data: SequenceData) -> None:
    """Raise ValueError if sequences are sparse rows, which are not time steps."""
    if any(map(issparse, data.sequences)):
        raise ValueError("data are sparse rows and not time steps: convert them to an array by sequences[0].toarray()")
