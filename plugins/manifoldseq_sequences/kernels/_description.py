"""Gaussian kernels of descriptions: each sequence is described by one row of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manifoldseq.evaluation import SequenceFeatures

Array = NDArray[np.float64]

WIDTH_ROWS = 60
"""Sequences, evenly spaced, whose squared distances give the width: 1770 pairs are enough for a median."""
EQUAL = 1e-13
"""Squared distances up to this share of the squared norms are rounding and count as zero. Otherwise a kernel that tells
no two sequences apart would have the median of rounding errors as its width, and describe them by noise."""


@dataclass(frozen=True, eq=False)
class SequenceKernel(ABC):
    """Base class of kernels on sequences: declared properties, and the channel scales that `fitted` learns.

    A kernel without learned settings compares sequences without scaling.

    Parameters
    ----------
    channels : ndarray of shape (d,), optional
        The standard deviation of each channel over all time steps of the sequences that the kernel was fitted to.
    width : float
        The squared distance at which the kernel is ``exp(-1)``; learned as the median of the squared distances.
    """

    channels: ArrayLike | None = None
    width: float = 1.0
    domain = "sequences"
    name = "sequences"
    constant_diagonal = True
    positive_definite = True
    products_only = False
    convex_in_output = False
    weighted = None
    manifold = None
    self_term = None

    def fitted(self, items: Iterable[Any], n_clusters: int | None = None) -> Self:
        """Return the kernel with the settings that it learns from a set of sequences, without labels.

        The settings of some kernels depend on the number of clusters, `n_clusters`.
        """
        sequences = as_arrays(items)
        made = replace(self, channels=channel_spread(sequences))._learned(sequences)
        some = sequences[:: -(-len(sequences) // WIDTH_ROWS)]
        packed = made.pack(some)
        squared = made.squared(packed, packed)
        above = squared[np.triu_indices(len(squared), 1)]
        above = above[above > 0]
        return replace(made, width=float(np.median(above)) if len(above) else 1.0)

    def _learned(self, sequences: list[Array]) -> Self:
        """Return the kernel with learned settings other than channels and width."""
        return self

    @abstractmethod
    def pack(self, items: Iterable[Any]) -> Any:
        """Prepare N sequences once."""

    @abstractmethod
    def squared(self, P: Any, Q: Any) -> Array:
        """Return squared distances, (len(P), len(Q))."""

    def cross(self, P: Any, Q: Any) -> Array:
        """Return the kernel matrix ``exp(-squared distance / width)``, (len(P), len(Q))."""
        return np.exp(-self.squared(P, Q) / self.width)

    def diag(self, P: Any) -> Array:
        """Return k(x, x), which is 1."""
        return np.ones(len(P))

    def units(self, sequences: list[Array]) -> Array:
        """Return the learned standard deviations of the channels, (d,); 1 for constant channels and before `fitted`."""
        whole = np.ones(sequences[0].shape[1]) if self.channels is None else np.asarray(self.channels)
        return np.where(whole > 0, whole, 1.0)


@dataclass(frozen=True, eq=False)
class DescriptionKernel(SequenceKernel):
    """Base class of Gaussian kernels of the squared distance between descriptions, rows of numbers."""

    @abstractmethod
    def describe(self, sequences: list[Array]) -> Array:
        """Return one row of numbers per sequence, (N, p)."""

    def pack(self, items: Iterable[Any]) -> Array:
        """Return the descriptions of N sequences, (N, p)."""
        return self.describe(as_arrays(items))

    def squared(self, P: Array, Q: Array) -> Array:
        """Return squared distances of descriptions, (len(P), len(Q))."""
        sizes = np.square(P).sum(axis=1)[:, None] + np.square(Q).sum(axis=1)
        squared = sizes - 2 * P @ Q.T
        return np.where(squared > EQUAL * sizes, squared, 0.0)


def as_arrays(items: Iterable[Any]) -> list[Array]:
    """Return sequences as arrays (T, d); an item of the domain is a tuple of one array."""
    arrays = [np.asarray(item[0] if isinstance(item, tuple) else item, dtype=float) for item in items]
    if not arrays:
        raise ValueError("there are no sequences to compare: pass at least one")
    return arrays


def channel_spread(sequences: list[Array]) -> Array:
    """Return the standard deviation of each channel over all time steps of all sequences, (d,)."""
    steps = sum(len(x) for x in sequences)
    mean = sum(x.sum(axis=0) for x in sequences) / steps
    return np.sqrt(sum(np.square(x - mean).sum(axis=0) for x in sequences) / steps)


def learned_from(features: SequenceFeatures, sequences: list[Array]) -> dict[str, Any]:
    """Return the attributes that features learn from sequences."""
    features.learn(sequences)
    return {name: getattr(features, name) for name in features.learned}


def learned_by(features: SequenceFeatures, learned: Mapping[str, Any]) -> SequenceFeatures:
    """Set the learned attributes of features, and return the features."""
    for name, value in learned.items():
        setattr(features, name, value)
    return features


def standard_sequences(n_channels: int) -> list[Array]:
    """Return white noise of 64 steps, with mean 0 and standard deviation 1 of each channel."""
    x = np.random.default_rng(0).standard_normal((8 * 64, n_channels))
    return list(((x - x.mean(axis=0)) / x.std(axis=0)).reshape(8, 64, n_channels))
