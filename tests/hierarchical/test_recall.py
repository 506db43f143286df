"""The quality of an encoder of places: its baselines by a loop, of the same size."""

import numpy as np
import pytest

import manifoldseq as ms


def test_baselines_of_places_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((200, 32)), axis=0)
    found = ms.evaluation.evaluate(ms.get_estimator("hierarchical-encoder")().fit(X), X)
    rows = {row["name"]: row for row in found.rows}
    assert list(rows)[1:] == ["key frames of as many bytes", "principal components in int8"]
    size = 100 * rows["hierarchical-encoder"]["bytes_per_frame"]
    stored, asked = X[::2], X[1::2]

    def rounded(row: np.ndarray) -> np.ndarray:
        step = np.abs(row).max() / 127
        return np.round(row / step) * step

    number = max(1, int((size - 32 - 4) // (100 + 32 + 8)))
    mean = rounded(stored.mean(axis=0))
    vectors = np.linalg.eigh((stored - mean).T @ (stored - mean))[1]
    components = [rounded(vectors[:, -1 - k]) for k in range(number)]
    codes = np.stack([rounded((stored - mean) @ one) for one in components], axis=1)
    queries = np.stack([(asked - mean) @ one for one in components], axis=1)
    at = [int(np.argmin([np.linalg.norm(q - c) for c in codes])) for q in queries]
    expected = np.mean(np.abs(np.array(at) - np.arange(100)) <= 1)
    projected = rows["principal components in int8"]
    assert projected["recall"] == pytest.approx(expected, abs=0.021)  # two directions of one eigenvector round apart
    assert projected["bytes_per_frame"] == pytest.approx((number * 140 + 36) / 100)
    best = max(found.rows[1:], key=lambda row: row["recall"])
    assert ("is better" in found.verdict) == (best["recall"] >= found.rows[0]["recall"] + 0.05)
