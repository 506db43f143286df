"""The supervised reproductions on a few generated images: their rows, their resuming and bad settings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq.torch import RiemannianSGD
from manifoldseq_hope import HOPENetworkClassifier
from manifoldseq_hope.features._mnist import Digits, read_mnist
from manifoldseq_hope.networks._initial_weights import begin, checked_sizes
from manifoldseq_papers.hope import _tables2_to_4 as tables


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Digits:
    """Put scikit-learn's digits, enlarged to 28 x 28, in the place of MNIST, and keep the search short."""
    X, y = load_digits(return_X_y=True)
    wide = np.kron(X.reshape(-1, 8, 8), np.ones((3, 3)))
    images = (np.pad(wide, ((0, 0), (2, 2), (2, 2))) * 15.9).astype(np.uint8).reshape(len(X), -1)
    digits = Digits(images[:1200], y[:1200].astype(np.int64), images[1200:], y[1200:].astype(np.int64))
    monkeypatch.setattr(tables, "read_mnist", lambda data: digits)
    monkeypatch.setattr(tables, "_SEARCH_EPOCHS", {"without": 1, "with": 1})
    monkeypatch.setattr(tables, "_VALIDATION", 300)
    return digits


def inputs(digits: Digits, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test images in [0, 1] less the mean training image, times the scale."""
    mean = digits.train.mean(axis=0)
    return tuple(((part - mean) / 255 * scale).astype(np.float32) for part in (digits.train, digits.test))


def error_by_torch(digits: Digits, layers: tuple[Any, ...], choice: Any, epochs: int, dropout: Any = None) -> float:
    """Return the test error (%) of a network written out in torch, of the first seed."""
    X, T = map(torch.tensor, inputs(digits, choice.scale))
    labels, rng = torch.tensor(digits.train_labels), np.random.default_rng(0)
    hope = any(isinstance(one, tuple) for one in layers)
    below, head = begin(X.numpy(), checked_sizes(layers, 784), 10, "uniform", hope, 0.5, rng)
    seed, parts, weights, biases, projections = int(rng.integers(2**63)), [], [], [], []
    parts += [torch.nn.Dropout(dropout[0])] if dropout else []
    for layer in (*below, head):
        assert layer is not None
        if layer.U is not None:
            parts.append(torch.nn.Linear(784 if layer is below[0] else layer.n_inputs, len(layer.U), bias=False))
            parts[-1].weight = torch.nn.Parameter(torch.tensor(layer.U))
            projections.append(parts[-1].weight)
        parts.append(torch.nn.Linear(layer.weight.shape[1], len(layer.bias)))
        parts[-1].weight = torch.nn.Parameter(torch.tensor(layer.weight))
        parts[-1].bias = torch.nn.Parameter(torch.tensor(layer.bias))
        weights.append(parts[-1].weight)
        biases.append(parts[-1].bias)
        if layer is not head:
            parts.append(torch.nn.ReLU())
            parts += [torch.nn.Dropout(dropout[1])] if dropout else []
    network = torch.nn.Sequential(*parts)
    groups = [{"params": weights, "weight_decay": 1e-5}, {"params": biases}]
    optimizers: list[Any] = [
        torch.optim.SGD(groups),
        *([RiemannianSGD([{"params": projections, "orthonormal": True}])] if projections else []),
    ]
    with torch.random.fork_rng(devices=[]):
        for epoch in range(epochs):
            share = min(1, epoch / max(1, epochs // 4))
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group |= {"lr": choice.rate * 0.03 ** (epoch / epochs), "momentum": 0.5 + 0.4 * share}
            torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))
            for rows in torch.randperm(len(X)).split(100):
                network.zero_grad()
                torch.nn.functional.cross_entropy(network(X[rows]), labels[rows]).backward()
                for optimizer in optimizers:
                    optimizer.step()
    network.eval()
    return 100 * float(np.mean(network(T).argmax(1).numpy() != digits.test_labels))


def test_table2_measures_what_a_network_does(small: Digits, tmp_path: Path) -> None:
    rows = tables.table2("there", K=40, M=10, seeds=2, epochs=3, folder=tmp_path)
    assert [row["model"] for row in rows] == ["baseline", "hope", "linear"]
    assert [row["setting"] for row in rows] == ["784-40-10", "784-[10-40]-10", "784-(10-40)-10"]
    choice = tables.CHOSEN["without"]["hope"]
    mean = small.train.mean(axis=0)
    X, T = ((part - mean) / 255 * choice.scale for part in (small.train, small.test))
    errors = []
    for seed in range(2):
        settings = {
            "learning_rate": choice.rate,
            "decay": 0.03 ** (1 / 3),
            "momentum": (0.5, 0.9),
            "momentum_epochs": 1,
        }
        model = ms.get_estimator("hope-network")(
            [(10, 40)], init="uniform", max_iter=3, random_state=seed, **settings
        ).fit(X.astype(np.float32), small.train_labels)
        errors.append(100 * np.mean(model.predict(T.astype(np.float32)) != small.test_labels))
    assert rows[1]["ours"] == pytest.approx(np.mean(errors), abs=0.2)
    assert rows[1]["ours_se"] == pytest.approx(abs(errors[0] - errors[1]) / 2, abs=0.2)


@pytest.mark.parametrize(
    ("kind", "layers", "orthogonality"),
    [("baseline", [40], None), ("hope", [(10, 40)], "polar"), ("linear", [(10, 40)], None)],
)
def test_only_hope_is_kept_orthogonal(
    kind: str, layers: list[Any], orthogonality: str | None, small: Digits, tmp_path: Path
) -> None:
    (row,) = tables.table2("there", K=40, M=10, seeds=1, epochs=3, models=[kind], folder=tmp_path)
    choice = tables.CHOSEN["without"][kind]
    settings: dict[str, Any] = {"decay": 0.03 ** (1 / 3), "momentum": (0.5, 0.9), "momentum_epochs": 1}
    model = HOPENetworkClassifier(
        layers, orthogonality=orthogonality, init="uniform", learning_rate=choice.rate, max_iter=3, random_state=0,
        **settings,
    )  # fmt: skip
    X, T = inputs(small, choice.scale)
    model.fit(X, small.train_labels)
    assert row["ours"] == pytest.approx(100 * np.mean(model.predict(T) != small.test_labels), abs=0.2)


def test_table2_has_the_paper_s_figures(tmp_path: Path) -> None:
    rows = tables.table2("there", K=1000, M=100, seeds=1, epochs=1, models=["hope"], folder=tmp_path)
    assert (rows[0]["paper"], rows[0]["ours_se"], rows[0]["unit"]) == (1.18, None, "%")


@pytest.mark.parametrize(
    ("name", "Ms", "figures"),
    [
        (
            "table2",
            (100, 200, 400),
            [
                [1.49, 1.35, 1.28, 1.30, 1.32],
                *([1.18, 1.20, 1.17, 1.18, 1.19], [1.45, 1.49, 1.43, 1.45, 1.48]),
                *([1.21, 1.20, 1.17, 1.19, 1.18], [1.52, 1.50, 1.54, 1.55, 1.54]),
                *([1.19, 1.23, 1.25, 1.25, 1.25], [1.53, 1.52, 1.49, 1.52, 1.49]),
            ],
        ),
        ("table3", (200, 400), [[1.05, 1.01, 1.01], [0.99, 0.85, 0.89], [0.86, 0.86, 0.85]]),
    ],
)
def test_every_network_has_the_paper_s_figure(
    name: str, Ms: tuple[int, ...], figures: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[Any, Any] = {}
    monkeypatch.setattr(
        tables, "_measured", lambda job, digits, seeds, paper, *_: asked.update({(job.kind, job.layers): paper}) or []
    )
    Ks = (1000, 2000, 5000, 10000, 50000)[: len(figures[0])]
    getattr(tables, name)("there", K=Ks, M=Ms)
    kinds = ("hope", "linear") if name == "table2" else ("hope",)
    nets = [[("baseline", (K,)) for K in Ks], *([(kind, ((M, K),)) for K in Ks] for M in Ms for kind in kinds)]
    pairs = zip(nets, figures, strict=True)
    assert asked == {net: paper for row, papers in pairs for net, paper in zip(row, papers, strict=True)}


def test_a_search_reports_every_validation_error_and_takes_the_least(tmp_path: Path) -> None:
    rows = tables.table2("there", K=20, M=5, seeds=1, epochs=1, models=["linear"], search=True, folder=tmp_path)
    found = [row["ours"] for row in rows if row["metric"] == "validation error"]
    assert len(found) == len(tables.GRIDS["without"]) and rows[-1]["metric"] == "test error"
    best = tables.GRIDS["without"][int(np.argmin(found))]
    assert len(list(tmp_path.glob(f"linear 5x20 rate {best.rate:g} scale {best.scale:g} epochs 1 seed 0"))) == 1


def test_a_search_with_dropout_has_a_grid_of_its_own(tmp_path: Path) -> None:
    rows = tables.table3("there", K=20, M=5, epochs=1, models=["hope"], search=True, folder=tmp_path)
    tried = {f"rate {choice.rate:g}, scale {choice.scale:g}" for choice in tables.GRIDS["with"]}
    assert {row["setting"].partition("dropout, ")[2] for row in rows[:-1]} == tried
    assert len(list((tmp_path / "search").glob("hope-polar 5x20 * dropout seed 0"))) == len(tried)


@pytest.mark.slow
def test_an_interrupted_table_resumes_to_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"K": 20, "M": 5, "seeds": 2, "epochs": 3, "models": ["hope", "linear"]}
    whole = tables.table2("there", folder=tmp_path / "whole", **settings)
    trained = tables._trained
    calls = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return trained(*arguments)

    monkeypatch.setattr(tables, "_trained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tables.table2("there", folder=tmp_path / "run", **settings)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.npz")}
    assert before
    assert tables.table2("there", folder=tmp_path / "run", resume=True, **settings) == whole


def test_a_network_that_is_lost_is_trained_again_at_half_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tables.CHOSEN["without"], "linear", tables.Choice(400.0, 2.0))
    (row,) = tables.table2("there", K=20, M=5, seeds=1, epochs=2, models=["linear"], folder=tmp_path)
    rate = float(row["setting"].rpartition("rates ")[2])
    assert np.log2(400 / rate) == int(np.log2(400 / rate)) > 0
    assert row["ours"] < 95 and len(list(tmp_path.glob("linear*"))) == 1 + np.log2(400 / rate)


@pytest.mark.slow
def test_figures_show_correlations_that_die(tmp_path: Path) -> None:
    rows = tables.figures4_5("there", M=10, K=30, epochs=2, folder=tmp_path, figure=str(tmp_path / "figure.png"))
    found = {(row["model"], row["metric"]): row["ours"] for row in rows}
    assert found["hope", "sum of correlations, 2 epochs"] < 1e-3 < found["linear", "sum of correlations, 2 epochs"]
    assert found["hope", "largest correlation"] < 2e-6
    assert found["penalty", "sum of correlations, start"] == found["linear", "sum of correlations, start"]
    assert found["penalty", "sum of correlations, 2 epochs"] < found["linear", "sum of correlations, 2 epochs"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_figures_show_what_loops_over_rows_give(small: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn and reported: the cosines of the rows of U at the end, and their sum over i != j by epoch."""
    drawn: list[Any] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    settings: dict[str, Any] = {"M": 6, "K": 20, "epochs": 2, "models": ["hope", "linear"]}
    rows = tables.figures4_5("there", folder=tmp_path, figure=str(tmp_path / "figure.png"), **settings)
    choice = tables.CHOSEN["without"]["linear"]
    model = HOPENetworkClassifier(
        [(6, 20)], orthogonality=None, init="uniform", learning_rate=choice.rate, decay=0.03**0.5,
        momentum=(0.5, 0.9), momentum_epochs=1, max_iter=2, random_state=0,
    )  # fmt: skip
    U = model.fit(inputs(small, choice.scale)[0], small.train_labels).layers_[0].U
    assert U is not None
    cosines = np.array([[abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) for b in U] for a in U])
    apart = cosines[~np.eye(6, dtype=bool)]
    found = {row["metric"]: row["ours"] for row in rows if row["model"] == "linear"}
    assert found["sum of correlations, 2 epochs"] == pytest.approx(apart.sum(), rel=1e-3)
    assert found["largest correlation"] == pytest.approx(apart.max(), rel=1e-3)
    curves, *images = drawn[0].axes[:3]
    (line,) = (line for line in curves.lines if line.get_label() == "linear")
    assert line.get_xdata().tolist() == [0, 1, 2]
    assert line.get_ydata()[[0, 2]] == pytest.approx([found["sum of correlations, start"], apart.sum()], rel=1e-3)
    assert [image.get_title() for image in images] == ["hope", "linear"]
    np.testing.assert_allclose(images[1].images[0].get_array(), cosines, atol=1e-4)
    np.testing.assert_allclose(images[0].images[0].get_array(), np.eye(6), atol=1e-5)
    assert [image.images[0].get_clim() for image in images] == [(0, 1), (0, 1)]


def test_tables_3_and_4_have_the_paper_s_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(job: Any, digits: Any, seeds: int, paper: float, *rest: Any) -> list[Any]:
        asked.append((job.layers, job.dropout != (0.0, 0.0), paper))
        return []

    monkeypatch.setattr(tables, "_measured", measured)
    tables.table3("there")
    assert asked == [((1000,), True, 1.05), (((200, 1000),), True, 0.99), (((400, 1000),), True, 0.86)]
    asked.clear()
    tables.table4("there")
    layers = [(1200, 1200), ((400, 1200), 1200), ((400, 1200), (400, 1200))]
    assert asked == [
        *zip(layers, [False] * 3, [1.25, 0.99, 0.97], strict=True),
        *zip(layers, [True] * 3, [0.92, 0.82, 0.81], strict=True),
    ]


@pytest.mark.slow
def test_tables_3_and_4_measure_networks_with_dropout_of_inputs_and_units(
    small: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of the inputs and three tenths of the units of every hidden layer (6.1.2), by torch alone."""
    chosen = tables.CHOSEN["with"]
    rows = tables.table3("there", K=25, M=8, epochs=4, folder=tmp_path)
    assert [row["setting"] for row in rows] == ["784-25-10, dropout", "784-[8-25]-10, dropout"]
    for row, layers in zip(rows, [(25,), ((8, 25),)], strict=True):
        expected = error_by_torch(small, layers, chosen[row["model"]], 4, (0.2, 0.3))
        assert row["ours"] == pytest.approx(expected, abs=0.35), row["setting"]
    nets = {"DNN": ("baseline", (25, 20), (1.25, 0.92)), "HOPE": ("hope", ((8, 25), (7, 20)), (0.97, 0.81))}
    monkeypatch.setattr(tables, "TABLE4", nets)
    rows = tables.table4("there", epochs=2, dropout_epochs=4, folder=tmp_path)
    assert [row["paper"] for row in rows] == [1.25, 0.97, 0.92, 0.81]
    for row, (kind, layers, _) in zip(rows, 2 * [*nets.values()], strict=True):
        without = row["setting"].endswith("without dropout")
        column, epochs, dropout = ("without", 2, None) if without else ("with", 4, (0.2, 0.3))
        expected = error_by_torch(small, layers, tables.CHOSEN[column][kind], epochs, dropout)
        assert row["ours"] == pytest.approx(expected, abs=0.35), row["setting"]


def test_two_hidden_layers_are_trained_with_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLE4", {"small": ("hope", ((8, 20), 15), (None, None))})
    rows = tables.table4("there", epochs=1, dropout_epochs=1, folder=tmp_path)
    assert [row["setting"] for row in rows] == ["small, without dropout", "small, with dropout"]
    assert rows[0]["ours"] != rows[1]["ours"]
    assert tables.table4("there", epochs=1, dropout_epochs=1, folder=tmp_path, resume=True) == rows


def test_the_reproductions_are_registered() -> None:
    for name, run in (("table2", "table2"), ("fig4-5", "figures4_5"), ("table3", "table3"), ("table4", "table4")):
        assert ms.hooks.get_reproduction(f"hope-{name}").run is getattr(tables, run)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"K": 0}, "K=0"),
        ({"M": 785}, "M=785 exceeds the 784 inputs"),
        ({"models": ["svm"]}, "'baseline', 'hope' or 'linear'"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"orthogonality": "none"}, "'polar', 'qr' or 'penalty'"),
    ],
)
def test_bad_settings_raise_an_error(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    options = {"K": 5, "models": ["hope"], "epochs": 1, "seeds": 1} | settings
    with pytest.raises(ValueError) as caught:
        tables.table2("there", folder=tmp_path, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@parametrize(
    ("name", "settings", "words"),
    [
        ("table2", {"M": 785}, "M=785 exceeds the 784 inputs"),
        ("table2", {"models": []}, "models=[] is empty"),
        ("table2", {"folder": 3}, "folder=3 is not valid"),
        ("table2", {"search": "maybe"}, "search='maybe' is not known"),
        ("table3", {"M": (200, 785)}, "M=785 exceeds the 784 inputs"),
        ("table3", {"models": "linear"}, "models='linear' is not known: choose 'baseline' or 'hope'"),
        ("table4", {"models": 3}, "models=3 is not known"),
        ("table3", {"search": 2}, "search=2 is not known"),
        ("table4", {"columns": []}, "columns=[] is empty"),
        ("table4", {"columns": "out"}, "columns='out' is not known"),
        ("figures4_5", {"M": 785}, "M=785 exceeds the 784 inputs"),
        ("figures4_5", {"models": []}, "models=[] is empty"),
        ("figures4_5", {"folder": 3}, "folder=3 is not valid"),
        ("figures4_5", {"figure": 3}, "figure=3 is not valid: name a file"),
        ("figures4_5", {"figure": "x.xyz"}, "figure='x.xyz' has no suffix of a known format: choose one of "),
        ("figures4_5", {"figure": "figure"}, "figure='figure' has no suffix of a known format"),
        ("figures4_5", {"figure": "."}, "figure='.' is not valid"),
    ],
    fast=5,
)
def test_nothing_is_trained_with_settings_that_fail_later(
    name: str, settings: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_trained", lambda *_: pytest.fail("a network is trained"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        getattr(tables, name)("there", **settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_sizes_of_networks_that_are_not_trained_are_not_asked(tmp_path: Path) -> None:
    (row,) = tables.table2("there", K=5, M=785, seeds=1, epochs=1, models="baseline", folder=tmp_path)
    assert row["model"] == "baseline"


def test_without_a_folder_the_database_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_mnist is not tables.read_mnist
    monkeypatch.setattr(tables, "read_mnist", read_mnist)
    monkeypatch.setenv("MANIFOLDSEQ_MNIST", "nowhere")
    with pytest.raises(ValueError, match=r"nowhere.*--data or MANIFOLDSEQ_MNIST"):
        tables.table2()
