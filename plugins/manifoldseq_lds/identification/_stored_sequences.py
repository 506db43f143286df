"""Sequences on disk, which are read on demand; large sequences are read in blocks of channels."""

import mmap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import SequencesLike, check_sequences, warn_of_order

from ._subspace_method import Subspace, without_noise

Array = NDArray[np.floating[Any]]

_NUMBERS = 2**22
"""Number of values of a block: 32 MiB."""
_PRECISION = 1e-6
"""Directions below this fraction of the largest are lost in a Gram matrix, which squares the fraction."""


def on_disk(X: SequencesLike) -> bool:
    """Return whether sequences are memory-mapped: one (N, T, d) array or several (T, d) arrays."""
    if isinstance(X, np.memmap):
        return X.ndim == 3
    return isinstance(X, list | tuple) and any(isinstance(x, np.memmap) for x in X)


def check_on_disk(X: SequencesLike, min_length: int, needed_by: str) -> list[Any]:
    """Validate the sizes of sequences without reading memory-mapped arrays, and return the sequences unchanged."""
    if isinstance(X, np.memmap):
        warn_of_order(X.shape, "X", "pass X.transpose(0, 2, 1), else list(X)", stacklevel=4)
    items: list[Any] = list(X)
    if not items:
        raise ValueError("X contains no sequences: pass at least one (T, d) array")
    if not all(isinstance(x, np.memmap) for x in items):
        raise ValueError(
            "some sequences are memory-mapped and some are not: pass only memory-mapped arrays, or only arrays in "
            "memory"
        )
    # one channel of zeros stands for those on disk
    columns = [np.zeros((len(x), 1), x.dtype) if x.ndim == 2 and x.shape[1] else x for x in items]
    check_sequences(columns, min_length=min_length, needed_by=needed_by)
    channels = items[0].shape[1]
    for i, x in enumerate(items):
        if x.shape[1] != channels:
            raise ValueError(
                f"sequence {i} has {x.shape[1]} channels but sequence 0 has {channels}: pass sequences with the same "
                "channels"
            )
    return items


def is_large(x: Any) -> bool:
    """Return whether a sequence is read in blocks."""
    return isinstance(x, np.memmap) and x.size > _NUMBERS


def blocks(x: np.memmap, i: int, numbers: int = _NUMBERS) -> Iterator[tuple[slice, Array]]:
    """Yield slices of channels of sequence i, which is on disk, with their values as float64, (T, channels)."""
    step = max(1, numbers // len(x))
    for start in range(0, x.shape[1], step):
        columns = slice(start, min(start + step, x.shape[1]))
        block = np.asarray(x[:, columns], dtype=np.float64)
        if not np.isfinite(block).all():
            t, channel = np.argwhere(~np.isfinite(block))[0]
            raise ValueError(f"sequence {i} has NaN or infinity at t={t}, channel {start + channel}: remove or fill it")
        yield columns, block
    if x.mode == "r":
        _release(x)


def loaded(x: Any, i: int) -> Array:
    """Return sequence i in memory; a sequence that is already in memory is returned unchanged."""
    return np.concatenate([block for _, block in blocks(x, i)], axis=1) if isinstance(x, np.memmap) else x


def _all_blocks(sequences: Sequence[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield the blocks of all sequences; many sequences in memory are concatenated to one block."""
    if isinstance(sequences[0], np.memmap):
        for i, x in enumerate(sequences):
            yield from blocks(x, i)
        return
    ends = np.cumsum([x.size for x in sequences]) // _NUMBERS
    starts = [0, *(np.flatnonzero(np.diff(ends)) + 1), len(sequences)]
    for start, stop in pairwise(starts):
        yield slice(None), np.concatenate(sequences[start:stop])


def _release(x: np.memmap) -> None:
    """Release the pages of a file that were read, so that the resident memory does not grow (where supported)."""
    advice, base = getattr(mmap, "MADV_DONTNEED", None), x.base
    while isinstance(base, np.ndarray):
        base = base.base
    if advice is not None and isinstance(base, mmap.mmap):
        base.madvise(advice)


def channel_scale(sequences: Sequence[Any]) -> Array:
    """Return the standard deviation of each channel over all steps that are not NaN; one for constant channels."""
    d, counts = sequences[0].shape[1], sum(map(len, sequences))
    low, high, holed = np.full(d, np.inf), np.full(d, -np.inf), False
    for columns, block in _all_blocks(sequences):
        holed = holed or bool(np.isnan(block).any())
        low[columns] = np.fmin(low[columns], np.fmin.reduce(block, axis=0))
        high[columns] = np.fmax(high[columns], np.fmax.reduce(block, axis=0))
    peak = np.maximum(np.abs(low), np.abs(high))
    exponent = np.frexp(peak)[1]  # scaled exactly to magnitudes below one, squares neither over- nor underflow
    total, number, add = np.zeros(d), np.full(d, 0.0 if holed else counts), np.nansum if holed else np.sum
    for columns, block in _all_blocks(sequences):
        block = np.ldexp(block, -exponent[columns])
        total[columns] += add(block, axis=0)
        if holed:
            number[columns] += np.count_nonzero(~np.isnan(block), axis=0)
    mean, squares = total / number, np.zeros(d)
    for columns, block in _all_blocks(sequences):
        squares[columns] += add((np.ldexp(block, -exponent[columns]) - mean[columns]) ** 2, axis=0)
    deviation = np.sqrt(squares / number)
    scale = np.ones(d)
    varies = (high > low) & (deviation > np.finfo(float).eps * counts)
    scale[varies] = np.ldexp(deviation, exponent)[varies]
    return scale


def gram_subspace(x: Any, i: int, scale: Array, n: int, delay: int, center: bool) -> Subspace:
    """Decompose one large sequence in two passes over blocks of its channels.

    The first pass sums the T × T Gram matrix, whose eigenvectors are the right singular vectors; the second pass
    computes the n leading left singular vectors. Apart from these, at most one block is in memory. Directions below
    1e-6 of the largest are lost.
    """
    T, d = x.shape
    steps = T - delay + 1
    gram, shift, peak = np.zeros((T, T)), np.zeros(d), 0.0
    for columns, block in blocks(x, i):
        block = block / scale[columns]
        peak = max(peak, float(np.abs(block).max()))
        if center:
            shift[columns] = block.mean(axis=0)
            block -= shift[columns]
        gram += block @ block.T
    # of delayed outputs the Gram matrix is the sum of its shifts along the diagonal
    stacked = np.zeros((steps, steps))
    for lag in range(delay):
        stacked += gram[lag : lag + steps, lag : lag + steps]
    if center:  # the mean of each lag differs from that of the whole sequence
        stacked -= stacked.mean(axis=0)
        stacked -= stacked.mean(axis=1, keepdims=True)
    # Y'Y = V S² V', (T, T): then U = Y V / S, block by block of the channels
    w, V = np.linalg.eigh(stacked)
    s, V = np.sqrt(np.maximum(w[::-1], 0)), V[:, ::-1]
    s = without_noise(s[None], np.array([peak]), (d * delay, steps))[0]
    s[s <= _PRECISION * s[0]] = 0
    U, mean = np.empty((delay, d, n)), np.empty((delay, d))
    for columns, block in blocks(x, i):
        block = block / scale[columns] - shift[columns]
        for lag in range(delay):
            part = block[lag : lag + steps]
            mean[lag, columns] = part.mean(axis=0)
            U[lag, columns] = (part - mean[lag, columns] if center else part).T @ V[:, :n]
            mean[lag, columns] += shift[columns]
    U = U.reshape(delay * d, n) / np.where(s[:n] > 0, s[:n], 1)
    lost = np.flatnonzero(s[:n] == 0)
    U[:, lost] = np.eye(len(U), n)[:, lost]
    # directions near the rounding level are orthonormal to a few digits only; signs stay those of Y V
    Q, R = np.linalg.qr(U)
    U = Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)
    return Subspace(U[None], s[None], V.T[None], mean.reshape(1, -1) if center else None, np.array([peak]))
