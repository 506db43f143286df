"""Mini-batches of data in seeded random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._base import whole_numbers


@dataclass(frozen=True)
class MiniBatches:
    """Mini-batches in a seeded order: every epoch visits all data once. The last batch may be smaller.

    Parameters
    ----------
    size : int
        Number of data per batch.

    Examples
    --------
    The mean of five numbers, on a product with a factor that stays at zero:

    >>> import numpy as np, manifoldseq as ms
    >>> data = np.arange(5.0)
    >>> f = ms.finite_sum(lambda x, i: ((x[0] - data[i]) ** 2).sum() + len(i) * (x[1] ** 2).sum(), n=5)
    >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(1), ms.manifolds.Euclidean(1))
    >>> batches, x = ms.solvers.MiniBatches(2), (np.zeros(1), np.zeros(1))
    >>> state = batches.start(seed=0)
    >>> for _ in range(3):
    ...     rows, state = batches.draw(state, f.terms.n)
    ...     at = ms.solvers.evaluate(ms.Problem(M, f.terms.batch(rows)), x)
    ...     print(rows, round(float(-at.egrad[0][0] / 10), 6))
    [2 4] 3.0
    [0 3] 1.5
    [1] 1.0
    """

    size: int

    def __post_init__(self) -> None:
        whole_numbers("MiniBatches", size=self.size)

    def start(self, seed: int | None = None) -> dict[str, Any]:
        """Return the state before the first epoch: part of the state of a solver.

        Parameters
        ----------
        seed : int, optional
            The seed, 0 by default.

        Returns
        -------
        dict
            A dict with the keys ``"rng"``, ``"order"`` and ``"next"``.
        """
        return {"rng": np.random.default_rng(seed or 0).bit_generator.state, "order": np.arange(0), "next": 0}

    def draw(self, state: dict[str, Any], n: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw the next batch.

        Parameters
        ----------
        state : dict
            The state from :meth:`start` or from the last draw; further keys are ignored.
        n : int
            Number of data.

        Returns
        -------
        rows : ndarray of int
            The sorted indices of the batch.
        state : dict
            The state after the draw.
        """
        bits, order, first = state["rng"], state["order"], state["next"]
        if first >= len(order):
            generator = np.random.Generator(np.random.PCG64())
            generator.bit_generator.state = bits
            order, first, bits = generator.permutation(n), 0, generator.bit_generator.state
        last = first + self.size
        return np.sort(order[first:last]), {"rng": bits, "order": order, "next": last}
