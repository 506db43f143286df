"""The mean of systems in raw coordinates (A, C), for comparison: model ``lds.mean-raw``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, canonical_form

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]


@dataclass(frozen=True)
class StableMatrices(ms.manifolds.Manifold):
    """Square matrices of spectral radius up to a bound, as an open set of the matrices: the raw transitions of (11).

    If a step leaves the set, the matrix is scaled back to the bound.

    Parameters
    ----------
    n : int
    bound : float

    Examples
    --------
    >>> import numpy as np
    >>> StableMatrices(2, 0.5).nearest(4 * np.eye(2)).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    n: int
    bound: float = 0.99
    retractions: ClassVar[tuple[str, ...]] = ("exp",)
    second_order: ClassVar[tuple[str, ...]] = ("exp",)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.n)

    @property
    def dim(self) -> int:
        return self.n**2

    def project(self, x: Any, u: Any) -> Any:
        return u

    def hessian(self, x: Any, egrad: Any, ehess: Any, u: Any) -> Any:
        return ehess

    def retract(self, x: Any, u: Any, kind: str | None = None) -> Any:
        return self.nearest(x + u)

    def nearest(self, x: Any) -> Any:
        # eigenvalues scale with the matrix: one factor brings the spectral radius to the bound
        factor = np.minimum(1.0, self.bound / np.maximum(_radius(x), np.finfo(float).tiny))
        return x if np.all(factor == 1) else (x * factor[..., None, None]).astype(x.dtype)

    def feasibility(self, x: Any) -> Any:
        violation = np.maximum(_radius(x) - self.bound, 0.0)
        return float(violation) if violation.ndim == 0 else violation

    def random_point(self, rng: np.random.Generator, dtype: Any = np.float64) -> Any:
        A = rng.standard_normal(self.shape)
        return (A * (self.bound * rng.uniform() / _radius(A))).astype(dtype)


def _radius(A: Any) -> Any:
    """Return spectral radii; infinity for matrices that are not finite."""
    finite = np.isfinite(A).all(axis=(-2, -1))
    radii = np.abs(np.linalg.eigvals(np.where(finite[..., None, None], A, 0.0))).max(axis=-1)
    return np.where(finite, radii, np.inf)


def build(
    data: Any,
    *,
    kernel: Any = "projection",
    n_states: int | str | None = None,
    identifier: LDSIdentifier | None = None,
    bound: float = 0.99,
) -> ms.Problem:
    """Return the mean problem (8) in raw coordinates ``(A, C)`` instead of canonical ones, for comparison.

    A is any matrix of spectral radius up to `bound`, C has orthonormal columns. The set is larger than the canonical
    one, whose singular values are bounded, and has n (n - 1)/2 directions along which the objective is constant (Remark
    2).

    Parameters
    ----------
    data, kernel, n_states, identifier, bound
        As in the model ``lds.mean``.

    Returns
    -------
    manifoldseq.Problem
        On `StableMatrices` × ``Stiefel(m, n)``; initializers ``"medoid"`` and ``"random"``; mini-batches.

    References
    ----------
    Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017, equation (11), Remarks 2 and 3.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> data = Systems(A=[[[0.5]], [[0.7]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]])
    >>> result = ms.minimize(ms.get_model("lds.mean-raw").problem(data))
    >>> -2 <= result.fun <= -1.9
    True
    """
    problem = ms.get_model("lds.mean").problem(
        data, kernel=kernel, n_states=n_states, identifier=identifier, bound=bound
    )
    canonical: Any = problem.manifold
    manifold = ms.manifolds.Product(
        StableMatrices(canonical.shape[0][0], bound), *canonical.factors[2:], names=("A", "C", *canonical.names[3:])
    )
    starts = {
        "medoid": partial(_raw_medoid, problem.initializers["medoid"]),
        "random": partial(_raw_random, canonical),
    }
    return ms.Problem(manifold, _raw_objective(problem.objective), starts)


def _raw_objective(inner: ms.Objective) -> ms.Objective:
    both = ms.objectives.last_point(partial(_raw_both, inner))
    assert inner.terms is not None
    terms = ms.objectives.FiniteTerms(inner.terms.n, partial(_raw_batch, inner.terms))
    return ms.Objective(partial(_raw_value, both), both, terms=terms)


def _raw_both(inner: ms.Objective, point: Point) -> tuple[float, Point]:
    """Evaluate at ``(lam, V) = (1, A)``: kernels use only the product, so the gradient in V is the gradient in A."""
    A, *rest = point
    assert inner.value_and_gradient is not None
    try:
        value, (_, *gradient) = inner.value_and_gradient((np.ones(len(A), A.dtype), A, *rest))
    except ValueError:  # a trial point where the kernel is not defined: steps get shorter
        return np.inf, tuple(np.zeros_like(leaf) for leaf in point)
    return value, tuple(gradient)


def _raw_value(both: Any, point: Point) -> float:
    return both(point)[0]


def _raw_batch(terms: Any, rows: np.ndarray) -> ms.Objective:
    return _raw_objective(terms.batch(rows))


def _raw(point: Point) -> Point:
    lam, V, *rest = point
    return (lam[:, None] * V, *rest)


def _raw_medoid(best: Any, problem: ms.Problem, rng: Any) -> Point:
    """Return the medoid from the initializer of the canonical problem; here singular values have no bound."""
    medoid = best.systems[[best.row()[0]]]
    form = canonical_form(medoid.A, medoid.C, medoid.x1)
    return problem.manifold.nearest(_raw(tuple(leaf[0] for leaf in form)))


def _raw_random(canonical: Any, problem: ms.Problem, rng: np.random.Generator) -> Point:
    return _raw(canonical.random_point(rng))


def example(rng: np.random.Generator) -> Any:
    """Return the example systems of the domain, for the checks of the model."""
    return ms.hooks.get_domain("lds").example(rng)
