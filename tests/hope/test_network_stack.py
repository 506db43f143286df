"""Layers learned without labels, heads on them, and fine-tuning."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from scipy.stats import entropy
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifoldseq as ms
from manifoldseq_hope import HOPE, HOPENetworkClassifier, HOPEStack, ReduceOnPlateau, log_normalizer

X, y = load_digits(return_X_y=True)
SOME = np.random.default_rng(0).permutation(len(X))[:500]  # writers mixed
X, y = X[SOME] / 16, y[SOME]
WITHOUT_TORCH = importlib.util.find_spec("torch") is None


@pytest.mark.slow
def test_conventions_of_scikit_learn() -> None:
    ms.testing.check_estimator(HOPEStack(mixture=HOPE(prepare="unit", max_iter=5))).raise_for_failure()


@pytest.mark.parametrize("head", ["softmax", "svm"])
def test_two_layers_and_a_head_classify(head: str) -> None:
    stack = HOPEStack([(20, 60), (15, 50)], head=head, random_state=0).fit(X[:400], y[:400])
    assert stack.transform(X).shape == (500, 50)
    assert stack.score(X[400:], y[400:]) > 0.85
    assert HOPEStack([(20, 60)], head=head, random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.9
    assert stack.decision_function(X).shape == (500, 10)
    assert all(layer.orthonormality() < 1e-9 for layer in stack.layers_)
    one, other = (HOPEStack([(20, 60)], head=head, random_state=0).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_a_second_layer_keeps_what_as_many_principal_components_keep() -> None:
    """Its M=15 projections of 60 features classify as their 15 principal components do, and fill as many dimensions."""
    digits, labels = load_digits(return_X_y=True)
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(len(digits))
        train, test = order[:1200], order[1200:]
        stack = HOPEStack([(20, 60), (15, 50)], random_state=seed).fit(digits[train], labels[train])
        below = HOPEStack([(20, 60)], random_state=seed).fit(digits[train]).transform(digits)
        leading = make_pipeline(PCA(15), StandardScaler(), LogisticRegression(max_iter=1000))
        leading.fit(below[train], labels[train])
        assert stack.score(digits[test], labels[test]) > leading.score(below[test], labels[test]) - 0.02
        spread = np.linalg.eigvalsh(np.cov(stack.transform(digits[train]).T))
        spread = np.maximum(spread, 0) / spread.sum()
        assert np.exp(entropy(spread)) > 6  # 2.2 if directions are not taken from the mean


def test_a_layer_is_39_of_its_model() -> None:
    """Features are phi (37) of rows less their mean, z divided by its mean length, less the quantile of phi."""
    stack = HOPEStack([(12, 30)], quantile=0.6, random_state=0).fit(X)
    model, layer = stack.mixtures_[0], stack.layers_[0]
    z = (X - X.mean(axis=0)) @ model.components_.T
    z /= np.linalg.norm(z, axis=1).mean()
    mu = model.parameters_[0]
    kappa = np.linalg.norm(mu, axis=1)
    phi = np.log(model.weights_) + log_normalizer(12, kappa) + z @ mu.T
    expected = np.maximum(phi - np.quantile(phi, 0.6), 0)
    np.testing.assert_allclose(stack.transform(X), expected, atol=1e-9 * phi.max())
    assert np.mean(expected > 0) == pytest.approx(0.4, abs=0.01)
    merged = layer.merged()
    np.testing.assert_allclose(np.maximum(merged(X), 0), expected, atol=1e-9 * phi.max())


def test_a_second_layer_is_learned_from_the_rectified_features_of_the_first() -> None:
    stack = HOPEStack([(12, 30), (8, 20)], random_state=0).fit(X)
    below = np.maximum(X @ stack.layers_[0].merged().weight.T + stack.layers_[0].bias, 0)
    np.testing.assert_allclose(stack.means_[1], below.mean(axis=0), rtol=1e-9)
    model = HOPE(20, n_latent=8, prepare="unit", kappa="shared", random_state=stack.mixtures_[1].random_state)
    model.fit(below - below.mean(axis=0))
    np.testing.assert_allclose(stack.mixtures_[1].components_, model.components_, atol=1e-6)


def test_labels_may_come_later_and_for_some_rows_only() -> None:
    stack = HOPEStack([(20, 60)], random_state=0).fit(X)
    with pytest.raises(ValueError, match="fit_head"):
        stack.predict(X)
    features = stack.transform(X)
    stack.fit_head(X[:150], y[:150])
    np.testing.assert_array_equal(stack.transform(X), features)
    assert stack.score(X[150:], y[150:]) > 0.75


@pytest.mark.skipif(WITHOUT_TORCH, reason="torch is not installed")
def test_fine_tuning_starts_from_the_learned_layers_and_improves_them() -> None:
    network = HOPENetworkClassifier([15], max_iter=30, learning_rate=0.01, batch_size=20)
    stack = HOPEStack([(20, 60), (15, 50)], network=network, random_state=0).fit(X[:400], y[:400])
    tuned = stack.network_
    assert tuned is not None and [len(layer.bias) for layer in tuned.layers_] == [60, 50, 15]
    assert tuned.history_["fun"][-1] < 0.5 * tuned.history_["fun"][0]
    assert tuned.history_["feasibility"].max() <= 2e-6
    assert stack.score(X[400:], y[400:]) > 0.8
    np.testing.assert_array_equal(stack.predict(X), tuned.predict(X))
    start = HOPENetworkClassifier([(20, 60), (15, 50)], max_iter=1, learning_rate=1e-12, weight_decay=0.0)
    start.fine_tune(X, y, stack.layers_)
    ours, theirs = start.transform(X), stack.transform(X)  # the same features, but for a factor
    np.testing.assert_allclose(ours / ours.max(), theirs / theirs.max(), atol=1e-4)


@pytest.mark.skipif(WITHOUT_TORCH, reason="torch is not installed")
@pytest.mark.parametrize("above", [[], [15]], ids=["HOPE layers only", "HOPE layers below another"])
def test_fine_tuning_starts_from_all_layers(above: list[int]) -> None:
    """The two structures of Figure 3, by steps that are too short to be seen."""
    network = HOPENetworkClassifier(above, max_iter=1, learning_rate=1e-12, weight_decay=0.0)
    stack = HOPEStack([(20, 60), (15, 50)], network=network, random_state=0).fit(X[:400], y[:400])
    tuned = stack.network_
    assert tuned is not None and [len(layer.bias) for layer in tuned.layers_] == [60, 50, *above]
    assert [None if layer.U is None else len(layer.U) for layer in tuned.layers_] == [20, 15, *(None for _ in above)]
    rows = X
    for layer, learned in zip(tuned.layers_, stack.layers_, strict=False):
        np.testing.assert_allclose(layer.U, learned.U, atol=1e-6)
        rows = np.maximum(layer(rows), 0)
    expected = stack.transform(X)
    np.testing.assert_allclose(rows / rows.max(), expected / expected.max(), atol=1e-4)


@pytest.mark.skipif(WITHOUT_TORCH, reason="torch is not installed")
def test_a_stack_and_its_network_resume_and_survive_a_file(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"layers": [(12, 30)], "random_state": 0}
    settings["network"] = HOPENetworkClassifier([], max_iter=3)
    whole = HOPEStack(**settings).fit(X, y)
    HOPEStack(**settings).fit(X, y, checkpoint=tmp_path / "run")
    again = HOPEStack(**settings).fit(X, y, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.decision_function(X), whole.decision_function(X))
    ms.storage.save_model(whole, tmp_path / "model")
    loaded = ms.storage.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), whole.decision_function(X))


def test_an_interrupted_stack_resumes_to_the_same_layers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"layers": [(12, 30), (8, 20)], "random_state": 0}
    settings["mixture"] = HOPE(prepare="unit", kappa="shared", max_iter=6, tol=0.0)
    whole, events = HOPEStack(**settings).fit(X), []

    def interrupt(event: Any) -> None:
        events.append(event.nit)
        if len(events) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HOPEStack(**settings).fit(X, observers=[interrupt], checkpoint=tmp_path)
    assert len(events) < 6
    again = HOPEStack(**settings).fit(X, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.transform(X), whole.transform(X))


@parametrize(
    ("settings", "words"),
    [
        ({"layers": [100]}, "pairs (M, K)"),
        ({"layers": []}, "pairs (M, K)"),
        ({"layers": [(65, 8)]}, "65"),
        ({"layers": [(10, 501)]}, "layers[0] has K=501, but only 500 rows"),
        ({"head": "tree"}, "'softmax' or 'svm'"),
        ({"C": 0}, "C=0"),
        ({"quantile": 1.5}, "quantile=1.5"),
        ({"mixture": HOPE(family="gmm")}, "no rectified layers"),
        ({"layers": [(None, None)]}, "layers[0]=(None, None) is not valid"),
        ({"layers": [(10, 20), (30, 5)]}, "layers[1]: M=30 exceeds the 20 inputs"),
        ({"network": HOPENetworkClassifier(5)}, "network: layers=5 is not valid"),
        ({"network": HOPENetworkClassifier([], learning_rate=ReduceOnPlateau(0.1))}, "a stack has none"),
        (
            {"network": HOPENetworkClassifier([], criterion="eta")},
            "network: criterion='eta' needs one unit of the last",
        ),
        (
            {"network": HOPENetworkClassifier([9], criterion="eta")},
            "but there are 10 classes and 9 units: end layers with",
        ),
        ({"network": HOPENetworkClassifier([30, (31, 5)])}, "network: layers[1]: M=31 exceeds the 30 inputs"),
        ({"network": HOPENetworkClassifier([(9, 10)])}, "network: layers[0]: M=9 exceeds the 8 inputs"),
        ({"network": HOPENetworkClassifier([], batch_size=0)}, "network: batch_size=0"),
    ],
    fast=6,
)
def test_bad_settings_raise_an_error(settings: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "network" in settings:
        monkeypatch.setattr(HOPE, "fit", lambda *_, **__: pytest.fail("a layer is learned"))
    with pytest.raises(ValueError) as caught:
        HOPEStack(**settings).fit(X, y)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_missing_labels_raise_an_error() -> None:
    labels = [None if place == 3 else str(k) for place, k in enumerate(y)]
    with pytest.raises(ValueError, match="row 3 of y has no label \\(None\\): remove rows without labels"):
        HOPEStack([(10, 20)]).fit(X, labels)
