"""Routines of BLAS and LAPACK that are called directly for small problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

Routine = Callable[..., Any]


def _both(name: str) -> dict[np.dtype, Routine]:
    return {np.dtype(t): get_blas_funcs(name, dtype=t) for t in (np.float32, np.float64)}  # type: ignore[misc]


# A trick of speed: with numpy's operations in their place `minimize` on a Stiefel manifold of 30×3 matrices takes
# 1.32 times as long, on a product of three factors 1.17 times (`python -m benchmarks.tricks dot`).
DOT, AXPY = _both("dot"), _both("axpy")
"""By dtype: ``u·v``, ``y += a·x`` in place."""

GEMM: Routine = get_blas_funcs("gemm", dtype=np.float64)  # type: ignore[assignment]
TRSM: Routine = get_blas_funcs("trsm", dtype=np.float64)  # type: ignore[assignment]
POTRF: Routine = get_lapack_funcs("potrf", dtype=np.float64)  # type: ignore[assignment]
"""In float64: ``alpha·A B + beta·C`` in Fortran order, the solve with a triangular matrix, the Cholesky factor."""
