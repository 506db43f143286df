"""``manifoldseq fit``: fits an estimator to data and writes a run directory."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import execution, hooks
from .._result import Status
from ..estimators import fingerprint
from ..estimators._object_parameters import plain_settings, used_settings
from ..evaluation import Evaluation, evaluate
from ..evaluation._tasks import checked_labels, takes_labels
from ..hooks._lookup import named
from ..report import Fitted, draw_evaluation, draw_plots, read_run, render_html, save_drawings
from ..report._quality import cell, columns_of, name_of
from ..storage import CheckpointError, load
from ._data import (
    Loaded,
    absolute,
    advice_on_missing,
    as_input,
    check_sparse,
    describe,
    listed,
    load_data,
    load_labels,
    member_ids,
    named_views,
    takes_missing,
)
from ._listings import with_parameters
from ._plugin_files import asked_name, files_of_command, reading_of, spelled, use_files_of, with_files, with_reader
from ._run import (
    RunDirectory,
    already_done,
    choose_directory,
    command_line,
    default_name,
    lacks_quality,
    model_kept,
    run_of,
)
from ._settings import merged, parse_pairs, read_config, spread, with_settings, written
from ._shared import (
    BadInput,
    completed_by,
    config_option,
    echo_json,
    echo_table,
    every_option,
    json_option,
    output_option,
    read_option,
    resume_option,
    seed_option,
    set_option,
    views_option,
)
from ._terminal import Watch, interruptible

_MAY_CHANGE = ("max_iter", "tol", "n_jobs", "verbose")  # a resumed run may end later, or earlier, than first asked for
_WORDS = ("name", "why", "seconds")  # of a row, what is not a figure of the fit
_CONFIG = {"estimator": str, "data": (str, list), "labels": str, "views": str}


@click.command(cls=with_parameters("estimators"))
@click.argument("estimator", required=False, shell_complete=completed_by("estimators"))
@click.argument("data", nargs=-1, shell_complete=completed_by("datasets"))
@set_option
@config_option
@read_option
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with one label per sequence, or per row for an estimator of samples, in their order; or with lines "
    "name,label.",
)
@views_option
@seed_option
@output_option
@resume_option
@every_option
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads [1].")
@click.option("--dask", metavar="ADDRESS", help="The scheduler of a cluster, such as tcp://127.0.0.1:8786.")
@click.option(
    "--choose",
    is_flag=True,
    help="Choose parameters that are not set, without labels, as --set n_clusters=auto does for lds-kmeans.",
)
@click.option(
    "--quality/--no-quality", default=True, help="Compute a quality figure and compare it with simple controls [yes]."
)
@json_option
def fit(
    estimator: str | None,
    data: tuple[str, ...],
    settings: tuple[str, ...],
    config: Path | None,
    reading: tuple[str, ...],
    labels: Path | None,
    views: str | None,
    seed: int | None,
    output: Path | None,
    resume: bool,
    every: float,
    jobs: int | None,
    dask: str | None,
    choose: bool,
    quality: bool,
    as_json: bool,
) -> int:
    """Fit ESTIMATOR to DATA and write a run directory.

    DATA is a file or folder that a reader accepts (see `manifoldseq readers`), or the name of a data set. An estimator
    of views takes one file per view, whose members are paired by ids (the column `id` of a table, the names of files)
    or else in their order; or one file whose columns are assigned to views by --views.

    The run directory contains run.json and run.toml from the start; model.npz and model.json are written when the fit
    is done, then history.csv, assignments.csv, metrics.json, evaluation.json and report.html. If writing one of these
    fails, the model is kept, the exit status is 1, and --resume writes them.

    A fit is compared with simple controls: by agreement with labels and between seeds for clusterings, by accuracy on
    held-out members for classifiers and features. The best one is marked by an asterisk.

    `manifoldseq fit ESTIMATOR --help` ends with the parameters of ESTIMATOR. `--set identifier.delay=4` sets a
    parameter of an object that is itself a parameter. A file for --config may have tables such as `[set.identifier]`.

    \b
    Options of readers, --read NAME=VALUE:
      .csv .tsv .txt   id time channels label delimiter decimal thousands encoding
                       comment date_format wide ordered
      .parquet         id time channels label ordered
      folders          id time channels label delimiter decimal thousands encoding
                       comment date_format
      .mat             variable labels orientation
      all files        missing inflation

    \b
    Examples:
      manifoldseq fit lds-kmeans basic-motions --set n_clusters=4 -o runs/bm
      manifoldseq fit lds-kmeans walks.csv --read id=subject --labels kinds.txt
      manifoldseq fit lds-kmeans walks.csv --read channels=knee,hip --read time=t
      manifoldseq fit lds-kmeans recordings/ --set n_clusters=auto
      manifoldseq fit lds-kmeans walks.npz --set identifier.center=false
      manifoldseq fit mixture-pcca images.csv sounds.csv --set missing=em
      manifoldseq fit mixture-pcca table.npy --views 76,216 --set n_components=8
      manifoldseq fit mixture-pcca table.csv --views "red,blue:wave_*"
      manifoldseq fit --config runs/bm/run.toml -o runs/again
      manifoldseq fit --config runs/bm/run.toml -o runs/bm --resume
    """
    if jobs is not None and dask is not None:
        raise BadInput("--jobs and --dask say where to compute, here or on a cluster: give one of them")
    asked = _asked(estimator, data, settings, config, reading, labels, views, seed)
    if resume and output:
        use_files_of(output, run_of(output), resume=True)
    asked, record, model = _configured(asked, choose)
    directory = choose_directory(output, default_name(asked.estimator, asked.data), resume)
    given = _given(asked, record, model)
    mark = _mark(asked, model, given)
    if resume and already_done(directory, mark) and not (quality and lacks_quality(directory)):
        click.echo(f"The run in {directory} is finished: nothing to resume.")
        return 0
    kept = resume and model_kept(directory, mark)
    parameters = written(model.get_params(deep=False))
    about = {**asked.about(), **given.about(asked), "parameters": parameters, "fingerprint": mark}
    run = RunDirectory(directory, about, asked.repeated(parameters), kept=kept)
    with _executor(jobs, dask), run.writing():
        X, y = as_input(given.loaded, given.labels)
        if kept:
            model = load(directory)
        else:
            _say_cost(record, model, X)
            seconds, name = _fit(asked.estimator, model, X, y, given.loaded, run, every, mark, resume)
            run.keep(model, {name: seconds})
        given.loaded.release()
        with interruptible():
            ids = member_ids(given.loaded)
            named = {"groups": ids, "columns": given.loaded.data.channel_names}
            evaluation = _evaluated(asked, record, model, X, y, named, run.kept_metrics()) if quality else None
            given.loaded.release()
            fitted = Fitted(model, given.loaded.data if record.input == "sequences" else X, y, directory.name)
            metrics, warned = _write(run, fitted, ids, evaluation)
    for warning in warned:
        click.echo(f"Warning: {warning}", err=True)
    said = [*given.lines(asked), *_choice(model).splitlines(), *_not_chosen(asked, record, parameters)]
    if as_json:
        judged = None if evaluation is None else evaluation.as_dict()
        shown = {"about": said, "metrics": metrics, "evaluation": judged, "made_by": getattr(model, "provenance_", {})}
        echo_json({**shown, "directory": str(directory)})
        return 0
    for line in said:
        click.echo(line)
    _echo_metrics(asked.estimator, metrics, evaluation)
    if made_by := getattr(model, "provenance_", {}):
        echo_table(("made by", ""), [*made_by.items()])
    click.echo(f"Report: {directory / 'report.html'}")
    return 0


# Before a fit: what is asked for, by options and by a file, and what it is asked of.


@dataclass(frozen=True)
class _Asked:
    """What the options and ``--config`` ask for together."""

    estimator: str
    data: tuple[str, ...]
    settings: dict[str, Any]
    kept: dict[str, Any]  # settings of the file, which come after
    reading: dict[str, Any]
    labels: Path | None
    views: str | None
    seed: int

    def about(self) -> dict[str, Any]:
        """Return what `run.json` says about it."""
        pairs = [f"--set={name}={value}" for name, value in self.settings.items() if name != "random_state"]
        if self.settings.get("random_state", self.seed) != self.seed:
            pairs.append(f"--set=random_state={self.settings['random_state']}")
        pairs += [f"--read={name}={value}" for name, value in with_reader(self.reading).items()]
        labels, views = self.labels and f"--labels={self.labels}", self.views and f"--views={self.views}"
        name = spelled("estimators", self.estimator)
        arguments = ["fit", name, *self.data, *pairs, labels, views, f"--seed={self.seed}"]
        return {
            "command": command_line(arguments),
            "estimator": self.estimator,
            "data": " + ".join(self.data),
            "seed": self.seed,
        }

    def repeated(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `run.toml` holds, so that ``--config`` repeats it from any folder."""
        return {
            "estimator": spelled("estimators", self.estimator),
            "data": absolute(self.data),
            "labels": self.labels and str(self.labels.resolve()),
            "views": self.views,
            "seed": self.seed,
            "read": with_reader(self.reading),
            "set": with_files(parameters),
        }


def _asked(
    estimator: str | None,
    data: tuple[str, ...],
    settings: tuple[str, ...],
    config: Path | None,
    reading: tuple[str, ...],
    labels: Path | None,
    views: str | None,
    seed: int | None,
) -> _Asked:
    """Put the options before what the file of ``--config`` says."""
    file = read_config(config, _CONFIG)
    estimator, data = estimator or file.get("estimator"), data or listed(file.get("data"))
    if estimator is None or not data:
        raise BadInput("give ESTIMATOR and DATA, or --config run.toml: see `manifoldseq fit --help`")
    chosen = parse_pairs(settings)
    if seed is not None:
        if "random_state" in chosen:
            raise BadInput("--seed and --set random_state=… set the same parameter: give one of them")
        file["set"].pop("random_state", None)
    return _Asked(
        asked_name(estimator, "estimators"),
        data,
        chosen,
        file["set"],
        reading_of({**file["read"], **parse_pairs(reading, "--read")}),
        labels or (Path(file["labels"]) if "labels" in file else None),
        views or file.get("views"),
        file.get("seed", 0) if seed is None else seed,
    )


def _configured(asked: _Asked, choose: bool) -> tuple[_Asked, hooks.EstimatorSpec, Any]:
    """Return the record, and an estimator with the settings and the seed, which are then all that is asked for."""
    try:
        record = hooks.get_record(hooks.EstimatorSpec, asked.estimator)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:  # the plugin is broken, not the input
        raise click.ClickException(str(error)) from error
    model: Any = cast(Any, record.factory)()
    lacking = [name for name in ("fit", "get_params", "set_params") if not hasattr(model, name)]
    if lacking:
        raise click.ClickException(
            f"{asked.estimator} is a {type(model).__name__} without {' and '.join(lacking)}: "
            "derive its class from sklearn.base.BaseEstimator, so that its parameters can be set and saved"
        )
    known = model.get_params(deep=False)
    chosen = spread(merged(asked.kept, asked.settings), type(model), known)
    if choose:
        chosen |= _left_open(record, asked.estimator, chosen)
    if "random_state" in known and chosen.get("random_state") is None:  # None would not be repeatable
        chosen["random_state"] = asked.seed
    params = with_settings(f"estimator {asked.estimator!r}", type(model), known, chosen)
    try:
        return replace(asked, settings=chosen, kept={}), record, model.set_params(**params)
    except ValueError as error:
        raise BadInput(str(error)) from error


@dataclass(frozen=True)
class _Given:
    """The data of a fit, as they were read, and one label per sequence or row."""

    loaded: Loaded
    labels: Any

    def about(self, asked: _Asked) -> dict[str, Any]:
        """Return what `run.json` says about them."""
        columns = named_views(self.loaded)
        return {
            "about": describe(self.loaded, self.labels),
            **({"views": columns} if columns else {}),
            "columns": self.loaded.memory | {"read": asked.reading, "files": list(asked.data)},
        }

    def lines(self, asked: _Asked) -> list[str]:
        """Return what is printed about them."""
        about = self.about(asked)
        views = [about["views"]] if "views" in about else []
        return [f"{' + '.join(asked.data)}: {about['about']}", *views, *self.loaded.remarks]


def _given(asked: _Asked, record: hooks.EstimatorSpec, model: Any) -> _Given:
    """Read data and labels, and raise an error if the estimator does not accept them."""
    advice = _advice(asked.estimator, record, model)
    loaded = load_data(asked.data, asked.reading, record.input, name=asked.estimator, views=asked.views, advice=advice)
    check_sparse(asked.estimator, model, loaded)
    labels = loaded.data.labels if asked.labels is None else load_labels(asked.labels, loaded)
    if labels is None and record.input in ("sequences", "samples") and takes_labels(model, only=True):
        raise BadInput(
            f"{asked.estimator} needs labels, and {asked.data[0]} has none: give them by --labels FILE, one a "
            "line or as name,label; or by a column 'label' of a table, subfolders named by label, or labels.csv in a "
            "folder"
        )
    try:
        return _Given(loaded, None if labels is None else checked_labels(labels, len(labels)))
    except ValueError as error:
        raise BadInput(f"{asked.labels or ' + '.join(asked.data)}: {error}") from error


def _advice(name: str, record: hooks.EstimatorSpec, model: Any) -> Callable[[], str] | None:
    """Return a function of the end of the message about a missing value; None if the estimator accepts them."""
    if takes_missing(model):
        return None
    return lambda: f". {name} does not accept missing values: {advice_on_missing(name, record.input)}"


def _mark(asked: _Asked, model: Any, given: _Given) -> str:
    """Return the fingerprint of data and settings that a resumed run must have in common with the one before."""
    parameters = written(model.get_params(deep=False))
    settled = {name: value for name, value in parameters.items() if name not in _MAY_CHANGE}
    files = [one["sha256"] for one in files_of_command()]
    return fingerprint(asked.estimator, settled, [part.sequences for part in given.loaded.parts], given.labels, files)


def _left_open(record: hooks.EstimatorSpec, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that ``--choose`` leaves to the estimator's own rule."""
    if not record.auto:
        able = [able for able, one in named("estimators") if getattr(one, "auto", ())]
        raise BadInput(f"{name} has no rule that chooses parameters: --choose works with {', '.join(able)}")
    found = {one: "auto" for one in record.auto if one not in settings}
    if not found:
        raise BadInput(f"--choose chooses {' and '.join(record.auto)}, but --set gives it: leave one of them out")
    return found


def _say_cost(record: hooks.EstimatorSpec, model: Any, X: Any) -> None:
    """Say what a fit that chooses settings will compute, before it does."""
    try:
        estimate = "" if record.cost is None else cast(Any, record.cost)(model, X)
    except ValueError:
        return  # bad input, which the fit says
    if estimate:
        click.echo(f"{estimate}.", err=True)


@contextmanager
def _executor(jobs: int | None, dask: str | None) -> Iterator[None]:
    """Compute with threads or on a cluster inside the block; raise an error if the cluster cannot be reached."""
    with ExitStack() as stack:
        try:
            if dask is not None:
                stack.enter_context(execution.using("dask", dask))
            elif jobs is not None and jobs > 1:
                stack.enter_context(execution.using("threads", jobs))
        except (ConnectionError, ImportError, ValueError) as error:
            raise BadInput(str(error)) from error
        yield


# The fit.


def _fit(
    name: str, model: Any, X: Any, y: Any, loaded: Loaded, run: RunDirectory, every: float, mark: str, resume: bool
) -> tuple[float, str]:
    """Fit; return the seconds, and what they are called: those since a resume are not those of the fit."""
    if loaded.kind not in ("sequences", "samples"):
        y = None  # the second argument of a fit to views or bags is another view
    resumed = resume and run.has_checkpoint()
    options = _fit_options(name, model, run, every, mark, resume, loaded)
    arguments = (X, y) if y is not None or takes_labels(model) else (X,)
    start = time.perf_counter()
    try:
        with interruptible():
            model.fit(*arguments, **options)
    except CheckpointError as error:
        raise BadInput(str(error)) from error
    except np.linalg.LinAlgError:  # a ValueError, but not one of the input
        raise
    except ValueError as error:
        if resumed or run.has_checkpoint():
            raise
        # an estimator validates in fit: that leaves nothing behind
        raise BadInput(_without_rule(name, model) or loaded.in_names(str(error))) from error
    except TypeError as error:
        if message := _without_rule(name, model):
            raise BadInput(message) from error
        raise
    if getattr(model, "status_", None) is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return time.perf_counter() - start, "seconds_since_resume" if resumed else "seconds"


def _without_rule(name: str, model: Any) -> str:
    """Return which estimators choose what is set to ``"auto"`` here and has no rule, nothing if there is none."""
    of_auto = {other: getattr(one, "auto", ()) for other, one in named("estimators")}
    for setting, value in model.get_params(deep=False).items():
        able = [other for other, settings in of_auto.items() if setting in settings]
        if isinstance(value, str) and value == "auto" and able and name not in able:
            return f"{name} has no rule for {setting}=auto: give a number, or fit {' or '.join(able)}"
    return ""


def _fit_options(
    name: str, model: Any, run: RunDirectory, every: float, mark: str, resume: bool, loaded: Loaded
) -> dict[str, Any]:
    """Return what `fit` of this estimator takes of observers, checkpoint, resume and feature_names."""
    takes = signature(model.fit).parameters
    options: dict[str, Any] = {}
    if "observers" in takes:
        options["observers"] = [Watch(name, getattr(model, "max_iter", None))]
    if "checkpoint" in takes:
        options["checkpoint"] = run.checkpoint(every, mark)
    if "feature_names" in takes and loaded.names is not None:
        options["feature_names"] = loaded.names
    if resume and "resume" in takes:
        options["resume"] = True
    elif resume:
        click.echo(f"{name} writes no checkpoints: the fit starts from the beginning.", err=True)
    return options


# After it: quality figures, files, and the table on the terminal.


def _evaluated(
    asked: _Asked,
    record: hooks.EstimatorSpec,
    model: Any,
    X: Any,
    y: Any,
    named: dict[str, Any],
    metrics: Mapping[str, float],
) -> Evaluation | None:
    """Judge a fit; a failure says why and costs nothing but the figure."""
    took = metrics.get("seconds", metrics.get("seconds_since_resume", 0.0))
    try:
        return evaluate(model, X, y, record=record, name=asked.estimator, random_state=asked.seed, took=took, **named)
    except Exception as error:
        click.echo(f"Warning: no quality figure ({type(error).__name__}: {error})", err=True)
        return None


def _choice(model: Any) -> str:
    """Return the table of what was tried, of an estimator that chooses settings itself."""
    return str(model.choice_) if hasattr(model, "choice_") else ""


def _not_chosen(asked: _Asked, record: hooks.EstimatorSpec, parameters: Mapping[str, Any]) -> list[str]:
    """Return what to say of settings that ``--choose`` would choose, and that neither it nor the user did."""
    plain = [f"{name}={parameters[name]}" for name in record.auto if name not in asked.settings]
    plain = [setting for setting in plain if not setting.endswith("=auto")]
    if not plain:
        return []
    numbers = " and ".join(plain)
    return [f"{numbers} by default, whatever the data: choose with --choose, or set with --set {record.auto[0]}=..."]


def _write(
    run: RunDirectory, fitted: Fitted, ids: list[str], evaluation: Evaluation | None
) -> tuple[dict[str, float], list[str]]:
    """Write what is reported about a model that is saved, each file as a whole; return metrics and warnings."""
    labels, clusters = fitted.labels, fitted.clusters
    if fitted.history:
        run.write_columns("history.csv", fitted.history)
    if clusters is not None:
        known = {"id": ids} if len(ids) == len(clusters) else {}
        known |= {} if labels is None else {"label": labels}
        run.write_columns("assignments.csv", {**known, "cluster": clusters})
    metrics = run.kept_metrics()
    if evaluation is not None:
        metrics = {name: evaluation.rows[0][name] for name in evaluation.rows[0] if name not in _WORDS} | metrics
        run.write_json("evaluation.json", evaluation.as_dict())
    run.write_json("metrics.json", metrics)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_drawings(
            run.path, [*draw_plots(fitted), *(() if evaluation is None else draw_evaluation(fitted, evaluation))]
        )
    model = fitted.estimator
    chosen: dict[str, Any] = {"used": plain_settings(used_settings(model))}
    if hasattr(model, "choice_"):
        chosen |= {"choice": _choice(model), "chosen": model.choice_.best_params}
    if hasattr(model, "provenance_"):
        chosen["made_by"] = model.provenance_
    page = read_run(run.path)
    page.run.update(state="done", **chosen)
    run.write("report.html", render_html([page]))
    run.done(**chosen)
    return metrics, [str(warning.message) for warning in caught]


def _echo_metrics(estimator: str, metrics: Mapping[str, float], evaluation: Evaluation | None) -> None:
    """Print figures in a table, the best marked by an asterisk, then why some are missing, and what they say."""
    rows: list[Mapping[str, Any]] = [{"name": estimator, **metrics}]
    if evaluation is not None:
        rows = [{**rows[0], **evaluation.rows[0], "name": estimator}, *evaluation.rows[1:]]
    best = () if evaluation is None else evaluation.best
    names = [name for name in columns_of(rows) if name != "seconds_since_resume"]
    names += ["seconds"] if "seconds" in metrics else []
    table = [
        (f"{row['name']}{' *' if i in best else ''}", *(cell(row, name) for name in names))
        for i, row in enumerate(rows)
    ]
    echo_table(["", *map(name_of, names)], table, right=range(1, len(names) + 1))
    if evaluation is None:
        return
    for row in evaluation.rows:
        if "why" in row:
            click.echo(f"{row['name']}: {row['why']}.")
    mark = f" (*: best {name_of(evaluation.measure)})" if best else ""
    click.echo(f"{evaluation.verdict[:1].upper()}{evaluation.verdict[1:]}.{mark}")
