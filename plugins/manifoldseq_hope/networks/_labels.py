"""Checks of labels."""

from numbers import Number, Real

import numpy as np
from numpy.typing import ArrayLike

from manifoldseq.estimators import check_unmasked

_KINDS = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "strings", "T": "strings"}


def kind_of_labels(name: str, y: ArrayLike) -> str:
    """Return the kind of labels, such as "numbers" or "strings"; raise ValueError for missing and mixed labels."""
    check_unmasked(y, name)
    values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)  # else NaN among strings is "nan"
    values = np.atleast_1d(values)
    if values.dtype.kind == "O":
        missing = np.array([one is None or (isinstance(one, Real) and one != one) for one in values.flat], bool)
        kinds = sorted({_kind(type(one)) for one, out in zip(values.flat, missing, strict=True) if not out})
    else:
        missing = np.isnan(values).ravel() if values.dtype.kind == "f" else np.zeros(0, bool)
        kinds = [_KINDS.get(values.dtype.kind, str(values.dtype))]
    if missing.any():
        first = int(np.argmax(missing))
        row = first // values[0].size if values.ndim > 1 else first
        raise ValueError(f"row {row} of {name} has no label ({values.flat[first]}): remove rows without labels")
    if len(kinds) > 1:
        raise ValueError(f"{name} mixes {' and '.join(kinds)}: pass labels of one type")
    return "".join(kinds)


def _kind(type_: type) -> str:
    if issubclass(type_, str):
        return "strings"
    return "numbers" if issubclass(type_, Number | np.bool_) else type_.__name__
