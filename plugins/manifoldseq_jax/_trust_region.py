"""Riemannian trust regions for compiled loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ._geometry import Geometry
from ._hessian import At, dot, evaluate, hessian, norm, where
from ._methods import Carry, Cost, Method, Passed, finite, kept

ACCEPT = 0.1


class _Path(NamedTuple):
    """Conjugate gradients for H s = −g inside a ball."""

    s: Any
    curved: Any
    """H s."""
    r: Any
    d: Any
    k: Any
    going: Any
    on_boundary: Any


@dataclass(frozen=True)
class TR(Method):
    """Truncated conjugate gradients (Steihaug, Toint): the options are the same as for ``ms.solvers.TR``."""

    radius: float | None = None
    max_radius: float = math.inf
    max_inner: int | None = None
    kappa: float = 0.1
    theta: float = 0.5
    trials: ClassVar[int] = 40

    def begin(self, geo: Geometry, at: At, t: Any) -> Carry:
        radius = geo.dim**0.5 / 8 if self.radius is None else self.radius
        radius = jnp.full_like(at.f, min(radius, self.max_radius))
        carry = {"radius": radius, "tried": radius, "largest": at.gn}
        if geo.bounded:
            carry["free"] = geo.flat(geo.free(at.P, at.e))
        return carry

    def advance(self, cost: Cost, geo: Geometry, c: Carry, args: Any, last: Any) -> Passed:
        eps, radius, g = float(jnp.finfo(c["f"].dtype).eps), c["tried"], c["g"]
        product = hessian(cost, geo, c["P"], args, c.get("free"))
        share = (c["gn"] / jnp.where(c["largest"] > 0, c["largest"], 1)) ** self.theta
        goal = jnp.maximum(jnp.minimum(self.kappa, share), 10 * eps) * c["gn"]
        path = self._path(product, g, radius, goal, max(geo.dim, 10) if self.max_inner is None else self.max_inner)
        u = geo.tree(path.s)
        P = geo.retract(c["P"], u)
        s, curved, products = path.s, path.curved, path.k
        if geo.bounded:
            s = geo.flat(geo.moved(c["P"], P, u))
            curved, products = product(s), products + 1
        new = evaluate(cost, geo, P, args)
        length = norm(s)
        predicted = -dot(g, s) - 0.5 * dot(s, curved)
        rounding = jnp.where(radius > 1e-6 * c["radius"], 50 * eps * jnp.abs(c["f"]), 0)
        ratio = (c["f"] - new.f + rounding) / (predicted + rounding)
        ok = finite(new) & (predicted > 0) & (ratio > ACCEPT)
        wider = jnp.minimum(2 * radius, self.max_radius)
        next_radius = jnp.where(
            (ratio > 0.75) & path.on_boundary, wider, jnp.where(ratio < 0.25, 0.25 * length, radius)
        )
        taken = kept(new) | {"radius": next_radius, "tried": next_radius}
        old = {name: c[name] for name in taken} | {"tried": 0.25 * jnp.minimum(radius, length)}
        if geo.bounded:
            taken["free"], old["free"] = geo.flat(geo.free(new.P, new.e)), c["free"]
        curvature = dot(s, curved) / jnp.where(length > 0, length * length, 1)
        carry = {**where(ok, taken, old), "largest": jnp.maximum(c["largest"], new.gn * ok)}
        return Passed(carry, ok, last & ~ok, curvature, length, products)

    def _path(self, product: Any, g: Any, radius: Any, goal: Any, most: int) -> _Path:
        def step(path: _Path) -> _Path:
            d = path.d
            Hd = product(d)
            rr, dd, sd = dot(path.r, path.r), dot(d, d), dot(path.s, d)
            curvature = dot(d, Hd)
            alpha = jnp.where(curvature > 0, rr / jnp.where(curvature > 0, curvature, 1), jnp.inf)
            rest = dot(path.s, path.s) - radius * radius
            root = jnp.sqrt(jnp.maximum(sd * sd - dd * rest, 0))
            reach = jnp.where(dd > 0, (root - sd) / jnp.where(dd > 0, dd, 1), jnp.inf)
            out = alpha >= reach
            tau = jnp.where(out, reach, alpha)
            r = path.r + tau * Hd
            new = dot(r, r)
            d = new / jnp.where(rr > 0, rr, 1) * d - r
            going = ~out & (new > goal * goal) & (path.k + 1 < most) & jnp.isfinite(new)
            return _Path(path.s + tau * path.d, path.curved + tau * Hd, r, d, path.k + 1, going, out)

        zero, no = jnp.zeros_like(g), jnp.array(False)
        start = _Path(zero, zero, g, -g, jnp.zeros((), jnp.int32), jnp.array(True), no)
        return jax.lax.while_loop(lambda path: path.going, step, start)
