"""``manifoldseq solve``: registered models, and problems in a file without packaging."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import needs

import manifoldseq as ms

Run = Callable[..., tuple[int, str, str]]

FILE = '''
from dataclasses import dataclass
import numpy as np
import manifoldseq as ms

@dataclass
class Setting:
    target: float

def build(data, *, target=0.0, columns=1):
    """The point of the sphere that the mean of the data points to."""
    if columns != 1:
        raise ValueError("columns=2 is not valid: pass 1")
    mean = np.concatenate(data).mean(axis=0)[:, None] + Setting(target).target
    problem = ms.Problem(
        ms.manifolds.Stiefel(len(mean), 1),
        ms.objective(lambda X: -float((X * mean).sum()), lambda X: -mean),
        {"first": lambda p, rng: np.eye(len(mean), 1), "last": lambda p, rng: np.eye(len(mean), 1)[::-1].copy()},
    )
    return problem

def alone(size=2):
    return ms.Problem(ms.manifolds.Euclidean(size), ms.objective(lambda x: ((x - 1) ** 2).sum(), lambda x: 2 * (x - 1)))

def wrong(data):
    return 3

problem = alone(3)
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Return a file with problems."""
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def test_function_of_a_file_with_data(run: Run, mine: Path, tmp_path: Path) -> None:
    status, out, err = run("solve", f"{mine}:build", "two-levels", "--set", "target=2.5", "-o", tmp_path / "run")
    assert (status, err) == (0, "")
    result = ms.load(tmp_path / "run")
    mean = np.concatenate(ms.hooks.get_dataset("two-levels").loader().sequences).mean(axis=0) + 2.5
    assert np.allclose(result.x[:, 0], mean / np.linalg.norm(mean), atol=1e-5)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        ".lock", "history.csv", "metrics.json", "model.json", "model.npz", "report.html", "run.json", "run.toml",
    ]  # fmt: skip
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["fun"] == result.fun and metrics["success"] == 1 and metrics["nit"] == result.nit
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["state"] == "done" and about["message"] == result.message
    assert f"{result.fun:.10g}" in out and result.message in out


def test_problem_and_function_without_data(run: Run, mine: Path, tmp_path: Path) -> None:
    assert run("solve", f"{mine}:problem", "-o", tmp_path / "one")[0] == 0
    assert np.allclose(ms.load(tmp_path / "one").x, np.ones(3))
    assert run("solve", f"{mine}:alone", "--set", "size=4", "--solver", "pgd", "-o", tmp_path / "two")[0] == 0
    assert ms.load(tmp_path / "two").x.shape == (4,)


def test_start_solver_options_and_stopping(run: Run, mine: Path, tmp_path: Path) -> None:
    options = ("--init", "last", "--set", "solver.memory=3", "--max-iter", "0", "--tol", "1e-3", "--seed", "4")
    assert run("solve", f"{mine}:build", "two-levels", *options, "-o", tmp_path / "run")[0] == 1
    result = ms.load(tmp_path / "run")
    assert result.nit == 0 and result.x.ravel().tolist() == [0, 1] and result.status is ms.Status.MAX_ITERATIONS
    settings = tomllib.loads((tmp_path / "run" / "run.toml").read_text())
    assert settings["set"] == {"solver.memory": 3} and settings["init"] == "last" and settings["max_iter"] == 0


def test_without_success_everything_is_written_and_the_status_is_1(run: Run, mine: Path, tmp_path: Path) -> None:
    command = ("solve", f"{mine}:build", "two-levels", "--max-iter", "0", "-o", tmp_path / "run")
    status, out, err = run(*command)
    assert (status, err) == (1, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "MAX_ITERATIONS: The maximum number of iterations was reached." in lines["status"]
    assert float(lines["feasibility"].split()[-1]) == ms.load(tmp_path / "run").feasibility == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["success"] == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "done"
    assert (tmp_path / "run" / "report.html").is_file()
    status, out, _ = run(*command, "--resume")
    assert status == 1 and "is finished: nothing to resume" in out, "a finished run keeps its exit status"
    assert run(*command[:3], "-o", tmp_path / "solved")[0] == 0
    assert run(*command[:3], "-o", tmp_path / "solved", "--resume")[0] == 0


def test_constraints_that_cannot_be_met_are_no_success(run: Run, tmp_path: Path) -> None:
    (tmp_path / "impossible.py").write_text(
        "import manifoldseq as ms\n"
        "f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x)\n"
        "never = ms.objective(lambda x: float(x @ x) + 1, lambda x: 2 * x)\n"
        "problem = ms.Problem(ms.manifolds.Euclidean(2), f, equalities=(never,))\n"
    )
    model = f"{tmp_path / 'impossible.py'}:problem"
    status, out, _ = run("solve", model, "--solver", "augmented-lagrangian", "--max-iter", "40", "-o", tmp_path / "run")
    assert status == 1
    (line,) = [line for line in out.splitlines() if line.startswith("feasibility")]
    assert float(line.split()[-1]) >= 1, "the least violation of x·x + 1 = 0 is 1"


def test_array_constraints_of_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nonnegative.py").write_text(
        "import autograd.numpy as np\n"
        "import manifoldseq as ms\n"
        "a = np.array([1.0, -2.0, 1.0])\n"
        "problem = ms.Problem(ms.manifolds.Sphere(3), lambda x: -x @ a, inequalities=lambda x: -x)\n"
    )
    assert run("solve", f"{tmp_path / 'nonnegative.py'}:problem", "-o", tmp_path / "run")[0] == 0
    np.testing.assert_allclose(ms.load(tmp_path / "run").x, [0.5**0.5, 0.0, 0.5**0.5], atol=1e-5)


def test_a_pose_graph_of_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "square.g2o").write_text(
        "VERTEX_SE2 3 0 0 0\nVERTEX_SE2 5 2 0 1\nVERTEX_SE2 8 1 2 3\n"
        "EDGE_SE2 3 5 1 0 1.5707963267948966 9 0 0 9 0 9\nEDGE_SE2 5 8 1 0 1.5707963267948966 9 0 0 9 0 9\n"
        "EDGE_SE2 3 8 1 1 3.141592653589793 9 0 0 9 0 9\nEDGE_SE2 3 8 7 7 0 9 0 0 9 0 9\n"
    )
    status, out, _ = run("solve", tmp_path / "square.g2o", "--set", "loss=gnc", "-o", tmp_path / "run")
    assert status == 0 and "lm" in out
    solved = ms.poses.read_g2o(tmp_path / "run" / "solution.g2o")
    assert solved.ids.tolist() == [3, 5, 8]
    np.testing.assert_allclose(solved.start[1], [[0, 0], [1, 0], [1, 1]], atol=0.02)  # the last edge is wrong
    assert run("solve", tmp_path / "none.g2o")[0] != 0
    assert run("solve", tmp_path / "square.g2o", "--set", "loss=l1", "-o", tmp_path / "wrong")[0] != 0
    assert run("solve", "--config", tmp_path / "run" / "run.toml", "-o", tmp_path / "again")[0] == 0


@pytest.mark.slow
@needs("lds")
def test_registered_model_and_its_repetition(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ms.register(ms.hooks.ModelSpec("lds.mean", build="manifoldseq_lds.means._mean:build"))
    ms.register(ms.hooks.KernelSpec("projection", "manifoldseq_lds:ProjectionKernel"))
    monkeypatch.chdir(tmp_path)
    assert run("solve", "lds.mean", "two-levels", "--set", "n_states=1", "--init", "random", "--seed", "3")[0] == 0
    first = tmp_path / "runs" / "lds.mean-two-levels"
    assert run("solve", "--config", first / "run.toml", "-o", tmp_path / "again")[0] == 0
    for name in ("model.npz", "run.toml"):
        assert (first / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "pass MODEL, or --config run.toml"),
        (("lds.meen",), "unknown model 'lds.meen'"),
        (("lds.meen",), "pass a problem of your own as FILE.py:NAME"),
        (("no/file.py:build",), "the file no/file.py does not exist"),
        (("MINE:bild",), "has no model 'bild': it has Setting, build, alone, wrong, problem"),
        (("MINE:build",), "is built from data: pass DATA"),
        (("MINE:build", "two-level"), "'two-level' is neither a file or folder nor the name of a data set"),
        (("MINE:build", "two-levels", "--set", "targt=1"), "has no parameter 'targt': did you mean 'target'?"),
        (("MINE:build", "two-levels", "--set", "columns=2"), "columns=2 is not valid: pass 1"),
        (("MINE:build", "two-levels", "--init", "middle"), "has no initializer 'middle': it has first, last"),
        (("MINE:build", "two-levels", "--solver", "lbfg"), "unknown solver 'lbfg': did you mean 'lbfgs'?"),
        (("MINE:build", "two-levels", "--set", "solver.memry=2"), "has no option 'memry': did you mean 'memory'?"),
        (("MINE:problem", "two-levels"), "is a Problem, which accepts neither DATA nor --set"),
        (("MINE:wrong", "two-levels"), "returned an object of type int: return a manifoldseq.Problem"),
        (("BROKEN:x",), "cannot be run: ZeroDivisionError"),
    ],
)
def test_bad_input_raises_an_error(
    run: Run, mine: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    arguments = tuple(a.replace("MINE", str(mine)).replace("BROKEN", str(tmp_path / "broken.py")) for a in arguments)
    status, out, err = run("solve", *arguments, "-o", tmp_path / "run")
    assert (status, out) == (2, "") and sentence in err and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_objective_that_fails_is_recorded(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import manifoldseq as ms\n"
        "def fails(x): raise RuntimeError('no value')\n"
        "problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(fails, fails))\n"
    )
    status, _, err = run("solve", f"{tmp_path / 'bad.py'}:problem", "-o", tmp_path / "run")
    assert status == 1 and "RuntimeError: no value" in err
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["state"] == "failed" and "bad.py" in about["traceback"]
