"""The public surface: names resolve, stay what they are, and explain themselves."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import manifoldseq as ms

PACKAGES = """
    linalg manifolds objectives kernels solvers batch interop estimators models hooks testing execution storage report
    reproduction evaluation losses poses
""".split()
PLUGINS = [f"manifoldseq_{name}" for name in ("lds", "hope", "mpcca", "hierarchical", "sequences", "jax", "papers")]
FIXED = """
    minimize minimize_batch iterate Problem Objective objective finite_sum kernel constraint
    residuals least_squares Result Run Measures Status
    hookimpl register sharded to_pymanopt from_pymanopt
    GradientNorm PredictedDecrease MaxIterations MaxEvaluations MaxTime CostChange StepSize
    get_model get_estimator get_kernel get_solver
""".split()
LINALG = "polar cayley stein stein_adjoint gramians".split()
TESTING = """
    check_manifold check_gradient check_hessian check_objective check_kernel check_model check_solver
    check_sequence_estimator check_estimator check_multiview_estimator
""".split()


def public_names() -> list[tuple[str, str]]:
    """Return (module, name) for every name of `manifoldseq` and its packages."""
    found = [("manifoldseq", name) for name in ms.__all__ if name not in PACKAGES and not name.startswith("__")]
    for package in PACKAGES:
        module = importlib.import_module(f"manifoldseq.{package}")
        found += [(module.__name__, name) for name in module.__all__]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_reached_as_attributes(package: str) -> None:
    assert isinstance(getattr(ms, package), ModuleType)
    assert package in dir(ms)


def test_fixed_names_are_public() -> None:
    assert set(FIXED) <= set(ms.__all__)


def test_fixed_names_of_packages_are_public() -> None:
    assert set(LINALG) <= set(ms.linalg.__all__)
    assert set(TESTING) <= set(ms.testing.__all__)


def test_public_names_are_no_modules_and_have_docstrings() -> None:
    values = {(module, name): getattr(importlib.import_module(module), name) for module, name in public_names()}
    assert not [at for at, value in values.items() if isinstance(value, ModuleType)]
    documented = {at: value for at, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    assert not [at for at, value in documented.items() if not inspect.getdoc(value)]


@pytest.mark.slow
def test_every_public_name_resolves_twice_to_the_same_thing() -> None:
    """A submodule of the same name would replace the function once it is imported."""
    script = f"""
import importlib, types, warnings
for module, name in {public_names()!r}:
    package = importlib.import_module(module)
    first = getattr(package, name)
    assert not isinstance(first, types.ModuleType), (module, name)
for module, name in {public_names()!r}:
    assert not isinstance(getattr(importlib.import_module(module), name), types.ModuleType), (module, name)
import manifoldseq as ms
problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: (x * x).sum(), lambda x: 2 * x))
ms.minimize(problem, seed=0), ms.minimize(problem, seed=0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ms.no_such_name  # type: ignore[attr-defined]


def test_no_two_public_classes_have_one_name() -> None:
    packages = [
        ms,
        *(getattr(ms, package) for package in PACKAGES),
        *(importlib.import_module(name) for name in PLUGINS),
    ]
    found: dict[str, set[type]] = {}
    for package in packages:
        for name in package.__all__:
            if inspect.isclass(value := getattr(package, name)):
                found.setdefault(name, set()).add(value)
    assert len(found) > 100
    assert not {name: classes for name, classes in found.items() if len(classes) > 1}
