"""Components of von Mises-Fisher distributions (9); mu_k is the mean direction times the concentration."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ._bessel import METHODS, bessel_ratio, concentration, log_normalizer
from ._family import Array, Family, Parameters

LARGEST = 1e4
START = 30.0
"""The initial concentration of all components."""


def von_mises_fisher(bessel: str = "exact", kappa: Any = None, largest: float = LARGEST) -> Family:
    """Return the family of von Mises-Fisher distributions, with the parameter ``mu = kappa * direction``.

    Parameters
    ----------
    bessel : {"exact", "paper"}
        See `log_bessel`.
    kappa : None, "shared" or float
        How `Family.maximize` estimates the concentrations: None estimates one value per component, ``"shared"`` one
        value for all components, and a number is a fixed value.
    largest : float
        Upper bound of the concentrations.

    Returns
    -------
    Family

    Raises
    ------
    ValueError
        For an unknown setting.

    References
    ----------
    Zhang, Jiang, equations (9), (10), (33); Banerjee, Dhillon, Ghosh, Sra, JMLR 6 (2005).
    """
    if bessel not in METHODS:
        raise ValueError(f"bessel={quoted(bessel)} is not known: choose {' or '.join(map(repr, METHODS))}")
    number = isinstance(kappa, Real) and not isinstance(kappa, bool) and 0 < float(kappa) < np.inf
    if not (kappa is None or (isinstance(kappa, str) and kappa == "shared") or number):
        raise ValueError(f"kappa={quoted(kappa)} is not valid: pass None, 'shared' or a number above zero")
    if not (isinstance(largest, Real) and largest > 0):
        raise ValueError(f"largest={quoted(largest)} is not valid: pass a number above zero")
    return Family(
        name="movmf",
        names=("mu",),
        directional=True,
        manifolds=_manifolds,
        statistics=_same,
        pullback=_second,
        natural=partial(_natural, bessel),
        gradient=partial(_gradient, bessel),
        maximize=partial(_maximize, kappa, float(largest)),
        start=partial(_maximize, START if kappa is None or isinstance(kappa, str) else kappa, float(largest)),
        centres=_centres,
        rotate=_rotate,
        sample=_sample,
        capped=partial(_capped, np.inf if kappa is not None and kappa != "shared" else float(largest)),
    )


def concentrations(mu: Array) -> Array:
    """Return kappa_k = |mu_k|, (K,)."""
    return np.sqrt(np.einsum("km,km->k", mu, mu))


def directions(mu: Array) -> Array:
    """Return the unit vectors along mu, (K, M); the first axis for mu = 0."""
    length = concentrations(mu)
    found = mu / np.where(length > 0, length, 1.0)[:, None]
    found[length == 0, 0] = 1.0
    return found


def _manifolds(K: int, M: int) -> tuple[ms.manifolds.Manifold, ...]:
    return (ms.manifolds.Euclidean(K, M),)


def _same(Z: Array) -> Array:
    return Z


def _second(Z: Array, G: Array) -> Array:
    return G


def _natural(bessel: str, parameters: Parameters, M: int) -> tuple[Array, Array]:
    (mu,) = parameters
    mu = np.asarray(mu, dtype=np.float64)
    return mu, log_normalizer(M, concentrations(mu), bessel)


def _gradient(bessel: str, parameters: Parameters, S: Array, counts: Array, M: int) -> Parameters:
    (mu,) = parameters
    mu = np.asarray(mu, dtype=np.float64)
    kappa = concentrations(mu)
    if bessel == "paper" and M > 2:
        ratio = _slope_of_paper(M, kappa)
    else:
        ratio = bessel_ratio(M, kappa)
    # (33): sum g z - N_k A_M(kappa) mu / kappa, as -(ln C_M)' = A_M; at kappa = 0 the second term is zero
    return (S - (counts * ratio)[:, None] * directions(mu) * (kappa > 0)[:, None],)


def _slope_of_paper(M: int, kappa: Array) -> Array:
    """Return minus the derivative of ln C_M with (68) in place of ln I: the leading term of A_M."""
    s, k = M / 2 - 1, np.where(kappa > 0, kappa, 1.0)
    x = k / s
    root = np.sqrt(1 + x * x)
    slope = x / (1 + root) - x / (2 * s * root * root)  # d/dkappa of (68), less s / kappa
    return np.where(kappa > 0, slope, 0.0)


def _maximize(fixed: Any, largest: float, S: Array, counts: Array, M: int) -> Parameters:
    S = np.asarray(S, dtype=np.float64)
    # the likeliest mean direction is that of S_k = sum g z, the likeliest kappa has A_M(kappa) = |S_k| / N_k
    length, used = concentrations(S), counts > 0
    mean = np.divide(length, counts, out=np.zeros_like(length), where=used)
    if fixed is None:
        kappa = concentration(M, np.minimum(mean, 1.0), largest)
    elif isinstance(fixed, str):
        # one kappa for all: A_M(kappa) = sum_k |S_k| / N
        total = float(counts.sum())
        shared = min(float(length.sum()) / total, 1.0) if total > 0 else 0.0
        kappa = np.full(len(counts), float(concentration(M, shared, largest)))
    else:
        kappa = np.full(len(counts), float(fixed))
    return (kappa[:, None] * directions(S),)


def _centres(parameters: Parameters) -> Array:
    return directions(np.asarray(parameters[0], dtype=np.float64))


def _rotate(S: Array, counts: Array, R: Array) -> Array:
    return S @ R.T


def _capped(largest: float, parameters: Parameters) -> NDArray[np.bool_]:
    return concentrations(np.asarray(parameters[0], dtype=np.float64)) >= largest * (1 - 1e-12)


def _sample(parameters: Parameters, labels: NDArray[np.intp], M: int, rng: np.random.Generator) -> Array:
    """Draw by Wood's rejection method (1994): the component along the mean, then a uniform orthogonal direction."""
    (mu,) = parameters
    mu = np.asarray(mu, dtype=np.float64)
    kappa, way = concentrations(mu)[labels], directions(mu)[labels]
    if M == 1:
        return np.where(rng.random(len(labels)) * (1 + np.exp(-2 * kappa)) < 1, 1.0, -1.0)[:, None] * way
    # Wood's envelope: w = cos of the angle, by a beta variable; b solves a quadratic, written without a difference
    b = (M - 1) / (2 * kappa + np.sqrt(4 * kappa**2 + (M - 1) ** 2))
    x = (1 - b) / (1 + b)
    along, waiting = np.empty(len(labels)), np.arange(len(labels))
    while len(waiting):
        k, b_, x_ = kappa[waiting], b[waiting], x[waiting]
        beta = rng.beta((M - 1) / 2, (M - 1) / 2, len(waiting))
        w = (1 - (1 + b_) * beta) / (1 - (1 - b_) * beta)
        log_ratio = k * (w - x_) + (M - 1) * (np.log1p(-x_ * w) - np.log1p(-x_ * x_))
        accepted = log_ratio >= np.log1p(-rng.random(len(waiting)))
        along[waiting[accepted]] = w[accepted]
        waiting = waiting[~accepted]
    # a uniform direction in the tangent space: a normal vector less its part along the mean direction
    across = rng.standard_normal((len(labels), M))
    across -= np.einsum("nm,nm->n", across, way)[:, None] * way
    across /= np.sqrt(np.einsum("nm,nm->n", across, across))[:, None]
    return along[:, None] * way + np.sqrt(np.maximum(1 - along**2, 0))[:, None] * across
