"""What reviewers broke once: wrong answers that looked right, and work that was lost."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import BoundedDiagonal, CanonicalLDS, Euclidean, Stiefel
from manifoldseq.solvers import PGD


def problem(cost: Any, gradient: Any, n: int = 2) -> ms.Problem:
    return ms.Problem(Euclidean(n), ms.objective(cost, gradient))


SQUARE = problem(lambda x: float(x @ x), lambda x: 2 * x)


@pytest.mark.parametrize(
    ("cost", "gradient"),
    [
        (lambda x: float("nan"), lambda x: 0 * x),
        (lambda x: float("inf"), lambda x: 0 * x),
        (lambda x: 1e308 * float(x @ x + 2), lambda x: 2e308 * x),
    ],
)
def test_a_start_that_is_not_finite_is_no_success(cost: Any, gradient: Any) -> None:
    with np.errstate(over="ignore"):
        result = ms.minimize(problem(cost, gradient), np.ones(2))
    assert result.status is Status.NON_FINITE and not result.success and result.nit == 0


@pytest.mark.parametrize(
    "other",
    [
        {"problem": problem(lambda x: float(x @ x) + 1, lambda x: 2 * x)},
        {"problem": problem(lambda x: float(x @ x), lambda x: 2 * x, n=3), "x0": np.ones(3)},
        {"solver": "pgd"},
        {"solver": PGD(backtracking=False)},
        {"options": {"memory": 3}},
    ],
)
def test_resume_rejects_another_problem_or_solver(other: dict[str, Any], tmp_path: Path) -> None:
    given = {"problem": SQUARE, "x0": np.ones(2), "checkpoint": tmp_path}
    ms.minimize(**given, stop=ms.MaxIterations(1))
    assert ms.minimize(**given, resume=True).success
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        ms.minimize(**{**given, **other}, resume=True)


def test_constraints_are_never_ignored() -> None:
    constrained = ms.Problem(Euclidean(2), SQUARE.objective, equalities=(SQUARE.objective,))
    with pytest.raises(ValueError, match="LBFGS does not support constraints"):
        ms.minimize(constrained, solver="lbfgs")
    with pytest.raises(TypeError, match=r"must be a function, an Objective, an ms.constraint\(…\), scipy's"):
        ms.Problem(Euclidean(2), SQUARE.objective, equalities=[3])  # type: ignore[arg-type]


def test_arrays_of_the_objective_stay_its_own() -> None:
    c, buffer = np.array([1.0, 2.0, 3.0]), np.empty(3)
    ms.minimize(ms.Problem(BoundedDiagonal(3, 0.5), ms.objective(lambda x: float(x @ c), lambda x: c)), seed=0)
    assert c.flags.writeable
    quadratic = problem(lambda x: float((x - c) @ (x - c)), lambda x: np.multiply(x - c, 2, out=buffer), n=3)
    np.testing.assert_allclose(ms.minimize(quadratic, np.zeros(3)).x, c, atol=1e-6)


@pytest.mark.parametrize(
    ("directory", "more", "sentence"),
    [
        ("a file", {}, "no checkpoint can be written"),
        ("a file/below", {}, "no checkpoint can be written"),
        ("", {}, "pass the path of a directory"),
        ("new", {"every_seconds": -1}, "pass a number of seconds"),
        ("new", {"every_seconds": float("nan")}, "pass a number of seconds"),
        ("new", {"fingerprint": b"x"}, "pass a string, or None"),
    ],
)
def test_a_checkpoint_that_cannot_be_raises_an_error_before_the_run(
    directory: str, more: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("")
    calls = []
    counting = problem(lambda x: calls.append(1) or float(x @ x), lambda x: 2 * x)
    with pytest.raises(ValueError, match=sentence):
        store = ms.storage.Checkpoint(tmp_path / directory if directory else "", **more)
        ms.minimize(counting, np.ones(2), checkpoint=store)
    assert len(calls) <= 1  # the fingerprint


def test_ctrl_c_waits_for_a_checkpoint_to_be_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ms.storage.Checkpoint(tmp_path, every_seconds=0)
    savez = np.savez

    def interrupted(*args: Any, **kwargs: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        savez(*args, **kwargs)

    monkeypatch.setattr(np, "savez", interrupted)
    result = ms.minimize(SQUARE, np.ones(2), checkpoint=store)
    assert result.status is Status.INTERRUPTED
    monkeypatch.undo()
    assert ms.minimize(SQUARE, np.ones(2), checkpoint=store, resume=True).success


def test_a_last_checkpoint_that_fails_does_not_lose_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = ms.minimize(SQUARE, np.ones(2), checkpoint=tmp_path)
    assert result.success and "no space left" in str(caught[0].message)


def test_an_interrupt_in_one_start_ends_and_marks_them_all() -> None:
    starts = []

    def interrupt(event: Any) -> None:
        starts.append(event.nit == 0)
        if sum(starts) == 2 and event.status is None:
            raise KeyboardInterrupt

    result = ms.minimize(SQUARE, np.ones(2), n_starts=5, observers=[interrupt])
    assert result.status is Status.INTERRUPTED and sum(starts) <= 3


def test_numpy_numbers_are_numbers() -> None:
    assert ms.MaxIterations(np.int64(5)).n == 5 and ms.GradientNorm(np.float32(1e-3)).tol > 0
    assert ms.minimize(SQUARE, np.ones(2), solver=PGD(step_size=np.float32(0.1)), stop=ms.GradientNorm(1e-6)).success
    x = BoundedDiagonal(3, np.float64(0.5)).nearest(np.ones(3, np.float32))
    assert x.dtype == np.float32


@pytest.mark.parametrize(
    ("fused", "sentence"),
    [
        (lambda x: 1.0, "must return \\(value, gradient\\)"),
        (lambda x: (1.0, None), "gradient is NoneType"),
        (lambda x: (1.0, 1j * x), "real array"),
        (lambda x: (1.0, "abc"), "real array"),
    ],
)
def test_what_a_gradient_may_be(fused: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        ms.minimize(ms.Problem(Euclidean(2), ms.objective(value_and_gradient=fused)), np.ones(2))


def test_a_misspelt_retraction_raises_an_error_on_products_too() -> None:
    manifold = CanonicalLDS(5, 2)
    x = manifold.random_point(np.random.default_rng(0))
    with pytest.raises(ValueError, match="no retraction 'caylay'"):
        manifold.retract(x, x, "caylay")
    assert "cayley" in manifold.retractions


def test_a_step_that_returns_no_measures_raises_an_error() -> None:
    with pytest.raises(TypeError, match="must return"):
        ms.iterate(lambda state: state, {"x": np.ones(2)}, stop=ms.MaxIterations(2))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="has a key that is a column of the history"):
        ms.iterate(
            lambda state: (state, ms.Measures(1.0, extra={"nit": 3.0})), {"x": np.ones(2)}, stop=ms.MaxIterations(2)
        )


def test_a_read_only_array_of_objects_is_outside_the_grammar() -> None:
    hidden = np.array([{}], dtype=object)
    hidden.flags.writeable = False
    with pytest.raises(TypeError, match="Python objects"):
        ms.iterate(lambda state: (state, ms.Measures(1.0)), {"x": hidden}, stop=ms.MaxIterations(1))


def test_observers_cannot_change_the_run() -> None:
    def meddle(event: Any) -> None:
        event.state["fun"] = -1e9

    with pytest.warns(UserWarning, match="failed and is not called again"):
        assert ms.minimize(SQUARE, np.ones(2), observers=[meddle]).fun >= 0


def forward(x: np.ndarray) -> float:
    return float(x @ x)


def test_active_bounds_do_not_slow_the_default_solver() -> None:
    """The pairs of L-BFGS are restricted to the free coordinates; without that these take 20 times as long."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        Q = np.linalg.qr(rng.standard_normal((30, 30)))[0]
        H = (Q * np.logspace(0, 3, 30)) @ Q.T
        c = rng.standard_normal(30) * 2
        f = ms.objective(lambda x, H=H, c=c: 0.5 * float((x - c) @ H @ (x - c)), lambda x, H=H, c=c: H @ (x - c))
        result = ms.minimize(ms.Problem(BoundedDiagonal(30, 0.5), f), np.zeros(30), stop=ms.MaxIterations(400))
        assert 0 < np.sum(np.abs(result.x) >= 0.5) < 30
        assert result.grad_norm is not None and result.grad_norm < 1e-6 * np.linalg.norm(H @ c)


def test_a_step_far_off_only_shortens() -> None:
    manifold = Stiefel(4, 2)
    assert np.isnan(manifold.retract(manifold.random_point(np.random.default_rng(0)), np.full((4, 2), np.inf))).all()


def test_a_kernel_object_says_whether_its_diagonal_is_constant() -> None:
    class Mute:
        def __getattr__(self, name: str) -> Any:
            if name == "constant_diagonal":
                raise AttributeError(name)
            return getattr(ms.get_kernel("projection"), name)

    report = ms.testing.check_kernel(Mute(), domain="lds")
    assert not report.ok and "has no constant_diagonal" in str(report)


def test_a_disturbed_parser_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that parse at the same moment confuse Python 3.11 (python/cpython#106905); no checkpoint is damaged."""
    store = ms.storage.Checkpoint(tmp_path)
    ms.minimize(SQUARE, np.ones(2), checkpoint=store)
    load, failures = np.load, iter([SystemError("AST constructor recursion depth mismatch")] * 2)

    def disturbed(*args: Any, **kwargs: Any) -> Any:
        for failure in failures:
            raise failure
        return load(*args, **kwargs)

    monkeypatch.setattr(np, "load", disturbed)
    assert ms.minimize(SQUARE, np.ones(2), checkpoint=store, resume=True).success
