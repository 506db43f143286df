"""Arrays that stay on disk: what is mapped, in which precision, and what a fit to them takes."""

import mmap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq.storage import ReadError, SequenceData


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, 400))
    return (centres[np.arange(50_000) % 3] + rng.standard_normal((50_000, 400))).astype(np.float32)


def on_disk(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_large_arrays_stay_on_disk_in_their_precision(tmp_path: Path, rows: np.ndarray) -> None:
    for kind in (np.float32, np.float64):
        np.save(tmp_path / "x.npy", rows.astype(kind))
        (x,) = ms.storage.read(tmp_path / "x.npy").sequences
        assert on_disk(x) and x.dtype == kind and np.array_equal(x, rows)
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f2", ">f4", "i4", "u1", "?"])
def test_what_would_be_converted_is_read(tmp_path: Path, rows: np.ndarray, kind: str) -> None:
    saved = (rows > 0).astype(kind)
    np.save(tmp_path / "x.npy", saved)
    (x,) = ms.storage.read(tmp_path / "x.npy").sequences
    assert not on_disk(x) and x.dtype == (np.float32 if kind == ">f4" else np.float64) and np.array_equal(x, saved)
    np.save(tmp_path / "f.npy", np.asfortranarray(rows))
    (x,) = ms.storage.read(tmp_path / "f.npy").sequences
    assert not on_disk(x) and x.flags.c_contiguous and np.array_equal(x, rows)


def test_a_file_that_is_cut_off_raises_an_error(tmp_path: Path, rows: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", rows)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-100])
    with pytest.raises(ReadError, match="cut off"):
        ms.storage.read(tmp_path / "x.npy")


def test_a_record_has_one_precision() -> None:
    single, double = np.zeros((2, 1), np.float32), np.zeros((2, 1))
    assert [x.dtype for x in SequenceData([single, single]).sequences] == [np.float32] * 2
    assert [x.dtype for x in SequenceData([single, double]).sequences] == [np.float64] * 2


def fitted(source: Path, run: Path) -> tuple[ms.storage.SequenceData, int]:
    """Return the model of a fit on the command line, and its peak memory besides the memory at the start, in bytes."""
    tracemalloc.start()
    try:
        assert main(["fit", "spherical-kmeans", str(source), "--set=n_clusters=3", "--no-quality", "-o", str(run)]) == 0
        return ms.load(run), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_fit_takes_little_memory_compared_with_the_file(tmp_path: Path, rows: np.ndarray) -> None:
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "all.npy", rows)
    for k, part in enumerate(np.split(rows, 5)):
        np.save(tmp_path / "parts" / f"{k}.npy", part)
    fitted(tmp_path / "all.npy", tmp_path / "imports")
    one, peak = fitted(tmp_path / "all.npy", tmp_path / "one")
    several, joined = fitted(tmp_path / "parts", tmp_path / "several")
    assert one.cluster_centers_.dtype == np.float64 and len(set(one.labels_[:3])) == 3
    assert np.array_equal(one.labels_, several.labels_)
    assert peak < 0.5 * rows.nbytes, f"{peak / 1e6:.0f} MB for a file of {rows.nbytes / 1e6:.0f} MB"
    assert joined < 1.5 * rows.nbytes, f"{joined / 1e6:.0f} MB for parts of {rows.nbytes / 1e6:.0f} MB"
