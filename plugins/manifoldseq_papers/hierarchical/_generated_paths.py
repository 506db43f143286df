"""Generated paths through descriptor space: a continued path, and a more densely sampled path."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Frames = NDArray[np.float32]


def long_path(n_frames: int, dim: int = 128, correlation: int = 100, seed: int = 0) -> Frames:
    """Return a stationary random walk of unit variance, shape (n_frames, dim): a longer path as `n_frames` grows.

    An Ornstein-Uhlenbeck process whose correlation falls to 1/e in `correlation` frames; all directions have the same
    distribution, so that no subspace is better than another.
    """
    rng = np.random.default_rng(seed)
    decay = np.exp(-1 / correlation)
    steps = rng.standard_normal((n_frames, dim), dtype=np.float32)
    steps[1:] *= np.float32(np.sqrt(1 - decay * decay))
    return np.asarray(lfilter([1.0], [1.0, -decay], steps, axis=0), np.float32)


def dense_path(n_frames: int, dim: int = 128, length: int = 10_000, correlation: int = 100, seed: int = 0) -> Frames:
    """Return the same path of `length` steps, sampled at `n_frames` places, shape (n_frames, dim)."""
    coarse = long_path(length, dim, correlation, seed)
    t = np.linspace(0, length - 1, n_frames)
    i = np.minimum(t.astype(int), length - 2)
    w = (t - i).astype(np.float32)[:, None]
    return np.asarray((1 - w) * coarse[i] + w * coarse[i + 1], np.float32)


PATHS: dict[str, Callable[..., Frames]] = {"long_path": long_path, "dense_path": dense_path}


def queries(frames: Frames, n: int = 1000, noise: float = 0.5, seed: int = 0) -> tuple[NDArray[np.int64], Frames]:
    """Return numbers of frames, shape (n,), and those frames with noise, shape (n, dim)."""
    rng = np.random.default_rng(seed + 1)
    t = rng.integers(0, len(frames), n)
    off = rng.standard_normal((n, frames.shape[1]), dtype=np.float32)
    off *= np.float32(noise)
    return t, frames[t] + off
