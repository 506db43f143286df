"""Table 5 on a few generated images: its rows, draws of labels, choices by validation, resuming and bad settings."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import manifoldseq as ms
from manifoldseq_hope import HOPE, ConvolutionalFeatures, HOPENetworkClassifier
from manifoldseq_hope.features._mnist import Digits
from manifoldseq_papers.hope import _table5 as table
from manifoldseq_papers.hope import _tables2_to_4 as tables

PAPER = [(one.name, one.inputs, one.kind, one.layers, one.paper) for one in table.CLASSIFIERS.values()]
SMALL: dict[str, Any] = {"labels": 200, "subsets": 2, "K": 20, "M": 8, "n_patches": 3000, "epochs": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Digits:
    """Put scikit-learn's digits, enlarged to 16 x 16, in the place of MNIST, and have small networks."""
    X, y = load_digits(return_X_y=True)
    images = (np.kron(X.reshape(-1, 8, 8), np.ones((2, 2))) * 15.9).astype(np.uint8).reshape(len(X), -1)
    digits = Digits(images[:1200], y[:1200].astype(np.int64), images[1200:], y[1200:].astype(np.int64))
    monkeypatch.setattr(table, "read_mnist", lambda data: digits)
    monkeypatch.setattr(table, "_VALIDATION", 300)
    monkeypatch.setattr(table, "_SEARCH_LABELS", 100)
    sizes = {0: (), 1: ((8, 20),), 2: ((8, 20), 15)}
    for name, one in table.CLASSIFIERS.items():
        layers = (20, 15) if one.kind == "baseline" else sizes[len(one.layers)]
        monkeypatch.setitem(table.CLASSIFIERS, name, replace(one, layers=layers))
    return digits


def test_the_table_has_the_paper_s_eight_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table._Bench, "tested", lambda self, one, choice, train, subset: [float(subset), 0.3])
    monkeypatch.setattr(table, "LABELS", (100, 200, 500, 700, 800, 1200))
    rows = table.table5("there", labels=(100, 1200), subsets=2, folder=tmp_path)
    assert [row["paper"] for row in rows[:8]] == [2.62, 8.32, 8.22, 7.21, 2.91, 2.83, 2.50, 2.46]
    assert [row["paper"] for row in rows[8:]] == [0.82, 0.92, 0.86, 0.82, 0.71, 0.43, 0.42, 0.40]
    assert (rows[0]["model"], rows[0]["ours"]) == ("CDBN", None)
    assert (rows[1]["ours"], rows[1]["ours_se"]) == (0.5, pytest.approx(0.5))
    assert rows[5]["setting"] == "100 labels, rates 0.3" or table.CHOSEN["features", "baseline"].rate == 0.3


def test_the_classifiers_are_the_paper_s() -> None:
    two, hope = (1200, 1200), (400, 1200)
    assert table.LABELS == (1000, 2000, 5000, 10_000, 20_000, 60_000)
    assert PAPER == [
        ("raw feature + DNN1", "pixels", "baseline", two, (8.32, 4.71, 3.2, 2.15, 1.48, 0.92)),
        ("raw feature + HOPE-DNN1", "pixels", "hope", (hope,), (8.22, 4.53, 2.92, 2.04, 1.34, 0.86)),
        ("raw feature + HOPE-DNN2", "pixels", "hope", (hope, 1200), (7.21, 4.02, 2.60, 1.83, 1.30, 0.82)),
        ("USL feature + linear SVM", "features", "svm", (), (2.91, 2.38, 1.47, 1.13, 0.90, 0.71)),
        ("USL feature + DNN2", "features", "baseline", two, (2.83, 1.99, 1.03, 0.88, 0.70, 0.43)),
        ("USL feature + HOPE-DNN3", "features", "hope", (hope,), (2.50, 1.78, 0.95, 0.87, 0.67, 0.42)),
        ("USL feature + HOPE-DNN4", "features", "hope", (hope, 1200), (2.46, 1.70, 0.90, 0.79, 0.66, 0.40)),
    ]


def test_a_draw_has_as_many_images_of_each_class(small: Digits) -> None:
    y = small.train_labels
    first, other = table.balanced(y, 200, 0), table.balanced(y, 200, 1)
    assert np.bincount(y[first]).tolist() == [20] * 10 and len(np.unique(first)) == 200
    assert len(np.intersect1d(first, other)) < 100
    assert sorted(np.bincount(y[table.balanced(y, 203, 0)]).tolist()) == [20] * 7 + [21] * 3
    np.testing.assert_array_equal(table.balanced(y, 1200, 3), np.arange(1200))
    for n, words in ((9, "at least 10"), (1201, "at most 1200"), (1199, "fewer than an equal")):
        with pytest.raises(ValueError, match=words):
            table.balanced(y, n, 0)


def test_support_vectors_of_standardized_features(small: Digits, tmp_path: Path) -> None:
    """The same features and liblinear's machines, with a bias that is regularized too."""
    (row,) = table.table5("there", models=["svm"], folder=tmp_path, **SMALL)
    features = ConvolutionalFeatures(HOPE(20, n_latent=8, kappa=40.0), n_patches=3000, drop_empty=True, random_state=0)
    scaler = StandardScaler().fit(features.fit(small.train).transform(small.train))
    T = scaler.transform(features.transform(small.test))
    errors = []
    for subset in range(2):
        train = table.balanced(small.train_labels, 200, subset)
        X = scaler.transform(features.transform(small.train[train]))
        machine = LinearSVC(C=table.CHOSEN["features", "svm"], max_iter=100_000, tol=1e-6, random_state=0)
        machine.fit(X, small.train_labels[train])
        errors.append(100 * np.mean(machine.predict(T) != small.test_labels))
    assert row["ours"] == pytest.approx(np.mean(errors), abs=0.35) and row["ours"] < 20  # two of 597 images
    assert row["ours_se"] == pytest.approx(abs(errors[0] - errors[1]) / 2, abs=0.35)


def test_machines_are_the_same_in_the_span_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "machines", partial(table.machines, gap=1e-10))
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 60)), np.arange(40) % 4
    T = rng.standard_normal((200, 60))
    direct = table.machines(X, y, 10.0).scores(T).argmax(axis=1)
    np.testing.assert_array_equal(table._machine(X, y, 10.0)(T), direct)


def test_networks_see_pixels_less_their_mean(small: Digits, tmp_path: Path) -> None:
    (row,) = table.table5("there", models=["hope-dnn2"], folder=tmp_path, **SMALL | {"subsets": 1, "epochs": 6})
    choice = table.CHOSEN["pixels", "hope"]
    train = table.balanced(small.train_labels, 200, 0)
    X, T = ((part - small.train.mean(axis=0)) / 255 * choice.scale for part in (small.train[train], small.test))
    settings: dict[str, Any] = {"decay": 0.03 ** (1 / 6), "momentum": (0.5, 0.9), "momentum_epochs": 1}
    settings |= {"init": "uniform", "dropout": (0.2, 0.3), "random_state": 0}
    model = HOPENetworkClassifier([(8, 20), 15], learning_rate=choice.rate, max_iter=6, **settings)
    model.fit(X.astype(np.float32), small.train_labels[train])
    error = 100 * np.mean(model.predict(T.astype(np.float32)) != small.test_labels)
    assert row["ours"] == pytest.approx(error, abs=0.6)


@pytest.mark.slow
def test_an_interrupted_table_resumes_to_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SMALL | {"models": ["dnn1", "svm", "hope-dnn3"]}
    whole = table.table5("there", folder=tmp_path / "whole", **settings)
    measured, calls = table._Bench._measured, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measured(*arguments)

    monkeypatch.setattr(table._Bench, "_measured", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.table5("there", folder=tmp_path / "run", **settings)
    assert table.table5("there", folder=tmp_path / "run", resume=True, **settings) == whole
    assert len(calls) == 4 + 3  # three were kept
    assert not list((tmp_path / "run").glob("networks/*"))


def test_features_that_were_interrupted_are_learned_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SMALL | {"models": ["svm"]}
    whole = table.table5("there", folder=tmp_path / "whole", **settings)
    real, events = ms.minimize, []

    def interrupt(event: Any) -> None:
        events.append(event.nit)
        if len(events) == 2:
            raise KeyboardInterrupt

    def watched(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs | {"observers": [interrupt]})

    monkeypatch.setattr("manifoldseq.models._estimator.minimize", watched)
    with pytest.raises(KeyboardInterrupt):
        table.table5("there", folder=tmp_path / "run", **settings)
    monkeypatch.setattr(ms, "iterate", real)
    assert not (tmp_path / "run" / "errors.json").exists()
    assert table.table5("there", folder=tmp_path / "run", resume=True, **settings) == whole


def test_a_search_takes_the_least_validation_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.GRID, ("features", "svm"), (1e-6, 0.01))
    rows = table.table5("there", models=["svm"], search=True, folder=tmp_path, **SMALL)
    found = [row["ours"] for row in rows if row["metric"] == "validation error"]
    assert [row["setting"] for row in rows[:2]] == ["100 labels, C 1e-06", "100 labels, C 0.01"]
    assert found[1] < found[0] and rows[-1]["metric"] == "test error"
    monkeypatch.setitem(table.CHOSEN, ("features", "svm"), 0.01)
    assert table.table5("there", models=["svm"], folder=tmp_path / "again", **SMALL) == rows[-1:]


def test_a_network_that_is_lost_is_trained_again_at_half_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted, rates = table.fitted, []

    def lost_above(job: Any, choice: tables.Choice, *rest: Any) -> Any:
        network = fitted(job, choice, *rest)
        rates.append(choice.rate)
        if choice.rate > 0.1:
            network.status_ = ms.Status.NON_FINITE
        return network

    monkeypatch.setattr(table, "fitted", lost_above)
    monkeypatch.setitem(table.CHOSEN, ("pixels", "baseline"), tables.Choice(0.3, 2.0))
    (row,) = table.table5("there", models=["dnn1"], folder=tmp_path, **SMALL)
    assert rates == [0.3, 0.15, 0.075] * 2 and row["setting"] == "200 labels, rates 0.075"


def test_the_reproduction_is_registered() -> None:
    assert ms.hooks.get_reproduction("hope-table5").run is table.table5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"subsets": 0}, "subsets=0"),
        ({"labels": 5}, "labels=5"),
        ({"models": ["baseline"]}, "'cdbn', 'dnn1'"),
        ({"epochs": 0}, "epochs=0"),
        ({"labels": []}, "labels=[] is empty"),
        ({"models": []}, "models=[] is empty"),
        ({"K": 2.5}, "K=2.5 is not valid"),
        ({"search": "yes"}, "search='yes' is not known"),
        ({"folder": None}, "folder=None is not valid"),
    ],
)
def test_bad_settings_raise_an_error(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        table.table5("there", **{"folder": tmp_path} | SMALL | settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)
