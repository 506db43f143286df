"""The domain `sequences`: items are tuples of one array (T, d)."""

from __future__ import annotations

from typing import Any

import numpy as np

import manifoldseq as ms


def manifold(m: int, n: int, bound: float = 0.99) -> Any:
    """Return the manifold of sequences of m time steps and n channels; there is no bound."""
    return ms.manifolds.Product(ms.manifolds.Euclidean(m, n))


def to_item(point: Any) -> tuple[Any, ...]:
    """Return a point, a tuple of one array, as an item."""
    return tuple(point)


def example(rng: np.random.Generator) -> list[tuple[np.ndarray]]:
    """Return six noisy oscillations of two channels and different lengths."""
    items = []
    for i in range(6):
        t = np.arange(int(rng.integers(30, 60)))[:, None]
        x = np.sin((0.2, 0.5)[i % 2] * t + rng.uniform(0, 6) + np.arange(2)) + 0.2 * rng.standard_normal((len(t), 2))
        items.append((x,))
    return items


def with_offset(item: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add a constant to each channel of a sequence."""
    x = np.asarray(item[0])
    return (x + np.arange(1.0, x.shape[1] + 1),)


def reversed_in_time(item: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reverse the time axis of a sequence."""
    return (np.asarray(item[0])[::-1].copy(),)


def shuffled_in_time(item: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the time steps of a sequence in another order."""
    x = np.asarray(item[0])
    return (x[np.random.default_rng(0).permutation(len(x))],)
