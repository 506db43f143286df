"""The built pages in a browser: nothing wider than the screen, no code cut, no blank picture, a silent console."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from browser import CHROMIUM, chromium

BUILT = Path(__file__).parents[1] / "docs" / "_build" / "html"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]
WIDTHS = (400, 1200, 1600)

# Each page is opened in a frame, one after the other. Code may scroll on screens narrower than 1,200 pixels only.
FRAME = """<!doctype html><body style="margin: 0"><iframe style="border: 0; width: WIDTHpx; height: 2000px"></iframe>
<script>
const frame = document.querySelector("iframe"), pages = PAGES, seen = {};
const scrolls = element => element.tagName != "ARTICLE" &&
  (["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
const look = () => {
  const page = frame.contentDocument, width = frame.contentWindow.innerWidth, wrong = [];
  page.documentElement.dataset.theme = "THEME";
  if (page.documentElement.scrollWidth > width) wrong.push("wide page: " + page.documentElement.scrollWidth);
  for (const element of page.querySelectorAll("article *")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > width + 0.5 && !scrolls(element.parentElement))
      wrong.push("wide: " + element.tagName + " " + element.className);
  }
  if (width >= 1200)
    for (const code of page.querySelectorAll("article pre"))
      if (code.scrollWidth > code.clientWidth + 1) wrong.push("cut: " + code.textContent.slice(0, 60));
  for (const picture of page.querySelectorAll("article img, article svg")) {
    const box = picture.getBoundingClientRect(), name = picture.getAttribute("src") || "svg";
    if (picture.naturalWidth === 0) wrong.push("not loaded: " + name);
    else if (box.width < 3 || box.height < 1.5) wrong.push("blank: " + name);
  }
  return wrong;
};
const next = index => {
  if (index == pages.length) {
    const shown = Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)});
    return document.body.append(shown);
  }
  frame.onload = () => {
    for (const picture of frame.contentDocument.images) picture.loading = "eager";
    setTimeout(() => {
      const wrong = look();
      seen.pages = (seen.pages || 0) + 1;
      if (wrong.length) seen[pages[index]] = wrong;
      next(index + 1);
    }, 300);
  };
  frame.src = pages[index];
};
next(0);
</script>"""


def pages() -> list[Path]:
    """Return the built pages, but those of single public names and lists of all of them."""
    left_out = ("genindex", "search", "py-modindex")
    every = [page for page in BUILT.rglob("*.html") if "_static" not in page.parts and "names" not in page.parts]
    return sorted(page for page in every if page.stem not in left_out)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_and_show_their_pictures(tmp_path: Path, width: int, theme: str) -> None:
    uris = [page.as_uri() for page in pages()]
    assert uris, "run make docs first"
    frame = tmp_path / "frame.html"
    written = FRAME.replace("WIDTH", str(width)).replace("THEME", theme).replace("PAGES", json.dumps(uris))
    frame.write_text(written, encoding="utf-8")
    options = (
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
        "--virtual-time-budget=600000",
        "--dump-dom",
    )
    done = chromium(frame, 1700, tmp_path / "profile", *options)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    seen = json.loads(unescape(found[1]))
    assert seen == {"pages": len(uris)}
    assert not re.findall(r"CONSOLE(?!.*\[PST\]: ).*", done.stderr)  # the theme logs the mode that it chooses
