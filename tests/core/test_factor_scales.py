"""One scale per factor of a product: the unit of a factor does not decide how long a run takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.manifolds import (
    BoundedDiagonal,
    Euclidean,
    Orthogonal,
    Positive,
    Product,
    SpecialEuclidean,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)
from manifoldseq.solvers._precondition import factor_sizes, metric_of_factors, scale_of_entries, with_pair

UNITS = (1e-4, 1.0, 1e4)


def in_unit(problem: tuple[Any, Any, Any], unit: float) -> tuple[ms.Problem, Any]:
    """Return the problem whose second factor is measured in another unit, and its start."""
    manifold, f, (a, b, *rest) = problem

    def fused(x: Any) -> Any:
        value, gradient = f((x[0], unit * x[1], *x[2:]))
        return value, (gradient[0], unit * gradient[1], *gradient[2:])

    return ms.Problem(manifold, ms.objective(value_and_gradient=fused)), (a, b / unit, *rest)


def weighted_pca(seed: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = 3 * rng.standard_normal((60, 4)) @ rng.standard_normal((4, 80)) + rng.standard_normal((60, 80))
    W = rng.random((60, 80))
    manifold = Product(Stiefel(60, 4), Euclidean(4, 80))

    def f(x: Any) -> Any:
        E = x[0] @ x[1] - X
        return 0.5 * float((W * E * E).sum()), ((W * E) @ x[1].T, x[0].T @ (W * E))

    return manifold, f, manifold.random_point(rng)


def registration(seed: int = 5) -> tuple[Any, Any, Any]:
    """A rotation, an offset and a scale between two sets of points, a tenth of them outliers."""
    rng = np.random.default_rng(seed)
    P, rotations = rng.standard_normal((200, 5)), Orthogonal(5)
    Q = rotations.random_point(rng)
    q = 2 * P @ Q.T + 5 * rng.standard_normal(5) + 0.1 * rng.standard_normal((200, 5))
    q[:20] += 10 * rng.standard_normal((20, 5))
    start = rotations.retract(Q, rotations.project(Q, 0.5 * rng.standard_normal((5, 5))))

    def f(x: Any) -> Any:
        E = x[2][0] * P @ x[0].T + x[1] - q
        z = np.sqrt(1 + (E * E).sum(axis=1))
        G = E / z[:, None]
        return float(z.sum()), (x[2][0] * G.T @ P, G.sum(axis=0), np.array([(G * (P @ x[0].T)).sum()]))

    return Product(rotations, Euclidean(5), Positive(1)), f, (start, np.zeros(5), np.ones(1))


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "tr"])
@pytest.mark.parametrize("made", [weighted_pca, registration])
def test_the_unit_of_a_factor_does_not_decide(made: Any, solver: str) -> None:
    """With one scale for all factors the worst unit took 7 to 50 times the evaluations of the best."""
    units = (1e-2, 1.0, 1e2) if solver == "bb" else UNITS
    results = [ms.minimize(*in_unit(made(), unit), solver=solver, max_iter=1000) for unit in units]
    assert all(result.success for result in results)
    evaluations = [result.nfev + result.nhev for result in results]
    assert max(evaluations) <= 4 * min(evaluations), evaluations
    values = [result.fun for result in results]
    np.testing.assert_allclose(values, min(values), rtol=1e-8)


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "bb"])
def test_far_starts_of_a_normal_distribution(solver: str) -> None:
    """The curvatures of mean and covariance differ by 1e6; L-BFGS with its first pairs solved none."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3)) @ np.array([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, -0.2, 0.3]]) + 2.0
    centre, S = X.mean(axis=0), np.cov(X.T, bias=True)

    def fused(x: Any) -> Any:
        C, m = x
        P, off = np.linalg.inv(C), centre - m
        scatter = S + np.outer(off, off)
        value = 0.5 * float(np.linalg.slogdet(C)[1] + np.vdot(P, scatter))
        return value, (0.5 * (P - P @ scatter @ P), -P @ off)

    problem = ms.Problem(Product(SymmetricPositiveDefinite(3), Euclidean(3)), ms.objective(value_and_gradient=fused))
    lowest = 0.5 * (np.linalg.slogdet(S)[1] + 3)
    for _ in range(8):
        start = 1e6 * np.eye(3), 1e6 * rng.standard_normal(3)
        # steps of bb need not descend: one of eight starts has taken 2,600
        result = ms.minimize(problem, start, solver=solver, max_iter=4000 if solver == "bb" else 500)
        assert result.success and result.fun == pytest.approx(lowest, abs=1e-8), result


def test_steps_along_negative_curvature_become_longer() -> None:
    """Where no pair has positive curvature, equal steps took 152 evaluations."""
    problem, start = in_unit(registration(0), 1e4)
    assert ms.minimize(problem, start, solver="lbfgs").nfev <= 100


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg"])
def test_rows_have_scales_of_their_own(solver: str) -> None:
    """Twelve problems in twelve units, together and one by one."""
    rng, units = np.random.default_rng(0), np.logspace(-3, 3, 12)
    manifold = Product(Sphere(5), Euclidean(4))
    A, t = rng.standard_normal((12, 30, 9)), rng.standard_normal((12, 30))

    def batched(x: Any, which: np.ndarray) -> Any:
        u = units[which][:, None]
        J = np.concatenate((A[which][:, :, :5], A[which][:, :, 5:] * u[:, :, None]), axis=2)
        r = np.einsum("kij,kj->ki", J, np.concatenate(x, axis=1)) - t[which]
        g = np.einsum("kij,ki->kj", J, r)
        return 0.5 * (r * r).sum(axis=1), (g[:, :5], g[:, 5:])

    def one(k: int) -> ms.Problem:
        def fused(x: Any) -> Any:
            values, (a, b) = batched(tuple(leaf[None] for leaf in x), np.array([k]))
            return float(values[0]), (a[0], b[0])

        return ms.Problem(manifold, ms.objective(value_and_gradient=fused))

    starts = [manifold.random_point(rng) for _ in units]
    together = ms.minimize_batch(
        ms.Problem(manifold, ms.objective(batched=batched)),
        tuple(np.stack(parts) for parts in zip(*starts, strict=True)),
        solver=solver,
    )
    alone = [ms.minimize(one(k), start, solver=solver) for k, start in enumerate(starts)]
    assert together.success.all() and all(result.success for result in alone)
    assert sum(int(a.nit != b) for a, b in zip(alone, together.nit, strict=True)) <= 2
    np.testing.assert_allclose(together.fun, [result.fun for result in alone], rtol=1e-6)


def test_the_factors_of_products_and_powers() -> None:
    nested = Product(Product(Stiefel(4, 2), Euclidean(3)), SpecialOrthogonal(3) ** 5, Positive(2))
    assert factor_sizes(nested) == (8, 3, 45, 2)
    assert factor_sizes(SpecialEuclidean(3) ** 4) == (36, 12)
    assert factor_sizes(Stiefel(4, 2)) == factor_sizes(Sphere(3) ** 4) == ()


@pytest.mark.parametrize("manifold", [Product(Stiefel(4, 2), Euclidean(3)), Product(Positive(3), Stiefel(4, 2))])
def test_scales_are_those_of_a_loop(manifold: Any) -> None:
    """Σ⟨s, y⟩/Σ⟨y, y⟩ of every factor, in the metric, each pair divided by its ⟨s, y⟩ over all factors."""
    rng = np.random.default_rng(3)
    x = manifold.random_point(rng)
    problem = ms.Problem(manifold, lambda x: 0.0)
    at = ms.solvers.evaluate(ms.Problem(manifold, lambda x: 0.0, gradient=lambda x: x), x)
    kept = {"scales": np.ones(4), "steps": 100}
    sums = np.ones((2, 2))
    for _ in range(5):
        s = manifold.random_tangent(x, rng)
        y = tuple(c * part for c, part in zip(rng.random(2) + 0.1, s, strict=True))
        parts = np.array(
            [
                [factor.inner(a, u, v) for factor, a, u, v in zip(manifold.factors, x, first, y, strict=True)]
                for first in (s, y)
            ]
        )
        sums = 0.8 * sums + parts / parts[0].sum()
        kept = with_pair(problem, at, [ms.linalg.flatten(u) for u in (s, y)], kept)
    scale = scale_of_entries(problem, kept, np.float64)
    np.testing.assert_allclose(scale, np.repeat(sums[0] / sums[1], factor_sizes(manifold)), rtol=1e-12)


def test_bounds_that_hold_a_factor() -> None:
    """A factor that lies on its bounds says nothing about its scale; the others go on."""
    manifold = Product(Sphere(6), BoundedDiagonal(3, 0.5))
    A = np.diag(np.arange(1.0, 7))

    def f(x: Any) -> Any:
        return 0.5 * x[0] @ A @ x[0] - 1e3 * x[1].sum(), (A @ x[0], np.full(3, -1e3))

    problem = ms.Problem(manifold, ms.objective(value_and_gradient=f))
    for solver in ("lbfgs", "bb", "cg", "tr"):
        result = ms.minimize(problem, manifold.random_point(np.random.default_rng(0)), solver=solver)
        assert result.success and result.fun == pytest.approx(0.5 - 1.5e3, rel=1e-9)


def test_a_preconditioner_of_the_trust_region() -> None:
    """With the inverse Hessian as preconditioner one product solves each step; without, one per eigenvalue."""
    scales = np.logspace(0, 6, 40)
    f = ms.objective(
        value_and_gradient=lambda x: (
            1 + 0.5 * float(scales @ (x * x)) + 0.25 * float((x**4).sum()),
            scales * x + x**3,
        ),
        hessian_product=lambda x, u: (scales + 3 * x * x) * u,
    )
    problem = ms.Problem(Euclidean(40), f)
    plain, helped = (
        ms.minimize(problem, np.ones(40), solver=ms.solvers.TR(precondition=p))
        for p in (None, lambda problem, x, g: g / (scales + 3 * x * x))
    )
    assert plain.success and helped.success and helped.nhev * 4 < plain.nhev
    np.testing.assert_allclose(helped.x, 0, atol=1e-3)
    with pytest.raises(TypeError, match=r"TR\(precondition=3\): pass a function"):
        ms.solvers.TR(precondition=3)  # type: ignore[arg-type]


def test_the_metric_of_bb_changes_rarely() -> None:
    rng = np.random.default_rng(0)
    metric, changed = np.ones((2, 3)), []
    for steps in range(1, 201):
        sums = np.concatenate([10.0 ** rng.uniform(-6, 6, (2, 3)), np.ones((2, 3))], axis=1)
        new = metric_of_factors({"scales": sums, "steps": np.array([steps, 3])}, metric)
        assert (new[1] == 1).all()
        changed += [steps] if (new != metric).any() else []
        metric = new
    assert changed == [5, 10, 20, 40, 80, 160]


def test_the_metric_of_bb_does_not_depend_on_the_unit_of_the_objective() -> None:
    """It is relative: an absolute power of 16 changes back and forth where the scales are near 4."""
    rng = np.random.default_rng(0)
    M = Product(Euclidean(6), Euclidean(4))
    A = np.diag(np.geomspace(0.02, 1.0, 10)) + 0.01 * np.ones((10, 10))
    start = M.random_point(rng)

    def run(unit: float) -> ms.Result:
        def cost(x: tuple[np.ndarray, np.ndarray]) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
            z = np.concatenate(x)
            g = unit * (A @ z + 0.1 * z**3)
            return unit * float(0.5 * z @ A @ z + 0.025 * (z**4).sum()), (g[:6], g[6:])

        problem = ms.Problem(M, ms.objective(value_and_gradient=cost))
        return ms.minimize(problem, start, solver="bb", stop=ms.GradientNorm(1e-9, relative=True))

    counts = [run(2.0**k).nfev for k in range(-4, 5)]
    assert len(set(counts)) == 1, counts
