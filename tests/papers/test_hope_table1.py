"""Table 1 on a few images: its rows, its search, its resuming and bad settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

import manifoldseq as ms
from manifoldseq_hope import HOPE, ConvolutionalFeatures, PCAMovMF, von_mises_fisher
from manifoldseq_hope.features._mnist import Digits
from manifoldseq_papers.hope import _table1 as table

PATCHES = table.PATCHES


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Digits:
    """Put scikit-learn's digits, enlarged to 28 x 28, in the place of MNIST, and learn from a few patches."""
    X, y = load_digits(return_X_y=True)
    wide = np.kron(X.reshape(-1, 8, 8), np.ones((3, 3)))
    images = (np.pad(wide, ((0, 0), (2, 2), (2, 2))) * 15.9).astype(np.uint8).reshape(len(X), -1)
    digits = Digits(images[:400], y[:400].astype(np.int64), images[400:600], y[400:600].astype(np.int64))
    monkeypatch.setattr(table, "read_mnist", lambda data: digits)
    monkeypatch.setattr(table, "PATCHES", 3000)
    monkeypatch.setattr(table, "PASSES", 3)
    monkeypatch.setattr(table, "_VALIDATION", 100)
    monkeypatch.setattr(table, "_SEARCH_ROWS", 200)
    return digits


@parametrize("name", ["pca-movmf", "hope"], fast=1)
def test_a_row_is_what_its_steps_give(name: str, small: Digits, tmp_path: Path) -> None:
    rows = table.table1("there", K=9, seeds=2, models=[name], folder=tmp_path)
    assert [row["metric"] for row in rows] == ["test error", "duality gap", "CPU seconds", "median concentration"]
    choice, errors = table.CHOSEN[name], []
    settings: dict[str, Any] = {"noise_variance": 0.1, "solver": "online-em", "max_iter": 3, "tol": 0.0}
    for seed in range(2):
        model = PCAMovMF(9, n_latent=20, kappa=choice.kappa, **settings)
        if name == "hope":
            model = HOPE(9, n_latent=20, kappa=choice.kappa, prepare=None, **settings)
        features = ConvolutionalFeatures(
            model, n_patches=3000, quantile=choice.quantile, power=choice.power, random_state=seed
        ).fit(small.train)
        X, T = features.transform(small.train).astype(float), features.transform(small.test).astype(float)
        mean, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
        machine = LinearSVC(C=choice.C, dual=False, tol=1e-6).fit((X - mean) / scale, small.train_labels)
        errors.append(100 * np.mean(machine.predict((T - mean) / scale) != small.test_labels))
    assert rows[0]["ours"] == pytest.approx(np.mean(errors), abs=0.6)
    assert rows[0]["ours_se"] == pytest.approx(abs(errors[0] - errors[1]) / 2, abs=0.6)
    assert rows[0]["paper"] is None and 0 < rows[1]["ours"] <= table._GAP and rows[2]["ours"] > 0
    assert rows[3]["ours"] == pytest.approx(choice.kappa)


@parametrize("name", ["pca-movmf", "hope"], fast=1)
def test_features_are_those_of_6_1_1(name: str, small: Digits, tmp_path: Path) -> None:
    """M = 20, sigma^2 = 0.1 of patches of 6 x 6 pixels, 400 000 of them; ln pi_k is left out."""
    assert PATCHES == 400_000
    choice = table.CHOSEN[name]
    found = table._Bench(name, 9, tmp_path, False).features(choice, 0).fit(small.train).transform(small.test)
    settings: dict[str, Any] = {"kappa": 40.0, "solver": "online-em", "max_iter": 3, "tol": 0.0}
    settings |= {"prepare": None, "noise_variance": 0.1} if name == "hope" else {}
    model = (HOPE if name == "hope" else PCAMovMF)(9, n_latent=20, **settings)
    features = ConvolutionalFeatures(
        model, patch_size=6, pooling=2, n_patches=3000, quantile=choice.quantile, power=0.5, random_state=0
    )
    np.testing.assert_allclose(found, features.fit(small.train).transform(small.test), atol=1e-5)


def test_every_model_has_a_row_with_the_paper_s_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = [{"error": 1.0, "duality gap": 1e-5, "CPU seconds": 1.0}]
    monkeypatch.setattr(table._Bench, "measured", lambda *args: done)
    rows = [row for row in table.table1("there", K=[400, 800, 1200, 1600], seeds=1) if row["metric"] == "test error"]
    assert [row["model"] for row in rows] == 4 * ["kmeans", "kmeans-distance", "spkmeans", "movmf", "pca-movmf", "hope"]
    assert [row["paper"] for row in rows] == [
        *(None, 1.41, 1.09, 0.89, 0.87, 0.76),
        *(None, 1.31, 0.90, 0.82, 0.75, 0.71),
        *(None, 1.16, 0.86, 0.81, 0.73, 0.64),
        *(None, 1.13, 0.81, 0.84, 0.74, 0.67),
    ]
    assert {row["ours_se"] for row in rows} == {None}


@pytest.mark.parametrize("model", ["kmeans", "kmeans-distance", "spkmeans", "movmf", "hope"])
def test_models_are_measured_and_results_are_kept(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"K": 8, "seeds": 1, "models": model, "folder": tmp_path}
    first = table.table1("there", **settings)
    assert 0 < first[0]["ours"] < 40
    monkeypatch.setattr(table._Bench, "features", lambda *args: pytest.fail("fitted again"))
    assert table.table1("there", resume=True, **settings) == first


def test_a_search_reports_all_errors_and_takes_the_least(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"K": 8, "seeds": 1, "models": ["spkmeans"], "folder": tmp_path}
    rows = table.table1("there", search=True, **settings)
    tried = [row for row in rows if row["metric"] == "validation error"]
    assert len(tried) == 9 and len({row["setting"] for row in tried}) == 9
    best = min(tried, key=lambda row: row["ours"])
    assert rows[-3]["setting"] == best["setting"]
    assert {len(table._grid(model)) for model in table.MODELS} == {3}  # the same for all


def test_an_interrupted_fit_resumes_to_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"K": 8, "seeds": 1, "models": ["hope"]}
    whole = table.table1("there", folder=tmp_path / "whole", **settings)
    seen = []
    real = ms.minimize

    def stopped(*args: Any, **kwargs: Any) -> Any:
        def interrupt(event: Any) -> None:
            seen.append(event.nit)
            if event.nit == 2 and len(seen) < 4:
                raise KeyboardInterrupt

        return real(*args, **kwargs | {"observers": [interrupt]})

    monkeypatch.setattr("manifoldseq.models._estimator.minimize", stopped)
    with pytest.raises(KeyboardInterrupt):
        table.table1("there", folder=tmp_path / "part", **settings)
    monkeypatch.setattr(ms, "iterate", real)
    again = table.table1("there", folder=tmp_path / "part", resume=True, **settings)
    assert [row["ours"] for row in again[:2]] == [row["ours"] for row in whole[:2]]


def test_the_reproduction_is_registered_and_its_choices_are_recorded() -> None:
    assert ms.hooks.get_reproduction("hope-table1").run is table.table1
    assert set(table.CHOSEN) == set(table.MODELS)
    for kappa, choices in (("fixed", table.CHOSEN), ("free", table.FREE), ("start", {"hope": table.START})):
        for model, choice in choices.items():
            assert choice in [table.replace(tried, C=C) for tried in table._grid(model, kappa) for C in table.CS]


def test_concentrations_may_be_free_and_cells_finer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ConvolutionalFeatures] = []
    real = table._Bench.features

    def features(*args: Any) -> ConvolutionalFeatures:
        made.append(real(*args))
        return made[-1]

    monkeypatch.setattr(table._Bench, "features", features)
    settings: dict[str, Any] = {"K": 6, "seeds": 1, "models": ["pca-movmf"], "folder": tmp_path}
    rows = [*table.table1("there", kappa="free", **settings), *table.table1("there", pooling=3, **settings)]
    free, finer = made
    assert np.ptp(free.model_.concentrations_) > 0 and free.keep_weights and free.pooling == 2
    assert finer.pooling == 3 and finer.transform(np.zeros((1, 28, 28), np.uint8)).shape == (1, 54)
    assert not finer.keep_weights and np.allclose(finer.model_.concentrations_, 40.0)
    assert "kappa" not in rows[0]["setting"]
    assert rows[4]["setting"].endswith("quantile 0.75, C 0.02, power 0.5, kappa 40, pooling 3")
    assert rows[3]["metric"] == "median concentration"
    assert rows[3]["ours"] == pytest.approx(np.median(free.model_.concentrations_))


def test_concentrations_of_hope_may_stay_at_the_start(small: Digits, tmp_path: Path) -> None:
    """All learners begin with them; ln pi_k stays in the responses, and the other mixtures learn theirs."""
    settings: dict[str, Any] = {"K": 6, "seeds": 1, "models": ["pca-movmf", "hope"], "folder": tmp_path}
    rows = table.table1("there", kappa="start", **settings)
    learned, still = (row for row in rows if row["metric"] == "median concentration")
    assert still["ours"] == pytest.approx(30) and learned["ours"] != pytest.approx(30, abs=0.1)
    model = von_mises_fisher().start(np.eye(6, 20), np.ones(6), 20)
    np.testing.assert_allclose(np.linalg.norm(model[0], axis=1), table.START.kappa)
    features = table._Bench("hope", 6, tmp_path, False).features(table._chosen("hope", "start", 2), 0)
    assert (
        features.keep_weights and features.model.kappa == 30 and table._chosen("hope", "free", 2) == table.FREE["hope"]
    )


@pytest.mark.parametrize("kappa", ["fixed", "free", "start"])
@pytest.mark.parametrize("model", table.MODELS)
def test_finer_cells_have_choices_of_their_own(model: str, kappa: str) -> None:
    """The quantile of quadrants, 0.92 of PCA-movMF, is worse than quadrants at 3 x 3 cells."""
    quadrants = table._chosen(model, kappa, 2)
    for pooling in (3, 4):
        assert table._chosen(model, kappa, pooling) == table.replace(quadrants, quantile=0.75, pooling=pooling)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"K": 0}, "K=0"),
        ({"K": 4000}, "exceeds n_samples"),
        ({"models": ["svm"]}, "'kmeans', 'kmeans-distance', 'spkmeans', 'movmf', 'pca-movmf' or 'hope'"),
        ({"models": 3}, "models=3 is not known"),
        ({"models": []}, "models=[] is empty"),
        ({"K": []}, "K=[] is empty"),
        ({"search": "maybe"}, "search='maybe' is not known: choose True or False"),
        ({"kappa": 30}, "kappa=30 is not known: choose 'fixed', 'free' or 'start'"),
        ({"pooling": 0}, "pooling=0"),
        ({"folder": 3}, "folder=3 is not valid: name a folder"),
    ],
)
def test_bad_settings_raise_an_error(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"data": "there", "K": 5, "models": ["hope"], "seeds": 1, "folder": tmp_path} | settings
    with pytest.raises(ValueError) as caught:
        table.table1(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)
