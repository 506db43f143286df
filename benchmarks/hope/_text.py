"""Clusters of texts by TF-IDF in sparse rows: docstrings of scipy and scikit-learn, whose packages are the labels."""

import importlib
import inspect
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture

from manifoldseq_hope import PCAMovMF, SphericalKMeans, VonMisesFisherMixture

from .._report import Report

PACKAGES = (
    "scipy.stats scipy.signal scipy.linalg scipy.optimize scipy.special scipy.ndimage scipy.sparse scipy.interpolate "
    "sklearn.metrics sklearn.preprocessing sklearn.linear_model sklearn.datasets"
).split()
SEEDS = 5


def run(report: Report) -> None:
    """Measure."""
    texts, y = docstrings()
    X = TfidfVectorizer(stop_words="english", sublinear_tf=True, min_df=3, max_df=0.5).fit_transform(texts)
    share = X.nnz / (X.shape[0] * X.shape[1])
    report.title(
        f"TF-IDF of {X.shape[0]} docstrings of {len(PACKAGES)} packages, {X.shape[1]} words, "
        f"{100 * share:.1f} % nonzero; {SEEDS} seeds"
    )
    K = len(PACKAGES)

    def diagonal(seed: int) -> np.ndarray:
        Z = TruncatedSVD(50, random_state=seed).fit_transform(X)
        return GaussianMixture(K, covariance_type="diag", random_state=seed).fit_predict(Z)

    methods = {
        "VonMisesFisherMixture": lambda seed: VonMisesFisherMixture(K, random_state=seed).fit_predict(X),
        "VonMisesFisherMixture, one kappa": lambda seed: VonMisesFisherMixture(
            K, kappa="shared", random_state=seed
        ).fit_predict(X),
        "PCAMovMF, 50 axes": lambda seed: PCAMovMF(K, n_latent=50, random_state=seed).fit_predict(X),
        "SphericalKMeans, 10 starts": lambda seed: SphericalKMeans(K, n_init=10, random_state=seed).fit_predict(X),
        "KMeans of scikit-learn, 10 starts": lambda seed: KMeans(K, n_init=10, random_state=seed).fit_predict(X),
        "diagonal Gaussian mixture of 50 axes": diagonal,
    }
    for name, labels in methods.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [labels(seed) for seed in range(SEEDS)]
        seconds = (time.process_time() - start) / SEEDS
        nmi = [normalized_mutual_info_score(y, one) for one in found]
        report.row(f"{name}: NMI, standard deviation {np.std(nmi, ddof=1):.3f}", float(np.mean(nmi)), ".3f")
        ari = np.mean([adjusted_rand_score(y, one) for one in found])
        report.note(f"adjusted Rand index {ari:.3f}, {seconds:.2f} CPU seconds")


def docstrings() -> tuple[list[str], np.ndarray]:
    """Return the first 3000 characters of the docstrings of public functions and classes, and their packages."""
    texts: dict[str, int] = {}
    for label, package in enumerate(PACKAGES):
        module = importlib.import_module(package)
        for name in sorted(getattr(module, "__all__", [])):
            thing = getattr(module, name, None)
            text = inspect.getdoc(thing) if callable(thing) else None
            if text and len(text) > 200:
                texts.setdefault(text[:3000], label)
    return list(texts), np.array(list(texts.values()))
