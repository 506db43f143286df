"""Watching a run and getting it back: frames, progress, Ctrl-C, exceptions, pickles, threads."""

from __future__ import annotations

import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helpers
import numpy as np
import pytest
from core.cases import PROBLEMS, close, equal, procrustes, system
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import Status
from manifoldseq.manifolds import Euclidean
from manifoldseq.objectives import FiniteTerms
from manifoldseq.solvers import BB, PGD

CORE = [record.name for plugin, record in ms.hooks.records("solvers") if plugin.name == "manifoldseq"]
# those of other libraries are one step to the end; those of sums over rows are watched in tests/models
SOLVERS = [name for name in CORE if ":" not in name and name not in ("em", "online-em", "lm")]


def ill(x: np.ndarray) -> float:
    return 0.5 * float(np.sum(SCALES * x * x))


def ill_gradient(x: np.ndarray) -> np.ndarray:
    return SCALES * x


def ill_batched(X: np.ndarray, which: np.ndarray) -> Any:
    return 0.5 * np.sum(SCALES * X * X, axis=1), SCALES * X


SCALES = np.logspace(0, 2, 6)
START = np.random.default_rng(0).standard_normal(6)


def ill_batch(indices: np.ndarray) -> ms.Objective:
    return ILL


def halves(x: np.ndarray) -> np.ndarray:
    return 0.5 * x


ILL = ms.objective(ill, ill_gradient, batched=ill_batched)
ABLE = replace(ILL, terms=FiniteTerms(4, ill_batch), updates=(ms.objectives.BlockUpdate("half", (), halves),))
PROBLEM = ms.Problem(Euclidean(6), ABLE)


class _Pandas(SimpleNamespace):
    """Stands for pandas: a frame is what it was given."""

    def __init__(self) -> None:
        super().__init__(DataFrame=lambda columns: ("frame", columns))


def test_histories_become_data_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ms.minimize(PROBLEM, START)
    run = ms.iterate(lambda s: (s, ms.Measures(1.0)), {"x": START}, ms.Measures(2.0), stop=ms.MaxIterations(2))
    batch = ms.minimize_batch(PROBLEM, np.stack([START] * 3))
    monkeypatch.setitem(sys.modules, "pandas", _Pandas())
    for outcome in (result, run, batch):
        kind, columns = outcome.to_frame()
        assert kind == "frame" and list(columns) == list(outcome.history)
        for name, column in columns.items():
            np.testing.assert_array_equal(column, outcome.history[name])
    monkeypatch.setitem(sys.modules, "pandas", None)
    for outcome in (result, run, batch):
        with pytest.raises(ImportError, match=r"pip install pandas; .history has the same columns"):
            outcome.to_frame()


@pytest.mark.parametrize("solver", SOLVERS)
def test_progress_follows_every_solver(solver: str, capsys: pytest.CaptureFixture[str]) -> None:
    ms.minimize(
        PROBLEM, START, solver=solver, seed=0, stop=ms.MaxIterations(3), observers=[ms.Progress(3, disable=False)]
    )
    shown = capsys.readouterr().err
    assert "3/3" in shown and "fun=" in shown


def test_progress_without_tqdm_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match="progress bars need tqdm, which is not installed: run `pip install"):
        ms.Progress()


def test_progress_shows_feasibility_and_batches(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ms.Progress(disable=False)
    sphere = ms.objective(lambda x: float(x @ x) - 1, lambda x: 2 * x)
    ms.minimize(replace(PROBLEM, equalities=(sphere,)), START, solver="augmented-lagrangian", observers=[bar])
    assert "feasibility=" in capsys.readouterr().err
    ms.minimize_batch(PROBLEM, np.stack([START, 2 * START]), observers=[bar])
    assert "nfev=" in capsys.readouterr().err


class Interrupting:
    """An objective with every ability, one call of which is interrupted; it keeps the values that it gave."""

    def __init__(self, at: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.calls, self.at, self.error = 0, at, error
        self.values: list[float] = []
        fused = ms.objective(value_and_gradient=self.fused)
        updates = (ms.objectives.BlockUpdate("half", (), halves),)
        self.problem = ms.Problem(Euclidean(6), replace(fused, terms=FiniteTerms(4, lambda i: fused), updates=updates))

    def fused(self, x: np.ndarray) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise self.error("in the objective")
        self.values.append(ill(x))
        return self.values[-1], ill_gradient(x)


@pytest.mark.parametrize("solver", [*SOLVERS, PGD(step_size=0.019, backtracking=False)], ids=str)
def test_ctrl_c_returns_the_best_point_so_far(solver: Any) -> None:
    for at in (3, 7, 20):
        objective = Interrupting(at)
        result = ms.minimize(objective.problem, START, solver=solver, seed=0, stop=ms.MaxIterations(200))
        assert result.status is Status.INTERRUPTED and not result.success
        assert result.fun == pytest.approx(ill(result.x), abs=1e-12)
        known = ms.get_solver(solver) if isinstance(solver, str) else solver
        if known.deterministic:
            assert result.fun <= result.history["fun"].min()
        assert result.fun < ill(START) or result.nit == 0


@pytest.mark.parametrize("solver", [*SOLVERS, PGD(step_size=0.019, backtracking=False)], ids=str)
def test_an_exception_of_the_objective_keeps_the_best_point(solver: Any, tmp_path: Path) -> None:
    objective = Interrupting(9, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError, match="in the objective") as caught:
        ms.minimize(objective.problem, START, solver=solver, seed=0, checkpoint=tmp_path, stop=ms.MaxIterations(200))
    result = caught.value.result  # type: ignore[attr-defined]
    assert isinstance(result, ms.Result) and result.status is Status.FAILED and not result.success
    assert f"iteration {result.nit + 1} raised this error" in caught.value.__notes__[0]
    assert result.fun <= ill(START) and result.history["nit"][-1] == result.nit
    resumed = ms.minimize(
        PROBLEM, START, solver=solver, seed=0, checkpoint=tmp_path, resume=True, stop=ms.MaxIterations(result.nit)
    )
    assert resumed.nit == result.nit
    with pytest.raises(ZeroDivisionError) as first:
        ms.minimize(Interrupting(1, ZeroDivisionError).problem, START, solver=solver)
    assert not hasattr(first.value, "result")  # nothing was known yet


def test_an_exception_in_a_loop_of_your_own_keeps_the_run() -> None:
    def step(state: Any) -> Any:
        if state["x"] > 3:
            raise ZeroDivisionError
        return {"x": state["x"] + 1}, ms.Measures(float(-state["x"]))

    with pytest.raises(ZeroDivisionError) as caught:
        ms.iterate(step, {"x": np.zeros(())}, ms.Measures(0.0), stop=ms.MaxIterations(9))
    run = caught.value.run  # type: ignore[attr-defined]
    assert (run.nit, float(run.state["x"]), run.status) == (4, 4.0, Status.FAILED)
    assert run.history["nit"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_starts_and_raise_on_failure(solver: str) -> None:
    first = ms.minimize(PROBLEM, START, solver=solver, seed=0, stop=ms.MaxIterations(5))
    again = ms.minimize(PROBLEM, first, solver=solver, seed=0, stop=ms.MaxIterations(5))
    assert again.reference == first.reference and again.history["fun"][0] == pytest.approx(first.fun, abs=1e-9)
    with pytest.raises(ms.NotConverged) as caught:
        ms.minimize(PROBLEM, START, solver=solver, seed=0, stop=ms.MaxIterations(5), raise_on_failure=True)
    equal(caught.value.result.x, first.x)


PICKLED = [
    *(ms.get_solver(name) for name in SOLVERS),
    BB(nonmonotone=0.5),
    PGD(step_size=(0.1, 0.2)),
    (ms.GradientNorm(1e-6, relative=True) & ms.CostChange(1e-9)) | ms.MaxIterations(9) | ms.MaxTime(1.0),
    ms.StepSize(1e-3) | ms.MaxEvaluations(10),
    ms.storage.Checkpoint("runs/x", 5.0),
]


@pytest.mark.parametrize("made", PICKLED, ids=lambda made: type(made).__name__)
def test_options_and_rules_are_pickled(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) == made


def test_problems_results_and_observers_are_pickled() -> None:
    problem = pickle.loads(pickle.dumps(PROBLEM))
    result = ms.minimize(problem, START)
    equal(result.x, ms.minimize(PROBLEM, START).x)
    copy = pickle.loads(pickle.dumps(result))
    equal(copy.x, result.x)
    for name, column in result.history.items():
        np.testing.assert_array_equal(copy.history[name], column)
    recorder = ms.Recorder()
    ms.minimize(PROBLEM, START, observers=[recorder])
    close(pickle.loads(pickle.dumps(recorder)).records[-1], result.x)
    bar = ms.Progress(disable=True)
    bar(ms.Event(0, 0.0, ms.Measures(1.0), {}, None, None))
    pickle.loads(pickle.dumps(bar))(ms.Event(0, 0.0, ms.Measures(1.0), {}, None, Status.CONVERGED))
    bar(ms.Event(1, 0.0, ms.Measures(1.0), {}, None, Status.CONVERGED))
    with pytest.raises(ms.NotConverged) as caught:
        ms.minimize(PROBLEM, START, stop=ms.MaxIterations(1), raise_on_failure=True)
    equal(pickle.loads(pickle.dumps(caught.value)).result.x, caught.value.result.x)
    frozen = ms.Problem(ms.manifolds.CanonicalLDS(5, 2), ABLE).freeze("U")
    assert pickle.loads(pickle.dumps(frozen)).manifold == frozen.manifold


@pytest.mark.parametrize("solver", ["lbfgs", "pgd", "tr", "augmented-lagrangian"])
def test_threads_do_not_disturb_each_other(solver: str, tmp_path: Path) -> None:
    made = [PROBLEMS[name]() for name in ("procrustes", "subspace", "system", "quadratic")] * 2
    stop = ms.MaxIterations(25)

    def solve(k: int) -> ms.Result:
        problem, x0, _ = made[k]
        return ms.minimize(problem, x0, solver=solver, stop=stop, checkpoint=tmp_path / str(k))

    alone = [ms.minimize(problem, x0, solver=solver, stop=stop) for problem, x0, _ in made]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(solve, range(len(made))))
    for a, b in zip(alone, together, strict=True):
        equal(a.x, b.x)
        assert (a.fun, a.nit, a.nfev, a.status) == (b.fun, b.nit, b.nfev, b.status)
        np.testing.assert_array_equal(a.history["fun"], b.history["fun"])


@pytest.mark.slow
def test_threads_share_a_problem_and_a_solver() -> None:
    problem, x0, _ = system()
    solver, alone = ms.solvers.LBFGS(), ms.minimize(problem, x0)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: ms.minimize(problem, x0, solver=solver), range(8)):
            equal(result.x, alone.x)
    batch, x0s = ms.Problem(PROBLEM.manifold, ILL), np.stack([START] * 4)
    first = ms.minimize_batch(batch, x0s)
    with ThreadPoolExecutor(2) as pool:
        for other in pool.map(lambda _: ms.minimize_batch(batch, x0s), range(4)):
            equal(other.x, first.x)


def test_project_repairs_a_start() -> None:
    problem, x0, minimum = procrustes()
    with pytest.raises(ValueError, match=r"x0 is not on Stiefel\(n=8, p=3\) \(distance 2.2.*project=True"):
        ms.minimize(problem, 1.8 * x0)
    result = ms.minimize(problem, 1.8 * x0, project=True)
    assert result.success and result.fun == pytest.approx(minimum, abs=1e-6) and result.feasibility < 1e-14
    started = ms.minimize(problem, 1.8 * x0, project=True, stop=ms.MaxIterations(0))
    close(started.x, x0, atol=1e-12)
    with pytest.raises(ValueError, match="NaN or infinite"):
        ms.minimize(problem, np.nan * x0, project=True)
    with pytest.raises(ValueError, match=r"x0 has shape \(3, 8\)"):
        ms.minimize(problem, x0.T, project=True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"initializers": [halves]}, r"initializers=…\) must map names to functions"),
        ({"equalities": 3}, r"equalities=…\) must be a function, an Objective"),
        ({"inequalities": (ill, 3)}, r"inequalities=…\) must be a function, an Objective"),
    ],
)
def test_parts_of_a_problem_are_checked(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        replace(PROBLEM, **given)


@pytest.mark.parametrize(
    ("solver", "lacking", "able"),
    [("lbfgs", "value_and_gradient", "alternating"), ("sgd", "terms", "lbfgs"), ("alternating", "updates", "lbfgs")],
)
def test_a_solver_that_needs_more_names_those_that_do_not(solver: str, lacking: str, able: str) -> None:
    f = {
        "value_and_gradient": ms.Objective(ill, updates=ABLE.updates),
        "terms": replace(ABLE, terms=None),
        "updates": replace(ABLE, updates=()),
    }[lacking]
    with pytest.raises(
        ValueError, match=rf"needs {lacking}, which the objective does not have.*solvers that work without it: .*{able}"
    ):
        ms.minimize(ms.Problem(Euclidean(6), f), START, solver=solver)


@parametrize("solver", SOLVERS, fast=2)
@pytest.mark.parametrize("bad", [None, 1j, "3", np.ones(2)])
def test_every_solver_rejects_values_that_are_no_number(solver: str, bad: Any) -> None:
    fused = ms.objective(value_and_gradient=lambda x: (bad, x))
    f = replace(fused, terms=FiniteTerms(4, lambda i: fused), updates=ABLE.updates)
    with pytest.raises(TypeError, match="must return one real number"):
        ms.minimize(ms.Problem(Euclidean(6), f), START, solver=solver)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_says_that_the_objective_is_not_finite(solver: str) -> None:
    fused = ms.objective(value_and_gradient=lambda x: (float("nan"), x))
    f = replace(fused, terms=FiniteTerms(4, lambda i: fused), updates=ABLE.updates)
    result = ms.minimize(ms.Problem(Euclidean(6), f), START, solver=solver, stop=ms.MaxIterations(5))
    assert result.status is Status.NON_FINITE and not result.success
    equal(result.x, START)


def several(**options: Any) -> ms.Result:
    return ms.minimize(PROBLEM, START, n_starts=3, seed=0, stop=ms.MaxIterations(5), **options)


def test_observers_are_called_where_the_caller_is(tmp_path: Path) -> None:
    """They are not copied, see what they see in a serial run, in the same order, and keep it."""
    here, there = ms.Recorder(lambda event: event), ms.Recorder(lambda event: event)
    there.lock = threading.Lock()  # type: ignore[attr-defined]  # cannot be copied
    expected = several(observers=[here])
    with helpers.elsewhere(tmp_path / "worker"):
        result = several(observers=[there])
    equal(result.x, expected.x)
    assert [(e.nit, e.status) for e in there.records] == [(e.nit, e.status) for e in here.records]
    assert [e.nit for e in there.records].count(0) == 3
    for a, b in zip(there.records, here.records, strict=True):
        equal(a.x, b.x)
        assert a.measures == b.measures and a.state.keys() == b.state.keys()
        assert a.x is a.state["x"] and not a.x.flags.writeable
        with pytest.raises(TypeError):
            a.state["x"] = 0


def test_events_for_observers_that_need_no_state_travel_light(tmp_path: Path) -> None:
    seen: list[ms.Event] = []
    watch = SimpleWatch(seen)
    with helpers.elsewhere(tmp_path / "worker"):
        several(observers=[watch])
    assert len(seen) == 18 and all(event.state == {} and event.x is None for event in seen)
    several(observers=[watch])
    assert seen[-1].x is not None and ms.Progress.needs_state is False


class SimpleWatch:
    needs_state = False

    def __init__(self, seen: list[ms.Event]) -> None:
        self.seen = seen

    def __call__(self, event: ms.Event) -> None:
        self.seen.append(event)


def test_an_observer_that_fails_is_left_out_there_too(tmp_path: Path) -> None:
    calls = []

    def fails(event: ms.Event) -> None:
        calls.append(event.nit)
        raise OSError("disk full")

    seen = ms.Recorder(lambda event: event.nit)
    with helpers.elsewhere(tmp_path / "worker"):
        with pytest.warns(UserWarning, match="failed and is not called again: OSError"):
            several(observers=[fails, seen])
        with pytest.raises(TypeError, match="the observer 3 is not callable: pass a function that takes an event"):
            several(observers=[3])
    assert calls == [0] and len(seen.records) == 18


@pytest.mark.parametrize("kind", [str, Path, ms.storage.Checkpoint])
def test_relative_checkpoints_are_the_callers(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with helpers.elsewhere(tmp_path / "worker"):
        several(checkpoint=kind("run"))
    assert list((tmp_path / "worker").iterdir()) == []
    assert len(list((tmp_path / "run").glob("start-*/checkpoint-*.npz"))) == 3
    assert ms.storage.Checkpoint("run").directory == "run"
