"""Checks of families of components."""

from collections.abc import Callable

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ._family import Array, Family

_H = 1e-6


def check_family(family: Family, M: int = 3, K: int = 4, *, seed: int = 0) -> ms.testing.Report:
    """Check that the functions of a family are consistent, by finite differences and by samples from the family.

    Parameters
    ----------
    family : Family
    M, K : int
        Dimension and number of components for the checks.
    seed : int

    Returns
    -------
    manifoldseq.testing.Report

    Examples
    --------
    >>> from manifoldseq_hope import check_family, von_mises_fisher
    >>> check_family(von_mises_fisher()).ok
    True
    """
    if not isinstance(family, Family):
        raise ValueError(f"family={quoted(family)} is not valid: pass a Family")
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60 * K, M)) + 2 * np.repeat(rng.standard_normal((K, M)), 60, axis=0)
    if family.directional:
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    gamma = rng.random((len(Z), K)) + 3 * np.repeat(np.eye(K), 60, axis=0)
    counts = gamma.sum(axis=0)
    laws: dict[str, Callable[[], float]] = {
        "statistics keep the dtype of float32": lambda: float(
            family.statistics(Z.astype(np.float32)).dtype != np.float32
        ),
        "pullback is the derivative of the statistics": lambda: _pullback(family, Z, rng),
        "gradient is the derivative of S . natural + counts offset": lambda: _gradient(family, Z, gamma, counts, rng),
        "maximize is where the gradient vanishes": lambda: _maximum(family, Z, gamma, counts, M),
        "maximize is finite for components without rows": lambda: _empty(family, Z, gamma, counts, M),
        "the likelihood of start is at most the likelihood of maximize": lambda: _start(family, Z, gamma, counts, M),
        "centres are (K, M)": lambda: float(family.centres(_fitted(family, Z, gamma, counts, M)).shape != (K, M)),
        "rotate by the identity changes nothing": lambda: _rotation(family, Z, gamma, counts, M),
        "draws have the mean statistics that the normalizer implies": lambda: _draws(family, Z, gamma, counts, M, rng),
    }
    limits = {"draws have the mean statistics that the normalizer implies": 5.0}
    found = []
    for name, error_of in laws.items():
        try:
            error, limit = float(error_of()), limits.get(name, 1e-5)
            found.append(ms.testing.Law(name, error <= limit, f"{error:.1e}"))
        except Exception as error:
            found.append(ms.testing.Law(name, False, f"raised {type(error).__name__}: {error}"))
    return ms.testing.Report(f"family {family.name}", tuple(found))


def _fitted(family: Family, Z: Array, gamma: Array, counts: Array, M: int) -> tuple:
    return tuple(np.asarray(part) for part in family.maximize(gamma.T @ family.statistics(Z), counts, M))


def _pullback(family: Family, Z: Array, rng: np.random.Generator) -> float:
    G, move = rng.standard_normal(family.statistics(Z).shape), rng.standard_normal(Z.shape)
    up, down = family.statistics(Z + _H * move), family.statistics(Z - _H * move)
    expected = np.sum(G * (up - down), axis=1) / (2 * _H)
    return float(np.abs(np.sum(family.pullback(Z, G) * move, axis=1) - expected).max())


def _sum(family: Family, parameters: tuple, S: Array, counts: Array, M: int) -> float:
    natural, offset = family.natural(parameters, M)
    return float(np.sum(S * natural) + counts @ offset)


def _gradient(family: Family, Z: Array, gamma: Array, counts: Array, rng: np.random.Generator) -> float:
    M, S = Z.shape[1], gamma.T @ family.statistics(Z)
    at = _fitted(family, Z[:, ::-1], gamma, counts, M)  # away from the maximum
    slopes, worst = family.gradient(at, S, counts, M), 0.0
    for i, (part, slope) in enumerate(zip(at, slopes, strict=True)):
        move = rng.standard_normal(part.shape)
        if part.ndim == 3:  # symmetric
            move = move + move.swapaxes(1, 2)
        move *= _H * np.abs(part).max() / np.abs(move).max()
        up, down = ((*at[:i], part + sign * move, *at[i + 1 :]) for sign in (1, -1))
        expected = (_sum(family, up, S, counts, M) - _sum(family, down, S, counts, M)) / 2
        scale = np.linalg.norm(np.asarray(slope)) * np.linalg.norm(move) + 1e-12
        worst = max(worst, float(abs(np.sum(np.asarray(slope) * move) - expected) / scale))
    return worst


def _maximum(family: Family, Z: Array, gamma: Array, counts: Array, M: int) -> float:
    S = gamma.T @ family.statistics(Z)
    best = _fitted(family, Z, gamma, counts, M)
    other = _fitted(family, Z[:, ::-1], gamma, counts, M)
    size = [float(np.linalg.norm(np.asarray(part))) for part in family.gradient(other, S, counts, M)]
    left = [float(np.linalg.norm(np.asarray(part))) for part in family.gradient(best, S, counts, M)]
    return max(a / max(b, 1e-12) for a, b in zip(left, size, strict=True))


def _empty(family: Family, Z: Array, gamma: Array, counts: Array, M: int) -> float:
    gamma, counts = gamma.copy(), counts.copy()
    gamma[:, 0] = counts[0] = 0
    parts = (*_fitted(family, Z, gamma, counts, M), *family.natural(_fitted(family, Z, gamma, counts, M), M))
    return float(not all(np.isfinite(part).all() for part in parts))


def _start(family: Family, Z: Array, gamma: Array, counts: Array, M: int) -> float:
    S = gamma.T @ family.statistics(Z)
    start = _sum(family, family.start(S, counts, M), S, counts, M)
    best = _sum(family, _fitted(family, Z, gamma, counts, M), S, counts, M)
    return max(0.0, (start - best) / abs(best))


def _rotation(family: Family, Z: Array, gamma: Array, counts: Array, M: int) -> float:
    S = gamma.T @ family.statistics(Z)
    return float(np.abs(family.rotate(S, counts, np.eye(M)) - S).max() / np.abs(S).max())


def _draws(family: Family, Z: Array, gamma: Array, counts: Array, M: int, rng: np.random.Generator) -> float:
    """Return the derivative by the parameters of the mean log-density of draws, in units of its standard error."""
    at, n, worst = _fitted(family, Z, gamma, counts, M), 4000, 0.0
    K = len(counts)
    labels = np.repeat(np.arange(K), n)
    t = family.statistics(family.sample(at, labels, M, rng)).reshape(K, 20, n // 20, -1).sum(axis=2)
    slopes = [family.gradient(at, t[:, i], np.full(K, n / 20), M) for i in range(20)]
    for part in zip(*slopes, strict=True):
        values = np.stack([np.asarray(slope) for slope in part])
        error = values.std(axis=0, ddof=1) / np.sqrt(20)
        worst = max(worst, float(np.quantile(np.abs(values.mean(axis=0)) / np.maximum(error, 1e-12), 0.9)))
    return worst
