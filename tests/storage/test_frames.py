"""Data frames become what a file of the same rows becomes; each defect raises an error."""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import frame_bytes, needs

import manifoldseq as ms
from manifoldseq.storage import ReadError, SequenceData, from_frame

Columns = Mapping[str, list[Any]]


def of_pandas(columns: Columns) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def of_polars(columns: Columns) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def of_pyarrow(columns: Columns) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


@pytest.fixture(params=[of_pandas, of_polars, of_pyarrow], ids=["pandas", "polars", "pyarrow"])
def frame(request: pytest.FixtureRequest) -> Callable[[Columns], Any]:
    """Return a function that makes a frame of columns; narwhals reads all of them."""
    pytest.importorskip("narwhals")
    return request.param


@pytest.fixture
def pd() -> Any:
    pytest.importorskip("narwhals")
    return pytest.importorskip("pandas")


@pytest.fixture
def pl() -> Any:
    pytest.importorskip("narwhals")
    return pytest.importorskip("polars")


@pytest.fixture
def pa() -> Any:
    pytest.importorskip("narwhals")
    return pytest.importorskip("pyarrow")


def walks(shuffled: bool = True) -> dict[str, list[Any]]:
    """Return three labelled sequences in the long format, the rows in any order."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": name, "time": 0.02 * t, "x": x, "n": t % 3, "on": bool(t % 2), "label": label}
        for name, label, steps in (("b", "up", 5), ("a", "down", 4), ("c", "up", 9))
        for t, x in enumerate(rng.standard_normal(steps).tolist())
    ]
    order = rng.permutation(len(rows)) if shuffled else np.arange(len(rows))
    return {name: [rows[i][name] for i in order] for name in rows[0]}


def naive(columns: Columns, channels: list[str]) -> tuple[list[str], list[list[list[float]]], list[Any]]:
    """Return ids, sequences and labels by going through the rows."""
    groups: dict[str, list[tuple[float, list[float], Any]]] = {}
    for i, name in enumerate(columns["id"]):
        values = [math.nan if columns[c][i] is None else float(columns[c][i]) for c in channels]
        label = columns["label"][i] if "label" in columns else None
        groups.setdefault(str(name), []).append((columns["time"][i], values, label))
    ordered = {name: sorted(rows, key=lambda row: row[0]) for name, rows in groups.items()}
    sequences = [[values for _, values, _ in rows] for rows in ordered.values()]
    return list(ordered), sequences, [rows[0][2] for rows in ordered.values()]


def assert_sequences(data: SequenceData, expected: list[Any]) -> None:
    assert len(data) == len(expected)
    for got, x in zip(data.sequences, expected, strict=True):
        np.testing.assert_array_equal(got, np.array(x, dtype=float))
        assert got.dtype == np.float64 and got.flags.c_contiguous and got.flags.writeable


def assert_same(data: SequenceData, other: SequenceData) -> None:
    assert_sequences(data, other.sequences)
    assert (data.ids, data.clocks, data.channel_names) == (other.ids, other.clocks, other.channel_names)
    assert data.sampling_rate == other.sampling_rate
    if other.labels is None:
        assert data.labels is None
    else:
        assert data.labels is not None and data.labels.dtype == other.labels.dtype
        assert data.labels.tolist() == other.labels.tolist()


@contextmanager
def says(sentence: str, kind: type[Exception] = ReadError) -> Iterator[None]:
    """Hold that one sentence is raised that begins like this."""
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def to_csv(table: Any, path: Any) -> None:
    if hasattr(table, "write_csv"):
        table.write_csv(path)
    elif hasattr(table, "to_csv"):
        table.to_csv(path, index=False)
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path)


def test_the_long_format(frame):
    columns = walks()
    data = from_frame(frame(columns))
    ids, sequences, labels = naive(columns, ["x", "n", "on"])
    assert_sequences(data, sequences)
    assert data.ids == tuple(ids) and data.labels is not None and data.labels.tolist() == labels
    assert data.channel_names == ("x", "n", "on") and data.clocks == ("time",) and data.name == ""
    assert data.sampling_rate == pytest.approx(50)


TABLES: dict[str, Columns] = {
    "rows in any order": {name: values for name, values in walks().items() if name != "on"},
    "in order": {name: values for name, values in walks(shuffled=False).items() if name != "on"},
    "missing values": {
        "id": ["a"] * 4,
        "time": [0.0, 1.0, 2.0, 3.0],
        "x": [1.0, None, 3.0, None],
        "n": [1, 2, None, 4],
    },
    "an index and a time": {"id": ["a"] * 4, "index": [0, 1, 2, 3], "time": [0.0, 0.5, 1.0, 1.5], "x": [1.5] * 4},
    "another clock": {"id": ["a"] * 3 + ["b"] * 3, "Time [ms]": [0, 20, 40, 5, 25, 45], "x": [1, 2, 3, 4, 5, 6]},
    "a channel called time": {"id": ["a"] * 4, "time": [0.5, -1.0, 0.25, 0.5], "x": [1, 2, 3, 4]},
    "ids of numbers": {"id": [10, 2, 10], "time": [1, 0, 0], "x": [1.5, 2.5, 3.5]},
}


@pytest.mark.parametrize("name", TABLES)
def test_the_same_as_the_file(frame, tmp_path, name):
    table = frame(TABLES[name])
    to_csv(table, tmp_path / "long.csv")
    assert_same(from_frame(table), ms.storage.read_csv(tmp_path / "long.csv"))


def test_options_name_the_columns(frame, tmp_path):
    names = {"id": "walk", "time": "t", "label": "kind"}
    columns = {names.get(name, name): values for name, values in walks().items() if name != "on"}
    table = frame(columns)
    to_csv(table, tmp_path / "long.csv")
    data = from_frame(table, id="walk", time="t", label="kind", columns=["n"])
    assert_same(data, ms.storage.read_csv(tmp_path / "long.csv", id="walk", time="t", label="kind", channels=["n"]))
    assert data.channel_names == ("n",) and data.clocks == ("t",) and data.sampling_rate == pytest.approx(50)


def test_one_sequence(frame):
    data = from_frame(frame({"x": [3.0, 1.0, 2.0], "y": [1, 2, 3]}))
    assert_sequences(data, [[[3, 1], [1, 2], [2, 3]]])
    assert (data.ids, data.clocks, data.labels, data.sampling_rate) == (("0",), (), None, None)
    data = from_frame(frame({"t_ms": [0, 5, 10, 15], "x": [3.0, 1.0, 2.0, 0.0]}))
    assert (data.clocks, data.channel_names, data.sampling_rate) == (("t_ms",), ("x",), 200)
    for none in (None, "none"):
        data = from_frame(frame({"time": [0, 5, 10, 15], "x": [3, 1, 2, 0]}), time=none)
        assert data.clocks == () and data.channel_names == ("time", "x") and data.sampling_rate is None
    data = from_frame(frame({"a": [1, 2], "b": [3, 4], "c": [5, 6]}), columns=["c", "a"])
    assert_sequences(data, [[[5, 1], [6, 2]]])


@pytest.mark.parametrize("kind", ["list", "tuple", "dict"])
def test_frames_of_one_sequence_each(frame, kind):
    parts = [
        {"time": [0.2, 0.0, 0.1], "x": [1.0, 2.0, 3.0], "label": ["up"] * 3},
        {"time": [0.0, 0.1], "x": [None, 5.0], "label": ["down"] * 2},
    ]
    tables = [frame(part) for part in parts]
    given: Any = (
        dict(zip(("walk", "run"), tables, strict=True))
        if kind == "dict"
        else {"list": list, "tuple": tuple}[kind](tables)
    )
    data = from_frame(given)
    assert_sequences(data, [[[2], [3], [1]], [[np.nan], [5]]])
    assert data.ids == (("walk", "run") if kind == "dict" else ("0", "1"))
    assert data.labels is not None and data.labels.tolist() == ["up", "down"]
    assert data.clocks == ("time",) and data.sampling_rate == pytest.approx(10)


def test_frames_without_time_and_with_ids(frame):
    first, second = {"id": ["p", "p"], "x": [1, 2]}, {"id": ["q"], "x": [3]}
    data = from_frame([frame(first), frame(second)])
    assert_sequences(data, [[[1], [2]], [[3]]])
    assert data.ids == ("p", "q") and data.clocks == ()
    assert from_frame({"k": frame(first), 7: frame(second)}).ids == ("k", "7")
    with says("the frames: two sequences have the id 'p': pass unique ids"):
        from_frame([frame(first), frame(first)])


def test_dates_are_a_clock(frame):
    stamps = [dt.datetime(2024, 5, 1, 12, 0, 0, 20_000 * k) for k in (0, 2, 1, 3)]
    data = from_frame(frame({"when": stamps, "x": [1.0, 3.0, 2.0, 4.0]}), time="when")
    assert_sequences(data, [[[1], [2], [3], [4]]])
    assert data.clocks == ("when",) and data.sampling_rate == pytest.approx(50, rel=1e-12)
    for name in ("time", "timestamp", "Date", "time_ms"):  # seconds, whatever the name says
        data = from_frame(frame({"id": ["a"] * 4, name: stamps, "x": [1.0, 3.0, 2.0, 4.0]}))
        assert_sequences(data, [[[1], [2], [3], [4]]])
        assert data.clocks == (name,) and data.sampling_rate == pytest.approx(50, rel=1e-12)
    index = from_frame(
        frame({"id": ["a"] * 4, "index": [0, 2, 1, 3], "stamp": stamps, "x": [1.0, 3.0, 2.0, 4.0]}), time="stamp"
    )
    assert index.channel_names == ("index", "x")  # who names the time takes the others as channels


@pytest.mark.parametrize(
    "times",
    [
        [dt.date(2024, 5, 1 + k) for k in (0, 2, 1)],
        [dt.timedelta(days=k) for k in (0, 2, 1)],
        [dt.datetime(2024, 5, 1 + k, tzinfo=dt.UTC) for k in (0, 2, 1)],
    ],
    ids=["dates", "spans", "zones"],
)
def test_days(frame, times):
    data = from_frame(frame({"time": times, "x": [1, 3, 2]}))
    assert_sequences(data, [[[1], [2], [3]]])
    assert data.sampling_rate == pytest.approx(1 / 86400, rel=1e-12)


def test_numbers_at_the_ends_of_their_range(frame):
    data = from_frame(frame({"time": [-1e308, 0.0, 1e308], "x": [1, 2, 3]}))
    assert data.clocks == ("time",) and data.sampling_rate is None
    data = from_frame(frame({"time_ns": [0.0, 5e-324, 1e-323], "x": [1, 2, 3]}), time="time_ns")
    assert data.clocks == ("time_ns",) and data.sampling_rate is None


def test_times_of_day(frame):
    times = [dt.time(23, 59, 58 + k, 500_000) for k in (0, 1)] + [dt.time(0, 0, 1)]
    data = from_frame(frame({"time": times, "x": [1, 2, 3]}), time="time")
    assert_sequences(data, [[[3], [1], [2]]])


def test_nanoseconds_of_today(pa):
    start = 1_714_000_000_000_000_000
    stamps = pa.array([start + k for k in (0, 300, 100, 200)], pa.timestamp("ns"))
    data = from_frame(pa.table({"time": stamps, "x": [1, 4, 2, 3]}))
    assert_sequences(data, [[[1], [2], [3], [4]]])
    assert data.sampling_rate == pytest.approx(1e7, rel=1e-9)


def test_sentences_of_dates(frame):
    days = [dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)]
    assert from_frame(frame({"born": days, "x": [1, 2]})).clocks == ("born",)
    with says("the frame has several columns of time stamps, 'date' and 'time stamp': name the time column with"):
        from_frame(frame({"date": days, "time stamp": days, "x": [1, 2]}))
    with pytest.raises(ReadError, match="column 'date' contains dates or times and no numbers"):
        from_frame(frame({"date": days, "time": [1, 2], "x": [1, 2]}))
    assert from_frame(frame({"date": days, "born": days, "x": [1, 2]}), columns=["x"]).clocks == ("date",)
    with says("the frame, row 1 has no time: write a number"):
        from_frame(frame({"time": [days[0], None], "x": [1, 2]}))
    with says("the frames contain both dates and numbers in time: convert them to one type"):
        from_frame([frame({"time": days, "x": [1, 2]}), frame({"time": [1, 2], "x": [1, 2]})])


BAD: dict[str, tuple[Columns, dict[str, Any], str]] = {
    "text": (
        {"x": [1, 2], "note": [None, "abc"]},
        {},
        "the frame, row 1, column 'note' is 'abc', which is not a number: choose the channels with columns=[…]",
    ),
    "text as time": (
        {"x": [1], "time": ["noon"]},
        {},
        "the frame, row 0, column 'time' is 'noon', which is not a number: convert the time to numbers or dates",
    ),
    "no id": ({"x": [1]}, {"id": "walk"}, "the frame has no column 'walk', only x: name the column with id=…"),
    "no time": ({"x": [1]}, {"time": "t"}, "the frame has no column 't', only x: name the column with time=…"),
    "no label": ({"x": [1]}, {"label": "kind"}, "the frame has no column 'kind', only x: name the column with label=…"),
    "no channel": (
        {"x": [1]},
        {"columns": ["y"]},
        "the frame has no column 'y', only x: name the column with columns=…",
    ),
    "a name for a list": ({"x": [1]}, {"columns": "x"}, "columns='x' is not valid: pass a list of names"),
    "no channels": (
        {"id": ["a"], "time": [0]},
        {},
        "the frame has no columns apart from id, time: add at least one column of numbers",
    ),
    "no time to ids": (
        {"id": ["a"], "x": [0]},
        {},
        "the frame has no column 'time', only id, x: name the column with time=…, or time=None",
    ),
    "an empty id": (
        {"id": ["a", None], "time": [0, 1], "x": [0, 1]},
        {},
        "the frame, row 1: column 'id' has empty cells: fill them or remove the rows",
    ),
    "an empty label": ({"x": [0, 1], "label": ["a", None]}, {}, "the frame, row 1: column 'label' has empty cells"),
    "labels": (
        {"x": [0, 1], "label": ["a", "b"]},
        {},
        "the frame, row 1: label is 'b', unlike in an earlier row: use one label for all rows of a sequence",
    ),
    "dates as labels": (
        {"x": [0], "label": [dt.date(2024, 5, 1)]},
        {},
        "the frame, column 'label' holds datetime.date(2024, 5, 1): pass numbers or text as labels",
    ),
    "same time": (
        {"id": ["a"] * 2, "time": [1, 1], "x": [0, 1]},
        {"time": "time"},
        "the frame, row 0 and row 1: both have time 1 of id 'a': remove or correct one",
    ),
    "no rows": ({"x": []}, {}, "the frame has no rows: pass one row per time step"),
}


@parametrize("case", BAD, fast=10)
def test_defects_raise_an_error(frame, case):
    columns, options, sentence = BAD[case]
    with says(sentence):
        from_frame(frame(columns), **options)


def test_sentences_of_several_frames(frame):
    with says("frame 1 and frame 0 differ in 'x', 'y': use the same columns in all frames"):
        from_frame([frame({"x": [1]}), frame({"y": [1]})])
    with says("frame 'b' has no column 'x', unlike the first frame: use the same"):
        from_frame({"a": frame({"x": [1]}), "b": frame({"y": [1]})}, columns=["x"])
    with says("frame 1 has no rows: pass one row per time step"):
        from_frame([frame({"x": [1.0]}), frame({"x": []})])
    with says("frame 0 has several different values in column 'id', but each frame in a list must contain exactly one"):
        from_frame([frame({"id": ["a", "b"], "x": [1, 2]})])
    with says("the frames, row 1 of frame 1: label is 'b', unlike in an earlier row"):
        from_frame([frame({"x": [1, 2], "label": ["a"] * 2}), frame({"x": [1, 2], "label": ["a", "b"]})])
    with says("the frames, row 0 of frame 'w' and row 2 of frame 'w': both have time 1 of frame 'w'"):
        from_frame({"w": frame({"time": [1, 0, 1], "x": [1, 2, 3]})}, time="time")
    for empty in ([], {}):
        with says("there are no frames: pass at least one"):
            from_frame(empty)


def test_what_is_no_frame(pd, pl):
    for strange in (np.ones((3, 2)), 3, "walks.csv", pd.Series([1.0]), pl.Series([1.0])):
        with says("the frame is of the type ", TypeError):
            from_frame(strange)
    with says("frame 1 is of the type dict: pass a data frame", TypeError):
        from_frame([pd.DataFrame({"x": [1]}), {"x": [1]}])
    with says("the frame is lazy: call frame.collect() first"):
        from_frame(pl.LazyFrame({"x": [1]}))


def test_without_narwhals(monkeypatch):
    for name in ("narwhals", "narwhals.stable", "narwhals.stable.v1"):
        monkeypatch.setitem(sys.modules, name, None)
    sentence = "data frames need narwhals, which is not installed: run `pip install 'manifoldseq[frames]'`"
    with pytest.raises(ImportError, match=f"^{re.escape(sentence)}$"):
        from_frame([object()])


def test_no_library_of_frames_is_imported():
    import subprocess

    script = (
        "import sys, manifoldseq.storage; print({'pandas', 'polars', 'pyarrow', 'narwhals', 'xarray'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "set()\n"


def test_frames_of_narwhals(pd):
    import narwhals as nw

    columns = walks()
    assert_same(from_frame(nw.from_native(pd.DataFrame(columns))), from_frame(pd.DataFrame(columns)))


def test_types_of_pandas(pd):
    columns = {
        "id": pd.Series(["b", "b", "a", "a"], dtype="category"),
        "label": pd.Series(["up", "up", "down", "down"], dtype=pd.CategoricalDtype(["down", "up"], ordered=True)),
        "time": pd.Series([1, 0, 0, 1], dtype="Int64"),
        "a": pd.Series([1, None, 3, 4], dtype="Int64"),
        "b": pd.Series([True, None, False, True], dtype="boolean"),
        "c": pd.Series([1, None, 2.5, True], dtype=object),
        "d": pd.Series([1, 0, 0, 2], dtype="Sparse[float]"),
        "e": pd.Series([1, None, 0, 2], dtype="int64[pyarrow]")
        if "pyarrow" in sys.modules
        else pd.Series([1.0, None, 0, 2]),
        "f": pd.Series([1, 2, 3, 4], dtype="float16"),
    }
    data = from_frame(pd.DataFrame(columns))
    nan = math.nan
    expected = [[[nan, nan, nan, 0, nan, 2], [1, 1, 1, 1, 1, 1]], [[3, 0, 2.5, 0, 0, 3], [4, 1, 1, 2, 2, 4]]]
    assert_sequences(data, expected)
    assert data.ids == ("b", "a") and data.labels is not None and data.labels.tolist() == ["up", "down"]
    with says("the frame, row 0, column 'z' is '1j', which is not a number"):
        from_frame(pd.DataFrame({"x": [1, 2], "z": [1j, 0]}))
    with says("the frame, column 'z' contains category"):
        from_frame(pd.DataFrame({"x": [1, 2], "z": pd.Series([0, 1], dtype="category")}))
    with says("the frame, row 1, column 'z' is 'a', which is not a number"):
        from_frame(pd.DataFrame({"x": [1, 2], "z": [0, "a"]}))


def test_types_of_polars(pl):
    from decimal import Decimal

    table = pl.DataFrame(
        {
            "id": pl.Series(["b", "b", "a"], dtype=pl.Categorical),
            "label": pl.Series(["up", "up", "down"], dtype=pl.Enum(["down", "up"])),
            "time": [1, 0, 0],
            "a": pl.Series([1, None, 3], dtype=pl.UInt8),
            "b": [True, None, False],
            "c": [Decimal("1.5"), None, Decimal("2")],
            "d": [None, None, None],
            "e": [math.nan, 1.0, None],
        }
    )
    data = from_frame(table)
    nan = math.nan
    assert_sequences(data, [[[nan, nan, nan, nan, 1], [1, 1, 1.5, nan, nan]], [[3, 0, 2, nan, nan]]])
    assert data.ids == ("b", "a") and data.labels is not None and data.labels.tolist() == ["up", "down"]
    with says("the frame, row 0, column 'z' is '[1, 2]', which is not a number"):
        from_frame(pl.DataFrame({"x": [1], "z": [[1, 2]]}))
    with pytest.raises(ReadError, match="column 'id' has empty cells"):
        from_frame(pl.DataFrame({"id": [math.nan], "x": [1]}), time=None)
    with pytest.raises(ReadError, match=r"column 'id' holds \[1, 2\], not one value per row"):
        from_frame(pl.DataFrame({"id": [[1, 2]], "x": [1]}), time=None)


def test_types_of_pyarrow(pa):
    table = pa.table(
        {
            "id": pa.array(["b", "b", "a"]).dictionary_encode(),
            "time": pa.array([3, 1, 2], pa.timestamp("s", "Europe/Berlin")),
            "a": pa.array([2**63, None, 3], pa.uint64()),
            "b": pa.array([True, None, False]),
            "c": pa.array([1, None, 2], pa.int32()).cast(pa.decimal128(12, 2)),
            "d": pa.nulls(3),
        }
    )
    nan = math.nan
    assert_sequences(from_frame(table), [[[nan, nan, nan, nan], [2.0**63, 1, 1, nan]], [[3, 0, 2, nan]]])
    with says("the frame has two columns named 'a': rename one"):
        from_frame(pa.table([[1], [2]], names=["a", "a"]))


def test_labels_keep_their_type(frame):
    for labels, kind in (([3, 3, 1], "i"), ([True, True, False], "b"), ([0.5, 0.5, 1.5], "f"), (["a", "a", "b"], "U")):
        data = from_frame(frame({"id": ["p", "p", "q"], "time": [0, 1, 0], "x": [1, 2, 3], "label": labels}))
        assert data.labels is not None and data.labels.dtype.kind == kind and data.labels.tolist() == labels[1:]


def test_names_of_pandas(pd):
    data = from_frame(pd.DataFrame(np.array([[1.5, 2], [3, 4]])))
    assert data.channel_names == ("0", "1") and data.clocks == ()
    assert from_frame(pd.DataFrame(np.ones((2, 3))), columns=[2, 0]).channel_names == ("2", "0")
    for twice in (["a", "a"], [1, "1"]):
        with says(f"the frame has two columns named '{twice[1]}': rename one"):
            from_frame(pd.DataFrame([[1, 2]], columns=twice))
    with says("the frame has column names with several levels: use one name per column"):
        from_frame(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])))


def test_an_index_of_pandas(pd, tmp_path):
    x = [1.0, 3.0, 2.0, 4.0]
    days = pd.to_datetime(["2024-05-01", "2024-05-03", "2024-05-02", "2024-05-04"])
    indices = {
        ("time",): (days, pd.Index(days, name="time"), pd.to_timedelta([0, 2, 1, 3], unit="D")),
        ("Zeit [s]",): (pd.Index([0.0, 0.2, 0.1, 0.3], name="Zeit [s]"), pd.RangeIndex(4, name="Zeit [s]")),
        (): (
            pd.RangeIndex(4),
            pd.Index([5, 3, 1, 9]),
            pd.Index(list("abcd"), name="row name"),
            pd.Index([1, 1, 1, 1], name="frame"),
            pd.Index([4.0, 9, 3, 3.5], name="time"),
        ),
    }
    for clocks, some in indices.items():
        for index in some:
            data = from_frame(pd.DataFrame({"x": x}, index=index))
            ordered = clocks and not isinstance(index, pd.RangeIndex)
            assert_sequences(data, [[[value] for value in (sorted(x) if ordered else x)]])
            assert data.clocks == clocks and data.channel_names == ("x",)
    table = pd.DataFrame({"x": x}, index=pd.Index([0.0, 0.2, 0.1, 0.3], name="time"))
    table.to_csv(tmp_path / "long.csv")
    assert_same(from_frame(table), ms.storage.read_csv(tmp_path / "long.csv", id=None))
    # a column comes before an index; what is named is found there too
    table = pd.DataFrame({"time": [4.0, 3.0, 2.0, 1.0], "x": x}, index=days)
    assert_sequences(from_frame(table, time="time"), [[[value] for value in x[::-1]]])
    table = pd.DataFrame({"t": [4.0, 3.0, 2.0, 1.0], "x": x}, index=pd.Index(list("aabb"), name="walk"))
    data = from_frame(table, id="walk", time="t")
    assert_sequences(data, [[[3], [1]], [[4], [2]]])
    assert data.ids == ("a", "b") and data.channel_names == ("x",)
    assert from_frame(table.rename_axis("id"), time="t").ids == ("a", "b")
    assert from_frame(table.rename_axis("label"), time="t", columns=["x"], id="label").ids == ("a", "b")
    with pytest.raises(ReadError, match="both have the same time: remove or correct one"):
        from_frame(pd.DataFrame({"x": x}, index=days[[0, 0, 1, 2]]))
    table = pd.DataFrame({"id": ["b", "a", "b", "a"], "x": x}, index=pd.Index([0, 0, 1, 1], name="frame"))
    assert_sequences(from_frame(table), [[[1], [2]], [[3], [4]]])
    with says("the frame has no column 'time', only id, x: name the column with time=…, or time=None"):
        from_frame(pd.concat([table] * 3).set_axis([7] * 12).rename_axis("frame"))


@pytest.mark.parametrize(
    "names", [("id", "time"), ("subject", "time"), (None, None), ("time", "id"), ("subject", "second")]
)
def test_an_index_of_two_levels(pd, names):
    columns = walks()
    table = pd.DataFrame({name: columns[name] for name in ("x", "n", "label")})
    levels = [columns["time"], columns["id"]] if names[0] == "time" else [columns["id"], columns["time"]]
    table.index = pd.MultiIndex.from_arrays(levels, names=names)
    data = from_frame(table)
    ids, sequences, labels = naive(columns, ["x", "n"])
    assert_sequences(data, sequences)
    assert data.ids == tuple(ids) and data.labels is not None and data.labels.tolist() == labels
    assert data.clocks == (("second",) if names[1] == "second" else ("time",))
    assert data.sampling_rate == pytest.approx(50) and data.channel_names == ("x", "n")
    assert from_frame(table, time=None).ids == tuple(ids)


def test_an_index_of_three_levels(pd):
    table = pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_tuples([(1, 2, 3)], names=["id", "trial", "time"]))
    with says("the frame has an index of 3 levels: call reset_index(), and name one"):
        from_frame(table)


def test_groups_of_pandas(pd):
    table = pd.DataFrame(walks()).drop(columns="on")
    groups = {name: group.drop(columns="id") for name, group in table.groupby("id", sort=False)}
    assert_same(from_frame(groups), from_frame(table))


@pytest.fixture
def xr() -> Any:
    return pytest.importorskip("xarray")


BLOCK = np.random.default_rng(1).standard_normal((3, 5, 2))


def test_arrays_of_xarray(xr):
    coords = {"id": ["p", "q", "r"], "time": [0.0, 0.2, 0.1, 0.3, 0.4], "channel": ["x", "y"]}
    array = xr.DataArray(BLOCK, dims=("id", "time", "channel"), coords=coords)
    expected = [[[row.tolist() for row in x][i] for i in (0, 2, 1, 3, 4)] for x in BLOCK]
    for dims in (("id", "time", "channel"), ("channel", "id", "time"), ("time", "channel", "id")):
        data = from_frame(array.transpose(*dims))
        assert_sequences(data, expected)
        assert data.ids == ("p", "q", "r") and data.channel_names == ("x", "y") and data.clocks == ("time",)
        assert data.sampling_rate == pytest.approx(10) and data.labels is None and data.name == ""
    assert_sequences(from_frame(array, time=None), [x.tolist() for x in BLOCK])
    data = from_frame(array.assign_coords(label=("id", ["up", "down", "up"])), columns=["y"])
    assert_sequences(data, [[row[1:] for row in x] for x in expected])
    assert data.labels is not None and data.labels.tolist() == ["up", "down", "up"]
    stamps = np.datetime64("2024-05-01", "ns") + 1_000_000 * np.array([0, 2, 1, 3, 4])
    data = from_frame(array.assign_coords(time=stamps.astype("M8[ns]")))
    assert_sequences(data, expected)
    assert data.sampling_rate == pytest.approx(1000)


def test_arrays_of_xarray_without_coordinates(xr):
    data = from_frame(xr.DataArray(BLOCK, dims=("trial", "time", "feature")))
    assert_sequences(data, BLOCK.tolist())
    assert (data.ids, data.clocks, data.channel_names, data.sampling_rate) == (("0", "1", "2"), (), None, None)
    data = from_frame(xr.DataArray(BLOCK, dims=("mouse", "tick", "where")), id="mouse", time="tick", columns=["1"])
    assert_sequences(data, BLOCK[:, :, 1:].tolist())
    assert data.channel_names == ("1",)
    assert_sequences(from_frame(xr.DataArray(BLOCK[0], dims=("time", "channel"))), BLOCK[:1].tolist())
    assert_sequences(from_frame(xr.DataArray(BLOCK[:, :, 0], dims=("id", "time"))), BLOCK[:, :, :1].tolist())
    data = from_frame(xr.DataArray(BLOCK[0, :, 0], dims="time", name="speed"))
    assert_sequences(data, BLOCK[:1, :, :1].tolist())
    assert data.channel_names == ("speed",)
    assert_sequences(from_frame(xr.DataArray(BLOCK > 0, dims=("trial", "time", "feature"))), (BLOCK > 0).tolist())


def test_data_sets_of_xarray(xr):
    variables = {"x": (("subject", "time"), BLOCK[:, :, 0]), "y": (("time", "subject"), BLOCK[:, :, 1].T)}
    coords = {"subject": [7, 8, 9], "time": np.arange(5) / 4}
    data = from_frame(xr.Dataset({**variables, "label": ("subject", [1, 2, 1])}, coords))
    assert_sequences(data, BLOCK.tolist())
    assert data.ids == ("7", "8", "9") and data.channel_names == ("x", "y") and data.clocks == ("time",)
    assert data.labels is not None and data.labels.tolist() == [1, 2, 1] and data.sampling_rate == 4
    other = xr.Dataset({**variables, "age": ("subject", [30, 40, 50])}, coords)
    assert_sequences(from_frame(other, columns=["y", "x"]), BLOCK[:, :, ::-1].tolist())
    assert_sequences(
        from_frame(xr.Dataset({"x": ("time", BLOCK[0, :, 0]), "y": ("time", BLOCK[0, :, 1])})), BLOCK[:1].tolist()
    )
    assert_sequences(from_frame(xr.Dataset({"z": (("id", "time", "channel"), BLOCK)})), BLOCK.tolist())
    other = xr.Dataset({n: (("mouse", "time"), BLOCK[:, :, i]) for i, n in enumerate("xy")})
    assert_sequences(from_frame(other), BLOCK.tolist())


def test_sentences_of_xarray(xr):
    def array(*dims, values=BLOCK, **coords):
        return xr.DataArray(values[(0,) * (3 - len(dims))], dims=dims, coords=coords)

    variables = {"x": (("id", "time"), BLOCK[:, :, 0]), "age": ("id", [1.0, 2.0, 3.0])}
    bad = [
        (
            array("id", "t", "channel"),
            {},
            "the DataArray has no dimension 'time', only id, t, channel: name the dimension with time=…",
        ),
        (
            array("time", "where"),
            {},
            "the DataArray has dimensions for sequences or channels whose roles are unknown, 'where': name the",
        ),
        (
            array("a", "time", "b"),
            {},
            "the DataArray has dimensions for sequences or channels whose roles are unknown, 'a', 'b': name the",
        ),
        (
            array("id", "time", "trial"),
            {},
            "the DataArray has dimensions for sequences or channels whose roles are unknown, 'id', 'trial': ",
        ),
        (
            array("id", "time", "channel"),
            {"id": "mouse"},
            "the DataArray has no dimension 'mouse'; its dimensions other than 'time' are 'id', ",
        ),
        (array("id", "time", "channel"), {"label": "kind"}, "the DataArray has no variable 'kind'"),
        (
            array("id", "time", "channel"),
            {"columns": ["z"]},
            "the DataArray has no channel 'z', only 0, 1: select channels",
        ),
        (array("id", "time", "channel", id=["p", "p", "q"]), {}, "the DataArray: two sequences have the id 'p'"),
        (
            array("id", "time", "channel", time=[0, 1, 1, 2, 3]),
            {},
            "the DataArray, time step 1 and time step 2: both have",
        ),
        (
            array("id", "time", "channel", time=list("abcde")),
            {},
            "the DataArray, coordinate 'time' has dtype <U1: convert",
        ),
        (array("id", "time", "channel", values=BLOCK.astype(str)), {}, "the DataArray has dtype <U"),
        (
            array("id", "time", "channel", label=("channel", ["a", "b"])),
            {},
            "the DataArray, 'label' has the dimension 'channel'",
        ),
        (
            array("id", "time", "channel", values=BLOCK[:0]),
            {},
            "the DataArray has 0 sequences of 5 time steps and 2 channels",
        ),
        (
            xr.Dataset(variables),
            {},
            "the Dataset, variable 'age' has other dimensions (id) than 'x' (id, time): choose the channels",
        ),
        (xr.Dataset(variables), {"columns": ["z"]}, "the Dataset has no variables that are channels: name some with"),
        (
            xr.DataArray(np.ones((1, 2, 3, 4)), dims=("id", "time", "channel", "z")),
            {},
            "the DataArray has the dimensions id, time, channel, z: keep 'time', one dimension for",
        ),
        (
            xr.Dataset({n: (("time", "channel"), BLOCK[0]) for n in "ab"}),
            {},
            "the Dataset has several variables and the dimension 'channel'",
        ),
    ]
    for data, options, sentence in bad:
        with says(sentence):
            from_frame(data, **options)


def test_xarray_needs_no_narwhals(xr, monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals.stable.v1", None)
    assert len(from_frame(xr.DataArray(BLOCK, dims=("id", "time", "channel")))) == 3


@pytest.mark.parametrize("way", ["frame", pytest.param("parquet", marks=needs("pyarrow"))])
def test_blanks_around_ids_and_labels_are_none_as_in_text(tmp_path, way):
    table = {"id": ["a", "a ", "b"], "time": [0.0, 1.0, 0.0], "x": [1.0, 2.0, 3.0], "label": ["up ", "up", "down"]}
    if way == "parquet":
        (tmp_path / "a.parquet").write_bytes(frame_bytes(**table))
        data = ms.storage.read_parquet(tmp_path / "a.parquet")
    else:
        data = from_frame(pytest.importorskip("pandas").DataFrame(table))
    assert data.ids == ("a", "b") and data.labels.tolist() == ["up", "down"]
    table["id"][0] = " "
    with pytest.raises(ReadError, match="row 0: column 'id' has empty cells: fill them or remove the rows"):
        from_frame(pytest.importorskip("pandas").DataFrame(table))


@pytest.mark.parametrize("way", ["frame", pytest.param("parquet", marks=needs("pyarrow"))])
def test_an_index_of_dates_without_a_name(tmp_path, way):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    when = pd.Timestamp("2024-05-01") + pd.to_timedelta([40, 0, 20, 20, 0, 40], unit="ms")
    frame = pd.DataFrame({"id": list("aaabbb"), "x": [3.0, 1, 2, 5, 4, 6]}, index=when)
    if way == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / "a.parquet")
        data = ms.storage.read_parquet(tmp_path / "a.parquet")
    else:
        data = from_frame(frame)
    assert data.clocks == ("time",) and data.sampling_rate == 50 and data.channel_names == ("x",)
    assert [x.ravel().tolist() for x in data.sequences] == [[1, 2, 3], [4, 5, 6]]


def test_an_index_of_floats_without_a_name():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    data = from_frame(pd.DataFrame({"x": [3.0, 1, 2]}, index=[0.04, 0.0, 0.02]))
    assert data.clocks == ("time",) and data.sampling_rate == 50 and data.sequences[0].ravel().tolist() == [1, 2, 3]
    data = from_frame(pd.DataFrame({"x": [3.0, 1, 2, 5]}, index=[0.3, 0.9, -2.0, 0.1]))  # no clock
    assert data.clocks == () and data.sequences[0].ravel().tolist() == [3, 1, 2, 5]
