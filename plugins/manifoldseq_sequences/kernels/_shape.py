"""Curves, resampled to equal length and standardized."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldseq.evaluation import ResampledCurves

from ._description import Array, DescriptionKernel, learned_by

N_POINTS = ResampledCurves().n_points


@dataclass(frozen=True, eq=False)
class ShapeKernel(DescriptionKernel):
    """Gaussian kernel of the distance between curves, resampled to `n_points` and standardized.

    Curves are the features of `manifoldseq.evaluation.ResampledCurves`. The squared distance between two curves is a
    mean over points and a sum over channels.

    Parameters
    ----------
    n_points : int
        Number of points per curve, evenly spaced in time.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> kernel, x = ms.get_kernel("shape"), np.linspace(0, 1, 81)[:, None]
    >>> packed = kernel.pack([x**2, 3 * x[::2]**2 + 5])
    >>> bool(kernel.squared(packed, packed)[0, 1] < 1e-3)
    True
    """

    n_points: int = N_POINTS
    name = "shape"

    def describe(self, sequences: list[Array]) -> Array:
        """Return resampled curves channel by channel, (N, d n_points), divided by the root of `n_points`."""
        features = learned_by(ResampledCurves(self.n_points), {"channel_scale_": self.units(sequences)})
        return features.described(sequences) / np.sqrt(self.n_points)
