"""``manifoldseq fit``: the run directory, the table, and errors for bad input."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.examples import two_levels
from helpers import parametrize, register_models
from sklearn.neighbors import NearestCentroid

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.storage import SequenceData

Run = Callable[..., tuple[int, str, str]]


def test_run_directory_holds_everything(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    status, _, err = run("fit", "sign", "two-levels", "--set", "offset=0.5", "--seed", "7", "-o", folder)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock", "assignments.csv", "evaluation.json", "history.csv", "metrics.json", "model.json", "model.npz",
        "report.html", "run.json", "run.toml",
    ]  # fmt: skip
    about = json.loads((folder / "run.json").read_text())
    assert about["state"] == "done" and about["parameters"]["random_state"] == 7
    settings = tomllib.loads((folder / "run.toml").read_text())
    assert settings["set"] == {"offset": 0.5, "name": "sign", "random_state": 7}
    assert settings["estimator"] == "sign" and settings["data"] == "two-levels" and settings["none"] == ["trouble"]
    assert ms.load(folder).labels_.tolist() == [0] * 10 + [1] * 10
    assert (folder / "history.csv").read_text().splitlines() == ["nit,fun", "0,3.0", "1,2.0", "2,1.5"]
    assert (folder / "assignments.csv").read_text().splitlines()[:2] == ["id,label,cluster", "0,down,0"]


def test_metrics_are_flat_and_include_controls(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("fit", "sign", "two-levels", "-o", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    names = ("purity", "nmi", "ari", "seconds")
    assert set(metrics) == {*names, "agreement_of_parts"} and {metrics[name] for name in names[:3]} == {1.0}
    evaluation = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    names = ["sign", *ms.evaluation.default_controls("clusters", "sequences"), "chance"]
    assert [row["name"] for row in evaluation["rows"]] == names and evaluation["greater_is_better"]
    assert evaluation["rows"][-1]["purity"] < 0.9 and abs(evaluation["rows"][-1]["ari"]) < 0.2
    assert evaluation["winner"] == "sign" and evaluation["measure"] == "ari" and evaluation["rows"][1]["ari"] == 1.0
    lines = out.splitlines()
    assert lines[0] == "two-levels: 20 sequences of 8 steps, 2 channels, 2 classes"
    assert lines[1].split()[:3] == ["purity", "NMI", "ARI"]
    assert lines[2].split()[:5] == ["sign", "*", "1.000", "1.000", "1.000"]
    assert lines[3].startswith("statistics-kmeans") and lines[4].startswith("autocovariance-kmeans")
    assert lines[9].startswith("chance") and lines[10].startswith("Agreement with the labels 1.00")


def test_labels_of_a_file(run: Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n" * 10)
    assert run("fit", "sign", "two-levels", "--labels", labels, "-o", tmp_path / "run")[0] == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["purity"] == 0.5
    np.save(tmp_path / "labels.npy", np.arange(3))
    status, _, err = run("fit", "sign", "two-levels", "--labels", tmp_path / "labels.npy", "-o", tmp_path / "other")
    assert status == 2 and "shape (3,) for 20 sequences" in err
    assert not (tmp_path / "other").exists()


def test_samples_take_one_label_per_row(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ms.register(hooks.EstimatorSpec("centroid", NearestCentroid, input="samples", summary="Nearest centroid"))
    X = np.concatenate([np.zeros((6, 2)), np.ones((4, 2))])
    X += 0.1 * np.random.default_rng(0).standard_normal((10, 2))
    y = np.array(["low"] * 6 + ["high"] * 4)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "y.txt").write_text("\n".join(y))
    np.savez(tmp_path / "Xy.npz", X=X, y=y)
    labelled = {"npy": ("X.npy", "--labels", "y.npy"), "text": ("X.npy", "--labels", "y.txt"), "npz": ("Xy.npz",)}
    monkeypatch.chdir(tmp_path)
    for name, arguments in labelled.items():
        _, out, err = run("fit", "centroid", *arguments, "-o", name)
        assert not err and "10 rows of 2 columns, 2 classes" in out
        np.testing.assert_allclose(ms.load(tmp_path / name).centroids_, [X[6:].mean(axis=0), X[:6].mean(axis=0)])
    np.save(tmp_path / "short.npy", y[:9])
    status, _, err = run(
        "fit", "centroid", tmp_path / "X.npy", "--labels", tmp_path / "short.npy", "-o", tmp_path / "no"
    )
    assert status == 2 and "shape (9,) for 10 rows: write one label for each" in err
    status, _, err = run("fit", "sign", "X.npy", "--labels", "y.npy", "-o", "no")
    assert status == 2 and "shape (10,) for 1 sequences" in err  # for sequences the file is one


def test_labels_of_sequences_are_those_of_their_rows(run: Run, tmp_path: Path) -> None:
    ms.register(hooks.EstimatorSpec("centroid", NearestCentroid, input="samples", summary="Nearest centroid"))
    assert run("fit", "centroid", "two-levels", "-o", tmp_path / "run")[0] == 0
    data = two_levels()
    assert data.labels is not None
    rows, labels = np.concatenate(data.sequences), np.repeat(data.labels, 8)
    expected = [rows[labels == name].mean(axis=0) for name in ("down", "up")]
    np.testing.assert_allclose(ms.load(tmp_path / "run").centroids_, expected)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("sgin", "two-levels"), "unknown estimator 'sgin': did you mean 'sign'?"),
        (("sign", "two-level"), "'two-level' is neither a file or folder nor the name of a data set: did you mean"),
        (("sign", "two-levels", "--set", "ofset=1"), "has no parameter 'ofset': did you mean 'offset'?"),
        (("sign", "two-levels", "--set", "offset"), "--set 'offset' has no '='"),
        (("sign", "two-levels", "--seed", "-1"), "Invalid value for '--seed'"),
        (("sign", "two-levels", "--set", "trouble=value"), "offset=nan is not valid: pass a number"),
        (("sign", __file__), "no reader accepts this name"),
        (("sign", "two-levels", "--read", "id=x"), "the file or folder two-levels does not exist"),
        (
            ("sign", "two-levels", "--dask", "tcp://x:1", "--jobs", "2"),
            "--jobs and --dask both select where to compute",
        ),
        (("sign", "two-levels", "--jobs", "0"), "Invalid value for '--jobs'"),
        (("sign", ""), "DATA is an empty string: pass a file, a folder"),
        (("sign",), "pass ESTIMATOR and DATA, or --config run.toml"),
        (("sign", "two-levels", "--config", "no.toml"), "File 'no.toml' does not exist"),
        (("sign", "two-levels", "--sed", "1"), "No such option"),
    ],
)
def test_bad_input_raises_an_error(run: Run, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    status, out, err = run("fit", *arguments, "-o", tmp_path / "run")
    assert status == 2 and out == ""
    assert sentence in err and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_file_goes_through_the_reader_of_its_pattern(run: Run, tmp_path: Path) -> None:
    def read(path: Path) -> SequenceData:
        values = np.array([float(line) for line in path.read_text().splitlines()])
        return SequenceData([np.full((3, 1), value) for value in values])

    ms.register(ms.hooks.ReaderSpec("levels", ("*.levels",), read))
    (tmp_path / "my.levels").write_text("-1\n2\n3\n")
    status, out, err = run("fit", "sign", tmp_path / "my.levels", "--set", "random_state=5", "-o", tmp_path / "run")
    assert (status, err) == (0, "") and "3 sequences of 3 steps, 1 channel" in out
    assert (tmp_path / "run" / "assignments.csv").read_text().split() == ["id,cluster", "0,0", "1,1", "2,1"]
    assert set(json.loads((tmp_path / "run" / "metrics.json").read_text())) == {"seconds"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]["random_state"] == 5


def test_finished_run_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    assert run("fit", "sign", "two-levels", "-o", tmp_path / "run")[0] == 0
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    status, _, err = run("fit", "sign", "two-levels", "-o", tmp_path / "run")
    assert status == 2 and "contains a finished run" in err
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    status, _, err = run("fit", "sign", "two-levels", "-o", tmp_path)
    assert status == 2 and "is not a run directory" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_failure_and_interrupt_are_recorded_and_can_be_repeated(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    status, _, err = run("fit", "sign", "two-levels", "--set", "trouble=bug", "-o", folder)
    assert status == 1 and "RuntimeError: a bug" in err
    about = json.loads((folder / "run.json").read_text())
    assert about["state"] == "failed" and "examples.py" in about["traceback"]
    assert run("fit", "sign", "two-levels", "--set", "trouble=interrupt", "-o", folder)[0] == 130
    assert json.loads((folder / "run.json").read_text())["state"] == "interrupted"
    assert run("fit", "sign", "two-levels", "-o", folder)[0] == 0
    assert json.loads((folder / "run.json").read_text())["state"] == "done"


def test_default_directories_are_numbered(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run("fit", "sign", "two-levels")[0] == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["sign-two-levels", "sign-two-levels-2"]


def test_run_is_running_until_it_is_done(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = []

    def record(*args: Any, **options: Any) -> Any:
        states.append(json.loads((tmp_path / "run" / "run.json").read_text())["state"])
        return ms.evaluation.evaluate(*args, **options)

    monkeypatch.setattr("manifoldseq.cli._fit.evaluate", record)
    assert run("fit", "sign", "two-levels", "-o", tmp_path / "run")[0] == 0
    assert states == ["running"]


def test_toml_is_read_back(run: Run, tmp_path: Path) -> None:
    name, kinds = 'a "b"\n\\ é\x7f', {"whole": 3, "flag": True, "list": [1.5, "x"], "inline": {"a b": 1}, "e": 1e-30}
    chosen = ("--set", f"name={name}", "--set", f"trouble={kinds}", "--set", "offset=-1e400", "--seed", "1")
    first, second = tmp_path / "first", tmp_path / "second"
    assert run("fit", "sign", "two-levels", "--no-quality", *chosen, "-o", first)[0] == 0
    written = tomllib.loads((first / "run.toml").read_text())
    wanted = {"name": name, "trouble": kinds, "offset": float("-inf"), "random_state": 1}
    assert written["set"] == wanted and "read" not in written and "none" not in written
    assert run("fit", "--config", first / "run.toml", "--no-quality", "-o", second)[0] == 0
    assert tomllib.loads((second / "run.toml").read_text()) == written
    read = ms.load(second).get_params()
    assert read == wanted and type(read["trouble"]["flag"]) is bool and type(read["trouble"]["whole"]) is int


def test_config_repeats_a_run_exactly(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = two_levels()
    np.savez(tmp_path / "levels.npz", X=np.stack(data.sequences), y=data.labels)
    np.save(tmp_path / "labels.npy", np.repeat(["a", "b"], 10))
    monkeypatch.chdir(tmp_path)
    first = (
        "sign",
        "levels.npz",
        "--set",
        "offset=0.25",
        "--set",
        "name=None",
        "--labels",
        "labels.npy",
        "--seed",
        "3",
    )
    assert run("fit", *first, "-o", "one")[0] == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run("fit", "--config", tmp_path / "one" / "run.toml", "-o", tmp_path / "two")[0] == 0
    for name in ("run.toml", "model.npz", "assignments.csv", "history.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert ms.load(tmp_path / "two").name is None
    changed = ("--set", "offset=5", "--seed", "8", "-o", tmp_path / "three")
    assert run("fit", "--config", tmp_path / "one" / "run.toml", *changed)[0] == 0
    settings = tomllib.loads((tmp_path / "three" / "run.toml").read_text())
    assert settings["set"]["offset"] == 5 and settings["set"]["random_state"] == settings["seed"] == 8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("estimator", "is not a TOML file"),
        ("estimatr = 'sign'", "has the key 'estimatr': did you mean 'estimator'?"),
        ("seed = 'x'", "has seed = 'x': write a value of type int"),
        ("seed = -1", "has seed = -1"),
        ("set = 3", "write a value of type dict"),
    ],
)
def test_wrong_config_raises_an_error(run: Run, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    status, _, err = run("fit", "sign", "two-levels", "--config", tmp_path / "run.toml", "-o", tmp_path / "run")
    assert status == 2 and sentence in err and not (tmp_path / "run").exists()


def test_options_of_the_reader(run: Run, tmp_path: Path) -> None:
    rows = [f"{who},{t},{level}" for who, level in (("a", -1), ("b", 1), ("c", 2)) for t in range(4)]
    (tmp_path / "long.csv").write_text("\n".join(["subject,t,value", *rows]) + "\n")
    read = ("--read", "id=subject", "--read", "time=t")
    assert run("fit", "sign", tmp_path / "long.csv", *read, "-o", tmp_path / "run")[0] == 0
    assert (tmp_path / "run" / "assignments.csv").read_text().split() == ["id,cluster", "a,0", "b,1", "c,1"]
    status, _, err = run("fit", "sign", tmp_path / "long.csv", "--read", "idd=subject", "-o", tmp_path / "other")
    assert status == 2 and "has no option 'idd'" in err


def test_files_are_named_and_their_clock_is_no_channel(run: Run, tmp_path: Path) -> None:
    (tmp_path / "walks").mkdir()
    for name, level in (("b10", -1), ("b9", 1), ("a", 2)):
        rows = [f"{0.1 * t:.1f},{level + 0.1 * (t % 3)}" for t in range(6)]
        (tmp_path / "walks" / f"{name}.csv").write_text("\n".join(["time,value", *rows]) + "\n")
    status, out, err = run("fit", "sign", tmp_path / "walks", "-o", tmp_path / "run")
    assert (status, err) == (0, "") and "3 sequences of 6 steps, 1 channel" in out
    assert (
        out.splitlines()[1]
        == "column 'time' is used as the time axis, not as a channel (to change this: --read time=none)"
    )
    assignments = (tmp_path / "run" / "assignments.csv").read_text().split()
    assert assignments == ["id,cluster", "a.csv,1", "b9.csv,1", "b10.csv,0"]
    assert run("fit", "walker", tmp_path / "walks", "-o", tmp_path / "walker")[0] == 0
    status, out, _ = run("apply", tmp_path / "walker", tmp_path / "walks", "-o", tmp_path / "out.csv")
    assert status == 0 and "column 'time' is used as the time axis" in out
    lines = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert lines[0][:2] == ["row", "id"] and [line[1] for line in lines[1:]] == ["a.csv", "b9.csv", "b10.csv"]
    for none in ("none", "None"):
        status, out, _ = run(
            "fit", "sign", tmp_path / "walks", "--read", f"time={none}", "-o", tmp_path / f"all-{none}"
        )
        assert status == 0 and "2 channels" in out and "used as the time axis" not in out
        assert "column 'time' is used as a channel, not as the time axis (to change this: --read time=time)" in out
        again = run("fit", "--config", tmp_path / f"all-{none}" / "run.toml", "-o", tmp_path / f"again-{none}")
        assert again.status == 0 and "2 channels" in again.out


def test_sequences_with_gaps_raise_an_error_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 3, 1), np.nan))
    status, _, err = run("fit", "sign", tmp_path / "x.npy", "-o", tmp_path / "run")
    assert status == 2 and "x.npy, 0, column 0, t = 0 is missing" in err and not (tmp_path / "run").exists()


def test_estimator_of_samples_gets_the_rows_of_all_sequences(run: Run, tmp_path: Path) -> None:
    from sklearn.cluster import KMeans

    ms.register(ms.hooks.EstimatorSpec("rows", KMeans, input="samples"))
    done = run("fit", "rows", "two-levels", "--set", "n_clusters=2", "--set", "n_init=1", "-o", tmp_path / "run")
    assert done[0] == 0, done
    assert len((tmp_path / "run" / "assignments.csv").read_text().splitlines()) == 1 + 20 * 8
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["purity"] == 1.0 and "baseline_purity" not in metrics


def test_estimator_of_views_gets_shares_of_the_columns(run: Run, tmp_path: Path) -> None:
    ms.register(ms.hooks.EstimatorSpec("mixture-pcca", "manifoldseq_mpcca:MixturePCCA", input="views"))
    register_models("mpcca")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 1)) @ rng.standard_normal((1, 5)) + 0.3 * rng.standard_normal((60, 5))
    np.save(tmp_path / "table.npy", rows)
    fit = ("fit", "mixture-pcca", tmp_path / "table.npy", "--set", "n_latent=1")
    status, _, err = run(*fit, "--views", "3,2", "-o", tmp_path / "run")
    assert status == 0, err
    apply = ("apply", tmp_path / "run", tmp_path / "table.npy", "-o", tmp_path / "out.npz")
    assert run(*apply, "--views", "3,2")[0] == 0
    model, views = ms.load(tmp_path / "run"), [rows[:, :3], rows[:, 3:]]
    with np.load(tmp_path / "out.npz") as arrays:
        assert np.array_equal(arrays["prediction"], model.predict(views))
        assert np.array_equal(arrays["transform"], model.transform(views))
    again = run("fit", "--config", tmp_path / "run" / "run.toml", "-o", tmp_path / "again")
    assert again[0] == 0 and np.array_equal(ms.load(tmp_path / "again").mixture_.means, model.mixture_.means)
    for words, arguments in (
        ("mixture-pcca needs views: assign the 5 columns to views, such as --views 1,4", fit),
        ("--views 3,3: the numbers of columns must be positive and their sum must be 5", (*fit, "--views", "3,3")),
        (
            "sign requires sequences, not views: remove the option --views 3,2",
            ("fit", "sign", "two-levels", "--views", "3,2"),
        ),
    ):
        status, _, err = run(*arguments, "-o", tmp_path / "other")
        assert status == 2 and words in err and not (tmp_path / "other").exists()


def test_estimator_of_bags_gets_one_bag_per_sequence(run: Run, tmp_path: Path) -> None:
    ms.register(ms.hooks.EstimatorSpec("fisher-vector", "manifoldseq_mpcca:FisherVector", input="bags"))
    register_models("mpcca")
    rng = np.random.default_rng(0)
    bags = [rng.standard_normal((length, 5)) for length in (8, 5, 1, 12)]
    np.savez(tmp_path / "bags.npz", **{f"{i}": bag for i, bag in enumerate(bags)})
    fit = ("fit", "fisher-vector", tmp_path / "bags.npz", "--set", "n_components=2")
    status, _, err = run(*fit, "--views", "3,2", "-o", tmp_path / "run")
    assert status == 0, err
    apply = ("apply", tmp_path / "run", tmp_path / "bags.npz", "--views", "3,2", "-o", tmp_path / "out.npz")
    assert run(*apply)[0] == 0
    expected = ms.load(tmp_path / "run").transform([bag[:, :3] for bag in bags], [bag[:, 3:] for bag in bags])
    with np.load(tmp_path / "out.npz") as arrays:
        assert np.array_equal(arrays["transform"], expected) and len(expected) == 4
    assert "fisher-vector needs views: assign the 5 columns to views" in run(*fit, "-o", tmp_path / "other")[2]


@pytest.mark.slow
def test_threads_give_the_same_model(run: Run, tmp_path: Path) -> None:
    ms.register(ms.hooks.EstimatorSpec("lds-kmeans", "manifoldseq_lds:LDSKMeans"))
    register_models("lds")
    exact = "manifoldseq_lds.means._centre_rules:ExactMean"
    ms.register(ms.hooks.RuleSpec("exact", exact, estimator="lds-kmeans", parameter="mean"))
    ms.register(ms.hooks.KernelSpec("projection", "manifoldseq_lds:ProjectionKernel"))
    fit = ("fit", "lds-kmeans", "two-levels", "--set", "n_clusters=2", "--set", "n_states=1", "--set", "n_init=2")
    for name, more in (("one", ()), ("two", ("--jobs", "2"))):
        done = run(*fit, *more, "-o", tmp_path / name)
        assert done[0] == 0 and "is the default, which does not depend on the data" not in done[1], done
    assert (tmp_path / "one" / "model.npz").read_bytes() == (tmp_path / "two" / "model.npz").read_bytes()


def test_files_appear_in_their_order(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = Path.replace

    def recorded(self: Path, target: Path) -> Path:
        seen.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", recorded)
    assert run("fit", "sign", "two-levels", "--no-quality", "-o", tmp_path / "run")[0] == 0
    assert seen == [
        "run.json", "run.toml", "model.npz", "model.json", "history.csv", "assignments.csv", "metrics.json",
        "report.html", "run.json",
    ]  # fmt: skip


@parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 1e-3),
        ("false", False),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("SN", "SN"),
        ("'3'", "3"),
        ("a=b", "a=b"),
    ],
    fast=3,
)
def test_values_are_literals_or_strings(run: Run, tmp_path: Path, text: str, value: object) -> None:
    assert run("fit", "sign", "two-levels", "--set", f"name={text}", "-o", tmp_path / "run")[0] == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]["name"] == value


def test_rejected_input_leaves_an_earlier_run_and_no_folders(run: Run, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    kept = {"run.json": '{"state": "failed", "traceback": "x"}', "run.toml": "seed = 1\n", "metrics.json": "{}"}
    for name, text in kept.items():
        (earlier / name).write_text(text)
    for place in (earlier, tmp_path / "new" / "a" / "b"):
        status, _, err = run("fit", "sign", "two-levels", "--set", "trouble=value", "-o", str(place))
        assert status == 2 and "is not valid" in err
    assert {path.name: path.read_text() for path in earlier.iterdir() if path.name in kept} == kept
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written_raises_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, _, err = run("fit", "sign", "two-levels", "-o", str(tmp_path / "file" / "below"))
    assert status == 2 and "choose another directory with -o" in err and "Traceback" not in err


def test_options_of_readers_in_messages_are_those_of_the_shell(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("hello\nworld\n")
    status, _, err = run("fit", "sign", tmp_path / "text.csv")
    assert status == 2 and "name the column with id=…" in err
    assert err.strip().endswith("(pass such options as --read NAME=VALUE)")


def test_seed_and_random_state_are_one_thing(run: Run) -> None:
    status, _, err = run("fit", "sign", "two-levels", "--seed", "3", "--set", "random_state=5")
    assert status == 2 and "pass only one of them" in err


def test_resume_of_a_finished_run_asks_for_the_same_settings(run: Run, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert run("fit", "sign", "two-levels", "-o", out)[0] == 0
    status, said, _ = run("fit", "sign", "two-levels", "-o", out, "--resume")
    assert status == 0 and "is finished" in said
    status, _, err = run("fit", "sign", "two-levels", "--set", "offset=0.25", "-o", out, "--resume")
    assert status == 2 and "other data or settings" in err


def test_a_seed_that_numpy_rejects_raises_an_error_first(run: Run, tmp_path: Path) -> None:
    status, _, err = run("fit", "sign", "two-levels", "--seed", str(2**32), "-o", str(tmp_path / "out"))
    assert status == 2 and "--seed" in err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--config", "--labels", "data"])
def test_a_pipe_raises_an_error_at_once(run: Run, tmp_path: Path, option: str) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    words = ("fit", "sign", pipe) if option == "data" else ("fit", "sign", "two-levels", option, pipe)
    status, _, err = run(*words, "-o", tmp_path / "run")
    assert status == 2 and f"Error: {pipe} is a named pipe, not a regular file" in err
