"""Use the engine where only its six dependencies are installed; run as a script, it prints what needs the extra [cli].

Every public name is looked up. A name that needs another package raises one ImportError that says what to install.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import manifoldseq as ms

ABSENT = ("click", "tqdm", "matplotlib", "jinja2", "sklearn")
CURE = "not installed: run `pip install 'manifoldseq[cli]'`"


def sentence_of(call: Callable[[], Any]) -> str:
    """Return the error message of a call that needs a package which is not installed."""
    try:
        call()
    except ImportError as error:
        return str(error)
    raise AssertionError("nothing is missing")


def names_that_need_more() -> list[str]:
    """Look up every public name of the engine; return those that need the extra."""
    found = []
    packages = [value for name in ms.__all__ if isinstance(value := getattr(ms, name), ModuleType)]
    for module in (ms, *packages):
        for name in module.__all__:
            try:
                getattr(module, name)
            except ImportError as error:
                assert CURE in str(error) and "\n" not in str(error), error
                assert str(error).startswith(f"{module.__name__}.{name} needs "), error
                found.append(f"{module.__name__}.{name}")
    return found


def calls_that_need_more() -> dict[str, Callable[[], Any]]:
    """Return the public functions that need the extra when they are called."""
    estimator: Any = SimpleNamespace(fit=lambda X: None, get_params=dict, set_params=dict)
    problem = ms.Problem(ms.manifolds.Euclidean(2), lambda x: (x**2).sum())
    report = ms.testing.check_gradient(problem)
    assert report.ok
    result = ms.minimize(problem, np.ones(2))
    return {
        "matplotlib": lambda: ms.report.plot_convergence(result),
        "matplotlib of checks": lambda: report.plot(),
        "matplotlib of sequences": lambda: ms.storage.SequenceData([np.zeros((3, 2))]).plot(),
        "matplotlib of styles": lambda: ms.report.line_style(None),
        "matplotlib of tables": lambda: ms.reproduction.figure_file("figure.png"),
        "tqdm": lambda: ms.Progress(),
        "jinja2": lambda: ms.report.render_html([result]),
        "scikit-learn": lambda: ms.report.clustering_measures([0, 1], [1, 0]),
        "scikit-learn of checks": lambda: ms.testing.check_estimator(estimator),
        "scikit-learn of estimators": lambda: ms.estimators.validate_rows(estimator, [[1.0]], reset=True),
        "scikit-learn of controls": lambda: ms.get_estimator("kmeans"),
    }


def use_the_engine() -> None:
    """Solve problems with every solver of the core, in every form that needs no more than the six."""
    S = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])
    problem = ms.Problem(ms.manifolds.Stiefel(5, 2), lambda X: -(X * (S @ X)).sum())  # by autograd, Hessian and all
    known = [record.name for plugin, record in ms.hooks.records("solvers") if plugin.name == "manifoldseq"]
    needs = {record.name: record.needs for _, record in ms.hooks.records("solvers")}
    for name in ("auto", *known):
        # of models and of least squares; of another extra
        if {"updates", "additive", "residuals"} & set(needs.get(name, ())) or name == "sqp":
            continue
        where: Any = problem
        if "terms" in needs.get(name, ()):
            rows = np.random.default_rng(0).standard_normal((40, 3))
            cost = ms.finite_sum(lambda x, batch, rows=rows: ((rows[batch] - x) ** 2).sum(), 40)
            where = ms.Problem(ms.manifolds.Euclidean(3), cost)
        result = ms.minimize(where, solver=name, seed=0, max_iter=30)
        assert np.isfinite(result.fun), name
    assert np.isclose(ms.minimize(problem, seed=0).fun, -9.0)
    rng = np.random.default_rng(0)
    starts = np.stack([problem.manifold.random_point(rng) for _ in range(3)])
    assert np.allclose(ms.minimize_batch(problem, starts).fun, -9.0)
    halves = [np.sqrt(S)[:3], np.sqrt(S)[3:]]
    shared = ms.sharded(lambda rows: ms.objective(lambda X: -((rows @ X) ** 2).sum()), [lambda h=h: h for h in halves])
    assert np.isclose(ms.minimize(ms.Problem(problem.manifold, shared), seed=0).fun, -9.0)
    sphere = ms.manifolds.Sphere(3)
    mean = ms.frechet_mean(sphere, np.eye(3))
    assert np.allclose(mean, 3**-0.5)
    for _, record in ms.hooks.records("manifolds"):
        assert ms.testing.check_manifold(record.resolved().example(rng)).ok, record.name

    @ms.kernel(domain="vectors")
    def product(first: Any, second: Any) -> Any:
        return np.sum(first[0] * second[0])

    items = [(np.arange(3.0),), (np.ones(3),)]
    packed = product.pack(items)
    assert np.allclose(product.cross(packed, packed), [[5, 3], [3, 3]])


if __name__ == "__main__":
    more = names_that_need_more()
    of_models = {f"manifoldseq.models.{name}" for name in ("ModelEstimator", "RowMixture", "provenance")}
    others = set(more) - of_models
    assert of_models <= set(more) and all(name.startswith("manifoldseq.evaluation.") for name in others), more
    assert len(others) == 27, more
    for package, call in calls_that_need_more().items():
        said = sentence_of(call)
        assert package.partition(" ")[0] in said and CURE in said and "\n" not in said, (package, said)
    use_the_engine()
    sys.argv = ["manifoldseq", "--version"]
    from manifoldseq.cli import main

    assert main() == 2
    assert not any(map(sys.modules.get, ABSENT))
    print("needs more:", *more)
