"""Evaluations and Hessian products of a traced cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from manifoldseq.linalg import leaves

from ._geometry import Geometry


class At(NamedTuple):
    """An evaluated point."""

    P: Any
    f: Any
    e: Any
    """Euclidean gradient."""
    g: Any
    """Riemannian gradient in flat coordinates."""
    gn: Any
    en: Any
    """Norms of both gradients."""


def dot(u: Any, v: Any) -> Any:
    """Return the dot product of flat vectors."""
    return jnp.sum(u * v)


def norm(u: Any) -> Any:
    """Return the length of a flat vector."""
    return jnp.sqrt(dot(u, u))


def where(condition: Any, new: Any, old: Any) -> Any:
    """Return one of two trees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def evaluate(cost: Callable[..., Any], geo: Geometry, P: Any, args: Any) -> At:
    """Return the evaluation of a cost at a point of the loop."""
    x = geo.lower(P)
    f, e = jax.value_and_grad(cost)(x, *args)
    f = f.astype(leaves(x)[0].dtype)
    g = geo.flat(geo.gradient(P, e))
    return At(P, f, e, g, norm(g), jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in leaves(e))))


def hessian(cost: Callable[..., Any], geo: Geometry, P: Any, args: Any, free: Any = None) -> Callable[[Any], Any]:
    """Return the product of tangent coordinates with the Riemannian Hessian: forward over reverse through the model."""

    def along(v: Any) -> Any:
        return cost(geo.model(P, geo.tree(v)), *args)

    def product(v: Any) -> Any:
        image = jax.jvp(jax.grad(along), (jnp.zeros_like(v),), (v,))[1]
        image = geo.flat(geo.project(P, geo.tree(image)))
        return image if free is None else jnp.where(free, image, 0)

    return product


def first_step(cost: Callable[..., Any], geo: Geometry, at: At, args: Any) -> Any:
    """Return the step along the negative gradient to the minimizer of the quadratic model.

    The step is rounded to six bits, as in the core, so that iterates do not depend on rounding errors. A difference of
    slopes is therefore sufficient. It is compiled in a third of the time of a product with the Hessian.
    """
    u = at.g / jnp.where(at.gn > 0, at.gn, 1)
    size = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in leaves(geo.lower(at.P))))
    h = float(jnp.finfo(at.f.dtype).eps) ** 0.5 * jnp.maximum(1, size)
    slope = jax.grad(lambda t: cost(geo.model(at.P, geo.tree(t * u)), *args))(h)
    curvature = (slope - at.gn) / h
    length = geo.scale(at.P)
    length = jnp.where(length > 0, length, 1) / jnp.where(at.gn > 0, at.gn, 1)
    step = jnp.minimum(jnp.where(curvature > 0, 1 / curvature, length), 10 * length)
    step = jnp.where((step > 0) & jnp.isfinite(step), step, 1)
    mantissa, exponent = jnp.frexp(step)
    return jnp.ldexp(jnp.round(mantissa * 64) / 64, exponent).astype(at.f.dtype)
