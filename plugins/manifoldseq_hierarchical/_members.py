"""Which frames are in which class, also where classes do not partition them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import check_unmasked

from ._labels import class_codes, frames
from ._moments import Array, Codes

Members = NDArray[Any]
"""Codes of shape (N,), -1 for a frame in no class, or booleans of shape (N, h)."""


def member_rows(members: Members) -> list[NDArray[np.intp]]:
    """Return the rows of the frames of each class."""
    if members.ndim == 2:
        return [np.flatnonzero(column) for column in members.T]
    return [np.flatnonzero(members == k) for k in range(members.max(initial=-1) + 1)]


def frames_and_members(data: Any, partition: bool) -> tuple[Array, Members]:
    """Return the frames of a model's data, a list of classes or a pair (X, labels), and what is in which class.

    Raises
    ------
    ValueError
        If they are something else, or no partition although one is asked for.
    """
    if isinstance(data, tuple) and len(data) == 2:
        X, labels = frames(data[0]), np.asarray(check_unmasked(data[1], "labels"))
        return X, _partition(labels, len(X)) if partition else _general_members(labels, len(X))
    if not isinstance(data, list) or not data:
        raise ValueError("data must be a list of arrays, one per class, or a tuple (X, labels)")
    classes = [frames(of_class, f"class {k}") for k, of_class in enumerate(data)]
    for k, of_class in enumerate(classes):
        if of_class.shape[1] != classes[0].shape[1]:
            raise ValueError(
                f"class {k} has {of_class.shape[1]} features but class 0 has {classes[0].shape[1]}: they must agree"
            )
    return np.concatenate(classes), np.repeat(np.arange(len(classes)), [len(of_class) for of_class in classes])


def _partition(labels: NDArray, n_frames: int) -> Codes:
    """Return the codes of labels that put every frame in one class."""
    if labels.ndim == 2 or (labels.dtype.kind in "if" and (labels == -1).any()):
        raise ValueError(
            "labels put frames in no class (-1) or in several (a matrix): pass partition=False to allow it, "
            "or a list if these are the frames of two classes"
        )
    return class_codes(labels, n_frames)[1]


def _general_members(labels: Array, n_frames: int) -> Members:
    """Return codes with -1, or booleans (N, h), with a frame in every class."""
    if labels.dtype == bool and labels.ndim == 2 and len(labels) == n_frames:
        named = np.flatnonzero(labels.any(axis=0))
    elif labels.shape == (n_frames,) and labels.dtype.kind in "iu" and labels.min(initial=0) >= -1:
        named = np.unique(labels[labels >= 0])
    else:
        raise ValueError(
            f"labels must be whole numbers from -1 (in no class), one for each of the {n_frames} frames, or booleans "
            f"of shape ({n_frames}, h)"
        )
    h = labels.shape[1] if labels.ndim == 2 else len(named)
    empty = np.setdiff1d(np.arange(max(h, 1)), named)
    if len(empty):
        raise ValueError(f"class {empty[0]} has no frame: number the classes from 0")
    return labels
