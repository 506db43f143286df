"""A run directory: there from the first moment, every file by rename, ``"state": "done"`` last."""

import csv
import io
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

from ._shared import BadInput


class RunDirectory:
    """Writes the files of one run; `run.json` says at every moment how far it is."""

    def __init__(self, path: Path, about: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.path = path
        self._about = {"format": 1, "state": "running", **about, "started": _now(), "versions": _versions()}
        self._settings = settings

    def create(self) -> None:
        """Make the directory, with `run.json` and `run.toml`."""
        self.path.mkdir(parents=True, exist_ok=True)
        for old in _FILES:
            (self.path / old).unlink(missing_ok=True)
        self.write_json("run.json", self._about)
        self.write("run.toml", toml(self._settings))

    def end(self, state: str, **more: Any) -> None:
        """Write the last state: ``done``, ``failed`` or ``interrupted``."""
        self._about |= {"state": state, "finished": _now(), **more}
        self.write_json("run.json", self._about)

    def remove(self) -> None:
        """Take back what `create` made, because the input was refused."""
        for name in ("run.json", "run.toml"):
            (self.path / name).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        self.write(name, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")

    def write_columns(self, name: str, columns: Mapping[str, Iterable[Any]]) -> None:
        """Write equally long columns as CSV."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        self.write(name, buffer.getvalue())

    def write(self, name: str, text: str) -> None:
        """Write a file under another name, make it durable, then rename it."""
        temporary = self.path / f".{name}.tmp"
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)


_FILES = ("report.html", "metrics.json", "history.csv", "assignments.csv")


def choose_directory(output: Path | None, name: str) -> Path:
    """Return `output` if a run may be written there, or the first free ``runs/NAME``, ``runs/NAME-2``, …

    Raises
    ------
    BadInput
        If `output` is a finished run, or something that is no run at all.
    """
    if output is None:
        free = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in count(1))
        return next(path for path in free if not path.exists())
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return output
    try:
        state = json.loads((output / "run.json").read_text(encoding="utf-8"))["state"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{output} exists and is no run directory: choose another with -o") from error
    if state == "done":
        raise BadInput(f"{output} holds a finished run: choose another directory with -o, or remove it")
    return output


def command_line(arguments: Sequence[str]) -> str:
    """Return a command as it can be pasted into a shell."""
    return shlex.join(["manifoldseq", *arguments])


def toml(settings: Mapping[str, Any]) -> str:
    """Write settings as TOML: scalars, lists, and one level of tables; None is left out."""
    flat = [f"{name} = {_toml(value)}" for name, value in settings.items() if not isinstance(value, Mapping | None)]
    for table, values in settings.items():
        if isinstance(values, Mapping):
            flat += ["", f"[{table}]"]
            flat += [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
    return "\n".join(flat) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    found = {}
    for name in ("manifoldseq", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
