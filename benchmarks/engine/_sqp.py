"""Sequential quadratic programming: KKT points, CPU compared with SLSQP and the augmented Lagrangian, the programs."""

from __future__ import annotations

import math
import sys
import time
import warnings
from functools import partial
from importlib import import_module, util
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from scipy.optimize import lsq_linear

import manifoldseq as ms
from manifoldseq.linalg import clarabel, flatten, quadratic_program, unflattener
from manifoldseq.manifolds import Euclidean, Sphere, Stiefel

from .._report import interleaved
from ._constraints import impossible, possible
from ._constraints import quadratic_program as convex_program
from ._session import Session
from ._sqp_problems import STARTS, Listed, listed


def run(session: Session) -> None:
    """Measure."""
    session.report.title("sequential quadratic programming")
    _kkt_points(session)
    _against_slsqp(session)
    _textbook(session)
    _infeasible(session)
    _sizes(session)
    _programs(session)


def _kkt_points(session: Session) -> None:
    """Print the share of KKT points for each problem, and the two kinds of errors of the status."""
    report, starts = session.report, 3 if session.quick else STARTS
    found = wrong = missed = 0
    for case in listed():
        rng, here = np.random.default_rng(0), 0
        for _ in range(starts):
            result = ms.minimize(case.problem, case.start(rng), solver="sqp")
            optimal = first_order(case.problem, result.x)
            here += optimal
            wrong += result.success and not (optimal and locally_lowest(case.problem, result))
            missed += optimal and not result.success
        found += here
        report.row(f"{case.name}: KKT points of {starts} starts", here, "d")
    runs = starts * len(listed())
    report.row(f"KKT points of {runs} runs, percent", 100 * found / runs, ".4g", least=99)
    report.row(f"wrong successes of {runs} runs", wrong, "d", most=0)
    report.row(f"KKT points of {runs} runs that are no success, percent", 100 * missed / runs, ".3g", most=1)


def first_order(problem: ms.Problem, x: Any) -> bool:
    """Return whether a point meets the constraints and multipliers of its active ones exist, by least squares."""
    B, rows, low, violation = np.asarray(problem.manifold.basis(x)), [], [], 0.0
    g = flatten(problem.objective.value_and_gradient(x)[1]) @ B  # type: ignore[misc]
    for equal, constraints in ((True, problem.equalities), (False, problem.inequalities)):
        for each in constraints:
            value, pull = each.linearize(x)  # type: ignore[union-attr]
            value = np.asarray(value)
            violation = max(violation, float(np.max(np.abs(value) if equal else value, initial=0.0)))
            for k in np.flatnonzero(np.ones(value.size) if equal else value.ravel() > -1e-5):
                unit = np.eye(1, value.size, int(k))[0]
                rows.append(flatten(pull(unit.reshape(value.shape))) @ B)
                low.append(-np.inf if equal else 0.0)
    left = g
    if rows:
        J = np.array(rows).T
        left = g + J @ lsq_linear(J, -g, (np.array(low), np.full(len(low), np.inf)), tol=1e-14).x
    return violation <= 1.01e-6 and float(np.linalg.norm(left)) <= 1e-4 * max(1.0, float(np.linalg.norm(g)))


def locally_lowest(problem: ms.Problem, result: ms.Result) -> bool:
    """Return whether SLSQP in a chart finds no lower feasible point from a point near by."""
    M, tree, B = problem.manifold, unflattener(result.x), np.asarray(problem.manifold.basis(result.x))

    def at(d: np.ndarray) -> Any:
        return M.retract(result.x, tree(B @ d))

    def entries(constraints: Any, d: np.ndarray) -> np.ndarray:
        return np.concatenate([np.ravel(each.value(at(d))) for each in constraints])

    constraints: list[dict[str, Any]] = []
    if problem.equalities:
        constraints.append({"type": "eq", "fun": lambda d: entries(problem.equalities, d)})
    if problem.inequalities:
        constraints.append({"type": "ineq", "fun": lambda d: -entries(problem.inequalities, d)})
    d0 = 1e-3 * np.random.default_rng(1).standard_normal(B.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = scipy.optimize.minimize(
            lambda d: problem.objective.value(at(d)),
            d0,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-10, "maxiter": 200},
        )
    h = entries(problem.equalities, judge.x) if problem.equalities else np.zeros(1)
    g = entries(problem.inequalities, judge.x) if problem.inequalities else np.zeros(1)
    met = max(float(np.abs(h).max()), float(g.max())) <= 1e-6
    return not (judge.success and met and judge.fun < result.fun - 1e-4 * max(1.0, abs(result.fun)))


def slsqp(case: Listed, x0: np.ndarray) -> Any:
    """Return scipy's run with the same functions."""
    assert case.cost is not None
    constraints: list[dict[str, Any]] = []
    if case.equalities is not None:
        constraints.append({"type": "eq", "fun": case.equalities[0], "jac": case.equalities[1]})
    if case.inequalities is not None:
        value, jacobian = case.inequalities
        constraints.append({"type": "ineq", "fun": lambda x: -value(x), "jac": lambda x: -jacobian(x)})
    return scipy.optimize.minimize(
        case.cost[0],
        x0,
        jac=case.cost[1],
        method="SLSQP",
        constraints=constraints,
        options={"ftol": 1e-10, "maxiter": 500},
    )


def _against_slsqp(session: Session) -> None:
    """Compare the CPU of whole calls from the starts that SLSQP solves, and that of the Python functions alone."""
    report, ratios, older, calls = session.report, [], [], []
    for case in listed():
        if case.cost is None:
            continue
        rng = np.random.default_rng(0)
        starts = [case.start(rng) for _ in range(3 if session.quick else STARTS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            starts = [x0 for x0 in starts if slsqp(case, x0).success]
            timed = {
                "sqp": partial(_all, partial(_by, case.problem, "sqp"), starts),
                "slsqp": partial(_all, partial(slsqp, case), starts),
                "al": partial(_all, partial(_by, case.problem, "augmented-lagrangian"), starts),
            }
            seconds = interleaved(timed, session.rounds)
        ratios.append(float(np.median(seconds["sqp"] / seconds["slsqp"])))
        least = min(seconds["sqp"]) / min(seconds["slsqp"])
        older.append(float(np.median(seconds["al"] / seconds["slsqp"])))
        counted = [ms.minimize(case.problem, x0, solver="sqp") for x0 in starts]
        evaluations = sum(result.nfev for result in counted)
        calls.append(evaluations * _one_evaluation(case, starts[0]) / min(seconds["sqp"]))
        report.row(
            f"{case.name}: CPU over SLSQP's, {len(starts)} starts (least {least:.3g}, "
            f"{1e3 * min(seconds['sqp']) / len(starts):.3g} ms)",
            ratios[-1],
        )
    report.row("array constraints: CPU over SLSQP's, geometric mean", math.exp(np.mean(np.log(ratios))))
    report.row("the same of the augmented Lagrangian", math.exp(np.mean(np.log(older))))
    report.row("share of our CPU inside of the functions of the problem, mean", float(np.mean(calls)))


def _textbook(session: Session) -> None:
    """Compare the CPU on the problems of the tests, whose constraints are one function each."""
    path = Path(__file__).parents[2] / "tests" / "core" / "constrained_cases.py"
    spec = spec_from_file_location("constrained_cases", path)
    assert spec is not None and spec.loader is not None
    cases = module_from_spec(spec)
    sys.modules[spec.name] = cases  # where its dataclass looks for itself
    spec.loader.exec_module(cases)
    ratios: dict[str, list[float]] = {"sqp": [], "augmented-lagrangian": []}
    chosen = [case for case in cases.CASES.values() if case.feasible]
    for case in chosen[:3] if session.quick else chosen:
        rng = np.random.default_rng(0)
        starts = [x0 for x0 in (case.start(rng) for _ in range(6)) if cases.by_slsqp(case, x0).success]
        if not starts:
            continue
        timed = {name: partial(_all, partial(_by, case.problem, name), starts) for name in ratios}
        seconds = interleaved({**timed, "slsqp": partial(_all, partial(cases.by_slsqp, case), starts)}, session.rounds)
        for name, several in ratios.items():
            several.append(float(np.median(seconds[name] / seconds["slsqp"])))
    means = {name: math.exp(np.mean(np.log(several))) for name, several in ratios.items()}
    what = f"{len(ratios['sqp'])} textbook problems, one function per constraint"
    most = None if session.quick else 6.0
    session.report.row(f"{what}: CPU over SLSQP's, geometric mean", means["sqp"], most=most)
    session.report.row("the largest of these ratios", max(ratios["sqp"]))
    session.report.row("the same of the augmented Lagrangian, geometric mean", means["augmented-lagrangian"])


def _by(problem: ms.Problem, solver: str, x0: Any) -> ms.Result:
    return ms.minimize(problem, x0, solver=solver)


def _all(solve: Any, starts: list[np.ndarray]) -> None:
    for x0 in starts:
        solve(x0)


def _one_evaluation(case: Listed, x: np.ndarray) -> float:
    """Return the CPU seconds of cost, gradient, constraints and their derivatives, called once each."""
    functions = [f for pair in (case.cost, case.equalities, case.inequalities) if pair is not None for f in pair]
    start = time.process_time()
    for _ in range(500):
        for f in functions:
            f(x)
    return (time.process_time() - start) / 500


def _infeasible(session: Session) -> None:
    report = session.report
    ends = [ms.minimize(problem, start, seed=0, solver="sqp").status for problem, start in impossible()]
    report.row("impossible problems that end INFEASIBLE, of 4", ends.count(ms.Status.INFEASIBLE), "d", least=4)
    ends = [ms.minimize(*possible(seed), solver="sqp").status for seed in range(5 if session.quick else 30)]
    report.row(f"possible problems that end INFEASIBLE, of {len(ends)}", ends.count(ms.Status.INFEASIBLE), "d", most=0)
    report.row(
        f"possible problems that are solved, of {len(ends)}", sum(end.success for end in ends), "d", least=len(ends)
    )


def _sizes(session: Session) -> None:
    """Compare with the augmented Lagrangian by dimension: what the default of `minimize` follows."""
    for name, make in (
        ("nonnegative factor, St(n/2, 2)", _factor),
        ("nonnegative component, Sphere(n)", _component),
        ("convex QP with 4n constraints", lambda n: (convex_program(n)[0], np.zeros(n))),
        ("ball and n/2 linear inequalities", _ball),
    ):
        for n in (10,) if session.quick else (20, 60, 100):
            problem, x0 = make(n)
            solvers = ("sqp", "augmented-lagrangian")
            timed = {one: partial(ms.minimize, problem, x0, solver=one) for one in solvers}
            seconds = interleaved(timed, 1 if session.quick else 3)
            ratio = float(np.median(seconds["sqp"] / seconds["augmented-lagrangian"]))
            session.report.row(f"{name}, n = {n}: CPU over that of the augmented Lagrangian", ratio)


def _factor(n: int) -> tuple[ms.Problem, Any]:
    rng = np.random.default_rng(n)
    A, M = rng.random((n // 2, 6)), Stiefel(n // 2, 2)
    f = ms.objective(lambda X: -float(np.sum((X.T @ A) ** 2)), lambda X: -2 * A @ (A.T @ X))
    return ms.Problem(M, f, inequalities=_negative), M.random_point(rng)


def _component(n: int) -> tuple[ms.Problem, Any]:
    rng = np.random.default_rng(n)
    half = rng.standard_normal((n, n))
    A, M = half @ half.T / n, Sphere(n)
    f = ms.objective(lambda x: float(-x @ A @ x), lambda x: -2 * A @ x)
    return ms.Problem(M, f, inequalities=_negative), M.random_point(rng)


_negative = ms.constraint(lambda x: -x, vjp=lambda x, w: -w)


def _ball(n: int) -> tuple[ms.Problem, Any]:
    rng = np.random.default_rng(n)
    a, C = rng.standard_normal(n), rng.standard_normal((n // 2, n))
    f = ms.objective(lambda x: float(np.sum(np.cosh(x - a))), lambda x: np.sinh(x - a))
    ball = ms.constraint(lambda x: np.array([x @ x - 1.0]), vjp=lambda x, w: 2 * w[0] * x)
    rows = ms.constraint(lambda x: C @ x - 0.1, vjp=lambda x, w: w @ C)
    return ms.Problem(Euclidean(n), f, inequalities=[ball, rows]), np.zeros(n)


def _programs(session: Session) -> None:
    """Time one quadratic program: cold, from the right guess, and by other solvers where they are installed."""
    peers = [name for name in ("quadprog", "osqp") if util.find_spec(name)]
    if len(peers) < 2:
        session.report.note("quadprog and osqp are timed too where they are installed: pip install quadprog osqp")
    for n, m in ((4, 9),) if session.quick else ((4, 9), (10, 40), (60, 200)):
        rng = np.random.default_rng(0)
        half = rng.standard_normal((n, n))
        P, q, A = half @ half.T / n + 0.1 * np.eye(n), rng.standard_normal(n), rng.standard_normal((m, n)) / n**0.5
        n_equal = n // 4
        b = -A @ (0.5 * rng.standard_normal(n))
        b[n_equal:] -= 0.3 * rng.random(m - n_equal)
        solved = quadratic_program(P, q, A, b, n_equal, np.zeros(m, bool))
        assert solved is not None
        timed: dict[str, Any] = {
            "from the active constraints": partial(quadratic_program, P, q, A, b, n_equal, solved[2]),
            "Clarabel": partial(_by_clarabel, P, q, A, b, n_equal),
        }
        if "quadprog" in peers:
            timed["quadprog (GPL)"] = partial(import_module("quadprog").solve_qp, P, -q, -A.T, b, n_equal)
        if "osqp" in peers:
            timed["OSQP"] = partial(_by_osqp, P, q, A, b, n_equal)
        seconds = interleaved({name: partial(_times, call, 20) for name, call in timed.items()}, session.rounds)
        for name, each in seconds.items():
            what = f"quadratic program, {n} variables, {m} constraints, {name}: milliseconds"
            session.report.row(what, 1e3 / 20 * float(np.median(each)))


def _times(call: Any, n: int) -> None:
    for _ in range(n):
        call()


def _by_clarabel(P: np.ndarray, q: np.ndarray, A: np.ndarray, b: np.ndarray, n_equal: int) -> Any:
    solver = clarabel()
    settings = solver.DefaultSettings()
    settings.verbose = False
    cones = [*([solver.ZeroConeT(n_equal)] if n_equal else []), solver.NonnegativeConeT(b.size - n_equal)]
    return solver.DefaultSolver(sp.csc_matrix(np.triu(P)), q, sp.csc_matrix(A), -b, cones, settings).solve()


def _by_osqp(P: np.ndarray, q: np.ndarray, A: np.ndarray, b: np.ndarray, n_equal: int) -> Any:
    solver = import_module("osqp").OSQP()
    low = np.concatenate([-b[:n_equal], np.full(b.size - n_equal, -np.inf)])
    options = {"verbose": False, "eps_abs": 1e-8, "eps_rel": 1e-8, "polishing": True, "max_iter": 20_000}
    solver.setup(sp.csc_matrix(np.triu(P)), q, sp.csc_matrix(A), low, -b, **options)
    return solver.solve(raise_error=False)
