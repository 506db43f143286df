"""``--labels``: paired with the rows of the file, or by name; what is said where labels do not fit or are needed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import needs, parametrize

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.cli import main
from manifoldseq.evaluation import StatisticsClassifier

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command with the plugins that are installed."""

    def command(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return command


@pytest.fixture
def table(tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write `labels.txt`, a line per row; return 80 rows around three centres, and their classes."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 80)
    (tmp_path / "labels.txt").write_text("".join(f"c{kind}\n" for kind in kinds))
    return kinds[:, None] * 3 + rng.normal(0, 0.1, (80, 2)), kinds


def write(path: Path, header: str, rows: object) -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]  # type: ignore[attr-defined]
    path.write_text("\n".join(lines) + "\n")
    return path


def assigned(folder: Path) -> list[tuple[str, str]]:
    """Return label and cluster of each row."""
    rows = csv.DictReader((folder / "assignments.csv").read_text().splitlines())
    return [(row["label"], row["cluster"]) for row in rows]


@parametrize("form", ["visits", "visits in time", "ids in the third column", "parquet"], fast=1)
def test_labels_stay_with_the_rows_of_the_file(
    run: Run, tmp_path: Path, table: tuple[np.ndarray, np.ndarray], form: str
) -> None:
    X, _ = table
    ids = [f"s{i % 20}" for i in range(80)]
    options: tuple[str, ...] = ()
    if form == "visits":
        data = write(tmp_path / "x.csv", "id,a,b", zip(ids, *X.T, strict=True))
    elif form == "visits in time":  # the later visits of a member come first
        times = [(80 - i) // 20 + 0.5 for i in range(80)]
        data = write(tmp_path / "x.csv", "id,time,a,b", zip(ids, times, *X.T, strict=True))
    elif form == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        data = tmp_path / "x.parquet"
        pq.write_table(pa.table({"id": ids, "a": X[:, 0], "b": X[:, 1]}), data)
    else:
        data, options = write(tmp_path / "x.csv", "a;b;who", []), ("--read", "id=who", "--read", "delimiter=;")
        data.write_text("a;b;who\n" + "".join(f"{a};{b};{i}\n" for i, (a, b) in zip(ids, X, strict=True)))
    plain = write(tmp_path / "plain.csv", "a,b", X)
    pairs = []
    for path, more in [(plain, ()), (data, options)]:
        folder = tmp_path / f"run-{path.stem}"
        status, out, err = run(
            "fit", "kmeans", path, "--set", "n_clusters=3", "--labels", tmp_path / "labels.txt", *more, "-o", folder
        )
        assert status == 0, err
        assert "Agreement with the labels 1.00" in out
        pairs.append(assigned(folder))
        centres = ms.load(folder).cluster_centers_
        assert centres.shape == (3, 2)
    counts = [sorted({label: [one for one, _ in found].count(label) for label, _ in found}.items()) for found in pairs]
    assert counts[0] == counts[1]
    # the labels are a function of the values: each cluster has one label
    for found in pairs:
        assert len(set(found)) == 3


@pytest.mark.slow
def test_rows_put_together_by_id_are_not_paired_with_a_file_without_ids(
    run: Run, tmp_path: Path, table: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = table
    first = write(tmp_path / "x.csv", "id,a,b", zip([f"s{i % 20}" for i in range(80)], *X.T, strict=True))
    second = write(tmp_path / "y.csv", "c,d", X[:, ::-1])
    status, _, err = run("fit", "mixture-pcca", first, second, "-o", tmp_path / "run")
    assert (
        status == 2 and f"the rows of {first} are not sorted by id or time, and {second} has no ids for pairing" in err
    )
    first = write(tmp_path / "x.csv", "id,a,b", zip([f"s{i // 4}" for i in range(80)], *X.T, strict=True))
    status, out, err = run("fit", "mixture-pcca", first, second, "--no-quality", "-o", tmp_path / "run")
    assert status == 0 and "80 rows paired in order" in out, err


@parametrize("kind", ["csv", "npy"], fast=1)
def test_labels_stay_with_the_rows_of_a_folder_that_are_sorted(
    run: Run, tmp_path: Path, table: tuple[np.ndarray, np.ndarray], kind: str
) -> None:
    X, _ = table
    data = tmp_path / "data"
    data.mkdir()
    times = np.random.default_rng(1).permutation(80) / 10
    for i, rows in enumerate(np.split(np.column_stack([X, times]), [30, 55])):
        if kind == "npy":
            np.save(data / f"{i}.npy", rows)
        else:
            write(data / f"{i}.csv", "a,b,t", rows)
    reading = ("--read", "time=2" if kind == "npy" else "time=t")
    labels = ("--labels", tmp_path / "labels.txt")
    status, out, err = run("fit", "kmeans", data, *reading, *labels, "--set", "n_clusters=3", "-o", tmp_path / "run")
    assert status == 0 and "Agreement with the labels 1.00" in out, err
    assert len(set(assigned(tmp_path / "run"))) == 3


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"w{i},{'high' if i % 2 else 'low'}\n" for i in range(6)),
        "".join(f"S{9 - i},{'high' if i % 2 else 'low'}\n" for i in range(6)),
        "file,age,label\n" + "".join(f"w{i}.csv,{i},{'high' if i % 2 else 'low'}\n" for i in range(6)),
    ],
    ids=["files", "ids", "three columns"],
)
def test_labels_by_file_or_id_of_a_folder(run: Run, folder: Path, text: str) -> None:
    for i in range(6):
        rows = (folder / f"w{i}.csv").read_text().splitlines()
        (folder / f"w{i}.csv").write_text("\n".join(["id,x,y", *(f"S{9 - i},{row}" for row in rows[1:])]) + "\n")
    (folder.parent / "labels.txt").write_text(text)
    command = ("fit", "statistics-kmeans", folder, "--labels", folder.parent / "labels.txt", "--set", "n_clusters=2")
    status, _, err = run(*command, "--no-quality", "-o", folder.parent / "run")
    assert status == 0, err
    assert [label for label, _ in assigned(folder.parent / "run")] == ["low", "high"] * 3
    (folder.parent / "labels.txt").write_text(text.replace(",", ",x,y,", 1).replace("label", "z"))
    status, _, err = run(*command, "--no-quality", "-o", folder.parent / "other")
    assert status == 2 and ("rename one column to 'file' or 'id' and another column to 'label'" in err)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of six recordings, three low and three high."""
    data = tmp_path / "walks"
    data.mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        np.savetxt(data / f"w{i}.csv", 9 * (i % 2) + rng.random((12, 2)), delimiter=",", header="x,y", comments="")
    return data


@parametrize(("header", "ending"), [("", ""), ("", ".csv"), ("file,kind\n", "")], fast=1)
def test_lines_of_name_and_label_are_matched_by_name(run: Run, folder: Path, header: str, ending: str) -> None:
    text = header + "".join(f"w{i}{ending},{'high' if i % 2 else 'low'}\n" for i in (5, 0, 3, 2, 1, 4))
    labels = folder.parent / "labels.txt"
    labels.write_text(text)
    out = folder.parent / "run"
    status, said, err = run("fit", "statistics-kmeans", folder, "--labels", labels, "--set", "n_clusters=2", "-o", out)
    assert status == 0 and "6 sequences of 12 steps, 2 channels, 2 classes" in said, err
    assert [label for label, _ in assigned(out)] == ["low", "high"] * 3


def test_names_of_a_table_give_all_rows_of_an_id_its_label(
    run: Run, tmp_path: Path, table: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = table
    data = write(tmp_path / "x.csv", "id,a,b", zip([f"s.{i % 4}" for i in range(80)], *X.T, strict=True))
    (tmp_path / "names.csv").write_text("id,kind\ns.3,d\ns.1,b\ns.0,a\ns.2,c\n")
    status, _, err = run(
        "fit", "kmeans", data, "--labels", tmp_path / "names.csv", "--no-quality", "-o", tmp_path / "r"
    )
    assert status == 0, err
    rows = csv.DictReader((tmp_path / "r" / "assignments.csv").read_text().splitlines())
    assert {(row["id"], row["label"]) for row in rows} == {("s.0", "a"), ("s.1", "b"), ("s.2", "c"), ("s.3", "d")}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("w0,a\nw1,b\n", "has no label for w2.csv and 3 more: write one line for each file"),
        ("".join(f"w{i};a\n" for i in range(6)), "has the line 'w5;a', which begins with a name: write name,label in"),
        ("".join(f"v{i},a\n" for i in range(6)), "the first cells are not names in the data, such as 'w0.csv'"),
        ("w0,a\nw0,b\n", "line 2 names w0.csv again, after line 1"),
        ("a\nb\n", "contains labels of shape (2,) for 6 sequences"),
    ],
)
def test_names_that_do_not_fit_raise_an_error(run: Run, folder: Path, text: str, sentence: str) -> None:
    (folder.parent / "labels.txt").write_text(text)
    run_dir = folder.parent / "run"
    status, out, err = run("fit", "statistics-kmeans", folder, "--labels", folder.parent / "labels.txt", "-o", run_dir)
    assert status == 2 and sentence in err and "Traceback" not in err and not out
    assert not run_dir.exists()


def test_one_label_and_labels_with_commas_stay_labels(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((4, 2)))
    (tmp_path / "labels.txt").write_text("up, fast\ndown, slow\nup, fast\ndown, slow\n")
    command = ("fit", "kmeans", tmp_path / "x.npy", "--set", "n_clusters=2", "--no-quality")
    status, out, err = run(*command, "--labels", tmp_path / "labels.txt", "-o", tmp_path / "run")
    assert status == 0 and "4 rows of 2 columns, 2 classes" in out, err


@pytest.mark.parametrize("estimator", ["lds-classifier", "statistics-classifier", "linear-classifier"])
def test_a_classifier_without_labels_says_how_to_give_them(run: Run, folder: Path, estimator: str) -> None:
    status, _, err = run("fit", estimator, folder, "-o", folder.parent / "run")
    assert status == 2 and not (folder.parent / "run").exists()
    assert f"{estimator} needs labels, but {folder} has none: pass --labels FILE" in err
    assert all(word in err for word in ("name,label", "column 'label'", "one subfolder per label", "labels.csv"))


def test_a_sequence_is_named_by_its_file_or_id(run: Run, folder: Path) -> None:
    (folder / "w3.csv").write_text("x,y\n1,2\n")
    command = ("fit", "lds-kmeans", "--set", "n_states=2", "--set", "n_clusters=2")
    status, _, err = run(*command, folder, "-o", folder.parent / "run")
    assert status == 2 and f"Error: {folder / 'w3.csv'} has 1 time steps but n_states=2 needs" in err
    for i in range(6):
        rows = (folder / f"w{i}.csv").read_text().splitlines()
        (folder / f"w{i}.csv").write_text("\n".join(["id,x,y", *(f"{i + 7},{row}" for row in rows[1:])]) + "\n")
    status, _, err = run(*command, folder, "-o", folder.parent / "run")
    assert status == 2 and f"Error: {folder}, id '10', has 1 time steps" in err
    long = folder.parent / "long.csv"
    long.write_text("id,time,x\n" + "".join(f"a,{t},{t % 3}\nb,{t},{t % 2}\n" for t in range(9)) + "c,0,1\n")
    status, _, err = run(*command, long, "-o", folder.parent / "run")
    assert status == 2 and f"Error: {long}, id 'c', has 1 time steps" in err


@needs("lds")
def test_auto_names_the_estimators_that_have_a_rule(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((9, 2)))
    status, _, err = run("fit", "kmeans", tmp_path / "x.npy", "--set", "n_clusters=auto", "-o", tmp_path / "run")
    assert status == 2 and "kmeans has no rule for n_clusters=auto: pass a number, or fit lds-kmeans" in err
    assert not (tmp_path / "run").exists()
    able = {one.name for _, one in hooks.records("estimators") if "n_clusters" in getattr(one, "auto", ())}
    assert {"lds-kmeans"} <= able <= {"lds-kmeans", "sequence-kmeans"}


def test_classifier_learns_from_named_labels(run: Run, folder: Path) -> None:
    (folder.parent / "labels.txt").write_text("".join(f"w{i},{'high' if i % 2 else 'low'}\n" for i in range(6)[::-1]))
    out = folder.parent / "run"
    status, _, err = run("fit", "statistics-classifier", folder, "--labels", folder.parent / "labels.txt", "-o", out)
    assert status == 0, err
    data = ms.storage.read(folder)
    expected = StatisticsClassifier().fit(data.sequences, ["low", "high"] * 3)
    np.testing.assert_allclose(ms.load(out).coef_, expected.coef_)


def test_text_columns_that_a_fit_does_not_use_are_ignored(run: Run, folder: Path) -> None:
    """In a folder as in one table: only what was fitted on is looked for in what it is applied to."""
    out = folder.parent / "run"
    status, _, err = run("fit", "statistics-kmeans", folder, "--set", "n_clusters=2", "--no-quality", "-o", out)
    assert status == 0, err
    assert run("apply", out, folder, "-o", folder.parent / "before.csv")[0] == 0
    for file in folder.iterdir():
        header, *rows = file.read_text().splitlines()
        lines = [line.split() for line in (header.replace(",", " "), *(row.replace(",", " ") for row in rows))]
        file.write_text("".join(f"{'note' if i == 0 else 'good'},{y},{x}\n" for i, (x, y) in enumerate(lines)))
    status, _, err = run("apply", out, folder, "-o", folder.parent / "after.csv")
    assert status == 0, err
    assert (folder.parent / "after.csv").read_text() == (folder.parent / "before.csv").read_text()
    status, _, err = run("fit", "statistics-kmeans", folder, "--set", "n_clusters=2", "-o", folder.parent / "other")
    assert status == 2 and "'good', which is not a number" in err and "leave the column out with channels=" in err


@needs("hope")
def test_the_error_of_a_setting_is_not_replaced_by_one_about_the_defaults(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((40, 4)))
    status, _, err = run("fit", "hope", tmp_path / "rows.npy", "--set", "n_components=0", "-o", tmp_path / "run")
    assert status == 2 and "n_components=0 is not valid" in err and "no rule" not in err
