"""``manifoldseq plugins``: every plugin found, what it registers and what is wrong with it."""

import click

from .. import hooks
from ._shared import echo_json, echo_table, json_option


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
