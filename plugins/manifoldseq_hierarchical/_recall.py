"""Recall of frames that are not stored, compared with key frames and with principal components in int8."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

import manifoldseq as ms

_LEAST = 8
_CLEAR = 0.05
"""A baseline is reported as better if its recall is larger by this much."""
_TOLERANCE = 0.01
"""Tolerance for a found place, relative to the length of the stored sequence."""


def recall(model: Any, X: ArrayLike, y: ArrayLike | None, seed: int) -> ms.evaluation.Evaluation:
    """Return the fraction of frames that an encoder with the same settings finds without having stored them.

    With labels of two runs of one length, one after the other (`nordland`: two seasons), the first run is stored and
    the frames of the second are queried, at the same places. Otherwise every second frame is stored, and the frames
    between are queried.

    Parameters
    ----------
    model : HierarchicalSequenceEncoder
    X : array-like of shape (N, d)
    y : array-like of shape (N,), optional
    seed : int
        Ignored.

    Returns
    -------
    Evaluation
        The controls are evenly spaced key frames in float32, as many as fit in the same bytes, and principal components
        in int8, as many as fit. The verdict also has the recall of all frames, stored in float32.

    Raises
    ------
    ValueError
        If fewer than eight frames would be stored.
    """
    frames = np.asarray(X)
    stored, asked, places = _split(frames, None if y is None else np.asarray(y))
    if len(stored) < _LEAST:
        raise ValueError(
            f"{len(stored)} frames of X would be stored, but the evaluation needs at least {_LEAST}: pass more frames"
        )
    made: Any = clone(model)
    made.fit(stored)
    report = made.storage_report()
    near = max(1, round(_TOLERANCE * len(stored)))
    width = stored.shape[1]
    number = int(np.clip(report.total // (4 * width), 1, len(stored)))
    keys = np.linspace(0, len(stored) - 1, number).round().astype(int)
    found = {
        "hierarchical-encoder": (made.predict(asked), report.total),
        "key frames of as many bytes": (keys[_nearest(stored[keys], asked)], 4 * width * number),
        "principal components in int8": _by_components(stored, asked, report.total),
    }
    rows = [
        {"name": name, "recall": float(np.mean(np.abs(at - places) <= near)), "bytes_per_frame": size / len(stored)}
        for name, (at, size) in found.items()
    ]
    own, keyed, projected = (row["recall"] for row in rows)
    every = float(np.mean(np.abs(_nearest(stored, asked) - places) <= near))
    verdict = (
        f"{own:.0%} of {len(asked)} frames that were not stored are found within {near} of {len(stored)} places, with "
        f"{rows[0]['bytes_per_frame']:.2f} bytes per frame; key frames with the same number of bytes find {keyed:.0%}, "
        f"principal components in int8 ({rows[2]['bytes_per_frame']:.2f} bytes) find {projected:.0%}, and an exact "
        f"search of all frames finds {every:.0%}"
    )
    best = max(rows[1:], key=lambda row: row["recall"])
    if best["recall"] >= own + _CLEAR:
        verdict += f"; the baseline of {best['name']} is better"
    return ms.evaluation.Evaluation("places", "recall", tuple(rows), verdict)


def _split(X: NDArray[Any], y: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.intp]]:
    """Return the frames to store, the frames to query, and the places of the queries."""
    half = len(X) // 2
    if (
        y is not None
        and len(X) == 2 * half
        and y[0] != y[-1]
        and (y[:half] == y[0]).all()
        and (y[half:] == y[-1]).all()
    ):
        return X[:half], X[half:], np.arange(half)
    stored, asked = X[::2], X[1::2]
    return stored, asked, np.arange(len(asked))


def _by_components(stored: NDArray[Any], asked: NDArray[Any], size: int) -> tuple[NDArray[np.intp], int]:
    """Return places by as many principal components in int8 as fit (at least one), and their number of bytes.

    A component takes a byte per column, one per stored frame, and eight for the two scales; the mean a byte per column
    and four for its scale.
    """
    n, width = stored.shape
    X = stored.astype(np.float64)
    mean = _in_int8(X.mean(axis=0, keepdims=True))
    number = int(np.clip((size - width - 4) // (n + width + 8), 1, min(n, width)))
    components = _in_int8(np.linalg.svd(X - mean, full_matrices=False)[2][:number])
    codes = _in_int8(((X - mean) @ components.T).T).T
    query = (asked.astype(np.float64) - mean) @ components.T
    return _nearest(codes, query), number * (n + width + 8) + width + 4


def _in_int8(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows after quantization to whole numbers from -127 to 127, with one scale per row."""
    scale = np.abs(rows).max(axis=1, keepdims=True) / 127
    scale = np.where(scale > 0, scale, 1.0)
    return np.round(rows / scale) * scale


def _nearest(stored: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.intp]:
    squares = np.sum(stored.astype(np.float64) ** 2, axis=1)
    parts = np.array_split(asked.astype(np.float64), 1 + len(asked) // 1000)
    return np.concatenate([(squares - 2 * part @ stored.T).argmin(axis=1) for part in parts])
