"""Data as users have them: named channels, constant and very short sequences, missing values in choices."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import parametrize
from lds.clusterings import oscillations
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_lds import (
    LDSClassifier,
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSKernelMatrix,
    LDSKMeans,
    LDSNeighbors,
    LDSSparseCoder,
    LDSSpectralClustering,
    choose_clustering,
)

NAMES = ["x", "y", "z", "w"]
ESTIMATORS = [
    LDSKMeans(2, n_states=2, random_state=0),
    LDSSpectralClustering(2, n_states=2, random_state=0),
    LDSNeighbors(2, n_states=2),
    LDSClassifier(n_states=2),
    LDSKernelMatrix(n_states=2),
    LDSDictionaryLearning(2, n_states=2, max_iter=1, random_state=0),
    LDSSparseCoder(n_atoms=2, n_states=2, random_state=0),
    LDSIdentifier(2),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_names_of_channels_are_kept_and_compared(estimator, tmp_path):
    X, y = oscillations(6), np.arange(6) % 2
    frames = [pd.DataFrame(x, columns=NAMES) for x in X]
    model = estimator.fit(frames, y)
    assert model.feature_names_in_.tolist() == NAMES
    ms.storage.save_model(model, tmp_path)
    assert ms.load(tmp_path).feature_names_in_.tolist() == NAMES
    ask = model.predict if hasattr(model, "predict") else model.transform
    expected = np.asarray(ask(frames) if not isinstance(model, LDSIdentifier) else ask(frames).A)
    found = ask(X)  # arrays have no names
    np.testing.assert_array_equal(np.asarray(found.A if isinstance(model, LDSIdentifier) else found), expected)
    with pytest.raises(ValueError, match="channel 0 of X is 'w' but it was 'x' in fit: pass the channels of fit"):
        ask([frame[NAMES[::-1]] for frame in frames])
    with pytest.raises(ValueError, match="channel 1 is 'w' in sequence 1 but 'y' in sequence 0: pass the same columns"):
        estimator.fit([frames[0], frames[1][["x", "w", "z", "y"]], *frames[2:]], y)
    assert not hasattr(estimator.fit(X, y), "feature_names_in_")


# of the dictionary, and of k-means, where rounding does not happen to make the equal systems different
@pytest.mark.filterwarnings("ignore:X has 1 different system:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:2 clusters have 1 different centres:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [LDSKMeans(2, random_state=0), LDSSpectralClustering(2, random_state=0)])
def test_sequences_that_do_not_vary_are_compared_by_their_levels(estimator):
    rng = np.random.default_rng(0)
    X = [np.ones((30, 2)) * (5 * (i % 2) + rng.uniform(0, 1)) + [0.1, 1e6] for i in range(12)]
    with pytest.warns(UserWarning, match="no sequence varies in time, so dynamical systems do not describe"):
        model = estimator.fit(X)
    assert adjusted_rand_score(model.labels_, np.arange(12) % 2) == 1.0
    assert model.choice_.best_params["moments"] == "level" and not hasattr(model, "stability_")
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    with pytest.warns(UserWarning, match="no sequence varies in time.*: compare the means of the channels instead"):
        LDSDictionaryLearning(2, max_iter=1, random_state=0).fit(X)


def test_sequences_too_short_for_a_choice_are_told():
    with pytest.warns(
        UserWarning, match=r"uses the defaults of LDSIdentifier.*\(the shortest has 3 steps\): set n_states"
    ):
        LDSKMeans(2, random_state=0).fit([x[:3] for x in oscillations(6)])


@parametrize("factor", [1e-8, 1e8], fast=1)
def test_scales_and_kinds_change_nothing_and_few_sequences_are_told(factor):
    X = oscillations(12)
    whole = [np.round(100 * x) for x in X]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = LDSKMeans(3, random_state=0).fit_predict([factor * x for x in X])
        assert adjusted_rand_score(labels, np.arange(12) % 3) == 1.0
        for kind in (np.int64, np.float32):
            found = LDSKMeans(3, random_state=0).fit_predict([x.astype(kind) for x in whole])
            assert adjusted_rand_score(found, np.arange(12) % 3) == 1.0
    with pytest.warns(
        UserWarning, match="2 sequences are too few to compare clusterings of halves \\(at least 8 are needed"
    ):
        assert sorted(LDSKMeans(2, random_state=0).fit_predict(X[:2])) == [0, 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:n_clusters=3 is the largest of the compared numbers")
def test_missing_values_take_part_in_every_choice():
    rng, X = np.random.default_rng(0), oscillations(24)
    X = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in X]
    estimator = LDSKMeans(3, identifier=LDSIdentifier(missing="smooth"), random_state=0)
    for grid in ({"n_clusters": [2, 3]}, {"identifier__delay": [1, 2]}):
        choice = choose_clustering(estimator, X, grid, n_splits=2, random_state=0)
        assert np.isfinite(choice.steps[-1].figure).all() and choice.steps[-1].heading == "agreement"
    choice = choose_clustering(estimator, X, {"n_states": [1, 2]}, n_splits=2, random_state=0)
    assert choice.best_params == {"n_states": 2}
    with pytest.raises(ValueError, match="sequence 0 has NaN at t="):
        choose_clustering(LDSKMeans(3), X, {"n_states": [1, 2]})
