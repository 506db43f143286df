"""Figure 1: rows, claims, figure and resuming of a small run."""

import json
from importlib.util import find_spec
from itertools import count

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, dynamic_textures

RECORD = ms.hooks.get_reproduction("lds-fig1")
figure1 = RECORD.run
SMALL = {"sets": ["dynamic-textures"], "clusters": [2, 4], "rates": [0.1, 0.3], "n_starts": 2, "max_iter": 2}
SMALL |= {"n_videos": 12, "size": 8}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fig1")
    return folder, figure1(**SMALL, folder=folder)


def test_registered():
    assert RECORD.paper.endswith("NIPS 2017, Figure 1") and figure1.__name__ == "figure1"


def test_rows_and_claims(small):
    rows = small[1]
    settings = {row["setting"] for row in rows if row["metric"] == "purity"}
    assert settings == {"dynamic-textures, K=2", "dynamic-textures, K=4"}
    models = {row["model"] for row in rows if row["metric"] == "purity"}
    assert models == {"ours", "PGD (toolbox rule)", "MDS", "Align", "Align, rate 0.1", "Align, rate 0.3"}
    for row in rows:
        if row["metric"] == "purity":
            assert 1 / 6 <= row["ours"] <= 1 and row["ours_se"] >= 0
    claims = [row for row in rows if row["model"].startswith("claim")]
    assert len(claims) == 8 and all(0 <= row["ours"] <= row["paper"] == 2 for row in claims)


def test_a_purity_is_that_of_the_definition(small):
    """The same start by hand, counted by a loop over clusters and classes."""
    runs = json.loads((small[0] / "results.json").read_text())["runs"]
    videos, classes = dynamic_textures(12, size=8, random_state=0)
    systems = LDSIdentifier(10).fit_transform([video.reshape(60, -1) for video in videos])
    labels = np.random.default_rng([0, 4, 1]).permutation(12) % 4
    fitted = LDSKMeans(4, n_states=10, init=labels, max_iter=2, tol=1e-4).fit(systems)
    counts = [max(sum((fitted.labels_ == k) & (classes == c)) for c in range(6)) for k in range(4)]
    assert runs["dynamic-textures/4/1/ours"][0] == pytest.approx(sum(counts) / 12)


def test_times_are_those_of_an_epoch(tmp_path, monkeypatch):
    """With a clock that ticks whenever it is asked, as it is once per epoch, every method takes one tick."""
    ticks = count()
    monkeypatch.setattr("time.process_time", lambda: float(next(ticks)))
    rows = figure1(**SMALL | {"clusters": [2], "n_starts": 1}, folder=tmp_path)
    times = [row["ours"] for row in rows if row["metric"] == "CPU time per epoch"]
    assert times == [1.0] * 6


def test_rows_are_those_of_a_naive_loop(small, tmp_path):
    """Means and errors over the starts, the best rate of Align, and the claims, from figures that are made up."""
    document, rng = json.loads((small[0] / "results.json").read_text()), np.random.default_rng(0)
    runs = {key: rng.uniform(0.1, 1, 3).tolist() for key in sorted(document["runs"])}
    (tmp_path / "results.json").write_text(json.dumps(document | {"runs": runs}))
    rows = figure1(**SMALL, folder=tmp_path, resume=True)
    found = {(row["model"], row["setting"][-1], row["metric"]): row for row in rows}
    metrics = ("purity", "CPU time per epoch", "objective")

    def values(method, K, column):
        return [runs[f"dynamic-textures/{K}/{start}/{method}"][column] for start in range(2)]

    swept = ["Align, rate 0.1", "Align, rate 0.3"]
    purities = [sum(np.mean(values(method, K, 0)) for K in (2, 4)) for method in swept]
    assert purities[0] > purities[1]  # the first would also be the best of an empty list
    names = {"ours": "ours", "PGD (toolbox rule)": "PGD (toolbox rule)", "MDS": "MDS", "Align": swept[0]}
    for model, method in names.items():
        for K in (2, 4):
            for column, metric in enumerate(metrics):
                row, some = found[model, str(K), metric], values(method, K, column)
                assert row["ours"] == pytest.approx(sum(some) / 2)
                assert row["ours_se"] == pytest.approx(abs(some[0] - some[1]) / 2)
    claims = {row["model"]: row["ours"] for row in rows if row["model"].startswith("claim")}
    for method in ("PGD (toolbox rule)", "ours"):
        for rival in ("MDS", "Align"):
            pairs = [[[np.mean(values(names[m], K, c)) for m in (method, rival)] for K in (2, 4)] for c in (0, 1)]
            assert claims[f"claim: {method} purer than {rival}"] == sum(a > b for a, b in pairs[0])
            assert claims[f"claim: {method} faster per epoch than {rival}"] == sum(a < b for a, b in pairs[1])


def test_figure_is_drawn(small):
    assert (small[0] / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_resume_keeps_what_was_measured(small):
    folder, rows = small
    again = figure1(**SMALL, folder=folder, resume=True)
    assert again == rows  # also the times, which another run would not repeat
    document = json.loads((folder / "results.json").read_text())
    del document["runs"]["dynamic-textures/4/1/MDS"]
    (folder / "results.json").write_text(json.dumps(document))
    third = figure1(**SMALL, folder=folder, resume=True)
    kept = [[row for row in one if row["model"] == "ours"] for one in (third, rows)]
    assert kept[0] == kept[1]
    with pytest.raises(ValueError, match="has results of other settings"):
        figure1(**SMALL | {"max_iter": 3}, folder=folder, resume=True)


def test_own_data(tmp_path):
    rng, t = np.random.default_rng(0), np.arange(40)[:, None]
    for i in range(8):
        name = tmp_path / "data" / f"class{i % 2}" / f"{i}.csv"
        name.parent.mkdir(parents=True, exist_ok=True)
        x = np.cos(t * (0.3, 1.1)[i % 2] + rng.uniform(0, 6) + np.arange(3))
        np.savetxt(name, x, delimiter=",", header="a,b,c", comments="")
    rows = figure1(tmp_path / "data", **SMALL | {"clusters": [2]}, n_states=2, folder=tmp_path / "out")
    found = {row["model"]: row["ours"] for row in rows if row["metric"] == "purity"}
    assert found["ours"] == 1


def test_videos_in_the_layout_of_dyntex(tmp_path):
    """Files as DynTex++ has them, one folder per class, of generated textures that features tell apart."""
    videos, labels = dynamic_textures(24, size=16, frames=20)
    for i in np.flatnonzero(labels < 2):
        folder = tmp_path / "data" / f"class{labels[i]}"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{i}.npy", videos[i])
    settings = SMALL | {"clusters": [2]}
    rows = figure1(tmp_path / "data", layout="dyntex++", **settings, n_states=3, folder=tmp_path / "out")
    assert {row["model"]: row["ours"] for row in rows if row["metric"] == "purity"}["ours"] > 0.7


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"data": "x", "layout": "folders"}, "layout='folders' is not known"),
        ({"sets": ["dyntex"]}, "sets="),
        ({"sets": "basic-motions"}, "sets="),
        ({"clusters": []}, "clusters="),
        ({"rates": [0]}, "rates="),
        ({"n_starts": 0}, "n_starts=0"),
    ],
)
def test_bad_settings_leave_nothing(settings, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        figure1(**settings, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(find_spec("aeon") is None, reason="aeon's data files are not installed")
def test_recorded_motions(tmp_path):
    options = SMALL | {"sets": ["basic-motions"], "clusters": [4], "n_starts": 1, "rates": [0.3], "max_iter": 8}
    rows = figure1(**options, folder=tmp_path)
    found = {row["model"]: row["ours"] for row in rows if row["metric"] == "purity"}
    assert found["ours"] >= 0.75 > found["MDS"]
