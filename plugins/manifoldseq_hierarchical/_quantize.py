"""Quantized coordinates: a few bits each, packed into bytes, or one byte for several by product quantization."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Codes = NDArray[np.uint8]
Coordinates = NDArray[np.float32]

BITS = (1, 2, 4, 8, 32)


@dataclass(frozen=True)
class ScalarQuantizer:
    """Each coordinate by itself, in `bits` bits.

    Up to four bits the levels are those of Lloyd and Max for a normal distribution, times the deviation of the
    coordinate; eight bits are uniform over its range; 32 keep float32.

    Parameters
    ----------
    bits : {1, 2, 4, 8, 32}
    scale : ndarray of shape (m,), float32
    """

    bits: int
    scale: Coordinates

    @classmethod
    def of(cls, Z: NDArray, bits: int) -> Self:
        """Return the quantizer that suits these coordinates, shape (n, m)."""
        spread = np.abs(Z).max(axis=0) / 127.5 if bits == 8 else np.sqrt(np.mean(np.square(Z), axis=0))
        spread = np.where(spread > 0, spread, 1.0) if bits < 32 else np.empty(0)
        return cls(bits, spread.astype(np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes of what must be kept beside the codes."""
        return self.scale.nbytes

    def encode(self, Z: NDArray) -> Codes:
        """Return the packed codes, shape (n, bytes)."""
        if self.bits == 32:
            return np.ascontiguousarray(Z, np.float32).view(np.uint8)
        # the nearest level is found among the edges halfway between them; indices fill bytes from the lowest bits
        levels = _levels(self.bits)
        index = np.searchsorted((levels[1:] + levels[:-1]) / 2, Z / self.scale).astype(np.uint8)
        per_byte = 8 // self.bits
        index = np.pad(index, ((0, 0), (0, -index.shape[1] % per_byte)))
        digits = index.reshape(len(index), -1, per_byte)
        return np.bitwise_or.reduce(digits << (self.bits * np.arange(per_byte, dtype=np.uint8)), axis=2)

    def decode(self, codes: Codes) -> Coordinates:
        """Return the coordinates that codes stand for, shape (n, m)."""
        if self.bits == 32:
            return np.ascontiguousarray(codes).view(np.float32)
        made = _table(self.bits)[codes].reshape(len(codes), -1)[:, : len(self.scale)]
        return made * self.scale


@dataclass(frozen=True)
class ProductQuantizer:
    """Groups of coordinates by the nearest of 256 centroids, one byte a group (Jégou et al., 2011), trained by faiss.

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
            If there are fewer than 256 rows, or the coordinates cannot be split into so many equal groups.
        """
        n, m = Z.shape
        if n < 256:
            raise ValueError(f"product quantization learns 256 centroids from {n} segments: use bits, or more segments")
        if m % groups:
            raise ValueError(f"n_groups={groups} does not divide the {m} coordinates: choose a divisor")
        faiss = load_faiss()
        trained = faiss.ProductQuantizer(m, groups, 8)
        trained.cp.min_points_per_centroid = 1
        trained.train(np.ascontiguousarray(Z, np.float32))
        return cls(faiss.vector_to_array(trained.centroids).reshape(groups, 256, m // groups))

    @property
    def nbytes(self) -> int:
        """Bytes of what must be kept beside the codes."""
        return self.codebooks.nbytes

    def encode(self, Z: NDArray) -> Codes:
        """Return the codes, shape (n, groups)."""
        groups, _, width = self.codebooks.shape
        parts = np.ascontiguousarray(Z, np.float32).reshape(len(Z), groups, width).transpose(1, 0, 2)
        scores = np.square(self.codebooks).sum(axis=2)[:, None, :] - 2 * parts @ self.codebooks.transpose(0, 2, 1)
        return np.ascontiguousarray(scores.argmin(axis=2).T.astype(np.uint8))

    def decode(self, codes: Codes) -> Coordinates:
        """Return the coordinates that codes stand for, shape (n, m)."""
        groups = np.arange(len(self.codebooks))
        return self.codebooks[groups, codes].reshape(len(codes), -1)


Quantizer = ScalarQuantizer | ProductQuantizer


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
    """Return what each byte stands for, shape (256, 8 / bits)."""
    shifts = bits * np.arange(8 // bits)
    return _levels(bits)[(np.arange(256)[:, None] >> shifts) & (2**bits - 1)]


def load_faiss() -> Any:
    """Return the module faiss, or raise a sentence that says how to install it."""
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("product quantization needs faiss: pip install 'manifoldseq[faiss]'") from error
    return faiss
