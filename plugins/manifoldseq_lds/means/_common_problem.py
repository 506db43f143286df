"""The common problem (11), (12), a weighted sum of kernels of one system with given systems, and its solution."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ..identification._identifier import check_bound
from ..kernels._moments import MomentKernel
from ..kernels._resolved import manifold_of, resolved_kernel
from ..systems._canonical_form import canonical_form
from ..systems._record import Systems, real_array
from . import _stable_systems as stable
from ._best_datum import best_datum
from ._span_compression import SpanCompression

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]

_EQUAL = 1e-12
"""Objectives with a smaller relative difference count as equal."""
_CUT = 1e-9
"""Singular values that the projection to the manifold changes by more than this are beyond its bound."""
COSTLY = 1e-3
"""Minimum effect of the bound for a warning, relative to kernel values k(x, x) or to the objective."""
BOUND_ADVICE = "raise the bound, or use stabilizer='SN', which keeps most singular values below 1"


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
        updates=(polar,) if concave and kernel.convex_in_output else (),
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
        raise ValueError(
            "the systems have no first states x1, which the kernel requires: pass Systems with x1, or sequences"
        )
    return Systems.trusted({"A": systems.A, "C": systems.C, "x1": systems.x1 if with_state else None})


def items_of(kernel: Any, systems: Systems) -> Systems:
    """Return systems with the fields that the points of a kernel's manifold have, whatever its bound."""
    if isinstance(kernel, MomentKernel):
        return Systems.trusted({"A": systems.A, "C": systems.C, "moments": systems.moments})
    if kernel.manifold is None:  # it only compares systems
        return systems
    return items_on(manifold_of(kernel, systems.n_outputs, systems.n_states, 0.99), systems)


@dataclass(frozen=True)
class BestDatum:
    """The initializer that starts from the datum with the smallest objective; for a mean, the medoid."""

    kernel: Any
    systems: Systems
    packed: Any
    beta: Array
    own: float

    def __call__(self, problem: ms.Problem, rng: np.random.Generator) -> Point:
        """Return the point of the canonical manifold nearest to the datum; warn about the effect of the bound."""
        row = self.row()[0]
        whole = whole_point(self.systems, row)
        point = problem.manifold.nearest(whole)
        if beyond(problem.manifold, whole):
            before, after = problem.objective.value(whole), problem.objective.value(point)
            if after - before > COSTLY * abs(before):
                warnings.warn(
                    f"the start, system {row}, has an A with singular values up to {whole[0].max():.4g}, although "
                    f"problem (12) of the paper requires bound={point[0].max():.4g}. Clipping raises the "
                    f"objective from {before:.6g} to {after:.6g}, and solve_common_problem returns the "
                    "system itself if it finds no better point",
                    stacklevel=2,
                )
        return point

    def row(self) -> tuple[int, float]:
        """Return the row of the datum, and the objective there."""
        return best_datum(self.kernel, self.packed, self.beta, self.own)


def points_of(systems: Systems) -> Point:
    """Return items as stacked canonical points, without a bound of singular values."""
    form = canonical_form(systems.A, systems.C, systems.x1)
    return form if systems.moments is None else (*form, systems.moments)


def whole_point(systems: Systems, row: int) -> Point:
    """Return one of the systems in canonical form, without a bound of its singular values."""
    return tuple(leaf[0] for leaf in points_of(systems[[row]]))


def beyond(manifold: Any, point: Point) -> Any:
    """Return whether singular values of a canonical point, or of each of several, are beyond the manifold's bound."""
    return (np.abs(manifold.nearest(point)[0] - point[0]) > _CUT).any(axis=-1)


def common_problem(kernel: Any, systems: Systems, beta: Array, own: float, bound: float) -> ms.Problem:
    """Return the problem (12) of these systems and weights, with the initializers "medoid" and "random"."""
    manifold = manifold_of(kernel, systems.n_outputs, systems.n_states, bound)
    items = items_on(manifold, systems)
    packed = kernel.pack(items)
    starts: dict[str, Callable[..., Any]] = {
        "medoid": BestDatum(kernel, items, packed, beta, own),
        "random": stable.random,
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
    bound: float = 0.99,
    over: str = "auto",
    start: str | Point = "medoid",
    compress: bool | str = "auto",
    solver: Any = "lbfgs",
    **options: Any,
) -> ms.Result:
    """Minimize ``sum_i beta_i k(S, S_i) + own k(S, S)``: the common problem (11), (12), in the span of the outputs.

    Every iterate of the output matrix stays in the span of its start and the data. For many outputs the problem is
    therefore solved in coordinates of that span. The solution equals the solution without compression, up to rounding
    errors.

    Every stable observable system has an output-normal representative, ``A'A + C'C = I``. For kernels that are
    functions of the observability subspace alone (``projection``, ``martin``, ``martin-rbf``), the sum is therefore
    minimized over all stable systems, which are points ``[A; C]`` with orthonormal columns. The problem (12)
    additionally bounds the singular values of A. It is solved for ``over="canonical"`` and for other kernels. If the
    best datum is beyond the bound and better than the solution within the bound, the datum is the result.

    Parameters
    ----------
    systems : Systems
    beta : array-like of shape (N,), optional
        Weights of any sign; by default the weights ``-2 / N`` of the mean (8).
    own : float, optional
        Weight of k(S, S) if it is not constant (Binet-Cauchy kernels); by default 1 for the mean and 0 for given
        weights.
    kernel : str or kernel object
    bound : float
        The bound of the singular values of A in (12). A solution that is a datum may exceed it.
    over : {"auto", "canonical"}
        ``"auto"``: all stable systems, if the kernel allows it. ``"canonical"``: (12), as in the paper.
    start : {"medoid", "random"} or a point ``(lam, V, U)``
        ``"medoid"`` is the datum with the smallest objective.
    compress : {"auto", True, False}
        Whether to compute in the span of the outputs. ``"auto"`` compresses if it is expected to save time, for kernels
        that depend only on products ``C_i' C_j`` (``products_only``), as all bundled kernels do.
    solver, **options
        As in `manifoldseq.minimize`.

    Returns
    -------
    manifoldseq.Result
        The result with a point ``(lam, V, U)``; U of shape (m, n) has orthonormal columns. Over all stable systems the
        singular values lam may have any size. If the point is a datum that the search did not reach, `grad_norm` is
        None. If it exceeds the bound of (12), `feasibility` is the excess. Status and history describe the search.

    Warns
    -----
    UserWarning
        If the result is a datum beyond the bound of (12); the warning gives the increase of the objective within the
        bound. If the output matrix of the solution is rank-deficient; the returned system is then near the solution
        but not equivalent.

    Raises
    ------
    ValueError
        If `beta` does not have one finite number per system, or if `compress` is True and the kernel does not support
        compression.

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
    kernel = resolved_kernel(kernel)
    check_bound("bound", bound)
    if not isinstance(systems, Systems) or not len(systems):
        raise ValueError("systems are not a nonempty Systems object: identify sequences with LDSIdentifier")
    weights = checked_weights(beta, len(systems))
    own = own_weight(kernel, (1.0 if beta is None else 0.0) if own is None else float(own))
    span = _chosen_span(kernel, systems, start, compress)
    if over not in ("auto", "canonical"):
        raise ValueError(f"over={quoted(over)} is not known: choose 'auto' or 'canonical'")
    if over == "auto" and stable.covers(kernel):
        return _over_all_stable(
            kernel, systems if span is None else span.systems, weights, span, start, solver, options
        )
    problem = common_problem(kernel, systems if span is None else span.systems, weights, own, bound)
    if span is not None and not isinstance(start, str):
        start = (*start[:2], span.coordinates(start[2]), *start[3:])
    best = problem.initializers["medoid"]
    assert isinstance(best, BestDatum)
    cut = beyond(problem.manifold, canonical_form(best.systems.A, best.systems.C, best.systems.x1)).any()
    datum = best.row() if cut or (isinstance(start, str) and start == "medoid") else None
    if datum and isinstance(start, str) and start == "medoid":
        start = problem.manifold.nearest(whole_point(best.systems, datum[0]))
    result = ms.minimize(problem, start, solver=solver, **options)
    if cut and datum and datum[1] < result.fun - _EQUAL * abs(result.fun):
        result = _datum_instead(problem, best.systems, *datum, result)
    if span is None:
        return result
    lam, V, U, *rest = result.x
    return dataclasses.replace(result, x=(lam, V, span.expand(U), *rest))


def _over_all_stable(
    kernel: Any, systems: Systems, weights: Array, span: SpanCompression | None, start: Any, solver: Any, options: Any
) -> ms.Result:
    """Solve the common problem over points ``[A; C]``, and return the solution in canonical form (Theorem 1)."""
    packed = kernel.pack(systems)
    if not isinstance(start, str):
        lam, V, U, *_ = start
        U = U if span is None else span.coordinates(np.asarray(U))
        start = stable.points_of(kernel.pack([(np.asarray(lam)[:, None] * V, U)]))[0]
    result = ms.minimize(stable.problem(kernel, packed, weights), start, solver=solver, **options)
    row, value = best_datum(kernel, packed, weights, 0.0)
    if value < result.fun - _EQUAL * abs(result.fun):
        result = dataclasses.replace(result, fun=value, grad_norm=None)
        lam, V, U = whole_point(systems, row)[:3]
    else:
        found, deficient = stable.orthonormal(result.x[None])
        if deficient.any():
            warnings.warn(
                "the outputs C of the solution are rank-deficient, so no equivalent system has orthonormal outputs. "
                "The nearest system is returned: choose fewer states",
                stacklevel=4,
            )
        lam, V, U = whole_point(found, 0)
    return dataclasses.replace(result, x=(lam, V, U if span is None else span.expand(U)))


def _datum_instead(problem: ms.Problem, systems: Systems, row: int, value: float, result: ms.Result) -> ms.Result:
    """Return a result with a datum beyond the bound as its point, and warn about the effect of the bound."""
    x = whole_point(systems, row)
    feasibility = float(problem.manifold.feasibility(x))
    warnings.warn(
        f"the result is system {row}, whose A has singular values up to {x[0].max():.4g}, although the paper requires "
        f"bound={x[0].max() - feasibility:.4g}. Within the bound, the objective would be {result.fun:.6g} instead of "
        f"{value:.6g}: {BOUND_ADVICE}",
        stacklevel=4,
    )
    return dataclasses.replace(result, x=x, fun=value, grad_norm=None, feasibility=feasibility)


def checked_weights(beta: ArrayLike | None, N: int) -> Array:
    """Return one finite weight per system, by default those of the mean (8)."""
    if beta is None:
        return np.full(N, -2 / max(N, 1))
    weights = real_array("beta", beta)
    if weights.shape != (N,) or not np.isfinite(weights).all():
        raise ValueError(f"beta has shape {weights.shape}: pass one finite weight for each of the {N} systems")
    return weights


def _chosen_span(kernel: Any, systems: Systems, start: Any, compress: bool | str) -> SpanCompression | None:
    possible = kernel.products_only
    if compress not in (True, False, "auto"):
        raise ValueError(f"compress={quoted(compress)} is not known: choose True, False or 'auto'")
    if compress is True and not possible:
        raise ValueError(f"compress=True requires a kernel with products_only, which {quoted(kernel)} does not declare")
    if compress is False or not possible:
        return None
    extra = None if isinstance(start, str) else np.asarray(start[2])
    if compress == "auto" and not SpanCompression.pays(len(systems), systems.n_outputs, systems.n_states):
        return None
    return SpanCompression.of(systems, extra)
