"""Checkpoints: one atomic file each, the last two kept, nothing executed on loading."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from .._quoted import quoted
from ._files import write_durably
from ._limits import opened
from ._model_codec import Encoder, decode
from ._numpy_files import Loader, members_of
from ._state import State, normalize

FORMAT = 3
_CURE = "choose another directory, or delete the old checkpoints"  # works in Python and in the shell


class CheckpointError(ValueError):
    """A checkpoint cannot be used. The message names the checkpoint and the remedy."""


@dataclass(frozen=True)
class Checkpoint:
    """The directory and the frequency of the checkpoints of a run.

    Parameters
    ----------
    directory : str or Path
        It is created when the first checkpoint is written. A relative path refers to the working directory of this
        process, also in other processes that receive the checkpoint.
    every_seconds : float
        Time between checkpoints. A last checkpoint is written when the run ends, is interrupted or fails.
    fingerprint : str, optional
        The fingerprint of the data and settings. A checkpoint with another fingerprint raises an error.
    made_by : mapping of str to str
        The plugins of the model, the initializer, the updates and the solver, see `models.ModelEstimator`. A checkpoint
        of other plugins raises an error that names them.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.storage.Checkpoint("runs/mean", every_seconds=10).every_seconds
    10
    """

    directory: str | Path
    every_seconds: float = 60.0
    fingerprint: str | None = None
    made_by: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.directory, str | os.PathLike) or not str(self.directory):
            raise CheckpointError(f"Checkpoint(directory={quoted(self.directory)}): pass the path of a directory")
        if not isinstance(self.every_seconds, Real) or not self.every_seconds >= 0:
            raise CheckpointError(
                f"Checkpoint(every_seconds={quoted(self.every_seconds)}): pass a number of seconds ≥ 0"
            )
        if not isinstance(self.fingerprint, str | None):
            raise CheckpointError(f"Checkpoint(fingerprint={quoted(self.fingerprint)}): pass a string, or None")

    @classmethod
    def at(cls, checkpoint: Checkpoint | str | Path | None) -> Checkpoint | None:
        """Return the Checkpoint of an argument ``checkpoint=``, which may be a Checkpoint, a directory or None.

        Raises
        ------
        ValueError
            If it is another object.
        """
        if checkpoint is None or isinstance(checkpoint, Checkpoint):
            return checkpoint
        if not isinstance(checkpoint, str | Path):
            raise ValueError(f"checkpoint={quoted(checkpoint)} is not valid: name a folder, or pass a Checkpoint")
        return cls(checkpoint)

    def __reduce__(self) -> tuple[Any, ...]:
        home = "" if os.path.isabs(self.directory) else os.getcwd()
        return _sent, (type(self), home, self.directory, self.every_seconds, self.fingerprint, self.made_by)

    def prepare(self) -> None:
        """Create the directory and write to it, so that a run does not fail at its first checkpoint."""
        try:
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory):
                pass
        except OSError as error:
            raise CheckpointError(
                f"no checkpoint can be written to {self.directory} ({error}): choose another directory"
            ) from error

    def save(self, nit: int, state: State, record: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> Path:
        """Write a checkpoint durably under its final name, and remove all other checkpoints except the previous one."""
        directory = Path(self.directory)
        directory.mkdir(parents=True, exist_ok=True)
        encoder = Encoder()
        text = json.dumps(
            {
                "format": FORMAT,
                "fingerprint": self.fingerprint,
                "made_by": dict(self.made_by),
                "state": encoder.encode(state, "state", {}),
                "record": dict(record),
                "columns": list(columns),
            }
        )
        arrays = encoder.arrays | {f"column {name}": column for name, column in columns.items()}
        with interrupts_held_back():
            buffer = io.BytesIO()
            np.savez(buffer, **arrays, document=np.frombuffer(text.encode(), np.uint8))  # type: ignore[arg-type]
            path = directory / f"checkpoint-{nit:010d}.npz"
            write_durably(path, buffer.getvalue())
            files = self._files()
            now = files.index(path)  # files after this one are of an abandoned run
            for old in files[:now] + files[now + 2 :]:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
        return path

    def load(self) -> tuple[State, dict[str, Any], dict[str, np.ndarray]] | None:
        """Return ``(state, record, columns)`` of the newest readable checkpoint, or None if there is none.

        Raises
        ------
        CheckpointError
            If checkpoints exist but none can be read, or the newest belongs to other data.
        """
        failure: Exception | None = None
        for path in self._files():
            try:
                arrays = _arrays(path)
                document = json.loads(arrays.pop("document").tobytes())
                columns = {name: arrays[f"column {name}"] for name in document["columns"]}
                found = document.get("format"), document["fingerprint"], dict(document.get("made_by", {}))
                loaded = normalize(decode(document["state"], arrays, {})), document["record"], columns
                if len({len(column) for column in columns.values()}) > 1:
                    raise ValueError("its history is incomplete")
            except Exception as error:  # whatever a damaged file provokes: the one before it counts
                failure = error
                continue
            if found[0] != FORMAT:
                raise CheckpointError(f"{path} has format {quoted(found[0])}, but this version reads {FORMAT}: {_CURE}")
            if others := _differences(found[2], self.made_by):
                raise CheckpointError(f"{path} was written with {others}: register the same records again, {_CURE}")
            if found[1] != self.fingerprint:
                raise CheckpointError(f"{path} belongs to other data or settings: {_CURE}")
            return loaded
        if failure is not None:
            raise CheckpointError(f"no checkpoint in {self.directory} can be read ({failure}): {_CURE}") from failure
        return None

    def child(self, name: str) -> Checkpoint:
        """Return the checkpoint of a part of this run, in a subfolder."""
        return dataclasses.replace(self, directory=Path(self.directory) / name)

    def _files(self) -> list[Path]:
        return sorted(Path(self.directory).glob("checkpoint-*.npz"), reverse=True)


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the records of a checkpoint that differ from the current records, or "" if none is known to differ."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)] if before and now else []
    was, has = ([f"{name} {given.get(name, 'none')}" for name in names] for given in (before, now))
    return f"{', '.join(was)}, but this run has {', '.join(has)}" if names else ""


def _sent(kind: type[Checkpoint], home: str, directory: str | Path, *fields: Any) -> Checkpoint:
    """Return a checkpoint from another process; relative paths refer to the working directory of that process."""
    return kind(directory if not home or home == os.getcwd() else Path(home) / directory, *fields)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with opened(path, "a checkpoint") as file, zipfile.ZipFile(file) as archive:
        members = members_of(path, archive, size=file.seek(0, 2))
        load = Loader(path, archive, members)
        return {key: load(key) for key in members}


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay Ctrl-C until the block is complete (in the main thread, which receives it)."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    held: list[Any] = []
    handler = signal.signal(signal.SIGINT, lambda *received: held.append(received))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held and callable(handler):
        handler(*held[-1])
