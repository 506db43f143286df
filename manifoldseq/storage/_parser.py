"""NumPy's headers are Python literals, and Python's parser is not safe between threads."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def undisturbed(read: Callable[[], T]) -> T:
    """Return ``read()``, tried again where another thread disturbed Python's parser.

    Python 3.11 and 3.12 keep one recursion depth for all threads that parse (python/cpython#106905): the
    ``SystemError`` that follows says nothing about the file.
    """
    for _ in range(9):
        try:
            return read()
        except SystemError:
            continue
    return read()
