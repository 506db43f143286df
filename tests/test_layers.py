"""The repository is consistent: make targets, versions, layers and maps of packages, files per folder, skips."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers import parametrize

import manifoldseq as ms

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
OF_PLUGINS = {
    file.parent: tomllib.loads(file.read_text(encoding="utf-8"))
    for file in sorted((ROOT / "plugins").glob("*/pyproject.toml"))
}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = """
    demo test test-all docs faults bench bench-engine bench-lds bench-hope bench-mpcca bench-hierarchical bench-scale
""".split()


def test_makefile_has_every_target() -> None:
    missing = [target for target in TARGETS if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)]
    assert not missing


@pytest.mark.parametrize(
    ("peer", "folder"), [("geoopt", "hope"), ("gtsam", "engine"), ("geojax", "engine"), ("optax", "engine")]
)
def test_benchmarks_that_use_a_peer_install_it(peer: str, folder: str) -> None:
    """Sections without their peers are skipped, together with their targets."""
    files = (ROOT / "benchmarks").glob("*/*.py")
    asks = re.compile(rf'(find_spec\(|_missing\(session, )"{peer}"')
    folders = {file.parent.name for file in files if asks.search(file.read_text(encoding="utf-8"))}
    assert folder in folders
    assert re.search(rf"\(PEERS\): .*\n.* {peer}\b", MAKEFILE)
    assert not [name for name in folders if not re.search(rf"^bench-{name}: \$\(PEERS\)$", MAKEFILE, re.MULTILINE)]


def test_names_that_benchmarks_import_from_this_project_exist() -> None:
    """Benchmarks import within functions, which run only in `make bench`."""
    absent = []
    for file in sorted((ROOT / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("manifoldseq"):
                if node.module == "manifoldseq.torch" and find_spec("torch") is None:
                    continue
                module = importlib.import_module(node.module or "")
                names = [f"{node.module}.{name.name}" for name in node.names if not hasattr(module, name.name)]
                absent += [f"{file}: {name}" for name in names if find_spec(name) is None]
    assert not absent


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert metadata.version("manifoldseq") == ms.__version__ == version
    assert {settings["project"]["version"] for settings in OF_PLUGINS.values()} == {version}
    series = re.match(r"[0-9]+\.[0-9]+", version)
    assert series and all(
        f"manifoldseq>={series[0]},<0.{int(series[0][2:]) + 1}" in settings["project"]["dependencies"]
        for settings in OF_PLUGINS.values()
    )
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_readme_names_only_make_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z-]+)", readme))
    assert {"demo", "test", "test-all"} <= named
    assert not [target for target in named if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)]


def test_torch_is_in_no_collective_extra() -> None:
    for settings in (SETTINGS, *OF_PLUGINS.values()):
        extras = settings["project"].get("optional-dependencies", {})
        assert not [extra for extra in set(extras) - {"torch"} if any("torch" in name for name in extras[extra])]


def test_every_package_is_marked_as_typed() -> None:
    assert all((package / "py.typed").is_file() for package in (ROOT / "manifoldseq", *OF_PLUGINS))


def test_the_makefile_installs_every_plugin() -> None:
    """In one command with the root, so that no registry is asked for a distribution of this repository."""
    (plugins,) = re.findall(r"^PLUGINS := (.*)$", MAKEFILE, re.MULTILINE)
    assert {f"manifoldseq_{name}" for name in plugins.split()} == {folder.name for folder in OF_PLUGINS}


def test_continuous_integration_runs_both_test_targets() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make test", "make test-all"]


def test_every_private_module_is_forbidden_to_plugins() -> None:
    contracts = {contract["name"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
    forbidden = contracts["Plugins use only public names of manifoldseq and its packages"]["forbidden_modules"]
    private = {f"manifoldseq.{file.stem}" for file in (ROOT / "manifoldseq").glob("_[a-z]*.py")}
    assert private <= set(forbidden)


@pytest.mark.parametrize("package", ["linalg", "manifolds"])
def test_a_foundation_is_imported_from_its_package(package: str) -> None:
    """No other package of the core imports one of its private files."""
    private = re.compile(rf"from \.+{package}\._\w+ import|from manifoldseq\.{package}\._\w+ import")
    files = [file for file in (ROOT / "manifoldseq").rglob("*.py") if package not in file.parts]
    assert not [file for file in files if private.search(file.read_text(encoding="utf-8"))]


PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("manifoldseq_*/_plugin.py"))


def rows_of_map(plugin: str) -> list[str]:
    """Return the rows of the map in the docstring of a plugin, each on one line."""
    docstring = ast.get_docstring(ast.parse((ROOT / "plugins" / plugin / "_plugin.py").read_text(encoding="utf-8")))
    _, *rows = re.split(r"^\* ", docstring or "", flags=re.MULTILINE)
    return [" ".join(row.replace("``", "`").split()) for row in rows]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_map_of_a_plugin_names_every_file_and_no_other(plugin: str) -> None:
    folder = ROOT / "plugins" / plugin
    files = {path.stem for path in folder.rglob("_*.py")} - {"__init__", "_plugin"}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    rows = rows_of_map(plugin)
    assert set(re.findall(r"`(_\w+)`", " ".join(rows))) == files
    assert packages <= {row.split(":")[0].strip("`/") for row in rows}


def test_the_page_of_files_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    files = importlib.import_module("files")
    page = files.page()
    assert files.PAGE.read_text(encoding="utf-8") == page, "run python docs/_ext/files.py"
    assert not [line for line in page.splitlines() if line.endswith("`: ")]  # no docstring


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_architecture_shows_the_map_of_a_plugin(plugin: str) -> None:
    page = (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8")
    shown = page.partition(f"`plugins/{plugin}/`")[2].partition("\n#")[0]
    assert [" ".join(row.split()) for row in re.split(r"^\* ", shown, flags=re.MULTILINE)[1:]] == rows_of_map(plugin)


@pytest.mark.parametrize("folder", ["manifoldseq", *(f"plugins/{plugin}" for plugin in PLUGINS)])
def test_folders_have_few_files(folder: str) -> None:
    """At most twenty files in a folder; `manifolds` and `solvers`, one kind to a file, thirty-two."""
    for package in {path.parent for path in (ROOT / folder).rglob("*.py")}:
        most = 33 if package.name in ("manifolds", "solvers") else 20
        assert len(list(package.glob("*.py"))) <= most, package


@parametrize("listed", [True, False], fast=1)
def test_only_a_listed_skip_passes(tmp_path: Path, listed: bool) -> None:
    """A skipped test and a skipped file both fail under --strict-skips unless they are listed."""
    allowed = "# id # reason\ntest_one.py::test_skipped # later\ntest_two.py # no package\n" if listed else ""
    (tmp_path / "allowed_skips.txt").write_text(allowed)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_one.py").write_text(
        "import pytest\ndef test_skipped(): pytest.skip('later')\ndef test_ok(): pass\n"
    )
    (tmp_path / "test_two.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    command = [sys.executable, "-m", "pytest", "-q", "--strict-skips", "--continue-on-collection-errors"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ("1 passed, 2 skipped" if listed else "1 failed, 1 passed, 1 error") in done.stdout
    assert (done.returncode == 0) is listed
