"""The checkers of manifolds, objectives, kernels and models: each fails on a wrong one, saying where."""

from __future__ import annotations

import dataclasses
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
import scipy.linalg
from core.cases import failing, tree_map
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Objective, hooks, testing
from manifoldseq.manifolds import CanonicalLDS, Euclidean, Product, Stiefel
from manifoldseq.objectives import BlockUpdate, FiniteTerms
from manifoldseq.testing import Report


class Sphere(Stiefel):
    """A manifold to break, one operation at a time."""

    def __init__(self, **broken: Any) -> None:
        super().__init__(5, 2)
        self.__dict__.update(broken)


X, project, retract = Stiefel(5, 2), Stiefel(5, 2).project, Stiefel(5, 2).retract


@parametrize(
    ("broken", "word"),
    [
        ({"project": lambda x, u: u - x @ (x.swapaxes(-1, -2) @ u)}, "dim is the dimension"),
        ({"project": lambda x, u: 0.99 * project(x, u)}, "project is idempotent"),
        ({"retract": lambda x, u, kind=None: retract(x, 1.01 * u)}, "velocity"),
        ({"retract": lambda x, u, kind=None: x + u}, "retraction 'polar' is feasible"),
        ({"transport": lambda x, y, u: u}, "transported vectors are tangent"),
        ({"nearest": lambda x: x}, "nearest is feasible"),
        ({"feasibility": lambda x: 0.0}, "feasibility detects"),
        ({"hessian": lambda x, g, h, u: project(x, h)}, "hessian is the derivative"),
        (
            {"random_point": lambda rng, dtype=float: np.linalg.qr(np.random.default_rng().normal(size=(5, 2)))[0]},
            "same generator",
        ),
        ({"random_point": lambda rng, dtype=float: rng.normal(size=(5, 2))}, "random points are feasible"),
        ({"random_point": lambda rng, dtype=float: X.random_point(rng).T}, "has shape (2, 5)"),
        ({"random_point": lambda rng, dtype=float: X.random_point(rng)}, "another dtype"),
        ({"inner": lambda x, u, v: float(np.sum(u * v))}, "broadcasts"),
        ({"inner": lambda x, u, v: 2 * X.inner(x, u, v)}, "gradient represents the differential"),
        ({"to_component": lambda x, i: x}, "components are distinguished"),
        ({"descent_curve": lambda x, g: lambda t: retract(x, t * project(x, g))}, "descends"),
        ({"free": lambda x, g: np.ones(5, bool)}, "free is None"),
    ],
    fast=3,
)
def test_broken_manifolds_fail(broken: dict[str, Any], word: str) -> None:
    testing.check_manifold(Sphere()).raise_for_failure()
    report = testing.check_manifold(Sphere(**broken))
    assert any(word in str(law) for law in report.failures), report


def test_only_manifolds_are_checked() -> None:
    with pytest.raises(TypeError, match="check_manifold needs a manifold"):
        testing.check_manifold("stiefel")  # type: ignore[arg-type]


DATA = np.random.default_rng(0).standard_normal((8, 3))


def sums(n: int = 8, scale: float = 1.0) -> Objective:
    whole = ms.finite_sum(lambda x, i: anp.sum(anp.sin(anp.dot(DATA[i], x))), n)
    assert whole.terms is not None
    return dataclasses.replace(whole, terms=FiniteTerms(n, lambda i: scale * whole.terms.batch(i)))


class Counting:
    """A cost that depends on how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> float:
        self.calls += 1
        return float(x @ x) + 1e-12 * self.calls


def stale_memo() -> Objective:
    """A memo that takes every point for the first one that it saw twice."""
    seen: list[np.ndarray] = []

    def gradient(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return 2 * (seen[3] if len(seen) > 3 else x)

    return ms.objective(lambda x: float(x @ x), gradient)


def writer(x: np.ndarray) -> float:
    x *= 2
    return float(x @ x)


def test_right_objectives_pass() -> None:
    testing.check_objective((Euclidean(3), sums())).raise_for_failure()
    automatic = ms.objective(lambda x: anp.sum(anp.exp(x[0])) * anp.sum(x[1] ** 3))
    testing.check_objective((Product(Euclidean(2), Stiefel(4, 2)), automatic)).raise_for_failure()
    testing.check_objective((Euclidean(3), Objective(lambda x: float(x @ x)))).raise_for_failure()


@pytest.mark.parametrize(
    ("objective", "word"),
    [
        (ms.objective(Counting(), lambda x: 2 * x), "gives the same value"),
        (stale_memo(), "gives the same value"),
        (ms.objective(writer, lambda x: 2 * x), "read-only"),
        (sums(scale=1.01), "batches average to the full objective"),
        (ms.objective(lambda x: None, lambda x: x), "returned NoneType"),  # type: ignore[arg-type, return-value]
        (
            dataclasses.replace(
                ms.objective(lambda x: float(x @ x), lambda x: 2 * x),
                batched=lambda points, which: (np.sum(points**2, axis=-1), points),
            ),
            "batched equals a loop over points",
        ),
    ],
)
def test_broken_objectives_fail(objective: Objective, word: str) -> None:
    report = testing.check_objective((Euclidean(3), objective))
    assert any(word in str(law) for law in report.failures), report


def updated(apply: Any, factors: tuple[str, ...] = ("U",)) -> ms.Problem:
    A = np.random.default_rng(0).standard_normal((5, 2))
    M = Product(Stiefel(5, 2), Euclidean(3), names=("U", "b"))
    f = ms.objective(lambda x: float(np.sum((x[0] - A) ** 2) + x[1] @ x[1]), lambda x: (2 * (x[0] - A), 2 * x[1]))
    best = scipy.linalg.polar(A)[0]
    return ms.Problem(M, dataclasses.replace(f, updates=(BlockUpdate("polar", factors, lambda x: apply(x, best)),)))


def test_right_updates_pass() -> None:
    testing.check_objective(updated(lambda x, best: (best, x[1]))).raise_for_failure()


@pytest.mark.parametrize(
    ("apply", "word"),
    [
        (lambda x, best: (-best, x[1]), "raised the value"),
        (lambda x, best: (best, 0 * x[1]), "changed the factors ['b']"),
        (lambda x, best: (1.01 * best, x[1]), "left the manifold"),
        (lambda x, best: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_broken_updates_fail(apply: Any, word: str) -> None:
    failing(testing.check_objective(updated(apply)), word)


def test_updates_of_unknown_factors_fail() -> None:
    failing(testing.check_objective(updated(lambda x, best: (best, x[1]), ("W",))), "names the factors ['W']")


def items(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(rng.uniform(-0.9, 0.9) * np.eye(2), CanonicalLDS(4, 2).random_point(rng)[2]) for _ in range(4)]


DOMAIN = hooks.DomainSpec("toy", manifold=CanonicalLDS, to_item=lambda x: (x[0][:, None] * x[1], x[2]), example=items)


def gain(one: Any, two: Any) -> Any:
    (A1, C1), (A2, C2) = one, two
    return anp.sum(anp.dot(anp.dot(C1, A1), C1.T) * anp.dot(anp.dot(C2, A2), C2.T))


def rotated(item: Any) -> Any:
    P = scipy.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    return P.T @ item[0] @ P, item[1] @ P


def check(kernel: Any, **options: Any) -> Report:
    return testing.check_kernel(kernel, domain=DOMAIN, **options)


def test_right_kernels_pass() -> None:
    check(ms.kernel(gain), invariances={"basis": rotated}).raise_for_failure()
    record = hooks.KernelSpec("toy", lambda: ms.kernel(gain), invariances={"basis": rotated})
    testing.check_kernel(record, domain=DOMAIN).raise_for_failure()


class Broken:
    """A kernel object with some of its methods replaced."""

    def __init__(self, **methods: Any) -> None:
        self.inner = ms.kernel(gain)
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


right = ms.kernel(gain)


@parametrize(
    ("kernel", "options", "word"),
    [
        (ms.kernel(lambda a, b: gain(a, b) + 0.1 * anp.sum(a[0])), {}, "symmetric"),
        (ms.kernel(lambda a, b: -gain(a, b)), {}, "positive semidefinite"),
        (right, {"constant_diagonal": True}, "constant diagonal"),
        (right, {"invariances": {"shift": lambda item: (2 * item[0], item[1])}}, "invariant: shift"),
        (Broken(diag=lambda P: 1.1 * right.diag(P)), {}, "diag is the diagonal"),
        (Broken(cross=lambda P, Q: right.cross(P, Q) * (1 + 1e-3 * (len(P) < 4))), {}, "indexed by rows"),
        (Broken(cross=lambda P, Q: right.cross(P, Q) + np.random.rand()), {}, "the same answer twice"),
        (Broken(weighted=lambda x, P, b: right.weighted(x, P, np.abs(b))), {}, "value is sum beta k"),
        (
            Broken(weighted=lambda x, P, b: (right.weighted(x, P, b)[0], _times(right.weighted(x, P, b)[1], 1.01))),
            {},
            "weighted: gradient, factor 'U'",
        ),
        (
            Broken(self_term=lambda x: (right.self_term(x)[0], _times(right.self_term(x)[1], 0.5))),
            {},
            "self_term: gradient",
        ),
        (Broken(self_term=lambda x: (1.0, right.self_term(x)[1])), {}, "self_term: value"),
        (Broken(manifold=lambda m, n, bound: (m, n)), {}, "manifold(m, n, bound)"),
        (Broken(pack=lambda items: right.pack(list(items)[1:])), {}, "packs its items"),
    ],
    fast=3,
)
def test_broken_kernels_fail(kernel: Any, options: dict[str, Any], word: str) -> None:
    report = check(kernel, **options)
    assert any(word in str(law) for law in report.failures), report


def _times(tree: Any, factor: float) -> Any:
    return tree_map(lambda leaf: factor * leaf, tree)


def test_kernels_need_items_and_a_domain() -> None:
    with pytest.raises(ValueError, match="too few for a check"):
        check(right, items=[])
    assert "is not a kernel" in str(testing.check_kernel(object()))
    with pytest.raises(ValueError, match="unknown kernel 'no-such-kernel'"):
        testing.check_kernel("no-such-kernel")


def model(**changes: Any) -> hooks.ModelSpec:
    def build(data: np.ndarray, *, weight: float = 1.0) -> ms.Problem:
        problem = ms.Problem(
            Stiefel(*data.shape),
            weight
            * ms.objective(lambda X: float(np.sum((X - data) ** 2)), changes.pop("gradient", lambda X: 2 * (X - data))),
            {"polar": changes.pop("initializer", lambda problem, rng: scipy.linalg.polar(data)[0])},
        )
        return changes.pop("built", problem)

    return hooks.ModelSpec("toy", build=build, example=lambda rng: rng.standard_normal((5, 2)))


def test_right_models_pass() -> None:
    testing.check_model(model()).raise_for_failure()
    testing.check_model(model(), np.ones((4, 1)), weight=3.0).raise_for_failure()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"built": None}, "build returned NoneType"),
        ({"gradient": lambda X: X}, "objective: gradient"),
        ({"initializer": lambda problem, rng: np.eye(5, 2) * 1.1}, "initializer 'polar' starts on the manifold"),
        ({"initializer": lambda problem, rng: np.eye(2)}, "the point of the initializer 'polar' has shape (2, 2)"),
        (
            {"initializer": lambda problem, rng: problem.manifold.random_point(np.random.default_rng())},
            "draw from rng only",
        ),
    ],
)
def test_broken_models_fail(changes: dict[str, Any], word: str) -> None:
    report = testing.check_model(model(**changes))
    assert any(word in str(law) for law in report.failures), report


def test_models_need_data_or_an_example() -> None:
    with pytest.raises(ValueError, match="has no example: pass data="):
        testing.check_model(hooks.ModelSpec("toy", build=lambda data: None))
    with pytest.raises(TypeError, match=r"needs a manifoldseq.hooks.ModelSpec"):
        testing.check_model(3)  # type: ignore[arg-type]
