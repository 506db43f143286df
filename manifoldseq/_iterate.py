"""The one loop: every solver and every estimator with an outer iteration runs in it."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ._observers import Event, Observer
from ._result import Evaluations, Measures, Run, Status
from ._stopping import Progress, StoppingRule
from .execution import blas_threads
from .linalg._tree import dtype_of
from .storage import Checkpoint
from .storage._state import State, normalize

Step = Callable[[State], tuple[State, Measures]]

_COLUMNS = ("nit", "time", "fun", "grad_norm", "feasibility", "nfev")


def iterate(
    step: Step,
    state: State | Callable[[], tuple[State, Measures]],
    measures: Measures | None = None,
    *,
    stop: StoppingRule,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
) -> Run:
    """Repeat a step until a rule says stop.

    The loop owns time, counting, finite checks, history, observers, checkpoints and Ctrl-C; a step only computes.

    Parameters
    ----------
    step : callable
        ``step(state) -> (state, Measures)``. It never writes into the state that it was given.
    state : dict, tuple or callable
        Nested dict (string keys) or tuple of arrays, numbers, strings, booleans and None; the point, if any, at
        ``state["x"]``. Or a function ``() -> (state, Measures)``, called only when nothing is resumed.
    measures : Measures, optional
        Of the given state: record 0 of the history.
    stop : StoppingRule
        Asked before the first step and after every step.
    observers : sequence of callables
        Each gets an :class:`Event` per iterate. An exception in one is warned about, and that observer is dropped.
    checkpoint : Checkpoint, str or Path, optional
        Where to save; a directory means every 60 seconds and at the end.
    resume : bool
        Continue from the newest checkpoint there, if there is one: bit-identical to a run that was never interrupted,
        under the same number of BLAS threads.

    Returns
    -------
    Run

    Raises
    ------
    TypeError
        If a state is not in the grammar above.
    ValueError
        If resume is asked for without a checkpoint, or the checkpoint belongs to other data.

    Notes
    -----
    Exceptions of the step propagate after a checkpoint. Ctrl-C ends the run with status INTERRUPTED and the last
    complete state, after a checkpoint. A step whose objective or gradient norm is not finite is discarded: the run ends
    NON_FINITE with the state before it.

    Examples
    --------
    Newton's method for the square root of 2:

    >>> import numpy as np, manifoldseq as ms
    >>> def step(state):
    ...     x = 0.5 * (state["x"] + 2 / state["x"])
    ...     return {"x": x}, ms.Measures(fun=float(abs(x * x - 2)[0]))
    >>> run = ms.iterate(step, {"x": np.array([1.0])}, stop=ms.MaxIterations(6))
    >>> run.nit, run.state["x"].round(6).tolist()
    (6, [1.414214])
    """
    if not isinstance(stop, StoppingRule):
        raise TypeError(f"stop={stop!r} is not a stopping rule: use for example ms.MaxIterations(100)")
    store = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    if resume and store is None:
        raise ValueError("resume=True needs a checkpoint: pass checkpoint=DIRECTORY")
    loop = _Loop.resumed(store, observers) if resume and store is not None else None
    if loop is None:
        if callable(state):
            state, measures = cast("tuple[State, Measures]", state())
        loop = _Loop.started(normalize(state, copy=True), measures, store, observers)
    return loop.run(step, stop)


class _Loop:
    def __init__(
        self, state: State, progress: Progress, store: Checkpoint | None, observers: Sequence[Observer]
    ) -> None:
        self.at = (state, progress)  # one assignment moves on, so that no interrupt can part them
        self.columns: dict[str, list[float]] = {name: [] for name in _COLUMNS}
        self.store = store
        self.observers = list(observers)
        self.began = time.perf_counter() - progress.time
        self.saved = time.perf_counter()

    @classmethod
    def started(
        cls, state: State, measures: Measures | None, store: Checkpoint | None, observers: Sequence[Observer]
    ) -> _Loop:
        first = Measures(fun=math.nan) if measures is None else measures
        if measures is not None and not _finite(measures):
            first = dataclasses.replace(first, status=Status.NON_FINITE)
        progress = Progress(0, 0.0, first.evaluations, first, None, first, first.grad_norm or 0.0, _eps(state))
        loop = cls(state, progress, store, observers)
        loop.record()
        return loop

    @classmethod
    def resumed(cls, store: Checkpoint, observers: Sequence[Observer]) -> _Loop | None:
        loaded = store.load()
        if loaded is None:
            return None
        state, record, columns = loaded
        threads = blas_threads()
        if record["blas_threads"] != threads:
            warnings.warn(
                f"resumed with {threads} BLAS threads, written with {record['blas_threads']}: the last bits may differ",
                stacklevel=4,
            )
        first, previous, current = (_measures_from(record[key]) for key in ("first", "previous", "current"))
        assert first is not None and current is not None
        progress = Progress(
            record["nit"],
            record["time"],
            Evaluations(*record["evaluations"]),
            first,
            previous,
            current,
            first.grad_norm or 0.0,
            _eps(state),
        )
        loop = cls(state, progress, store, observers)
        loop.columns = {name: column.tolist() for name, column in columns.items()}
        return loop

    @property
    def state(self) -> State:
        return self.at[0]

    @property
    def progress(self) -> Progress:
        return self.at[1]

    def run(self, step: Step, stop: StoppingRule) -> Run:
        status = None
        try:
            status = self.check(stop)
            self.notify(status)
            while status is None:
                status = self.advance(step, stop)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            self.truncate()
            self.notify(status)
        except BaseException:
            self.truncate()
            self.save()
            raise
        self.save()
        progress = self.progress
        return Run(
            self.state,
            status,
            dataclasses.replace(progress.current, evaluations=progress.evaluations),
            progress.nit,
            time.perf_counter() - self.began,
            {name: np.array(column, dtype=int if name == "nit" else float) for name, column in self.columns.items()},
        )

    def advance(self, step: Step, stop: StoppingRule) -> Status | None:
        new_state, measures = step(self.state)
        if not _finite(measures):
            self.notify(Status.NON_FINITE)
            return Status.NON_FINITE
        new_state = normalize(new_state)
        old = self.progress
        progress = Progress(
            old.nit + 1,
            time.perf_counter() - self.began,
            old.evaluations.plus(measures.evaluations),
            old.first,
            old.current,
            measures,
            old.reference,
            old.eps,
        )
        self.at = (new_state, progress)
        self.record()
        status = self.check(stop)
        self.notify(status)
        if self.store is not None and time.perf_counter() - self.saved >= self.store.every_seconds:
            self.save()
        return status

    def check(self, stop: StoppingRule) -> Status | None:
        return stop.check(self.progress) or self.progress.current.status

    def record(self) -> None:
        progress = self.progress
        current = progress.current
        values = (
            progress.nit,
            progress.time,
            current.fun,
            _or_nan(current.grad_norm),
            _or_nan(current.feasibility),
            progress.evaluations.nfev,
        )
        columns = self.columns
        for name, value in zip(_COLUMNS, values, strict=True):
            columns[name].append(value)
        if current.extra or len(columns) > len(_COLUMNS):
            extra = {**dict.fromkeys(list(columns)[len(_COLUMNS) :], math.nan), **current.extra}
            for name, value in extra.items():
                columns.setdefault(name, [math.nan] * (len(columns["nit"]) - 1)).append(float(value))

    def truncate(self) -> None:
        """Rewrite the last record: after an interrupt anywhere it may be incomplete, or one too many."""
        before = self.progress.nit
        for name, column in self.columns.items():
            self.columns[name] = column[:before] + [math.nan] * (before - len(column))
        self.record()

    def notify(self, status: Status | None) -> None:
        if not self.observers:
            return
        progress = self.progress
        measures = dataclasses.replace(progress.current, evaluations=progress.evaluations)
        event = Event(progress.nit, progress.time, measures, self.state, _point(self.state), status)
        for observer in list(self.observers):
            try:
                observer(event)
            except Exception as error:
                self.observers.remove(observer)
                warnings.warn(f"the observer {observer!r} failed and is left out from here on: {error!r}", stacklevel=5)

    def save(self) -> None:
        if self.store is None:
            return
        progress = self.progress
        record = {
            "nit": progress.nit,
            "time": progress.time,
            "evaluations": [float(count) for count in progress.evaluations],
            "first": _measures_to(progress.first),
            "previous": _measures_to(progress.previous),
            "current": _measures_to(progress.current),
            "blas_threads": blas_threads(),
        }
        self.store.save(
            progress.nit, self.state, record, {name: np.array(column) for name, column in self.columns.items()}
        )
        self.saved = time.perf_counter()


def _point(state: State) -> Any:
    return state.get("x") if isinstance(state, dict) else None


def _eps(state: State) -> float:
    point = _point(state)
    single = point is not None and dtype_of(point) == np.float32
    return float(np.finfo(np.float32 if single else np.float64).eps)


def _finite(measures: Measures) -> bool:
    return math.isfinite(measures.fun) and (measures.grad_norm is None or math.isfinite(measures.grad_norm))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _measures_to(measures: Measures | None) -> dict[str, Any] | None:
    if measures is None:
        return None
    numbers = ("fun", "grad_norm", "feasibility", "step_size", "egrad_norm")
    return {
        **{name: None if (value := getattr(measures, name)) is None else float(value) for name in numbers},
        "status": measures.status.name if measures.status else None,
        "evaluations": [float(count) for count in measures.evaluations],
        "extra": {name: float(value) for name, value in measures.extra.items()},
    }


def _measures_from(document: dict[str, Any] | None) -> Measures | None:
    if document is None:
        return None
    status = Status[document["status"]] if document["status"] else None
    return Measures(**{**document, "status": status, "evaluations": Evaluations(*document["evaluations"])})
