"""Initialization of networks: weights by (41), and random or principal projections."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from manifoldseq.estimators import quoted

from ..families._family import Array
from ..mixtures._dense import Dense
from ..mixtures._seeding import principal
from ._windows import Windows

STARTS = ("uniform", "pca")
_ROWS = 10_000
"""Number of rows that determine the projections of later layers."""

Sizes = tuple[tuple[int | None, int], ...]
"""(M, K) of every layer; M is None if there is no projection."""


def checked_sizes(layers: Any, n_features: int) -> Sizes:
    """Validate the sizes of the layers; a None in a pair becomes the smaller of inputs and units."""
    if not isinstance(layers, Sequence) or isinstance(layers, str) or not layers:
        raise ValueError(f"layers={quoted(layers)} is not valid: pass a list of K or (M, K), such as [(100, 1000)]")
    found: list[tuple[int | None, int]] = []
    D = n_features
    M: Any
    K: Any
    for place, layer in enumerate(layers):
        pair = isinstance(layer, Sequence) and not isinstance(layer, str)
        M, K = layer if pair and len(layer) == 2 else (0, layer)
        if not _whole(K) or not (M is None or _whole(M) or not pair):
            raise ValueError(
                f"layers[{place}]={quoted(layer)} is not valid: pass K, or (M, K) for M projections and K units"
            )
        n_latent = None
        if pair:
            n_latent = min(D, int(K)) if M is None else int(M)
            if n_latent > D:
                raise ValueError(f"layers[{place}]: M={n_latent} exceeds the {D} inputs of the layer: lower M")
        found.append((n_latent, int(K)))
        D = int(K)
    return tuple(found)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) > 0


def begin(
    X: Array | Windows,
    sizes: Sizes,
    n_classes: int | None,
    start: str,
    orthonormal: bool,
    gamma: float,
    rng: np.random.Generator,
) -> tuple[tuple[Dense, ...], Dense | None]:
    """Return the initial layers and the initial head (None if `n_classes` is None) in float32."""
    D, layers = X.shape[1], []
    rows = X
    for place, (M, K) in enumerate(sizes):
        U = None
        if M is not None:
            U = uniform(rng, M, D, gamma)
            if start == "pca":
                U = _leading(rows, M, U)
            elif orthonormal:
                U = _orthonormal(U)
        layers.append(Dense(U, uniform(rng, K, D if M is None else M, gamma), np.zeros(K, np.float32)))
        if start == "pca" and any(M is not None for M, _ in sizes[place + 1 :]):
            some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(np.intp))
            rows = np.maximum(layers[-1](rows[some]), 0)
        D = K
    head = (
        None if n_classes is None else Dense(None, uniform(rng, n_classes, D, gamma), np.zeros(n_classes, np.float32))
    )
    return tuple(layers), head


def uniform(rng: np.random.Generator, n_out: int, n_in: int, gamma: float) -> Array:
    """Return weights (n_out, n_in) drawn by (41), in float32.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import uniform
    >>> bool(np.abs(uniform(np.random.default_rng(0), 40, 20, 0.5)).max() <= 0.5 * (6 / 60) ** 0.5)
    True
    """
    most = gamma * np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-most, most, (n_out, n_in)).astype(np.float32)


def _leading(rows: Array | Windows, M: int, U: Array) -> Array:
    """Return M leading principal directions (not centred), completed by directions of U if the rows have fewer."""
    # second moments X'X, (D, D), block by block
    S = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, len(rows), _ROWS):
        block = rows[first : first + _ROWS]
        S += block.T @ block
    if not S.any():
        return _orthonormal(U)
    return principal(S, M).astype(np.float32)


def _orthonormal(U: Array) -> Array:
    Q, R = np.linalg.qr(U.T.astype(np.float64) + (0 if U.any() else np.eye(*U.T.shape)))
    return np.ascontiguousarray((Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)).T, np.float32)
