"""The iteration loop that runs every solver and every iterative estimator."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from ._observers import Event, Observer, tell
from ._result import Evaluations, Measures, Run, Status, Steps
from ._stopping import ASSERTED, LAST, RunSoFar, Stop, StoppingRule, stopping_rule, undecided_before
from .execution import blas_threads, one_blas_thread
from .linalg import EPS, dtype_of
from .storage import Checkpoint
from .storage._state import State, normalize

Step = Callable[[State], tuple[State, Measures | Steps]]

SEVERAL_THREADS = 500_000
"""Number of entries of a point from which several BLAS threads may be faster: `python -m benchmarks.engine threads`."""

_FLOAT64 = np.dtype(np.float64)
_COLUMNS = ("nit", "time", "fun", "grad_norm", "feasibility", "nfev")
_NUMBERS = (
    *("fun", "grad_norm", "feasibility", "step_size", "egrad_norm"),
    *("curvature", "curvature_ahead", "scale", "pushed_inward", "complementarity", "unclaimed_slope"),
    "distance",
)


def iterate(
    step: Step,
    state: State | Callable[[], tuple[State, Measures]],
    measures: Measures | None = None,
    *,
    stop: Stop,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
) -> Run:
    """Repeat a step until a stopping rule ends the run.

    The loop measures time, counts evaluations, tests for finite values, writes the history and checkpoints, calls the
    observers and handles Ctrl-C. A step only computes the next state.

    Parameters
    ----------
    step : callable
        ``step(state) -> (state, Measures)``. It must not write into its argument. A step that makes many iterations in
        an inner loop returns ``(state, Steps)``, see :class:`Steps`: rules, observers and checkpoints are called after
        each step.
    state : dict, tuple or callable
        Nested dict (string keys) or tuple of arrays, numbers, strings, booleans and None; the point, if any, at
        ``state["x"]``. Alternatively, a function ``() -> (state, Measures)``, which is called only if no checkpoint is
        resumed.
    measures : Measures, optional
        The measures of the given state, which are record 0 of the history.
    stop : StoppingRule or callable
        A rule, or a function of a :class:`RunSoFar`. It is evaluated before the first step and after every step.
    observers : sequence of callables
        Each observer receives an :class:`Event` per iterate, and a last event when the run is interrupted or ends at a
        non-finite value. If an observer raises an exception, a warning is given and the observer is not called again.
    checkpoint : Checkpoint, str or Path, optional
        The place of the saved state. With a directory, the state is saved every 60 seconds and at the end.
    resume : bool
        Continue from the newest checkpoint, if there is one. If the number of BLAS threads is the same, the results are
        bit-identical to the results of a run without interruption.

    Returns
    -------
    Run

    Raises
    ------
    TypeError
        If a state contains other types than the types listed above.
    ValueError
        If `resume` is True without a checkpoint, or if the checkpoint belongs to other data.

    Notes
    -----
    Exceptions of the step propagate after a checkpoint is written. Their attribute ``run`` is the run up to the
    exception. Ctrl-C ends the run with status INTERRUPTED and the last complete state, after a checkpoint is written. A
    step whose objective or gradient norm is not finite is discarded, and the run ends with status NON_FINITE and the
    previous state. BLAS uses one thread, with two exceptions: the point (or the state, if it has no point) has 500,000
    entries or more, or the number of threads is set inside a block of :func:`manifoldseq.execution.one_blas_thread`.

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
    return confirmed(step, state, measures, Asks(), stop, observers, checkpoint, resume)


class Asks(NamedTuple):
    """The functions of a solver that the loop calls between its steps."""

    confirm: Callable[[State, RunSoFar], Measures] | None = None
    """Before a run ends as solved or stuck: the measures of the iterate with what lies ahead."""
    verify: Callable[[State, Measures], Measures] | None = None
    """Before it ends with success: whether the objective contradicts its gradient there."""
    leave: Callable[[State, bool], tuple[State, Measures] | None] | None = None
    """Where it would end as stalled: one more step. The second argument is whether the curvature ahead is negative."""
    informed: Callable[[State, Measures], State] | None = None
    """Where it goes on after a confirmation: the state that knows of it."""


def confirmed(
    step: Step,
    state: State | Callable[[], tuple[State, Measures]],
    measures: Measures | None,
    asks: Asks,
    stop: Stop,
    observers: Sequence[Observer],
    checkpoint: Checkpoint | str | Path | None,
    resume: bool,
    trusted: bool = False,
) -> Run:
    """Run :func:`iterate` with a solver that provides further functions in addition to its step.

    States of a trusted step follow the grammar and are never written to; they are validated and made read-only only
    when they are passed to others.
    """
    rule = stopping_rule(stop)
    store = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    if resume and store is None:
        raise ValueError("resume=True needs a checkpoint: pass checkpoint=DIRECTORY")
    for observer in observers:
        if not callable(observer):
            raise TypeError(f"the observer {observer!r} is not callable: pass a function that takes an event")
    if store is not None:
        store.prepare()
    trusted = trusted and store is None and not observers
    with contextlib.ExitStack() as limit:
        limit.enter_context(one_blas_thread())
        loop = _Loop.resumed(store, observers, limit) if resume and store is not None else None
        if loop is None:
            began = time.perf_counter()
            if callable(state):
                state, measures = cast("tuple[State, Measures]", state())
            loop = _Loop.started(state if trusted else normalize(state, copy=True), measures, store, observers)
            loop.saved = began  # a start may take longer than the time between checkpoints
        if not is_small(loop.state):
            limit.close()
        loop.asks = asks
        loop.trusted = trusted
        return loop.run(step, rule)


class _Loop:
    def __init__(self, state: State, so_far: RunSoFar, store: Checkpoint | None, observers: Sequence[Observer]) -> None:
        self.at = (state, so_far)  # one assignment moves on, so that no interrupt can part them
        self.columns: dict[str, list[float]] = {name: [] for name in _COLUMNS}
        self.store = store
        self.observers = list(observers)
        self.began = time.perf_counter() - so_far.time
        self.saved = time.perf_counter()
        self.asks = Asks()
        self.trusted = False

    @classmethod
    def started(
        cls, state: State, measures: Measures | None, store: Checkpoint | None, observers: Sequence[Observer]
    ) -> _Loop:
        first = Measures(fun=math.nan) if measures is None else measures
        if measures is not None and not _finite(measures):
            first = dataclasses.replace(first, status=Status.NON_FINITE)
        so_far = RunSoFar((first,), evaluations=first.evaluations, eps=_eps(state))
        loop = cls(state, so_far, store, observers)
        loop.record()
        return loop

    @classmethod
    def resumed(cls, store: Checkpoint, observers: Sequence[Observer], limit: contextlib.ExitStack) -> _Loop | None:
        loaded = store.load()
        if loaded is None:
            return None
        state, record, columns = loaded
        if not is_small(state):
            limit.close()
        threads = blas_threads()
        if record["blas_threads"] != threads:
            warnings.warn(
                f"the run is resumed with {threads} BLAS threads, but its checkpoint was written with "
                f"{record['blas_threads']}: results may differ in the last digits",
                stacklevel=4,
            )
        first, recent = _measures_from(record["first"]), tuple(map(_measures_from, record["recent"]))
        spent = Evaluations(*record["evaluations"])
        so_far = RunSoFar(recent, record["nit"], record["time"], spent, first, eps=_eps(state))
        loop = cls(state, so_far, store, observers)
        loop.columns = {name: column.tolist() for name, column in columns.items()}
        return loop

    @property
    def state(self) -> State:
        return self.at[0]

    @property
    def so_far(self) -> RunSoFar:
        return self.at[1]

    def run(self, step: Step, stop: StoppingRule) -> Run:
        status = None
        try:
            status = self.check(stop)
            self.notify(status)
            if status is None:
                self.save_if_due()
            while status is None:
                status = self.advance(step, stop)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            self.mend_last_record()
            try:
                self.notify(status)
            except KeyboardInterrupt:  # a second one, or that of an observer once more
                self.save()
                raise
        except BaseException as error:
            self.mend_last_record()
            self.save()
            with contextlib.suppress(AttributeError):  # not every exception accepts attributes
                error.run = self.outcome(Status.FAILED)  # type: ignore[attr-defined]
            raise
        try:
            self.save()
        except OSError as error:
            warnings.warn(f"the last checkpoint could not be written: {error}", stacklevel=3)
        except KeyboardInterrupt:  # held back until the checkpoint was complete
            status = Status.INTERRUPTED
        return self.outcome(status)

    def outcome(self, status: Status) -> Run:
        so_far = self.so_far
        return Run(
            normalize(self.state),
            status,
            so_far.current.with_evaluations(so_far.evaluations),
            so_far.nit,
            time.perf_counter() - self.began,
            {name: np.array(column, dtype=int if name == "nit" else float) for name, column in self.columns.items()},
        )

    def advance(self, step: Step, stop: StoppingRule) -> Status | None:
        outcome = step(self.at[0])
        if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], Measures | Steps)):
            raise TypeError(f"a step must return (state, ms.Measures(…)), got {type(outcome).__name__}")
        new_state, measures = outcome
        if isinstance(measures, Steps):
            return self.advance_by(new_state, measures, stop)
        return self.moved(new_state, measures, stop)

    def moved(self, new_state: State, measures: Measures, stop: StoppingRule) -> Status | None:
        """Take what one iteration has left."""
        if not _finite(measures):
            self.notify(Status.NON_FINITE)
            return Status.NON_FINITE
        if not self.trusted:
            new_state = normalize(new_state, self.at[0])
        self.at = (new_state, self.at[1].after(measures, time.perf_counter() - self.began))
        self.record()
        return self.checked(stop)

    def advance_by(self, state: State, steps: Steps, stop: StoppingRule) -> Status | None:
        """Process the iterations of one step: their rows of the history, and the last measures."""
        so_far, n, now = self.at[1], len(steps.history["fun"]), time.perf_counter() - self.began
        if n == 0:
            nothing = dataclasses.replace(so_far.current, status=steps.recent[-1].status, evaluations=steps.evaluations)
            self.at = (normalize(state, self.at[0]), so_far.instead(nothing))
            self.columns["nfev"][-1] = self.at[1].evaluations.nfev
            return self.checked(stop)
        if not _finite(steps.recent[-1]):
            raise ValueError(
                "a step returned ms.Steps whose last value is not finite: return only the iterations before this value"
            )
        spent = so_far.evaluations
        rows = {name: np.asarray(column, dtype=float).tolist() for name, column in steps.history.items()}
        rows["nfev"] = [spent.nfev + count for count in rows["nfev"]]
        rows["nit"] = list(range(so_far.nit + 1, so_far.nit + n + 1))
        rows["time"] = np.linspace(so_far.time, now, n + 1)[1:].tolist()  # no clock runs inside of a step
        recent = (*so_far.recent, *steps.recent)[-LAST:]
        self.at = (
            normalize(state, self.at[0]),
            dataclasses.replace(
                so_far, recent=recent, nit=so_far.nit + n, time=now, evaluations=spent.plus(steps.evaluations)
            ),
        )
        for name in {**self.columns, **rows}:
            earlier = self.columns.setdefault(name, [math.nan] * (so_far.nit + 1))
            earlier.extend(rows.get(name, [math.nan] * n))
        return self.checked(stop)

    def checked(self, stop: StoppingRule) -> Status | None:
        """Evaluate the rule, call the observers, and save the state if it is due."""
        status = self.check(stop)
        lower = None
        if self.asks.leave is not None and status is Status.STALLED:
            lower = self.asks.leave(self.at[0], is_cornered(status, self.at[1].current))
        self.notify(status if lower is None else None)
        self.save_if_due()
        return status if lower is None else self.moved(*lower, stop)

    def check(self, stop: StoppingRule) -> Status | None:
        given = self.at[1].current.status
        if given is Status.NON_FINITE:
            return given
        status = stop.check(self.at[1]) or given
        if status is not None:
            state, (confirm, verify, _, informed) = self.at[0], self.asks
            status, so_far = concluded(
                stop,
                self.at[1],
                status,
                None if confirm is None else lambda so_far: confirm(state, so_far),
                None if verify is None else lambda now: verify(state, now),
            )
            if so_far is not self.at[1]:
                self.at = (state if informed is None else informed(state, so_far.current), so_far)
                self.columns["nfev"][-1] = so_far.evaluations.nfev
        return status

    def record(self) -> None:
        so_far = self.at[1]
        current = so_far.current
        values = (
            so_far.nit,
            so_far.time,
            current.fun,
            _or_nan(current.grad_norm),
            _or_nan(current.feasibility),
            so_far.evaluations.nfev,
        )
        columns = self.columns
        for column, value in zip(columns.values(), values, strict=False):  # without the extra ones, which come last
            column.append(value)
        more = current.extra
        if current.complementarity is not None:  # of problems with constraints only
            more = {**more, "complementarity": current.complementarity}
        if more or len(columns) > len(_COLUMNS):
            if not set(_COLUMNS).isdisjoint(current.extra):
                raise ValueError(
                    f"Measures(extra={dict(current.extra)!r}) has a key that is a column of the history "
                    f"({', '.join(_COLUMNS)}): rename the key"
                )
            extra = {**dict.fromkeys(list(columns)[len(_COLUMNS) :], math.nan), **more}
            for name, value in extra.items():
                columns.setdefault(name, [math.nan] * (len(columns["nit"]) - 1)).append(float(value))

    def mend_last_record(self) -> None:
        """Rewrite the last record, which may be incomplete or superfluous after an interrupt."""
        before = self.so_far.nit
        for name, column in self.columns.items():
            self.columns[name] = column[:before] + [math.nan] * (before - len(column))
        self.record()

    def notify(self, status: Status | None) -> None:
        if not self.observers:
            return
        so_far = self.at[1]
        measures = so_far.current.with_evaluations(so_far.evaluations)
        state = MappingProxyType(self.state) if isinstance(self.state, dict) else self.state
        event = Event(so_far.nit, so_far.time, measures, state, _point(self.state), status)
        tell(self.observers, event, 5)

    def save_if_due(self) -> None:
        if self.store is not None and time.perf_counter() - self.saved >= self.store.every_seconds:
            self.save()

    def save(self) -> None:
        if self.store is None:
            return
        so_far = self.so_far
        record = {
            "nit": so_far.nit,
            "time": so_far.time,
            "evaluations": [float(count) for count in so_far.evaluations],
            "first": _measures_to(so_far.first),
            "recent": list(map(_measures_to, so_far.recent)),
            "blas_threads": blas_threads(),
        }
        self.store.save(
            so_far.nit, self.state, record, {name: np.array(column) for name, column in self.columns.items()}
        )
        self.saved = time.perf_counter()


def is_small(state: State) -> bool:
    """Return whether the point of a state (without ``"x"``, the state) is too small for several BLAS threads."""
    point = _point(state)
    return _entries(state if point is None else point) < SEVERAL_THREADS


def _entries(tree: Any) -> int:
    if isinstance(tree, np.ndarray):
        return tree.size
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple) else ()
    return sum(map(_entries, parts))


def concluded(
    stop: StoppingRule,
    so_far: RunSoFar,
    status: Status,
    confirm: Callable[[RunSoFar], Measures] | None,
    verify: Callable[[Measures], Measures] | None,
) -> tuple[Status | None, RunSoFar]:
    """Return the final status of a run after a confirmation, or None if the run continues, and the remeasured run."""
    given = so_far.current.status
    if needs_confirmation(status, given) and confirm is not None and so_far.current.curvature_ahead is None:
        so_far = so_far.instead(undecided(so_far.current) if is_waiting(status, so_far) else confirm(so_far))
        found = stop.check(so_far) or given
    else:
        found = status
    if found is not None and found.success and verify is not None:
        if so_far.current.unclaimed_slope is None:
            so_far = so_far.instead(verify(so_far.current))
        found = Status.NO_DECREASE if so_far.current.unclaimed_slope else found
    return found, so_far


def is_cornered(status: Status | None, current: Measures) -> bool:
    """Return whether a run would end as stalled at a point with negative curvature ahead.

    If a search fails, the gradient may be wrong and gives no information about curvature.
    """
    ahead = current.curvature_ahead
    return status is Status.STALLED and ahead is not None and ahead < 0


def needs_confirmation(status: Status | None, given: Status | None) -> bool:
    """Return whether a status makes a statement about the point that the step has not verified."""
    return status in ASSERTED and (status is not given or not status.success)


def is_waiting(status: Status | None, so_far: RunSoFar) -> bool:
    """Return whether a confirmation is left out, because the last one did not decide and little has changed since."""
    return status is Status.CONVERGED and so_far.current.status is None and undecided_before(so_far.recent)


def undecided(measures: Measures) -> Measures:
    """Return measures as after a confirmation that did not decide, without evaluations."""
    return dataclasses.replace(measures, curvature_ahead=0.0, evaluations=Evaluations())


def _point(state: State) -> Any:
    return state.get("x") if isinstance(state, dict) else None


def _eps(state: State) -> float:
    point = _point(state)
    return EPS[_FLOAT64] if point is None else EPS.get(dtype_of(point), EPS[_FLOAT64])


def _finite(measures: Measures) -> bool:
    slope, violation = measures.grad_norm, measures.feasibility
    finite = math.isfinite
    return finite(measures.fun) and (slope is None or finite(slope)) and (violation is None or finite(violation))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _measures_to(measures: Measures) -> dict[str, Any]:
    return {
        **{name: None if (value := getattr(measures, name)) is None else float(value) for name in _NUMBERS},
        "status": measures.status.name if measures.status else None,
        "evaluations": [float(count) for count in measures.evaluations],
        "extra": {name: float(value) for name, value in measures.extra.items()},
    }


def _measures_from(document: dict[str, Any]) -> Measures:
    status = Status[document["status"]] if document["status"] else None
    return Measures(**{**document, "status": status, "evaluations": Evaluations(*document["evaluations"])})
