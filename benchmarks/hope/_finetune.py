"""Convolutional features trained further with labels, through projection, units and cells; is it worth it?

Validation error of a linear support vector machine on the features, before and after.
"""

import importlib.util
import time

import numpy as np

from manifoldseq_hope import ConvolutionalFeatures, PCAMovMF

from .._report import Report
from ._data import mnist_images, mnist_labels

HELD, TRAIN, UNITS, EPOCHS, BATCH = 10_000, 5_000, 100, 5, 50
C, RATES = 0.006, {"U": 1e-3, "units": 2e-2}


def run(report: Report) -> None:
    """Measure."""
    images, labels = mnist_images(), mnist_labels()
    if importlib.util.find_spec("torch") is None or images is None or labels is None:
        report.note("skipped: torch is not installed, or MNIST is not there")
        report.skipped.append("finetune")
        return
    order = np.random.default_rng(0).permutation(len(images))
    held, train = order[:HELD], order[HELD:][:TRAIN]
    report.title(f"{UNITS} units, {TRAIN} training images, {HELD} others looked at, {EPOCHS} epochs, seed 0")
    parts = [(images[part].astype(np.float32) / 255, labels[part].astype(np.int64)) for part in (train, held)]
    for pooling, overlap in ((2, False), (4, True)):
        cells = f"{pooling} x {pooling} {'overlapping' if overlap else 'disjoint'} cells"
        start = time.process_time()
        before, after, loss = tuned(*parts[0], *parts[1], pooling, overlap)
        report.row(f"error in percent, {cells}, learned without labels", before, ".2f")
        report.row(f"error in percent, {cells}, trained with labels", after, ".2f")
        report.note(f"{time.process_time() - start:.0f} CPU seconds; loss of the first and last epoch {loss}")


def tuned(X, y, T, z, pooling: int, overlap: bool) -> tuple[float, float, str]:
    """Return the errors before and after, in percent, and the losses.

    The head starts from the machine on the first features; both are trained by its loss, squared hinges, on images
    shifted by up to one pixel; then a machine is fitted to the new features of the images as they are.
    """
    import torch

    from manifoldseq.torch import RiemannianAdam
    from manifoldseq_hope import HOPEConvolution

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = PCAMovMF(UNITS, n_latent=20, kappa=40.0, solver="online-em", max_iter=10, tol=0.0)
    features = ConvolutionalFeatures(
        model, patch_size=6, pooling=pooling, overlap=overlap, n_patches=100_000, random_state=0
    ).fit(X)
    layer = HOPEConvolution(features)
    before, weight, mean, deviation = machine(features.transform(X), y, features.transform(T), z)
    head = torch.nn.Linear(weight.shape[1] - 1, 10)
    with torch.no_grad():  # the machine is linear in the standardized features
        head.weight.copy_(torch.tensor(weight[:, :-1]))
        head.bias.copy_(torch.tensor(weight[:, -1]))
    mean, factor = torch.tensor(mean), torch.tensor(1 / deviation)
    optimizer = RiemannianAdam(
        [
            {"params": [layer.U], "lr": RATES["U"]},
            {"params": [layer.weight, layer.bias], "lr": RATES["units"]},
            {"params": head.parameters(), "lr": 1e-4},
        ],
        lr=1e-3,
    )
    images, labels, losses = torch.tensor(X), torch.tensor(y), []
    for _ in range(EPOCHS):
        total = 0.0
        for some in torch.randperm(len(X)).split(BATCH):
            down, right = torch.randint(-1, 2, (2,)).tolist()
            shifted = torch.roll(images[some], (down, right), (1, 2))  # the margin of these images is empty
            scores = head((layer(shifted) - mean) * factor)
            sign = 2.0 * torch.nn.functional.one_hot(labels[some], 10) - 1
            loss = torch.relu(1 - sign * scores).square().sum() / len(some)
            loss = loss + head.weight.square().sum() / (2 * C * len(X))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(some)
        losses.append(total / len(X))
    with torch.no_grad():
        A, B = (np.concatenate([layer(some).numpy() for some in torch.tensor(part).split(200)]) for part in (X, T))
    torch.set_num_threads(threads)
    return before, machine(A, y, B, z)[0], f"{losses[0]:.3f}, {losses[-1]:.3f}"


def machine(A, y, B, z):
    """Return the error of a linear machine on standardized features in percent, its weights, means and deviations."""
    from manifoldseq_papers.hope._linear_svm import machines

    mean, deviation = A.mean(axis=0), A.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1).astype(A.dtype)
    found = machines((A - mean) / deviation, y, C)
    wrong = found.scores((B - mean) / deviation).argmax(axis=1) != z
    return 100 * float(wrong.mean()), found.weight.astype(np.float32), mean, deviation
