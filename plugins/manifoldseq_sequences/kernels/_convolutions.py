"""Random convolutions: how often patterns of nine steps, at many spacings, occur anywhere in a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ._description import Array, DescriptionKernel
from ._shape import resampled

N_TAPS = 9
PATTERNS = np.array(list(combinations(range(N_TAPS), 3)))
"""The 84 places of three weights of 2 among nine weights, the others -1, as in MiniRocket."""
DILATIONS = 6
"""Spacings of the taps, at most: evenly on a logarithmic scale up to the length of the sequences."""
BIASES = 2
"""Thresholds per pattern and spacing."""
MIXTURES = 7
"""Random sums of channels per spacing, of sequences of several channels; they share the patterns."""
LARGEST_SUM = 9
"""Most channels of one sum."""
MOST_STEPS = 512
"""Longer sequences are resampled to so many steps."""
EXAMPLES = 20
"""Sequences from which thresholds are taken."""


@dataclass(frozen=True, eq=False)
class ConvolutionsKernel(DescriptionKernel):
    """The Gaussian of the distance of responses to random convolutions, in the manner of MiniRocket.

    A response is the share of time steps at which the convolution of a standardized sequence is above a threshold; the
    thresholds are quantiles of convolutions of the sequences that the kernel is fitted to. Dempster, Schmidt and Webb:
    MiniRocket, KDD 2021; Jorge and Rubio: Time series clustering with random convolutional kernels, 2024.

    Parameters
    ----------
    seed : int
        Of the random sums of channels and of the examples that give thresholds.
    dilations : tuple of int
        Spacings of the nine weights of a pattern; `fitted` learns them from the length of the sequences.
    thresholds : ndarray of shape (n_dilations, 84, 2), optional
        `fitted` learns them; zero by default.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> x = np.random.default_rng(0).standard_normal((4, 60, 2))
    >>> kernel = ms.get_kernel("convolutions").fitted(list(x))
    >>> packed = kernel.pack(list(x))
    >>> bool(packed.min() >= 0 and packed.max() <= 1)
    True
    """

    seed: int = 0
    dilations: tuple[int, ...] = (1,)
    thresholds: NDArray[np.float64] | None = field(default=None, repr=False)
    name = "convolutions"

    def _learned(self, sequences: list[Array]) -> Self:
        typical = min(int(np.median([len(x) for x in sequences])), MOST_STEPS)
        most = max(1.0, (typical - 1) / (N_TAPS - 1))
        dilations = tuple(np.unique(np.geomspace(1, most, DILATIONS).astype(int)).tolist())
        made = replace(self, dilations=dilations)
        rng = np.random.default_rng(self.seed)
        some = [sequences[i] for i in rng.permutation(len(sequences))[:EXAMPLES]]
        return replace(made, thresholds=made._thresholds(some, rng))

    def describe(self, sequences: list[Array]) -> Array:
        """Return shares of steps above thresholds, (N, patterns * spacings * thresholds)."""
        thresholds = np.zeros((len(self.dilations), len(PATTERNS), BIASES))
        if self.thresholds is not None:
            thresholds = np.asarray(self.thresholds)
        Z, counted = self._padded(sequences)
        lengths = counted.sum(axis=1)
        rows = np.empty((len(sequences), *thresholds.shape))
        for a, p, response in self._responses(Z):
            for b in range(BIASES):
                rows[:, a, p, b] = np.count_nonzero((response > thresholds[a, p, b]) & counted, axis=1) / lengths
        return rows.reshape(len(sequences), -1)

    def _thresholds(self, sequences: list[Array], rng: np.random.Generator) -> Array:
        """Return quantiles of responses, which spread evenly over the patterns, (spacings, patterns, BIASES)."""
        Z, counted = self._padded(sequences)
        found = np.empty((len(self.dilations), len(PATTERNS), BIASES))
        # a sequence of low discrepancy, as in MiniRocket: the golden ratio modulo 1
        levels = (np.arange(1, found.size + 1) * (np.sqrt(5) + 1) / 2 % 1).reshape(found.shape)
        for a, p, response in self._responses(Z):
            found[a, p] = np.quantile(response[counted], levels[a, p])
        return found

    def _padded(self, sequences: list[Array]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return standardized sequences with zeros behind their ends, (d, N, T), and which steps count, (N, T)."""
        made = [self.standardized(x) for x in sequences]
        made = [resampled(z, MOST_STEPS) if len(z) > MOST_STEPS else z for z in made]
        longest = max(map(len, made))
        Z = np.zeros((made[0].shape[1], len(made), longest), dtype=np.float32)
        counted = np.zeros((len(made), longest), dtype=bool)
        for i, z in enumerate(made):
            Z[:, i, : len(z)] = z.T
            counted[i, : len(z)] = True
        return Z, counted

    def _responses(self, Z: NDArray[np.float32]) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
        """Yield the number of the spacing, that of the pattern, and the convolution, (N, T)."""
        rng = np.random.default_rng(self.seed)
        d, N, T = Z.shape
        n_mixtures = 1 if d == 1 else MIXTURES
        for a, dilation in enumerate(self.dilations):
            reach = dilation * (N_TAPS // 2)
            for mixture in range(n_mixtures):
                if d == 1:
                    x = Z[0]
                else:
                    size = int(np.exp(rng.uniform(0, np.log(min(d, LARGEST_SUM) + 1))))
                    x = Z[rng.choice(d, size=size, replace=False)].sum(axis=0)
                wide = np.zeros((N, T + 2 * reach), dtype=np.float32)
                wide[:, reach : reach + T] = x
                taps = [wide[:, tap * dilation : tap * dilation + T] for tap in range(N_TAPS)]
                total = np.sum(taps, axis=0)
                for p in range(mixture, len(PATTERNS), n_mixtures):
                    i, j, k = PATTERNS[p]
                    yield a, p, 3 * (taps[i] + taps[j] + taps[k]) - total
