"""Default settings: they fit sequences of one to four channels, of unequal lengths and short ones too."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq_lds import (
    BagOfSystems,
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
    plot_reconstruction,
)

ESTIMATORS = {
    "identifier": LDSIdentifier(),
    "k-means": LDSKMeans(2, random_state=0),
    "spectral": LDSSpectralClustering(2, random_state=0),
    "neighbours": LDSNeighbors(),
    "kernel matrix": LDSKernelMatrix(),
    "sparse coder": LDSSparseCoder(random_state=0),
    "dictionary": LDSDictionaryLearning(max_iter=3, random_state=0),
    "svm": LDSClassifier(),
    "nearest": LDSClassifier("nearest"),
    "residual": LDSClassifier("residual"),
    "bag of systems": BagOfSystems(2, random_state=0),
    "pyramid pooling": PyramidPooling(4, max_iter=3, random_state=0),
}


def waves(channels, lengths=(40, 25, 30), N=16):
    """Two kinds of waves in noise, of alternating lengths."""
    rng, phase = np.random.default_rng(0), np.arange(channels)
    kinds = [(0.2, 0.9)[i % 2] for i in range(N)]
    steps = [np.arange(lengths[i % len(lengths)])[:, None] for i in range(N)]
    return [
        np.cos(w * t + rng.uniform(0, 6) + phase) + 0.1 * rng.standard_normal((len(t), channels))
        for w, t in zip(kinds, steps, strict=True)
    ]


def used(estimator, X):
    """Fit an estimator, and call what it has with the same sequences."""
    estimator.fit(X, [i % 2 for i in range(len(X))])
    for method in ("transform", "predict", "decision_function", "score_samples"):
        if hasattr(estimator, method):
            getattr(estimator, method)(X)
    if isinstance(estimator, LDSIdentifier):
        assert np.isfinite(estimator.forecast(X, 3)).all()


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("lengths", [(40, 25, 30), (9, 12), (4,), (3,), (2,)], ids=str)
@pytest.mark.filterwarnings("ignore:n_states=.auto. uses the defaults of LDSIdentifier")
@pytest.mark.filterwarnings("ignore:.*different centres", "ignore:.*different systems? for n_(clusters|atoms)")
def test_default_estimators_fit_few_channels(name, channels, lengths):
    used(ESTIMATORS[name].__class__(**ESTIMATORS[name].get_params()), waves(channels, lengths))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
def test_default_sizes_are_what_channels_and_lengths_allow(channels):
    """Five states, or fewer; two steps in one output only where one channel would leave one state."""
    for steps in (2, 3, 4, 5, 6, 7, 30):
        identifier = LDSIdentifier()
        systems = identifier.fit_transform(waves(channels, (steps,)))
        delay = 2 if channels == 1 and steps >= 4 else 1
        n = min(5, channels * delay, steps - delay)
        assert (
            (identifier.n_states_, identifier.delay_) == (n, delay) == (systems.n_states, systems.n_outputs // channels)
        )


@pytest.mark.parametrize("model", ["lds.mean", "lds.dictionary"])
def test_models_take_one_channel(model):
    problem = ms.get_model(model).problem(waves(1))
    assert np.isfinite(ms.minimize(problem, stop=ms.MaxIterations(2)).fun)


def test_one_channel_tells_frequencies_apart():
    """What one state, without an oscillation, could not."""
    labels = LDSKMeans(2, random_state=0).fit_predict(waves(1))
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1 and labels[0] != labels[1]


def test_a_short_sequence_that_costs_states_is_named():
    X = [*waves(4), waves(4, (3,))[0]]
    with pytest.warns(UserWarning, match="sequence 16 has 3 time steps, so all systems have n_states=2 instead of 4"):
        assert LDSIdentifier().fit(X).n_states_ == 2
    with pytest.raises(ValueError, match="sequence 16 has 3 time steps but n_states=4 needs at least 5"):
        LDSIdentifier(4).fit(X)
    with pytest.raises(ValueError, match="sequence 0 has 1 time steps"):
        LDSIdentifier().fit([np.ones((1, 2))])


def test_what_is_set_is_taken_or_rejected():
    X = waves(1)
    assert LDSIdentifier(1).fit_transform(X).n_outputs == 1  # a number: the delay stays one
    assert LDSIdentifier(delay=3).fit_transform(X).C.shape[1:] == (3, 3)
    assert LDSIdentifier("energy:0.99").fit_transform(X).C.shape[1:] == (2, 2)
    for settings, sentence in (
        ({"n_states": 2}, "n_states=2 exceeds channels × delay = 1: lower n_states or raise delay"),
        ({"n_states": 5, "delay": 2}, "n_states=5 exceeds channels × delay = 2"),
        ({"delay": 40}, "sequence 0 has 40 time steps but n_states=1 with delay=40 needs at least 41"),
        ({"delay": "2"}, "delay='2' is not valid: pass a whole number of at least 1, or 'auto'"),
        ({"n_states": "most"}, "n_states='most' is not valid"),
    ):
        identifier = LDSIdentifier(**settings)
        for estimator in (identifier, LDSKMeans(2, identifier=identifier)):
            with pytest.raises(ValueError) as caught:
                estimator.fit(X)
            assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_new_sequences_are_identified_as_in_fit():
    """Lengths of new sequences choose nothing; a second fit forgets the first."""
    X = waves(1)
    model = LDSKMeans(2, n_states=2, identifier=LDSIdentifier(delay=2), random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict([x[:12] for x in X]), model.labels_)
    with pytest.raises(ValueError, match="sequence 0 has 3 time steps but n_states=2 with delay=2 needs at least 4"):
        model.predict([X[0][:3]])
    identifier = LDSIdentifier().fit(X)
    assert identifier.forecast(X[:2], 3).shape == (2, 3, 1)
    assert identifier.log_likelihood(X[:2]).shape == (2,)
    assert identifier.simulate(identifier.transform(X[:2]), 7, random_state=0).shape == (2, 7, 1)
    assert identifier.fit([x[:3] for x in X]).transform([X[0][:3]]).n_outputs == 1


def test_default_models_are_stored_and_drawn(tmp_path):
    X = waves(1)
    model = LDSKMeans(2, random_state=0).fit(X)
    ms.storage.save_model(model, tmp_path)
    np.testing.assert_array_equal(ms.storage.load_model(tmp_path).predict(X), model.labels_)
    data = ms.storage.SequenceData(X)
    assert "Reconstruction" in plot_reconstruction(Fitted(model, data)).get_title()
    plt.close("all")


def test_settings_are_chosen_together_with_defaults():
    choice = choose_clustering(
        LDSKMeans(2, n_init=1, random_state=0),
        waves(1, N=16),
        {"identifier__center": [True, False]},
        n_splits=2,
        random_state=0,
    )
    assert set(choice.best_params) == {"identifier__center"} and np.isfinite(choice.steps[0].figure).all()
    rules = choose_clustering(
        LDSKMeans(2, n_init=1, random_state=0), waves(3, N=16), {"n_states": ["auto", 2]}, n_splits=2, random_state=0
    )
    assert rules.best_params["n_states"] in ("auto", 2)
