"""``manifoldseq check``: the conformance of everything that a package registers."""

import traceback
from typing import Any

import click

from .. import hooks
from ._shared import BadInput


@click.command()
@click.argument("package")
def check(package: str) -> int:
    """Check everything that PACKAGE registers.

    PACKAGE is the import package of a plugin. The exit status is 1 if something fails.

    \b
    Example:
      manifoldseq check manifoldseq_lds
    """
    enabled = [plugin for plugin in hooks.plugins() if not plugin.disabled]
    plugins = [plugin for plugin in enabled if plugin.package == package.replace("-", "_")]
    if not plugins:
        known = ", ".join(sorted({plugin.package for plugin in enabled if plugin.package})) or "none"
        raise BadInput(f"no plugin is registered by package {package!r}: installed and enabled are {known}")
    failures = 0
    for plugin in plugins:
        for fault in [*([plugin.failure] if plugin.failure else []), *plugin.warnings]:
            click.echo(f"plugin {plugin.name}: FAILED: {fault.message}\n{fault.traceback}".rstrip())
            failures += 1
        for clash in plugin.clashes:
            click.echo(f"plugin {plugin.name}: FAILED: {clash}")
            failures += 1
        for record in plugin.records:
            ok, text = _outcome(record)
            click.echo(text)
            failures += not ok
    count = sum(len(plugin.records) for plugin in plugins)
    click.echo(f"{count} records checked: {f'{failures} failures' if failures else 'all passed'}.")
    return int(failures > 0)


def _outcome(record: hooks.Record) -> tuple[bool, str]:
    """Run the checker of a record, any exception being a failure of the plugin."""
    subject = f"{record.kind.removesuffix('s')} {record.name}"
    try:
        report = _report(record.resolved())
    except Exception:
        return False, f"{subject}: FAILED\n{traceback.format_exc()}".rstrip()
    return (True, f"{subject}: can be imported") if report is None else (report.ok, str(report))


def _report(record: Any) -> Any:
    """Return the report of the checker for a resolved record, or None for a kind that has none."""
    import numpy as np

    from .. import testing

    match record:
        case hooks.Model():
            return testing.check_model(record)
        case hooks.Kernel():
            return testing.check_kernel(record)
        case hooks.Manifold():
            return testing.check_manifold(record.example(np.random.default_rng(0)))
        case hooks.Solver():
            return testing.check_solver(record.factory())
        case hooks.Estimator(input="sequences"):
            return testing.check_sequence_estimator(record.factory())
        case hooks.Estimator(input="views" | "bags"):  # a bag may be one row
            return testing.check_multiview_estimator(record.factory())
        case hooks.Estimator():
            return testing.check_estimator(record.factory())
    return None
