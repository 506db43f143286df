"""The one loop: history, stopping, observers, interrupts, checkpoints and resume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq import Evaluations, Event, Measures, Run, Status
from manifoldseq.storage import Checkpoint, CheckpointError

State = dict[str, Any]


def walk(state: State) -> tuple[State, Measures]:
    """A random walk whose whole memory is its state: the value halves, the generator goes on."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state["generator"]
    x = 0.5 * state["x"] + 1e-3 * rng.standard_normal(3)
    new = {"x": x, "generator": rng.bit_generator.state, "trace": (*state["trace"][-3:], float(x[0]))}
    return new, Measures(float(x @ x), float(np.linalg.norm(x)), evaluations=Evaluations(2, 1), extra={"first": x[0]})


def begin(seed: int = 0) -> tuple[State, Measures]:
    x = np.array([1.0, -2.0, 3.0])
    state = {"x": x, "generator": np.random.default_rng(seed).bit_generator.state, "trace": ()}
    return state, Measures(float(x @ x), float(np.linalg.norm(x)), evaluations=Evaluations(1, 1), extra={"first": x[0]})


def run(n: int = 9, step: Callable[[State], tuple[State, Measures]] = walk, **options: Any) -> Run:
    return ms.iterate(step, begin, stop=options.pop("stop", ms.MaxIterations(n)), **options)


def assert_same(one: Run, other: Run) -> None:
    """Bit-identical but for the time."""
    assert one.status is other.status and one.nit == other.nit
    assert repr(one.state) == repr(other.state)
    assert one.state["x"].tobytes() == other.state["x"].tobytes()
    assert one.measures == other.measures
    assert list(one.history) == list(other.history)
    for name in one.history:
        if name != "time":
            np.testing.assert_array_equal(one.history[name], other.history[name])


class Interrupt:
    """Wraps a step or an observer; call number `at` is interrupted as by Ctrl-C, or raises `error`."""

    def __init__(self, function: Callable[[Any], Any], at: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.function, self.at, self.error, self.calls = function, at, error, 0

    def __call__(self, argument: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise self.error("call")
        return self.function(argument)


def test_history_has_equally_long_columns_from_start_to_last() -> None:
    done = run(4)
    assert list(done.history) == ["nit", "time", "fun", "grad_norm", "feasibility", "nfev", "first"]
    assert {len(column) for column in done.history.values()} == {5}
    assert done.history["nit"].tolist() == [0, 1, 2, 3, 4] and done.history["nit"].dtype.kind == "i"
    assert done.history["nfev"].tolist() == [1, 3, 5, 7, 9]
    assert np.all(np.isnan(done.history["feasibility"]))
    assert done.history["fun"][0] == 14.0 and done.history["fun"][-1] == done.measures.fun
    assert np.all(np.diff(done.history["time"]) >= 0) and done.time >= done.history["time"][-1]
    assert done.measures.evaluations == Evaluations(9, 5, 0)
    assert (done.nit, done.status) == (4, Status.MAX_ITERATIONS)


def test_stop_is_asked_before_the_first_step() -> None:
    def never(state: State) -> tuple[State, Measures]:
        raise AssertionError("a step was made")

    done = ms.iterate(never, {"x": np.ones(2)}, Measures(0.5, 0.0), stop=ms.GradientNorm(1e-6) | ms.MaxIterations(9))
    assert (done.nit, done.status) == (0, Status.CONVERGED)
    assert done.history["fun"].tolist() == [0.5]
    assert ms.iterate(never, {"x": np.ones(2)}, stop=ms.MaxIterations(0)).status is Status.MAX_ITERATIONS


def test_state_may_lack_measures_and_a_point() -> None:
    done = ms.iterate(lambda state: ((state[0] + 1,), Measures(0.0)), (0,), stop=ms.MaxIterations(3))
    assert done.state == (3,)
    assert np.isnan(done.history["fun"][0])


def test_state_is_called_only_when_nothing_is_resumed(tmp_path: Path) -> None:
    first = run(3, checkpoint=tmp_path)

    def never() -> tuple[State, Measures]:
        raise AssertionError("started again")

    again = ms.iterate(walk, never, stop=ms.MaxIterations(3), checkpoint=tmp_path, resume=True)
    assert_same(first, again)


def test_met_rule_wins_over_a_status_of_the_step() -> None:
    def step(state: State) -> tuple[State, Measures]:
        return state, Measures(1.0, 0.0, status=Status.NO_DECREASE)

    assert ms.iterate(step, {"x": np.ones(1)}, stop=ms.GradientNorm(1e-3)).status is Status.CONVERGED
    done = ms.iterate(step, {"x": np.ones(1)}, stop=ms.MaxIterations(9))
    assert (done.status, done.nit) == (Status.NO_DECREASE, 1)


def test_extra_columns_that_come_and_go_are_padded() -> None:
    extras = iter([{"a": 1.0}, {}, {"b": 2.0}, {"b": 3.0, "a": 4.0}])

    def step(state: State) -> tuple[State, Measures]:
        return state, Measures(0.0, extra=next(extras))

    done = ms.iterate(step, {"x": np.ones(1)}, stop=ms.MaxIterations(4))
    np.testing.assert_array_equal(done.history["a"], [np.nan, 1, np.nan, np.nan, 4])
    np.testing.assert_array_equal(done.history["b"], [np.nan, np.nan, np.nan, 2, 3])


@pytest.mark.parametrize("bad", [Measures(float("nan")), Measures(float("inf")), Measures(1.0, float("nan"))])
def test_a_step_that_is_not_finite_is_discarded(bad: Measures, tmp_path: Path) -> None:
    def step(state: State) -> tuple[State, Measures]:
        return walk(state) if len(state["trace"]) < 2 else ({**state, "x": state["x"] * np.nan}, bad)

    done = run(step=step, checkpoint=tmp_path)
    assert (done.status, done.nit) == (Status.NON_FINITE, 2)
    assert np.all(np.isfinite(done.state["x"])) and np.all(np.isfinite(done.history["fun"]))
    assert {len(column) for column in done.history.values()} == {3}


def test_a_start_that_is_not_finite_ends_at_once() -> None:
    done = ms.iterate(walk, begin()[0], Measures(float("nan")), stop=ms.MaxIterations(5))
    assert (done.status, done.nit) == (Status.NON_FINITE, 0)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"x": np.ones(2), "model": object()}, r"state\['model'\] is a object"),
        ({"x": [np.ones(2)]}, r"state\['x'\] is a list"),
        ({"x": np.array([None])}, r"state\['x'\] is an array of Python objects"),
        ({"x": np.ones(2), 3: 1}, "has the key 3: the keys of a state must be strings"),
        (
            {"x": (np.ones(2), {"rng": np.random.default_rng()})},
            r"state\['x'\]\[1\]\['rng'\] is a Generator.*bit_generator.state",
        ),
        (np.float64, "state is a type"),
    ],
)
def test_states_outside_the_grammar_are_named(state: Any, sentence: str) -> None:
    given = state if isinstance(state, dict) else (state,)
    with pytest.raises(TypeError, match=sentence if isinstance(state, dict) else "is a type"):
        ms.iterate(walk, given, stop=ms.MaxIterations(1))
    with pytest.raises(TypeError, match=sentence if isinstance(state, dict) else "is a type"):
        ms.iterate(lambda _: (given, Measures(0.0)), {"x": np.ones(1)}, stop=ms.MaxIterations(1))


def test_states_are_normalized_after_every_step() -> None:
    seen = []

    def step(state: State) -> tuple[State, Measures]:
        seen.append(state)
        return {
            "x": np.asfortranarray(np.ones((2, 3))),
            "n": np.int64(3),
            "s": np.float64(0.5),
            "b": np.bool_(True),
        }, Measures(0.0)

    done = ms.iterate(step, {"x": np.ones((3, 2)).T}, stop=ms.MaxIterations(2))
    for state in (*seen, done.state):
        assert state["x"].flags.c_contiguous and not state["x"].flags.writeable
    assert [type(done.state[key]) for key in "nsb"] == [int, float, bool]


def test_the_start_is_copied_not_frozen() -> None:
    x = np.ones(3)
    done = ms.iterate(lambda state: ({"x": state["x"] + 1}, Measures(0.0)), {"x": x}, stop=ms.MaxIterations(2))
    x[0] = 7.0
    assert done.state["x"].tolist() == [3, 3, 3]


def test_a_step_cannot_write_into_its_state() -> None:
    def step(state: State) -> tuple[State, Measures]:
        state["x"][0] = 5.0
        return state, Measures(0.0)

    with pytest.raises(ValueError, match="read-only"):
        run(step=step)


def test_observers_see_every_iterate_once_with_the_last_status() -> None:
    events: list[Event] = []
    done = run(3, observers=[events.append])
    assert [event.nit for event in events] == [0, 1, 2, 3]
    assert [event.status for event in events] == [None, None, None, Status.MAX_ITERATIONS]
    assert [event.measures.evaluations.nfev for event in events] == [1, 3, 5, 7]
    assert events[-1].x is events[-1].state["x"] and not events[-1].x.flags.writeable
    assert events[-1].measures == done.measures


def test_a_failing_observer_is_dropped_and_the_run_goes_on() -> None:
    after: list[int] = []
    broken = Interrupt(lambda event: None, 2, ValueError)
    with pytest.warns(UserWarning, match="failed and is not called again"):
        done = run(4, observers=[broken, lambda event: after.append(event.nit)])
    assert done.nit == 4 and after == [0, 1, 2, 3, 4] and broken.calls == 2


@pytest.mark.parametrize("where", ["step", "observer"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_ctrl_c_anywhere_returns_the_last_complete_state(where: str, at: int, tmp_path: Path) -> None:
    whole = run()
    step = Interrupt(walk, at) if where == "step" else walk
    observers = [Interrupt(lambda event: None, at)] if where == "observer" else []
    done = run(step=step, observers=observers, checkpoint=tmp_path)
    assert done.status is Status.INTERRUPTED and done.nit == at - 1
    assert {len(column) for column in done.history.values()} == {at}
    np.testing.assert_array_equal(done.history["fun"], whole.history["fun"][:at])
    assert done.state["trace"][-1:] == (() if at == 1 else (done.history["first"][-1],))
    assert_same(run(checkpoint=tmp_path, resume=True), whole)


def test_interrupt_in_the_stopping_rule(tmp_path: Path) -> None:
    class Breaks(ms.StoppingRule):
        def check(self, progress: Any) -> None:
            if progress.nit == 3:
                raise KeyboardInterrupt

    done = run(stop=Breaks(), checkpoint=tmp_path)
    assert (done.status, done.nit) == (Status.INTERRUPTED, 3)
    assert_same(run(checkpoint=tmp_path, resume=True), run())


def test_observers_hear_of_the_interrupt_and_a_second_one_raises_after_a_checkpoint(tmp_path: Path) -> None:
    heard: list[Any] = []
    run(step=Interrupt(walk, 3), observers=[lambda event: heard.append(event.status)])
    assert heard == [None, None, None, Status.INTERRUPTED]

    def impatient(event: Event) -> None:
        if event.status is Status.INTERRUPTED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(step=Interrupt(walk, 3), observers=[impatient], checkpoint=tmp_path)
    heard.clear()
    resumed = run(observers=[lambda event: heard.append(event.nit)], checkpoint=tmp_path, resume=True)
    assert heard[0] == 2 and min(heard) == 2
    assert_same(resumed, run())


@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, SystemExit])
def test_exceptions_of_the_step_propagate_after_a_checkpoint(error: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(error):
        run(step=Interrupt(walk, 6, error), checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert_same(run(checkpoint=tmp_path, resume=True), run())


@pytest.mark.parametrize("k", range(10))
def test_resume_is_bit_identical_with_the_generator(k: int, tmp_path: Path) -> None:
    part = run(k, checkpoint=str(tmp_path))
    assert part.nit == k
    assert_same(run(checkpoint=str(tmp_path), resume=True), run())


def test_resume_counts_on_and_time_goes_on(tmp_path: Path) -> None:
    part = run(3, checkpoint=tmp_path)
    events: list[Event] = []
    done = run(5, checkpoint=tmp_path, resume=True, observers=[events.append])
    assert done.history["nfev"].tolist() == [1, 3, 5, 7, 9, 11]
    np.testing.assert_array_equal(done.history["time"][:4], part.history["time"])
    assert done.time >= part.history["time"][-1] and np.all(np.diff(done.history["time"]) >= 0)
    assert events[0].nit == 3 and events[-1].nit == 5


def test_resume_keeps_the_reference_of_relative_rules(tmp_path: Path) -> None:
    stop = ms.GradientNorm(1e-2, relative=True)
    run(2, checkpoint=tmp_path)
    assert_same(run(stop=stop, checkpoint=tmp_path, resume=True), run(stop=stop))


def test_resume_without_a_checkpoint_directory_starts_at_the_beginning(tmp_path: Path) -> None:
    assert_same(run(4, checkpoint=tmp_path / "none", resume=True), run(4))


def test_resume_needs_a_checkpoint_and_stop_a_rule() -> None:
    with pytest.raises(ValueError, match="resume=True needs a checkpoint"):
        run(resume=True)
    with pytest.raises(TypeError, match="is not a stopping rule"):
        run(stop=5)


def test_checkpoints_every_so_often(tmp_path: Path) -> None:
    counts: list[int] = []
    observer = lambda event: counts.append(len(list(tmp_path.glob("checkpoint-*"))))  # noqa: E731
    run(5, checkpoint=Checkpoint(tmp_path, every_seconds=0.0), observers=[observer])
    assert counts == [0, 1, 2, 2, 2, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-0000000004.npz",
        "checkpoint-0000000005.npz",
    ]


def test_another_number_of_blas_threads_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq._iterate.blas_threads", lambda: 1)
    run(3, checkpoint=tmp_path)
    monkeypatch.setattr("manifoldseq._iterate.blas_threads", lambda: 2)
    with pytest.warns(UserWarning, match=r"resumed with 2 BLAS threads.* written with 1"):
        run(5, checkpoint=tmp_path, resume=True)


def test_a_run_of_another_fingerprint_raises_an_error(tmp_path: Path) -> None:
    run(3, checkpoint=Checkpoint(tmp_path, fingerprint="these data"))
    with pytest.raises(CheckpointError, match="belongs to other data or settings"):
        run(3, checkpoint=Checkpoint(tmp_path, fingerprint="other data"), resume=True)
    assert_same(run(checkpoint=Checkpoint(tmp_path, fingerprint="these data"), resume=True), run())


def test_fresh_runs_overwrite_what_a_longer_run_left(tmp_path: Path) -> None:
    run(9, checkpoint=tmp_path)
    run(2, checkpoint=tmp_path)
    resumed = run(2, checkpoint=tmp_path, resume=True)
    assert resumed.nit == 2, "a run that starts anew must not leave checkpoints of an older run to be resumed"


class Strikes:
    """A trace function that raises KeyboardInterrupt before the k-th line that runs inside `_Loop.advance`."""

    def __init__(self, k: int) -> None:
        self.left, self.inside = k, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("_iterate.py"):
            return None
        if frame.f_code.co_name == "advance":
            self.inside += (event == "call") - (event == "return")
        if event == "line" and self.inside:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_an_interrupt_on_any_line_of_the_loop_loses_nothing(tmp_path: Path) -> None:
    whole = run(3)
    for k in range(1, 1000):
        strikes, before = Strikes(k), sys.gettrace()
        sys.settrace(strikes)
        try:
            done = run(3, checkpoint=tmp_path / str(k), observers=[lambda event: None])
        finally:
            sys.settrace(before)
        if strikes.left > 0:
            break
        assert done.status is Status.INTERRUPTED
        assert {len(column) for column in done.history.values()} == {done.nit + 1}, k
        np.testing.assert_array_equal(done.history["fun"], whole.history["fun"][: done.nit + 1], f"line {k}")
        assert done.state["x"][0] == done.history["first"][-1], k
        assert_same(run(3, checkpoint=tmp_path / str(k), resume=True), whole)
    assert 100 < k < 999


def test_steps_of_many_iterations_are_those_one_by_one(tmp_path: Path) -> None:
    def newton(x: np.ndarray) -> np.ndarray:
        return 0.5 * (x + 2 / x)

    def value(x: np.ndarray) -> float:
        return float(abs(x * x - 2)[0])

    def one(state: Any) -> Any:
        x = newton(state["x"])
        return {"x": x}, ms.Measures(value(x), 1.0, evaluations=ms.Evaluations(2))

    def many(state: Any) -> Any:
        x, values = state["x"], []
        for _ in range(3):
            x = newton(x)
            values.append(value(x))
        columns = {"fun": np.array(values), "grad_norm": np.ones(3), "nfev": 2.0 * np.arange(1, 4)}
        return {"x": x}, ms.Steps(tuple(ms.Measures(v, 1.0) for v in values), columns, ms.Evaluations(6))

    start, first = {"x": np.array([100.0])}, ms.Measures(9998.0, 1.0)
    single = ms.iterate(one, start, first, stop=ms.MaxIterations(6))
    run = ms.iterate(many, start, first, stop=ms.MaxIterations(6), checkpoint=tmp_path)
    assert run.nit == 6 and run.state["x"] == single.state["x"] and run.measures.evaluations.nfev == 12
    for name in ("nit", "fun", "grad_norm", "nfev"):
        np.testing.assert_array_equal(run.history[name], single.history[name])
    assert np.all(np.diff(run.history["time"]) >= 0)
    more = ms.iterate(many, start, first, stop=ms.MaxIterations(9), checkpoint=tmp_path, resume=True)
    assert more.nit == 9 and len(more.history["fun"]) == 10
    # a rule sees the last iterates of a step as if each had been one
    steady = ms.iterate(many, start, first, stop=ms.CostChange(1e-9) | ms.MaxIterations(60))
    assert steady.status is ms.Status.COST_CHANGE and steady.nit % 3 == 0


def test_steps_end_by_their_own_status_without_an_iteration() -> None:
    def stuck(state: Any) -> Any:
        none = {name: np.zeros(0) for name in ("fun", "grad_norm", "nfev")}
        return state, ms.Steps((ms.Measures(1.0, status=ms.Status.NO_DECREASE),), none, ms.Evaluations(30))

    run = ms.iterate(stuck, {"x": np.ones(1)}, ms.Measures(1.0), stop=ms.MaxIterations(5))
    assert run.status is ms.Status.NO_DECREASE and run.nit == 0 and run.history["nfev"].tolist() == [30.0]
