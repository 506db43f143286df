"""The command line: one command per file."""

from ._main import main

__all__ = ["main"]
