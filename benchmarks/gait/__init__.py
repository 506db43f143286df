"""Gait: 36 generated trials of three cadences, written in the forms in which such recordings lie on disks."""

from pathlib import Path
from typing import Any

import numpy as np

CHANNELS = ("hip_angle", "knee_angle", "ankle_angle")
RATE = 100.0
"""Samples per second."""
FORMS = ("folder", "one-nan", "time-with-unit", "index-column", "subfolders", "long-table", "long-frame")


def trials(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, list[str]]:
    """Return 36 trials (T, 3) of 2 to 3 seconds, their cadences, and their names.

    Angles of three joints at 0.8, 1.2 or 1.7 strides per second: a stride and its harmonic with phases of the joint and
    of the trial, sizes and offsets that vary by subject more than by cadence, and noise of 2 degrees.
    """
    rng = np.random.default_rng(seed)
    sizes, lags = np.array([20.0, 30.0, 12.0]), np.array([0.0, 0.9, 2.1])
    found, cadences, names = [], [], []
    for subject in range(1, 13):
        own = rng.uniform(0.85, 1.15, 3)
        offset = rng.normal(0, 4, 3)
        for trial, cadence in enumerate(("slow", "normal", "fast"), start=1):
            T = int(rng.integers(200, 300))
            stride = {"slow": 0.8, "normal": 1.2, "fast": 1.7}[cadence] * rng.uniform(0.98, 1.02)
            angle = 2 * np.pi * stride * np.arange(T)[:, None] / RATE + rng.uniform(0, 2 * np.pi) + lags
            x = sizes * own * (np.sin(angle) + 0.4 * np.sin(2 * angle + 0.5)) + offset
            found.append(np.round(x + rng.normal(0, 2.0, x.shape), 3))
            cadences.append(cadence)
            names.append(f"S{subject:02d}_trial{trial}")
    return found, np.array(cadences), names


def write(form: str, folder: Path, seed: int = 0) -> Any:
    """Write the trials in one of the forms, and return what a user would hand over: a path, or a data frame."""
    sequences, cadences, names = trials(seed)
    target = folder / "gait"
    times = [np.arange(len(x)) / RATE for x in sequences]
    if form in ("long-table", "long-frame"):
        parts = [np.column_stack([t, x]) for t, x in zip(times, sequences, strict=True)]
        if form == "long-frame":
            import pandas as pd

            frames = [
                pd.DataFrame(p, columns=["time", *CHANNELS]).assign(id=n) for p, n in zip(parts, names, strict=True)
            ]
            return pd.concat(frames, ignore_index=True)
        target = target.with_suffix(".csv")
        lines = [f"{n},{','.join(map(str, row))}" for p, n in zip(parts, names, strict=True) for row in p.tolist()]
        target.write_text("\n".join([f"id,time,{','.join(CHANNELS)}", *lines]) + "\n")
        return target
    for number, (t, x, name, cadence) in enumerate(zip(times, sequences, names, cadences, strict=True)):
        columns, header = x, list(CHANNELS)
        if form == "time-with-unit":
            columns, header = np.column_stack([t, x]), ["Time [s]", *CHANNELS]
        if form == "index-column":
            columns, header = np.column_stack([np.arange(len(x)), x]), ["", *CHANNELS]
        rows = [[f"{value:g}" for value in row] for row in columns]
        if form == "one-nan" and number == 7:
            rows[51][1] = ""
        place = target / cadence if form == "subfolders" else target
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.csv").write_text("\n".join(map(",".join, [header, *rows])) + "\n")
    return target
