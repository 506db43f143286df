"""Gradient vectors against finite differences, Fisher vectors against scikit-image, and the speed of encoding bags."""

from importlib.util import find_spec

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from manifoldseq_mpcca import Mixture, gradient_vectors

from .._report import Report, interleaved

K, N, D = 32, 5000, 64


def run(report: Report) -> None:
    """Measure."""
    _finite_differences(report)
    _scikit_image(report)
    _bags(report)


def _finite_differences(report: Report) -> None:
    for full in (False, True):
        kind = "full" if full else "diagonal"
        report.title(
            f"gradient vectors (42)-(45), {kind} noise (K=3, 6 + 5 columns, d=2, 200 rows): scipy's densities, h = 1e-5"
        )
        rng = np.random.default_rng(0)
        noise = []
        for n in (6, 5):
            root = rng.standard_normal((3, n, n)) * 0.3 + np.eye(n)
            noise.append(root @ root.mT if full else rng.uniform(0.3, 1.5, (3, n)))
        mixture = Mixture([0.5, 0.3, 0.2], rng.standard_normal((3, 11)), rng.standard_normal((3, 11, 2)), noise)
        x, y = 1.5 * rng.standard_normal((200, 6)), 1.5 * rng.standard_normal((200, 5))
        uphill = gradient_vectors(mixture, [x], [y], gradient_scale="likelihood")
        paper = gradient_vectors(mixture, [x], [y], gradient_scale="paper")
        parts = uphill.means + uphill.noise
        worst = {"means": 0.0, "noise": 0.0}
        for _ in range(10):
            moves = [rng.standard_normal(part[0].shape) for part in parts]
            moves = [a + a.mT if a.ndim == 3 else a for a in moves]
            for name, chosen in (("means", (0, 1)), ("noise", (2, 3))):
                along = [a if i in chosen else 0 * a for i, a in enumerate(moves)]
                up, down = (_likelihood(_moved(mixture, h, along), x, y) for h in (1e-5, -1e-5))
                exact = sum(float(np.sum(part[0] * a)) for part, a in zip(parts, along, strict=True))
                worst[name] = max(worst[name], abs((up - down) / 2e-5 - exact) / abs(exact))
        for name, error in worst.items():
            report.row(
                f"largest relative error of the gradient in the {name}, of 10 directions", error, ".1e", most=1e-6
            )
        factor = [a / b for a, b in zip(paper.means + paper.noise, parts, strict=True)]
        error = max(float(np.abs(ratio / (-2 / 200) - 1).max()) for ratio in factor)
        report.row("largest relative error of the factor -2/N of the printed form", error, ".1e", most=1e-10)


def _scikit_image(report: Report) -> None:
    report.title(f"Fisher vector of {N} rows of {D} columns, K={K}, against scikit-image")
    if find_spec("skimage") is None:
        report.note("skipped: scikit-image is not installed (pip install --no-deps scikit-image lazy-loader)")
        report.skipped.append("fisher: scikit-image")
        return
    from skimage.feature import fisher_vector  # pyright: ignore[reportMissingImports]

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N, D)) * rng.uniform(0.5, 2, D)
    mixture = Mixture(
        np.full(K, 1 / K), rng.standard_normal((K, D)), np.zeros((K, D, 0)), [rng.uniform(0.5, 2, (K, D))]
    )
    gmm = GaussianMixture(K, covariance_type="diag")
    gmm.weights_, gmm.means_, gmm.covariances_ = mixture.weights, mixture.means, mixture.variances
    gmm.precisions_cholesky_ = 1 / np.sqrt(mixture.variances)
    theirs = fisher_vector(rows, gmm)[K:].reshape(2, K, D)
    ours = gradient_vectors(mixture, [[rows]], gradient_scale="fisher")
    for name, a, b, sign in (("mean", ours.means[0][0], theirs[0], 1), ("variance", ours.noise[0][0], theirs[1], -1)):
        cosine = sign * np.einsum("kd,kd->k", a, b) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        said = "" if sign == 1 else ", of the opposite sign"
        report.row(f"1 - least cosine of a {name} block{said}", 1 - float(cosine.min()), ".1e", most=1e-10)
    functions = {
        "theirs": lambda: fisher_vector(rows, gmm),
        "ours": lambda: gradient_vectors(mixture, [[rows]], gradient_scale="fisher"),
    }
    seconds = interleaved(functions)
    report.row("their CPU time / ours", float(np.median(seconds["theirs"] / seconds["ours"])), ".2f", least=1.0)


def _bags(report: Report) -> None:
    report.title("gradient vectors of bags of paired descriptors (K=32, 24 + 24 columns, d=8)")
    rng = np.random.default_rng(0)
    noise = [rng.uniform(0.5, 2, (32, 24)) for _ in range(2)]
    mixture = Mixture(np.full(32, 1 / 32), rng.standard_normal((32, 48)), rng.standard_normal((32, 48, 8)) / 3, noise)
    x, y = rng.standard_normal((2, 40_000, 24))
    for length in (1, 20, 400):
        bags = x.reshape(-1, length, 24)[:4000], y.reshape(-1, length, 24)[:4000]
        seconds = interleaved({"bags": lambda bags=bags: gradient_vectors(mixture, *bags)}, repeat=3)["bags"]
        each = 1e6 * float(np.median(seconds)) / (len(bags[0]) * length)
        report.row(f"CPU microseconds per row, bags of {length}", each, ".1f")


def _moved(mixture: Mixture, h: float, along: list[np.ndarray]) -> Mixture:
    means = mixture.means + h * np.concatenate(along[:2], axis=1)
    noise = [part + h * a for part, a in zip(mixture.noise, along[2:], strict=True)]
    return Mixture(mixture.weights, means, mixture.loadings, noise)


def _likelihood(mixture: Mixture, x: np.ndarray, y: np.ndarray) -> float:
    rows, parts = np.hstack([x, y]), []
    for k in range(mixture.n_components):
        S = mixture.loadings[k] @ mixture.loadings[k].T
        for v, noise in enumerate(mixture.noise):
            c = mixture.columns(v)
            S[c, c] += noise[k] if mixture.full else np.diag(noise[k])
        parts.append(np.log(mixture.weights[k]) + multivariate_normal(mixture.means[k], S).logpdf(rows))
    return float(logsumexp(parts, axis=0).sum())
