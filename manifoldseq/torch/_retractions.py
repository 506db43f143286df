"""Retractions to orthonormal rows of tensors: polar factor by iteration, or QR."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")

_CONVERGES = 0.5
_PASSES = 30


def polar_rows(Y: Any) -> Any:
    """Return the nearest matrix with orthonormal rows, of a tensor (M, D) with M <= D.

    By the iteration of Newton and Schulz where it is near one, else by an eigendecomposition in float64.

    The cubic step is ``(I - E/2 + 3/8 E^2) Y`` with ``E = Y Y' - I``; after a tangent step E is quadratic in the step,
    so that one such step, three products, nearly always suffices; two, where E^2 is below rounding.

    Raises
    ------
    ValueError
        If Y is no matrix with M <= D.
    """
    _check_wide(Y)
    # A trick of speed: with eigh in place of the iteration an epoch of a network on MNIST takes 1.12 times as long with
    # 50 rows, 1.19 times with 200, .86 times with 400 (`python -m benchmarks.tricks rows`)
    eps = torch.finfo(Y.dtype).eps
    for _ in range(_PASSES):
        E = Y @ Y.T
        E.diagonal().sub_(1)
        size = float(torch.linalg.matrix_norm(E))
        if not size < _CONVERGES:  # NaN too
            break
        Y = torch.addmm(Y, -0.5 * E if size**2 < eps else torch.addmm(E, E, E, beta=-0.5, alpha=0.375), Y)
        if size**3 < eps:  # the error of a cubic step is 5/8 of the cube
            return Y
    G = Y.double() @ Y.double().T
    if not bool(torch.isfinite(G).all()):
        return Y  # the caller sees a loss that is not finite
    values, vectors = torch.linalg.eigh(G)
    smallest = float(values[0])
    if smallest <= 1e-12 * float(values[-1]):
        return qr_rows(Y)
    return ((vectors * values.rsqrt()) @ (vectors.T @ Y.double())).to(Y.dtype)


def qr_rows(Y: Any) -> Any:
    """Return the orthonormal factor of Y' = QR with positive diagonal of R, as rows, of a tensor (M, D) with M <= D.

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
"""What optimizers, networks and their tables choose from; a new one is one entry."""
