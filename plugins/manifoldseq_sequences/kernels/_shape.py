"""Curves, resampled to one length and standardized: where in a sequence what happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._description import Array, DescriptionKernel

N_POINTS = 64
"""Points to which curves are resampled."""


@dataclass(frozen=True, eq=False)
class ShapeKernel(DescriptionKernel):
    """The Gaussian of the distance of curves, resampled to `n_points` and standardized.

    Parameters
    ----------
    n_points : int
        Points per curve, evenly spaced in time.

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
        """Return resampled curves, (N, n_points d), whose squared distance is a mean over points and channels."""
        rows = [resampled(self.standardized(x), self.n_points).ravel() / np.sqrt(self.n_points) for x in sequences]
        return np.stack(rows)


def resampled(x: Array, n_points: int) -> Array:
    """Return a sequence at `n_points` points in time: means over steps where there are more steps, else lines."""
    if len(x) == n_points:
        return x
    if len(x) > n_points:
        # means of equal stretches of time, of steps in parts at their ends
        edges = np.linspace(0, len(x), n_points + 1)
        total = np.vstack([np.zeros(x.shape[1]), np.cumsum(x, axis=0)])
        places = np.minimum(edges.astype(int), len(x) - 1)
        at = total[places] + (edges - places)[:, None] * x[places]
        return np.diff(at, axis=0) / np.diff(edges)[:, None]
    old, new = np.linspace(0, 1, len(x)), np.linspace(0, 1, n_points)
    return np.stack([np.interp(new, old, channel) for channel in x.T], axis=1)
