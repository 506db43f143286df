"""Frames and their classes: labels or segments as codes 0 to h - 1, or a membership matrix."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manifoldseq.estimators import check_real, check_unmasked

from ._moments import Array, Codes


def frames(X: ArrayLike, name: str = "X") -> NDArray:
    """Return frames as an array of shape (N, d) of a real dtype; arrays are not copied.

    Raises
    ------
    ValueError
        If the frames have another form, or if there are no frames.
    """
    array = np.asarray(check_real(X, name))
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}: pass an (N, d) array of real numbers"
        )
    if 0 in array.shape:
        raise ValueError(f"{name} is empty (shape {array.shape}): pass at least one frame")
    return array


def one_per_frame(y: ArrayLike, n_frames: int) -> NDArray:
    """Return one value per frame, shape (N,); a column of shape (N, 1) is accepted.

    Raises
    ------
    ValueError
        If the array has another shape.
    """
    labels = np.asarray(check_unmasked(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_frames,):
        raise ValueError(f"y has shape {labels.shape} for {n_frames} frames: pass one label for each frame")
    return labels


def class_codes(y: ArrayLike, n_frames: int) -> tuple[NDArray, Codes]:
    """Return the sorted classes of labels, one per frame, and the code of each frame.

    Raises
    ------
    ValueError
        If there is not one label per frame, or labels are continuous numbers or missing.
    """
    labels = one_per_frame(y, n_frames)
    try:
        missing = labels != labels
        if missing.any():
            raise ValueError(f"y has NaN at frame {int(missing.argmax())}: give each frame a label")
        if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
            raise ValueError("Unknown label type: y contains continuous numbers: pass one class per frame")
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError(
            "y mixes labels that cannot be sorted, such as text and None: use labels of one type"
        ) from None
    return classes, codes.astype(np.int64).reshape(-1)


def segment_codes(lengths: ArrayLike, n_frames: int) -> Codes:
    """Return the codes of contiguous segments from their lengths.

    Raises
    ------
    ValueError
        If a segment is empty, or the lengths do not add up to the frames.
    """
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError("segments must be whole numbers: pass the length of each segment, for example [40, 60]")
    if (lengths < 1).any():
        k = int((lengths < 1).argmax())
        raise ValueError(f"segment {k} has length {lengths[k]}: pass lengths of at least 1")
    if lengths.sum() != n_frames:
        raise ValueError(f"the segments have {lengths.sum()} frames but X has {n_frames}: pass lengths with this sum")
    return np.repeat(np.arange(len(lengths)), lengths)


def equal_segments(n_frames: int, n_segments: int) -> NDArray[np.int64]:
    """Return the lengths of contiguous segments that differ by at most one frame.

    Raises
    ------
    ValueError
        If there are fewer frames than segments.
    """
    if n_frames < n_segments:
        raise ValueError(
            f"X has n_samples = {n_frames} frames for n_segments={n_segments}: pass more frames or lower n_segments"
        )
    return np.diff(np.arange(n_segments + 1) * n_frames // n_segments)


# Members: which frames are in which class, also where classes do not partition them.

Members = NDArray[Any]
"""Codes of shape (N,), -1 for a frame in no class, or booleans of shape (N, h)."""


def member_rows(members: Members) -> list[NDArray[np.intp]]:
    """Return the rows of the frames of each class."""
    if members.ndim == 2:
        return [np.flatnonzero(column) for column in members.T]
    return [np.flatnonzero(members == k) for k in range(members.max(initial=-1) + 1)]


def frames_and_members(data: Any, partition: bool) -> tuple[Array, Members]:
    """Return the frames and the classes of a model's data, which are a list of classes or a pair (X, labels).

    Raises
    ------
    ValueError
        If the data have another form, or if the classes are not a partition although one is required.
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
                f"class {k} has {of_class.shape[1]} features but class 0 has {classes[0].shape[1]}: pass equal numbers "
                "of features"
            )
    return np.concatenate(classes), np.repeat(np.arange(len(classes)), [len(of_class) for of_class in classes])


def _partition(labels: NDArray, n_frames: int) -> Codes:
    """Return the codes of labels that put every frame in one class."""
    if labels.ndim == 2 or (labels.dtype.kind in "if" and (labels == -1).any()):
        raise ValueError(
            "labels put frames in no class (-1) or in several classes (a matrix): pass partition=False to allow "
            "such labels, or pass a list [X0, X1] if the two arrays are the frames of two classes"
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
        raise ValueError(f"class {empty[0]} has no frame: number the classes from 0 without gaps")
    return labels
