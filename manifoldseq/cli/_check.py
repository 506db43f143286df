"""``manifoldseq check``: the conformance of everything that a package registers."""

import traceback
from collections.abc import Callable
from typing import Any, cast

import click

from .. import hooks
from ._shared import BadInput


@click.command()
@click.argument("package")
def check(package: str) -> int:
    """Check everything that PACKAGE registers.

    PACKAGE is the import package of a plugin. The exit status is 1 if something fails.
    """
    plugins = [plugin for plugin in hooks.plugins() if package.replace("-", "_") in (plugin.package, plugin.name)]
    if not plugins:
        known = ", ".join(sorted({plugin.package for plugin in hooks.plugins() if plugin.package})) or "none"
        raise BadInput(f"no plugin is registered by package {package!r}: installed are {known}")
    failures = 0
    for plugin in plugins:
        for fault in [*([plugin.failure] if plugin.failure else []), *plugin.warnings]:
            click.echo(f"FAIL  {plugin.name}: {fault.message}\n{fault.traceback}".rstrip())
            failures += 1
        for clash in plugin.clashes:
            click.echo(f"FAIL  {plugin.name}: {clash}")
            failures += 1
        for record in plugin.records:
            ok, text = _outcome(record)
            click.echo(f"{'ok  ' if ok else 'FAIL'}  {record.kind} {record.name}: {text}")
            failures += not ok
    click.echo(f"{failures} of the checks failed." if failures else "All checks passed.")
    return int(failures > 0)


def _outcome(record: hooks.Record) -> tuple[bool, str]:
    """Run the checker of a record, any exception being a failure of the plugin."""
    try:
        resolved = record.resolved()
        checker = _CHECKERS.get(record.kind)
        if checker is None:
            return True, "its targets can be imported"
        report = checker(resolved)
        return report.ok, str(report)
    except Exception as error:
        return False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}".rstrip()


def _kernel(record: hooks.Kernel) -> Any:
    from ..testing import check_kernel

    return check_kernel(record)


def _model(record: hooks.Model) -> Any:
    from ..testing import check_model

    return check_model(record)


def _manifold(record: hooks.Manifold) -> Any:
    import numpy as np

    from ..testing import check_manifold

    return check_manifold(cast(Callable[[Any], Any], record.example)(np.random.default_rng(0)))


def _solver(record: hooks.Solver) -> Any:
    from ..testing import check_solver

    return check_solver(cast(Callable[[], Any], record.factory)())


def _estimator(record: hooks.Estimator) -> Any:
    from ..testing import check_sequence_estimator

    return check_sequence_estimator(cast(Callable[[], Any], record.factory)())


_CHECKERS: dict[str, Callable[[Any], Any]] = {
    "models": _model,
    "kernels": _kernel,
    "manifolds": _manifold,
    "solvers": _solver,
    "estimators": _estimator,
}
