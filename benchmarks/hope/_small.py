"""von Mises-Fisher mixtures of few rows, compared with thirty lines of numpy: as many seedings, the same tolerance."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ive
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq_hope import VonMisesFisherMixture

from .._report import Report, interleaved

K, SEEDS, SEEDINGS = 10, 3, 10


def run(report: Report) -> None:
    """Measure."""
    report.title(f"VonMisesFisherMixture({K}) compared with thirty lines of numpy, {SEEDINGS} k-means++ seedings each")
    for name, X in _data():
        found: dict[str, list[float]] = {"ours": [], "peer": []}
        steps: dict[str, list[int]] = {"ours": [], "peer": []}

        def ours(X=X, found=found, steps=steps) -> None:
            for seed in range(SEEDS):
                model = VonMisesFisherMixture(K, random_state=seed).fit(X)
                found["ours"].append(model.log_likelihood_)
                steps["ours"].append(model.n_iter_)

        def peer(X=X, found=found, steps=steps) -> None:
            for seed in range(SEEDS):
                value, n = thirty_lines(X, K, seed)
                found["peer"].append(value)
                steps["peer"].append(n)

        seconds = interleaved({"ours": ours, "peer": peer}, repeat=5)
        ratio = float(np.median(seconds["ours"] / seconds["peer"]))
        report.row(f"{name}: CPU time, times that of the peer", ratio, ".2f", most=2)
        each = ratio * np.mean(steps["peer"]) / np.mean(steps["ours"])
        report.row(f"{name}: the same, per iteration", float(each), ".2f")
        more = float(np.mean(found["ours"]) - np.mean(found["peer"]))
        report.row(f"{name}: log-likelihood less that of the peer", more, ".3f")
        own = ", ".join(f"{kind} {np.median(seconds[kind]) / SEEDS:.3f} s" for kind in seconds)
        report.note(f"{own}; iterations {np.mean(steps['ours']):.0f} and {np.mean(steps['peer']):.0f}")


def _data() -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    try:
        yield "mfeat pixels, 2000 x 240", _pixels()
    except FileNotFoundError as error:
        print(f"  skipped: {error}")
    yield "digits, 1797 x 64", load_digits().data
    centres = rng.standard_normal((K, 256))
    yield "generated, 6000 x 256", centres[rng.integers(K, size=6000)] + 4 * rng.standard_normal((6000, 256))


def _pixels() -> np.ndarray:
    data = ms.hooks.get_dataset("uci-mfeat").loader()
    pixels = [i for i, name in enumerate(data.channel_names or ()) if name.startswith("pix")]
    return np.concatenate(data.sequences)[:, pixels]


def thirty_lines(X: np.ndarray, K: int, seed: int) -> tuple[float, int]:
    """Fit by EM as one writes it down, concentrations by the formula of Banerjee et al. and one Newton step."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    N, D = X.shape
    rng = np.random.RandomState(seed)
    tried = [kmeans_plusplus(X, K, random_state=rng)[0] for _ in range(SEEDINGS)]
    mean = max(tried, key=lambda c: (X @ c.T).max(axis=1).sum())
    kappa, pi, s, before = np.full(K, 30.0), np.full(K, 1 / K), D / 2 - 1, -np.inf
    hard = (X @ mean.T).argmax(axis=1)
    mean = np.stack([X[hard == k].sum(axis=0) for k in range(K)])
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    steps, value = 0, -np.inf
    while steps < 200:
        steps += 1
        normalizer = s * np.log(kappa) - D / 2 * np.log(2 * np.pi) - np.log(ive(s, kappa)) - kappa
        phi = (X @ mean.T) * kappa + (np.log(pi) + normalizer)
        top = phi.max(axis=1, keepdims=True)
        e = np.exp(phi - top)
        total = e.sum(axis=1, keepdims=True)
        value = float(np.mean(top + np.log(total)))
        if value - before <= 1e-6 * max(1.0, abs(value)):
            break
        before = value
        gamma = e / total
        counts, sums = gamma.sum(axis=0), gamma.T @ X
        pi, length = counts / N, np.linalg.norm(sums, axis=1)
        mean, r = sums / length[:, None], np.minimum(length / counts, 1 - 1e-9)
        kappa = np.minimum(r * (D - r * r) / (1 - r * r), 1e4)
        A = ive(s + 1, kappa) / ive(s, kappa)
        kappa = np.minimum(kappa - (A - r) / (1 - A * A - (D - 1) * A / kappa), 1e4)
    return value, steps
