"""Names of columns: of a data frame, and of the channels of sequences that are data frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._quoted import quoted


def column_names(item: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, or None for other objects and for names that are not strings.

    Parameters
    ----------
    item : object
        An object with an attribute ``columns``, such as a data frame of pandas or polars, is treated as a data frame.

    Returns
    -------
    list of str, or None

    Examples
    --------
    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"x": [1.0], "y": [2.0]})), column_names([[1.0, 2.0]])
    (['x', 'y'], None)
    """
    columns = getattr(item, "columns", None)
    found = [] if columns is None else list(columns)
    return found if found and all(isinstance(name, str) for name in found) else None


def keep_channel_names(estimator: Any, X: Any) -> None:
    """Set `feature_names_in_` of an estimator if every sequence of X is a data frame with names; otherwise remove it.

    Parameters
    ----------
    estimator : object
        The attribute is an array of strings of shape (d,), as for scikit-learn's estimators.
    X : list of array-like of shape (T_i, d)

    Raises
    ------
    ValueError
        If two sequences have different names.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.base import BaseEstimator
    >>> model = BaseEstimator()
    >>> keep_channel_names(model, [pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": [3.0]})])
    >>> model.feature_names_in_.tolist()
    ['x']
    """
    estimator.__dict__.pop("feature_names_in_", None)
    names = _channel_names(X)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def check_channel_names(estimator: Any, X: Any) -> None:
    """Raise ValueError if sequences are data frames whose channels have other names, or another order, than in fit.

    Parameters
    ----------
    estimator : object
        The fitted estimator. Without `feature_names_in_`, nothing is compared.
    X : list of array-like of shape (T_i, d)

    Raises
    ------
    ValueError
        If a channel differs; the message names the first such channel.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.base import BaseEstimator
    >>> model = BaseEstimator()
    >>> keep_channel_names(model, [pd.DataFrame({"x": [1.0, 2.0], "y": 0.0})])
    >>> check_channel_names(model, [pd.DataFrame({"y": [3.0], "x": 1.0})])
    Traceback (most recent call last):
    ...
    ValueError: channel 0 of X is 'y' but it was 'x' in fit: pass the channels of fit in the same order
    """
    known, names = getattr(estimator, "feature_names_in_", None), _channel_names(X)
    if known is None or names is None or len(known) != len(names):
        return  # numbers of channels are compared elsewhere
    for channel, (name, before) in enumerate(zip(names, known, strict=True)):
        if name != before:
            raise ValueError(
                f"channel {channel} of X is {quoted(name)} but it was {quoted(before)} in fit: pass the channels of "
                "fit in the same order"
            )


def check_equal_names(items: Sequence[Any]) -> None:
    """Raise ValueError if two sequences are data frames whose columns have other names."""
    first, before = None, 0
    for i, item in enumerate(items):
        names = column_names(item)
        if names is None:
            continue
        if first is None:
            first, before = names, i
        elif names != first and len(names) == len(first):
            channel = next(c for c, (a, b) in enumerate(zip(names, first, strict=True)) if a != b)
            raise ValueError(
                f"channel {channel} is {quoted(names[channel])} in sequence {i} but {quoted(first[channel])} "
                f"in sequence {before}: pass the same columns in the same order in all sequences"
            )


def _channel_names(X: Any) -> list[str] | None:
    if not isinstance(X, list | tuple) or not X:
        return None
    check_equal_names(X)
    names = column_names(X[0])
    return names if names is not None and all(column_names(x) is not None for x in X) else None
