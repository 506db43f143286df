"""Lazy import of pymanopt, without side effects on global settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from ..execution._forks import ForkSafeLock

_before: list[Any] = []
"""A stack of the states of numpy's global generator that have to be restored."""
_NUMPY_RANDOM = ForkSafeLock(lambda: _put_back(0))


def pymanopt() -> Any:
    """Return the package pymanopt.

    Its first import loads every differentiation library that is installed (seconds with torch and jax) and makes jax
    compute in double precision everywhere; the flag of jax is restored.
    """
    if "pymanopt" in sys.modules:
        return sys.modules["pymanopt"]
    double = _jax_in_double_precision()
    try:
        return import_module("pymanopt")
    except ImportError as error:
        raise ImportError(f"pymanopt cannot be imported ({error}): pip install pymanopt") from error
    finally:
        if "jax" in sys.modules and _jax_in_double_precision() != double:
            sys.modules["jax"].config.update("jax_enable_x64", double)


def _jax_in_double_precision() -> bool:
    """Return the flag of jax, or its value after an import of jax."""
    if "jax" in sys.modules:
        return bool(sys.modules["jax"].config.jax_enable_x64)
    return os.environ.get("JAX_ENABLE_X64", "").lower() in ("y", "yes", "t", "true", "on", "1")


@contextmanager
def numpy_random(rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generator of numpy, from which pymanopt draws, and restore it; one thread at a time."""
    with _NUMPY_RANDOM:
        _before.append(np.random.get_state())
        try:
            np.random.seed(int(rng.integers(2**32)))
            yield
        finally:
            _put_back(len(_before) - 1)


def _put_back(depth: int) -> None:
    """Restore the global generator to its state at a depth of nested blocks, also in a forked child."""
    np.random.set_state(_before[depth])
    del _before[depth:]
