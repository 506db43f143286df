"""Rules of the centre, relocation, mini-batches."""

import numpy as np
import pytest
from lds.clusterings import CLASSES, generated, oscillations, projection
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manifoldseq_lds import LDSKMeans, Systems
from manifoldseq_lds.clustering._epoch import relocated
from manifoldseq_lds.systems._record import change_state_basis


def truth(N=30):
    return np.arange(N) % CLASSES


@pytest.mark.parametrize("mean", ["exact", "canonical", "medoid"])
def test_every_rule_finds_the_classes(mean):
    fitted = LDSKMeans(CLASSES, mean=mean, n_init=2, max_iter=10, random_state=0).fit(generated())
    assert adjusted_rand_score(truth(), fitted.labels_) == 1
    Systems(fitted.systems_.A, fitted.systems_.C)  # stable, orthonormal


@pytest.mark.parametrize("mean", ["exact", "medoid"])
def test_the_centre_of_equivalent_copies_is_the_system(mean):
    item = generated(N=1, noise=0.3)[0]
    copies = Systems.from_items([item, change_state_basis(item), item])
    fitted = LDSKMeans(1, mean=mean).fit(copies)
    assert projection(fitted.systems_[0], item) == pytest.approx(3, abs=1e-5)


def poor_start(data):
    """Two centres in one class, and one for two classes."""
    classes = truth(len(data))
    first = data[classes == 0]
    parts = (first[:6], first[6:], data[classes > 0])
    return Systems.concatenate([LDSKMeans(1).fit(part).systems_ for part in parts])


def test_relocation_leaves_a_poor_optimum():
    data = generated(N=60, noise=0.1, seed=3)
    start = poor_start(data)
    stuck, free = (LDSKMeans(3, init=start, relocate=on, max_iter=30).fit(data) for on in (False, True))
    assert adjusted_rand_score(truth(60), stuck.labels_) < 0.9
    assert adjusted_rand_score(truth(60), free.labels_) == 1
    assert (np.diff(free.history_["fun"]) <= 1e-12).all()


def test_relocation_reports_what_it_did():
    data = generated(N=60, noise=0.1, seed=3)
    task = LDSKMeans(3)._clustering(data, 3)
    centres = task.canonical(poor_start(data))
    values, squared = task.distances(centres)
    before = squared.min(axis=0).sum()
    found = relocated(task, centres, squared.argmin(axis=0), values, squared)
    assert found is not None
    new, assigned, _, new_squared = found
    np.testing.assert_allclose(task.distances(new)[1], new_squared, atol=1e-10)
    np.testing.assert_array_equal(new_squared.argmin(axis=0), assigned)
    assert new_squared.min(axis=0).sum() < before


def test_mini_batches_find_the_classes():
    data = generated(N=90)
    model = LDSKMeans(CLASSES, random_state=0)
    for start in range(0, 90, 30):
        model.partial_fit(data[start : start + 30])
    assert model.n_iter_ == 3 and model.counts_.sum() == 90
    assert adjusted_rand_score(truth(90), model.predict(data)) == 1
    whole = LDSKMeans(CLASSES, random_state=0).fit(data)
    assert -model.score(data) < 1.1 * whole.inertia_
    before = model.systems_
    model.partial_fit(data[:1])
    assert model.counts_.sum() == 91
    moved = [projection(a, b) for a, b in zip(model.systems_, before, strict=True)]
    assert min(moved) > 2.99  # one system among thirty


def test_mini_batches_of_sequences_continue_a_fit():
    X = oscillations()
    model = LDSKMeans(3, n_states=2, random_state=0).fit(X)
    scale = model.scale_
    model.partial_fit(oscillations(seed=1))
    assert model.scale_ is scale and model.counts_.sum() == 48
    np.testing.assert_array_equal(model.labels_, model.predict(oscillations(seed=1)))
    with pytest.raises(ValueError, match="X has 2 sequences for n_clusters=3"):
        LDSKMeans(3, n_states=2).partial_fit(X[:2])
    with pytest.raises(ValueError, match="partial_fit supports mean='exact' and 'canonical' only"):
        LDSKMeans(3, n_states=2, mean="medoid").partial_fit(X)


def test_scores_and_nearest_agree_with_the_distances():
    data = generated()
    fitted = LDSKMeans(CLASSES, random_state=0).fit(data)
    distances = fitted.transform(data)
    np.testing.assert_allclose(fitted.score_samples(data), -distances.min(axis=1))
    assert fitted.score_samples(generated(N=3, seed=8)).max() < fitted.score_samples(data).min()
    np.testing.assert_array_equal(fitted.nearest(data, 4), np.argsort(distances, axis=0, kind="stable")[:4].T)
    with pytest.raises(ValueError, match="n=31 is not valid"):
        fitted.nearest(data, 31)


@pytest.mark.parametrize("mean", ["exact", "medoid"])
def test_duplicates_and_a_single_system(mean):
    one = generated(N=1)
    assert LDSKMeans(1, mean=mean).fit(one).mean_kernel_value_ == pytest.approx(3, abs=1e-6)
    with pytest.warns(ConvergenceWarning, match="2 clusters have 1 different centres"):
        fitted = LDSKMeans(2, mean=mean, random_state=0, max_iter=4).fit(one[[0] * 5])
    assert np.bincount(fitted.labels_, minlength=2).all()
    assert fitted.mean_kernel_value_ == pytest.approx(3, abs=1e-6)
