"""Which columns of tables are clocks, and therefore no channels."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import needs

import manifoldseq as ms
from manifoldseq.storage import ReadError, read_csv, read_directory, read_parquet

RNG = np.random.default_rng(0)
LENGTHS = (40, 25, 31)


def channels(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((steps, 2)) for steps in LENGTHS]


def table(header, columns):
    lines = [] if header is None else [header]
    return "\n".join([*lines, *(",".join(repr(float(value)) for value in row) for row in columns)]) + "\n"


def folder(path, header, column, place=0):
    """Write three tables of two channels and `column(i, steps)` at a place among them."""
    for i, x in enumerate(channels()):
        rows = np.insert(x, place, column(i, len(x)), axis=1)
        (path / f"walk{i}.csv").write_text(table(header, rows))
    return path


def regular(i, steps):
    return 5.0 * i + 0.01 * np.arange(steps)


def jittered(i, steps):
    return np.cumsum(0.02 + 0.002 * np.random.default_rng(i).uniform(-1, 1, steps))


def dropped(i, steps):
    kept = np.delete(np.arange(steps + 2), [7, 15])
    return 0.01 * kept


def rounded(i, steps):
    return np.round(1000 / 60 * np.arange(steps))


CLOCKS = {
    "time": ("time,x,y", regular, 0, "time"),
    "the last column": ("x,y,Time [s]", regular, 2, "Time [s]"),
    "jitter": ("timestamp_ms,x,y", jittered, 0, "timestamp_ms"),
    "lost rows": ("x,t,y", dropped, 1, "t"),
    "rounded to milliseconds": ("elapsedTime,x,y", rounded, 0, "elapsedTime"),
    "the index of pandas": (",x,y", lambda i, steps: np.arange(steps), 0, ""),
    "frames": ("frame,x,y", lambda i, steps: 100 + np.arange(steps), 0, "frame"),
    "no names": (None, regular, 0, "column 0"),
}


@pytest.mark.parametrize("case", CLOCKS)
def test_a_clock_is_no_channel(tmp_path, case):
    header, column, place, name = CLOCKS[case]
    data = read_directory(folder(tmp_path, header, column, place))
    assert data.clocks == (name,)
    assert data.channel_names == (None if header is None else ("x", "y"))
    for got, x in zip(data.sequences, channels(), strict=True):
        np.testing.assert_array_equal(got, x)


NO_CLOCKS = {
    "values called time": ("time,x,y", lambda i, steps: np.random.default_rng(i).standard_normal(steps), 0),
    "times that fall": ("time,x,y", lambda i, steps: -regular(i, steps), 0),
    "squares called time": ("time,x,y", lambda i, steps: np.arange(steps) ** 2.0, 0),
    "a value that occurs twice": ("t,x,y", lambda i, steps: np.maximum(regular(i, steps), regular(i, 2)[1]), 0),
    "missing times": ("t,x,y", lambda i, steps: np.where(np.arange(steps) % 5 < 3, np.nan, regular(i, steps)), 0),
    "a ramp called level": ("level,x,y", regular, 0),
    "a ramp that is not first, no names": (None, regular, 1),
    "ramps of different speed, no names": (None, lambda i, steps: (1.0 + i) * np.arange(steps), 0),
    "a noisy ramp, no names": (None, lambda i, steps: np.cumsum(RNG.uniform(0.1, 1.9, steps)), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_CLOCKS)
def test_what_is_no_clock_is_kept(tmp_path, case):
    header, column, place = NO_CLOCKS[case]
    data = read_directory(folder(tmp_path, header, column, place))
    assert data.clocks == () and data.sequences[0].shape == (40, 3)
    assert data.channel_names == (None if header is None else tuple(header.split(",")))


@parametrize("way", ["folder", "long", "frame", "frames"], fast=2)
@pytest.mark.parametrize("fault", ["falls", "stays"])
@parametrize("bad", [0, 1, 2], fast=1)
def test_a_clock_in_all_sequences_but_one_is_an_error(tmp_path, way, fault, bad):
    def column(i, steps):
        t = 0.01 * np.arange(steps) ** (1.0 if way == "folder" else 1.5)
        if i == bad:
            t[8:] = 0.0005 + 0.001 * np.arange(steps - 8) ** 2 if fault == "falls" else t[7]
        return t

    if way == "folder":
        folder(tmp_path, "time,x,y", column)
        source, where = tmp_path, rf"walk{bad}\.csv, t = 8: "
    else:
        source, line = tmp_path / "long.csv", 2 + sum(LENGTHS[:bad]) + 8
        source.write_text(long({"time": column}))
        where = rf"line {line}, id '{'bac'[bad]}': "
    read = ms.storage.read
    if way.startswith("frame"):
        pd = pytest.importorskip("pandas")
        # as Python reads numbers: the default of pandas 3.0.6 is off by an ulp
        frame = pd.read_csv(source, dtype=str).apply(
            lambda column: column if column.name == "id" else column.map(float)
        )
        where = rf"row {sum(LENGTHS[:bad]) + 8}, id '{'bac'[bad]}': "
        if way == "frames":
            frame = {name: part.drop(columns="id") for name, part in frame.groupby("id", sort=False)}
            where = rf"row 8 of frame '{'bac'[bad]}', frame '{'bac'[bad]}': "
        source, read = frame, ms.storage.from_frame
    with pytest.raises(
        ReadError, match=where + rf"column 'time' {fault} from .*, but the same column is a time axis in .*time=None"
    ):
        read(source)
    data = read(source, time=None)
    assert data.channel_names == ("time", "x", "y") and data.clocks == ()
    if fault == "falls":
        data = read(source, time="time")
        assert data.clocks == ("time",)
        order = np.argsort(column(bad, LENGTHS[bad]))
        np.testing.assert_array_equal(data.sequences[bad], channels()[bad][order])


def test_two_clocks_are_two(tmp_path):
    for i, x in enumerate(channels()):
        rows = np.column_stack([np.arange(len(x)), regular(i, len(x)), x])
        (tmp_path / f"{i}.csv").write_text(table(",time,x,y", rows))
    data = read_directory(tmp_path)
    assert data.clocks == ("", "time") and data.channel_names == ("x", "y")


def test_a_folder_of_clocks_keeps_them(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text(table("time", regular(i, 9)[:, None]))
    data = read_directory(tmp_path)
    assert data.clocks == () and data.channel_names == ("time",)


def test_two_rows_tell_nothing(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("time,x\n1,2\n2,5\n")
    assert read_directory(tmp_path).clocks == ()


def test_the_choice_can_be_overridden(tmp_path):
    folder(tmp_path, "level,x,time", lambda i, steps: regular(i, steps)[::-1])
    for name in ("level", 0):
        if isinstance(name, int):
            for file in tmp_path.iterdir():
                file.write_text(file.read_text().partition("\n")[2])
        data = read_directory(tmp_path, time=name)
        assert data.clocks == ("column 0" if name == 0 else name,)
        for got, x in zip(data.sequences, channels(), strict=True):
            np.testing.assert_array_equal(got, x[::-1])
    (tmp_path / "clock").mkdir()
    folder(tmp_path / "clock", "time,x,y", regular)
    for none in (None, "none"):
        data = read_directory(tmp_path / "clock", time=none)
        assert data.clocks == () and data.channel_names == ("time", "x", "y")
    with pytest.raises(
        ReadError, match="has no column 'when', only time, x, y: name the column with time=…, or time=None"
    ):
        read_directory(tmp_path / "clock", time="when")
    folder(tmp_path / "clock", "time,x,y", lambda i, steps: np.zeros(steps))
    with pytest.raises(ReadError, match=r"walk0\.csv has rows without time, or two rows with the same time: correct"):
        read_directory(tmp_path / "clock", time="time")


def long(columns, ids=("b", "a", "c")):
    """Return a long table; columns maps names to `column(i, steps)`."""
    lines = [",".join(["id", *columns, "x", "y"])]
    for i, x in enumerate(channels()):
        made = [column(i, len(x)) for column in columns.values()]
        lines += [",".join([ids[i], *(repr(float(c[t])) for c in (*made, *x.T))]) for t in range(len(x))]
    return "\n".join(lines) + "\n"


LONG = {
    "time": ({"time": regular}, ("time",)),
    "irregular times": ({"time": lambda i, steps: np.arange(steps) ** 2.0}, ("time",)),
    "another name": ({"timestamp": regular}, ("timestamp",)),
    "an index and a time": ({"index": lambda i, steps: np.arange(steps), "time": regular}, ("time", "index")),
}


@pytest.mark.parametrize("case", LONG)
def test_long_tables(tmp_path, case):
    columns, found = LONG[case]
    (tmp_path / "long.csv").write_text(long(columns))
    data = read_csv(tmp_path / "long.csv")
    assert data.clocks == found and data.channel_names == ("x", "y") and data.ids == ("b", "a", "c")
    for got, x in zip(data.sequences, channels(), strict=True):
        np.testing.assert_array_equal(got, x)


def test_a_long_table_with_a_channel_called_time(tmp_path):
    values = [np.random.default_rng(i).standard_normal(steps) for i, steps in enumerate(LENGTHS)]
    (tmp_path / "long.csv").write_text(long({"time": lambda i, steps: values[i]}))
    data = read_csv(tmp_path / "long.csv")
    assert data.clocks == () and data.channel_names == ("time", "x", "y")
    for got, x, time in zip(data.sequences, channels(), values, strict=True):
        np.testing.assert_array_equal(got, np.column_stack([time, x]))
    named = read_csv(tmp_path / "long.csv", time="time")  # who names it has the last word
    assert named.clocks == ("time",)
    for got, x, time in zip(named.sequences, channels(), values, strict=True):
        np.testing.assert_array_equal(got, x[np.argsort(time)])


def test_columns_that_are_named_are_taken(tmp_path):
    (tmp_path / "long.csv").write_text(long({"time": regular, "frame": lambda i, steps: np.arange(steps)}))
    assert read_csv(tmp_path / "long.csv", channels=["frame", "x"]).channel_names == ("frame", "x")
    for none in (None, "none"):
        data = read_csv(tmp_path / "long.csv", time=none)
        assert data.clocks == () and data.channel_names == ("time", "frame", "x", "y")


@needs("pyarrow")
def test_parquet(tmp_path):
    import pyarrow.csv as reader
    import pyarrow.parquet as parquet

    for columns, found in LONG.values():
        content = io.BytesIO(long(columns).encode())
        parquet.write_table(reader.read_csv(content), tmp_path / "long.parquet")
        data = read_parquet(tmp_path / "long.parquet")
        assert data.clocks == found and data.channel_names == ("x", "y") and data.ids == ("b", "a", "c")
    content = io.BytesIO(long({"time": lambda i, steps: np.sin(np.arange(steps))}).encode())
    parquet.write_table(reader.read_csv(content), tmp_path / "long.parquet")
    assert read_parquet(tmp_path / "long.parquet").channel_names == ("time", "x", "y")


RATES = {
    "time": (0.02, 50.0),
    "Time [s]": (0.02, 50.0),
    "t (ms)": (20.0, 50.0),
    "timestamp_us": (20_000.0, 50.0),
    "time [µs]": (20_000.0, 50.0),
    "elapsed in nanoseconds": (2e7, 50.0),
    "elapsedSec": (0.02, 50.0),
    "seconds since start": (0.02, 50.0),
    "time_min": (0.5, 1 / 30),
    "hours": (2.0, 1 / 7200),
    "timestamp": (20.0, 0.05),
    "ts": (4.0, 0.25),
    "frame": (1.0, None),
    "": (1.0, None),
}


@pytest.mark.parametrize("name", RATES)
def test_the_clock_gives_the_sampling_rate(tmp_path, name):
    step, rate = RATES[name]
    data = read_directory(folder(tmp_path, f"{name},x,y", lambda i, steps: 5.0 * i + step * np.arange(steps)))
    assert data.clocks == (name,) and data.sampling_rate == (rate and pytest.approx(rate, rel=1e-9))
    (tmp_path / "long.csv").write_text(long({name: lambda i, steps: 5.0 * i + step * np.arange(steps)}))
    for options in ({}, {"time": name}):
        data = read_csv(tmp_path / "long.csv", **options)
        assert data.clocks == (name,) and data.sampling_rate == (rate and pytest.approx(rate, rel=1e-9))


def test_the_sampling_rate_of_tables_without_names(tmp_path):
    assert read_directory(folder(tmp_path, None, regular)).sampling_rate == pytest.approx(100)
    assert read_directory(tmp_path, time=0).sampling_rate == pytest.approx(100)
    assert read_directory(tmp_path, time=None).sampling_rate is None


STEPS = {
    "jitter": (jittered, 1 / 0.02, 0.02),
    "lost rows": (dropped, 100, 1e-9),
    "steps alike": (lambda i, steps: (1 + 0.04 * i) * np.arange(steps), 1 / 1.04, 0.05),
    "other steps": (lambda i, steps: (1 + 0.06 * i) * np.arange(steps), None, 0),
    "steps of any size": (lambda i, steps: np.arange(steps) ** 2.0, None, 0),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_steps_must_be_alike(tmp_path, case):
    column, rate, tolerance = STEPS[case]
    (tmp_path / "long.csv").write_text(long({"time": column}))
    found = read_csv(tmp_path / "long.csv")
    assert found.clocks == ("time",)
    steps = np.concatenate([np.diff(column(i, n)) for i, n in enumerate(LENGTHS)])
    if rate is None:
        assert found.sampling_rate is None
    else:
        assert found.sampling_rate == pytest.approx(rate, rel=tolerance)
        usual = [step for step in steps if abs(step - np.median(steps)) <= np.median(steps) / 4]
        assert found.sampling_rate == pytest.approx(len(usual) / sum(usual), rel=1e-9)


def test_of_several_clocks_the_one_that_says_most_gives_the_rate(tmp_path):
    def index(i, steps):
        return np.arange(steps)

    for name, other, rate in (("time", "", 100), ("time", "t_ms", 1e5), ("frame", "clock", 100), ("time", "step", 100)):
        header = f"{other},{name},x,y" if other != "clock" else f"{name},{other},x,y"
        for i, x in enumerate(channels()):
            rows = [index(i, len(x)), regular(i, len(x)), *x.T]
            if other == "t_ms":
                rows[:2] = rows[1::-1]
            (tmp_path / f"{i}.csv").write_text(table(header, np.column_stack(rows)))
        data = read_directory(tmp_path)
        assert len(data.clocks) == 2 and data.sampling_rate == pytest.approx(rate)


def test_two_rows_or_other_data_have_no_rate(tmp_path):
    (tmp_path / "long.csv").write_text("id,time,x\na,0,1\na,1,2\nb,0,3\nb,1,4\n")
    data = read_csv(tmp_path / "long.csv")
    assert data.clocks == ("time",) and data.sampling_rate is None
    (tmp_path / "long.csv").write_text(long({"time": lambda i, steps: np.sin(np.arange(steps))}))
    assert read_csv(tmp_path / "long.csv").sampling_rate is None


@needs("pyarrow")
@pytest.mark.parametrize(
    ("kind", "ticks", "rate"),
    [
        *[
            ("timestamp[s]", 2, 0.5),
            ("timestamp[ms]", 20, 50),
            ("timestamp[us]", 20, 50_000),
            ("timestamp[ns]", 20, 5e7),
        ],
        *[("date32[day]", 1, 1 / 86400), ("date64[ms]", 86_400_000, 1 / 86400)],
        *[("time32[s]", 4, 0.25), ("time32[ms]", 20, 50), ("time64[us]", 20, 50_000), ("time64[ns]", 20, 5e7)],
    ],
)
@pytest.mark.parametrize("name", ["time", "t_ms"])
def test_the_unit_of_time_stamps_is_known(tmp_path, name, kind, ticks, rate):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    start = {"timestamp[ns]": 1_714_000_000_000_000_000, "date64[ms]": 0}.get(kind, 86_000)
    bits = pa.int32() if "32" in kind else pa.int64()
    values = pa.array([start + ticks * k for k in (0, 2, 1, 3)], bits)
    stamps = values.cast(pa.type_for_alias(kind))
    parquet.write_table(pa.table({"id": ["a"] * 4, name: stamps, "x": [0.0, 2, 1, 3]}), tmp_path / "long.parquet")
    data = read_parquet(tmp_path / "long.parquet", time=name)
    assert data.sequences[0].ravel().tolist() == [0, 1, 2, 3] and data.clocks == (name,)
    assert data.sampling_rate == pytest.approx(rate, rel=1e-9)


def test_ids(tmp_path):
    ids = ms.storage.SequenceData([np.ones((3, 1)), np.ones((4, 1))]).ids
    assert ids == ("0", "1")
    for name in ("run/2.npy", "walk/2.npy", "walk/10.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / name, np.ones((6, 2)))
    data = ms.storage.read(tmp_path)
    assert data.ids == ("run/2.npy", "walk/2.npy", "walk/10.npy")
    assert ms.storage.read(tmp_path / "walk").ids == ("2.npy", "10.npy")
    assert ms.storage.scale(data).ids == data.ids
    assert ms.storage.windows(data, 4, 2).ids[:3] == ("run/2.npy[0:4]", "run/2.npy[2:6]", "walk/2.npy[0:4]")
    np.savez(tmp_path / "some.npz", walk=np.ones((3, 2)), run=np.ones((4, 2)))
    assert ms.storage.read(tmp_path / "some.npz").ids == ("run", "walk")
    with pytest.raises(ValueError, match="there are 1 ids for 2 sequences: pass one string per sequence"):
        ms.storage.SequenceData([np.ones((3, 1))] * 2, ids=["a"])
    with pytest.raises(ValueError, match="two sequences have the id 'a': pass unique ids"):
        ms.storage.SequenceData([np.ones((3, 1))] * 2, ids=["a", "a"])


DIGITS = ["1_000", "１２", "٣", "0x10", "1e1_0", "1,5", "+-1", "1e", "--", "∞"]


@pytest.mark.parametrize("text", DIGITS)
def test_other_digits_raise_an_error_in_every_reader(tmp_path, text):
    cell = f'"{text}"'
    cases = {
        "long.csv": (f"id,time,x\na,0,1\na,1,{cell}\n", "line 3, column 'x'"),
        "case.ts": (f"@classLabel true a b\n@data\n1,2,3:4,5,{text}:a\n", "line 3"),
        "folder/a.csv": (f"x,y\n1,2\n3,{cell}\n", "line 3, column 'y'"),
    }
    (tmp_path / "folder").mkdir()
    for name, (content, where) in cases.items():
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ReadError) as caught:
            ms.storage.read(path.parent if "/" in name else path)
        assert str(caught.value).startswith(str(path)) and (where in str(caught.value) or text == "1,5")


@pytest.mark.parametrize("text", ["1_000", "１２", "0x10"])
def test_a_first_line_of_other_digits_names_no_channels(tmp_path, text):
    (tmp_path / "a.csv").write_text(f"1,{text}\n3,4\n", encoding="utf-8")
    with pytest.raises(ReadError, match=r"a\.csv, line 1, column '1' is .*, which is not a number in decimal digits"):
        read_directory(tmp_path)


def test_labels_that_are_targets(tmp_path):
    (tmp_path / "a.ts").write_text("@targetLabel true\n@data\n1,2,3:4_0\n", encoding="utf-8")
    with pytest.raises(ReadError, match="has the target '4_0', which is not a number"):
        ms.storage.read(tmp_path / "a.ts")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("1", 1), (" +1.5 ", 1.5), (".5", 0.5), ("5.", 5), ("1e-3", 1e-3), ("-2E+3", -2000), ("Inf", np.inf)],
        *[("-inf", -np.inf), ("NaN", np.nan), ("nan", np.nan), ("Infinity", np.inf), ("-nan", np.nan)],
    ],
)
def test_numbers_as_the_field_writes_them(text, value):
    np.testing.assert_array_equal(ms.storage.decimals([text]), [value])
    np.testing.assert_array_equal(ms.storage.decimals([text, "nan", "3"]), [value, np.nan, 3])


@pytest.mark.parametrize("index", [False, True])
def test_numbers_as_names_are_no_row(tmp_path: Path, index: bool) -> None:
    """pandas writes the header 0,1,2 of an array without names; a first row of integers among integers is data."""
    x = np.random.default_rng(0).standard_normal((5, 3))
    head = ",0,1,2" if index else "0,1,2"
    rows = [",".join([*([str(i)] if index else []), *map(repr, row.tolist())]) for i, row in enumerate(x)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]))
    data = ms.storage.read_directory(tmp_path)
    assert data.channel_names == ("0", "1", "2")
    for sequence in data.sequences:
        np.testing.assert_array_equal(sequence, x)
    other = tmp_path / "integers"
    other.mkdir()
    for name in ("a", "b"):
        (other / f"{name}.csv").write_text("0,1\n1,0\n0,1\n")
    with pytest.warns(UserWarning, match=r"a\.csv has a first line of numbers, which is used as data: if it names"):
        assert [len(s) for s in ms.storage.read_directory(other).sequences] == [3, 3]


def test_a_name_that_is_not_utf8_becomes_an_id_that_can_be_written(tmp_path: Path) -> None:
    for name in (b"a\xff.csv", b"b.csv"):
        try:
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x,y\n1,2\n3,5\n")
        except OSError:  # a file system of UTF-8 names only has no such file
            return
    assert [id.encode() for id in ms.storage.read_directory(tmp_path).ids] == ["a\ufffd.csv".encode(), b"b.csv"]


@pytest.mark.parametrize("header", ["t,x,y", None])
@pytest.mark.parametrize("time", ["auto", "t"])
@pytest.mark.parametrize("gone", [(0,), (3,), (-1,), (0, 3, 4, -1)])
def test_a_missing_time_in_a_folder_is_that_between_the_others(tmp_path, header, time, gone):
    def column(i, steps):
        t = regular(i, steps)
        t[list(gone)] = np.nan
        return t

    (tmp_path / "holes").mkdir()
    path = folder(tmp_path / "holes", header, column, 0)
    if header is None and time == "t":
        time = "0"
    data = read_directory(path, time=time)
    (tmp_path / "whole").mkdir()
    whole = read_directory(folder(tmp_path / "whole", header, regular, 0), time=time)
    assert len(data.clocks) == 1 and data.sampling_rate == pytest.approx(whole.sampling_rate)
    for got, want in zip(data.sequences, whole.sequences, strict=True):
        np.testing.assert_array_equal(got, want)
