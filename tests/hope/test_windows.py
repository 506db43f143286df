"""Windows over frames, and the rate that halves, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manifoldseq_hope import ReduceOnPlateau, Windows


def test_windows_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    sequences = [rng.standard_normal((T, 3)) for T in (1, 4, 20)]
    rows = Windows(sequences, width=5)
    naive = [
        np.concatenate([x[min(max(t + k, 0), len(x) - 1)] for k in range(-2, 3)])
        for x in sequences
        for t in range(len(x))
    ]
    assert rows.shape == (25, 15) and len(rows) == 25 and rows.dtype == np.float32
    np.testing.assert_array_equal(rows[0:25], np.array(naive, np.float32))
    np.testing.assert_array_equal(rows[np.array([3, 24])], np.array(naive, np.float32)[[3, 24]])
    assert rows.frames.nbytes == 4 * 3 * (25 + 3 * 4)  # the frames and what is repeated at both ends


@pytest.mark.parametrize(
    ("sequences", "width", "words"),
    [
        ([], 3, "no sequences"),
        (3, 3, "sequences=3 is not valid"),
        ([np.zeros((2, 2))], 4, "width=4 is even"),
        ([np.zeros((2, 2))], 0, "width=0"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], 3, "sequence 1 has shape (2, 3)"),
        ([np.zeros((0, 2))], 3, "sequence 0 has shape (0, 2)"),
        ([np.full((2, 2), np.nan)], 3, "sequence 0 has NaN"),
    ],
)
def test_bad_sequences_raise_an_error(sequences: Any, width: int, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        Windows(sequences, width)
    assert words in str(caught.value)


def test_rate_is_kept_while_errors_fall_then_halved_until_they_hardly_fall() -> None:
    schedule = ReduceOnPlateau(0.004)
    errors = [90.0, 50.0, 45.0, 46.0, 42.0, 41.95, 41.5, 41.45, 41.4, 30.0]
    seen = []
    for epoch in range(1, len(errors) + 1):
        seen.append(schedule.rate(errors[:epoch]))
        if schedule.ended(errors[:epoch]):
            break
    assert seen == [0.004, 0.004, 0.004, *(0.004 / 2**k for k in range(1, 7))]  # 41.5 to 41.45 to 41.4 ends it
    flat = [50.0, 49.99, 49.98, 49.97]
    assert schedule.rate(flat) == 0.004 and not schedule.ended(flat)
    for bad in ({"first": 0.0}, {"first": 1.0, "factor": 1.0}, {"first": 1.0, "tol": -1.0}):
        with pytest.raises(ValueError):
            ReduceOnPlateau(**bad)
