"""``n_clusters="auto"``: what the public rule chooses from the default grid, kept in files, resumed, and said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from lds.clusterings import projection
from sklearn.metrics import silhouette_score

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq_lds import LDSIdentifier, LDSKMeans, LDSSpectralClustering, choose_clustering

SMALL: dict[str, Any] = {"n_init": 1, "max_iter": 3, "random_state": 0}


def oscillations(n: int = 16) -> list[np.ndarray]:
    """Return sequences of two frequencies, in noise."""
    rng, t = np.random.default_rng(0), np.arange(40)[:, None]
    turns = [0.2, 0.9] * (n // 2)
    return [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) + 0.1 * rng.standard_normal((40, 3)) for w in turns]


@pytest.fixture(scope="module")
def fitted() -> LDSKMeans:
    return LDSKMeans("auto", **SMALL).fit(oscillations())


def test_it_is_the_public_rule_on_the_default_grid(fitted: LDSKMeans) -> None:
    X = oscillations()
    grid = {"n_clusters": [2, 3, 4]}
    expected = choose_clustering(LDSKMeans(**SMALL), X, grid, n_splits=12, random_state=0)
    np.testing.assert_array_equal(fitted.choice_.steps[-1].figure, expected.steps[-1].figure)
    assert str(fitted.choice_) == str(expected)
    assert fitted.choice_.best_params == expected.best_params and fitted.choice_.time > 0
    given = LDSKMeans(**SMALL).set_params(**expected.best_params).fit(X)
    np.testing.assert_array_equal(fitted.systems_.A, given.systems_.A)
    assert fitted.n_clusters_ == given.n_clusters_ == len(given.counts_) == 2
    assert fitted.n_clusters == fitted.n_states == "auto" and not hasattr(given, "choice_")
    np.testing.assert_array_equal(fitted.predict(X), given.predict(X))


@pytest.mark.slow
def test_what_is_given_is_not_chosen() -> None:
    X = oscillations()
    model = LDSKMeans("auto", n_states=2, **SMALL).fit(X)
    (step,) = model.choice_.steps
    assert step.params == [{"n_clusters": k} for k in (2, 3, 4)]
    assert model.systems_.n_states == 2 and not hasattr(model.set_params(n_clusters=3).fit(X), "choice_")
    systems = LDSIdentifier(2).fit_transform(X)
    assert LDSKMeans("auto", **SMALL).fit(systems).choice_.best_params == {"n_clusters": 2}


def test_the_table_says_what_was_tried_and_chosen(fitted: LDSKMeans) -> None:
    lines = str(fitted.choice_).splitlines()
    marked = [line for line in lines if line.startswith(">")]
    assert len(marked) == 3 and "stabilizer" not in marked[0] and "stabilizer" in marked[1]
    assert "n_states=" in marked[0] and "n_clusters=2" in marked[2]
    assert lines[-1].startswith("chosen: n_clusters=2, n_states")


def test_the_choice_is_kept_in_the_file_of_the_model(fitted: LDSKMeans, tmp_path: Path) -> None:
    ms.storage.save_model(fitted, tmp_path)
    loaded = ms.load(tmp_path)
    assert str(loaded.choice_) == str(fitted.choice_) and loaded.choice_.time == fitted.choice_.time
    np.testing.assert_array_equal(loaded.predict(oscillations()), fitted.labels_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, "generator"])
def test_an_interrupted_choice_goes_on(tmp_path: Path, seed: Any) -> None:
    def model() -> LDSKMeans:
        return LDSKMeans("auto", **SMALL | {"random_state": np.random.default_rng(1) if seed else 0})

    X, seen = oscillations(), []

    def interrupt(event: Any) -> None:
        seen.append(event.nit)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model().fit(X, observers=[interrupt], checkpoint=tmp_path)
    assert seen[:4] == [0, 1, 2, 3] and list((tmp_path / "choice").glob("checkpoint-*.npz"))
    again: list[int] = []
    resumed = model().fit(X, observers=[lambda event: again.append(event.nit)], checkpoint=tmp_path, resume=True)
    assert again[0] == 3 and again[1] == 4
    whole = model().fit(X)
    np.testing.assert_array_equal(resumed.choice_.steps[-1].figure, whole.choice_.steps[-1].figure)
    np.testing.assert_array_equal(resumed.systems_.A, whole.systems_.A)
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        model().fit([x + 1 for x in X[::-1]], checkpoint=tmp_path, resume=True)


class EndsEarly(LDSKMeans):
    """Ends its third fit as Ctrl-C does: with the best result so far."""

    fits: ClassVar[int] = 0

    def fit(self, *arguments: Any, **options: Any) -> EndsEarly:
        """Fit."""
        super().fit(*arguments, **options)
        EndsEarly.fits += 1
        if EndsEarly.fits == 3:
            self.status_ = ms.Status.INTERRUPTED
        return self


def test_ctrl_c_in_a_fit_of_half_the_data_ends_the_choice() -> None:
    EndsEarly.fits = 0
    with pytest.raises(KeyboardInterrupt):
        choose_clustering(EndsEarly(random_state=0), oscillations(), {"n_clusters": [2, 3], "n_states": [2]})
    assert EndsEarly.fits == 3


def test_ends_of_the_compared_numbers_are_told() -> None:
    rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    phases = rng.uniform(0, 6, 16)
    X = [np.cos(t * w + p + [0, 1, 2]) for w, p in zip([0.2, 0.5, 0.9, 1.3] * 4, phases, strict=True)]
    with pytest.warns(UserWarning, match=r"n_clusters=4 is the largest of the compared numbers \(2 to 4\): try larger"):
        model = LDSKMeans("auto", n_states=2, random_state=0).fit(X)
    assert model.choice_.best_params["n_clusters"] == 4 and "try larger numbers" in model.choice_.notes[-1]
    with pytest.warns(
        UserWarning, match=r"n_clusters=4 is the smallest of the compared numbers \(4 to 6\): try smaller"
    ):
        choose_clustering(LDSKMeans(n_states=2), X, {"n_clusters": [4, 5, 6]}, random_state=0)


def test_progress_knows_the_number_of_steps() -> None:
    seen: list[tuple[int, float]] = []
    LDSKMeans("auto", **SMALL).fit(
        oscillations(), observers=[lambda event: seen.append((event.nit, event.measures.extra.get("of", 0.0)))]
    )
    assert seen[:13] == [(nit, 12.0) for nit in range(13)] and seen[13] == (0, 0.0)


def test_wrong_settings_raise_an_error() -> None:
    X = oscillations()
    with pytest.raises(ValueError, match="n_clusters='many' is not known: pass a whole number, or 'auto'"):
        LDSKMeans("many").fit(X)
    with pytest.raises(ValueError, match="n_clusters='auto' does not support initial labels or centres"):
        LDSKMeans("auto", init=np.zeros(16, dtype=int)).fit(X)
    with pytest.raises(ValueError, match="partial_fit does not support n_clusters='auto'"):
        LDSKMeans("auto").partial_fit(X)
    for n in (1, 2, 3):
        few = (
            f"X has {n} sequence{'s' * (n > 1)}, but n_clusters='auto' compares clusterings of halves of the data: "
            "pass 4 or more, or set n_clusters"
        )
        for model in (LDSKMeans("auto"), LDSKMeans("auto", n_states=2)):
            with pytest.raises(ValueError, match=few):
                model.fit(X[:n])
    with pytest.raises(ValueError, match=r"X has 3 systems, but .*: pass 4 or more, or set n_clusters"):
        LDSKMeans("auto").fit(LDSIdentifier(2).fit_transform(X[:3]))
    for wrong in ([], "abc", [X[0], 3.0]):
        with pytest.raises(ValueError) as automatic:
            LDSKMeans("auto").fit(wrong)
        with pytest.raises(ValueError) as usual:
            LDSKMeans(2).fit(wrong)
        assert str(automatic.value) == str(usual.value)


@pytest.mark.slow
def test_batches_follow_a_chosen_fit(fitted: LDSKMeans) -> None:
    model = LDSKMeans("auto", **SMALL).fit(oscillations())
    assert len(model.partial_fit(oscillations(8)).counts_) == model.n_clusters_ == 2


@pytest.mark.slow
def test_the_shell_says_the_cost_before_and_the_table_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.stack(oscillations()))
    small = [f"--set={name}={value}" for name, value in SMALL.items() if name != "random_state"]
    command = ["fit", "lds-kmeans", str(tmp_path / "x.npy"), "--no-quality", *small]
    for auto in ("--choose", "--set=n_clusters=auto"):
        assert main([*command, auto, "-o", str(tmp_path / auto)]) == 0
        out, err = capsys.readouterr()
        then = "n_clusters from 2 to 4 by the agreement of 12 pairs of halves, on one kernel matrix of 16 sequences"
        first = "settings of the identification by forecasts and stability"
        assert err == f"n_clusters='auto' chooses {first}, then compares {then}.\n"
        assert "chosen: n_clusters=2, n_states=" in out and re.search(r"> \d\.\d+ ± \d\.\d+  n_clusters=2\n", out)
    first, second = (tmp_path / auto for auto in ("--choose", "--set=n_clusters=auto"))
    assert (first / "model.npz").read_bytes() == (second / "model.npz").read_bytes()
    assert json.loads((first / "run.json").read_text())["chosen"]["n_clusters"] == 2
    page = (first / "report.html").read_text()
    assert "How the settings were chosen" in page and "<dd>2 (auto)</dd>" in page
    status = main([*command, "--set=n_clusters=auto", "-o", str(first), "--resume"])
    assert status == 0 and "nothing to resume" in capsys.readouterr().out


@pytest.mark.slow
def test_one_candidate_is_no_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.stack(oscillations())[:8])
    small = [
        f"--set={name}={value}" for name, value in {**SMALL, "n_clusters": "auto"}.items() if name != "random_state"
    ]
    assert (
        main(["fit", "lds-kmeans", str(tmp_path / "x.npy"), "--no-quality", *small, "-o", str(tmp_path / "run")]) == 0
    )
    few = "uses n_clusters=2, because 8 sequences are too few for a choice: pass n_clusters"
    assert few in capsys.readouterr().err


def test_agreement_of_parts_chooses_again(fitted: LDSKMeans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq_lds.clustering._kmeans.chosen_by_default", None)
    found = ms.evaluation.evaluate(fitted, oscillations(), controls=())
    assert "agreement_of_parts" not in found.rows[0] and "not callable" in found.rows[0]["why"]


def test_the_mean_kernel_value_is_the_last_of_its_history(fitted: LDSKMeans) -> None:
    assert fitted.history_["mean_kernel_value"][-1] == fitted.mean_kernel_value_


@pytest.mark.slow
@pytest.mark.parametrize("turns", [(0.2, 0.9), (0.2, 0.6, 1.1), (0.2, 0.5, 0.8, 1.1, 1.4)])
def test_the_number_of_clusters_is_that_of_the_frequencies(turns: tuple[float, ...]) -> None:
    rng, t = np.random.default_rng(0), np.arange(80)[:, None]
    X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) + 0.5 * rng.standard_normal((80, 3)) for w in turns * 12]
    identified = LDSIdentifier(2, delay=8, center=False).fit_transform(X)
    for estimator in (LDSKMeans(), LDSSpectralClustering()):
        choice = choose_clustering(estimator, identified, {"n_clusters": [*range(2, 13)]}, n_splits=12, random_state=0)
        (step,) = choice.steps
        assert choice.best_params == {"n_clusters": len(turns)} and step.figure[step.chosen[0]] > 0.95


def test_figures_of_a_clustering_are_attributes(fitted: LDSKMeans) -> None:
    X = oscillations()
    step = fitted.choice_.steps[-1]
    assert fitted.stability_ == step.figure[step.params.index({"n_clusters": 2})]
    systems = LDSIdentifier(2).fit_transform(X)
    values = np.array([[projection(a, b) for b in systems] for a in systems])
    rng = np.random.default_rng(0)
    for labels in (np.arange(16) % 2, rng.permutation(np.arange(16) % 3)):
        k = int(labels.max()) + 1
        model = LDSKMeans(k, init=labels, max_iter=1, relocate=False).fit(systems)
        expected = silhouette_score(np.sqrt(np.maximum(4 - 2 * values, 0)), model.labels_, metric="precomputed")
        assert model.silhouette_ == pytest.approx(expected, abs=1e-6)
        assert not hasattr(model, "stability_") and not hasattr(model, "agreement_")
        assert not hasattr(model.partial_fit(systems), "silhouette_")
    spectral = LDSSpectralClustering(3, random_state=0).fit(systems)
    expected = silhouette_score(np.sqrt(np.maximum(2 - values, 0)), spectral.labels_, metric="precomputed")
    assert spectral.silhouette_ == pytest.approx(expected, abs=1e-6)
    assert LDSKMeans(2, random_state=0).fit(systems).agreement_ == 1.0
    assert LDSKMeans(6, random_state=0).fit(systems).agreement_ < 0.95  # two clusters, cut in six parts
    assert np.isnan(LDSKMeans(1).fit(systems).silhouette_)
