"""Trust regions: known optima, scipy and pymanopt as oracles, superlinear convergence, bounds, metrics, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
from core.cases import PROBLEMS, close, leaves, procrustes, quadratic, subspace, system, tree_map

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean
from manifoldseq.solvers import TR

TIGHT = ms.GradientNorm(1e-10, relative=True) | ms.MaxIterations(100)


def rosenbrock(n: int = 6) -> ms.Problem:
    f = ms.objective(
        scipy.optimize.rosen,
        scipy.optimize.rosen_der,
        hessian_product=lambda x, u: scipy.optimize.rosen_hess_prod(x, u),
    )
    return ms.Problem(Euclidean(n), f)


def system_with_products() -> tuple[ms.Problem, Any, float]:
    problem, x0, minimum = system()
    f = problem.objective
    products = ms.objective(
        f.value, value_and_gradient=f.value_and_gradient, hessian_product=lambda x, u: tree_map(lambda a: 2 * a, u)
    )
    return ms.Problem(problem.manifold, products), x0, minimum


@pytest.mark.parametrize("hessian", ["auto", "finite-difference"])
@pytest.mark.parametrize("problem", [*PROBLEMS, "system_with_products"])
def test_every_problem_is_solved_and_every_product_counted(problem: str, hessian: str) -> None:
    made, x0, minimum = system_with_products() if problem == "system_with_products" else PROBLEMS[problem]()
    calls = {"value": 0, "value_and_gradient": 0, "hessian_product": 0}

    def watched(name: str) -> Any:
        function = getattr(made.objective, name)

        def call(*args: Any) -> Any:
            calls[name] += 1
            return function(*args)

        return None if function is None else call

    f = ms.Objective(watched("value"), watched("value_and_gradient"), watched("hessian_product"))
    result = ms.minimize(ms.Problem(made.manifold, f), x0, solver=TR(hessian=hessian), stop=TIGHT)
    assert result.success and result.fun == pytest.approx(minimum, abs=1e-9)
    assert result.feasibility < 1e-12 and result.nit < 15
    assert (result.nfev, result.njev) == (calls["value_and_gradient"] + calls["value"], calls["value_and_gradient"])
    assert calls["value"] == 2  # before the success
    assert result.nhev == calls["hessian_product"]
    exact = hessian == "auto" and made.objective.hessian_product is not None
    assert (result.nhev > 0) == exact
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


@pytest.mark.parametrize("theta", [0.5, 1.0])
@pytest.mark.parametrize("made", [procrustes, subspace, system_with_products])
def test_convergence_is_superlinear(made: Any, theta: float) -> None:
    """The factor by which a step shrinks the gradient goes to zero; of a linear method it stays."""
    problem, x0, _ = made()
    norms = ms.minimize(problem, x0, solver=TR(theta=theta), stop=TIGHT).history["grad_norm"]
    norms = norms[norms > 1e-13 * norms[0]]
    factors = norms[1:] / norms[:-1]
    assert factors[-1] < (0.3 if theta == 0.5 else 0.02) * factors[-2] and factors[-1] < 0.01


def test_agrees_with_scipy_on_euclidean_space() -> None:
    x0 = np.full(6, -1.0)
    peer = scipy.optimize.minimize(
        scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der, hessp=scipy.optimize.rosen_hess_prod,
        method="trust-krylov", options={"gtol": 1e-8},
    )  # fmt: skip
    result = ms.minimize(rosenbrock(), x0, solver="tr", stop=ms.GradientNorm(1e-8) | ms.MaxIterations(200))
    assert peer.success and result.success
    close(result.x, peer.x, atol=1e-7)
    assert result.nit <= 1.5 * peer.nit


@pytest.mark.slow
def test_agrees_with_pymanopt_on_the_same_manifold() -> None:
    import pymanopt

    problem, x0, minimum = subspace()
    f, manifold = problem.objective, pymanopt.manifolds.Stiefel(9, 2)
    peer = pymanopt.Problem(
        manifold,
        pymanopt.function.numpy(manifold)(f.value),
        euclidean_gradient=pymanopt.function.numpy(manifold)(lambda X: f.value_and_gradient(X)[1]),  # type: ignore[misc]
        euclidean_hessian=pymanopt.function.numpy(manifold)(lambda X, U: f.hessian_product(X, U)),  # type: ignore[misc]
    )
    theirs = pymanopt.optimizers.TrustRegions(verbosity=0, min_gradient_norm=1e-8).run(peer, initial_point=x0)
    ours = ms.minimize(problem, x0, solver="tr", stop=ms.GradientNorm(1e-8) | ms.MaxIterations(100))
    assert ours.fun == pytest.approx(theirs.cost, abs=1e-10) == pytest.approx(minimum, abs=1e-10)
    assert ours.nit <= theirs.iterations + 2


def test_negative_curvature_leaves_a_saddle() -> None:
    f = ms.objective(
        lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4,
        lambda x: np.array([2 * x[0], -2 * x[1] + 4 * x[1] ** 3]),
        hessian_product=lambda x, u: np.array([2 * u[0], (-2 + 12 * x[1] ** 2) * u[1]]),
    )
    result = ms.minimize(ms.Problem(Euclidean(2), f), np.array([1.0, 1e-4]), solver="tr", stop=TIGHT)
    close(result.x, [0.0, 0.5**0.5], atol=1e-8)


@pytest.mark.parametrize("hessian", ["exact", "finite-difference"])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_against_bounded_least_squares(hessian: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((30, 12)), 3 * rng.standard_normal(30)
    f = ms.objective(
        lambda x: 0.5 * float(np.sum((A @ x - b) ** 2)),
        lambda x: A.T @ (A @ x - b),
        hessian_product=lambda x, u: A.T @ (A @ u),
    )
    problem = ms.Problem(BoundedDiagonal(12, 0.4), f)
    result = ms.minimize(problem, np.zeros(12), solver=TR(hessian=hessian), stop=TIGHT)
    best = scipy.optimize.lsq_linear(A, b, (-0.4, 0.4), method="bvls", tol=1e-14)
    assert 2 <= np.sum(np.abs(best.x) == 0.4) < 12
    assert result.success and result.nit < 25
    close(result.x, best.x, atol=1e-7)


class Weighted(Euclidean):
    """Vectors with the inner product Σ wᵢ uᵢ vᵢ."""

    metric = "weighted"
    weights = np.array([1.0, 10.0, 100.0, 1000.0, 3.0, 30.0])

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        return float(np.sum(self.weights * u * v))

    def gradient(self, x: Any, egrad: Any) -> Any:
        return egrad / self.weights

    def hessian(self, x: Any, egrad: Any, ehess: Any, u: Any) -> Any:
        return ehess / self.weights


@pytest.mark.parametrize("hessian", ["exact", "finite-difference"])
def test_other_metrics_are_asked_through_inner(hessian: str) -> None:
    """A quadratic is solved by one long path, and the path is one of conjugate directions only in its own metric."""
    scales = np.linspace(1.0, 6.0, 6)
    f = ms.objective(
        lambda x: 0.5 * float(scales @ (x - 1) ** 2),
        lambda x: scales * (x - 1),
        hessian_product=lambda x, u: scales * u,
    )
    solver = TR(hessian=hessian, radius=1e3, kappa=1e-9)
    result = ms.minimize(ms.Problem(Weighted(6), f), np.zeros(6), solver=solver, stop=ms.MaxIterations(1))
    assert result.history["grad_norm"][0] == pytest.approx(float(np.sum(scales**2 / Weighted.weights)) ** 0.5)
    close(result.x, np.ones(6), atol=1e-8 if hessian == "exact" else 1e-4)


def test_a_shorter_step_costs_no_product() -> None:
    """The second Newton step of Rosenbrock's function overshoots from f = 5 to 1400."""
    start = np.array([-1.2, 1.0])
    result = ms.minimize(rosenbrock(2), start, solver=TR(radius=1e6, kappa=1e-9), stop=ms.MaxIterations(2))
    assert result.nfev > 4 and result.nhev <= 4
    assert np.all(np.diff(result.history["fun"]) < 0)


def test_a_trial_without_a_value_shortens_the_step() -> None:
    def value(x: Any) -> float:
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.sum(-np.log(1 - x) - 2 * np.log(x)))

    f = ms.objective(value, lambda x: 1 / (1 - x) - 2 / x)
    result = ms.minimize(ms.Problem(Euclidean(2), f), np.array([0.01, 0.5]), solver=TR(radius=50.0), stop=TIGHT)
    close(result.x, [2 / 3, 2 / 3], atol=1e-8)


def test_the_radius_is_limited_and_a_stuck_run_ends() -> None:
    problem, x0, _ = quadratic()
    steps: list[float] = []
    ms.minimize(
        problem,
        x0,
        solver=TR(max_radius=0.25),
        stop=TIGHT,
        observers=[lambda e: steps.append(e.measures.step_size or 0.0)],
    )
    assert max(steps) == pytest.approx(0.25) and len(steps) > 10
    wrong = ms.Problem(Euclidean(4), ms.objective(lambda x: float(x @ x), lambda x: -2 * x))
    assert ms.minimize(wrong, x0, solver="tr").status is Status.NO_DECREASE


@pytest.mark.parametrize("problem", PROBLEMS)
def test_float32_in_float32_out(problem: str) -> None:
    made, x0, minimum = PROBLEMS[problem]()
    x0 = tree_map(lambda leaf: leaf.astype(np.float32), x0)
    result = ms.minimize(made, x0, solver="tr", stop=ms.GradientNorm(1e-3, relative=True) | ms.MaxIterations(100))
    assert {leaf.dtype for leaf in leaves(result.x)} == {np.dtype(np.float32)}
    assert result.success and result.fun == pytest.approx(minimum, abs=1e-2)


@pytest.mark.parametrize("hessian", ["auto", pytest.param("finite-difference", marks=pytest.mark.slow)])
def test_passes_its_checker(hessian: str) -> None:
    ms.testing.check_solver(TR(hessian=hessian)).raise_for_failure()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hessian": "bfgs"}, "hessian='bfgs' is not known: choose 'auto'"),
        ({"radius": 0.0}, "radius=0.0 is not valid: pass a finite number above 0"),
        ({"kappa": "x"}, "kappa='x' is not valid: pass a finite number above 0"),
        ({"max_inner": 0}, "max_inner=0 is not valid: pass a whole number"),
    ],
)
def test_wrong_options_raise_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.get_solver("tr", **options)


def test_exact_products_must_exist() -> None:
    problem, x0, _ = system()
    with pytest.raises(ValueError, match="needs hessian_product, which the objective does not have"):
        ms.minimize(problem, x0, solver=TR(hessian="exact"))


def test_few_vectors_are_kept_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is computed again leads to the same points, for more products where steps are shortened."""
    f = ms.objective(
        scipy.optimize.rosen,
        scipy.optimize.rosen_der,
        hessian_product=lambda x, u: scipy.optimize.rosen_hess_prod(x, u),
    )
    problem, results = ms.Problem(Euclidean(30), f), []
    for kept in (1000, 2):
        monkeypatch.setattr("manifoldseq.solvers._tr.KEPT", kept)
        results.append(ms.minimize(problem, np.full(30, -1.2), solver=TR(radius=5.0), max_iter=500))
    all_kept, few_kept = results
    assert all_kept.success
    np.testing.assert_array_equal(few_kept.history["fun"], all_kept.history["fun"])
    assert few_kept.nhev > all_kept.nhev
