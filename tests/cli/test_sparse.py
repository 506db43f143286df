"""Sparse rows from the shell: fit, resume, apply, and who does not take them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from helpers import needs
from scipy.sparse import csr_array, save_npz

from manifoldseq.cli import main
from manifoldseq.storage import load_model


@pytest.fixture
def run(capsys):
    """Return a function that runs a command with the plugins that are installed."""

    def command(*arguments):
        return main([*arguments]), *capsys.readouterr()

    return command


@pytest.fixture
def documents(tmp_path, monkeypatch):
    """Thirty documents about three subjects of ten words each, sparse."""
    rng = np.random.default_rng(0)
    dense = rng.random((30, 30)) * (rng.random((30, 30)) < 0.4) * np.kron(np.eye(3), np.ones((10, 10)))
    dense[:, 0] += 0.01
    save_npz(tmp_path / "docs.npz", csr_array(dense))
    (tmp_path / "subjects.txt").write_text("\n".join(np.repeat(["art", "law", "sea"], 10)))
    monkeypatch.chdir(tmp_path)
    return dense


def test_fit_and_apply(run, documents):
    name, labels = "spherical-kmeans", ("--labels", "subjects.txt")
    code, out, err = run("fit", name, "docs.npz", *labels, "--set", "n_clusters=3", "--set", "n_init=5", "-o", "run")
    assert code == 0, err
    assert f"docs.npz: 30 rows of 30 columns ({np.count_nonzero(documents)} values that are not zero), 3" in out
    rows = json.loads(Path("run", "evaluation.json").read_text())["rows"]
    assert [row["name"] for row in rows] == [name, "kmeans", "normalized-kmeans", "chance"] and rows[0]["ari"] > 0.9
    assert "why" not in rows[1] and "ari" in rows[1]
    assert run("apply", "run", "docs.npz", "-o", "found.csv")[0] == 0
    with open("found.csv") as file:
        found = [int(row["prediction"]) for row in csv.DictReader(file)]
    assert found == load_model("run").predict(documents).tolist()


@needs("hope")  # whose estimators take them
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hope", "docs.npz contains a sparse matrix, which hope does not accept: fit "),
        ("lds-kmeans", "docs.npz contains a sparse matrix, but lds-kmeans requires sequences: fit "),
        ("mixture-pcca", "docs.npz contains a sparse matrix, but mixture-pcca requires views: fit "),
    ],
)
def test_who_does_not_take_them_says_who_does(run, documents, name, words):
    views = ("--views", "10,20") if name == "mixture-pcca" else ()
    code, _, err = run("fit", name, "docs.npz", *views, "-o", "none")
    assert code == 2 and words in err and "spherical-kmeans" in err and "vmf-mixture" in err


def test_where_a_value_is_missing(run, documents):
    documents[4, 0] = np.nan
    save_npz("docs.npz", csr_array(documents))
    code, _, err = run("fit", "spherical-kmeans", "docs.npz", "--set", "n_clusters=3", "-o", "none")
    assert code == 2 and "docs.npz, row 4, column 0 is missing" in err
