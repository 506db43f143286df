"""Every ```python block of README.md and docs/ runs as written, one namespace per page, and every command is one."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

import manifoldseq as ms
from manifoldseq.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = ("_build", "gallery", "reference")  # below docs/, made by `make docs`
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in BUILT),
    *sorted((ROOT / "plugins" / "manifoldseq_papers").glob("*.md")),
]
# a block is left out by the line before it:  <!-- skip: reason -->
BLOCK = re.compile(
    r"(?P<skip><!-- skip[^\n]*-->\n+)?^```(?P<language>python|console)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page, each padded so that a traceback shows the page's line numbers."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text.count("\n", 0, found.start("code")) + found["code"]
        for found in BLOCK.finditer(text)
        if not found["skip"] and found["language"] == language
    ]


def commands(page: Path) -> list[list[str]]:
    """Return the ``$ manifoldseq …`` lines of a page as arguments."""
    lines = [line for block in blocks(page, "console") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ manifoldseq ")]


def run(arguments: list[str], folder: Path) -> str:
    """Run Python as a reader would, in a fresh interpreter and outside the checkout, and return what it prints."""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command that ends well prints."""
    assert main(arguments) == 0, arguments
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == PAGES[0] else [pytest.mark.slow])
        for page in PAGES
        if blocks(page, "python")
    ],
    ids=lambda page: page.name,
)
def test_code_of_page_runs(page: Path, tmp_path: Path) -> None:
    code = blocks(page, "python")
    script = "".join(f"exec(compile({block!r}, {str(page)!r}, 'exec'), globals())\n" for block in code)
    printed = run(["-W", "error", "-c", script], tmp_path)
    if page == PAGES[0]:  # README.md shows all that its examples print
        shown = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert printed == "".join(shown)


def test_readme_has_five_examples_that_print_on_at_most_200_lines() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^```python\n[^`]*^```\n\n```text\n", text, re.MULTILINE)) == 5
    assert text.count("\n") <= 200


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_of_page_are_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command and option exists: asked for help, a command reads its whole line, but neither runs nor looks."""
    for name, *arguments in (line for line in commands(page) if not line[0].startswith("-")):
        said(capsys, name, "--help", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_of_page_run(page: Path, tmp_path: Path) -> None:
    """Type the page: its Python files and code first, then its commands in order."""
    text = page.read_text(encoding="utf-8")
    code = blocks(page, "python")
    for found in re.finditer(r"The file\s+`([\w.]+\.py)`", text):  # the next block is what it holds
        following = text[: found.start()].count("```python\n")
        (tmp_path / found[1]).write_text(code[following], encoding="utf-8")
    run(["-c", "".join(code)], tmp_path)
    for arguments in commands(page):
        if "PACKAGE" not in arguments:
            run(["-W", "error", "-m", "manifoldseq", *arguments], tmp_path)


MARKDOWN = [
    *(path for path in ROOT.glob("*.md")),
    *(
        path
        for folder in ("docs", "plugins", "benchmarks")
        for path in (ROOT / folder).rglob("*.md")
        if "_build" not in path.parts
    ),
]


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_page_lead_to_files_and_headings(page: Path) -> None:
    """Also for one who reads the repository: pages that only the documentation's build makes are no targets."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"(?<!`)\]\(([^)\s]+)\)", text):
        target, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists() and not re.search(r"docs/(reference|gallery|_build)/", file.as_posix()), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert heading in anchors, (link, anchors)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_no_text_of_page_is_a_comment(page: Path) -> None:
    """A line that begins with a per cent sign is a comment in MyST, and is not shown."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(r"^\s*%.*", text, re.MULTILINE)


def test_plugin_of_fifteen_lines_has_no_more() -> None:
    model = blocks(DOCS / "develop" / "plugin.md", "python")[0]
    assert len([line for line in model.splitlines() if line.strip() and "import" not in line]) <= 15


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_of_gallery_runs(example: Path, tmp_path: Path) -> None:
    run(["-W", "error", str(example)], tmp_path)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that makes pages from the code."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    return importlib.import_module("reference")


def test_install_page_names_every_distribution_and_extra() -> None:
    text = (DOCS / "guide" / "install.md").read_text(encoding="utf-8")
    for file in (ROOT / "pyproject.toml", *sorted((ROOT / "plugins").glob("*/pyproject.toml"))):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        assert f"| `{project['name']}` |" in text
        extras = set(project.get("optional-dependencies", {})) - {"test", "dev", "docs"}
        assert not [extra for extra in extras if not re.search(rf"\[[a-z,]*\b{extra}\b[a-z,]*\]", text)]


def test_readme_and_install_page_install_the_models_in_one_command() -> None:
    """With the root, so that pip asks no registry for a distribution of this repository."""
    models = sorted(
        path.parent.name
        for path in (ROOT / "plugins").glob("*/pyproject.toml")
        if path.parent.name not in ("manifoldseq_papers", "manifoldseq_jax")
    )
    for page in (ROOT / "README.md", DOCS / "guide" / "install.md"):
        lines = re.findall(r"^\$ pip install '\.\[cli\]' (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert lines and sorted(lines[0].split()) == [f"plugins/{name}" for name in models]


def test_reference_has_every_command_option_and_name(reference: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    pages = reference.pages()
    listed = said(capsys, "--help").partition("\nCommands:\n")[2].partition("\n\n")[0]
    found = 0
    for name in (line.split()[0] for line in listed.splitlines()):
        section = pages["command-line.rst"].split(f"\n.. program:: manifoldseq {name}\n")[1].split(".. program::")[0]
        options = said(capsys, name, "--help").partition("\nOptions:\n")[2]
        for line in re.findall(r"^  (-.*?)(?:  |$)", options, re.MULTILINE):
            texts = [text for text in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line) if text not in ("-h", "--help")]
            assert all(re.search(rf"^\.\. option::.* {text}\b", section, re.MULTILINE) for text in texts), line
            found += len(texts)
    assert found > 40
    for names in ms.hooks.__all__, ms.linalg.__all__:
        listed = [page for name, page in pages.items() if name.startswith("api/")]
        assert not [
            name for name in names if not any(re.search(rf"^(    |.. data:: ){name}$", p, re.M) for p in listed)
        ]
    for kind in ("solvers", "manifolds"):
        assert all(f"``{record.name}``" in pages["catalogue.rst"] for _, record in ms.hooks.records(kind))


def test_picture_of_the_layers_has_every_module(reference: ModuleType) -> None:
    picture = ElementTree.fromstring(reference.layers.draw())
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    modules = {path.stem for path in (ROOT / "manifoldseq").iterdir()} - {"__init__", "__pycache__", "py"}
    assert modules <= set(texts)
    assert modules == set(reference.layers.SAYS)


def test_table_of_models_is_that_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "_ext")
    page = importlib.import_module("models_table")
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.table() in text, "run: python docs/_ext/models_table.py"
    assert page.table().count("\n") > 8
