"""Manifolds and problems of pymanopt in our solvers and checkers."""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np
import pymanopt
import pytest
from core.cases import close, leaves
from core.pymanopt_cases import OURS, cost_of, problem_on, theirs
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.manifolds import Product

THEIRS = theirs()
SOLVERS = [
    record.name
    for _, record in hooks.records("solvers")
    if isinstance(record, hooks.SolverSpec)
    and set(record.needs) <= {"value_and_gradient", "hessian_product"}
    and record.needs
    and not record.constraints
    and ":" not in record.name
]


@parametrize("name", [name for name in THEIRS if name != "fixed-rank"], fast=1)
def test_laws_of_manifolds(name: str) -> None:
    report = ms.testing.check_manifold(ms.from_pymanopt(THEIRS[name]))
    report.raise_for_failure()


SAME = {
    "sphere": ms.manifolds.Sphere(4),
    "grassmann": ms.manifolds.Grassmann(5, 2),
    "spd": ms.manifolds.SymmetricPositiveDefinite(3),
    "positive": ms.manifolds.Positive(3, 1),
}


@pytest.mark.parametrize("name", SAME)
def test_geometry_is_theirs_and_gives_means(name: str) -> None:
    M, ours, rng = ms.from_pymanopt(THEIRS[name]), SAME[name], np.random.default_rng(0)
    x = M.random_point(rng)
    points = np.stack([ours.exp(x, 0.3 * ours.random_tangent(x, rng)) for _ in range(4)])
    close(M.log(x, points), ours.log(x, points), atol=1e-9)
    close(M.dist(x, points), ours.dist(x, points), atol=1e-9)
    assert M.typical_distance == pytest.approx(ours.typical_distance) and isinstance(M.dist(x, x), float)
    assert ours.dist(ms.frechet_mean(M, points), ms.frechet_mean(ours, points)) < 1e-8
    half = M.geodesic(x, points[0], 0.5)
    assert M.dist(x, half) == pytest.approx(M.dist(half, points[0]), rel=1e-7)
    assert M.parallel_transport is None


def test_geometry_that_is_no_geometry_is_not_passed_on() -> None:
    class Chordal(pymanopt.manifolds.Sphere):
        def log(self, point_a: Any, point_b: Any) -> Any:
            return self.projection(point_a, point_b - point_a)

    class Squared(pymanopt.manifolds.SymmetricPositiveDefinite):
        def dist(self, point_a: Any, point_b: Any) -> Any:
            return super().dist(point_a, point_b) ** 2

    for M in (
        ms.from_pymanopt(Chordal(4)),
        ms.from_pymanopt(THEIRS["stiefel"]),
        ms.from_pymanopt(THEIRS["fixed-rank"]),
    ):
        assert M.log is M.dist is M.geodesic is None
    M = ms.from_pymanopt(Squared(2))
    assert M.dist(np.eye(2), np.diag([1.0, np.e**3])) == pytest.approx(3)  # the length of the logarithm
    ball = ms.from_pymanopt(THEIRS["ball"])
    assert (ball.log(np.full(3, 0.1), np.full(3, 0.1)) == 0).all()  # NaN in theirs


def test_solvers_are_found() -> None:
    assert {"lbfgs", "pgd", "tr"} <= set(SOLVERS)


CRAWLS = [
    (name, solver) for name in ("product", "ball") for solver in ("pgd", "gd")
]  # thousands of iterations on metrics that are not embedded


@parametrize(
    ("name", "solver"),
    [
        pytest.param(name, solver, marks=[pytest.mark.slow] if (name, solver) in CRAWLS else [])
        for name in THEIRS
        for solver in SOLVERS
    ],
    fast=18,
)
def test_our_solvers_solve_on_every_manifold(name: str, solver: str) -> None:
    if (name, solver) == ("fixed-rank", "tr"):
        options: dict[str, Any] = {"hessian": "finite-difference"}
    else:
        options = {}
    problem, x0 = problem_on(ms.from_pymanopt(THEIRS[name]), THEIRS[name])
    stop = ms.GradientNorm(1e-4, relative=True) | ms.MaxIterations(3000)
    result = ms.minimize(problem, x0, solver=solver, options=options, stop=stop)
    assert result.success and result.fun < 1e-4 and result.feasibility < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_hessian_of_products_with_rotations_is_right(seed: int) -> None:
    """pymanopt's own Product reads a slope of 1.99: it forgets to embed the tangent vectors."""
    M = ms.from_pymanopt(THEIRS["product"])
    goals = [2 * np.random.default_rng(seed).standard_normal(shape) for shape in M.shape]
    f = ms.objective(lambda x: sum(anp.sum(anp.sin(a - b)) for a, b in zip(x, goals, strict=True)))
    report = ms.testing.check_hessian((M, f), seed=seed)
    report.raise_for_failure()
    assert "factor '1': slope" in str(report)


def test_fixed_rank_matrices_reach_the_best_approximation() -> None:
    A = np.random.default_rng(0).standard_normal((6, 5))
    M = ms.from_pymanopt(THEIRS["fixed-rank"])
    f = ms.objective(lambda x: anp.sum((anp.dot(x[0] * x[1], x[2]) - A) ** 2))
    ms.testing.check_gradient((M, f)).raise_for_failure()
    result = ms.minimize(ms.Problem(M, f), seed=0)
    assert result.fun == pytest.approx(float(np.sum(np.linalg.svd(A)[1][2:] ** 2)))
    with pytest.raises(ValueError, match=r"needs hessian, which .* does not have: use hessian='auto'"):
        ms.minimize(ms.Problem(M, f), seed=0, solver="tr", options={"hessian": "exact"})
    assert ms.minimize(ms.Problem(M, f), seed=0, solver="tr").fun == pytest.approx(result.fun)


def test_fixed_rank_vectors_are_the_same_matrices() -> None:
    theirs, M = THEIRS["fixed-rank"], ms.from_pymanopt(THEIRS["fixed-rank"])
    rng = np.random.default_rng(0)
    x = M.random_point(rng)
    (u, s, vt), (du, ds, dvt) = x, M.random_tangent(x, rng)
    velocity = (du * s) @ vt + (u * ds) @ vt + (u * s) @ dvt
    U, S, V = theirs.embedding(x, M.vectors.to_theirs(x, (du, ds, dvt)))
    close(U @ S @ V.T, velocity)
    close(M.vectors.to_ours(x, M.vectors.to_theirs(x, (du, ds, dvt))), (du, ds, dvt))
    assert M.inner(x, (du, ds, dvt), (du, ds, dvt)) == pytest.approx(float(np.sum(velocity**2)))


def test_coordinates_of_fixed_rank_vectors_are_transported_as_pymanopt_does() -> None:
    theirs, M = THEIRS["fixed-rank"], ms.from_pymanopt(THEIRS["fixed-rank"])
    frame, rng = M.frame, np.random.default_rng(0)
    assert frame is not None

    def matrix(at: Any, vector: Any) -> np.ndarray:
        U, S, V = theirs.embedding(at, vector)
        return U @ S @ V.T

    def of(at: Any, c: Any) -> np.ndarray:
        return matrix(at, M.vectors.to_theirs(at, frame.from_frame(at, c)))

    x, y = M.random_point(rng), M.random_point(rng)
    vectors = [M.random_tangent(x, rng) for _ in range(3)]
    rows = [frame.to_frame(x, u) for u in vectors]
    carried = frame.transport(x, y, tuple(map(np.stack, zip(*rows, strict=True))))
    for k, (u, c) in enumerate(zip(vectors, rows, strict=True)):
        close(of(x, c), matrix(x, M.vectors.to_theirs(x, u)))
        assert frame.inner(x, c, rows[0]) == pytest.approx(M.inner(x, u, vectors[0]))
        expected = theirs.transport(x, y, M.vectors.to_theirs(x, u))
        close(of(y, tuple(leaf[k] for leaf in carried)), matrix(y, expected))
    X, Y = ((at[0] * at[1]) @ at[2] for at in (x, y))
    close(of(y, frame.displacement(x, y)), matrix(y, theirs.projection(y, Y - X)))


def test_random_numbers_are_ours_and_numpys_state_is_put_back() -> None:
    def state() -> list[Any]:
        name, words, place, *gauss = np.random.get_state()
        return [name, words.tolist(), place, *gauss]

    before = state()
    M = ms.from_pymanopt(THEIRS["product"])
    points = [M.random_point(np.random.default_rng(5)) for _ in range(2)]
    tangents = [M.random_tangent(points[0], np.random.default_rng(6)) for _ in range(2)]
    if M.log is not None and M.dist is not None:
        M.log(points[0], M.random_point(np.random.default_rng(7)))
        M.dist(points[0], M.random_point(np.random.default_rng(7)))
    assert state() == before
    for a, b in (points, tangents):
        for p, q in zip(leaves(a), leaves(b), strict=True):
            np.testing.assert_array_equal(p, q)


@pytest.mark.parametrize("name", ["UnitaryGroup", "ComplexCircle"])
def test_complex_points_raise_an_error(name: str) -> None:
    with pytest.raises(TypeError, match="has complex points: manifoldseq supports real points only"):
        ms.from_pymanopt(getattr(pymanopt.manifolds, name)(3))


def test_what_is_missing_is_found_at_construction() -> None:
    class Still(pymanopt.manifolds.Sphere):
        def retraction(self, point: Any, tangent_vector: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(TypeError, match="does not implement retraction, which every solver needs"):
        ms.from_pymanopt(Still(3))
    with pytest.raises(TypeError, match=r"needs a manifold such as pymanopt.manifolds.Stiefel\(5, 2\), got int"):
        ms.from_pymanopt(3)
    problem = pymanopt.Problem(THEIRS["sphere"], pymanopt.function.numpy(THEIRS["sphere"])(lambda x: 0.0))
    with pytest.raises(TypeError, match=r"use ms.Problem.from_pymanopt"):
        ms.from_pymanopt(problem)
    with pytest.raises(TypeError, match=r"needs a pymanopt.Problem, got Sphere"):
        ms.Problem.from_pymanopt(THEIRS["sphere"])
    assert isinstance(ms.from_pymanopt(THEIRS["product"]), Product)
    assert ms.from_pymanopt(THEIRS["sphere"]) == ms.from_pymanopt(THEIRS["sphere"])


@parametrize("name", THEIRS, fast=3)
@pytest.mark.parametrize("solver", ["lbfgs", "tr"])
def test_problems_with_differentiated_costs(name: str, solver: str) -> None:
    manifold = THEIRS[name]
    M = ms.from_pymanopt(manifold)
    target = M.random_point(np.random.default_rng(0))
    cost, x0 = cost_of(manifold, target), problem_on(M, manifold)[1]

    @pymanopt.function.autograd(manifold)
    def theirs(*parts: Any) -> Any:
        return cost(parts if isinstance(target, tuple) else parts[0])

    problem = ms.Problem.from_pymanopt(pymanopt.Problem(manifold, theirs))
    ms.testing.check_gradient(problem).raise_for_failure()
    assert (problem.objective.hessian_product is None) == (name == "fixed-rank")
    result = ms.minimize(problem, x0, solver=solver)
    assert result.success and result.fun < 1e-6


def test_problems_keep_what_they_are_given() -> None:
    manifold = pymanopt.manifolds.Product([pymanopt.manifolds.SpecialOrthogonalGroup(3), THEIRS["stiefel"]])
    A, B = np.random.default_rng(0).standard_normal((3, 3)), np.random.default_rng(1).standard_normal((5, 2))
    numpy = pymanopt.function.numpy(manifold)
    cost = numpy(lambda X, Y: float(np.sum((X - A) ** 4) + np.sum((Y - B) ** 4)))
    gradient = numpy(lambda X, Y: [4 * (X - A) ** 3, 4 * (Y - B) ** 3])
    hessian = numpy(lambda X, Y, U, V: [12 * (X - A) ** 2 * U, 12 * (Y - B) ** 2 * V])
    problem = ms.Problem.from_pymanopt(
        pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    )
    ms.testing.check_gradient(problem).raise_for_failure()
    ms.testing.check_hessian(problem).raise_for_failure()
    plain = ms.Problem.from_pymanopt(pymanopt.Problem(manifold, cost)).objective
    assert plain.value_and_gradient is None and plain.hessian_product is None


def test_riemannian_gradients_do_where_the_metric_is_embedded() -> None:
    sphere, positive = THEIRS["sphere"], THEIRS["positive"]
    c = np.arange(1.0, 5.0)
    numpy = pymanopt.function.numpy(sphere)
    problem = pymanopt.Problem(
        sphere, numpy(lambda x: float(c @ x)), riemannian_gradient=numpy(lambda x: c - x * (c @ x))
    )
    assert ms.minimize(ms.Problem.from_pymanopt(problem), seed=0).fun == pytest.approx(-float(np.linalg.norm(c)))
    wrap = pymanopt.function.numpy(positive)
    with pytest.raises(ValueError, match="pass the Euclidean gradient"):
        ms.Problem.from_pymanopt(
            pymanopt.Problem(positive, wrap(lambda x: 0.0), riemannian_gradient=wrap(lambda x: 0 * x))
        )


@pytest.mark.parametrize("name", ["stiefel", "nested", "lds"])
def test_a_problem_goes_there_and_back(name: str) -> None:
    problem, x0 = problem_on(OURS[name], OURS[name])
    back = ms.Problem.from_pymanopt(problem.to_pymanopt())
    assert back.manifold is problem.manifold
    (value, gradient), (fun, egrad) = (p.objective.value_and_gradient(x0) for p in (problem, back))  # type: ignore[misc]
    assert value == fun
    close(gradient, egrad)
    rng = np.random.default_rng(0)
    u = OURS[name].random_tangent(x0, rng)
    close(*(p.objective.hessian_product(x0, u) for p in (problem, back)))  # type: ignore[misc]
