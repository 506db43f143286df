"""Span compression of the mean problem with many outputs: per iteration, with its one-off cost, and its exactness."""

import time

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import SpanCompression, Systems

from .._report import Report, interleaved

N, M, STATES, ITERATIONS = 50, 20000, 10, 50


def run(report: Report) -> None:
    """Measure."""
    report.title(f"span compression of the mean problem: N={N}, m={M}, n={STATES}")
    problems = report.reference("lds_problems", "compression")
    if problems is None:
        return
    data = Systems(*problems.systems(N, M, STATES, 0.3))
    build = ms.get_model("lds.mean").problem
    span = SpanCompression.of(data)
    full, small = build(data), build(span.systems)
    start = full.initializers["medoid"](full, np.random.default_rng(0))
    inside = (*start[:2], span.coordinates(start[2]))
    report.row("rank of the span", span.systems.n_outputs, "d")
    report.row("switched on automatically (1 = yes)", SpanCompression.pays(N, M, STATES), "d", least=1)

    def iterate(problem: ms.Problem, x: tuple, stop: int) -> ms.Result:
        return ms.minimize(problem, x, stop=ms.MaxIterations(stop))

    def seconds(problem: ms.Problem, x: tuple) -> float:
        """Return the CPU seconds of one iteration: those of 5 to 55, or of 2 to 12 where they are slow."""
        few, many = (5, 5 + ITERATIONS) if problem is small else (2, 12)
        times = []
        for stop in (few, many):
            began = time.process_time()
            made = iterate(problem, x, stop)
            times.append(time.process_time() - began)
        return (times[1] - times[0]) / (made.nit - few)

    once = np.median(interleaved({"once": lambda: SpanCompression.of(data)}, repeat=3)["once"])
    rounds = [(seconds(full, start), seconds(small, inside)) for _ in range(3)]
    plain, compressed = np.median(rounds, axis=0)
    expand = np.median(interleaved({"expand": lambda: span.expand(inside[2])}, repeat=3)["expand"])
    report.row("milliseconds per iteration of L-BFGS, all outputs", 1e3 * plain)
    report.row("milliseconds per iteration, in the span", 1e3 * compressed)
    report.row("seconds of the compression itself", once)
    report.row("times faster per iteration", np.median([a / b for a, b in rounds]), least=20)
    whole = ITERATIONS * plain / (ITERATIONS * compressed + once + expand)
    report.row(f"times faster over {ITERATIONS} iterations, compression and expansion included", whole, least=6)
    # the default number of pairs of L-BFGS depends on the number of entries
    for solver, options in (("lbfgs", {"memory": 10}), ("pgd", {})):
        worst = 0.0
        for stop in (1, 10, 25):
            end = ms.MaxIterations(stop)
            a = ms.minimize(full, start, solver=solver, options=options, stop=end).x
            lam, V, U = ms.minimize(small, inside, solver=solver, options=options, stop=end).x
            worst = max(worst, *(float(np.abs(p - q).max()) for p, q in zip(a, (lam, V, span.expand(U)), strict=True)))
        report.row(f"largest difference of iterates 1, 10, 25 of {solver}", worst, ".1e", most=1e-10)
