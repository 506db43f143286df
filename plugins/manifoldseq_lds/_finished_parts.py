"""What the reproductions share: their rows, and finished parts kept as JSON so that an interrupted one can continue."""

import json
import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import manifoldseq as ms


def finished(folder: str | Path | None, resume: bool, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return what a part computed before under the same settings, or compute it and keep it.

    Parameters
    ----------
    folder : str, path-like or None
        Created when the first part is kept; None keeps nothing.
    resume : bool
        False computes anew, and replaces what was kept.
    settings : dict
        What the result depends on, for JSON.
    compute : callable
        Returns numbers, strings, and lists and dicts of these.
    """
    if folder is None:
        return compute()
    text = json.dumps(settings, sort_keys=True, default=str)
    path = Path(folder) / f"{sha256(text.encode()).hexdigest()[:24]}.json"
    if resume and path.is_file():
        try:
            kept = json.loads(ms.storage.read_bytes(path))
            if kept["settings"] == json.loads(text):
                return kept["result"]
        except (ValueError, KeyError, TypeError):  # written halfway, or by hand
            pass
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"settings": json.loads(text), "result": result}), encoding="utf-8")
    os.replace(temporary, path)
    return result


def row(
    model: str, setting: str, metric: str, unit: str, values: Sequence[float], paper: float | None = None
) -> dict[str, Any]:
    """Return a row of a reproduction: the mean of some values and its standard error, beside the paper's figure."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    made = {"model": model, "setting": setting, "metric": metric, "unit": unit, "ours": float(np.mean(values))}
    return made | {"ours_se": error, "paper": paper}


def listed(name: str, value: Any, kind: type) -> list[Any]:
    """Return a setting that is one value or several as a list."""
    values = [value] if isinstance(value, int | str) else list(value)
    if not values or not all(isinstance(one, kind) and not isinstance(one, bool) for one in values):
        raise ValueError(f"{name}={value!r} is not valid: pass one or a list")
    if kind is int and min(values) < 1:
        raise ValueError(f"{name}={value!r} is not valid: pass whole numbers of at least 1")
    return values
