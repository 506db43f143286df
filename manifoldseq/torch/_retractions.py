"""Retractions to orthonormal rows of tensors: polar factor by iteration, or QR."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")

_CONVERGES = 0.5
_PASSES = 30
_SERIES = (-1 / 2, 3 / 8, -5 / 16, 35 / 128, -63 / 256, 231 / 1024, -429 / 2048, 6435 / 32768)
"""Binomial coefficients: (1 + e)^(-1/2) is 1 - e / 2 + 3 / 8 e^2 - ..."""


def polar_rows(Y: Any) -> Any:
    """Return the nearest matrix with orthonormal rows, for a tensor (M, D) with M <= D.

    If Y is nearly orthonormal, the result is computed by an iteration of products, and otherwise by an
    eigendecomposition in float64.

    One iteration is ``p(E) Y`` with ``E = Y Y' - I`` and p the Taylor polynomial of ``(I + E)^(-1/2)`` whose error is
    below rounding. After a tangent step, E is quadratic in the step, so that one iteration is nearly always sufficient.
    An iteration costs two products of the size of Y, and one product of M×M matrices for every two terms of p.

    Raises
    ------
    ValueError
        If Y is no matrix with M <= D.
    """
    _check_wide(Y)
    # A trick of speed: with eigh in place of the iteration an epoch of a network on MNIST takes 1.12 times as long with
    # 50 rows, 1.19 times with 200, 0.86 times with 400 (`python -m benchmarks.tricks rows`)
    eps = torch.finfo(Y.dtype).eps
    for _ in range(_PASSES):
        E = Y @ Y.T
        E.diagonal().sub_(1)
        size = float(torch.linalg.matrix_norm(E))
        if not size < _CONVERGES:  # NaN too
            break
        if size**2 < eps:
            return torch.addmm(Y, E, Y, alpha=-0.5)
        # A trick of speed: with two terms at a time, in twice as many passes, training with long steps takes 1.24 times
        # as long with 100 x 784 parameters, 1.12 to 1.19 with 64 x 64 x 3 x 3 (`python -m benchmarks.tricks series`)
        degree = next((n for n in range(2, len(_SERIES) + 1, 2) if size ** (n + 1) < eps), 0)
        Y = torch.addmm(Y, _series(E, degree or 2), Y)
        if degree:  # Y Y' - I is 2 c E^(degree + 1) now, c the next term's coefficient, at most 5/16
            return Y
    G = Y.double() @ Y.double().T
    if not bool(torch.isfinite(G).all()):
        return Y  # the caller sees a loss that is not finite
    values, vectors = torch.linalg.eigh(G)
    smallest = float(values[0])
    if smallest <= 1e-12 * float(values[-1]):
        return qr_rows(Y)
    return ((vectors * values.rsqrt()) @ (vectors.T @ Y.double())).to(Y.dtype)


def _series(E: Any, degree: int) -> Any:
    """Return ``(I + E)^(-1/2) - I`` up to E^degree, by Horner's rule in E^2."""
    square, X = E @ E, None
    for k in range(degree - 2, -1, -2):
        pair = torch.add(_SERIES[k] * E, square, alpha=_SERIES[k + 1])
        X = pair if X is None else pair.addmm_(square, X)
    return X


def qr_rows(Y: Any) -> Any:
    """Return Q' for Y' = QR, with a positive diagonal of R, for a tensor Y of shape (M, D) with M <= D.

    Raises
    ------
    ValueError
        If Y is no matrix with M <= D.
    """
    _check_wide(Y)
    Q, R = torch.linalg.qr(Y.T)
    return torch.where(R.diagonal() < 0, -Q, Q).T.contiguous()


def _check_wide(Y: Any) -> None:
    if not isinstance(Y, torch.Tensor):
        raise ValueError(f"Y is of type {type(Y).__name__}: pass a tensor, torch.as_tensor(Y)")
    if Y.ndim != 2 or Y.shape[0] > Y.shape[1]:
        raise ValueError(
            f"Y of shape {tuple(Y.shape)} cannot have orthonormal rows: pass (M, D) with M <= D, such as Y.T"
        )


RETRACTIONS: dict[str, Callable[[Any], Any]] = {"polar": polar_rows, "qr": qr_rows}
"""The retractions by name, for optimizers, networks and their tables."""
