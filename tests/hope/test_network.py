"""Networks as a classifier: training, its settings, resuming, merging, storage and bad input."""

from __future__ import annotations

import importlib.util
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from sklearn.datasets import load_digits

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

import manifoldseq as ms
from manifoldseq_hope import Dense, Exponential, HOPENetworkClassifier, Ramp, Windows, penalty_gradient, uniform
from manifoldseq_hope.networks._initial_weights import begin, checked_sizes
from manifoldseq_hope.networks._network import settings_of
from manifoldseq_hope.networks._training import Trainer

RNG = np.random.default_rng(0)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return 600 digits of 64 pixels in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(X))[:600]  # writers mixed
    return (X[some] / 16).astype(np.float32), y[some]


def network(**settings: Any) -> HOPENetworkClassifier:
    return HOPENetworkClassifier(
        **{"layers": [(10, 30)], "max_iter": 3, "batch_size": 50, "random_state": 0} | settings
    )


@pytest.mark.slow
def test_conventions_of_scikit_learn() -> None:
    ms.testing.check_estimator(
        HOPENetworkClassifier([(None, 20)], max_iter=40, learning_rate=0.03, batch_size=20)
    ).raise_for_failure()


@parametrize(
    "settings",
    [
        {},
        {"orthogonality": "qr", "init": "uniform"},
        {"orthogonality": "penalty"},
        {"orthogonality": None, "init": "uniform"},
        {"layers": [40]},
        {"layers": [(10, 30), 20]},
        {"layers": [(10, 40), (8, 30)]},
    ],
    fast=2,
)
def test_every_kind_of_network_learns_digits(settings: dict[str, Any]) -> None:
    X, y = digits()
    model = network(max_iter=40, **settings).fit(X[:400], y[:400])
    assert model.history_["fun"][-1] < 0.3 * model.history_["fun"][0]
    assert model.score(X[400:], y[400:]) > 0.7
    kept = settings.get("orthogonality", "polar") in ("polar", "qr")
    if kept:
        assert model.history_["feasibility"].max() <= 2e-6
        assert max(layer.orthonormality() for layer in model.layers_) <= 2e-6
    elif "orthogonality" in settings:
        assert model.history_["feasibility"][-1] > 0.01
    names = [name for name in model.history_ if name.startswith("correlations_")]
    assert len(names) == sum(layer.U is not None for layer in model.layers_)


def test_correlations_die_on_the_manifold_shrink_by_the_penalty_and_grow_without() -> None:
    X, y = digits()
    last = {}
    for mode in ("polar", "penalty", None):
        settings = {"orthogonality": mode, "init": "uniform", "beta": 0.05, "max_iter": 15, "learning_rate": 0.2}
        last[mode] = network(**settings).fit(X, y).history_["correlations_0"][-1]
    assert last["polar"] < 1e-3 < last["penalty"] < 0.5 * last[None]


@pytest.mark.parametrize("orthogonality", ["penalty", None], ids=["penalty", "bottleneck"])
def test_one_epoch_is_the_formulas_in_numpy(orthogonality: str | None) -> None:
    """Forward, backward, momentum, weight decay and the penalty, again in numpy: two epochs of two batches."""
    X, y = RNG.standard_normal((8, 6)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2, 0, 1])
    model = network(
        layers=[(3, 5)], orthogonality=orthogonality, beta=0.3, init="uniform", batch_size=4, weight_decay=0.1,
        momentum=(0.5, 0.9), learning_rate=0.2, decay=0.7, max_iter=2,
    )  # fmt: skip
    sizes, training = settings_of(model, 6)
    layers, head = begin(X, sizes, 3, "uniform", False, 0.5, np.random.default_rng(5))
    assert head is not None
    for layer in layers:
        layer.bias[:] = 0.1
    trainer = Trainer(X, y, layers, head, training, seed=7)
    state, _ = trainer.start()
    parts = [np.array(part, np.float64) for part in state["x"]]
    velocity = [np.zeros_like(part) for part in parts]
    for epoch in range(2):
        rate, m = 0.2 * 0.7**epoch, 0.5 + 0.4 * epoch / 2
        with torch.random.fork_rng():
            torch.manual_seed(int(np.random.SeedSequence([7, epoch]).generate_state(1)[0]))
            order = torch.randperm(8).numpy()
        for rows in (order[:4], order[4:]):
            U, mu, b, V, c = parts
            z = X[rows] @ U.T
            a = z @ mu.T + b
            eta = np.maximum(a, 0)
            s = eta @ V.T + c
            p = np.exp(s - s.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            d = (p - np.eye(3)[y[rows]]) / 4
            da = (d @ V) * (a > 0)
            gradients = [
                (da @ mu).T @ X[rows] + (0.3 * penalty_gradient(U) if orthogonality else 0.1 * U),
                da.T @ z + 0.1 * mu, da.sum(0), d.T @ eta + 0.1 * V, d.sum(0),
            ]  # fmt: skip
            velocity = [m * v + g for v, g in zip(velocity, gradients, strict=True)]
            parts = [part - rate * v for part, v in zip(parts, velocity, strict=True)]
        state, _ = trainer.step(state)
    for ours, expected in zip(state["x"], parts, strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-6)


def test_the_penalty_is_on_every_projection() -> None:
    """The loss of a network that hardly moves: cross-entropy, and beta times the correlations of pairs of rows."""
    X, y = digits()
    settings = {"layers": [(10, 30), (8, 20)], "orthogonality": "penalty", "beta": 0.2, "init": "uniform"}
    model = network(**settings, max_iter=1, learning_rate=1e-12, weight_decay=0.0).fit(X, y)
    correlated = [
        sum(abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) for i, a in enumerate(layer.U) for b in layer.U[:i])
        for layer in model.layers_
    ]
    entropy = -np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y]))
    assert model.history_["fun"][0] == pytest.approx(entropy + 0.2 * sum(correlated), rel=1e-5)
    for number, value in enumerate(correlated):  # Figure 4: over i != j
        assert model.history_[f"correlations_{number}"] == pytest.approx([2 * value, 2 * value], rel=1e-5)


def test_schedules_are_42_and_43() -> None:
    assert [Exponential(0.1).rate(t) for t in range(3)] == pytest.approx([0.1 * 0.998**t for t in range(3)])
    expected = [t / 50 * 0.99 + (1 - t / 50) * 0.5 for t in range(50)] + [0.99] * 3
    assert [Ramp(0.5, 0.99, 50).rate(t) for t in range(53)] == pytest.approx(expected)


def test_features_without_a_head_are_scored_by_40() -> None:
    X, y = digits()
    model = network(layers=[(10, 30), (9, 10)], criterion="eta", max_iter=4, learning_rate=0.05).fit(X, y)
    assert model.head_ is None
    eta = model.transform(X)
    assert eta.shape == (600, 10) and eta.min() == 0
    loss = -np.mean(eta[np.arange(600), y] - np.log(np.exp(eta).sum(axis=1)))  # (40), per row
    torch_loss = torch.nn.functional.cross_entropy(model.module()(torch.tensor(X)), torch.tensor(y))
    assert float(torch_loss.detach()) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_array_equal(model.predict(X), eta.argmax(axis=1))


def test_loss_that_is_trained_without_a_head_is_40() -> None:
    """A network that hardly moves: the loss before and during an epoch, and (40) of its features in numpy."""
    X, y = digits()
    model = network(layers=[(10, 30), (9, 10)], criterion="eta", max_iter=1, learning_rate=1e-9, gamma=3.0).fit(X, y)
    eta = model.transform(X).astype(float)
    assert eta.max() > 1
    loss = -np.mean(eta[np.arange(600), y] - np.log(np.exp(eta).sum(axis=1)))
    np.testing.assert_allclose(model.history_["fun"], loss, rtol=1e-5)


def test_weights_are_drawn_by_41() -> None:
    """By hand: uniform within gamma sqrt(6 / (in + out)), layers and head of a network."""
    most = 0.5 * np.sqrt(6 / 380)
    found = uniform(np.random.default_rng(0), 300, 80, 0.5)
    assert found.shape == (300, 80) and 0.99 * most < np.abs(found).max() <= most
    assert found.var() == pytest.approx(most**2 / 3, rel=0.02) and abs(found.mean()) < 0.02 * most
    (layer,), head = begin(digits()[0], ((20, 300),), 80, "uniform", False, 0.25, np.random.default_rng(0))
    assert layer.U is not None and head is not None
    for part in (layer.U, layer.weight, head.weight):
        assert np.abs(part).max() == pytest.approx(0.25 * np.sqrt(6 / sum(part.shape)), rel=0.01)


def test_a_callable_criterion_is_asked() -> None:
    X, y = digits()

    def smoothed(scores: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1)

    one, other = network().fit(X, y), network(criterion=smoothed).fit(X, y)
    assert other.history_["fun"][-1] > one.history_["fun"][-1]
    assert not np.array_equal(one.layers_[0].weight, other.layers_[0].weight)


@pytest.mark.parametrize("orthogonality", ["polar", "penalty"])
@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (lambda scores, labels: 0.5, "criterion returned float: return one number as a tensor"),
        (lambda scores, labels: None, "criterion returned NoneType"),
        (lambda scores, labels: scores.sum(dim=0), "criterion returned torch.float32 (10,): return one number"),
        (lambda scores, labels: scores.sum()[None], "criterion returned torch.float32 (1,)"),
        (lambda scores, labels: labels.sum(), "criterion returned torch.int64 ()"),
        (lambda scores, labels: scores.detach().sum(), "criterion returned a tensor without a gradient"),
    ],
)
def test_a_criterion_that_returns_no_loss_raises_an_error(criterion: Any, words: str, orthogonality: str) -> None:
    X, y = digits()
    with pytest.raises(ValueError) as caught:
        network(criterion=criterion, orthogonality=orthogonality).fit(X, y)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_seeds_repeat_a_network_and_dropout_changes_it() -> None:
    X, y = digits()
    one, two = (network(dropout=(0.2, 0.3)).fit(X, y) for _ in range(2))
    for a, b in zip(one.layers_[0].parts, two.layers_[0].parts, strict=True):
        np.testing.assert_array_equal(a, b)
    for other in (network(dropout=(0.2, 0.3), random_state=1), network()):
        assert not np.array_equal(other.fit(X, y).layers_[0].weight, one.layers_[0].weight)
    before = torch.random.get_rng_state()
    network(dropout=(0.2, 0.3)).fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), before)  # no global state is touched


def test_resumed_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    X, y = digits()
    settings = {"layers": [(10, 30), 12], "dropout": (0.1, 0.2), "momentum": (0.5, 0.9), "momentum_epochs": 6}
    whole = network(max_iter=6, **settings).fit(X, y)
    store = ms.storage.Checkpoint(tmp_path, every_seconds=0)
    network(max_iter=2, **settings).fit(X, y, checkpoint=store)
    rest = network(max_iter=6, **settings).fit(X, y, checkpoint=store, resume=True)
    assert rest.n_iter_ == 6
    for a, b in zip((*rest.layers_, rest.head_), (*whole.layers_, whole.head_), strict=True):
        for one, other in zip(a.parts, b.parts, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="other data or settings"):
        network(max_iter=6, **settings).fit(X[:-1], y[:-1], checkpoint=store, resume=True)
    with pytest.raises(ValueError, match="other data or settings"):
        network(max_iter=6, **settings | {"weight_decay": 0.0}).fit(X, y, checkpoint=store, resume=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
@pytest.mark.parametrize("orthogonality", ["polar", "qr", "penalty", None])
def test_a_gpu_trains_the_network_of_the_cpu(orthogonality: str | None) -> None:
    X, y = digits()
    settings = {"layers": [(10, 30), 12], "orthogonality": orthogonality, "batch_size": 100, "init": "uniform"}
    states = (torch.random.get_rng_state(), torch.cuda.get_rng_state())
    there = network(device="cuda", **settings).fit(X, y, validation=(X[:100], y[:100]))
    assert all(map(torch.equal, states, (torch.random.get_rng_state(), torch.cuda.get_rng_state())))
    here = network(**settings).fit(X, y, validation=(X[:100], y[:100]))
    for a, b in zip((*there.layers_, there.head_), (*here.layers_, here.head_), strict=True):
        for one, other in zip(a.parts, b.parts, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(there.history_["fun"], here.history_["fun"], rtol=1e-4)
    np.testing.assert_array_equal(there.module()(torch.tensor(X)).argmax(1), there.predict(X))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
def test_training_resumes_on_a_gpu_and_continues_on_the_cpu(tmp_path: Path) -> None:
    X, y = digits()
    settings = {"dropout": (0.1, 0.2), "momentum_epochs": 6, "device": "cuda"}
    whole = network(max_iter=6, **settings).fit(X, y)
    store = ms.storage.Checkpoint(tmp_path / "there", every_seconds=0)
    network(max_iter=2, **settings).fit(X, y, checkpoint=store)
    shutil.copytree(tmp_path / "there", tmp_path / "here")
    rest = network(max_iter=6, **settings).fit(X, y, checkpoint=store, resume=True)
    moved = network(max_iter=6, **settings | {"device": "cpu"}).fit(X, y, checkpoint=tmp_path / "here", resume=True)
    assert moved.n_iter_ == 6
    for one, other in zip(rest.layers_[0].parts, whole.layers_[0].parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
def test_windows_are_gathered_on_a_gpu() -> None:
    rng = np.random.default_rng(0)
    sequences = [rng.standard_normal((40, 3)).astype(np.float32) for _ in range(5)]
    y = rng.integers(0, 3, 200)
    there, here = (network(layers=[(6, 20)], device=d).fit(Windows(sequences, width=5), y) for d in ("cuda", "cpu"))
    np.testing.assert_allclose(there.layers_[0].weight, here.layers_[0].weight, atol=1e-4)


def test_merged_layers_and_the_module_are_the_same_function() -> None:
    X, y = digits()
    model = network(layers=[(10, 30), (8, 20), 12]).fit(X, y)
    rows: np.ndarray = X
    *hidden, head = model.merged()
    for layer in hidden:
        assert layer.U is None
        rows = np.maximum(rows @ layer.weight.T + layer.bias, 0)
    scores = rows @ head.weight.T + head.bias
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-5)
    module = model.module()
    np.testing.assert_allclose(module(torch.tensor(X)).detach().numpy(), scores, atol=1e-5)
    assert model.n_parameters_ == sum(p.numel() for p in module.parameters())
    assert model.n_merged_parameters_ == sum(layer.weight.size + layer.bias.size for layer in model.merged())


def test_principal_starts_are_those_of_numpy() -> None:
    X, _ = digits()
    (layer,), _ = begin(X, checked_sizes([(7, 30)], 64), 10, "pca", True, 0.5, np.random.default_rng(0))
    assert layer.U is not None
    V = np.linalg.svd(X.astype(np.float64), full_matrices=False)[2][:7]
    np.testing.assert_allclose(np.abs(layer.U @ V.T), np.eye(7), atol=1e-5)


def test_a_network_survives_a_file(tmp_path: Path) -> None:
    X, y = digits()
    model = network(learning_rate=Exponential(0.1, 0.9)).fit(X, y.astype(str))
    ms.storage.save_model(model, tmp_path)
    loaded = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predict(X)[0] in set("0123456789")
    assert json.loads((tmp_path / "model.json").read_text())["estimator"] == "hope-network"


def test_a_lost_network_ends_with_the_epoch_before_and_says_so() -> None:
    X, y = digits()
    with pytest.warns(UserWarning, match="lower learning_rate"):
        model = network(learning_rate=1e12, orthogonality=None, momentum=0.99).fit(X, y)
    assert model.status_ is ms.Status.NON_FINITE
    assert all(np.isfinite(part).all() for layer in model.layers_ for part in layer.parts)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"layers": [(65, 30)]}, "M=65 exceeds the 64 inputs"),
    ({"layers": [(10, 30), (31, 5)]}, "layers[1]: M=31 exceeds the 30 inputs"),
    ({"layers": []}, "such as [(100, 1000)]"),
    ({"layers": 100}, "layers=100"),
    ({"layers": [(10, 0)]}, "layers[0]=(10, 0)"),
    ({"layers": [(1, 2, 3)]}, "layers[0]=(1, 2, 3)"),
    ({"orthogonality": "cayley"}, "'polar', 'qr', 'penalty'"),
    ({"criterion": "eta"}, "10 classes"),
    ({"criterion": "hinge"}, "criterion='hinge'"),
    ({"dropout": 0.2}, "dropout=0.2"),
    ({"dropout": (0.2, 1.0)}, "dropout=1.0"),
    ({"momentum": (0.5, 1.5)}, "momentum=1.5"),
    ({"learning_rate": 0}, "learning_rate=0"),
    ({"batch_size": 0}, "batch_size=0"),
    ({"max_iter": 0}, "max_iter=0"),
    ({"init": "cca"}, "init='cca'"),
    ({"weight_decay": -1.0}, "weight_decay=-1.0"),
    ({"random_state": -1}, "random_state=-1"),
    ({"device": "gpu"}, "device='gpu'"),
    ({"device": 0}, "such as 'cuda'"),
    ({"device": "cuda:99"}, "torch cannot use device='cuda:99'"),
    ({"device": "meta"}, "pass 'cpu' or another device"),
]


@parametrize(("settings", "words"), BAD, fast=6)
def test_bad_settings_raise_an_error(settings: dict[str, Any], words: str) -> None:
    X, y = digits()
    with pytest.raises(ValueError) as caught:
        network(**settings).fit(X, y)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_bad_data_raise_an_error() -> None:
    X, y = digits()
    holes = X.copy()
    holes[3, 5] = np.nan
    wrong = [
        (X, None, "requires y"),
        (X, np.where(np.arange(600) < 5, y, np.nan), r"row 5 of y has no label \(nan\): remove rows without labels"),
        (X, [None if k == 8 else str(k) for k in y], rf"row {np.flatnonzero(y == 8)[0]} of y has no label \(None\)"),
        (X, [np.nan if k == 8 else str(k) for k in y], rf"row {np.flatnonzero(y == 8)[0]} of y has no label \(nan\)"),
        (X, [int(k) if k else "zero" for k in y], "y mixes numbers and strings"),
        (X, np.zeros(600), "one class"),
        (holes, y, "NaN"),
        (X[:0], y[:0], "0 sample"),
        (X, y[:-1], "inconsistent"),
        (X, y + 0.5, "Unknown label type"),
    ]
    for rows, labels, words in wrong:
        with pytest.raises(ValueError, match=words):
            network().fit(rows, labels)
    with pytest.raises(ValueError, match="shapes"):
        network().fine_tune(X, y, [Dense(None, np.ones((30, 64)), np.zeros(30))])
    with pytest.raises(ValueError, match="features"):
        network().fit(X, y).predict(X[:, 1:])


@pytest.mark.parametrize(
    ("validation", "words"),
    [
        (lambda X, y: X, "validation is of type ndarray: pass a tuple (X, y)"),
        (lambda X, y: 3, "validation is of type int: pass a tuple (X, y)"),
        (lambda X, y: (X, y, y), "validation is of type tuple of 3 parts: pass a tuple (X, y)"),
        (lambda X, y: (X, y.astype(str)), "validation's y has strings, but y has numbers: pass labels of one type"),
        (lambda X, y: (X, y.astype(str).astype(object)), "validation's y has strings, but y has numbers"),
        (lambda X, y: (X, np.where(np.arange(600) == 2, np.nan, y)), "row 2 of validation's y has no label"),
        (lambda X, y: (X, None), "row 0 of validation's y has no label (None)"),
        (lambda X, y: (X, y[:-1]), "y has shape (599,) for 600 rows"),
    ],
)
def test_bad_validation_rows_raise_an_error(validation: Any, words: str) -> None:
    X, y = digits()
    with pytest.raises(ValueError) as caught:
        network().fit(X, y, validation=validation(X, y))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_validation_rows_of_a_class_that_is_not_learned_are_errors() -> None:
    X, y = digits()
    some = y != 9
    for kind in (int, float, str, object):
        labels = y.astype(str).astype(object) if kind is object else y.astype(kind)
        model = network(max_iter=1).fit(X[some], labels[some], validation=(X, labels))
        error = 100 * np.mean(model.predict(X) != labels)
        assert model.history_["validation_error"][-1] == pytest.approx(error) and error < 90


def test_inputs_too_large_for_single_precision_raise_an_error() -> None:
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="entries as large as 2e\\+31: scale X"):
        HOPENetworkClassifier([(4, 8)], max_iter=1).fit(X[:100] * 1e30, y[:100])
