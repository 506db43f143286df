"""Local binary patterns on three orthogonal planes (Zhao and Pietikäinen 2007) of moving textures."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from manifoldseq.estimators import SequencesLike, quoted

from ._blocks import check_videos

Array = NDArray[np.floating[Any]]

_PLANES = ((1, 2), (0, 2), (0, 1))
"""Axes of the planes XY, XT and YT of a video (T, Y, X)."""
_BINS = 59


def _table() -> NDArray[np.uint8]:
    """Return the bin of each of the 256 patterns: the 58 with at most two transitions in their order, all others 58."""
    patterns = np.arange(256)
    # bits that differ from their neighbour on the circle: a pattern xor itself turned by one bit
    changes = np.array([bin(p ^ ((p >> 1) | ((p & 1) << 7))).count("1") for p in patterns])
    table = np.full(256, _BINS - 1, dtype=np.uint8)
    table[changes <= 2] = np.arange(_BINS - 1)
    return table


_UNIFORM = _table()


class LBPTOP(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Describe videos by sequences of histograms of local binary patterns on three orthogonal planes.

    A video is split into sub-videos; each becomes one time step of 177 values: the frequencies of the 59 uniform
    patterns of eight neighbours at radius one, in the planes XY, XT and YT, over the inner pixels and frames of the
    sub-video.

    Parameters
    ----------
    length : int
        Number of frames of a sub-video, at least 3.
    overlap : int
        Number of frames that consecutive sub-videos share.

    Raises
    ------
    ValueError
        In `transform`, if a parameter is invalid, or if a video is not numeric, not finite, or smaller than a
        sub-video; the message names the video.

    Notes
    -----
    Neighbours between pixels are interpolated linearly. Bins are in the order of the patterns, as numbers whose bit k
    is the neighbour at the angle k π / 4; the last bin contains the patterns with more than two changes around the
    circle. The experiments of Huang et al. on DynTex++ use sub-videos of 8 frames that overlap by 6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sequences = LBPTOP().fit_transform([rng.random((20, 16, 16))])
    >>> sequences[0].shape, np.round(sequences[0][0].sum(), 9).item()
    ((7, 177), 3.0)
    """

    def __init__(self, length: int = 8, *, overlap: int = 6) -> None:
        self.length = length
        self.overlap = overlap

    def fit(self, X: SequencesLike, y: object = None) -> Self:
        """Validate the parameters; nothing is learned."""
        if not isinstance(self.length, Integral) or isinstance(self.length, bool) or self.length < 3:
            raise ValueError(f"length={quoted(self.length)} is not valid: pass a whole number of at least 3")
        if not isinstance(self.overlap, Integral) or isinstance(self.overlap, bool) or self.overlap < 0:
            raise ValueError(f"overlap={quoted(self.overlap)} is not valid: pass a whole number of at least 0")
        if self.overlap >= self.length:
            raise ValueError(
                f"overlap={self.overlap} is not below length={self.length}, so consecutive sub-videos would not "
                "advance: lower overlap"
            )
        return self

    def transform(self, X: SequencesLike) -> list[Array]:
        """Describe videos.

        Parameters
        ----------
        X : list of array-like of shape (T, rows, columns)

        Returns
        -------
        list of ndarray of shape (S, 177)
            Features of the S sub-videos of each video; each third of a row sums to one.
        """
        self.fit(X)
        return [self._describe(video) for video in check_videos(X, (self.length, 3, 3))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _describe(self, video: NDArray[Any]) -> Array:
        video = video.astype(np.float64)
        starts = np.arange(0, len(video) - self.length + 1, self.length - self.overlap)
        parts = []
        for plane in _PLANES:
            bins = local_patterns(video, plane)
            frames = len(bins)
            # one histogram per frame; of a window of frames it is a difference of running sums, (S, bins)
            flat = (bins.reshape(frames, -1) + _BINS * np.arange(frames)[:, None]).ravel()
            counts = np.bincount(flat, minlength=_BINS * frames).reshape(frames, _BINS)
            sums = np.concatenate([np.zeros((1, _BINS)), counts.cumsum(axis=0)])
            totals = sums[starts + self.length - 2] - sums[starts]  # inner frames: those with a frame on both sides
            parts.append(totals / totals.sum(axis=1, keepdims=True))
        return np.concatenate(parts, axis=1)


def local_patterns(video: Array, plane: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the bins of the inner pixels (T - 2, Y - 2, X - 2) of a video, neighbours in the plane of two axes."""
    centre = _shifted(video, plane, 0, 0)
    patterns = np.zeros(centre.shape, dtype=np.uint8)
    a = np.sqrt(0.5)
    slack = 1e-12 * max(float(np.abs(video).max()), np.finfo(float).tiny)
    for bit in range(8):
        down, right = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))[bit]
        value = _shifted(video, plane, down, right)
        # the neighbours on the diagonals lie on the circle of radius one: bilinear, at sqrt(1/2) along both axes
        if down and right:
            sides = _shifted(video, plane, down, 0) + _shifted(video, plane, 0, right)
            value = a * a * value + a * (1 - a) * sides + (1 - a) ** 2 * centre
        patterns |= (value >= centre - slack).astype(np.uint8) << np.uint8(bit)
    return _UNIFORM[patterns]


def _shifted(video: Array, plane: tuple[int, int], down: int, right: int) -> Array:
    """Return the inner pixels of a video moved by one pixel, or none, along the two axes of a plane."""
    offset = [0, 0, 0]
    offset[plane[0]], offset[plane[1]] = down, right
    return video[tuple(slice(1 + o, size - 1 + o) for o, size in zip(offset, video.shape, strict=True))]
