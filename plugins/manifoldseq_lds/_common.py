"""The common problem (11), (12): weighted kernels of one system with given ones, as an objective; and its solution."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

from ._canonical import canonical_form
from ._settings import check_bound, resolved_kernel
from ._span import SpanCompression
from ._systems import Systems, real_array

Array = NDArray[np.float64]
Point = tuple[Array, ...]

_ROWS = 256


def common_objective(kernel: Any, packed: Any, beta: Array, own: float = 0.0) -> ms.Objective:
    """Return ``sum_i beta_i k(S, S_i) + own k(S, S)`` as an objective of points of the kernel's manifold.

    It has mini-batches and, if no weight is positive, `own` is 0 and the kernel is convex in the output matrix, the
    block update ``"polar"``: the sum is then concave and quadratic in U, and its minimum over the tangent plane of it
    is a polar factor, which never raises the objective.
    """
    both = ms.objectives.last_point(partial(_both, kernel, packed, beta, own))
    concave = bool(beta.min(initial=0.0) < 0 and beta.max(initial=0.0) <= 0) and own == 0
    polar = ms.objectives.BlockUpdate("polar", ("U",), partial(_polar, both))
    return ms.Objective(
        partial(_value, both),
        both,
        terms=ms.objectives.FiniteTerms(len(packed), partial(_batch, kernel, packed, beta, own)),
        updates=(polar,) if concave and getattr(kernel, "convex_in_output", False) else (),
    )


# Module-level functions under partial, so that the problem can be pickled.


def _both(kernel: Any, packed: Any, beta: Array, own: float, point: Point) -> tuple[float, Point]:
    value, gradient = kernel.weighted(point, packed, beta)
    if own == 0:
        return value, gradient
    more, own_gradient = kernel.self_term(point)
    return value + own * more, tuple(g + own * h for g, h in zip(gradient, own_gradient, strict=True))


def _value(both: Any, point: Point) -> float:
    return both(point)[0]


def _polar(both: Any, point: Point) -> Point:
    lam, V, _ = point
    return lam, V, ms.linalg.polar(-both(point)[1][2])


def _batch(kernel: Any, packed: Any, beta: Array, own: float, rows: np.ndarray) -> ms.Objective:
    return common_objective(kernel, packed[rows], beta[rows] * (len(beta) / len(rows)), own)


def items_on(manifold: Any, systems: Systems) -> Systems:
    """Return systems with the fields that points of the manifold have: A, C, and the first state if it has one."""
    with_state = len(manifold.shape) > 3
    if with_state and systems.x1 is None:
        raise ValueError("the kernel needs first states: pass Systems with x1, or sequences")
    if systems.B is None and systems.mean is None and (with_state or systems.x1 is None):
        return systems  # the record itself, so that its packing is kept with it
    return Systems.trusted({"A": systems.A, "C": systems.C, "x1": systems.x1 if with_state else None})


@dataclass(frozen=True)
class BestDatum:
    """The initializer that starts from the datum where the objective is least; for a mean, the medoid."""

    kernel: Any
    systems: Systems
    packed: Any
    beta: Array
    own: float

    def __call__(self, problem: ms.Problem, rng: np.random.Generator) -> Point:
        blocks = (self.packed[i : i + _ROWS] for i in range(0, len(self.packed), _ROWS))
        values = np.concatenate([self.kernel.cross(block, self.packed) @ self.beta for block in blocks])
        if self.own:
            values = values + self.own * self.kernel.diag(self.packed)
        return point_of(problem.manifold, self.systems, int(np.argmin(values)))


def point_of(manifold: Any, systems: Systems, row: int) -> Point:
    """Return one of the systems as a point of the canonical manifold."""
    one = systems[[row]]
    return manifold.nearest(tuple(leaf[0] for leaf in canonical_form(one.A, one.C, one.x1)))


def random_start(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return a random point."""
    return problem.manifold.random_point(rng)


def common_problem(kernel: Any, systems: Systems, beta: Array, own: float, bound: float) -> ms.Problem:
    """Return the problem (12) of these systems and weights, with the initializers "medoid" and "random"."""
    manifold = kernel.manifold(systems.n_outputs, systems.n_states, bound)
    items = items_on(manifold, systems)
    packed = kernel.pack(items)
    starts: dict[str, Callable[..., Point]] = {
        "medoid": BestDatum(kernel, items, packed, beta, own),
        "random": random_start,
    }
    return ms.Problem(manifold, common_objective(kernel, packed, beta, own), starts)


def own_weight(kernel: Any, weight: float) -> float:
    """Return the weight of k(S, S): 0 where it is constant."""
    return 0.0 if kernel.constant_diagonal else weight


def solve_common_problem(
    systems: Systems,
    beta: ArrayLike | None = None,
    *,
    own: float | None = None,
    kernel: Any = "projection",
    kernel_params: dict[str, Any] | None = None,
    bound: float = 0.99,
    start: str | Point = "medoid",
    compress: bool | str = "auto",
    solver: Any = "lbfgs",
    **options: Any,
) -> ms.Result:
    """Minimize ``sum_i beta_i k(S, S_i) + own k(S, S)``: the common problem (11), (12), in the span of the outputs.

    Every iterate of the output matrix stays in the span of its start and the data. For many outputs the problem is
    therefore solved in coordinates of that span, exactly: the solution is the one without compression, up to rounding.

    Parameters
    ----------
    systems : Systems
    beta : array-like of shape (N,), optional
        Weights of any sign; by default those of the mean (8), ``-2 / N``.
    own : float, optional
        Weight of k(S, S) where it is not constant (Binet-Cauchy); by default 1 for the mean, 0 for given weights.
    kernel : str or kernel object
    kernel_params : dict, optional
        For a registered name.
    bound : float
        Of the singular values of the solution's transition matrix.
    start : {"medoid", "random"} or a point ``(lam, V, U)``
        ``"medoid"`` is the datum where the objective is least.
    compress : {"auto", True, False}
        Whether to compute in the span; ``"auto"`` where the iterations are expected to save more time than it costs,
        for kernels that say they depend on products ``C_i' C_j`` only (``products_only``), as all bundled ones do.
    solver, **options
        As in `manifoldseq.minimize`.

    Returns
    -------
    manifoldseq.Result
        With a point ``(lam, V, U)``, U of shape (m, n), orthonormal.

    Raises
    ------
    ValueError
        For weights that are not one finite number per system, or a kernel that cannot be compressed.

    References
    ----------
    Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017, equations (8), (10)-(12).

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import Systems, solve_common_problem
    >>> rng = np.random.default_rng(0)
    >>> data = Systems(A=np.full((2, 1, 1), 0.5), C=np.linalg.qr(rng.standard_normal((2, 500, 1)))[0])
    >>> result = solve_common_problem(data, compress=True)
    >>> result.x[2].shape, -2 < result.fun < -1
    ((500, 1), True)
    """
    kernel = resolved_kernel(kernel, kernel_params)
    check_bound(bound)
    if not isinstance(systems, Systems) or not len(systems):
        raise ValueError("systems are no Systems with at least one: identify sequences with LDSIdentifier")
    weights = checked_weights(beta, len(systems))
    own = own_weight(kernel, (1.0 if beta is None else 0.0) if own is None else float(own))
    span = _chosen_span(kernel, systems, start, compress)
    problem = common_problem(kernel, systems if span is None else span.systems, weights, own, bound)
    if span is not None and not isinstance(start, str):
        start = (*start[:2], span.coordinates(start[2]), *start[3:])
    result = ms.minimize(problem, start, solver=solver, **options)
    if span is None:
        return result
    lam, V, U, *rest = result.x
    return dataclasses.replace(result, x=(lam, V, span.expand(U), *rest))


def checked_weights(beta: ArrayLike | None, N: int) -> Array:
    """Return one finite weight per system, by default those of the mean (8)."""
    if beta is None:
        return np.full(N, -2 / N)
    weights = real_array("beta", beta)
    if weights.shape != (N,) or not np.isfinite(weights).all():
        raise ValueError(f"beta has shape {weights.shape}: pass one finite weight for each of the {N} systems")
    return weights


def _chosen_span(kernel: Any, systems: Systems, start: Any, compress: bool | str) -> SpanCompression | None:
    possible = getattr(kernel, "products_only", False)
    if compress not in (True, False, "auto"):
        raise ValueError(f"compress={compress!r} is not known: choose True, False or 'auto'")
    if compress is True and not possible:
        raise ValueError(f"compress=True: the kernel {kernel!r} does not say that it depends on C_i' C_j only")
    if compress is False or not possible:
        return None
    extra = None if isinstance(start, str) else np.asarray(start[2])
    if compress == "auto" and not SpanCompression.pays(len(systems), systems.n_outputs, systems.n_states):
        return None
    return SpanCompression.of(systems, extra)
