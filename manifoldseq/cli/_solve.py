"""``manifoldseq solve``: solves the problem of a registered model or of a file."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, cast

import click

from .. import hooks
from .._minimize import minimize
from .._problem import Problem
from .._quoted import quoted
from .._result import Result
from ..estimators._object_parameters import defaults
from ..poses import PoseGraph, g2o_text, graph_problem
from ..solvers import choose_solver
from ..storage import Checkpoint
from ._data import Loaded, as_input
from ._parameters import with_parameters
from ._plugin_files import asked_name, object_of, parts_of, spelled
from ._procedure import Asked, Options, Task, asked_of, carry_out, run_options
from ._run import RunDirectory
from ._settings import spread, with_settings
from ._shared import BadInput, completed_by, echo_table
from ._terminal import Watch

_FIGURES = ("fun", "grad_norm", "feasibility", "complementarity", "nit", "nfev", "njev")
_CONFIG = {"solver": str, "init": str, "max_iter": int, "tol": float}
_OPTIONS = "solver."


@click.command(cls=with_parameters("models"))
@click.argument("model", metavar="MODEL|FILE.py:NAME|FILE.g2o", required=False, shell_complete=completed_by("models"))
@click.argument("data", nargs=-1, shell_complete=completed_by("datasets"))
@click.option(
    "--solver",
    metavar="NAME",
    help="A solver, listed by `manifoldseq list solvers`. The default, auto, chooses a solver for the problem, in most "
    "cases lbfgs-tr.",
    shell_complete=completed_by("solvers"),
)
@click.option("--init", metavar="NAME", help="An initializer of the model [the first].")
@click.option("--max-iter", type=click.IntRange(0), metavar="N", help="Maximum number of iterations [1000].")
@click.option(
    "--tol",
    type=click.FloatRange(0),
    metavar="NUMBER",
    help="Stop when the predicted decrease, relative to |f|, is below this value [1e-10].",
)
@run_options
def solve(
    model: str | None,
    data: tuple[str, ...],
    solver: str | None,
    init: str | None,
    max_iter: int | None,
    tol: float | None,
    options: Options,
) -> int:
    """Solve the problem that a model defines on data.

    A run directory is written, as by `manifoldseq fit`, whether or not the problem is solved. MODEL is a registered
    name (see `manifoldseq list models`), or FILE.py:NAME. In the second case, FILE.py is run, and NAME must be a
    manifoldseq.Problem or a function build(data, **params) that returns a Problem. The function receives DATA as a list
    of (T, d) arrays, and views (several DATA, or --views) as a list of (N, d) arrays whose rows are paired. Without
    DATA, the function is called as build(**params). MODEL can also be a pose graph FILE.g2o, whose solution is written
    to solution.g2o (for a robust loss, add --set loss=cauchy --set scale=3). --set solver.NAME=VALUE sets an option of
    the solver. --set identifier.delay=2 sets a parameter of an object that is itself a parameter. `manifoldseq solve
    MODEL --help` also lists the parameters of MODEL.

    The exit status is 0 if the problem is solved and 1 otherwise, for example if the run ends at --max-iter or the
    constraints are not satisfied.

    \b
    Examples:
      manifoldseq solve lds.mean basic-motions --set n_states=4 -o runs/mean
      manifoldseq solve mpcca images.csv sounds.csv --set n_latent=1
      manifoldseq solve ./mine.py:build walks.npz --solver pgd --seed 1
      manifoldseq solve ./mine.py:problem --set solver.memory=20
      manifoldseq solve graph.g2o --set loss=cauchy -o runs/graph
    """
    lacking = "pass MODEL, or --config run.toml: see `manifoldseq solve --help`"
    asked = asked_of("model", model, data, options, _CONFIG, lacking=lacking)
    file = asked.config
    tol = file.get("tol") if tol is None else tol
    if tol is not None and not 0 <= tol < math.inf:
        raise BadInput(f"--tol {tol}: pass a number of at least 0")
    used = asked_name(solver or file.get("solver", "auto"), "solvers")
    limits = {"max_iter": file.get("max_iter") if max_iter is None else max_iter, "tol": tol}
    return carry_out(_Solve(asked, used, init or file.get("init"), limits), options)


class _Solve(Task):
    command = "solve"

    def __init__(self, asked: Asked, solver: str, init: str | None, limits: dict[str, Any]) -> None:
        name, self.build, self.kind, self.init = _builder(asked.name, init)
        chosen = asked.settings
        if not isinstance(self.build, Problem):
            chosen = spread(chosen, self.build, defaults(self.build))
        super().__init__(replace(asked, settings=chosen), name)
        split = {name.removeprefix(_OPTIONS): value for name, value in chosen.items() if name.startswith(_OPTIONS)}
        self.options_of_solver, self.solver, self.limits = split, solver, limits
        self.params = {name: value for name, value in chosen.items() if not name.startswith(_OPTIONS)}
        self.algorithm: Any = None if solver == "auto" else _solver(solver, split)

    def read(self) -> None:
        """Read the data, build the problem, and choose a solver for it."""
        asked = self.asked
        if asked.data:
            self._load()
        elif asked.views is not None:
            raise BadInput(f"--views {asked.views} needs DATA whose columns are assigned to views: pass a file")
        self.labels = None if self.loaded is None else self.loaded.data.labels
        self.problem = _problem(asked.name, self.build, self.loaded, self.params)
        if self.init is not None and self.init not in self.problem.initializers:
            known = ", ".join(self.problem.initializers) or "none"
            raise BadInput(f"{asked.name} has no initializer {quoted(self.init)}: it has {known}")
        self.called = choose_solver(self.problem) if self.algorithm is None else self.solver
        self.algorithm = self.algorithm or _solver(self.called, self.options_of_solver)

    def _load(self) -> None:
        """Read DATA in the form of the model; a problem in a file receives views if views are given."""
        kind, views, several = self.kind, self.asked.views, len(self.asked.data) > 1
        if kind == "views" and not several and views is None and "views" in self.params:  # the model shares them out
            kind = "sequences"
        elif not kind:
            kind = "views" if views is not None or several else "sequences"
        advice = ": fill the value, or remove the row" if kind == "views" else ": interpolate by --read missing=linear"
        self.load(kind, lambda: advice)

    def identity(self) -> Sequence[Any]:
        """Return the model, its settings and the solver with its options."""
        return self.name, self.params, self.solver, self.options_of_solver, self.init, self.asked.seed

    def finished(self, directory: Path) -> int | None:
        """Return whether the problem was solved."""
        return int(not json.loads((directory / "metrics.json").read_bytes())["success"])

    def about(self) -> dict[str, Any]:
        """Return the solver that is used, and the settings."""
        return {"solver": self.called, "parameters": self.asked.settings}

    def parameters(self) -> dict[str, Any]:
        """Return the given settings."""
        return self.asked.settings

    def options(self) -> dict[str, Any]:
        """Return solver, initializer and limits."""
        return {"solver": spelled("solvers", self.solver), "init": spelled("initializers", self.init), **self.limits}

    def compute(self, run: RunDirectory, checkpoint: Checkpoint, *, resume: bool) -> Result:
        """Minimize."""
        most = self.limits["max_iter"]
        return minimize(
            self.problem, self.init, solver=self.algorithm, **self.limits, seed=self.asked.seed,
            observers=[Watch(self.name, 1000 if most is None else most)], checkpoint=checkpoint, resume=resume,
        )  # fmt: skip

    def write(self, run: RunDirectory, result: Result) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the history, and the poses of a pose graph."""
        run.write_columns("history.csv", result.history)
        if isinstance(self.problem.data, PoseGraph):
            run.write("solution.g2o", g2o_text(self.problem.data, result.x))
        numbers = {name: getattr(result, name) for name in _FIGURES}
        metrics = {**numbers, "success": int(result.success), **run.kept_metrics()}
        return {name: value for name, value in metrics.items() if value is not None}, {"message": result.message}

    def lines(self, result: Result) -> list[str]:
        """Return no lines, because the table contains the status of the run."""
        return []

    def report(self, result: Result, metrics: Mapping[str, Any]) -> None:
        """Print the results."""
        rows = [("objective", f"{result.fun:.10g}"), ("gradient norm", f"{result.grad_norm or 0:.3g}")]
        rows += [("feasibility", f"{result.feasibility:.3g}")]
        if result.complementarity is not None:
            rows += [("complementarity", f"{result.complementarity:.3g}")]
        rows += [("solver", self.called), ("iterations", f"{result.nit}"), ("evaluations", f"{result.nfev:g}")]
        rows += [("status", f"{result.status.name}: {result.message}")]
        echo_table((self.name, ""), rows)

    def as_dict(self, result: Result) -> dict[str, Any]:
        """Return the solver and the status."""
        return {"solver": self.called, "status": result.status.name, "message": result.message}

    def status(self, result: Result) -> int:
        """Return 0 if the problem was solved."""
        return int(not result.success)


def _solver(name: str, options: dict[str, Any]) -> Any:
    try:
        return hooks.get_solver(name, **options)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def _builder(model: str, init: str | None) -> tuple[str, Any, str, str | None]:
    """Return a short name, the problem or its builder, the kind of data ("" if unknown), and the start."""
    if model.endswith(".g2o"):
        path = str(Path(model).resolve())
        if not Path(path).is_file():
            raise BadInput(f"the file {model} does not exist: pass the path of a .g2o file")

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
        raise BadInput(f"{error}; pass a problem of your own as FILE.py:NAME") from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def _with_signature(record: hooks.ModelSpec) -> Callable[..., Problem]:
    """Return the builder of the problem of a model, with the parameters of its `prepare` or `build`."""

    @wraps(record.entry)
    def made(data: Any, **params: Any) -> Problem:
        return record.problem(data, **params)

    return made


def _problem(model: str, build: Any, data: Loaded | None, params: dict[str, Any]) -> Problem:
    if isinstance(build, Problem):
        if params or data is not None:
            raise BadInput(
                f"{model} is a Problem, which accepts neither DATA nor --set: name a function build(data, …)"
            )
        return build
    function = cast(Callable[..., Any], build)
    known = list(signature(function).parameters.values())
    if data is not None:
        known = known[1:]
    elif known and known[0].default is Parameter.empty and known[0].kind in (
        Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    ):  # fmt: skip
        raise BadInput(f"{model} is built from data: pass DATA, a file, a folder or a data set")
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known):
        taken = {parameter.name for parameter in known}
        current = {name: value for name, value in defaults(function).items() if name in taken}
        params = with_settings(f"model {model!r}", function, current, params)
    try:
        problem = build(**params) if data is None else build(as_input(data, None)[0], **params)
    except (ValueError, TypeError) as error:
        message = str(error) if data is None else data.in_names(str(error))
        raise BadInput(f"{model} cannot be built from these data and parameters: {message}") from error
    if not isinstance(problem, Problem):
        raise BadInput(f"{model} returned an object of type {type(problem).__name__}: return a manifoldseq.Problem")
    return problem
