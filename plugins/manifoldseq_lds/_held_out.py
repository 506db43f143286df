"""How well the systems of sequences predict what they have not seen: one step ahead, on the last third."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._identification import LDSIdentifier

Array = NDArray[np.float64]


def usable(sequences: Sequence[Array], need: int) -> list[Array]:
    """Return the sequences whose first two thirds have at least so many time steps; refuse to go on with under half."""
    kept = [x for x in sequences if 2 * len(x) // 3 >= need]
    if 2 * len(kept) < len(sequences):
        raise ValueError(
            f"only {len(kept)} of {len(sequences)} sequences have {need} time steps in their first two thirds, "
            "which the largest setting needs: lower n_states or delay"
        )
    return kept


def one_step_error(sequences: Sequence[Array], settings: dict[str, Any]) -> float:
    """Return the squared error of forecasts one step ahead, relative to that of the mean of what was seen.

    Each sequence is identified on its first two thirds; every step of the last third is then forecast from the step
    before it, ``mean + C A C' (y(t) - mean)``, with `delay` steps as one y(t), of which the newest counts.
    """
    seen = [x[: 2 * len(x) // 3] for x in sequences]
    options: dict[str, Any] = {**settings, "scale": False}
    systems = LDSIdentifier(**options).fit_transform(seen)
    delay, channels = settings["delay"], sequences[0].shape[1]
    error = total = 0.0
    for i, (x, first) in enumerate(zip(sequences, seen, strict=True)):
        start, steps = len(first) - delay, len(x) - len(first)
        y = np.concatenate([x[start + lag : start + lag + steps] for lag in range(delay)], axis=1)
        mean = 0.0 if systems.mean is None else systems.mean[i]
        A, C = systems.A[i], systems.C[i]
        forecast = (mean + (y - mean) @ C @ A.T @ C.T)[:, -channels:]
        error += float(np.square(x[len(first) :] - forecast).sum())
        total += float(np.square(x[len(first) :] - first.mean(axis=0)).sum())
    return error / total if total else 0.0
