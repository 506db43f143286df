"""The readers of the long format, .csv and .parquet: options, order, and the error for each defect."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import LABELS, csv_text, needs, parquet_bytes, rejects, sequences

import manifoldseq as ms
from manifoldseq.storage import ReadError, SequenceData, from_frame, read, read_csv, read_parquet


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "walks.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def assert_walks(data):
    for got, x in zip(data.sequences, sequences(), strict=True):
        np.testing.assert_array_equal(got, x)
        assert got.dtype == np.float64 and got.flags.c_contiguous and got.flags.writeable
    assert data.labels is not None and data.labels.tolist() == LABELS
    assert data.channel_names == ("x", "y")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(write, newline, encoding, delimiter):
    text = csv_text().replace("\n", newline).replace(",", delimiter)
    assert_walks(read_csv(write(text.encode(encoding)), delimiter=delimiter))


def shuffled(header, *rows):
    """Return a table whose first rows, one of each walk, are followed by an empty line and the others in any order."""
    first = [rows[0], rows[5], rows[8]]  # ids keep the order of their first rows
    rest = [row for row in rows if row not in first]
    np.random.default_rng(0).shuffle(rest)
    return [header, *first, "\n", *rest]


def test_rows_in_any_order(write):
    assert_walks(read_csv(write("".join(shuffled(*csv_text().splitlines(keepends=True))))))


@parametrize("more", [2**14 - 19, 2**14 - 18, 2**14 - 17, 2**14 - 1, 2**15], fast=1)
def test_rows_in_any_order_beyond_what_is_held_at_a_time(write, more):
    """Before, in and behind blocks of 2**14 rows there are quoted ids, for which the cells are looked at one by one."""
    header, *rows = shuffled(*csv_text().splitlines(keepends=True))
    far = [f'"far",{t},{t % 13},{t}.5,up\n' for t in range(more)]
    data = read_csv(write("".join([header, *rows[:8], *far, *rows[8:]])))
    *walks, last = data.sequences
    np.testing.assert_array_equal(last, np.stack([np.arange(more) % 13, np.arange(more) + 0.5], axis=1))
    assert data.labels.tolist() == [*LABELS, "up"] and data.ids[3] == "far"
    assert_walks(SequenceData(walks, data.labels[:3], channel_names=data.channel_names))


def test_options_name_the_columns(write):
    path = write(csv_text("walk,t,x,y,kind\n"))
    data = read_csv(path, id="walk", time="t", channels=["y"], label="kind")
    np.testing.assert_array_equal(data.sequences[2], sequences()[2][:, 1:])
    data = read_csv(write("x,y\n1,2\n3,4\n"), id=None, time=None)
    assert data.sequences[0].tolist() == [[1, 2], [3, 4]] and data.labels is None


def test_missing_values_and_quoted_cells(write):
    data = read_csv(write('id,time,x\n"a, 1",0,\n"a, 1",1,?\n"a, 1",2,NaN\n"a, 1",3, 4e-1 \n"a, 1",4,NA\n'))
    np.testing.assert_array_equal(data.sequences[0].ravel(), [np.nan, np.nan, np.nan, 0.4, np.nan])


BAD = {
    "empty": ("", {}, "is empty: expected a table of text"),
    "header only": ("id,time,x\n", {}, "has a header but no rows"),
    "no id": (
        "time,x\n0,1\n",
        {},
        "has no column 'id', only time, x: name the column with id=…, or id=None if the file is one",
    ),
    "no time": ("id,x\n0,1\n", {}, "has no column 'time', only id, x: name the column with time=…, or time=None"),
    "no label": ("id,time,x\n0,1,2\n", {"label": "kind"}, "has no column 'kind'"),
    "no channel": ("id,time,x\n0,1,2\n", {"channels": ["y"]}, "has no column 'y'"),
    "no channels": ("id,time\n0,1\n", {}, "has no columns apart from id, time"),
    "two columns": ("id,time,x,id\n0,1,2,3\n", {}, "has two columns named 'id': rename one, or call the second 'id.1'"),
    "most times missing": ("id,time,x\na,0,1\na,,1\na,,1\na,,1\na,,1\na,5,1\na,6,1\n", {}, "line 3 has no time"),
    "times of any steps, one missing": ("id,time,x\n0,1,1\n0,2,1\n0,,1\n0,9,1\n", {}, "line 4 has no time: write"),
    "a word": (
        "id,time,x\n0,1,2\n\n0,2,high\n",
        {},
        "line 4, column 'x' is 'high', which is not a number in decimal digits: ",
    ),
    "a word as time": (
        "id,time,x\n0,soon,2\n",
        {},
        "line 2, column 'time' is 'soon', which is not a number in decimal digits: write",
    ),
    "after a cell of two lines": ('id,time,x\n"a\nb",0,1\n"a\nb",1,?!\n', {}, "line 5, column 'x' is '?!'"),
    "no time in a row": ("id,time,x\n0,1,2\n0,,2\n", {}, "line 3 has no time: write a number"),
    "same time": ("id,time,x\na,1,2\na,0,2\na,1,3\n", {}, "line 2 and line 4: both have time 1 of id 'a': remove"),
    "same time, one sequence": ("time,x\n1,2\n1,2\n", {"id": None}, "line 2 and line 3: both have time 1: remove"),
    "cells": ("id,time,x\n0,1,2\n0,1\n", {}, "line 3 has 2 cells, not 3: complete or remove it"),
    "labels": ("id,time,x,label\na,0,1,up\na,1,2,down\n", {}, "line 3: label is 'down', unlike in an earlier row"),
    "Latin-1": (b"id,time,x\n0,1,2\n" + "é,1,2\n".encode("latin-1"), {}, "line 3: the text is not UTF-8"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0", {}, "line 1: the text is not UTF-8"),
    "open quote": ('id,time,x\n"0,1,2\n', {}, "has a quote that is opened in the row"),
    "empty id": ("id,time,x\na,0,1\n ,0,1\n", {}, "line 3: column 'id' has empty cells: fill them or remove the rows"),
    "empty id, views": ("id,x\na,1\n,1\n", {"id": "auto", "ordered": False}, "line 3: column 'id' has empty cells"),
    "semicolons": (
        "id;time;x\n0;1;2\n",
        {},
        "has one column 'id;time;x': if ';' separates the cells, pass delimiter=';' (--read",
    ),
    "tabs": ("id\ttime\tx\n0\t1\t2\n", {}, "if tab separates the cells, pass delimiter=tab (--read delimiter=tab)"),
    "semicolons, no names": (
        "1,5;2,5\n3,5;4,5\n",
        {"id": None},
        "has the cell '5;2' in its first line: if ';' separates",
    ),
    "decimal comma": (
        "id;time;x\n0;1;2,5\n",
        {"delimiter": ";"},
        "column 'x' is '2,5', which is not a number in decimal digits: for a decimal comma pass decimal=, (--read",
    ),
    "delimiter": ("id,time,x\n", {"delimiter": "::"}, "delimiter is '::': pass one character"),
}


@pytest.mark.parametrize("case", BAD)
def test_defects_raise_an_error(write, case):
    content, options, sentence = BAD[case]
    path = write(content)
    with rejects(path, sentence):
        read_csv(path, **options)


def test_too_large(write, leave_memory):
    leave_memory(2 * 2**10)
    with pytest.raises(ReadError, match="of memory"):
        read_csv(write(csv_text() + csv_text("") * 10))


def test_parquet_without_pyarrow(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"is a \.parquet file, which needs pyarrow: run `pip install pyarrow`"):
        read_parquet(write(b"PAR1"))


@needs("pyarrow")
class TestParquet:
    def write(self, write, table):
        import pyarrow as pa
        import pyarrow.parquet as parquet

        stream = io.BytesIO()
        parquet.write_table(pa.table(table), stream)
        return write(stream.getvalue())

    def test_the_same_as_csv(self, write):
        assert_walks(read_parquet(write(parquet_bytes())))

    def test_types(self, write):
        import pyarrow as pa

        table = {
            "id": pa.array([7, 7, 3, 3]),
            "time": pa.array([2, 1, 0, 5], pa.timestamp("ms")),
            "count": pa.array([1, None, 3, 4], pa.int16()),
            "on": [True, False, None, True],
            "label": pa.array(["a", "a", "b", "b"]).dictionary_encode(),
        }
        data = read_parquet(self.write(write, table))
        np.testing.assert_array_equal(data.sequences, [[[np.nan, 0], [1, 1]], [[3, np.nan], [4, 1]]])
        assert data.labels is not None and data.labels.tolist() == ["a", "b"]
        assert data.channel_names == ("count", "on")

    def test_what_pandas_adds_is_no_channel(self, write):
        data = read_parquet(self.write(write, {"id": [0], "time": [0], "x": [1.0], "__index_level_0__": [9]}))
        assert data.channel_names == ("x",)

    BAD = {  # noqa: RUF012
        "text": ({"id": [0], "time": [0], "x": ["a"]}, {}, "column 'x' contains string and no numbers"),
        "lists": ({"id": [0], "time": [0], "x": [[1.0]]}, {}, "column 'x' contains list<"),
        "no time": ({"id": [0, 0], "time": [0, None], "x": [1, 2]}, {}, "row 1 has no time"),
        "no id": ({"id": [0, None], "time": [0, 1], "x": [1, 2]}, {}, "column 'id' has empty cells"),
        "same time": ({"id": [0, 0], "time": [1, 1], "x": [1, 2]}, {}, "row 0 and row 1: both have time 1 of id '0'"),
        "no rows": ({"id": [], "time": np.zeros(0), "x": np.zeros(0)}, {}, "has a header but no rows"),
        "column": ({"id": [0], "time": [0], "x": [1]}, {"channels": ["y"]}, "has no column 'y'"),
    }

    @pytest.mark.parametrize("case", BAD)
    def test_defects_raise_an_error(self, write, case):
        table, options, sentence = self.BAD[case]
        path = self.write(write, table)
        with rejects(path, sentence):
            read_parquet(path, **options)

    def test_a_table_that_unpacks_to_much_raises_an_error(self, write, leave_memory):
        path = self.write(write, {"id": np.zeros(10**5, int), "time": np.arange(10**5), "x": np.zeros(10**5)})
        leave_memory(2 * 2**20)
        with pytest.raises(ReadError, match="of memory"):
            read_parquet(path)

    @pytest.mark.parametrize("content", [b"PAR1", b"id,time\n", parquet_bytes])
    def test_no_parquet(self, write, content):
        path = write(content()[:-20] if callable(content) else content)
        with pytest.raises(ReadError, match=r"cannot be read as a \.parquet file"):
            read_parquet(path)


def test_an_id_may_be_a_channel_too(tmp_path):
    (tmp_path / "table.csv").write_text("id,x\n1,1\n1,3\n2,2\n2,5\n")
    data = read_csv(tmp_path / "table.csv", time=None, channels=["id", "x"])
    assert data.ids == ("1", "2") and data.sequences[0].tolist() == [[1.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
def test_rows_that_are_samples_need_neither_id_nor_clock(tmp_path, parquet):
    if parquet:
        pa = pytest.importorskip("pyarrow")

    def read(text, **options):
        path = tmp_path / ("t.parquet" if parquet else "t.csv")
        if parquet:
            header, *lines = [line.split(",") for line in text.split()]
            cells = [
                [cell if cell.isalpha() else float(cell) for cell in column] for column in zip(*lines, strict=True)
            ]
            pa.parquet.write_table(pa.table(dict(zip(header, cells, strict=True))), path)
        else:
            path.write_text(text)
        return (read_parquet if parquet else read_csv)(path, id="auto", ordered=False, **options)

    data = read("y,x\n3,4\n1,2\n2,9\n")
    assert [x.tolist() for x in data.sequences] == [[[3, 4], [1, 2], [2, 9]]] and data.channel_names == ("y", "x")
    data = read("index,x,label\n0,4,up\n1,2,down\n2,9,up\n")
    assert [x.tolist() for x in data.sequences] == [[[4]], [[2]], [[9]]] and data.clocks == ("index",)
    assert data.labels.tolist() == ["up", "down", "up"] and data.ids == ("0", "1", "2")
    data = read("id,frame,time,x\nc,5,3,4\na,6,1,2\nb,7,2,9\n")
    assert data.ids == ("c", "a", "b") and data.clocks == ("frame",)
    assert np.concatenate(data.sequences).tolist() == [[3, 4], [1, 2], [2, 9]]  # a time that jumps is a channel
    assert data.channel_names == ("time", "x") and data.sampling_rate is None
    data = read("id,frame,t2,x\nc,5,3,4\na,6,1,2\nb,7,2,9\n", time="t2")
    assert data.clocks == ("t2",) and np.concatenate(data.sequences).tolist() == [[5, 4], [6, 2], [7, 9]]
    data = read("id,x\na,1\nb,2\na,3\n")
    assert data.ids == ("a", "b") and [x.tolist() for x in data.sequences] == [[[1], [3]], [[2]]]


def test_a_tabulator_may_be_spelt_out(write):
    path = write("id\ttime\tx\na\t0\t1\na\t1\t2\n")
    for name in ("tab", r"\t", "\t"):
        assert read(path, delimiter=name).sequences[0].tolist() == [[1], [2]]


def test_lines_that_end_with_a_comma(write):
    path = write("id,time,x,\na,0,1,\na,1,2,\n")
    assert read_csv(path).channel_names == ("x",) and read_csv(path, time=None).channel_names == ("time", "x")
    assert read_csv(path, ordered=False).channel_names == ("x",)
    assert read_csv(write("id,time,x,\na,0,1,\na,1,2,3\n")).channel_names == ("x", "")


@pytest.mark.parametrize("gone", [(0,), (5,), (19,), (0, 7, 8, 19)])
@pytest.mark.parametrize("way", ["file", "frame"])
def test_a_time_that_is_missing_is_that_between_the_others(write, gone, way):
    t, x = np.arange(20) / 50, np.arange(20.0)
    cells = ["" if i in gone else f"{value:g}" for i, value in enumerate(t)]
    if way == "file":
        data = read_csv(
            write("id,time [s],x\n" + "".join(f"a,{c},{v}\n" for c, v in zip(cells, x, strict=True))), time="time [s]"
        )
    else:
        pd = pytest.importorskip("pandas")
        seen = [float(c or "nan") for c in cells]
        data = from_frame(pd.DataFrame({"id": "a", "time [s]": seen, "x": x}), time="time [s]")
    assert data.sampling_rate == pytest.approx(50)
    np.testing.assert_array_equal(data.sequences[0].ravel(), x)


class TestHeader:
    """Files whose first line is no line of names, or one with the same name twice."""

    def test_numbers_only_are_data(self, write):
        rows = np.random.default_rng(0).standard_normal((30, 5)).round(4)
        path = write("".join(",".join(map(repr, row)) + "\n" for row in rows.tolist()))
        with pytest.warns(UserWarning, match="first line of numbers, which is used as data"):
            data = read_csv(path, id=None, time=None)
        np.testing.assert_array_equal(data.sequences[0], rows)
        assert data.channel_names is None
        quoted = write("".join(",".join(f'"{value}"' for value in row) + "\n" for row in rows.tolist()))
        with pytest.warns(UserWarning, match="first line"):  # cell by cell
            again = read_csv(quoted, id=None, time=None)
        np.testing.assert_array_equal(again.sequences[0], rows)

    def test_data_with_a_word_are_taken_for_names_with_a_warning(self, write):
        path = write("5.1,3.5,setosa\n4.9,3.0,setosa\n6.9,3.0,virginica\n")
        with pytest.warns(UserWarning, match=r"numbers such as 5\.1 in its first line, .* write a line of names above"):
            data = read_csv(path, id=None, time=None, channels=["5.1", "3.5"])
        assert data.channel_names == ("5.1", "3.5") and len(data.sequences[0]) == 2

    IRIS = ["5.1,3.5,1.4,setosa", "4.9,3.0,1.4,setosa", "6.9,3.1,4.9,versicolor", "6.3,3.3,6.0,virginica"]  # noqa: RUF012

    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
    @pytest.mark.parametrize("mark", ["", '"'])
    def test_a_last_text_that_occurs_again_is_the_label(self, write, order, mark):
        rows = [self.IRIS[i].split(",") for i in order]
        path = write("".join(",".join(f"{mark}{cell}{mark}" for cell in row) + "\n" for row in rows))
        with pytest.warns(UserWarning, match=r"first line of numbers|texts such as 'setosa' in column 3"):
            data = read(path, id="auto", ordered=False)
        assert data.labels is not None and data.labels.tolist() == [row[3] for row in rows]
        np.testing.assert_array_equal(np.concatenate(data.sequences), [[*map(float, row[:3])] for row in rows])

    def test_one_that_does_not_is_the_label_if_it_is_named_by_number(self, write):
        path = write("\n".join(self.IRIS[1:]))
        with pytest.warns(UserWarning, match=r"used as names: .* such as label=3 \(--read label=3\)"):
            assert len(read(path, id=None, time=None, channels=["4.9"]).sequences[0]) == 2
        with pytest.warns(UserWarning, match="used as data: columns are named by numbers"):
            data = read(path, id="auto", ordered=False, label=3)
        assert data.labels is not None and data.labels.tolist() == ["setosa", "versicolor", "virginica"]

    def test_wavelengths_above_species_are_names(self, write):
        path = write("400.5,401.5,species\n.1,.2,a\n.3,.4,a\n.5,.6,b\n")
        with pytest.warns(UserWarning, match="used as names"):
            data = read(path, id="auto", ordered=False, label="species")
        assert data.channel_names == ("400.5", "401.5") and len(data) == 3

    def test_an_id_and_a_label_by_number(self, write):
        path = write("".join(f"{i},{t},{t * t - i},{i % 2}\n" for i in (3, 1, 2) for t in range(4)))
        with pytest.warns(UserWarning, match="first line"):
            data = read(path, id=0, time=1, label=3)
        assert data.ids == ("3", "1", "2") and data.labels.tolist() == ["1", "1", "0"]
        assert [x.ravel().tolist() for x in data.sequences] == [[t * t - i for t in range(4)] for i in (3, 1, 2)]

    def test_where_a_cell_is_no_number(self, write):
        with pytest.raises(ReadError, match="line 2, column '1' is 'high', which is not a number"):
            read_csv(write("1.5,2\n3,high\n"), id=None, time=None)

    @pytest.mark.parametrize("first", ["0,1,2", "0,1,2,3,4,5,0", "0,1,2,0,1"])
    def test_numbers_that_pandas_writes_are_names(self, write, first):
        names = first.split(",")
        row = ",".join("0.5" for _ in names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = read_csv(write(f"{first}\n{row}\n{row}\n"), id=None, time=None)
        assert data.sequences[0].shape == (2, len(names))
        pd = pytest.importorskip("pandas")
        assert data.channel_names == tuple(pd.read_csv(io.StringIO(f"{first}\n{row}\n")).columns)

    def test_the_second_of_two_names(self, write):
        path = write("x,x,y,x.1,x\n1,2,3,4,5\n")
        with pytest.warns(UserWarning, match=r"duplicate column names: the later columns are named 'x\.2', 'x\.3'$"):
            data = read_csv(path, id=None, time=None)
        assert data.channel_names == ("x", "x.2", "y", "x.1", "x.3") and data.sequences[0].tolist() == [[1, 2, 3, 4, 5]]
        with pytest.warns(UserWarning, match=r"named '0\.1'$"):
            data = read(write("0,1,2,3,4,5,0\n" + "1,2,3,4,5,6,7\n" * 2), id="auto", ordered=False, label=0.1)
        assert data.labels.tolist() == ["7", "7"] and data.sequences[0].tolist() == [[1, 2, 3, 4, 5, 6]]


class TestOptions:
    """Options as a command line has them: a list is text with commas, a name may look like a number."""

    @pytest.mark.parametrize("channels", ["x,z", " x , z", ["x", "z"], ("x", "z")])
    def test_a_list(self, write, channels):
        path = write("id,time,x,y,z\na,0,1,2,3\na,1,4,5,6\n")
        data = read(path, channels=channels)
        assert data.channel_names == ("x", "z") and data.sequences[0].tolist() == [[1, 3], [4, 6]]

    def test_one_in_a_list(self, write):
        path = write("id,time,x,2\na,0,1,2\na,1,4,5\n")
        assert read(path, channels="x").channel_names == ("x",)
        assert read(path, channels=2).channel_names == read(path, channels=(2,)).channel_names == ("2",)
        with pytest.raises(ReadError, match="has no column 'xy'"):
            read(path, channels="xy")

    @needs("pyarrow")
    def test_a_list_of_parquet(self, tmp_path):
        (tmp_path / "walks.parquet").write_bytes(parquet_bytes())
        assert read(tmp_path / "walks.parquet", channels="y,x").channel_names == ("y", "x")

    def test_every_list_and_name_of_a_plugin(self, tmp_path):
        def read_levels(path, *, sizes: Sequence[int] = (), names: list[str] | None = None, key: str = "", n: int = 1):
            return SequenceData([np.ones((2, 1))], name=repr((list(sizes), names, key, n)))

        ms.register(ms.hooks.ReaderSpec("levels", ("*.levels",), read_levels))
        (tmp_path / "a.levels").write_text("")
        data = read(tmp_path / "a.levels", sizes=3, names="a,b", key=7, n=4)
        assert data.name == repr(([3], ["a", "b"], "7", 4))


WHEN = {
    "day and time": ("2024-05-01T12:00:00.02", "2024-05-01 12:00:00", "2024-05-01T12:00:00.0400"),
    "with an offset": ("2024-03-31T03:00:00.000+02:00", "2024-03-31T01:59:59.98+01:00", "2024-03-31T01:00:00.02Z"),
    "time of day": ("23:59:59.96", "23:59:59.94", "23:59:59.98"),
}


class TestDates:
    """ISO 8601 in text."""

    @pytest.mark.parametrize("form", WHEN)
    @pytest.mark.parametrize("name", ["time", "recorded"])
    @pytest.mark.parametrize("mark", ["", '"'])
    def test_the_clock(self, write, form, name, mark):
        rows = [f"{who},{mark}{when}{mark},{i}\n" for who in "ab" for i, when in enumerate(WHEN[form])]
        data = read_csv(write(f"id,{name},x\n" + "".join(rows)))
        assert (data.clocks, data.sampling_rate) == ((name,), pytest.approx(50))
        assert [x.ravel().tolist() for x in data.sequences] == [[1, 0, 2]] * 2

    def test_days_and_holes(self, write):
        rows = [f"a,{when},{i}" for i, when in enumerate(["2024-02-28", "", "2024-03-01", "2024-03-02", "?"])]
        data = read_csv(write("\n".join(["id,date,x", *rows])))
        assert data.clocks == ("date",) and data.sampling_rate == pytest.approx(1 / 86400)
        assert data.sequences[0].ravel().tolist() == [0, 1, 2, 3, 4]

    def test_a_first_line_with_dates_above_dates_is_data(self, write):
        with pytest.warns(UserWarning, match="first line of numbers, which is used as data"):
            data = read_csv(write("2024-05-02,1,2\n2024-05-01,3,4\n"), id=None)
        assert data.sequences[0].tolist() == [[3, 4], [1, 2]] and data.clocks == ("0",)
        assert read_csv(write("2024-05-01,2024-05-02\n3,4\n"), id=None, time=None).channel_names is not None

    @needs("pandas")
    def test_the_same_as_pandas_and_a_frame(self, write):
        pd = pytest.importorskip("pandas")
        when = pd.date_range("2023-12-31 23:59", periods=50, freq="17ms", tz="Europe/Berlin")[::-1]
        frame = pd.DataFrame({"id": ["a", "b"] * 25, "time": when, "x": np.arange(50.0)})
        stream = io.StringIO()
        frame.to_csv(stream, index=False)
        data, same = read_csv(write(stream.getvalue())), from_frame(frame.assign(time=when.tz_convert(None)))
        assert data.sampling_rate == same.sampling_rate == pytest.approx(1 / 0.034)
        for got, want in zip(data.sequences, same.sequences, strict=True):
            np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize(
        ("cells", "sentence"),
        [
            (["2024-02-29", "2023-02-29"], "line 3, column 'time' is '2023-02-29', which is not a date in the form"),
            (["2024-02-29T10:00", "2024-02-29T10:00Z"], "line 3, column 'time' is '2024-02-29T10:00Z', which is not a"),
            (["2024-02-29", "12:00:00"], "line 3, column 'time' is '12:00:00', which is not a date in the form"),
            (
                ["29.02.2024", "01.03.2024"],
                "column 'time' is '29.02.2024', which is not a number in decimal digits: write a date",
            ),
            (["2/29/2024 10:00", "1"], "write a date as 2024-05-01, or pass date_format=%d.%m.%Y"),
            (["2024-02-29", "2024-02-29"], "line 2 and line 3: both have the same time of id 'a': remove"),
            (["2024-02-29", "2024-02-29"], "correct one, or name another time column and the channels (time=…"),
            ([1, "2024-02-29"], "'2024-02-29', which is not a number in decimal digits: write a number"),
        ],
    )
    def test_defects_raise_an_error(self, write, cells, sentence):
        with pytest.raises(ReadError) as caught:
            read_csv(write("id,time,x\n" + "".join(f"a,{cell},1\n" for cell in cells)))
        assert sentence in str(caught.value) and "\n" not in str(caught.value)

    def test_far_down_a_date_is_no_date(self, write):
        lines = [f"a,2024-01-01T00:{i // 60:02}:{i % 60:02},{i}" for i in range(3000)]
        lines[2500] = "a,soon,7"
        with pytest.raises(ReadError, match="line 2502, column 'time' is 'soon', which is not a date in the form"):
            read_csv(write("\n".join(["id,time,x", *lines])))

    def test_samples_may_have_the_same_date(self, write):
        path = write("id,date,x\na,2024-05-02,1\nb,2024-05-01,2\na,2024-05-02,3\n")
        data = read(path, id="auto", ordered=False)
        assert data.ids == ("a", "b") and [x.ravel().tolist() for x in data.sequences] == [[1, 3], [2]]
        assert data.clocks == ("date",) and data.sampling_rate is None


def test_decimal_commas(write):
    text = "id;time;x;label\na b,c;0,5;-1,25e1;1,5\na b,c;1,5;;1,5\na b,c;2,5;3;1,5\n"
    data = read(write(text), decimal=",")
    assert data.ids == ("a b,c",) and data.labels is not None and data.labels.tolist() == ["1,5"]
    np.testing.assert_array_equal(data.sequences[0].ravel(), [-12.5, np.nan, 3])
    assert data.sampling_rate == 1
    quoted = read(write('id,time,x\na,"0,5",1\na,"1,5","2,5"\n'), decimal=",", delimiter=",")
    assert quoted.sequences[0].ravel().tolist() == [1, 2.5]
    with pytest.raises(ReadError, match=r"line 2, column 'x' is '1\.5', which is not a number in decimal digits"):
        read(write("id;time;x\na;0;1.5\n"), decimal=",")
    with pytest.raises(ReadError, match="decimal is ';': pass a point or a comma"):
        read(write(text), decimal=";")
    with pytest.warns(UserWarning, match="first line of numbers"):
        assert read(write("1,5;2\n3;4,5\n"), id=None, time=None, decimal=",").sequences[0].tolist() == [
            [1.5, 2],
            [3, 4.5],
        ]
