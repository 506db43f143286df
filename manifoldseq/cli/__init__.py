"""The command line: one command per file. Its packages, click and others, are those of the extra ``[cli]``."""

import sys
from collections.abc import Sequence

from .._extras import missing_of_cli

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit status: 0, 1 for a failure or no solution, 2 for bad input or without the extra ``[cli]``, 3 for a
        check in part, 130 interrupted.
    """
    if message := missing_of_cli():
        print(f"Error: {message}", file=sys.stderr)
        return 2
    from ._main import run

    return run(arguments)
