"""Generated sequences whose classes differ only in their dynamics: structures, textures, echoes, pairs of tones.

These are loaders of data sets. Another seed generates other sequences: ``get_dataset("damaged-structure").loader(3)``.
"""

import numpy as np
import scipy.linalg

from manifoldseq.storage import SequenceData


def damaged_structure(seed: int = 0, *, per_class: int = 20, T: int = 200, damage: float = 0.4) -> SequenceData:
    """Return vibrations of six masses between two walls, with intact springs or one damaged spring.

    Noise excites every mass. The six channels are the displacements of the masses, with measurement noise of 5 %. In
    the damaged classes the second, fourth or sixth spring is weaker.

    Parameters
    ----------
    seed : int
    per_class : int
        The number of sequences of each of the four classes.
    T : int
        The number of time steps; the periods of the six modes are 6 to 28 steps.
    damage : float
        The relative loss of stiffness of a damaged spring.
    """
    rng = np.random.default_rng([seed, 1])
    sequences, labels = [], []
    for kind, label in enumerate(("whole", "spring 2", "spring 4", "spring 6")):
        springs = np.ones(7)
        if kind:
            springs[2 * kind - 1] = 1.0 - damage
        stiffness = np.diag(springs[:-1] + springs[1:]) - np.diag(springs[1:-1], 1) - np.diag(springs[1:-1], -1)
        forward = np.block([[np.zeros((6, 6)), np.eye(6)], [-stiffness, -0.02 * np.eye(6)]])
        step = scipy.linalg.expm(0.5 * forward)
        for _ in range(per_class):
            state, places = np.concatenate([rng.standard_normal(6), np.zeros(6)]), []
            for _ in range(T):
                state = step @ state
                state[6:] += 0.1 * rng.standard_normal(6)
                places.append(state[:6].copy())
            z = np.array(places)
            sequences.append(z + 0.05 * z.std() * rng.standard_normal(z.shape))
            labels.append(label)
    return SequenceData(sequences, np.array(labels), name="DamagedStructure")


def noisy_textures(
    seed: int = 0, *, per_class: int = 20, T: int = 80, side: int = 8, noise: float = 16.0
) -> SequenceData:
    """Return videos of waves in one of four directions, with equal mean and variance, in noise.

    Parameters
    ----------
    seed : int
    per_class : int
    T : int
        The number of frames.
    side : int
        The channels are ``side * side`` pixels, row by row.
    noise : float
        Variance of the noise of a pixel; the variance of the wave is one half.
    """
    rng = np.random.default_rng([seed, 2])
    rows, columns = np.mgrid[:side, :side]
    t = np.arange(T)[:, None, None]
    directions = {"down": (0.8, 0.0), "up": (-0.8, 0.0), "right": (0.0, 0.8), "right and down": (0.57, 0.57)}
    sequences, labels = [], []
    for label, (u, v) in directions.items():
        for _ in range(per_class):
            phase = np.cumsum(0.15 * rng.standard_normal(T))[:, None, None]
            wave = np.cos(u * rows + v * columns - 0.6 * t + phase + rng.uniform(0, 2 * np.pi))
            x = wave + np.sqrt(noise) * rng.standard_normal(wave.shape)
            sequences.append(x.reshape(T, -1))
            labels.append(label)
    return SequenceData(sequences, np.array(labels), name="NoisyTextures")


def echoes(seed: int = 0, *, per_class: int = 20, T: int = 200, noise: float = 0.6) -> SequenceData:
    """Return single channels of noise with an echo of amplitude 0.8 after 8, 10 or 12 steps.

    Parameters
    ----------
    seed : int
    per_class : int
    T : int
    noise : float
        Variance of the measurement noise, for a signal of variance one.
    """
    rng = np.random.default_rng([seed, 8])
    sequences, labels = [], []
    for delay in (8, 10, 12):
        for _ in range(per_class):
            x = rng.standard_normal(T + 200)
            for t in range(delay, T + 200):
                x[t] += 0.8 * x[t - delay]
            x = x[200:]
            x = (x - x.mean()) / x.std() + noise * rng.standard_normal(T)
            sequences.append(x[:, None])
            labels.append(f"after {delay}")
    return SequenceData(sequences, np.array(labels), name="Echoes")


def two_tones(seed: int = 0, *, per_class: int = 20, T: int = 200, noise: float = 0.5) -> SequenceData:
    """Return single channels of two tones of equal amplitude in noise; frequencies differ by 0.1, 0.2 or 0.3 rad/step.

    Parameters
    ----------
    seed : int
    per_class : int
    T : int
    noise : float
        Level of the noise, for tones of amplitude one.
    """
    rng = np.random.default_rng([seed, 7])
    t = np.arange(T)
    sequences, labels = [], []
    for apart in (0.1, 0.2, 0.3):
        for _ in range(per_class):
            low, high = rng.uniform(0, 2 * np.pi, 2)
            x = np.cos((0.6 - apart / 2) * t + low) + np.cos((0.6 + apart / 2) * t + high)
            sequences.append((x + noise * rng.standard_normal(T))[:, None])
            labels.append(f"{apart} apart")
    return SequenceData(sequences, np.array(labels), name="TwoTones")
