"""Tricks of the other models: mixtures of probabilistic CCA, hierarchical encoding, linear dynamical systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder, SubspaceEncoder, SubspaceKMeans
from manifoldseq_hierarchical import _closed_form as closed_form
from manifoldseq_hierarchical import _clusters as clusters
from manifoldseq_hierarchical import _moments as moments
from manifoldseq_lds import LDSIdentifier, LDSSpectralClustering
from manifoldseq_lds.identification import _subspace_method as subspace_method
from manifoldseq_lds.kernels import _output_normal as output_normal
from manifoldseq_mpcca import MixturePCCA
from manifoldseq_mpcca import _expectation as expectation

from ..hierarchical._problems import frames
from ._measure import Trick, replaced

Array = Any


def pairs() -> Trick:
    """Return statistics over the pairs of rows and components that count, against those over all pairs."""
    return Trick((replaced(expectation, _SPARSE=-1.0),), _mixtures())


def wide() -> Trick:
    """Return sums of wide frames one by one in small blocks, against sparse products of whole blocks."""
    return Trick((replaced(moments, _WIDE=10**9),), _encoders())


def gram() -> Trick:
    """Return directions by the Gram matrix of the centroids, against the singular value decomposition."""
    X = frames(5000, 1024, 50)[0]
    plain = replaced(closed_form, _by_gram=lambda B, tolerance: None)
    return Trick(
        (plain,), {"HierarchicalSequenceEncoder.fit, 5000 x 1024": lambda: HierarchicalSequenceEncoder().fit(X)}
    )


def assign() -> Trick:
    """Return products that OpenBLAS does not copy the factors of, against one product for every block."""
    return Trick((replaced(clusters, _UNPACKED=0),), _clusterings())


def blocks() -> Trick:
    """Return pairs of systems in blocks of half a MiB, against blocks of four."""
    X = ms.hooks.get_dataset("japanese-vowels").loader().sequences
    model = LDSSpectralClustering(n_clusters=9, n_states=3, random_state=0)
    plain = replaced(output_normal, _CHUNK_BYTES=2**22)
    return Trick((plain,), {"LDSSpectralClustering.fit, JapaneseVowels": lambda: model.fit(X)})


def leading() -> Trick:
    """Return the leading directions of sequences by the Gram matrix, against whole singular value decompositions."""
    rng, work = np.random.default_rng(0), {}
    for N, d in ((100, 177), (60, 1000)):
        X = [rng.standard_normal((50, d)).cumsum(axis=0) for _ in range(N)]
        work[f"LDSIdentifier(10).fit_transform, {N} sequences of 50 x {d}"] = lambda X=X: LDSIdentifier(
            10
        ).fit_transform(X)
    return Trick((replaced(subspace_method, _SMALL=10**9),), work)


def _mixtures() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    far = rng.standard_normal((10_000, 100)) + 4 * rng.standard_normal((64, 100))[rng.integers(64, size=10_000)]
    work: dict[str, Any] = {}
    folder = Path(os.environ.get("MANIFOLDSEQ_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "mfeat"
    if folder.is_dir():
        views = [np.loadtxt(folder / f"mfeat-{name}.csv", delimiter=",", skiprows=1)[:, :-1] for name in ("kar", "fou")]
        model = MixturePCCA(10, n_latent=5, random_state=0, max_iter=10, tol=0, covariance_type="diag")
        work["MixturePCCA.fit, UCI numerals, K=10, 10 iterations"] = lambda: model.fit(*views)
    many = MixturePCCA(64, n_latent=32, init="random", random_state=0, max_iter=3, tol=0, covariance_type="diag")
    work["MixturePCCA.fit, 64 far clusters, d=32, 3 iterations"] = lambda: many.fit(far[:, :50], far[:, 50:])
    return work


def _encoders() -> dict[str, Any]:
    work = {}
    for N, d, h, dtype in ((20_000, 1024, 50, np.float64), (20_000, 2048, 20, np.float32)):
        X, labels = frames(N, d, h)
        X = X.astype(dtype)
        work[f"SubspaceEncoder.fit, {N} x {d} of {X.dtype}"] = lambda X=X, y=labels: SubspaceEncoder().fit(X, y)
    return work


def _clusterings() -> dict[str, Any]:
    work = {}
    for N, d, K in ((4000, 256, 10), (4000, 512, 20)):
        X = frames(N, d, K, spread=0.4)[0]
        model = SubspaceKMeans(K, objective="printed", n_init=2, random_state=0)
        work[f"SubspaceKMeans.fit, {N} x {d}, K={K}"] = lambda X=X, m=model: m.fit(X)
    return work
