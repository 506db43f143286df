"""Rules for the centre of a cluster: descent on the mean problem, and the medoid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.hooks import get_rule

from ..kernels._moments import MomentKernel
from ..systems._record import Systems
from ._common_problem import common_objective, own_weight

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]
Rows = NDArray[np.int64]


class CentreTask(Protocol):
    """The input of a `CentreRule`: the systems that are clustered, under a kernel.

    Points are points of ``manifold``: ``(lam, V, U)`` for the system ``A = diag(lam) V, C = U``, see `canonical_form`.
    """

    @property
    def kernel(self) -> Any:
        """The kernel."""

    @property
    def manifold(self) -> Any:
        """The manifold of the centres, by the bound of (12)."""

    @property
    def systems(self) -> Systems:
        """The N systems."""
        ...

    @property
    def solver(self) -> Any:
        """The parameter `solver` of the clustering."""

    @property
    def packed(self) -> Any:
        """The systems in the packed form of the kernel."""

    def packed_by(self, kernel: str) -> tuple[Any, Any]:
        """Return another registered kernel of (A, C) and the systems packed by it; both are cached."""
        ...

    def objective(self, rows: Rows, beta: Array) -> ms.Objective:
        """Return ``sum_i beta_i k(S, S_i)`` over some systems as an objective of points S."""
        ...

    def point(self, row: int) -> Point:
        """Return one system as a point."""
        ...

    def medoid(self, rows: Rows) -> int:
        """Return the row of the member with the smallest sum of squared distances to the members."""
        ...

    def squared_to(self, rows: Any, others: Any = ...) -> Array:
        """Return the squared distances in feature space from some systems to others, by default to all systems."""
        ...


class CentreRule(ABC):
    """Base class of the rules for centres, which ``LDSKMeans(mean=...)`` accepts as objects or by registered names.

    A rule that is a frozen dataclass is saved with the model. Register its class by `manifoldseq.hooks.RuleSpec` with
    ``estimator="lds-kmeans", parameter="mean"``.

    Attributes
    ----------
    on_AC_only : bool
        Whether the rule is defined for systems (A, C) only, without first states or moments.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import CentreRule, LDSKMeans, Systems
    >>> class FirstMember(CentreRule):
    ...     def __call__(self, task, centre, rows, inner):
    ...         return task.point(int(rows[0])), 0.0
    >>> data = Systems(A=[[[0.5]], [[0.7]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]])
    >>> LDSKMeans(1, mean=FirstMember()).fit(data).systems_.A.ravel().tolist()
    [0.5]
    """

    on_AC_only: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the new centre of a cluster, and the number of kernel evaluations with each member.

        Parameters
        ----------
        task : CentreTask
        centre : tuple of arrays
            The current centre, a point.
        rows : array of int of shape (M,)
            The members, at least one, by their rows in ``task.systems``.
        inner : int
            The number of iterations, for rules that descend.
        """


@dataclass(frozen=True)
class CanonicalMean(CentreRule):
    """Descend on (7), (8) within the bound of (12), from the current centre, with the solver of the clustering."""

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the new centre of the members `rows`, and the evaluations spent."""
        return descended(task, centre, task.packed[rows], np.full(len(rows), -2 / len(rows)), inner)


@dataclass(frozen=True)
class ExactMean(CanonicalMean):
    """Descend on (7), (8) over all stable systems; like the base class for kernels without this possibility."""


def descended(task: CentreTask, centre: Point, packed: Any, beta: Array, inner: int) -> tuple[Point, float]:
    """Return a point that is no worse than a centre for ``sum_i beta_i k(S, S_i)``, and the evaluations spent.

    beta is negative; k(S, S) is added as in (7) if it is not constant.
    """
    return _descended(task.kernel, task.manifold, task.solver, centre, packed, beta, inner)


def _descended(
    kernel: Any, manifold: Any, solver: Any, centre: Point, packed: Any, beta: Array, inner: int
) -> tuple[Point, float]:
    """Compute `descended` from the parts of the task."""
    if isinstance(kernel, MomentKernel):  # the moments shift first; they weight what the dynamics descend on
        moments, weights = kernel.settled(centre, packed, beta)
        dynamics = ms.manifolds.Product(*manifold.factors[:-1])
        found, spent = _descended(kernel.kernel, dynamics, solver, centre[:-1], packed.dynamics, weights, inner)
        return (*found, moments), spent + 1
    solver = "lbfgs" if solver == "auto" else solver
    problem = ms.Problem(manifold, common_objective(kernel, packed, beta, own_weight(kernel, 1.0)))
    result = ms.minimize(problem, centre, solver=solver, stop=ms.MaxIterations(inner))
    if result.status is ms.Status.INTERRUPTED:
        raise KeyboardInterrupt  # the outer loop ends with its last complete state
    return result.x, result.nfev


@dataclass(frozen=True)
class Medoid(CentreRule):
    """The member with the smallest mean squared distance to the others."""

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the medoid of the members `rows`."""
        return task.point(task.medoid(rows)), 0.0


def resolved_rule(mean: Any) -> CentreRule:
    """Return the rule with a registered name, or the rule itself."""
    if isinstance(mean, CentreRule):
        return mean
    rule = get_rule(mean, estimator="lds-kmeans", parameter="mean")
    if not isinstance(rule, CentreRule):
        raise ValueError(
            f"mean={mean!r} is of type {type(rule).__name__}, which is not a rule for centres: derive this type from "
            "manifoldseq_lds.CentreRule"
        )
    return rule
