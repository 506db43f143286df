"""The quality figures of ``manifoldseq fit``: what fails says why, and what was left out can be added."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from cli.examples import SignClusterer, two_levels
from helpers import parametrize

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.evaluation import Evaluation

Run = Callable[..., tuple[int, str, str]]
FIT = ("fit", "sign", "two-levels")


def judged(folder: Path) -> dict[str, Any]:
    """Return what `evaluation.json` says."""
    return json.loads((folder / "evaluation.json").read_text())


@parametrize("left_out", ["option", "interrupt"], fast=1)
def test_a_figure_that_was_left_out_is_added_without_another_fit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    folder = tmp_path / "run"
    if left_out == "option":
        assert run(*FIT, "--no-quality", "-o", folder)[0] == 0
    else:
        with monkeypatch.context() as patch:
            patch.setattr("manifoldseq.cli._fit.evaluate", _interrupt)
            assert run(*FIT, "-o", folder)[0] == 130
        assert run(*FIT, "--resume", "--no-quality", "-o", folder)[0] == 0
    assert (
        not (folder / "evaluation.json").exists()
        and "Comparison with simple" not in (folder / "report.html").read_text()
    )
    seconds = json.loads((folder / "metrics.json").read_text())["seconds"]
    with monkeypatch.context() as patch:
        patch.setattr("manifoldseq.cli._procedure._computed", _interrupt)  # no other fit
        status, out, err = run(*FIT, "--resume", "-o", folder)
    assert (status, err) == (0, "") and "Agreement with the labels 1.00" in out
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["seconds"] == seconds and metrics["ari"] == 1.0 and judged(folder)["measure"] == "ari"
    assert "Comparison with simple" in (folder / "report.html").read_text()
    assert json.loads((folder / "run.json").read_text())["state"] == "done"
    assert "nothing to resume" in run(*FIT, "--resume", "-o", folder)[1]


def _interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


class EndsEarly(SignClusterer):
    """A clusterer whose third fit ends as one that Ctrl-C ends: with its best result so far."""

    fits: ClassVar[int] = 0

    def fit(self, X: list[np.ndarray], y: object = None) -> EndsEarly:
        """Cluster."""
        super().fit(X)
        EndsEarly.fits += 1
        self.status_ = ms.Status.INTERRUPTED if EndsEarly.fits == 3 else ms.Status.CONVERGED
        return self


def test_ctrl_c_in_a_fit_of_an_evaluation_ends_the_evaluation() -> None:
    EndsEarly.fits = 0
    model, data = EndsEarly(), two_levels()
    model.fit(data.sequences)
    with pytest.raises(KeyboardInterrupt):
        ms.evaluation.evaluate(model, data.sequences)
    assert EndsEarly.fits == 3


class BrokenControl(SignClusterer):
    """Fits nothing."""

    def fit(self, X: Any, y: object = None) -> Any:
        raise RuntimeError("no luck")


class NoSilhouette(SignClusterer):
    """Has distances that raise."""

    def transform(self, X: Any) -> Any:
        raise ZeroDivisionError("on purpose")


def test_a_failure_costs_its_figure_and_no_other(run: Run, tmp_path: Path) -> None:
    ms.register(hooks.EstimatorSpec("broken", BrokenControl))
    controls = ("broken", "nowhere", "statistics-kmeans")
    ms.register(hooks.EstimatorSpec("unsure", NoSilhouette, controls=controls))
    status, out, err = run("fit", "unsure", "two-levels", "-o", tmp_path / "run")
    assert (status, err) == (0, "")
    rows = {row["name"]: row for row in judged(tmp_path / "run")["rows"]}
    assert list(rows) == ["unsure", *controls, "chance"]
    assert rows["unsure"]["ari"] == rows["statistics-kmeans"]["ari"] == 1.0
    assert rows["unsure"]["why"] == "ZeroDivisionError: on purpose" and rows["broken"]["why"] == "RuntimeError: no luck"
    assert rows["nowhere"]["why"].startswith("UnknownName: unknown estimator 'nowhere'")
    assert "broken: RuntimeError: no luck." in out and "unsure: ZeroDivisionError: on purpose." in out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "broken: RuntimeError: no luck." in page


class Refits(SignClusterer):
    """Fits the whole data, and nothing else."""

    def fit(self, X: Any, y: object = None) -> Any:
        if hasattr(type(self), "seen"):
            raise MemoryError("too much")
        type(self).seen = True  # type: ignore[attr-defined]
        return super().fit(X)


def test_a_figure_of_the_estimator_that_fails_leaves_its_controls(run: Run, tmp_path: Path) -> None:
    ms.register(hooks.EstimatorSpec("once", Refits))
    np.savez(tmp_path / "X.npz", X=np.stack(two_levels().sequences))
    status, out, err = run("fit", "once", tmp_path / "X.npz", "-o", tmp_path / "run")
    assert (status, err) == (0, "")
    assert judged(tmp_path / "run")["winner"] == "statistics-kmeans"
    assert "No agreement of parts of once: MemoryError: too much; the control statistics-kmeans reaches 1.00." in out
    assert "too few members" not in out


QUALITIES: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda *_: None, "returned None: it must return an evaluation.Evaluation"),
    "number": (lambda *_: 0.5, "returned a float: it must return an evaluation.Evaluation"),
    "nan": (
        lambda *_: Evaluation("t", "r2", [{"name": "mine", "r2": np.nan}], "so"),
        "says: ValueError: row 'mine' of an evaluation has r2=nan, which is not a finite number: pass why=",
    ),
    "name": (lambda *_: Evaluation("t", "r2", [{"r2": 1.0}], "so"), "says: ValueError: an evaluation has the row"),
    "figure": (lambda *_: Evaluation("t", "r2", [{"name": "mine"}], "so"), "has neither 'r2' nor why='…'"),
    "direction": (
        lambda *_: Evaluation("t", "r2", [{"name": "mine", "r2": 1.0}], "so", None, "up"),  # type: ignore[arg-type]
        "greater_is_better='up': pass True or False",
    ),
    "error": (lambda *_: 1 / 0, "says: ZeroDivisionError: division by zero"),
}


@parametrize("name", QUALITIES, fast=2)
def test_what_a_plugin_s_quality_returns_is_checked(run: Run, tmp_path: Path, name: str) -> None:
    quality, sentence = QUALITIES[name]
    ms.register(hooks.EstimatorSpec("own", SignClusterer, quality=quality))
    status, out, err = run("fit", "own", "two-levels", "-o", tmp_path / "run")
    assert (status, err) == (0, "") and sentence in out
    assert "The quality was not measured: the quality of 'own' (plugin session) " in out
    assert sentence.split("'")[0] in judged(tmp_path / "run")["verdict"]
    assert "The quality was not measured" in (tmp_path / "run" / "report.html").read_text()


def test_an_error_measure_has_the_least_as_its_best(run: Run, tmp_path: Path) -> None:
    rows = [{"name": "own", "error": 0.5}, {"name": "last value", "error": 0.25}]
    found = Evaluation("forecasts", "error", rows, "as it is", greater_is_better=False)
    ms.register(hooks.EstimatorSpec("own", SignClusterer, quality=lambda *_: found))
    _, out, _ = run("fit", "own", "two-levels", "-o", tmp_path / "run")
    assert re.search(r"^last value \* +0\.250", out, re.MULTILINE) and "As it is. (*: best error)" in out


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.r_[np.arange(19.0), np.nan], "1 of 20 members have no label (the first is member 19"),
        (np.full(20, 0.5), "labels have fractions, such as 0.5"),
        (np.array(["a"] * 10 + [""] * 10), "10 of 20 members have no label (the first is member 10"),
        (np.zeros(20, dtype="datetime64[D]"), "labels have the type datetime64[D]: pass names or whole numbers"),
    ],
)
def test_labels_that_are_none_are_a_sentence_before_the_fit(
    run: Run, tmp_path: Path, labels: np.ndarray, sentence: str
) -> None:
    np.save(tmp_path / "y.npy", labels)
    status, out, err = run(*FIT, "--labels", tmp_path / "y.npy", "-o", tmp_path / "run")
    assert (status, out) == (2, "") and sentence in err and "y.npy" in err
    assert not (tmp_path / "run").exists()


class Plain:
    """A class of a stranger, without scikit-learn."""

    def fit(self, X: Any) -> None:
        """Keep nothing."""


def test_a_class_without_parameters_says_what_it_lacks(run: Run, tmp_path: Path) -> None:
    ms.register(hooks.EstimatorSpec("plain", Plain))
    status, _, err = run("fit", "plain", "two-levels", "-o", tmp_path / "run")
    assert status == 1 and "plain is a Plain without get_params and set_params" in err
    assert "derive its class from sklearn.base.BaseEstimator" in err and not (tmp_path / "run").exists()


class NoLabels(SignClusterer):
    """Takes the data alone."""

    def fit(self, X: Any) -> Any:  # type: ignore[override]
        return super().fit(X)


def test_a_fit_that_takes_the_data_alone(run: Run, tmp_path: Path) -> None:
    ms.register(hooks.EstimatorSpec("alone", NoLabels))
    np.savez(tmp_path / "X.npz", X=np.stack(two_levels().sequences))
    status, out, err = run("fit", "alone", tmp_path / "X.npz", "-o", tmp_path / "run")
    assert (status, err) == (
        0,
        "",
    ) and "Clusters are repeatable: agreement 1.00 between fits to parts of the data" in out


def test_json_has_what_is_printed(run: Run, tmp_path: Path) -> None:
    for more in ((), ("--no-quality",)):
        status, out, _ = run(*FIT, "--json", *more, "-o", tmp_path / f"run{len(more)}")
        found = json.loads(out)
        assert status == 0 and found["about"] == ["two-levels: 20 sequences of 8 steps, 2 channels, 2 classes"]
        assert found["evaluation"] == (None if more else judged(tmp_path / "run0"))
