"""One pass of a compiled loop: one evaluation at a trial point, which is accepted or rejected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from manifoldseq.solvers import SUFFICIENT

from ._geometry import Geometry
from ._hessian import At, dot, evaluate, norm, where

Carry = dict[str, Any]
Cost = Callable[..., Any]


class Passed(NamedTuple):
    """What a pass has done."""

    carry: Carry
    """The entries that may have changed."""
    ok: Any
    """Whether the trial point was taken."""
    stuck: Any
    """Whether the search has come to its end without a step."""
    curvature: Any
    length: Any
    products: Any = 0
    """Hessian products."""


class Method(ABC):
    """A method for compiled loops: a frozen dataclass of options. Equal methods share compiled code."""

    trials: ClassVar[int] = 30
    monotone: ClassVar[bool] = True
    preconditions: ClassVar[bool] = False
    """Whether it has an approximate inverse Hessian."""

    @abstractmethod
    def begin(self, geo: Geometry, at: At, t: Any) -> Carry:
        """Return the entries that the method adds to the carry; `t` is the first step along the negative gradient."""

    @abstractmethod
    def advance(self, cost: Cost, geo: Geometry, c: Carry, args: Any, last: Any) -> Passed:
        """Return the carry after one pass; `last` is whether no further trial follows."""

    def inverse(self, c: Carry) -> Any:
        """Return the arrays of an approximate inverse Hessian for :func:`preconditioned`, or None."""
        return None


def kept(at: At) -> Carry:
    """Return the entries of the carry that result from an evaluation."""
    return {"P": at.P, "f": at.f, "g": at.g, "gn": at.gn, "en": at.en}


def finite(new: At) -> Any:
    """Return whether an evaluation is finite."""
    return jnp.isfinite(new.f) & jnp.isfinite(new.gn)


def shorter(t: Any, rise: Any, slope: Any, new: At) -> Any:
    """Return a shorter step, by safeguarded quadratic interpolation; a tenth if the value is not finite."""
    bow = rise - t * slope
    vertex = -0.5 * slope * t * t / jnp.where(bow > 0, bow, 1)
    inner = jnp.where(bow > 0, jnp.clip(vertex, 0.1 * t, 0.5 * t), 0.5 * t)
    return jnp.where(finite(new), inner, 0.1 * t)


def trial(cost: Cost, geo: Geometry, c: Carry, d: Any, t: Any, args: Any) -> tuple[At, Any, Any]:
    """Return the evaluation at a step, the actual step, and the change that its slope predicts."""
    u = geo.tree(t * d)
    P = geo.retract(c["P"], u)
    new = evaluate(cost, geo, P, args)
    if not geo.bounded:
        return new, t * d, t * dot(c["g"], d)
    s = geo.flat(geo.moved(c["P"], P, u))  # clipped (Bertsekas 1982)
    return new, s, jnp.minimum(0, dot(c["g"], s))


def unchanged(geo: Geometry, c: Carry, new: At) -> tuple[Any, Any]:
    """Return the free coordinates at a new point, and whether they have not changed (True without bounds)."""
    if not geo.bounded:
        return None, True
    free = geo.flat(geo.free(new.P, new.e))
    return free, jnp.all(free == c["free"])


@dataclass(frozen=True)
class BB(Method):
    """Barzilai-Borwein steps, and a nonmonotone search (Zhang and Hager 2004)."""

    nonmonotone: float = 0.85
    short_share: float = 0.15
    monotone: ClassVar[bool] = False

    def begin(self, geo: Geometry, at: At, t: Any) -> Carry:
        carry = {"t": t, "first": t, "level": at.f, "weight": jnp.ones_like(at.f)}
        carry |= {"best": at.P, "best_f": at.f, "best_gn": at.gn}
        if geo.bounded:
            carry["free"] = geo.flat(geo.free(at.P, at.e))
        return carry

    def advance(self, cost: Cost, geo: Geometry, c: Carry, args: Any, last: Any) -> Passed:
        t, square = c["t"], c["gn"] ** 2
        new, s, change = trial(cost, geo, c, -c["g"], t, args)
        rounding = jnp.where(t > 1e-6 * c["first"], 50 * jnp.finfo(t.dtype).eps * jnp.abs(c["f"]), 0)
        ok = finite(new) & (new.f <= c["level"] + SUFFICIENT * change + rounding)
        ok &= (t > 1e-6 * c["first"]) | (new.f < c["f"])
        if geo.bounded:
            both = c["free"] & geo.flat(geo.free(new.P, new.e))
            y = jnp.where(both, new.g - c["g"], 0)
            ss, sy, yy = dot(s, s), dot(s, y), dot(y, y)
        else:  # with s = −t g three products of gradients give all
            product = dot(c["g"], new.g)
            ss, sy, yy = t * t * square, t * (square - product), square - 2 * product + new.gn**2
        long = jnp.where(sy != 0, ss / jnp.where(sy != 0, jnp.abs(sy), 1), jnp.inf)
        short = jnp.where(yy > 0, jnp.abs(sy) / jnp.where(yy > 0, yy, 1), jnp.inf)
        step = jnp.where(short < self.short_share * long, short, long)
        step = jnp.where((step > 0) & jnp.isfinite(step), step, t)
        weight = self.nonmonotone * c["weight"] + 1
        taken = kept(new) | {"level": c["level"] + (new.f - c["level"]) / weight, "weight": weight, "first": step}
        if geo.bounded:
            taken["free"] = geo.flat(geo.free(new.P, new.e))
        carry = where(ok, taken, {name: c[name] for name in taken})
        carry["t"] = jnp.where(ok, step, shorter(t, new.f - c["f"], -square, new))
        better = ok & (new.f < c["best_f"])
        best = {"best": new.P, "best_f": new.f, "best_gn": new.gn}
        carry |= where(better, best, {name: c[name] for name in best})
        return Passed(carry, ok, last & ~ok, sy / jnp.where(ss > 0, ss, 1), jnp.sqrt(ss))


@dataclass(frozen=True)
class LBFGS(Method):
    """Limited-memory BFGS in compact form (Byrd, Nocedal, Schnabel 1994).

    The inverse of the upper triangle of SᵀY is stored, so that a direction takes four products with small matrices
    instead of forty consecutive inner products.
    """

    memory: int = 10
    preconditions: ClassVar[bool] = True

    def begin(self, geo: Geometry, at: At, t: Any) -> Carry:
        m, n, dtype = self.memory, at.g.size, at.f.dtype
        carry = {"W": jnp.zeros((2 * m, n), dtype), "Ri": jnp.zeros((m, m), dtype), "YY": jnp.zeros((m, m), dtype)}
        carry |= {"D": jnp.zeros(m, dtype), "gamma": t, "count": jnp.zeros((), jnp.int32), "plain": jnp.array(True)}
        carry |= {"t": jnp.ones_like(at.f), "d": -t * at.g}
        if geo.bounded:
            carry["free"] = geo.flat(geo.free(at.P, at.e))
        return carry

    def advance(self, cost: Cost, geo: Geometry, c: Carry, args: Any, last: Any) -> Passed:
        m, t, d = self.memory, c["t"], c["d"]
        new, s, change = trial(cost, geo, c, d, t, args)
        rounding = jnp.where(t > 1e-6, 50 * jnp.finfo(t.dtype).eps * jnp.abs(c["f"]), 0)
        ok = finite(new) & (new.f <= c["f"] + SUFFICIENT * change + rounding) & ((t > 1e-6) | (new.f < c["f"]))
        slope = dot(c["g"], d)
        stop = last & ~ok
        anew = stop & ~c["plain"]  # no step along this direction: forget the pairs, and try the gradient
        y = new.g - c["g"]
        free, same = unchanged(geo, c, new)
        ss, sy, yy = dot(s, s), dot(s, y), dot(y, y)
        keep = ok & same & (yy > 0) & (sy > 1e-12 * jnp.sqrt(ss * yy))
        at = where(ok, kept(new), {name: c[name] for name in kept(new)})
        # the pair takes row j of S and Y, in a ring
        j = c["count"] % m
        W = c["W"]
        for place, vector in ((j, s), (m + j, y)):
            here = jnp.where(keep, vector, jax.lax.dynamic_slice_in_dim(W, place, 1))
            W = jax.lax.dynamic_update_slice_in_dim(W, here, place, 0)
        gamma = jnp.where(keep, sy / jnp.where(yy > 0, yy, 1), c["gamma"])
        row = jnp.arange(m) == j
        (p, q), (r, yc) = jnp.split(W @ at["g"], 2), jnp.split(W @ y, 2)  # two vectors: faster than one matrix of two
        Ri = jnp.where(row[:, None] | row[None, :], 0, c["Ri"])
        divisor = jnp.where(keep, sy, 1)
        column = jnp.where(row, 1, -(Ri @ jnp.where(row, 0, r))) / divisor
        Ri = jnp.where(keep, jnp.where(row[None, :], column[:, None], Ri), c["Ri"])
        YY = jnp.where(row[:, None], yc[None, :], jnp.where(row[None, :], yc[:, None], c["YY"]))
        YY = jnp.where(keep, YY, c["YY"])
        D = jnp.where(keep & row, sy, c["D"])
        if geo.bounded:
            anew |= ok & ~same
        Ri = jnp.where(anew, 0, Ri)
        made = -_product(W, Ri, YY, D, gamma, at["g"], p, q)
        made = geo.flat(geo.project(at["P"], geo.tree(made)))
        if geo.bounded:
            held = jnp.where(ok, free, c["free"])
            made, at["free"] = jnp.where(held, made, 0), held
        downhill = dot(at["g"], made) < -1e-10 * at["gn"] * norm(made)
        made = jnp.where(downhill, made, -gamma * at["g"])
        Ri = jnp.where(downhill, Ri, 0)
        fresh = ok | anew
        carry = at | {"W": W, "Ri": Ri, "YY": YY, "D": D, "gamma": gamma, "count": c["count"] + keep}
        carry["d"], carry["plain"] = jnp.where(fresh, made, d), jnp.where(fresh, ~jnp.any(Ri != 0), c["plain"])
        carry["t"] = jnp.where(fresh, 1, shorter(t, new.f - c["f"], slope, new)).astype(t.dtype)
        return Passed(carry, ok, stop & c["plain"], sy / jnp.where(ss > 0, ss, 1), jnp.sqrt(ss))

    def inverse(self, c: Carry) -> Any:
        return {name: c[name] for name in ("W", "Ri", "YY", "D", "gamma")}


def _product(W: Any, Ri: Any, YY: Any, D: Any, gamma: Any, v: Any, p: Any, q: Any) -> Any:
    """Return the product of the inverse of BFGS with v, where p = S v and q = Y v."""
    w = Ri @ p
    u = Ri.T @ (D * w + gamma * (YY @ w - q))
    return gamma * v + jnp.concatenate([u, -gamma * w]) @ W


def preconditioned(kept: Any, v: Any) -> Any:
    """Return an approximate inverse Hessian times a flat vector, or the vector if there is no approximation."""
    if kept is None:
        return v
    p, q = jnp.split(kept["W"] @ v, 2)
    return _product(**kept, v=v, p=p, q=q)
