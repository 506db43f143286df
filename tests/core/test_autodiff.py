"""Derivatives by autograd, jax and torch: against differences and each other, on every kind of point."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from core.cases import close, leaves, random_like, tree_map

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Product, Sphere, Stiefel

S = np.random.default_rng(0).standard_normal((5, 5))
DATA = np.random.default_rng(1).standard_normal((7, 3))
POINT = Product(Product(Stiefel(5, 2), Euclidean(3), names=("U", "b")), Euclidean(2), names=("pair", "c"))


def library(backend: str) -> SimpleNamespace:
    """Return how to write the tests' costs with a backend; skip where it is missing."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if backend == "torch":
        import torch

        return SimpleNamespace(np=torch, array=torch.tensor)
    return SimpleNamespace(np=importlib.import_module(f"{backend}.numpy"), array=np.asarray)


BACKENDS = ["autograd", pytest.param("jax", marks=pytest.mark.slow), pytest.param("torch", marks=pytest.mark.slow)]


def nested(lib: SimpleNamespace) -> Any:
    sym = lib.array(S)

    def cost(x: Any) -> Any:
        (U, b), c = x
        return lib.np.sum(U * (sym @ U)) * lib.np.sum(lib.np.sin(b)) + lib.np.sum(c**3) * b[0]

    return cost


def by_numpy(x: Any) -> float:
    return float(nested(SimpleNamespace(np=np, array=np.asarray))(x))


def moved(x: Any, u: Any, t: float) -> Any:
    return tree_map(lambda a, b: a + t * b, x, u)


def inner(a: Any, b: Any) -> float:
    return float(sum(np.sum(p * q) for p, q in zip(leaves(a), leaves(b), strict=True)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_against_differences(backend: str) -> None:
    f = ms.objective(nested(library(backend)), backend=backend)
    rng = np.random.default_rng(0)
    x = POINT.random_point(rng)
    for leaf in leaves(x):
        leaf.flags.writeable = False
    u, v = random_like(x, rng), random_like(x, rng)
    assert f.value_and_gradient is not None and f.hessian_product is not None
    value, gradient = f.value_and_gradient(x)
    assert type(value) is float and value == pytest.approx(by_numpy(x)) == pytest.approx(f.value(x))
    h = 1e-5
    along = (by_numpy(moved(x, u, h)) - by_numpy(moved(x, u, -h))) / (2 * h)
    assert inner(gradient, u) == pytest.approx(along, rel=1e-7, abs=1e-7)
    ahead, behind = (f.value_and_gradient(moved(x, u, t))[1] for t in (h, -h))
    difference = tree_map(lambda a, b: (a - b) / (2 * h), ahead, behind)
    product = f.hessian_product(x, u)
    close(product, difference, rtol=1e-6, atol=1e-6)
    assert inner(product, v) == pytest.approx(inner(f.hessian_product(x, v), u))
    assert isinstance(product, tuple) and isinstance(product[0], tuple)


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_laws_hold_and_solvers_agree(backend: str) -> None:
    lib = library(backend)
    sym = lib.array(S + S.T)
    own = {"dtype": "float64"} if backend == "torch" else {}
    f = ms.objective(lambda X: -lib.np.sum(X * (sym @ X)) / 2, backend=backend, **own)  # type: ignore[arg-type]
    problem = ms.Problem(Stiefel(5, 2), f)
    ms.testing.check_objective(problem).raise_for_failure()
    best = -np.linalg.eigvalsh(S + S.T)[-2:].sum() / 2
    for solver in ("lbfgs", "tr"):
        assert ms.minimize(problem, seed=0, solver=solver).fun == pytest.approx(best)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_dtype_of_the_point_is_kept(backend: str) -> None:
    lib = library(backend)
    f = ms.objective(lambda x: lib.np.sum(x**3), backend=backend)
    assert f.value_and_gradient is not None and f.hessian_product is not None
    for dtype in (np.float32, np.float64):
        x = np.array([0.1, 0.7], dtype)
        fun, gradient = f.value_and_gradient(x)
        assert type(fun) is float and gradient.dtype == dtype
        assert f.hessian_product(x, np.ones(2)).dtype == dtype
        close(gradient, 3 * x**2, rtol=1e-6)
    assert abs(f.value(np.array([0.1, 0.7])) - 0.344) < 1e-15  # double precision, whatever jax's flag says


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_scalings_batches_and_linear_costs(backend: str) -> None:
    lib = library(backend)

    def cost(x: Any, i: Any) -> Any:
        data = lib.np.asarray(DATA) if backend == "jax" else lib.array(DATA)
        return lib.np.sum(lib.np.sin(data[i] @ x))

    f = ms.finite_sum(cost, 7, backend=backend)
    g = 2 * f - 0.5 * ms.objective(lambda x: lib.np.sum(x), backend=backend)
    x, u = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    assert g.terms is not None and g.hessian_product is not None and g.value_and_gradient is not None
    assert g.value(x) == pytest.approx(2 * float(np.sum(np.sin(DATA @ x))) - 0.5 * x.sum())
    close(g.value_and_gradient(x)[1], 2 * DATA.T @ np.cos(DATA @ x) - 0.5)
    close(g.hessian_product(x, u), -2 * DATA.T @ (np.sin(DATA @ x) * (DATA @ u)))
    batch = g.terms.batch(np.array([2, 5]))
    assert batch.value(x) == pytest.approx(7 * float(np.sum(np.sin(DATA[[2, 5]] @ x))) - 0.5 * x.sum())
    result = ms.minimize(ms.Problem(Euclidean(3), f + ms.objective(lambda x: lib.np.sum(x**2), backend=backend)), x)
    assert result.success


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_factor_that_the_cost_ignores_has_zeros(backend: str) -> None:
    lib = library(backend)
    f = ms.objective(lambda x: lib.np.sum(x[0] ** 2), backend=backend)
    x = (np.ones(2), np.ones((2, 2)))
    close(f.value_and_gradient(x)[1], (2 * np.ones(2), np.zeros((2, 2))))  # type: ignore[misc]
    close(f.hessian_product(x, x), (2 * np.ones(2), np.zeros((2, 2))))  # type: ignore[misc]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_entry_in_an_array_is_a_number(backend: str) -> None:
    lib = library(backend)
    f = ms.objective(lambda x: (x**2).reshape((1, 1)), backend=backend)
    assert lib and f.value_and_gradient(np.array([3.0])) == (9.0, np.array([6.0]))  # type: ignore[misc]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("cost", "sentence"),
    [
        (lambda x: 2 * x, "must return one real number"),
        (lambda x: None, "must return one real number"),
        (lambda x: (x * 1j).sum(), "must return one real number"),
        (lambda x: float(x.sum() + 0), r"without float\(\), .item\(\).* or in-place .*, or pass its gradient"),
        (lambda x: np.linalg.norm(np.asarray(x, dtype=float)), "or pass its gradient"),
    ],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_costs_that_cannot_be_differentiated_raise_an_error(backend: str, cost: Any, sentence: str) -> None:
    library(backend)
    f = ms.objective(cost, backend=backend)
    with pytest.raises(TypeError, match=sentence) as caught:
        f.value_and_gradient(np.ones(3))  # type: ignore[misc]
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_torch_cost_that_leaves_torch_raises_an_error() -> None:
    library("torch")
    f = ms.objective(lambda x: (x.detach() ** 2).sum(), backend="torch")
    with pytest.raises(TypeError, match=r"does not depend on the point\): write it with torch functions"):
        f.value_and_gradient(np.ones(3))  # type: ignore[misc]


@pytest.mark.slow
def test_an_assignment_into_a_jax_point_raises_an_error() -> None:
    library("jax")

    def cost(x: Any) -> Any:
        x[0] = 1
        return x.sum()

    with pytest.raises(TypeError, match=r"without .* in-place assignment"):
        ms.objective(cost, backend="jax").value_and_gradient(np.ones(3))  # type: ignore[misc]


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_of_the_cost_are_not_reworded(backend: str) -> None:
    def cost(x: Any) -> Any:
        raise ValueError("my own mistake")

    library(backend)
    with pytest.raises(ValueError, match=r"^my own mistake$" if backend == "autograd" else r"^my own mistake"):
        ms.objective(cost, backend=backend).value_and_gradient(np.ones(2))  # type: ignore[misc]


def of_torch() -> list[Any]:
    torch = library("torch").np
    C = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    return [
        lambda x: torch.sum(torch.as_tensor(x) ** 2 * C.diagonal()),
        lambda x: torch.linalg.norm(2 * torch.as_tensor(x)),
        lambda x: torch.dot(C @ x, x),
    ]


def of_jax() -> list[Any]:
    jnp = library("jax").np
    return [lambda x: jnp.sum(x * x), lambda x: jnp.linalg.norm(2 * x), lambda x: jnp.asarray(x) @ jnp.asarray(x)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array_wrap__ must accept")  # numpy, of its product with a tensor
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("backend", ["autograd", "jax", "torch"])
@pytest.mark.parametrize("costs", [of_torch, of_jax])
def test_a_cost_of_another_library_names_the_backend_to_pass(costs: Any, backend: str) -> None:
    library(backend)
    own = costs.__name__.removeprefix("of_")
    for cost in costs():
        problem = ms.Problem(Sphere(3), ms.objective(cost, backend=backend))
        if own == backend:
            assert ms.minimize(problem, seed=0, max_iter=3).nit <= 3
            continue
        for ask in (lambda problem=problem: ms.minimize(problem, seed=0), partial(problem.objective.value, np.ones(3))):
            with pytest.raises(TypeError, match=f'is written with {own}, .* by {backend}: pass .*backend="{own}"'):
                ask()


@pytest.mark.slow
def test_values_of_another_library_go_with_a_gradient() -> None:
    torch = library("torch").np

    def cost(x: Any) -> Any:
        return torch.sum(torch.tensor(x, requires_grad=True) ** 2 * torch.tensor([1.0, 2.0, 3.0]))

    problem = ms.Problem(Sphere(3), cost, gradient=lambda x: 2 * np.array([1.0, 2.0, 3.0]) * x)
    assert ms.minimize(problem, seed=0).fun == pytest.approx(1.0)


def test_what_autograd_cannot_follow_gets_the_same_sentence_whatever_was_raised() -> None:
    import autograd.numpy as anp

    # no derivative is known; and a length that a boxed array does not have
    for cost in (lambda x: anp.sum(anp.nextafter(x, 2.0)), lambda x: memoryview(x)[0]):
        f = ms.objective(cost)  # type: ignore[arg-type]
        assert np.isfinite(f.value(np.ones(2)))
        with pytest.raises(TypeError, match=r"could not be differentiated by autograd .* or pass its gradient"):
            f.value_and_gradient(np.ones(2))  # type: ignore[misc]


def cubes(x: Any) -> Any:
    """A cost that every library can pickle and follow."""
    return (x**3).sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_objectives_pickle_when_the_cost_does_even_after_use(backend: str) -> None:
    library(backend)
    f = ms.objective(cubes, backend=backend)
    x = np.array([1.0, 2.0])
    f.value_and_gradient(x), f.hessian_product(x, x)  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(3 * f))
    close(copy.value_and_gradient(x)[1], 9 * x**2)
    close(copy.hessian_product(x, x), 18 * x**2)


@pytest.mark.slow
def test_the_flag_of_jax_stays_as_it_is() -> None:
    library("jax")
    import jax

    for flag in (False, True):
        jax.config.update("jax_enable_x64", flag)
        ms.objective(cubes, backend="jax").value_and_gradient(np.ones(2))  # type: ignore[misc]
        assert jax.config.jax_enable_x64 is flag
    jax.config.update("jax_enable_x64", False)


@pytest.mark.slow
def test_batches_compile_once_per_size() -> None:
    lib, traces = library("jax"), []

    def cost(x: Any, i: Any) -> Any:
        traces.append(i.shape)
        return lib.np.sum((x - lib.np.asarray(DATA)[i]) ** 2)

    f = ms.finite_sum(cost, 7, backend="jax")
    for k in range(5):
        f.terms.batch(np.array([k, k + 1])).value_and_gradient(np.zeros(3))  # type: ignore[misc, union-attr]
    assert traces == [(2,)]


@pytest.mark.slow
def test_torch_computes_in_its_own_dtype_and_device() -> None:
    lib, seen = library("torch"), []

    def cost(x: Any) -> Any:
        seen.append((x.dtype, x.device.type))
        return (x**2).sum()

    f = ms.objective(cost, backend="torch", device="cpu", dtype="float32")
    assert f.value_and_gradient(np.ones(2))[1].dtype == np.float64  # type: ignore[misc]
    assert seen == [(lib.np.float32, "cpu")]


def test_what_does_not_fit_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown backend 'tensorflow': choose one of 'autograd', 'jax', 'torch'"):
        ms.objective(cubes, backend="tensorflow")
    with pytest.raises(ValueError, match="device='cuda' is an option of backend=\"torch\", not of 'autograd'"):
        ms.objective(cubes, device="cuda")
    for name in ("jax", "torch"):  # as if they were not installed
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"backend='jax' needs jax: pip install \"manifoldseq\[jax\]\""):
        ms.objective(cubes, backend="jax")
    with pytest.raises(ImportError, match=r"needs torch: pip install torch"):
        ms.finite_sum(lambda x, i: x.sum(), 3, backend="torch")
