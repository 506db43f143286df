"""Every checker passes what is right and fails what is wrong, saying where."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import autograd.numpy as anp
import numpy as np
import pytest
import scipy.linalg
from core.cases import PROBLEMS, procrustes, system, tree_map
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq import Measures, Objective, hooks, testing
from manifoldseq.estimators import random_generator, validate_sequences
from manifoldseq.manifolds import BoundedDiagonal, CanonicalLDS, Euclidean, Product, Stiefel
from manifoldseq.objectives import BlockUpdate, FiniteTerms
from manifoldseq.solvers import PGD, Solver
from manifoldseq.testing import Report
from manifoldseq.testing._slope import STEPS, fitted_slope

Pair = tuple[ms.manifolds.Manifold, Objective]


def failing(report: Report, *words: str) -> None:
    """Assert that a report fails, in exactly one law for each of the words."""
    assert not report.ok, report
    assert len(report.failures) == len(words), report
    for law, word in zip(report.failures, words, strict=True):
        assert word in str(law), report


def changed(problem: ms.Problem, **abilities: Any) -> ms.Problem:
    return dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, **abilities))


# --- reports ---------------------------------------------------------------------------------------------------------


def test_reports_are_read_line_by_line() -> None:
    right, wrong = testing.Law("first", True, "1.0e-16"), testing.Law("second", False, "error 2, must be at most 1")
    good, bad = Report("thing", (right,)), Report("thing", (right, wrong))
    assert str(good) == "thing: every law holds\n  ok      first: 1.0e-16"
    assert str(bad).splitlines()[0] == "thing: 1 of 2 laws FAILED"
    assert str(bad).splitlines()[2] == "  FAILED  second: error 2, must be at most 1"
    assert good.ok and not bad.ok and bad.failures == (wrong,)
    good.raise_for_failure()
    with pytest.raises(testing.CheckFailed, match="1 of 2 laws FAILED") as caught:
        bad.raise_for_failure()
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(dataclasses.FrozenInstanceError):
        good.subject = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("error", "slope"),
    [
        (lambda t: t**2, 2.0),
        (lambda t: 3 * t**3 + t**5, 3.0),
        (lambda t: 0.01 * t + t**2, 1.0),
        (lambda t: 1e-5 * t + t**2, 1.0),
        (lambda t: 1e-13 * (1.5 + np.sin(1e9 * t)) + t**2, 2.0),  # rounding above the estimated floor
        (lambda t: 3e-12 + 0 * t + t**2, 2.0),
        (lambda t: np.where(t > 1e-2, np.nan, t**2), 2.0),  # leaves the domain
        (lambda t: np.abs(t**2 - 50 * t**3), 2.0),  # changes sign on the way
    ],
)
def test_slopes_of_known_errors(error: Any, slope: float) -> None:
    found = fitted_slope(STEPS, np.asarray(error(STEPS), float), np.full(len(STEPS), 1e-16))
    assert found == pytest.approx(slope, abs=0.07)


def test_errors_at_rounding_level_have_no_slope() -> None:
    assert fitted_slope(STEPS, np.full(len(STEPS), 1e-15), np.full(len(STEPS), 1e-16)) is None


# --- gradients and Hessians ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_right_gradients_pass_from_points_of_every_kind(problem: str, seed: int) -> None:
    made, x0, _ = PROBLEMS[problem]()
    testing.check_gradient(made, seed=seed).raise_for_failure()
    testing.check_gradient((made.manifold, made.objective), x0).raise_for_failure()
    single = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    testing.check_gradient(made, single, seed=seed).raise_for_failure()


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_gradient_wrong_by_one_per_cent_or_less_fails(share: float) -> None:
    problem, _, _ = procrustes()
    fused = problem.objective.value_and_gradient
    assert fused is not None
    wrong = changed(problem, value_and_gradient=lambda X: (fused(X)[0], (1 + share) * fused(X)[1]))
    report = testing.check_gradient(wrong)
    failing(report, "must exceed 1.9")
    if share == 1e-2:
        assert "slope 1.0" in str(report)


def test_the_wrong_factor_is_named() -> None:
    problem, x0, _ = system()
    fused = problem.objective.value_and_gradient
    assert fused is not None

    def wrong(x: Any) -> Any:
        fun, (lam, V, U) = fused(x)
        return fun, (lam, 1.01 * V, U)

    report = testing.check_gradient(changed(problem, value_and_gradient=wrong), x0)
    failing(report, "gradient: slope 1.0", "factor 'V': slope 1.0")
    assert "ok      gradient, factor 'U': slope" in str(report)


def test_nested_factors_are_named() -> None:
    M = Product(Product(Stiefel(4, 2), Euclidean(3), names=("U", "b")), BoundedDiagonal(2), names=("pair", "lam"))
    f = ms.objective(
        lambda x: float(np.sum(x[0][0] ** 3) + np.sum(x[0][1] ** 2) + np.sum(np.exp(x[1]))),
        lambda x: ((3 * x[0][0] ** 2, 2.02 * x[0][1]), np.exp(x[1])),
    )
    failing(testing.check_gradient((M, f)), "gradient: slope", "factor 'pair.b': slope 1.0")


@pytest.mark.parametrize(
    ("cost", "gradient"),
    [(lambda x: float(np.sum(x)), lambda x: np.ones_like(x)), (lambda x: 4.0, lambda x: np.zeros_like(x))],
)
def test_linear_and_constant_objectives_are_exact(cost: Any, gradient: Any) -> None:
    report = testing.check_gradient((Euclidean(3), ms.objective(cost, gradient)))
    assert report.ok and "exact" in str(report)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_scales_of_the_objective_do_not_matter(scale: float) -> None:
    problem, _, _ = procrustes()
    testing.check_gradient((problem.manifold, scale * problem.objective)).raise_for_failure()
    testing.check_hessian((problem.manifold, scale * problem.objective)).raise_for_failure()


def test_active_bounds_are_left_out() -> None:
    f = ms.objective(lambda x: float(np.sum(np.exp(x))), np.exp)
    report = testing.check_gradient((BoundedDiagonal(3, 0.5), f), np.array([0.5, -0.5, 0.1]))
    report.raise_for_failure()
    everywhere = testing.check_gradient((BoundedDiagonal(2, 0.5), f), np.array([0.5, -0.5]))
    assert everywhere.ok


def test_gradients_of_the_wrong_shape_or_kind_are_reported() -> None:
    failing(testing.check_gradient((Euclidean(3), ms.objective(lambda x: 0.0, lambda x: x[:2]))), "has shape (2,)")
    failing(testing.check_gradient((Euclidean(3), ms.objective(lambda x: 0.0, lambda x: x * np.nan))), "nan")
    shifted = Objective(lambda x: float(x @ x) + 1, lambda x: (float(x @ x), 2 * x))
    assert "value is that of the fused" in str(testing.check_gradient((Euclidean(3), shifted)).failures[0])


@pytest.mark.parametrize("problem", ["quadratic", "procrustes", "subspace"])
@pytest.mark.parametrize("seed", range(3))
def test_right_hessians_pass(problem: str, seed: int) -> None:
    testing.check_hessian(PROBLEMS[problem]()[0], seed=seed).raise_for_failure()


def test_a_hessian_wrong_by_one_per_cent_fails() -> None:
    problem, _, _ = procrustes()
    failing(testing.check_hessian(changed(problem, hessian_product=lambda X, U: 2.02 * U)), "must exceed 2.9")


def test_a_hessian_that_is_not_symmetric_or_linear_fails() -> None:
    N = np.triu(np.ones((4, 4)))
    f = ms.objective(lambda x: float(x @ N @ x), lambda x: (N + N.T) @ x, hessian_product=lambda x, u: 2 * N @ u)
    failing(testing.check_hessian((Euclidean(4), f)), "symmetric")
    f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x, hessian_product=lambda x, u: 2 * np.abs(u))
    assert any("linear" in str(law) for law in testing.check_hessian((Euclidean(4), f)).failures)


def test_what_cannot_be_checked_is_refused_in_a_sentence() -> None:
    plain = Objective(lambda x: 0.0)
    with pytest.raises(ValueError, match="has no value_and_gradient"):
        testing.check_gradient((Euclidean(2), plain))
    with pytest.raises(ValueError, match="has no hessian_product"):
        testing.check_hessian((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)))
    with pytest.raises(TypeError, match="needs a Problem or a pair"):
        testing.check_gradient(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"x0 has shape \(3,\)"):
        testing.check_gradient((Euclidean(2), ms.objective(lambda x: 0.0, lambda x: x)), np.ones(3))


# --- manifolds -------------------------------------------------------------------------------------------------------


class Sphere(Stiefel):
    """A manifold to break, one operation at a time."""

    def __init__(self, **broken: Any) -> None:
        super().__init__(5, 2)
        self.__dict__.update(broken)


X, project, retract = Stiefel(5, 2), Stiefel(5, 2).project, Stiefel(5, 2).retract


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        ({"project": lambda x, u: u - x @ (x.swapaxes(-1, -2) @ u)}, "dim is the dimension"),
        ({"project": lambda x, u: 0.99 * project(x, u)}, "project is idempotent"),
        ({"retract": lambda x, u, kind=None: retract(x, 1.01 * u)}, "velocity"),
        ({"retract": lambda x, u, kind=None: x + u}, "retraction 'polar' is feasible"),
        ({"transport": lambda x, y, u: u}, "transported vectors are tangent"),
        ({"nearest": lambda x: x}, "nearest is feasible"),
        ({"feasibility": lambda x: 0.0}, "feasibility sees"),
        ({"hessian": lambda x, g, h, u: project(x, h)}, "hessian is the derivative"),
        (
            {"random_point": lambda rng, dtype=float: np.linalg.qr(np.random.default_rng().normal(size=(5, 2)))[0]},
            "same generator",
        ),
        ({"random_point": lambda rng, dtype=float: rng.normal(size=(5, 2))}, "random points are feasible"),
        ({"random_point": lambda rng, dtype=float: X.random_point(rng).T}, "has shape (2, 5)"),
        ({"random_point": lambda rng, dtype=float: X.random_point(rng)}, "another dtype"),
        ({"inner": lambda x, u, v: float(np.sum(u * v))}, "broadcasts"),
        ({"inner": lambda x, u, v: 2 * X.inner(x, u, v)}, "gradient represents the differential"),
        ({"to_component": lambda x, i: x}, "components are told apart"),
        ({"descent_curve": lambda x, g: lambda t: retract(x, t * project(x, g))}, "descends"),
        ({"free": lambda x, g: np.ones(5, bool)}, "free is None"),
    ],
)
def test_broken_manifolds_fail(broken: dict[str, Any], word: str) -> None:
    testing.check_manifold(Sphere()).raise_for_failure()
    report = testing.check_manifold(Sphere(**broken))
    assert any(word in str(law) for law in report.failures), report


def test_only_manifolds_are_checked() -> None:
    with pytest.raises(TypeError, match="check_manifold needs a manifold"):
        testing.check_manifold("stiefel")  # type: ignore[arg-type]


# --- objectives ------------------------------------------------------------------------------------------------------

DATA = np.random.default_rng(0).standard_normal((8, 3))


def sums(n: int = 8, scale: float = 1.0) -> Objective:
    whole = ms.finite_sum(lambda x, i: anp.sum(anp.sin(anp.dot(DATA[i], x))), n)
    assert whole.terms is not None
    return dataclasses.replace(whole, terms=FiniteTerms(n, lambda i: scale * whole.terms.batch(i)))


class Counting:
    """A cost that depends on how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> float:
        self.calls += 1
        return float(x @ x) + 1e-12 * self.calls


def stale_memo() -> Objective:
    """A memo that takes every point for the first one that it saw twice."""
    seen: list[np.ndarray] = []

    def gradient(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return 2 * (seen[3] if len(seen) > 3 else x)

    return ms.objective(lambda x: float(x @ x), gradient)


def writer(x: np.ndarray) -> float:
    x *= 2
    return float(x @ x)


def test_right_objectives_pass() -> None:
    testing.check_objective((Euclidean(3), sums())).raise_for_failure()
    automatic = ms.objective(lambda x: anp.sum(anp.exp(x[0])) * anp.sum(x[1] ** 3))
    testing.check_objective((Product(Euclidean(2), Stiefel(4, 2)), automatic)).raise_for_failure()
    testing.check_objective((Euclidean(3), Objective(lambda x: float(x @ x)))).raise_for_failure()


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        (ms.objective(Counting(), lambda x: 2 * x), "gives the same answer"),
        (stale_memo(), "gives the same answer"),
        (ms.objective(writer, lambda x: 2 * x), "read-only"),
        (sums(scale=1.01), "batches average to the whole"),
        (ms.objective(lambda x: None, lambda x: x), "returned NoneType"),  # type: ignore[arg-type, return-value]
        (
            dataclasses.replace(
                ms.objective(lambda x: float(x @ x), lambda x: 2 * x),
                batched=lambda points, which: (np.sum(points**2, axis=-1), points),
            ),
            "batched is a loop",
        ),
    ],
)
def test_broken_objectives_fail(objective: Objective, word: str) -> None:
    report = testing.check_objective((Euclidean(3), objective))
    assert any(word in str(law) for law in report.failures), report


def updated(apply: Any, factors: tuple[str, ...] = ("U",)) -> ms.Problem:
    A = np.random.default_rng(0).standard_normal((5, 2))
    M = Product(Stiefel(5, 2), Euclidean(3), names=("U", "b"))
    f = ms.objective(lambda x: float(np.sum((x[0] - A) ** 2) + x[1] @ x[1]), lambda x: (2 * (x[0] - A), 2 * x[1]))
    best = scipy.linalg.polar(A)[0]
    return ms.Problem(M, dataclasses.replace(f, updates=(BlockUpdate("polar", factors, lambda x: apply(x, best)),)))


def test_right_updates_pass() -> None:
    testing.check_objective(updated(lambda x, best: (best, x[1]))).raise_for_failure()


@pytest.mark.parametrize(
    ("apply", "word"),
    [
        (lambda x, best: (-best, x[1]), "raised the value"),
        (lambda x, best: (best, 0 * x[1]), "changed the factors ['b']"),
        (lambda x, best: (1.01 * best, x[1]), "left the manifold"),
        (lambda x, best: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_broken_updates_fail(apply: Any, word: str) -> None:
    failing(testing.check_objective(updated(apply)), word)


def test_updates_of_unknown_factors_fail() -> None:
    failing(testing.check_objective(updated(lambda x, best: (best, x[1]), ("W",))), "names the factors ['W']")


# --- kernels ---------------------------------------------------------------------------------------------------------


def items(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(rng.uniform(-0.9, 0.9) * np.eye(2), CanonicalLDS(4, 2).random_point(rng)[2]) for _ in range(4)]


DOMAIN = hooks.Domain("toy", manifold=CanonicalLDS, to_item=lambda x: (x[0][:, None] * x[1], x[2]), example=items)


def gain(one: Any, two: Any) -> Any:
    (A1, C1), (A2, C2) = one, two
    return anp.sum(anp.dot(anp.dot(C1, A1), C1.T) * anp.dot(anp.dot(C2, A2), C2.T))


def rotated(item: Any) -> Any:
    P = scipy.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    return P.T @ item[0] @ P, item[1] @ P


def check(kernel: Any, **options: Any) -> Report:
    return testing.check_kernel(kernel, domain=DOMAIN, **options)


def test_right_kernels_pass() -> None:
    check(ms.kernel(gain), invariances={"basis": rotated}).raise_for_failure()
    record = hooks.Kernel(
        "toy", lambda: ms.kernel(gain), "toy", constant_diagonal=False, invariances={"basis": rotated}
    )
    testing.check_kernel(record, domain=DOMAIN).raise_for_failure()


class Broken:
    """A kernel object with some of its methods replaced."""

    def __init__(self, **methods: Any) -> None:
        self.inner = ms.kernel(gain)
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


right = ms.kernel(gain)


@pytest.mark.parametrize(
    ("kernel", "options", "word"),
    [
        (ms.kernel(lambda a, b: gain(a, b) + 0.1 * anp.sum(a[0])), {}, "symmetric"),
        (ms.kernel(lambda a, b: -gain(a, b)), {}, "positive semidefinite"),
        (right, {"constant_diagonal": True}, "constant diagonal"),
        (right, {"invariances": {"shift": lambda item: (2 * item[0], item[1])}}, "invariant: shift"),
        (Broken(diag=lambda P: 1.1 * right.diag(P)), {}, "diag is the diagonal"),
        (Broken(cross=lambda P, Q: right.cross(P, Q) * (1 + 1e-3 * (len(P) < 4))), {}, "indexed by rows"),
        (Broken(cross=lambda P, Q: right.cross(P, Q) + np.random.rand()), {}, "the same answer twice"),
        (Broken(weighted=lambda x, P, b: right.weighted(x, P, np.abs(b))), {}, "value is sum beta k"),
        (
            Broken(weighted=lambda x, P, b: (right.weighted(x, P, b)[0], _times(right.weighted(x, P, b)[1], 1.01))),
            {},
            "weighted: gradient, factor 'U'",
        ),
        (
            Broken(self_term=lambda x: (right.self_term(x)[0], _times(right.self_term(x)[1], 0.5))),
            {},
            "self_term: gradient",
        ),
        (Broken(self_term=lambda x: (1.0, right.self_term(x)[1])), {}, "self_term: value"),
        (Broken(manifold=lambda m, n, bound: (m, n)), {}, "manifold(m, n, bound)"),
        (Broken(pack=lambda items: right.pack(list(items)[1:])), {}, "packs its items"),
    ],
)
def test_broken_kernels_fail(kernel: Any, options: dict[str, Any], word: str) -> None:
    report = check(kernel, **options)
    assert any(word in str(law) for law in report.failures), report


def _times(tree: Any, factor: float) -> Any:
    return tree_map(lambda leaf: factor * leaf, tree)


def test_kernels_need_items_and_a_domain() -> None:
    with pytest.raises(ValueError, match="too few to check on"):
        check(right, items=[])
    with pytest.raises(ValueError, match="pass domain="):
        testing.check_kernel(object())
    with pytest.raises(ValueError, match="unknown kernel 'no-such-kernel'"):
        testing.check_kernel("no-such-kernel")


# --- models ----------------------------------------------------------------------------------------------------------


def model(**changes: Any) -> hooks.Model:
    def build(data: np.ndarray, *, weight: float = 1.0) -> ms.Problem:
        problem = ms.Problem(
            Stiefel(*data.shape),
            weight
            * ms.objective(lambda X: float(np.sum((X - data) ** 2)), changes.pop("gradient", lambda X: 2 * (X - data))),
            {"polar": changes.pop("initializer", lambda problem, rng: scipy.linalg.polar(data)[0])},
        )
        return changes.pop("built", problem)

    return hooks.Model("toy", build, example=lambda rng: rng.standard_normal((5, 2)))


def test_right_models_pass() -> None:
    testing.check_model(model()).raise_for_failure()
    testing.check_model(model(), np.ones((4, 1)), weight=3.0).raise_for_failure()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"built": None}, "build returned NoneType"),
        ({"gradient": lambda X: X}, "objective: gradient"),
        ({"initializer": lambda problem, rng: np.eye(5, 2) * 1.1}, "initializer 'polar' starts on the manifold"),
        ({"initializer": lambda problem, rng: np.eye(2)}, "x0 has shape (2, 2)"),
        (
            {"initializer": lambda problem, rng: problem.manifold.random_point(np.random.default_rng())},
            "draw from rng only",
        ),
    ],
)
def test_broken_models_fail(changes: dict[str, Any], word: str) -> None:
    report = testing.check_model(model(**changes))
    assert any(word in str(law) for law in report.failures), report


def test_models_need_data_or_an_example() -> None:
    with pytest.raises(ValueError, match="has no example, pass data="):
        testing.check_model(hooks.Model("toy", lambda data: None))
    with pytest.raises(TypeError, match=r"needs a manifoldseq.hooks.Model"):
        testing.check_model(3)  # type: ignore[arg-type]


# --- solvers ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Wrapped(Solver):
    """Projected gradient, broken in one way."""

    fault: str
    inner: ClassVar[Solver] = PGD(step_size=0.2)
    memory: ClassVar[dict[str, Any]] = {}

    def init(self, problem: ms.Problem, point: Any) -> tuple[Any, Measures]:
        state, measures = self.inner.init(problem, point)
        if self.fault == "writes into the start":
            for leaf in [point] if isinstance(point, np.ndarray) else point:
                leaf.flags.writeable = True
                leaf += 1.0
                leaf -= 1.0
                leaf[0] += 0.5
        return ({"y": state["x"]} if self.fault == "no point" else state), measures

    def step(self, problem: ms.Problem, state: Any) -> tuple[Any, Measures]:
        if self.fault == "hidden state":
            self.memory["calls"] = self.memory.get("calls", 0) + 1
        new, measures = self.inner.step(problem, state)
        match self.fault:
            case "hidden state":
                new = {**new, "calls": self.memory["calls"]}
            case "objects in the state":
                new = {**new, "rng": np.random.default_rng(0)}
            case "lies about fun":
                measures = dataclasses.replace(measures, fun=measures.fun - 1e-3)
            case "lies about the gradient":
                measures = dataclasses.replace(measures, grad_norm=0.5 * (measures.grad_norm or 0.0))
            case "leaves the manifold":
                new = {**new, "x": tree_map(lambda leaf: 1.1 * leaf + 1, new["x"])}
            case "climbs":
                x = problem.manifold.retract(state["x"], problem.manifold.gradient(state["x"], state["egrad"]))
                new, measures = self.inner.init(problem, x)
            case "swallows Ctrl-C":
                try:
                    new, measures = self.inner.step(problem, state)
                except KeyboardInterrupt:
                    pass
            case "gives up":
                new, measures = state, dataclasses.replace(measures, fun=state["fun"], grad_norm=state["grad_norm"])
        return new, measures


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("writes into the start", "the start was written into"),
        ("no point", "no point at state['x']"),
        ("hidden state", "taken twice from one state, gave two states"),
        ("objects in the state", "bit_generator.state"),
        ("lies about fun", "measures tell the truth"),
        ("lies about the gradient", "grad_norm"),
        ("leaves the manifold", "off the manifold"),
        ("climbs", "claims to be monotone"),
        ("swallows Ctrl-C", "an interrupt in evaluation"),
        ("gives up", "solves it"),
    ],
)
def test_broken_solvers_fail(fault: str, word: str) -> None:
    report = testing.check_solver(Wrapped(fault), iterations=20)
    assert any(word in str(law) for law in report.failures), report


def test_solvers_are_checked_on_given_problems() -> None:
    report = testing.check_solver("pgd", [procrustes()[0]])
    assert report.ok and len(report.laws) == 4
    with pytest.raises(ValueError, match=r"needs .*value_and_gradient"):
        testing.check_solver("lbfgs", [ms.Problem(Euclidean(2), Objective(lambda x: 0.0))])
    with pytest.raises(TypeError, match=r"needs a ms.solvers.Solver"):
        testing.check_solver(3)  # type: ignore[arg-type]


# --- estimators ------------------------------------------------------------------------------------------------------


class Means(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Distances of the means of sequences to randomly chosen ones of them."""

    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        self.n_means = n_means
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Means:
        sequences = validate_sequences(self, X, reset=True, min_length=2)
        means = np.stack([x.mean(axis=0) for x in sequences])
        self.means_ = means[random_generator(self.random_state).permutation(len(means))[: self.n_means]]
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "means_")
        sequences = validate_sequences(self, X, reset=False, min_length=2)
        return np.stack([np.linalg.norm(x.mean(axis=0) - self.means_, axis=1) for x in sequences])

    def predict(self, X: Any) -> np.ndarray:
        return np.argmin(self.transform(X), axis=1)


class ChangesParameters(Means):
    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        super().__init__(n_means=int(n_means) + 0, random_state=[random_state])


class WritesInput(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        for x in X:
            x -= x.mean(axis=0)
        return super().fit(X)


class ReturnsNothing(Means):
    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X)


class NoUnderscore(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.number = len(X)
        return super().fit(X)


class EarlyUnderscore(Means):
    def __init__(self, n_means: int = 2, *, random_state: Any = None) -> None:
        super().__init__(n_means, random_state=random_state)
        self.count_ = 0


class Irreproducible(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        super().fit(X)
        self.means_ = self.means_ + np.random.default_rng().standard_normal(self.means_.shape)
        return self


class SetsParameter(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.random_state = np.random.default_rng(0)
        return super().fit(X)


class AnswersUnfitted(Means):
    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X), int)


class AcceptsAnything(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        self.n_features_in_ = 6
        self.means_ = np.zeros((1, 1))
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "means_")
        return np.zeros((len(X), 1))


class OneRowTooMany(Means):
    def transform(self, X: Any) -> np.ndarray:
        rows = super().transform(X)
        return np.vstack([rows, rows[:1]])

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X)[:-1]


class DependsOnOthers(Means):
    def transform(self, X: Any) -> np.ndarray:
        rows = super().transform(X)
        return rows - rows.mean(axis=0)


class NoFeatures(Means):
    def fit(self, X: Any, y: Any = None) -> Means:
        super().fit(X)
        self.n_features_in_ = 1
        return self


def test_a_right_sequence_estimator_passes() -> None:
    testing.check_sequence_estimator(Means).raise_for_failure()
    testing.check_sequence_estimator(
        Means(n_means=3), [np.random.default_rng(i).random((9, 2)) for i in range(5)]
    ).raise_for_failure()


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (ChangesParameters, "parameters are stored untouched"),
        (WritesInput, "fit wrote into its input"),
        (ReturnsNothing, "fit returns the estimator"),
        (NoUnderscore, "without an underscore: ['number']"),
        (EarlyUnderscore, "set before fit: ['count_']"),
        (Irreproducible, "two fits from one random_state"),
        (SetsParameter, "fit replaced the parameters ['random_state']"),
        (AnswersUnfitted, "predict answered"),
        (AcceptsAnything, "fit refuses NaN"),
        (OneRowTooMany, "transform gave 4 rows for 3 sequences"),
        (DependsOnOthers, "transform of a sequence depends on the others"),
        (NoFeatures, "n_features_in_ is 1, the data have 6"),
    ],
)
def test_broken_sequence_estimators_fail(estimator: type, word: str) -> None:
    report = testing.check_sequence_estimator(estimator)
    assert any(word in str(law) for law in report.failures), report


def test_sequence_estimators_need_enough_and_to_be_one() -> None:
    with pytest.raises(TypeError, match="is no estimator"):
        testing.check_sequence_estimator(3)
    with pytest.raises(ValueError, match="too few, pass at least four"):
        testing.check_sequence_estimator(Means, [np.ones((3, 2))])


class Correlation(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """The singular vectors of the cross-covariance of two views."""

    strict = True

    def __init__(self) -> None:
        pass

    def fit(self, X: Any, Y: Any = None) -> Correlation:
        X, Y = self._views(X, Y)
        self.U_, _, self.V_ = np.linalg.svd((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)))
        return self

    def transform(self, X: Any, Y: Any = None) -> np.ndarray:
        if not hasattr(self, "U_"):
            raise NotFittedError("fit first")
        X, Y = self._views(X, Y)
        return np.hstack([X @ self.U_, Y @ self.V_.T])

    def _views(self, X: Any, Y: Any) -> list[np.ndarray]:
        views = [np.asarray(view, float) for view in ((X, Y) if Y is not None else X)]
        if self.strict and any(not np.all(np.isfinite(view)) for view in views):
            raise ValueError("a view has NaN")
        return views


class Lax(Correlation):
    strict = False

    def fit(self, X: Any, Y: Any = None) -> Correlation:
        super().fit(X, Y)
        if Y is None:
            self.U_ = -self.U_
        return self


def test_multiview_estimators() -> None:
    testing.check_multiview_estimator(Correlation).raise_for_failure()
    report = testing.check_multiview_estimator(Lax())
    failing(report, "fit([X, Y]) learns something else", "fit refuses NaN")
    with pytest.raises(ValueError, match="at least two views"):
        testing.check_multiview_estimator(Correlation, [np.ones((3, 2))])


def test_scikit_learns_checks_are_wrapped() -> None:
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    report = testing.check_estimator(StandardScaler)
    assert report.ok and len(report.laws) > 30
    name = report.laws[0].name
    failing(testing.check_estimator(StandardScaler(), {name: "no reason"}), "take it off the list")
    failing(testing.check_estimator(StandardScaler(), {"check_nothing": "no reason"}), "there is no such check")

    class Squares(FunctionTransformer):
        def fit(self, X: Any, y: Any = None) -> Any:
            self.left = 1
            return super().fit(X, y)

    broken = testing.check_estimator(Squares())
    assert not broken.ok
    expected = {law.name: "sets an attribute without underscore" for law in broken.failures}
    listed = testing.check_estimator(Squares(), expected)
    assert listed.ok and "fails as expected: sets an attribute" in str(listed)
