"""Optional packages: one error message, with the command that installs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

CLI = ("click", "tqdm", "matplotlib", "jinja2", "sklearn")
"""The import names of the packages of the extra ``[cli]``."""

_NAMES = {"sklearn": "scikit-learn", "distributed": "dask.distributed"}
"""Packages whose import name differs from the name of their distribution."""


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Import optional packages in the body. A missing package raises an ImportError that says what to install.

    Parameters
    ----------
    what : str
        The feature that needs the package, with its verb, as in ``"figures need"``.
    extra : str
        The extra of the distribution manifoldseq that installs it.

    Raises
    ------
    ImportError
        If a package of the body is not installed. Errors inside an installed package propagate unchanged.

    Examples
    --------
    >>> with needing("figures need", "cli"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    ImportError: figures need no_such_package, which is not installed: run `pip install 'manifoldseq[cli]'`
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or not absent(package):
            raise
        raise ImportError(f"{what} {_NAMES.get(package, package)}, {_cure(extra)}", name=package) from error


def missing_of_cli() -> str:
    """Return the error message about missing packages of the command line; an empty string if all are installed.

    Examples
    --------
    >>> missing_of_cli()
    ''
    """
    missing = [_NAMES.get(package, package) for package in CLI if absent(package)]
    if not missing:
        return ""
    return f"the command line needs {', '.join(missing)}, {_cure('cli', len(missing))}"


def absent(package: str) -> bool:
    """Return whether a package cannot be imported."""
    try:
        return find_spec(package) is None
    except (ImportError, ValueError):  # hidden by a finder, or by None in sys.modules
        return True


def _cure(extra: str, number: int = 1) -> str:
    return f"which {'is' if number == 1 else 'are'} not installed: run `pip install 'manifoldseq[{extra}]'`"
