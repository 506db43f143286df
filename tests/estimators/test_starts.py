"""`fit_starts`: executors, Ctrl-C, resuming, ranks and logs, for an estimator that is written here."""

from __future__ import annotations

import logging
import signal
import threading
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq.estimators import fit_starts
from manifoldseq.storage import Checkpoint, CheckpointError


class Wanderer(BaseEstimator):
    """Random walks from random places; `fun` is the squared distance to a place. No two starts are alike."""

    def __init__(
        self, n_init: int = 4, *, max_iter: int = 30, random_state: Any = 0, n_jobs: Any = None, verbose: int = 0
    ) -> None:
        self.n_init, self.max_iter, self.random_state = n_init, max_iter, random_state
        self.n_jobs, self.verbose = n_jobs, verbose

    def fit(self, place: Any, at: Any = None, **options: Any) -> Wanderer:
        """Walk; `at` is called with the number of the start and of the step before each step."""

        def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
            def measured(state: dict[str, Any]) -> tuple[dict[str, Any], ms.Measures]:
                return state, ms.Measures(float(np.sum((state["x"] - place) ** 2)))

            def step(state: dict[str, Any]) -> tuple[dict[str, Any], ms.Measures]:
                if at is not None:
                    at(number, state["step"])
                walk = np.random.default_rng([state["seed"], state["step"]])
                return measured({**state, "x": state["x"] + walk.standard_normal(3), "step": state["step"] + 1})

            def start() -> tuple[dict[str, Any], ms.Measures]:
                seed = int(rng.integers(2**31))
                return measured({"x": rng.standard_normal(3), "seed": seed, "step": 0})

            return ms.iterate(step, start, stop=ms.MaxIterations(self.max_iter), **loop)

        self.run_ = fit_starts(self, run, np.asarray(place), **options)
        return self


PLACE = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("n_jobs", [np.int64(2), np.uint8(1), 2])
def test_numbers_of_threads_may_be_those_of_numpy(n_jobs: Any) -> None:
    serial = Wanderer(np.int64(3)).fit(PLACE)
    np.testing.assert_array_equal(Wanderer(3, n_jobs=n_jobs).fit(PLACE).run_.state["x"], serial.run_.state["x"])


def assert_same(one: Wanderer, other: Wanderer) -> None:
    """The runs agree bit by bit, but for their times and, if one was interrupted, their statuses."""
    np.testing.assert_array_equal(one.run_.state["x"], other.run_.state["x"])
    for name in ("nit", "fun"):
        np.testing.assert_array_equal(one.run_.history[name], other.run_.history[name])


def test_the_best_start_is_the_best_of_single_runs() -> None:
    rng, funs = np.random.default_rng(0), []
    for child in rng.spawn(4):
        seed, x = int(child.integers(2**31)), None
        x = child.standard_normal(3)
        for k in range(30):
            x = x + np.random.default_rng([seed, k]).standard_normal(3)
        funs.append(float(np.sum((x - PLACE) ** 2)))
    assert Wanderer().fit(PLACE).run_.fun == pytest.approx(min(funs), rel=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
@pytest.mark.parametrize("around", ["serial", "threads"])
def test_executors_and_jobs_change_no_bit(n_jobs: int, around: str) -> None:
    with ms.execution.using(around, 3 if around == "threads" else None):
        assert_same(Wanderer().fit(PLACE), Wanderer(n_jobs=n_jobs).fit(PLACE))
    assert_same(Wanderer(n_jobs=n_jobs).fit(PLACE), Wanderer().fit(PLACE))


def test_jobs_are_threads() -> None:
    seen = set()
    barrier = threading.Barrier(4, timeout=20)

    def at(number: int, step: int) -> None:
        if step == 0:
            barrier.wait()  # all four starts are at their first step at once
            seen.add(threading.get_ident())

    Wanderer(n_jobs=4).fit(PLACE, at)
    assert len(seen) == 4


def ctrl_c() -> None:
    """Press Ctrl-C: the signal goes to the main thread, from whichever thread this is called in."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_ends_the_start_that_runs() -> None:
    def at(number: int, step: int) -> None:
        if step == 5:
            ctrl_c()

    model, whole = Wanderer().fit(PLACE, at), Wanderer(1).fit(PLACE)
    assert model.run_.status is ms.Status.INTERRUPTED and model.run_.nit == 5
    np.testing.assert_array_equal(model.run_.history["fun"], whole.run_.history["fun"][:6])


def test_ctrl_c_ends_all_starts_in_their_threads() -> None:
    """It arrives in the main thread, while four starts of hours run in others."""
    together, left = threading.Barrier(4, timeout=20), []

    def at(number: int, step: int) -> None:
        if step == 5:
            together.wait()
        if (number, step) == (0, 6):
            ctrl_c()
        if step > 6:
            pause.wait(0.01)

    pause = threading.Event()
    before = threading.active_count()
    model = Wanderer(6, max_iter=10**6, n_jobs=4).fit(
        PLACE, at, observers=[lambda event: left.append(event.nit) if event.status else None]
    )
    assert model.run_.status is ms.Status.INTERRUPTED
    for _ in range(1000):  # a pool that is interrupted while it begins its last thread does not wait for that one
        if threading.active_count() == before:
            break
        pause.wait(0.01)
    assert threading.active_count() == before
    assert len(left) == 4 and min(left) >= 5  # two starts were never begun
    assert model.run_.nit in left


def test_ctrl_c_before_anything_is_reached_is_raised() -> None:
    def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_starts(Wanderer(), run)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_between_starts_keeps_those_before(n_jobs: int | None) -> None:
    def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
        if number == 2:
            raise KeyboardInterrupt
        return ms.iterate(lambda state: (state, ms.Measures(1.0)), {"number": number}, stop=ms.MaxIterations(1), **loop)

    found = fit_starts(Wanderer(n_jobs=n_jobs), run)
    assert found.status is ms.Status.INTERRUPTED and found.state["number"] == 0  # the first of equals


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_interrupted_fit_resumes_bit_by_bit(n_jobs: int | None, tmp_path: Path) -> None:
    store, whole = Checkpoint(tmp_path, every_seconds=0), Wanderer().fit(PLACE)

    def at(number: int, step: int) -> None:
        if (number, step) == (1, 7):
            raise KeyboardInterrupt

    part = Wanderer(n_jobs=n_jobs).fit(PLACE, at, checkpoint=store)
    assert part.run_.status is ms.Status.INTERRUPTED
    steps: list[int] = []
    resumed = Wanderer(n_jobs=n_jobs).fit(PLACE, lambda _, step: steps.append(step), checkpoint=store, resume=True)
    assert_same(resumed, whole)
    assert resumed.run_.status is whole.run_.status and len(steps) < 4 * 30
    with pytest.raises(CheckpointError, match="other data or settings"):
        Wanderer().fit(PLACE + 1, checkpoint=store, resume=True)
    with pytest.raises(CheckpointError, match="other data or settings"):
        Wanderer(random_state=1).fit(PLACE, checkpoint=store, resume=True)
    longer = Wanderer(max_iter=40, n_jobs=2).fit(PLACE, checkpoint=store, resume=True)
    assert_same(longer, Wanderer(max_iter=40).fit(PLACE))


def test_a_start_that_did_not_stay_finite_is_never_the_best() -> None:
    def run(number: int, rng: np.random.Generator, **loop: Any) -> ms.Run:
        funs = iter([-5.0, np.nan] if number == 0 else [1.0, float(number)])
        return ms.iterate(
            lambda state: ({"number": number}, ms.Measures(next(funs))),
            lambda: ({"number": number}, ms.Measures(next(funs))),
            stop=ms.MaxIterations(1),
            **loop,
        )

    found = fit_starts(Wanderer(n_init=3), run)
    assert (found.state["number"], found.status) == (1, ms.Status.MAX_ITERATIONS)
    assert fit_starts(Wanderer(n_init=1), run).status is ms.Status.NON_FINITE


def test_observers_hear_every_start_and_a_resume_needs_a_checkpoint() -> None:
    for n_jobs in (None, 3):
        seen: list[tuple[int, Any]] = []
        Wanderer(max_iter=3, n_jobs=n_jobs).fit(PLACE, observers=[lambda event, s=seen: s.append(event.nit)])
        assert sorted(seen) == sorted([0, 1, 2, 3] * 4)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="needs a checkpoint"):
        Wanderer().fit(PLACE, resume=True)
    with pytest.raises(ValueError, match="checkpoint=3 is not valid: name a folder"):
        Wanderer().fit(PLACE, checkpoint=3)


def test_verbose_logs_under_one_logger(caplog: pytest.LogCaptureFixture) -> None:
    Wanderer(max_iter=2).fit(PLACE)
    assert not caplog.records
    Wanderer(max_iter=2, verbose=1).fit(PLACE)
    assert [record.name for record in caplog.records] == ["manifoldseq"] * 4
    assert [record.levelno for record in caplog.records] == [logging.INFO] * 4
    assert caplog.messages[1].startswith("Wanderer, start 2 of 4: iteration 2, objective ")
    assert caplog.messages[1].endswith("MAX_ITERATIONS")
    caplog.clear()
    Wanderer(1, max_iter=2, verbose=2).fit(PLACE)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG] * 2 + [logging.INFO]
    assert caplog.messages[0].startswith("Wanderer: iteration 0, objective ")
    caplog.clear()
    with caplog.at_level(logging.INFO, "manifoldseq"):  # whoever listens hears without verbose
        Wanderer(max_iter=2).fit(PLACE)
    assert len(caplog.records) == 4


def test_without_logging_verbose_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    Wanderer(2, max_iter=2, verbose=1).fit(PLACE)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("Wanderer, start 1 of 2: iteration 2")


STARTS = {"n_init", "max_iter"}


def iterative() -> list[str]:
    """Return the bundled estimators with starts or iterations of their own, but for sweeps of one batch."""
    found = []
    for plugin, record in ms.hooks.records("estimators"):
        if plugin.name in ("hope", "lds", "mpcca", "hierarchical"):
            factory: Any = record.resolved().factory  # type: ignore[attr-defined]
            if STARTS & signature(factory).parameters.keys() and record.name != "lds-identifier":
                found.append(record.name)
    return found


@pytest.mark.parametrize("name", iterative())
def test_every_iterative_estimator_takes_jobs_and_verbose(name: str) -> None:
    parameters = signature(ms.get_estimator(name)).parameters
    assert (parameters["n_jobs"].default, parameters["verbose"].default) == (None, 0)
