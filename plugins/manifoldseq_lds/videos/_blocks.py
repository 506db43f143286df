"""Videos (`VideoBlocks`: size and stride of blocks) and sequences (windows) cut into short sequences with positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from manifoldseq.estimators import SequencesLike, check_real, quoted

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of one video or sequence.

    Attributes
    ----------
    sequences : ndarray of shape (B, t, d)
        Sequences of t steps with d pixels or channels.
    positions : ndarray of shape (B, 3) or (B, 1)
        The centre of each block along time, rows and columns, or along time only, relative to the whole, in (0, 1).
    """

    sequences: Array
    positions: Array

    def __len__(self) -> int:
        return len(self.sequences)


class VideoBlocks(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Cut videos into spatio-temporal blocks.

    Parameters
    ----------
    size : (int, int, int)
        Frames, rows and columns of a block: (25, 8, 8) for YUPENN, (50, 16, 16) for DynTex in Huang et al.
    stride : int, (int, int, int) or None
        Steps from one block to the next; by default `size`, so that blocks do not overlap.

    Raises
    ------
    ValueError
        In `transform`, if a parameter is invalid, or if a video is not numeric, not finite, or smaller than a block;
        the message names the video.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = VideoBlocks((10, 8, 8)).fit_transform([np.zeros((25, 16, 16))])
    >>> blocks[0].sequences.shape, blocks[0].positions[0].tolist()
    ((8, 10, 64), [0.2, 0.25, 0.25])
    """

    def __init__(self, size: Sequence[int] = (25, 8, 8), stride: Any = None) -> None:
        self.size = size
        self.stride = stride

    def fit(self, X: SequencesLike, y: object = None) -> Self:
        """Validate the parameters; nothing is learned."""
        triple("size", self.size)
        if self.stride is not None:
            triple("stride", self.stride)
        return self

    def transform(self, X: SequencesLike) -> list[Blocks]:
        """Cut videos.

        Parameters
        ----------
        X : list of array-like of shape (T, rows, columns)

        Returns
        -------
        list of Blocks
            Blocks with sequences of shape (B, t, rows × columns of a block), ordered along time, then rows, then
            columns.
        """
        self.fit(X)
        size = triple("size", self.size)
        stride = size if self.stride is None else triple("stride", self.stride)
        return [_cut(video, size, stride) for video in check_videos(X, size)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def check_videos(X: SequencesLike, least: Sequence[int]) -> list[NDArray[Any]]:
    """Return videos as arrays (T, rows, columns) of real, finite numbers, each at least as large as a block."""
    if isinstance(X, str | bytes) or not (isinstance(X, Sequence) or (isinstance(X, np.ndarray) and X.ndim == 4)):
        raise ValueError(
            f"X is of type {type(X).__name__}: pass a list of videos, each an array of shape (T, rows, columns)"
        )
    if not len(X):
        raise ValueError("X contains no videos: pass at least one array of shape (T, rows, columns)")
    videos = []
    for i in range(len(X)):
        given = check_real(X[i], f"video {i}")
        try:
            video = np.asarray(given)
        except ValueError:
            raise ValueError(
                f"video {i} has frames of different sizes: pass an array of shape (T, rows, columns)"
            ) from None
        if video.ndim != 3:
            raise ValueError(
                f"video {i} has shape {video.shape} and dtype {video.dtype}: pass an array of grey levels of shape "
                "(T, rows, columns)"
            )
        if any(have < need for have, need in zip(video.shape, least, strict=True)):
            have, need = (" x ".join(map(str, shape)) for shape in (video.shape, least))
            raise ValueError(f"video {i} has {have} frames, rows and columns, but a block has {need}: lower size")
        if video.dtype.kind == "f" and not np.isfinite(video).all():
            raise ValueError(f"video {i} contains a value that is not finite: repair or remove the video")
        videos.append(video)
    return videos


def cut_sequence(sequence: Array, window: int, stride: int) -> Blocks:
    """Return the windows of a sequence (T, d) as blocks."""
    starts = np.arange(0, len(sequence) - window + 1, stride)
    parts = sliding_window_view(sequence, window, axis=0)[starts].swapaxes(1, 2)
    return Blocks(np.ascontiguousarray(parts), ((starts + window / 2) / len(sequence))[:, None])


def triple(name: str, value: Any) -> tuple[int, int, int]:
    """Return three whole numbers of at least 1, from one number or three numbers."""
    parts = tuple(np.ravel(np.asarray(value, dtype=object)))
    parts = parts * 3 if len(parts) == 1 else parts
    if len(parts) != 3 or not all(isinstance(p, Integral) and not isinstance(p, bool) and int(p) >= 1 for p in parts):
        raise ValueError(
            f"{name}={quoted(value)} is not valid: pass the numbers of frames, rows and columns as three whole numbers"
        )
    return int(parts[0]), int(parts[1]), int(parts[2])


def _cut(video: NDArray[Any], size: tuple[int, int, int], stride: tuple[int, int, int]) -> Blocks:
    windows = sliding_window_view(video, size)[tuple(slice(None, None, step) for step in stride)]
    counts, (t, h, w) = windows.shape[:3], size
    sequences = windows.reshape(-1, t, h * w).astype(np.float64)
    centres = [
        (np.arange(n) * step + s / 2) / length
        for n, step, s, length in zip(counts, stride, size, video.shape, strict=True)
    ]
    positions = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 3)
    return Blocks(sequences, positions)
