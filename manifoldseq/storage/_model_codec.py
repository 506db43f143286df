"""Conversion of the content of model files to arrays and JSON and back; decoding calls nothing that a file names."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from .. import hooks
from .._quoted import quoted
from .._result import Result, Status
from ..hooks._lookup import registered, stored

Types = Mapping[str, type]
"""The classes that may occur in a file, by name; they come from code, never from the file."""

RESULT: Types = {"Result": Result}
_REGISTERED: Mapping[str, type[Any]] = {"kernel": hooks.KernelSpec, "solver": hooks.SolverSpec, "rule": hooks.RuleSpec}
"""Kinds of records whose dataclasses a file stores by name, because their factory recreates the objects."""
_MEASURED = {order + size: np.dtype(order + size) for order in "<>" for size in ("f2", "f4", "f8")}
_TEXTS: Mapping[str, Any] = {"object": np.dtype(object), "string": np.dtypes.StringDType()}
"""The string dtypes that an array file cannot contain; their arrays are stored as strings of fixed length."""


class Outside(TypeError):
    """Error for a value that model files cannot contain."""


def stored_types(cls: type) -> Types:
    """Return the classes in ``stored_types`` of a class of estimators, kernels, solvers or rules, by name."""
    kinds = getattr(cls, "stored_types", ())
    return {kind.__name__: kind for kind in kinds}


def parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, which contain the parameters of nested estimators."""
    return dict(estimator.get_params(deep=False))


def attributes(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes of an estimator: every attribute that is not a parameter."""
    known = parameters(estimator)
    return {name: value for name, value in vars(estimator).items() if name not in known}


def restored(made: Any, values: Mapping[str, Any]) -> Any:
    """Give a new estimator its fitted attributes; a name that would hide a method raises ValueError."""
    for name in values:
        if not name.isidentifier() or name.startswith("__") or hasattr(type(made), name):
            raise ValueError(f"{type(made).__name__} has no fitted attribute {quoted(name)}")
    vars(made).update(values)
    return made


class Encoder:
    """Converts values to JSON; arrays are stored in `arrays` under their place, such as ``systems_.A``."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, place: str, types: Types) -> Any:
        """Return a JSON value.

        Raises
        ------
        Outside
            If a part has a type that files cannot contain; the message names the part.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, (list, tuple)):
            parts = [self.encode(part, f"{place}.{i}", types) for i, part in enumerate(value)]
            return {"list" if isinstance(value, list) else "tuple": parts}
        if isinstance(value, Mapping):
            return {"dict": {key: self._member(part, key, place, types) for key, part in value.items()}}
        name = type(value).__name__
        if types.get(name) is not type(value):
            for kind, record in _REGISTERED.items():
                if is_dataclass(value) and (known := registered(record, value)) is not None:
                    plugin, entry = known
                    settings = self.members(_fields(value), place, {**types, **stored_types(type(value))})
                    return {kind: entry.name, "plugin": plugin.name, "fields": settings}
            raise Outside(
                f"{place} is a {name}, which a model file cannot contain: use numbers, strings, None, arrays, lists, "
                "tuples, dicts, registered kernels, solvers and rules that are dataclasses, or the classes that the "
                "estimator lists in stored_types"
            )
        if callable(getattr(value, "get_params", None)):
            inner = {**types, **stored_types(type(value))}
            return {
                "estimator": name,
                "parameters": self.members(parameters(value), place, inner),
                "attributes": self.members(attributes(value), place, inner),
            }
        if is_dataclass(value):
            return {"record": name, "fields": self.members(_fields(value), place, types)}
        raise Outside(f"{place} is a {name}: stored_types supports dataclasses and estimators only")

    def members(self, values: Mapping[str, Any], place: str, types: Types) -> dict[str, Any]:
        """Return the JSON values of named parts."""
        return {key: self._member(value, key, place, types) for key, value in values.items()}

    def _member(self, value: Any, key: Any, place: str, types: Types) -> Any:
        where = f"{place}.{key}" if place else str(key)
        if not isinstance(key, str):
            raise Outside(f"{place} has the key {quoted(key)}: the keys of a dict in a model file must be strings")
        if "time" in key.split("_"):  # a second run must repeat the arrays
            if isinstance(value, float):
                return {"measured": self.encode(float(value), where, types)}
            if type(value) is np.ndarray and value.dtype.str in _MEASURED:
                exact = {"dtype": value.dtype.str, "shape": list(value.shape)}
                return {"measured": self.encode(value.ravel().tolist(), where, types), **exact}
        return self.encode(value, where, types)

    def _array(self, value: np.ndarray, place: str) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            raise Outside(f"{place} is a masked array: fill it, because a model file can contain plain arrays only")
        exact: dict[str, Any] = {}
        if value.dtype.hasobject:
            if not all(isinstance(item, str) for item in value.flat):
                raise Outside(
                    f"{place} is an array of Python objects: a model file can contain arrays of numbers and strings "
                    "only"
                )
            exact = {"dtype": "string" if value.dtype.kind == "T" else "object"}
            value = value.astype(object).astype(str)
        elif descr_to_dtype(dtype_to_descr(value.dtype)) != value.dtype:
            raise Outside(f"{place} is an array of {value.dtype}: a model file can contain the types of numpy only")
        place = re.sub(r"[^\w.-]", "_", place)
        while place in self.arrays:
            place += "_"
        self.arrays[place] = np.asarray(value)
        return {"array": place, **exact}

    def packed(self) -> bytes:
        """Return the arrays as the bytes of a ``.npz`` file; equal arrays give equal bytes."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for place, array in self.arrays.items():
                with archive.open(zipfile.ZipInfo(f"{place}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        return buffer.getvalue()


def decode(value: Any, arrays: Mapping[str, np.ndarray], types: Types) -> Any:
    """Return the value that `Encoder.encode` received; only classes in `types` and registered classes are called."""
    if not isinstance(value, dict):
        return value
    content: Any
    tag, content = next(iter(value.items()), ("", None))
    match tag:
        case "array":
            array = np.array(arrays[content])
            return array.astype(_TEXTS[value["dtype"]]) if "dtype" in value else array
        case "measured":
            values = decode(content, arrays, types)
            if isinstance(values, float):
                return values
            return np.array(values, dtype=_MEASURED[value["dtype"]]).reshape(value["shape"])
        case "float":
            return float(content)
        case "status":
            return Status[content]
        case "list":
            return [decode(part, arrays, types) for part in content]
        case "tuple":
            return tuple(decode(part, arrays, types) for part in content)
        case "dict":
            return {key: decode(part, arrays, types) for key, part in content.items()}
        case "record" | "estimator":
            if content not in types:
                raise ValueError(
                    f"the file contains a {quoted(content)}, which is not in stored_types of the estimator"
                )
            cls = types[content]
            if tag == "record":
                return cls(**_decoded(value["fields"], arrays, types))
            inner = {**types, **stored_types(cls)}
            return decode_estimator(cls, value, arrays, inner)
        case "kernel" | "solver" | "rule":
            factory: Any = stored(_REGISTERED[tag], content, value.get("plugin", "")).factory
            return factory(**_decoded(value["fields"], arrays, {**types, **stored_types(factory)}))
    raise ValueError(f"it has the unknown tag {quoted(tag)}")


def decode_estimator(factory: Any, value: Mapping[str, Any], arrays: Mapping[str, np.ndarray], types: Types) -> Any:
    """Return an estimator made by `factory` with the parameters, and then the fitted attributes, of `value`."""
    given, fitted = _decoded(value["parameters"], arrays, types), _decoded(value["attributes"], arrays, types)
    return restored(factory(**given), fitted)


def _decoded(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray], types: Types) -> dict[str, Any]:
    return {key: decode(part, arrays, types) for key, part in values.items()}


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value) if one.init}
