"""The nearest orthogonal matrix, whose determinant may have either sign: how often the global optimum is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymanopt
from pymanopt.optimizers import ConjugateGradient

import manifoldseq as ms

from ._session import Session

PEER_SEEDS = 20


def run(session: Session) -> None:
    """Measure: any other local optimum is worse by twice a singular value of the matrix or more."""
    sizes, seeds = ((3, 6), 3) if session.quick else ((3, 4, 6, 10, 20, 35, 50), 100)
    ours, theirs = [], []
    for n in sizes:
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            A = rng.standard_normal((n, n))
            manifold = ms.manifolds.Orthogonal(n)
            start = manifold.random_point(rng)
            least = float(np.sum((np.linalg.svd(A, compute_uv=False) - 1) ** 2)) / 2

            def fused(Q: Any, A: Any = A) -> tuple[float, Any]:
                R = Q - A
                return 0.5 * float(np.vdot(R, R)), R

            problem = ms.Problem(manifold, ms.objective(value_and_gradient=fused))
            result = ms.minimize(problem, start, components="all")
            ours.append(result.fun - least <= 1e-8 * least)
            session.returned(manifold, result.x)
            if seed < PEER_SEEDS:
                theirs.append(_pymanopt(A, start) - least <= 1e-8 * least)
    report = session.report
    report.title(f"nearest orthogonal matrix, n = {', '.join(map(str, sizes))}, {seeds} seeds each")
    report.row('global optima with components="all", per cent', 100 * float(np.mean(ours)), least=100)
    report.row(
        f"global optima of pymanopt CG on its Stiefel(n, n), same starts, {min(seeds, PEER_SEEDS)} seeds, per cent",
        100 * float(np.mean(theirs)),
    )


def _pymanopt(A: Any, start: Any) -> float:
    manifold = pymanopt.manifolds.Stiefel(*A.shape)
    wrap = pymanopt.function.numpy(manifold)
    cost = wrap(lambda Q: 0.5 * float(np.vdot(Q - A, Q - A)))
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=wrap(lambda Q: Q - A))
    return float(ConjugateGradient(verbosity=0, max_iterations=2000).run(problem, initial_point=start).cost)
