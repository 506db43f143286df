"""Components of Gaussian distributions (8), with diagonal or full covariances."""

from functools import partial
from numbers import Real

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ._family import Array, Family, Parameters

COVARIANCE_TYPES = ("diag", "full")


def gaussian(covariance_type: str = "diag", floor: float = 1e-6) -> Family:
    """Return the family of Gaussian distributions.

    Parameters
    ----------
    covariance_type : {"diag", "full"}
        The parameters are ``means`` (K, M) and ``variances`` (K, M), or ``covariances`` (K, M, M).
    floor : float
        The lower bound of variances (of eigenvalues of covariances) in `Family.maximize`.

    Returns
    -------
    Family

    Raises
    ------
    ValueError
        For an unknown setting.

    References
    ----------
    Zhang, Jiang, equations (8), (24)-(28).
    """
    if not (isinstance(covariance_type, str) and covariance_type in COVARIANCE_TYPES):
        raise ValueError(f"covariance_type={quoted(covariance_type)} is not known: choose 'diag' or 'full'")
    if not (isinstance(floor, Real) and not isinstance(floor, bool) and floor > 0):
        raise ValueError(f"floor={quoted(floor)} is not valid: pass a number above zero")
    if covariance_type == "diag":
        return Family(
            name="gmm",
            names=("means", "variances"),
            directional=False,
            manifolds=_diagonal_manifolds,
            statistics=_diagonal_statistics,
            pullback=_diagonal_pullback,
            natural=_diagonal_natural,
            gradient=_diagonal_gradient,
            maximize=partial(_diagonal_maximize, float(floor)),
            start=partial(_diagonal_start, float(floor)),
            centres=_means,
            rotate=_diagonal_rotate,
            sample=_diagonal_sample,
            capped=partial(_diagonal_capped, float(floor)),
        )
    return Family(
        name="gmm-full",
        names=("means", "covariances"),
        directional=False,
        manifolds=_full_manifolds,
        statistics=_full_statistics,
        pullback=_full_pullback,
        natural=_full_natural,
        gradient=_full_gradient,
        maximize=partial(_full_maximize, float(floor)),
        start=partial(_full_start, float(floor)),
        centres=_means,
        rotate=_full_rotate,
        sample=_full_sample,
        capped=partial(_full_capped, float(floor)),
    )


def _both(parameters: Parameters) -> tuple[Array, Array]:
    means, spread = parameters
    return np.asarray(means, dtype=np.float64), np.asarray(spread, dtype=np.float64)


def _means(parameters: Parameters) -> Array:
    return _both(parameters)[0]


def _per_component(S: Array, counts: Array) -> Array:
    """Return S / counts; components without rows get the mean over all components."""
    total = max(float(counts.sum()), np.finfo(float).tiny)
    found = np.tile(S.sum(axis=0) / total, (len(S),) + (1,) * (S.ndim - 1))
    used = counts > 0
    found[used] = S[used] / counts[used].reshape(-1, *(1,) * (S.ndim - 1))
    return found


# Diagonal covariances: t(z) = [z^2, z].


def _diagonal_manifolds(K: int, M: int) -> tuple[ms.manifolds.Manifold, ...]:
    return ms.manifolds.Euclidean(K, M), ms.manifolds.Positive(K, M)


def _diagonal_statistics(Z: Array) -> Array:
    return np.concatenate([Z * Z, Z], axis=1)


def _diagonal_pullback(Z: Array, G: Array) -> Array:
    # dt/dz of t = [z², z]
    M = Z.shape[1]
    return 2 * Z * G[:, :M] + G[:, M:]


def _diagonal_natural(parameters: Parameters, M: int) -> tuple[Array, Array]:
    means, variances = _both(parameters)
    # ln N(z; mu, diag s) = -z²/2s + z mu/s - (mu²/s + ln 2 pi s)/2: coefficients of [z², z], (K, 2M), and the rest,
    # (K,)
    natural = np.concatenate([-0.5 / variances, means / variances], axis=1)
    offset = -0.5 * np.sum(means**2 / variances + np.log(2 * np.pi * variances), axis=1)
    return natural, offset


def _diagonal_gradient(parameters: Parameters, S: Array, counts: Array, M: int) -> Parameters:
    means, variances = _both(parameters)
    # (25) and the diagonal of (27), from the moments about the mean: sum g (z - mu)² = sum g z² - 2 mu sum g z + n mu²
    squares, sums, n = S[:, :M], S[:, M:], counts[:, None]
    about = squares - 2 * means * sums + n * means**2
    return (sums - n * means) / variances, 0.5 * (about / variances - n) / variances


def _diagonal_maximize(floor: float, S: Array, counts: Array, M: int) -> Parameters:
    mean = _per_component(np.asarray(S, dtype=np.float64), counts)
    return mean[:, M:], np.maximum(mean[:, :M] - mean[:, M:] ** 2, floor)


def _diagonal_start(floor: float, S: Array, counts: Array, M: int) -> Parameters:
    """Return the means of the clusters and the pooled variances within them."""
    means, variances = _diagonal_maximize(floor, S, counts, M)
    return means, np.tile(np.average(variances, axis=0, weights=np.maximum(counts, 1e-300)), (len(means), 1))


def _diagonal_rotate(S: Array, counts: Array, R: Array) -> Array:
    """Rotate means exactly, and variances as if components had no correlations."""
    M = R.shape[0]
    # the diagonal of R diag(s) R' is (R * R) s
    mean = _per_component(S, counts)
    variances = np.maximum(mean[:, :M] - mean[:, M:] ** 2, 0.0)
    means = mean[:, M:] @ R.T
    return np.concatenate([variances @ (R * R).T + means**2, means], axis=1) * counts[:, None]


def _diagonal_sample(parameters: Parameters, labels: NDArray[np.intp], M: int, rng: np.random.Generator) -> Array:
    means, variances = _both(parameters)
    return means[labels] + np.sqrt(variances[labels]) * rng.standard_normal((len(labels), M))


def _diagonal_capped(floor: float, parameters: Parameters) -> NDArray[np.bool_]:
    return np.any(_both(parameters)[1] <= floor * (1 + 1e-12), axis=1)


# Full covariances: t(z) = [z z', z].


def _full_manifolds(K: int, M: int) -> tuple[ms.manifolds.Manifold, ...]:
    spd = ms.manifolds.SymmetricPositiveDefinite(M)
    return ms.manifolds.Euclidean(K, M), spd**K


def _full_statistics(Z: Array) -> Array:
    b, M = Z.shape
    return np.concatenate([(Z[:, :, None] * Z[:, None, :]).reshape(b, M * M), Z], axis=1)


def _full_pullback(Z: Array, G: Array) -> Array:
    # the derivative of <H, z z'> + <h, z> is (H + H') z + h, row by row
    b, M = Z.shape
    H = G[:, : M * M].reshape(b, M, M)
    return np.matmul(H + H.mT, Z[:, :, None])[:, :, 0] + G[:, M * M :]


def _full_natural(parameters: Parameters, M: int) -> tuple[Array, Array]:
    means, covariances = _both(parameters)
    # ln N(z; mu, S) = <-P/2, z z'> + <P mu, z> - (mu' P mu + ln det 2 pi S)/2 with the precision P = S^-1, (K, M, M)
    precision = np.linalg.inv(covariances)
    linear = np.matmul(precision, means[:, :, None])[:, :, 0]
    log_det = np.linalg.slogdet(2 * np.pi * covariances)[1]
    offset = -0.5 * (np.einsum("km,km->k", linear, means) + log_det)
    return np.concatenate([-0.5 * precision.reshape(len(means), -1), linear], axis=1), offset


def _full_gradient(parameters: Parameters, S: Array, counts: Array, M: int) -> Parameters:
    means, covariances = _both(parameters)
    precision = np.linalg.inv(covariances)
    squares, sums = S[:, : M * M].reshape(-1, M, M), S[:, M * M :]
    # sum g (z - mu)(z - mu)', (K, M, M); (25) is P sum g (z - mu), (27) is -(n P - P about P)/2
    cross = sums[:, :, None] * means[:, None, :]
    n = counts[:, None, None]
    about = squares - cross - cross.mT + n * means[:, :, None] * means[:, None, :]
    slope = np.matmul(precision, (sums - counts[:, None] * means)[:, :, None])[:, :, 0]
    return slope, -0.5 * (n * precision - precision @ about @ precision)


def _full_moments(S: Array, counts: Array, M: int) -> tuple[Array, Array]:
    mean = _per_component(np.asarray(S, dtype=np.float64), counts)
    means = mean[:, M * M :]
    covariances = mean[:, : M * M].reshape(-1, M, M) - means[:, :, None] * means[:, None, :]
    return means, 0.5 * (covariances + covariances.mT)


def _full_maximize(floor: float, S: Array, counts: Array, M: int) -> Parameters:
    means, covariances = _full_moments(S, counts, M)
    values, vectors = np.linalg.eigh(covariances)
    low = values[:, 0] < floor
    if low.any():  # the likeliest covariance whose eigenvalues are at least the floor
        values, vectors = np.maximum(values[low], floor), vectors[low]
        covariances[low] = (vectors * values[:, None, :]) @ vectors.mT
    return means, covariances


def _full_start(floor: float, S: Array, counts: Array, M: int) -> Parameters:
    """Return the means of the clusters and the pooled covariance within them."""
    means, covariances = _full_maximize(floor, S, counts, M)
    pooled = np.average(covariances, axis=0, weights=np.maximum(counts, 1e-300))
    return means, np.tile(pooled, (len(means), 1, 1))


def _full_rotate(S: Array, counts: Array, R: Array) -> Array:
    M = R.shape[0]
    # of R z the moments are R (sum g z z') R' and R sum g z
    squares = R @ S[:, : M * M].reshape(-1, M, M) @ R.T
    return np.concatenate([squares.reshape(len(S), -1), S[:, M * M :] @ R.T], axis=1)


def _full_sample(parameters: Parameters, labels: NDArray[np.intp], M: int, rng: np.random.Generator) -> Array:
    means, covariances = _both(parameters)
    roots = np.linalg.cholesky(covariances)
    noise = rng.standard_normal((len(labels), M))
    found = means[labels]
    for k in np.unique(labels):
        rows = labels == k
        found[rows] += noise[rows] @ roots[k].T
    return found


def _full_capped(floor: float, parameters: Parameters) -> NDArray[np.bool_]:
    return np.linalg.eigvalsh(_both(parameters)[1])[:, 0] <= floor * (1 + 1e-9)
