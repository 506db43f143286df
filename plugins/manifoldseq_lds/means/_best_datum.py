"""The datum with the smallest sum of weighted kernels: for the mean, the medoid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

_ROWS = 256


def best_datum(kernel: Any, packed: Any, beta: Array, own: float, most: int | None = None) -> tuple[int, float]:
    """Return the row i with the smallest ``sum_j beta_j k(S_i, S_j) + own k(S_i, S_i)``, and this value.

    If there are more than ``2 * most`` data, only `most` candidates are evaluated on all data: the best candidates on
    `most` evenly spaced data.
    """
    N = len(packed)
    rows = np.arange(N)
    # a first guess from some data stands for the sum over all, scaled by their share of the weights
    if most is not None and N > 2 * most:
        some = np.linspace(0, N - 1, most).astype(int)
        guess = kernel.cross(packed, packed[some]) @ beta[some] * (beta.sum() / beta[some].sum())
        rows = np.argsort(guess + own * kernel.diag(packed), kind="stable")[:most]
    blocks = (rows[i : i + _ROWS] for i in range(0, len(rows), _ROWS))
    values = np.concatenate([kernel.cross(packed[block], packed) @ beta for block in blocks])
    if own:
        values = values + own * kernel.diag(packed[rows])
    best = int(np.argmin(values))
    return int(rows[best]), float(values[best])
