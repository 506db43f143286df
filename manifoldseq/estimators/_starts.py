"""The multi-start loop of all estimators and of `minimize`, on the executor of the context."""

from __future__ import annotations

import dataclasses
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._observers import Event, Observer, map_observed
from .._result import Status
from ..execution import using
from ..storage import Checkpoint
from ._fingerprint import marked
from ._random import random_generator

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

LOG = logging.getLogger("manifoldseq")


def fit_starts(
    estimator: Any,
    run: Callable[..., R],
    *data: Any,
    n_starts: int | None = None,
    observers: Sequence[Observer] = (),
    checkpoint: Checkpoint | str | Path | None = None,
    resume: bool = False,
) -> R:
    """Return the best of several starts of an estimator.

    The starts are computed by the executor of the context, or by `n_jobs` threads. The results do not depend on the
    executor. Ctrl-C ends all starts, and the best result so far is returned.

    Parameters
    ----------
    estimator : estimator
        The following parameters are used if the estimator has them: `n_init`; `random_state`, from which the generators
        of the starts are spawned; `n_jobs`, the number of threads (None for the executor of the context, -1 for one
        thread per core); `verbose`, 1 to log the end of every start and 2 to log every iteration, to the logger
        ``"manifoldseq"`` of the process that computes the start, or to standard error if logging is not configured.
    run : callable
        ``run(number, rng, **loop) -> Run or Result`` computes one start with its number and generator. It passes
        `loop`, that is `observers`, `checkpoint` and `resume`, to :func:`manifoldseq.iterate` or
        :func:`manifoldseq.minimize`.
    *data
        The data that a state depends on. With the parameters, they determine the `fingerprint` of checkpoints.
    n_starts : int, optional
        The number of starts in place of `n_init`: 1 if the parameters determine the result.
    observers, checkpoint, resume
        As in :func:`manifoldseq.iterate`. Each start has its own folder in the checkpoint.

    Returns
    -------
    Run or Result
        The start with the smallest finite objective; ties go to the first start. Its status is INTERRUPTED if Ctrl-C
        ended a start or prevented it.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before any start has an iterate.

    Examples
    --------
    The lowest minimum of four random starts:

    >>> import numpy as np, manifoldseq as ms
    >>> from sklearn.base import BaseEstimator
    >>> class Deepest(BaseEstimator):
    ...     def __init__(self, n_init=4, *, random_state=None, n_jobs=None):
    ...         self.n_init, self.random_state, self.n_jobs = n_init, random_state, n_jobs
    ...     def fit(self, A, **options):
    ...         sphere = ms.manifolds.Sphere(len(A))
    ...         problem = ms.Problem(sphere, ms.objective(lambda x: (x**3) @ A @ x))
    ...         def run(number, rng, **loop):
    ...             return ms.minimize(problem, sphere.random_point(rng), **loop)
    ...         self.result_ = fit_starts(self, run, A, **options)
    ...         return self
    >>> A = np.arange(16.0).reshape(4, 4)
    >>> one, two = (Deepest(random_state=0, n_jobs=n_jobs).fit(A).result_ for n_jobs in (None, 2))
    >>> one.success, one.fun == two.fun
    (True, True)
    """
    settings = estimator.get_params(deep=False)
    store = marked(checkpoint, lambda: (estimator, *data))  # before a Generator is drawn from
    n = settings.get("n_init", 1) if n_starts is None else n_starts
    generators = random_generator(settings.get("random_state")).spawn(n)
    name, verbose = type(estimator).__name__, int(settings.get("verbose", 0))

    def start(task: tuple[int, Any], observers: Sequence[Observer]) -> R:
        number, rng = task
        if verbose or LOG.isEnabledFor(logging.INFO):
            observers = (*observers, _Log(name if n == 1 else f"{name}, start {number + 1} of {n}", verbose))
        where = store and store.child(f"start-{number}")
        return run(number, rng, observers=observers, checkpoint=where, resume=resume)

    with _workers(settings.get("n_jobs")):
        return best_start(start, enumerate(generators), observers, _rank)[0]


def best_start(
    run: Callable[[T, Sequence[Observer]], R],
    starts: Iterable[T],
    observers: Sequence[Observer],
    rank: Callable[[R], Any],
) -> tuple[R, list[R]]:
    """Return the best outcome of ``run(start, observers)``, and all outcomes in the order of the starts.

    An outcome is a dataclass with a `status`. The status of the best is INTERRUPTED if Ctrl-C ended or prevented any
    start.
    """
    starts = list(starts)
    if len(starts) == 1:  # it runs here and now, whatever the executor is
        outcome = run(starts[0], observers)
        return outcome, [outcome]
    job = _Starts(run)
    try:
        found = map_observed(job, enumerate(starts), observers)
        outcomes = [outcome for outcome in found if outcome is not None]  # of all, also from other processes
    except KeyboardInterrupt:
        outcomes = job.halted()
        if not outcomes:
            raise
    best: Any = min(outcomes, key=rank)
    if len(outcomes) < len(starts) or any(one.status is Status.INTERRUPTED for one in outcomes):  # type: ignore[attr-defined]
        best = dataclasses.replace(best, status=Status.INTERRUPTED)
    return best, outcomes


def uninterrupted(model: E) -> E:
    """Return a fitted estimator, unless Ctrl-C ended its fit.

    A fit that Ctrl-C ends returns the best result so far. A procedure that needs several fits passes each of them to
    this function, so that Ctrl-C ends the procedure and not only one of its fits.

    Parameters
    ----------
    model : estimator
        A fitted estimator; `status_` is optional.

    Raises
    ------
    KeyboardInterrupt
        If `status_` is INTERRUPTED.

    Examples
    --------
    >>> from manifoldseq_hope import SphericalKMeans
    >>> uninterrupted(SphericalKMeans(2, random_state=0).fit([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])).status_.success
    True
    """
    if getattr(model, "status_", None) is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return model


class _Starts(Generic[T, R]):
    """Runs starts until one is interrupted; a copy in another process handles its own starts only."""

    def __init__(self, run: Callable[[T, Sequence[Observer]], R]) -> None:
        self._run = run
        self._reached: dict[int, R] = {}
        self._ended, self._running, self._idle = False, 0, threading.Condition()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Starts, (self._run,)

    def __call__(self, task: tuple[int, T], observers: Sequence[Observer]) -> R | None:
        number, start = task
        with self._idle:
            if self._ended:
                return None
            self._running += 1
        try:
            if threading.current_thread() is not threading.main_thread():  # which alone hears of Ctrl-C
                observers = (*observers, self._end)
            outcome = self._reached[number] = self._run(start, observers)
            self._ended = self._ended or outcome.status is Status.INTERRUPTED  # type: ignore[attr-defined]
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
        return outcome

    def _end(self, event: Event) -> None:
        """End a run in another thread after Ctrl-C."""
        if self._ended and event.status is None:
            raise KeyboardInterrupt

    def halted(self) -> list[R]:
        """End the starts that still run in other threads; return their results in the order of the starts."""
        with self._idle:
            self._ended = True
            self._idle.wait_for(lambda: not self._running)
        return [self._reached[number] for number in sorted(self._reached)]


def _rank(outcome: Any) -> tuple[bool, float]:
    """Return the key that orders outcomes: finite outcomes come first, independently of their values."""
    return outcome.status is Status.NON_FINITE or not math.isfinite(outcome.fun), outcome.fun


def _workers(n_jobs: int | None) -> AbstractContextManager[None]:
    """Return the executor for the parameter `n_jobs`, as a context."""
    if n_jobs is None:
        return nullcontext()
    return using("serial") if n_jobs == 1 else using("threads", None if n_jobs == -1 else n_jobs)


@dataclasses.dataclass(frozen=True)
class _Log:
    """An observer that logs the end of a run, and with ``verbose=2`` every iterate."""

    needs_state = False

    what: str
    verbose: int

    def __call__(self, event: Event) -> None:
        end = event.status is not None
        level = logging.INFO if end else logging.DEBUG
        if self.verbose < (1 if end else 2) and not LOG.isEnabledFor(level):
            return
        text = f"{self.what}: iteration {event.nit}, objective {event.measures.fun:.6g}, {event.time:.1f} s"
        if event.status is not None:
            text += f", {event.status.name}"
        if LOG.hasHandlers():
            LOG.handle(LOG.makeRecord(LOG.name, level, __file__, 0, text, (), None))
        else:
            print(text, file=sys.stderr)
