"""The grammar of a resumable state, and its exact translation to arrays and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

State = Any
"""A nested dict (string keys) or tuple of arrays, numbers, strings, booleans and None."""


def normalize(state: State, *, copy: bool = False, where: str = "state") -> State:
    """Return the state with C-contiguous read-only arrays and plain Python scalars.

    Parts that already conform keep their identity. With ``copy`` writeable arrays are copied instead of being made
    read-only.

    Raises
    ------
    TypeError
        If a part is not in the grammar; the sentence names it.
    """
    if state is None or isinstance(state, bool | int | float | str):
        return state.item() if isinstance(state, np.generic) else state
    if isinstance(state, np.ndarray):
        if state.dtype.hasobject:
            raise TypeError(f"{where} is an array of Python objects: a state holds numeric arrays")
        if not state.flags.c_contiguous or (copy and state.flags.writeable):
            state = np.array(state, order="C")
        state.flags.writeable = False
        return state
    if isinstance(state, np.generic):
        return state.item()
    if type(state) is tuple:
        parts = tuple([normalize(part, copy=copy, where=f"{where}[{k}]") for k, part in enumerate(state)])
        return state if all(a is b for a, b in zip(parts, state, strict=True)) else parts
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}: the keys of a state are strings")
        return {key: normalize(part, copy=copy, where=f"{where}[{key!r}]") for key, part in state.items()}
    raise TypeError(
        f"{where} is a {type(state).__name__}: a state holds arrays, numbers, strings, None, tuples and dicts "
        "(of a generator keep rng.bit_generator.state)"
    )


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
