"""Observers watch a run from outside: a progress bar, a recorder, any callable of an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._result import Measures, Point, Status


@dataclass(frozen=True, slots=True)
class Event:
    """One iterate of a run.

    Attributes
    ----------
    nit : int
        0 at the start.
    time : float
        Seconds since the start.
    measures : Measures
        With the evaluations of the whole run so far.
    state : dict or tuple
        Read-only.
    x : Point or None
        The point, where the state has one.
    status : Status or None
        Set in the last event of the run.
    """

    nit: int
    time: float
    measures: Measures
    state: Any
    x: Point | None
    status: Status | None


Observer = Callable[[Event], Any]


def _point(event: Event) -> Any:
    return event.x


class Recorder:
    """Keep what a function makes of every event.

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
    """A progress bar with objective, gradient norm and evaluations (tqdm).

    Parameters
    ----------
    total : int, optional
        Expected number of iterations, for a remaining time.
    description : str
    **options
        Handed to ``tqdm``; ``disable=None`` (the default) hides the bar when the output is not a terminal.
    """

    def __init__(self, total: int | None = None, description: str = "", **options: Any) -> None:
        self._options = {"total": total, "desc": description or None, "unit": "it", "disable": None, **options}
        self._bar: Any = None

    def __call__(self, event: Event) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(initial=event.nit, **self._options)
        measures = event.measures
        text = f"fun={measures.fun:.6g}"
        if measures.grad_norm is not None:
            text += f" grad={measures.grad_norm:.1e}"
        if measures.feasibility is not None:
            text += f" feasibility={measures.feasibility:.1e}"
        self._bar.set_postfix_str(f"{text} nfev={measures.evaluations.nfev:g}", refresh=False)
        self._bar.update(event.nit - self._bar.n)
        if event.status is not None:
            self._bar.close()
            self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_bar": None}  # an open bar belongs to its terminal
