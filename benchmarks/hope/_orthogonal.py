"""Orthonormal layers in torch: time per step, orthonormality, accuracy, compared with torch's maps and geoopt."""

import functools
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from .._report import Report, interleaved

SHAPES = {"100 x 784": (100, 784), "kernels 64 x 64 x 3 x 3": (64, 64, 3, 3)}
MAPS = ("householder", "matrix_exp", "cayley")
SEEDS, EPOCHS, BATCH = 5, 15, 50


def run(report: Report) -> None:
    """Measure."""
    if importlib.util.find_spec("torch") is None:
        report.note("skipped: torch is not installed")
        report.skipped.append("orthogonal")
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name, shape in SHAPES.items():
        _steps(report, name, shape)
    _accuracy(report)
    torch.set_num_threads(threads)


def _steps(report: Report, name: str, shape: tuple[int, ...]) -> None:
    """Measure steps with gradients of a loss, momentum 0.9, from the same start."""
    import torch

    from manifoldseq.torch import OrthonormalParameter, RiemannianAdam, RiemannianSGD, orthonormality

    report.title(f"a step of an orthonormal parameter, {name}, float32, torch {torch.__version__}, one thread, lr 0.1")
    torch.manual_seed(0)
    start = OrthonormalParameter(torch.randn(shape)).detach()
    G = torch.randn(shape) / start.numel() ** 0.5
    made: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def ours(kind: Any, **options: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        W = OrthonormalParameter(start.clone())
        optimizer = kind([W], lr=0.1, **options)

        def step() -> None:
            optimizer.zero_grad()
            (W * G).sum().backward()
            optimizer.step()

        return step, lambda: W

    def of_torch(kind: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        rows, columns = shape[0], start[0].numel()
        linear = torch.nn.Linear(columns, rows, bias=False)
        linear.weight.data.copy_(start.reshape(rows, columns))
        torch.nn.utils.parametrizations.orthogonal(linear, orthogonal_map=kind)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.1, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            (linear.weight.reshape(shape) * G).sum().backward()
            optimizer.step()

        return step, lambda: linear.weight

    made["RiemannianSGD"] = ours(RiemannianSGD, momentum=0.9)
    made["RiemannianAdam"] = ours(RiemannianAdam)
    made |= {f"torch, {kind}": of_torch(kind) for kind in MAPS}
    if importlib.util.find_spec("geoopt") is not None:
        import geoopt  # pyright: ignore[reportMissingImports]

        tall = start.reshape(shape[0], -1).T.contiguous()
        V = geoopt.ManifoldParameter(tall.clone(), manifold=geoopt.EuclideanStiefel())
        optimizer = geoopt.optim.RiemannianSGD([V], lr=0.1, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            (V.T.reshape(shape) * G).sum().backward()
            optimizer.step()

        made["geoopt, EuclideanStiefel"] = step, lambda: V
    else:
        report.note("geoopt is not installed: not measured")
    seconds = interleaved({key: pair[0] for key, pair in made.items()}, repeat=9)
    medians = {key: float(np.median(values)) for key, values in seconds.items()}
    for key, (_, weight) in made.items():
        report.row(f"{key}: milliseconds", 1e3 * medians[key], ".2f")
        report.row(f"{key}: largest entry of |W W' - I|", orthonormality(weight()), ".1e")
    own = medians["RiemannianSGD"]
    fastest = min(value for key, value in medians.items() if key.startswith("torch"))
    report.row("fastest of torch's maps, times RiemannianSGD", fastest / own, ".1f", least=40)
    if "geoopt, EuclideanStiefel" in medians:
        report.row("geoopt, times RiemannianSGD", medians["geoopt, EuclideanStiefel"] / own, ".2f", least=1.5)


def _accuracy(report: Report) -> None:
    """Measure a small network on digits: an orthonormal convolution and an orthonormal layer, test error in percent."""
    import torch

    from manifoldseq.torch import RiemannianAdam, RiemannianSGD, orthonormality, orthonormalize

    report.title(
        f"digits: convolution 16 x 1 x 3 x 3, layer 64 x 576, head; {EPOCHS} epochs, {SEEDS} seeds, half to train"
    )
    data = load_digits()
    images = torch.tensor(data.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(data.target)

    def network(wrap: Callable[[Any], Any]) -> Any:
        nn = torch.nn
        first, second = wrap(nn.Conv2d(1, 16, 3)), wrap(nn.Linear(576, 64))
        return nn.Sequential(first, nn.ReLU(), nn.Flatten(), second, nn.ReLU(), nn.Linear(64, 10))

    by_map = functools.partial(torch.nn.utils.parametrizations.orthogonal, orthogonal_map="cayley")  # its fastest
    kinds: dict[str, tuple[Any, Any]] = {
        "RiemannianSGD": (orthonormalize, lambda p: RiemannianSGD(p, lr=0.1, momentum=0.9)),
        "RiemannianAdam": (orthonormalize, lambda p: RiemannianAdam(p, lr=0.003)),
        "torch, Cayley, SGD": (by_map, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
        "no constraint, SGD": (lambda layer: layer, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    }
    for name, (wrap, make) in kinds.items():
        errors, gap, start = [], 0.0, time.process_time()
        for seed in range(SEEDS):
            train, test = train_test_split(np.arange(len(labels)), test_size=0.5, random_state=seed)
            torch.manual_seed(seed)
            net = network(wrap)
            optimizer = make(net.parameters())
            for _ in range(EPOCHS):
                for some in torch.tensor(train)[torch.randperm(len(train))].split(BATCH):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(net(images[some]), labels[some]).backward()
                    optimizer.step()
            with torch.no_grad():
                errors.append(100 * float((net(images[test]).argmax(1) != labels[test]).float().mean()))
            gap = max(gap, orthonormality(net[0].weight), orthonormality(net[3].weight))
        seconds = (time.process_time() - start) / SEEDS
        spread = np.std(errors, ddof=1) / SEEDS**0.5
        report.row(f"{name}: test error in percent, standard error {spread:.2f}", float(np.mean(errors)), ".2f")
        report.note(f"{seconds:.1f} CPU seconds, largest entry of |W W' - I| {gap:.0e}")
