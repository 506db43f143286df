"""Checkpoint files: atomic, two kept, bit-exact, nothing executed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from core.cases import equal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import manifoldseq as ms
from manifoldseq.storage import Checkpoint, CheckpointError

COLUMNS = {"nit": np.arange(3), "fun": np.array([3.0, np.nan, -0.0])}


def save(directory: Path, nit: int, state: Any = None, **options: Any) -> Path:
    return Checkpoint(directory, **options).save(nit, {"nit": nit} if state is None else state, {"nit": nit}, COLUMNS)


def kept(state: Any, *steps: Any) -> Any:
    """Return the state that a run ends with whose steps return these."""
    left = iter(steps)
    run = ms.iterate(lambda _: (next(left), ms.Measures(fun=0.0)), state, ms.Measures(fun=0.0), stop=ends(len(steps)))
    return run.state


def ends(nit: int) -> ms.StoppingRule:
    return ms.MaxIterations(max(nit, 1)) | ms.MaxTime(0.0 if nit == 0 else 60.0)


def test_round_trip_is_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rng.random(5)
    state = {
        "x": (rng.standard_normal((3, 2)), np.float32([1, np.nan, np.inf, -0.0])),
        "generator": rng.bit_generator.state,
        "numbers": (0.1, 10**30, -0.0, float("inf"), True, None, "text €"),
        "empty": ({}, (), np.zeros((0, 3)), np.array(2.5), np.array([True]), np.array(["ab", "c"])),
    }
    save(tmp_path, 7, state)
    loaded, record, columns = Checkpoint(tmp_path).load() or pytest.fail("nothing loaded")
    assert repr(loaded) == repr(state) and record == {"nit": 7}
    equal(loaded["x"], state["x"])
    again = np.random.default_rng()
    again.bit_generator.state = loaded["generator"]
    assert again.random() == rng.random()
    np.testing.assert_array_equal(columns["fun"], COLUMNS["fun"])
    assert not loaded["x"][0].flags.writeable


keys = st.text(max_size=9) | st.sampled_from(["time", "x_time"])
states = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | hnp.arrays(np.float32, hnp.array_shapes(max_dims=2)),
    lambda parts: st.dictionaries(keys, parts, max_size=3) | st.lists(parts, max_size=3).map(tuple),
    max_leaves=6,
)


@pytest.mark.slow
@given(states)
def test_states_survive_the_translation(state: Any) -> None:
    state = kept({"state": state})["state"]
    with TemporaryDirectory() as folder:
        save(Path(folder), 1, {"state": state})
        loaded = Checkpoint(folder).load()
    assert loaded is not None and repr(loaded[0]) == repr({"state": state})
    assert repr(kept({"state": state})) == repr({"state": state})


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for nit in (0, 5, 12, 100):
        save(tmp_path, nit)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-0000000012.npz", "checkpoint-0000000100.npz"]


def test_a_stray_temporary_file_is_ignored(tmp_path: Path) -> None:
    save(tmp_path, 3)
    (tmp_path / ".checkpoint-0000000004.npz.tmp").write_bytes(b"half a fi")
    (tmp_path / "notes.txt").write_text("mine")
    loaded = Checkpoint(tmp_path).load()
    assert loaded is not None and loaded[1] == {"nit": 3}
    save(tmp_path, 4)
    loaded = Checkpoint(tmp_path).load()
    assert loaded is not None and loaded[1] == {"nit": 4}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_newest_file_falls_back_to_the_one_before(tmp_path: Path, share: float) -> None:
    save(tmp_path, 3)
    newest = save(tmp_path, 4)
    whole = newest.read_bytes()
    newest.write_bytes(whole[: int(share * len(whole))])
    loaded = Checkpoint(tmp_path).load()
    assert loaded is not None and loaded[1] == {"nit": 3}


@pytest.mark.parametrize("offset", [40, 200, 500, -400])
def test_a_flipped_byte_is_found_or_harmless(tmp_path: Path, offset: int) -> None:
    state = {"x": np.arange(200.0)}
    save(tmp_path, 3, state)
    newest = save(tmp_path, 4, state)
    content = bytearray(newest.read_bytes())
    content[offset] ^= 0xFF
    newest.write_bytes(content)
    loaded = Checkpoint(tmp_path).load()
    assert loaded is not None
    np.testing.assert_array_equal(loaded[0]["x"], np.arange(200.0))


def test_nothing_readable_is_an_error_and_nothing_at_all_is_none(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path).load() is None
    assert Checkpoint(tmp_path / "absent").load() is None
    (tmp_path / "checkpoint-0000000001.npz").write_bytes(b"junk")
    with pytest.raises(CheckpointError, match=r"can be read .*or delete the old checkpoints"):
        Checkpoint(tmp_path).load()


def test_pickled_arrays_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "checkpoint-0000000001.npz", document=np.array([{"a": 1}], dtype=object))
    with pytest.raises(CheckpointError, match="can be read"):
        Checkpoint(tmp_path).load()


def test_another_fingerprint_or_format_raises_an_error(tmp_path: Path) -> None:
    path = save(tmp_path, 1, fingerprint="a")
    for other in ("b", None):
        with pytest.raises(CheckpointError, match="belongs to other data"):
            Checkpoint(tmp_path, fingerprint=other).load()
    with np.load(path) as file:
        arrays = dict(file)
    document = json.loads(arrays["document"].tobytes())
    document["format"] += 1
    arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(CheckpointError, match="has format 4, but this version reads 3"):
        Checkpoint(tmp_path, fingerprint="a").load()


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)

    def full(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path, 2)
    loaded = Checkpoint(tmp_path).load()
    assert loaded is not None and loaded[1] == {"nit": 1}


def test_children_are_folders_below(tmp_path: Path) -> None:
    child = Checkpoint(tmp_path, 5.0, "print").child("start-0")
    assert child == Checkpoint(tmp_path / "start-0", 5.0, "print")


def test_parts_of_the_state_before_keep_their_identity() -> None:
    states: list[Any] = []

    def step(before: Any) -> Any:
        new = {"x": np.ones(2), "pairs": (*before["pairs"][1:], (np.full(2, 3.0), 3.0)), "inner": before["inner"]}
        states.append(before)
        return new, ms.Measures(fun=0.0)

    start = {"x": np.ones(2), "pairs": ((np.zeros(2), 1.0), (np.ones(2), 2.0)), "inner": {"y": np.ones(1)}}
    after = ms.iterate(step, start, ms.Measures(fun=0.0), stop=ms.MaxIterations(1)).state
    (before,) = states
    assert after["pairs"][0] is before["pairs"][1] and after["inner"]["y"] is before["inner"]["y"]
    assert not any(array.flags.writeable for array in (after["x"], after["pairs"][1][0]))
    assert after["inner"] is not before["inner"], "a step may go on writing into the dict that it returned"
    with pytest.raises(TypeError, match=r"state\['pairs'\]\[1\]\[0\] is a list"):
        kept(before, {"pairs": (before["pairs"][0], ([1.0], 1.0))})
