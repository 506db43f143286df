"""The reader of .ts files: the format, and the error for each defect."""

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import rejects

from manifoldseq.storage import ReadError, SequenceData, read_ts

HEADER = "@problemName Two words\n@timeStamps false\n@univariate false\n@dimensions 2\n@classLabel true a b\n@data\n"


@pytest.fixture
def write(tmp_path):
    def write(content, encoding="utf-8"):
        path = tmp_path / "data.ts"
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def test_channels_lengths_missing_values_and_labels(write):
    data = read_ts(write("# a comment\n" + HEADER + "1,2.5,-3e2:4,?,6:a\n\n% another\n7:NaN:b\n"))
    assert data.name == "Two words" and len(data) == 2
    np.testing.assert_array_equal(data.sequences[0], [[1, 4], [2.5, np.nan], [-300, 6]])
    np.testing.assert_array_equal(data.sequences[1], [[7, np.nan]])
    assert data.labels is not None and data.labels.tolist() == ["a", "b"]
    assert all(x.dtype == np.float64 and x.flags.c_contiguous for x in data.sequences)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_byte_order_mark(write, newline, encoding):
    data = read_ts(write((HEADER + "1,2:3,4:a\n").replace("\n", newline), encoding))
    np.testing.assert_array_equal(data.sequences[0], [[1, 3], [2, 4]])


def test_without_labels(write):
    data = read_ts(write("@classLabel false\n@data\n1,2:3,4\n"))
    assert data.labels is None and data.sequences[0].shape == (2, 2)


def test_targets_are_numbers(write):
    data = read_ts(write("@targetLabel true\n@univariate true\n@data\n1,2:0.5\n3,4:-1\n"))
    assert data.labels is not None and data.labels.tolist() == [0.5, -1.0]


def test_keys_in_any_case_and_unknown_keys(write):
    data = read_ts(write("@PROBLEMNAME x\n@missing false\n@whatever 1\n@ClassLabel TRUE a\n@DATA\n1:2:a\n"))
    assert data.sequences[0].shape == (1, 2)


BAD = {
    "empty": ("", "data.ts is empty"),
    "only comments": ("# nothing\n", "has no @data line"),
    "no data line": ("@problemName x\n", "has no @data line"),
    "no cases": (HEADER, "has no cases after @data"),
    "data before the header": ("1,2:3,4:a\n", "line 1: data before the @data line"),
    "time stamps": ("@timeStamps true\n@data\n", "has no cases after @data"),
    "pairs": ("@data\n(0,1),(1,2):a\n", "line 2: channel 0, t=0 is '(0', which is not a number"),
    "a word": (HEADER + "1,2:3,four:a\n", "line 7: channel 1, t=1 is 'four', which is not a number: write"),
    "an empty value": (HEADER + "1,,2:1,2,3:a\n", "line 7: channel 0, t=1 is '', which is not a number"),
    "cut in a channel": (HEADER + "1,2:3,4:a\n1,2:3", "line 8: the last field '3' is not a class of the header (a, b)"),
    "cut before the label": (HEADER + "1,2:a\n", "line 7: the case has 1 channels, not 2 channels and a label"),
    "unknown class": (HEADER + "1,2:3,4:c\n", "line 7: the last field 'c' is not a class of the header (a, b)"),
    "uneven channels": (HEADER + "1,2:3:a\n", "line 7: channels differ in length (1 to 2): fill gaps with ?"),
    "channels change": ("@data\n1:2\n1:2:3\n", "line 3: the case has 3 channels, not 2 channels"),
    "length": ("@equalLength true\n@seriesLength 3\n@data\n1,2\n", "the case has 2 time steps, not 3 (@series"),
    "flag": ("@univariate maybe\n@data\n1\n", "line 1: @univariate is 'maybe': write true or false"),
    "count": ("@dimensions two\n@data\n1\n", "line 1: @dimensions is 'two': write a positive whole number"),
    "target": ("@targetLabel true\n@data\n1,2:high\n", "has the target 'high', which is not a number"),
    "Latin-1": (HEADER.encode() + "1,2:3,4:a\n# é\n".encode("latin-1"), "is not UTF-8"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00", "is not UTF-8"),
}


@parametrize("case", BAD, fast=6)
def test_defects_raise_an_error(write, case):
    content, sentence = BAD[case]
    path = write(content)
    with rejects(path, sentence):
        read_ts(path)


def test_round_trip_of_random_sequences(write):
    rng = np.random.default_rng(0)
    sequences = [rng.standard_normal((t, 3)) for t in rng.integers(1, 20, 30)]
    lines = (":".join(",".join(map(repr, map(float, channel))) for channel in x.T) for x in sequences)
    data = read_ts(write("@data\n" + "\n".join(lines)))
    for got, expected in zip(data.sequences, sequences, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_the_record_is_checked():
    data = SequenceData([[[1, 2]], [[3, 4], [5, 6]]], labels=[0, 1], channel_names=["x", "y"])
    assert len(data) == 2 and data.channel_names == ("x", "y")
    with pytest.raises(ValueError, match="labels have shape \\(1,\\) but there are 2 sequences"):
        SequenceData(data.sequences, labels=[0])
    with pytest.raises(ValueError, match="sequence 0 has shape \\(2,\\)"):
        SequenceData([[1, 2]])
    with pytest.raises(ValueError, match="sequence 0 has 2 channels but 1 channel_names"):
        SequenceData([[[1, 2]]], channel_names=["x"])


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("@targetLabel true", "target"),
        ("@classLabel true a b", "class label"),
        ("@dimension 2\n@targetLabel true", "target"),
        ("@univariate true\n@classLabel true 1 2", "class label"),
    ],
)
def test_a_case_without_channels_raises_an_error(tmp_path, header, what):
    path = tmp_path / "none.ts"
    for case in ("1", "2.5"):
        label = case if what == "target" else header.split()[-1]
        path.write_text(f"{header}\n@data\n{label}\n")
        with pytest.raises(
            ReadError, match=rf"none\.ts, line \d: the case has a {what} and no channels: write its values"
        ):
            read_ts(path)
