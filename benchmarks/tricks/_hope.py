"""Tricks of HOPE: responsibilities, features of images, networks."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from manifoldseq_hope import HOPE, ConvolutionalFeatures, HOPENetworkClassifier, PCAMovMF
from manifoldseq_hope.features import _convolution, _patches
from manifoldseq_hope.mixtures import _expectation

from ..hope._data import mnist_images, patches
from ._measure import Trick, replaced

Array = Any


def responsibilities() -> Trick:
    """Return sparse products where most responsibilities are below rounding, against dense ones."""
    X = patches(40_000)[0]
    model = HOPE(400, n_latent=20, noise_variance=0.1, max_iter=25, tol=0.0, random_state=0)
    return Trick((replaced(_expectation, _SPARSE=-1.0, _PATIENCE=-1.0),), {"HOPE.fit, 25 iterations": _fit(model, X)})


def denormal() -> Trick:
    """Return exponents that are cut where products would be denormal, against exponents as they are."""
    X = patches(10_000)[0]
    model = HOPE(400, n_latent=20, noise_variance=0.1, kappa=400.0, max_iter=3, tol=0.0, random_state=0)
    lowest = {dtype: -np.inf for dtype in _expectation._LOWEST}
    plain = replaced(_expectation, _LOWEST=lowest, _SPARSE=-1.0, _PATIENCE=-1.0)
    return Trick((plain,), {"HOPE.fit, kappa=400": _fit(model, X)})


def rectify() -> Trick:
    """Return the larger of two arrays, against that of an array and a number."""

    class Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def maximum(self, eta: Array, zeros: Array, out: Array) -> Array:
            return np.maximum(eta, 0, out=out)

    return Trick((replaced(_convolution, np=Numpy()),), _transforms())


def pool() -> Trick:
    """Return products that several cells share, against one for every cell."""

    def pooled(rectified: Any, t: Array, ends: Array, most: int, K: int) -> Array:
        found = np.zeros((len(ends) - 1, K), t.dtype)
        for cell, (begin, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            for start in range(begin, end, most):
                eta = rectified(t[start : min(start + most, end)])
                found[cell] += np.ones(len(eta), t.dtype) @ eta
        return found

    return Trick((replaced(_convolution, _pooled=pooled),), _transforms())


def cut() -> Trick:
    """Return patches taken pixel by pixel, against one gather."""

    def gathered(self: Any, pixels: Array, at: Array) -> Array:
        return pixels[self.offsets[:, None] + at]

    return Trick((replaced(_patches.Patches, cut=gathered),), _transforms())


def rows() -> Trick:
    """Return the iteration for orthonormal rows, against an eigendecomposition in the precision of the network."""

    from manifoldseq.torch import _retractions

    def by_eigh(Y: Any) -> Any:
        import torch

        values, vectors = torch.linalg.eigh(Y @ Y.T)
        return (vectors * values.rsqrt()) @ (vectors.T @ Y)

    return Trick((mock.patch.dict(_retractions.RETRACTIONS, {"polar": by_eigh}),), _networks(0.05))


def skip() -> Trick:
    """Return steps without a retraction while rows stay orthonormal to rounding, against one in every step."""
    from manifoldseq.torch import _optimizers

    return Trick((replaced(_optimizers, _SLACK=-1.0),), _networks(0.05) | _networks(0.001))


def series() -> Trick:
    """Return a retraction by one polynomial of as many terms as a step needs, against steps with two terms each."""
    import torch

    from manifoldseq.torch import OrthonormalParameter, RiemannianSGD, _retractions

    def steps(start: Any, G: Any) -> None:
        W = OrthonormalParameter(start.clone())
        optimizer = RiemannianSGD([W], lr=0.1, momentum=0.9)
        for _ in range(40):
            optimizer.zero_grad()
            (W * G).sum().backward()
            optimizer.step()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    work: dict[str, Any] = {}
    for shape in ((100, 784), (64, 64, 3, 3)):
        start, G = OrthonormalParameter(torch.randn(shape)).detach(), torch.randn(shape)
        G /= torch.linalg.vector_norm(G)
        work[f"40 steps of RiemannianSGD with {shape}"] = lambda start=start, G=G: steps(start, G)
    return Trick((replaced(_retractions, _SERIES=_retractions._SERIES[:2]),), work)


def _fit(model: Any, X: Array) -> Any:
    return lambda: model.fit(X)


def _images() -> Array:
    images = mnist_images()
    if images is None:
        raise SystemExit("MNIST is not there: set MANIFOLDSEQ_MNIST to the folder of its files")
    return images


def _transforms() -> dict[str, Any]:
    images, work = _images()[:2000], {}
    for K in (400, 100):
        model = PCAMovMF(K, n_latent=20, kappa=40.0, solver="online-em", max_iter=2)
        features = ConvolutionalFeatures(model, patch_size=6, n_patches=50_000, random_state=0).fit(images)
        work[f"ConvolutionalFeatures.transform, 2000 images of MNIST, K={K}"] = lambda f=features: f.transform(images)
    return work


def _networks(rate: float) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    X = _images()[:4000].reshape(4000, -1).astype(np.float32) / 255
    root = Path(os.environ.get("MANIFOLDSEQ_MNIST", Path(__file__).resolve().parents[3] / "shared" / "data" / "mnist"))
    with gzip.open(root / "train-labels-idx1-ubyte.gz") as stream:
        y = np.frombuffer(stream.read(), np.uint8, offset=8)[:4000]
    work = {}
    for M, K in ((50, 200), (200, 400), (400, 1200)):
        model = HOPENetworkClassifier(((M, K),), learning_rate=rate, max_iter=1, random_state=0)
        work[f"HOPENetworkClassifier(({M}, {K})), rate {rate}, one epoch"] = lambda m=model: m.fit(X, y)
    return work
