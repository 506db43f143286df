"""Two hundred independent Procrustes problems: all at once, and one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import manifoldseq as ms

from .._report import interleaved
from . import _pymanopt
from ._measure import TOLERANCE, gradient_norm
from ._problems import Case
from ._session import Session

STOP = ms.GradientNorm(TOLERANCE, relative=True) | ms.MaxIterations(10_000)


def run(session: Session) -> None:
    """Measure problems of condition about ten, then such where a few need far more iterations than the others."""
    _measure(session, "well-conditioned", 2.0, everybody=True)
    _measure(session, "ill-conditioned", 1.0, everybody=False)


def _measure(session: Session, kind: str, shift: float, everybody: bool) -> None:
    n_problems, n, p = (10, 8, 2) if session.quick else (200, 20, 5)
    rng = np.random.default_rng(0)
    manifold = ms.manifolds.Stiefel(n, p)
    A = rng.standard_normal((n_problems, n, n)) / np.sqrt(n) + shift * np.eye(n)
    starts = np.stack([manifold.random_point(rng) for _ in range(n_problems)])
    B = A @ np.stack([manifold.random_point(rng) for _ in range(n_problems)]) + 0.1 * rng.standard_normal(starts.shape)

    def batched(X: Any, which: Any) -> tuple[Any, Any]:
        A_, R = A[which], -B[which]
        R += A_ @ X
        return 0.5 * np.einsum("kij,kij->k", R, R), A_.swapaxes(1, 2) @ R

    def single(k: int) -> Case:
        A_, B_ = A[k], B[k]

        def fused(X: Any) -> tuple[float, Any]:
            R = A_ @ X - B_
            return 0.5 * float(np.vdot(R, R)), A_.T @ R

        return Case(f"{k}", manifold, starts[k], fused, lambda X: fused(X)[0], lambda X: A_.T @ (A_ @ X - B_))

    several = [single(k) for k in range(n_problems)]
    together = ms.Problem(manifold, ms.objective(batched=batched))
    found: dict[str, Any] = {}

    def at_once() -> None:
        found["minimize_batch"] = ms.minimize_batch(together, starts, stop=STOP).x

    def loop(name: str) -> None:
        found[name] = [ms.minimize(c.problem, c.start, solver=name, stop=STOP).x for c in several]

    def peer(run: Any) -> None:
        assert all(run(c, 5.0).solved for c in several)

    functions = {"minimize_batch": at_once, "loop over pymanopt CG": lambda: peer(_pymanopt.stock)}
    if everybody:
        functions["loop over pymanopt CG, memoized"] = lambda: peer(_pymanopt.memoized)
        functions["loop over minimize, lbfgs"] = lambda: loop("lbfgs")
        functions["loop over minimize, bb"] = lambda: loop("bb")
    seconds = interleaved(functions, session.rounds)
    ends = [gradient_norm(manifold, x, c.gradient(x)) / gradient_norm(manifold, c.start, c.gradient(c.start))
            for x, c in zip(found["minimize_batch"], several, strict=True)]  # fmt: skip
    for points in found.values():
        for x in points:
            session.returned(manifold, x)
    report = session.report
    report.title(
        f"{n_problems} independent Procrustes problems on St({n},{p}), {kind}, each to 1e-6 of its first gradient"
    )
    report.row(
        "problems solved by minimize_batch", sum(end <= TOLERANCE * (1 + 1e-6) for end in ends), "d", least=n_problems
    )
    base = seconds["minimize_batch"]
    for name, each in seconds.items():
        report.row(f"seconds, {name}", float(np.median(each)))
    for name in list(seconds)[1:]:
        ratio = float(np.median(seconds[name] / base))
        report.row(f"minimize_batch against {name}", ratio, least=20 if name == "loop over pymanopt CG" else None)
