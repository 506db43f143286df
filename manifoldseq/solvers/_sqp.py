"""Sequential quadratic programming for equalities and inequalities on a manifold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import FEASIBLE, Measures, Point, Status
from .._stopping import Look
from ..linalg import EPS, clarabel, dtype_of, flatten, freeze, norm, polar, quadratic_program, unflattener
from ._augmented_lagrangian import LARGEST, AugmentedLagrangian, Penalized
from ._base import Solver, one_of
from ._claims import unclaimed_slope
from ._hessian import hessian_product
from ._iterates import Iterate, State, evaluate, retracted
from ._saddle import PROBES, PRODUCTS

ACCEPT, TRIALS, FARTHEST = 1e-4, 12, 10.0
"""The share of the predicted decrease that a step keeps, the most step sizes tried, and the longest step in units of
the point."""

RELAXED, MOST_RELAXED, MOST_STEPS = 0.1, 10, 200
"""The share of the violation that incompatible linearizations are relaxed by, the most steps in a row with them, and
the most steps before the augmented Lagrangian goes on."""

ARMED = 1.5
"""The weight of the violation in the merit function, relative to the norm of the multipliers."""

CUT, DAMPED = 0.1, 0.25
"""After a step that the line search made shorter than this share, the diagonal grows by this share of the curvature
that makes the next step as short."""

CONDITION = 1e-10
"""The least eigenvalue of a quasi-Newton matrix, relative to its trace."""

EXACT = 100
"""Dimensions up to which the exact Hessian of the Lagrangian is computed, one product for each."""

ACTIVE = 1e-5
"""Multipliers above this share of the largest one belong to constraints that a second-order test holds fixed."""


@dataclass(frozen=True)
class SQP(Solver):
    """Sequential quadratic programming under equalities h = 0 and inequalities g ≤ 0, on any manifold without bounds.

    A step minimizes, in coordinates d of the tangent space, the quadratic model of the Lagrangian

        ⟨grad f, d⟩ + ½ ⟨d, H d⟩   with   h + Dh[d] = 0,   g + Dg[d] ≤ 0

    and retracts the result. The multipliers of this quadratic program are the multipliers of the Lagrangian in the next
    model. H is the Hessian of the Lagrangian if the objective and the constraints have Hessian products, modified if it
    is not positive definite. Otherwise, H is the matrix of a damped BFGS update. A line search decreases the merit
    function f + ν ‖(h, max(0, g))‖. If the full step increases the violation, a second-order correction towards the
    constraints is tried (against the Maratos effect). If the linearized constraints contradict each other, the
    quadratic program is relaxed to the smallest possible violation.

    Parameters
    ----------
    hessian : {"auto", "exact", "bfgs"}
        "auto" uses the exact Hessian in up to 100 dimensions, if you supply it without automatic differentiation.
    retraction : str, optional
        The name of a retraction of the manifold; by default the default retraction of the manifold.

    Notes
    -----
    The solution of a quadratic program starts from the constraints that were active in the previous step. If these
    constraints differ too much, the interior-point method of Clarabel is used: ``pip install
    'manifoldseq[constraints]'``. If the linearized constraints contradict each other repeatedly, or if no step
    decreases the merit function, the run continues with the augmented Lagrangian method, from the current point if it
    satisfies the constraints, and otherwise from the start. The augmented Lagrangian method also detects infeasible
    problems.

    ``grad_norm`` is the norm of the Riemannian gradient of the Lagrangian at the multipliers of the result;
    ``feasibility`` and ``complementarity`` are defined as for :class:`AugmentedLagrangian`. Before the solver reports
    success, products with the Hessian of the Lagrangian search for negative curvature along the active constraints. A
    step solves dense systems in the dimension of the manifold: for more than a few hundred dimensions, use the
    augmented Lagrangian method.

    References
    ----------
    Nocedal, Wright, "Numerical optimization", 2006, chapter 18; Obara, Okuno, Takeda, "Sequential quadratic
    optimization for nonlinear optimization problems on Riemannian manifolds", 2022.

    Examples
    --------
    The point of the unit circle with x₁ ≥ 0.6 that has the smallest sum of coordinates:

    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: x.sum(), np.ones_like)
    >>> g = ms.constraint(lambda x: 0.6 - x[0], vjp=lambda x, w: np.array([-1.0, 0.0]) * w)
    >>> result = ms.minimize(ms.Problem(ms.manifolds.Sphere(2), f, inequalities=g), np.array([1.0, 0.0]), solver="sqp")
    >>> result.x.round(4).tolist(), result.multipliers["inequalities"].round(3).tolist()
    ([0.6, -0.8], [1.75])
    """

    hessian: str = "auto"
    retraction: str | None = None
    constraints: ClassVar[bool] = True
    curvature: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("SQP", ("auto", "exact", "bfgs"), hessian=self.hessian)

    @property
    def monotone(self) -> bool:
        return False

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state at the start, with the first step."""
        clarabel()
        if problem.manifold.bounded:
            raise ValueError(
                f"SQP does not support the bounds of {problem.manifold!r}: write them as inequalities on "
                "ms.manifolds.Euclidean, or use solver='augmented-lagrangian'"
            )
        penalized = Penalized(problem, None, 1.0, None)
        if self.hessian == "exact" and not (penalized.twice and problem.manifold.hessian):
            raise ValueError(
                "SQP(hessian='exact') needs hessian_product of the objective and of all constraints, and a manifold "
                "with a Hessian: use hessian='bfgs'"
            )
        at = penalized.begin(point)
        if not problem.manifold.dim:
            return self._instead({"units": penalized.units}, *_OTHER.init(problem, point))
        violated = penalized.violation(at.c)
        active = violated > 0
        active[: at.n] = True
        run = {
            "start": point,
            "active": active,
            "nu": 0.0,
            "feasible": None,
            "relaxed": 0,
            "steps": 0,
            "step_size": None,
            "damping": 0.0,
        }
        there = _Local(problem, penalized, point)
        state, measures = self._solved(problem, penalized, there, _first(there), {**run, "fresh": True})
        if self._exact(problem, penalized) and measures.status is None:
            state, measures = self._solved(problem, penalized, there, self._hessian(there, state), run)
        return state, measures

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Search along the step of the state, and solve the quadratic program at the new point."""
        if state["instead"] is not None:
            return self._instead(state, *_OTHER.step(problem, state["instead"]))
        penalized = _penalized(problem, state)
        steps = {"steps": state["steps"] + 1}
        settled = self._settled(problem, state)
        if settled:
            lower = self._leave(problem, penalized, state)
            if lower is not None:
                return self._moved(problem, penalized, {**state, **steps}, *lower, None)
        if state["relaxed"] > MOST_RELAXED or state["steps"] >= MOST_STEPS:
            return self._give_up(problem, penalized, state, settled)
        found = self._search(problem, penalized, state)
        if found is None and not state["fresh"] and not settled:
            there = _Local.of(problem, penalized, state)
            state, _ = self._solved(problem, penalized, there, _first(there), {**state, "fresh": True})
            found = self._search(problem, penalized, state)
        if found is None:
            return self._give_up(problem, penalized, state, settled)
        return self._moved(problem, penalized, {**state, **steps}, *found)

    def confirm(self, problem: Problem, state: State, recent: tuple[Measures, ...], look: Look) -> Measures:
        if state["instead"] is not None:
            return _OTHER.confirm(problem, state["instead"], recent, look)
        penalized = _penalized(problem, state)
        reduced = _Reduced(problem, penalized, state, PROBES + 2)
        now = reduced.at.at_boundary(problem.manifold, recent[-1])
        return dataclasses.replace(now, curvature_ahead=reduced.ahead(now))

    def unclaimed_slope(self, problem: Problem, state: State, now: Measures) -> float:
        if state["instead"] is not None:
            return _OTHER.unclaimed_slope(problem, state["instead"], now)
        # the terms cancel each other: their rounding is that of a value of their size
        size = state["terms"] * (norm(state["x"]) or 1.0)
        penalized = _penalized(problem, state)
        at = _iterate(state)
        lagrangian = penalized.lagrangian(state["lam"], size)
        return unclaimed_slope(lagrangian, at._replace(fun=at.fun + size), abs(now.fun))

    def _exact(self, problem: Problem, penalized: Penalized) -> bool:
        if self.hessian != "auto":
            return self.hessian == "exact"
        costly = problem.objective.costly_hessian or any(each.costly_hessian for each in penalized.all)
        return not costly and penalized.twice and problem.manifold.hessian is not None and problem.manifold.dim <= EXACT

    def _hessian(self, there: _Local, state: State) -> np.ndarray:
        """Return the Hessian of the Lagrangian in coordinates, positive definite."""
        H = there.hessian(state["lam"])
        gradient = there.g + there.J.T @ state["lam"]
        least = 0.01 * _length(gradient) / max(1.0, float(there.scale))
        return _definite(H, there.J[state["active"]], least)

    def _settled(self, problem: Problem, state: State) -> bool:
        """Return whether the step is so short, or its decrease so small, that only curvature can say more."""
        if state["violation"] > FEASIBLE or state["complementarity"] > FEASIBLE or state["residual"]:
            return False
        ahead, way = 0.5 * state["bent"], _length(state["d"])
        return ahead <= 1e-10 * abs(state["fun"]) or way <= 1e-7 * state["scale"]

    def _solved(
        self, problem: Problem, penalized: Penalized, there: _Local, H: np.ndarray, run: State
    ) -> tuple[State, Measures]:
        """Return the state at a point: the quadratic program there with its solution, and the measures."""
        at, g, J, n = there.at, there.g, there.J, penalized.n
        # entries that are met and constant on the manifold have no multipliers
        met = (penalized.violation(at.c) <= FEASIBLE * penalized.units) & ~J.any(axis=1)
        c = np.where(met, np.minimum(at.c, 0.0) * (np.arange(at.c.size) >= n), at.c)
        violated = penalized.violation(c)
        distance, residual = _length(violated), 0.0
        finite = math.isfinite(float(at.c.sum()) + float(g.sum()) + float(J.sum()) + float(H.sum()))
        P = H + run["damping"] * np.eye(g.size) if run["damping"] else H
        found = quadratic_program(P, g, J, c, n, run["active"]) if finite else None
        if found is not None and at.c.size and not _moderate(found, there):
            found = None
        relaxed = 0
        if found is None and finite and at.c.size:
            found, residual = _relaxed(P, g, J, c, n, run["active"])
            found = found if found is None or _moderate(found, there) else None
            relaxed = run["relaxed"] + 1
        d, lam, active = (np.zeros(g.size), np.zeros(at.c.size), run["active"]) if found is None else found
        weight = ARMED * _length(lam)
        nu = max(weight, 0.5 * (run["nu"] + weight))
        bent = float(d @ P @ d)
        if distance > residual:  # the direction decreases the merit function
            nu = max(nu, (float(g @ d) + 0.25 * bent) / (0.9 * (distance - residual)))
        nu = min(nu, LARGEST)
        gradient = g + J.T @ lam
        grad_norm = _length(gradient)
        several, largest, complementarity = at.c.size > n, 0.0, 0.0
        if distance:
            largest = float((violated / penalized.units).max())
        if several and (lam[n:] > 0).any():
            complementarity = float(penalized.complementarity(at.c, lam).max())
        given, terms = lam * penalized.units, _terms(there, lam)
        state = {
            "start": run["start"],
            "x": there.x,
            "fun": at.fun,
            "c": at.c,
            "g": g,
            "J": J,
            "B": there.B,
            "H": H,
            "d": d,
            "lam": lam,
            "active": active,
            "nu": nu,
            "residual": residual,
            "violation": largest,
            "complementarity": complementarity,
            "distance": distance,
            "terms": terms,
            "scale": there.scale,
            "relaxed": relaxed if found is not None else MOST_RELAXED + 1,
            "steps": run["steps"],
            "fresh": run.get("fresh", False),
            "step_size": run["step_size"],
            "damping": run["damping"],
            "bent": bent,
            "feasible": there.x if largest <= FEASIBLE else run["feasible"],
            "units": penalized.units,
            "instead": None,
            "multipliers": {"equalities": given[:n], "inequalities": given[n:]},
        }
        measures = Measures(
            at.fun,
            grad_norm,
            largest,
            run["step_size"],
            terms,
            status=None if finite else Status.NON_FINITE,
            extra={"penalty": nu} if at.c.size else {},
            # ‖g‖²/2κ is then the decrease ½⟨d, H d⟩ that the model predicts
            curvature=grad_norm**2 / bent if bent > 0 and not residual else None,
            scale=there.scale,
            complementarity=complementarity if several else None,
        )
        return state, measures

    def _search(
        self, problem: Problem, penalized: Penalized, state: State
    ) -> tuple[Point, np.ndarray, np.ndarray] | None:
        """Return a point with a lower merit, and the coordinates of the step to it; None if there is none."""
        x, d, nu, c = state["x"], state["d"], state["nu"], state["c"]
        length = _length(d)
        if not length:
            return (x, d, state["lam"]) if state["residual"] == 0 and state["violation"] <= FEASIBLE else None
        before = state["distance"]
        slope = float(state["g"] @ d) + nu * (state["residual"] - before)
        merit = state["fun"] + nu * before
        slack = 50 * EPS[dtype_of(x)] * (abs(state["fun"]) + nu * _length(c))
        most = FARTHEST * max(1.0, state["scale"]) / length
        t = min(1.0, most, float(problem.manifold.longest(x, _vector(x, state["B"])(d))))
        for trial in range(TRIALS):
            y, value, there = self._tried(problem, penalized, state, t * d)
            if value <= merit + ACCEPT * t * slope + slack:
                return y, t * d, state["lam"]
            if trial == 0 and math.isfinite(value):
                # second-order correction: the shortest step that takes the active constraints back to their value
                held = state["active"]
                target = there[held] if t == 1.0 else there[held] - (1 - t) * c[held]
                w = _shortest(state["J"][held], -target)
                if w is not None and np.linalg.norm(w) <= length:
                    y, corrected, _ = self._tried(problem, penalized, state, t * d + w)
                    if corrected <= merit + ACCEPT * t * slope + slack:
                        return y, t * d + w, state["lam"]
            # the minimum of the parabola through the two values and the slope
            bend = value - merit - t * slope
            ratio = -0.5 * t * slope / bend if math.isfinite(bend) and bend > 0 and slope < 0 else 0.25
            t *= min(0.5, max(0.1, ratio))
        return None

    def _tried(
        self, problem: Problem, penalized: Penalized, state: State, step: np.ndarray
    ) -> tuple[Point, float, np.ndarray]:
        """Return the point after a step in coordinates, its merit (infinite where it has none) and its constraints."""
        with np.errstate(all="ignore"):
            y = freeze(retracted(problem, state["x"], _vector(state["x"], state["B"])(step), self.retraction))
        try:
            at = penalized.parts(y)
        except (np.linalg.LinAlgError, FloatingPointError):
            return y, math.inf, state["c"]
        value = at.fun + state["nu"] * _length(penalized.violation(at.c))
        return y, value if math.isfinite(value) else math.inf, at.c

    def _moved(
        self,
        problem: Problem,
        penalized: Penalized,
        state: State,
        y: Point,
        step: np.ndarray,
        multipliers: np.ndarray | None,
    ) -> tuple[State, Measures]:
        """Return the state at a new point; without multipliers the model begins anew."""
        there = _Local(problem, penalized, y, state["B"])
        run = {**state, "step_size": _length(step), "fresh": False, "damping": _damping(state, step)}
        if self._exact(problem, penalized):
            return self._solved(problem, penalized, there, self._hessian(there, state), run)
        if multipliers is None:
            return self._solved(problem, penalized, there, _first(there), {**run, "fresh": True})
        H, before = state["H"], state["g"] + state["J"].T @ multipliers
        S = there.turned(state["B"])
        if S is not None:
            H, before, step = S.T @ H @ S, before @ S, step @ S
        change = there.g + there.J.T @ multipliers - before
        rounding = 1e3 * EPS[dtype_of(y)] * state["terms"]
        return self._solved(problem, penalized, there, _updated(H, step, change, state["fresh"], rounding), run)

    def _leave(self, problem: Problem, penalized: Penalized, state: State) -> tuple[Point, np.ndarray] | None:
        """Return a point with a lower merit along negative curvature of the active constraints, if there is one."""
        reduced = _Reduced(problem, penalized, state, PRODUCTS)
        if not reduced.ways:
            return None
        held, merit = state["active"], state["fun"] + state["nu"] * state["distance"]
        t = 0.1 * (state["scale"] or 1.0)
        for _ in range(12):
            for bent, v in reduced.ways:
                step = t * v
                for correction in range(2):
                    y, value, there = self._tried(problem, penalized, state, step)
                    if value < merit + 0.05 * bent * t * t:
                        return y, step
                    w = _shortest(state["J"][held], -there[held]) if correction == 0 else None
                    if w is None:
                        break
                    step = step + w
            t *= 0.3
        return None

    def _give_up(self, problem: Problem, penalized: Penalized, state: State, settled: bool) -> tuple[State, Measures]:
        """Go on with the augmented Lagrangian, or end at a point where no more can be computed."""
        if settled and state["steps"] < MOST_STEPS:
            there = _Local.of(problem, penalized, state)
            state, measures = self._solved(problem, penalized, there, state["H"], state)
            measures.status = Status.NO_DECREASE
            return state, measures
        other, _ = _OTHER.init(problem, state["x"] if state["violation"] <= FEASIBLE else state["start"])
        if other["feasible"] is None:
            other = {**other, "feasible": state["feasible"]}
        return self._instead(state, *_OTHER.step(problem, other))

    def _instead(self, state: State, other: State, measures: Measures) -> tuple[State, Measures]:
        kept = {"x": other["x"], "instead": other, "multipliers": other["multipliers"], "units": state["units"]}
        return kept, measures


_OTHER = AugmentedLagrangian()


def _penalized(problem: Problem, state: State) -> Penalized:
    penalized = Penalized(problem, state["lam"], state["nu"], state["units"])
    penalized.n = state["multipliers"]["equalities"].size
    return penalized


def _iterate(state: State) -> Iterate[Any]:
    """Return the iterate of the Lagrangian that a state knows, without the Euclidean gradient."""
    gradient = state["g"] + state["lam"] @ state["J"]
    value = state["fun"] + float(state["lam"] @ state["c"])
    flat = (state["B"] @ gradient).astype(dtype_of(state["x"]), copy=False)
    return Iterate(state["x"], value, None, flat, _length(gradient), state["terms"])


def _length(v: np.ndarray) -> float:
    return math.sqrt(v.dot(v))


def _vector(x: Any, B: np.ndarray) -> Callable[[np.ndarray], Any]:
    """Return the function from coordinates to tangent vectors."""
    tree, dtype = unflattener(x), dtype_of(x)
    return lambda v: tree((B @ v).astype(dtype, copy=False))


class _Local:
    """The problem at a point, in coordinates of an orthonormal basis B of the tangent space."""

    def __init__(self, problem: Problem, penalized: Penalized, x: Any, before: np.ndarray | None = None) -> None:
        self.problem, self.penalized, self.x = problem, penalized, x
        self.at = penalized.parts(x)
        B = np.asarray(problem.manifold.basis(x), float)
        self.B = before if before is not None and np.array_equal(B, before) else B
        # derivatives along the columns of B need no metric
        self.g = flatten(self.at.egrad).astype(float) @ self.B
        self.J = penalized.jacobian(x, self.B)
        self.scale = float(problem.manifold.scale(x))

    @classmethod
    def of(cls, problem: Problem, penalized: Penalized, state: State) -> _Local:
        """Return what a state knows, without an evaluation of the Jacobian."""
        local = cls.__new__(cls)
        local.problem, local.penalized, local.x = problem, penalized, state["x"]
        local.at = penalized.parts(state["x"])
        local.B, local.g, local.J = state["B"], state["g"], state["J"]
        local.scale = state["scale"]
        return local

    def coordinates(self) -> np.ndarray:
        """Return the matrix from flat tangent vectors to coordinates."""
        return _coordinates(self.problem, self.B)

    def hessian(self, lam: np.ndarray) -> np.ndarray:
        """Return the Hessian of the Lagrangian."""
        manifold, x = self.problem.manifold, self.x
        egrad = self.at.add(self.at.egrad, lam * self.penalized.units)
        tree, dtype = unflattener(x), dtype_of(x)
        columns = []
        for column in self.B.T:
            u = tree(column.astype(dtype, copy=False))
            columns.append(flatten(manifold.hessian(x, egrad, self.penalized.weighted_hessian(x, u, lam), u)))  # type: ignore[misc]
        H = self.coordinates() @ np.stack(columns, axis=1).astype(float)
        return 0.5 * (H + H.T)

    def turned(self, B: np.ndarray) -> np.ndarray | None:
        """Return the orthogonal map of coordinates here to those in another basis, nearest to the projection.

        None where the two are the same.
        """
        return None if self.B is B else polar(_coordinates(self.problem, B) @ self.B)


def _damping(state: State, step: np.ndarray) -> float:
    """Return what is added to the diagonal of the model after a step: it makes steps short that were cut by ten."""
    damping, length = state["damping"], _length(state["d"])
    if not length:
        return 0.0
    share, bend = max(1e-8, _length(step) / length), state["bent"] / length**2
    if share <= CUT:
        return max(2 * damping, DAMPED * bend / share)
    damping *= 0.1 if share >= 1 - CUT else 1.0
    return damping if damping > 1e-3 * bend else 0.0


def _first(there: _Local) -> np.ndarray:
    """Return the first quasi-Newton matrix: a step as long as the point without constraints."""
    return (_length(there.g) / max(1.0, there.scale) or 1.0) * np.eye(there.g.size)


def _terms(there: _Local, lam: np.ndarray) -> float:
    """Return the size of the terms that add up to the gradient of the Lagrangian: its rounding is relative to them."""
    return norm(there.at.egrad) + _length(np.abs(lam) @ np.abs(there.J))


def _coordinates(problem: Problem, B: np.ndarray) -> np.ndarray:
    return B.T if problem.manifold.metric == "embedded" else np.linalg.pinv(B)


def _moderate(found: tuple[np.ndarray, np.ndarray, np.ndarray], there: _Local) -> bool:
    """Return whether step and multipliers of a quadratic program are of a size that means something."""
    d, lam, _ = found
    size = _length(there.g) + 1.0
    return _length(lam) <= 1e8 * size and _length(d) <= 1e4 * max(1.0, there.scale)


def _relaxed(
    H: np.ndarray, g: np.ndarray, J: np.ndarray, c: np.ndarray, n: int, active: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray] | None, float]:
    """Return the solution under constraints that are relaxed to nearly the least violation, and the violation left."""
    m, k = J.shape
    # min ½ε|d|² + ½|s|², c + J d = s in equalities and ≤ s in inequalities
    damping = 1e-8 * float(np.sum(J * J)) / max(1, k) or 1e-8
    guess = active | (c > 0)
    weights = np.diag(np.concatenate([np.full(k, damping), np.ones(m)]))
    nearest = quadratic_program(weights, np.zeros(k + m), np.hstack([J, -np.eye(m)]), c, n, guess)
    if nearest is None:
        return None, 0.0
    least = c + J @ nearest[0][:k]
    target = least + RELAXED * (c - least)
    target[n:] = np.maximum(least, 0.0)[n:] * (1 - RELAXED) + RELAXED * np.maximum(c, 0.0)[n:]
    return quadratic_program(H, g, J, c - target, n, active), _length(target)


def _shortest(J: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return the shortest solution of ``J w = right``."""
    if not right.size or not np.isfinite(right).all():
        return None
    return np.linalg.lstsq(J, right, rcond=1e-10)[0]


def _definite(H: np.ndarray, J: np.ndarray, least: float) -> np.ndarray:
    """Return H made positive definite, the same along the active constraints with the derivatives J where it can be.

    Curvature across the constraints does not decide the step, and is raised first; then negative curvature along them
    is replaced by its absolute value.
    """
    size = float(np.abs(H).max(initial=0.0)) or 1.0
    least = max(least, 1e-8 * size)
    try:
        np.linalg.cholesky(H - least * np.eye(len(H)))
        return H
    except np.linalg.LinAlgError:
        pass
    Y, Z = _range(J, len(H))
    w, V = np.linalg.eigh(Z.T @ H @ Z)
    raised = np.maximum(np.abs(w), least)
    ZV = Z @ V
    H = H + (ZV * (raised - w)) @ ZV.T
    if Y.shape[1]:
        cross = ZV.T @ H @ Y
        complement = Y.T @ H @ Y - cross.T @ (cross / raised[:, None])
        low = float(np.linalg.eigvalsh(complement)[0])
        H = H + max(0.0, size - low) * (Y @ Y.T)
    return 0.5 * (H + H.T)


def _range(J: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal bases of the row space of J and of its complement."""
    if not J.size:
        return np.zeros((k, 0)), np.eye(k)
    _, sizes, V = np.linalg.svd(J)
    rank = int(np.sum(sizes > 1e-10 * max(float(sizes[0]), 1e-300)))
    return V[:rank].T, V[rank:].T


def _updated(H: np.ndarray, s: np.ndarray, y: np.ndarray, fresh: bool, noise: float) -> np.ndarray:
    """Return the BFGS update with Powell's damping; the first pair also gives the scale."""
    along, square = float(s @ y), float(s @ s)
    Hs = H @ s
    bent = float(s @ Hs)
    # the change of the gradient is rounding along a step that is too short
    if not bent > 0 or not math.isfinite(along + float(y @ y)) or bent <= noise * math.sqrt(square):
        return H
    if fresh and along > 1e-8 * math.sqrt(square) * _length(y):
        scale = float(y @ y) / along
        H, Hs, bent = scale * np.eye(len(H)), scale * s, scale * square
    if along < 0.2 * bent:
        share = 0.8 * bent / (bent - along)
        y = share * y + (1 - share) * Hs
        along = float(s @ y)
    y, Hs = y / math.sqrt(along), Hs / math.sqrt(bent)
    new = H + y[:, None] * y - Hs[:, None] * Hs
    diagonal = new.reshape(-1)[:: len(H) + 1]
    diagonal += CONDITION * float(diagonal.sum())
    return new


class _Reduced:
    """The Hessian of the Lagrangian along the active constraints, by Lanczos steps.

    Attributes
    ----------
    at : Iterate
        Of the Lagrangian.
    lowest : float
        The lowest curvature found.
    ways : list of (float, ndarray)
        Curvatures that are negative beyond rounding, and their directions, which no active constraint forbids.
    """

    def __init__(self, problem: Problem, penalized: Penalized, state: State, products: int) -> None:
        lagrangian = penalized.lagrangian(state["lam"])
        needed = penalized.twice or problem.manifold.open  # the Euclidean gradient
        self.at = evaluate(lagrangian, state["x"]) if needed else _iterate(state)
        lam, c, n, J = state["lam"], state["c"], penalized.n, state["J"]
        self.gradient = state["g"] + J.T @ lam
        product, self.error = hessian_product(lagrangian, self.at)
        coordinates, B = _coordinates(problem, state["B"]), state["B"]
        dtype = self.at.grad.dtype

        def along(v: np.ndarray) -> np.ndarray:
            return coordinates @ product((B @ v).astype(dtype, copy=False)).astype(float)

        equal = np.arange(c.size) < n
        strict = equal | (lam > ACTIVE * float(np.abs(lam).max(initial=0.0)))
        touching = strict | (c >= -FEASIBLE)
        self.ways: list[tuple[float, np.ndarray]] = []
        for held in (strict, touching):
            Z = _range(J[held], B.shape[1])[1]
            self.w, self.V, self.lowest = _lanczos(lambda v, Z=Z: Z.T @ along(Z @ v), Z.T @ self.gradient, products)
            self.Z = Z
            if not self._negative():
                return
            weak = J[touching & ~held]
            for k in range(self.w.size):
                if self.w[k] < -100 * self.error * float(np.abs(self.w).max()):
                    self._add(Z @ self.V[:, k], weak, J[held], along)
            if self.ways:
                self.lowest = min(bent for bent, _ in self.ways)
                return

    def _add(self, v: np.ndarray, weak: np.ndarray, held: np.ndarray, along: Any) -> None:
        """Add ± the direction, and where active constraints without a multiplier forbid it the nearest one allowed."""
        for way in (v, -v):
            if weak.size and np.any(weak @ way > 1e-7 * np.linalg.norm(weak, axis=1)):
                rows = np.concatenate([held, weak])
                near = quadratic_program(
                    np.eye(v.size), -way, rows, np.zeros(len(rows)), len(held), np.zeros(len(rows), bool)
                )
                length = 0.0 if near is None else _length(near[0])
                if near is None or length < 1e-3:
                    continue
                way = near[0] / length
            bent = float(way @ along(way))
            if bent < -100 * self.error * float(np.abs(self.w).max()):
                self.ways.append((bent, way))

    def _negative(self) -> bool:
        return bool(self.w.size) and self.lowest < -100 * self.error * float(np.abs(self.w).max())

    def ahead(self, now: Measures) -> float | None:
        """Return the curvature ahead of the iterate, see :class:`Measures`."""
        if self.ways:
            return self.lowest
        if not self.w.size:
            return now.curvature if now.curvature is not None else 1.0
        largest = float(np.abs(self.w).max()) or 1.0
        parts = self.V.T @ (self.Z.T @ self.gradient)
        twice = float(np.sum(parts**2 / np.maximum(self.w, self.error * largest)))
        total = float(self.gradient @ self.gradient)
        if twice <= 0 or not total / twice > 0:
            return now.curvature if now.curvature is not None else max(self.lowest, self.error * largest)
        return min(total / twice, now.curvature or math.inf)


def _lanczos(
    product: Callable[[np.ndarray], np.ndarray], gradient: np.ndarray, products: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return Ritz values and vectors of a symmetric product, from the gradient and a random vector."""
    k = gradient.size
    size = _length(gradient)
    v = np.random.default_rng(0).standard_normal(k)
    if k and size:
        v = v / np.linalg.norm(v) + gradient / size
    basis: list[np.ndarray] = []
    images: list[np.ndarray] = []
    for _ in range(min(k, products)):
        for _ in range(2):
            for b in basis:
                v = v - (b @ v) * b
        length = _length(v)
        if not length > 1e-10:
            break
        b = v / length
        image = product(b)
        if not np.isfinite(image).all():
            break
        basis.append(b)
        images.append(image)
        size = _length(image)
        v = image / size if size else np.random.default_rng(len(basis)).standard_normal(k)
    if not basis:
        return np.zeros(0), np.zeros((k, 0)), 0.0
    Q, AQ = np.stack(basis, axis=1), np.stack(images, axis=1)
    w, V = np.linalg.eigh(0.5 * (Q.T @ AQ + AQ.T @ Q))
    return w, Q @ V, float(w[0])
