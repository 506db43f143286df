"""``manifoldseq reproduce NAME --quick``: every reproduction has a short run, and its figure is whole."""

from inspect import signature
from pathlib import Path

import pytest
from helpers import parametrize
from matplotlib.figure import Figure

from manifoldseq_papers._plugin import manifoldseq_reproductions

RECORDS = {record.name: record.resolved() for record in manifoldseq_reproductions()}


@pytest.mark.parametrize("name", RECORDS)
def test_quick_settings_are_parameters_and_results_have_a_folder_of_their_own(name: str) -> None:
    record = RECORDS[name]
    takes = signature(record.run).parameters
    assert record.quick and set(record.quick) <= set(takes)
    assert "store" not in takes  # one name for the same parameter
    for kept in {"folder", "figure"} & set(takes):
        assert str(record.quick[kept]).startswith("runs/quick/") and record.quick[kept] != takes[kept].default


@parametrize("name", ["lds-fig2", "lds-fig1", "lds-table1", "mpcca-fusion"], fast=1)
def test_a_quick_run_has_rows_and_a_whole_figure(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, *arguments: object, **options: object) -> None:
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Figure, "savefig", kept)
    record = RECORDS[name]
    rows = record.run(**record.quick)
    assert rows and all(row["ours"] is not None for row in rows)
    assert len(drawn) == name.count("fig")
    for figure in drawn:
        (legend,) = figure.legends
        box, page = legend.get_window_extent(), figure.bbox
        assert page.x0 <= box.x0 < box.x1 <= page.x1 and page.y0 <= box.y0 < box.y1 <= page.y1
