"""docs/papers/ is complete: every numbered item of the four papers has a row, and every row is backed.

A row is backed by a public name that exists together with a test that exists, or by a reason.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest
from helpers import needs, parametrize
from planted.plant import Error, errors, rows_with_tests

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "docs" / "papers"


def numbered(**counts: int) -> set[str]:
    """Expand `Table=2` to {"Table 1", "Table 2"} and `equations=2` to {"(1)", "(2)"}."""
    equations = {f"({i})" for i in range(1, counts.pop("equations") + 1)}
    return equations | {f"{kind} {i}" for kind, count in counts.items() for i in range(1, count + 1)}


# what each paper numbers, and how many entries the list of its subjects has
CONTENTS = {
    "000_9fd9f17939916903": numbered(equations=13, Subject=11),
    "001_262129f29ba5b3b1": numbered(equations=68, Algorithm=1, Table=6, Figure=5, Footnote=7, Subject=20),
    "002_63c669676aa02f86": numbered(equations=20, Algorithm=1, Table=1, Figure=2, Footnote=3, Subject=22)
    | {"Theorem 1", "Remark 2", "Remark 3", "Theorem 4", "Theorem 5"},
    "003_82b5e3234d726591": numbered(equations=45, Subject=11),
}
MODELS = {
    "000_9fd9f17939916903": "hierarchical",
    "001_262129f29ba5b3b1": "hope",
    "002_63c669676aa02f86": "lds",
    "003_82b5e3234d726591": "mpcca",
}
"""The plugin of each paper, whose public names its rows name."""
Row = tuple[str, str, str, str, str]


@cache
def rows(paper: str) -> list[Row]:
    """Return the table rows of a page as (item, says, names, tests, reason)."""
    found = []
    for line in (PAPERS / f"{paper}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| item "):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert len(cells) == 5, f"{paper}: {len(cells)} cells in: {line}"
            found.append(tuple(cells))
    return found


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file, `Class::test` for methods."""
    file = ROOT / path
    if not (file.is_file() and file.name.startswith("test_") and path.startswith("tests/")):
        return frozenset()
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


def exists(name: str) -> bool:
    """Say whether a public name resolves (`ms.` is `manifoldseq.`; private parts never do), `get_x("…")` included."""
    name, _, asked = re.sub(r"^ms\.", "manifoldseq.", name).partition("(")
    parts = name.split(".")
    if not parts[0].startswith("manifoldseq") or any(part.startswith("_") for part in parts):
        return False
    try:
        value = importlib.import_module(parts[0])
        for part in parts[1:]:
            value = getattr(value, part)
        if asked:
            value(asked.strip('")'))
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def why_not_backed(row: Row) -> str | None:
    """Return what is wrong with a row, or None."""
    item, says, names, tests, reason = row
    named, proved = re.findall(r"`([^`]+)`", names), re.findall(r"`([^`]+)`", tests)
    problems = [f"no public name {name}" for name in named if not exists(name)]
    for test in proved:
        path, _, function = test.partition("::")
        if function not in functions_of(path):
            problems.append(f"no test {test}")
    if not says:
        problems.append("no description")
    if not reason and not (named and proved):
        problems.append("neither a public name with a test nor a reason")
    return f"{item}: {'; '.join(problems)}" if problems else None


@pytest.mark.parametrize("paper", CONTENTS)
def test_every_numbered_item_has_one_row(paper: str) -> None:
    items = [row[0] for row in rows(paper)]
    assert sorted(items) == sorted(CONTENTS[paper])


@pytest.mark.parametrize("paper", [pytest.param(paper, marks=needs(MODELS[paper], "papers")) for paper in CONTENTS])
def test_every_row_is_backed(paper: str) -> None:
    assert [problem for problem in map(why_not_backed, rows(paper)) if problem] == []


def test_what_counts_as_backed() -> None:
    """The check itself: a made-up name, a made-up test and an empty row raise an error, a reason is accepted."""
    here = "`tests/test_papers.py::test_what_counts_as_backed`"
    assert why_not_backed(("(1)", "says", "`ms.minimize`", here, "")) is None
    assert why_not_backed(("(1)", "says", "", "", "planned")) is None
    for names, tests in [
        ("`ms.no_such`", here),
        ('`ms.get_kernel("no-such")`', here),
        ("`ms.minimize`", "`tests/test_papers.py::test_no`"),
        ("", here),
    ]:
        assert why_not_backed(("(1)", "says", names, tests, "")) is not None
    assert why_not_backed(("(1)", "says", "`ms._minimize`", here, "")) is not None


def test_every_row_with_tests_has_one_planted_error_or_says_why_not() -> None:
    assert sorted((error.paper, error.item) for error in errors()) == sorted(rows_with_tests())


@parametrize("error", errors(), fast=1, ids=lambda error: f"{error.paper[:3]}-{error.item}")
def test_an_error_can_be_planted_where_it_says(error: Error) -> None:
    if error.why:
        assert not (error.file or error.find or error.replace)
        return
    text = (ROOT / error.file).read_text(encoding="utf-8")
    assert error.file.startswith(("manifoldseq/", "plugins/")) and text.count(error.find) == 1
    ast.parse(text.replace(error.find, error.replace))
