"""Algorithm 1 of HOPE as a solver, as printed and repaired."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from hope.problems import clusters, movmf_naive, noise_naive, unit

import manifoldseq as ms
from manifoldseq_hope import HOPE, penalty
from manifoldseq_papers import PenaltySGD


def test_found_by_name():
    assert ms.get_solver("papers:penalty-sgd", beta=0.1) == PenaltySGD(beta=0.1)


def test_solver_obeys_the_laws():
    ms.testing.check_solver("penalty-sgd").raise_for_failure()


def test_improves_an_estimator_and_resumes(tmp_path):
    X = unit(clusters(300, 8, K=6, spread=0.5))
    options = {"step_size": 0.01, "batch_size": 50}
    settings = {"solver": "papers:penalty-sgd", "solver_options": options, "tol": 0.0, "random_state": 0}
    whole = HOPE(n_components=6, n_latent=4, max_iter=4, **settings).fit(X)
    assert whole.log_likelihood_ > -whole.history_["fun"][0]
    np.testing.assert_allclose(whole.components_ @ whole.components_.T, np.eye(4), atol=1e-10)
    HOPE(n_components=6, n_latent=4, max_iter=2, **settings).fit(X, checkpoint=tmp_path)
    again = HOPE(n_components=6, n_latent=4, max_iter=4, **settings).fit(X, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.components_, whole.components_)
    np.testing.assert_array_equal(again.weights_, whole.weights_)


def flat_problem(**params):
    X = unit(clusters(300, 8, K=6, spread=0.5))
    settings = {"n_components": 3, "n_latent": 3, "noise_variance": 0.1} | params
    return ms.get_model("hope.movmf").problem(X, **settings)


def test_printed_weight_step_has_its_fixed_point_at_square_roots():
    """Responsibilities that no weight changes: disjoint components."""
    counts = np.array([60, 30, 10])
    X = np.repeat(np.eye(6)[:3], counts, axis=0)
    problem = ms.get_model("hope.movmf").problem(X, n_components=3, n_latent=3, noise_variance=0.1)
    start = (np.eye(6)[:, :3].copy(), np.full(3, 1 / 3), 60 * np.eye(3))
    rested = {}
    for repaired in (False, True):
        options = {"step_size": 1e-3 if not repaired else 0.1, "repaired": repaired, "batch_size": 100}
        x = ms.minimize(problem, start, solver="penalty-sgd", options=options, stop=ms.MaxIterations(400), seed=0).x
        rested[repaired] = x[1]
    roots = np.sqrt(counts) / np.sqrt(counts).sum()
    np.testing.assert_allclose(rested[False], roots, atol=1e-3)
    np.testing.assert_allclose(rested[True], counts / 100, atol=1e-3)


@pytest.mark.parametrize("repaired", [False, True])
def test_a_step_climbs_the_penalized_likelihood(repaired):
    """(14) by autograd, off the constraint; then (35) as printed, and (36) of rows that were shorter than one."""
    X, beta, rate = unit(clusters(300, 8, K=6, spread=0.5)), 20.0 if not repaired else 2.0, 1e-4
    U = 0.8 * unit(np.random.default_rng(0).standard_normal((3, 8)) + 0.5)
    weights, mu = np.array([0.5, 0.3, 0.2]), 4 * np.eye(3)
    settings = {"step_size": rate, "beta": beta, "orthogonality": "penalty", "repaired": repaired, "batch_size": 300}
    solver = ms.get_solver("penalty-sgd", **settings, seed=0)

    def correlated(u):
        rows = u / anp.sqrt(anp.sum(u**2, axis=1, keepdims=True))
        return 0.5 * (anp.sum(anp.abs(anp.dot(rows, rows.T))) - 3)

    def f(u, w, m):
        L = movmf_naive(u, w, m, X) + noise_naive(u, X, 0.1)
        return L / (300 if repaired else 1) - beta * correlated(u)

    problem = flat_problem()
    state, _ = solver.init(problem, (U.T.copy(), weights, mu))
    V, found, mus = solver.step(problem, state)[0]["x"]
    np.testing.assert_allclose(V.T, unit(U + rate * grad(f, 0)(U, weights, mu)), atol=1e-10)
    np.testing.assert_allclose(mus, mu + rate * grad(f, 2)(U, weights, mu), atol=1e-10)
    if not repaired:
        moved = weights + rate * grad(f, 1)(U, weights, mu)
        np.testing.assert_allclose(found, moved / moved.sum(), atol=1e-10)


def test_a_printed_step_is_algorithm_1():
    """Up the sums over the batch less the penalty (15), by autograd; then rows (36) and weights (35) are normalized."""
    import autograd.numpy as anp

    X, rng = unit(clusters(60, 6, K=3)), np.random.default_rng(0)
    problem = ms.get_model("hope.movmf").problem(X, n_components=3, n_latent=3, noise_variance=0.1)
    U, weights, mu = unit(rng.standard_normal((3, 6))), np.array([0.5, 0.3, 0.2]), 4 * rng.standard_normal((3, 3))
    options = {"step_size": 1e-3, "beta": 0.7, "orthogonality": "penalty", "repaired": False, "batch_size": 20}
    solver = ms.get_solver("penalty-sgd", **options, seed=1)
    state, measures = solver.step(problem, solver.init(problem, (U.T, weights, mu))[0])
    batch = X[state["order"][:20]]

    def correlated(u):
        u = u / anp.sqrt(anp.sum(u**2, axis=1, keepdims=True))
        return sum(anp.abs(anp.dot(u[i], u[j])) for i in range(3) for j in range(i))

    def ascended(u, w, m):
        return movmf_naive(u, w, m, batch) + noise_naive(u, batch, 0.1) - 0.7 * correlated(u)

    moved = [
        old + 1e-3 * by for old, by in zip((U, weights, mu), grad(ascended, (0, 1, 2))(U, weights, mu), strict=True)
    ]
    np.testing.assert_allclose(state["x"][0].T, unit(moved[0]), atol=1e-10)
    np.testing.assert_allclose(state["x"][1], moved[1] / moved[1].sum(), atol=1e-10)
    np.testing.assert_allclose(state["x"][2], moved[2], atol=1e-10)
    assert measures.extra["penalty"] == pytest.approx(float(correlated(U)))


def test_printed_sums_collapse_the_projection_and_constraints_do_not():
    problem = flat_problem()
    ends, collapse = {}, []
    for name in ("penalty", "gram-schmidt", "qr", "polar"):
        printed = name == "penalty"
        options = {"step_size": 0.002, "orthogonality": name, "repaired": not printed, "batch_size": 100}
        solver = ms.get_solver("penalty-sgd", **options, seed=0)
        run = ms.iterate(
            lambda state, solver=solver: solver.step(problem, state),
            *solver.init(problem, problem.initializers["random"](problem, np.random.default_rng(0))),
            stop=ms.MaxIterations(600),
            observers=[lambda event, printed=printed: collapse.append(penalty(event.x[0].T)) if printed else None],
        )
        ends[name] = run.state["x"][0].T
    ends.pop("penalty")
    assert collapse[0] < 1e-12 and np.mean(collapse[300:]) > 1  # of at most 3; near it the rows wander
    for U in ends.values():
        np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-12)
