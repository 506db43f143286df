"""``manifoldseq doctor``: installed packages, missing extras, and errors of plugins."""

import os
import platform
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import click

from .. import __file__ as _package
from .. import __version__, hooks
from ..hooks import BUNDLED
from ..hooks._hookspecs import PROJECT
from ._shared import echo_json, echo_table, json_option

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;.*extra\s*==\s*['\"]([^'\"]+)['\"])?")
_NOT_LISTED = ("", "cli", "all", "test", "dev", "docs")
"""Extras that every command needs, and extras for developers; doctor lists the other extras."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Show versions, extras, plugins and their problems.

    The exit status is 1 if a required package is missing or a plugin has an error.
    """
    needed = _required()
    packages = {name: _version(name) for (_, extra), names in needed.items() if extra in ("", "cli") for name in names}
    extras = {
        one: {name: _version(name) for name in names} for one, names in needed.items() if one[1] not in _NOT_LISTED
    }
    plugins = hooks.plugins()
    missing = [name for name, found in packages.items() if found is None]
    faulty = [plugin.name for plugin in plugins if plugin.status not in ("ok", "disabled")]
    problems = [f"{name} is missing: run `pip install {name}`" for name in missing]
    problems += [f"plugin {name!r} has a fault: see `manifoldseq list plugins`" for name in faulty]
    report: dict[str, Any] = {
        "manifoldseq": __version__,
        "imported_from": str(Path(_package).parent),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": packages,
        "extras": {
            _extra(*one): {"present": all(parts.values()), "packages": parts, "install": _install(*one)}
            for one, parts in extras.items()
        },
        "blas": _blas(),
        "threads": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "plugins": [{"name": plugin.name, "status": plugin.status, "module": plugin.module} for plugin in plugins],
        "problems": problems,
    }
    if as_json:
        echo_json(report)
    else:
        _show(report)
    return int(bool(problems))


def _show(report: dict[str, Any]) -> None:
    rows = [("manifoldseq", report["manifoldseq"]), ("imported from", report["imported_from"])]
    rows += [("python", report["python"]), ("platform", f"{report['platform']}, {report['cores']} cores")]
    for library in report["blas"]:
        rows.append(("BLAS", f"{library['name']} {library['version']}, {library['threads']} threads"))
    rows += list(report["threads"].items())
    echo_table(("", ""), rows)
    click.echo()
    echo_table(("package", "version"), [(name, found or "MISSING") for name, found in report["packages"].items()])
    click.echo()
    states = [
        (extra, "present" if what["present"] else "missing", "" if what["present"] else what["install"])
        for extra, what in report["extras"].items()
    ]
    echo_table(("extra", "state", "install with"), states)
    click.echo()
    rows = [(plugin["name"], plugin["status"], plugin["module"]) for plugin in report["plugins"]]
    echo_table(("plugin", "status", "module"), rows)
    click.echo()
    click.echo("\n".join(report["problems"]) if report["problems"] else "No problems found.")


def _required() -> dict[tuple[str, str], list[str]]:
    """Return the distributions that manifoldseq and its installed plugins require, by distribution and extra.

    The extra is ``""`` for distributions that are always required.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for owner in (PROJECT, *BUNDLED):
        with suppress(PackageNotFoundError):
            for line in requires(owner) or []:
                if (match := _REQUIREMENT.match(line)) and match[1] not in (PROJECT, *BUNDLED):
                    found.setdefault((owner, match[2] or ""), []).append(match[1])
    return found


def _extra(owner: str, extra: str) -> str:
    return extra if owner == PROJECT else f"{owner}[{extra}]"


def _blas() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401  the libraries must be loaded before they can be found
    from threadpoolctl import threadpool_info

    return [
        {"name": one["internal_api"], "version": one["version"], "threads": one["num_threads"]}
        for one in threadpool_info()
        if one["user_api"] == "blas"
    ]


def _install(owner: str, extra: str) -> str:
    if extra == "torch":  # the plain package pulls gigabytes
        return "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    if (owner, extra) == ("manifoldseq-lds", "datasets"):  # what else aeon requires would hold numpy back
        return "pip install --no-deps aeon"
    return f"pip install '{owner}[{extra}]'"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
