"""Finished parts kept as JSON, so that an interrupted reproduction can continue."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..storage import read_bytes
from ..storage._files import write_durably
from ._parameters import folder_of


def finished(folder: str | Path | None, resume: bool, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the saved result of a part under the same settings, or compute and save it.

    Parameters
    ----------
    folder : str, path-like or None
        The folder, created when the first part is saved. None: results are not saved.
    resume : bool
        False computes the result again and replaces the saved one.
    settings : dict
        The settings that the result depends on, as JSON values.
    compute : callable
        Returns numbers, strings, and lists and dicts of these.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     first = finished(folder, True, {"seed": 0}, lambda: [1.0, 2.0])
    ...     again = finished(folder, True, {"seed": 0}, lambda: [3.0])
    >>> again
    [1.0, 2.0]
    """
    if folder is None:
        return compute()
    text = json.dumps(settings, sort_keys=True, default=str)
    path = folder_of(folder) / f"{sha256(text.encode()).hexdigest()[:24]}.json"
    if resume and path.is_file():
        try:
            kept = json.loads(read_bytes(path))
            if kept["settings"] == json.loads(text):
                return kept["result"]
        except (ValueError, KeyError, TypeError):  # written halfway, or by hand
            pass
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, json.dumps({"settings": json.loads(text), "result": result}).encode())
    return result
