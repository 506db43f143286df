"""Run directories: created at the start, the model before all reports, ``"state": "done"`` at the end."""

import csv
import io
import json
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import click

from ..models._stages import FOLDER
from ..report import save_drawings
from ..storage import Checkpoint, ReadError, read_bytes, save_model
from ..storage._checkpoint import interrupts_held_back
from ..storage._files import write_durably
from ..storage._model import package_versions
from ..storage.readers._text import for_spreadsheets
from ._plugin_files import files_of_command, parts_of, paths_of_command
from ._settings import to_config
from ._shared import BadInput

# Settings written as TOML, which Python can only read.


def toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML: scalars, lists and tables; None and empty tables are omitted."""
    flat = [
        f"{_key(name)} = {_toml(value)}" for name, value in settings.items() if not isinstance(value, Mapping | None)
    ]
    for table, values in settings.items():
        if isinstance(values, Mapping) and values:
            flat += ["", f"[{_key(table)}]"]
            flat += [f"{_key(name)} = {_toml(value)}" for name, value in values.items() if value is not None]
    return "\n".join(flat) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_toml(item)}' for name, item in value.items())}}}"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


# One process at a time in a run directory: a lock of the operating system, which ends with its process.

LOCK = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory inside the block; raise an error if another process holds it."""
    with (directory / LOCK).open("a+b") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            raise BadInput(
                f"another process is writing the run in {directory}: wait for it, or choose another directory with -o"
            ) from error
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_MODEL = ("model.json", "model.npz")
_REPORTS = ("report.html", "evaluation.json", "metrics.json", "assignments.csv", "history.csv")
_CHECKPOINT = "checkpoint"


class RunDirectory:
    """Writes the files of one run; `run.json` always contains its current state."""

    def __init__(
        self, path: Path, about: Mapping[str, Any], settings: Mapping[str, Any], *, kept: bool = False
    ) -> None:
        self.path = path
        self._kept = kept  # whether what was computed is on the disk
        self._metrics: Mapping[str, float] = {}
        self._about = {"format": 1, "state": "running", **about, "started": _now(), "versions": package_versions()}
        self._settings = settings
        if files := files_of_command():
            self._about["plugins"] = files
        if paths := paths_of_command():
            self._settings = {"plugins": paths, **settings}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make and lock the directory, write `run.json` and `run.toml`, and record how the block ends.

        Bad input changes no files. Ctrl-C is recorded as ``interrupted``, and any other exception as ``failed``.
        Results that `keep` saved remain if a later step fails, and the error message says so.
        """
        made = next((path for path in reversed([self.path, *self.path.parents]) if not path.exists()), None)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"no run can be written to {self.path} ({error.strerror}): choose another directory with -o"
            ) from error
        with locked(self.path):
            before = {name: _bytes(self.path / name) for name in ("run.json", "run.toml")}
            bad_input: BadInput | None = None
            try:
                self._begin(before["run.json"])
                yield
            except KeyboardInterrupt:
                self._fail("interrupted")
                if self._kept:
                    click.echo(f"{self._what_is_kept()} was interrupted: {_to_resume(self.path)}.", err=True)
                elif self.has_checkpoint():
                    click.echo(f"To continue, run the same command with --resume -o {self.path}.", err=True)
                raise
            except Exception as error:
                if isinstance(error, BadInput) and not self._kept:
                    self._restore(before)
                    bad_input = error
                else:
                    message = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
                    self._fail("failed", error=message, traceback=traceback.format_exc())
                    if self._kept:
                        raise click.ClickException(
                            f"{self._what_is_kept()} failed ({message}): {_to_resume(self.path)}"
                        ) from error
                    raise click.ClickException(f"{message} (traceback in {self.path / 'run.json'})") from error
        if bad_input is not None:
            if made is not None:
                shutil.rmtree(made)
            raise bad_input

    def checkpoint(self, every_seconds: float, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of this run."""
        return Checkpoint(self.path / _CHECKPOINT, every_seconds, fingerprint)

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to continue from."""
        return _has_checkpoint(self.path)

    def has_iterates(self) -> bool:
        """Return whether there is a checkpoint of iterations, not only of the stages that precede them."""
        found = (self.path / _CHECKPOINT).rglob("checkpoint-*.npz")
        return any(FOLDER not in path.relative_to(self.path).parts for path in found)

    def done(self, **more: Any) -> None:
        """Write the last state, and remove the checkpoint that is no longer needed."""
        self.end("done", **more)
        self.drop_checkpoint()

    def drop_checkpoint(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.path / _CHECKPOINT, ignore_errors=True)

    def keep(self, model: Any, metrics: Mapping[str, float]) -> None:
        """Save the result durably before its report is written, and remove the report of an earlier run.

        Metrics that cannot be computed from the result, such as seconds, are saved for a later report.
        """
        with interrupts_held_back():
            save_model(model, self.path)
            self._kept = True
        self._metrics = metrics
        self._clear(_REPORTS)

    def kept_metrics(self) -> dict[str, float]:
        """Return the metrics that were saved with the model."""
        return dict(self._metrics)

    def _what_is_kept(self) -> str:
        return f"The model is finished and saved in {self.path}, but its report"

    def _fail(self, state: str, **more: Any) -> None:
        """Record a failure, as far as possible on a full disk."""
        with suppress(OSError):
            if self._kept:
                more["metrics"] = self._metrics
            else:
                self._clear((*_REPORTS, *_MODEL))
            self.end(state, **more)

    def _clear(self, names: Iterable[str]) -> None:
        for old in names:
            (self.path / old).unlink(missing_ok=True)
        save_drawings(self.path, ())

    def end(self, state: str, **more: Any) -> None:
        """Write a state: ``done``, ``failed`` or ``interrupted``."""
        self._about |= {"state": state, "finished": _now(), **more}
        self.write_json("run.json", self._about)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        self.write(name, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")

    def write_columns(self, name: str, columns: Mapping[str, Iterable[Any]]) -> None:
        """Write columns of equal length as CSV."""
        self.write(name, csv_text(columns))

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        write_durably(self.path / name, text.encode())

    def _begin(self, before: bytes | None) -> None:
        if before is not None and (self._kept or self.has_checkpoint()):
            earlier = _document(before)
            self._metrics = self._earlier_metrics(earlier) if self._kept else {}
            self._about["started"] = earlier.get("started", self._about["started"])
            self._about["resumed"] = [*earlier.get("resumed", ()), _now()]
        self.write_json("run.json", self._about)
        self.write("run.toml", toml(to_config(self._settings)))

    def _earlier_metrics(self, earlier: Mapping[str, Any]) -> Mapping[str, float]:
        """Return the metrics saved with the model: in ``run.json`` after a failed report, or in ``metrics.json``."""
        written = _document(_bytes(self.path / "metrics.json") or b"")
        return earlier.get("metrics") or {name: written[name] for name in written if name.startswith("seconds")}

    def _restore(self, before: Mapping[str, bytes | None]) -> None:
        for name, data in before.items():
            if data is None:
                (self.path / name).unlink(missing_ok=True)
            else:
                write_durably(self.path / name, data)


def choose_directory(output: Path | None, name: str, resume: bool) -> Path:
    """Return the directory of a new run, or of the run to resume.

    Parameters
    ----------
    output : Path or None
        The given directory. None: the first unused name of ``runs/NAME``, ``runs/NAME-2``, …
    name : str
    resume : bool
        Accept a directory with a checkpoint.

    Raises
    ------
    BadInput
        If `output` is not a run directory, or is a finished or resumable run and `resume` is False.
    """
    if output is None:
        if resume:
            raise BadInput("--resume needs the run directory: add -o RUN_DIR")
        free = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in count(1))
        return next(path for path in free if not path.exists())
    if not output.exists() or (output.is_dir() and all(entry.name == LOCK for entry in output.iterdir())):
        return output
    state = _document(_bytes(output / "run.json") or b"").get("state")
    if state is None:
        raise BadInput(f"{output} exists and is not a run directory: choose another directory with -o")
    if state == "done" and not resume:
        raise BadInput(f"{output} contains a finished run: choose another directory with -o, or remove it")
    if not resume and _has_model(output):
        raise BadInput(
            f"{output} contains a model without its report: {_to_resume(output)}, or choose another directory with -o"
        )
    if not resume and _has_checkpoint(output):
        raise BadInput(
            f"{output} contains an unfinished run: continue it with --resume, choose another directory with -o, or "
            "remove it"
        )
    return output


def already_done(directory: Path, fingerprint: str) -> bool:
    """Return whether this run exists and is finished.

    Raises
    ------
    BadInput
        If the directory contains a finished run with other data or settings.
    """
    if run_of(directory).get("state") != "done":
        return False
    _check_same(directory, fingerprint, "a finished run")
    return True


def run_of(directory: Path) -> dict[str, Any]:
    """Return ``run.json`` of a directory, or {} if there is none."""
    return _document(_bytes(directory / "run.json") or b"")


def lacks_quality(directory: Path) -> bool:
    """Return whether a run has no evaluation yet."""
    return not (directory / "evaluation.json").exists()


def model_kept(directory: Path, fingerprint: str) -> bool:
    """Return whether the model of this run exists and only its report is missing.

    Raises
    ------
    BadInput
        If the directory contains a model with other data or settings.
    """
    if not _has_model(directory):
        return False
    _check_same(directory, fingerprint, "the model")
    return True


def check_resumable(directory: Path, fingerprint: str) -> None:
    """Raise an error if the checkpoints in a directory belong to other data or settings.

    Raises
    ------
    BadInput
        The message says what to do: use the same data and settings, choose another directory, or remove this one.
    """
    if _has_checkpoint(directory):
        _check_same(directory, fingerprint, "an unfinished run")


def _check_same(directory: Path, fingerprint: str, what: str) -> None:
    if run_of(directory).get("fingerprint") != fingerprint:
        same = "" if what == "a finished run" else f"continue it with --config {directory / 'run.toml'}, "
        raise BadInput(
            f"{directory} contains {what} with other data or settings: {same}choose another directory with -o, or "
            "remove it"
        )


def default_name(what: str, data: Sequence[str]) -> str:
    """Return the name of a run directory for an estimator or model on data."""
    sources = [Path(one).stem if Path(one).exists() else one for one in data]
    named = [one if (parts := parts_of(one)) is None else parts[1] for one in (what, *sources)]
    return "-".join(part.replace("/", "-").replace(":", "-") for part in named if part)


def command_line(arguments: Sequence[Any]) -> str:
    """Return a command that can be pasted into a shell; None is omitted."""
    plugins = [f"--plugin={path}" for path in paths_of_command()]
    return shlex.join(["manifoldseq", *plugins, *(str(argument) for argument in arguments if argument is not None)])


def csv_text(columns: Mapping[str, Iterable[Any]]) -> str:
    """Return columns of equal length as CSV in which no text is a formula for a spreadsheet."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    texts = [[_cell(one) for one in column] for column in columns.values()]
    writer.writerow(map(_cell, columns))
    writer.writerows(zip(*texts, strict=True))
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return for_spreadsheets(value) if isinstance(value, str) else value


def _to_resume(directory: Path) -> str:
    return f"write it by the same command with --resume -o {directory}"


def _has_model(directory: Path) -> bool:
    return all((directory / name).exists() for name in _MODEL)


def _has_checkpoint(directory: Path) -> bool:
    return any((directory / _CHECKPOINT).rglob("checkpoint-*.npz"))


def _bytes(path: Path) -> bytes | None:
    try:
        return read_bytes(path)
    except (OSError, ReadError):
        return None


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
