"""``manifoldseq models | kernels | manifolds | …``: lists of records, and one record with its parameters."""

from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click

from .. import hooks
from ..hooks._lookup import asked_as, named
from ..hooks._records import KINDS
from ._parts import echo_parts, parts_as_json
from ._plugin_files import asked_name, parts_of
from ._settings import known_settings
from ._shared import BadInput, completed_by, echo_json, echo_table, json_option

_CALLED = {
    "models": "entry",
    "reproductions": "run",
    "datasets": "loader",
    "plots": "draw",
}
"""What parameters are those of, if it is not the factory."""


def _listing(kind: str) -> click.Command:
    @click.command(kind, help=f"List registered {kind}, or the parameters of NAME.")
    @click.argument("name", required=False, shell_complete=completed_by(kind))
    @json_option
    def listing(name: str | None, as_json: bool) -> None:
        if name is not None:
            _one(kind, name, as_json)
            return
        entries = hooks.records(kind)
        if as_json:
            echo_json([{"plugin": plugin.name, **record.as_dict()} for plugin, record in entries])
        elif not entries:
            click.echo(f"No {kind} are registered.")
        else:
            rows = [(asked_as(*one), one[0].name, one[1].as_dict()["summary"]) for one in entries]
            echo_table(("name", "from", "summary"), rows)

    return listing


def _one(kind: str, name: str, as_json: bool) -> None:
    try:
        name = asked_name(name, kind)
        record = hooks.get_model(name) if kind == "models" else hooks.get_record(KINDS[kind], name)
        settings = parameters(record)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        defined = {"parts_defined": parts_as_json(record)} if isinstance(record, hooks.ModelSpec) else {}
        echo_json({**record.as_dict(), "parameters": settings, **defined})
        return
    click.echo(record.as_dict()["summary"])
    if isinstance(record, hooks.ModelSpec):
        echo_parts(record)
        click.echo()
    if settings:
        echo_table(("parameter", "default"), [(key, str(value)) for key, value in settings.items()])


def parameters(record: hooks.Record) -> dict[str, Any]:
    """Return the parameters of what a resolved record names, and settings of objects in them, with their defaults.

    Parameters
    ----------
    record : manifoldseq.hooks record

    Returns
    -------
    dict of str to object
        What `--set` takes; what is not a number, text, list or None is written as Python does. Without those that have
        no default, such as the data.
    """
    called = getattr(record, _CALLED.get(record.kind, "factory"))
    if record.kind == "estimators":
        settings = called().get_params(deep=False)
    else:
        given = signature(called).parameters.values()
        options = ("data", "resume") if record.kind == "reproductions" else ()  # of the command line
        settings = {one.name: one.default for one in given if one.default is not Parameter.empty}
        settings = {name: value for name, value in settings.items() if name not in options}
    found = known_settings(called, settings)
    return {key: value if isinstance(value, _PLAIN) else repr(value) for key, value in found.items()}


_PLAIN = (str, int, float, list, tuple, type(None))


class _WithParameters(click.Command):
    kind: str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments: they are not parsed where help is asked for."""
        ctx.meta["manifoldseq.arguments"] = list(args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the parameters."""
        super().format_epilog(ctx, formatter)
        names = {asked for name, record in named(self.kind) for asked in (name, record.name)}
        words = ctx.meta.get("manifoldseq.arguments", ())
        for name in [word for word in words if word in names or Path((parts_of(word) or ("",))[0]).is_file()][:1]:
            try:
                name = asked_name(name, self.kind)
                settings = parameters(hooks.get_record(KINDS[self.kind], name))
            except (ValueError, ImportError) as error:
                raise click.ClickException(str(error)) from error
            with formatter.section(f"Parameters of {name}, --set NAME=VALUE"):
                formatter.write_dl([(key, f"[{value}]") for key, value in settings.items()] or [("none", "")])


def with_parameters(kind: str) -> type[click.Command]:
    """Return the class of a command whose help ends with the parameters of the record that is named."""
    return type(f"CommandOn{kind.title()}", (_WithParameters,), {"kind": kind})


models = _listing("models")
kernels = _listing("kernels")
manifolds = _listing("manifolds")
solvers = _listing("solvers")
estimators = _listing("estimators")
rules = _listing("rules")
readers = _listing("readers")
datasets = _listing("datasets")
plots = _listing("plots")
reproductions = _listing("reproductions")


# ``manifoldseq plugins``: every plugin found, what it registers and what is wrong with it.


@click.command()
@json_option
def plugins(as_json: bool) -> None:
    """List plugins, their state and what they register."""
    found = hooks.plugins()
    if as_json:
        echo_json([plugin.as_dict() for plugin in found])
        return
    if not found:
        click.echo("No plugins are installed.")
        return
    rows = [(plugin.name, plugin.distribution, plugin.version, plugin.status, _registers(plugin)) for plugin in found]
    echo_table(("plugin", "distribution", "version", "status", "registers"), rows)
    for plugin in found:
        causes = [plugin.failure.message] if plugin.failure else []
        for message in [*causes, *(fault.message for fault in plugin.warnings), *plugin.clashes]:
            click.echo(f"{plugin.name}: {message}")


def _registers(plugin: hooks.Plugin) -> str:
    registers = plugin.as_dict()["registers"]
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in registers.items())
