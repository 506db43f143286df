"""The reader of folders: order, labels, and the error for each defect."""

from __future__ import annotations

import numpy as np
import pytest
from storage.samples import frame_bytes, needs, rejects

import manifoldseq as ms
from manifoldseq.storage import ReadError, read, read_directory


def fill(folder, files):
    """Write files; the value is an array for .npy, else text; None makes a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.write_text(content)
        else:
            np.save(path, content)
    return folder


def in_one_piece(arrays):
    """Return whether the rows of arrays lie one after the other in memory."""
    starts = [x.__array_interface__["data"][0] for x in arrays]
    return all(b - a == x.nbytes for a, b, x in zip(starts, starts[1:], arrays, strict=False))


def test_files_in_natural_order(tmp_path):
    files = {f"walk{i}.npy": np.full((i + 1, 2), i) for i in range(12)}
    data = read_directory(fill(tmp_path / "walks", {**files, ".hidden": "x"}))
    assert [len(x) for x in data.sequences] == list(range(1, 13))
    assert data.name == "walks" and data.labels is None


def test_tables_with_and_without_names(tmp_path):
    data = read_directory(fill(tmp_path / "a", {"1.csv": "x,y\n1,2\n3,\n", "2.csv": "x,y\n5,6\n"}))
    np.testing.assert_array_equal(data.sequences[0], [[1, 2], [3, np.nan]])
    assert data.channel_names == ("x", "y")
    data = read_directory(fill(tmp_path / "b", {"1.csv": "1.0,1\n3,1\n", "2.CSV": "5,1\n"}))
    assert [x.ravel().tolist() for x in data.sequences] == [[1, 1, 3, 1], [5, 1]]
    assert data.channel_names is None


class TestIdsAndLabels:
    """Columns of tables that are no channels: the id and the label of a file."""

    def fill(self, folder, form, **columns):
        """Write three files of three rows; `columns` maps names to the cells of file i."""
        for i in range(3):
            table = {"x": [i + 0.5, 2.0, 3.0], **{name: make(i) for name, make in columns.items()}}
            if form == "parquet":
                folder.mkdir(exist_ok=True)
                (folder / f"{i}.parquet").write_bytes(frame_bytes(**table))
            else:
                mark = '"' if form == "quoted" else ""  # cell by cell
                rows = [",".join(f"{mark}{cell}{mark}" for cell in row) for row in zip(*table.values(), strict=True)]
                fill(folder, {f"{i}.csv": "\n".join([",".join(table), *rows]) + "\n"})
        return folder

    @pytest.mark.parametrize("kind", ["csv", "quoted", pytest.param("parquet", marks=needs("pyarrow"))])
    def test_one_value_per_file(self, tmp_path, kind):
        columns = {"label": lambda i: ["up" if i else "down"] * 3, "id": lambda i: [f"S{9 - i} "] * 3}
        data = read_directory(self.fill(tmp_path / "a", kind, **columns))
        assert data.channel_names == ("x",) and data.ids == ("S9", "S8", "S7")
        assert data.labels is not None and data.labels.tolist() == ["down", "up", "up"]
        assert [x.ravel().tolist() for x in data.sequences] == [[i + 0.5, 2, 3] for i in range(3)]
        renamed = self.fill(tmp_path / "b", kind, kind=columns["label"], subject=columns["id"])
        same = read(renamed, id="subject", label="kind")
        assert same.ids == data.ids and same.labels is not None and same.labels.tolist() == data.labels.tolist()
        with pytest.raises(ReadError, match=r"has no column 'sort', only .*: name the column with label=…"):
            read_directory(renamed, label="sort")

    @pytest.mark.parametrize("kind", ["csv", "quoted", pytest.param("parquet", marks=needs("pyarrow"))])
    def test_several_values_in_a_file_are_left_out_unless_asked_for(self, tmp_path, kind):
        folder = self.fill(tmp_path / "a", kind, label=lambda i: [0, i, 0])
        with pytest.warns(
            UserWarning, match=r"1\.(csv|parquet), column 'label' has '?0'? and '?1'?, not one value for"
        ):
            data = read_directory(folder)
        assert data.channel_names == ("x",) and data.labels is None
        data = read_directory(folder, label=None)
        assert data.channel_names == ("x", "label") and data.sequences[2][:, 1].tolist() == [0, 2, 0]

    def test_the_id_of_several_files(self, tmp_path):
        folder = self.fill(tmp_path / "a", "csv", id=lambda i: ["S1" if i else "S0"] * 3)
        with pytest.warns(UserWarning, match="several files with the id 'S1': the file names are used as ids"):
            assert read_directory(folder).ids == ("0.csv", "1.csv", "2.csv")

    def test_labels_from_two_places(self, tmp_path):
        folder = self.fill(tmp_path / "a", "csv", label=lambda i: ["up" if i else "down"] * 3)
        fill(folder, {"labels.csv": "0,down\n1,up\n2,down\n"})
        with pytest.warns(
            UserWarning,
            match=r"2\.csv has the label 'up' in the table, but labels\.csv gives 'down': the label in the table",
        ):
            data = read_directory(folder)
        assert data.labels is not None and data.labels.tolist() == ["down", "up", "down"]


def test_an_array_is_sorted_by_a_column_that_is_named(tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 9, 3))
    folder = fill(tmp_path, {f"{i}.npy": rows for i, rows in enumerate(x)})
    data = read(folder, time=1)
    assert data.clocks == ("column 1",)
    for got, rows in zip(data.sequences, x, strict=True):
        np.testing.assert_array_equal(got, rows[np.argsort(rows[:, 1])][:, [0, 2]])
    with pytest.raises(
        ReadError, match="has no column 'bogus', only 0, 1, 2: name the column with time=…, or time=None"
    ):
        read(folder, time="bogus")
    for options, sentence in (({"label": "kind"}, "has no column 'kind'"), ({"delimiter": ";"}, "have no delimiter")):
        with pytest.raises(ReadError, match=sentence):
            read(folder, **options)


def test_a_first_line_is_warned_of_as_in_one_file(tmp_path):
    with pytest.warns(UserWarning, match=r"1\.csv has a first line of numbers, which is used as data: if it names"):
        data = read_directory(fill(tmp_path / "a", {"1.csv": "2020,2021\n0.5,3\n", "2.csv": "2020,2021\n1,2\n"}))
    assert [len(x) for x in data.sequences] == [2, 2]
    with pytest.warns(UserWarning, match=r"1\.csv has duplicate column names: the later columns are named 'x\.1'$"):
        data = read_directory(fill(tmp_path / "b", {"1.csv": "x,x\n1,2\n", "2.csv": "x,x\n3,4\n"}))
    assert data.channel_names == ("x", "x.1")


@pytest.mark.parametrize(("mark", "names"), [(";", [";"]), ("\t", ["\t", "tab", r"\t"])])
def test_another_delimiter(tmp_path, mark, names):
    files = {f"{i}.csv": f"x,y,label\n{i}.5,2,a\n3,4,a\n".replace(",", mark) for i in range(2)}
    folder = fill(tmp_path / "a", {**files, "labels.csv": "0,a\n1,a\n".replace(",", mark)})
    for name in names:
        data = read(folder, delimiter=name)
        assert data.channel_names == ("x", "y") and data.sequences[1].tolist() == [[1.5, 2], [3, 4]]
    shown = "';'" if mark == ";" else "tab"
    with pytest.raises(
        ReadError, match=rf"0\.csv has one column .*: if {shown} separates the cells, .*--read delimiter="
    ):
        read(folder)


def test_lines_that_end_with_a_comma(tmp_path):
    data = read_directory(fill(tmp_path / "a", {"1.csv": "x,y,\n1,2,\n3,4,\n", "2.csv": "x,y,\n5,6,\n"}))
    assert data.channel_names == ("x", "y") and data.sequences[0].tolist() == [[1, 2], [3, 4]]
    data = read_directory(fill(tmp_path / "b", {"1.csv": "1.5,2,\n3,4,\n", "2.csv": "5,6,\n"}))
    assert data.channel_names is None and data.sequences[1].tolist() == [[5, 6]]
    data = read_directory(fill(tmp_path / "c", {"1.csv": "x,y,\n1,2,\n", "2.csv": "x,y,\n5,6,7\n"}))
    assert data.channel_names == ("x", "y", "") and data.sequences[1].tolist() == [[5, 6, 7]]


def test_folders_are_labels(tmp_path):
    one = np.zeros(3)
    data = read_directory(fill(tmp_path, {"run/1.npy": one, "walk/2.npy": one, "walk/10.npy": one[:2]}))
    assert data.labels is not None and data.labels.tolist() == ["run", "walk", "walk"]
    assert [x.shape for x in data.sequences] == [(3, 1), (3, 1), (2, 1)]


def test_small_arrays_are_parts_of_one_in_their_precision(tmp_path):
    files = {f"{i}.npy": np.full((i + 2, 3), i, np.float32) for i in range(12)}
    data = read_directory(fill(tmp_path / "a", files))
    assert in_one_piece(data.sequences) and {x.dtype for x in data.sequences} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(np.concatenate(data.sequences), np.concatenate(list(files.values())))
    for unlike in (np.zeros((3, 3)), np.zeros(3, np.float32)):  # another precision, another number of dimensions
        shape = {"0.npy": unlike} if unlike.ndim == 2 else {f"{i}.npy": unlike for i in range(12)}
        data = read_directory(fill(tmp_path / f"{unlike.ndim}", {**files, **shape}))
        assert not in_one_piece(data.sequences) and all(x.flags.c_contiguous for x in data.sequences)


def test_more_than_fits_stays_on_disk(tmp_path, leave_memory):
    folder = fill(tmp_path, {f"{i}.npy": np.full((100, 100), i, np.float32) for i in range(5)})
    leave_memory(100_000)
    data = read_directory(folder)
    assert [x[0, 0] for x in data.sequences] == [0, 1, 2, 3, 4] and not data.sequences[0].flags.writeable
    fill(tmp_path, {"5.npy": np.zeros((100, 100), int)})  # would have to be converted
    with pytest.raises(ReadError, match="of memory"):
        read_directory(folder)


class TestChannels:
    """`channels` of folders, as of single files."""

    @pytest.mark.parametrize("kind", ["csv", "quoted", "npy", pytest.param("parquet", marks=needs("pyarrow"))])
    def test_the_same_as_the_columns_of_all(self, tmp_path, kind):
        x = np.random.default_rng(0).standard_normal((3, 7, 3))
        for i, rows in enumerate(x):
            table = {"a": rows[:, 0], "note": ["good"] * 7, "b": rows[:, 1], "c": rows[:, 2]}
            if kind == "npy":
                fill(tmp_path, {f"{i}.npy": rows.astype(np.float32)})
            elif kind == "parquet":
                (tmp_path / f"{i}.parquet").write_bytes(frame_bytes(**table))
            else:
                mark = '"' if kind == "quoted" else ""
                lines = [",".join(f"{mark}{cell}{mark}" for cell in row) for row in zip(*table.values(), strict=True)]
                fill(tmp_path, {f"{i}.csv": "\n".join(["a,note,b,c", *lines])})
        data = read(tmp_path, channels="2,0" if kind == "npy" else "c,a")
        assert data.channel_names == (None if kind == "npy" else ("c", "a")) and data.clocks == ()
        for got, rows in zip(data.sequences, x, strict=True):
            np.testing.assert_array_equal(got, rows[:, [2, 0]].astype(got.dtype))
        with pytest.raises(ReadError, match=r"has no column 'd', only .*: name the column with channels=…"):
            read(tmp_path, channels="d")

    def test_a_time_column_next_to_them_is_the_clock(self, tmp_path):
        files = {f"{i}.csv": "time,x,y\n0,1,2\n.1,3,4\n.2,5,6\n" for i in range(2)}
        data = read(fill(tmp_path / "a", files), channels=["y"])
        assert (data.clocks, data.sampling_rate, data.channel_names) == (("time",), 10, ("y",))
        assert read(tmp_path / "a", channels=["time", "y"]).sequences[0].tolist() == [[0, 2], [0.1, 4], [0.2, 6]]
        fill(tmp_path / "a", {"1.csv": "time,x,y\n5,1,2\n.1,3,4\n.2,5,6\n"})
        assert read(tmp_path / "a", channels=["y"]).clocks == ()
        data = read(tmp_path / "a", channels=["y"], time="time")
        assert data.sequences[1].tolist() == [[4], [6], [2]] and data.clocks == ("time",)

    def test_by_number_where_there_are_no_names(self, tmp_path):
        data = read(fill(tmp_path, {"1.csv": "1.5,2,3\n4,5,6\n", "2.csv": "7,8,9\n"}), channels="2,0")
        assert data.channel_names is None and [x.tolist() for x in data.sequences] == [[[3, 1.5], [6, 4]], [[9, 7]]]


def test_rows_say_where_they_were(tmp_path):
    rng = np.random.default_rng(0)
    tables = [np.column_stack([rng.permutation(n) / 10, rng.standard_normal(n)]) for n in (9, 1, 12)]
    files = {f"{i}.csv": "t,x\n" + "".join(f"{t!r},{x!r}\n" for t, x in rows.tolist()) for i, rows in enumerate(tables)}
    data = read(fill(tmp_path, files), time="t")
    assert data.order is not None and data.sampling_rate == pytest.approx(10)
    rows = np.concatenate(tables)[data.order]
    np.testing.assert_array_equal(np.concatenate(data.sequences), rows[:, 1:])
    assert (np.diff(rows[:9, 0]) > 0).all() and (np.diff(rows[10:, 0]) > 0).all()
    assert read(tmp_path, time=None).order is None
    scaled = ms.storage.scale(data)
    assert scaled.order is not None and scaled.order.tolist() == data.order.tolist()
    assert ms.storage.windows(read(tmp_path / "2.csv", id=None, time="t"), 12).order is None


class TestDates:
    """A column of dates is the clock, in text as in Parquet."""

    @pytest.mark.parametrize("kind", ["csv", "quoted", pytest.param("parquet", marks=needs("pyarrow"))])
    @pytest.mark.parametrize("name", ["when", "t_ms", "frame"])
    def test_the_clock(self, tmp_path, kind, name):
        start = np.datetime64("2024-05-01T23:59:59.900", "ms")
        order = np.random.default_rng(0).permutation(12)
        for i in range(2):
            when = start + 20 * order + 86_400_000 * i
            if kind == "parquet":
                (tmp_path / f"{i}.parquet").write_bytes(frame_bytes(**{name: when, "x": order + i}))
            else:
                mark = '"' if kind == "quoted" else ""
                rows = [f"{mark}{t}{mark},{x + i}" for t, x in zip(when, order.tolist(), strict=True)]
                fill(tmp_path, {f"{i}.csv": "\n".join([f"{name},x", *rows])})
        data = read(tmp_path)
        assert (data.clocks, data.sampling_rate, data.channel_names) == ((name,), 50, ("x",))
        for i, x in enumerate(data.sequences):
            assert x.ravel().tolist() == [j + i for j in range(12)]

    def test_what_is_not_alike_is_an_error(self, tmp_path):
        one = "when,x\n2024-05-01,1\n2024-05-02,2\n"
        with pytest.raises(ReadError, match=r"b\.csv and a\.csv have dates in different formats: use the same format"):
            read(fill(tmp_path / "a", {"a.csv": one, "b.csv": "when,x\n5,1\n6,2\n"}))
        with pytest.raises(
            ReadError,
            match=r"a\.csv has several columns of time stamps, 'when' and 'end': name the time column with time=…",
        ):
            read(fill(tmp_path / "b", {"a.csv": "when,end,x\n2024-05-01,2024-05-02,1\n"}))
        days = fill(tmp_path / "c", {"a.csv": "day,t,x\n" + "".join(f"2024-05-01,{t},1\n" for t in range(5))})
        with pytest.raises(
            ReadError,
            match=r"two rows with the same .*: correct or remove these rows, or name another time column and the",
        ):
            read(days)
        assert read(days, time="t", channels="x").clocks == ("t",)
        data = read(tmp_path / "b", time="end", channels=["x"])
        assert data.clocks == ("end",)
        with pytest.raises(ReadError, match=r"column 'when' is '2024-05-01', which is not a number .* pass time=when"):
            read(tmp_path / "b", time="end")


@pytest.fixture
def subjects(tmp_path):
    """Return a folder of three files whose ids stand in a column."""
    return fill(tmp_path / "s", {f"{i}.csv": f"id,x\nS{9 - i},1\nS{9 - i},{i}\n" for i in range(3)})


class TestTableOfLabels:
    """`labels.csv` by names of files or ids, with more columns than two."""

    TABLES = {  # noqa: RUF012
        "ids": "S9,a\nS7,c\nS8,b\n",
        "names": "0,a\n1.csv,b\n2,c\n",
        "both": "id,kind\n2,c\n0.csv,a\nS8,b\n",
        "three columns": "age,label,file\n40,a,0\n50,b,1\n60,c,2.csv\n",
        "ids in three columns": "id,age,label\nS9,40,a\nS8,50,b\nS7,60,c\n",
        "file before id": "id,file,label\nS1,0,a\nS2,1,b\nS3,2,c\n",
        "turned": "label,id\na,S9\nb,S8\nc,S7\n",
    }

    @pytest.mark.parametrize("case", TABLES)
    def test_what_is_accepted(self, subjects, case):
        data = read(fill(subjects, {"labels.csv": self.TABLES[case]}))
        assert data.ids == ("S9", "S8", "S7") and data.labels is not None and data.labels.tolist() == ["a", "b", "c"]

    def test_columns_that_options_name(self, subjects):
        fill(subjects, {"labels.csv": "who,age,kind\nS9,40,a\nS8,50,b\nS7,60,c\n"})
        with pytest.raises(
            ReadError, match=r"line 1 has the cells who, age, kind, .* give their names with id=… and label=…"
        ):
            read(subjects)
        fill(subjects, {"labels.csv": "id,age,kind\nS9,40,a\nS8,50,b\nS7,60,c\n"})
        data = read(subjects, label="kind")
        assert data.labels is not None and data.labels.tolist() == ["a", "b", "c"]
        assert read(subjects, label="age").labels.tolist() == ["40", "50", "60"]  # type: ignore[union-attr]

    def test_names_that_are_ids_of_others(self, tmp_path):
        folder = fill(tmp_path / "s", {f"{i}.csv": f"id,x\n{(i + 1) % 3},1\n" for i in range(3)})
        fill(folder, {"labels.csv": "0,a\n1,b\n2,c\n"})
        with pytest.raises(ReadError, match=r"line 1: 0 matches 0\.csv and 2\.csv: write the whole name of the file"):
            read(folder)
        fill(folder, {"labels.csv": "0.csv,a\n1.csv,b\n2.csv,c\n"})
        assert read(folder).labels.tolist() == ["a", "b", "c"]  # type: ignore[union-attr]


def test_text_at_the_end_of_rows_without_names_is_the_label(tmp_path):
    rows = {f"{kind}{i}.csv": f"{i}.5,2,{kind}\n3,4,{kind}\n5,6,{kind}\n" for i in range(2) for kind in ("up", "down")}
    with pytest.warns(UserWarning, match=r"has texts such as 'down' in column 2, which are used as labels"):
        data = read(fill(tmp_path, rows))
    assert data.labels is not None and data.labels.tolist() == ["down", "down", "up", "up"]
    assert data.channel_names is None and data.sequences[1].tolist() == [[1.5, 2], [3, 4], [5, 6]]


@needs("pyarrow")
class TestParquet:
    def fill(self, folder, **columns):
        folder.mkdir()
        for i in range(3):
            (folder / f"{i}.parquet").write_bytes(frame_bytes(**{n: make(i) for n, make in columns.items()}))
        return folder

    def test_the_same_as_tables_of_text(self, tmp_path):
        def column(i, seed):
            return np.random.default_rng([i, seed]).standard_normal(20 + i)

        columns = {"t": lambda i: np.arange(20 + i) / 8, "x": lambda i: column(i, 0), "y": lambda i: column(i, 1)}
        data = read_directory(self.fill(tmp_path / "p", **columns))
        tables = [np.column_stack([make(i) for make in columns.values()]).tolist() for i in range(3)]
        texts = {f"{i}.csv": "\n".join(["t,x,y", *(",".join(map(repr, row)) for row in tables[i])]) for i in range(3)}
        same = read_directory(fill(tmp_path / "c", texts))
        assert (data.clocks, data.sampling_rate, data.channel_names) == (("t",), 8, ("x", "y"))
        assert (same.clocks, same.sampling_rate, same.channel_names) == (("t",), 8, ("x", "y"))
        assert data.ids == ("0.parquet", "1.parquet", "2.parquet")
        for got, want in zip(data.sequences, same.sequences, strict=True):
            np.testing.assert_array_equal(got, want)

    def test_single_precision_stays(self, tmp_path):
        data = read_directory(
            self.fill(tmp_path / "p", x=lambda i: np.full(70_000, i, "f4"), y=lambda i: np.ones(70_000, "f4"))
        )
        assert data.sequences[0].dtype == np.float32
        assert [x.mean(axis=0).tolist() for x in data.sequences] == [[0, 1], [1, 1], [2, 1]]

    def test_time_stamps_are_the_clock(self, tmp_path):
        start = np.datetime64("2024-05-01T12:00", "ms")
        folder = self.fill(
            tmp_path / "p", when=lambda i: start + 20 * np.arange(5)[::-1], x=lambda i: [0, 1, 2, None, 4]
        )
        data = read_directory(folder)
        assert data.clocks == ("when",) and data.sampling_rate == 50
        np.testing.assert_array_equal(data.sequences[0].ravel(), [4, np.nan, 2, 1, 0])
        with pytest.raises(ReadError, match=r"column 'when' contains timestamp\[ms\] and no numbers"):
            read_directory(folder, time=None)

    @pytest.mark.parametrize(
        ("columns", "sentence"),
        [
            ({"x": lambda i: ["a", "b"]}, "0.parquet, column 'x' contains string and no numbers"),
            ({"x": lambda i: [[1.0], [2.0]]}, "0.parquet, column 'x' contains list<"),
            ({"x": lambda i: np.ones(i)}, "0.parquet has a header but no rows: add one row per time step"),
            (
                {"a": lambda i: [np.datetime64(1, "s")], "b": lambda i: [np.datetime64(1, "s")]},
                "time stamps, 'a' and 'b'",
            ),
        ],
    )
    def test_defects_raise_an_error(self, tmp_path, columns, sentence):
        with pytest.raises(ReadError) as caught:
            read_directory(self.fill(tmp_path / "p", **columns))
        assert sentence in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("index", "clocks", "rate"),
        [
            (lambda i: np.datetime64("2024-05-01", "ms") + 20 * np.arange(6)[::-1], ("time",), 50),
            (lambda i: i + 0.25 * np.arange(6), ("time",), 4),
            (lambda i: np.array([0.5, 0.1, 0.9, 0.3, 0.2, 0.8]), (), None),
            (lambda i: np.array([5, 6, 7, 9, 11, 40]), (), None),
            (lambda i: list("abcdef"), (), None),
        ],
        ids=["dates", "a clock", "floats", "row numbers", "names of rows"],
    )
    def test_an_index_without_a_name_is_no_channel(self, tmp_path, index, clocks, rate):
        """As in one file and in `from_frame`: the time if it holds dates or is a clock of floats, else nothing."""
        pd = pytest.importorskip("pandas")
        frames = [pd.DataFrame({"x": np.arange(6.0) + i}, index=pd.Index(index(i))) for i in range(3)]
        (tmp_path / "folder").mkdir()
        for i, frame in enumerate(frames):
            frame.to_parquet(tmp_path / "folder" / f"{i}.parquet")
        frame = pd.concat([frame.assign(id=f"{i}.parquet") for i, frame in enumerate(frames)])
        frame.to_parquet(tmp_path / "long.parquet")
        options = {} if clocks else {"time": None}
        for data in (
            read(tmp_path / "folder"),
            read(tmp_path / "long.parquet", **options),
            ms.storage.from_frame(frame, id="id", **options),
        ):
            assert (data.clocks, data.sampling_rate, data.channel_names) == (clocks, rate, ("x",))
            assert data.ids == ("0.parquet", "1.parquet", "2.parquet")
            first = data.sequences[0].ravel().tolist()
            assert first == sorted(first, reverse=isinstance(index(0)[0], np.datetime64))

    def test_an_index_of_dates_comes_before_other_dates(self, tmp_path):
        pd = pytest.importorskip("pandas")
        when = pd.date_range("2024-05-01", periods=5, freq="20ms")[::-1]
        pd.DataFrame({"x": np.arange(5.0), "born": when}, index=when).to_parquet(tmp_path / "0.parquet")
        with pytest.raises(ReadError, match=r"column 'born' contains timestamp.*choose other columns with channels=…"):
            read(tmp_path)
        for data in (read(tmp_path, channels="x"), read(tmp_path / "0.parquet", id=None, channels="x")):
            assert data.clocks == ("time",) and data.sequences[0].ravel().tolist() == [4, 3, 2, 1, 0]

    def test_other_columns(self, tmp_path):
        folder = self.fill(tmp_path / "p", x=lambda i: [1.0])
        (folder / "3.parquet").write_bytes(frame_bytes(y=[1.0]))
        with pytest.raises(ReadError, match=r"3\.parquet has other channel names than 0\.parquet: use the same names"):
            read_directory(folder)
        (folder / "3.parquet").write_bytes(frame_bytes(x=[1.0], y=[1.0]))
        with pytest.raises(ReadError, match=r"3\.parquet has an array of shape \(1, 2\)"):
            read_directory(folder)


ONE = np.ones((2, 2))
BAD = {
    "nothing": ({".hidden": ""}, "has no files: keep one kind, .npy or .csv or .tsv or .txt or .parquet, with one"),
    "mixed": ({"a.npy": ONE, "b.csv": "1,2\n"}, "has files of the kinds .csv, .npy: keep one kind"),
    "unknown": ({"a.wav": ""}, "has files of the kinds .wav"),
    "next to folders": ({"a/1.npy": ONE, "b.npy": ONE}, "b.npy is a file next to subfolders: keep one subfolder"),
    "too deep": ({"a/b/1.npy": ONE}, "b is a folder in a subfolder"),
    "three dimensions": ({"a.npy": np.ones((2, 2, 2))}, "a.npy has an array of shape (2, 2, 2)"),
    "channels": ({"a.npy": ONE, "b.npy": ONE[:, :1]}, "b.npy has an array of shape (2, 1): save one sequence per file"),
    "damaged": ({"a.npy": ONE, "b.npy": "x"}, "b.npy cannot be read as a .npy file"),
    "empty": ({"a.csv": "", "b.csv": "1\n"}, "a.csv is empty"),
    "a word": ({"a.csv": "x\n1\n\nhigh\n"}, "a.csv, line 4, column 'x' is 'high', which is not a number in decimal"),
    "cells": ({"a.csv": "1,2\n1\n"}, "a.csv, line 2 has 1 cells, not 2: complete or remove it"),
    "names only": ({"a.csv": "x,y\n"}, "a.csv has a header but no rows: add one"),
    "other names": ({"a.csv": "x\n1\n", "b.csv": "y\n1\n"}, "b.csv has other channel names than a.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_defects_raise_an_error(tmp_path, case):
    files, sentence = BAD[case]
    with rejects(tmp_path, sentence):
        read_directory(fill(tmp_path, files))


@pytest.mark.parametrize("kind", ["integers", "text", pytest.param("parquet", marks=needs("pyarrow"))])
def test_what_is_read_into_memory_is_bounded(tmp_path, leave_memory, kind):
    def content(i):
        return {
            "integers": lambda: np.zeros((1000, 2), int),
            "text": lambda: "x,y\n" + "1,2\n" * 1000,
            "parquet": lambda: frame_bytes(x=np.zeros(1000), y=np.zeros(1000)),
        }[kind]()

    leave_memory(2 * 200_000)
    suffix = {"integers": "npy", "text": "csv", "parquet": "parquet"}[kind]
    for i in range(16):
        if isinstance(made := content(i), bytes):
            (tmp_path / f"{i}.{suffix}").write_bytes(made)
        else:
            fill(tmp_path, {f"{i}.{suffix}": made})
        if i == 0:
            assert read_directory(tmp_path).sequences[0].shape == (1000, 2)
    with pytest.raises(ReadError, match=r"would need .* GiB of memory, but a reader may use only"):
        read_directory(tmp_path)


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_directory(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        read_directory(fill(tmp_path, {"a.npy": ONE}) / "a.npy")
