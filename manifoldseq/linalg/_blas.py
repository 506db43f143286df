"""The routines of BLAS and LAPACK that small problems call directly: numpy takes two or three calls for the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

Routine = Callable[..., Any]


def _both(name: str) -> dict[np.dtype, Routine]:
    return {np.dtype(t): get_blas_funcs(name, dtype=t) for t in (np.float32, np.float64)}  # type: ignore[misc]


DOT, AXPY, GEMM = _both("dot"), _both("axpy"), _both("gemm")
"""By dtype: ``u·v``, ``y += a·x`` in place, ``alpha·A B + beta·C`` in Fortran order."""

NRM2: Routine = get_blas_funcs("nrm2", dtype=np.float64)  # type: ignore[assignment]
TRSM: Routine = get_blas_funcs("trsm", dtype=np.float64)  # type: ignore[assignment]
POTRF: Routine = get_lapack_funcs("potrf", dtype=np.float64)  # type: ignore[assignment]
"""In float64: the Euclidean norm, the solve with a triangular matrix, the Cholesky factor."""
