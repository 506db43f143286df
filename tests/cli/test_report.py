"""``manifoldseq report``, and the page that ``manifoldseq fit`` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from report.samples import Outline, assert_self_contained

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """Return the directory of a finished run."""
    assert run("fit", "sign", "two-levels", "--set", "name=<b>&", "-o", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def test_page_of_a_fit(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert_self_contained(page)
    assert "<b>&" not in page and "&lt;b&gt;&amp;" in page
    assert "This run is" not in page
    page = re.sub(r"\s+", " ", page)
    assert "<h1>sign on two-levels</h1>" in page
    assert '<th scope="row">sign</th><td>1.000</td><td>1.000</td><td class="best">1.000</td>' in page
    assert '<th scope="row">statistics-kmeans</th><td>1.000</td>' in page and "★: best ARI." in page
    assert "Comparison with simple controls" in page
    assert "Objective against iteration" in page and "Cluster sizes" in page
    assert '<th scope="col">down</th><th scope="col">up</th>' in page
    assert page.count('<td class="size">10</td>') == 2


def test_report_command_for_one_and_for_several(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "report.html").unlink()
    assert run("report", folder)[0] == 0
    assert (folder / "report.html").exists()
    assert run("fit", "sign", "two-levels", "--set", "offset=9", "-o", tmp_path / "second")[0] == 0
    assert run("report", folder, tmp_path / "second", "-o", tmp_path / "both.html")[0] == 0
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    Outline(page)
    assert "<h2>run</h2>" in page and "<h2>second</h2>" in page
    assert page.count("Objective against iteration</h3>") == 1


def test_what_is_no_run_raises_an_error(run: Run, tmp_path: Path) -> None:
    status, _, err = run("report", tmp_path)
    assert status == 2 and "is not a run directory (there is no run.json in it): pass a folder that fit" in err
