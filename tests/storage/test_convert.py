"""Other conventions, windows, scales, and the choice of a reader by the name of a file."""

from __future__ import annotations

import numpy as np
import pytest
from storage.samples import sequences

import manifoldseq as ms
from manifoldseq.storage import ReadError, SequenceData, from_aeon, from_lengths, read, scale, windows

DATA = SequenceData(sequences(), ["a", "b", "a"], name="walks", sampling_rate=2.0, channel_names=["x", "y"])


def test_from_aeon():
    block = np.arange(24.0).reshape(2, 3, 4)
    data = from_aeon(block, ["a", "b"])
    np.testing.assert_array_equal(data.sequences[1], block[1].T)
    assert all(x.flags.c_contiguous for x in data.sequences)
    assert [x.shape for x in from_aeon([x.T for x in sequences()]).sequences] == [(5, 2), (3, 2), (9, 2)]
    with pytest.raises(ValueError, match=r"case 0 has shape \(3,\): pass \(d, T\) arrays, channels first"):
        from_aeon(np.zeros((2, 3)))


def test_from_lengths():
    data = from_lengths(np.concatenate(sequences()), [5, 3, 9], ["a", "b", "a"])
    for got, x in zip(data.sequences, sequences(), strict=True):
        np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize(
    ("rows", "lengths", "sentence"),
    [
        (np.zeros((4, 2)), [3], "lengths add up to 3 but X has 4 rows"),
        (np.zeros((4, 2)), [4, 0], "not positive whole numbers"),
        (np.zeros((4, 2)), [2.0, 2.0], "not positive whole numbers"),
        (np.zeros((4, 2)), np.array([2**63, 2**63 + 4], np.uint64), "add up to 18446744073709551620"),
        (np.zeros(4), [4], r"X has shape \(4,\)"),
    ],
)
def test_from_lengths_rejects(rows, lengths, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_lengths(rows, lengths)


@pytest.mark.parametrize(("length", "step"), [(3, None), (3, 1), (2, 5), (1, 1)])
def test_windows_are_slices(length, step):
    cut = windows(DATA, length, step)
    expected = [
        (x[start : start + length], label)
        for x, label in zip(sequences(), "aba", strict=True)
        for start in range(0, len(x) - length + 1, step or length)
    ]
    assert len(cut) == len(expected) and cut.labels is not None
    for got, label, (x, expected_label) in zip(cut.sequences, cut.labels, expected, strict=True):
        np.testing.assert_array_equal(got, x)
        assert label == expected_label
    assert (cut.name, cut.sampling_rate, cut.channel_names) == ("walks", 2.0, ("x", "y"))


def test_windows_of_an_array():
    assert [x.shape for x in windows(np.zeros((10, 3)), 4).sequences] == [(4, 3), (4, 3)]
    assert [x.shape for x in windows(np.zeros(10), 10).sequences] == [(10, 1)]


@pytest.mark.parametrize(
    ("length", "step", "sentence"),
    [(4, None, "sequence 1 has 3 time steps, fewer than one window of 4"), (0, None, "positive"), (1, 0, "positive")],
)
def test_windows_reject(length, step, sentence):
    with pytest.raises(ValueError, match=sentence):
        windows(DATA, length, step)


@pytest.mark.parametrize(
    ("mode", "center", "spread"),
    [
        ("standard", np.mean, np.std),
        ("minmax", np.min, np.ptp),
        ("robust", np.median, lambda x, axis: np.quantile(x, 0.75, axis=axis) - np.quantile(x, 0.25, axis=axis)),
    ],
)
def test_scale(mode, center, spread):
    scaled = scale(DATA, mode)
    rows = np.concatenate(scaled.sequences)
    np.testing.assert_allclose(center(rows, axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(spread(rows, axis=0), 1)
    np.testing.assert_array_equal(DATA.sequences[0], sequences()[0])
    assert scaled.channel_names == DATA.channel_names and scaled.labels is DATA.labels


def test_scale_like_the_training_data():
    train = SequenceData([[[0.0, 5.0], [2.0, 5.0]]])
    scaled = scale(SequenceData([[[4.0, 6.0]]]), "minmax", like=train)
    np.testing.assert_array_equal(scaled.sequences[0], [[2.0, 1.0]])


def test_scale_leaves_missing_values_out():
    scaled = scale(SequenceData([[[1.0], [np.nan], [3.0]], [[np.inf]]]))
    np.testing.assert_array_equal(scaled.sequences[0].ravel(), [-1, np.nan, 1])


@pytest.mark.parametrize(
    ("data", "mode", "sentence"),
    [
        (DATA, "log", "mode='log' is not valid: choose 'standard', 'minmax' or 'robust'"),
        (SequenceData([[[1.0]], [[1.0, 2.0]]]), "standard", r"sequences have \[1, 2\] channels"),
        (SequenceData([[[1.0, np.nan]]]), "standard", "channel 1 has no finite value"),
    ],
)
def test_scale_rejects(data, mode, sentence):
    with pytest.raises(ValueError, match=sentence):
        scale(data, mode)


def read_toy(path, *, length=1):
    return SequenceData([np.zeros((length, 1))])


@pytest.fixture
def toy():
    ms.register(ms.hooks.ReaderSpec("toy", ("*.toy", "toys-*/"), read_toy))


def test_the_name_chooses_the_reader(tmp_path, toy):
    path = tmp_path / "WALK.TOY"
    path.touch()
    assert read(path).sequences[0].shape == (1, 1)
    assert read(str(path), length=3).sequences[0].shape == (3, 1)
    (tmp_path / "toys-2").mkdir()
    assert len(read(tmp_path / "toys-2")) == 1


def test_read_rejects(tmp_path, toy):
    path = tmp_path / "walk.toy"
    with pytest.raises(FileNotFoundError, match=r"the file or folder .* does not exist"):
        read(path)
    path.touch()
    with pytest.raises(ReadError, match="the reader 'toy' has no option 'width': its options are length"):
        read(path, width=2)
    with pytest.raises(ReadError, match=r"no reader accepts this name: rename or convert the file to one of .*\*\.toy"):
        read(path.rename(tmp_path / "walk.unknown"))
