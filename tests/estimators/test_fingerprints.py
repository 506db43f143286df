"""`fingerprint` is equal for equal parts only, in every process; `marked` puts it on a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifoldseq as ms
from manifoldseq.estimators import fingerprint, marked
from manifoldseq.storage import Checkpoint

A = np.arange(6.0).reshape(2, 3)


@dataclass
class Record:
    """A record with an array."""

    values: Any
    name: str = "a"


DIFFERENT: list[Any] = [
    *(None, 0, 1, False, True, 0.0, 1.0, -0.0, float("nan"), "", "0", "None", b"", 1j),
    *((), [], {}, (0,), [0], ((0,),), (0, 0), ("a", "b"), ("a, b",), ("ab",), {"a": 1}, {"a": 2}, {"b": 1}, {0}),
    *(A, A.T, A.ravel(), A.astype(np.float32), A.astype(">f8"), A[:1], np.zeros((0, 3)), np.zeros((3, 0))),
    *(np.float64(5), np.array(5.0), np.array([5.0]), np.array(["a", "b"]), np.array(["a", "b"], object)),
    *(np.array([True]), np.array([1], np.uint8), np.array([1], np.int8), np.array(["2020-01-01"], "M8[D]")),
    *(np.random.default_rng(0), np.random.default_rng(1), np.random.RandomState(0), np.random.SeedSequence(0)),
    *(Record(A), Record(A + 1), Record(A, "b"), [A], (A,), [A, A], Record, dict),
    *(KMeans(2), KMeans(3), KMeans(2, init="random"), KMeans, make_pipeline(StandardScaler(), KMeans(2))),
    *(make_pipeline(StandardScaler(), KMeans(3)), ms.manifolds.Stiefel(5, 2), ms.manifolds.Stiefel(5, 3)),
    *(ms.solvers.LBFGS(), ms.solvers.LBFGS(memory=3), ms.get_kernel("projection"), ms.get_kernel("martin")),
]


def test_different_parts_have_different_fingerprints() -> None:
    prints = [fingerprint(part) for part in DIFFERENT]
    equal = [(i, j) for i, one in enumerate(prints) for j, other in enumerate(prints) if i < j and one == other]
    assert not [(DIFFERENT[i], DIFFERENT[j]) for i, j in equal]
    assert len({fingerprint(), fingerprint(1, 2), fingerprint((1, 2)), fingerprint(2, 1), fingerprint(12)}) == 5


def test_equal_parts_have_equal_fingerprints(tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", A)
    mapped = np.load(tmp_path / "A.npy", mmap_mode="r")
    wide = np.zeros((2, 6))
    wide[:, ::2] = A
    for same in (A.copy(), np.asfortranarray(A), mapped, wide[:, ::2]):
        assert fingerprint(same) == fingerprint(A)
    assert fingerprint(np.int64(3), np.bool_(True), np.str_("a")) == fingerprint(3, True, "a")
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(np.random.default_rng(3)) == fingerprint(np.random.default_rng(3))
    assert fingerprint(object()) == fingerprint(object())  # no addresses


@given(hnp.arrays(st.sampled_from(["f8", "i4", "c16", "?"]), hnp.array_shapes(max_dims=3, min_side=0)), st.data())
def test_one_changed_byte_is_another_fingerprint(array: np.ndarray, data: st.DataObject) -> None:
    assert fingerprint(array) == fingerprint(array.copy())
    if array.nbytes:
        changed = array.copy()
        flat = changed.reshape(-1).view(np.uint8)
        flat[data.draw(st.integers(0, len(flat) - 1))] ^= 1
        assert fingerprint(array) != fingerprint(changed)


def test_a_large_array_counts_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.zeros((5_000_000, 1))
    changed = whole.copy()
    changed[-1] = 1
    assert fingerprint(whole) != fingerprint(changed)


def test_a_fit_may_be_resumed_with_another_stopping_rule_and_other_threads() -> None:
    LDSKMeans = ms.get_estimator("lds-kmeans")
    one = fingerprint(LDSKMeans(3, random_state=0))
    for name, value in {"max_iter": 7, "tol": 0.5, "n_init": 9, "n_jobs": 2, "verbose": 1}.items():
        assert fingerprint(LDSKMeans(3, random_state=0, **{name: value})) == one
    for name, value in {"random_state": 1, "kernel": "martin", "init": np.arange(4), "bound": 0.9}.items():
        assert fingerprint(LDSKMeans(3, **{"random_state": 0, name: value})) != one


@pytest.mark.slow
def test_fingerprints_are_the_same_in_another_process() -> None:
    script = """
import numpy as np, manifoldseq as ms
from manifoldseq.estimators import fingerprint
A = np.arange(6.0).reshape(2, 3)
hope = ms.get_estimator("hope")(random_state=np.random.default_rng(0))
print(fingerprint(A, {"b": 1, "a": {"x", "y", "z"}}, hope, len))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }
    here = fingerprint(
        A, {"b": 1, "a": {"x", "y", "z"}}, ms.get_estimator("hope")(random_state=np.random.default_rng(0)), len
    )
    assert found == {f"{here}\n"}


def test_a_checkpoint_is_marked_once(tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError

    assert marked(None, never) is None
    own = Checkpoint(tmp_path, every_seconds=3, fingerprint="mine")
    assert marked(own, never) is own
    for place in (tmp_path, str(tmp_path)):
        assert marked(place, lambda: (A, 1)) == Checkpoint(place, fingerprint=fingerprint(A, 1))
    kept = marked(Checkpoint(tmp_path, every_seconds=3), lambda: (A,))
    assert kept == Checkpoint(tmp_path, every_seconds=3, fingerprint=fingerprint(A))
    with pytest.raises(ValueError, match="checkpoint=5 is not valid"):
        marked(5, never)  # type: ignore[arg-type]
