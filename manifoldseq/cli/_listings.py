"""``manifoldseq models | kernels | manifolds | …``: what is registered, without importing what it names."""

import click

from .. import hooks
from ._shared import echo_json, echo_table, json_option


def _listing(kind: str) -> click.Command:
    @click.command(kind, help=f"List the {kind} that can be asked for by name.")
    @json_option
    def listing(as_json: bool) -> None:
        entries = hooks.records(kind)
        if as_json:
            echo_json([{"plugin": plugin.name, **record.as_dict()} for plugin, record in entries])
        elif not entries:
            click.echo(f"No {kind} are registered.")
        else:
            rows = [(record.name, plugin.name, record.as_dict()["summary"]) for plugin, record in entries]
            echo_table(("name", "from", "summary"), rows)

    return listing


models = _listing("models")
kernels = _listing("kernels")
manifolds = _listing("manifolds")
solvers = _listing("solvers")
estimators = _listing("estimators")
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
