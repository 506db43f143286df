"""The grammar of a resumable state, and its exact translation to arrays and JSON."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

State = Any
"""A nested dict (string keys) or tuple of arrays, numbers, strings, booleans and None."""


_PLAIN = frozenset({float, int, str, bool, type(None)})


class _Outside(TypeError):
    """A part outside the grammar; its place is filled in while the recursion unwinds."""

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(f"state{place} {sentence}")
        self.sentence, self.place = sentence, place


def normalize(state: State, *, copy: bool = False) -> State:
    """Return the state with C-contiguous read-only arrays and plain Python scalars.

    Parts that already conform keep their identity. With ``copy`` writeable arrays are copied instead of being made
    read-only.

    Raises
    ------
    TypeError
        If a part is not in the grammar; the sentence names it.
    """
    kind = type(state)
    if kind in _PLAIN:
        return state
    if kind is np.ndarray:
        if state.dtype.hasobject:
            raise _Outside("is an array of Python objects: a state holds numeric arrays")
        flags = state.flags
        if flags.c_contiguous and not flags.writeable:
            return state
        if copy or not flags.c_contiguous:
            state = np.array(state, order="C")
        state.flags.writeable = False
        return state
    if kind is tuple:
        parts = tuple([_within(part, key, copy) for key, part in enumerate(state)])
        return state if all(map(operator.is_, parts, state)) else parts
    if kind is dict:
        for key in state:
            if type(key) is not str:
                raise _Outside(f"has the key {key!r}: the keys of a state are strings")
        return {key: _within(part, key, copy) for key, part in state.items()}
    if isinstance(state, np.generic):
        return state.item()
    raise _Outside(
        f"is a {kind.__name__}: a state holds arrays, numbers, strings, None, tuples and dicts "
        "(of a generator keep rng.bit_generator.state)"
    )


def _within(part: State, key: str | int, copy: bool) -> State:
    if type(part) in _PLAIN:
        return part
    try:
        return normalize(part, copy=copy)
    except _Outside as error:
        raise _Outside(error.sentence, f"[{key!r}]{error.place}") from None


def encode(state: State, arrays: dict[str, np.ndarray]) -> Any:
    """Return a JSON value for a normalized state; its arrays go to `arrays` under new keys."""
    if isinstance(state, np.ndarray):
        key = f"a{len(arrays)}"
        arrays[key] = state
        return {"array": key}
    if isinstance(state, tuple):
        return {"tuple": [encode(part, arrays) for part in state]}
    if isinstance(state, dict):
        return {"dict": {key: encode(part, arrays) for key, part in state.items()}}
    return state


def decode(value: Any, arrays: dict[str, np.ndarray]) -> State:
    """Return the state that :func:`encode` wrote, bit by bit."""
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "tuple":
        return tuple(decode(part, arrays) for part in content)
    return {key: decode(part, arrays) for key, part in content.items()}
