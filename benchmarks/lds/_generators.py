"""Generated sequences for benchmarks alone; `manifoldseq_lds._generated` makes the data sets that have a name.

Each function returns sequences (T, d) and the class of each; what is random comes from the seed alone.
"""

import numpy as np

from manifoldseq.storage import SequenceData

Labelled = tuple[list[np.ndarray], np.ndarray]


def labelled(data: SequenceData) -> Labelled:
    """Return the sequences of a data set, and their classes as numbers in the order in which they come first."""
    names = list(dict.fromkeys(np.asarray(data.labels).tolist()))
    return list(data.sequences), np.array([names.index(one) for one in np.asarray(data.labels).tolist()])


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
