"""Random convolutions: how often patterns of nine steps, at many spacings, occur anywhere in a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from manifoldseq.evaluation import RandomConvolutions

from ._description import Array, DescriptionKernel, learned_by, learned_from, standard_sequences


@dataclass(frozen=True, eq=False)
class ConvolutionsKernel(DescriptionKernel):
    """Gaussian kernel of the distance between responses to random convolutions, as in MiniRocket.

    The channels are standardized over all sequences. A response is the share of time steps at which a convolution of
    the sequence is above a threshold. Responses are the features of `manifoldseq.evaluation.RandomConvolutions`.
    Dempster, Schmidt and Webb: MiniRocket, KDD 2021; Jorge and Rubio: Time series clustering with random convolutional
    kernels, 2024.

    Parameters
    ----------
    seed : int
        Seed of the random sums of channels and of the thresholds.
    learned : dict of str to ndarray, optional
        Spacings, sums of channels and thresholds. `fitted` learns them; by default, they are learned from white noise.

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
    learned: Mapping[str, Any] | None = field(default=None, repr=False)
    name = "convolutions"

    def _learned(self, sequences: list[Array]) -> Self:
        return replace(self, learned=learned_from(RandomConvolutions(self.seed), sequences))

    def describe(self, sequences: list[Array]) -> Array:
        """Return shares of steps above thresholds, (N, spacings * thresholds * patterns)."""
        features, learned = RandomConvolutions(self.seed), self.learned
        if learned is None:
            learned = learned_from(features, standard_sequences(sequences[0].shape[1]))
        return learned_by(features, learned).described(sequences)
