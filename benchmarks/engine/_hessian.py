"""The Hessian on a product with rotations: the order at which the second-order Taylor error vanishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymanopt
from pymanopt.manifolds import Product, SpecialOrthogonalGroup, Stiefel

import manifoldseq as ms

from ._session import Session


def run(session: Session) -> None:
    """Measure both slopes by the same lines of code, along retractions of second order."""
    rng = np.random.default_rng(0)
    n, p, k = 7, 3, 4
    H = rng.standard_normal((n * p + k * k,) * 2)
    H, c = H + H.T, rng.standard_normal(len(H))

    def flat(*x: Any) -> Any:
        return np.concatenate([part.ravel() for part in x])

    def split(v: Any) -> tuple[Any, Any]:
        return v[: n * p].reshape(n, p), v[n * p :].reshape(k, k)

    def cost(X: Any, Q: Any) -> float:
        z = flat(X, Q)
        return float(0.5 * z @ H @ z + c @ z)

    def gradient(X: Any, Q: Any) -> tuple[Any, Any]:
        return split(H @ flat(X, Q) + c)

    def product(X: Any, Q: Any, U: Any, V: Any) -> tuple[Any, Any]:
        return split(H @ flat(U, V))

    ours = ms.manifolds.Product(ms.manifolds.Stiefel(n, p), ms.manifolds.SpecialOrthogonal(k))
    x = ours.random_point(rng)
    u = ours.random_tangent(x, rng)
    egrad = gradient(*x)
    kind = ours.second_order[0]
    first = float(ours.inner(x, ours.gradient(x, egrad), u))
    second = float(ours.inner(x, ours.hessian(x, egrad, product(*x, *u), u), u))
    mine = slope(lambda t: cost(*ours.retract(x, tuple(t * part for part in u), kind)), first, second)

    theirs = Product([Stiefel(n, p, retraction="polar"), SpecialOrthogonalGroup(k, retraction="polar")])
    wrap = pymanopt.function.numpy(theirs)
    problem = pymanopt.Problem(
        theirs,
        wrap(cost),
        euclidean_gradient=wrap(lambda X, Q: list(gradient(X, Q))),
        euclidean_hessian=wrap(lambda X, Q, U, V: list(product(X, Q, U, V))),
    )
    y, v = list(x), theirs.projection(list(x), list(u))
    first = float(theirs.inner_product(y, problem.riemannian_gradient(y), v))
    second = float(theirs.inner_product(y, problem.riemannian_hessian(y, v), v))
    peer = slope(lambda t: problem.cost(theirs.retraction(y, t * v)), first, second)
    session.report.title("Hessian on Stiefel(7, 3) × SO(4): slope of the second-order Taylor error")
    session.report.row("slope", mine, ".3f", least=2.9)
    session.report.row("slope of pymanopt", peer, ".3f")


def slope(along: Callable[[float], float], first: float, second: float) -> float:
    """Return the order of ``f(t) − f(0) − t·first − t²/2·second`` from steps of about 1e-3."""
    steps = np.logspace(-3.5, -2.5, 9)
    errors = [abs(along(t) - along(0.0) - t * first - 0.5 * t * t * second) for t in steps]
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
