"""Generated sequences whose classes differ in dynamics: structures, textures, tones, coupled oscillators.

Each function returns sequences (T, d) and the class of each; what is random comes from the seed alone.
"""

import numpy as np
import scipy.linalg

Labelled = tuple[list[np.ndarray], np.ndarray]


def damaged_structure(seed: int, per_class: int = 20, T: int = 200) -> Labelled:
    """Six masses in a row between two walls, shaken by noise: all springs whole, or one of three weakened by 40 %."""
    rng = np.random.default_rng([seed, 1])
    sequences, classes = [], []
    for kind in range(4):
        springs = np.ones(7)
        if kind:
            springs[2 * kind - 1] = 0.6
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
            classes.append(kind)
    return sequences, np.array(classes)


def noisy_textures(seed: int, per_class: int = 20, T: int = 80, side: int = 8) -> Labelled:
    """Waves that travel over an image in one of four directions, of equal mean and variance, in as much noise."""
    rng = np.random.default_rng([seed, 2])
    rows, columns = np.mgrid[:side, :side]
    t = np.arange(T)[:, None, None]
    sequences, classes = [], []
    for kind, (u, v) in enumerate([(0.8, 0.0), (-0.8, 0.0), (0.0, 0.8), (0.57, 0.57)]):
        for _ in range(per_class):
            phase = np.cumsum(0.15 * rng.standard_normal(T))[:, None, None]
            wave = np.cos(u * rows + v * columns - 0.6 * t + phase + rng.uniform(0, 2 * np.pi))
            x = wave + np.sqrt(0.5) * rng.standard_normal(wave.shape)
            sequences.append(x.reshape(T, -1))
            classes.append(kind)
    return sequences, np.array(classes)


def tones(seed: int, per_class: int = 20, T: int = 100) -> Labelled:
    """One channel with one of two near tones of equal level and any phase, in noise."""
    rng = np.random.default_rng([seed, 3])
    classes = np.repeat([0, 1], per_class)
    t = np.arange(T)
    sequences = [
        (np.cos((0.5, 0.7)[k] * t + rng.uniform(0, 2 * np.pi)) + 0.3 * rng.standard_normal(T))[:, None] for k in classes
    ]
    return sequences, classes


def coupled_oscillators(seed: int, per_class: int = 20, T: int = 150) -> Labelled:
    """Four channels with the same spectrum in every class: what differs is which pairs oscillate together, and how."""
    rng = np.random.default_rng([seed, 4])
    t = np.arange(T)
    lags = ([0, 0, 0, 0], [0, np.pi / 2, 0, np.pi / 2], [0, np.pi / 2, np.pi, 3 * np.pi / 2])
    sequences, classes = [], []
    for kind, lag in enumerate(lags):
        for _ in range(per_class):
            wander = np.cumsum(0.1 * rng.standard_normal(T)) + rng.uniform(0, 2 * np.pi)
            x = np.cos(0.4 * t[:, None] + wander[:, None] + np.array(lag))
            sequences.append(x + 0.7 * rng.standard_normal(x.shape))
            classes.append(kind)
    return sequences, np.array(classes)


def sines(seed: int, per_class: int = 20, T: int = 100, noise: float = 1.0) -> Labelled:
    """Four channels of one of three frequencies, at any phase, in output noise."""
    rng = np.random.default_rng([seed, 5])
    t = np.arange(T)[:, None]
    classes = np.repeat(np.arange(3), per_class)
    waves = [np.cos((0.2, 0.45, 0.9)[k] * t + rng.uniform(0, 2 * np.pi) + np.arange(4)) for k in classes]
    return [wave + noise * rng.standard_normal(wave.shape) for wave in waves], classes
