"""``n_clusters="auto"``: what the public rule chooses from the default grid, kept in files, resumed, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq_lds import LDSIdentifier, LDSKMeans, choose_clustering

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
    expected = choose_clustering(LDSKMeans(**SMALL), X, {"n_clusters": [2, 3, 4]}, random_state=0)
    np.testing.assert_array_equal(fitted.choice_.stability, expected.stability)
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
    assert [set(one) for one in model.choice_.params] == [{"n_clusters"}] * 3
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
    np.testing.assert_array_equal(resumed.choice_.stability, whole.choice_.stability)
    np.testing.assert_array_equal(resumed.systems_.A, whole.systems_.A)
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        model().fit([x + 1 for x in X[::-1]], checkpoint=tmp_path, resume=True)


def test_progress_knows_the_number_of_steps() -> None:
    seen: list[tuple[int, float]] = []
    LDSKMeans("auto", **SMALL).fit(
        oscillations(), observers=[lambda event: seen.append((event.nit, event.measures.extra.get("of", 0.0)))]
    )
    assert seen[:11] == [(nit, 10.0) for nit in range(11)] and seen[11] == (0, 0.0)


def test_wrong_settings_are_a_sentence() -> None:
    X = oscillations()
    with pytest.raises(ValueError, match="n_clusters='many' is not known: pass a whole number, or 'auto'"):
        LDSKMeans("many").fit(X)
    with pytest.raises(ValueError, match="init has a number of clusters: pass it as n_clusters"):
        LDSKMeans("auto", init=np.zeros(16, dtype=int)).fit(X)
    with pytest.raises(ValueError, match="n_clusters='auto' is chosen by fit, from all sequences"):
        LDSKMeans("auto").partial_fit(X)
    with pytest.raises(ValueError, match="half of them are too few for n_clusters=2"):
        LDSKMeans("auto").fit(X[:3])


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
        fits = "3 settings (n_clusters 2 to 4) on 10 pairs of halves, 60 fits of 8 sequences"
        first = "settings of the identification by forecasts and stability"
        assert err == f"n_clusters='auto': {first}, then {fits}.\n"
        assert "chosen: n_clusters=2, n_states=" in out and "> 1.000 ± 0.000  n_clusters=2" in out
    first, second = (tmp_path / auto for auto in ("--choose", "--set=n_clusters=auto"))
    assert (first / "model.npz").read_bytes() == (second / "model.npz").read_bytes()
    assert json.loads((first / "run.json").read_text())["chosen"]["n_clusters"] == 2
    page = (first / "report.html").read_text()
    assert "How the settings were chosen" in page and "<dd>2 (auto)</dd>" in page
    status = main([*command, "--set=n_clusters=auto", "-o", str(first), "--resume"])
    assert status == 0 and "nothing to resume" in capsys.readouterr().out


def test_one_candidate_is_no_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.stack(oscillations())[:8])
    small = [
        f"--set={name}={value}" for name, value in {**SMALL, "n_clusters": "auto"}.items() if name != "random_state"
    ]
    assert (
        main(["fit", "lds-kmeans", str(tmp_path / "x.npy"), "--no-quality", *small, "-o", str(tmp_path / "run")]) == 0
    )
    assert "n_clusters 2 alone, as 8 sequences are too few for a choice: give n_clusters" in capsys.readouterr().err


def test_agreement_of_seeds_does_not_choose_again(fitted: LDSKMeans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq_lds.clustering._kmeans.chosen_by_default", None)
    found = ms.evaluation.evaluate(fitted, oscillations())
    assert found.rows[0]["agreement_of_seeds"] == 1.0 and "why" not in found.rows[0]


def test_the_mean_kernel_value_has_its_old_name_for_one_release(fitted: LDSKMeans) -> None:
    with pytest.warns(DeprecationWarning, match="objective_ is mean_kernel_value_ now"):
        assert fitted.objective_ == fitted.mean_kernel_value_
    assert fitted.history_["mean_kernel_value"][-1] == fitted.mean_kernel_value_
