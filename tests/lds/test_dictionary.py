"""Dictionary learning: the objective never rises and agrees with its definition; errors."""

import numpy as np
import pytest
from lds.sparse_problems import clustered, oscillations, violation
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSSparseCoder, Systems, hierarchical_batch
from manifoldseq_lds.coding._initial_atoms import starting_systems

METHODS = ("lbfgs", "canonical", "pgd")


def learner(**params):
    return LDSDictionaryLearning(**{"n_atoms": 3, "n_states": 2, "tol": 0.0, "max_iter": 4, "random_state": 0} | params)


@pytest.fixture(scope="module")
def data():
    return clustered()


@pytest.mark.parametrize("method", METHODS)
def test_the_objective_falls(data, method):
    model = learner(method=method).fit(data)
    fun = model.history_["fun"]
    assert fun[-1] < fun[0]
    if method in ("lbfgs", "canonical"):
        assert (np.diff(fun) <= 1e-12).all()
    assert model.objective_ == fun[-1] == pytest.approx(-model.score(data), rel=1e-9)


def test_the_objective_is_the_definition(data):
    """(9) by explicit kernel values, and codes that satisfy the optimality conditions."""
    model = learner(alpha=0.3).fit(data)
    kernel = ms.get_kernel("projection")
    D, P = kernel.pack(model.systems_), kernel.pack(data)
    gram, cross, Z = kernel.cross(D, D), kernel.cross(D, P), model.transform(data)
    assert violation(gram, cross, 0.3, Z.T) < 1e-8
    values = [2 - 2 * z @ k + z @ gram @ z + 0.3 * np.abs(z).sum() for z, k in zip(Z, cross.T, strict=True)]
    assert model.objective_ == pytest.approx(np.mean(values), abs=1e-9)
    history = model.history_
    np.testing.assert_allclose(history["cost"], history["error"] - 2, atol=1e-12)
    assert history["error"][-1] < history["fun"][-1]


def test_mini_batches_learn(data):
    before = learner(max_iter=1, method="pgd", step_size=(1e-9,) * 3).fit(data)
    model = learner(method="pgd", batch_size=8, max_iter=10, step_size=(0.2, 0.2, 2.0), halve_every=5).fit(data)
    assert model.score(data) > before.score(data)


def test_rates_are_halved_after_so_many_epochs(data):
    """Three epochs are two at the rates given and, from where they end, one at half of them."""
    settings, rates = {"method": "pgd", "init": data[:3]}, np.array([0.2, 0.2, 2.0])
    whole = learner(**settings, max_iter=3, halve_every=2, step_size=tuple(rates)).fit(data).systems_
    two = learner(**settings, max_iter=2, halve_every=None, step_size=tuple(rates)).fit(data).systems_
    third = learner(**settings | {"init": two}, max_iter=1, halve_every=None, step_size=tuple(rates / 2)).fit(data)
    kernel = ms.get_kernel("projection")
    values = kernel.cross(kernel.pack(whole), kernel.pack(data))
    np.testing.assert_allclose(kernel.cross(kernel.pack(third.systems_), kernel.pack(data)), values, atol=1e-7)
    assert np.abs(kernel.cross(kernel.pack(two), kernel.pack(data)) - values).max() > 1e-3


def test_partial_fit_streams(data):
    model = learner(method="pgd", step_size=(0.2, 0.2, 2.0))
    scores = []
    for _ in range(4):
        for start in range(0, 24, 8):
            model.partial_fit(data[start : start + 8])
        scores.append(model.score(data))
    assert scores[-1] > scores[0]
    assert model.transform(data[:2]).shape == (2, 3)


@pytest.mark.parametrize("init", ["random", "medoid", "k-means"])
def test_starts(data, init):
    assert len(learner(init=init, max_iter=1).fit(data).systems_) == 3


def test_medoids_are_the_rows_nearest_to_the_mean_of_their_groups(data):
    """By hand: in feature space the distance of a row to the mean of a group is least where the sum of k is largest."""
    kernel = ms.get_kernel("projection")
    packed = kernel.pack(data)
    K = kernel.cross(packed, packed)
    for seed in range(3):
        found = starting_systems(
            "medoid", 3, data, kernel, packed, kernel=kernel, bound=0.99, rng=np.random.default_rng(seed)
        )
        labels = np.random.default_rng(seed).permutation(len(data)) % 3
        expected = []
        for k in range(3):
            rows = [i for i in range(len(data)) if labels[i] == k]
            distances = [
                K[i, i] - 2 * np.mean([K[i, j] for j in rows]) + np.mean([K[a, b] for a in rows for b in rows])
                for i in rows
            ]
            expected.append(rows[int(np.argmin(distances))])
        np.testing.assert_array_equal(found.C, data.C[expected])
        np.testing.assert_array_equal(found.A, data.A[expected])
        first = [int(np.flatnonzero(labels == k)[0]) for k in range(3)]
        assert expected != first  # the case tells medoids from first rows


def test_given_atoms_and_the_best_of_several_starts(data):
    assert learner(init=data[:3]).fit(data).objective_ > 0
    alone = [learner(n_init=1, random_state=np.random.default_rng(0).spawn(1)[0]).fit(data).objective_]
    assert learner(n_init=3, random_state=np.random.default_rng(0)).fit(data).objective_ <= min(alone) + 1e-12


def test_dead_atoms_are_replaced_by_data():
    """An atom orthogonal to all data has no code; afterwards every atom has one."""
    systems = clustered(m=6)
    wide = Systems(systems.A, np.concatenate([systems.C, np.zeros((24, 2, 2))], axis=1))
    foreign = Systems([0.1 * np.eye(2)], [np.concatenate([np.zeros((6, 2)), np.eye(2)])])
    init = Systems.concatenate([wide[:2], foreign])
    model = learner(init=init, max_iter=2).fit(wide)
    assert model.history_["replaced"][1] == 1
    assert np.abs(model.transform(wide)).sum(axis=0).min() > 0
    once = learner(init=init, max_iter=1).fit(wide).systems_
    worst = LDSSparseCoder(Systems.concatenate([once[:2], foreign])).fit(wide).reconstruction_errors(wide).argmax()
    kernel = ms.get_kernel("projection")
    assert kernel.cross(kernel.pack(once[[2]]), kernel.pack(wide))[0].argmax() == worst


def test_duplicate_atoms_and_data():
    systems = clustered(6, noise=0.0)[[0, 0, 0, 1, 1, 1]]
    with pytest.warns(ConvergenceWarning, match="X has 2 different systems for n_atoms=3"):
        assert np.isfinite(learner(init=systems[[0, 0, 1]]).fit(systems).objective_)


@pytest.mark.parametrize("settings", [{}, {"method": "pgd", "batch_size": 8}])
def test_resume_is_bit_identical(data, settings, tmp_path):
    straight = learner(max_iter=4, **settings).fit(data)
    learner(max_iter=2, **settings).fit(data, checkpoint=tmp_path)
    resumed = learner(max_iter=4, **settings).fit(data, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(straight.systems_.A, resumed.systems_.A)
    np.testing.assert_array_equal(straight.history_["fun"], resumed.history_["fun"])
    with pytest.raises(ValueError, match="other data or settings"):
        learner(alpha=0.5, **settings).fit(data, checkpoint=tmp_path, resume=True)


def test_hierarchical_batches():
    groups = np.repeat(np.arange(30), 7)
    rows = hierarchical_batch(groups, 20, 4, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 80
    _, counts = np.unique(groups[rows], return_counts=True)
    assert counts.tolist() == [4] * 20
    assert len(hierarchical_batch([0, 0, 1], 20, 4, np.random.default_rng(0))) == 3
    with pytest.raises(ValueError, match="all numbers must be at least 1"):
        hierarchical_batch([], 20, 4, np.random.default_rng(0))


def test_hierarchical_sampler_in_fit(data):
    model = learner(method="pgd", batch_size=(3, 2), max_iter=2)
    assert model.fit(data, groups=np.arange(24) % 4).objective_ > 0
    with pytest.raises(ValueError, match="groups"):
        model.fit(data)


def test_conventions():
    ms.testing.check_sequence_estimator(learner()).raise_for_failure()


def test_sequences_and_systems_agree():
    X = oscillations()
    model = learner().fit(X)
    again = learner().fit(model_systems(X))
    np.testing.assert_allclose(model.objective_, again.objective_)
    with pytest.raises(ValueError, match="fitted on Systems"):
        again.transform(X)


def model_systems(X):
    return ms.get_estimator("lds-identifier")(n_states=2).fit_transform(X)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"alpha": 50.0}, "every code is zero for alpha="),
        ({"n_atoms": 30}, "24 sequences for n_atoms=30"),
        ({"method": "svd"}, "method='svd' is not known: choose 'lbfgs', 'canonical', 'pgd'"),
        ({"method": "medoid"}, "method='medoid' is not known: choose 'lbfgs'"),
        ({"batch_size": 8}, "requires method='pgd'"),
        ({"method": "pgd", "batch_size": (2, 2, 2)}, "batch_size"),
        ({"step_size": (0.1, 1.0)}, "three learning rates"),
        ({"init": "zeros"}, "init='zeros'"),
        ({"init": clustered(2)}, "pass 3 systems"),
        ({"kernel": "no-such"}, "no-such"),
    ],
)
def test_bad_settings_raise_an_error(data, params, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        learner(**params).fit(data)
    assert "\n" not in str(caught.value)


def test_coder_with_a_learned_dictionary_gives_its_codes(data):
    model = learner().fit(data)
    coder = LDSSparseCoder(model.systems_, n_states=2).fit(data)
    np.testing.assert_allclose(coder.transform(data), model.transform(data), atol=1e-9)
    errors = coder.reconstruction_errors(data)
    assert errors.shape == (24,) and errors.mean() == pytest.approx(model.history_["error"][-1], rel=1e-6)
    assert clone(coder).get_params()["alpha"] == 0.1


def test_coder_says_when_every_code_is_zero(data):
    coder = LDSSparseCoder("all", alpha=50.0).fit(data)
    with pytest.warns(UserWarning, match="every code is zero for alpha=50"):
        assert not coder.transform(data).any()


def test_mini_batches_keep_to_what_began(data):
    with pytest.raises(ValueError, match="every code is zero for alpha="):
        learner(alpha=50.0).partial_fit(data)
    model = learner().partial_fit(data)
    with pytest.raises(ValueError, match="n_atoms=5 but the dictionary has 3 atoms"):
        model.set_params(n_atoms=5).partial_fit(data)


@pytest.mark.parametrize("dictionary", ["random", "medoid", "k-means", "all"])
def test_coder_chooses_its_dictionary(data, dictionary):
    coder = LDSSparseCoder(dictionary, n_atoms=4, random_state=0).fit(data)
    assert coder.transform(data[:5]).shape == (5, 24 if dictionary == "all" else 4)


def test_coder_conventions_and_errors(data):
    ms.testing.check_sequence_estimator(LDSSparseCoder(n_atoms=3, n_states=2)).raise_for_failure()
    for params, sentence in (
        ({"dictionary": "learned"}, "dictionary='learned'"),
        ({"dictionary": clustered(3, m=7)}, "7 outputs"),
        ({"n_atoms": 25}, "n_atoms=25"),
    ):
        with pytest.raises(ValueError, match=sentence):
            LDSSparseCoder(**params).fit(data)


def test_other_kernels_learn_too(data):
    model = learner(kernel="martin", alpha=0.01).fit(data)
    assert model.history_["fun"][-1] < model.history_["fun"][0]
