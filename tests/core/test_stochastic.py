"""SGD and Adam: naive loops and other libraries as oracles, closed forms, epochs, seeds, counts, the exact answer."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from core.cases import close, equal, leaves, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, Euclidean, Product, Stiefel
from manifoldseq.objectives import FiniteTerms
from manifoldseq.solvers import SGD, Adam, Cosine, Halving, InverseTime, StochasticPGD


def summed(n: int, value: Any, gradient: Any) -> ms.Objective:
    """A mean over data from its value and gradient over some indices, without automatic differentiation."""

    def part(i: Any) -> ms.Objective:
        return ms.objective(lambda x: value(x, i), lambda x: gradient(x, i))

    return dataclasses.replace(part(np.arange(n)), terms=FiniteTerms(n, part))


def mean_of(data: np.ndarray) -> ms.Problem:
    def value(x: Any, i: Any) -> float:
        return 0.5 * float(np.mean(np.sum((x - data[i]) ** 2, axis=1)))

    f = summed(len(data), value, lambda x, i: np.mean(x - data[i], axis=0))
    return ms.Problem(Euclidean(data.shape[1]), f)


def components(n: int = 300, d: int = 6, p: int = 2) -> tuple[ms.Problem, float, np.ndarray]:
    """Principal components: the subspace that keeps most of the data, and the closed-form minimum."""
    data = np.random.default_rng(1).standard_normal((n, d)) * np.array([3.0, 2.0, 1.0, 0.5, 0.4, 0.3])

    def value(X: Any, i: Any) -> float:
        return -float(np.sum((data[i] @ X) ** 2)) / len(i)

    f = summed(n, value, lambda X, i: -2 * data[i].T @ (data[i] @ X) / len(i))
    return ms.Problem(Stiefel(d, p), f), -float(scipy.linalg.eigvalsh(data.T @ data / n)[-p:].sum()), data


def watched(problem: ms.Problem) -> tuple[ms.Problem, list[np.ndarray]]:
    terms, seen = problem.objective.terms, []
    assert terms is not None

    def batch(i: Any) -> ms.Objective:
        seen.append(np.array(i))
        return terms.batch(i)

    f = dataclasses.replace(problem.objective, terms=FiniteTerms(terms.n, batch))
    return ms.Problem(problem.manifold, f), seen


@pytest.mark.parametrize(
    "solver",
    [
        SGD(step_size=InverseTime(0.05, delay=50)),
        SGD(step_size=InverseTime(0.1, delay=50), momentum=0.0, average_from=200),
        Adam(step_size=Cosine(0.05, steps=600)),
        Adam(step_size=Cosine(0.05, steps=600), amsgrad=True),
        StochasticPGD(rates=0.1, batch_size=32, step_size=InverseTime(1.0, delay=50)),
    ],
    ids=["sgd", "sgd-averaged", "adam", "amsgrad", "pgd"],
)
@parametrize("seed", [0, 1], fast=1)
def test_principal_components_against_the_closed_form(solver: Any, seed: int) -> None:
    problem, minimum, _ = components()
    result = ms.minimize(problem, solver=solver, stop=ms.MaxIterations(600), seed=seed)
    assert result.fun == pytest.approx(minimum, rel=2e-3) and result.fun >= minimum - 1e-12
    assert result.feasibility < 1e-14


@pytest.mark.parametrize(("solver", "tolerance"), [("sgd", 0.01), ("adam", 0.01)])
def test_mean_direction_against_the_closed_form(solver: str, tolerance: float) -> None:
    """The mean of unit vectors in the chordal distance is their normalized sum."""
    rng = np.random.default_rng(2)
    data = rng.standard_normal((400, 5)) + np.array([2.0, 0, 0, 0, 0])
    data /= np.linalg.norm(data, axis=1, keepdims=True)
    f = ms.finite_sum(lambda x, i: ((data[i] - x[:, 0]) ** 2).sum() / 400, n=400)
    options = {"step_size": Cosine(0.05, steps=400), "batch_size": 20}
    result = ms.minimize(
        ms.Problem(Stiefel(5, 1), f), solver=solver, options=options, stop=ms.MaxIterations(400), seed=0
    )
    total = data.sum(axis=0)
    close(result.x[:, 0], total / np.linalg.norm(total), atol=tolerance)


@pytest.mark.parametrize("solver", [SGD(step_size=Cosine(2.0, steps=1500)), Adam(step_size=Cosine(0.05, steps=1500))])
def test_logistic_regression_against_scikit_learn(solver: Any) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 4))
    y = np.sign(X @ np.array([1.5, -1.0, 0.5, 0.0]) + rng.logistic(size=500))

    def value(w: Any, i: Any) -> float:
        return float(np.mean(np.logaddexp(0, -y[i] * (X[i] @ w)))) + 0.5 * float(w @ w) / 500

    def gradient(w: Any, i: Any) -> Any:
        return -(X[i] * (y[i] * scipy.special.expit(-y[i] * (X[i] @ w)))[:, None]).mean(axis=0) + w / 500

    problem = ms.Problem(Euclidean(4), summed(500, value, gradient))
    peer = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8).fit(X, y)
    result = ms.minimize(problem, np.zeros(4), solver=solver, stop=ms.MaxIterations(1500), seed=0)
    close(result.x, peer.coef_[0], atol=0.02)
    assert result.fun == pytest.approx(value(peer.coef_[0], np.arange(500)), rel=1e-4)


def naive_sgd(data: np.ndarray, X: np.ndarray, rate: float, steps: int, batch: int, seed: int) -> np.ndarray:
    rng, m, waiting = np.random.default_rng(seed), np.zeros_like(X), np.arange(0)
    for _ in range(steps):
        if not len(waiting):
            waiting = rng.permutation(len(data))
        i, waiting = waiting[:batch], waiting[batch:]
        G = -2 * data[i].T @ (data[i] @ X) / len(i)
        m = 0.9 * m + G - X @ (X.T @ G + G.T @ X) / 2
        Q, R = np.linalg.qr(X - rate * m)
        X = Q * np.sign(np.diag(R))
        m = m - X @ (X.T @ m + m.T @ X) / 2
    return X


def test_sgd_is_the_naive_loop() -> None:
    problem, _, data = components()
    x0 = problem.manifold.random_point(np.random.default_rng(0))
    solver = SGD(step_size=0.02, batch_size=70, retraction="qr", seed=5)
    result = ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(13))
    close(result.x, naive_sgd(data, x0, 0.02, 13, 70, 5), atol=1e-12)


def both() -> tuple[ms.Problem, Any, np.ndarray]:
    """A frame and a vector, evaluated on all data at once."""
    A = np.random.default_rng(4).standard_normal((5, 2))
    M = Product(Stiefel(5, 2), Euclidean(3), names=("U", "b"))
    scales = np.array([1.0, 10.0, 100.0])

    def value(x: Any) -> float:
        return float(np.sum((x[0] - A) ** 2) + np.sum(scales * (x[1] - 1) ** 2) + np.sum(x[0]) * np.sum(x[1]))

    def gradient(x: Any) -> Any:
        return 2 * (x[0] - A) + np.sum(x[1]), 2 * scales * (x[1] - 1) + np.sum(x[0])

    f = ms.objective(value, gradient)
    f = dataclasses.replace(f, terms=FiniteTerms(1, lambda i: f))
    x0 = M.random_point(np.random.default_rng(0))
    return ms.Problem(M, f), x0, A


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_the_naive_loop(amsgrad: bool) -> None:
    """A number per Stiefel factor, a number per entry of a flat one; Algorithm 1 of Kingma and Ba on each."""
    problem, x0, _ = both()
    solver = Adam(step_size=0.05, beta1=0.8, beta2=0.95, amsgrad=amsgrad, retraction="qr")
    result = ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(20))
    (X, b), m, v, top = x0, [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    for k in range(1, 21):
        G, g = problem.objective.value_and_gradient((X, b))[1]  # type: ignore[misc]
        G = G - X @ (X.T @ G + G.T @ X) / 2
        steps = []
        for j, (h, square) in enumerate([(G, np.sum(G**2)), (g, g**2)]):
            m[j], v[j] = 0.8 * m[j] + 0.2 * h, 0.95 * v[j] + 0.05 * square
            top[j] = np.maximum(top[j], v[j]) if amsgrad else v[j]
            steps.append(0.05 * m[j] / (1 - 0.8**k) / (np.sqrt(top[j] / (1 - 0.95**k)) + 1e-8))
        Q, R = np.linalg.qr(X - steps[0])
        X, b = Q * np.sign(np.diag(R)), b - steps[1]
        m[0] = m[0] - X @ (X.T @ m[0] + m[0].T @ X) / 2
    close(result.x, (X, b), atol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_that_of_geoopt(amsgrad: bool) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        geoopt = pytest.importorskip("geoopt")
    problem, x0, A = both()
    result = ms.minimize(
        problem, x0, solver=Adam(step_size=0.05, amsgrad=amsgrad, retraction="qr"), stop=ms.MaxIterations(30)
    )
    U = geoopt.ManifoldParameter(torch.tensor(x0[0]), manifold=geoopt.EuclideanStiefel())
    b = geoopt.ManifoldParameter(torch.tensor(x0[1]), manifold=geoopt.Euclidean())
    optimizer = geoopt.optim.RiemannianAdam([U, b], lr=0.05, amsgrad=amsgrad)
    target, scales = torch.tensor(A), torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    for _ in range(30):
        optimizer.zero_grad()
        loss = ((U - target) ** 2).sum() + (scales * (b - 1) ** 2).sum() + U.sum() * b.sum()
        loss.backward()
        optimizer.step()
    close(result.x, (U.detach().numpy(), b.detach().numpy()), atol=1e-9)


def test_every_epoch_visits_all_data_once_in_another_order() -> None:
    problem, seen = watched(mean_of(np.arange(10.0)[:, None]))
    result = ms.minimize(
        problem, np.zeros(1), solver=SGD(step_size=0.01, batch_size=4, seed=0), stop=ms.MaxIterations(6)
    )
    assert [len(i) for i in seen] == [4, 4, 2, 4, 4, 2]
    for epoch in (seen[:3], seen[3:]):
        assert sorted(np.concatenate(epoch)) == list(range(10))
    assert any(not np.array_equal(a, b) for a, b in zip(seen[:3], seen[3:], strict=True))
    assert result.nfev == result.njev == pytest.approx(1 + 2 + 1)  # the start, two epochs, the answer
    np.testing.assert_allclose(result.history["nfev"], [1, 1.4, 1.8, 2.0, 2.4, 2.8, 3.0])


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_the_order_comes_from_the_seed_of_minimize(solver: str) -> None:
    problem, _, _ = components()
    x0, stop = problem.manifold.random_point(np.random.default_rng(0)), ms.MaxIterations(7)

    def run(given: Any, **options: Any) -> Any:
        return ms.minimize(problem, x0, solver=solver, options=options, stop=stop, seed=given).x

    equal(run(1), run(1))
    equal(run(np.random.default_rng(1)), run(np.random.default_rng(1)))
    assert np.any(run(1) != run(2))
    equal(run(1, seed=9), run(2, seed=9))  # an option of the solver goes before it
    assert np.any(run(1, seed=9) != run(1))


def test_starts_draw_different_orders() -> None:
    problem, seen = watched(mean_of(np.arange(10.0)[:, None]))
    ms.minimize(problem, np.zeros(1), solver=SGD(batch_size=5), stop=ms.MaxIterations(2), n_starts=2, seed=0)
    assert len(seen) == 4 and not np.array_equal(seen[0], seen[2]) and not np.array_equal(seen[0], seen[3])


def test_schedules() -> None:
    for k in range(0, 40, 7):
        assert InverseTime(0.2, delay=5).rate(k) == pytest.approx(0.2 / (1 + k / 5))
        assert Halving(0.2, every=8).rate(k) == 0.2 / 2 ** (k // 8)
        cosine = 0.1 + 0.1 * (1 + np.cos(np.pi * k / 30)) / 2 if k < 30 else 0.1
        assert Cosine(0.2, steps=30, last=0.1).rate(k) == pytest.approx(cosine)
    for wrong in (lambda: InverseTime(0.0), lambda: Cosine(0.1, 10, last=0.2), lambda: Halving(0.1, every=0)):
        with pytest.raises(ValueError, match=r"first=0\.0 is not valid|last must lie|every=0 is not valid"):
            wrong()


def test_the_schedule_is_followed() -> None:
    problem = mean_of(np.full((4, 1), 1.0))
    x, path = 0.0, [0.0]
    for k in range(5):
        x -= 0.5 * 0.5 ** (k // 2) * (x - 1)
        path.append(x)
    seen = ms.Recorder()
    solver = SGD(step_size=Halving(0.5, every=2), momentum=0.0)
    ms.minimize(problem, np.zeros(1), solver=solver, stop=ms.MaxIterations(5), observers=[seen])
    close(np.array([point[0] for point in seen.records]), np.array(path))


def test_clipping_bounds_the_step() -> None:
    steps: list[float] = []
    problem = mean_of(1e6 * np.ones((8, 2)))
    ms.minimize(
        problem, np.zeros(2), solver=SGD(step_size=0.5, momentum=0.0, clip=2.0), stop=ms.MaxIterations(4),
        observers=[lambda event: steps.append(event.measures.step_size or 0.0)],
    )  # fmt: skip
    np.testing.assert_allclose(steps, [0, 1, 1, 1, 1])


def test_averaging_reduces_the_noise() -> None:
    data = np.random.default_rng(5).standard_normal((500, 2))
    problem, errors = mean_of(data), {}
    for average in (None, 50):
        solver = SGD(step_size=0.3, momentum=0.0, batch_size=5, average_from=average)
        stop = ms.MaxIterations(250)
        found = [ms.minimize(problem, np.zeros(2), solver=solver, stop=stop, seed=seed).x for seed in range(8)]
        errors[average] = np.mean(np.sum((np.array(found) - data.mean(axis=0)) ** 2, axis=1))
    assert errors[50] < 0.1 * errors[None]


def test_the_average_is_the_mean_of_the_points_on_the_manifold() -> None:
    problem, _, _ = components()
    seen = ms.Recorder()
    solver = SGD(step_size=0.05, average_from=3)
    result = ms.minimize(problem, solver=solver, stop=ms.MaxIterations(8), seed=0, observers=[seen])
    close(result.x, scipy.linalg.polar(np.mean(seen.records[4:], axis=0))[0], atol=1e-12)


@pytest.mark.parametrize("average", [None, 2])
def test_the_result_is_exact(average: int | None) -> None:
    problem, _, _ = components()
    result = ms.minimize(problem, solver=SGD(step_size=0.02, average_from=average), stop=ms.MaxIterations(20), seed=0)
    fun, egrad = problem.objective.value_and_gradient(result.x)  # type: ignore[misc]
    assert result.fun == fun
    assert result.grad_norm == pytest.approx(np.linalg.norm(problem.manifold.gradient(result.x, egrad)))
    assert result.fun != result.history["fun"][-1]


def test_a_success_of_one_batch_is_taken_back() -> None:
    """All data but the last of the epoch are met exactly, so that the first batch of one has no gradient."""
    data, stop = np.zeros((3, 1)), ms.GradientNorm(1e-9) | ms.MaxIterations(9)
    data[np.random.default_rng(0).permutation(3)[-1]] = 3.0
    result = ms.minimize(mean_of(data), np.zeros(1), solver=SGD(batch_size=1, seed=0), stop=stop)
    assert result.status is Status.ESTIMATE_ONLY and not result.success
    assert result.fun == 1.5 and result.nit == 1
    alike = mean_of(np.zeros((3, 1)))
    solved = ms.minimize(alike, np.ones(1), solver=SGD(step_size=1.0, momentum=0.0), stop=stop)
    assert solved.status is Status.CONVERGED and solved.fun == 0.0


def test_an_interrupt_while_the_answer_is_evaluated() -> None:
    problem = mean_of(np.arange(6.0)[:, None])
    whole, calls = problem.objective.value_and_gradient, 0
    assert whole is not None

    def fused(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return whole(x)

    problem = ms.Problem(problem.manifold, dataclasses.replace(problem.objective, value_and_gradient=fused))
    result = ms.minimize(problem, np.zeros(1), solver="sgd", stop=ms.MaxIterations(3), seed=0)
    assert result.status is Status.INTERRUPTED and result.nit == 3 and np.isfinite(result.fun)


def test_a_run_that_diverges_keeps_its_last_finite_point() -> None:
    problem = mean_of(np.ones((4, 1)))
    with np.errstate(over="ignore", invalid="ignore"):
        result = ms.minimize(problem, np.zeros(1), solver=SGD(step_size=1e40), stop=ms.MaxIterations(100))
    assert result.status is Status.NON_FINITE and np.isfinite(result.x).all()


def test_float32_and_bounds() -> None:
    data = np.random.default_rng(6).standard_normal((60, 3)) + np.array([2.0, 0.0, -2.0])
    problem = ms.Problem(BoundedDiagonal(3, 0.5), mean_of(data).objective)
    for solver in ("sgd", "adam"):
        options = {"step_size": Cosine(0.1, steps=200)}
        x0 = np.zeros(3, np.float32)
        result = ms.minimize(problem, x0, solver=solver, options=options, stop=ms.MaxIterations(200), seed=0)
        assert result.x.dtype == np.float32
        close(result.x, np.clip(data.mean(axis=0), -0.5, 0.5).astype(np.float32), atol=2e-2)


@parametrize("solver", [SGD(step_size=0.05), Adam(step_size=Cosine(0.05, steps=300), amsgrad=True)], fast=1)
def test_solvers_pass_their_checker(solver: Any) -> None:
    ms.testing.check_solver(solver, iterations=300).raise_for_failure()


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_an_objective_without_terms_raises_an_error(solver: str) -> None:
    problem = ms.Problem(Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    with pytest.raises(
        ValueError, match=r"needs terms, which the objective does not have: .* solvers that work without it: .*lbfgs"
    ):
        ms.minimize(problem, solver=solver)


@pytest.mark.parametrize(
    ("solver", "options", "message"),
    [
        ("sgd", {"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ("stochastic-pgd", {"rates": 0.0}, "StochasticPGD.*pass a positive number, or one per factor"),
        ("sgd", {"step_size": -1}, "SGD: step_size=-1 is not valid: pass a finite number above 0"),
        ("sgd", {"batch_size": 0}, "batch_size=0 is not valid: pass a whole number"),
        ("sgd", {"clip": 0.0}, "clip=0.0 is not valid: pass a finite number above 0"),
        ("sgd", {"average_from": -1}, "average_from=-1 is not valid: pass a whole number of at least 0, or None"),
        ("adam", {"beta2": 1.5}, r"beta2 must lie in \[0, 1\)"),
        ("adam", {"epsilon": 0}, "epsilon=0 is not valid: pass a finite number above 0"),
        ("adam", {"seed": 0.5}, "Adam: seed=0.5 is not valid: pass a whole number of at least 0"),
    ],
)
def test_wrong_options_raise_an_error(solver: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.get_solver(solver, **options)


def test_a_whole_epoch_in_one_batch_is_gradient_descent(tmp_path: Path) -> None:
    """Tuples, transports and the checkpoint in one: against plain steps on the product."""
    problem, x0, _ = both()
    solver = SGD(step_size=0.01, momentum=0.0)
    result = ms.minimize(problem, x0, solver=solver, stop=ms.MaxIterations(5), checkpoint=tmp_path)
    x = x0
    for _ in range(5):
        gradient = problem.manifold.gradient(x, problem.objective.value_and_gradient(x)[1])  # type: ignore[misc]
        x = problem.manifold.retract(x, tree_map(lambda g: -0.01 * g, gradient))
    close(result.x, x)
    assert len(leaves(result.x)) == 2


def test_a_resumed_run_goes_on_with_its_own_generator(tmp_path: Path) -> None:
    """Without a seed the order is new each time, but the checkpoint is of the same solver, and has the generator."""
    problem, seen = watched(mean_of(np.arange(12.0)[:, None]))
    solver = SGD(batch_size=4)
    ms.minimize(problem, np.zeros(1), solver=solver, stop=ms.MaxIterations(2), checkpoint=tmp_path)
    ms.minimize(problem, np.zeros(1), solver=solver, stop=ms.MaxIterations(3), checkpoint=tmp_path, resume=True)
    assert sorted(np.concatenate(seen)) == list(range(12))
