"""Quantized coordinates: a few bits each, packed into bytes, or product quantization."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Codes = NDArray[np.uint8]
Coordinates = NDArray[np.float32]

BITS = (1, 2, 3, 4, 8, 32)
WIDTH = 8
"""Number of points with a common mean in relative codes."""


@dataclass(frozen=True)
class ScalarQuantizer:
    """Scalar quantization: each coordinate in `bits` bits.

    With up to four bits, the levels are the levels of Lloyd and Max for a normal distribution, times the deviation of
    the coordinate. With eight bits, they are uniform over its range. With 32 bits, float32 is kept.

    Parameters
    ----------
    bits : {1, 2, 3, 4, 8, 32}
    scale : ndarray of shape (m,), float32
    """

    bits: int
    scale: Coordinates

    @classmethod
    def of(cls, Z: NDArray, bits: int) -> Self:
        """Return the quantizer for these coordinates, shape (n, m)."""
        spread = np.abs(Z).max(axis=0) / 127.5 if bits == 8 else np.sqrt(np.mean(np.square(Z), axis=0))
        spread = np.where(spread > 0, spread, 1.0) if bits < 32 else np.empty(0)
        return cls(bits, spread.astype(np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes that are stored in addition to the codes."""
        return self.scale.nbytes

    def encode(self, Z: NDArray) -> Codes:
        """Return the packed codes, shape (n, bytes)."""
        if self.bits == 32:
            return np.ascontiguousarray(Z, np.float32).view(np.uint8)
        # the nearest level is found among the edges halfway between them; indices fill bytes from the lowest bits
        levels = _levels(self.bits)
        index = np.searchsorted((levels[1:] + levels[:-1]) / 2, Z / self.scale).astype(np.uint8)
        if self.bits == 3:  # two bits of every coordinate, then the third one of every coordinate
            return np.concatenate([_packed(index & 3, 2), _packed(index >> 2, 1)], axis=1)
        return _packed(index, self.bits)

    def decode(self, codes: Codes) -> Coordinates:
        """Return the coordinates of codes, shape (n, m)."""
        if self.bits == 32:
            return np.ascontiguousarray(codes).view(np.float32)
        m = len(self.scale)
        if not len(codes):
            return np.empty((0, m), np.float32)
        if self.bits == 3:
            low = -(-m // 4)
            index = _indices(2)[codes[:, :low]].reshape(len(codes), -1)[:, :m]
            index = index + (_indices(1)[codes[:, low:]].reshape(len(codes), -1)[:, :m] << 2)
            return _levels(3)[index] * self.scale
        Z = np.take(_table(self.bits), codes, axis=0).reshape(len(codes), -1)[:, :m]
        Z *= self.scale
        return Z


@dataclass(frozen=True)
class ProductQuantizer:
    """Product quantization: each group of coordinates is coded by the nearest of 256 centroids (Jégou et al., 2011).

    Parameters
    ----------
    codebooks : ndarray of shape (groups, 256, m / groups), float32
    """

    codebooks: Coordinates

    @classmethod
    def of(cls, Z: NDArray, groups: int) -> Self:
        """Return the quantizer trained on these coordinates, shape (n, m).

        Raises
        ------
        ImportError
            If faiss is not installed.
        ValueError
            If there are fewer than 256 rows, or the coordinates cannot be divided into equal groups.
        """
        n, m = Z.shape
        if n < 256:
            raise ValueError(
                f"product quantization needs at least 256 segments, but there are {n}: pass bits instead of n_groups, "
                "or pass more frames"
            )
        if m % groups:
            raise ValueError(f"n_groups={groups} does not divide the {m} coordinates: choose a divisor of {m}")
        faiss = load_faiss()
        trained = faiss.ProductQuantizer(m, groups, 8)
        trained.cp.min_points_per_centroid = 1
        trained.train(np.ascontiguousarray(Z, np.float32))
        return cls(faiss.vector_to_array(trained.centroids).reshape(groups, 256, m // groups))

    @property
    def nbytes(self) -> int:
        """Bytes that are stored in addition to the codes."""
        return self.codebooks.nbytes

    def encode(self, Z: NDArray) -> Codes:
        """Return the codes, shape (n, groups)."""
        groups, _, width = self.codebooks.shape
        parts = np.ascontiguousarray(Z, np.float32).reshape(len(Z), groups, width).transpose(1, 0, 2)
        scores = np.square(self.codebooks).sum(axis=2)[:, None, :] - 2 * parts @ self.codebooks.transpose(0, 2, 1)
        return np.ascontiguousarray(scores.argmin(axis=2).T.astype(np.uint8))

    def decode(self, codes: Codes) -> Coordinates:
        """Return the coordinates of codes, shape (n, m)."""
        groups = np.arange(len(self.codebooks))
        return self.codebooks[groups, codes].reshape(len(codes), -1)


@dataclass(frozen=True)
class RelativeQuantizer:
    """Means of eight consecutive points in eight bits, and differences of the points from the means in a few bits each.

    The points of a drifting path have a large range, in which a few bits are inaccurate; differences from neighbouring
    points have a small range. A group that is not full yet stores its points in eight bits.

    Parameters
    ----------
    coarse : ScalarQuantizer
        The quantizer with eight bits, for means and for points of the last group until it is full.
    fine : ScalarQuantizer
        The quantizer with one to three bits, for differences of points from their mean.
    """

    coarse: ScalarQuantizer
    fine: ScalarQuantizer

    @classmethod
    def of(cls, Z: NDArray, bits: int) -> Self:
        """Return the quantizer that suits consecutive points, shape (n, m), at least eight."""
        coarse = ScalarQuantizer.of(Z, 8)
        groups = Z[: len(Z) // WIDTH * WIDTH].reshape(-1, WIDTH, Z.shape[1])
        away = groups - groups.mean(axis=1, keepdims=True)
        return cls(coarse, ScalarQuantizer.of(away.reshape(-1, Z.shape[1]), bits))

    @property
    def nbytes(self) -> int:
        """Bytes that are stored in addition to the codes."""
        return self.coarse.nbytes + self.fine.nbytes

    def encode(self, Z: NDArray, final: bool, last: Codes | None = None) -> tuple[Codes, Codes, Codes]:
        """Return the codes of points that follow others.

        Parameters
        ----------
        Z : ndarray of shape (n, m)
        final : bool
            Whether the last point will not change; otherwise its group is not full.
        last : ndarray of shape (k, m), uint8, optional
            Earlier points of the group that is not full yet, in eight bits.

        Returns
        -------
        fine : ndarray of shape (8 g, bytes), uint8
            Codes of the full groups.
        means : ndarray of shape (g, m), uint8
        last : ndarray of shape (at most 8, m), uint8
        """
        # all points go through eight bits first: so it does not matter in which portions they come
        codes = self.coarse.encode(Z)
        codes = codes if last is None else np.concatenate([last, codes])
        full = (len(codes) - (not final)) // WIDTH * WIDTH
        points = self.coarse.decode(codes[:full]).reshape(full // WIDTH, WIDTH, len(self.coarse.scale))
        means = self.coarse.encode(points.mean(axis=1))
        away = points - self.coarse.decode(means)[:, None]
        return self.fine.encode(away.reshape(full, codes.shape[1])), means, codes[full:]


Quantizer = ScalarQuantizer | ProductQuantizer | RelativeQuantizer


@cache
def _levels(bits: int) -> Coordinates:
    """Return the levels in units of the scale, ascending: Lloyd-Max of a normal variable, or uniform for a byte."""
    if bits == 8:
        return (np.arange(256) - 127.5).astype(np.float32)
    # Lloyd's iteration for N(0, 1): edges halfway between levels, levels at the means -(pdf' / cdf') of their cells
    levels = norm.ppf((np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(2000):
        edges = np.concatenate([[-np.inf], (levels[1:] + levels[:-1]) / 2, [np.inf]])
        levels = -np.diff(norm.pdf(edges)) / np.diff(norm.cdf(edges))
    return levels.astype(np.float32)


@cache
def _table(bits: int) -> Coordinates:
    """Return the values of each byte, shape (256, 8 / bits)."""
    return _levels(bits)[_indices(bits)]


@cache
def _indices(bits: int) -> Codes:
    """Return the numbers in each byte, shape (256, 8 / bits)."""
    shifts = bits * np.arange(8 // bits)
    return ((np.arange(256)[:, None] >> shifts) & (2**bits - 1)).astype(np.uint8)


def _packed(index: NDArray[Any], bits: int) -> Codes:
    """Return numbers of a few bits in bytes, shape (n, bytes), the first ones in the lowest bits."""
    per_byte = 8 // bits
    index = np.pad(index, ((0, 0), (0, -index.shape[1] % per_byte)))
    digits = index.reshape(len(index), index.shape[1] // per_byte, per_byte).astype(np.uint8, copy=False)
    return np.bitwise_or.reduce(digits << (bits * np.arange(per_byte, dtype=np.uint8)), axis=2)


def load_faiss() -> Any:
    """Return the module faiss, or raise an error that says how to install it."""
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            "product quantization needs faiss, which is not installed: run `pip install "
            "'manifoldseq-hierarchical[faiss]'`"
        ) from error
    return faiss
