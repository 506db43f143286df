"""Two solvers of a stranger, of thirty lines each: the page shows them, and they work like bundled ones."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from strangers.distributions import PACKAGES, command, write

ROOT = Path(__file__).parents[2]
SOURCES = [PACKAGES / name / "solver.py" for name in ("newton_line", "heavy_ball")]

WORKS = """
import numpy as np, manifoldseq as ms
from newton_line.solver import TruncatedNewton
ms.testing.check_solver("newton-line").raise_for_failure()

rng = np.random.default_rng(0)
A, b = rng.standard_normal((40, 6)), rng.standard_normal(4) + 3
S, w = A.T @ A, np.array([1.0, 10.0, 100.0, 1000.0])
M = ms.manifolds.Product(ms.manifolds.Stiefel(6, 2), ms.manifolds.Euclidean(4), names=("X", "y"))
def cost(x):
    return -(x[0] * (S @ x[0])).sum() + (w * (x[1] - b) ** 2).sum()
def gradient(x):
    return -2 * S @ x[0], 2 * w * (x[1] - b)
problem, start = ms.Problem(M, cost, gradient=gradient), M.random_point(rng)
result = ms.minimize(problem, start, solver="newton-line")
assert result.success, result
assert np.isclose(result.fun, -np.linalg.eigvalsh(S)[-2:].sum(), rtol=1e-9)
assert np.allclose(result.x[1], b, atol=1e-5)

part = ms.minimize(problem, start, solver="newton-line", max_iter=3, checkpoint="run")
whole = ms.minimize(problem, start, solver="newton-line", checkpoint="run", resume=True)
assert part.nit == 3 and whole.nit == result.nit and np.array_equal(whole.x[0], result.x[0])

solver = TruncatedNewton()
state, _ = solver.init(problem, start)
state, _ = ms.solvers.take_steps(solver, problem, state, result.nit)
assert all(map(np.array_equal, state["x"], result.x))
"""


DESCENDS = """
import numpy as np, manifoldseq as ms
from heavy_ball.solver import HeavyBall
ms.testing.check_solver("heavy-ball").raise_for_failure()

A = np.random.default_rng(0).standard_normal((40, 6, 2))
def batched(X, which):
    D = X - A[which]
    return (D * D).sum(axis=(1, 2)), 2 * D
manifold = ms.manifolds.Stiefel(6, 2)
problem = ms.Problem(manifold, ms.objective(batched=batched))
many = ms.minimize_batch(problem, n_problems=40, solver="heavy-ball", seed=0)
assert many.success.all() and np.allclose(many.x, ms.linalg.polar(A), atol=1e-4)
def one(X):
    values, gradients = batched(X[None], np.array([7]))
    return float(values[0]), gradients[0]
start = ms.minimize_batch(problem, n_problems=40, seed=0, max_iter=0).x[7]
alone = ms.minimize(ms.Problem(manifold, ms.objective(value_and_gradient=one)), start, solver=HeavyBall())
assert alone.nit == many.nit[7] and np.allclose(alone.x, many.x[7], atol=1e-6)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(folder, "newton-line", "newton_line")
    write(folder, "heavy-ball", "heavy_ball")
    return folder


@pytest.mark.parametrize("works", [WORKS, DESCENDS], ids=["step", "descent"])
def test_solves_resumes_and_is_stepped(site: Path, works: str) -> None:
    script = f"import sys; sys.path[:0] = [{str(site)!r}]\n{works}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_is_listed_and_passes_the_conformance_checks(site: Path) -> None:
    assert "newton-line" in command(site, "list", "solvers").stdout
    done = command(site, "check", "newton_line")
    assert done.returncode == 0 and "1 tested and passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_solves_from_the_shell(site: Path) -> None:
    arguments = ("--solver", "newton-line", "--set", "n_states=2", "--seed", "0", "-o", str(site / "mean"))
    done = command(site, "solve", "lds.mean", "basic-motions", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((site / "mean" / "metrics.json").read_text())["success"]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.parent.name)
def test_it_is_the_one_on_the_page_in_thirty_lines_of_public_names(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert f"```python\n{source}```" in (ROOT / "docs" / "develop" / "write-a-solver.md").read_text(encoding="utf-8")
    tree = ast.parse(source)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [name for name in attributes if name.startswith("_")]
    lines = [line for line in source.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 34  # thirty and the imports
