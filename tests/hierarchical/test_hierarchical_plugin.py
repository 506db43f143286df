"""What the plugin registers, and that the command line takes it."""

import sys

import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import frames

import manifoldseq as ms
import manifoldseq_hierarchical
from manifoldseq_hierarchical import SubspaceEncoder, SubspaceKMeans


def test_found_by_name():
    assert ms.get_estimator("subspace-encoder") is SubspaceEncoder
    assert ms.get_estimator("subspace-kmeans") is SubspaceKMeans
    data = ms.get_model("hierarchical.subspace").example(np.random.default_rng(0))
    assert ms.get_model("hierarchical.subspace").problem(data).manifold.names == ("V", "mu")


def test_public_names():
    assert set(manifoldseq_hierarchical.__all__) <= set(dir(manifoldseq_hierarchical))
    for name in manifoldseq_hierarchical.__all__:
        made = getattr(manifoldseq_hierarchical, name)
        assert made.__name__ == name and made.__module__.startswith("manifoldseq_hierarchical.")
    with pytest.raises(AttributeError, match="has no attribute 'SubspaceKmeans'"):
        manifoldseq_hierarchical.SubspaceKmeans  # noqa: B018


@parametrize("name", ["subspace-encoder", "subspace-kmeans"], fast=1)
def test_command_line(name, tmp_path):
    X, y = frames(200, 8, 3)
    np.savez(tmp_path / "data.npz", **{f"s{k}": X[y == k] for k in range(3)})
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    from manifoldseq.cli import main

    extra = ["--set=n_clusters=3"] if name == "subspace-kmeans" else []
    labels = f"--labels={tmp_path / 'labels.txt'}"
    assert main(["fit", name, str(tmp_path / "data.npz"), labels, *extra, "-o", str(tmp_path / "run")]) == 0
    model = ms.load(tmp_path / "run")
    assert model.components_.shape == (2, 8)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Residual energy of the best coordinates" in page and "Frames in the subspace of the class means" in page
    assert main(["apply", str(tmp_path / "run"), str(tmp_path / "data.npz"), "-o", str(tmp_path / "out.npz")]) == 0


def test_solving_on_the_command_line(tmp_path, capsys):
    X, y = frames(60, 6, 3)
    np.savez(tmp_path / "data.npz", **{f"s{k}": X[y == k] for k in range(3)})
    from manifoldseq.cli import main

    assert main(["solve", "hierarchical.subspace", str(tmp_path / "data.npz"), "-o", str(tmp_path / "run")]) == 0
    value = ms.load(tmp_path / "run").fun
    assert value == pytest.approx(SubspaceEncoder().fit(X, y).energy_, rel=1e-12)


def test_without_a_network_one_sentence_says_where_the_railway_may_lie(tmp_path, monkeypatch):
    from manifoldseq_hierarchical._nordland import fetched

    def fails(*_, **__):
        raise OSError("HTTPSConnectionPool(host=...): Max retries exceeded")

    stand_in = type(sys)("pooch")
    stand_in.retrieve = fails
    monkeypatch.setitem(sys.modules, "pooch", stand_in)
    with pytest.raises(OSError, match=r"spring-1-100-35601.mat could not be fetched from .*MANIFOLDSEQ_DATA to a"):
        fetched(cache=tmp_path)
