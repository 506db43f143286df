"""``--plugin FILE.py`` and ``FILE.py:NAME`` from the shell: every kind of record, errors, and what runs remember."""

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from strangers.distributions import command

import manifoldseq as ms

STRANGERS = Path(__file__).parents[1] / "strangers"
DIAGONAL, MOMENTS = STRANGERS / "diagonal_mixture.py", STRANGERS / "fourth_moments.py"
Run = Callable[..., tuple[int, str, str]]
OBJECTS = '''
import numpy as np
import manifoldseq as ms
from manifoldseq.storage import SequenceData
from neighbour import SIZE

@ms.kernel(domain="lds")
def overlap(first, second):
    """Overlap of the first steps of two systems."""
    return (first[1].T @ second[1] * (first[1].T @ second[1])).sum()

def begin(problem, rng):
    K, D = problem.manifold.shape[1]
    return np.full(K, 1 / K), 3.0 * np.eye(K, D)

def read_bars(path):
    """Read numbers with bars between them."""
    return SequenceData([np.loadtxt(path, delimiter="|")])

def walks():
    rng = np.random.default_rng(0)
    return SequenceData([rng.standard_normal((SIZE, 2)).cumsum(axis=0) for _ in range(6)])

class Steps(ms.solvers.LBFGS):
    """Another solver."""

def table(scale=1.0):
    return [{"model": "m", "metric": "error", "ours": 2.0 * scale, "paper": 3.0}]
'''
STOPS = """
import os
_maximized, calls = DiagonalGaussians.maximized, []
def stopping(self, point, sums):
    calls.append(1)
    if len(calls) == 4 and os.path.exists("stop"):
        raise KeyboardInterrupt
    return _maximized(self, point, sums)
DiagonalGaussians.maximized = stopping
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a table of two groups, and the plugins in one file."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(centre, 0.6, (40, 3)) for centre in (-1, 1)])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "rows.bars", rows, delimiter="|")
    (tmp_path / "objects.py").write_text(OBJECTS)
    (tmp_path / "neighbour.py").write_text("SIZE = 20\n")
    for file in (DIAGONAL, MOMENTS):
        (tmp_path / file.name).write_text(file.read_text())
    with (tmp_path / DIAGONAL.name).open("a") as file:
        file.write("\ndef behind_axes(problem, rng):\n    return problem.initializers['pca'](problem, rng)\n")
    return tmp_path


@pytest.fixture
def shell(place: Path) -> Callable[..., str]:
    """Return a function that runs a command in the folder and returns what it prints; it has to end well."""

    def run(*arguments: str, status: int = 0) -> str:
        done = command(None, *arguments, cwd=place)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


def about(folder: Path) -> dict[str, Any]:
    """Return run.json."""
    return json.loads((folder / "run.json").read_text())


@pytest.mark.slow
def test_estimator_and_model_of_one_file_from_the_shell(place: Path, shell: Callable[..., str]) -> None:
    fit = ("diagonal-mixture", "rows.csv", "--no-quality", "-o")
    out = shell("--plugin", "diagonal_mixture.py", "fit", *fit, "before")
    shell("fit", "--plugin", "diagonal_mixture.py", *fit, "after")
    assert (place / "before/model.npz").read_bytes() == (place / "after/model.npz").read_bytes()
    made_by = about(place / "before")["made_by"]
    assert list(made_by) == ["model", "initializer", "update em", "solver"]
    assert made_by["model"].startswith("diagonal_mixture:diagonal-gaussians ")
    assert made_by["solver"].startswith("manifoldseq:em ")
    printed = [line.split(maxsplit=1) for line in out.partition("made by\n")[2].splitlines()[:4]]
    assert [line[0] for line in printed] == ["model", "initializer", "update", "solver"]
    assert printed[0][1] == made_by["model"]
    page = (place / "before/report.html").read_text()
    assert "<h4>Made by</h4>" in page and made_by["initializer"] in page and "file diagonal_mixture.py" in page
    # the run repeats the file, and says that it is missing where it is not given
    assert tomllib.loads((place / "before/run.toml").read_text())["plugins"] == [str(place / "diagonal_mixture.py")]
    shell("fit", "--config", "before/run.toml", "--no-quality", "-o", "again")
    assert (place / "before/model.npz").read_bytes() == (place / "again/model.npz").read_bytes()
    said = shell("apply", "before", "rows.csv", "-o", "c.csv", status=2)
    assert f"--plugin {place / 'diagonal_mixture.py'}" in said
    shell("apply", "before", "rows.csv", "-o", "c.csv", "--plugin", "diagonal_mixture.py")
    lines = (place / "c.csv").read_text().splitlines()
    assert len(lines) == 81 and "prediction" in lines[0]
    with pytest.raises(ValueError, match=r"an estimator 'diagonal-mixture' of .*diagonal_mixture"):
        ms.load(place / "before")
    (place / "diagonal_mixture.py").unlink()
    said = shell("fit", "--config", "before/run.toml", "-o", "gone", status=2)
    assert "names the plugin file" in said and "which does not exist: pass it by --plugin" in said


@pytest.mark.slow
def test_initializer_and_cost_of_one_file_are_used_by_name(place: Path, shell: Callable[..., str]) -> None:
    fit = ("fit", "vmf-mixture", "rows.csv", "--plugin", "fourth_moments.py", "--set", "n_components=2", "--no-quality")
    shell(*fit, "--set", "init=fourth-moments", "-o", "start")
    assert about(place / "start")["made_by"]["initializer"].startswith("fourth-moments of fourth_moments:")
    shell(*fit, "--set", "model=sparse-vmf", "--set", "solver=lbfgs", "-o", "cost")
    shell(*fit, "--set", "solver=lbfgs", "-o", "plain")
    made_by = about(place / "cost")["made_by"]
    assert made_by["model"].startswith("fourth_moments:sparse-vmf ") and "update em" not in made_by
    sparse, plain = ms.load(place / "cost"), ms.load(place / "plain")
    assert plain.objective_ < sparse.objective_ <= plain.objective_ + 0.01 * np.abs(plain.parameters_[0]).sum() + 1e-6


@pytest.mark.slow
def test_names_in_files_wherever_a_name_is_asked_for(place: Path, shell: Callable[..., str]) -> None:
    systems = ("--set", "n_clusters=2", "--set", "n_states=1", "--set", "max_iter=2", "--no-quality")
    shell("fit", "lds-kmeans", "objects.py:walks", "--set", "kernel=objects.py:overlap", *systems, "-o", "kernel")
    settings = tomllib.loads((place / "kernel/run.toml").read_text())
    assert (
        settings["set"]["kernel"] == f"{place}/objects.py:overlap" and settings["data"] == f"{place}/objects.py:walks"
    )
    said = shell("apply", "kernel", "rows.csv", "-o", "c.csv", status=2)
    assert "objects.py" in said and "--plugin" in said
    shell("apply", "kernel", "objects.py:walks", "-o", "c.csv", "--plugin", "objects.py")
    shell("fit", "--config", "kernel/run.toml", "--no-quality", "-o", "again")
    assert (place / "kernel/model.npz").read_bytes() == (place / "again/model.npz").read_bytes()

    rows = ("fit", "vmf-mixture", "rows.bars", "--read", "reader=objects.py:read_bars", "--set", "n_components=2")
    shell(*rows, "--set", "init=./objects.py:begin", "--no-quality", "-o", "start")
    assert "begin of objects:begin" in about(place / "start")["made_by"]["initializer"]
    # the model of this one depends on its family
    shell("fit", "hope", "rows.csv", "--set", "n_components=2", "--set", "n_latent=2", "--set", "family=gmm", "--set",
          "init=diagonal_mixture.py:behind_axes", "--no-quality", "-o", "family")  # fmt: skip
    assert "behind_axes of diagonal_mixture:" in about(place / "family")["made_by"]["initializer"]
    shell("solve", "hope.vmf", "rows.csv", "--set", "n_components=2", "--solver", "objects.py:Steps", "--init",
          "objects.py:begin", "--tol", "1e-6", "-o", "solved")  # fmt: skip
    assert tomllib.loads((place / "solved/run.toml").read_text())["solver"] == f"{place}/objects.py:Steps"
    shell("fit", "diagonal_mixture.py:DiagonalMixture", "rows.csv", "--no-quality", "-o", "class")
    shell("solve", "./diagonal_mixture.py:diagonal-gaussians", "rows.csv", "-o", "model")
    assert "4" in shell("reproduce", "objects.py:table", "--set", "scale=2")


@parametrize(
    ("text", "said"),
    [
        ("import manifoldseq as ms\n\ndef f(:\n", ("bad.py, line 3", "SyntaxError")),
        ("\nimport no_such_module\n", ("bad.py, line 2", "No module named 'no_such_module'")),
        ("import sys\nsys.exit(3)\n", ("bad.py, line 2", "SystemExit: 3")),
        ("def manifoldseq_models():\n    yield\n", ("bad.py, line 1", "without @manifoldseq.hookimpl")),
        ("HOOKmodles():\n    yield\n", ("bad.py, line 3", "did you mean manifoldseq_models?")),
        ("HOOKmodels(data):\n    yield\n", ("bad.py, line 3", "declared in the hookimpl")),
        ("HOOKmodels():\n    yield ms.hooks.ModelSpec('x')\n", ("bad.py, line 5", "ModelSpec 'x'|Model 'x'")),
        ("HOOKkernels():\n    yield 3\n", ("bad.py, line 3", "yield manifoldseq.hooks.KernelSpec records")),
        ("from wrong import x\n", ("wrong.py, line 2", "ZeroDivisionError")),
    ],
    fast=4,
)
def test_faults_of_a_file_are_one_message_with_its_line(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: tuple[str, ...]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (place / "wrong.py").write_text("y = 0\nx = 1 / y\n")
    (place / "bad.py").write_text(text.replace("HOOK", "import manifoldseq as ms\n\n@ms.hookimpl\ndef manifoldseq_"))
    for arguments in (("--plugin", "bad.py", "list", "models"), ("list", "models", "--plugin", "bad.py")):
        status, out, err = run(*arguments)
        assert (status, out) == (2, "") and err.startswith("Error: ") and err.count("\n") == 1, err
        assert all(any(one in err for one in part.split("|")) for part in said), err


def test_a_file_that_is_not_python_is_told(run: Run, place: Path) -> None:
    (place / "notes.txt").write_text("x = 1\n")
    status, _, err = run("list", "--plugin", str(place / "notes.txt"))
    assert status == 2 and err == f"Error: {place}/notes.txt is not a Python file: its name must end in .py\n"


def test_a_file_without_hooks_is_warned_of(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "idle.py").write_text("x = 1\n")
    status, _, err = run("list", "models", "--plugin", "idle.py")
    assert (
        status == 0
        and err == "Warning: idle.py: the file registers no records: pass the objects of the file as idle.py:NAME\n"
    )


@pytest.mark.slow
def test_files_of_one_stem_and_names_of_two_files(place: Path, shell: Callable[..., str]) -> None:
    for folder in ("one", "two"):
        (place / folder).mkdir()
        (place / folder / "mine.py").write_text(
            f"import manifoldseq as ms\nfrom helper_{folder} import made\n@ms.hookimpl\ndef manifoldseq_datasets():\n"
            f"    yield ms.hooks.DatasetSpec('same', made)\n    yield ms.hooks.DatasetSpec('only-{folder}', made)\n"
        )
        (place / folder / f"helper_{folder}.py").write_text(
            "import numpy as np\nfrom manifoldseq.storage import SequenceData\n"
            f"def made(): return SequenceData([np.full((6, 2), {len(folder)} + i) for i in range({len(folder)})])\n"
        )
    both = ("--plugin", "one/mine.py", "--plugin", "two/mine.py")
    listed = {record["name"]: record["plugin"] for record in json.loads(shell(*both, "list", "datasets", "--json"))}
    assert listed["only-one"] == "mine" and listed["only-two"] == "two_mine"
    said = shell(*both, "fit", "statistics", "same", status=2)
    assert "use 'mine:same' or 'two_mine:same'" in said
    assert str(place / "one/mine.py") in said and str(place / "two/mine.py") in said


@pytest.mark.slow
def test_a_file_may_have_the_name_of_another_module(place: Path, shell: Callable[..., str]) -> None:
    text = (place / "diagonal_mixture.py").read_text()
    for name in ("json.py", "hope.py"):  # of the standard library, and of an installed plugin
        folder = place / f"in_{name[:-3]}"
        folder.mkdir()
        (folder / name).write_text(text)
        records = json.loads(shell("list", "estimators", "--json", "--plugin", f"in_{name[:-3]}/{name}"))
        (found,) = [record for record in records if record["name"] == "diagonal-mixture"]
        assert found["plugin"] == f"in_{name[:-3]}_{name[:-3]}"


@pytest.mark.slow
def test_resume_asks_for_the_file_as_it_was(place: Path, shell: Callable[..., str]) -> None:
    file = place / "diagonal_mixture.py"
    file.write_text(file.read_text() + STOPS)
    fit = ("fit", "diagonal-mixture", "rows.csv", "--no-quality", "--checkpoint-every", "0")
    given = ("--plugin", "diagonal_mixture.py")
    shell(*given, *fit, "-o", "whole")
    (place / "stop").touch()
    shell(*given, *fit, "-o", "run", status=130)
    (place / "stop").unlink()
    assert about(place / "run")["state"] == "interrupted"
    said = shell(*fit, "-o", "run", "--resume", status=2)
    assert f"was made with a plugin file that was not passed: add --plugin {file}" in said
    text = file.read_text()
    file.write_text(text + "\n# another line\n")
    said = shell(*given, *fit, "-o", "run", "--resume", status=2)
    assert f"the plugin file {file} has changed since the run in run" in said
    file.write_text(text)
    shell(*given, *fit, "-o", "run", "--resume")
    assert (place / "run/model.npz").read_bytes() == (place / "whole/model.npz").read_bytes()


def test_resume_under_another_record_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ms.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    X = np.random.default_rng(0).standard_normal((50, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    store = ms.storage.Checkpoint(tmp_path / "state", 0.0, "of the caller")
    mixture = ms.get_estimator("vmf-mixture")(2, random_state=0, max_iter=3, tol=0)
    mixture.fit(X, checkpoint=store)
    before = mixture.provenance_["model"]
    ms.register(ms.hooks.ModelSpec("hope.vmf", base="hope:hope.vmf", summary="The same, registered again"))
    with pytest.raises(ms.storage.CheckpointError, match="was written with model") as caught:
        mixture.fit(X, checkpoint=store, resume=True)
    assert before in str(caught.value) and "but this run has model session:hope.vmf" in str(caught.value)
    assert "solver" not in str(caught.value), "what is the same is not named"


def test_completion_knows_the_names_of_a_file(place: Path) -> None:
    words = "manifoldseq fit --plugin diagonal_mixture.py dia"
    done = command(None, cwd=place, _MANIFOLDSEQ_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="4")
    assert done.stdout.split() == ["plain,diagonal-mixture"]


@pytest.mark.slow
def test_completion_is_without_the_names_of_a_broken_file(place: Path) -> None:
    words = "manifoldseq --plugin broken.py fit statistics-k"
    (place / "broken.py").write_text("1 / 0")
    done = command(None, cwd=place, _MANIFOLDSEQ_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="4")
    assert done.stdout.split() == ["plain,statistics-kmeans"] and "Traceback" not in done.stderr
