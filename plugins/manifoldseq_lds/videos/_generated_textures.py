"""Generated dynamic textures: six classes of moving patterns."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted
from manifoldseq.storage import SequenceData

Array = NDArray[np.floating[Any]]

CLASSES = (
    "slow waves",
    "fast waves",
    "rotating pattern",
    "rising noise",
    "flicker of a fixed pattern",
    "drifting blobs",
)
"""The classes by their labels, 0 to 5."""


def dynamic_textures(
    n_videos: int = 60, *, size: int = 32, frames: int = 60, random_state: int = 0
) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
    """Generate videos of six classes of moving textures.

    The classes are: 0 slow waves, 1 fast waves, 2 a rotating pattern, 3 rising noise, 4 flicker of a fixed pattern, 5
    drifting blobs. Phase, direction and speed are random, and every pixel has noise. Video i has the label ``i % 6``.

    Parameters
    ----------
    n_videos : int
    size : int
        Number of pixels of a side.
    frames : int
    random_state : int
        The seed, which determines phases, directions, speeds and noise.

    Returns
    -------
    videos : list of ndarray of shape (frames, size, size), float32
        Grey levels from 0 to 1.
    labels : ndarray of shape (n_videos,), int

    Raises
    ------
    ValueError
        If `n_videos` or `size` is below 1, or `frames` below 2.

    Examples
    --------
    >>> videos, labels = dynamic_textures(6, size=8, frames=5)
    >>> videos[0].shape, labels.tolist()
    ((5, 8, 8), [0, 1, 2, 3, 4, 5])
    """
    for name, value, least in (("n_videos", n_videos, 1), ("size", size, 1), ("frames", frames, 2)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={quoted(value)} is not valid: pass a whole number of at least {least}")
    rng = np.random.default_rng(random_state)
    labels = np.arange(n_videos) % len(CLASSES)
    return [_video(int(label), size, frames, rng) for label in labels], labels


def dataset() -> SequenceData:
    """Return 60 generated videos, ten of each class, as sequences of 60 frames of 32 × 32 pixels, row by row.

    They are the videos of `dynamic_textures` in the same order.
    """
    videos, labels = dynamic_textures()
    return SequenceData([video.reshape(len(video), -1) for video in videos], labels, name="DynamicTextures")


def _video(label: int, size: int, frames: int, rng: np.random.Generator) -> NDArray[np.float32]:
    y, x = np.mgrid[0:size, 0:size] / size
    t = np.arange(frames)[:, None, None] / frames
    phase, angle, speed = rng.uniform(0, 2 * np.pi), rng.uniform(0, 2 * np.pi), rng.uniform(0.8, 1.2)
    # waves run along a random direction; t is the share of the video, (frames, 1, 1)
    along = x * np.cos(angle) + y * np.sin(angle)
    patterns: tuple[Callable[[], Any], ...] = (
        lambda: np.sin(2 * np.pi * (3 * along - 2.5 * speed * t) + phase),
        lambda: np.sin(2 * np.pi * (3 * along - 6.5 * speed * t) + phase),
        lambda: _rotation(x - 0.5, y - 0.5, 1.5 * speed * t, phase),
        lambda: _rising_noise(size, frames, speed, rng),
        lambda: np.sin(2 * np.pi * 4 * along + phase)[None] * np.sin(2 * np.pi * 8 * speed * t + phase),
        lambda: _blobs(x, y, speed * t, rng),
    )
    video = patterns[label]()
    video = video + 0.15 * rng.standard_normal(video.shape)
    return ((video - video.min()) / (video.max() - video.min())).astype(np.float32)


def _rotation(x: Array, y: Array, turns: Array, phase: float) -> Array:
    return np.sin(3 * (np.arctan2(y, x) - 2 * np.pi * turns) + phase) * np.exp(-4 * np.hypot(x, y))


def _smoothed(row: Array, kernel: Array) -> Array:
    return np.convolve(row, kernel, "same")


def _rising_noise(size: int, frames: int, speed: float, rng: np.random.Generator) -> Array:
    """Return a window that moves over smoothed noise by 2 speed rows per frame."""
    noise = rng.standard_normal((size + 3 * frames, size))
    kernel = np.exp(-(np.linspace(-2, 2, 9) ** 2))
    for axis in (0, 1):
        noise = np.apply_along_axis(_smoothed, axis, noise, kernel / kernel.sum())
        if noise.shape[axis] > (size, size + 3 * frames)[axis == 0]:  # shorter than the kernel
            noise = noise[(slice(None),) * axis + (slice(size),)]
    return 3 * np.stack([noise[row : row + size] for row in (2 * speed * np.arange(frames)).astype(int)])


def _blobs(x: Array, y: Array, way: Array, rng: np.random.Generator) -> Array:
    video = np.zeros((len(way), *x.shape))
    for x0, y0, across, down in rng.uniform(-1, 1, (5, 4)) * [1, 1, 1.5, 1.5]:
        video += np.exp(-60 * ((x - (x0 + way * across) % 1) ** 2 + (y - (y0 + way * down) % 1) ** 2))
    return video
