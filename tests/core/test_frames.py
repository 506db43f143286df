"""Frames, memory of points, and powers: what they must not change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Manifold,
    Orthogonal,
    Positive,
    Power,
    Product,
    Simplex,
    SpecialEuclidean,
    SpecialOrthogonal,
    Stiefel,
    SymmetricPositiveDefinite,
)

A = np.stack([np.cov(np.random.default_rng(k).standard_normal((4, 30)) * [[1], [2], [3], [0.5]]) for k in range(6)])


def likelihood(S: Any) -> tuple[float, Any]:
    """Gaussian log-likelihoods of six samples under one covariance, with a penalty that moves the optimum."""
    inverse = np.linalg.inv(S)
    value = float(np.sum(A * inverse) + 6 * np.linalg.slogdet(S)[1] + 0.1 * np.sum(S * S))
    return value, -inverse @ A.sum(axis=0) @ inverse + 6 * inverse + 0.2 * S


def curvature(S: Any, U: Any) -> Any:
    inverse = np.linalg.inv(S)
    V = inverse @ U @ inverse
    return V @ A.sum(axis=0) @ inverse + inverse @ A.sum(axis=0) @ V - 6 * V + 0.2 * U


PROBLEM = ms.Problem(
    SymmetricPositiveDefinite(4), ms.objective(value_and_gradient=likelihood, hessian_product=curvature)
)


def test_coordinates_of_positive_definite_matrices_are_congruences() -> None:
    M, rng = SymmetricPositiveDefinite(4), np.random.default_rng(0)
    x = M.random_point(rng)
    u, F, root = M.random_tangent(x, rng), M.frame, np.linalg.cholesky(x)
    assert F is not None
    c = np.linalg.solve(root, np.linalg.solve(root, u).T)
    np.testing.assert_allclose(F.to_frame(x, u), c, atol=1e-12)
    np.testing.assert_allclose(M.euclidean_gradient(x, M.gradient(x, u)), u, atol=1e-12)
    # steps of all lengths: Taylor polynomials of four degrees, and eigenvalues
    for length in (1e-4, 1e-2, 0.1, 0.5, 3.0):
        step = length / np.linalg.norm(c) * c
        np.testing.assert_allclose(F.retract(x, step), root @ expm(step) @ root.T, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "gd", "tr"])
def test_solvers_find_the_same_point_with_and_without_frames(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = 10 * np.eye(4)
    framed = ms.minimize(PROBLEM, start, solver=solver)
    monkeypatch.setattr(SymmetricPositiveDefinite, "frame", None)
    ambient = ms.minimize(PROBLEM, start, solver=solver)
    assert framed.success and ambient.success
    np.testing.assert_allclose(framed.x, ambient.x, rtol=1e-5, atol=1e-5)
    assert framed.fun == pytest.approx(ambient.fun, abs=1e-9)
    assert framed.nit <= 1.5 * ambient.nit + 3


def test_functions_of_users_get_ambient_vectors() -> None:
    M = PROBLEM.manifold
    seen: list[float] = []
    first: list[Any] = []

    def kind(x: Any, u: Any) -> Any:
        seen.append(M.inner(x, u, u))
        return M.retract(x, u)

    def precondition(problem: ms.Problem, x: Any, g: Any) -> Any:
        first.append((x, g))
        return g

    plain = ms.minimize(PROBLEM, 3 * np.eye(4))
    result = ms.minimize(PROBLEM, 3 * np.eye(4), solver="lbfgs", options={"precondition": precondition})
    assert result.success and result.fun == pytest.approx(plain.fun, abs=1e-9)
    x, g = first[0]
    np.testing.assert_allclose(g, -M.gradient(x, likelihood(x)[1]), rtol=1e-8, atol=1e-8)
    searched = ms.minimize(PROBLEM, 3 * np.eye(4), solver=ms.solvers.LBFGS(retraction=kind))  # type: ignore[arg-type]
    assert searched.success and seen and searched.fun == pytest.approx(plain.fun, abs=1e-9)


def test_constraints_have_hessians_in_frames_too() -> None:
    far = ms.objective(
        lambda S: float(np.trace(S) - 5), lambda S: np.eye(4), hessian_product=lambda S, U: np.zeros((4, 4))
    )
    problem = ms.Problem(PROBLEM.manifold, PROBLEM.objective, equalities=(far,))
    for inner in ("lbfgs", "tr"):
        solver = ms.solvers.AugmentedLagrangian(inner_solver=inner)
        result = ms.minimize(problem, np.eye(4), solver=solver)
        assert result.success and np.trace(result.x) == pytest.approx(5, abs=1e-5)


def test_a_wrong_frame_fails_its_laws() -> None:
    class Halved(type(SymmetricPositiveDefinite(3).frame)):  # type: ignore[misc]
        def to_frame(self, x: Any, u: Any) -> Any:
            return 0.5 * super().to_frame(x, u)

    class Wrong(SymmetricPositiveDefinite):
        @property
        def frame(self) -> Manifold:
            return Halved(self.n)

    report = ms.testing.check_manifold(Wrong(3))
    wrong = {"inverts to_frame", "dot product", "hessian"}
    assert {word for word in wrong if any(word in str(law) for law in report.failures)} == wrong


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    calls: list[tuple[int, ...]] = []
    cholesky = np.linalg.cholesky

    def counting(a: Any) -> Any:
        calls.append(a.shape)
        return cholesky(a)

    monkeypatch.setattr(np.linalg, "cholesky", counting)
    return calls


def test_a_point_is_decomposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ms.minimize(PROBLEM, 10 * np.eye(4))
    calls = counted(monkeypatch)
    again = ms.minimize(PROBLEM, 10 * np.eye(4))
    assert again.fun == result.fun
    assert len(calls) <= 2 * again.nfev + 12  # one of the point and one of the step; the start is copied


def test_runs_are_equal_bit_by_bit_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = [ms.minimize(PROBLEM, 10 * np.eye(4), solver=solver) for solver in ("lbfgs", "tr")]
    calls = counted(monkeypatch)
    ms.minimize(PROBLEM, 10 * np.eye(4), solver="lbfgs")
    few = len(calls)
    wrapped = PROBLEM.manifold.frame
    assert wrapped is not None
    forgetful = type(
        "Forgetful", (type(wrapped),), {name: afresh(getattr(type(wrapped), name)) for name in ("gradient", "retract")}
    )
    monkeypatch.setattr(SymmetricPositiveDefinite, "frame", property(lambda self: forgetful(self.n)))
    for before, solver in zip(remembered, ("lbfgs", "tr"), strict=True):
        after = ms.minimize(PROBLEM, 10 * np.eye(4), solver=solver)
        np.testing.assert_array_equal(before.x, after.x)
        np.testing.assert_array_equal(before.history["fun"], after.history["fun"])
    assert len(calls) > 3 * few


def afresh(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operation at a copy of the point, which nothing is known about."""
    return lambda self, x, *rest: operation(self, x.copy(), *rest)


def test_a_changed_array_is_not_taken_for_the_old_one() -> None:
    M = SymmetricPositiveDefinite(2)
    x, u = np.diag([1.0, 4.0]), np.eye(2)
    x.flags.writeable = False
    assert M.inner(x, u, u) == pytest.approx(1 + 1 / 16)
    x.flags.writeable = True
    x[0, 0] = 2.0
    assert M.inner(x, u, u) == pytest.approx(1 / 4 + 1 / 16)
    for _ in range(50):  # arrays whose memory, and with it the identity, is used again
        y = np.diag(np.random.default_rng(0).uniform(1, 2, 2))
        y.flags.writeable = False
        assert M.inner(y, u, u) == pytest.approx(float(np.sum(1 / np.diag(y) ** 2)))
        del y


def test_threads_share_the_memory(request: pytest.FixtureRequest) -> None:
    before = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(before))
    sys.setswitchinterval(1e-6)
    M, u = SymmetricPositiveDefinite(1), np.ones((1, 1))

    def lengths(start: int) -> list[float]:
        points = [np.full((1, 1), 1.0 + start + k) for k in range(3000)]
        for x in points:
            x.flags.writeable = False
        return [M.inner(x, u, u) - 1 / x.item() ** 2 for x in points]

    with ThreadPoolExecutor(4) as pool:
        assert max(max(map(abs, each)) for each in pool.map(lengths, range(4))) < 1e-12


POWERS = {
    "rotations": SpecialOrthogonal(3),
    "frames": Stiefel(4, 2),
    "both determinants": Orthogonal(2),
    "covariances": SymmetricPositiveDefinite(3),
    "scales": Positive(2),
    "weights": Simplex(3),
    "bounded": BoundedDiagonal(3),
}


@pytest.mark.parametrize("name", POWERS)
def test_a_power_is_the_product_of_equal_factors(name: str) -> None:
    M, n = POWERS[name], 4
    power, product = M**n, Product(*[M] * n)
    rng = np.random.default_rng(0)
    x, a, b = power.random_point(rng), *rng.standard_normal((2, n, *M.shape))
    u, v = power.project(x, a), power.project(x, b)
    y = power.retract(x, 0.1 * v)
    X, U, V, Y = map(tuple, (x, u, v, y))
    assert (power.dim, power.components, power.bounded) == (product.dim, product.components, product.bounded)
    assert power.inner(x, u, v) == pytest.approx(product.inner(X, U, V))
    assert power.feasibility(x + 0.1 * a) == pytest.approx(product.feasibility(tuple(x + 0.1 * a)))
    assert power.longest(x, u) == pytest.approx(product.longest(X, U))
    assert power.pushed_inward(x, a) == pytest.approx(product.pushed_inward(X, tuple(a)))
    for one, other in (
        (power.gradient(x, a), product.gradient(X, tuple(a))),
        (power.hessian(x, a, b, u), product.hessian(X, tuple(a), tuple(b), U)),
        (y, product.retract(X, tuple(0.1 * v))),
        (power.transport(x, y, u), product.transport(X, Y, U)),
        (power.nearest(x + 0.1 * a), product.nearest(tuple(x + 0.1 * a))),
    ):
        np.testing.assert_allclose(one, np.stack(other), atol=1e-12)
    for i in range(min(power.components, 16)):
        np.testing.assert_array_equal(power.to_component(x, i), np.stack(product.to_component(X, i)))


def test_poses_from_marks() -> None:
    """Two poses from noiseless marks: the Kabsch algorithm finds them."""
    rng = np.random.default_rng(0)
    M = SpecialEuclidean(3) ** 2
    R, t = M.random_point(rng)
    marks = rng.standard_normal((10, 3))
    seen = marks @ R.swapaxes(1, 2) + t[:, None]

    def cost(x: Any) -> tuple[float, Any]:
        off = marks @ x[0].swapaxes(1, 2) + x[1][:, None] - seen
        return 0.5 * float(np.vdot(off, off)), (off.swapaxes(1, 2) @ marks, off.sum(axis=1))

    result = ms.minimize(ms.Problem(M, ms.objective(value_and_gradient=cost)), seed=1)
    centred = marks - marks.mean(axis=0)
    best = SpecialOrthogonal(3).nearest((seen - seen.mean(axis=1, keepdims=True)).swapaxes(1, 2) @ centred)
    assert result.success
    np.testing.assert_allclose(result.x[0], best, atol=1e-5)
    np.testing.assert_allclose(result.x[1], t, atol=1e-5)


def test_a_power_of_a_power_and_bad_sizes() -> None:
    assert (Euclidean(3) ** 2) ** 4 == Power(Power(Euclidean(3), 2), 4)
    assert Power(Power(Euclidean(3), 2), 4).shape == (4, 2, 3)
    with pytest.raises(ValueError, match="n must be an integer ≥ 1"):
        Euclidean(3) ** 0
    with pytest.raises(TypeError, match="needs a manifold"):
        Power(3, 2)  # type: ignore[arg-type]


def test_a_product_of_many_equal_factors_shows_the_power() -> None:
    M = SpecialOrthogonal(3)
    assert repr(Product(*[M] * 150)) == (
        "Product(*[SpecialOrthogonal(n=3)] * 150)  # faster: SpecialOrthogonal(n=3) ** 150"
    )
    mixed = Product(Euclidean(2), *[M] * 4, Euclidean(2), names=tuple("abcdef"))
    assert repr(mixed) == (
        "Product(Euclidean(2), *[SpecialOrthogonal(n=3)] * 4, Euclidean(2), names=('a', 'b', 'c', 'd', 'e', 'f'))"
        "  # faster: SpecialOrthogonal(n=3) ** 4"
    )
    for product in (mixed, Product(*[M] * 150), Product(mixed, mixed)):
        assert eval(repr(product), {**vars(ms.manifolds)}) == product


@pytest.mark.parametrize("singular", [np.ones((3, 3)), np.outer([1e100, 1, 0], [1e100, 1, 0]), np.zeros((3, 3))])
def test_a_singular_matrix_in_a_stack_stops_no_other_row(singular: np.ndarray) -> None:
    """A line search of a batch may reach a point that is singular to rounding; NumPy raises for the whole stack."""
    F = ms.manifolds.SymmetricPositiveDefinite(3).frame
    regular = np.diag([1.0, 2.0, 3.0])
    x, c = np.stack([regular, singular]), np.stack([0.1 * np.eye(3)] * 2)
    for move in (F.retract, F.from_frame):
        moved = move(x, c)
        np.testing.assert_allclose(moved[0], move(regular, c[0]), rtol=1e-14)
        np.testing.assert_allclose(moved[1], move(singular, c[1]), rtol=1e-14)
