"""Digits from features of a few hundred units: overlapping cells, principal axes and a support vector machine.

``python -m benchmarks.hope digits`` has 20 000 training images and looks at 10 000 others of the training set.
``python -m benchmarks.hope._digits 0 1 2`` learns from all 60 000 with seeds 0, 1, 2, and looks at the test images.
"""

import sys
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.svm import SVC

from manifoldseq_hope import ConvolutionalFeatures, PCAMovMF

from .._report import Report
from ._data import mnist_images, mnist_labels

HELD, TRAIN, UNITS = 10_000, 20_000, 100
AXES, ROWS = 400, 20_000


def run(report: Report) -> None:
    """Measure."""
    images, labels = mnist_images(), mnist_labels()
    if images is None or labels is None:
        report.note("skipped: MNIST is not there")
        report.skipped.append("digits")
        return
    order = np.random.default_rng(0).permutation(len(images))
    held, train = order[:HELD], order[HELD:][:TRAIN]
    report.title(f"Digits: {UNITS} units, {TRAIN} training images, {HELD} others looked at, 4 x 4 cells, seed 0")
    for overlap in (False, True):
        start = time.process_time()
        features = convolution(UNITS, overlap, 0)
        X = features.fit(images[train]).transform(images[train])
        predict, n_support = machine(X, labels[train], 0)
        wrong = predict(features.transform(images[held])) != labels[held]
        cells = "overlapping" if overlap else "disjoint"
        report.row(f"error in percent, {cells} cells", 100 * float(wrong.mean()), ".2f", most=0.75 if overlap else None)
        report.note(f"{time.process_time() - start:.0f} CPU seconds, {n_support} support vectors")


def convolution(units: int, overlap: bool, seed: int) -> ConvolutionalFeatures:
    """Return features, not fitted; 0.85, 4 and what `machine` has were chosen on training images held out."""
    model = PCAMovMF(units, n_latent=20, kappa=40.0, solver="online-em", max_iter=10, tol=0.0)
    return ConvolutionalFeatures(model, patch_size=6, pooling=4, overlap=overlap, quantile=0.85, random_state=seed)


def machine(X: np.ndarray, labels: np.ndarray, seed: int):
    """Return what predicts labels from features, and how many support vectors it has.

    A Gaussian kernel on principal axes, each divided by the square root of its standard deviation: half whitened.
    """
    some = np.random.default_rng(seed).permutation(len(X))[:ROWS]
    pca = PCA(AXES, svd_solver="randomized", iterated_power=3, random_state=seed).fit(X[some])
    scale = pca.explained_variance_**-0.25
    A = (pca.transform(X) * scale).astype(np.float64)
    svc = SVC(C=10, gamma=0.5 / (A.shape[1] * A.var()), cache_size=1500).fit(A, labels)
    return lambda T: svc.predict(pca.transform(T) * scale), len(svc.support_)


if __name__ == "__main__":
    X, y, T, z = mnist_images(), mnist_labels(), mnist_images("t10k"), mnist_labels("t10k")
    if X is None or y is None or T is None or z is None:
        sys.exit("MNIST is not there: set MANIFOLDSEQ_MNIST to the folder with its four files")
    for number in map(int, sys.argv[1:] or ("0", "1", "2")):
        begin = time.process_time()
        eta = convolution(400, True, number)
        known, n = machine(eta.fit(X).transform(X), y, number)
        error = 100 * float((known(eta.transform(T)) != z).mean())
        print(f"seed {number}: test error {error:.2f} %, {n} support vectors, {time.process_time() - begin:.0f} CPU s")
