"""Observers of a run: a progress bar, a recorder, any callable of an event."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from ._extras import needing
from ._result import Measures, Status
from .execution import map_ordered
from .storage._state import normalize

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Event:
    """One iterate of a run.

    Attributes
    ----------
    nit : int
        The number of the iterate, 0 at the start.
    time : float
        Seconds since the start.
    measures : Measures
        The measures of the iterate, with the evaluations of the whole run so far.
    state : dict or tuple
        The state, which is read-only.
    x : Point or None
        The point, if the state has one.
    status : Status or None
        The status of the run in its last event, otherwise None.
    """

    nit: int
    time: float
    measures: Measures
    state: Any
    x: Any
    status: Status | None

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.state) if isinstance(self.state, MappingProxyType) else self.state
        return _event, (self.nit, self.time, self.measures, state, self.x, self.status)


def _event(nit: int, time: float, measures: Measures, state: Any, x: Any, status: Status | None) -> Event:
    """Return the event of another process, read-only like all events."""
    state, x = normalize((state, x))
    return Event(nit, time, measures, MappingProxyType(state) if isinstance(state, dict) else state, x, status)


Observer = Callable[[Event], Any]


def tell(observers: list[Observer], event: Event, stacklevel: int) -> None:
    """Call observers; warn about an observer that fails and remove it from the list."""
    for observer in list(observers):
        try:
            observer(event)
        except Exception as error:
            observers.remove(observer)
            warnings.warn(
                f"the observer {observer!r} failed and is not called again: {error!r}", stacklevel=stacklevel + 1
            )


def map_observed(
    function: Callable[[T, Sequence[Observer]], R], tasks: Iterable[T], observers: Sequence[Observer] = ()
) -> list[R]:
    """Return ``[function(task, observers) for task in tasks]``, computed by the executor of the context.

    Observers are called in this process and are never copied. If a task runs in another process, its events are
    returned with its result, and the observers receive them in the order of the tasks when all tasks are done. If no
    observer needs states (``needs_state = False``, as for `Progress`), these events have no state.

    Parameters
    ----------
    function : callable
        ``function(task, observers)``, which passes the observers to :func:`manifoldseq.iterate` or
        :func:`manifoldseq.minimize`.
    tasks : iterable
    observers : sequence of callables

    Returns
    -------
    list

    Raises
    ------
    TypeError
        If an observer is not callable.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: (x**2).sum()))
    >>> def run(start, observers):
    ...     return ms.minimize(problem, np.full(2, start), observers=observers).fun
    >>> seen = ms.Recorder(lambda event: event.nit)
    >>> [round(fun, 9) for fun in ms.map_observed(run, [1.0, 2.0], [seen])], seen.records.count(0)
    ([0.0, 0.0], 2)
    """
    for observer in observers:
        if not callable(observer):
            raise TypeError(f"the observer {observer!r} is not callable: pass a function that takes an event")
    left = list(observers)
    pairs = map_ordered(_Observed(function, tuple(observers)), tasks)
    for _, events in pairs:
        for event in events:
            tell(left, event, 2)
    return [result for result, _ in pairs]


class _Observed(Generic[T, R]):
    """A function of a task and observers as one of the task only; in another process it also returns the events."""

    def __init__(self, function: Callable[[T, Sequence[Observer]], R], observers: tuple[Observer, ...]) -> None:
        self.function, self.here = function, observers
        self.wanted = bool(observers)
        self.states = any(getattr(observer, "needs_state", True) for observer in observers)

    def __call__(self, task: T) -> tuple[R, list[Event]]:
        events: list[Event] = []
        if self.here or not self.wanted:
            return self.function(task, self.here), events
        return self.function(task, (lambda event: events.append(event if self.states else _stateless(event)),)), events

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "here": ()}


def _stateless(event: Event) -> Event:
    return replace(event, state={}, x=None)


def _point(event: Event) -> Any:
    return event.x


class Recorder:
    """Store the return value of a function for every event.

    Parameters
    ----------
    function : callable
        ``function(event)``; by default the point.

    Attributes
    ----------
    records : list

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> seen = ms.Recorder(lambda event: event.measures.fun)
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: (x**2).sum()))
    >>> result = ms.minimize(problem, np.ones(2), observers=[seen])
    >>> seen.records[0]
    2.0
    """

    def __init__(self, function: Callable[[Event], Any] = _point) -> None:
        self.function = function
        self.records: list[Any] = []

    def __call__(self, event: Event) -> None:
        self.records.append(self.function(event))


class Progress:
    """A progress bar with objective, gradient norm and evaluations, drawn by tqdm.

    Parameters
    ----------
    total : int, optional
        Expected number of iterations, from which the remaining time is estimated.
    description : str
    **options
        Passed to ``tqdm``; ``disable=None`` (the default) hides the bar when the output is not a terminal.

    Raises
    ------
    ImportError
        If tqdm is not installed; the error message says how to install it.
    """

    needs_state: ClassVar[bool] = False

    def __init__(self, total: int | None = None, description: str = "", **options: Any) -> None:
        with needing("progress bars need", "cli"):
            from tqdm import tqdm
        self._draw = tqdm
        self._options = {"total": total, "desc": description or None, "unit": "it", "disable": None, **options}
        self._bar: Any = None

    def __call__(self, event: Event) -> None:
        if self._bar is None:
            self._bar = self._draw(initial=event.nit, **self._options)
        measures = event.measures
        text = f"fun={measures.fun:.6g}"
        if measures.grad_norm is not None:
            text += f" grad={measures.grad_norm:.1e}"
        if measures.feasibility is not None:
            text += f" feasibility={measures.feasibility:.1e}"
        if measures.complementarity is not None:
            text += f" complementarity={measures.complementarity:.1e}"
        self._bar.set_postfix_str(f"{text} nfev={measures.evaluations.nfev:g}", refresh=False)
        self._bar.update(event.nit - self._bar.n)
        if event.status is not None:
            self._bar.close()
            self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_bar": None}  # an open bar belongs to its terminal
