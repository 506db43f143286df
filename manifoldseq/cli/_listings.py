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
