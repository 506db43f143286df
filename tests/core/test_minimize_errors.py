"""Errors of `minimize` for wrong starts, costs, gradients and options, and inputs that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.cases import procrustes, system

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, CanonicalLDS, Euclidean, Product, Stiefel
from manifoldseq.solvers import BB, CG, GD, LBFGS, PGD


def euclidean(cost: Any, gradient: Any = None, n: int = 2, **initializers: Any) -> ms.Problem:
    return ms.Problem(Euclidean(n), ms.objective(cost, gradient), initializers)


def test_off_the_manifold() -> None:
    problem, x0, _ = procrustes()
    with pytest.raises(ValueError, match=r"x0 is not on Stiefel\(n=8, p=3\) \(distance 0.0002.*nearest\(x0\)"):
        ms.minimize(problem, x0 * 1.0001)
    assert ms.minimize(problem, x0 * (1 + 1e-8), stop=ms.MaxIterations(0)).feasibility < 1e-14
    assert ms.minimize(problem, x0.astype(np.float32), stop=ms.MaxIterations(0)).feasibility < 1e-6


@pytest.mark.parametrize(
    ("x0", "sentence"),
    [
        ((np.zeros(3), np.eye(3)), r"x0 must be a tuple of 3 arrays \(lam, V, U\)"),
        (np.zeros(3), r"x0 must be a tuple of 3 arrays \(lam, V, U\)"),
        ((np.zeros(3), np.eye(3), np.eye(3, 6)), r"x0, factor 'U' has shape \(3, 6\), but the manifold needs \(6, 3\)"),
        (
            (np.zeros((1, 3)), np.eye(3), np.eye(6, 3)),
            r"x0, factor 'lam' has shape \(1, 3\), but the manifold needs \(3,\)",
        ),
        ((np.array([0, np.nan, 0]), np.eye(3), np.eye(6, 3)), "NaN or infinite"),
        ((np.ones(3), np.eye(3), np.eye(6, 3)), r"x0 is not on CanonicalLDS\(m=6, n=3, bound=0.9\) \(distance 0.1"),
    ],
)
def test_wrong_starts_name_the_factor(x0: Any, sentence: str) -> None:
    problem, _, _ = system()
    with pytest.raises(ValueError, match=sentence):
        ms.minimize(problem, x0)


def masked(x: Any) -> Any:
    return np.ma.masked_array(x, mask=np.arange(np.size(x)).reshape(np.shape(x)) == 0)


def test_masked_starts_and_points_raise_an_error() -> None:
    problem, x0, _ = procrustes()
    pair = ms.Problem(
        Product(Euclidean(2), Euclidean(1), names=("a", "b")),
        ms.objective(lambda x: float(x[0] @ x[0] + x[1] @ x[1]), lambda x: (2 * x[0], 2 * x[1])),
    )
    several = ms.Problem(Euclidean(2), ms.objective(batched=lambda x, which: ((x * x).sum(axis=1), 2 * x)))
    asked = {
        "x0": [
            lambda: ms.minimize(problem, masked(x0)),
            lambda: ms.minimize(problem, np.ma.masked_array(x0)),  # nothing is masked
            lambda: ms.minimize(pair, (np.ones(2), masked(np.ones(1)))),
            lambda: ms.minimize(pair, [masked(np.ones(2)), np.ones(1)]),
            lambda: ms.minimize_batch(several, masked(np.ones((3, 2)))),
        ],
        "points": [
            lambda: ms.frechet_mean(Euclidean(2), masked(np.ones((3, 2)))),
            lambda: ms.frechet_mean(Euclidean(2), [np.ones(2), masked(np.ones(2))]),
        ],
        "weights": [lambda: ms.frechet_mean(Euclidean(2), np.ones((3, 2)), masked(np.ones(3)))],
    }
    for name, calls in asked.items():
        for call in calls:
            with pytest.raises(ValueError, match=f"^{name} (has masked values|is a masked array): remove or fill them"):
                call()


@pytest.mark.parametrize("n", [1.5, 3.0, True, "3", -1, np.nan, np.float64(2)])
def test_numbers_of_iterations_are_whole(n: Any) -> None:
    problem, x0, _ = procrustes()
    several = ms.Problem(Euclidean(2), ms.objective(batched=lambda x, which: ((x * x).sum(axis=1), 2 * x)))
    for call in (
        lambda: ms.MaxIterations(n),
        lambda: ms.minimize(problem, x0, max_iter=n),
        lambda: ms.minimize_batch(several, np.ones((3, 2)), max_iter=n),
    ):
        with pytest.raises(ValueError, match=r"^MaxIterations\(n=.*\): n must be a whole number ≥ 0"):
            call()


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    problem, x0, _ = procrustes()
    assert ms.minimize(problem, x0, max_iter=np.int64(2), tol=0.0).nit == 2  # type: ignore[arg-type]
    assert ms.minimize(problem, x0, max_iter=np.inf).success  # type: ignore[arg-type]


def test_wrong_starts_of_single_and_nested_manifolds() -> None:
    problem, _, _ = procrustes()
    with pytest.raises(ValueError, match=r"x0 has shape \(3, 8\), but the manifold needs \(8, 3\)"):
        ms.minimize(problem, np.eye(8, 3).T)
    with pytest.raises(TypeError, match="x0 has dtype complex128"):
        ms.minimize(problem, np.eye(8, 3) * 1j)
    M = Product(Product(Euclidean(2), Euclidean(3), names=("a", "b")), Euclidean(1), names=("pair", "c"))
    nested = ms.Problem(M, ms.objective(lambda x: 0.0, lambda x: x))
    with pytest.raises(ValueError, match=r"factor 'pair'.*\(4,\), but the manifold needs \(3,\)"):
        ms.minimize(nested, ((np.ones(2), np.ones(4)), np.ones(1)))


def test_lists_and_integers_are_points() -> None:
    problem = euclidean(lambda x: float(x @ x), lambda x: 2 * x)
    assert ms.minimize(problem, [3, 4], stop=ms.MaxIterations(0)).fun == 25.0
    lds = ms.Problem(
        CanonicalLDS(2, 1), ms.objective(lambda x: float(x[0][0]), lambda x: (np.ones(1), 0 * x[1], 0 * x[2]))
    )
    assert ms.minimize(lds, [[0.5], [[1]], [[1], [0]]], stop=ms.MaxIterations(0)).fun == 0.5


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (None, TypeError, "returned NoneType None: .*return one real number"),
        (1j, TypeError, "returned complex"),
        ("3", TypeError, "returned str"),
        (np.ones(2), TypeError, r"of shape \(2,\)"),
        (np.ones((1, 1)), None, ""),
        (np.float32(2.0), None, ""),
        (3, None, ""),
    ],
)
def test_what_a_cost_may_return(value: Any, error: type[Exception] | None, sentence: str) -> None:
    problem = euclidean(lambda x: value, lambda x: np.zeros(2))
    if error is None:
        assert type(ms.minimize(problem, np.ones(2)).fun) is float
    else:
        with pytest.raises(error, match=sentence):
            ms.minimize(problem, np.ones(2))


@pytest.mark.parametrize(
    ("gradient", "error", "sentence"),
    [
        (lambda x: (x[0],), TypeError, "the gradient must be a tuple of 2 parts like the point, got 1 parts"),
        (lambda x: x[0], TypeError, "must be a tuple of 2 parts like the point, got ndarray"),
        (lambda x: (x[0], x[1].T), ValueError, r"factor 1 has shape \(2, 4\), but the point has \(4, 2\)"),
        (lambda x: [list(x[0]), x[1]], None, ""),
    ],
)
def test_gradients_have_the_structure_of_the_point(gradient: Any, error: Any, sentence: str) -> None:
    M = Product(Euclidean(3), Stiefel(4, 2))
    problem = ms.Problem(M, ms.objective(lambda x: 0.5 * float(x[0] @ x[0]), gradient))
    if error is None:
        assert ms.minimize(problem, seed=0, stop=ms.MaxIterations(2)).nit == 2
    else:
        with pytest.raises(error, match=sentence):
            ms.minimize(problem, seed=0)


@pytest.mark.parametrize("solver", ["lbfgs", "pgd"])
def test_a_cost_that_is_nan_somewhere_only_shortens_the_step(solver: str) -> None:
    def cost(x: np.ndarray) -> float:
        return float(x[0] - np.log(x[0])) if x[0] > 0 else float("nan")

    problem = euclidean(cost, lambda x: 1 - 1 / x, n=1)
    result = ms.minimize(
        problem, np.array([1e-2]), solver=solver, options={"step_size": 50.0} if solver == "pgd" else None
    )
    assert result.success and result.x[0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("solver", ["lbfgs", "pgd"])
def test_a_wrong_gradient_ends_with_the_advice_to_check_it(solver: str) -> None:
    result = ms.minimize(euclidean(lambda x: float(x @ x), lambda x: -2 * x), np.ones(2), solver=solver)
    assert result.status is Status.NO_DECREASE and "check_gradient" in result.message


def test_points_given_to_an_objective_are_read_only() -> None:
    def cost(x: np.ndarray) -> float:
        x += 1
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        ms.minimize(euclidean(cost, lambda x: x), np.ones(2))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"solver": "lbgfs"}, ValueError, "did you mean 'lbfgs'"),
        ({"solver": "pgd", "options": {"stepsize": 0.1}}, ValueError, "did you mean 'step_size'"),
        (
            {"solver": PGD(), "options": {"step_size": 1.0}},
            ValueError,
            r"can be used only with the name of a solver: pass the options to PGD\(…\)",
        ),
        ({"solver": 3}, TypeError, "is not a solver"),
        ({"stop": 100}, TypeError, "stop=100 is not a stopping rule"),
        ({"x0": "svd"}, ValueError, "unknown initializer 'svd': this problem has none"),
        ({"resume": True}, ValueError, "needs a checkpoint"),
        ({"solver": PGD(step_size=(0.1, 0.2))}, ValueError, "2 rates, but the point has 1 factor"),
        ({"n_starts": "2"}, ValueError, "n_starts='2'"),
        ({"n_starts": 2.5}, ValueError, "whole number"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"seed": "abc"}, ValueError, "seed='abc'"),
        ({"observers": [3]}, TypeError, "observer 3 is not callable"),
        ({"options": [1]}, TypeError, "pass a dict"),
    ],
)
def test_unusable_arguments(options: dict[str, Any], error: Any, sentence: str) -> None:
    problem, _, _ = procrustes()
    with pytest.raises(error, match=sentence):
        ms.minimize(problem, **options)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LBFGS(memory=0), r"^LBFGS[:(]"),
        (lambda: LBFGS(memory=2.5), "memory=2.5 is not valid: pass a whole number"),
        (lambda: LBFGS(max_trials=0), "max_trials=0 is not valid"),
        (lambda: LBFGS(line_search="exact"), "LBFGS: line_search='exact' is not known: choose 'armijo'"),
        (lambda: PGD(step_size=0.0), r"^PGD[:(]"),
        (lambda: PGD(step_size=(0.1, -1.0)), r"^PGD[:(]"),
        (lambda: PGD(step_size=float("nan")), r"^PGD[:(]"),
        (lambda: PGD(step_size="a"), "pass a positive number"),
        (lambda: PGD(step_size=1j), "pass a positive number"),
        (lambda: PGD(halve_every=0), r"^PGD[:(]"),
        (lambda: PGD(max_trials=0), "max_trials=0 is not valid"),
        (lambda: PGD(backtracking="no"), "True or False"),
        (lambda: CG(beta="hs"), "CG: beta='hs' is not known: choose 'hestenes-stiefel'"),
        (lambda: CG(restart=0), r"CG\(restart=0\): restart must be a number above zero"),
        (lambda: BB(step_size="best"), "BB: step_size='best' is not known: choose 'adaptive'"),
        (lambda: BB(nonmonotone=1), r"BB\(nonmonotone=1\): nonmonotone must be a number from 0 to below 1"),
        (lambda: GD(step_size=-1.0), r"GD: step_size=-1\.0 is not valid: pass a finite number above 0"),
        (lambda: GD(max_trials=0), "GD: max_trials=0 is not valid: pass a whole number"),
        (lambda: BoundedDiagonal(3, "a"), "bound must be a positive number"),
    ],
)
def test_options_out_of_range_raise_an_error(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_missing_abilities_are_named_with_what_would_help() -> None:
    problem = ms.Problem(Euclidean(2), ms.Objective(lambda x: float(x @ x)))
    with pytest.raises(ValueError, match="LBFGSTR needs value_and_gradient, which the objective does not have"):
        ms.minimize(problem)


def test_only_problems_are_minimized() -> None:
    with pytest.raises(TypeError, match="needs a Problem"):
        ms.minimize(lambda x: 0.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"objective=…\) must be a function of the point, got 3"):
        ms.Problem(Euclidean(2), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a manifold"):
        ms.Problem("stiefel", ms.objective(lambda x: 0.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="initializer 'zero' must be a function"):
        ms.Problem(Euclidean(2), ms.objective(lambda x: 0.0), {"zero": np.zeros(2)})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("returned", "backend", "words"),
    [
        (
            lambda x: -x,
            "given",
            r"of shape \(3,\), but an Objective must return one real number: pass the function itself, or ms.con",
        ),
        (
            lambda x: (x[0], x[1]),
            "given",
            r"of shape \(2,\), but an Objective must return one real number: pass the function",
        ),
        (
            lambda x: (x[0], x[1]),
            "autograd",
            "returned tuple of 2 entries: .* array of real numbers, such as autograd.numpy.stack of them",
        ),
        (lambda x: 1j * x, "autograd", "returned ndarray .*: return a real number or an array of real numbers$"),
        (lambda x: "wide", "given", "returned str 'wide', but an Objective must return one real number$"),
        (lambda x: "wide", "autograd", "returned str 'wide': return a real number or an array of real numbers$"),
        (lambda x: None, "autograd", "returned NoneType None: return a real number or an array of real numbers"),
    ],
)
def test_the_constraint_that_returns_no_number_is_named(
    returned: Any, words: str, backend: str, tmp_path: Path
) -> None:
    wrong = returned if backend == "autograd" else ms.objective(returned, lambda x: x)
    right = ms.objective(lambda x: x[0] - 1.0, lambda x: np.eye(3)[0])
    for kind, options in (
        ("equality 0", dict(equalities=(wrong,))),
        ("inequality 1", dict(equalities=(right,), inequalities=[right, wrong])),
    ):
        problem = ms.Problem(ms.manifolds.Sphere(3), ms.objective(lambda x: x[2], lambda x: np.eye(3)[2]), **options)
        for checkpoint in (None, ms.storage.Checkpoint(tmp_path / "run")):
            with pytest.raises(TypeError, match=f"^{kind} of the problem .*{words}"):
                ms.minimize(problem, seed=0, solver="augmented-lagrangian", checkpoint=checkpoint)
    assert not list(tmp_path.iterdir())


def test_a_cost_that_returns_several_numbers_is_named() -> None:
    def pair(x: Any) -> Any:
        return x[0], x[1]

    with pytest.raises(TypeError, match=r"^the cost pair returned a tuple of 2: it must return one real number$"):
        ms.minimize(ms.Problem(Euclidean(2), pair), seed=0)


def test_an_error_inside_a_constraint_stays_what_it_is() -> None:
    def broken(x: Any) -> Any:
        raise TypeError("mine")

    problem = ms.Problem(Euclidean(2), ms.objective(lambda x: x @ x, lambda x: 2 * x), inequalities=(broken,))
    with pytest.raises(TypeError, match=r"^mine$"):
        ms.minimize(problem, seed=0, solver="augmented-lagrangian")
