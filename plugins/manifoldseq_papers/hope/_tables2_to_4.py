"""The supervised tables and figures of the paper on MNIST: Table 2, Figures 4 and 5, Tables 3 and 4."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import manifoldseq as ms
from manifoldseq.estimators import uninterrupted
from manifoldseq.reproduction import Rows, check_choice, check_whole, figure_file, folder_of, names, row, whole_numbers
from manifoldseq_hope import HOPENetworkClassifier, correlations

from ._digits import SIDE, Array, Digits, read_mnist

OF_HOPE = ("polar", "qr", "penalty")
"""Methods that keep the rows of a HOPE layer orthonormal, exactly or approximately."""
KINDS = ("baseline", "hope", "linear")
CORRELATED = ("hope", "penalty", "linear")
COLUMNS = ("without", "with")

TABLE2 = {
    "baseline": {1000: 1.49, 2000: 1.35, 5000: 1.28, 10000: 1.30, 50000: 1.32},
    ("hope", 100): {1000: 1.18, 2000: 1.20, 5000: 1.17, 10000: 1.18, 50000: 1.19},
    ("hope", 200): {1000: 1.21, 2000: 1.20, 5000: 1.17, 10000: 1.19, 50000: 1.18},
    ("hope", 400): {1000: 1.19, 2000: 1.23, 5000: 1.25, 10000: 1.25, 50000: 1.25},
    ("linear", 100): {1000: 1.45, 2000: 1.49, 5000: 1.43, 10000: 1.45, 50000: 1.48},
    ("linear", 200): {1000: 1.52, 2000: 1.50, 5000: 1.54, 10000: 1.55, 50000: 1.54},
    ("linear", 400): {1000: 1.53, 2000: 1.52, 5000: 1.49, 10000: 1.52, 50000: 1.49},
}
TABLE3 = {
    "baseline": {1000: 1.05, 2000: 1.01, 5000: 1.01},
    ("hope", 200): {1000: 0.99, 2000: 0.85, 5000: 0.89},
    ("hope", 400): {1000: 0.86, 2000: 0.86, 5000: 0.85},
}
TABLE4 = {
    "DNN 784-1200-1200-10": ("baseline", (1200, 1200), (1.25, 0.92)),
    "HOPE + NN 784-[400-1200]-1200-10": ("hope", ((400, 1200), 1200), (0.99, 0.82)),
    "HOPE*2 784-[400-1200]-[400-1200]-10": ("hope", ((400, 1200), (400, 1200)), (0.97, 0.81)),
}
DROPOUT = (0.2, 0.3)
"""Dropout probabilities of the inputs and of hidden units (6.1.2)."""


@dataclass(frozen=True)
class Choice:
    """Settings that the paper does not state, chosen on validation images: the initial rate, and the scale of inputs.

    Inputs are pixels in [0, 1] minus the mean training image, times the scale.
    """

    rate: float
    scale: float

    def slower(self) -> "Choice":
        """Return the choice with half the rate."""
        return Choice(self.rate / 2, self.scale)


GRIDS = {
    "without": (
        Choice(0.2, 1.0),
        Choice(0.4, 1.0),
        Choice(0.1, 2.0),
        Choice(0.15, 2.0),
        Choice(0.2, 2.0),
        Choice(0.3, 2.0),
    ),
    "with": (Choice(0.1, 1.0), Choice(0.3, 1.0), Choice(0.6, 1.0), Choice(0.1, 2.0), Choice(0.3, 2.0)),
}
"""Candidates for the validation, without and with dropout, the same for every kind of network."""

CHOSEN = {
    "without": {"baseline": Choice(0.3, 2.0), "hope": Choice(0.3, 2.0), "linear": Choice(0.2, 2.0)},
    "with": {"baseline": Choice(0.3, 1.0), "hope": Choice(0.3, 1.0)},
}
"""Choices: without dropout for K = 1000 and M = 100, with dropout for Table 4 (docs/benchmarks/networks.md)."""

_MOMENTUM = (0.5, 0.9)
"""Initial and final momentum (43); the final value holds after a quarter of the epochs."""
_LAST = 0.03
"""The final rate, relative to the initial rate."""
_SEARCH_ROWS, _VALIDATION = 20_000, 10_000
_SEARCH_EPOCHS = {"without": 12, "with": 30}


def table2(
    data: Path | str | None = None,
    *,
    K: int | Sequence[int] = 1000,
    M: int | Sequence[int] = 100,
    seeds: int = 3,
    epochs: int = 50,
    models: Sequence[str] = KINDS,
    orthogonality: str = "polar",
    search: bool = False,
    folder: Path | str = "runs/hope-table2",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return test errors (%) of shallow networks: HOPE ``[M-K]``, linear bottleneck ``(M-K)``, and plain ``K``.

    Parameters
    ----------
    data : path-like
        Folder with the four files of MNIST.
    K, M : int or sequence of int
        Numbers of units and of projections.
    seeds : int
        Number of networks of each kind. Results are means with standard errors over the networks.
    epochs : int
        Number of epochs.
    models : sequence of {"baseline", "hope", "linear"}
        Plain networks, networks with HOPE layers, and networks with a linear bottleneck.
    orthogonality : {"polar", "qr", "penalty"}
        The constraint of HOPE layers, see `HOPENetworkClassifier`.
    search : bool
        Repeat the choice of rate and scale for each kind on 10 000 held-out training images. By default the recorded
        choices are used.
    folder : path-like
        Folder for networks during training.
    resume : bool
        Continue from the networks in the folder.
    device : str
        The torch device of the training.

    Returns
    -------
    list of dict
    """
    models, place = names("models", models, KINDS), folder_of(folder)
    _check(seeds, epochs, orthogonality, search)
    nets = _shallow(models, whole_numbers("K", K), whole_numbers("M", M), TABLE2)
    digits = read_mnist(data)
    rows: Rows = []
    for kind, layers, setting, paper in nets:
        job = Job(kind, layers, setting, epochs, orthogonality=orthogonality, device=device)
        rows += _measured(job, digits, seeds, paper, search, place, resume)
    return rows


def figures4_5(
    data: Path | str | None = None,
    *,
    M: int = 400,
    K: int = 1000,
    epochs: int = 50,
    models: Sequence[str] = CORRELATED,
    seed: int = 0,
    figure: Path | str | None = None,
    folder: Path | str = "runs/hope-fig4-5",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return the correlations of the rows of projections: sums of ``|cos|`` over ``i != j``, and the largest.

    Parameters
    ----------
    data, M, K, epochs, folder, resume, device
        As in `table2`.
    models : sequence of {"hope", "penalty", "linear"}
        Networks with orthonormal rows, with the penalty of the paper, and without a constraint.
    seed : int
        Seed of all random choices.
    figure : path-like, optional
        File for the learning curves (Figure 4) and the images (Figure 5). The suffix selects the format.

    Returns
    -------
    list of dict
        The paper shows curves and images and no numbers, so that there is nothing to compare with.
    """
    models, place, file = names("models", models, CORRELATED), folder_of(folder), figure_file(figure)
    check_whole("epochs", epochs)
    check_whole("seed", seed, 0)
    _check_width(M)
    digits = read_mnist(data)
    rows: Rows = []
    curves: dict[str, NDArray[Any]] = {}
    images: dict[str, NDArray[Any]] = {}
    for model in models:
        kind = "linear" if model == "linear" else "hope"
        mode = "penalty" if model == "penalty" else "polar"
        job = Job(kind, ((M, K),), f"{model} 784-[{M}-{K}]-10", epochs, orthogonality=mode, device=device)
        network, _, _ = _kept(job, job.chosen, digits, seed, place, resume)
        curves[model] = network.history_["correlations_0"]
        U = network.layers_[0].U
        assert U is not None
        images[model] = correlations(U)
        off = images[model] - np.diag(np.diagonal(images[model]))
        setting = f"M={M}, K={K}"
        for metric, value in (
            ("sum of correlations, start", curves[model][0]),
            (f"sum of correlations, {network.n_iter_} epochs", off.sum()),
            ("largest correlation", off.max()),
        ):
            rows.append(row(model, setting, metric, "", [float(value)], None))
    if file is not None:
        from ._correlation_figures import draw_correlations

        draw_correlations(curves, images, file)
    return rows


def table3(
    data: Path | str | None = None,
    *,
    K: int | Sequence[int] = 1000,
    M: int | Sequence[int] = (200, 400),
    seeds: int = 1,
    epochs: int = 100,
    models: Sequence[str] = KINDS[:2],
    orthogonality: str = "polar",
    search: bool = False,
    folder: Path | str = "runs/hope-table3",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return test errors (%) of shallow networks trained with dropout; the paper trains for 500 epochs.

    Parameters
    ----------
    data, K, M, seeds, epochs, orthogonality, search, folder, resume, device
        As in `table2`.
    models : sequence of {"baseline", "hope"}
        Plain networks, and networks with HOPE layers.
    """
    models, place = names("models", models, KINDS[:2]), folder_of(folder)
    _check(seeds, epochs, orthogonality, search)
    nets = _shallow(models, whole_numbers("K", K), whole_numbers("M", M), TABLE3)
    digits = read_mnist(data)
    rows: Rows = []
    for kind, layers, setting, paper in nets:
        job = Job(kind, layers, f"{setting}, dropout", epochs, DROPOUT, orthogonality, device)
        rows += _measured(job, digits, seeds, paper, search, place, resume)
    return rows


def table4(
    data: Path | str | None = None,
    *,
    seeds: int = 1,
    epochs: int = 50,
    dropout_epochs: int = 100,
    columns: Sequence[str] = COLUMNS,
    models: Sequence[str] = KINDS[:2],
    n_train: int | None = None,
    orthogonality: str = "polar",
    search: bool = False,
    folder: Path | str = "runs/hope-table4",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return test errors (%) of networks of two hidden layers (Figure 3), without and with dropout.

    Parameters
    ----------
    data, seeds, epochs, orthogonality, search, folder, resume, device
        As in `table2`.
    dropout_epochs : int
        Number of epochs with dropout; the paper uses 500.
    columns : sequence of {"without", "with"}
        Columns of the table: networks trained without and with dropout.
    models : sequence of {"baseline", "hope"}
        Plain networks, and networks with HOPE layers.
    n_train : int, optional
        Train on the first `n_train` images only; by default on all 60 000.
    """
    models, columns, place = names("models", models, KINDS[:2]), names("columns", columns, COLUMNS), folder_of(folder)
    _check(seeds, epochs, orthogonality, search)
    check_whole("dropout_epochs", dropout_epochs)
    if n_train is not None:
        check_whole("n_train", n_train)
    digits, few = read_mnist(data), "" if n_train is None else f", {n_train} images"
    digits = replace(digits, train=digits.train[:n_train], train_labels=digits.train_labels[:n_train])
    rows: Rows = []
    for number, column in enumerate(COLUMNS):
        for name, (kind, layers, figures) in TABLE4.items():
            if column in columns and kind in models:
                dropout, length = (DROPOUT, dropout_epochs) if number else ((0.0, 0.0), epochs)
                job = Job(kind, layers, f"{name}, {column} dropout{few}", length, dropout, orthogonality, device)
                rows += _measured(job, digits, seeds, figures[number], search, place / few.strip(", "), resume)
    return rows


@dataclass(frozen=True)
class Job:
    """A network to train: its kind, its layers, and for how many epochs."""

    kind: str
    layers: tuple[Any, ...]
    setting: str
    epochs: int
    dropout: tuple[float, float] = (0.0, 0.0)
    orthogonality: str = "polar"
    device: str = "cpu"

    @property
    def column(self) -> str:
        """The column of Table 4: ``"without"`` or ``"with"`` dropout."""
        return "with" if any(self.dropout) else "without"

    @property
    def chosen(self) -> Choice:
        """The choice of the validation images for networks of this kind."""
        return CHOSEN[self.column][self.kind]

    def network(self, choice: Choice, seed: int) -> HOPENetworkClassifier:
        mode = None if self.kind != "hope" else self.orthogonality
        return HOPENetworkClassifier(
            self.layers,
            orthogonality=mode,
            init="uniform",
            learning_rate=choice.rate,
            decay=_LAST ** (1 / self.epochs),
            momentum=_MOMENTUM,
            momentum_epochs=max(1, self.epochs // 4),
            max_iter=self.epochs,
            dropout=self.dropout,
            random_state=seed,
            device=self.device,
        )


def _measured(
    job: Job, digits: Digits, seeds: int, paper: float | None, search: bool, folder: Path, resume: bool
) -> Rows:
    """Return the test error of a network, preceded by the validation errors that selected its settings."""
    rows: Rows = []
    choice = job.chosen
    if search:
        choice, rows = _searched(job, digits, folder, resume)
    errors, rates = [], set()
    for seed in range(seeds):
        _, error, rate = _kept(job, choice, digits, seed, folder, resume)
        errors.append(error)
        rates.add(rate)
    lower = "" if rates == {choice.rate} else f", rates {', '.join(f'{rate:g}' for rate in sorted(rates))}"
    return [*rows, row(job.kind, job.setting + lower, "test error", "%", errors, paper)]


def _searched(job: Job, digits: Digits, folder: Path, resume: bool) -> tuple[Choice, Rows]:
    """Return the choice with the smallest error on validation images, and the errors of all choices."""
    order = np.random.default_rng(0).permutation(len(digits.train))
    train, held = order[_VALIDATION:][:_SEARCH_ROWS], order[:_VALIDATION]
    part = Digits(digits.train[train], digits.train_labels[train], digits.train[held], digits.train_labels[held])
    short, grid = replace(job, epochs=_SEARCH_EPOCHS[job.column]), GRIDS[job.column]
    errors = [_trained(short, choice, part, 0, folder / "search", resume)[1] for choice in grid]
    rows = [
        row(job.kind, f"{job.setting}, rate {c.rate:g}, scale {c.scale:g}", "validation error", "%", [e], None)
        for c, e in zip(grid, errors, strict=True)
    ]
    return grid[int(np.argmin(errors))], rows


def _kept(
    job: Job, choice: Choice, digits: Digits, seed: int, folder: Path, resume: bool
) -> tuple[HOPENetworkClassifier, float, float]:
    """Return the trained network, its test error and its rate, which is halved until the loss stays finite."""
    while True:
        network, error = _trained(job, choice, digits, seed, folder, resume)
        if network.status_ is not ms.Status.NON_FINITE:
            return network, error, choice.rate
        choice = choice.slower()


def _trained(
    job: Job, choice: Choice, digits: Digits, seed: int, folder: Path, resume: bool
) -> tuple[HOPENetworkClassifier, float]:
    """Return the trained network and its error (%) on the test images."""
    mean = digits.train.mean(axis=0, dtype=np.float64).astype(np.float32)
    X, T = (np.float32(choice.scale / 255) * (part - mean) for part in (digits.train, digits.test))
    name = f"{job.kind}-{job.orthogonality}" if job.kind == "hope" else job.kind
    sizes = "-".join(str(n).replace(", ", "x").strip("()") for n in job.layers)
    length = f"epochs {job.epochs}{' dropout' if any(job.dropout) else ''}"
    store = folder / f"{name} {sizes} rate {choice.rate:g} scale {choice.scale:g} {length} seed {seed}"
    network = fitted(job, choice, X, digits.train_labels, seed, store, resume)
    return network, 100 * float(np.mean(network.predict(T) != digits.test_labels))


def fitted(
    job: Job, choice: Choice, X: Array, y: NDArray[np.int64], seed: int, store: Path, resume: bool
) -> HOPENetworkClassifier:
    """Return a network trained with one choice and saved in a folder; its status tells whether the loss was finite."""
    bar = tqdm(total=job.epochs, desc=f"{job.setting}, seed {seed}", unit="epoch", disable=None)
    with bar, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the loss of epoch", UserWarning)  # the error is then that of a lost network
        network = job.network(choice, seed).fit(
            X,
            y,
            observers=[lambda event: bar.update(event.nit - bar.n)],
            checkpoint=store,
            resume=resume,
        )
    return uninterrupted(network)


def _shallow(
    models: tuple[str, ...], Ks: tuple[int, ...], Ms: tuple[int, ...], figures: dict[Any, dict[int, float]]
) -> list[tuple[str, tuple[Any, ...], str, float | None]]:
    """Validate sizes; return kind, layers, setting and the result of the paper of networks with one hidden layer."""
    nets: list[tuple[str, tuple[Any, ...], str, float | None]] = [
        ("baseline", (k,), f"784-{k}-10", figures["baseline"].get(k)) for k in Ks
    ]
    for m, k in product(Ms, Ks):
        for kind, setting in (("hope", f"784-[{m}-{k}]-10"), ("linear", f"784-({m}-{k})-10")):
            nets.append((kind, ((m, k),), setting, figures.get((kind, m), {}).get(k)))
    nets = [net for net in nets if net[0] in models]
    for _, layers, *_ in nets:
        _check_width(layers[0][0] if isinstance(layers[0], tuple) else 0)
    return nets


def _check_width(M: int) -> None:
    if M > SIDE**2:
        raise ValueError(f"layers[0]: M={M} exceeds the {SIDE**2} inputs of the layer: lower M")


def _check(seeds: int, epochs: int, orthogonality: str, search: bool) -> None:
    check_whole("seeds", seeds)
    check_whole("epochs", epochs)
    check_choice("orthogonality", orthogonality, OF_HOPE)
    check_choice("search", search, (True, False))
