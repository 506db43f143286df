"""L-BFGS where the metric is not that of the surrounding space: known optima, from starts near and far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pymanopt
import pytest
from core.cases import close, leaves
from core.test_manifold_problems import boxed
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import (
    Euclidean,
    Manifold,
    OpenBox,
    Positive,
    Product,
    Simplex,
    Stiefel,
    SymmetricPositiveDefinite,
)
from manifoldseq.solvers import LBFGS, evaluate, inner_product

Made = tuple[ms.Problem, Any, Any]


def with_eigenvalues(values: Any, rng: np.random.Generator) -> np.ndarray:
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (Q * np.asarray(values)) @ Q.T


def logarithms(manifold: Manifold, seed: int) -> Made:
    """A quadratic of log x with condition number 1000, from up to a thousand times too large or small."""
    rng = np.random.default_rng(seed)
    H, best = with_eigenvalues(np.geomspace(1, 1000, 8), rng), rng.uniform(-2, 2, 8)

    def fused(x: np.ndarray) -> tuple[float, np.ndarray]:
        z = np.log(x).ravel() - best
        return 1 + 0.5 * float(z @ H @ z), (H @ z).reshape(x.shape) / x

    start = 10 ** rng.uniform(-3, 3, manifold.shape)
    return ms.Problem(manifold, ms.objective(value_and_gradient=fused)), start, np.exp(best).reshape(manifold.shape)


def likelihood(manifold: Manifold, seed: int, start: float = 1.0) -> Made:
    """The covariance of most likelihood is that of the data, here with eigenvalues from 0.01 to 100."""
    C = with_eigenvalues(np.geomspace(0.01, 100, 5), np.random.default_rng(seed))

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        sign, size = np.linalg.slogdet(X)
        if not sign > 0:
            return np.inf, np.full_like(X, np.nan)
        P = np.linalg.inv(X)
        return float(size + np.sum(P * C)), P - P @ C @ P

    return ms.Problem(manifold, ms.objective(value_and_gradient=fused)), start * np.eye(5), C


def karcher(seed: int) -> Made:
    """The mean of commuting matrices is the geometric one, in their common basis."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    logs = rng.uniform(-4, 4, (5, 4))
    ends = [(Q * np.exp(z)) @ Q.T for z in logs]

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        w, V = np.linalg.eigh(X)
        if not w[0] > 0:
            return np.inf, np.full_like(X, np.nan)
        half = (V / np.sqrt(w)) @ V.T
        value, gradient = 0.0, np.zeros_like(X)
        for end in ends:
            v, W = np.linalg.eigh(half @ end @ half)
            value += 0.5 * float(np.sum(np.log(v) ** 2))
            gradient -= half @ (W * np.log(v)) @ W.T @ half
        return value, gradient

    manifold = SymmetricPositiveDefinite(4)
    best = (Q * np.exp(logs.mean(axis=0))) @ Q.T
    return ms.Problem(manifold, ms.objective(value_and_gradient=fused)), np.diag([1e3, 1.0, 1.0, 1e-2]), best


def mixture_weights(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    A, best = rng.standard_normal((20, 6)), rng.dirichlet(np.full(6, 5.0))
    f = ms.objective(lambda x: 0.5 * float(np.sum((A @ (x - best)) ** 2)), lambda x: A.T @ (A @ (x - best)))
    return ms.Problem(Simplex(6), f), np.full(6, 1 / 6), best


def on_a_bound(seed: int) -> Made:
    problem, best = boxed(True, OpenBox, seed)
    return problem, np.zeros(10), best


def scaled_mean(seed: int) -> Made:
    """A product of three metrics, one of them embedded."""
    rng = np.random.default_rng(seed)
    covariance, X0, C = likelihood(SymmetricPositiveDefinite(5), seed)
    scales, _, s = logarithms(Positive(8), seed)
    m = rng.standard_normal(3)

    def fused(point: Any) -> tuple[float, Any]:
        X, (x, mean) = point
        one, a = covariance.objective.value_and_gradient(X)  # type: ignore[misc]
        two, b = scales.objective.value_and_gradient(x)  # type: ignore[misc]
        return one + two + float(np.sum((mean - m) ** 2)), (a, (b, 2 * (mean - m)))

    manifold = Product(SymmetricPositiveDefinite(5), Product(Positive(8), Euclidean(3)))
    start, best = (X0, (np.ones(8), np.zeros(3))), (C, (s, m))
    return ms.Problem(manifold, ms.objective(value_and_gradient=fused)), start, best


THEIRS = pymanopt.manifolds
CASES: dict[str, tuple[Callable[[int], Made], int]] = {  # with a limit of iterations
    "positive": (lambda seed: logarithms(Positive(8), seed), 90),
    "pymanopt's positive": (lambda seed: logarithms(ms.from_pymanopt(THEIRS.Positive(8, 1)), seed), 150),
    "likelihood": (lambda seed: likelihood(SymmetricPositiveDefinite(5), seed), 25),
    "likelihood from afar": (lambda seed: likelihood(SymmetricPositiveDefinite(5), seed, 1e-6), 50),
    "pymanopt's likelihood": (lambda seed: likelihood(ms.from_pymanopt(THEIRS.SymmetricPositiveDefinite(5)), seed), 40),
    "karcher": (karcher, 30),
    "simplex": (mixture_weights, 40),
    "open-box": (on_a_bound, 80),
    "product": (scaled_mean, 200),
}


@parametrize(("seed", "line_search"), [(0, "armijo"), (1, "armijo"), (2, "armijo"), (2, "wolfe")], fast=1)
@pytest.mark.parametrize("name", CASES)
def test_known_optima_are_found_in_few_iterations(name: str, seed: int, line_search: str) -> None:
    made, limit = CASES[name]
    problem, start, best = made(seed)
    stop = ms.GradientNorm(1e-5) | ms.MaxIterations(limit)
    result = ms.minimize(problem, start, solver=LBFGS(line_search=line_search), stop=stop)
    assert result.success, result
    close(result.x, best, rtol=2e-4, atol=1e-4)
    if line_search == "armijo" and "afar" not in name:
        again = ms.minimize(problem, start, solver="tr", stop=ms.GradientNorm(1e-5) | ms.MaxIterations(100))
        assert result.fun <= again.fun + 1e-9 * max(1.0, abs(again.fun))


def test_pairs_are_those_of_a_loop() -> None:
    """Step and change of the gradient of every kept pair, transported one by one to the new point."""
    M = Product(Positive(3), SymmetricPositiveDefinite(2), Stiefel(4, 2))
    rng = np.random.default_rng(0)
    goal, start = M.random_point(rng), M.random_point(rng)

    def fused(x: Any) -> tuple[float, Any]:
        off = tuple(a - b for a, b in zip(x, goal, strict=True))
        return 0.5 * sum(float(np.sum(part**2)) for part in off), off

    problem, solver = ms.Problem(M, ms.objective(value_and_gradient=fused)), LBFGS(memory=2)
    state, _ = solver.init(problem, start)
    for _ in range(4):
        last, (state, _) = state, solver.step(problem, state)
        new, dot = evaluate(problem, state["x"]), inner_product(problem, state["x"])
        known = last["pairs"][-1:]
        assert len(state["pairs"]) == len(known) + 1
        for (s, y, *_), (s2, y2, sy, gamma) in zip(known, state["pairs"][:-1], strict=True):
            close(s2, carried(M, last["x"], state["x"], s))
            close(y2, carried(M, last["x"], state["x"], y))
            assert sy == pytest.approx(dot(s2, y2)) and gamma == pytest.approx(sy / dot(y2, y2))
        close(state["pairs"][-1][1], new.grad - carried(M, last["x"], state["x"], last["grad"]))


def carried(M: Any, x: Any, y: Any, flat: np.ndarray) -> np.ndarray:
    """Return a vector transported factor by factor; that of the embedded factor stays."""
    parts, first = [], 0
    for k, (factor, leaf, other) in enumerate(zip(M.factors, leaves(x), leaves(y), strict=True)):
        u = flat[first : first + leaf.size].reshape(leaf.shape)
        parts.append((factor.transport(leaf, other, u) if k < 2 else u).ravel())
        first += leaf.size
    return np.concatenate(parts)


@pytest.mark.parametrize("solver", ["lbfgs", "bb", "cg", "gd", "tr"])
@pytest.mark.parametrize("size", [1e-8, 1e150])
def test_steps_out_of_range_only_shorten(solver: str, size: float) -> None:
    """From where squares of the point leave the range of numbers; a warning would be an error."""

    def fused(x: np.ndarray) -> tuple[float, np.ndarray]:
        z = np.log(x / size)
        return float(np.cosh(np.minimum(z, 700.0)).sum()) if np.all(z < 700) else np.inf, np.sinh(
            np.minimum(z, 700)
        ) / x

    problem = ms.Problem(Positive(3), ms.objective(value_and_gradient=fused))
    start = size * np.exp([20.0, -15.0, 5.0])
    result = ms.minimize(problem, start, solver=solver, stop=ms.GradientNorm(1e-6) | ms.MaxIterations(200))
    assert result.status is Status.CONVERGED, result
    close(result.x / size, np.ones(3), atol=1e-5)


def test_one_point_goes_with_many_vectors_where_the_manifold_says_so() -> None:
    class Logarithms(Positive):
        """As a stranger writes it: without a frame, and with a point for every vector or one for all."""

        frame = None  # type: ignore[assignment]
        points: ClassVar[set[tuple[int, ...]]]

        def inner(self, x: Any, u: Any, v: Any) -> Any:
            self.points.add(x.shape)
            return super().inner(x, u, v)

        def transport(self, x: Any, y: Any, u: Any) -> Any:
            self.points |= {x.shape, y.shape}
            return super().transport(x, y, u)

    class Repeated(Logarithms):
        one_base = False
        points: ClassVar[set[tuple[int, ...]]] = set()

    class Once(Logarithms):
        points: ClassVar[set[tuple[int, ...]]] = set()

    runs = []
    for manifold in Repeated(8), Once(8):
        problem, start, best = logarithms(manifold, 0)
        runs.append(ms.minimize(problem, start, solver="lbfgs"))
        np.testing.assert_allclose(runs[-1].x, best, rtol=1e-4)
    np.testing.assert_array_equal(runs[0].history["fun"], runs[1].history["fun"])
    assert Once.points == {(8,)} and {shape[-1:] for shape in Repeated.points} == {(8,)} and (10, 8) in Repeated.points
