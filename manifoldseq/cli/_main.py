"""The group of commands, which are imported on demand; exit status and messages after an error or Ctrl-C."""

import errno
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

import click

from .. import __version__, hooks
from .._quoted import quoted
from ._plugin_files import with_plugin_option
from ._shared import suggestion

_COMMANDS = {
    "fit": "_fit:fit",
    "apply": "_apply:apply",
    "solve": "_solve:solve",
    "report": "_report:report",
    "list": "_list:list_",
    "check": "_check:check",
    "new-plugin": "_new_plugin:new_plugin",
    "reproduce": "_reproduce:reproduce",
    "doctor": "_doctor:doctor",
}

_EPILOG = """
\b
Examples:
  manifoldseq fit lds-kmeans basic-motions --set n_clusters=4 -o runs/bm
  manifoldseq apply runs/bm basic-motions -o clusters.csv
  manifoldseq fit --plugin mine.py my-estimator table.csv
  manifoldseq fit lds-kmeans basic-motions --set kernel=mine.py:my_kernel
  manifoldseq list estimators lds-kmeans
  manifoldseq COMMAND --help

\b
Exit status: 0 success; 1 failure or not solved; 2 bad input;
3 checked in part; 130 interrupted. If a step after the fit fails or is
interrupted, the fitted model is kept, and the message says so.

--plugin FILE.py, before or after the name of a command, runs a Python file and loads its records, as if the file were
an installed plugin. Instead of a registered name, you can pass FILE.py:NAME for the record or object NAME of the file.

\b
Shell completion for bash (for zsh or fish, replace bash by zsh or fish):
  eval "$(_MANIFOLDSEQ_COMPLETE=bash_source manifoldseq)"

The output is plain text without colours, whether or not NO_COLOR is set. Progress is shown on terminals only. The
variable MANIFOLDSEQ_DISABLE_PLUGINS (a,b) names plugins that are not loaded. If MANIFOLDSEQ_PLUGINS is set, only the
plugins that it names are loaded.
"""


class _Commands(click.Group):
    """The core's commands, and those of `manifoldseq_commands`."""

    _added: dict[str, click.Command] | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *self._of_plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, name = _COMMANDS[cmd_name].partition(":")
            return with_plugin_option(cast(click.Command, getattr(import_module(f".{module}", __package__), name)))
        added = self._of_plugins().get(cmd_name)
        return None if added is None else with_plugin_option(added)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise click.UsageError(
                f"unknown command {quoted(args[0])}: {suggestion(args[0], known)}The commands are {', '.join(known)}."
            )
        return super().resolve_command(ctx, args)

    def _of_plugins(self) -> dict[str, click.Command]:
        if self._added is None:
            self._added = {}
            for plugin in hooks.plugins():
                group = click.Group()
                fault = plugin.commands(group)
                if fault:
                    click.echo(f"Warning: plugin {plugin.name!r}: {fault.message}", err=True)
                for name, command in group.commands.items():
                    if name in _COMMANDS or name in self._added:
                        click.echo(
                            f"Warning: plugin {plugin.name!r}: its command {name!r} is ignored, because a command of "
                            "this name exists already",
                            err=True,
                        )
                    else:
                        self._added[name] = command
        return self._added


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Manifold optimization for sequences and multi-view data."""


with_plugin_option(cli)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning of a library, such as a fit that did not converge, once in one line."""
    said: set[str] = set()

    def line(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            click.echo(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = line
        yield


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the group of commands and return the exit status."""
    try:
        with _warnings_as_lines():
            status = cli.main(arguments, "manifoldseq", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    except OSError as error:
        if error.errno != errno.EPIPE:
            place = f"{error.filename}: " if error.filename else ""
            click.echo(f"Error: {place}{error.strerror or error}: choose another path", err=True)
            return 2
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what reads our output has ended: say no more
        return 1
    return status if isinstance(status, int) else 0
