"""Sums over shards: the same numbers as one sum over all data, the same bits on every executor."""

from __future__ import annotations

import gc
import itertools
import operator
import pickle
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from core.cases import close
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.execution import Shards, map_ordered, using

SIZES = (3, 7, 2)
BOUNDS = np.cumsum([0, *SIZES])
DATA = np.random.default_rng(5).standard_normal((sum(SIZES), 4))


def rows(start: int, stop: int) -> np.ndarray:
    return DATA[start:stop]


RECIPES = [partial(rows, a, b) for a, b in itertools.pairwise(BOUNDS.tolist())]


def naive(x: np.ndarray, data: np.ndarray) -> float:
    return float(sum(float(np.dot(row, x)) ** 4 for row in data))


def quartic(data: np.ndarray, indices: Any = slice(None), scale: float = 1.0) -> ms.Objective:
    """Sum of (a'x)^4 over some rows, with every derivative and its own mini-batches."""
    chosen = data[indices]

    def fused(x: np.ndarray) -> tuple[float, np.ndarray]:
        inner = chosen @ x
        return scale * float(np.sum(inner**4)), scale * 4 * chosen.T @ inner**3

    def product(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return scale * 12 * chosen.T @ ((chosen @ x) ** 2 * (chosen @ u))

    n = len(data)
    terms = ms.objectives.FiniteTerms(n, lambda i: quartic(data, i, n / len(i)))
    return ms.Objective(lambda x: fused(x)[0], fused, product, terms)


def bits(answer: Any) -> Any:
    return tuple(map(bits, answer)) if isinstance(answer, tuple) else np.asarray(answer).tobytes()


def test_sum_is_that_of_all_the_data() -> None:
    x, u = np.random.default_rng(0).standard_normal((2, 4))
    f = ms.sharded(quartic, RECIPES)
    assert f.value_and_gradient and f.hessian_product
    assert f.value(x) == pytest.approx(naive(x, DATA), rel=1e-13)
    value, gradient = f.value_and_gradient(x)
    assert value == f.value(x)
    h = 1e-6
    slopes = [(naive(x + h * e, DATA) - naive(x - h * e, DATA)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    change = (f.value_and_gradient(x + h * u)[1] - f.value_and_gradient(x - h * u)[1]) / (2 * h)
    np.testing.assert_allclose(f.hessian_product(x, u), change, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("indices", [[0], [2, 3, 11], [11, 0, 5, 5, 4], list(range(12))])
def test_batch_is_the_sum_of_its_terms_scaled_to_all(indices: list[int]) -> None:
    x, u = np.random.default_rng(1).standard_normal((2, 4))
    terms = ms.sharded(quartic, RECIPES).terms
    assert terms is not None and terms.n == len(DATA)
    batch, whole = terms.batch(np.array(indices)), quartic(DATA, indices, len(DATA) / len(indices))
    assert batch.value(x) == pytest.approx(naive(x, DATA[indices]) * len(DATA) / len(indices), rel=1e-13)
    assert batch.value_and_gradient and batch.hessian_product and whole.value_and_gradient and whole.hessian_product
    close(batch.value_and_gradient(x)[1], whole.value_and_gradient(x)[1])
    close(batch.hessian_product(x, u), whole.hessian_product(x, u))


def test_batch_asks_only_the_shards_that_it_falls_into() -> None:
    asked: list[int] = []

    def make(number: int) -> ms.Objective:
        whole = quartic(rows(*RECIPES[number].args))
        assert whole.terms is not None
        batch = whole.terms.batch
        terms = ms.objectives.FiniteTerms(whole.terms.n, lambda i: (asked.append(number), batch(i))[1])
        return ms.Objective(whole.value, whole.value_and_gradient, terms=terms)

    f = ms.sharded(make, [partial(int, k) for k in range(3)])
    assert f.terms is not None
    f.terms.batch(np.array([11, 0, 1])).value(np.ones(4))
    assert asked == [0, 2]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_executor_gives_the_same_bits(workers: int) -> None:
    x, u = np.random.default_rng(2).standard_normal((2, 4))
    f = ms.sharded(quartic, RECIPES)

    def answers(f: Any) -> Any:
        batch = f.terms.batch(np.array([9, 1, 4]))
        return bits((f.value(x), f.value_and_gradient(x), f.hessian_product(x, u), batch.value_and_gradient(x)))

    expected = answers(f)
    with using("threads", workers):
        assert answers(f) == expected
        assert answers(ms.sharded(quartic, RECIPES)) == expected


def test_adds_in_the_order_of_the_recipes_and_in_float64() -> None:
    parts = [1e8, 1.0, -1e8, 0.25]

    def constant(part: float) -> ms.Objective:
        return ms.Objective(lambda x: part, lambda x: (part, np.full_like(x, part)))

    f = ms.sharded(constant, [partial(float, part) for part in parts])
    assert f.value_and_gradient
    value, gradient = f.value_and_gradient(np.zeros(2, np.float32))
    assert value == 1.25
    assert gradient.dtype == np.float32 and gradient.tolist() == [1.25, 1.25]  # float32 would lose the 1
    huge = ms.sharded(constant, [partial(float, part) for part in (0.1, 1e16, 1.0, -1e16)])
    assert huge.value(np.zeros(2)) == ((0.1 + 1e16) + 1.0) - 1e16


def test_tuple_points_and_arithmetic_of_objectives() -> None:
    def linear(scale: float) -> ms.Objective:
        return ms.Objective(
            lambda p: scale * float(p[0].sum() + p[1][0].sum()),
            lambda p: (scale * float(p[0].sum() + p[1][0].sum()), (scale + 0 * p[0], (scale + 0 * p[1][0],))),
        )

    point = (np.ones(2), (np.ones((2, 1)),))
    f = 0.5 * ms.sharded(linear, [partial(float, k) for k in (1, 2, 4)]) + linear(10.0)
    assert f.value_and_gradient
    value, (first, (second,)) = f.value_and_gradient(point)
    assert value == 4 * 13.5 and first.tolist() == [13.5] * 2 and second.tolist() == [[13.5]] * 2
    assert f.terms is None and f.hessian_product is None


def test_sum_has_only_what_every_shard_has() -> None:
    plain = ms.Objective(lambda x: 1.0)
    f = ms.sharded(lambda k: plain if k == 1 else quartic(DATA), [partial(int, k) for k in range(3)])
    assert f.value_and_gradient is None and f.hessian_product is None and f.terms is None
    assert f.value(np.zeros(4)) == 1.0


@parametrize("kind", ["serial", "threads"], fast=1)
def test_shards_are_loaded_once_kept_and_dropped(kind: str) -> None:
    loaded: list[int] = []
    alive: list[weakref.ref[Any]] = []

    class Data:
        pass

    def load(k: int) -> Data:
        data = Data()
        loaded.append(k)
        alive.append(weakref.ref(data))
        return data

    def make(data: Data) -> ms.Objective:
        return ms.Objective(lambda x: float(isinstance(data, Data)), lambda x: (1.0, x))

    with using(kind, 2):
        f = ms.sharded(make, [partial(load, k) for k in range(4)])
        for _ in range(3):
            assert f.value(np.zeros(1)) == 4.0
        assert sorted(loaded) == [0, 1, 2, 3] and all(reference() is not None for reference in alive)
        del f
        gc.collect()
    assert all(reference() is None for reference in alive)


def test_two_threads_that_want_a_shard_load_it_once() -> None:
    loads: list[int] = []
    together = threading.Barrier(2, timeout=20)

    def load() -> int:
        loads.append(1)
        return 7

    shards = Shards([load])

    def ask(_: int) -> int:
        together.wait()
        return shards.here(0)

    with using("threads", 2):
        assert map_ordered(ask, range(2)) == [7, 7]
    assert loads == [1]


def test_shards_pickle_as_recipes() -> None:
    shards = Shards([partial(operator.add, 1, 2), partial(operator.add, 3, 4)])
    assert shards.here(1) == 7
    copy = pickle.loads(pickle.dumps(shards))
    assert len(copy) == 2 and copy._kept == {} and copy.here(1) == 7


def test_minimize_over_a_sharded_sum() -> None:
    """Principal components: the minimum is known from the eigenvalues."""

    def pca(data: np.ndarray) -> ms.Objective:
        return ms.objective(lambda X: -float(np.sum((data @ X) ** 2)), lambda X: -2 * data.T @ (data @ X))

    manifold = ms.manifolds.Stiefel(4, 2)
    expected = -np.linalg.eigvalsh(DATA.T @ DATA)[-2:].sum()
    with using("threads", 2):
        result = ms.minimize(ms.Problem(manifold, ms.sharded(pca, RECIPES)), seed=0)
        assert result.success and result.fun == pytest.approx(expected, rel=1e-9)
        best = ms.minimize(ms.Problem(manifold, ms.sharded(pca, RECIPES)), seed=0, n_starts=3)
    assert best.fun == pytest.approx(expected, rel=1e-9)


def test_failure_to_load_names_the_shard() -> None:
    def load(k: int) -> int:
        if k == 1:
            raise FileNotFoundError("no such file: b.npy")
        return k

    with pytest.raises(FileNotFoundError, match=r"b\.npy") as raised:
        ms.sharded(lambda k: ms.Objective(lambda x: 0.0), [partial(load, 0), partial(load, 1)])
    assert raised.value.__notes__ == ["while loading shard 1"]


@pytest.mark.parametrize(
    ("make", "recipes", "error", "sentence"),
    [
        (quartic, [], ValueError, "there are no recipes"),
        (quartic, ["a.npy"], TypeError, r"recipe 0 is str 'a\.npy', not a function without arguments"),
        (None, RECIPES, TypeError, "make_objective=None is not a function"),
        (lambda data: 1.0, RECIPES, TypeError, "make_objective returned float: it must return an Objective"),
    ],
)
def test_sentences(make: Any, recipes: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        ms.sharded(make, recipes)
