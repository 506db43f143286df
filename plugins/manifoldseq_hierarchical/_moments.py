"""Counts, sums and scatter of classes of frames in one pass, block by block, in float64."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from manifoldseq.estimators import row_blocks

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_BLOCK = 1 << 20
"""Numbers in a block of rows: 8 MiB in float64; of wide rows, which are read twice, a sixteenth stays in the cache."""
_ROWS = (16, 8192)
# A trick of speed: summed by sparse products of whole blocks, `SubspaceEncoder.fit` of float32 frames of 2048 numbers
# takes 1.27 times as long (`python -m benchmarks.tricks wide`).
_WIDE = 512
"""Frames with at least this many columns are summed one by one in the cache; narrower frames by a sparse product."""
_FAR = 4.0
"""Frames are shifted before summation if their mean square exceeds their variance by this factor."""


@dataclass
class Moments:
    """The sums over labelled frames that the closed form needs; frames and classes can be added at any time.

    Parameters
    ----------
    counts : ndarray of shape (h,), int64, or float64 if frames have weights
        The number of frames of each class, or their weight.
    sums : ndarray of shape (h, d)
        Sum of ``x - shift`` of each class.
    shift : ndarray of shape (d,)
        A point near the first frames, so that sums of squares lose no digits to a large common offset.
    energy : float
        Sum of ``|x - shift|²`` of all frames.
    eps : float
        The largest machine epsilon of the dtypes of the frames.
    """

    counts: NDArray[Any]
    sums: Array
    shift: Array
    energy: float
    eps: float

    @classmethod
    def of(cls, X: Any, codes: Codes, n_classes: int = 0, weight: Array | None = None) -> Self:
        """Return the moments of frames.

        Parameters
        ----------
        X : ndarray of shape (N, d)
            The frames, of any real dtype. A `numpy.memmap` is read once, block by block.
        codes : ndarray of shape (N,), int
            The class of each frame, from 0.
        n_classes : int
            The minimum number of classes.
        weight : ndarray of shape (N,), optional
            Positive weights; a frame of weight 2 counts as two frames.

        Raises
        ------
        ValueError
            If a frame has NaN, infinity, or numbers whose squares overflow, or if the squares of all frames vanish.
        """
        made = cls.empty(X, n_classes)
        made.add(X, codes, weight)
        return made

    @classmethod
    def empty(cls, X: Any, n_classes: int) -> Self:
        """Return moments without frames, with a shift that suits the given frames."""
        first = X[: min(len(X), 64)].astype(np.float64)
        with np.errstate(all="ignore"):  # `add` says what is not finite
            mean = first.mean(axis=0)
            far = float(mean @ mean) > _FAR * float(np.mean(np.square(first - mean).sum(axis=1)))
        shift = mean if far and np.isfinite(mean).all() else np.zeros(X.shape[1])
        counts, sums = np.zeros(n_classes, np.int64), np.zeros((n_classes, X.shape[1]))
        return cls(counts, sums, shift, 0.0, float(np.finfo(np.float64).eps))

    def add(self, X: Any, codes: Codes, weight: Array | None = None) -> None:
        """Add frames to the classes of `codes`, which may be new. After an error the moments are unchanged."""
        new = self.copy()
        n_classes = max(int(codes.max(initial=-1)) + 1, len(self.counts))
        new.spread(np.arange(len(self.counts)), n_classes)
        if weight is not None:
            new.counts = new.counts.astype(np.float64)
        with np.errstate(all="ignore"):
            for rows, block in self.blocks(X):
                flat = block.ravel()
                if weight is None:
                    new.energy += float(flat @ flat)
                    new._add_block(block, codes[rows])
                else:
                    new.energy += float(weight[rows] @ np.vecdot(block, block))
                    new._add_weighted(block, codes[rows], weight[rows])
                if not isfinite(new.energy):
                    raise ValueError(not_finite(X[rows], rows.start))
        if new.energy < np.finfo(np.float64).tiny and any(block.any() for _, block in new.blocks(X)):
            raise ValueError("the squares of the frames underflow in float64: scale X up")
        if np.issubdtype(X.dtype, np.floating):
            new.eps = max(self.eps, float(np.finfo(X.dtype).eps))
        self.__dict__.update(vars(new))

    def blocks(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of consecutive rows minus the shift in float64: views of X, or one buffer that is reused."""
        plain = X.dtype == np.float64 and X.flags.c_contiguous and not self.shift.any()
        buffer = None
        for rows in frame_blocks(X):
            if plain:
                yield rows, X[rows]
                continue
            if buffer is None:
                buffer = np.empty((rows.stop - rows.start, X.shape[1]))
            block = buffer[: rows.stop - rows.start]
            np.copyto(block, X[rows])
            block -= self.shift
            yield rows, block

    def sum_up(self, X: Any, codes: Codes, weight: Array | None = None) -> None:
        """Add frames to the counts and sums of existing classes only, without checks."""
        if weight is not None:
            self.counts = self.counts.astype(np.float64)
        for rows, block in self.blocks(X):
            if weight is None:
                self._add_block(block, codes[rows])
            else:
                self._add_weighted(block, codes[rows], weight[rows])

    def _add_weighted(self, block: Array, codes: Codes, weight: Array) -> None:
        """Add one of the `blocks`, with weights, to the counts and sums."""
        np.add.at(self.counts, codes, weight)
        self.sums += _indicator(codes, weight, len(self.counts)) @ block

    def _add_block(self, block: Array, codes: Codes) -> None:
        """Add one of the `blocks` to the counts and sums."""
        if block.shape[1] >= _WIDE:
            self.counts += np.bincount(codes, minlength=len(self.counts))
            add, sums = np.add, list(self.sums)
            for frame, k in zip(block, codes.tolist(), strict=True):
                add(sums[k], frame, sums[k])
            return
        few = len(self.counts) <= len(codes)
        present, place = (slice(None), codes) if few else np.unique(codes, return_inverse=True)
        n_present = len(self.counts[present])
        self.counts[present] += np.bincount(place, minlength=n_present)
        self.sums[present] += _indicator(place, np.ones(len(place)), n_present) @ block

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.counts.copy(), self.sums.copy(), self.shift, self.energy, self.eps)

    def __add__(self, other: Self) -> Self:
        """Return the moments of two sets of frames with the same shift and classes."""
        sums = self.sums + other.sums
        return type(self)(
            self.counts + other.counts, sums, self.shift, self.energy + other.energy, max(self.eps, other.eps)
        )

    def spread(self, rows: NDArray[np.intp], n_classes: int) -> None:
        """Return moments with `n_classes` rows in which the classes have these positions; the other rows are empty."""
        counts, sums = np.zeros(n_classes, self.counts.dtype), np.zeros((n_classes, len(self.shift)))
        counts[rows], sums[rows] = self.counts, self.sums
        self.counts, self.sums = counts, sums

    @property
    def n(self) -> float:
        """The number of frames, or the sum of their weights."""
        return self.counts.sum().item()

    @property
    def mean(self) -> Array:
        """The mean of all frames, shape (d,)."""
        return self.shift + self.sums.sum(axis=0) / self.n

    @property
    def centroids(self) -> Array:
        """The class means (4), shape (h, d); the mean of an empty class is `shift`."""
        return self.shift + self.sums / np.where(self.counts > 0, self.counts, 1)[:, None]

    @property
    def within(self) -> float:
        """The trace of S_w: the sum of squared distances of the frames to their class means."""
        # sum |x - mu_k|² = sum |x|² - sum_k |S_k|² / n_k, all about the shift
        between = np.square(self.sums).sum(axis=1) / np.where(self.counts > 0, self.counts, 1)
        return max(self.energy - float(between.sum()), 0.0)

    def scatter(self, origin: Array) -> float:
        """Return the trace of S_0 (7): the sum of squared distances of the frames to `origin`."""
        # sum |x - o|² = sum |x|² - 2 o' sum x + n |o|², all about the shift
        away = origin - self.shift
        return max(self.energy - 2 * float(away @ self.sums.sum(axis=0)) + self.n * float(away @ away), 0.0)

    def tolerance(self, origin: Array) -> float:
        """Return an upper bound of the rounding error of a singular value of the weighted centroids.

        Averaging over classes does not increase the norm of a perturbation of the frames. The rounding of the input
        therefore changes singular values by at most ``eps / 2 * |X|``, in the Frobenius norm. Sums of N frames in
        float64 add about ``sqrt(N)`` times the epsilon of float64. The bound does not depend on the scale and accounts
        for a large common offset.
        """
        norm = np.sqrt(self.scatter(np.zeros_like(origin)) + self.n * float(origin @ origin))
        return 4 * max(self.eps, np.finfo(np.float64).eps * np.sqrt(self.n)) * float(norm)


def _indicator(codes: Codes, values: Array, n_classes: int) -> csc_array:
    """Return the indicator matrix (n_classes, N): the value of a frame in the row of its class."""
    starts = np.arange(len(codes) + 1, dtype=np.int32)
    return csc_array((values, codes.astype(np.int32), starts), shape=(n_classes, len(codes)))


def frame_blocks(X: Any) -> Iterator[slice]:
    """Return slices of consecutive rows of about 8 MiB in float64, or of half a MiB for wide rows."""
    numbers = _BLOCK // 16 if X.shape[1] >= _WIDE else _BLOCK
    return row_blocks(len(X), int(np.clip(numbers // max(X.shape[1], 1), *_ROWS)))


def centred(block: Any, origin: Array) -> Array:
    """Return ``block - origin`` in float64."""
    made = block.astype(np.float64, order="C")
    made -= origin
    return made


def not_finite(block: Any, start: int) -> str:
    """Return the error message for a block of frames, from number `start` on, whose squares are not finite."""
    bad = np.argwhere(~np.isfinite(block))
    if not len(bad):
        return f"the squares of the frames {start} to {start + len(block) - 1} overflow: scale X down"
    row, feature = bad[0]
    what = "NaN" if np.isnan(block[row, feature]) else "infinity"
    return f"frame {start + row} has {what} in feature {feature}: remove or fill it"
