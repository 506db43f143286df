"""Validation of resumable states."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .._quoted import quoted

State = Any
"""A nested dict (string keys) or tuple of arrays, numbers, strings, booleans and None."""


_PLAIN = frozenset({float, int, str, bool, type(None)})
_KEYS = frozenset({str})


class _Outside(TypeError):
    """Error for a part outside the grammar; its place is added while the recursion returns."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"state{place} {message}")
        self.message, self.place = message, place


def normalize(state: State, before: State = None, *, copy: bool = False) -> State:
    """Return the state with C-contiguous read-only arrays and plain Python scalars.

    Parts that already conform keep their identity; parts of `before`, a normalized state, are not validated again. With
    ``copy`` writeable arrays are copied instead of being made read-only.

    Raises
    ------
    TypeError
        If a part is not in the grammar; the message names it.
    """
    kind = type(state)
    if kind in _PLAIN or (state is before and kind is not dict):
        return state
    if kind is np.ndarray:
        return _array(state, copy)
    if kind is dict and not _KEYS.issuperset(map(type, state)):
        key = next(key for key in state if type(key) is not str)
        raise _Outside(f"has the key {quoted(key)}: the keys of a state must be strings")
    place: str | int = ""
    try:
        if kind is tuple:
            # of a list of the last few of something most parts are known: where they were, or further ahead by one
            known = 0
            if type(before) is tuple:
                old = before[1:] if len(before) == len(state) else before
                known = len(old) if len(old) <= len(state) and all(map(operator.is_, old, state)) else 0
            parts = list(state)
            for place in range(known, len(state)):
                part = state[place]
                one = type(part)
                if one not in _PLAIN:
                    parts[place] = _array(part, copy) if one is np.ndarray else normalize(part, copy=copy)
            return state if all(map(operator.is_, parts, state)) else tuple(parts)
        if kind is dict:
            old = before if type(before) is dict else {}
            new = dict(state)
            for place, part in state.items():
                one = type(part)
                if one is np.ndarray:
                    flags = part.flags
                    if flags.writeable or not flags.c_contiguous or part.dtype.hasobject:
                        new[place] = _array(part, copy)
                elif one not in _PLAIN:
                    new[place] = normalize(part, old.get(place), copy=copy)
            return new
    except _Outside as error:
        raise _Outside(error.message, f"[{quoted(place)}]{error.place}") from None
    if isinstance(state, np.generic):
        return state.item()
    raise _Outside(
        f"is a {kind.__name__}: a state can contain arrays, numbers, strings, None, tuples and dicts (for a generator, "
        "store rng.bit_generator.state)"
    )


def _array(array: np.ndarray, copy: bool) -> np.ndarray:
    flags = array.flags
    if not flags.writeable and flags.c_contiguous and not array.dtype.hasobject:
        return array
    if array.dtype.hasobject:
        raise _Outside("is an array of Python objects: a state can contain numeric arrays only")
    if flags.c_contiguous and not copy:
        flags.writeable = False
        return array
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array
