"""Frames, memory of points, and powers: what they must not change."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm, sqrtm

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
    u, F, root = M.random_tangent(x, rng), M.frame, np.real(sqrtm(x))
    assert F is not None
    c = np.linalg.solve(root, np.linalg.solve(root, u).T)
    np.testing.assert_allclose(F.to_frame(x, u), c, atol=1e-12)
    np.testing.assert_allclose(F.retract(x, c), root @ expm(c) @ root, atol=1e-12)


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
    assert {"comes back", "dot product", "hessian"} <= {
        word for word in ("comes back", "dot product", "hessian") if any(word in str(law) for law in report.failures)
    }


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    calls: list[tuple[int, ...]] = []
    eigh = np.linalg.eigh

    def counting(a: Any) -> Any:
        calls.append(a.shape)
        return eigh(a)

    monkeypatch.setattr(np.linalg, "eigh", counting)
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
    ms.minimize(PROBLEM, 10 * np.eye(4))
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


REPEATED: dict[str, Product] = {
    "rotations": Product(*[SpecialOrthogonal(3)] * 5),
    "rotations and translations in turn": Product(*[SpecialOrthogonal(2), Euclidean(2)] * 4, Stiefel(3, 2)),
    "covariances beside weights": Product(*[SymmetricPositiveDefinite(3)] * 4, Simplex(3)),
    "poses": Product(*[SpecialEuclidean(2)] * 4),
    "bounds": Product(*[BoundedDiagonal(2)] * 4, Stiefel(4, 2)),
    "intervals and signs": Product(*[Positive(1)] * 4, *[Orthogonal(1)] * 2),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("axes", [(), (2, 3)])
def test_a_product_of_repeated_factors_is_a_loop_over_them(name: str, axes: tuple[int, ...]) -> None:
    M, rng = REPEATED[name], np.random.default_rng(0)
    many = [M.random_point(rng) for _ in range(int(np.prod(axes)))]
    x = ms.linalg.tree_map(lambda *leaves: np.stack(leaves).reshape(*axes, *leaves[0].shape), *many)
    a, b = (ms.linalg.tree_map(lambda leaf: rng.standard_normal(leaf.shape), x) for _ in range(2))
    factors = list(zip(M.factors, x, a, b, strict=True))
    u = tuple(0.1 * f.project(p, v) if isinstance(p, np.ndarray) else f.project(p, v) for f, p, v, _ in factors)
    y = tuple(f.retract(p, v) for f, p, v in zip(M.factors, x, u, strict=True))

    def equal(got: Any, wanted: Any) -> None:
        assert isinstance(got, tuple) and len(got) == len(M.factors)
        ms.linalg.tree_map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-12, atol=1e-12), got, tuple(wanted))

    equal(M.project(x, a), [f.project(p, v) for f, p, v, _ in factors])
    equal(M.gradient(x, a), [f.gradient(p, v) for f, p, v, _ in factors])
    equal(M.hessian(x, a, b, u), [f.hessian(p, v, w, t) for (f, p, v, w), t in zip(factors, u, strict=True)])
    equal(M.retract(x, u), y)
    for kind in M.retractions:
        equal(
            M.retract(x, u, kind),
            [
                f.retract(p, t, kind if kind in f.retractions else None)
                for (f, p, *_), t in zip(factors, u, strict=True)
            ],
        )
    equal(M.transport(x, y, u), [f.transport(p, q, t) for (f, p, *_), q, t in zip(factors, y, u, strict=True)])
    equal(M.displacement(x, y), [f.displacement(p, q) for (f, p, *_), q in zip(factors, y, strict=True)])
    equal(M.nearest(x), [f.nearest(p) for f, p, *_ in factors])
    equal(M.descent_curve(x, a)(0.1), [f.descent_curve(p, v)(0.1) for f, p, v, _ in factors])
    np.testing.assert_allclose(
        M.inner(x, u, u), sum(f.inner(p, t, t) for (f, p, *_), t in zip(factors, u, strict=True))
    )
    for measure in ("scale", "feasibility"):
        each = [getattr(f, measure)(p) for f, p, *_ in factors]
        wanted = np.min(each, axis=0) if measure == "scale" else np.max(each, axis=0)
        np.testing.assert_allclose(getattr(M, measure)(x), wanted, atol=1e-14)
    np.testing.assert_allclose(M.pushed_inward(x, a), np.max([f.pushed_inward(p, v) for f, p, v, _ in factors], axis=0))
    np.testing.assert_allclose(
        M.longest(x, u), np.min([f.longest(p, t) for (f, p, *_), t in zip(factors, u, strict=True)], axis=0)
    )


def test_repeated_factors_know_their_points(monkeypatch: pytest.MonkeyPatch) -> None:
    M = REPEATED["covariances beside weights"]
    targets = M.random_point(np.random.default_rng(1))

    def both(x: Any) -> tuple[float, Any]:
        value = float(sum(np.sum((p - q) ** 2) for p, q in zip(x, targets, strict=True)))
        return value, tuple(2 * (p - q) for p, q in zip(x, targets, strict=True))

    problem = ms.Problem(M, ms.objective(value_and_gradient=both))
    calls = counted(monkeypatch)
    result = ms.minimize(problem, M.random_point(np.random.default_rng(2)))
    assert result.success and [type(part) for part in result.x] == [np.ndarray] * 5
    for part, target in zip(result.x, targets, strict=True):
        np.testing.assert_allclose(part, target, atol=1e-4)
    assert calls.count((4, 3, 3)) <= 2 * result.nfev + 25  # one of the stacked points and one of the step
    pickle.loads(pickle.dumps(problem.manifold))


def test_parts_of_one_stack_in_another_order_are_not_taken_for_it() -> None:
    M, rng = REPEATED["rotations"], np.random.default_rng(0)
    x = M.random_point(rng)
    u = ms.linalg.tree_map(lambda leaf: 0.1 * leaf, M.random_tangent(x, rng))
    y = M.retract(x, u)
    for other in (y[::-1], (y[0], *y[2:], y[1]), (y[0], *x[1:])):
        got = M.project(other, u)
        for p, q, v in zip(got, other, u, strict=True):
            np.testing.assert_allclose(p, M.factors[0].project(q, v), atol=1e-14)


def test_factors_without_a_hash_stay_apart() -> None:
    class Shifted(Euclidean):
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, offset: float) -> None:
            super().__init__(2)
            object.__setattr__(self, "offset", offset)

        def retract(self, x: Any, u: Any, kind: str | None = None) -> Any:
            return x + u + self.__dict__["offset"]

    M = Product(*[Shifted(k) for k in range(5)])
    moved = M.retract((np.zeros(2),) * 5, (np.ones(2),) * 5)
    np.testing.assert_array_equal(np.stack(moved)[:, 0], [1, 2, 3, 4, 5])


def rotations_and_scales() -> tuple[ms.Problem, Any]:
    """The sum of squared distances to five rotations, four positive numbers, and a vector that is drawn to zero."""
    rng = np.random.default_rng(0)
    M = Product(*[SpecialOrthogonal(3)] * 3, Euclidean(2), *[Positive(1)] * 4, *[SpecialOrthogonal(3)] * 2)
    goal = M.random_point(rng)

    def fused(x: Any) -> tuple[float, Any]:
        assert type(x) is tuple and [leaf.shape for leaf in x] == [leaf.shape for leaf in goal]
        parts = [(k + 1) * (a - b) for k, (a, b) in enumerate(zip(x, goal, strict=True))]
        coupling = float(x[3] @ x[3])
        value = 0.5 * sum(float(np.vdot(p, p)) / (k + 1) for k, p in enumerate(parts)) + 0.5 * coupling
        return value, tuple(p + x[3] if k == 3 else p for k, p in enumerate(parts))

    def product(x: Any, u: Any) -> Any:
        assert type(u) is tuple
        return tuple((k + 1) * v + (v if k == 3 else 0) for k, v in enumerate(u))

    return ms.Problem(M, ms.objective(value_and_gradient=fused, hessian_product=product)), goal


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "gd", "tr"])
def test_runs_on_powers_show_the_points_of_the_product(solver: str, tmp_path: Path) -> None:
    problem, goal = rotations_and_scales()
    M, x0 = problem.manifold, problem.manifold.random_point(np.random.default_rng(1))
    x0 = tuple(
        a if k == 3 or a.ndim == 1 else b @ expm(0.3 * (a - a.T)) for k, (a, b) in enumerate(zip(x0, goal, strict=True))
    )
    points = ms.Recorder()
    result = ms.minimize(problem, x0, solver=solver, observers=[points])
    assert result.success and all(float(M.feasibility(x)) < 1e-12 for x in points.records)
    expected = [0.8 * b if k == 3 else b for k, b in enumerate(goal)]  # ½·4‖x − b‖² + ½‖x‖²
    for a, b in zip(result.x, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    # a resumed run is the uninterrupted one
    for steps in (2, 4):
        part = ms.minimize(problem, x0, solver=solver, max_iter=steps, checkpoint=tmp_path, resume=steps == 4)
    whole = ms.minimize(problem, x0, solver=solver, max_iter=4)
    for a, b in zip(part.x, whole.x, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constraints_and_callables_of_users_beside_powers() -> None:
    problem, goal = rotations_and_scales()
    held = ms.objective(
        lambda x: x[3][0] - 2.0,
        lambda x: (*[np.zeros_like(a) for a in x[:3]], np.array([1.0, 0.0]), *[np.zeros_like(a) for a in x[4:]]),
    )
    result = ms.minimize(dataclasses.replace(problem, equalities=(held,)), goal)
    assert result.success and result.x[3] == pytest.approx([2.0, 0.8 * goal[3][1]], abs=1e-5)
    asked = []

    def identity(given: ms.Problem, x: Any, g: Any) -> Any:
        asked.append((len(x), len(g)))
        return g

    start = tuple(a + 0.5 if k == 3 else a for k, a in enumerate(goal))
    assert ms.minimize(problem, start, solver="lbfgs", options={"precondition": identity}).success
    assert set(asked) == {(10, 10)}
