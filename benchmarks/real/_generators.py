"""Generated sequences whose classes differ in one property each, with seeds fixed before any result was seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labelled = tuple[list[Array], NDArray[np.str_]]


def pendulum_chains(seed: int = 0, *, per_class: int = 20) -> Labelled:
    """Return the angles of four damped pendulums, coupled by springs of three stiffnesses, from random starts.

    Angles swing as far as they are not small: the pendulums are not linear. Noise of measurement is 5 %.
    """
    rng = np.random.default_rng([seed, 11])
    sequences, labels = [], []
    for label, stiffness in (("loose", 0.1), ("middle", 0.4), ("stiff", 1.2)):
        for _ in range(per_class):
            angle, speed = rng.uniform(-1.5, 1.5, 4), 0.5 * rng.standard_normal(4)
            rows, T = [], int(rng.integers(150, 250))
            for _ in range(5 * T):  # steps of 0.05, semi-implicit; every fifth is recorded
                force = np.zeros(4)
                pull = stiffness * np.diff(angle)
                force[:-1] += pull
                force[1:] -= pull
                speed += 0.05 * (-np.sin(angle) - 0.02 * speed + force)
                angle = angle + 0.05 * speed
                rows.append(angle)
            x = np.array(rows)[4::5]
            sequences.append(x + 0.05 * x.std() * rng.standard_normal(x.shape))
            labels.append(label)
    return sequences, np.array(labels)


def gait(seed: int = 0, *, per_class: int = 12) -> Labelled:
    """Return noisy joint angles, 100 per second, of steps at 0.9, 1.4 and 2.0 Hz that start in a random phase."""
    rng = np.random.default_rng([seed, 12])
    sequences, labels = [], []
    size = np.array([20.0, 40.0, 10.0, 5.0])
    for frequency in (0.9, 1.4, 2.0):
        for _ in range(per_class):
            T = int(rng.integers(200, 300))
            turns = frequency * (1 + 0.03 * rng.standard_normal()) * np.arange(T) / 100
            phase = rng.uniform(0, 2 * np.pi)
            angle = (2 * np.pi * turns + phase)[:, None] + 0.8 * np.arange(4)
            x = size * (np.sin(angle) + 0.4 * np.sin(2 * angle + 1.0))
            sequences.append(x + 2.0 * rng.standard_normal(x.shape))
            labels.append(f"{frequency} Hz")
    return sequences, np.array(labels)


def topographies(seed: int = 0, *, per_class: int = 20) -> Labelled:
    """Return eight electrodes that record three sources of equal spectrum; classes differ in where sources project.

    The sources are autoregressive noise near one rhythm, and the electrodes have equal variance in every class, as
    after referencing, so that levels, sizes and the spectra of channels tell nothing.
    """
    rng = np.random.default_rng([seed, 13])
    maps = []
    for _ in range(3):
        weights = rng.standard_normal((8, 3))
        maps.append(weights / np.linalg.norm(weights, axis=1, keepdims=True))
    sequences, labels = [], []
    for kind, weights in enumerate(maps):
        for _ in range(per_class):
            T = 300
            sources = np.zeros((T + 100, 3))
            shock = rng.standard_normal(sources.shape)
            for t in range(2, T + 100):
                sources[t] = 1.6 * sources[t - 1] - 0.9 * sources[t - 2] + shock[t]
            sources = sources[100:] / sources[100:].std(axis=0)
            x = sources @ (weights + 0.15 * rng.standard_normal(weights.shape)).T
            sequences.append(x + 0.5 * rng.standard_normal(x.shape))
            labels.append(f"map {kind}")
    return sequences, np.array(labels)


def regime_switches(seed: int = 0, *, per_class: int = 20) -> Labelled:
    """Return two channels that switch between a slow and a fast rhythm, after about 10, 40 or 160 steps.

    Every sequence spends half of its time in each rhythm, so that the classes have nearly the same mean spectrum.
    """
    rng = np.random.default_rng([seed, 14])
    sequences, labels = [], []
    for dwell in (10, 40, 160):
        for _ in range(per_class):
            T = 400
            switched = np.cumsum(rng.random(T) < 1 / dwell) + rng.integers(2)
            angle = np.cumsum(np.where(switched % 2 == 1, 0.9, 0.25)) + rng.uniform(0, 2 * np.pi)
            x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            sequences.append(x + 0.3 * rng.standard_normal(x.shape))
            labels.append(f"after {dwell}")
    return sequences, np.array(labels)
