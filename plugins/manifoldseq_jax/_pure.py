"""`minimize` as a pure function of jax, whose solution has derivatives with respect to the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import manifoldseq as ms
from manifoldseq.linalg import leaves, tree_map

from ._geometry import Geometry, geometry
from ._hessian import dot, evaluate, hessian, where
from ._methods import BB, LBFGS, Method
from ._rules import COST_CHANGE, STATUS, compiles
from ._run import Rules, found, whole
from ._trust_region import TR

METHODS: Mapping[str, type[Method]] = {"lbfgs": LBFGS, "bb": BB, "tr": TR}


class Solution(NamedTuple):
    """The result of :func:`minimize`, which contains only arrays.

    Attributes
    ----------
    x : point
        The point with the best value. Its derivatives with respect to the parameters are the derivatives of the exact
        solution.
    fun, grad_norm : scalar arrays
        The value, with its derivatives, and the norm of the Riemannian gradient.
    status : integer array
        ``manifoldseq_jax.status`` turns the number into a :class:`manifoldseq.Status`.
    nit, nfev : integer arrays
        Iterations and evaluations.
    """

    x: Any
    fun: Any
    grad_norm: Any
    status: Any
    nit: Any
    nfev: Any

    @property
    def success(self) -> Any:
        """Whether the problem is solved to the tolerance, a boolean array."""
        return (self.status > 0) & (self.status <= COST_CHANGE)


def status(number: Any) -> ms.Status:
    """Return the status that belongs to the number in a solution.

    Examples
    --------
    >>> import manifoldseq_jax
    >>> manifoldseq_jax.status(1).name
    'CONVERGED'
    """
    return STATUS[int(number)] or ms.Status.FAILED


def minimize(
    fun: Callable[..., Any],
    manifold: Any,
    x0: Any,
    *params: Any,
    method: str | Method = "lbfgs",
    options: Mapping[str, Any] | None = None,
    stop: ms.StoppingRule | None = None,
) -> Solution:
    """Minimize ``fun(x, *params)`` over a manifold: a pure function for jit, vmap, lax.map, grad and jvp.

    The derivatives of the solution with respect to the parameters follow from the optimality condition (the implicit
    function theorem on the manifold). After one Newton step, conjugate gradients in the tangent space solve a system
    with the Riemannian Hessian. Because of the Newton step, the error of the derivative is of the order of the square
    of the error of the solution. The iterations are not differentiated, and the derivative with respect to the start is
    zero.

    Parameters
    ----------
    fun : callable
        ``fun(x, *params)``, a scalar, written with jax.numpy. Functions are compared by identity: a lambda that is
        created for every call is compiled for every call.
    manifold : Manifold
        See :func:`manifoldseq_jax.geometry` for the supported manifolds.
    x0 : point
        A start on the manifold: an array, or a tuple of arrays. It determines the precision, and parameters are cast to
        this precision.
    *params : trees of arrays
        Parameters of the cost. Integer parameters have no derivatives.
    method : {"lbfgs", "bb", "tr"}
    options : mapping, optional
        Options of the method: ``memory`` of lbfgs, ``nonmonotone`` of bb, and the options of ``ms.solvers.TR`` for tr.
    stop : StoppingRule, optional
        A combination of rules of the core other than MaxTime; by default ``PredictedDecrease() | MaxIterations(1000)``.
        The default rule measures the curvature ahead before it reports success, and the run leaves saddle points.

    Returns
    -------
    Solution
        The solution, with a status for every problem. No exception is raised.

    Examples
    --------
    The derivative of the smallest eigenvalue of a matrix with respect to the matrix is v vᵀ, where v is the
    eigenvector:

    >>> import jax, jax.numpy as jnp, numpy as np, manifoldseq as ms, manifoldseq_jax as mj
    >>> A = jnp.diag(jnp.array([3.0, 1.0, 2.0]))
    >>> def smallest(A):
    ...     x0 = jnp.ones(3) / jnp.sqrt(3.0)
    ...     return mj.minimize(lambda x, A: x @ A @ x, ms.manifolds.Sphere(3), x0, A).fun
    >>> (jax.grad(smallest)(A).round(3) + 0.0).tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    rule = ms.PredictedDecrease() | ms.MaxIterations(1000) if stop is None else stop
    rules = rule.rules if isinstance(rule, ms.AnyOf) else (rule,)
    for each in rules:
        if not compiles(each):
            raise ValueError(
                f"the stopping rule {each!r} cannot be compiled: use the rules of manifoldseq except MaxTime"
            )
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not known: choose {', '.join(map(repr, METHODS))}")
        method = METHODS[method](**(options or {}))
    x0 = tree_map(jnp.asarray, x0)
    dtype = np.result_type(*[leaf.dtype for leaf in leaves(x0)])
    if not np.issubdtype(dtype, np.floating):
        raise TypeError(f"x0 has the dtype {dtype}: pass a start of floating-point numbers")
    x0 = tree_map(lambda leaf: leaf.astype(dtype), x0)
    return Solution(*_implicit(fun, manifold, method, rules, x0, _cast(params, dtype)))


def _cast(params: Any, dtype: Any) -> Any:
    def cast(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, params)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _solve(fun: Any, manifold: Any, method: Method, rules: Rules, x0: Any, params: Any) -> Any:
    geo = geometry(manifold)
    c = whole(fun, geo, method, rules, x0, params)
    return *found(geo, c), c["status"], c["nit"], c["nfev"]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def _implicit(fun: Any, manifold: Any, method: Method, rules: Rules, x0: Any, params: Any) -> Any:
    return _solve(fun, manifold, method, rules, x0, params)


@_implicit.defjvp
def _implicit_jvp(fun: Any, manifold: Any, method: Method, rules: Rules, primals: Any, tangents: Any) -> Any:
    (x0, params), (_, changes) = primals, tangents
    x, _, _, *counts = _implicit(fun, manifold, method, rules, x0, params)
    # what comes after the solution is differentiated at it: so that is the point after the Newton step as well
    (x, f, gn), (dx, df) = _changed(fun, manifold, jax.lax.stop_gradient(x), params, changes)
    nothing = [np.zeros(count.shape, jax.dtypes.float0) for count in counts]
    return (x, f, gn, *counts), (dx, df, jnp.zeros_like(gn), *nothing)


@partial(jax.jit, static_argnums=(0, 1))
def _changed(fun: Any, manifold: Any, x: Any, params: Any, changes: Any) -> Any:
    """Return the solution after a Newton step, its value and gradient norm, and how the first two change."""
    geo = geometry(manifold)
    P = _newton(fun, geo, geo.lift(x), params)
    at = evaluate(fun, geo, P, params)
    free = geo.flat(geo.free(P, at.e)) if geo.bounded else None

    # the optimality condition is F(θ) = grad f(x, θ) = 0 in coordinates of the tangent space: dx = −A H⁻¹ dF, where A
    # takes coordinates to ambient vectors
    def condition(*given: Any) -> Any:
        e = jax.grad(fun)(geo.lower(P), *given)
        g = geo.flat(geo.gradient(P, e))
        return g if free is None else jnp.where(free, g, 0)

    _, dF = jax.jvp(condition, params, changes)
    product = hessian(fun, geo, P, params, free)
    solve = partial(_conjugate_gradients, project=_projector(geo, P, free), dim=geo.dim)
    z = jax.lax.custom_linear_solve(product, dF, solve, symmetric=True)
    dx = jax.tree.map(jnp.negative, geo.ambient(P, geo.tree(z)))
    _, df = jax.jvp(lambda *given: fun(geo.lower(P), *given), params, changes)  # the envelope theorem
    exact = jax.lax.stop_gradient((geo.lower(P), at.f, at.gn))
    return exact, (dx, df.astype(at.f.dtype))


def _projector(geo: Geometry, P: Any, free: Any) -> Callable[[Any], Any]:
    def project(v: Any) -> Any:
        v = geo.flat(geo.project(P, geo.tree(v)))
        return v if free is None else jnp.where(free, v, 0)

    return project


def _newton(fun: Any, geo: Geometry, P: Any, params: Any) -> Any:
    """Return the point one Newton step later, or the point itself where the gradient does not become smaller."""
    params = jax.lax.stop_gradient(params)
    at = evaluate(fun, geo, P, params)
    free = geo.flat(geo.free(P, at.e)) if geo.bounded else None
    product = hessian(fun, geo, P, params, free)
    s = _conjugate_gradients(product, at.g, project=_projector(geo, P, free), dim=geo.dim)
    new = geo.retract(P, geo.tree(-s))
    better = evaluate(fun, geo, new, params).gn <= at.gn
    return jax.lax.stop_gradient(where(better, new, P))


def _conjugate_gradients(product: Any, b: Any, *, project: Any, dim: int) -> Any:
    """Solve H z = b in the tangent space to the rounding of the dtype; return the best iterate.

    The normal space is the null space of H: what rounding leaves there would never fall. So every residual is
    projected, and the run ends where the residual grows.
    """
    eps = float(jnp.finfo(b.dtype).eps)
    b = project(b)
    square = dot(b, b)

    def body(c: Any) -> Any:
        z, r, p, rr, k, best, least, _ = c
        image = product(p)
        curvature = dot(p, image)
        valid = jnp.isfinite(curvature) & (curvature != 0)
        step = jnp.where(valid, rr / jnp.where(valid, curvature, 1), 0)
        z, r = z + step * p, project(r - step * image)
        new = dot(r, r)
        better = new < least
        best, least = jnp.where(better, z, best), jnp.where(better, new, least)
        return z, r, project(r + new / rr * p), new, k + 1, best, least, valid

    def going(c: Any) -> Any:
        _, _, _, rr, k, _, least, valid = c
        return valid & (rr > (10 * eps) ** 2 * square) & (k < 2 * dim + 10) & (rr < 1e8 * least) & jnp.isfinite(rr)

    zero = jnp.zeros_like(b)
    start = (zero, b, b, square, jnp.zeros((), jnp.int32), zero, square, jnp.array(True))
    return jax.lax.while_loop(going, body, start)[5]
