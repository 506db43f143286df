"""The curvature ahead of a point, which is measured before a run reports success, and the exit from a saddle.

The algorithm and the constants are the same as in ``manifoldseq.solvers._saddle``; the products are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from manifoldseq.linalg import EPS
from manifoldseq.solvers import LOOSE, PROBES, PRODUCTS, THOROUGH, UNSEEN

from ._geometry import Geometry
from ._hessian import At, dot, hessian, norm
from ._methods import preconditioned


class Look(NamedTuple):
    """The limits of a search, see ``manifoldseq.solvers.Look``; `seen` is the largest of the recent curvatures."""

    decrease: Any
    way: Any
    products: Any
    seen: Any


class Ahead(NamedTuple):
    """The results of a measurement of the curvature ahead."""

    curvature: Any
    negative: Any
    """Whether it is that of the direction."""
    pushed_inward: Any
    direction: Any
    """Of the lowest curvature."""
    products: Any


@lru_cache(maxsize=64)
def normals(shape: Any, dtype: str) -> Any:
    """Return the random ambient vector from which the search for negative curvature starts."""
    rng = np.random.default_rng(0)

    def draw(part: Any) -> Any:
        if part and isinstance(part[0], tuple):
            return tuple(map(draw, part))
        return rng.standard_normal(part).astype(dtype)

    return draw(shape)


def stationary(gn: Any, en: Any) -> Any:
    """Return whether the Riemannian gradient is as small as the rounding errors of the Euclidean gradient."""
    return (gn <= 100 * float(EPS[np.dtype(gn.dtype)]) * en) & jnp.isfinite(en)


def look_ahead(
    cost: Callable[..., Any], geo: Geometry, at: At, look: Look, memory: Any, args: Any, still: bool | None = None
) -> Ahead:
    """Return the lowest curvature if it is negative, and otherwise the curvature along the remaining gradient.

    `still` is whether the point is stationary, if this is known; in this case, less code is compiled.
    """
    P = at.P
    dtype, dim = at.f.dtype, geo.dim
    eps, tiny = float(EPS[np.dtype(dtype)]), float(jnp.finfo(dtype).tiny)
    free = geo.flat(geo.free(P, at.e)) if geo.bounded else None
    product = hessian(cost, geo, P, args, free)
    rests = stationary(at.gn, at.en) if still is None else jnp.asarray(still)

    def project(v: Any) -> Any:
        v = geo.flat(geo.project(P, geo.tree(v)))
        return v if free is None else jnp.where(free, v, 0)

    # two Krylov spaces, of a random vector and of the gradient, in one loop, so that one product is compiled
    probes = min(PROBES, dim)
    most = probes if still is False else min(PRODUCTS, dim)
    random = project(geo.flat(jax.tree.map(jnp.asarray, normals(geo.shape, str(dtype)))))
    steps = jnp.where(rests, jnp.array([most, 0]), jnp.array([probes, min(2, dim)]))

    def krylov(given: Any) -> Any:
        v, n = given

        def one(carry: Any) -> Any:
            k, v, basis, images, _ = carry
            for _ in range(2):
                v = v - (basis @ v) @ basis
            v = project(v)
            length = norm(v)
            live = jnp.isfinite(length) & (length > 1e-8)
            b = jnp.where(live, v / jnp.where(live, length, 1), 0)
            image = product(b)
            size = norm(image)
            live &= jnp.isfinite(size)
            b, image = jnp.where(live, b, 0), jnp.where(live, image, 0)
            v = image / jnp.where(size > 0, size, 1)
            basis, images = (
                jax.lax.dynamic_update_slice_in_dim(A, row[None], k, 0) for A, row in ((basis, b), (images, image))
            )
            return k + 1, v, basis, images, live

        length = norm(v)
        zero = jnp.zeros((most, v.size), dtype)
        start = (jnp.zeros((), jnp.int32), v / jnp.where(length > 0, length, 1), zero, zero, jnp.array(True))
        k, _, basis, images, _ = jax.lax.while_loop(lambda c: (c[0] < n) & c[4], one, start)
        return basis, images, k

    bases, all_images, counts = jax.lax.map(krylov, (jnp.stack([random, at.g]), steps))
    products = jnp.sum(counts)

    def spectrum(basis: Any, images: Any, n: int) -> Any:
        """Return the eigenvalues, vectors and matrix of the first n; missing directions get the largest curvature."""
        H = basis[:n] @ images[:n].T
        H = 0.5 * (H + H.T)
        missing = jnp.sum(basis[:n] ** 2, 1) < 0.5
        H = H + jnp.diag(jnp.where(missing, jnp.max(jnp.abs(H)), 0))
        return *jnp.linalg.eigh(H), H

    def of_first(n: int) -> Any:
        w, V, H = spectrum(bases[0], all_images[0], n)
        start = jnp.abs(H[0, 0])  # less of the random start is kept where its curvature would prevail
        share = jnp.minimum(
            0.1, 0.5 * jnp.sqrt(jnp.where(start > 0, jnp.abs(w[0]) / jnp.where(start > 0, start, 1), 1))
        )
        return w[0], jnp.max(jnp.abs(w)), share.astype(dtype) * bases[0][0] + V[:, 0] @ bases[0][:n]

    if still is None:
        lowest, largest, direction = jax.lax.cond(rests, lambda: of_first(most), lambda: of_first(probes))
    else:
        lowest, largest, direction = of_first(most)
    negative = lowest < -100 * eps * largest
    lowest = jnp.where(negative, lowest, jnp.maximum(lowest, 0))
    length = norm(direction)
    direction = direction / jnp.where(length > 0, length, 1)
    inward = geo.pushed_inward(P, at.e)
    if still:
        return Ahead(lowest, negative, inward, direction, products)

    # along the gradient: ‖H⁻¹ g‖ = ‖g‖ ‖V₁/w‖ in the plane of g and H g
    basis, images = bases[1][: min(2, dim)], all_images[1][: min(2, dim)]
    w, V, H = spectrum(basis, images, min(2, dim))
    largest = jnp.maximum(jnp.max(jnp.abs(w)), look.seen)
    share, floor = jnp.abs(V[0]), tiny + eps * largest
    way = share / jnp.maximum(w, floor)
    way = jnp.where(w < floor, jnp.maximum(way, (share - 2 * eps) / (UNSEEN * floor)), way)
    top = jnp.maximum(jnp.max(way), tiny)
    ahead = 1 / (top * norm(way / top))
    bent = w[0] < -10 * eps * largest
    told = ~bent & (largest > 0) & (10 * eps * largest < ahead) & jnp.isfinite(ahead) & ~negative & ~rests
    beyond, more = _beyond(geo, P, at, product, project, (basis, images, H, w, V), eps * largest, look, memory, told)
    along = jnp.where(bent, w[0], jnp.where(told, jnp.minimum(ahead, beyond), 0))
    curvature = jnp.where(rests | negative, lowest, along)
    return Ahead(curvature, negative, inward, direction, products + more)


def _beyond(
    geo: Geometry,
    P: Any,
    at: Any,
    product: Any,
    project: Any,
    space: Any,
    error: Any,
    look: Look,
    memory: Any,
    told: Any,
) -> Any:
    """Return ``‖g‖²/gᵀH⁻¹g`` in the space that conjugate gradients reach, and the number of products."""
    basis, images, H, w, V = space
    y = V @ ((V.T @ (basis @ at.g)) / jnp.where(told, w, 1))
    r = at.g - y @ images
    twice = y @ (H @ y)
    smallest = jnp.maximum(w[0], error)
    scale = geo.scale(P)
    flat = jnp.maximum(10 * error, jnp.where(scale > 0, at.gn / jnp.where(scale > 0, scale, 1), jnp.inf))
    bent, one = jnp.full_like(at.f, jnp.inf), jnp.ones_like(at.f)

    def judged(k: Any, r: Any, twice: Any, smallest: Any) -> Any:
        square = dot(r, r)
        left = jnp.sqrt(square)
        unseen = jnp.where(k < THOROUGH * look.products, error, jnp.maximum(UNSEEN * smallest, error))
        seen = (0.5 * square <= look.decrease * unseen) | (left <= look.way * unseen)
        far = (0.5 * twice > LOOSE * look.decrease) & (twice > LOOSE * look.way * at.gn)
        return seen | far | ~((square > 0) & jnp.isfinite(square))

    def step(c: Any) -> Any:
        k, r, p, rz, twice, smallest, bent, _, _ = c
        z = r if memory is None else project(preconditioned(memory, r))
        before, rz = rz, dot(r, z)
        p = z + rz / before * p
        size = dot(p, p)
        valid = (rz > 0) & (size > 0) & jnp.isfinite(size)
        image = product(p)
        curvature = dot(p, image) / jnp.where(size > 0, size, 1)
        valid &= jnp.isfinite(curvature)
        bent = jnp.where(valid & (curvature < -flat), curvature, bent)
        valid &= curvature > error
        scaled = jnp.where(valid, size * curvature, 1)
        twice = jnp.where(valid, twice + rz * rz / scaled, twice)
        smallest = jnp.where(valid, jnp.minimum(smallest, curvature), smallest)
        r = jnp.where(valid, project(r - rz / scaled * image), r)
        known = valid & judged(k + 1, r, twice, smallest)
        return k + 1, r, p, rz, twice, smallest, bent, known, valid & ~known & (k + 1 < look.products)

    known = judged(0, r, twice, smallest)
    start = (jnp.zeros((), jnp.int32), r, jnp.zeros_like(r), one, twice, smallest, bent, known)
    going = told & ~known & (look.products > 0)
    k, _, _, _, twice, _, bent, known, _ = jax.lax.while_loop(lambda c: c[8], step, (*start, going))
    value = jnp.where(twice > 0, at.gn * at.gn / jnp.where(twice > 0, twice, 1), jnp.inf)
    return jnp.minimum(bent, jnp.where(known, value, 0)), k


def leave_saddle(
    cost: Callable[..., Any], geo: Geometry, P: Any, f: Any, direction: Any, curvature: Any, args: Any
) -> Any:
    """Return a point along ± the direction with a tenth of the predicted decrease, and its distance.

    The distance is zero if there is no such point.
    """
    scale = geo.scale(P)
    seen = jnp.sqrt(0.002 * jnp.abs(f) / jnp.where(curvature < 0, -curvature, 1))
    first = jnp.maximum(0.1 * jnp.where(scale > 0, scale, 1), seen)

    def point(k: Any) -> Any:
        t = first * 0.3 ** (k // 2).astype(f.dtype)
        return geo.retract(P, geo.tree(jnp.where(k % 2 == 0, t, -t) * direction)), t

    def low(k: Any) -> Any:
        there, t = point(k)
        return cost(geo.lower(there), *args) < f + 0.05 * curvature * t * t

    k = jax.lax.while_loop(lambda k: (k < 30) & ~low(k), lambda k: k + 1, jnp.zeros((), jnp.int32))
    there, t = point(k)
    return there, jnp.where(k < 30, t, 0)
