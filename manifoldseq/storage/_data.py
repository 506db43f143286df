"""The record that readers and dataset loaders return."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False, init=False)
class SequenceData:
    """Sequences, and what is known about them.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, d), float64
        Time first; NaN marks a missing value.
    labels : ndarray of shape (N,) or None
        One label per sequence.
    name : str
        The name of the data.
    sampling_rate : float or None
        Time steps per second.
    channel_names : tuple of str or None
        One name per channel.

    Raises
    ------
    ValueError
        If a sequence is not a (T, d) array, or labels or channel names do not match in number.

    Examples
    --------
    >>> data = SequenceData([[[0.0], [1.0]]], labels=["up"])
    >>> len(data), data.sequences[0].shape
    (1, (2, 1))
    """

    sequences: list[NDArray[np.float64]]
    labels: NDArray | None = None
    name: str = ""
    sampling_rate: float | None = None
    channel_names: tuple[str, ...] | None = None

    def __init__(
        self,
        sequences: Sequence[ArrayLike],
        labels: ArrayLike | None = None,
        name: str = "",
        sampling_rate: float | None = None,
        channel_names: Sequence[str] | None = None,
    ) -> None:
        arrays = [np.ascontiguousarray(x, dtype=np.float64) for x in sequences]
        for i, x in enumerate(arrays):
            if x.ndim != 2:
                raise ValueError(f"sequence {i} has shape {x.shape}: pass a (T, d) array, time first")
            if channel_names is not None and x.shape[1] != len(channel_names):
                raise ValueError(
                    f"sequence {i} has {x.shape[1]} channels but {len(channel_names)} channel_names: give one each"
                )
        labels = None if labels is None else np.asarray(labels)
        if labels is not None and labels.shape != (len(arrays),):
            raise ValueError(f"labels have shape {labels.shape} but there are {len(arrays)} sequences: pass one each")
        object.__setattr__(self, "sequences", arrays)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sampling_rate", sampling_rate)
        object.__setattr__(self, "channel_names", None if channel_names is None else tuple(channel_names))

    def __len__(self) -> int:
        return len(self.sequences)
