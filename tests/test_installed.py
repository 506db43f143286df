"""The engine needs its six dependencies only, every distribution works alone, and what is missing is named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from engine_alone import ABSENT, CURE
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.hooks._bundled import NAMES, is_installed
from manifoldseq.hooks._records import KINDS

ROOT = Path(__file__).parents[1]
FOLDERS = {"manifoldseq": ROOT, **{name: ROOT / "plugins" / name.replace("-", "_") for name in ms.hooks.BUNDLED}}
SETTINGS = {name: tomllib.loads((at / "pyproject.toml").read_text(encoding="utf-8")) for name, at in FOLDERS.items()}
SIX = {"numpy", "scipy", "pymanopt", "autograd", "pluggy", "threadpoolctl"}


def python(*arguments: str | Path, hidden: tuple[str, ...] = (), status: int = 0) -> str:
    """Run Python in a process of its own, with packages that cannot be imported; return what it prints."""
    script = f"""
import runpy, sys
for name in {hidden!r}:
    sys.modules[name] = None
sys.argv = {[str(one) for one in arguments]!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def requirements(name: str, extra: str | None = None) -> set[str]:
    """Return the names of the distributions that one requires."""
    project = SETTINGS[name]["project"]
    wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {re.split(r"[\[<>=! ]", one)[0] for one in wanted}


def test_the_root_requires_the_six_and_the_models_scikit_learn() -> None:
    assert requirements("manifoldseq") == SIX
    assert requirements("manifoldseq", "cli") == {"click", "tqdm", "matplotlib", "jinja2", "pandas", "scikit-learn"}
    for name in ms.hooks.BUNDLED:
        assert {"manifoldseq", "jax" if name == "manifoldseq-jax" else "scikit-learn"} <= requirements(name)
        assert not requirements(name) & {*ms.hooks.BUNDLED}, "a plugin that is installed alone needs no other"


def test_every_folder_of_a_plugin_is_a_bundled_distribution() -> None:
    assert {path.parent for path in (ROOT / "plugins").glob("*/_plugin.py")} == {*FOLDERS.values()} - {ROOT}
    for name in ms.hooks.BUNDLED:
        package = FOLDERS[name].name
        assert SETTINGS[name]["project"]["name"] == name
        entry_points = SETTINGS[name]["project"]["entry-points"]["manifoldseq"]
        assert entry_points == {package.removeprefix("manifoldseq_"): f"{package}._plugin"}


@pytest.mark.parametrize("bundled", ms.hooks.BUNDLED)
def test_the_table_of_names_is_what_the_plugin_registers(bundled: str) -> None:
    if not is_installed(bundled):
        pytest.skip(f"{bundled} is not installed")
    (plugin,) = (one for one in ms.hooks.plugins() if one.distribution == bundled)
    assert plugin.as_dict()["registers"] == {kind: names.split() for kind, names in NAMES[bundled].items()}


def test_the_table_has_every_distribution_with_an_entry_point() -> None:
    found = {point.dist.name for point in metadata.entry_points(group="manifoldseq") if point.dist}
    assert {name for name in found if name.startswith("manifoldseq-")} <= {*ms.hooks.BUNDLED}


@parametrize("kind", sorted({kind for kinds in NAMES.values() for kind in kinds}), fast=1)
@pytest.mark.parametrize("bundled", ms.hooks.BUNDLED)
def test_a_missing_name_says_which_distribution_has_it(
    bundled: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment without any plugin: every name of every distribution, plain and with the plugin's name."""
    monkeypatch.setattr("manifoldseq.hooks._bundled.is_installed", lambda name: False)
    registry = ms.hooks.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_loaded", [])
    monkeypatch.setattr(registry, "_registered", {})
    folder = bundled.replace("-", "_")
    cure = f"it is in {bundled}, which is not installed: run `pip install {bundled}`, or .* plugins/{folder}`$"
    for name in NAMES[bundled].get(kind, "").split():
        # names of solvers of jax begin with that of their plugin already
        for asked in {name, f"{folder.removeprefix('manifoldseq_')}:{name.rpartition(':')[2]}"}:
            with pytest.raises(ms.hooks.UnknownName, match=f"^unknown {kind[:-1]} '{asked}': {cure}"):
                ms.hooks.get_record(KINDS[kind], asked)
        with pytest.raises(ms.hooks.UnknownName) as caught:
            ms.hooks.get_record(KINDS[kind], f"another:{name}")
        assert "pip install" not in str(caught.value)


def test_a_record_whose_plugin_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table of a paper does without the plugin of its model."""
    monkeypatch.setattr("manifoldseq.hooks._bundled.is_installed", lambda name: False)
    for name in ("manifoldseq_lds", "manifoldseq_lds.clustering"):
        monkeypatch.setitem(sys.modules, name, None)
    record = ms.hooks.ReproductionSpec("table", "manifoldseq_lds.clustering:table")
    cure = "which is not installed: run `pip install manifoldseq-lds`"
    with pytest.raises(ImportError, match=f"^reproduction 'table' needs manifoldseq-lds, {cure}"):
        record.resolved()


@pytest.mark.slow
def test_the_engine_runs_with_the_six() -> None:
    out = python(Path(__file__).with_name("engine_alone.py"), hidden=ABSENT)
    assert f"which are {CURE}" in out and "needs more: manifoldseq.evaluation." in out


COMMAND = """
import sys
from manifoldseq.cli import main
sys.exit(main(["plugins"]))
"""


@parametrize("hidden", [ABSENT, *((name,) for name in ABSENT)], fast=2, ids=lambda hidden: "-".join(hidden))
def test_the_command_without_the_extra_is_one_line(hidden: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    out = python(tmp_path / "command.py", hidden=hidden, status=2)
    assert out.startswith("Error: the command line needs ") and out.endswith(f"{CURE}\n") and out.count("\n") == 1
    assert all(name.replace("sklearn", "scikit-learn") in out for name in hidden)


def test_an_error_inside_an_installed_package_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from manifoldseq._extras import needing

    (tmp_path / "half_installed.py").write_text("import half_installed_part.of_it")
    (tmp_path / "half_installed_part").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with (
        pytest.raises(ModuleNotFoundError, match=r"^No module named 'half_installed_part.of_it'$"),
        needing("x", "cli"),
    ):
        import half_installed  # noqa: F401  # pyright: ignore[reportMissingImports]


FITS = {
    "manifoldseq-jax": """
objective = ms.objective(lambda x: x[0], backend="jax")
result = ms.minimize(ms.Problem(ms.manifolds.Sphere(3), objective), seed=0, solver="jax:bb")
assert result.success and abs(result.fun + 1) < 1e-6
""",
    "manifoldseq-lds": """
from manifoldseq_lds import LDSKMeans
sequences = [np.cumsum(rng.standard_normal((20, 4)), axis=0) for _ in range(6)]
assert LDSKMeans(n_clusters=2, n_states=2, n_init=1, random_state=0).fit(sequences).labels_.shape == (6,)
for name in ("papers:align", "align"):
    try:
        LDSKMeans(n_clusters=2, n_states=2, mean=name).fit(sequences)
    except ValueError as error:
        assert f"'{name}': it is in manifoldseq-papers, which is not installed: run `pip install" in str(error)
    else:
        raise AssertionError
""",
    "manifoldseq-hope": """
from manifoldseq_hope import HOPE
assert HOPE(n_components=2, n_latent=2, n_init=1, random_state=0).fit(rng.standard_normal((60, 4))).n_iter_ > 0
""",
    "manifoldseq-mpcca": """
from manifoldseq_mpcca import MixturePCCA
X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
assert MixturePCCA(n_components=1, n_latent=1, random_state=0).fit(X, Y).impute(X, None)[1].shape == (60, 2)
""",
    "manifoldseq-hierarchical": """
from manifoldseq_hierarchical import HierarchicalSequenceEncoder
path = np.cumsum(rng.standard_normal((300, 8)), axis=0)
assert HierarchicalSequenceEncoder().fit(path).predict(path).shape == (300,)
""",
    "manifoldseq-sequences": """
from manifoldseq_sequences import SequenceKMeans
t = np.arange(50)[:, None]
sequences = [np.sin((0.2 + 0.4 * (i % 2)) * t) + 0.1 * rng.standard_normal((50, 1)) for i in range(12)]
model = SequenceKMeans(n_clusters=2, random_state=0).fit(sequences)
assert "dynamics" not in model.weights_ and len(set(model.labels_[::2].tolist())) == 1
""",
    "manifoldseq-papers": """
from manifoldseq_papers import deltas, filter_bank
energies = filter_bank(rng.standard_normal(8000), 16000)
assert np.isfinite(energies).all() and deltas(energies).shape == energies.shape
try:
    ms.hooks.get_reproduction("lds-fig1")
except ImportError as error:
    assert "needs manifoldseq-lds, which is not installed: run `pip install manifoldseq-lds`" in str(error)
else:
    raise AssertionError
""",
}
ALONE = """
import sys, warnings
import numpy as np
import manifoldseq as ms
rng = np.random.default_rng(0)
assert [plugin.distribution for plugin in ms.hooks.plugins()] == ["{bundled}"]
assert ms.hooks.plugins()[0].status == "ok"
import {package}
names = {package}.__all__
for name in names:
    try:
        getattr({package}, name)
    except ImportError as error:
        assert "pip install" in str(error), (name, error)
{fit}
assert "click" not in sys.modules and "matplotlib" not in sys.modules
print(ms.__file__)
"""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build every distribution, as a wheel from its source distribution."""
    dist = tmp_path_factory.mktemp("dist")
    for folder in FOLDERS.values():
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, folder)
    return {name: next(dist.glob(f"{name.replace('-', '_')}-*.whl")) for name in FOLDERS}


def run(*command: str | Path, cwd: Path | None = None, accepted: tuple[int, ...] = (0,)) -> str:
    """Run a program of an environment, which sees nothing of this one; return what it prints, errors too."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = [str(part) for part in command]
    done = subprocess.run(told, cwd=cwd, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode in accepted, done.stdout + done.stderr
    return done.stdout + done.stderr


def pip(folder: Path, *arguments: str | Path) -> None:
    """Run pip in an environment."""
    run(folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def environment(folder: Path, *requirements: str | Path) -> Path:
    """Make an environment with distributions and what they require; return its folder of programs."""
    run(sys.executable, "-m", "venv", folder)
    pip(folder, "install", *requirements)
    return folder / "bin"


@pytest.mark.slow
def test_wheels_hold_their_package_only(wheels: dict[str, Path]) -> None:
    for name, wheel in wheels.items():
        package = name.replace("-", "_")
        held = {file for file in ZipFile(wheel).namelist() if f"{package}-" not in file.partition("/")[0]}
        folder = FOLDERS[name] / ("manifoldseq" if name == "manifoldseq" else "")
        sources = {
            f"{package}/{file.relative_to(folder).as_posix()}"
            for file in folder.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
            and file.relative_to(folder).as_posix() not in ("pyproject.toml", "README.md", "speech.md")
        }  # fmt: skip
        assert held == sources and f"{package}/py.typed" in held


@pytest.mark.slow
def test_the_engine_is_installed_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", wheels["manifoldseq"])
    listed = json.loads(run(programs / "python", "-m", "pip", "list", "--format", "json"))
    assert {one["name"].lower() for one in listed} - {"pip", "setuptools"} == {"manifoldseq", *SIX}
    command = [programs / "python", "-I", "-W", "error", Path(__file__).with_name("engine_alone.py")]
    assert "needs more: manifoldseq.evaluation." in run(*command, cwd=tmp_path)
    said = run(programs / "manifoldseq", "plugins", accepted=(2,))
    assert said.endswith(f"which are {CURE}\n") and said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("bundled", ms.hooks.BUNDLED)
def test_a_plugin_is_installed_alone(bundled: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    """With the engine and no command line; then with it, the conformance of what it registers."""
    package = FOLDERS[bundled].name
    programs = environment(tmp_path / "venv", wheels["manifoldseq"], wheels[bundled])
    code = ALONE.format(bundled=bundled, package=package, fit=FITS[bundled])
    assert str(tmp_path / "venv") in run(programs / "python", "-I", "-W", "error", "-c", code, cwd=tmp_path)
    pip(tmp_path / "venv", "install", f"{wheels['manifoldseq']}[cli]")
    intended = ("--import-only", "estimators", "--import-only", "datasets")
    out = run(programs / "manifoldseq", "check", package, *intended, cwd=tmp_path, accepted=(0, 3))  # 3: without torch
    assert "tested and passed" in out and "FAILED" not in out
    if bundled == "manifoldseq-papers":  # all but its reader needs the plugins of the models
        names = NAMES[bundled]["reproductions"].split()
        n_needing = sum(len(some.split()) for kind, some in NAMES[bundled].items() if kind != "readers")
        assert f"{n_needing} skipped (they need a plugin that is not installed)" in out
        assert "needs manifoldseq-lds, which is not installed: run `pip install manifoldseq-lds`" in out
        listed = json.loads(run(programs / "manifoldseq", "list", "reproductions", "--json", cwd=tmp_path))
        assert [row["name"] for row in listed] == names


@pytest.mark.slow
def test_all_distributions_are_installed_together(wheels: dict[str, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", f"{wheels['manifoldseq']}[cli]", *(wheels[name] for name in FITS))
    listed = json.loads(run(programs / "manifoldseq", "list", "plugins", "--json", cwd=tmp_path))
    assert {one["distribution"]: one["status"] for one in listed} == dict.fromkeys(ms.hooks.BUNDLED, "ok")
    for gone in ms.hooks.BUNDLED:  # one is uninstalled: the others are as before
        pip(tmp_path / "venv", "uninstall", "--yes", gone)
        listed = json.loads(run(programs / "manifoldseq", "list", "plugins", "--json", cwd=tmp_path))
        left = {name: "ok" for name in ms.hooks.BUNDLED if name != gone}
        assert {one["distribution"]: one["status"] for one in listed} == left
        for estimator in NAMES[gone].get("estimators", "").split()[:1]:
            said = run(programs / "manifoldseq", "fit", estimator, "data.npz", cwd=tmp_path, accepted=(2,))
            assert f"run `pip install {gone}`" in said and said.count("\n") == 1
        pip(tmp_path / "venv", "install", "--no-deps", wheels[gone])
