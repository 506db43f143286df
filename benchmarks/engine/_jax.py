"""Compiled solvers: time per iteration against the numpy engine and peers, agreement, batches, compilation."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import util
from typing import Any, NamedTuple

import numpy as np

import manifoldseq as ms

from .._report import interleaved
from ._session import Session

M = ms.manifolds


class Pair(NamedTuple):
    """A problem of jax, and the same with a gradient in numpy."""

    compiled: ms.Problem
    by_hand: ms.Problem
    start: Any


def run(session: Session) -> None:
    """Measure; CPU seconds of whole runs with the default rule, divided by their iterations."""
    _iterations(session)
    _geojax(session)
    _optax(session)
    _agreement(session)
    _batches(session)
    _compilation(session)


def brockett(X: Any, A: Any, N: Any) -> Any:
    return ((A @ X) * X * N).sum()


def procrustes(X: Any, A: Any, B: Any) -> Any:
    return ((A @ X - B) ** 2).sum()


def likelihood(X: Any, S: Any) -> Any:
    import jax.numpy as jnp

    return jnp.linalg.slogdet(X)[1] + jnp.trace(jnp.linalg.solve(X, S))


def alignment(R: Any, S: Any) -> Any:
    return ((R - S) ** 2).sum() + ((R[1:] - R[:-1]) ** 2).sum()


def _pairs(seed: int) -> dict[str, Pair]:
    rng = np.random.default_rng(seed)
    found: dict[str, Pair] = {}

    def add(name: str, manifold: Any, cost: Any, fused: Callable[[Any], Any], *args: np.ndarray) -> None:
        compiled = ms.Problem(manifold, ms.objective(cost, args=args, backend="jax"))
        by_hand = ms.Problem(manifold, ms.objective(value_and_gradient=fused))
        found[name] = Pair(compiled, by_hand, manifold.random_point(np.random.default_rng(seed)))

    for n, p in ((5, 2), (20, 5), (200, 10)):
        A, N = rng.standard_normal((n, n)), np.arange(1.0, p + 1)
        A = A + A.T

        def of_brockett(X: Any, A: Any = A, N: Any = N) -> Any:
            AXN = (A @ X) * N
            return float((AXN * X).sum()), 2 * AXN

        add(f"St({n},{p})", M.Stiefel(n, p), brockett, of_brockett, A, N)
    B = rng.standard_normal((5, 9))
    S = B @ B.T / 9

    def of_likelihood(X: Any) -> Any:
        inverse = np.linalg.inv(X)
        return float(np.linalg.slogdet(X)[1] + np.trace(inverse @ S)), inverse - inverse @ S @ inverse

    add("SPD(5)", M.SymmetricPositiveDefinite(5), likelihood, of_likelihood, S)
    T = rng.standard_normal((150, 3, 3))

    def of_alignment(R: Any) -> Any:
        D, E = R - T, R[1:] - R[:-1]
        G = 2 * D
        G[1:] += 2 * E
        G[:-1] -= 2 * E
        return float((D * D).sum() + (E * E).sum()), G

    add("SO(3)^150", M.SpecialOrthogonal(3) ** 150, alignment, of_alignment, T)
    return found


def _pure(pair: Pair, solver: str) -> Callable[[], Any]:
    """Return a run of the pure function, compiled with its start and data as arguments."""
    import jax

    import manifoldseq_jax

    traced = pair.compiled.objective.traced
    assert traced is not None

    def run(x: Any, *args: Any) -> Any:
        return manifoldseq_jax.minimize(traced.cost, pair.compiled.manifold, x, *args, method=solver)

    compiled = jax.jit(run)

    def call() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(compiled(pair.start, *traced.args))

    return call


LEAST = {
    ("St(5,2)", "bb"): (10, 8),
    ("St(20,5)", "bb"): (4, 8),
    ("St(5,2)", "lbfgs"): (4, 8),
    ("St(20,5)", "lbfgs"): (3.5, 8),
    ("St(200,10)", "bb"): (None, None),
    ("St(200,10)", "lbfgs"): (None, None),
    ("SPD(5)", "bb"): (5, None),
    ("SPD(5)", "lbfgs"): (5, None),
    ("SO(3)^150", "bb"): (2, None),
    ("SO(3)^150", "lbfgs"): (1.3, None),
}
"""Targets of the pure function: against a gradient in numpy, and against the same cost through the loop in Python."""


def _iterations(session: Session) -> None:
    session.report.title("compiled solvers: time per iteration of whole runs with the default rule")
    for name, pair in _pairs(0).items():
        for solver in ("bb", "lbfgs"):
            kinds = {
                "compiled": (pair.compiled, f"jax:{solver}"),
                "numpy": (pair.by_hand, solver),
                "python": (pair.compiled, solver),
            }
            nit: dict[str, int] = {}

            pure = _pure(pair, solver)

            def one(kind: str, kinds: Any = kinds, pair: Pair = pair, nit: Any = nit, pure: Any = pure) -> None:
                pair_of_kind = kinds.get(kind)
                if pair_of_kind is None:
                    result = pure()
                else:
                    result = ms.minimize(pair_of_kind[0], pair.start, solver=pair_of_kind[1])
                nit[kind] = int(result.nit)

            functions = {}
            for kind in ("pure", *kinds):
                one(kind)  # compiles
                began = time.process_time()
                one(kind)
                repeats = max(1, int(0.05 / max(time.process_time() - began, 1e-4)))
                functions[kind] = (lambda kind=kind, n=repeats, one=one: [one(kind) for _ in range(n)]), repeats
            rounds = session.rounds + 2
            seconds = interleaved({kind: call for kind, (call, _) in functions.items()}, rounds)
            each = {kind: np.min(seconds[kind]) / functions[kind][1] / max(nit[kind], 1) for kind in functions}
            by_numpy, by_python = LEAST[name, solver]
            for kind, how in (("pure", "pure function"), ("compiled", "ms.minimize")):
                what, targets = f"{name} {solver}, {how}", (by_numpy, by_python) if kind == "pure" else (None, None)
                session.report.row(f"{what}: microseconds per iteration", 1e6 * each[kind])
                row = f"{what}: times faster than {solver}, gradient in numpy"
                session.report.row(row, each["numpy"] / each[kind], least=targets[0])
                row = f"{what}: times faster than {solver}, same cost of jax"
                session.report.row(row, each["python"] / each[kind], least=targets[1])


def _missing(session: Session, name: str) -> bool:
    if util.find_spec(name):
        return False
    session.report.skipped.append(f"compiled solvers compared with {name}")
    return True


def _times(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the CPU seconds of one call of each function: the least of interleaved rounds of at least 20 ms."""
    repeats = {}
    for name, call in functions.items():
        call()  # compiles
        began = time.process_time()
        call()
        repeats[name] = max(1, int(0.03 / max(time.process_time() - began, 1e-4)))
    loops = {name: lambda call=call, n=repeats[name]: [call() for _ in range(n)] for name, call in functions.items()}
    return {name: float(np.min(each)) / repeats[name] for name, each in interleaved(loops, rounds).items()}


def _geojax(session: Session) -> None:
    session.report.title("compiled solvers: time per iteration against geojax, whose loop is in Python")
    if _missing(session, "geojax"):
        return
    import geojax.geometry
    import geojax.optimization
    import jax
    import jax.numpy as jnp

    peers = {"bb": geojax.optimization.BarzilaiBorwein, "lbfgs": geojax.optimization.LBFGS}
    for name, pair in _pairs(0).items():
        if not name.startswith("St("):
            continue
        traced = pair.compiled.objective.traced
        assert traced is not None
        for solver, peer in peers.items():
            pure = _pure(pair, solver)

            def theirs(pair: Pair = pair, traced: Any = traced, peer: Any = peer) -> Any:
                manifold = geojax.geometry.StiefelEuclidean(size=pair.start.shape)
                settings = peer(verbosity=0, maxiter=15, tolgradnorm=1e-12)
                cost = lambda X: traced.cost(X, *traced.args)  # noqa: E731
                start = jnp.asarray(pair.start)
                return geojax.optimization.Minimize(M=manifold, cost=cost, x0=start, solver=settings).solve()

            with jax.enable_x64(True):
                made = len(theirs()[2]) - 1
                seconds = _times({"ours": pure, "theirs": theirs}, 1 if session.quick else 3)
            ratio = (seconds["theirs"] / made) / (seconds["ours"] / int(pure().nit))
            session.report.row(f"{name}: geojax's {solver} per iteration over ours", ratio, least=50)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1::2] - x[::2] ** 2) ** 2 + (1 - x[::2]) ** 2).sum()


def _optax(session: Session) -> None:
    session.report.title("compiled solvers: whole runs of L-BFGS on Euclidean(50) against optax")
    if _missing(session, "optax"):
        return
    import jax
    import jax.numpy as jnp
    import optax

    import manifoldseq_jax

    start, tol = np.tile([-1.2, 1.0], 25), 1e-8
    peer = optax.lbfgs(memory_size=10)
    evaluated = optax.value_and_grad_from_state(rosenbrock)

    def theirs(x: Any) -> Any:
        def body(carry: Any) -> Any:
            x, state, k, g = carry
            value, g = evaluated(x, state=state)
            update, state = peer.update(g, state, x, value=value, grad=g, value_fn=rosenbrock)
            return optax.apply_updates(x, update), state, k + 1, g

        def going(carry: Any) -> Any:
            return (jnp.linalg.norm(carry[3]) > tol) & (carry[2] < 1000)

        return jax.lax.while_loop(going, body, (x, peer.init(x), 0, jax.grad(rosenbrock)(x)))[0]

    def ours(x: Any) -> Any:
        rule = ms.GradientNorm(tol) | ms.MaxIterations(1000)
        return manifoldseq_jax.minimize(rosenbrock, M.Euclidean(50), x, stop=rule).x

    with jax.enable_x64(True):
        x = jnp.asarray(start)
        functions = {"ours": jax.jit(ours), "theirs": jax.jit(theirs)}
        assert all(float(rosenbrock(solve(x))) < 1e-12 for solve in functions.values())
        calls = {name: lambda solve=solve: jax.block_until_ready(solve(x)) for name, solve in functions.items()}
        seconds = _times(calls, session.rounds + 2)
    session.report.row("optax.lbfgs over ours", seconds["theirs"] / seconds["ours"], least=1.5)


def _agreement(session: Session) -> None:
    """Compare success, value and status of random problems with those of the numpy engine."""
    seeds = 2 if session.quick else 20
    session.report.title("compiled solvers: random problems of St(6,2) and St(20,5), compared with the numpy engine")
    equal = {"success": 0, "value to ten digits": 0, "status": 0}
    total = 0
    for n, p in ((6, 2), (20, 5)):
        manifold, N = M.Stiefel(n, p), np.arange(1.0, p + 1)
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            A, B, S = rng.standard_normal((n + 2, n)), rng.standard_normal((n + 2, p)), rng.standard_normal((n, n))
            S, start = S + S.T, manifold.random_point(rng)
            for cost, args, gradient in (
                (procrustes, (A, B), lambda X, A=A, B=B: 2 * A.T @ (A @ X - B)),
                (brockett, (S, N), lambda X, S=S, N=N: 2 * (S @ X) * N),
            ):
                compiled = ms.Problem(manifold, ms.objective(cost, args=args, backend="jax"))
                by_hand = ms.objective(lambda X, cost=cost, args=args: float(cost(X, *args)), gradient)
                for solver in ("bb", "lbfgs"):
                    ours = ms.minimize(compiled, start, solver=f"jax:{solver}")
                    theirs = ms.minimize(ms.Problem(manifold, by_hand), start, solver=solver)
                    total += 1
                    equal["success"] += ours.success is theirs.success
                    equal["value to ten digits"] += abs(ours.fun - theirs.fun) <= 5e-10 * abs(theirs.fun)
                    equal["status"] += ours.status is theirs.status
    for what, least in (("success", 1.0), ("value to ten digits", 1.0), ("status", 0.98)):
        session.report.row(f"{total} problems: equal {what}, share", equal[what] / total, ".4g", least=least)


def _batches(session: Session) -> None:
    session.report.title("compiled solvers: many problems against minimize_batch of the numpy engine")
    n = 50 if session.quick else 1000
    rng = np.random.default_rng(0)
    for rows, p in ((5, 2), (20, 5)):
        manifold = M.Stiefel(rows, p)
        A, B, N = rng.standard_normal((n, rows, rows)), rng.standard_normal((n, rows, p)), np.arange(1.0, p + 1)
        S = A + A.mT
        starts = np.stack([manifold.random_point(rng) for _ in range(n)])

        def of_procrustes(X: Any, which: Any, A: Any = A, B: Any = B) -> Any:
            R = A[which] @ X - B[which]
            return (R * R).sum(axis=(1, 2)), 2 * A[which].mT @ R

        def of_brockett(X: Any, which: Any, S: Any = S, N: Any = N) -> Any:
            Y = (S[which] @ X) * N
            return (Y * X).sum(axis=(1, 2)), 2 * Y

        for name, cost, batched, data in (
            ("Procrustes", procrustes, of_procrustes, [(a, b) for a, b in zip(A, B, strict=True)]),
            ("Brockett", brockett, of_brockett, [(s, N) for s in S]),
        ):
            many = [ms.Problem(manifold, ms.objective(cost, args=args, backend="jax")) for args in data]
            whole = ms.Problem(manifold, ms.objective(batched=batched))
            for solver in ("bb", "lbfgs"):
                kinds = {"compiled": (many, f"jax:{solver}"), "numpy": (whole, solver)}
                functions = {
                    kind: lambda given=given, starts=starts: ms.minimize_batch(given[0], starts, solver=given[1])
                    for kind, given in kinds.items()
                }
                assert all(call().success.mean() > 0.99 for call in functions.values())  # and compiles
                seconds = interleaved(functions, min(session.rounds, 3))
                ratio = float(np.min(seconds["numpy"]) / np.min(seconds["compiled"]))
                session.report.row(f"{n} of {name} St({rows},{p}), jax:{solver}: times faster", ratio, least=1.1)


def _compilation(session: Session) -> None:
    session.report.title("compiled solvers: CPU seconds of a first problem, nearly all of them to compile")

    def fresh(n: int, seed: int) -> ms.Problem:
        A = np.random.default_rng(seed).standard_normal((n, n))
        objective = ms.objective(brockett, args=(A + A.T, np.array([1.0, 2.0])), backend="jax")
        return ms.Problem(M.Stiefel(n, 2), objective)

    n = 6
    for stop, what, most in (
        (ms.GradientNorm(1e-6) | ms.MaxIterations(1000), "gradient rule", 3.0),
        (None, "default rule", 5.0),
    ):
        for solver in ("bb", "lbfgs"):
            n += 1  # nothing that an earlier row has compiled serves another shape
            began = time.process_time()
            ms.minimize(fresh(n, 0), solver=f"jax:{solver}", stop=stop, seed=0)
            session.report.row(f"jax:{solver}, {what}, St({n},2)", time.process_time() - began, most=most)
    began = time.process_time()
    ms.minimize(fresh(n, 1), solver="jax:lbfgs", seed=0)
    session.report.row("a second problem", time.process_time() - began, ".2g")
