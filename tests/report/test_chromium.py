"""The page in a browser: nothing in the console, nothing wider than the screen, no text over another."""

from __future__ import annotations

import base64
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, chromium
from report.samples import oscillations

import manifoldseq as ms
from manifoldseq.evaluation import Evaluation
from manifoldseq.report import RunFiles, render_html

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]
WIDTHS = (400, 1400)
# A page stands in a frame, as no window of Chromium is as narrow as a phone. Seen are: elements beyond the right edge
# that nothing scrolls; texts of one figure that lie on each other, or beyond it. A box is higher than its letters.
FRAME = """<!doctype html><body style="margin: 0"><iframe style="border: 0; width: WIDTHpx; height: 2000px"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {
  const page = frame.contentDocument, width = frame.contentWindow.innerWidth;
  const seen = {width, page: page.documentElement.scrollWidth, figures: 0, wide: [], overlaps: [], cut: []};
  for (const element of page.querySelectorAll("body *"))
    if (element.getBoundingClientRect().right > width + 0.5 && !element.closest(".wide > *, caption"))
      seen.wide.push(element.tagName + " " + element.className);
  for (const svg of page.querySelectorAll("svg")) {
    seen.figures += 1;
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([name, a], i) => {
      if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1 || a.bottom > edge.bottom + 1)
        seen.cut.push(name);
      texts.slice(0, i).forEach(([other, b]) => {
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1 && y > 0.3 * Math.min(a.height, b.height, a.width, b.width)) seen.overlaps.push(name + " | " + other);
      });
    });
  }
  document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
};
frame.srcdoc = SOURCE;
</script>"""

EDGE = """<!doctype html><body style="margin: 0"><iframe style="border: 0; width: WIDTHpx; height: 2000px"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {
  const edge = frame.contentDocument.querySelector(".wide").getBoundingClientRect();
  document.title = [edge.right, edge.bottom];
};
frame.srcdoc = SOURCE;
</script>"""


def pages() -> dict[str, str]:
    """Return a page of every kind."""
    weights = np.arange(1.0, 4)
    objective = ms.objective(lambda x: float(x @ (weights * x)), lambda x: 2 * weights * x)
    problem = ms.Problem(ms.manifolds.Euclidean(3), objective)
    solved = {solver: ms.minimize(problem, np.ones(3), solver=solver) for solver in ("lbfgs", "pgd")}
    return {
        "one": render_html([oscillations()]),
        "two": render_html([oscillations(), oscillations(14)]),
        "solvers": render_html(solved),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with each page, and with frames that look at it."""
    path = tmp_path_factory.mktemp("pages")
    for name, page in pages().items():
        (path / f"{name}.html").write_text(page, encoding="utf-8")
        for width in WIDTHS:
            source = json.dumps(page).replace("</", "<\\/")
            frame = FRAME.replace("WIDTH", str(width)).replace("SOURCE", source)
            (path / f"{name}-{width}.html").write_text(frame, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "two", "solvers"])
def test_page_fits_the_screen_and_texts_keep_apart(folder: Path, tmp_path: Path, name: str, width: int) -> None:
    done = chromium(folder / f"{name}-{width}.html", 1400, tmp_path, "--dump-dom")
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    seen = json.loads(unescape(found[1]))
    assert seen.pop("figures") >= 4
    assert seen == {"width": width, "page": width, "wide": [], "overlaps": [], "cut": []}


@pytest.mark.parametrize("name", ["one", "two", "solvers"])
def test_console_is_silent_and_something_is_painted(folder: Path, tmp_path: Path, name: str) -> None:
    picture = tmp_path / "page.png"
    done = chromium(
        folder / f"{name}.html", 400, tmp_path / "profile", "--enable-logging=stderr", f"--screenshot={picture}"
    )
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 10_000


def test_a_table_that_scrolls_has_a_shade_at_its_edge(tmp_path: Path) -> None:
    """Pixels along the right edge of the table, on a narrow screen, where more lies beyond, and on a wide one."""
    from PIL import Image

    names = ("purity", "nmi", "ari", "agreement_of_parts", "silhouette", "seconds")
    rows = [{"name": name, **dict.fromkeys(names, 0.5)} for name in ("mixture-of-something", "statistics-kmeans")]
    run = RunFiles("run", {"state": "done"}, evaluation=Evaluation("clusters", "ari", rows, "so"))
    page, found = json.dumps(render_html([run])).replace("</", "<\\/"), {}
    for width in (420, 1280):
        html, picture = tmp_path / f"{width}.html", tmp_path / f"{width}.png"
        html.write_text(EDGE.replace("WIDTH", str(width)).replace("SOURCE", page), encoding="utf-8")
        done = chromium(html, 1400, tmp_path / "profile", "--dump-dom")
        title = re.search(r"<title>(.*?),(.*?)</title>", done.stdout)
        assert title is not None, done.stderr
        right, bottom = (round(float(one)) for one in title.groups())
        chromium(html, 1400, tmp_path / "profile", f"--screenshot={picture}")
        pixels = np.asarray(Image.open(picture).convert("L")).astype(int)[bottom - 8]
        found[width] = pixels[right - 60] - pixels[right - 2]
    assert found[420] > 40 and abs(found[1280]) <= 2, found


def test_console_would_be_heard(tmp_path: Path) -> None:
    """The page's policy stops a script, and the log says so: silence means something."""
    page = render_html([oscillations()]).replace("</body>", "<script>document.title = 'run'</script></body>")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    done = chromium(tmp_path / "page.html", 400, tmp_path / "profile", "--enable-logging=stderr", "--dump-dom")
    assert "CONSOLE" in done.stderr and "Content Security Policy" in done.stderr
    assert "<title>run</title>" not in done.stdout


def test_images_inside_figures_can_be_decoded() -> None:
    from PIL import Image

    found = re.findall(r'href="data:image/png;base64,([^"]+)"', pages()["one"])
    assert len(found) == 2  # the kernel matrix and its scale
    for data in found:
        Image.open(io.BytesIO(base64.b64decode(data))).verify()
