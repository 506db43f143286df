"""Objectives: differentiation, sums, scalings, batches, memo, and sentences for authors."""

from __future__ import annotations

import dataclasses
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from core.cases import close, leaves

import manifoldseq as ms
from manifoldseq import Objective
from manifoldseq.manifolds import Euclidean, Stiefel
from manifoldseq.objectives import BlockUpdate, Counter, FiniteTerms, last_point

S = np.random.default_rng(0).standard_normal((4, 4))
S = S + S.T


def analytic() -> Objective:
    return ms.objective(
        lambda X: float(np.sum(X * (S @ X))), lambda X: 2 * S @ X, hessian_product=lambda X, U: 2 * S @ U
    )


def automatic() -> Objective:
    return ms.objective(lambda X: anp.sum(X * anp.dot(S, X)))


def point(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((4, 2))


def test_building() -> None:
    fused = ms.objective(value_and_gradient=lambda x: (float(x @ x), 2 * x))
    assert fused.value(np.ones(3)) == 3.0 and fused.hessian_product is None
    decorated = ms.objective(lambda x: anp.sum(x**2))
    assert isinstance(decorated, Objective)

    @ms.objective
    def cube(x: Any) -> Any:
        return anp.sum(x**3)

    assert cube.value_and_gradient(np.ones(2))[1].tolist() == [3, 3]  # type: ignore[misc]
    with pytest.raises(TypeError, match="needs a cost, value_and_gradient or batched"):
        ms.objective()
    with pytest.raises(ValueError, match="unknown backend 'tensorflow'"):
        ms.objective(lambda x: 0.0, backend="tensorflow")
    with pytest.raises(TypeError, match="must be a function of the point"):
        Objective(3.0)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        cube.value = None  # type: ignore[misc, assignment]


@pytest.mark.parametrize(
    ("combine", "factors"),
    [
        (lambda f, g: f + g, (1, 1)),
        (lambda f, g: f - g, (1, -1)),
        (lambda f, g: 2 * f + g * 0.5, (2, 0.5)),
        (lambda f, g: -(f + 3 * g), (-1, -3)),
        (lambda f, g: f + f + g, (2, 1)),
    ],
)
def test_sums_and_scalings(combine: Any, factors: tuple[float, float]) -> None:
    f, g = analytic(), ms.objective(lambda X: anp.sum(anp.cos(X)))
    X, U = point(), point(2)
    a, b = factors
    h = combine(f, g)
    assert h.value(X) == pytest.approx(a * f.value(X) + b * g.value(X))
    fun, gradient = h.value_and_gradient(X)
    assert fun == pytest.approx(h.value(X))
    close(gradient, a * 2 * S @ X - b * np.sin(X))
    close(h.hessian_product(X, U), a * 2 * S @ U - b * np.cos(X) * U)
    ms.testing.check_objective((Stiefel(4, 2), h)).raise_for_failure()


def test_a_sum_has_the_abilities_of_both_and_drops_updates() -> None:
    update = BlockUpdate("still", (), lambda x: x)
    f = dataclasses.replace(analytic(), updates=(update,))
    plain = Objective(lambda X: 0.0)
    assert (f + plain).value_and_gradient is None and (f + plain).hessian_product is None
    assert (f + f).updates == () and (2 * f).updates == (update,) and (-f).updates == ()
    with pytest.raises(TypeError):
        f + 3  # type: ignore[operator]


def data_term(n: int = 7) -> Objective:
    data = np.random.default_rng(0).standard_normal((n, 3))
    return ms.finite_sum(lambda x, i: anp.sum(anp.sin(anp.dot(data[i], x))), n)


@pytest.mark.parametrize(
    "make",
    [
        data_term,
        lambda: 2 * data_term(),
        lambda: data_term() + ms.objective(lambda x: anp.sum(x**2)),
        lambda: ms.objective(lambda x: anp.sum(x**2)) - data_term(),
        lambda: data_term() + data_term(),
    ],
)
def test_batches_average_to_the_whole(make: Any) -> None:
    f = make()
    assert f.terms is not None and f.terms.n == 7
    x = np.array([0.3, -0.2, 0.5])
    singles = [f.terms.batch(np.array([i])) for i in range(7)]
    assert np.mean([batch.value(x) for batch in singles]) == pytest.approx(f.value(x))
    close(np.mean([batch.value_and_gradient(x)[1] for batch in singles], axis=0), f.value_and_gradient(x)[1])
    pairs = [f.terms.batch(np.array([i, j])) for i in range(7) for j in range(7) if i != j]
    assert np.mean([batch.value(x) for batch in pairs]) == pytest.approx(f.value(x))
    ms.testing.check_objective((Euclidean(3), f)).raise_for_failure()


def test_finite_sums_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one term"):
        ms.finite_sum(lambda x, i: 0.0, 0)
    with pytest.raises(ValueError, match="sums of 7 and 5 terms"):
        data_term(7) + data_term(5)


def test_the_last_point_is_remembered_by_identity() -> None:
    calls: list[Any] = []

    @last_point
    def forward(x: Any) -> float:
        """Sum up."""
        calls.append(x)
        return float(x.sum())

    x, y = np.ones(3), np.ones(3)
    assert [forward(x), forward(x), forward(y), forward(y), forward(x)] == [3.0] * 5
    assert [call is x for call in calls] == [True, False, True]
    assert forward.__name__ == "forward" and forward.__doc__ == "Sum up."
    pair = (x, y)
    assert last_point(lambda t: t[0][0] + t[1][0])(pair) == 2.0


def test_the_last_point_survives_an_exception() -> None:
    fails = True

    @last_point
    def forward(x: Any) -> float:
        if fails:
            raise ZeroDivisionError
        return 1.0

    x = np.ones(1)
    with pytest.raises(ZeroDivisionError):
        forward(x)
    fails = False
    assert forward(x) == 1.0


def test_one_forward_pass_per_iterate_with_the_memo() -> None:
    passes: list[int] = []

    @last_point
    def forward(x: np.ndarray) -> np.ndarray:
        passes.append(1)
        return S @ x

    f = ms.objective(lambda x: float(np.sum(x * forward(x))), lambda x: 2 * forward(x))
    result = ms.minimize(ms.Problem(Stiefel(4, 2), f), seed=0)
    assert len(passes) == result.nfev


def test_counting_at_the_boundary() -> None:
    counter = Counter()
    f = counter.wrap(dataclasses.replace(analytic(), terms=FiniteTerms(8, lambda i: analytic())))
    X = point()
    f.value(X)
    f.value_and_gradient(X)  # type: ignore[misc]
    f.hessian_product(X, X)  # type: ignore[misc]
    assert f.terms is not None
    f.terms.batch(np.arange(2)).value_and_gradient(X)  # type: ignore[misc]
    assert counter.take() == (2.25, 1.25, 1.0)
    assert counter.take() == (0, 0, 0)
    assert not X.flags.writeable


def test_boundary_brings_integer_and_list_gradients_to_the_dtype_of_the_point() -> None:
    f = Counter().wrap(Objective(lambda x: 1, lambda x: (np.int64(1), [1, 2])))
    for dtype in (np.float32, np.float64):
        fun, gradient = f.value_and_gradient(np.ones(2, dtype))  # type: ignore[misc]
        assert type(fun) is float and gradient.dtype == dtype
    assert all(leaf.flags.c_contiguous for leaf in leaves(gradient))


def test_args_are_a_tuple_of_a_cost_that_is_differentiated() -> None:
    with pytest.raises(TypeError, match=r"ms.objective\(args=\[1.0\]\): pass a tuple of further arguments"):
        ms.objective(lambda x, a: ((x - a) ** 2).sum(), args=[1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"bind the data to the functions with functools\.partial"):
        ms.objective(lambda x, a: ((x - a) ** 2).sum(), lambda x, a: 2 * (x - a), args=(1.0,))
