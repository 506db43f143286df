"""One EM sweep with the derivative by U, compared with matrix products, a vectorized EM and spherecluster's loops.

Responsibilities below rounding are left out where that is faster; rates count the operations of dense products.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ive, logsumexp

from manifoldseq_hope import von_mises_fisher
from manifoldseq_hope.mixtures._expectation import _BLOCK, Expectation, second_moment
from manifoldseq_hope.mixtures._parameters import Model, Statistics
from manifoldseq_hope.mixtures._seeding import projection, seeded

from .._report import Report, interleaved
from ._data import patches

N, D, K, M = 100_000, 36, 400, 20
LOOPS = 500
"""Rows that the loops get; they are linear in them."""


def run(report: Report) -> None:
    """Measure."""
    report.title(f"EM sweep, {N} x {D} in float32, K={K}, M={M}, one thread, derivative by U included")
    X, where = patches(N)
    report.note(f"rows: {where}")
    rng = np.random.default_rng(0)
    model = seeded(projection("pca", second_moment(X), M, rng), X, K, von_mises_fisher(), True, rng)
    for _ in range(20):
        model = maximized(model, Expectation(model, X.dtype).statistics(X, slope=False))
    kappa = np.linalg.norm(model.parameters[0], axis=1)
    report.note(f"concentrations after 20 iterations: median {np.median(kappa):.0f}, largest {kappa.max():.0f}")
    phi = Expectation(model, X.dtype).phi(X[:10_000])
    above = np.mean(phi > phi.max(axis=1, keepdims=True) - np.log(K / np.finfo(X.dtype).eps))
    report.note(f"{100 * above:.1f} % of the responsibilities are above rounding; rates are of dense products")
    broad = replace(model, parameters=(10 / kappa[:, None] * model.parameters[0],))
    square = rng.standard_normal((2000, 2000)).astype(np.float32)
    tall, flat = rng.standard_normal((N, M)).astype(np.float32), rng.standard_normal((M, K)).astype(np.float32)
    Z = (X @ model.U.T.astype(np.float32)).astype(np.float64)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)

    def sweep(model: Model) -> object:
        return maximized(model, Expectation(model, X.dtype).statistics(X))

    def tall_product() -> None:
        for start in range(0, N, _BLOCK // K):
            tall[start : start + _BLOCK // K] @ flat

    seconds = interleaved(
        {
            "sweep": lambda: sweep(model),
            "broad": lambda: sweep(broad),
            "square": lambda: square @ square,
            "tall": tall_product,
            "vectorized": lambda: vectorized(Z, model.weights, model.parameters[0]),
        },
        repeat=5,
    )
    flops = 2.0 * N * (2 * D * M + 3 * K * (M + 1))
    rate = flops / seconds["sweep"] / 1e9
    report.row("CPU seconds of a sweep with its M-step", float(np.median(seconds["sweep"])))
    report.row("GFLOP/s of its matrix products", float(np.median(rate)), ".1f")
    largest = 2 * 2000.0**3 / seconds["square"] / 1e9
    report.row("GFLOP/s of a 2000 x 2000 product in float32", float(np.median(largest)), ".1f")
    own = 2.0 * N * M * K / seconds["tall"] / 1e9
    report.row(f"GFLOP/s of ({N} x {M}) ({M} x {K}) in the same blocks", float(np.median(own)), ".1f")
    report.row("sweep, share of the rate of the square product", float(np.median(rate / largest)), ".2f", least=0.35)
    report.row("sweep, share of the rate of the product of its own shape", float(np.median(rate / own)), ".2f")
    dense = flops / seconds["broad"] / 1e9 / largest
    report.row("all concentrations 10 (dense products), share of the square product", float(np.median(dense)), ".2f")
    ratio = seconds["vectorized"] / seconds["sweep"]
    report.row("vectorized EM with scipy's ive / ours", float(np.median(ratio)), ".1f", least=3)
    _loops(report, Z, model.weights, model.parameters[0], seconds["sweep"])


def _loops(report: Report, Z: np.ndarray, weights: np.ndarray, mu: np.ndarray, ours: np.ndarray) -> None:
    few = Z[:LOOPS]
    with np.errstate(all="ignore"):
        theirs = interleaved({"loops": lambda: loops(few, weights, mu)}, repeat=3)["loops"]
    each = np.median(theirs) / LOOPS * N
    report.row(
        f"loops of spherecluster on {LOOPS} rows, per row / ours", float(each / np.median(ours)), ".0f", least=100
    )


def maximized(model: Model, found: Statistics) -> Model:
    """Return the model with the likeliest mixture for these sums, behind the same projection."""
    parameters = model.family.maximize(found.sums, found.counts, model.M)
    return replace(model, weights=found.counts / found.counts.sum(), parameters=parameters)


def vectorized(Z: np.ndarray, weights: np.ndarray, mu: np.ndarray, block: int = 10_000) -> tuple:
    """Return (weights, mu) of one EM iteration in float64 as one writes it in numpy; no derivative by U."""
    N, M = Z.shape
    kappa = np.linalg.norm(mu, axis=1)
    s = M / 2 - 1
    log_c = s * np.log(kappa) - (s + 1) * np.log(2 * np.pi) - np.log(ive(s, kappa)) - kappa
    counts, sums = np.zeros(len(mu)), np.zeros_like(mu)
    for start in range(0, N, block):
        z = Z[start : start + block]
        phi = z @ mu.T + log_c + np.log(weights)
        gamma = np.exp(phi - logsumexp(phi, axis=1, keepdims=True))
        counts += gamma.sum(axis=0)
        sums += gamma.T @ z
    length = np.linalg.norm(sums, axis=1)
    r = length / counts
    kappa = r * (M - r**2) / (1 - r**2)
    for _ in range(3):
        A = ive(s + 1, kappa) / ive(s, kappa)
        kappa = kappa - (A - r) / (1 - A**2 - (M - 1) * A / kappa)
    return counts / N, kappa[:, None] * sums / length[:, None]


def loops(X: np.ndarray, weights: np.ndarray, mu: np.ndarray) -> tuple:
    """Return (weights, centers, kappa) of one EM iteration with the loop structure of spherecluster 0.1.7."""
    n, M = X.shape
    K = len(mu)
    kappas = np.linalg.norm(mu, axis=1)
    centers = mu / kappas[:, None]
    posterior = np.zeros((K, n))
    s = M / 2 - 1
    for k in range(K):
        log_c = s * np.log(kappas[k]) - (s + 1) * np.log(2 * np.pi) - np.log(ive(s, kappas[k])) - kappas[k]
        posterior[k] = np.log(weights[k]) + log_c + kappas[k] * X.dot(centers[k]).T
    for i in range(n):
        posterior[:, i] = np.exp(posterior[:, i] - logsumexp(posterior[:, i]))
    new_weights, new_centers, new_kappas = np.empty(K), np.empty_like(centers), np.empty(K)
    for k in range(K):
        new_weights[k] = np.mean(posterior[k])
        scaled = X.copy()
        for i in range(n):
            scaled[i, :] *= posterior[k, i]
        new_centers[k] = scaled.sum(axis=0)
        length = np.linalg.norm(new_centers[k])
        new_centers[k] /= max(length, 1e-300)
        r = length / max(n * new_weights[k], 1e-300)
        new_kappas[k] = r * (M - r**2) / max(1 - r**2, 1e-12)
    return new_weights, new_centers, new_kappas
