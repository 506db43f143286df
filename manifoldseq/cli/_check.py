"""``manifoldseq check``: conformance tests of the records of a package; some records can only be imported."""

import traceback
from collections.abc import Sequence
from typing import NamedTuple

import click

from .. import hooks
from .._quoted import quoted
from ..hooks._bundled import how_to_install, is_installed, missing_of_import
from ..hooks._records import KINDS
from ._plugin_files import load_file
from ._shared import BadInput

IN_PART = 3
"""The exit status if no record failed, but a record that can be tested was only imported."""


@click.command()
@click.argument("package")
@click.option(
    "--import-only",
    "import_only",
    multiple=True,
    metavar="NAME",
    help=(
        "Import this record, or all records of a kind such as datasets, without testing them. Such records change the "
        "exit status only if the import fails. This option can be repeated."
    ),
)
def check(package: str, import_only: tuple[str, ...]) -> int:
    """Check the records that PACKAGE registers.

    PACKAGE is the import package of a plugin, or a Python file, FILE.py. Every record is imported and tested on small
    generated data. Models, kernels, manifolds, solvers and estimators are tested by the checks of manifoldseq.testing.
    Domains and readers are tested on their examples. Plots are tested on fits of the estimators that use them. Data
    sets are loaded. The last line names the records that were only imported, for example because they have no example
    or their data are not installed. Reproductions are never run, and commands are not checked.

    \b
    Exit status:
      0  every record was tested and passed, except reproductions and records
         that --import-only names
      1  a record failed
      2  bad input
      3  no record failed, but a record that can be tested was only imported

    \b
    Examples:
      manifoldseq check manifoldseq_lds
      manifoldseq check manifoldseq_hope --import-only datasets
      manifoldseq check mine.py
    """
    name = load_file(package, by_option=True).name if package.endswith(".py") else package.replace("-", "_")
    enabled = [plugin for plugin in hooks.plugins() if not plugin.disabled]
    plugins = [plugin for plugin in enabled if plugin.package == name]
    if not plugins:
        known = ", ".join(sorted({plugin.package for plugin in enabled if plugin.package})) or "none"
        bundled = package.replace("_", "-")
        cure = f": {how_to_install(bundled)}" if bundled in hooks.BUNDLED and not is_installed(bundled) else ""
        raise BadInput(
            f"no plugin is registered by package {quoted(package)} (packages of enabled plugins: {known}){cure}"
        )
    records = [record for plugin in plugins for record in plugin.records]
    for name in import_only:
        if name not in KINDS and name not in [record.name for record in records]:
            raise BadInput(f"--import-only {name}: {name} is neither a record of {package} nor a kind of records")
    faults = 0
    for plugin in plugins:
        for fault in [*([plugin.failure] if plugin.failure else []), *plugin.warnings]:
            click.echo(f"plugin {plugin.name}: FAILED: {fault.message}\n{fault.traceback}".rstrip())
            faults += 1
        for clash in plugin.clashes:
            click.echo(f"plugin {plugin.name}: FAILED: {clash}")
            faults += 1
    outcomes = []
    for record in records:
        outcomes.append(_outcome(record, records, bool({record.kind, record.name} & {*import_only})))
        click.echo(outcomes[-1].text)
    click.echo(_summary(outcomes, faults))
    if faults or any(outcome.state == "failed" for outcome in outcomes):
        return 1
    return IN_PART if any(outcome.state == "imported" and not outcome.intended for outcome in outcomes) else 0


class _Outcome(NamedTuple):
    """The outcome of a record: ``passed``, ``failed``, ``imported`` (possibly intended) or ``left out``."""

    name: str
    state: str
    text: str
    intended: bool = False


def _outcome(record: hooks.Record, records: Sequence[hooks.Record], import_only: bool) -> _Outcome:
    """Run the checker of a record; any exception counts as a failure of the plugin."""
    from ..testing._registered import NotExercised, check_record

    name = f"{record.kind.removesuffix('s')} {record.name}"
    try:
        if import_only:
            record.resolved()
            raise NotExercised("as --import-only says")
        report = check_record(record, records)
    except NotExercised as reason:
        text = f"{name}: only imported: {reason}"
        return _Outcome(name, "imported", text, import_only or isinstance(record, hooks.ReproductionSpec))
    except Exception as error:
        if missing_of_import(error):  # what a paper is reproduced with
            return _Outcome(name, "left out", f"{name}: skipped: {error}")
        return _Outcome(name, "failed", f"{name}: FAILED\n{traceback.format_exc()}".rstrip())
    return _Outcome(name, "passed" if report.ok else "failed", str(report))


def _summary(outcomes: Sequence[_Outcome], faults: int) -> str:
    def count(state: str) -> int:
        return sum(outcome.state == state for outcome in outcomes)

    parts = [f"{count('passed')} tested and passed"]
    if failed := count("failed"):
        parts.append(f"{failed} FAILED")
    if imported := count("imported"):
        parts.append(f"{imported} only imported ({', '.join(one.name for one in outcomes if one.state == 'imported')})")
    if absent := count("left out"):
        parts.append(f"{absent} skipped (they need a plugin that is not installed)")
    if faults:
        parts.append(f"and the plugin itself has {faults} error{'s' * (faults > 1)}")
    return f"{len(outcomes)} record{'s' * (len(outcomes) != 1)} checked: {', '.join(parts)}."
