"""The repository keeps its promises: make targets, shipped files, one version, a wheel that works anywhere."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

import manifoldseq as ms

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = """
    demo test test-all docs faults bench bench-engine bench-lds bench-hope bench-mpcca bench-hierarchical bench-scale
""".split()


def test_makefile_has_every_target() -> None:
    missing = [target for target in TARGETS if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)]
    assert not missing


def test_benchmarks_beside_geoopt_install_it() -> None:
    """Sections without their peers are skipped, and their floors with them."""
    files = (ROOT / "benchmarks").glob("*/*.py")
    folders = {file.parent.name for file in files if 'find_spec("geoopt")' in file.read_text(encoding="utf-8")}
    assert "hope" in folders
    assert not [name for name in folders if not re.search(rf"^bench-{name}: \$\(PEERS\)$", MAKEFILE, re.MULTILINE)]


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert metadata.version("manifoldseq") == ms.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_readme_names_only_make_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z-]+)", readme))
    assert {"demo", "test", "test-all"} <= named
    assert not [target for target in named if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)]


def test_torch_is_in_no_collective_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    assert not [extra for extra in set(extras) - {"torch"} if any("torch" in name for name in extras[extra])]


def test_every_package_is_marked_as_typed() -> None:
    packages = [ROOT / path for path in SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    assert ROOT / "manifoldseq" in packages
    assert all((package / "py.typed").is_file() for package in packages)


def test_continuous_integration_runs_both_test_targets() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make test", "make test-all"]


FIT = """
import numpy as np, manifoldseq as ms
from manifoldseq_lds import LDSKMeans
rng = np.random.default_rng(0)
sequences = [np.cumsum(rng.standard_normal((20, 4)), axis=0) for _ in range(6)]
model = LDSKMeans(n_clusters=2, n_states=2, n_init=1, random_state=0).fit(sequences)
assert model.labels_.shape == (6,)
print(ms.__file__)
"""


@pytest.mark.slow
def test_built_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    """Build, install into a second clean environment, and use it from another directory."""

    def run(*command: str | Path) -> str:
        done = subprocess.run([str(part) for part in command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    assert str(tmp_path / "venv") in run(python, "-I", "-W", "error", "-c", FIT)
    listed = json.loads(run(tmp_path / "venv" / "bin" / "manifoldseq", "plugins", "--json"))
    assert "lds" in json.dumps(listed)
    assert all(name in json.dumps(listed) for name in ("hierarchical", "mpcca", "hope"))
    packages = list((tmp_path / "venv").glob("lib/python3*/site-packages/manifoldseq*/py.typed"))
    bundled = {f"manifoldseq_{name}" for name in ("lds", "hierarchical", "mpcca", "hope")}
    assert {path.parent.name for path in packages} == {"manifoldseq", *bundled}
    assert "pip install plugins/manifoldseq_papers" in run(tmp_path / "venv" / "bin" / "manifoldseq", "reproduce")
    # the papers beside it, from their own folder
    papers = ROOT / "plugins" / "manifoldseq_papers"
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "papers", papers)
    (wheel,) = (tmp_path / "papers").glob("*.whl")
    names = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert names == {"manifoldseq_papers", f"manifoldseq_papers-{PROJECT['version']}.dist-info"}
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", wheel)
    rows = json.loads(run(tmp_path / "venv" / "bin" / "manifoldseq", "reproduce", "--json"))
    assert {row["name"] for row in rows} >= {"lds-fig1", "hope-table2", "mpcca-fusion", "hierarchical-storage"}


def test_every_private_module_is_forbidden_to_plugins() -> None:
    contracts = {contract["name"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
    forbidden = contracts["Plugins use only public names: manifoldseq and its rooms"]["forbidden_modules"]
    private = {f"manifoldseq.{file.stem}" for file in (ROOT / "manifoldseq").glob("_[a-z]*.py")}
    assert private <= set(forbidden)


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
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    rows = rows_of_map(plugin)
    assert set(re.findall(r"`(_\w+)`", " ".join(rows))) == files
    assert rooms <= {row.split(":")[0].strip("`/") for row in rows}


def test_the_page_of_files_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    files = importlib.import_module("files")
    assert files.PAGE.read_text(encoding="utf-8") == files.page(), "run python docs/_ext/files.py"
    assert not [line for line in files.page().splitlines() if line.endswith("`: ")]  # no docstring


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_architecture_shows_the_map_of_a_plugin(plugin: str) -> None:
    page = (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8")
    shown = page.partition(f"`plugins/{plugin}/`")[2].partition("\n#")[0]
    assert [" ".join(row.split()) for row in re.split(r"^\* ", shown, flags=re.MULTILINE)[1:]] == rows_of_map(plugin)


@pytest.mark.parametrize("folder", ["manifoldseq", *(f"plugins/{plugin}" for plugin in PLUGINS)])
def test_no_folder_is_a_cellar(folder: str) -> None:
    """At most twenty files in a folder; `manifolds` and `solvers`, one kind to a file, thirty."""
    for room in {path.parent for path in (ROOT / folder).rglob("*.py")}:
        most = 30 if room.name in ("manifolds", "solvers") else 20
        assert len(list(room.glob("*.py"))) <= most, room


@pytest.mark.parametrize("listed", [True, False])
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
