"""``manifoldseq fit``: fits an estimator to data and writes a run directory."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import execution, hooks
from ..estimators._object_parameters import defaults, plain_settings, used_settings
from ..evaluation import Evaluation, evaluate
from ..evaluation._tasks import checked_labels, takes_labels
from ..execution._blocks import BLOCK_BYTES
from ..hooks._lookup import named
from ..report import Fitted, draw_evaluation, draw_plots, save_drawings
from ..report._quality import cell, columns_of, name_of
from ..storage import Checkpoint
from ._data import advice_on_missing, as_input, check_sparse, load_labels, member_ids, takes_missing
from ._parameters import record_named, with_parameters
from ._plugin_files import asked_name
from ._procedure import Asked, Options, Task, asked_of, carry_out, run_options
from ._run import RunDirectory, lacks_quality
from ._settings import parse_pairs, spread, with_settings, written
from ._shared import BadInput, completed_by, echo_table, say
from ._terminal import Watch

_MAY_CHANGE = ("max_iter", "tol", "n_jobs", "device", "verbose")  # in a run that is resumed
_WORDS = ("name", "why", "seconds")  # of a row, what is not a figure of the fit


@click.command(cls=with_parameters("estimators"))
@click.argument("estimator", required=False, shell_complete=completed_by("estimators"))
@click.argument("data", nargs=-1, shell_complete=completed_by("datasets"))
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the labels. Each line contains either a label, or a name, a comma and a label. Labels without "
    "names must be in the order of the sequences (of the rows, if ESTIMATOR requires samples or views).",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Number of threads [1].")
@click.option(
    "--dask", metavar="ADDRESS", help="Address of the scheduler of a dask cluster, such as tcp://127.0.0.1:8786."
)
@click.option(
    "--choose",
    is_flag=True,
    help="Choose parameters that are not set, such as n_clusters, from the data without labels.",
)
@click.option(
    "--quality/--no-quality", default=True, help="Measure the quality of the fit and compare it with baselines [yes]."
)
@run_options
def fit(
    estimator: str | None,
    data: tuple[str, ...],
    labels: Path | None,
    jobs: int | None,
    dask: str | None,
    choose: bool,
    quality: bool,
    options: Options,
) -> int:
    """Fit ESTIMATOR to DATA and write a run directory.

    DATA is a file or folder that a reader accepts (see `manifoldseq list readers`), or the name of a data set. A
    multi-view estimator requires one file whose columns are assigned to views by --views, or one file per view. The
    members of several files are paired by their ids (the column `id` of a table, or the file names), or in their order
    if there are no ids.

    The files run.json and run.toml are written to the run directory at the start. When the fit is done, model.npz and
    model.json are written first, and then history.csv, assignments.csv, metrics.json, evaluation.json and report.html.
    If writing one of these files fails, the model is kept, the exit status is 1, and --resume writes the missing files.

    The fit is compared with baselines. Clusterings are compared by their agreement with the labels and by the agreement
    between clusterings that are fitted to different parts of the data. Classifiers and features are compared by the
    accuracy on held-out members. The best result is marked with an asterisk.

    `manifoldseq fit ESTIMATOR --help` also lists the parameters of ESTIMATOR. `--set identifier.delay=4` sets a
    parameter of an object that is itself a parameter. A file for --config can contain tables such as
    `[set.identifier]`.

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
      manifoldseq fit sequence-kmeans recordings/ --set n_clusters=auto
      manifoldseq fit lds-kmeans walks.npz --set identifier.center=false
      manifoldseq fit mixture-pcca images.csv sounds.csv --set missing=em
      manifoldseq fit mixture-pcca table.npy --views 76,216 --set n_components=8
      manifoldseq fit mixture-pcca table.csv --views "red,blue:wave_*"
      manifoldseq fit --config runs/bm/run.toml -o runs/again
      manifoldseq fit --config runs/bm/run.toml -o runs/bm --resume
    """
    if jobs is not None and dask is not None:
        raise BadInput("--jobs and --dask both select where to compute, here or on a cluster: pass only one of them")
    lacking = "pass ESTIMATOR and DATA, or --config run.toml: see `manifoldseq fit --help`"
    asked = asked_of("estimator", estimator, data, options, {"labels": str}, lacking=lacking)
    if not asked.data:
        raise BadInput(lacking)
    if options.seed is not None:
        if "random_state" in parse_pairs(options.settings):
            raise BadInput("--seed and --set random_state=… set the same parameter: pass only one of them")
        asked.settings.pop("random_state", None)  # of the file
    labels = labels or (Path(asked.config["labels"]) if "labels" in asked.config else None)
    asked = replace(asked, name=asked_name(asked.name, "estimators"))
    return carry_out(_Fit(asked, labels, _executor(jobs, dask), choose=choose, quality=quality), options)


class _Fit(Task):
    command = "fit"

    def __init__(
        self, asked: Asked, labels: Path | None, executor: AbstractContextManager[Any], *, choose: bool, quality: bool
    ) -> None:
        self.record, self.model, chosen = _configured(asked, choose)
        super().__init__(replace(asked, settings=chosen), asked.name)
        self._labels, self._executor, self._quality = labels, executor, quality
        self._evaluation: Evaluation | None = None

    def read(self) -> None:
        """Read data and labels, and raise BadInput if the estimator does not accept them."""
        name, kind = self.name, self.record.input
        loaded = self.load(
            kind,
            None
            if takes_missing(self.model)
            else lambda: f". {name} does not accept missing values: {advice_on_missing(name, kind)}",
        )
        check_sparse(name, self.model, loaded)
        labels = loaded.data.labels if self._labels is None else load_labels(self._labels, loaded)
        if labels is None and kind in ("sequences", "samples") and takes_labels(self.model, only=True):
            raise BadInput(
                f"{name} needs labels, but {self.asked.data[0]} has none: pass --labels FILE, where each line of "
                "FILE is 'label' or 'name,label', or add labels to the data (a table needs a column 'label', and a "
                "folder needs one subfolder per label or a file labels.csv)"
            )
        try:
            self.labels = None if labels is None else checked_labels(labels, len(labels))
        except ValueError as error:
            raise BadInput(f"{self._labels or ' + '.join(self.asked.data)}: {error}") from error

    def identity(self) -> Sequence[Any]:
        """Return the estimator and its parameters, except those that only define when a fit ends."""
        return self.name, {name: value for name, value in self.parameters().items() if name not in _MAY_CHANGE}

    def finished(self, directory: Path) -> int | None:
        """Return 0, or None if the evaluation still has to be added."""
        return None if self._quality and lacks_quality(directory) else 0

    def about(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"parameters": self.parameters()}

    def parameters(self) -> dict[str, Any]:
        """Return all parameters of the estimator."""
        return written(self.model.get_params(deep=False))

    def options(self) -> dict[str, Any]:
        """Return the file with labels."""
        return {"labels": self._labels and str(self._labels.resolve())}

    def computing(self) -> AbstractContextManager[Any]:
        """Return the executor that the options select."""
        return self._executor

    def compute(self, run: RunDirectory, checkpoint: Checkpoint, *, resume: bool) -> Any:
        """Fit."""
        model, loaded, (X, y) = self.model, self.loaded, self._input()
        _say_cost(self.record, model, X)
        if self.record.input not in ("sequences", "samples"):
            y = None  # the second argument of a fit to views or bags is another view
        arguments = (X, y) if y is not None or takes_labels(model) else (X,)
        try:
            model.fit(*arguments, **self._fit_options(checkpoint, resume=resume))
        except np.linalg.LinAlgError:  # a ValueError, but not one of the input
            raise
        except ValueError as error:
            if run.has_iterates():
                raise
            # an estimator validates in fit, between the stages too: that leaves nothing behind
            if not resume:
                run.drop_checkpoint()
            said = str(error) if loaded is None else loaded.in_names(str(error))
            raise BadInput(_without_rule(self.name, model) or said) from error
        except TypeError as error:
            if message := _without_rule(self.name, model):
                raise BadInput(message) from error
            raise
        if getattr(execution.current(), "tasks", 1) == 0:
            click.echo(f"{self.name} computed nothing on the cluster: {_why_here(model)}.", err=True)
        return model

    def _input(self) -> tuple[Any, Any]:
        assert self.loaded is not None
        return as_input(self.loaded, self.labels)

    def _fit_options(self, checkpoint: Checkpoint, *, resume: bool) -> dict[str, Any]:
        """Return those of observers, checkpoint, resume and feature_names that `fit` of this estimator accepts."""
        takes, names = signature(self.model.fit).parameters, self.loaded and self.loaded.names
        options: dict[str, Any] = {
            "observers": [Watch(self.name, getattr(self.model, "max_iter", None))],
            "checkpoint": checkpoint,
            **({} if names is None else {"feature_names": names}),
            **({"resume": True} if resume else {}),
        }
        if resume and "resume" not in takes:
            click.echo(f"{self.name} writes no checkpoints: the fit starts from the beginning.", err=True)
        return {name: value for name, value in options.items() if name in takes}

    def write(self, run: RunDirectory, result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Evaluate the fit, and write the history, the assignments, the evaluation and the drawings."""
        loaded, (X, y) = self.loaded, self._input()
        assert loaded is not None
        ids, kept = member_ids(loaded), run.kept_metrics()
        self._evaluation = evaluation = self._evaluated(result, X, y, ids, kept) if self._quality else None
        loaded.release()
        fitted = Fitted(result, loaded.data if self.record.input == "sequences" else X, y, run.path.name)
        if fitted.history:
            run.write_columns("history.csv", fitted.history)
        if (clusters := fitted.clusters) is not None:
            known = {"id": ids} if len(ids) == len(clusters) else {}
            known |= {} if fitted.labels is None else {"label": fitted.labels}
            run.write_columns("assignments.csv", {**known, "cluster": clusters})
        metrics = kept
        if evaluation is not None:
            metrics = {name: value for name, value in evaluation.rows[0].items() if name not in _WORDS} | kept
            run.write_json("evaluation.json", evaluation.as_dict())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of_quality = () if evaluation is None else draw_evaluation(fitted, evaluation)
            save_drawings(run.path, [*draw_plots(fitted), *of_quality])
        for warning in caught:
            click.echo(f"Warning: {warning.message}", err=True)
        chosen: dict[str, Any] = {"used": plain_settings(used_settings(result))}
        if hasattr(result, "choice_"):
            chosen |= {"choice": str(result.choice_), "chosen": result.choice_.best_params}
        if hasattr(result, "provenance_"):
            chosen["made_by"] = result.provenance_
        return metrics, chosen

    def _evaluated(self, model: Any, X: Any, y: Any, ids: list[str], metrics: Mapping[str, Any]) -> Evaluation | None:
        """Return the evaluation of a fit, or None with a warning if the evaluation fails."""
        assert self.loaded is not None
        took = metrics.get("seconds", metrics.get("seconds_since_resume", 0.0))
        about = {"groups": ids, "columns": self.loaded.data.channel_names, "random_state": self.asked.seed}
        try:
            return evaluate(model, X, y, record=self.record, name=self.name, took=took, **about)
        except Exception as error:
            click.echo(f"Warning: the quality was not measured ({type(error).__name__}: {error})", err=True)
            return None

    def lines(self, result: Any) -> list[str]:
        """Return the table of compared settings, and the parameters whose defaults could be chosen instead."""
        tried = str(result.choice_).splitlines() if hasattr(result, "choice_") else []
        parameters, auto = self.parameters(), self.record.auto
        plain = [f"{name}={parameters[name]}" for name in auto if name not in self.asked.settings]
        plain = [setting for setting in plain if not setting.endswith("=auto")]
        if plain:
            numbers = " and ".join(plain)
            tried.append(
                f"{numbers} {'is the default, which does' if len(plain) == 1 else 'are the defaults, which do'} not "
                f"depend on the data: add --choose to choose a value from the data, or --set {auto[0]}=..."
            )
        return tried

    def report(self, result: Any, metrics: Mapping[str, Any]) -> None:
        """Print the measures, and the plugins of model, initializer, update and solver."""
        _echo_metrics(self.name, metrics, self._evaluation)
        if made_by := getattr(result, "provenance_", {}):
            echo_table(("made by", ""), [*made_by.items()])

    def as_dict(self, result: Any) -> dict[str, Any]:
        """Return the evaluation, and the plugins of model, initializer, update and solver."""
        judged = None if self._evaluation is None else self._evaluation.as_dict()
        return {"evaluation": judged, "made_by": getattr(result, "provenance_", {})}


def _configured(asked: Asked, choose: bool) -> tuple[hooks.EstimatorSpec, Any, dict[str, Any]]:
    """Return the record, an estimator with the settings and the seed, and these settings."""
    record = cast(hooks.EstimatorSpec, record_named("estimators", asked.name))
    model: Any = cast(Any, record.factory)()
    lacking = [name for name in ("fit", "get_params", "set_params") if not hasattr(model, name)]
    if lacking:
        raise click.ClickException(
            f"{asked.name} is a {type(model).__name__} without {' and '.join(lacking)}: "
            "derive its class from sklearn.base.BaseEstimator, so that its parameters can be set and saved"
        )
    known = model.get_params(deep=False)
    chosen = spread(asked.settings, type(model), known)
    if choose:
        chosen |= _left_open(record, asked.name, chosen)
    if "random_state" in known and chosen.get("random_state") is None:  # None would not be repeatable
        chosen["random_state"] = asked.seed
    params = with_settings(f"estimator {asked.name!r}", type(model), known, chosen)
    try:
        return record, model.set_params(**params), chosen
    except ValueError as error:
        raise BadInput(str(error)) from error


def _left_open(record: hooks.EstimatorSpec, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that ``--choose`` leaves to the estimator's own rule."""
    if not record.auto:
        able = [able for able, one in named("estimators") if getattr(one, "auto", ())]
        raise BadInput(f"{name} has no rule that chooses parameters: --choose is supported by {', '.join(able)}")
    found = {one: "auto" for one in record.auto if one not in settings}
    if not found:
        raise BadInput(f"--choose chooses {' and '.join(record.auto)}, but --set sets it: pass only one of the options")
    return found


def _say_cost(record: hooks.EstimatorSpec, model: Any, X: Any) -> None:
    """Describe the computations of a fit that chooses settings, before they start."""
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


def _why_here(model: Any) -> str:
    """Return the reason why a fit has sent no tasks to a cluster."""
    size = f"{BLOCK_BYTES >> 20} MiB"
    usual = f"every step of the fit was a single task (a task computes {size} of rows, or one start)"
    return getattr(model, "sequential", usual)


def _without_rule(name: str, model: Any) -> str:
    """Return an error message for settings ``"auto"`` without a rule, with the estimators that have a rule."""
    of_auto = {other: getattr(one, "auto", ()) for other, one in named("estimators")}
    default = defaults(type(model))  # which has a rule
    for setting, value in model.get_params(deep=False).items():
        able = [other for other, settings in of_auto.items() if setting in settings]
        is_auto = isinstance(value, str) and value == "auto" and default.get(setting) != "auto"
        if is_auto and able and name not in able:
            return f"{name} has no rule for {setting}=auto: pass a number, or fit {' or '.join(able)}"
    return ""


def _echo_metrics(estimator: str, metrics: Mapping[str, float], evaluation: Evaluation | None) -> None:
    """Print a table of measures (an asterisk marks the best), reasons for missing values, and the verdict."""
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
            say(f"{row['name']}: {row['why']}.")
    mark = f" (*: best {name_of(evaluation.measure)})" if best else ""
    say(f"{evaluation.verdict[:1].upper()}{evaluation.verdict[1:]}.{mark}")
