"""Windows over consecutive frames of sequences, as rows without copies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manifoldseq.estimators import check_real, check_whole, quoted


class Windows:
    """Windows of `width` frames around every frame of sequences, as rows of a matrix that is never stored as a whole.

    Overlapping windows are views of the same frames, so the rows need only the memory of the frames. For windows of 15
    frames of TIMIT, this is 0.6 GB instead of 8 GB. The first and last frame of a sequence are repeated for windows
    that extend beyond it.

    Parameters
    ----------
    sequences : sequence of array-like of shape (T_i, d)
    width : int
        Number of frames of a window, which must be odd.

    Attributes
    ----------
    shape : (int, int)
        Number of frames of all sequences, and ``width * d``.
    dtype : numpy.dtype
        float32.

    Raises
    ------
    ValueError
        If there are no frames, a value is NaN or infinite, or the width is even.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import Windows
    >>> rows = Windows([np.arange(3.0)[:, None], np.array([[7.0]])], width=3)
    >>> rows.shape, rows[0:4].tolist()
    ((4, 3), [[0.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 2.0, 2.0], [7.0, 7.0, 7.0]])
    """

    def __init__(self, sequences: Sequence[ArrayLike], width: int = 15) -> None:
        check_whole("width", width)
        if width % 2 == 0:
            raise ValueError(f"width={width} is even: pass an odd number, so that windows are centred")
        if isinstance(sequences, str) or not hasattr(sequences, "__iter__"):
            raise ValueError(f"sequences={quoted(sequences)} is not valid: pass a list of (T, d) arrays")
        around = width // 2
        parts, starts, end = [], [], 0
        for place, sequence in enumerate(sequences):
            frames = np.asarray(check_real(sequence, f"sequence {place}"), np.float32)
            if frames.ndim != 2 or not frames.size or (parts and frames.shape[1] != parts[0].shape[1]):
                raise ValueError(f"sequence {place} has shape {frames.shape}: pass (T, d) arrays of the same d")
            if not np.isfinite(frames).all():
                raise ValueError(f"sequence {place} has NaN or infinity: remove or fill it")
            parts.append(np.pad(frames, ((around, around), (0, 0)), mode="edge"))
            starts.append(end + np.arange(len(frames)))
            end += len(parts[-1])
        if not parts:
            raise ValueError("there are no sequences: pass at least one")
        self.frames: NDArray[np.float32] = np.concatenate(parts)
        self.starts: NDArray[np.int64] = np.concatenate(starts)
        d = self.frames.shape[1]
        self.shape = (len(self.starts), width * d)
        self.dtype = self.frames.dtype
        step = self.frames.itemsize
        # frames lie one after another, so that a window of `width` of them is one run of width d numbers: no copies
        self.view = np.lib.stride_tricks.as_strided(
            self.frames, (len(self.frames) - width + 1, width * d), (d * step, step), writeable=False
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return self.view[self.starts[rows]]
