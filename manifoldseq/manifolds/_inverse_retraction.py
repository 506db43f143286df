"""The way from one point to another: exact logarithms where they are short, else to first order."""

from __future__ import annotations

import numpy as np

from .._result import Point
from ..linalg._polar import polar, symmetric
from ..linalg._tree import norm, tree_map
from ._base import Manifold
from ._positive import Positive
from ._product import _Factored
from ._simplex import Simplex
from ._spd import SymmetricPositiveDefinite, _roots


def inverse_retraction(manifold: Manifold, x: Point, y: Point) -> Point:
    """Return a tangent vector at `x` that leads to `y`.

    On Positive, Simplex and SymmetricPositiveDefinite the logarithm. Elsewhere the projection of y − x, on embedded
    metrics the negative gradient of half the squared :func:`distance`; on a quotient y is turned to the representative
    nearest to x.
    """
    if isinstance(manifold, _Factored):
        return tuple(inverse_retraction(f, a, b) for f, a, b in zip(manifold.factors, x, y, strict=True))
    exact = _LOGARITHMS.get(type(manifold))
    if exact is not None:
        return exact(x, y).astype(x.dtype, copy=False)
    return manifold.project(x, _difference(manifold, x, y))


def distance(manifold: Manifold, x: Point, y: Point) -> float:
    """Return the geodesic distance where the logarithm is exact, elsewhere the Euclidean norm of y − x."""
    if isinstance(manifold, _Factored):
        squares = [distance(f, a, b) ** 2 for f, a, b in zip(manifold.factors, x, y, strict=True)]
        return sum(squares) ** 0.5
    if type(manifold) in _LOGARITHMS:
        u = inverse_retraction(manifold, x, y)
        return max(float(manifold.inner(x, u, u)), 0.0) ** 0.5
    return norm(_difference(manifold, x, y))


def _difference(manifold: Manifold, x: Point, y: Point) -> Point:
    return tree_map(np.subtract, y @ polar(y.T @ x) if manifold.quotient else y, x)


def _positive(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * np.log(y / x)


def _simplex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Follow the great circle of √x, on the sphere of radius two in every row."""
    a, b = np.sqrt(x), np.sqrt(y)
    cosine = np.clip(np.sum(a * b, axis=-1, keepdims=True), -1, 1)
    return 2 * a * (b - cosine * a) / np.sinc(np.arccos(cosine) / np.pi)


def _positive_definite(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    root, inverse = _roots(x)
    w, V = np.linalg.eigh(symmetric(inverse @ y @ inverse))
    half = root @ V
    return symmetric((half * np.log(np.maximum(w, np.finfo(float).tiny))) @ half.T)


_LOGARITHMS = {Positive: _positive, Simplex: _simplex, SymmetricPositiveDefinite: _positive_definite}
