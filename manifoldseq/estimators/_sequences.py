"""Validation of sequences, lists of `(T_i, d)` arrays, and the channel statistics that serve as a baseline."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage._real import check_real, warn_of_order
from ._data_types import SequencesLike
from ._names import check_equal_names, column_names

Float = NDArray[np.float64]


def check_sequences(
    X: SequencesLike, *, min_length: int = 1, name: str = "X", needed_by: str = "", or_nan: str = ""
) -> list[Float]:
    """Validate sequences and return them as C-contiguous float64 arrays.

    The input is never written to; an array that is already C-contiguous float64 is returned without a copy.

    Parameters
    ----------
    X : list of array-like of shape (T_i, d), or array of shape (N, T, d)
        Real, finite sequences, time first; lengths may differ, but all sequences must have the same number of channels.
    min_length : int
        The minimum number of time steps.
    name : str
        The name of the input in messages.
    needed_by : str
        The setting that requires `min_length`, for the message, such as ``"n_states=5"``.
    or_nan : str
        Another remedy for NaN, for the message, such as ``"set missing='smooth'"``.

    Returns
    -------
    list of ndarray of shape (T_i, d), float64

    Raises
    ------
    ValueError
        If X is invalid. The message names the sequence, the position and the remedy.

    Examples
    --------
    >>> [x.shape for x in check_sequences([[[1, 2]], [[3, 4], [5, 6]]])]
    [(1, 2), (2, 2)]
    >>> check_sequences([[[1.0], [float("nan")]]])
    Traceback (most recent call last):
    ...
    ValueError: sequence 0 has NaN at t=1, channel 0: remove or fill it
    """
    items = _as_list(X, name)
    if not items:
        raise ValueError(f"{name} contains no sequences: pass at least one (T, d) array")
    check_equal_names(items)
    sequences = [_as_sequence(item, i) for i, item in enumerate(items)]
    channels = sequences[0].shape[1]
    for i, sequence in enumerate(sequences):
        steps, d = sequence.shape
        if d != channels:
            raise ValueError(
                f"sequence {i} has {d} channels but sequence 0 has {channels}: pass the same channels in all sequences"
            )
        if steps < min_length:
            need = f"{needed_by} needs at least {min_length}" if needed_by else f"at least {min_length} are needed"
            raise ValueError(f"sequence {i} has {steps} time steps but {need}: remove it or lower this number")
        if not np.isfinite(sequence).all():
            t, channel = np.argwhere(~np.isfinite(sequence))[0]
            what, remedy = ("NaN", "fill") if np.isnan(sequence[t, channel]) else ("infinity", "clip")
            cure = f"remove or {remedy} it" + (f", or {or_nan}" if or_nan and what == "NaN" else "")
            raise ValueError(f"sequence {i} has {what} at t={t}, channel {channel}: {cure}")
    return sequences


def validate_sequences(
    estimator: Any, X: SequencesLike, *, reset: bool, min_length: int = 1, needed_by: str = "", or_nan: str = ""
) -> list[Float]:
    """Validate sequences for an estimator, as `sklearn.utils.validation.validate_data` does for rows.

    Parameters
    ----------
    estimator : object
        The estimator, whose `n_features_in_`, the number of channels, is set if `reset`; otherwise X is compared with
        it.
    X, min_length, needed_by, or_nan
        As in `check_sequences`.
    reset : bool
        True in `fit`, False in `predict` and `transform`.

    Returns
    -------
    list of ndarray of shape (T_i, d), float64

    Raises
    ------
    ValueError
        For the reasons of `check_sequences`, and if the number of channels differs from the number in `fit`.
    """
    sequences = check_sequences(X, min_length=min_length, needed_by=needed_by, or_nan=or_nan)
    channels = sequences[0].shape[1]
    if reset:
        estimator.n_features_in_ = channels
    elif channels != estimator.n_features_in_:
        raise ValueError(
            f"X has {channels} channels but this {type(estimator).__name__} was fitted on {estimator.n_features_in_}: "
            f"pass the same channels as in fit"
        )
    return sequences


def channel_statistics(sequences: Sequence[Float]) -> Float:
    """Describe each sequence by the means and standard deviations of its channels, without dynamics.

    This is a baseline: the accuracy of a clustering or classifier on these features needs no model of time.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, d)

    Returns
    -------
    ndarray of shape (N, 2 d)
        Means in the first d columns, population standard deviations in the last d.

    Examples
    --------
    >>> channel_statistics([[[0.0, 1.0], [2.0, 1.0]]])
    array([[1., 1., 1., 0.]])
    """
    checked = check_sequences(sequences)
    return np.stack([np.concatenate([x.mean(axis=0), x.std(axis=0)]) for x in checked])


def _as_list(X: Any, name: str) -> list[Any]:
    ask = "pass a list of (T, d) arrays"
    if isinstance(X, np.ndarray):
        if X.dtype == object:
            if X.ndim > 1:
                check_real(X, name)
            raise ValueError(f"{name} is an object array: {ask}, such as list({name})")
        check_real(X, name)
        if X.ndim == 3:
            remedy = f"pass {name}.transpose(0, 2, 1), else list({name})"
            warn_of_order(X.shape, name, remedy, stacklevel=4)
            return list(X)
        hint = f"[{name}] if it is one sequence" if X.ndim == 2 else "each with time first"
        raise ValueError(f"{name} is an array with {X.ndim} dimensions: {ask}, {hint}")
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        raise ValueError(
            f"{name} is a data frame: {ask}, one per sequence. If each row is a time step and a column has the ids of "
            f"the sequences, pass manifoldseq.storage.from_frame({name}, id='id').sequences"
        )
    if hasattr(X, "get_group"):  # the groups of a data frame
        raise ValueError(
            f"{name} contains groups of a data frame: {ask}, such as [group[channels] for _, group in {name}]"
        )
    if hasattr(X, "sequences"):
        raise ValueError(f"{name} is of type {type(X).__name__}: pass its sequences, {name}.sequences")
    if isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable) or _is_sparse(X):
        raise ValueError(f"{name} is of type {type(X).__name__}: {ask}")
    return list(X)


def _as_sequence(item: Any, i: int) -> Float:
    if _is_sparse(item):
        raise ValueError(f"sequence {i} is a sparse matrix: convert it with .toarray()")
    try:
        item = check_real(item, f"sequence {i}")
    except ValueError:
        for column in column_names(item) or ():  # of a data frame: which column it is
            check_real(item[column], f"sequence {i}, column {column!r}")
        raise
    try:
        array = np.asarray(item)
    except ValueError:
        raise ValueError(f"sequence {i} has rows of different lengths: pass a (T, d) array of numbers") from None
    if array.ndim != 2:
        raise ValueError(
            f"sequence {i} has {array.ndim} dimension{'s' * (array.ndim != 1)}, not 2: pass a (T, d) array, "
            f"time first (for a single channel: x[:, None])"
        )
    if array.shape[1] == 0:
        raise ValueError(f"sequence {i} has no channels: pass a (T, d) array with d >= 1")
    return np.ascontiguousarray(array, dtype=np.float64)


def _is_sparse(X: Any) -> bool:
    from scipy.sparse import issparse

    return issparse(X)
