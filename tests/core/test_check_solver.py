"""The checker of solvers fails on each way to be wrong."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from core.cases import procrustes, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Measures, Objective, testing
from manifoldseq.manifolds import Euclidean
from manifoldseq.solvers import PGD, Solver


@dataclasses.dataclass(frozen=True)
class Wrapped(Solver):
    """Projected gradient, broken in one way."""

    fault: str
    inner: ClassVar[Solver] = PGD(step_size=0.2)
    memory: ClassVar[dict[str, Any]] = {}

    def init(self, problem: ms.Problem, point: Any) -> tuple[Any, Measures]:
        state, measures = self.inner.init(problem, point)
        if self.fault == "writes into the start":
            for leaf in [point] if isinstance(point, np.ndarray) else point:
                leaf.flags.writeable = True
                leaf += 1.0
                leaf -= 1.0
                leaf[0] += 0.5
        return ({"y": state["x"]} if self.fault == "no point" else state), measures

    def step(self, problem: ms.Problem, state: Any) -> tuple[Any, Measures]:
        if self.fault == "hidden state":
            self.memory["calls"] = self.memory.get("calls", 0) + 1
        new, measures = self.inner.step(problem, state)
        match self.fault:
            case "hidden state":
                new = {**new, "calls": self.memory["calls"]}
            case "objects in the state":
                new = {**new, "rng": np.random.default_rng(0)}
            case "lies about fun":
                measures = dataclasses.replace(measures, fun=measures.fun - 1e-3)
            case "lies about the gradient":
                measures = dataclasses.replace(measures, grad_norm=0.5 * (measures.grad_norm or 0.0))
            case "leaves the manifold":
                new = {**new, "x": tree_map(lambda leaf: 1.1 * leaf + 1, new["x"])}
            case "climbs":
                x = problem.manifold.retract(state["x"], problem.manifold.gradient(state["x"], state["egrad"]))
                new, measures = self.inner.init(problem, x)
            case "swallows Ctrl-C":
                try:
                    new, measures = self.inner.step(problem, state)
                except KeyboardInterrupt:
                    pass
            case "gives up":
                new, measures = state, dataclasses.replace(measures, fun=state["fun"], grad_norm=state["grad_norm"])
        return new, measures


@parametrize(
    ("fault", "word"),
    [
        ("writes into the start", "the start was written into"),
        ("no point", "no point at state['x']"),
        ("hidden state", "taken twice from one state, gave two states"),
        ("objects in the state", "bit_generator.state"),
        ("lies about fun", "measures agree with the objective"),
        ("lies about the gradient", "grad_norm"),
        ("leaves the manifold", "off the manifold"),
        ("climbs", "claims to be monotone"),
        ("swallows Ctrl-C", "an interrupt in evaluation"),
        ("gives up", "solves the problem"),
    ],
    fast=3,
)
def test_broken_solvers_fail(fault: str, word: str) -> None:
    report = testing.check_solver(Wrapped(fault), iterations=20)
    assert any(word in str(law) for law in report.failures), report


def test_solvers_are_checked_on_given_problems() -> None:
    report = testing.check_solver("pgd", [procrustes()[0]])
    assert report.ok and len(report.laws) == 4
    with pytest.raises(ValueError, match=r"needs .*value_and_gradient"):
        testing.check_solver("lbfgs", [ms.Problem(Euclidean(2), Objective(lambda x: 0.0))])
    with pytest.raises(TypeError, match=r"needs a ms.solvers.Solver"):
        testing.check_solver(3)  # type: ignore[arg-type]
