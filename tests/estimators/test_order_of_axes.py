"""Arrays in the order (n, channels, time) are warned of, and those in ours are not."""

import warnings

import numpy as np
import pytest
import scipy.io

import manifoldseq as ms
from manifoldseq.estimators import check_sequences

OTHER = [(8, 3, 500), (8, 1, 50), (40, 6, 100), (20, 12, 60), (4, 2, 640)]
OURS = [
    (8, 500, 3),
    (8, 50, 1),
    (5, 25, 64),
    (3, 50, 1024),
    (7, 5, 2),
    (30, 10, 12),
    (2, 12, 59),
    (4, 1, 12),
    (4, 6, 6),
]


def array(shape):
    return np.random.default_rng(0).standard_normal(shape)


def ways(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", X=x)
    scipy.io.savemat(tmp_path / "x.mat", {"X": x})
    yield lambda: check_sequences(x)
    yield lambda: ms.storage.SequenceData(x)
    for ending in ("npy", "npz", "mat"):
        yield lambda ending=ending: ms.storage.read(tmp_path / f"x.{ending}")


@pytest.mark.parametrize("shape", OTHER)
def test_the_other_order_is_named(tmp_path, shape):
    for ask in ways(tmp_path, array(shape)):
        with pytest.warns(
            UserWarning, match=r"is read in the order \(n, time, channels\).*\(n, channels, time\)"
        ) as seen:
            ask()
        assert len(seen) == 1 and f"{shape[1]} time steps of {shape[2]} channels" in str(seen[0].message)


@pytest.mark.parametrize("shape", OURS)
def test_no_false_alarm(tmp_path, shape):
    for ask in ways(tmp_path, array(shape)):
        ask()  # warnings are errors


def test_a_list_says_that_the_order_is_right(tmp_path):
    x = array((4, 3, 50))
    check_sequences(list(x))
    ms.storage.SequenceData(list(x))
    ms.storage.from_aeon(x)
    scipy.io.savemat(tmp_path / "x.mat", {"X": x})
    assert ms.storage.read(tmp_path / "x.mat", orientation="channels-first").sequences[0].shape == (50, 3)


def test_one_row_per_label_is_no_sequence_of_pixels(tmp_path):
    np.savez(tmp_path / "table.npz", X=array((9, 64)), y=np.arange(9))
    assert ms.storage.read(tmp_path / "table.npz").sequences[0].shape == (1, 64)


@pytest.mark.parametrize("missing", ["error", "smooth"])
def test_estimators_warn_too(tmp_path, missing):
    x = array((6, 8, 60))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for given in (x, mapped):
        with pytest.warns(UserWarning, match=r"in the order \(n, channels, time\), pass X.transpose"):
            ms.get_estimator("lds-identifier")(2, missing=missing).fit(given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ms.get_estimator("lds-identifier")(2, missing=missing).fit(list(given))
