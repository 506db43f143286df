"""Figures as SVG: safe to show, in the colours of the theme; the plots that an estimator's record names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.samples import oscillations
from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.report import Drawing, Fitted, draw_plots, line_style, read_run, render_html, save_drawings

TEMPLATE = Path(ms.report.__file__).with_name("template.html.j2").read_text(encoding="utf-8")
# Machado, Oliveira, Fernandes 2009: complete protanopia, deuteranopia, tritanopia, on linear RGB
BLINDNESS = [
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
]


def linear(colour: str) -> np.ndarray:
    """Return the linear RGB of a colour."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colours as WCAG 2 defines it."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return CIELAB of linear sRGB under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 0.01, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def themes() -> list[dict[str, str]]:
    """Return the variables of the light and the dark theme."""
    light, dark = re.findall(r":root \{(.*?)\}\n", TEMPLATE, re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#\w{6}|[\d ]+);", block)) for block in (light, dark)]


@cache
def palettes() -> tuple[list[str], list[str]]:
    """Return the colours of series in the light and the dark theme of a page."""
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    page = render_html([ms.minimize(problem, np.ones(2))])
    light, dark = (re.findall(r"--series-\d+: (#\w{6});", line) for line in page.splitlines() if "--series-0:" in line)
    assert len(light) == len(dark) == 6
    return light, dark


def test_the_series_of_figures_have_the_colours_of_the_light_theme() -> None:
    assert [line_style(i)["color"] for i in range(6)] == palettes()[0]


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_contrast_is_sufficient(number: int) -> None:
    theme, palette = themes()[number], palettes()[number]
    for ground in (theme["paper"], theme["panel"]):
        assert contrast(theme["ink"], ground) >= 7
        assert contrast(theme["soft"], ground) >= 4.5
        assert all(contrast(colour, ground) >= 3 for colour in palette)
    accent = np.array([int(part) for part in theme["accent"].split()])
    panel = np.array([int(theme["panel"][i : i + 2], 16) for i in (1, 3, 5)])
    share = max(float(found) for found in re.findall(r"format\(([\d.]+) \* share", TEMPLATE))
    shade = "#" + "".join(f"{round(c):02x}" for c in share * accent + (1 - share) * panel)
    assert contrast(theme["ink"], shade) >= 4.5


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_colours_are_told_apart_by_everyone(number: int) -> None:
    for a, b in combinations(palettes()[number], 2):
        for seen in BLINDNESS:
            assert np.linalg.norm(lab(seen @ linear(a)) - lab(seen @ linear(b))) > 15


def line(ax: Any) -> None:
    """Draw a line with odd texts."""
    ax.plot([0, 1, 2], [3.0, 2.0, 1.23456789], color=line_style(2)["color"], label="a<b & 'c'")
    ax.set(title='A "title" <i>', xlabel="x (s)", ylabel="0.123456789")


def drawn(name: str, summary: str, paint: Callable[[Any], object]) -> Drawing:
    """Return the figure of a plot that is registered for the session."""
    ms.register(hooks.PlotSpec(f"test-{name}", lambda result: True, lambda ax, result: paint(ax), summary=summary))
    (made,) = draw_plots(Fitted(BaseEstimator(), [[1.0]]), [f"test-{name}"])
    return made


def read_back(folder: Path, name: str, text: str) -> Drawing:
    """Return a figure of a run directory with this content."""
    (folder / "run.json").write_text("{}")
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "figures" / f"{name}.svg").write_text(text)
    (found,) = read_run(folder).drawings
    return found


def test_drawing_follows_the_theme_and_survives_its_file(tmp_path: Path) -> None:
    made = drawn("line", "A caption", line)
    assert (made.title, made.caption) == ('A "title" <i>', "A caption.")
    assert "Horizontal: x (s). Vertical: 0.123456789. a<b & 'c': from 3 to 1.235." in made.description
    assert read_back(tmp_path, "test-line", made.svg) == made
    save_drawings(tmp_path, [made, made])
    names = ["01-test-line", "02-test-line"]
    assert read_run(tmp_path).drawings == [replace(made, name=name) for name in names]
    assert f"var(--series-2, {palettes()[0][2]})" in made.svg and "currentColor" in made.svg
    assert ">0.123456789<" in made.svg  # numbers are shortened in coordinates only
    assert not re.search(r'd="[^"]*\.\d{4}', made.svg)
    assert drawn("line", "A caption", line) == made  # nothing of the time or of chance
    inline = made.inline("p-")
    assert "xmlns" not in inline and "data-title" not in inline
    assert set(re.findall(r"url\(#([\w-]+)\)", inline)) <= set(re.findall(r'id="([\w-]+)"', inline))
    assert all(name.startswith("p-") for name in re.findall(r'id="([\w-]+)"', inline))


def test_description_tells_what_is_drawn() -> None:
    bars = drawn("bars", "", lambda ax: ms.report.plot_cluster_sizes([0, 0, 1], ax))
    assert "Horizontal: cluster. Vertical: members. Heights: 2, 1." in bars.description
    matrix = drawn("matrix", "", lambda ax: ms.report.plot_kernel_matrix([[1, 0.5], [0.5, 1]], ax))
    assert "Values from 0.5 to 1." in matrix.description


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<foreignObject/>",
        "<style>*{}</style>",
        "<a href='#x'/>",
        "<g onclick='alert(1)'/>",
        "<image href='http://example.org/a.png'/>",
        "<image href='data:image/svg+xml;base64,AAAA'/>",
        "<use href='other.svg#a'/>",
        "<g style='fill: url(http://example.org)'/>",
        "<g style='fill: u\\72l(x)'/>",
        "<g fill='javascript:alert(1)'/>",
        "<g xmlns='http://www.w3.org/1999/xhtml'/>",
        "<g",
    ],
)
def test_foreign_content_of_a_file_raises_an_error(tmp_path: Path, inside: str) -> None:
    with pytest.raises(ValueError, match="the figure 'x'"):
        read_back(tmp_path, "x", f'<svg xmlns="http://www.w3.org/2000/svg">{inside}</svg>')


def test_document_types_and_other_documents_raise_an_error(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>'
    for text in (bomb, "", "<svg/>", "{}"):
        with pytest.raises(ValueError, match="the figure 'x'"):
            read_back(tmp_path, "x", text)


class Sorter(BaseEstimator):
    """An estimator of nobody's plugin."""


@pytest.fixture
def sorter() -> Fitted:
    """Return a fitted estimator whose record names three plots: one draws, one fails, one does not accept."""

    def fail(ax: Any, result: Any) -> None:
        raise ZeroDivisionError("no data")

    ms.register(hooks.EstimatorSpec("test-sorter", Sorter, plots=("test-bad", "test-other", "test-good")))
    ms.register(hooks.PlotSpec("test-good", lambda result: True, lambda ax, result: line(ax), summary="Something good"))
    ms.register(hooks.PlotSpec("test-bad", lambda result: True, fail))
    ms.register(hooks.PlotSpec("test-other", lambda result: False, fail))
    return Fitted(Sorter(), [[1.0]])


def test_plots_of_the_record_are_drawn_and_a_failing_one_loses_no_other(sorter: Fitted) -> None:
    with pytest.warns(RuntimeWarning, match=r"plot 'test-bad' failed \(ZeroDivisionError: no data\)"):
        drawings = draw_plots(sorter)
    assert [(each.name, each.caption) for each in drawings] == [("test-good", "Something good.")]
    assert draw_plots(sorter, ["test-good"]) == drawings


def test_estimator_without_a_record_has_no_plots() -> None:
    assert draw_plots(Fitted(BaseEstimator(), [[1.0]])) == []


def test_estimator_of_a_plugin_is_found_by_its_class() -> None:
    drawings: list[Drawing] = draw_plots(oscillations())
    assert [each.name for each in drawings] == [
        "lds-kernel-matrix", "lds-spectra", "lds-reconstruction", "lds-worst-reconstruction",
    ]  # fmt: skip
