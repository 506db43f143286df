"""Checks of data arrays: real numbers, and the order of the axes."""

import warnings
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

_LEAST_STEPS = 12
_RATIO = 5


class NotReal(ValueError, TypeError):
    """The data are not real numbers. It is also a TypeError, as scikit-learn's conventions require for objects."""


def check_real(X: Any, name: str = "X") -> Any:
    """Raise NotReal unless data contain real numbers only; every estimator calls this function for all inputs.

    Masked arrays raise an error, even if no entry is masked and inside lists, because NumPy treats the numbers under
    the mask as data. Dates, time differences, text, bytes, records, complex numbers and objects other than real numbers
    raise an error too. Rows of different lengths, which other checks report, and sparse matrices of real numbers are
    returned unchanged.

    Parameters
    ----------
    X : array-like, data frame, or nested lists
    name : str
        The name of the data in the message.

    Returns
    -------
    object
        X itself, or a float64 array if X is an array or a list of numbers that are stored as objects.

    Raises
    ------
    ValueError
        If the data are not real numbers. The error is also a TypeError, as scikit-learn's conventions require.

    Examples
    --------
    >>> check_real([[1, 2.5]])
    [[1, 2.5]]
    >>> check_real(np.array(["2024-05-01"], dtype="M8[D]"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    manifoldseq.storage._real.NotReal: X has dtype datetime64[D]: pass real numbers; the argument must be free of ...
    """
    if _holds_masked(X):
        raise _masked(X, name)
    sparse = hasattr(X, "toarray")
    try:
        array = X if sparse else np.asarray(X)
    except (ValueError, TypeError):  # rows of different lengths
        return X
    if array.dtype.kind == "c":
        raise NotReal(f"{name} has dtype {array.dtype}: pass real numbers (Complex data not supported)")
    if sparse and array.dtype.kind in "biuf":
        return X
    if array.dtype.kind == "O" and not sparse:
        strange = [kind for kind in set(map(type, array.flat)) if not issubclass(kind, (Real, Decimal, np.bool_))]
        if strange:
            raise _not_real(name, f"has dtype object and contains {_with_article(strange[0].__name__)}")
        return X if hasattr(X, "columns") else array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise _not_real(name, f"has dtype {array.dtype}")
    return X


def real_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype for numbers of another dtype: float32 for float32, and float64 for all others.

    Examples
    --------
    >>> [str(real_dtype(np.dtype(kind))) for kind in ("f4", "f8", "f2", "u1")]
    ['float32', 'float64', 'float64', 'float64']
    """
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def check_unmasked(y: Any, name: str = "y") -> Any:
    """Return labels unchanged; raise the error of `check_real` if they are masked.

    Examples
    --------
    >>> check_unmasked(["up", "down"])
    ['up', 'down']
    """
    if _holds_masked(y):
        raise _masked(y, name)
    return y


def warn_of_order(shape: tuple[int, ...], name: str, remedy: str, stacklevel: int = 3) -> None:
    """Warn if an array of sequences (N, T, d) seems to be in the order (N, d, T).

    The warning is given for at most 12 time steps, more than 12 channels and at least five times as many channels as
    time steps, as in arrays of aeon with up to 12 channels. Arrays with more channels cannot be distinguished by their
    shape from videos, whose frames have many pixels.

    Parameters
    ----------
    shape : tuple of int
        The shape of the array. Only arrays with three dimensions cause a warning.
    name : str
        The name of the array in the warning.
    remedy : str
        The advice for an array in the other order, and for an array in the right order.
    stacklevel : int
        The `stacklevel` of `warnings.warn`.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_of_order((20, 3, 500), "X", "pass X.transpose(0, 2, 1)")
    ...     warn_of_order((20, 500, 3), "X", "pass X.transpose(0, 2, 1)")
    >>> len(caught)
    1
    """
    if len(shape) != 3:
        return
    _, steps, channels = shape
    if steps <= _LEAST_STEPS and channels >= _RATIO * steps and channels > _LEAST_STEPS:
        warnings.warn(
            f"{name} has shape {shape} and is read in the order (n, time, channels), {steps} time steps of {channels} "
            f"channels: if it is in the order (n, channels, time), {remedy}",
            stacklevel=stacklevel,
        )


def _holds_masked(X: Any) -> bool:
    if isinstance(X, list | tuple):
        kinds = set(map(type, X))
        return any(issubclass(k, (list, tuple, np.ma.MaskedArray)) for k in kinds) and any(map(_holds_masked, X))
    return isinstance(X, np.ma.MaskedArray)


def _not_real(name: str, found: str, remedy: str = "pass real numbers") -> NotReal:
    return NotReal(
        f"{name} {found}: {remedy}; the argument must be free of masked values, dates, strings and other objects "
        "and contain only real numbers"
    )


def _masked(X: Any, name: str) -> NotReal:
    hidden = not isinstance(X, np.ma.MaskedArray) or np.ma.is_masked(X)
    return _not_real(name, "has masked values" if hidden else "is a masked array", "remove or fill them")


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
