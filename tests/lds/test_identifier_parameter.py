"""Every estimator of sequences takes an identifier: its settings and copies of it."""

import inspect

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import manifoldseq as ms
from manifoldseq_lds import (
    BagOfSystems,
    GrassmannKernel,
    LDSClassifier,
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSKernelMatrix,
    LDSKMeans,
    LDSNeighbors,
    LDSSparseCoder,
    LDSSpectralClustering,
    PyramidPooling,
    choose_clustering,
)

MADE = {
    LDSKMeans: {"n_clusters": 2, "n_init": 1, "max_iter": 3, "random_state": 0},
    LDSSpectralClustering: {"n_clusters": 2, "random_state": 0},
    LDSNeighbors: {"n_neighbors": 2},
    LDSKernelMatrix: {},
    LDSClassifier: {},
    LDSSparseCoder: {"n_atoms": 3, "random_state": 0},
    LDSDictionaryLearning: {"n_atoms": 3, "max_iter": 2, "random_state": 0},
    BagOfSystems: {"n_clusters": 2, "window": 15, "max_iter": 2, "random_state": 0},
    PyramidPooling: {"n_atoms": 2, "window": 15, "max_iter": 2, "random_state": 0},
}
MODELS = {"lds.mean": (6, 2), "lds.dictionary": (3, 8)}
"""The last factor of a point: U, and the codes of eight sequences."""
CURE = r"sequence 1 has NaN at t={}, channel 1: remove or fill it, or let LDSIdentifier\(missing='smooth'\) fill it"
SETTINGS = {"center": False, "scale": False, "delay": 2, "stabilizer": "clip"}
every = parametrize("cls", MADE, fast=4, ids=lambda cls: cls.__name__)
uncut = parametrize("cls", list(MADE)[:7], fast=3, ids=lambda cls: cls.__name__)
"""Those that do not cut sequences into blocks first."""


def sequences(N=8):
    """Return sines of two frequencies around means that tell nothing."""
    rng, t = np.random.default_rng(0), np.arange(30)[:, None]
    return [np.cos(t * (0.3, 0.9)[i % 2] + rng.uniform(0, 6) + np.arange(3)) + rng.standard_normal(3) for i in range(N)]


def fitted(model, X=None):
    X = sequences() if X is None else X
    return model.fit(X, np.arange(len(X)) % 2) if isinstance(model, LDSClassifier) else model.fit(X)


def said(model, X=None):
    """Return everything that a model says about sequences."""
    X = sequences() if X is None else X
    if isinstance(model, LDSSpectralClustering):
        return [model.labels_, model.affinity_matrix_]
    methods = ("predict", "transform", "decision_function", "score_samples")
    return [np.asarray(getattr(model, name)(X)) for name in methods if hasattr(model, name)]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(said(a), said(b), strict=True))


@every
def test_settings_of_the_identifier_are_used_and_the_identifier_stays(cls):
    identifier = LDSIdentifier(2, **SETTINGS)
    model = fitted(cls(**MADE[cls], identifier=identifier))
    assert model.identifier is identifier and repr(identifier) == repr(LDSIdentifier(2, **SETTINGS))
    assert not [name for name in vars(identifier) if name.endswith("_")]
    assert model.scale_.tolist() == [1, 1, 1] and model.n_features_in_ == 3
    if hasattr(model, "systems_"):
        assert (model.systems_.n_outputs, model.systems_.n_states) == (6, 2)  # three channels, two steps
    else:
        assert not same(model, fitted(cls(**MADE[cls], n_states=2)))
    by_name = cls(**MADE[cls]).set_params(n_states=2, **{f"identifier__{name}": v for name, v in SETTINGS.items()})
    assert same(model, fitted(by_name))


@uncut
def test_identified_systems_are_taken_as_they_are(cls):
    X = sequences()
    systems = LDSIdentifier(2, **SETTINGS).fit_transform(X)
    of_systems = fitted(cls(**MADE[cls], identifier=LDSIdentifier(7, delay=9)), systems)
    expected = fitted(cls(**MADE[cls], identifier=LDSIdentifier(2, **SETTINGS)))
    for a, b in zip(said(of_systems, systems), said(expected, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@every
def test_the_number_of_states_has_one_place(cls):
    short = fitted(cls(**MADE[cls], n_states=2))
    assert same(short, fitted(cls(**MADE[cls], identifier=LDSIdentifier(2))))
    assert same(short, fitted(cls(**MADE[cls], n_states=2, identifier=LDSIdentifier(2))))
    assert same(short, fitted(cls(**MADE[cls], n_states=2, identifier=LDSIdentifier("auto"))))
    with pytest.raises(ValueError) as caught:
        fitted(cls(**MADE[cls], n_states=2, identifier=LDSIdentifier(3)))
    assert str(caught.value) == "n_states=2, but the identifier has n_states=3: set only one of them"
    with pytest.raises(ValueError, match=r"identifier=3 is not valid: pass LDSIdentifier\(…\), or None"):
        fitted(cls(**MADE[cls], identifier=3))


@every
def test_as_in_scikit_learn(cls):
    identifier = LDSIdentifier(2, delay=2)
    model = cls(**MADE[cls], identifier=identifier, kernel="grassmann")
    copy = clone(model)
    assert copy.identifier is not identifier and repr(copy) == repr(model)
    assert model.get_params()["identifier__delay"] == 2 and "identifier__delay" not in cls().get_params()
    names = set(inspect.signature(cls).parameters)
    assert names == set(model.get_params(deep=False)) and {"n_states", "identifier", "kernel"} <= names
    assert not names & {"center", "scale", "delay", "stabilizer", "missing"}
    model.set_params(identifier__delay=4, kernel__n_steps=2)
    assert (model.identifier.delay, identifier.delay, model.kernel) == (4, 2, GrassmannKernel(2))


@every
def test_models_with_objects_are_stored(cls, tmp_path):
    for i, kernel in enumerate(
        (GrassmannKernel(2), ms.kernels.RBFKernel(ms.kernels.SumKernel(("martin", "grassmann"))))
    ):
        model = fitted(cls(**MADE[cls], identifier=LDSIdentifier(2, **SETTINGS), kernel=kernel))
        ms.storage.save_model(model, tmp_path / str(i))
        again = ms.storage.load_model(tmp_path / str(i))
        assert repr(again) == repr(model) and again.kernel == kernel and same(again, model)


@uncut
def test_missing_values_are_smoothed_if_the_identifier_says_so(cls):
    X = sequences()
    X[1][4, 1] = X[6][20, 0] = np.nan
    with pytest.raises(ValueError, match=CURE.format(4)):
        fitted(cls(**MADE[cls], n_states=2), X)
    whole = fitted(cls(**MADE[cls], n_states=2), sequences())
    if cls is not LDSSpectralClustering:  # which has nothing for new sequences
        with pytest.raises(ValueError, match=CURE.format(4)):
            said(whole, X)
    model = fitted(cls(**MADE[cls], identifier=LDSIdentifier(2, missing="smooth")), X)
    systems = LDSIdentifier(2, missing="smooth").fit_transform(X)
    expected = fitted(cls(**MADE[cls]), systems)
    for a, b in zip(said(model, X), said(expected, systems), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@parametrize("cls", list(MADE)[7:], fast=1, ids=lambda cls: cls.__name__)
def test_missing_values_are_smoothed_before_sequences_are_cut(cls, tmp_path):
    X, identifier = sequences(), LDSIdentifier(2, missing="smooth")
    X[1][2:17, 1] = X[6][20, 0] = np.nan  # of sequence 1 a block has no value in channel 1
    with pytest.raises(ValueError, match=CURE.format(2)):
        fitted(cls(**MADE[cls], n_states=2), X)
    model = fitted(cls(**MADE[cls], identifier=identifier), X)
    filled = identifier.fit(X).interpolate(X)
    assert all((np.isnan(x) | (x == y)).all() for x, y in zip(X, filled, strict=True))
    expected = fitted(cls(**MADE[cls], n_states=2), filled)
    ms.storage.save_model(model, tmp_path)
    for one in (model, ms.storage.load_model(tmp_path)):
        np.testing.assert_allclose(one.transform(X), expected.transform(filled), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(one.transform(X[1:2]), expected.transform(filled[1:2]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_models_take_an_identifier(name):
    build, X = ms.get_model(name).problem, sequences()
    problem = build(X, identifier=LDSIdentifier(2, **SETTINGS, bound=0.9), bound=0.9)
    assert problem.manifold.shape[-1] == MODELS[name]
    of_systems = build(LDSIdentifier(2, **SETTINGS, bound=0.9).fit_transform(X), bound=0.9)
    x = problem.manifold.random_point(np.random.default_rng(0))
    assert problem.objective.value(x) == of_systems.objective.value(x)
    with pytest.raises(ValueError, match="n_states=3, but the identifier has n_states=2: set only one of them"):
        build(X, n_states=3, identifier=LDSIdentifier(2))


def test_settings_of_objects_are_searched_over():
    X, y = sequences(16), np.arange(16) % 2
    grid = {"identifier__center": [True, False], "kernel": ["grassmann"], "kernel__n_steps": [1, 3]}
    search = GridSearchCV(LDSClassifier(n_states=2), grid, cv=4, error_score="raise").fit(X, y)
    scores = dict(zip(map(str, search.cv_results_["params"]), search.cv_results_["mean_test_score"], strict=True))
    assert len(scores) == 4 and search.best_params_["kernel__n_steps"] == 3  # one step shows no frequency
    assert search.best_estimator_.kernel == GrassmannKernel(3)


def test_identifiers_are_chosen_by_forecasts():
    X = [x + 5 * np.random.default_rng(i).standard_normal(3) for i, x in enumerate(sequences(12))]
    grid = {"identifier__center": [True, False], "identifier__n_states": [2]}
    choice = choose_clustering(LDSKMeans(2, n_init=1), X, grid, n_splits=2, random_state=0)
    step = choice.steps[0]
    errors = dict(zip([one["identifier__center"] for one in step.params], step.figure, strict=True))
    assert errors[True] < errors[False] and choice.best_params["identifier__center"] is True
