"""Options and steps that `fit` and `solve` share, from reading the data to the report."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from .._result import Status
from ..estimators import fingerprint
from ..report import read_run, render_html
from ..storage import Checkpoint, CheckpointError, load
from ._data import Loaded, absolute, describe, listed, load_data, named_views
from ._plugin_files import (
    absolute_name,
    files_of_command,
    load_file,
    parts_of,
    reading_of,
    use_files_of,
    with_files,
    with_reader,
)
from ._run import (
    RunDirectory,
    already_done,
    check_resumable,
    choose_directory,
    command_line,
    default_name,
    model_kept,
    run_of,
)
from ._settings import merged, parse_pairs, read_config
from ._shared import BadInput, echo_json, json_option, read_option, say, set_option, views_option
from ._terminal import interruptible

_OPTIONS: tuple[Callable[..., Any], ...] = (
    set_option,
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with settings, such as the run.toml of another run. Options on the command line take precedence.",
    ),
    read_option,
    views_option,
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", help="Seed of all random choices [0]."),
    click.option(
        "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Run directory to write [runs/…]."
    ),
    click.option(
        "--resume", is_flag=True,
        help="Continue the run in RUN_DIR from its checkpoint. If there is no checkpoint, start the run.",
    ),
    click.option(
        "--checkpoint-every", "every", type=click.FloatRange(0), default=10.0, metavar="SECONDS",
        help="Time between checkpoints [10].",
    ),
    json_option,
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """The given values of the options that `fit` and `solve` share."""

    settings: tuple[str, ...]
    config: Path | None
    reading: tuple[str, ...]
    views: str | None
    seed: int | None
    output: Path | None
    resume: bool
    every: float
    as_json: bool


def run_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a run to a command, which receives them as its argument ``options``."""

    @wraps(command)
    def with_options(**given: Any) -> int:
        shared = {one.name: given.pop(one.name) for one in fields(Options)}
        return command(options=Options(**shared), **given)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


@dataclass(frozen=True)
class Asked:
    """Settings of a run from the options and ``--config``."""

    what: str  # "estimator" or "model"
    name: str
    data: tuple[str, ...]
    settings: dict[str, Any]
    reading: dict[str, Any]
    views: str | None
    seed: int
    config: dict[str, Any]  # the other entries of the file


def asked_of(
    what: str, name: str | None, data: tuple[str, ...], options: Options, known: Mapping[str, Any], *, lacking: str
) -> Asked:
    """Combine the options with the file of ``--config``, and load the plugin files of a run that is resumed.

    Options take precedence.

    Parameters
    ----------
    what : {"estimator", "model"}
    name : str or None
    data : tuple of str
    options : Options
    known : mapping of str to type
        Further keys that the file may contain.
    lacking : str
        The error message if there is no name.
    """
    config = read_config(options.config, {what: str, "data": (str, list), "views": str, **known})
    name, data = name or config.get(what), data or listed(config.get("data"))
    if name is None:
        raise BadInput(lacking)
    chosen = merged(config["set"], parse_pairs(options.settings))
    reading = reading_of({**config["read"], **parse_pairs(options.reading, "--read")})
    if parts := parts_of(name):
        load_file(parts[0])
    if options.resume and options.output:
        use_files_of(options.output, run_of(options.output), resume=True)
    seed = config.get("seed", 0) if options.seed is None else options.seed
    return Asked(what, name, data, chosen, reading, options.views or config.get("views"), seed, config)


class Task(ABC):
    """A run of `fit` or `solve`: the parts of the steps of `carry_out` that differ between them.

    Parameters
    ----------
    asked : Asked
        The request, whose settings the run uses.
    name : str
        The name for the progress display and for the directory.
    """

    command: str
    loaded: Loaded | None = None
    labels: Any = None

    def __init__(self, asked: Asked, name: str) -> None:
        self.asked, self.name = asked, name

    def load(self, kind: str, advice: Callable[[], str] | None) -> Loaded:
        """Read the requested data by `load_data`."""
        asked = self.asked
        self.loaded = load_data(asked.data, asked.reading, kind, name=self.name, views=asked.views, advice=advice)
        return self.loaded

    @abstractmethod
    def read(self) -> None:
        """Read data, and raise BadInput for inconsistent input before a file is written."""

    @abstractmethod
    def identity(self) -> Sequence[Any]:
        """Return the values, except data and plugin files, that a resumed run must share with the earlier run."""

    def finished(self, directory: Path) -> int | None:
        """Return the exit status of a finished run, or None if files still have to be written."""
        return 0

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return the entries of `run.json` besides the command, the data and the seed."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the settings that `run.toml` repeats."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return the options that only this command has, for `run.toml` (None values are not written)."""

    def computing(self) -> AbstractContextManager[Any]:
        """Return the context of the computation."""
        return nullcontext()

    @abstractmethod
    def compute(self, run: RunDirectory, checkpoint: Checkpoint, *, resume: bool) -> Any:
        """Return the fitted estimator, or the result."""

    @abstractmethod
    def write(self, run: RunDirectory, result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the files about a saved result, and return metrics and entries of `run.json`."""

    @abstractmethod
    def report(self, result: Any, metrics: Mapping[str, Any]) -> None:
        """Print the results."""

    @abstractmethod
    def lines(self, result: Any) -> list[str]:
        """Return lines about the computation of the result."""

    @abstractmethod
    def as_dict(self, result: Any) -> dict[str, Any]:
        """Return the entries of ``--json`` besides lines, metrics and the directory."""

    def status(self, result: Any) -> int:
        """Return the exit status."""
        return 0


def carry_out(task: Task, options: Options) -> int:
    """Read the data, compute and save the result, write the report, and return the exit status."""
    directory = choose_directory(options.output, default_name(task.name, task.asked.data), options.resume)
    task.read()
    sequences = task.loaded and [part.sequences for part in task.loaded.parts]
    mark = fingerprint(*task.identity(), sequences, task.labels, [one["sha256"] for one in files_of_command()])
    if options.resume and already_done(directory, mark) and (status := task.finished(directory)) is not None:
        say(f"The run in {directory} is finished: nothing to resume.")
        return status
    kept = options.resume and model_kept(directory, mark)
    if options.resume and not kept:
        check_resumable(directory, mark)
    run = RunDirectory(directory, {**_about(task), "fingerprint": mark}, _repeated(task), kept=kept)
    with task.computing(), run.writing():
        result = load(directory) if kept else _computed(task, run, run.checkpoint(options.every, mark), options.resume)
        if task.loaded is not None:
            task.loaded.release()
        with interruptible():
            metrics, found = task.write(run, result)
            run.write_json("metrics.json", metrics)
            page = read_run(run.path)
            page.run.update(state="done", **found)
            run.write("report.html", render_html([page]))
            run.done(**found)
    said = [*_lines(task), *task.lines(result)]
    if options.as_json:
        echo_json({"about": said, "metrics": metrics, **task.as_dict(result), "directory": str(directory)})
    else:
        say(*said)
        task.report(result, metrics)
        say(f"Report: {directory / 'report.html'}")
    return task.status(result)


def _computed(task: Task, run: RunDirectory, checkpoint: Checkpoint, resume: bool) -> Any:
    """Compute and save the result.

    A resumed run saves its duration as ``seconds_since_resume``, because this is not the duration of the whole run.
    """
    resumed = resume and run.has_checkpoint()
    start = time.perf_counter()
    try:
        with interruptible():
            result = task.compute(run, checkpoint, resume=resume)
    except CheckpointError as error:
        raise BadInput(str(error)) from error
    if Status.INTERRUPTED in (getattr(result, "status_", None), getattr(result, "status", None)):
        raise KeyboardInterrupt
    run.keep(result, {"seconds_since_resume" if resumed else "seconds": time.perf_counter() - start})
    return result


def _about(task: Task) -> dict[str, Any]:
    """Return the entries of `run.json` at the start."""
    asked = task.asked
    settings = {name: value for name, value in asked.settings.items() if (name, value) != ("random_state", asked.seed)}
    pairs = [f"--set={name}={value}" for name, value in settings.items()]
    pairs += [f"--read={name}={value}" for name, value in with_reader(asked.reading).items()]
    flags = {**task.options(), "views": asked.views, "seed": asked.seed}
    pairs += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items() if value is not None]
    about: dict[str, Any] = {
        "command": command_line([task.command, absolute_name(asked.name), *asked.data, *pairs]),
        asked.what: asked.name,
        "data": " + ".join(asked.data),
        "seed": asked.seed,
        "about": "" if task.loaded is None else describe(task.loaded, task.labels),
    }
    if task.loaded is not None:
        about["columns"] = task.loaded.memory | {"read": asked.reading, "files": list(asked.data)}
        if views := named_views(task.loaded):
            about["views"] = views
    return {**about, **task.about()}


def _repeated(task: Task) -> dict[str, Any]:
    """Return the entries of `run.toml`, so that ``--config`` repeats the run from any folder."""
    asked = task.asked
    return {
        asked.what: absolute_name(asked.name),
        "data": absolute(asked.data),
        **task.options(),
        "views": asked.views,
        "seed": asked.seed,
        "read": with_reader(asked.reading),
        "set": with_files(task.parameters()),
    }


def _lines(task: Task) -> list[str]:
    """Return the lines about the data."""
    if task.loaded is None:
        return []
    about = f"{' + '.join(task.asked.data)}: {describe(task.loaded, task.labels)}"
    return [*filter(None, [about, named_views(task.loaded)]), *task.loaded.remarks]
