"""``manifoldseq apply``: what a fitted model says about other data, in a file."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli.examples import SignClusterer, two_levels
from helpers import needs

import manifoldseq as ms

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fitted(run: Run, tmp_path: Path) -> Path:
    """Return the directory of a run of an estimator with `transform`."""
    assert run("fit", "walker", "two-levels", "-o", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def test_arrays_are_those_of_the_estimator(run: Run, fitted: Path, tmp_path: Path) -> None:
    status, out, err = run("apply", fitted, "two-levels", "-o", tmp_path / "out.npz")
    assert (status, err) == (0, "") and out.splitlines()[1] == f"{tmp_path / 'out.npz'}: id, transform"
    expected = ms.load(fitted).transform(two_levels().sequences)
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays.files == ["id", "transform"] and arrays["id"].tolist() == list(map(str, range(20)))
        assert np.array_equal(arrays["transform"], expected)
    assert run("apply", fitted, "two-levels", "-o", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["row", "id", "transform_0", "transform_1"]
    assert np.array_equal(np.array(rows, float)[:, 2:], expected)


@needs("lds")
def test_predictions_and_records_of_arrays(tmp_path: Path, run: Run) -> None:
    ms.register(ms.hooks.EstimatorSpec("lds-identifier", "manifoldseq_lds:LDSIdentifier"))
    assert run("fit", "lds-identifier", "two-levels", "--set", "n_states=2", "-o", tmp_path / "run")[0] == 0
    assert run("apply", tmp_path / "run", "two-levels", "-o", tmp_path / "out.npz")[0] == 0
    systems = ms.load(tmp_path / "run").transform(two_levels().sequences)
    with np.load(tmp_path / "out.npz") as arrays:
        assert set(arrays.files) == {"id", "A", "C", "x1", "noise_factor", "mean", "Omega", "A_estimate"}
        assert np.array_equal(arrays["A"], systems.A) and np.array_equal(arrays["A_estimate"], systems.A_estimate)
    assert run("apply", tmp_path / "run", "two-levels", "-o", tmp_path / "out.csv")[0] == 0
    header = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert header[:6] == ["row", "id", "A_0_0", "A_0_1", "A_1_0", "A_1_1"]


def test_other_data_of_a_file(run: Run, fitted: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.zeros((3, 5, 2)))
    assert run("apply", fitted, tmp_path / "other.npy", "-o", tmp_path / "out.csv")[0] == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


def test_bad_input_is_a_sentence_and_writes_nothing(run: Run, fitted: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((3, 5, 7)))
    assert run("fit", "sign", "two-levels", "-o", tmp_path / "sign")[0] == 0
    assert not hasattr(SignClusterer, "predict")
    for run_dir, data, output, sentence in (
        (fitted, "two-levels", "out.txt", "has the ending '.txt'"),
        (fitted, "nothing", "out.csv", "'nothing' is neither a file or folder nor the name of a data set"),
        (fitted, tmp_path / "wide.npy", "out.csv", "wide.npy has 7 columns without names: pass a file with 2 columns"),
        (fitted, "two-levels", "no/folder/out.csv", "cannot be written"),
        (tmp_path / "nowhere", "two-levels", "out.csv", "does not exist: pass a run directory"),
        (tmp_path, "two-levels", "out.csv", "contains no model"),
        (
            tmp_path / "sign",
            "two-levels",
            "out.csv",
            "has none of the methods predict, predict_proba, score_samples, transform",
        ),
    ):
        status, _, err = run("apply", run_dir, data, "-o", tmp_path / output)
        assert status == 2 and sentence in err and "Traceback" not in err
        assert not list(tmp_path.glob("*out.*"))


def test_a_damaged_model_raises_an_error(run: Run, fitted: Path, tmp_path: Path) -> None:
    with (fitted / "model.npz").open("ab") as file:
        file.write(b"x")
    status, _, err = run("apply", fitted, "two-levels", "-o", tmp_path / "out.csv")
    assert status == 2 and "SHA-256 differs" in err


def test_a_solution_has_nothing_to_apply(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "import manifoldseq as ms\n"
        "problem = ms.Problem(ms.manifolds.Euclidean(1), ms.objective(lambda x: (x**2).sum(), lambda x: 2 * x))\n"
    )
    assert run("solve", f"{tmp_path / 'one.py'}:problem", "-o", tmp_path / "run")[0] == 0
    status, _, err = run("apply", tmp_path / "run", "two-levels", "-o", tmp_path / "out.csv")
    assert status == 2 and "contains the solution of a problem" in err
