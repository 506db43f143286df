"""Fits that consist of maps of independent tasks instead of iterations; a checkpoint stores the results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from .._iterate import iterate
from .._observers import Observer
from .._result import Measures, Status
from .._stopping import RunSoFar
from ..estimators import fingerprint
from ..execution import map_ordered, one_blas_thread, width
from ..storage import Checkpoint

T = TypeVar("T")
R = TypeVar("R")

FOLDER = "stages"
"""The folder of the stages in a checkpoint."""


def all_done(so_far: RunSoFar) -> Status | None:
    """End a run whose `fun` is the share of its tasks that are not done, when it is zero.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> run = ms.iterate(lambda n: (n + 1, ms.Measures(fun=1 - (n + 1) / 3)), lambda: (0, ms.Measures(fun=1.0)),
    ...                  stop=all_done)
    >>> run.state, run.nit
    (3, 3)
    """
    return Status.MAX_ITERATIONS if so_far.current.fun <= 0 else None


class Stages:
    """The maps of a fit without iterations, with a checkpoint of their results.

    A fit without iterations, such as the identification of many sequences, is a series of maps of independent tasks.
    With a checkpoint, every task is one iteration of :func:`manifoldseq.iterate`, and each map has its own folder. A
    resumed fit computes the same maps in the same order, and skips tasks whose results are stored.

    Parameters
    ----------
    observers, checkpoint, resume
        As in :func:`manifoldseq.iterate`. The state is the tuple of the results of a map, and ``fun`` is the fraction
        of its tasks that are not done. The checkpoint needs a fingerprint of data and settings, see
        `manifoldseq.estimators.marked`.
    *settings
        Further data on which results depend, such as settings that are not part of the fingerprint of an estimator.

    Raises
    ------
    ValueError
        If `resume` is True without a checkpoint, or if the checkpoint belongs to other data or settings.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> def square(x):
    ...     print("computed")
    ...     return x**2
    >>> with TemporaryDirectory() as folder:
    ...     first = list(Stages(checkpoint=folder).map(square, [3]))
    ...     again = list(Stages(checkpoint=folder, resume=True).map(square, [3]))
    computed
    >>> first, again
    ([9], [9])
    """

    def __init__(
        self,
        *settings: Any,
        observers: Sequence[Observer] = (),
        checkpoint: Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> None:
        store = Checkpoint.at(checkpoint)
        if resume and store is None:
            raise ValueError("resume=True needs a checkpoint: pass checkpoint=DIRECTORY")
        if settings and store is not None:
            store = dataclasses.replace(store, fingerprint=fingerprint(store.fingerprint, *settings))
        self._observers, self._store, self._resume = observers, store, resume
        self._count = 0

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Return an iterator over the results of tasks, in their order.

        The tasks are computed by the executor of the context. In serial execution without checkpoint and observers, a
        result is computed when the iterator reaches it. Otherwise all results are computed first, with one BLAS thread.
        With a checkpoint or observers, an iteration computes as many tasks as the executor runs at the same time, and
        the arrays of the results are read-only.

        Parameters
        ----------
        function : callable
            ``function(task)`` returns a state as in :func:`manifoldseq.iterate`: arrays, numbers, strings and None, in
            tuples and dicts. It is sent to other processes, as are the tasks: what a task needs belongs to the task.
            The maps of a single task (`manifoldseq.execution.map_ordered`) use the executor of the context.
        tasks : iterable

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The results so far are stored.
        """
        listed, store = list(tasks), self._next()
        if store is None and not self._observers:
            return map(function, listed) if width() == 1 else iter(map_ordered(function, listed))
        if not listed:
            return iter(())

        def after(results: tuple[R, ...]) -> tuple[tuple[R, ...], Measures]:
            """Return the results with those of the next tasks."""
            at_once, done = width(), len(results)
            found = (*results, *map_ordered(function, listed[done : done + at_once]))
            of = {"of": float(-(-len(listed) // at_once) - 1)} if len(listed) > at_once else {}
            return found, Measures(fun=1 - len(found) / len(listed), extra=of)

        with one_blas_thread():
            run = iterate(
                after,
                lambda: after(()),  # errors of the input, which the first tasks raise, leave no checkpoint
                stop=all_done,
                observers=self._observers,
                checkpoint=store,
                resume=self._resume,
            )
        if run.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return iter(cast("tuple[R, ...]", run.state))

    def part(self) -> dict[str, Any]:
        """Return `observers`, `checkpoint` and `resume` of a fit that is a part of this one, with its own folder."""
        return {"observers": self._observers, "checkpoint": self._next(), "resume": self._resume}

    def _next(self) -> Checkpoint | None:
        """Return the checkpoint of the next map or part."""
        self._count += 1
        return self._store and self._store.child(FOLDER).child(str(self._count))
