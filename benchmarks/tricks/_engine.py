"""Tricks of the engine: products of small vectors, orthonormal factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import manifoldseq as ms
from manifoldseq.linalg import _blas, _cayley, _polar
from manifoldseq.manifolds import _stiefel

from ..engine._more_problems import synchronization
from ..engine._problems import Case, joint_diagonalization, mixed
from ._measure import Trick, replaced


def dot() -> Trick:
    """Return BLAS's dot product and axpy, against numpy's operations."""
    tables = ((_blas.DOT, lambda u, v: float(u @ v)), (_blas.AXPY, _axpy))
    plain = tuple(mock.patch.dict(table, dict.fromkeys(table, routine)) for table, routine in tables)
    return Trick(plain, _runs(_small(), mixed()))


def polar() -> Trick:
    """Return the series of the polar factor, against the singular value decomposition."""
    by_svd = partial(_polar._polar_by_svd, known_finite=True)
    plain = tuple(replaced(module, polar=by_svd) for module in (_stiefel, _cayley))
    return Trick(plain, _runs(mixed(), joint_diagonalization(), synchronization()))


def gemm() -> Trick:
    """Return the terms of the series for the polar factor in one call of BLAS each, against numpy's operations."""
    plain = (replaced(_polar, _accumulate=lambda A, B, c=1.0, d=1.0: c * A + d * (A @ B)),)
    return Trick(plain, _runs(_small(), mixed()))


def qr() -> Trick:
    """Return the QR factor by Cholesky, against Householder reflections."""
    plain = (replaced(_polar, _cholesky_qr=lambda M: None),)
    return Trick(plain, _runs(_small(), mixed(), options={"retraction": "qr"}))


def _axpy(x: Any, y: Any, n: int, a: float) -> None:
    y += a * x


def _small() -> Case:
    S, N = np.diag(np.arange(30.0, 0, -1)), np.arange(1.0, 4)

    def fused(X: Any) -> tuple[float, Any]:
        G = (S @ X) * N
        return 0.5 * float(np.vdot(X, G)), G

    manifold = ms.manifolds.Stiefel(30, 3)
    start = manifold.random_point(np.random.default_rng(0))
    return Case("Brockett St(30,3)", manifold, start, fused, lambda X: fused(X)[0], lambda X: fused(X)[1])


def _runs(*cases: Case, options: dict[str, Any] | None = None) -> dict[str, Callable[[], object]]:
    stop = ms.MaxIterations(100)

    def run(case: Case) -> Callable[[], object]:
        problem = case.problem
        return lambda: ms.minimize(problem, case.start, solver="lbfgs", options=options, stop=stop)

    return {f"minimize {case.name}": run(case) for case in cases}
