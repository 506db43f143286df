"""The command line: one command per file. It needs the extra ``[cli]`` (click and other packages)."""

import sys
from collections.abc import Sequence

from .._extras import missing_of_cli

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default those of the process.

    Returns
    -------
    int
        The exit status: 0 for success, 1 for a failure or an unsolved problem, 2 for bad input or if the extra
        ``[cli]`` is missing, 3 for a partial check, 130 after an interruption.
    """
    if message := missing_of_cli():
        print(f"Error: {message}", file=sys.stderr)
        return 2
    from ._main import run

    return run(arguments)
