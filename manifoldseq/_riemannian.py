"""Conversion of Riemannian derivatives to the Euclidean derivatives that solvers use."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ._result import Point
from .linalg import norm, tree_map
from .manifolds import Manifold
from .objectives._memo import last_point
from .objectives._objective import Objective, ValueAndGradient


def euclidean(manifold: Manifold, f: Objective) -> Objective:
    """Return an objective whose Euclidean derivatives are converted by `manifold` to the derivatives of `f`."""
    if not f.riemannian or f.value_and_gradient is None:
        return replace(f, riemannian=False) if f.riemannian else f
    rng = np.random.default_rng(0)
    x = manifold.random_point(rng)
    u = manifold.random_tangent(x, rng)
    off = norm(tree_map(np.subtract, manifold.gradient(x, manifold.euclidean_gradient(x, u)), u))
    if not off <= 1e-8 * norm(u) + 1e-12:
        raise ValueError(
            f"{manifold!r} cannot convert a Riemannian gradient to a Euclidean gradient: pass the Euclidean gradient"
        )
    pair = partial(_pair, manifold, f)
    product = partial(_product, manifold, f, last_point(pair)) if f.hessian_product and manifold.hessian else None
    return replace(f, value_and_gradient=pair, hessian_product=product, riemannian=False)


def _pair(manifold: Manifold, f: Objective, x: Point) -> tuple[float, Point]:
    fun, gradient = f.value_and_gradient(x)  # type: ignore[misc]
    return fun, manifold.euclidean_gradient(x, gradient)


def _product(manifold: Manifold, f: Objective, pair: ValueAndGradient, x: Point, u: Point) -> Point:
    # manifold.hessian is gradient(x, H u) and a term of the Euclidean gradient, which H has to make up for
    bent = f.hessian_product(x, u)  # type: ignore[misc]
    curved = manifold.hessian
    if manifold.metric == "embedded" or curved is None:
        return bent
    nothing = tree_map(np.zeros_like, u)
    return manifold.euclidean_gradient(x, tree_map(np.subtract, bent, curved(x, pair(x)[1], nothing, u)))
