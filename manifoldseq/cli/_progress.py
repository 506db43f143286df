"""Progress bars on a terminal: one per thread, with the time that is left."""

import threading
from typing import Any, ClassVar

from .._observers import Event, Progress


class Watch:
    """An observer that shows nothing unless standard error is a terminal."""

    needs_state: ClassVar[bool] = False

    def __init__(self, description: str, total: Any) -> None:
        self._description = description
        self._total = total if isinstance(total, int) and total > 0 else None
        self._local = threading.local()

    def __call__(self, event: Event) -> None:
        if not hasattr(self._local, "bar"):
            known = event.measures.extra.get("of")  # a run that knows its number of steps says it
            total = self._total if known is None else int(known)
            self._local.bar = Progress(total, self._description, leave=False, dynamic_ncols=True)
        self._local.bar(event)
        if event.status is not None:
            del self._local.bar

    def __reduce__(self) -> tuple[Any, ...]:
        return Watch, (self._description, self._total)  # a bar belongs to its terminal
