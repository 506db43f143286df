"""Tables as people have them: one small file for each form in which numbers, dates and series are written."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.storage import ReadError, SequenceData, read

LONG = [[1.5, -2000.25], [3.0, 4.0]]
SERIES = [[0.5, 1.0, 1.5, 2.25], [4.0, 3.5, 3.0, 2.5], [0.0, 0.25, 0.5, 9.0]]


@dataclass(frozen=True)
class Form:
    """A file, options of its reader, what is read, and a part of what is warned of."""

    name: str
    content: str
    sequences: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    encoding: str = "utf-8"
    says: str = ""
    check: Callable[[SequenceData], bool] = lambda data: True


def rows(mark: str, form: str = "{}", labels: tuple[str, ...] = ("1", "2", "1")) -> str:
    """Return the series, each in a row behind its label."""
    return "".join(
        mark.join([label, *(form.format(x) for x in series)]) + "\n"
        for label, series in zip(labels, SERIES, strict=True)
    )


def columns(sequences: list[list[float]]) -> list[list[list[float]]]:
    return [[[x] for x in series] for series in sequences]


def labelled(*labels: str) -> Callable[[SequenceData], bool]:
    return lambda data: data.labels is not None and data.labels.tolist() == list(labels)


FORMS = {
    "UTF-16": Form("a.csv", "time,é,y\n0,1.5,-2000.25\n1,3,4\n", [LONG], {"id": None}, "utf-16"),
    "Latin-1": Form(
        "a.csv", "time,é,y\n0,1.5,-2000.25\n1,3,4\n", [LONG], {"id": None, "encoding": "latin-1"}, "latin-1",
        check=lambda data: data.channel_names == ("é", "y"),
    ),
    "comments": Form(
        "a.csv", "time,x,y\n0,1.5,-2000.25 % start\n% pause\n\n1,3,4\n", [LONG], {"id": None, "comment": "%"}
    ),
    "a comment above the names": Form("a.csv", "# rig 7, 2024\n# A.\ntime,x,y\n0,1.5,-2000.25\n1,3,4\n", [LONG],
                                      {"id": None}, check=lambda data: data.channel_names == ("x", "y")),
    "names of numpy.savetxt": Form("a.txt", "# time x y\n0 1.5 -2000.25\n1 3 4\n", [LONG], {"id": None},
                                   check=lambda data: data.channel_names == ("x", "y")),
    "thousands": Form("a.csv", 'time,x,y\n0,1.5,"-2,000.25"\n1,3,4\n', [LONG], {"id": None, "thousands": ","}),
    "decimal commas": Form(
        "a.csv", "time;x;y\n0;1,5;-2.000,25\n1;3;4\n", [LONG], {"id": None, "decimal": ",", "thousands": "."}
    ),
    "dates": Form(
        "a.csv", "when,x,y\n02.01.2024 00:10,3,4\n01.01.2024 23:10,1.5,-2000.25\n", [LONG],
        {"id": None, "date_format": "%d.%m.%Y %H:%M"}, check=lambda data: data.clocks == ("when",),
    ),
    "UCR .tsv": Form("a_TRAIN.tsv", rows("\t"), columns(SERIES), says="read as a series of 4 steps with the label in",
                     check=labelled("1", "2", "1")),
    "UCR .txt": Form("a_TRAIN.txt", rows("  ", "{:.7e}", ("1.0000000e+00", "2.0000000e+00", "1.0000000e+00")),
                     columns(SERIES), says="series", check=labelled("1", "2", "1")),
    "UCR .csv": Form("a.csv", rows(",", labels=("up", "down", "up")), columns(SERIES), says="series",
                     check=labelled("up", "down", "up")),
    "wide, without labels": Form("a.csv", rows(",").replace("1,0", "7.5,0"), [[[7.5], *map(lambda x: [x], SERIES[0])],
                                 [[2], *map(lambda x: [x], SERIES[1])], [[7.5], *map(lambda x: [x], SERIES[2])]],
                                 says="series of 5 steps (", check=lambda data: data.labels is None),
    "wide, with names": Form("a.csv", "id,label,t0,t1\nb,up,1,2\na,down,3,4\n", columns([[1, 2], [3, 4]]),
                             {"wide": True}, check=lambda data: data.ids == ("b", "a")),
    "padded": Form(
        "a.csv", "1,0.5,2,NaN,NaN\n2,1.5,2.5,3.5,4.5\n1,5.5,NaN,6,\n2,1.5,2.5,3.5,4.5\n",
        columns([[0.5, 2], [1.5, 2.5, 3.5, 4.5], [5.5, np.nan, 6], [1.5, 2.5, 3.5, 4.5]]),
        says="These values are removed as padding, so that the series have 2 to 4 steps",
    ),
    "time stamps of .ts": Form(
        "a.ts",
        "@timeStamps true\n@classLabel true a b\n@data\n"
        "(0,1.5),(0.5,3):(0,-2000.25),(0.5,4):a\n"
        "(12,3),(11.5,1.5):(12,4),(11.5,-2000.25):b\n",
        [LONG, LONG], check=lambda data: data.clocks == ("time stamps",),
    ),
    "dates of .ts": Form(
        "a.ts", "@timeStamps true\n@data\n(2024-01-01 00:00:00,1.5),(2024-01-01 00:00:10,?),(2024-01-01 00:00:20,3)\n",
        [[[1.5], [np.nan], [3]]], check=lambda data: data.sampling_rate == 0.1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_what_is_read(tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    path = tmp_path / form.name
    path.write_text(form.content, encoding=form.encoding)
    with warnings.catch_warnings(record=True, action="always") as caught:
        data = read(path, **form.options)
    said = [str(warning.message) for warning in caught]
    assert any(form.says in one for one in said) if form.says else not said
    assert len(data) == len(form.sequences) and form.check(data)
    for got, expected in zip(data.sequences, form.sequences, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_padding_is_not_what_misses_in_one_channel(tmp_path: Path) -> None:
    x = np.ones((2, 4, 2))
    x[0, 2:, 0] = np.nan
    np.save(tmp_path / "a.npy", x)
    assert [len(one) for one in read(tmp_path / "a.npy").sequences] == [4, 4]
    x[0, 3, 1] = np.nan
    np.save(tmp_path / "a.npy", x)
    with pytest.warns(UserWarning, match="1 series that end with missing values in every channel"):
        assert [len(one) for one in read(tmp_path / "a.npy").sequences] == [3, 4]


OPTIONS = {
    "delimiter": ({"delimiter": "::"}, "delimiter is '::': pass one character"),
    "comment": ({"comment": "//"}, "comment is '//': pass one character"),
    "encoding": ({"encoding": "utf-99"}, "encoding is 'utf-99': pass one such as utf-16"),
    "marks": ({"thousands": "."}, "thousands and decimal are both '.': pass two characters"),
    "another encoding": ({"encoding": "ascii"}, "line 3: the text is not ascii: save the file as UTF-8, or name its"),
    "label": ({"wide": True, "label": "kind"}, "has no column 'kind'"),
    "inflation": ({"inflation": 0}, "inflation is 0: pass a positive number of bytes"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_options(tmp_path: Path, name: str) -> None:
    options, message = OPTIONS[name]
    (tmp_path / "a.csv").write_text("id,time,x\n0,0,1\né,1,2\n", encoding="utf-8")
    with pytest.raises(ReadError) as caught:
        read(tmp_path / "a.csv", **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_time_stamps_that_do_not_fit(tmp_path: Path) -> None:
    cases = {
        "(0,1),(1,2):(0,1),(2,2)": "line 3: channel 1 has other time stamps than channel 0",
        "(0,1),2": "line 3: channel 0 is not a list of pairs",
        "(0,1),(0,2)": "case 0 has a time stamp twice",
        "(soon,1)": "has time stamps that are neither numbers nor dates",
    }
    for case, message in cases.items():
        (tmp_path / "a.ts").write_text(f"@timeStamps true\n@data\n{case}\n")
        with pytest.raises(ReadError, match=message):
            read(tmp_path / "a.ts")


def test_every_channel_may_be_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,time,acc_x,note,acc_y,gyr_x\n0,0,1,good,2,3\n0,1,4,bad,5,6\n")
    data = read(tmp_path / "a.csv", channels="gyr_?,acc_*,-acc_x")
    assert data.channel_names == ("gyr_x", "acc_y") and data.sequences[0].tolist() == [[3, 2], [6, 5]]
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(tmp_path / "a.csv")
    assert ms.storage.from_frame(frame, columns=["acc_*"]).channel_names == ("acc_x", "acc_y")


def test_compressed_files_may_not_inflate_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of 8 MiB of zeros, where a hundredth of the default is allowed."""
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((2, 2**19)))
    assert read(tmp_path / "a.npz").sequences[0].shape == (2, 2**19)
    for limit in (2**20, 8 * 2**20 - 2**14):
        with pytest.raises(ReadError, match=r"needs 0\.00781 GiB of memory, .* pass inflation=8\.4e\+06"):
            read(tmp_path / "a.npz", inflation=limit)
    with ms.storage.inflation_limit(2**20):
        with pytest.raises(ReadError, match="GiB of memory, but the limit is"):
            ms.storage.load_arrays(tmp_path / "a.npz")
        np.savez(tmp_path / "b.npz", X=np.zeros((2, 2**19)))
        assert ms.storage.read_npz(tmp_path / "b.npz").sequences[0].shape == (2, 2**19)


FORMULAS = {
    "=1+1": "'=1+1",
    "@SUM(A1)": "'@SUM(A1)",
    "-up": "'-up",
    "+a": "'+a",
    "'=x": "''=x",
    "'": "''",
    "\tx": "'\tx",
    "-1": "-1",
    "+2.5e3": "+2.5e3",
    "a=b": "a=b",
    "": "",
}


def test_texts_are_no_formulas_to_a_spreadsheet(tmp_path: Path) -> None:
    """Written as text, and read as they were by every reader of small tables and of ids."""
    from manifoldseq.cli._run import csv_text

    texts = [text for text in FORMULAS if text]
    written = csv_text({"id": texts, "label": texts, "cluster": range(len(texts))})
    cells = [line[0] for line in csv.reader(io.StringIO(written))]
    assert cells == ["id", *(FORMULAS[text] for text in texts)]
    (tmp_path / "a.csv").write_text(written)
    assert [row[0] for _, row in ms.storage.read_cells(tmp_path / "a.csv")] == ["id", *texts]
    data = read(tmp_path / "a.csv", time=None)
    assert data.ids == tuple(texts) and data.labels is not None and data.labels.tolist() == texts
