"""The public parts of solvers: the two-loop recursion, mini-batches, preconditioning, steps inside an iteration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.cases import box, close, equal, procrustes, subspace

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import CanonicalLDS, Euclidean, Positive, Product, Simplex, Sphere, Stiefel
from manifoldseq.solvers import (
    CG,
    GD,
    LBFGS,
    TR,
    Line,
    MiniBatches,
    armijo,
    evaluate,
    first_step,
    fixed_steps,
    flatten,
    inner_product,
    secant_pair,
    take_steps,
    tree_map,
    two_loop,
    unflattener,
)

WEIGHTS = 10.0 ** np.linspace(0, 5, 12)


def ill_conditioned() -> tuple[ms.Problem, Any]:
    """A product whose second factor has curvatures from 2 to 200,000; its minimum is zero."""
    direction = np.array([0.6, 0.8, 0.0])

    def cost(x: Any) -> Any:
        return 1 - x[0] @ direction + (WEIGHTS * (x[1] - 1) ** 2).sum()

    problem = ms.Problem(
        Product(Sphere(3), Euclidean(12)), cost, gradient=lambda x: (-direction, 2 * WEIGHTS * (x[1] - 1))
    )
    return problem, (np.array([0.0, 0.0, 1.0]), np.zeros(12))


def diagonal(problem: ms.Problem, x: Any, g: Any) -> Any:
    return g[0], g[1] / (2 * WEIGHTS)


def identity(problem: ms.Problem, x: Any, g: Any) -> Any:
    return g


def several() -> list[tuple[ms.Problem, Any]]:
    """Problems on the embedded metric, on others, on bounds and on a product."""
    rng = np.random.default_rng(3)
    b = rng.random((3, 4)) + 0.5
    positive = ms.Problem(Positive(3, 4), lambda x: (x - b * np.log(x)).sum(), gradient=lambda x: 1 - b / x)
    c = rng.random(6) + 0.1
    simplex = ms.Problem(Simplex(6), lambda x: -(c * np.log(x)).sum(), gradient=lambda x: -c / x)
    lds = CanonicalLDS(5, 2)
    near = lds.random_point(rng)
    fit = ms.Problem(
        lds,
        lambda x: sum(((a - 2 * b) ** 2).sum() for a, b in zip(x, near, strict=True)),
        gradient=lambda x: tree_map(lambda a, b: 2 * (a - 2 * b), x, near),
    )
    return [
        procrustes()[:2],
        subspace()[:2],
        box()[:2],
        (positive, np.full((3, 4), 3.0)),
        (simplex, np.full(6, 1 / 6)),
        (fit, lds.random_point(rng)),
        ill_conditioned(),
    ]


@pytest.mark.parametrize("given", [False, True])
def test_two_loops_are_the_dense_formula(given: bool) -> None:
    """Against H ← (I − ρ s y')H(I − ρ y s') + ρ s s', matrices all the way (Nocedal and Wright, 7.17)."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    hessian = root @ root.T + np.eye(6)
    steps = rng.standard_normal((4, 6))
    pairs = [secant_pair(s, hessian @ s, np.dot) for s in steps]
    P = np.diag(rng.random(6) + 0.5) if given else np.eye(6)
    y = hessian @ steps[-1]

    def dense(H: Any) -> Any:
        for s in steps:
            y = hessian @ s
            rho = 1 / (s @ y)
            left = np.eye(6) - rho * np.outer(s, y)
            H = left @ H @ left.T + rho * np.outer(s, s)
        return H

    H = dense(P * (steps[-1] @ y) / (y @ P @ y))
    v = rng.standard_normal(6)
    kept = v.copy()
    np.testing.assert_allclose(
        two_loop(v, pairs, np.dot, (lambda u: P @ u) if given else None),  # type: ignore[arg-type]
        H @ v,
        rtol=1e-10,
    )
    assert np.array_equal(v, kept)
    diagonal = rng.random(6) + 0.5
    np.testing.assert_allclose(two_loop(v, pairs, np.dot, diagonal=diagonal), dense(np.diag(diagonal)) @ v, rtol=1e-10)
    assert two_loop(v, [], np.dot) is not v
    np.testing.assert_array_equal(two_loop(v, [], np.dot, lambda u: P @ u), P @ v)


def test_a_pair_has_curvature() -> None:
    s = np.array([1.0, 2.0])
    assert secant_pair(s, -s, np.dot) is None
    assert secant_pair(s, np.array([-2.0, 1.0]), np.dot) is None
    assert secant_pair(s, 0 * s, np.dot) is None
    np.testing.assert_allclose(secant_pair(s, 3 * s, np.dot)[2:], (15.0, 1 / 3))  # type: ignore[index]


def test_flat_inner_products_are_those_of_the_manifold() -> None:
    rng = np.random.default_rng(1)
    M = Product(Positive(3), Product(Stiefel(4, 2), Simplex(5)))
    problem = ms.Problem(M, lambda x: x[0].sum())
    x = M.random_point(rng)
    u, v = (M.random_tangent(x, rng) for _ in range(2))
    assert inner_product(problem, x)(flatten(u), flatten(v)) == pytest.approx(M.inner(x, u, v), rel=1e-12)
    equal(unflattener(x)(flatten(u)), u)


def test_a_line_takes_any_curve() -> None:
    """A retraction of one's own, here the QR one, in the place of a kind that the manifold knows."""
    problem, x, _ = procrustes()
    at = evaluate(problem, x)

    def by_qr(point: Any, u: Any) -> Any:
        Q, R = np.linalg.qr(point + u)
        return Q * np.sign(np.diagonal(R))

    line = Line(problem, at, -at.grad, retraction=by_qr)
    assert line.slope == pytest.approx(-(at.grad_norm**2), rel=1e-12)
    found = armijo(line, first_step(problem, at))
    named = armijo(Line(problem, at, -at.grad, retraction="qr"), first_step(problem, at))
    assert found is not None and named is not None and found[0].fun < at.fun
    close(found[0].x, named[0].x, atol=1e-12)


# on a product every factor has a scale of its own, but with a preconditioner
WITHOUT_SCALES = [k for k, (problem, _) in enumerate(several()) if not isinstance(problem.manifold.shape[0], tuple)]


@pytest.mark.parametrize(
    ("solver", "number"),
    [*((GD, k) for k in range(len(several()))), *((solver, k) for solver in (LBFGS, CG) for k in WITHOUT_SCALES)],
)
def test_the_identity_changes_nothing(solver: Any, number: int) -> None:
    problem, start = several()[number]
    plain = ms.minimize(problem, start, solver=solver(), max_iter=25)
    same = ms.minimize(problem, start, solver=solver(precondition=identity), max_iter=25)
    assert plain.nit > 0 and plain.status is same.status
    np.testing.assert_allclose(same.history["fun"][:6], plain.history["fun"][:6], rtol=1e-9)
    assert same.fun == pytest.approx(plain.fun, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("beta", ["polak-ribiere", "fletcher-reeves", "dai-yuan", "hybrid"])
def test_the_identity_changes_no_rule_of_beta(beta: str) -> None:
    problem, start, _ = procrustes()
    plain, same = (
        ms.minimize(problem, start, solver=CG(beta=beta, precondition=p), max_iter=8) for p in (None, identity)
    )
    np.testing.assert_allclose(same.history["fun"], plain.history["fun"], rtol=1e-9)


@pytest.mark.parametrize(("solver", "times"), [(LBFGS, 2), (CG, 3), (GD, 10)], ids=lambda p: getattr(p, "__name__", ""))
def test_it_helps_where_curvatures_differ(solver: Any, times: int) -> None:
    problem, start = ill_conditioned()
    rule = ms.GradientNorm(1e-6) | ms.MaxIterations(5000)
    plain, better = (ms.minimize(problem, start, solver=solver(precondition=p), stop=rule) for p in (None, diagonal))
    assert better.success and better.fun < 1e-10
    assert times * better.nit < plain.nit and times * better.nfev < plain.nfev


def test_the_inverse_hessian_is_newtons_step() -> None:
    problem = ms.Problem(
        Euclidean(12), lambda x: (WEIGHTS * (x - 1) ** 2).sum(), gradient=lambda x: 2 * WEIGHTS * (x - 1)
    )
    solver = GD(precondition=lambda problem, x, g: g / (2 * WEIGHTS), step_size=1.0)
    state, _ = solver.init(problem, np.zeros(12))
    np.testing.assert_allclose(solver.step(problem, state)[0]["x"], 1.0, rtol=1e-12)


@pytest.mark.parametrize("solver", [LBFGS, CG, GD, TR], ids=lambda solver: solver.__name__)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda problem, x, g: tree_map(np.negative, g),
        lambda problem, x, g: tree_map(lambda leaf: np.nan * leaf, g),
        lambda problem, x, g: tree_map(lambda leaf: np.inf * leaf, g),
        lambda problem, x, g: tree_map(np.zeros_like, g),
    ],
    ids=["uphill", "NaN", "infinite", "zero"],
)
def test_a_direction_that_does_not_descend_is_not_followed(solver: Any, wrong: Any) -> None:
    problem, start, minimum = procrustes()
    with np.errstate(invalid="ignore"):
        result = ms.minimize(problem, start, solver=solver(precondition=wrong), max_iter=2000)
    assert result.success and result.fun == pytest.approx(minimum, abs=1e-7)
    assert (np.diff(result.history["fun"]) <= 1e-12).all()


@pytest.mark.parametrize("solver", [LBFGS, CG, GD], ids=lambda solver: solver.__name__)
def test_bounds_hold_what_they_hold(solver: Any) -> None:
    """A preconditioner that mixes coordinates never moves those that a bound holds."""
    problem, start, minimum = box()
    P = np.eye(5) + 0.3
    result = ms.minimize(problem, start, solver=solver(precondition=lambda problem, x, g: P @ g), max_iter=2000)
    assert result.success and result.fun == pytest.approx(minimum, abs=1e-8)


@pytest.mark.parametrize("solver", [LBFGS, CG, GD, TR], ids=lambda solver: solver.__name__)
def test_a_wrong_preconditioner_is_told(solver: Any) -> None:
    problem, start = ill_conditioned()
    with pytest.raises(TypeError, match=r"precondition=3\): pass a function \(problem, x, g\)"):
        solver(precondition=3)
    with pytest.raises(ValueError, match=r"returned shape \(12,\): return a tangent vector at x, which has shape"):
        ms.minimize(problem, start, solver=solver(precondition=lambda problem, x, g: g[1]))
    with pytest.raises(TypeError, match="returned entries of dtype complex128: return real numbers"):
        ms.minimize(
            problem, start, solver=solver(precondition=lambda problem, x, g: tree_map(lambda leaf: 1j * leaf, g))
        )


def test_every_epoch_visits_all_data_once() -> None:
    batches, n = MiniBatches(4), 10
    state, seen = batches.start(seed=5), []
    for _ in range(9):
        rows, state = batches.draw({**state, "other": None}, n)
        assert (np.diff(rows) > 0).all()
        seen.append(rows)
    rng = np.random.default_rng(5)  # the order of each epoch, drawn naively
    for epoch in range(3):
        order = rng.permutation(n)
        for rows, expected in zip(seen[3 * epoch :], (order[:4], order[4:8], order[8:]), strict=False):
            assert rows.tolist() == sorted(expected.tolist())
    with pytest.raises(ValueError, match="MiniBatches: size=0 is not valid: pass a whole number"):
        MiniBatches(0)


@pytest.mark.parametrize("name", ["lbfgs", "cg", "gd", "bb", "pgd", "tr"])
def test_steps_are_those_of_minimize(name: str) -> None:
    problem, start, _ = subspace()
    solver = ms.get_solver(name)
    counter = ms.objectives.Counter()
    counted = dataclasses.replace(problem, objective=counter.wrap(problem.objective))
    state, _ = solver.init(counted, start)
    state, first = take_steps(solver, counted, state, 4)
    state, measures = take_steps(solver, counted, state, 3)
    result = ms.minimize(problem, start, solver=solver, stop=ms.MaxIterations(7))
    close(state["x"], result.x, atol=1e-13)
    assert measures.fun == result.history["fun"][7] and first.fun == result.history["fun"][4]
    assert counter.take().nfev == result.nfev


def test_steps_end_where_the_solver_does() -> None:
    problem, start, _ = procrustes()
    solver = LBFGS()
    state, _ = solver.init(problem, start)
    state, measures = take_steps(solver, problem, state, 10_000)
    assert measures.status in (Status.NO_DECREASE, Status.ROUNDING_LEVEL)
    falls = ms.Problem(Euclidean(1), lambda x: -np.exp(x[0]), gradient=lambda x: -np.exp(x))
    steepest = GD(step_size=1.0)
    state, _ = steepest.init(falls, np.array([2.0]))
    with np.errstate(over="ignore", invalid="ignore"):
        state, measures = take_steps(steepest, falls, state, 100)
    assert measures.status is Status.NON_FINITE and np.isfinite(state["x"]).all()
    with pytest.raises(ValueError, match="take_steps: n_steps=0 is not valid: pass a whole number"):
        take_steps(solver, problem, state, 0)


@pytest.mark.parametrize("kept", [False, True], ids=["begun anew", "state kept"])
def test_an_outer_iteration_with_inner_steps_resumes(tmp_path: Path, kept: bool) -> None:
    """Centres on a product: the state of the outer iteration holds points, or the whole states of the solver."""
    rng = np.random.default_rng(0)
    M = Product(Sphere(3), Stiefel(4, 2))
    data = [M.random_point(rng) for _ in range(12)]
    solver, counter = LBFGS(), ms.objectives.Counter()

    def problem(k: int) -> ms.Problem:
        members = data[k::2]

        def gradient(x: Any) -> Any:
            return tuple(sum(2 * (a - m[i]) for m in members) for i, a in enumerate(x))

        cost = ms.objective(
            lambda x: sum(((a - b) ** 2).sum() for m in members for a, b in zip(x, m, strict=True)), gradient
        )
        return ms.Problem(M, counter.wrap(cost))

    def outer(state: Any) -> Any:
        inner, total = [], 0.0
        for k in range(2):
            begun = state["inner"][k] if kept else solver.init(problem(k), state["inner"][k]["x"])[0]
            begun, measures = take_steps(solver, problem(k), begun, 2)
            total += measures.fun
            inner.append(begun if kept else {"x": begun["x"]})
        return {"inner": tuple(inner)}, ms.Measures(total, evaluations=counter.take())

    def start() -> Any:
        states = [solver.init(problem(k), data[k]) for k in range(2)]
        return {"inner": tuple(s if kept else {"x": s["x"]} for s, _ in states)}, ms.Measures(
            sum(m.fun for _, m in states)
        )

    whole = ms.iterate(outer, start, stop=ms.MaxIterations(6))
    assert (np.diff(whole.history["fun"]) <= 1e-12).all() and whole.measures.evaluations.nfev >= 24
    for limit in (3, 6):
        run = ms.iterate(outer, start, stop=ms.MaxIterations(limit), checkpoint=tmp_path, resume=True)
    for a, b in zip(whole.state["inner"], run.state["inner"], strict=True):
        equal(a["x"], b["x"])


def test_parts_keep_single_precision() -> None:
    problem, start = ill_conditioned()
    x = tree_map(lambda leaf: leaf.astype(np.float32), start)
    objective = dataclasses.replace(
        problem.objective,
        value_and_gradient=lambda p: (
            problem.objective.value(p),
            (-np.array([0.6, 0.8, 0.0], np.float32), (2 * WEIGHTS * (p[1] - 1)).astype(np.float32)),
        ),
    )
    single = dataclasses.replace(problem, objective=objective)
    for solver in (LBFGS(precondition=diagonal), CG(precondition=diagonal), GD(precondition=diagonal)):
        state, _ = solver.init(single, x)
        state, _ = take_steps(solver, single, state, 3)
        assert {leaf.dtype for leaf in state["x"]} == {np.dtype(np.float32)} and state["grad"].dtype == np.float32


def test_backtracking_along_a_curve() -> None:
    """On (t − 1)² from 0: steps below 2 decrease it; a longer one goes to the vertex of the parabola at once."""
    asked: list[float] = []

    def parabola(t: float) -> float:
        asked.append(t)
        return (t - 1) ** 2

    assert ms.solvers.backtrack(parabola, 1.0, -2.0, first=1.9) == 1.9
    assert ms.solvers.backtrack(parabola, 1.0, -2.0, first=4.0) == pytest.approx(1.0)
    assert asked == pytest.approx([1.9, 4.0, 1.0])
    assert ms.solvers.backtrack(parabola, 1.0, -2.0, first=200.0, max_trials=2) is None
    assert ms.solvers.backtrack(parabola, 1.0, -2.0, first=200.0) == pytest.approx(2.0, rel=0.6)
    assert ms.solvers.backtrack(lambda t: t, 0.0, -1.0) is None
    # without a slope any decrease is enough, and steps are halved
    asked.clear()
    assert ms.solvers.backtrack(parabola, 1.0, first=7.0) == 1.75
    assert asked == [7.0, 3.5, 1.75]
    walls = {8.0: np.inf, 0.8: 1.0}
    assert ms.solvers.backtrack(lambda t: walls.get(round(t, 9), -t), 0.0, -1.0, first=8.0) == pytest.approx(0.32 / 1.8)


def test_a_first_step_along_a_curve_of_ones_own() -> None:
    """The curvature along the gradient does not depend on the curve, to first order at a random point: it is near."""
    problem, x, _ = subspace()
    at = evaluate(problem, x)

    def curve(point: Any, u: Any) -> Any:
        return np.linalg.qr(point + u)[0] * np.sign(np.diagonal(np.linalg.qr(point + u)[1]))

    assert first_step(problem, at, curve) == pytest.approx(first_step(problem, at), rel=0.05)


def test_fixed_steps_are_those_of_algorithm_1_without_backtracking() -> None:
    """(16)-(18) of the LDS paper, written out: clipped, and along Cayley curves by a dense solve."""
    rng = np.random.default_rng(0)
    M = CanonicalLDS(6, 3, bound=0.5)
    target = tuple(rng.standard_normal(shape) for shape in M.shape)
    problem = ms.Problem(M, lambda x: sum(((a - b) ** 2).sum() for a, b in zip(x, target, strict=True)))
    x, rates = M.random_point(rng), (0.3, 0.1, 0.5)
    path = list(fixed_steps(problem, x, rates, 4))
    assert len(path) == 5 and path[0] is x

    def cayley(X: np.ndarray, G: np.ndarray, tau: float) -> np.ndarray:
        W, eye = G @ X.T - X @ G.T, np.eye(len(X))
        return np.linalg.solve(eye + tau / 2 * W, (eye - tau / 2 * W) @ X)

    lam, V, U = x
    for point in path[1:]:
        g = [2 * (a - b) for a, b in zip((lam, V, U), target, strict=True)]
        lam, V, U = np.clip(lam - 0.3 * g[0], -0.5, 0.5), cayley(V, g[1], 0.1), cayley(U, g[2], 0.5)
        for found, expected in zip(point, (lam, V, U), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_fixed_steps_of_many_points_are_those_of_each() -> None:
    rng = np.random.default_rng(1)
    M, A = Stiefel(5, 2), rng.standard_normal((5, 5))
    problem = ms.Problem(M, ms.objective(value_and_gradient=lambda X: (0.0, A @ X)))
    X = np.stack([M.random_point(rng) for _ in range(3)])
    *_, together = fixed_steps(problem, X, 0.2, 6)
    for start, found in zip(X, together, strict=True):
        *_, alone = fixed_steps(problem, start, 0.2, 6)
        np.testing.assert_allclose(found, alone, atol=1e-13)
    assert [one is X for one in fixed_steps(problem, X, 0.2, 0)] == [True]


def quartic() -> ms.Problem:
    """A strictly convex function that is no quadratic: the formulas of conjugate gradients differ on it."""
    scale = np.array([1.0, 7.0, 40.0])

    def cost(x: Any) -> float:
        return float(1 - np.sum(x) + np.sum(scale * x**2) / 2 + np.sum(x**4) / 4)

    return ms.Problem(Euclidean(3), ms.objective(cost, lambda x: scale * x + x**3 - 1))


TEXTBOOK = {
    # Nocedal and Wright, section 5.2: new gradient g, old gradient o, old direction d
    "fletcher-reeves": lambda g, o, d: g @ g / (o @ o),
    "polak-ribiere": lambda g, o, d: max(0.0, g @ (g - o) / (o @ o)),
    "hestenes-stiefel": lambda g, o, d: max(0.0, g @ (g - o) / (d @ (g - o))),
    "dai-yuan": lambda g, o, d: g @ g / (d @ (g - o)),
    "hybrid": lambda g, o, d: max(0.0, min(g @ (g - o) / (d @ (g - o)), g @ g / (d @ (g - o)))),
}
MOST_ITERATIONS = 15
"""11 or 12 when this was written."""


@pytest.mark.parametrize("beta", TEXTBOOK)
def test_conjugate_directions_are_those_of_the_textbook(beta: str) -> None:
    """An error of beta only costs iterations: the directions themselves are compared, and the iterations counted."""
    problem = quartic()
    solver = CG(beta=beta, restart=np.inf)
    state, _ = solver.init(problem, np.array([1.0, -1.0, 0.8]))
    turned = 0
    for _ in range(8):
        old, direction = state["grad"], state["direction"]
        state, _ = solver.step(problem, state)
        factor = TEXTBOOK[beta](state["grad"], old, direction)
        np.testing.assert_allclose(state["direction"], -state["grad"] + factor * direction, rtol=1e-10, atol=1e-13)
        turned += factor != 0 and not state["fresh"]
    assert turned >= 3
    result = ms.minimize(problem, np.array([1.0, -1.0, 0.8]), solver=CG(beta=beta))
    assert result.success and result.nit <= MOST_ITERATIONS


@pytest.mark.parametrize("metric", ["embedded", "other"])
def test_lbfgs_keeps_every_pair_of_positive_curvature(metric: str) -> None:
    """Also those whose step and change of the gradient are far from parallel, which ill-conditioned problems have."""
    scale = 10.0 ** np.linspace(0, 3, 20)
    if metric == "embedded":
        problem = ms.Problem(Euclidean(20), ms.objective(lambda x: 1 + float(scale @ x**2) / 2, lambda x: scale * x))
        start = np.ones(20)
    else:
        # the same quadratic of the logarithms, along which the metric of positive numbers is flat
        problem = ms.Problem(
            Positive(20), ms.objective(lambda x: 1 + float(scale @ np.log(x) ** 2) / 2, lambda x: scale * np.log(x) / x)
        )
        start = np.exp(np.ones(20))
    solver = LBFGS(memory=12)
    state, _ = solver.init(problem, start)
    cosines = []
    for k in range(1, 13):
        state, _ = solver.step(problem, state)
        assert len(state["pairs"]) == k
        dot = inner_product(problem, unflattener(start)(flatten(state["x"])))
        s, y = state["pairs"][-1][:2]
        cosines.append(dot(s, y) / (dot(s, s) * dot(y, y)) ** 0.5)
    assert min(cosines) < 0.5  # the case has such pairs
    result = ms.minimize(problem, start, solver="lbfgs")
    assert result.success and result.nit <= 210  # 179 and 174 when this was written
