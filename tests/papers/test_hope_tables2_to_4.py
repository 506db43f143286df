"""The supervised reproductions on a few generated images: their rows, their resuming and bad settings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq_hope.features._mnist import Digits, read_mnist
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
            [(10, 40)], start="uniform", max_iter=3, random_state=seed, **settings
        ).fit(X.astype(np.float32), small.train_labels)
        errors.append(100 * np.mean(model.predict(T.astype(np.float32)) != small.test_labels))
    assert rows[1]["ours"] == pytest.approx(np.mean(errors), abs=0.2)
    assert rows[1]["ours_se"] == pytest.approx(abs(errors[0] - errors[1]) / 2, abs=0.2)


def test_table2_has_the_paper_s_figures(tmp_path: Path) -> None:
    rows = tables.table2("there", K=1000, M=100, seeds=1, epochs=1, models=["hope"], folder=tmp_path)
    assert (rows[0]["paper"], rows[0]["ours_se"], rows[0]["unit"]) == (1.18, None, "%")


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


def test_figures_show_correlations_that_die(tmp_path: Path) -> None:
    rows = tables.figures4_5("there", M=10, K=30, epochs=2, folder=tmp_path, figure=str(tmp_path / "figure.png"))
    found = {(row["model"], row["metric"]): row["ours"] for row in rows}
    assert found["hope", "sum of correlations, 2 epochs"] < 1e-3 < found["linear", "sum of correlations, 2 epochs"]
    assert found["hope", "largest correlation"] < 2e-6
    assert found["penalty", "sum of correlations, start"] == found["linear", "sum of correlations, start"]
    assert found["penalty", "sum of correlations, 2 epochs"] < found["linear", "sum of correlations, 2 epochs"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


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
    assert [paper for *_, paper in asked] == [1.25, 0.99, 0.97, 0.92, 0.82, 0.81]
    assert [with_dropout for _, with_dropout, _ in asked] == [False] * 3 + [True] * 3


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
        ({"models": ["svm"]}, "'baseline', 'hope', 'linear'"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"orthogonality": "none"}, "'polar', 'qr', 'penalty'"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    options = {"K": 5, "models": ["hope"], "epochs": 1, "seeds": 1} | settings
    with pytest.raises(ValueError) as caught:
        tables.table2("there", folder=tmp_path, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("table2", {"M": 785}, "M=785 exceeds the 784 inputs"),
        ("table2", {"models": []}, "models=[] is empty"),
        ("table2", {"folder": 3}, "folder=3 is not valid"),
        ("table2", {"search": "maybe"}, "search='maybe' is not known"),
        ("table3", {"M": (200, 785)}, "M=785 exceeds the 784 inputs"),
        ("table3", {"models": "linear"}, "models='linear' is not known: choose 'baseline', 'hope'"),
        ("table4", {"models": 3}, "models=3 is not known"),
        ("table3", {"search": 2}, "search=2 is not known"),
        ("table4", {"columns": []}, "columns=[] is empty"),
        ("table4", {"columns": "out"}, "columns='out' is not known"),
        ("figures4_5", {"M": 785}, "M=785 exceeds the 784 inputs"),
        ("figures4_5", {"models": []}, "models=[] is empty"),
        ("figures4_5", {"folder": 3}, "folder=3 is not valid"),
        ("figures4_5", {"figure": 3}, "figure=3 is not valid: name a file"),
        ("figures4_5", {"figure": "x.xyz"}, "figure='x.xyz' ends in no format of figures: choose one of "),
        ("figures4_5", {"figure": "figure"}, "figure='figure' ends in no format of figures"),
        ("figures4_5", {"figure": "."}, "figure='.' is not valid"),
        ("figures4_5", {"figure": "nowhere/x.png"}, "is in no folder that exists: make 'nowhere' first"),
    ],
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
