"""Objects that decorators put in place of functions are pickled by name, and copied."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import clone

import manifoldseq as ms

MODULE = """
from dataclasses import replace
from functools import partial
import autograd.numpy as anp
import numpy as np
import manifoldseq as ms

@ms.kernel(domain="lds")
def two_steps(first, second):
    (A1, C1), (A2, C2) = first[:2], second[:2]
    return anp.sum((C1.T @ C2 + (C1 @ A1).T @ (C2 @ A2)) ** 2)

def plain(first, second, power=2):
    return anp.sum((first[1].T @ second[1]) ** power)

class Holder:
    @staticmethod
    @ms.kernel
    def inside(first, second):
        return anp.sum((first[1].T @ second[1]) ** 4)

of_plain = ms.kernel(plain)
of_partial = ms.kernel(partial(plain, power=4))
of_lambda = ms.kernel(lambda first, second: anp.sum((first[1].T @ second[1]) ** 2), name="of lambda")
in_holder = Holder.inside
changed = replace(two_steps, positive_definite=False)
total = ms.kernels.SumKernel((two_steps, of_plain), (1.0, 0.5))
product = ms.kernels.ProductKernel((two_steps, "projection"))
normalized = ms.kernels.NormalizedKernel(two_steps)
gaussian = ms.kernels.RBFKernel(two_steps)

@ms.kernel
def hidden(first, second):
    return anp.sum(first[1].T @ second[1])

hidden = ms.kernels.SumKernel((hidden, hidden))

def cost(x):
    return anp.sum(x**4)

def slope(x):
    return 4 * x**3

@ms.objective
def decorated(x):
    return anp.sum(x**4)

def rebound(x):
    return anp.sum(x**4)

rebound = ms.objective(rebound, slope)

def fused(x):
    return float(np.sum(x**4)), 4 * x**3

fused = ms.objective(value_and_gradient=fused)
scaled = 3.0 * decorated + ms.objective(cost)

@partial(ms.finite_sum, n=3)
def terms(x, rows):
    return anp.sum(x**4) * len(rows)

@ms.objectives.last_point
def remembered(x):
    return float(np.sum(x**4))
"""
KERNELS = (
    "two_steps", "of_plain", "of_partial", "of_lambda", "in_holder", "changed", "total", "product", "normalized",
    "gaussian", "hidden",
)  # fmt: skip
OBJECTIVES = ("decorated", "rebound", "fused", "scaled", "terms")
LOAD = "import pickle, sys; import by_name_answers as b; print(repr(b.answers(pickle.load(sys.stdin.buffer))))"
ANSWERS = """
import numpy as np
import manifoldseq as ms

def answers(made):
    if isinstance(made, ms.Objective):
        value, gradient = made.value_and_gradient(np.array([1.0, 2.0]))
        return made.value(np.array([1.0, 2.0])), value, gradient.tolist()
    packed = made.pack(ms.hooks.get_domain("lds").example(np.random.default_rng(0)))
    return made.cross(packed, packed).tolist()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return a module with decorated functions, on a path that other processes have too."""
    (tmp_path / "by_name_example.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "by_name_answers.py").write_text(ANSWERS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    yield importlib.import_module("by_name_example")
    for name in ("by_name_example", "by_name_answers"):
        sys.modules.pop(name, None)


def run(code: str, data: bytes = b"") -> Any:
    """Return what a fresh interpreter does."""
    return subprocess.run([sys.executable, "-W", "error", "-c", code], input=data, capture_output=True)


def answers(made: Any) -> Any:
    """Return numbers that an object computes."""
    return importlib.import_module("by_name_answers").answers(made)


@parametrize("name", [*KERNELS, *OBJECTIVES], fast=2)
def test_other_processes_and_copies_compute_the_same(module: ModuleType, name: str) -> None:
    made = getattr(module, name)
    expected = answers(made)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert answers(pickle.loads(pickle.dumps(made, protocol))) == expected
    assert answers(copy.deepcopy(made)) == answers(copy.copy(made)) == expected
    done = run(LOAD, pickle.dumps(made))
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == repr(expected)


@pytest.mark.parametrize("name", ["two_steps", "of_plain", "of_lambda", "in_holder", "changed"])
def test_a_kernel_that_is_an_attribute_of_its_module_stays_that_object(module: ModuleType, name: str) -> None:
    made = getattr(module, name)
    assert pickle.loads(pickle.dumps(made)) is copy.deepcopy(made) is made


def test_a_memo_is_pickled_by_name(module: ModuleType) -> None:
    again = pickle.loads(pickle.dumps(module.remembered))
    assert again(np.array([1.0, 2.0])) == copy.deepcopy(module.remembered)(np.array([1.0, 2.0])) == 17.0


def test_a_problem_and_its_solution(module: ModuleType) -> None:
    problem = ms.Problem(ms.manifolds.Sphere(3), module.decorated)
    again = pickle.loads(pickle.dumps(problem))
    first, second = (ms.minimize(one, seed=0) for one in (problem, again))
    assert first.fun == second.fun and (first.x == second.x).all()


@pytest.mark.slow
def test_estimators_fitted_with_a_kernel_go_to_other_processes(module: ModuleType) -> None:
    t, rng = np.arange(30)[:, None], np.random.default_rng(0)
    X = [np.cos((0.3, 0.9)[i % 2] * t + np.arange(3)) + 0.1 * rng.standard_normal((30, 3)) for i in range(8)]
    settings: dict[str, Any] = {"n_states": 2, "kernel": module.two_steps, "random_state": 0}
    means = ms.get_estimator("lds-kmeans")(2, n_init=1, max_iter=1, **settings).fit(X)
    done = run(
        "import pickle, sys; m, X = pickle.load(sys.stdin.buffer); print(m.predict(X))", pickle.dumps((means, X))
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == str(means.labels_)
    assert clone(means).kernel is module.two_steps


def local_kernel() -> Any:
    @ms.kernel
    def inside(first: Any, second: Any) -> Any:
        return 1.0

    return inside


WITHOUT_NAME = {
    "kernel of a lambda": (lambda: ms.kernel(lambda first, second: 1.0), "the kernel '<lambda>'", "is a lambda"),
    "local kernel": (local_kernel, "the kernel 'inside'", "is defined inside another function"),
    "sum": (lambda: ms.kernels.SumKernel((local_kernel(),)), "the kernel 'inside'", "is defined inside another"),
    "objective": (lambda: ms.objective(lambda x: x @ x), "the objective", "is a lambda"),
    "objective with gradient": (lambda: ms.objective(abs, lambda x: 2 * x), "the objective", "is a lambda"),
    "objective by hand": (lambda: ms.Objective(lambda x: 1.0), "the objective", "is a lambda"),
    "scaled": (lambda: 2 * ms.objective(lambda x: x @ x), "the objective", "is a lambda"),
    "memo": (lambda: ms.objectives.last_point(lambda x: x), "the memo of last_point", "is a lambda"),
    "record": (lambda: ms.hooks.KernelSpec("x", lambda: None), "KernelSpec 'x'", "is a lambda"),
    "record of a mapping": (
        lambda: ms.hooks.KernelSpec("x", "a:b", invariances={"r": lambda item: item}), "KernelSpec 'x'", "is a lambda"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT_NAME)
def test_a_function_without_a_name_is_one_message_and_can_be_copied(case: str) -> None:
    make, what, why = WITHOUT_NAME[case]
    made = make()
    with pytest.raises(pickle.PicklingError) as caught:
        pickle.dumps(made)
    message = str(caught.value)
    assert message.startswith(f"{what} cannot be pickled: its function ") and why in message
    assert "at the top level of a module" in message and "\n" not in message
    copy.deepcopy(made), copy.copy(made)


def test_copies_keep_the_functions() -> None:
    made = ms.objective(value_and_gradient=lambda x: (float(x @ x), 2 * x), hessian_product=lambda x, u: 2 * u)
    for again in (copy.copy(made), copy.deepcopy(made)):
        assert again.hessian_product is made.hessian_product and again.value_and_gradient is made.value_and_gradient
    record = ms.hooks.KernelSpec("x", lambda: None)
    assert copy.copy(record) == copy.deepcopy(record) == record and record.resolved().factory is record.factory


NOTEBOOK = """
import pickle, manifoldseq as ms
@ms.kernel
def mine(first, second):
    return 1.0
try:
    pickle.dumps(mine)
except pickle.PicklingError as error:
    print(error)
"""


def test_a_function_of_a_notebook_is_one_message() -> None:
    done = run(NOTEBOOK)
    assert done.returncode == 0, done.stderr.decode()
    assert "its function 'mine' is defined in '__main__', a notebook or an interpreter" in done.stdout.decode()


def test_a_name_that_is_gone_is_one_message_where_it_is_loaded(module: ModuleType, tmp_path: Path) -> None:
    stored = [pickle.dumps(module.two_steps), pickle.dumps(module.decorated)]
    (tmp_path / "by_name_example.py").write_text("other = 1\n", encoding="utf-8")
    for data, name in zip(stored, ("two_steps", "decorated"), strict=True):
        done = run("import pickle, sys; pickle.load(sys.stdin.buffer)", data)
        last = done.stderr.decode().strip().splitlines()[-1]
        assert f"UnpicklingError: '{name}' was pickled as a name of the module 'by_name_example'" in last


def test_a_name_that_stands_for_another_function_by_now_is_one_message(module: ModuleType) -> None:
    old = module.two_steps
    importlib.reload(module)
    with pytest.raises(pickle.PicklingError, match="is not the function of this name in the module"):
        pickle.dumps(old)


SCRIPT = """
import multiprocessing, pickle, sys
import autograd.numpy as anp, numpy as np
import manifoldseq as ms

@ms.kernel
def mine(first, second):
    return anp.sum((first[1].T @ second[1]) ** 2)

@ms.objective
def cost(x):
    return anp.sum(x**4)

def work(made):
    kernel, objective = made
    packed = kernel.pack([(np.eye(2), np.ones((3, 2)))])
    return kernel.cross(packed, packed).tolist(), objective.value(np.ones(2)), kernel

if __name__ == "__main__":
    here = work((mine, cost))
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            (there,) = pool.map(work, [(mine, cost)])
        assert there[:2] == here[:2] == ([[36.0]], 2.0), there
        assert there[2] is mine
    from joblib import Parallel, delayed
    local = ms.kernel(lambda first, second: mine(first, second))
    for kernel in (mine, local):
        (there,) = Parallel(2, backend="loky")([delayed(work)((kernel, cost))])
        assert there[:2] == here[:2], there
    print("ok")
"""


@pytest.mark.slow
def test_a_script_sends_its_own_functions_to_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stderr
