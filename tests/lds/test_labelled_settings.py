"""Settings of `LDSClassifier` that are chosen by its labels: the figures against loops, and what they decide."""

from pathlib import Path

import numpy as np
import pytest
from lds.sparse_problems import oscillations
from scipy.stats import sem
from sklearn.kernel_ridge import KernelRidge

import manifoldseq as ms
from manifoldseq_lds import LDSClassifier, LDSIdentifier
from manifoldseq_lds.coding._labelled_settings import _drawn, left_out


def levels_and_tones(n: int = 24) -> tuple[list[np.ndarray], np.ndarray]:
    """Sequences of one dynamics whose levels are their classes."""
    rng, t = np.random.default_rng(0), np.arange(50)[:, None]
    y = np.arange(n) % 2
    return [np.sin(0.4 * t + rng.uniform(0, 6)) + 3.0 * k + 0.1 * rng.standard_normal((50, 1)) for k in y], y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_without_a_member_are_those_of_a_loop(n_classes: int) -> None:
    rng = np.random.default_rng(1)
    F, y = rng.standard_normal((18, 3)), np.arange(18) % n_classes
    F[:, 0] += y
    K, targets = F @ F.T, np.eye(n_classes)[y]
    scores = []
    for i in range(18):
        others = np.arange(18) != i
        model = (
            KernelRidge(kernel="precomputed").set_params(alpha=0.1).fit(K[np.ix_(others, others)] + 1, targets[others])
        )
        scores.append(model.predict(K[[i]][:, others] + 1)[0])
    scores = np.array(scores)
    accuracy, loss, error = left_out(K, y, "svm", 10.0)
    assert accuracy == np.mean(scores.argmax(axis=1) == y)
    assert loss == pytest.approx(np.mean((scores - targets) ** 2))
    assert error == pytest.approx(sem(np.mean((scores - targets) ** 2, axis=1)))
    distances = np.linalg.norm(F[:, None] - F, axis=2) + np.diag(np.full(18, np.inf))
    assert left_out(K, y, "nearest", 10.0)[0] == np.mean(y[distances.argmin(axis=1)] == y)


def test_labels_decide_whether_levels_count() -> None:
    X, y = levels_and_tones()
    model = LDSClassifier().fit(X[:16], y[:16])
    assert model.choice_.best_params["moments"] in ("level", "both") and model.score(X[16:], y[16:]) == 1.0
    rng, t = np.random.default_rng(2), np.arange(50)[:, None]
    X = [np.sin((0.3 + 0.5 * k) * t) + 5 * rng.standard_normal() + 0.1 * rng.standard_normal((50, 1)) for k in y]
    model = LDSClassifier().fit(X[:16], y[:16])
    assert model.choice_.best_params["moments"] == "none" and model.score(X[16:], y[16:]) == 1.0


def test_given_settings_stay() -> None:
    X, y = oscillations(24), np.arange(24) % 3
    assert not hasattr(LDSClassifier(n_states=2).fit(X, y), "choice_")
    model = LDSClassifier(identifier=LDSIdentifier("auto", delay=3, center=False), moments="size").fit(X, y)
    (step,) = model.choice_.steps
    assert {(one["delay"], one["center"], one["moments"]) for one in step.params} == {(3, False, "size")}
    assert set(model.choice_.best_params) == {"n_states"}
    assert (np.diff(step.figure) >= 0).all() and step.chosen == [0]
    assert model.choice_.best_params["n_states"] == step.params[0]["n_states"]
    assert "> " in str(model.choice_) and "chosen: n_states=" in str(model.choice_)


def test_the_choice_is_kept_in_files(tmp_path: Path) -> None:
    X, y = levels_and_tones()
    model = LDSClassifier().fit(X, y)
    ms.storage.save_model(model, tmp_path)
    again = ms.load(tmp_path)
    assert again.choice_.best_params == model.choice_.best_params and (again.predict(X) == model.predict(X)).all()


def test_a_class_with_one_sequence_leaves_the_choice_to_the_rule_without_labels() -> None:
    X, y = levels_and_tones()
    y[0] = 7
    model = LDSClassifier().fit(X, y)
    assert [step.heading for step in model.choice_.steps] == ["forecast error", "stability", "stability"]


def test_settings_of_many_sequences_are_compared_on_some_of_each_class() -> None:
    codes = np.repeat([0, 1, 2], [900, 97, 3])
    rows = _drawn(codes)
    assert len(rows) == len(set(rows.tolist())) == 300 and np.bincount(codes[rows]).tolist()[2] >= 2
    assert np.bincount(codes[rows])[1] == pytest.approx(30, abs=4)
