"""The augmented Lagrangian method for equalities and inequalities on a manifold."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import lsq_linear

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status, Tree
from .._stopping import LAST, GradientNorm, Look, MaxIterations, RunSoFar, StoppingRule
from ..hooks import get_solver
from ..linalg._tree import dtype_of, flatten, leaves, tree_map
from ..objectives import Objective
from ._base import Solver
from ._iterates import Iterate, State

LARGEST = 1e12
"""The penalty grows no further: beyond, nothing is left of the objective."""

FEASIBLE = 1e-6
"""A violation up to this is none."""

STATIONARY = 1e-5
"""Share of its terms that the gradient of the violation may have where it counts as stationary."""

NEARLY = 1e-3
"""A start that violates the constraints by less takes multipliers from its gradients."""


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """Minimize under the equalities h = 0 and inequalities g ≤ 0 of a problem, on any manifold.

    An inner solver minimizes, over the manifold, the function of Powell, Hestenes and Rockafellar

        f + Σ ((λᵢ + ρhᵢ)² − λᵢ²) / 2ρ + Σ (max(0, μⱼ + ρgⱼ)² − μⱼ²) / 2ρ

    whose gradient is that of the Lagrangian at the multipliers λ + ρh and max(0, μ + ρg). They replace λ and μ whenever
    `inner_stop` is met; the penalty ρ grows when an inner run that was solved did not halve the violation. One step is
    one step of the inner solver.

    Parameters
    ----------
    inner_solver : str or Solver
        Its name, or the solver with its options.
    inner_stop : StoppingRule
        When the multipliers are updated; it counts iterations from the last update.
    penalty : float, optional
        The first ρ; by default ``10 max(1, |f|) / max(1, |violation|² / 2)`` at the start, between 1e-3 and 1e3.
    growth : float
        What ρ is multiplied with.

    Notes
    -----
    ``grad_norm`` is the norm of the Riemannian gradient of the Lagrangian at the multipliers of the result;
    ``feasibility`` is the largest of \\|hᵢ\\| and \\|min(−gⱼ, μⱼ)\\|, which is zero where the inequalities hold and are
    complementary to their multipliers. :class:`manifoldseq.GradientNorm` asks for both. A start that is nearly
    feasible takes least-squares multipliers, so that a solution is recognized at once. `fun` is the objective itself;
    evaluations of the constraints are not counted.

    References
    ----------
    Liu, Boumal, "Simple algorithms for optimization on Riemannian manifolds with constraints", 2020; Birgin, Martínez,
    "Practical augmented Lagrangian methods for constrained optimization", 2014.

    Examples
    --------
    The point of the unit circle with the smallest sum among those with x₁ ≥ 0.6:

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
        for name, low in (("penalty", 0.0), ("growth", 1.0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > low):
                raise ValueError(f"AugmentedLagrangian({name}={value!r}): {name} must be a number > {low:g}")

    @property
    def monotone(self) -> bool:
        return False

    @property
    def frames(self) -> bool:  # type: ignore[override]
        return self._inner.frames

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the first state of the inner solver, on the first augmented Lagrangian."""
        penalized = _Penalized(problem, np.zeros(len(problem.equalities) + len(problem.inequalities)), 1.0)
        for need in self._inner.needs:
            if not getattr(penalized.objective, need, None):
                raise ValueError(
                    f"the inner solver {type(self._inner).__name__} needs {need}, which an augmented Lagrangian of "
                    "this problem lacks: choose another inner_solver"
                )
        at = penalized.parts(point)
        violation = penalized.violation(at.c, np.zeros(at.c.size))
        if self.penalty is None:
            # objective and penalty of the same size at the start (Birgin and Martínez 2014)
            balance = 10 * max(1.0, abs(at.fun)) / max(1.0, 0.5 * float(violation @ violation))
            penalized.penalty = min(max(balance, 1e-3), 1e3) if math.isfinite(balance) else 1.0
        else:
            penalized.penalty = float(self.penalty)
        if violation.max(initial=0.0) <= NEARLY:
            penalized.multipliers = _least_squares(problem, point, at) - penalized.penalty * at.c
        inner, measures = self._inner.init(penalized.problem, point)
        return self._outcome(
            penalized, inner, measures, {"count": 0, "first": measures.kept(), "violation": None, "recent": ()}
        )

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        penalized = _Penalized(problem, state["used"], state["penalty"]).problem
        return self._inner.confirm(penalized, state["inner"], recent, look)

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        penalized = _Penalized(problem, state["used"], state["penalty"]).problem
        return self._inner.unclaimed_slope(penalized, state["inner"], now)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Update the multipliers if the last inner step ended an inner run, and take an inner step."""
        penalized = _Penalized(problem, state["used"], state["penalty"])
        inner, run = state["inner"], {key: state[key] for key in ("count", "first", "violation", "recent")}
        infeasible = False
        if state["ended"]:
            # the inner run is over: new multipliers λ + ρ h and max(0, μ + ρ g), and a larger ρ unless the violation
            # halved
            violation = float(penalized.violation(state["c"], state["weights"] / state["penalty"]).max())
            last = run["violation"]
            infeasible = last is not None and violation > max(FEASIBLE, 0.9 * last) and penalized.caught(state["x"])
            run = {"count": 0, "first": None, "violation": violation, "recent": ()}
            kept = np.array_equal(state["weights"], state["used"])
            penalized.multipliers = state["weights"]
            if state["solved"] and last is not None and violation > max(0.5 * last, _eps(state["x"]) ** 0.5):
                penalized.penalty, kept = min(penalized.penalty * self.growth, LARGEST), False
            if not kept:
                inner, measures = self._inner.init(penalized.problem, state["x"])
                run["first"] = measures.kept()
        run["first"] = run["first"] or state["recent"][-1]
        inner, measures = self._inner.step(penalized.problem, inner)
        state, measures = self._outcome(penalized, inner, measures, {**run, "count": run["count"] + 1})
        if infeasible:
            measures.status = Status.INFEASIBLE
        elif measures.status is not None and (measures.feasibility or 0.0) > FEASIBLE:
            # the inner run is over, not this one: new multipliers go on, unless nothing can
            lost = measures.status is Status.NO_DECREASE or penalized.caught(inner["x"])
            measures.status = Status.INFEASIBLE if lost else None
        return state, measures

    @property
    def _inner(self) -> Solver:
        assert isinstance(self.inner_solver, Solver)
        return self.inner_solver

    def _outcome(self, penalized: _Penalized, inner: State, measures: Measures, run: State) -> tuple[State, Measures]:
        """Return the state after an inner step, and what it means for the problem with constraints."""
        at = penalized.parts(inner["x"])
        weights = penalized.weights(at.c)
        if inner.get("egrad") is not None:  # the inner rule is asked here, and not again before the inner run ends
            measures = Iterate.of(inner).at_boundary(penalized.problem.manifold, measures)
        first, kept = Measures.of(run["first"]), (*run["recent"][1 - LAST :], measures.kept())
        recent = tuple([Measures.of(numbers) for numbers in kept])
        so_far = RunSoFar(recent, run["count"], 0.0, Evaluations(), first, eps=_eps(inner["x"]))
        met = measures.status or self.inner_stop.check(so_far)
        n = len(penalized.original.equalities)
        state = {
            **run,
            "x": inner["x"],
            "inner": inner,
            "recent": kept,
            "ended": at.c.size > 0 and met is not None,
            "solved": (met is not None and met.success) or measures.status is not None,
            "used": penalized.multipliers,
            "penalty": penalized.penalty,
            "c": at.c,
            "weights": weights,
            "multipliers": {"equalities": weights[:n], "inequalities": weights[n:]},
        }
        return state, dataclasses.replace(
            measures,
            fun=at.fun,
            feasibility=float(penalized.violation(at.c, weights).max(initial=0.0)),
            status=measures.status if at.c.size == 0 or run["count"] == 1 else None,
            extra={**measures.extra, "penalty": penalized.penalty} if at.c.size else measures.extra,
        )


@dataclass(frozen=True, eq=False)
class _Parts:
    """The objective and the constraints at one point; of the gradients, the Euclidean ones."""

    x: Tree
    fun: float
    c: np.ndarray
    egrad: Tree
    slopes: tuple[Tree, ...]


class _Penalized:
    """The augmented Lagrangian of a problem; it remembers the points of one step, whose parts are asked for again."""

    def __init__(self, problem: Problem, multipliers: np.ndarray, penalty: float) -> None:
        self.original, self.multipliers, self.penalty = problem, multipliers, penalty
        self.all = (*problem.equalities, *problem.inequalities)
        self._seen: list[_Parts] = []
        lacking = [k for k, each in enumerate(self.all) if each.value_and_gradient is None]
        if lacking:
            n = len(problem.equalities)
            named = f"equality {lacking[0]}" if lacking[0] < n else f"inequality {lacking[0] - n}"
            raise ValueError(f"{named} has no gradient: give it with ms.objective(…)")
        twice = all(each.hessian_product for each in (problem.objective, *self.all))
        self.objective = Objective(
            lambda x: self.value_and_gradient(x)[0], self.value_and_gradient, self.hessian_product if twice else None
        )
        self.problem = dataclasses.replace(problem, objective=self.objective, equalities=(), inequalities=())

    def parts(self, x: Point) -> _Parts:
        """Return the parts at a point, evaluated once."""
        for seen in self._seen:
            if seen.x is x:
                return seen
        fun, egrad = self.original.objective.value_and_gradient(x)  # type: ignore[misc]
        pairs = [each.value_and_gradient(x) for each in self.all]  # type: ignore[misc]
        at = _Parts(x, fun, np.array([value for value, _ in pairs]), egrad, tuple([slope for _, slope in pairs]))
        self._seen = [at, *self._seen[:3]]
        return at

    def weights(self, c: np.ndarray) -> np.ndarray:
        """Return the multipliers at which the gradient of the Lagrangian is that of the augmented one."""
        weights = self.multipliers + self.penalty * c
        n = len(self.original.equalities)
        weights[n:] = np.maximum(weights[n:], 0.0)
        return weights

    def violation(self, c: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Return \\|h\\| and \\|min(−g, μ)\\|."""
        n = len(self.original.equalities)
        return np.abs(np.concatenate([c[:n], np.minimum(-c[n:], multipliers[n:])]))

    def caught(self, x: Point) -> bool:
        """Return whether ½‖h‖² + ½‖max(0, g)‖² is stationary: no way leads to smaller violations near here.

        Its gradient is small beside the gradients of the violated constraints, or promises on the way of the length of
        the point next to nothing.
        """
        at, manifold = self.parts(x), self.original.manifold
        n = len(self.original.equalities)
        violated = np.concatenate([at.c[:n], np.maximum(at.c[n:], 0.0)])
        slopes = [flatten(manifold.gradient(x, slope)).astype(float) for slope in at.slopes]
        # the gradient Σ cₖ grad cₖ of half the squared violation, beside the gradients of single constraints
        total = sum((v * slope for v, slope in zip(violated, slopes, strict=True)), np.zeros(1))
        steepest = float(np.sqrt(sum(np.vdot(s, s) for s, v in zip(slopes, violated, strict=True) if v)))
        size, slope = float(np.linalg.norm(violated)), float(np.linalg.norm(total))
        return slope <= STATIONARY * size * steepest or slope * float(manifold.scale(x)) <= STATIONARY * size * size

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        at = self.parts(x)
        weights = self.weights(at.c)
        # (|λ + ρc|² − |λ|²)/2ρ, of inequalities with max(0, ·); its gradient is Σ weightₖ grad cₖ
        added = (float(weights @ weights) - float(self.multipliers @ self.multipliers)) / (2 * self.penalty)
        return at.fun + added, _combined(at.egrad, weights, at.slopes)

    def hessian_product(self, x: Tree, u: Tree) -> Tree:
        at = self.parts(x)
        weights = self.weights(at.c)
        n = len(self.original.equalities)
        active = (weights > 0) | (np.arange(weights.size) < n)
        total = self.original.objective.hessian_product(x, u)  # type: ignore[misc]
        # H u + Σ weightₖ Hₖ u + ρ Σ ⟨grad cₖ, u⟩ grad cₖ, the last of active constraints
        bent = tuple([each.hessian_product(x, u) if w else u for each, w in zip(self.all, weights, strict=True)])  # type: ignore[misc]
        along = [self.penalty * _dot(slope, u) if held else 0.0 for slope, held in zip(at.slopes, active, strict=True)]
        return _combined(_combined(total, weights, bent), along, at.slopes)


def _combined(tree: Point, weights: Any, trees: tuple[Point, ...]) -> Point:
    for w, other in zip(weights, trees, strict=True):
        if w:
            tree = tree_map(lambda a, b, w=w: a + a.dtype.type(w) * b, tree, other)
    return tree


def _dot(u: Point, v: Point) -> float:
    return sum(float(np.sum(np.multiply(a, b, dtype=float))) for a, b in zip(leaves(u), leaves(v), strict=True))


def _least_squares(problem: Problem, x: Any, at: _Parts) -> np.ndarray:
    """Return the multipliers that make the gradient of the Lagrangian smallest; zero for inactive inequalities."""
    n = len(problem.equalities)
    # min over λ, μ ≥ 0 of ‖grad f + Σ λₖ grad cₖ‖: bounded least squares with one column per active constraint
    held = np.flatnonzero((np.arange(at.c.size) < n) | (at.c >= -NEARLY))
    multipliers = np.zeros(at.c.size)
    slopes = [flatten(problem.manifold.gradient(x, at.slopes[k])).astype(float) for k in held]
    gradient = flatten(problem.manifold.gradient(x, at.egrad)).astype(float)
    if slopes and np.isfinite(gradient).all() and np.isfinite(slopes).all():
        low = np.where(held < n, -np.inf, 0.0)
        multipliers[held] = lsq_linear(np.stack(slopes, axis=1), -gradient, (low, np.inf)).x
    return multipliers


def _eps(x: Point) -> float:
    return float(np.finfo(dtype_of(x)).eps)
