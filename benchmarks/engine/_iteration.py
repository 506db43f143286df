"""The cost of an iteration relative to one evaluation: a cheap objective, a manifold with three factors."""

from __future__ import annotations

import numpy as np
from pymanopt.optimizers import ConjugateGradient

import manifoldseq as ms

from .._report import interleaved
from ._problems import mixed
from ._pymanopt import memoized_problem, stock_problem
from ._session import Session


def run(session: Session) -> None:
    """Measure."""
    case, problem = mixed(), mixed().problem
    iterations = 20 if session.quick else 300
    points = [tuple(leaf.copy() for leaf in case.start) for _ in range(2)]
    egrad = case.fused(case.start)[1]
    step = tuple(-1e-3 * leaf for leaf in case.manifold.gradient(case.start, egrad))

    def least() -> None:
        """What no first-order iteration does without: one evaluation, one gradient on the manifold, one retraction."""
        for i in range(iterations):
            case.fused(points[i % 2])
            case.manifold.gradient(case.start, egrad)
            case.manifold.retract(case.start, step)

    stop = ms.MaxIterations(iterations)
    done: dict[str, int] = {}

    def ours(name: str) -> None:
        result = ms.minimize(problem, case.start, solver=name, stop=stop)
        done[name] = result.nit
        session.returned(case.manifold, result.x)

    def theirs(name: str) -> None:
        make = memoized_problem if "memoized" in name else stock_problem
        wrapped, start = make(case, case)
        optimizer = ConjugateGradient(verbosity=0, max_iterations=iterations // 4, min_gradient_norm=0, min_step_size=0)
        done[name] = optimizer.run(wrapped, initial_point=start).iterations

    names = ("bb", "lbfgs", "cg")
    peers = ("pymanopt CG", "pymanopt CG, memoized")
    functions = {"oracle": lambda: [case.fused(points[i % 2]) for i in range(iterations)], "least": least}
    functions |= {name: lambda name=name: ours(name) for name in names}
    functions |= {name: lambda name=name: theirs(name) for name in peers}
    seconds = interleaved(functions, session.rounds + 2)
    one = seconds["oracle"] / iterations
    session.report.title(f"{case.name}: cost of an iteration over that of one fused evaluation, of {iterations}")
    session.report.row("microseconds per fused evaluation", 1e6 * float(np.median(one)))
    least = float(np.median(seconds["least"] / seconds["oracle"]))
    session.report.row("one evaluation, one manifold gradient and one retraction, in evaluations", least)
    for name, most in (("bb", 2.0), ("lbfgs", 3.0), ("cg", None), *((peer, None) for peer in peers)):
        session.report.row(
            f"iteration of {name}, in evaluations", float(np.median(seconds[name] / done[name] / one)), most=most
        )
