"""The report: self-contained, small, and right about its numbers."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.report import RunFiles, plot_convergence, read_run, render_html

matplotlib.use("Agg")
Run = Callable[..., tuple[int, str, str]]
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


class Outline(HTMLParser):
    """Collect links and check that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """Return the directory of a finished run."""
    assert run("fit", "sign", "two-levels", "--set", "name=<b>&", "-o", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def test_page_is_self_contained_and_well_formed(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    assert all(link.startswith("#") for link in Outline(page).links)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
    assert "<b>&" not in page and "&lt;b&gt;&amp;" in page
    assert "#010203" not in page and "currentColor" in page
    assert "This run is" not in page


def test_page_shows_metrics_convergence_and_confusion(folder: Path) -> None:
    page = re.sub(r"\s+", " ", (folder / "report.html").read_text(encoding="utf-8"))
    assert "<h1>sign on two-levels</h1>" in page
    assert '<th scope="row">sign</th><td>1.000</td><td>1.000</td><td>1.000</td>' in page
    assert '<th scope="row">k-means on channel means and deviations</th><td>1.000</td>' in page
    assert "<svg" in page and "Objective against iteration" in page
    assert '<th scope="col">down</th><th scope="col">up</th>' in page
    assert page.count("</span>10</td>") == 2


def test_report_command_for_one_and_for_several(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "report.html").unlink()
    assert run("report", folder)[0] == 0
    assert (folder / "report.html").exists()
    assert run("fit", "sign", "two-levels", "--set", "offset=9", "-o", tmp_path / "second")[0] == 0
    assert run("report", folder, tmp_path / "second", "-o", tmp_path / "both.html")[0] == 0
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    Outline(page)
    assert "<h2>run</h2>" in page and "<h2>second</h2>" in page and page.count("<svg") == 2


def test_what_is_no_run_is_refused(run: Run, tmp_path: Path) -> None:
    status, _, err = run("report", tmp_path)
    assert status == 2 and "is no run directory" in err


def test_unfinished_run_says_so(folder: Path) -> None:
    files = read_run(folder)
    page = render_html([RunFiles(files.name, files.run | {"state": "interrupted"})])
    assert "This run is interrupted." in page
    Outline(page)


def test_convergence_of_a_result_a_run_and_a_history() -> None:
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    result = ms.minimize(problem, np.ones(2))
    for source in (result, result.history):
        figure = matplotlib.figure.Figure()
        ax = plot_convergence(source, figure.subplots())
        (line,) = ax.get_lines()
        assert np.allclose(line.get_ydata(), result.history["fun"])
        assert np.allclose(line.get_xdata(), result.history["nit"])
        assert len(figure.axes) == 2  # the gradient norm has its own
    with pytest.raises(ValueError, match="no column 'fun'"):
        plot_convergence({"cost": [1.0]})


def test_convergence_makes_its_own_figure() -> None:
    import matplotlib.pyplot as plt

    ax = plot_convergence({"fun": [2.0, 1.0]})
    assert list(ax.get_lines()[0].get_xdata()) == [0, 1]
    plt.close(ax.figure)  # type: ignore[arg-type]
