"""What pandas and NumPy read of a table of text is what the cell by cell reader reads, or it is left to that."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import SAMPLES, damaged, needs

from manifoldseq.storage import ReadError, read_csv, read_directory
from manifoldseq.storage.readers import _csv, _plain_table
from manifoldseq.storage.readers._csv import Text
from manifoldseq.storage.readers._plain_table import Layout, plain_table

PARSERS = ["numpy", pytest.param("pandas", marks=needs("pandas"))]


@pytest.fixture(params=PARSERS)
def parser(request, monkeypatch):
    """Read all plain tables, small ones too, with this parser."""
    if request.param == "pandas":
        pytest.importorskip("pandas")
    monkeypatch.setattr(_plain_table, "SMALL", 0 if request.param == "pandas" else sys.maxsize)
    monkeypatch.setattr(_plain_table, "LARGE", sys.maxsize)
    return request.param


def outcome(read, path):
    """Return everything that a reader tells of a file."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            data = read(path)
        except ReadError as error:
            return str(error)
    said = [str(warning.message) for warning in caught]
    labels = None if data.labels is None else data.labels.tolist()
    values = [(x.shape, x.tobytes()) for x in data.sequences]
    return data.ids, labels, values, data.channel_names, data.clocks, data.sampling_rate, said


def assert_same(monkeypatch, read, path):
    """Compare with the reader that looks at every cell."""
    fast = outcome(read, path)
    with monkeypatch.context() as context:
        for module in (_csv,):
            context.setattr(module, "plain_table", lambda path, layout: None)
        assert outcome(read, path) == fast


SURPRISES = (
    "a,1e400\nb,2", "a,nan\nb,1", "a,iNF\nb,1", "a,\nb,1", "a,1\x0b\nb,2", "a,1\x1c\nb,2", "a,1\rb,2", "a,1\r\nb,2\r\n",
    '"a",1\nb,2', "a,１\nb,2", "a, 1 \nb,\t2", "a,+.5e1\nb,-5.", "a,1\n\nb,2\n\n", "a,1_0\nb,1", "a,0x1\nb,1", "a,1",
    "",    "a,1,\nb,2", "a,1\nb", "a,1\n \nb,2", " a ,1\nb,2", "a#b,1\n#c,2", "é,1\nb,2",
    "NA,1\nnan,2", "007,1\n7,2", "True,1\nFalse,0", "1.0,1\n1,2", ",1\n,2", "1e400,1\n-0,2", "a\0b,1\na,2",
    "a,1\0\nb,2", "a,-0\nb,+5", "a,1.\nb,.5", "a,9007199254740993\nb,1e-400", "a,True\nb,1", "a,1\r\r\nb,2",
    "a,1\r", "a,1\n\r\nb,2",
    "a,1,\nb,2,", "a,1,5\nb,2,6", "a,1\nb,2,", "a,1\nb,2,3", "a,1,2\nb\nc,3", 'a"b,1\nc,2', '"a,b",1\nc,2',
    'a,"1"\nb,2', "a,1\n,", ",\n,", "a,na\nb,N/A", "a,?\nb,NULL", "a, ?\nb,none ", "a,-nan\nb,1", "a,NaN\nb,NAN",
    "a,1d5\nb,1",
    "a,1,000\nb,2,000", "a,1 2\nb,3", "a,inf\nb,1", "\ufeffa,1\nb,2", "a,1\u2028b,2", "a,1\x85\nb,2", "a\x85,1\na,2",
    "a;1\nb;2", "1;2,3\n4;5,6", "a,1\nb,2\nb", "a,1\nb,2\n,,", "a,x\nb,2", "a,1\nb,2\x1a",
    "a,True\nb,False", "a,TRUE\nb,", "a,true\nb,?", "True,1\nb,",
)  # fmt: skip


@parametrize("body", SURPRISES, fast=10)
def test_surprises(tmp_path, monkeypatch, parser, body):
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "table.csv"
    for header, times in product(("id,x", "x,label", "x,y", ""), (1, 3)):
        path.write_bytes("\n".join([header] * bool(header) + [body] * times).encode())
        if header:
            name = "id" if header == "id,x" else None
            assert_same(monkeypatch, partial(read_csv, id=name, time=None), path)
        assert_same(monkeypatch, read_directory, path.parent)


@pytest.mark.slow
@pytest.mark.parametrize("body", SURPRISES)
def test_surprises_with_decimal_commas(tmp_path, monkeypatch, parser, body):
    """Cells with points where there should be commas, too; texts keep theirs."""
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "table.csv"
    for swap, times in product((True, False), (1, 3)):
        cells = body.replace(",", ";").replace(".", ",") if swap else body.replace(",", ";")
        path.write_bytes("\n".join(["id;x", *[cells.replace("a;", "a.b,c;")] * times]).encode())
        read = partial(read_csv, time=None, decimal=",")
        assert_same(monkeypatch, read, path)
        assert_same(monkeypatch, partial(read_directory, decimal=","), path.parent)
        if swap:  # the same numbers as with points
            points = tmp_path / "points.csv"
            points.write_bytes("\n".join(["id;x", *[body.replace(",", ";").replace("a;", "a.b,c;")] * times]).encode())
            want, got = outcome(partial(read_csv, time=None, delimiter=";"), points), outcome(read, path)
            if not isinstance(want, str) and "," not in body.replace("a,", "").replace("b,", "").replace("c,", ""):
                assert got[2] == want[2] and got[0] == want[0], body


def test_a_text_that_is_not_utf8(tmp_path, monkeypatch, parser):
    for number_of, body in enumerate(("a,1\né,2\n", "a,1\nb,é\n")):
        path = tmp_path / f"{number_of}.csv"
        path.write_bytes(f"id,x\n{body}".encode("latin-1"))
        assert_same(monkeypatch, lambda path: read_csv(path, time=None), path)
        path.write_bytes(f"note,id,x\n{'é,a,1'}\n".encode("latin-1"))
        assert_same(monkeypatch, lambda path: read_csv(path, time=None, channels=["x"]), path)


@pytest.mark.parametrize("delimiter", [";", "\t", " ", "|", ".", "§", "1", "e"])
def test_delimiters(tmp_path, monkeypatch, parser, delimiter):
    (path := tmp_path / "table.csv").write_text(f"id,x\na,{3}\nb,{-4}\n".replace(",", delimiter))
    assert_same(monkeypatch, lambda path: read_csv(path, time=None, delimiter=delimiter), path)


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["1,0", "0,1"])
def test_cells_are_as_long_as_the_csv_module_takes(tmp_path, monkeypatch, parser, kept):
    for length in (131_072, 131_073):
        for row in ("a," + kept.replace(",", "." + "0" * (length - 3)), "a" * length + ",1"):
            (path := tmp_path / "table.csv").write_text("id,x\nb,2\n" + row + "\n" + "c,3\n" * 70_000)
            assert_same(monkeypatch, lambda path: read_csv(path, time=None), path)
    assert "field larger than field limit" in outcome(lambda path: read_csv(path, time=None), path)


@pytest.mark.slow
def test_short_cells(tmp_path, parser):
    """Every cell of up to two of these characters, and what stands before and after digits."""
    alphabet = "01.eE+-_x \tinfaNA\x0b\x1c\xa0"
    cells = {"".join(some) for length in range(3) for some in product(alphabet, repeat=length)}
    cells |= {f"1{a}{b}" for a in alphabet for b in alphabet} | {f"{a}1{b}2" for a in alphabet for b in alphabet}
    read = 0
    for cell in sorted(cells):
        (path := tmp_path / "cells.csv").write_text(f"x,y\n{cell},1\n0,1\n")
        found = plain_table(path, Layout(",", 1, 2, [[0, 1]]))
        if found is not None:
            np.testing.assert_array_equal(found[0][0][:, 0], [Text(",").number(cell), 0.0], err_msg=repr(cell))
            assert np.signbit(found[0][0][0, 0]) == np.signbit(Text(",").number(cell))
            read += 1
    assert read > 50


def test_numbers_are_rounded_to_the_nearest(tmp_path, parser):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**63, 20_000, dtype=np.int64).view(np.float64)
    texts = [repr(x) for x in bits[np.isfinite(bits)].tolist()]
    texts += [f"{x:.25e}" for x in rng.standard_normal(2_000).tolist()]
    texts += [f"{x}{y}" for x, y in rng.integers(2**60, 2**63, (2_000, 2)).tolist()]
    (path := tmp_path / "table.csv").write_text("\n".join(["x,y", *(f"{text},0" for text in texts), ""]))
    found = plain_table(path, Layout(",", 1, 2, [[0], [1]]))
    assert found is not None
    assert found[0][0].tobytes() == np.array(list(map(float, texts))).tobytes()


def test_plain_tables_need_no_look_at_cells(tmp_path, parser):
    """Else they would be read slowly, and nothing would tell."""
    path = tmp_path / "table.csv"
    path.write_text("id;x\na,b.c;1,5\na,b.c;-2e-1\n")
    found = plain_table(path, Layout(";", 1, 2, [[1]], [0], ","))
    assert found is not None and found[0][0].ravel().tolist() == [1.5, -0.2] and found[1][0][0] == ["a,b.c"]
    path.write_text("id,x,label\nNA,1,up\nNA,2,up\n007,-3e1,\n7,4,\n")
    found = plain_table(path, Layout(",", 1, 3, [[1]], [0, 2]))
    assert found is not None
    (values,), ((ids, lengths), (labels, _)) = found
    assert values.tolist() == [[1], [2], [-30], [4]] and values.flags.c_contiguous
    assert (ids, lengths.tolist(), labels) == (["NA", "007", "7"], [2, 1, 1], ["up", ""])
    path.write_text("x,y\n1,\n?,2\nNA,3\n")
    found = plain_table(path, Layout(",", 1, 2, [[0, 1]]))
    if parser == "pandas":
        assert found is not None
        np.testing.assert_array_equal(found[0][0], [[1, np.nan], [np.nan, 2], [np.nan, 3]])


def test_damaged_tables(tmp_path, monkeypatch, parser):
    for sample in (SAMPLES["csv"], SAMPLES["directory of csv"]):
        for content in damaged(sample, 300, seed=2):
            path = sample.write(tmp_path, content)
            assert_same(monkeypatch, sample.read, path)
            (tmp_path / f"walks{sample.ending}").unlink()


LONG = {
    "plain": (None, ""),
    "a text among numbers": (40_000, "x1,0,1"),
    "an empty cell": (70_000, "3,1,"),
    "a short row": (30_000, "3,1"),
    "a long row": (30_000, "3,1,2,3"),
    "a truth value": (80_000, "3,1,true"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_long_tables(tmp_path, monkeypatch, parser, case):
    """Of several megabytes, which pandas cuts into parts."""
    place, row = LONG[case]
    rows = [f"{i // 1000},{i:030},{i % 7}.{i:030}" for i in range(80_000)]
    rows = rows if place is None else [*rows[:place], row, *rows[place:]]
    (path := tmp_path / "table.csv").write_text("\n".join(["id,n,x", *rows, ""]))
    assert path.stat().st_size > 5 * 2**20
    assert_same(monkeypatch, lambda path: read_csv(path, time=None), path)


@pytest.mark.slow
@pytest.mark.parametrize("later", ["007", "true", "x"])
def test_texts_may_look_like_numbers_later(tmp_path, monkeypatch, parser, later):
    rows = [f"{'walk' if i < 40_000 else later},{i:030},{i % 7}.{i:030}" for i in range(80_000)]
    (path := tmp_path / "table.csv").write_text("\n".join(["id,n,x", *rows, ""]))
    assert_same(monkeypatch, lambda path: read_csv(path, time=None), path)
    assert read_csv(path, time=None).ids == ("walk", later)


def test_without_memory_the_cells_are_read(tmp_path, monkeypatch, parser):
    (path := tmp_path / "table.csv").write_text("x,y\n1,2\n")

    def refuse(path: Path, needed: int) -> None:
        raise ReadError("no memory")

    monkeypatch.setattr(_plain_table, "require_memory", refuse)
    assert plain_table(path, Layout(",", 1, 2, [[0, 1]])) is None


@needs("pandas")
def test_a_pandas_that_cannot_be_imported_is_none(tmp_path, monkeypatch):
    (path := tmp_path / "table.csv").write_text("x,y\n1,2\n")
    monkeypatch.setattr(_plain_table, "LARGE", 0)
    monkeypatch.setattr(_plain_table, "SMALL", 0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = plain_table(path, Layout(",", 1, 2, [[0, 1]]))
    assert found is not None and found[0][0].tolist() == [[1, 2]]
