"""Features of images, responses of all patches, pooled: compared with matrix products and with straightforward code."""

import numpy as np

from manifoldseq_hope import ConvolutionalFeatures, PCAMovMF

from .._report import Report, interleaved
from ._data import mnist_images

N, K, M, SIZE, SOME = 2000, 400, 20, 6, 100


def run(report: Report) -> None:
    """Measure."""
    images = mnist_images()
    where = "training images of MNIST"
    if images is None:
        images, where = generated(), "generated images, MNIST is not there"
    images = images[:N]
    report.title(f"Features of {N} images, patches of {SIZE} x {SIZE}, M={M}, K={K}, quadrants, one thread, in float32")
    model = PCAMovMF(K, n_latent=M, kappa=40.0, solver="online-em", max_iter=2)
    features = ConvolutionalFeatures(model, patch_size=SIZE, n_patches=50_000, random_state=0).fit(images)
    patches, pixels = features._patches, images.astype(np.float32).ravel()
    at = (np.arange(N)[:, None] * images[0].size + patches.corners).ravel()
    used = int(patches.varied(pixels)[at].sum())
    report.note(
        f"{where}: {used / len(at):.2f} of {len(at)} patches are not constant, only these are computed and counted"
    )
    rng = np.random.default_rng(0)
    square = rng.standard_normal((2000, 2000)).astype(np.float32)
    tall, flat = rng.standard_normal((used, M)).astype(np.float32), rng.standard_normal((M, K)).astype(np.float32)

    def tall_product() -> None:
        for start in range(0, used, 200):
            tall[start : start + 200] @ flat

    seconds = interleaved(
        {
            "ours": lambda: features.transform(images),
            "square": lambda: square @ square,
            "tall": tall_product,
            "plain": lambda: plain(features, images[:SOME]),
        },
        repeat=15,
    )
    rate = 2.0 * used * (SIZE**2 * M + (M + 1) * K) / seconds["ours"] / 1e9
    largest, own = 2 * 2000.0**3 / seconds["square"] / 1e9, 2.0 * used * M * K / seconds["tall"] / 1e9
    error = np.abs(plain(features, images[:SOME]) - features.transform(images[:SOME])).max()
    report.row("CPU seconds for 60 000 images", float(np.median(seconds["ours"])) * 60_000 / N, ".1f")
    report.row("GFLOP/s of its matrix products", float(np.median(rate)), ".1f")
    report.row("GFLOP/s of a 2000 x 2000 product in float32", float(np.median(largest)), ".1f")
    report.row("features, share of the rate of the square product", float(np.median(rate / largest)), ".2f", least=0.35)
    report.row("features, share of the rate of the product of its own shape", float(np.median(rate / own)), ".2f")
    ratio = seconds["plain"] * N / SOME / seconds["ours"]
    report.row("vectorized numpy, image by image / ours", float(np.median(ratio)), ".1f")
    report.row("largest difference between the two", float(error), ".1e", most=0.05)


def generated() -> np.ndarray:
    """Return N images of 28 x 28 smooth bytes."""
    noise = np.random.default_rng(0).standard_normal((N, 31, 31))
    smooth = sum(noise[:, i : i + 28, j : j + 28] for i in range(4) for j in range(4))
    return np.clip(128 + 30 * smooth, 0, 255).astype(np.uint8)


def plain(features: ConvolutionalFeatures, images: np.ndarray) -> np.ndarray:
    """Return the same features in float32 as one writes them in numpy: windows, model, sums over quadrants."""
    found = []
    U, mu = features.model_.components_.astype(np.float32), features.model_.parameters_[0].astype(np.float32)
    phi = features.model_.log_contributions(np.eye(1, SIZE**2, dtype=np.float32))
    z = np.eye(1, SIZE**2, dtype=np.float32) @ U.T
    offset = phi - np.log(features.model_.weights_) - z / np.linalg.norm(z) @ mu.T
    offset = (offset - features.threshold_).astype(np.float32)
    for image in images.astype(np.float32):
        windows = np.lib.stride_tricks.sliding_window_view(image, (SIZE, SIZE)).reshape(-1, SIZE**2)
        x = windows - windows.mean(axis=1, keepdims=True)
        z = x @ U.T
        length = np.linalg.norm(z, axis=1, keepdims=True)
        eta = np.maximum(z / np.where(length > 0, length, 1) @ mu.T + offset, 0)
        eta = np.where(np.ptp(windows, axis=1)[:, None] > 0, eta, 0).reshape(23, 23, K)
        parts = [
            eta[a, b].sum(axis=(0, 1)) for a in (slice(0, 12), slice(12, 23)) for b in (slice(0, 12), slice(12, 23))
        ]
        found.append(np.sqrt(np.concatenate(parts)))
    return np.array(found)
