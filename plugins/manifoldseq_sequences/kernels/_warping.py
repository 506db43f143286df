"""Dynamic time warping: curves are compared along the alignment of their time axes that brings them nearest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._description import Array, SequenceKernel, as_arrays
from ._shape import resampled

MOST_STEPS = 64
"""Longer sequences are resampled to so many steps."""
BAND = 0.2
"""Time may be shifted by this share of the sequences."""
PAIRS = 2**12
"""Pairs of sequences that are aligned together: their partial sums stay in the cache of a processor.

The code of dtaidistance in C takes 0.25 to 0.4 of the time on JapaneseVowels and BasicMotions, but its band does not
follow the diagonal of sequences of different lengths: distances on JapaneseVowels correlate by 0.87 with these."""


@dataclass(frozen=True, eq=False)
class WarpingKernel(SequenceKernel):
    """The Gaussian of the dynamic-time-warping distance of standardized sequences, within a band.

    It is not positive definite. The squared distance is the least sum of squared differences along an alignment,
    divided by the length of the longer sequence.

    Parameters
    ----------
    band : float
        Half the width of the band around the diagonal of two time axes that have the length 1.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel, t = ms.get_kernel("warping"), np.arange(60)[:, None]
    >>> bump = lambda place: np.exp(-np.square((t - place) / 5.0))
    >>> packed = kernel.pack([bump(25), bump(32), bump(25) + bump(45)])
    >>> near, far = kernel.squared(packed, packed)[0, 1:]
    >>> bool(near < 0.1 * far)
    True
    """

    band: float = BAND
    name = "warping"
    positive_definite = False

    def pack(self, items: Iterable[Any]) -> PackedCurves:
        """Prepare N sequences."""
        made = [self.standardized(x) for x in as_arrays(items)]
        made = [resampled(z, MOST_STEPS) if len(z) > MOST_STEPS else z for z in made]
        lengths = np.array([len(z) for z in made])
        curves = np.zeros((len(made), lengths.max(), made[0].shape[1]))
        for i, z in enumerate(made):
            curves[i, : len(z)] = z
        return PackedCurves(curves, lengths)

    def squared(self, P: PackedCurves, Q: PackedCurves) -> Array:
        """Return squared distances, (len(P), len(Q))."""
        same, squared = P is Q, np.zeros((len(P), len(Q)))
        start = 0
        while start < len(P):
            columns = slice(start, None) if same else slice(None)
            others = Q[columns]
            rows = slice(start, start + max(1, PAIRS // len(others)))
            squared[rows, columns] = warped(P[rows], others, self.band)
            start = rows.stop
        if same:  # distances are symmetric: those below the diagonal are taken from above
            squared = np.triu(squared, 1)
            return squared + squared.T
        return squared


@dataclass(frozen=True, eq=False)
class PackedCurves:
    """Sequences with zeros behind their ends, (N, T, d), and their lengths, (N,); indexed by rows like an array."""

    curves: Array
    lengths: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: Any) -> PackedCurves:
        return PackedCurves(self.curves[rows], self.lengths[rows])


def warped(P: PackedCurves, Q: PackedCurves, band: float) -> Array:
    """Return the squared warping distances of all pairs, (len(P), len(Q)).

    All pairs advance together along the antidiagonals of their tables of partial sums: D[s, t] is the squared
    difference at steps s and t, plus the least of D[s-1, t], D[s, t-1] and D[s-1, t-1].
    """
    one, other = P.lengths[:, None], Q.lengths[None, :]
    T1, T2 = int(one.max()), int(other.max())
    A, B = P.curves[:, :T1].swapaxes(0, 1), Q.curves[:, :T2].transpose(1, 2, 0)  # (T1, N, d), (T2, d, M)
    A, B = np.ascontiguousarray(A), np.ascontiguousarray(B)
    a, b = np.square(A).sum(axis=2), np.square(B).sum(axis=1)  # (T1, N), (T2, M)
    # the band |s / (T1 - 1) - t / (T2 - 1)| <= band, in steps t: |t - slope s| <= reach; it is at least one step of
    # the shorter sequence wide, so that it is connected
    slope = np.where(one > 1, (other - 1) / np.maximum(one - 1, 1), 0.0)
    reach = np.where(one > 1, np.maximum(band * (other - 1), np.maximum(slope, 1.0)), other)
    # on the antidiagonal n = s + t these are the steps s from (n - reach) / (1 + slope) to (n + reach) / (1 + slope)
    share = 1 / (1 + slope)
    width = reach * share + 1e-9
    ends, found = one + other - 2, np.zeros(slope.shape)
    lengths = np.broadcast_to(one, ends.shape)
    # row s + 1 holds D[s, diagonal - s]; row 0 is a border of infinities
    before, last, new = (np.full((T1 + 1, *slope.shape), np.inf) for _ in range(3))
    for diagonal in range(T1 + T2 - 1):
        middle = diagonal * share
        low, high = middle - width, middle + width
        first = max(0, diagonal - T2 + 1, int(np.ceil(low.min())))
        end = min(diagonal, T1 - 1, int(high.max()))
        s = slice(first, end + 1)
        t = slice(diagonal - first, diagonal - end - 1 if diagonal > end else None, -1)
        new.fill(np.inf)
        if first <= end:
            cost = A[s] @ B[t]
            cost *= -2.0
            cost += a[s, :, None]
            cost += b[t, None, :]
            np.maximum(cost, 0.0, out=cost)
            if diagonal:
                least = np.minimum(last[first : end + 1], last[first + 1 : end + 2])
                cost += np.minimum(least, before[first : end + 1], out=least)
            steps = np.arange(first, end + 1)[:, None, None]
            np.copyto(cost, np.inf, where=(steps < low) | (steps > high))
            new[first + 1 : end + 2] = cost
        done = np.nonzero(ends == diagonal)
        found[done] = new[(lengths[done], *done)]
        before, last, new = last, new, before
    return found / np.maximum(one, other)
