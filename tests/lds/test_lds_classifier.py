"""Classifiers of systems: against their definitions, inside scikit-learn, and their errors."""

from importlib.util import find_spec

import numpy as np
import pytest
from helpers import parametrize
from lds.clusterings import generated
from lds.sparse_problems import clustered, oscillations
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import manifoldseq as ms
from manifoldseq_lds import LDSClassifier, LDSDictionaryLearning, LDSIdentifier, LDSSparseCoder

METHODS = ("svm", "nearest", "residual", "ridge")
needs_aeon = pytest.mark.skipif(find_spec("aeon") is None, reason="aeon's data files are not installed")


@pytest.fixture(scope="module")
def data():
    systems = clustered(36, noise=0.5)
    return systems[:24], systems[24:], np.arange(24) % 3, np.arange(24, 36) % 3


@pytest.mark.parametrize("method", METHODS)
def test_classes_are_found_and_named(method):
    X, y = oscillations(24), np.array(["slow", "middle", "fast"])[np.arange(24) % 3]
    model = LDSClassifier(method, n_states=2).fit(X[:18], y[:18])
    assert model.classes_.tolist() == ["fast", "middle", "slow"]
    assert model.score(X[18:], y[18:]) == 1.0
    assert model.decision_function(X).shape == (24, 3)


def test_nearest_is_that_of_sklearn(data):
    train, test, y, _ = data
    kernel = ms.get_kernel("projection")
    values = kernel.cross(kernel.pack(test), kernel.pack(train))
    peer = KNeighborsClassifier(1, metric="precomputed").fit(np.zeros((24, 24)), y)
    expected = peer.predict(np.sqrt(np.maximum(4 - 2 * values, 0)))
    assert LDSClassifier("nearest").fit(train, y).predict(test).tolist() == expected.tolist()


def test_svm_is_that_of_sklearn(data):
    train, test, y, _ = data
    kernel = ms.get_kernel("projection")
    P, Q = kernel.pack(train), kernel.pack(test)
    gram, cross = kernel.cross(P, P) / 2, kernel.cross(Q, P) / 2
    expected = [SVC(kernel="precomputed", C=3.0).fit(gram, y == c).decision_function(cross) for c in range(3)]
    found = LDSClassifier(C=3.0).fit(train, y).decision_function(test)
    np.testing.assert_allclose(found.T, expected, atol=1e-6)


def test_residual_and_ridge_are_their_definitions(data):
    train, test, y, _ = data
    coder = LDSSparseCoder("all").fit(train)
    Z, kernel = coder.transform(test), ms.get_kernel("projection")
    P, Q = kernel.pack(train), kernel.pack(test)
    gram, cross = kernel.cross(P, P), kernel.cross(Q, P)
    for i, scores in enumerate(LDSClassifier("residual").fit(train, y).decision_function(test)):
        for c in range(3):
            z = np.where(y == c, Z[i], 0.0)
            assert scores[c] == pytest.approx(-(z @ gram @ z - 2 * z @ cross[i]), abs=1e-8)
    peer = RidgeClassifier(0.1, fit_intercept=False).fit(coder.transform(train), y)
    assert LDSClassifier("ridge").fit(train, y).predict(test).shape == (12,)
    targets = np.eye(3)[y]
    codes = coder.transform(train)
    weights = np.linalg.solve(codes.T @ codes + 0.1 * np.eye(24), codes.T @ targets)
    np.testing.assert_allclose(LDSClassifier("ridge").fit(train, y).decision_function(test), Z @ weights, atol=1e-7)
    assert peer.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("method", METHODS)
def test_two_classes_have_one_score(data, method):
    train, test, y, _ = data
    model = LDSClassifier(method).fit(train, y == 1)
    scores = model.decision_function(test)
    assert scores.shape == (12,)
    assert (model.predict(test) == (scores > 0)).all()


def test_conventions():
    ms.testing.check_sequence_estimator(LDSClassifier(n_states=2)).raise_for_failure()


def test_inside_grid_search_and_pipelines():
    X, y = oscillations(24), np.arange(24) % 3
    search = GridSearchCV(LDSClassifier(), {"n_states": [1, 2], "C": [1.0, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ == 1.0
    coded = make_pipeline(LDSDictionaryLearning(4, n_states=2, max_iter=3, random_state=0), LinearSVC())
    assert cross_val_score(coded, X, y, cv=2).mean() == 1.0


@pytest.mark.parametrize(
    ("params", "labels", "sentence"),
    [
        ({}, np.zeros(24), "only the class 0.0:"),
        ({}, np.array(["a"] * 12 + [1] * 12, dtype=object), "y mixes classes"),
        ({"method": "residual", "alpha": 9.0}, np.arange(24) % 2, "every code is zero for alpha="),
        ({"method": "ridge", "alpha": 9.0}, np.arange(24) % 2, "every code is zero for alpha="),
        ({}, np.zeros(3), "24 sequences"),
        ({}, None, "y is None"),
        ({"method": "forest"}, np.arange(24) % 2, "method='forest'"),
        ({"C": -1.0}, np.arange(24) % 2, "C=-1.0"),
    ],
)
def test_errors(data, params, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        LDSClassifier(**params).fit(data[0], labels)


@pytest.mark.parametrize("method", ["svm", "ridge", "residual"])
def test_constant_sequences_without_a_kernel_value_raise_an_error(method):
    model = LDSClassifier(method, n_states=2, kernel="binet-cauchy")
    with pytest.raises(ValueError, match="the kernel is 0 between all"):
        model.fit([np.ones((20, 4))] * 4, [0, 0, 1, 1])


def test_a_machine_that_was_not_learned_is_not_asked(data):
    train, test, y, _ = data
    with pytest.raises(NotFittedError):
        LDSClassifier("nearest").fit(train, y).set_params(method="svm").predict(test)


@needs_aeon
@pytest.mark.slow
def test_recorded_speech():
    """Codes and a linear machine, and the kernel machine, on the published test part of JapaneseVowels."""
    found = ms.hooks.get_dataset("japanese-vowels").loader()
    X, y = found.sequences, found.labels
    assert (
        LDSClassifier(identifier=LDSIdentifier(3, center=False)).fit(X[:270], y[:270]).score(X[270:], y[270:]) >= 0.97
    )
    learned = LDSDictionaryLearning(64, identifier=LDSIdentifier(2, center=False), random_state=0, max_iter=10)
    machine = make_pipeline(learned, LinearSVC()).fit(X[:270], y[:270])
    assert machine.score(X[270:], y[270:]) >= 0.95


@parametrize("method", ["svm", "nearest", "residual", "ridge"], fast=1)
def test_the_temperature_is_the_best_for_held_out_systems(method):
    """Folds fitted by themselves; the loss of every temperature of a grid, with Platt's targets, by a loop."""
    systems, y = generated(N=30, m=4, noise=0.6), np.arange(30) % 3
    y[::7] = (y[::7] + 1) % 3
    model = LDSClassifier(method).fit(systems, y)
    scores, sizes = np.empty((30, 3)), np.bincount(y)
    for seen, left in StratifiedKFold(min(5, sizes.min()), shuffle=True, random_state=0).split(y, y):
        scores[left] = LDSClassifier(method).fit(systems[seen], y[seen]).decision_function(systems[left])

    def loss(temperature):
        total = 0.0
        for row, c in zip(scores, y, strict=True):
            p = np.exp(row / temperature - (row / temperature).max())
            targets = np.array([(sizes[c] + 1 if k == c else 1) / (sizes[c] + 3) for k in range(3)])
            total -= targets @ np.log(p / p.sum())
        return total

    grid = model.temperature_ * np.exp(np.linspace(-3, 3, 61))
    assert np.argmin([loss(t) for t in grid]) == 30
    proba = model.predict_proba(systems)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(systems)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(systems)), proba)


def test_probabilities_are_as_often_right_as_they_say():
    systems = generated(N=460, m=4, n=2, noise=0.6)
    y = np.arange(460) % 3
    model = LDSClassifier().fit(systems[:60], y[:60])
    proba = model.predict_proba(systems[60:])
    right = model.predict(systems[60:]) == y[60:]
    assert 0.4 < right.mean() < 0.9
    assert proba.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.08)
    sure = proba.max(axis=1) > np.median(proba.max(axis=1))
    assert proba.max(axis=1)[sure].mean() == pytest.approx(right[sure].mean(), abs=0.1)
    assert right[sure].mean() > right[~sure].mean() + 0.1


def test_a_class_of_one_system_has_no_probabilities():
    systems = generated(N=9)
    model = LDSClassifier().fit(systems, ["b", *"aaaaaaaa"])
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    for ask in (lambda: model.predict_proba(systems), lambda: model.predict_log_proba(systems)):
        with pytest.raises(
            AttributeError, match=r"^probabilities are not available, because class 'b' has only one sequence in fit"
        ):
            ask()
    with pytest.raises(AttributeError, match=r"^this LDSClassifier is not fitted yet: call fit"):
        LDSClassifier().predict_proba(systems)
    two = LDSClassifier().fit(systems, np.arange(9) % 2)
    assert two.predict_proba(systems).shape == (9, 2)
