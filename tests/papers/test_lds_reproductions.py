"""Figure 2 and Table 1 at small sizes: rows, resuming, the figure, the folder of a user, and refusals."""

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.reproduction import finished
from manifoldseq_lds import dynamic_textures
from manifoldseq_papers.lds._figure2 import METHODS, figure2
from manifoldseq_papers.lds._table1 import BAGS, PYRAMIDS, table1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("textures")
    videos, labels = dynamic_textures(12, size=12, frames=50)
    for i, (video, label) in enumerate(zip(videos, labels % 2, strict=True)):
        (root / f"class{label}").mkdir(exist_ok=True)
        np.save(root / f"class{label}" / f"{i}.npy", video)
    return root


def test_figure_2_on_a_folder(folder, tmp_path):
    settings = {"n_atoms": 2, "max_iter": 2, "n_seeds": 1, "complexity": False, "store": str(tmp_path / "parts")}
    rows = figure2(folder, figure=str(tmp_path / "figure.png"), **settings)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    ends = {row["model"]: row["ours"] for row in rows if row["metric"] == "NR, test, end"}
    assert set(ends) == set(METHODS) and ends["ours (L-BFGS)"] < 0
    assert {row["paper"] for row in rows if "times faster" in row["metric"]} == {50.0}
    kept = sorted(path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir())
    assert figure2(folder, resume=True, **settings) == rows
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()) == kept


def test_table_1_on_a_folder(folder, tmp_path):
    settings = {"size": (25, 6, 6), "n_states": 3, "n_words": 3, "max_iter": 1, "n_seeds": 1, "max_blocks": 2}
    rows = table1(folder, n_folds=2, store=str(tmp_path), **settings)
    accuracies = {row["model"]: row["ours"] for row in rows if row["unit"] == "%"}
    assert set(accuracies) == {*BAGS, *PYRAMIDS}
    assert all(0 <= value <= 100 for value in accuracies.values())
    again = table1(folder, n_folds=2, store=str(tmp_path), resume=True, **settings)
    assert again == rows


def test_parts_are_computed_once_and_again_if_damaged(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"value": len(calls)}

    assert [finished(tmp_path, True, {"a": (1, 2)}, compute)["value"] for _ in range(2)] == [1, 1]
    assert finished(tmp_path, False, {"a": (1, 2)}, compute)["value"] == 2
    (next(tmp_path.glob("*.json"))).write_text("{")
    assert finished(tmp_path, True, {"a": (1, 2)}, compute)["value"] == 3
    assert finished(None, True, {"a": (1, 2)}, compute)["value"] == 4


@pytest.mark.parametrize("name", ["lds-fig2", "lds-table1"])
def test_registered_and_refusing(name, tmp_path):
    record = ms.hooks.get_reproduction(name)
    for bad, sentence in (({"datasets": "cinema"}, "cinema"), ({"n_seeds": 0}, "n_seeds=0")):
        with pytest.raises(ValueError, match=sentence):
            record.run(store=str(tmp_path), **bad)
    assert not list(tmp_path.iterdir())
