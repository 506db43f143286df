"""The optimizers of pymanopt as solvers: one step performs all iterations."""

from __future__ import annotations

import difflib
import inspect
import math
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import Evaluations, Measures, Point, Status, Steps, Tree
from .._stopping import ASSERTED, AnyOf, MaxIterations, PredictedDecrease, RunSoFar, StoppingRule, look_ahead
from ..interop._pymanopt import numpy_random, pymanopt
from ..linalg import dtype_of, leaves, tree_map
from ._around import MOST, divided, known, multiplied, times, unit_of
from ._base import Solver
from ._iterates import Iterate, State, evaluate, step_curvature
from ._saddle import confirm

NEEDS = {
    "SteepestDescent": ("value_and_gradient",),
    "ConjugateGradient": ("value_and_gradient",),
    "TrustRegions": ("value_and_gradient", "hessian_product"),
    "ParticleSwarm": (),
    "NelderMead": (),
}
DRAWS = ("ParticleSwarm", "NelderMead")
ENDINGS = {
    "max time": Status.MAX_TIME,
    "max iterations": Status.MAX_ITERATIONS,
    "min grad norm": Status.CONVERGED,
    "min step_size": Status.SMALL_STEP,
    "max cost evals": Status.MAX_EVALUATIONS,
}
NO_LIMIT = 10**9


@dataclass(frozen=True)
class Pymanopt(Solver):
    """An optimizer of pymanopt as a solver: ``"pymanopt:conjugate-gradient"`` and four others.

    Parameters
    ----------
    optimizer : str
        The name of the class; :meth:`steepest_descent` and the other methods set it.
    options : mapping
        Options of the class and of its ``run``, under pymanopt's names, such as ``beta_rule`` or ``maxinner``.
    seed : int, optional
        The seed of stochastic optimizers; by default the seed of ``minimize``. The state of numpy's global generator is
        restored.
    stop, reference
        The stopping rule of the run, and the reference of its gradient norm. ``minimize`` sets these options.

    Raises
    ------
    ValueError
        If pymanopt does not have an option.

    Notes
    -----
    One step runs the optimizer to its end. An iteration is a gradient at a new point. Particle swarm and Nelder–Mead
    use no gradient. Their history contains the start and the end only, and only limits end them. The stopping rule of
    ``minimize`` is evaluated at every iterate, and limits of time and evaluations at every evaluation. A checkpoint is
    written at the end. A resumed run is a new run of pymanopt from the stored point, and a warning reports this. The
    absolute tolerance of pymanopt is not used unless ``min_gradient_norm`` is given. If a step size is below
    ``min_step_size``, the run ends, and the stopping rule decides whether the status is a success or SMALL_STEP.
    Particle swarm and Nelder–Mead start around the given point. Repeated evaluations at the last point are cached and
    not counted. A value that is not finite counts as infinite.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> f = ms.objective(lambda x: np.sum((x - 2) ** 2), lambda x: 2 * (x - 2))
    >>> problem = ms.Problem(ms.manifolds.Sphere(4), f)
    >>> ms.minimize(problem, solver="pymanopt:conjugate-gradient", seed=0).x.round(4).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    optimizer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    stop: StoppingRule = PredictedDecrease() | MaxIterations(1000)
    reference: float = 0.0
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.optimizer not in NEEDS:
            raise ValueError(f"Pymanopt({self.optimizer!r}): choose one of {', '.join(NEEDS)}")
        known = {*self._parameters("__init__"), *self._parameters("run")}
        for name in self.options:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise ValueError(
                    f"pymanopt's {self.optimizer} has no option {name!r}: {hint}It has {', '.join(sorted(known))}"
                )

    @classmethod
    def steepest_descent(cls, **options: Any) -> Pymanopt:
        """Return pymanopt's ``SteepestDescent``."""
        return cls("SteepestDescent", options)

    @classmethod
    def conjugate_gradient(cls, **options: Any) -> Pymanopt:
        """Return pymanopt's ``ConjugateGradient``."""
        return cls("ConjugateGradient", options)

    @classmethod
    def trust_regions(cls, **options: Any) -> Pymanopt:
        """Return pymanopt's ``TrustRegions``."""
        return cls("TrustRegions", options)

    @classmethod
    def particle_swarm(cls, **options: Any) -> Pymanopt:
        """Return pymanopt's ``ParticleSwarm``."""
        return cls("ParticleSwarm", options)

    @classmethod
    def nelder_mead(cls, **options: Any) -> Pymanopt:
        """Return pymanopt's ``NelderMead``."""
        return cls("NelderMead", options)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return NEEDS[self.optimizer]

    def seeded(self, seed: int) -> Pymanopt:
        """Return the solver with this seed, unless its options contain a seed."""
        return self if self.seed is not None or self.optimizer not in DRAWS else replace(self, seed=seed)

    def until(self, stop: StoppingRule, reference: float) -> Pymanopt:
        """Return the solver with the stopping rule `stop`."""
        return replace(self, stop=stop, reference=reference)

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the start."""
        measures = _measured(problem, point)
        unit = unit_of(measures.egrad_norm or 1.0, MOST[dtype_of(point)])
        return {
            "x": point,
            "unit": unit,
            "nit": 0,
            "reference": max(measures.grad_norm or 0.0, self.reference),
        }, measures

    def step(self, problem: Problem, state: State) -> tuple[State, Steps]:
        """Run the optimizer until it ends or the stopping rule is met."""
        if state["nit"]:
            warnings.warn(
                f"pymanopt's {self.optimizer} stores no state: the run restarts at the stored point", stacklevel=2
            )
        package, watch = pymanopt(), _Watch(self, problem, state)
        watched = replace(problem.objective, value=watch.value, value_and_gradient=watch.value_and_gradient)
        if problem.objective.value_and_gradient is None:
            watched = replace(watched, value_and_gradient=None)
        # the optimizer sees an objective whose squared gradients are numbers, the stopping rule the objective itself
        theirs = multiplied(replace(problem, objective=watched), state["unit"]).to_pymanopt()
        theirs.manifold.chords = True
        given, draws = dict(self.options), self.optimizer in DRAWS
        run = {name: given.pop(name) for name in self._parameters("run") if name in given}
        if draws:
            theirs.manifold.random_point = _around(theirs.manifold, state["x"], self.seed or 0)
        else:
            run["initial_point"] = theirs.manifold.to_theirs(state["x"])
        limit = _iterations(self.stop)
        defaults: dict[str, Any] = {"verbosity": 0, "max_time": math.inf, "min_gradient_norm": 0.0}
        if limit is not None or not draws:  # swarm and simplex have limits of their own
            defaults["max_iterations"] = NO_LIMIT if limit is None else limit - state["nit"] + 1
        optimizer = getattr(package.optimizers, self.optimizer)(**{**defaults, **given})
        confined = numpy_random(np.random.default_rng(self.seed or 0)) if draws else nullcontext()
        try:
            with confined, np.errstate(all="ignore"):
                result = optimizer.run(theirs, **run)
            x = theirs.manifold.to_ours(result.point)
            status = next(status for words, status in ENDINGS.items() if words in result.stopping_criterion)
        except _Finished as finished:
            # the loop asks its rule itself, so that a resumed run under another rule goes on
            x, status = watch.x, None if finished.by_rule and watch.rows else finished.status
        except KeyboardInterrupt:
            x, status = watch.x, Status.INTERRUPTED
        if x is None:
            return state, _steps((replace(_measured(problem, state["x"]), status=status),), [])
        if status is Status.SMALL_STEP:
            status = watch.without_decrease(x) or status
        last = watch.measures if x is watch.x and watch.measures is not None else _measured(problem, x)
        rows = watch.rows if self.needs else [(math.nan, math.nan, watch.nfev)]
        if rows:  # the last trial may not be the point that pymanopt returns
            rows[-1] = (last.fun, math.nan if last.grad_norm is None else last.grad_norm, rows[-1][2])
        recent = () if watch.so_far is None or not rows else watch.so_far.recent[-len(rows) :][:-1]
        made = {**state, "x": tree_map(np.array, x), "nit": state["nit"] + len(rows)}
        return made, _steps((*recent, replace(last, status=status)), rows)

    def _parameters(self, method: str) -> list[str]:
        """Return the options of the constructor or of ``run``."""
        cls = getattr(pymanopt().optimizers, self.optimizer)
        names = list(inspect.signature(getattr(cls, method)).parameters)
        if method == "__init__":
            names += inspect.signature(pymanopt().optimizers.optimizer.Optimizer.__init__).parameters
        return [name for name in names if name not in ("self", "args", "kwargs", "problem", "initial_point")]


def _steps(recent: tuple[Measures, ...], rows: list[tuple[float, float, int]]) -> Steps:
    """Return the result for the loop, which counts the evaluations itself."""
    columns = np.array(rows, dtype=float).reshape(-1, 3).T
    return Steps(recent, dict(zip(("fun", "grad_norm", "nfev"), columns, strict=True)), Evaluations())


class _Finished(Exception):
    """Exception that ends an optimizer of pymanopt; the results are in the watch."""

    def __init__(self, status: Status, by_rule: bool = False) -> None:
        self.status, self.by_rule = status, by_rule


class _Watch:
    """The objective in the form for pymanopt, which records the best point and evaluates the stopping rule."""

    def __init__(self, solver: Pymanopt, problem: Problem, state: State) -> None:
        self.solver, self.problem, self.unit = solver, problem, state["unit"]
        self.earlier, self.reference = state["nit"], state["reference"]
        self.began = time.perf_counter()
        self.nfev = self.njev = 0
        self.rows: list[tuple[float, float, int]] = []
        self.x: Any = None
        self.fun = math.inf
        self.at: Iterate | None = None
        self.measures: Measures | None = None
        self.so_far: RunSoFar | None = None

    def value(self, x: Point) -> float:
        self.nfev += 1
        fun = self.problem.objective.value(x)
        if not math.isfinite(fun):
            return math.inf
        if not self.solver.needs:  # no gradient tells what an iterate is: the best point is kept
            if fun < self.fun:
                self.x, self.fun = x, fun
            self._ask(Measures(self.fun))
        elif self.measures is not None:
            self._ask(self.measures)
        return fun

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        self.nfev += 1
        self.njev += 1
        at = evaluate(self.problem, x)
        if not math.isfinite(at.fun) or not math.isfinite(at.grad_norm):
            raise _Finished(Status.NON_FINITE)
        before, self.at, self.x = self.at, at, x
        manifold, curvature, length = self.problem.manifold, None, None
        if before is not None:
            curvature = step_curvature(self.problem, before.x, before.grad, at)
            with np.errstate(all="ignore"):
                step = manifold.displacement(before.x, at.x)
                length = float(manifold.inner(at.x, step, step)) ** 0.5
        self.measures = at.measures(manifold, length, curvature)
        if before is not None:
            self.rows.append((at.fun, at.grad_norm, self.nfev))
        self._ask(self.measures)
        return at.fun, at.egrad

    def _ask(self, current: Measures) -> None:
        """End the run if the rule requires it. Counts refer to this step, before which one evaluation was made."""
        now = time.perf_counter() - self.began
        if self.so_far is None:
            eps = float(np.finfo(dtype_of(self.x)).eps)
            self.so_far = RunSoFar((current,), reference=self.reference, eps=eps)
        elif current is not self.so_far.current:
            self.so_far = self.so_far.after(current, now)
        self.so_far.nit, self.so_far.time = self.earlier + len(self.rows), now
        self.so_far.evaluations = Evaluations(self.nfev + 1, self.njev + 1)
        status = self.solver.stop.check(self.so_far)
        if status in ASSERTED and self.solver.stop.looks_ahead and self.at is not None and self.at.x is self.x:
            self.measures = self._confirmed(self.at, self.so_far)
            self.so_far = self.so_far.instead(self.measures)
            status = self.solver.stop.check(self.so_far)
        if status is not None:
            raise _Finished(status, by_rule=True)

    def _confirmed(self, at: Iterate, so_far: RunSoFar) -> Measures:
        """Return the last measures with the curvature ahead, measured in the unit of the run."""
        unit, recent, look = self.unit, so_far.recent, look_ahead(self.solver.stop, so_far)
        if unit == 1.0:
            return confirm(self.problem, at, recent, look)
        look = look._replace(decrease=look.decrease * unit)
        there = evaluate(known(self.problem, at.fun * unit, times(unit, at.egrad)), at.x)
        scaled = tuple([divided(measures, 1 / unit) for measures in recent])
        return divided(confirm(multiplied(self.problem, unit), there, scaled, look), unit)

    def without_decrease(self, x: Tree) -> Status | None:
        """Return the status of the rule for the last point, after the line search of pymanopt found no shorter step.

        Solvers of this package end with NO_DECREASE there, and so does this run as far as the rule is concerned.
        """
        if self.so_far is None or self.at is None:
            return None
        if any(map(np.any, map(np.not_equal, leaves(x), leaves(self.at.x)))):  # the last trial was not taken
            self.x = x
            self.at = evaluate(self.problem, x)
            self.measures = self.at.measures(self.problem.manifold)
        self.x, measures = x, self.at.measures(self.problem.manifold, status=Status.NO_DECREASE)
        self.measures = self.at.at_boundary(self.problem.manifold, measures)
        if self.solver.stop.looks_ahead:
            self.measures = self._confirmed(self.at, self.so_far.after(self.measures, self.so_far.time))
        status = self.solver.stop.check(self.so_far.after(self.measures, self.so_far.time))
        return status if status is not None and status.success else None


def _measured(problem: Problem[Point], x: Point) -> Measures:
    f = problem.objective
    return Measures(f.value(x)) if f.value_and_gradient is None else evaluate(problem, x).measures(problem.manifold)


def _iterations(stop: StoppingRule) -> int | None:
    """Return the limit of iterations of a rule, if it has one."""
    limits = [_iterations(rule) for rule in stop.rules] if isinstance(stop, AnyOf) else []
    if isinstance(stop, MaxIterations):
        limits = [stop.n]
    return min((limit for limit in limits if limit is not None), default=None)


def _around(manifold: Any, x: Point, seed: int) -> Any:
    """Return a ``random_point`` that returns the start first, then points around it in the same component."""
    manifold.rng = np.random.default_rng(seed)
    start = manifold.to_theirs(x)
    given = False

    def random_point() -> Any:
        nonlocal given
        if not given:
            given = True
            return start
        length = manifold.typical_dist * manifold.rng.uniform()
        return manifold.retraction(start, length * manifold.random_tangent_vector(start))

    return random_point
