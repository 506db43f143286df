"""The gait folder in the forms in which recordings lie on disks: the same answer, with names, in each of them."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.cli import main

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.gait import CHANNELS, FORMS, trials, write

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command with the plugins that are installed."""

    def command(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return command


ON_DISK = [form for form in FORMS if form != "long-frame"]
OPTIONS = {"one-nan": ("--read", "missing=linear")}


def assignments(folder: Path) -> dict[str, str]:
    """Return the cluster of each trial, by the name of the trial."""
    rows = list(csv.DictReader((folder / "assignments.csv").read_text().splitlines()))
    return {Path(row["id"]).stem: row["cluster"] for row in rows}


def agreement(found: dict[str, str]) -> float:
    _, cadences, names = trials()
    return float(adjusted_rand_score(cadences, [found[name] for name in names]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [form if form == "folder" else pytest.param(form, marks=pytest.mark.slow) for form in ON_DISK]
)
def test_clusters_are_the_cadences_and_carry_names(run: Run, tmp_path: Path, form: str) -> None:
    data = write(form, tmp_path)
    command = ("fit", "lds-kmeans", data, "--set", "n_clusters=3", "--no-quality", *OPTIONS.get(form, ()))
    status, out, err = run(*command, "-o", tmp_path / "run")
    assert status == 0, err
    assert agreement(assignments(tmp_path / "run")) == 1.0
    assert "36 sequences of" in out and "3 channels" in out


def test_a_data_frame_gives_the_same(tmp_path: Path) -> None:
    from manifoldseq_lds import LDSKMeans

    data = ms.storage.from_frame(write("long-frame", tmp_path))
    assert data.channel_names == CHANNELS and data.sampling_rate == pytest.approx(100)
    labels = LDSKMeans(3, random_state=0).fit(data.sequences).labels_
    assert agreement(dict(zip(data.ids, map(str, labels), strict=True))) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("form", ON_DISK)
def test_three_clusters_are_chosen(run: Run, tmp_path: Path, form: str) -> None:
    data = write(form, tmp_path)
    auto = ("--choose",) if form == "subfolders" else ("--set", "n_clusters=auto")
    command = ("fit", "lds-kmeans", data, *auto, "--no-quality", *OPTIONS.get(form, ()), "-o", tmp_path / "run")
    status, out, err = run(*command)
    assert status == 0, err
    assert "n_clusters from 2 to 9 by the agreement of 12 pairs of halves, on one kernel matrix of 36 sequences." in err
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["chosen"]["n_clusters"] == 3 and about["parameters"]["n_clusters"] == "auto"
    assert "chosen: n_clusters=3, n_states=" in out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "How the settings were chosen" in page and "Compared settings with the deciding measure" in page
    assert agreement(assignments(tmp_path / "run")) == 1.0


@pytest.mark.slow
def test_three_clusters_are_chosen_in_a_data_frame(tmp_path: Path) -> None:
    from manifoldseq_lds import LDSKMeans

    data = ms.storage.from_frame(write("long-frame", tmp_path))
    model = LDSKMeans("auto", random_state=0).fit(data.sequences)
    assert model.n_clusters_ == 3 and model.choice_.best_params["n_clusters"] == 3
    assert agreement(dict(zip(data.ids, map(str, model.labels_), strict=True))) == 1.0


def test_only_what_is_open_is_chosen(run: Run, tmp_path: Path) -> None:
    data = write("folder", tmp_path)
    status, _, err = run("fit", "lds-kmeans", data, "--choose", "--set", "n_clusters=3", "-o", tmp_path / "run")
    assert status == 2 and "--choose chooses n_clusters, but --set sets it" in err and not (tmp_path / "run").exists()
    status, _, err = run("fit", "lds-identifier", data, "--choose", "-o", tmp_path / "run")
    assert status == 2 and "has no rule that chooses parameters: --choose is supported by lds-kmeans" in err


def test_a_default_that_nobody_chose_is_said(run: Run, tmp_path: Path) -> None:
    plain = ("--set", "n_states=2", "--set", "moments=none", "--no-quality", "-o", tmp_path / "plain")
    _, out, err = run("fit", "lds-kmeans", write("folder", tmp_path), *plain)
    assert (
        "n_clusters=8 is the default, which does not depend on the data: add --choose to choose a value from the data, "
        "or --set n_clusters=" in out
    ), err


@pytest.mark.slow
def test_the_sentence_on_a_missing_cell_says_where_it_is_and_what_to_type(run: Run, tmp_path: Path) -> None:
    data = write("one-nan", tmp_path)
    for name, sentence in (
        ("statistics-kmeans", "interpolate by --read missing=linear, or fit lds-identifier with --set missing=smooth"),
        ("lds-kmeans", "use --set identifier.missing=smooth, or interpolate by --read missing=linear"),
    ):
        status, _, err = run("fit", name, data, "--set", "n_clusters=3", "-o", tmp_path / "run")
        assert status == 2 and f"{data / 'S03_trial2.csv'}, column knee_angle, t = 51 is missing" in err
        assert sentence in err and not (tmp_path / "run").exists()
    status, out, err = run("fit", "lds-identifier", data, "--set", "missing=smooth", "-o", tmp_path / "run")
    assert status == 0 and "Forecasts of the last" in out, err
    smoothed = ("--set", "n_clusters=3", "--set", "identifier.missing=smooth")
    status, out, err = run("fit", "lds-kmeans", data, *smoothed, "-o", tmp_path / "clusters")
    assert (status, err) == (0, "") and "\nstatistics-kmeans " in out
    assert run("apply", tmp_path / "clusters", data, "-o", tmp_path / "clusters.csv")[0] == 0
    assert len((tmp_path / "clusters.csv").read_text().splitlines()) == 37


@pytest.mark.slow
def test_labels_of_a_folder_in_a_table(run: Run, tmp_path: Path) -> None:
    data = write("folder", tmp_path)
    _, cadences, names = trials()
    lines = ["file,cadence", *(f"{name}.csv,{kind}" for name, kind in zip(names, cadences, strict=True))]
    (data / "labels.csv").write_text("\n".join(lines[:1] + lines[:0:-1]) + "\n")
    read = ms.storage.read(data)
    assert len(read) == 36 and read.labels is not None
    assert dict(zip([Path(name).stem for name in read.ids], read.labels.tolist(), strict=True)) == dict(
        zip(names, cadences.tolist(), strict=True)
    )
    status, out, _ = run("fit", "lds-kmeans", data, "--set", "n_clusters=3", "-o", tmp_path / "run")
    assert status == 0 and "Agreement with the labels 1.00" in out
    (data / "labels.csv").write_text("\n".join(lines[1:]).replace(".csv", ""))  # no titles, no endings
    assert ms.storage.read(data).labels.tolist() == read.labels.tolist()  # type: ignore[union-attr]


LABELS: dict[str, tuple[str, str]] = {
    "a file that is not in it": (
        "a,up\n",
        "labels.csv has no label for b.csv and 1 more: write one line for each file",
    ),
    "a name misspelt": (
        "file,label\na,up\nb,up\nC,down\n",
        "labels.csv has no label for c.csv (no such file: C): write one line for each file",
    ),
    "twice": (
        "a,up\nb,up\nc,up\na,down\n",
        "labels.csv, line 4 names a.csv again, after line 1: keep only one of the two lines",
    ),
    "twice, otherwise": ("name,y\na,up\na.csv,up\n", "labels.csv, line 3 names a.csv again, after line 2"),
    "no label": ("a,up\nb,\nc,up\n", "labels.csv, line 2 has no label for b"),
    "one cell": ("a\n", "labels.csv, line 1 does not have two cells: write the name of a file, a comma and its label"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_do_not_fit_raise_an_error(run: Run, tmp_path: Path, case: str) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n3,4\n")
    text, sentence = LABELS[case]
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(ms.storage.ReadError) as caught:
        ms.storage.read(tmp_path)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    status, _, err = run("fit", "statistics-kmeans", tmp_path, "-o", tmp_path / "run")
    assert status == 2 and sentence in err


def test_labels_of_files_that_are_not_there_are_warned_of(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "labels.csv").write_text("file,label\nc,down\nd,up\na,up\nb,up\n")
    with pytest.warns(UserWarning, match=r"labels\.csv names 1 file not in the folder: d$"):
        assert ms.storage.read(tmp_path).labels.tolist() == ["up", "up", "down"]  # type: ignore[union-attr]


def test_a_first_line_of_numbers_is_a_warning_on_the_terminal(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 3)).round(3).tolist()
    (tmp_path / "rows.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    status, out, err = run("fit", "kmeans", tmp_path / "rows.csv", "--no-quality", "-o", tmp_path / "run")
    assert status == 0 and "50 rows of 3 columns" in out
    assert f"Warning: {tmp_path / 'rows.csv'} has a first line of numbers, which is used as data" in err


def test_lists_and_numbers_on_the_command_line(run: Run, tmp_path: Path) -> None:
    lines = [f"{i},{t},{t % (i + 2)},{t},{i * t % 5}" for i in range(6) for t in range(20)]
    (tmp_path / "walks.csv").write_text("\n".join(["id,7,knee,hip,ankle", *lines]) + "\n")
    status, out, err = run(
        "fit", "statistics-kmeans", tmp_path / "walks.csv", "--read", "channels=knee,ankle", "--read", "time=7",
        "--set", "n_clusters=2", "--no-quality", "-o", tmp_path / "run",
    )  # fmt: skip
    assert status == 0 and "6 sequences of 20 steps, 2 channels" in out, err


def test_labels_in_two_places_raise_an_error(tmp_path: Path) -> None:
    data = write("subfolders", tmp_path)
    (data / "labels.csv").write_text("S01_trial1,slow\n")
    with pytest.raises(ms.storage.ReadError, match="and subfolders, whose names are labels, are in one folder"):
        ms.storage.read(data)


def test_interpolation_is_that_of_numpy_and_says_what_it_cannot() -> None:
    x = np.array([[1.0, np.nan], [np.nan, 2.0], [4.0, np.nan], [np.nan, 8.0]])
    found = ms.storage.interpolate(ms.storage.SequenceData([x])).sequences[0]
    np.testing.assert_allclose(found, [[1, 2], [2.5, 2], [4, 5], [4, 8]])
    empty = ms.storage.SequenceData([np.full((3, 1), np.nan)], ids=["walk"], channel_names=["knee"])
    with pytest.raises(ValueError, match="sequence 'walk' has no recorded value of channel knee"):
        ms.storage.interpolate(empty)


def test_unknown_ways_with_missing_values_raise_an_error(tmp_path: Path) -> None:
    with pytest.raises(ms.storage.ReadError, match="missing='mean' is not valid: choose 'keep' or 'linear'"):
        ms.storage.read(tmp_path, missing="mean")


def test_the_help_of_fit_names_the_options_of_every_reader(run: Run) -> None:
    _, out, _ = run("fit", "--help")
    listed = out.partition("Options of readers")[2].partition("Examples:")[0]
    options: dict[str, list[str]] = {}
    key = ""
    for word in listed.replace("all files", "all").split()[1:]:
        key = word if word.startswith(".") or word in ("folders", "all") else key
        options.setdefault(key, [])
        options[key] += [word] if word != key else []
    assert options["all"] == ["missing", "inflation"]
    assert options[".txt"]
    options[".csv"] = options[".txt"]  # one line for three endings
    for plugin, record in hooks.records("readers"):
        if plugin.distribution != "manifoldseq":  # another test's
            continue
        known = list(signature(record.resolved().factory).parameters)[1:]  # type: ignore[attr-defined]
        pattern = record.patterns[0].lstrip("*")  # type: ignore[attr-defined]
        if known:
            assert options["folders" if pattern == "/" else pattern] == known


def test_sequence_data_are_shown_in_a_line(tmp_path: Path) -> None:
    shown = repr(ms.storage.read(write("time-with-unit", tmp_path)))
    assert shown.startswith("<SequenceData 'gait': 36 sequences of ") and "\n" not in shown and len(shown) < 160
    assert "3 channels (hip_angle, knee_angle, ankle_angle), 100 per second" in shown
