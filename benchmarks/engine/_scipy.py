"""scipy's L-BFGS-B in the race, over free parameters of the manifold; bounds are its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Manifold,
    Oblique,
    Positive,
    Power,
    Simplex,
    Sphere,
    SymmetricPositiveDefinite,
)

from ._measure import Ended, Oracle, Outcome, factors, like, parts
from ._problems import Case

Array = NDArray[Any]


def lbfgsb(case: Case, limit: float) -> Outcome:
    """Minimize over the free matrices from the same start, where Y = Q and R = I."""
    oracle = Oracle(case, limit)
    shapes = [part.shape for part in parts(case.start)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    bounded = [isinstance(factor, BoundedDiagonal) for factor in factors(case.manifold)]

    def both(flat: Array) -> tuple[float, Array]:
        free = [part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True)]
        pairs = [(y, None) if b else _signed_qr(y) for y, b in zip(free, bounded, strict=True)]
        value, egrad = oracle.fused(like(case.start, [x for x, _ in pairs]))
        pulled = [g if R is None else _through_qr(x, R, g) for (x, R), g in zip(pairs, parts(egrad), strict=True)]
        return value, np.concatenate([g.ravel() for g in pulled])

    limits = []
    for factor, shape in zip(factors(case.manifold), shapes, strict=True):
        box = (-factor.bound, factor.bound) if isinstance(factor, BoundedDiagonal) else (None, None)
        limits += [box] * int(np.prod(shape))
    start = np.concatenate([part.ravel() for part in parts(case.start)])
    with suppress(Ended):  # the oracle ends the run: no tolerance of the optimizer may end it before
        scipy.optimize.minimize(
            both,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=limits if any(bounded) else None,
            options={"maxiter": 10**6, "maxfun": 10**7, "ftol": 0, "gtol": 0, "maxcor": 10},
        )
    return oracle.outcome()


Chart = tuple[Any, Any, Any]
"""Parameters of a point, the point of parameters, and the gradient by the parameters from that by the point."""


def chart(manifold: Manifold) -> Chart | None:
    """Return free parameters as one writes them by hand: division by norms, softmax, log-Cholesky factors."""
    match manifold:
        case Sphere() | Oblique():

            def length(z: Array) -> Array:
                return np.sqrt((z * z).sum(axis=0))

            def turned(z: Array, x: Array, g: Array) -> Array:
                return (g - x * (x * g).sum(axis=0)) / length(z)

            return lambda x: x, lambda z: z / length(z), turned
        case Simplex():

            def softmax(z: Array) -> Array:
                e = np.exp(z - z.max())
                return e / e.sum()

            return np.log, softmax, lambda z, x, g: x * (g - np.dot(x, g))
        case SymmetricPositiveDefinite() | Power(manifold=SymmetricPositiveDefinite()):
            diagonal = np.eye(manifold.shape[-1], dtype=bool)

            def factor(z: Array) -> Array:
                return np.where(diagonal, np.exp(np.where(diagonal, z, 0.0)), np.tril(z))

            def parameters(X: Array) -> Array:
                L = np.linalg.cholesky(X)
                return np.where(diagonal, np.log(np.where(diagonal, L, 1.0)), L)

            def through_factor(z: Array, X: Array, G: Array) -> Array:
                L = factor(z)
                slope = np.tril((G + G.swapaxes(-1, -2)) @ L)
                return np.where(diagonal, slope * L, slope)

            return parameters, lambda z: factor(z) @ factor(z).swapaxes(-1, -2), through_factor
        case Positive():
            return np.log, np.exp, lambda z, x, g: x * g
        case Euclidean():
            return lambda x: x, lambda z: z, lambda z, x, g: g
    return None


def free(case: Case, limit: float) -> Outcome:
    """Minimize over the free parameters of :func:`chart`."""
    oracle = Oracle(case, limit)
    charts = [each for factor in factors(case.manifold) if (each := chart(factor)) is not None]
    start = [out(part) for (out, _, _), part in zip(charts, parts(case.start), strict=True)]
    ends = np.cumsum([part.size for part in start])[:-1]

    def both(flat: Array) -> tuple[float, Array]:
        z = [part.reshape(one.shape) for part, one in zip(np.split(flat, ends), start, strict=True)]
        x = [back(part) for (_, back, _), part in zip(charts, z, strict=True)]
        try:
            value, egrad = oracle.fused(like(case.start, x))
        except np.linalg.LinAlgError:  # a trial step that leaves the range of numbers
            return np.inf, np.zeros_like(flat)
        pulled = [pull(*each) for (_, _, pull), *each in zip(charts, z, x, parts(egrad), strict=True)]
        return value, np.concatenate([g.ravel() for g in pulled])

    with suppress(Ended), np.errstate(all="ignore"):
        scipy.optimize.minimize(
            both,
            np.concatenate([part.ravel() for part in start]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 10**6, "maxfun": 10**7, "ftol": 0, "gtol": 0, "maxcor": 10},
        )
    return oracle.outcome()


def _signed_qr(Y: Array) -> tuple[Array, Array]:
    Q, R = scipy.linalg.qr(Y, mode="economic", check_finite=False)
    signs = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


def _through_qr(Q: Array, R: Array, G: Array) -> Array:
    """Return the gradient in Y of a function of its Q factor (Seeger and others, 2017)."""
    M = np.tril(-G.T @ Q)
    M = M + np.tril(M, -1).T
    return scipy.linalg.solve_triangular(R, (G + Q @ M).T, check_finite=False).T
