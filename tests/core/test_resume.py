"""Every resumable solver, interrupted anywhere and resumed, ends as if there had been no interrupt, bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.linalg
from core.cases import leaves
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Measures, Status, catalogue
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Product, Stiefel
from manifoldseq.objectives import BlockUpdate, FiniteTerms
from manifoldseq.solvers import SGD, SQP, TR, Alternating, Pymanopt, Solver
from manifoldseq.storage import Checkpoint

STEPS = 7
CATALOGUE = {
    record.name: solver
    for record in catalogue.RECORDS
    if isinstance(record, ms.hooks.SolverSpec)
    and isinstance(solver := ms.get_solver(record.name), Solver)
    and not isinstance(solver, Pymanopt)  # it begins anew at the stored point: test_pymanopt_solvers.py
    # models with sums over rows: tests/models kills and resumes them; residuals: tests/core/test_least_squares.py
    and not {"additive", "residuals"} & set(solver.needs)
}
SOLVERS = CATALOGUE | {
    "sgd-average": SGD(step_size=0.02, batch_size=2, average_from=2, clip=1.0),
    "adam-batches": ms.solvers.Adam(batch_size=2, amsgrad=True),
    "tr-difference": TR(hessian="finite-difference", radius=0.1),
    "alternating-inner": Alternating(inner_stop=ms.MaxIterations(2)),
    "sqp-bfgs": SQP(hessian="bfgs"),
    "pgd-fixed": ms.solvers.PGD(step_size=0.1, halve_every=2, backtracking=False),
}


class Watch:
    """Counts the calls of everything that an objective can do, and interrupts one of them as Ctrl-C does."""

    def __init__(self, at: int | None = None) -> None:
        self.calls, self.at = 0, at

    def __call__(self, function: Any) -> Any:
        def watched(*args: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt
            return function(*args)

        return watched

    def objective(self, f: ms.Objective) -> ms.Objective:
        names = ("value", "value_and_gradient", "hessian_product")
        abilities: dict[str, Any] = {name: self(getattr(f, name)) for name in names if getattr(f, name) is not None}
        if f.terms is not None:
            batch = f.terms.batch
            abilities["terms"] = FiniteTerms(f.terms.n, lambda i: self.objective(batch(i)))
        updates = tuple(dataclasses.replace(update, apply=self(update.apply)) for update in f.updates)
        return dataclasses.replace(f, **abilities, updates=updates)


def problem(watch: Watch, constrained: bool) -> ms.Problem:
    """A frame and a bounded vector that pull on each other, with every ability that a solver may need."""
    rng = np.random.default_rng(0)
    targets, vectors = rng.standard_normal((5, 6, 2)), rng.standard_normal((5, 3))
    M = Product(Stiefel(6, 2), BoundedDiagonal(3, 0.5), names=("U", "b"))
    shear = rng.standard_normal((6, 3))

    def part(i: Any) -> ms.Objective:
        A, c = targets[i].mean(axis=0), vectors[i].mean(axis=0)

        def value(x: Any) -> float:
            return float(np.sum((x[0] - A) ** 2) + np.sum((x[1] - c) ** 2) + x[0][:, 0] @ shear @ x[1])

        def gradient(x: Any) -> Any:
            G = 2 * (x[0] - A)
            G[:, 0] += shear @ x[1]
            return G, 2 * (x[1] - c) + shear.T @ x[0][:, 0]

        def product(x: Any, u: Any) -> Any:
            H = 2 * u[0]
            H[:, 0] += shear @ u[1]
            return H, 2 * u[1] + shear.T @ u[0][:, 0]

        return ms.objective(value, gradient, hessian_product=product)

    def polar(x: Any) -> Any:
        B = 2 * targets.mean(axis=0)
        B[:, 0] -= shear @ x[1]
        return scipy.linalg.polar(B)[0], x[1]

    f = dataclasses.replace(
        part(np.arange(5)), terms=FiniteTerms(5, part), updates=(BlockUpdate("polar", ("U",), polar),)
    )
    h = ms.objective(
        lambda x: float(x[1].sum()) - 0.2,
        lambda x: (0 * x[0], np.ones(3)),
        hessian_product=lambda x, u: (0 * u[0], 0 * u[1]),
    )
    return ms.Problem(M, watch.objective(f), equalities=(watch.objective(h),) if constrained else ())


class Outcome:
    """A run with a checkpoint: its result and what the checkpoint holds at the end."""

    def __init__(
        self, solver: Solver, folder: Path, *, steps: int = STEPS, at: int | None = None, resume: bool = False
    ) -> None:
        watch = Watch(at)
        made = problem(watch, solver.constraints)
        if isinstance(solver, SQP):  # which takes no bounds
            made = dataclasses.replace(made, manifold=Product(Stiefel(6, 2), Euclidean(3), names=("U", "b")))
        x0 = made.manifold.random_point(np.random.default_rng(1))
        self.result: ms.Result | None = None
        store = Checkpoint(folder, every_seconds=1e9, fingerprint="one problem")
        try:
            self.result = ms.minimize(
                made, x0, solver=solver, stop=ms.MaxIterations(steps), checkpoint=store, resume=resume, seed=3
            )
        except KeyboardInterrupt:
            assert at is not None
        self.calls = watch.calls
        self.state = store.load()

    def same(self, other: Outcome) -> None:
        """Assert equality of state, counts and history, but for the times."""
        a, b = self.result, other.result
        assert a is not None and b is not None and self.state is not None and other.state is not None
        identical(self.state[0], other.state[0])
        identical(
            {key: value for key, value in self.state[1].items() if key != "time"},
            {key: value for key, value in other.state[1].items() if key != "time"},
        )
        names = ("fun", "grad_norm", "status", "nit", "nfev", "njev", "nhev", "feasibility", "multipliers", "reference")
        for name in names:
            identical(getattr(a, name), getattr(b, name))
        for p, q in zip(leaves(a.x), leaves(b.x), strict=True):
            np.testing.assert_array_equal(p, q)
        assert a.history.keys() == b.history.keys()
        for name in a.history.keys() - {"time"}:
            np.testing.assert_array_equal(a.history[name], b.history[name])


def identical(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            identical(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            identical(p, q)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


def test_the_catalogue_has_solvers_to_resume() -> None:
    assert {"lbfgs", "pgd", "tr", "sgd", "adam", "alternating"} <= set(CATALOGUE)


@parametrize("name", SOLVERS, fast=5)
def test_stopped_after_any_step(name: str, tmp_path: Path) -> None:
    whole = Outcome(SOLVERS[name], tmp_path / "whole")
    assert whole.result is not None and whole.result.nit >= 2
    for k in range(whole.result.nit):
        Outcome(SOLVERS[name], tmp_path / str(k), steps=k)
        Outcome(SOLVERS[name], tmp_path / str(k), resume=True).same(whole)


@parametrize("name", SOLVERS, fast=3)
def test_interrupted_in_any_evaluation(name: str, tmp_path: Path) -> None:
    whole = Outcome(SOLVERS[name], tmp_path / "whole")
    interrupted = 0
    for at in range(1, whole.calls + 1):
        first = Outcome(SOLVERS[name], tmp_path / str(at), at=at)
        interrupted += first.result is None or first.result.status is Status.INTERRUPTED
        Outcome(SOLVERS[name], tmp_path / str(at), resume=True).same(whole)
    assert interrupted == whole.calls > STEPS


@dataclasses.dataclass(frozen=True)
class Forgetful(ms.solvers.LBFGS):
    """Keeps its pairs where no checkpoint sees them."""

    memories: ClassVar[dict[int, Any]] = {}

    def step(self, problem: ms.Problem, state: Any) -> tuple[Any, Measures]:
        pairs = self.memories.get(id(state["x"]), ())
        state, measures = super().step(problem, {**state, "pairs": pairs})
        self.memories[id(state["x"])] = state["pairs"]
        return {**state, "pairs": ()}, measures


def test_a_solver_with_a_memory_of_its_own_is_found_out(tmp_path: Path) -> None:
    whole = Outcome(Forgetful(), tmp_path / "whole")
    Outcome(Forgetful(), tmp_path / "part", steps=4)
    with pytest.raises(AssertionError):
        Outcome(Forgetful(), tmp_path / "part", resume=True).same(whole)
