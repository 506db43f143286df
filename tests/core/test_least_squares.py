"""Least squares: values and derivatives by differences, minima by scipy, and what the solver promises."""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.linalg import Multifrontal, flatten, unflattener
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Frozen,
    Grassmann,
    Hyperbolic,
    Power,
    Product,
    SpecialEuclidean,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)

anp: Any = import_module("autograd.numpy")
LOSSES = [
    ms.losses.Squared(),
    ms.losses.Huber(0.7),
    ms.losses.Cauchy(0.7),
    ms.losses.GemanMcClure(0.7),
    ms.losses.Welsch(0.7),
    ms.losses.Truncated(50.0),
]


def pairs(n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a chain of n points, and m more."""
    rng = np.random.default_rng(seed)
    i = np.r_[np.arange(n - 1), rng.integers(n - 1, size=m)]
    return i, np.r_[np.arange(1, n), i[n - 1 :] + 1 + rng.integers(n - 1 - i[n - 1 :] + 0, size=m)].clip(max=n - 1)


def rotations(n: int, m: int, loss: Any = None, gross: float = 0.0) -> tuple[ms.Problem, Any]:
    """Return the averaging of rotations from relative ones, and a start."""
    rng = np.random.default_rng(n)
    i, j = pairs(n, m)
    M = Power(SpecialOrthogonal(3), n)
    R = M.random_point(rng)
    Z = M.manifold.retract(R[i].mT @ R[j], 0.1 * M.manifold.random_tangent(R[i].mT @ R[j], rng))
    bad = rng.random(len(i)) < gross
    bad[: n - 1] = False
    Z[bad] = Power(M.manifold, len(i)).random_point(rng)[bad]
    block = ms.residuals(lambda A, B: anp.reshape(B - A @ Z, (-1, 9)), on=(i, j), loss=loss)
    held = Power(M.manifold, n, fixed=[0])
    x0 = M.retract(R, 0.3 * M.random_tangent(R, rng))
    return ms.Problem(held, ms.least_squares(block)), x0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_weight_is_the_derivative_of_the_loss(loss: Any) -> None:
    s = np.linspace(0.01, 5.0, 50)
    value, weight = loss(s)
    h = 1e-6
    np.testing.assert_allclose(weight, (loss(s + h)[0] - loss(s - h)[0]) / (2 * h), atol=1e-6)
    assert loss(np.array([1e-12]))[0][0] == pytest.approx(1e-12, rel=1e-6), "a square near zero"
    assert np.all(np.diff(value) >= 0) and np.all(np.diff(weight) <= 1e-15)


@pytest.mark.parametrize(
    "M",
    [
        Euclidean(3, 2), Sphere(4), Stiefel(5, 2), Stiefel(3, 3), SpecialOrthogonal(3), SpecialOrthogonal(4),
        Grassmann(5, 2), SymmetricPositiveDefinite(3), Hyperbolic(3), SpecialEuclidean(3),
        Power(SpecialEuclidean(2), 3, fixed=[1]), Product(Stiefel(4, 2), Frozen(Sphere(3)), Euclidean(2)),
        Power(SymmetricPositiveDefinite(2), 3),
    ],
    ids=str,
)  # fmt: skip
def test_a_basis_is_orthonormal_in_the_metric_and_tangent(M: Any) -> None:
    rng = np.random.default_rng(0)
    points = [M.random_point(rng) for _ in range(3)]
    stacked = ms.linalg.tree_map(lambda *leaves: np.stack(leaves), *points)
    many = M.basis(stacked)
    for k, x in enumerate(points):
        B, tree = M.basis(x), unflattener(x)
        assert B.shape == (flatten(x).size, M.dim)
        columns = [tree(np.ascontiguousarray(column)) for column in B.T]
        gram = [[M.inner(x, u, v) for u in columns] for v in columns]
        np.testing.assert_allclose(gram, np.eye(M.dim), atol=1e-12)
        for u in columns:
            np.testing.assert_allclose(flatten(M.project(x, u)), flatten(u), atol=1e-12)
        np.testing.assert_allclose(many[k] @ many[k].T, B @ B.T, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_multifrontal_solutions_are_those_of_dense_systems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    dims = rng.integers(1, 5, n)
    a, b = rng.integers(n, size=(2, int(rng.integers(0, 3 * n))))
    low, high = np.minimum(a, b)[a != b], np.maximum(a, b)[a != b]
    offset = np.r_[0, np.cumsum(dims)]
    J = [rng.standard_normal((dims[k], offset[-1])) * np.isin(np.repeat(np.arange(n), dims), k) for k in range(n)]
    for i, j in zip(low, high, strict=True):
        J.append(rng.standard_normal((2, offset[-1])) * np.isin(np.repeat(np.arange(n), dims), [i, j]))
    J = np.concatenate(J)
    A = J.T @ J + 0.1 * np.eye(offset[-1])
    pattern = sp.csc_array(np.tril(A != 0))
    pattern.sort_indices()
    data = A[pattern.indices, np.repeat(np.arange(offset[-1]), np.diff(pattern.indptr))]
    factor = Multifrontal(dims, low, high, pattern.indices, pattern.indptr).factor(data)
    assert factor is not None
    rhs = rng.standard_normal(offset[-1])
    np.testing.assert_allclose(factor.solve(rhs), np.linalg.solve(A, rhs), atol=1e-8)


def test_a_matrix_that_is_not_positive_has_no_factor() -> None:
    system = Multifrontal(np.ones(2, int), np.array([0]), np.array([1]), np.array([0, 1, 1]), np.array([0, 2, 3]))
    assert system.factor(np.array([1.0, 2.0, 1.0])) is None


def test_dense_fits_end_where_scipy_does() -> None:
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 40)
    y = 2 * np.exp(-3 * t) + 0.5 + 0.05 * rng.standard_normal(40)
    y[::8] += 3.0

    def residual(x: Any) -> Any:
        return x[0] * anp.exp(x[1] * t) + x[2] - y

    for name, loss in (("linear", None), ("huber", ms.losses.Huber(0.2)), ("cauchy", ms.losses.Cauchy(0.2))):
        fit = ms.least_squares(ms.residuals(residual, loss=loss))
        ours = ms.minimize(ms.Problem(Euclidean(3), fit), np.array([1.0, -1.0, 0.0]), tol=1e-14)
        judge = scipy.optimize.least_squares(
            residual, [1.0, -1.0, 0.0], loss=name, f_scale=0.2, xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        assert ours.success and ours.solver == "lm"
        np.testing.assert_allclose(ours.fun, judge.cost, rtol=1e-9)
        np.testing.assert_allclose(ours.x, judge.x, atol=1e-4)


# Published minima: certified sums of squares of NIST StRD; the last two of Moré, Garbow and Hillstrom, 1981.
# Units of the parameters differ by factors of up to 1e6, so that short steps can change the residuals much.
_T = np.arange(1, 17) * 5.0 + 45
_U = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
_V = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
_X = np.array([77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0])
_Y = np.array([10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78])
_Z = np.array([34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872.0])
_K = np.arange(1, 11)
PUBLISHED = {
    "misra1a": (lambda b: b[0] * (1 - anp.exp(-b[1] * _X)) - _Y, [[500, 1e-4], [250, 5e-4]], 1.2455138894e-01),
    "mgh09": (
        lambda b: _V - b[0] * (_U**2 + _U * b[1]) / (_U**2 + _U * b[2] + b[3]),
        [[0.25, 0.39, 0.415, 0.39]],
        3.0750560385e-04,
    ),
    "mgh10": (lambda b: b[0] * anp.exp(b[1] / (_T + b[2])) - _Z, [[0.02, 4000, 250]], 8.7945855171e01),
    "jennrich-sampson": (lambda b: 2 + 2 * _K - (anp.exp(_K * b[0]) + anp.exp(_K * b[1])), [[0.3, 0.4]], 124.362182355),
    "freudenstein-roth": (  # a local minimum, where the Jacobian is singular
        lambda b: anp.array(
            [-13 + b[0] + ((5 - b[1]) * b[1] - 2) * b[1], -29 + b[0] + ((b[1] + 1) * b[1] - 14) * b[1]]
        ),
        [[0.5, -2]],
        48.98425367924,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_success_is_a_published_minimum(name: str) -> None:
    residual, starts, squares = PUBLISHED[name]
    for start in starts:
        result = ms.minimize(ms.Problem(Euclidean(len(start)), ms.least_squares(residual)), np.array(start, float))
        assert result.success and result.solver == "lm"
        np.testing.assert_allclose(2 * result.fun, squares, rtol=2e-10)


@parametrize("seed", range(24), fast=6)
def test_no_success_above_a_minimum_in_other_units_of_the_parameters(seed: int) -> None:
    """Oracle: scipy in units where all parameters are near 1, started where the run ended."""
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(2, 6)), 20
    A, units, truth = rng.standard_normal((m, d)), 10.0 ** rng.uniform(-3, 3, d), rng.standard_normal(d)

    def response(z: Any) -> Any:
        return [anp.dot(A, z) + 0.3 * anp.dot(A, z) ** 2, anp.tanh(anp.dot(A, z)) + 0.1 * anp.dot(A, z)][seed % 2]

    y = response(truth) + [1e-3, 1.0][seed % 4 // 2] * rng.standard_normal(m)
    start = (truth + 0.5 * rng.standard_normal(d)) * units
    result = ms.minimize(ms.Problem(Euclidean(d), ms.least_squares(lambda x: response(x / units) - y)), start)
    judge = scipy.optimize.least_squares(
        lambda z: np.asarray(response(z)) - y, result.x / units, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert result.fun <= judge.cost * (1 + 1e-8)


@pytest.mark.parametrize("loss", LOSSES[:5], ids=lambda loss: type(loss).__name__)
def test_gradients_on_manifolds_are_those_of_differences(loss: Any) -> None:
    problem, x0 = rotations(6, 8, loss)
    ms.testing.check_gradient(problem, x0).raise_for_failure()


@pytest.mark.parametrize("linear", ["auto", "multifrontal", "superlu", "cg"])
@pytest.mark.parametrize("loss", [None, ms.losses.Cauchy(0.5)])
def test_rotations_end_where_lbfgs_does(linear: str, loss: Any) -> None:
    problem, x0 = rotations(30, 60, loss)
    ours = ms.minimize(problem, x0, solver="lm", options={"linear": linear}, tol=1e-12)
    judge = ms.minimize(problem, x0, solver="lbfgs", tol=1e-13, max_iter=5000)
    assert ours.success and judge.success and ours.nit < 30
    np.testing.assert_allclose(ours.fun, judge.fun, rtol=1e-9)
    assert np.array_equal(ours.x[0], x0[0]) and np.array_equal(judge.x[0], x0[0]), "fixed points keep their bits"


@pytest.mark.parametrize("M", [Sphere(5), Stiefel(4, 2), SymmetricPositiveDefinite(3), Hyperbolic(3)], ids=str)
def test_any_manifold_by_the_singular_vectors_of_its_projection(M: Any) -> None:
    rng = np.random.default_rng(1)
    size = int(np.prod(M.shape))
    A, target = rng.standard_normal((12, size)), M.random_point(rng)
    b = A @ target.ravel() + 0.01 * rng.standard_normal(12)
    problem = ms.Problem(M, ms.least_squares(lambda x: A @ anp.reshape(x, (-1,)) - b))
    x0 = M.retract(target, 0.2 * M.random_tangent(target, rng))
    ms.testing.check_gradient(problem, x0).raise_for_failure()
    ours, judge = (ms.minimize(problem, x0, solver=name, tol=1e-12, max_iter=3000) for name in ("lm", "lbfgs"))
    assert ours.success and ours.nit < 40
    np.testing.assert_allclose(ours.fun, judge.fun, rtol=1e-7, atol=1e-12)


def landmarks(jacobian: Any = None) -> tuple[ms.Problem, Any]:
    """Return poses in the plane that see landmarks, by names of the factors, and a camera offset that all share."""
    rng = np.random.default_rng(4)
    poses, places = Power(SpecialEuclidean(2), 5, fixed=[0]), Power(Euclidean(2), 7)
    (R, t), P = poses.random_point(rng), places.random_point(rng)
    offset = np.array([0.3, -0.2])
    a, b = np.repeat(np.arange(5), 7), np.tile(np.arange(7), 5)
    seen = np.einsum("kba,kb->ka", R[a], P[b] - t[a]) + offset + 0.01 * rng.standard_normal((35, 2))

    def bearing(X: Any, p: Any, c: Any) -> Any:
        R, t = X
        return anp.einsum("kba,kb->ka", R, p - t) + c - seen

    block = ms.residuals(bearing, on=(("poses", a), ("places", b), "offset"), weights=np.array([2.0, 0.5]))
    anchor = ms.residuals(lambda c: 0.1 * c, on="offset")
    M = Product(poses, places, Euclidean(2), names=("poses", "places", "offset"))
    x0 = ((R, t + 0.1 * rng.standard_normal(t.shape)), P + 0.1 * rng.standard_normal(P.shape), np.zeros(2))
    x0[0][1][0] = t[0]
    return ms.Problem(M, ms.least_squares(block, anchor)), x0


def test_factors_of_a_product_by_name() -> None:
    problem, x0 = landmarks()
    ms.testing.check_gradient(problem, x0).raise_for_failure()
    ours, judge = (ms.minimize(problem, x0, solver=name, tol=1e-12, max_iter=5000) for name in ("lm", "lbfgs"))
    assert ours.success and ours.nit < 20
    np.testing.assert_allclose(ours.fun, judge.fun, rtol=1e-8)
    held = ms.minimize(problem.freeze("places"), x0)
    assert held.success and held.solver == "lm" and np.array_equal(held.x[1], x0[1])
    other = ms.minimize(problem.freeze("places"), x0, solver="lbfgs", tol=1e-12, max_iter=5000)
    np.testing.assert_allclose(held.fun, other.fun, rtol=1e-8)


def test_weights_of_all_shapes() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, 2, 3)), rng.standard_normal((6, 2))
    on = np.arange(6) % 3
    M = Power(Euclidean(3), 3)
    whole = rng.standard_normal((6, 2, 2))
    x = M.random_point(rng)
    for weights, full in (
        (np.array([2.0, 3.0]), np.broadcast_to(np.diag([2.0, 3.0]), (6, 2, 2))),
        (rng.random((6, 2)), None),
        (rng.random((6, 1)), None),
        (whole, whole),
        (whole[:1], np.broadcast_to(whole[:1], (6, 2, 2))),
    ):
        full = np.stack([np.diag(w) for w in np.broadcast_to(weights, (6, 2))]) if full is None else full
        block = ms.residuals(lambda p: (A @ p[..., None])[..., 0] - b, on=on, weights=weights)
        value = ms.Problem(M, ms.least_squares(block)).objective.value(x)
        r = np.einsum("kij,kj->ki", full, np.einsum("kij,kj->ki", A, x[on]) - b)
        assert value == pytest.approx(0.5 * np.sum(r**2))


def test_a_jacobian_in_entries_and_in_the_basis() -> None:
    rng = np.random.default_rng(0)
    M, on, A = Power(Sphere(3), 4), np.array([0, 1, 2, 3, 0]), rng.standard_normal((5, 2, 3))
    x0 = M.random_point(rng)

    def function(p: Any) -> Any:
        return (A @ p[..., None])[..., 0] - 1.0

    given = [None, lambda p: [A], lambda p: [A @ M.manifold.basis(p)]]
    ends = [ms.minimize(ms.Problem(M, ms.least_squares(ms.residuals(function, on=on, jacobian=J))), x0) for J in given]
    gradients = [
        ms.Problem(M, ms.least_squares(ms.residuals(function, on=on, jacobian=J))).objective.value_and_gradient(x0)[1]  # type: ignore[misc]
        for J in given
    ]
    for end, gradient in zip(ends[1:], gradients[1:], strict=True):
        np.testing.assert_allclose(end.x, ends[0].x, atol=1e-7)
        np.testing.assert_allclose(M.project(x0, gradient), M.project(x0, gradients[0]), atol=1e-12)


def test_graduated_non_convexity_finds_the_inliers() -> None:
    """More than half of the measurements of a rotation are wrong; the loss itself is misled from this start."""
    rng = np.random.default_rng(2)
    M = SpecialOrthogonal(3)
    R, P = M.random_point(rng), rng.standard_normal((60, 3))
    Q = P @ R.T + 0.01 * rng.standard_normal(P.shape)
    Q[:36] = 2 * rng.standard_normal((36, 3))
    x0 = R @ np.diag([-1.0, -1.0, 1.0])
    made = ms.Problem(M, ms.least_squares(ms.residuals(lambda X: P @ X.T - Q, weights=np.full(3, 100.0), loss="gnc")))
    plain = ms.losses.GemanMcClure(3.0)
    same = ms.Problem(M, ms.least_squares(ms.residuals(lambda X: P @ X.T - Q, weights=np.full(3, 100.0), loss=plain)))
    graduated, direct = ms.minimize(made, x0), ms.minimize(same, x0)
    assert graduated.success and np.abs(graduated.x - R).max() < 0.02
    assert np.abs(direct.x - R).max() > 0.5
    assert made.objective.value(x0) == same.objective.value(x0), "only the solver knows the wider losses"


def test_a_saddle_is_no_success() -> None:
    """At the pole the gradient is zero, and the Gauss–Newton matrix does not see that the Hessian is negative."""
    problem = ms.Problem(Sphere(3), ms.least_squares(lambda x: x - anp.array([0.0, 0.0, 2.0])))
    result = ms.minimize(problem, np.array([0.0, 0.0, -1.0]))
    assert result.success and result.x[2] == pytest.approx(1.0)


def test_large_residuals_converge_to_the_same_minimum() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((20, 4)), 5 * rng.standard_normal(20)
    problem = ms.Problem(Sphere(4), ms.least_squares(lambda x: A @ x - b))
    ours, judge = (ms.minimize(problem, seed=0, solver=name, tol=1e-13) for name in ("lm", "lbfgs"))
    assert ours.success and judge.success
    np.testing.assert_allclose(ours.fun, judge.fun, rtol=1e-9)


def test_single_precision() -> None:
    problem, x0 = rotations(10, 10, ms.losses.Cauchy(0.5))
    single, double = ms.minimize(problem, x0.astype(np.float32), project=True), ms.minimize(problem, x0)
    assert single.success and single.x.dtype == np.float32
    np.testing.assert_allclose(single.fun, double.fun, rtol=1e-4)


def test_runs_resume_bit_by_bit(tmp_path: Any) -> None:
    for number, loss in enumerate((ms.losses.Cauchy(0.5), "gnc")):
        problem, x0 = rotations(20, 40, loss, gross=0.2)
        whole = ms.minimize(problem, x0)
        ms.minimize(problem, x0, checkpoint=tmp_path / str(number), max_iter=3)
        resumed = ms.minimize(problem, x0, checkpoint=tmp_path / str(number), resume=True)
        assert np.array_equal(resumed.x, whole.x) and resumed.nit == whole.nit > 3


def test_evaluations_are_counted() -> None:
    calls = {"value": 0, "both": 0}

    def value(x: Any) -> Any:
        calls["value"] += 1
        return x**2 - 1.0

    def both(x: Any) -> Any:
        calls["both"] += 1
        return x**2 - 1.0, [np.diag(2 * x)[:, None]]

    f = ms.least_squares(ms.residuals(value, value_and_jacobian=both))
    result = ms.minimize(ms.Problem(Euclidean(2), f), np.array([3.0, 2.0]))
    assert result.nfev == calls["value"] + calls["both"] and result.njev == calls["both"]


def test_sums_of_objectives_carry_residuals_or_say_why_not() -> None:
    M, first, second = Euclidean(2), ms.least_squares(lambda x: x - 1.0), ms.least_squares(lambda x: 2 * (x - 4.0))
    result = ms.minimize(ms.Problem(M, first + second), np.zeros(2))
    assert result.solver == "lm" and np.allclose(result.x, (1 + 4 * 4) / 5)
    bound = ms.Problem(M, first).objective
    both = ms.minimize(ms.Problem(M, bound + ms.objective(lambda x: 0.5 * anp.sum(x**2))), np.zeros(2))
    assert both.solver == "lbfgs-tr" and np.allclose(both.x, 0.5, atol=1e-5)
    with pytest.raises(TypeError, match="can be added to other residuals only"):
        first + ms.objective(lambda x: anp.sum(x**2))
    with pytest.raises(TypeError, match="cannot be multiplied by a number"):
        2 * first
    with pytest.raises(ValueError, match="cannot be combined"):
        first + ms.least_squares(ms.residuals(whole, on=np.array([0])))


def whole(x: Any) -> Any:
    return x - 1.0


def test_problems_are_pickled_by_name() -> None:
    problem = ms.Problem(Euclidean(2), ms.least_squares(whole))
    again = pickle.loads(pickle.dumps(problem.objective))
    assert again.value(np.zeros(2)) == 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ms.residuals(whole, on=np.array([0, 7])),
            "indices from 0 to 7, but the points have indices from 0 to 2",
        ),
        (
            lambda: ms.residuals(whole, on=("p", np.array([0]))),
            "on the factor 'p', but .* is not a product: pass indices",
        ),
        (lambda: ms.residuals(whole, on=(np.array([0]), np.array([1, 2]))), r"different numbers of indices, \[1, 2\]"),
        (lambda: ms.residuals(whole, on=(np.array([0, 1]), np.array([0, 2]))), "the same point in two slots"),
    ],
)
def test_slots_that_do_not_fit(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ms.minimize(ms.Problem(Power(Euclidean(2), 3), ms.least_squares(make())), seed=0)


def test_messages() -> None:
    with pytest.raises(TypeError, match=r"got Euclidean\(2\): pass the manifold to ms.Problem\(manifold, ms"):
        ms.least_squares(Euclidean(2), lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss='l1': use one of 'squared', 'huber'"):
        ms.residuals(whole, loss="l1")
    with pytest.raises(ValueError, match="LM does not support the bounds"):
        ms.minimize(ms.Problem(BoundedDiagonal(2, 1.0), ms.least_squares(whole)), np.zeros(2), solver="lm")
    assert ms.minimize(ms.Problem(BoundedDiagonal(2, 1.0), ms.least_squares(whole)), np.zeros(2)).solver == "lbfgs-tr"
    with pytest.raises(
        ValueError, match=r"LM needs residuals, which the objective does not have: pass it to ms.least_squares\(…\)"
    ):
        ms.minimize(ms.Problem(Euclidean(2), lambda x: anp.sum(x**2)), np.zeros(2), solver="lm")
    with pytest.raises(TypeError, match="create a Problem"):
        ms.least_squares(whole).value(np.zeros(2))
    with pytest.raises(ValueError, match=r"returned an array of shape .*: return an array of shape \(3, m\) with"):
        ms.minimize(
            ms.Problem(Power(Euclidean(2), 3), ms.least_squares(ms.residuals(lambda p: p[0], on=np.arange(3)))), seed=0
        )


NONE = np.zeros(0, int)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ms.residuals(cast("Any", "f")), TypeError, r"ms.residuals\(function=…\) must be a function, got 'f'"),
        (lambda: [whole], TypeError, r"ms.least_squares needs functions that return residuals, got \["),
        (lambda: ms.objective(whole), TypeError, r"needs functions that return residuals, got Objective"),
        (
            lambda: ms.residuals(whole, jacobian=cast("Any", "2-point")),
            TypeError,
            r"\(jacobian=…\) must be a function, got '2-point'",
        ),
        (lambda: ms.residuals(whole, weights="a"), ValueError, "weights=.*: pass an array of finite real numbers"),
        (lambda: ms.residuals(whole, weights=[np.nan]), ValueError, "pass an array of finite real numbers"),
        (
            lambda: ms.residuals(whole, weights=[1.0, 2.0, 3.0]),
            ValueError,
            r"\(3,\) do not fit residuals of shape \(3, 1\)",
        ),
        (
            lambda: ms.residuals(whole, weights=np.ones((2, 1))),
            ValueError,
            r"\(2, 1\) do not fit .*: use \(1,\), \(3, 1\), ",
        ),
        (lambda: ms.residuals(whole, weights=np.ones((3, 2, 2))), ValueError, r"\(3, 2, 2\) do not fit"),
        (
            lambda: ms.residuals(lambda x: None),
            TypeError,
            "a residual function of the problem returned NoneType None: return a ",
        ),
        (
            lambda: ms.residuals(lambda x: [x[0], x[1]]),
            TypeError,
            "list of 2 entries: .* such as autograd.numpy.stack of them",
        ),
        (
            lambda: ms.residuals(lambda x: 1j * x),
            TypeError,
            "returned ndarray .*: return a real number or an array of real",
        ),
        (lambda: ms.residuals(lambda x: x[:0]), ValueError, r"shape \(0,\): return an array of shape \(K, m\) with"),
        (lambda: ms.residuals(lambda x: np.exp(float(x[0]))), TypeError, "the function .* could not be differentiated"),
        (lambda: ms.residuals(whole, jacobian=lambda x: None), TypeError, "the jacobian of residuals .* NoneType None"),
        (
            lambda: ms.residuals(whole, jacobian=lambda x: 1.0),
            ValueError,
            r"jacobian of residuals has shape \(\) in slot 0",
        ),
        (lambda: ms.residuals(value_and_jacobian=whole), TypeError, r"must return the pair \(value, derivatives\)"),
        (lambda: ms.residuals(whole, on=3), TypeError, "on=3: pass an array of indices, a pair"),
        (lambda: ms.residuals(whole, on=()), TypeError, r"on=\(\): pass an array of indices, a pair"),
    ],
)
def test_wrong_residuals(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ms.minimize(ms.Problem(Euclidean(3), ms.least_squares(make())), np.zeros(3), solver="lm")


@pytest.mark.parametrize("linear", ["multifrontal", "superlu", "cg"])
def test_a_point_without_residuals_does_not_stop_the_others(linear: str) -> None:
    f = ms.least_squares(ms.residuals(whole, on=np.array([0, 2])))
    problem = ms.Problem(Power(Euclidean(2), 4), f)
    result = ms.minimize(problem, np.zeros((4, 2)), solver="lm", options={"linear": linear})
    assert result.success and np.allclose(result.x, [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])


def test_blocks_without_residuals_count_for_nothing() -> None:
    M, x = Power(Euclidean(2), 3), np.zeros((3, 2))
    both = ms.least_squares(ms.residuals(whole, on=np.arange(3)), ms.residuals(whole, on=NONE))
    assert np.allclose(ms.minimize(ms.Problem(M, both), x).x, 1.0)
    with pytest.raises(ValueError, match="there are no residuals: every on=… has an empty array"):
        ms.minimize(ms.Problem(M, ms.least_squares(ms.residuals(whole, on=NONE))), x)
    with pytest.raises(ValueError, match="indices from -1 to 1, but the points have indices from 0 to 2"):
        ms.minimize(ms.Problem(M, ms.least_squares(ms.residuals(whole, on=[-1, 1]))), x)


@pytest.mark.parametrize("solver", ["lbfgs", "tr", "cg", "bb"])
def test_fixed_points_of_a_power_keep_their_bits(solver: str) -> None:
    M = Power(SpecialEuclidean(3), 4, fixed=[1, 3])
    rng = np.random.default_rng(0)
    target, x0 = M.random_point(rng), M.random_point(rng)

    def cost(x: Any) -> Any:
        return sum(anp.sum((a - b) ** 2) for a, b in zip(x, target, strict=True))

    result = ms.minimize(ms.Problem(M, cost), x0, solver=solver)
    for part, start in zip(result.x, x0, strict=True):
        assert np.array_equal(part[[1, 3]], start[[1, 3]]) and not np.allclose(part[[0, 2]], start[[0, 2]])
    with pytest.raises(ValueError, match="pass indices of the 4 points"):
        Power(Sphere(3), 4, fixed=[4])
    assert ms.testing.check_manifold(M).ok and M.dim == 12


def test_independent_problems_agree_alone_in_a_batch_and_as_one() -> None:
    rng, n, t = np.random.default_rng(0), 7, np.linspace(0, 1, 15)
    truth = np.stack([rng.uniform(1, 2, n), rng.uniform(1, 3, n)], 1)
    y = truth[:, :1] * np.exp(-truth[:, 1:] * t) + 0.01 * rng.standard_normal((n, 15))

    def problem(rows: Any) -> ms.Problem:
        data = y[rows]

        def fit(x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
            e = np.exp(-x[:, 1:] * t)
            return x[:, :1] * e - data, [np.stack([e, -t * x[:, :1] * e], -1)]

        block = ms.residuals(value_and_jacobian=fit, on=[np.arange(len(data))])
        return ms.Problem(Power(Euclidean(2), len(data)), ms.least_squares(block))

    each = [problem([k]) for k in range(n)]
    alone = np.concatenate([ms.minimize(one, np.ones((1, 2))).x for one in each])
    batch = ms.minimize_batch(each, np.ones((n, 1, 2)))
    joint = ms.minimize(problem(range(n)), np.ones((n, 2)))
    assert batch.success.all() and joint.success and joint.solver == "lm"
    for x in (batch.x[:, 0], joint.x):
        np.testing.assert_allclose(x, alone, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Output seems independent of input")
def test_numpy_stack_in_residuals_is_named() -> None:
    problem = ms.Problem(Euclidean(2), ms.least_squares(lambda x: np.stack([x[0], x[1]])))
    with pytest.raises(TypeError, match=r"returned ndarray of objects: .* autograd.numpy.stack, but not numpy.stack"):
        ms.minimize(problem, np.ones(2))


def test_a_graph_of_fixed_points_has_nothing_to_do() -> None:
    M = Power(Euclidean(2), 3, fixed=[0, 1, 2])
    f = ms.least_squares(ms.residuals(lambda x, y: x - y - 1, on=[np.array([0, 1]), np.array([1, 2])]))
    result = ms.minimize(ms.Problem(M, f), np.zeros((3, 2)))
    assert result.success and result.nit == 0 and result.fun == pytest.approx(2.0)


@pytest.mark.parametrize("unit", [1e-150, 1e-100, 1e-80, 1e80, 1e140])
def test_the_unit_of_the_residuals_does_not_matter(unit: float) -> None:
    """The squares of the gradient leave the range of numbers, but the objective does not."""
    t = np.linspace(0, 1, 20)
    data = 3 * np.exp(-2 * t)
    residuals = ms.residuals(
        lambda x: unit * (x[0] * np.exp(-x[1] * t) - data),
        jacobian=lambda x: unit * np.stack([np.exp(-x[1] * t), -x[0] * t * np.exp(-x[1] * t)], axis=1),
    )
    result = ms.minimize(ms.Problem(Euclidean(2), ms.least_squares(residuals)), np.array([1.0, 0.0]))
    assert result.success
    np.testing.assert_allclose(result.x, [3.0, 2.0], rtol=1e-5)
