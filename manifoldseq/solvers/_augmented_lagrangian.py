"""The augmented Lagrangian method for equalities and inequalities on a manifold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from .._checks import check_number, check_optional, check_positive
from .._copies import with_parts
from .._problem import Problem
from .._result import FEASIBLE, Evaluations, Measures, Point, Status, Steps, Tree
from .._stopping import LAST, GradientNorm, Look, MaxIterations, RunSoFar, StoppingRule
from ..hooks import get_solver
from ..linalg import dtype_of, flatten, leaves, norm, tree_map, unflattener
from ..objectives import Constraint, Objective, Pullback, checked, constraint_of, real_array
from ..objectives._counted import checked_like
from ._around import UNUSUAL
from ._base import Solver
from ._iterates import Iterate, State, evaluate
from ._saddle import confirm, leave_saddle

LARGEST = 1e12
"""Maximum penalty, because beyond it the objective is lost in rounding."""

STATIONARY = 1e-5
"""Size of the gradient of the violation, relative to its terms, up to which the violation counts as stationary."""

AWAY = 1e4
"""Violation, in units of the constraints, above which an inner run that continues has no minimum."""

NEARLY = 1e-3
"""Violation of a start below which its gradients determine the initial multipliers."""

ROUNDING = 1e3
"""Norm, in units of the rounding error, up to which a derivative of a constraint along the manifold counts as zero."""

STIFFER = 3
"""Before a success with a negative curvature, the penalty is multiplied by 100 up to this many times. If the negative
curvature keeps more than a tenth of its size, it belongs to the objective; otherwise it belongs to the penalty."""

MOST_ROWS = 200
"""Maximum number of entries of the constraints whose gradients are computed one by one, with one pull-back each."""


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """Minimize under the equalities h = 0 and inequalities g ≤ 0 of a problem, on any manifold.

    An inner solver minimizes, over the manifold, the function of Powell, Hestenes and Rockafellar

        f + Σ ((λᵢ + ρhᵢ)² − λᵢ²) / 2ρ + Σ (max(0, μⱼ + ρgⱼ)² − μⱼ²) / 2ρ

    The gradient of this function is the gradient of the Lagrangian at the multipliers λ + ρh and max(0, μ + ρg). These
    multipliers replace λ and μ whenever `inner_stop` is met. The penalty ρ grows if an inner run that converged did not
    halve the violation. One step is one step of the inner solver.

    Parameters
    ----------
    inner_solver : str or Solver
        The name of a solver, or a solver with its options.
    inner_stop : StoppingRule
        The rule that ends an inner run and updates the multipliers. It counts iterations from the last update.
    penalty : float, optional
        The initial penalty ρ; by default ``10 max(1, |f|) / max(1, |violation|² / 2)`` at the start, between 1e-3 and
        1e3.
    growth : float
        The factor by which ρ grows.

    Notes
    -----
    ``grad_norm`` is the norm of the Riemannian gradient of the Lagrangian at the multipliers of the result;
    ``feasibility`` is the largest violation, of \\|hᵢ\\| and max(0, gⱼ); ``complementarity`` is the largest min(−gⱼ,
    μⱼ) of the satisfied inequalities. Stopping rules require that ``feasibility`` and ``complementarity`` are small. If
    the norm of a gradient at the start is far from 1, the solver multiplies the constraint or the objective by a power
    of two. This scaling affects ``complementarity``, but not the values, violations and multipliers of results. For a
    nearly feasible start, the first multipliers are least-squares multipliers, so that a solution is recognized at
    once. `fun` is the objective itself; evaluations of the constraints are not counted.

    If the objective decreases without bound in an inner run, faster than the penalty grows, the inner run is repeated
    with a larger ρ. A run ends as INFEASIBLE if the violation is positive and stationary and no earlier iterate
    satisfied the constraints. Otherwise the run continues from the last feasible iterate with a larger ρ.

    References
    ----------
    Liu, Boumal, "Simple algorithms for optimization on Riemannian manifolds with constraints", 2020; Birgin, Martínez,
    "Practical augmented Lagrangian methods for constrained optimization", 2014.

    Examples
    --------
    The point of the unit circle with x₁ ≥ 0.6 that has the smallest sum of coordinates:

    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: x.sum(), np.ones_like)
    >>> g = ms.objective(lambda x: 0.6 - x[0, 0], lambda x: np.array([[-1.0], [0.0]]))
    >>> problem = ms.Problem(ms.manifolds.Stiefel(2, 1), f, inequalities=(g,))
    >>> result = ms.minimize(problem, np.array([[1.0], [0.0]]), solver="augmented-lagrangian")
    >>> result.x.ravel().round(4).tolist(), result.multipliers["inequalities"].round(3).tolist()
    ([0.6, -0.8], [1.75])
    """

    inner_solver: str | Solver = "lbfgs"
    inner_stop: StoppingRule = GradientNorm(1e-2, relative=True) | MaxIterations(100)
    penalty: float | None = None
    growth: float = 10.0
    constraints: ClassVar[bool] = True
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        inner = get_solver(self.inner_solver) if isinstance(self.inner_solver, str) else self.inner_solver
        if not isinstance(inner, Solver) or inner.constraints:
            raise ValueError(
                f"AugmentedLagrangian(inner_solver={self.inner_solver!r}): use a solver without constraints, such as "
                "'lbfgs'"
            )
        object.__setattr__(self, "inner_solver", inner)
        if not isinstance(self.inner_stop, StoppingRule):
            raise ValueError(
                f"AugmentedLagrangian(inner_stop={self.inner_stop!r}): use a stopping rule such as ms.MaxIterations(20)"
            )
        check_optional("AugmentedLagrangian: penalty", self.penalty, check_positive)
        check_number("AugmentedLagrangian: growth", self.growth, 1.0, open_=True)

    @property
    def monotone(self) -> bool:
        return False

    @property
    def frames(self) -> bool:  # type: ignore[override]
        return self._inner.frames

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state of the inner solver, on the first augmented Lagrangian."""
        penalized = Penalized(problem, None, 1.0, None)
        for need in self._inner.needs:
            if not getattr(penalized.objective, need, None):
                raise ValueError(
                    f"the inner solver {type(self._inner).__name__} needs {need}, which an augmented Lagrangian of "
                    "this problem does not have: choose another inner_solver"
                )
        at = penalized.begin(point)
        violation = penalized.violation(at.c)
        if self.penalty is None:
            # objective and penalty of the same size at the start (Birgin and Martínez 2014)
            balance = 10 * max(1.0, abs(at.fun)) / max(1.0, 0.5 * float(violation @ violation))
            penalized.penalty = min(max(balance, 1e-3), 1e3) if math.isfinite(balance) else 1.0
        else:
            penalized.penalty = float(self.penalty)
        if violation.max(initial=0.0) <= NEARLY:
            penalized.multipliers = _least_squares(penalized, point) - penalized.penalty * at.c
        inner, measures = self._inner.init(penalized.problem, point)
        run = {**_begun(point, at, penalized, measures), "distance": None, "feasible": None}
        return self._outcome(penalized, inner, measures, run)

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        penalized = Penalized.of(problem, state)
        measures = self._inner.confirm(penalized.problem, state["inner"], recent, look)
        # Along a set of minimizers with different multipliers, the Hessian of the augmented Lagrangian has negative
        # eigenvalues of the order 1/penalty. They are no sign of a saddle point and vanish as the penalty grows. A
        # negative curvature of the objective along the constraints does not vanish.
        for _ in range(STIFFER):
            lowest = measures.curvature_ahead
            if lowest is None or not lowest < 0 or not state["c"].size:
                break
            penalized.stiffen(100.0, state["c"])
            measures = confirm(penalized.problem, evaluate(penalized.problem, state["x"]), recent, look)
            if measures.curvature_ahead is not None and measures.curvature_ahead < 0.1 * lowest:
                break
        return measures

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        penalized = Penalized.of(problem, state).problem
        return self._inner.unclaimed_slope(penalized, state["inner"], now)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Update the multipliers if the last inner step ended an inner run, and take an inner step."""
        penalized = Penalized.of(problem, state)
        inner, run = state["inner"], {key: state[key] for key in _RUN}
        infeasible = False
        if state["ended"] is not None:
            inner, run, infeasible = self._begin(penalized, state)
        inner, outcome = self._inner.step(penalized.problem, inner)
        measures = outcome.last if isinstance(outcome, Steps) else outcome
        ended = measures.status
        state, measures = self._outcome(penalized, inner, measures, {**run, "count": run["count"] + 1})
        if (measures.feasibility or 0.0) > FEASIBLE:
            if infeasible:
                measures.status = Status.INFEASIBLE
            elif measures.status is not None:
                # the inner run is over, not this one: new multipliers or another point go on, unless nothing can
                caught = penalized.caught(inner["x"])
                lost = caught or measures.status is Status.NO_DECREASE
                if lost and self._elsewhere(penalized, state, caught) is None:
                    measures.status = Status.INFEASIBLE if caught else Status.NO_DECREASE
                else:
                    measures.status = None
        elif (measures.complementarity or 0.0) > FEASIBLE:
            measures.status = None
        elif ended is Status.NO_DECREASE and self._rounding(penalized, inner, measures):
            measures.status = Status.ROUNDING_LEVEL
        return state, measures

    def _begin(self, penalized: Penalized, state: State) -> tuple[State, State, bool]:
        """Return the first state of the next inner run, its record, and whether the violation is stationary.

        With new multipliers λ + ρ h and max(0, μ + ρ g), and a larger ρ unless the violation halved. An inner run that
        diverged from the constraints, because ρ was too small, is discarded: the next inner run has the same start and
        a larger ρ. After an inner run that ended at a stationary violation, the next inner run starts at another point
        if possible.
        """
        x, c, weights, last = state["x"], state["c"], state["weights"], state["distance"]
        violation = float(penalized.violation(c).max())
        distance = max(violation, float(penalized.complementarity(c, weights / state["penalty"]).max(initial=0.0)))
        violated, final = penalized.largest(c) > FEASIBLE, state["ended"] == "final"
        caught = violated and (final or (last is not None and violation > 0.9 * last)) and penalized.caught(x)
        back, kept = None, False
        if violated and (caught or final):
            back = self._elsewhere(penalized, state, caught)
        elif state["ended"] == "diverged" and penalized.penalty < LARGEST:
            back = state["from"]
        if back is not None:
            x, caught, distance = back, False, last
            penalized.penalty = min(penalized.penalty * self.growth, LARGEST)
        else:
            kept = np.array_equal(weights, state["used"])
            penalized.multipliers = weights
            if state["ended"] != "over" and last is not None and distance > max(0.5 * last, _eps(x) ** 0.5):
                penalized.penalty, kept = min(penalized.penalty * self.growth, LARGEST), False
        if kept:
            inner, first = state["inner"], Measures.of(state["recent"][-1])
        else:
            inner, first = self._inner.init(penalized.problem, x)
        run = {**_begun(x, penalized.parts(x), penalized, first), "distance": distance, "feasible": state["feasible"]}
        return inner, run, caught

    def _elsewhere(self, penalized: Penalized, state: State, caught: bool) -> Point | None:
        """Return the next start after a point without decrease that violates the constraints.

        The next start is the last feasible point. Without a feasible point, it lies along negative curvature of the
        violation, because a saddle or a maximum of the violation does not show that the constraints are infeasible.
        """
        if penalized.penalty >= LARGEST or state["feasible"] is not None or not caught:
            return state["feasible"] if penalized.penalty < LARGEST else None
        squared = dataclasses.replace(
            penalized.problem, objective=Objective(lambda x: penalized.squared(x)[0], penalized.squared)
        )
        at = evaluate(squared, state["x"])
        lower, measures = leave_saddle(squared, {}, at, None, lambda new: {"x": new.x})
        return lower["x"] if measures.status is None else None

    def _rounding(self, penalized: Penalized, inner: State, measures: Measures) -> bool:
        """Return whether the predicted decrease is at the rounding level of the terms of the augmented Lagrangian."""
        ahead = self._inner.confirm(penalized.problem, inner, (measures,), Look()).curvature_ahead
        if measures.grad_norm is None or ahead is None or not ahead > 0:
            return False
        at, eps = penalized.parts(inner["x"]), _eps(inner["x"])
        weights, multipliers = penalized.weights(at.c), penalized.multipliers
        terms = (float(weights @ weights) + float(multipliers @ multipliers)) / (2 * penalized.penalty)
        return measures.grad_norm**2 <= 8 * eps * ahead * (abs(at.fun) + terms)

    @property
    def _inner(self) -> Solver:
        assert isinstance(self.inner_solver, Solver)
        return self.inner_solver

    def _outcome(self, penalized: Penalized, inner: State, measures: Measures, run: State) -> tuple[State, Measures]:
        """Return the state after an inner step, and the measures for the problem with constraints."""
        at = penalized.parts(inner["x"])
        weights = penalized.weights(at.c)
        if inner.get("egrad") is not None:  # the inner rule is asked here, and not again before the inner run ends
            measures = Iterate.of(inner).at_boundary(penalized.problem.manifold, measures)
        first, kept = Measures.of(run["first"]), (*run["recent"][1 - LAST :], measures.kept())
        recent = tuple([Measures.of(numbers) for numbers in kept])
        so_far = RunSoFar(recent, run["count"], 0.0, Evaluations(), first, eps=_eps(inner["x"]))
        met = measures.status or self.inner_stop.check(so_far)
        ended = "over" if met is None or not (met.success or measures.status) else "solved"
        # the objective falls along negative curvature, away from the constraints, faster than the penalty grows
        far = 10 * run["at"] if met and not met.success else AWAY * max(1.0, run["at"])
        if penalized.violation(at.c).max(initial=0.0) > far and not any((m.curvature or 0.0) > 0 for m in recent):
            met, ended = met or Status.NO_DECREASE, "diverged"
        if measures.status is Status.NO_DECREASE and run["count"] == 1:
            ended = "final"
        violation = penalized.largest(at.c)
        n = at.n
        state = {
            **run,
            "x": inner["x"],
            "inner": inner,
            "recent": kept,
            "ended": None if met is None or not at.c.size else ended,
            "feasible": inner["x"] if violation <= FEASIBLE else run["feasible"],
            "used": penalized.multipliers,
            "penalty": penalized.penalty,
            "c": at.c,
            "weights": weights,
            "units": penalized.units,
            "multipliers": {
                "equalities": (weights * penalized.units)[:n],
                "inequalities": (weights * penalized.units)[n:],
            },
        }
        return state, dataclasses.replace(
            measures,
            fun=at.fun,
            feasibility=violation,
            complementarity=float(penalized.complementarity(at.c, weights).max()) if at.c.size > n else None,
            status=measures.status if at.c.size == 0 or run["count"] == 1 else None,
            extra={**measures.extra, "penalty": penalized.penalty} if at.c.size else measures.extra,
        )


_RUN = ("count", "first", "recent", "from", "at", "distance", "feasible")
"""The keys of a state that describe the current inner run."""


def _begun(x: Any, at: _Parts, penalized: Penalized, first: Measures) -> State:
    """Return the record of an inner run that begins at `x`."""
    violation = float(penalized.violation(at.c).max(initial=0.0))
    return {"count": 0, "first": first.kept(), "recent": (), "from": x, "at": violation}


@dataclass(frozen=True, eq=False)
class _Parts:
    """The objective and the constraints at one point, with Euclidean gradients.

    The entries `c` of all constraints are multiplied by their units, the pull-backs of the blocks are not. `cuts` and
    `shapes` are those of the blocks; the first `n` entries are equalities.
    """

    x: Tree
    fun: float
    c: np.ndarray
    egrad: Tree
    pulls: tuple[Pullback, ...]
    cuts: tuple[slice, ...]
    shapes: tuple[tuple[int, ...], ...]
    n: int
    units: np.ndarray

    def add(self, tree: Point, weights: np.ndarray) -> Point:
        """Return ``tree + Σ weightₖ grad cₖ``: one pull-back for each block with a weight that is not zero."""
        for cut, pull in zip(self.cuts, self.pulls, strict=True):
            if weights[cut].any():
                tree = tree_map(np.add, tree, pull(weights[cut]))
        return tree


class Penalized:
    """The augmented Lagrangian of a problem, with a cache of the points of one step."""

    def __init__(
        self, problem: Problem, multipliers: np.ndarray | None, penalty: float, units: np.ndarray | None
    ) -> None:
        self.original, self.penalty = problem, penalty
        self.names = [f"equality {k}" for k in range(len(problem.equalities))]
        self.names += [f"inequality {k}" for k in range(len(problem.inequalities))]
        self.all: list[Constraint] = []
        for name, each in zip(self.names, (*problem.equalities, *problem.inequalities), strict=True):
            try:
                self.all.append(constraint_of(each))
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        self._multipliers, self._units, self.n = multipliers, units, 0
        self._seen: list[_Parts] = []

    @cached_property
    def objective(self) -> Objective:
        """The augmented Lagrangian, with Hessian products if all parts have them."""
        return Objective(
            lambda x: self.value_and_gradient(x)[0],
            self.value_and_gradient,
            self.hessian_product if self.twice else None,
        )

    @property
    def twice(self) -> bool:
        """Whether objective and constraints have second derivatives."""
        f = self.original.objective
        return bool(f.hessian_product and all(c.hessian_product and c.jacobian_product for c in self.all))

    @cached_property
    def problem(self) -> Problem:
        """The augmented Lagrangian on the manifold."""
        return with_parts(self.original, objective=self.objective, equalities=(), inequalities=())

    @classmethod
    def of(cls, problem: Problem, state: State) -> Penalized:
        """Return the augmented Lagrangian of a state of the solver."""
        penalized = cls(problem, state["used"], state["penalty"], state["units"])
        penalized.n = state["multipliers"]["equalities"].size
        return penalized

    @property
    def multipliers(self) -> np.ndarray:
        assert self._multipliers is not None
        return self._multipliers

    @multipliers.setter
    def multipliers(self, multipliers: np.ndarray) -> None:
        self._multipliers = multipliers

    def stiffen(self, factor: float, c: np.ndarray) -> None:
        """Multiply the penalty, and keep the gradient at a point where the constraints have the values `c`."""
        self.multipliers = self.multipliers + (1.0 - factor) * self.penalty * c
        self.penalty *= factor

    @property
    def units(self) -> np.ndarray:
        assert self._units is not None
        return self._units

    def begin(self, x: Point) -> _Parts:
        """Return the parts at the start, which determine the entries and their units; multipliers are zero."""
        plain = self._evaluated(x)
        self._multipliers, self._units = np.zeros(plain.c.size), _units(plain, self.all)
        self._seen = [with_parts(plain, c=self._units * plain.c, units=self._units)]
        return self.parts(x)

    def parts(self, x: Point) -> _Parts:
        """Return the parts at a point, evaluated once."""
        for seen in self._seen:
            if seen.x is x and seen.units is self.units:
                return seen
        at = self._evaluated(x)
        self._seen = [at, *self._seen[:3]]
        return at

    def _evaluated(self, x: Point) -> _Parts:
        fun, egrad = self.original.objective.value_and_gradient(x)  # type: ignore[misc]
        pairs = [checked(name, each, x) for name, each in zip(self.names, self.all, strict=True)]
        stops = list(accumulate([value.size for value, _ in pairs], initial=0))
        cuts = tuple([slice(a, b) for a, b in pairwise(stops)])
        values = np.concatenate([value.ravel() for value, _ in pairs]) if pairs else np.zeros(0)
        self.n = stops[len(self.original.equalities)]
        units = np.ones(values.size) if self._units is None else self._units
        if units.size != values.size:
            raise ValueError(
                f"the constraints of the problem returned {values.size} entries, but {units.size} at the start: their "
                "number must not depend on the point"
            )
        return _Parts(
            x,
            fun,
            units * values,
            egrad,
            tuple([pull for _, pull in pairs]),
            cuts,
            tuple([value.shape for value, _ in pairs]),
            self.n,
            units,
        )

    def lagrangian(self, multipliers: np.ndarray, more: float = 0.0) -> Problem:
        """Return f + Σ multiplierₖ cₖ + more on the manifold, for multipliers of the constraints in their units."""

        def value(x: Tree) -> float:
            at = self.parts(x)
            return at.fun + float(multipliers @ at.c) + more

        def value_and_gradient(x: Tree) -> tuple[float, Tree]:
            at = self.parts(x)
            return value(x), at.add(at.egrad, multipliers * self.units)

        product = partial(self.weighted_hessian, weights=multipliers) if self.twice else None
        objective = Objective(value, value_and_gradient, product)
        return with_parts(self.original, objective=objective, equalities=(), inequalities=())

    def weights(self, c: np.ndarray) -> np.ndarray:
        """Return the multipliers for which Lagrangian and augmented Lagrangian have the same gradient."""
        with np.errstate(invalid="ignore"):  # constraints that are infinite end the run
            weights = self.multipliers + self.penalty * c
        weights[self.n :] = np.maximum(weights[self.n :], 0.0)
        return weights

    def violation(self, c: np.ndarray) -> np.ndarray:
        """Return \\|h\\| and max(0, g)."""
        return np.abs(self.violated(c))

    def violated(self, c: np.ndarray) -> np.ndarray:
        """Return h and max(0, g)."""
        return np.concatenate([c[: self.n], np.maximum(c[self.n :], 0.0)])

    def largest(self, c: np.ndarray) -> float:
        """Return the largest violation of the constraints in the user's units."""
        return float((self.violation(c) / self.units).max(initial=0.0))

    def complementarity(self, c: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Return min(−g, μ) of the inequalities that hold, and zero of the others."""
        return np.minimum(np.maximum(-c[self.n :], 0.0), multipliers[self.n :])

    def riemannian(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """Return the Riemannian gradient of the weighted sum of the constraints in their units, flat, in float64."""
        at = self.parts(x)
        total = at.add(tree_map(np.zeros_like, at.egrad), weights * self.units)
        return flatten(self.original.manifold.gradient(x, total)).astype(float)

    def rows(self, x: Any, which: Iterable[int]) -> list[np.ndarray]:
        """Return the Riemannian gradients of some entries, flat, in their units: one pull-back each."""
        return [self.riemannian(x, np.eye(1, self.units.size, int(k))[0]) for k in which]

    def squared(self, x: Tree) -> tuple[float, Tree]:
        """Return ½‖h‖² + ½‖max(0, g)‖² and its Euclidean gradient."""
        at = self.parts(x)
        violated = self.violated(at.c)
        zero = tree_map(np.zeros_like, at.egrad)
        return 0.5 * float(violated @ violated), at.add(zero, violated * self.units)

    def caught(self, x: Point) -> bool:
        """Return whether ½‖h‖² + ½‖max(0, g)‖² is stationary, so that no nearby point has a smaller violation.

        Its gradient is small compared with the gradients of the violated constraints, or predicts a negligible decrease
        over a step as long as the norm of the point.
        """
        at, manifold = self.parts(x), self.original.manifold
        violated = self.violated(at.c)
        if not self.largest(at.c) > FEASIBLE:
            return False
        # the gradient Σ cₖ grad cₖ of half the squared violation, compared with the gradients of single constraints
        size, slope = float(np.linalg.norm(violated)), float(np.linalg.norm(self.riemannian(x, violated)))
        active = np.flatnonzero(violated)
        if active.size <= MOST_ROWS:
            steepest = float(np.sqrt(sum(np.vdot(row, row) for row in self.rows(x, active))))
        else:
            # E |Σ ±grad cₖ|² over random signs is the sum of the squares
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (3, at.c.size)) * (violated != 0)
            steepest = float(np.sqrt(np.mean([np.sum(self.riemannian(x, row) ** 2) for row in signs])))
        return slope <= STATIONARY * size * steepest or slope * float(manifold.scale(x)) <= STATIONARY * size * size

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        at = self.parts(x)
        weights = self.weights(at.c)
        # (|λ + ρc|² − |λ|²)/2ρ, of inequalities with max(0, ·); its gradient is Σ weightₖ grad cₖ
        added = (float(weights @ weights) - float(self.multipliers @ self.multipliers)) / (2 * self.penalty)
        return at.fun + added, at.add(at.egrad, weights * self.units)

    def hessian_product(self, x: Tree, u: Tree) -> Tree:
        at = self.parts(x)
        weights = self.weights(at.c)
        active = (weights > 0) | (np.arange(weights.size) < self.n)
        # H u + Σ weightₖ Hₖ u + ρ Σ ⟨grad cₖ, u⟩ grad cₖ, the last of active constraints
        total, along = self.weighted_hessian(x, u, weights), np.zeros(weights.size)
        for cut, shape, each in zip(at.cuts, at.shapes, self.all, strict=True):
            if active[cut].any():
                product = real_array("a jacobian_product", each.jacobian_product(x, u))  # type: ignore[misc]
                if product.size != along[cut].size:
                    raise ValueError(
                        f"a jacobian_product has shape {product.shape}, but its constraint has shape {shape}"
                    )
                along[cut] = np.ravel(product)
        return at.add(total, self.penalty * self.units**2 * active * along)

    def weighted_hessian(self, x: Tree, u: Tree, weights: np.ndarray) -> Tree:
        """Return the product of `u` with the Euclidean Hessian of f + Σ weightₖ cₖ, the constraints in their units."""
        at, scaled = self.parts(x), weights * self.units
        total = self.original.objective.hessian_product(x, u)  # type: ignore[misc]
        for cut, shape, each in zip(at.cuts, at.shapes, self.all, strict=True):
            if scaled[cut].any():
                w = scaled[cut].reshape(shape)
                total = tree_map(np.add, total, checked_like(each.hessian_product(x, w, u), x, "Hessian product"))  # type: ignore[misc]
        return total

    def jacobian(self, x: Tree, basis: np.ndarray) -> np.ndarray:
        """Return the derivatives of all entries, in their units, along the columns of a basis of the tangent space.

        The method uses one pull-back for each entry, or one `jacobian_product` for each column if this is less work.
        """
        at, rows = self.parts(x), np.zeros((self.units.size, basis.shape[1]))
        for cut, shape, pull, each in zip(at.cuts, at.shapes, at.pulls, self.all, strict=True):
            count = cut.stop - cut.start
            if (matrix := each.matrix(x, count)) is not None:
                rows[cut] = matrix @ basis
            elif each.jacobian_product is not None and basis.shape[1] < count:
                for k, column in enumerate(basis.T):
                    u = unflattener(x)(column.astype(dtype_of(x), copy=False))
                    product = real_array("a jacobian_product", each.jacobian_product(x, u))
                    if product.size != count:
                        raise ValueError(
                            f"a jacobian_product has shape {product.shape}, but its constraint has shape {shape}"
                        )
                    rows[cut, k] = np.ravel(product)
            else:
                rows[cut] = np.stack([flatten(pull(unit)) for unit in np.eye(count)]) @ basis if count else 0.0
        rows *= self.units[:, None]
        largest = float(np.sqrt(np.square(basis).sum(axis=0).max(initial=0.0)))
        return _without_rounding(rows, largest, x)


def _without_rounding(rows: np.ndarray, size: float, x: Any) -> np.ndarray:
    """Return the derivatives of constraints with the rows set to zero that contain only rounding errors.

    `size` is the largest norm of the tangent vectors, in the coordinates of the point. A constraint that is constant on
    the manifold, such as ``x @ x - 1`` on a sphere, would otherwise get an arbitrary multiplier.
    """
    rows[np.square(rows).sum(axis=1) <= (ROUNDING * _eps(x) * size) ** 2] = 0.0
    return rows


def _units(at: _Parts, constraints: list[Constraint]) -> np.ndarray:
    """Return the power of two that multiplies each entry: 1 unless its gradient at the start is far from 1.

    One penalty serves all constraints, so that their sizes should not differ much (Birgin and Martínez 2014). Blocks of
    many entries whose Jacobian is not known as a matrix have one unit, from the root mean square of their gradients.
    """
    sizes = np.zeros(at.c.size)
    for cut, pull, each in zip(at.cuts, at.pulls, constraints, strict=True):
        count = cut.stop - cut.start
        if (matrix := each.matrix(at.x, count)) is not None:
            largest = abs(matrix).max(axis=1)
            sizes[cut] = np.ravel(largest.toarray() if sp.issparse(largest) else largest)
        elif count <= MOST_ROWS:
            rows = [leaves(pull(np.eye(1, count, k)[0])) for k in range(count)]
            sizes[cut] = [max(float(np.max(np.abs(leaf), initial=0.0)) for leaf in row) for row in rows]
        else:
            # E |Σ ±grad cₖ|² over random signs is the sum of the squares
            sizes[cut] = norm(pull(np.random.default_rng(0).choice([-1.0, 1.0], count))) / math.sqrt(count)
    sizes = np.where(sizes == 0, np.abs(at.c), sizes)
    usual = (sizes >= 1 / UNUSUAL) & (sizes <= UNUSUAL) | (sizes == 0) | ~np.isfinite(sizes)
    return 2.0 ** -np.round(np.log2(np.where(usual, 1.0, sizes)))


def _least_squares(penalized: Penalized, x: Any) -> np.ndarray:
    """Return the multipliers that make the gradient of the Lagrangian smallest; zero for inactive inequalities.

    All multipliers are zero if so many entries are active that their gradients would cost more than the first inner
    run.
    """
    problem, at = penalized.original, penalized.parts(x)
    # min over λ, μ ≥ 0 of ‖grad f + Σ λₖ grad cₖ‖: bounded least squares with one column per active constraint
    held = np.flatnonzero((np.arange(at.c.size) < at.n) | (at.c >= -NEARLY))
    multipliers = np.zeros(at.c.size)
    if not 0 < held.size <= MOST_ROWS:
        return multipliers
    slopes = penalized.rows(x, held)
    gradient = flatten(problem.manifold.gradient(x, at.egrad)).astype(float)
    if np.isfinite(gradient).all() and np.isfinite(slopes).all():
        low = np.where(held < at.n, -np.inf, 0.0)
        slopes = _without_rounding(np.stack(slopes), 1.0, x)
        multipliers[held] = lsq_linear(slopes.T, -gradient, (low, np.inf)).x
    return multipliers


def _eps(x: Point) -> float:
    return float(np.finfo(dtype_of(x)).eps)
