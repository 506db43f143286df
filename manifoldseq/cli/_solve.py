"""``manifoldseq solve``: a registered model, or a problem in a file, by one of the solvers."""

import json
import math
import time
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, cast

import click

from .. import hooks
from .._minimize import minimize
from .._problem import Problem
from .._quoted import quoted
from .._result import Result, Status
from ..estimators import fingerprint
from ..estimators._object_parameters import defaults
from ..poses import PoseGraph, g2o_text, graph_problem
from ..report import read_run, render_html
from ..solvers import choose_solver
from ..storage import CheckpointError, load
from ._data import Loaded, absolute, as_input, describe, listed, load_data, named_views
from ._listings import with_parameters
from ._plugin_files import (
    absolute_name,
    asked_name,
    files_of_command,
    object_of,
    parts_of,
    reading_of,
    spelled,
    use_files_of,
    with_files,
    with_reader,
)
from ._run import RunDirectory, already_done, choose_directory, command_line, default_name, model_kept, run_of
from ._settings import merged, parse_pairs, read_config, spread, with_settings
from ._shared import (
    BadInput,
    completed_by,
    config_option,
    echo_table,
    every_option,
    output_option,
    read_option,
    resume_option,
    seed_option,
    set_option,
    views_option,
)
from ._terminal import Watch, interruptible

_CONFIG = {"model": str, "data": (str, list), "views": str, "solver": str, "init": str, "max_iter": int, "tol": float}
_OPTIONS = "solver."


@click.command(cls=with_parameters("models"))
@click.argument("model", metavar="MODEL|FILE.py:NAME|FILE.g2o", required=False, shell_complete=completed_by("models"))
@click.argument("data", nargs=-1, shell_complete=completed_by("datasets"))
@click.option(
    "--solver",
    metavar="NAME",
    help="A solver, see `manifoldseq solvers` [auto: what suits the problem, mostly lbfgs or tr].",
    shell_complete=completed_by("solvers"),
)
@click.option("--init", metavar="NAME", help="An initializer of the model [its first].")
@set_option
@config_option
@read_option
@views_option
@click.option("--max-iter", type=click.IntRange(0), metavar="N", help="Most iterations [1000].")
@click.option("--tol", type=click.FloatRange(0), metavar="NUMBER", help="Decrease still ahead, over |f| [1e-10].")
@seed_option
@output_option
@resume_option
@every_option
def solve(
    model: str | None,
    data: tuple[str, ...],
    solver: str | None,
    init: str | None,
    settings: tuple[str, ...],
    config: Path | None,
    reading: tuple[str, ...],
    views: str | None,
    max_iter: int | None,
    tol: float | None,
    seed: int | None,
    output: Path | None,
    resume: bool,
    every: float,
) -> int:
    """Solve the problem that a model makes of data.

    Writes a run directory, as `manifoldseq fit` does, whatever the run came to. MODEL is a registered name (see
    `manifoldseq models`), or FILE.py:NAME, which runs FILE.py: NAME is there a manifoldseq.Problem, or a function
    build(data, **params) that returns one, or a pose graph FILE.g2o, whose solution is written to solution.g2o
    (--set loss=cauchy --set scale=3 for a robust loss). A function gets DATA as a list of (T, d) arrays, and views
    (several DATA, or --views) as a list of (N, d) arrays with the same rows; without DATA it is called as
    build(**params).
    --set solver.NAME=VALUE sets an option of the solver, --set identifier.delay=2 one of an object in a parameter;
    `manifoldseq solve MODEL --help` ends with the parameters of MODEL.

    The exit status is 0 if the problem was solved, and 1 if the run ended otherwise: at --max-iter, say, or where the
    constraints are not met.

    \b
    Examples:
      manifoldseq solve lds.mean basic-motions --set n_states=4 -o runs/mean
      manifoldseq solve mpcca images.csv sounds.csv --set n_latent=1
      manifoldseq solve ./mine.py:build walks.npz --solver pgd --seed 1
      manifoldseq solve ./mine.py:problem --set solver.memory=20
      manifoldseq solve graph.g2o --set loss=cauchy -o runs/graph
    """
    given = read_config(config, _CONFIG)
    model, data = model or given.get("model"), data or listed(given.get("data"))
    views = views or given.get("views")
    if model is None:
        raise BadInput("give MODEL, or --config run.toml: see `manifoldseq solve --help`")
    used_solver: str = solver or given.get("solver", "auto")
    init = init or given.get("init")
    max_iter = given.get("max_iter") if max_iter is None else max_iter
    tol = given.get("tol") if tol is None else tol
    seed = given.get("seed", 0) if seed is None else seed
    used_solver = asked_name(used_solver, "solvers")
    if resume and output:
        use_files_of(output, run_of(output), resume=True)
    name, build, kind, init = _builder(model, init)
    chosen = merged(given["set"], parse_pairs(settings))
    if not isinstance(build, Problem):
        chosen = spread(chosen, build, defaults(build))
    read_options = reading_of({**given["read"], **parse_pairs(reading, "--read")})
    options = {name.removeprefix(_OPTIONS): value for name, value in chosen.items() if name.startswith(_OPTIONS)}
    params = {name: value for name, value in chosen.items() if not name.startswith(_OPTIONS)}
    algorithm = None if used_solver == "auto" else _solver(used_solver, options)
    directory = choose_directory(output, default_name(name, data), resume)
    loaded = _loaded(name, data, read_options, kind, views, params)
    problem = _problem(model, build, loaded, params)
    if init is not None and init not in problem.initializers:
        raise BadInput(f"{model} has no initializer {quoted(init)}: it has {', '.join(problem.initializers) or 'none'}")
    called = choose_solver(problem) if algorithm is None else used_solver
    algorithm = algorithm or _solver(called, options)
    sequences = loaded and [part.sequences for part in loaded.parts]
    files = [one["sha256"] for one in files_of_command()]
    mark = fingerprint(sequences, name, files, params, used_solver, options, init, seed)
    if resume and already_done(directory, mark):
        click.echo(f"The run in {directory} is finished: nothing to resume.")
        return int(not json.loads((directory / "metrics.json").read_bytes())["success"])
    pairs = [f"--set={key}={value}" for key, value in chosen.items()]
    pairs += [f"--read={key}={value}" for key, value in with_reader(read_options).items()]
    named = {"solver": spelled("solvers", used_solver), "init": spelled("initializers", init)}
    flags = {"views": views, **named, "max-iter": max_iter, "tol": tol, "seed": seed}
    pairs += [f"--{key}={value}" for key, value in flags.items() if value is not None]
    columns = "" if loaded is None else named_views(loaded)
    about = {
        "command": command_line(["solve", model, *data, *pairs]),
        "model": model,
        "data": " + ".join(data),
        "about": "" if loaded is None else describe(loaded, loaded.data.labels),
        **({} if loaded is None else {"columns": loaded.memory}),
        **({"views": columns} if columns else {}),
        "seed": seed,
        "solver": called,
        "parameters": chosen,
        "fingerprint": mark,
    }
    repeat = {
        "model": absolute_name(model), "data": absolute(data), "views": views, **named, "max_iter": max_iter,
        "tol": tol, "seed": seed, "read": with_reader(read_options), "set": with_files(chosen),
    }  # fmt: skip
    if tol is not None and not 0 <= tol < math.inf:
        raise BadInput(f"--tol {tol}: give a number of at least 0")
    kept = resume and model_kept(directory, mark)
    run = RunDirectory(directory, about, repeat, kept=kept)
    with run.writing():
        start = time.perf_counter()
        try:
            with interruptible():
                result = (
                    load(directory)
                    if kept
                    else minimize(
                        problem,
                        init,
                        solver=algorithm,
                        tol=tol,
                        max_iter=max_iter,
                        seed=seed,
                        observers=[Watch(name, 1000 if max_iter is None else max_iter)],
                        checkpoint=run.checkpoint(every, mark),
                        resume=resume,
                    )
                )
        except CheckpointError as error:
            raise BadInput(str(error)) from error
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if not kept:
            run.keep(result, {"seconds": time.perf_counter() - start})
        with interruptible():
            _write(run, result, problem.data)
    rows = [("objective", f"{result.fun:.10g}"), ("gradient norm", f"{result.grad_norm or 0:.3g}")]
    rows += [("feasibility", f"{result.feasibility:.3g}")]
    if result.complementarity is not None:
        rows += [("complementarity", f"{result.complementarity:.3g}")]
    rows += [("solver", called), ("iterations", f"{result.nit}"), ("evaluations", f"{result.nfev:g}")]
    rows += [("status", f"{result.status.name}: {result.message}")]
    echo_table((name, ""), rows)
    for line in () if loaded is None else [*filter(None, [columns]), *loaded.remarks]:
        click.echo(line)
    click.echo(f"Report: {directory / 'report.html'}")
    return int(not result.success)


def _write(run: RunDirectory, result: Result, data: object) -> None:
    """Write what is reported about a result that is saved."""
    run.write_columns("history.csv", result.history)
    names = ("fun", "grad_norm", "feasibility", "complementarity", "nit", "nfev", "njev")
    numbers = {name: getattr(result, name) for name in names}
    metrics = {**numbers, "success": int(result.success), **run.kept_metrics()}
    run.write_json("metrics.json", {name: value for name, value in metrics.items() if value is not None})
    if isinstance(data, PoseGraph):
        run.write("solution.g2o", g2o_text(data, result.x))
    page = read_run(run.path)
    page.run.update(state="done", message=result.message)
    run.write("report.html", render_html([page]))
    run.done(message=result.message)


def _solver(name: str, options: dict[str, Any]) -> Any:
    try:
        return hooks.get_solver(name, **options)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def _loaded(
    name: str, data: tuple[str, ...], options: dict[str, Any], kind: str, views: str | None, params: dict[str, Any]
) -> Loaded | None:
    """Read DATA as a model takes it; a problem of a file takes views if some are given."""
    if not data:
        if views is not None:
            raise BadInput(f"--views {views} shares columns out: give DATA, a file or a data set")
        return None
    if kind == "views" and len(data) == 1 and views is None and "views" in params:  # the model shares them out
        kind = "sequences"
    elif not kind:
        kind = "views" if views is not None or len(data) > 1 else "sequences"
    advice = ": fill it, or leave the row out" if kind == "views" else ": interpolate by --read missing=linear"
    return load_data(data, options, kind, name=name, views=views, refuse=lambda: advice)


def _builder(model: str, init: str | None) -> tuple[str, Any, str, str | None]:
    """Return a short name, the problem or what builds it, from which kind of data ("" if unknown), and the start."""
    if model.endswith(".g2o"):
        path = str(Path(model).resolve())
        if not Path(path).is_file():
            raise BadInput(f"{model}: there is no such file")

        def build(loss: str = "squared", scale: float = 3.0) -> Problem:
            return graph_problem(path, loss, scale)

        return Path(model).stem, build, "", init
    parts, name = parts_of(model), model
    if parts is not None:
        found = object_of(*parts, "models")
        if not isinstance(found, hooks.ModelSpec):
            return parts[1], found, "", init
        name = asked_name(model, "models")
    init = None if init is None else asked_name(init, "initializers", model=name)
    try:
        record = hooks.get_model(name)
        return name, _with_signature(record), record.input, init
    except ValueError as error:
        raise BadInput(f"{error}; a problem of your own is given as FILE.py:NAME") from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def _with_signature(record: hooks.ModelSpec) -> Callable[..., Problem]:
    """Return what makes the problem of a model, with the parameters of its `prepare` or `build`."""

    @wraps(record.entry)
    def made(data: Any, **params: Any) -> Problem:
        return record.problem(data, **params)

    return made


def _problem(model: str, build: Any, data: Loaded | None, params: dict[str, Any]) -> Problem:
    if isinstance(build, Problem):
        if params or data is not None:
            raise BadInput(f"{model} is a Problem, which takes neither DATA nor --set: name a function build(data, …)")
        return build
    function = cast(Callable[..., Any], build)
    known = list(signature(function).parameters.values())
    if data is not None:
        known = known[1:]
    elif known and known[0].default is Parameter.empty and known[0].kind in (
        Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    ):  # fmt: skip
        raise BadInput(f"{model} is built from data: give DATA, a file, a folder or a data set")
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known):
        taken = {parameter.name for parameter in known}
        current = {name: value for name, value in defaults(function).items() if name in taken}
        params = with_settings(f"model {model!r}", function, current, params)
    try:
        problem = build(**params) if data is None else build(as_input(data, None)[0], **params)
    except (ValueError, TypeError) as error:
        sentence = str(error) if data is None else data.in_names(str(error))
        raise BadInput(f"{model} cannot be built from this: {sentence}") from error
    if not isinstance(problem, Problem):
        raise BadInput(f"{model} gave a {type(problem).__name__}: it has to return a manifoldseq.Problem")
    return problem
