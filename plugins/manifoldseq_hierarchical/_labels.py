"""Frames as they are given, and labels or contiguous segments as codes 0 to h - 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import check_real, check_unmasked

from ._moments import Codes


def frames(X: Any, name: str = "X") -> NDArray:
    """Return frames as an array of shape (N, d) of a real dtype, not copied if it is one.

    Raises
    ------
    ValueError
        If they are something else, or there are none.
    """
    array = np.asarray(check_real(X, name))
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}: pass an (N, d) array of real numbers"
        )
    if 0 in array.shape:
        raise ValueError(f"{name} is empty, its shape is {array.shape}: pass at least one frame")
    return array


def one_per_frame(y: Any, n_frames: int) -> NDArray:
    """Return what is said of each frame, shape (N,); a column is taken too.

    Raises
    ------
    ValueError
        If it has another shape.
    """
    labels = np.asarray(check_unmasked(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_frames,):
        raise ValueError(f"y has shape {labels.shape} for {n_frames} frames: pass one for each frame")
    return labels


def class_codes(y: Any, n_frames: int) -> tuple[NDArray, Codes]:
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
            raise ValueError("Unknown label type: y holds continuous numbers: pass one class per frame")
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("y mixes labels that cannot be sorted, such as text and None: use one kind") from None
    return classes, codes.astype(np.int64).reshape(-1)


def segment_codes(lengths: Any, n_frames: int) -> Codes:
    """Return the codes of contiguous segments from their lengths.

    Raises
    ------
    ValueError
        If a segment is empty, or the lengths do not add up to the frames.
    """
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError("segments must be whole numbers, the length of each segment: pass for example [40, 60]")
    if (lengths < 1).any():
        k = int((lengths < 1).argmax())
        raise ValueError(f"segment {k} has length {lengths[k]}, it is empty: leave it out")
    if lengths.sum() != n_frames:
        raise ValueError(f"the segments have {lengths.sum()} frames but X has {n_frames}: their lengths must add up")
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
