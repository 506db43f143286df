"""Rules of the centre: alignment, embedding and subspace baselines, relocation, mini-batches."""

import numpy as np
import pytest
from helpers import parametrize
from lds.clusterings import CLASSES, generated, oscillations, projection
from scipy.linalg import orth, subspace_angles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_lds import AlignMean, GrassMean, LDSKMeans, MDSMean, Systems
from manifoldseq_lds.clustering._epoch import relocated
from manifoldseq_lds.means._centre_rules import (
    ROTATIONS,
    aligning_rotations,
    alignment_cost,
    nearest_to_the_mean,
    subspace_mean,
)
from manifoldseq_lds.systems._record import change_state_basis


def truth(N=30):
    return np.arange(N) % CLASSES


@parametrize("mean", ["exact", "printed", "toolbox", "align", "mds", "grass", "medoid"], fast=3)
def test_every_rule_finds_the_classes(mean):
    fitted = LDSKMeans(CLASSES, mean=mean, n_init=2, max_iter=10, random_state=0).fit(generated())
    assert adjusted_rand_score(truth(), fitted.labels_) == 1
    Systems(fitted.systems_.A, fitted.systems_.C)  # stable, orthonormal


@pytest.mark.parametrize("mean", ["exact", "align", "grass", "mds", "medoid"])
def test_the_centre_of_equivalent_copies_is_the_system(mean):
    item = generated(N=1, noise=0.3)[0]
    copies = Systems.from_items([item, change_state_basis(item), item])
    fitted = LDSKMeans(1, mean=mean).fit(copies)
    assert projection(fitted.systems_[0], item) == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("start", ROTATIONS)
def test_rotations_align_rotated_copies(start):
    rng = np.random.default_rng(0)
    A, C = generated(N=1, n=4)[0][:2]
    P = np.linalg.qr(rng.standard_normal((8, 4, 4)))[0]
    turned = P.swapaxes(1, 2) @ A @ P, C @ P
    Q = aligning_rotations(*turned, A, C, rate=0.2, n_steps=100, start=start)
    np.testing.assert_allclose(Q.swapaxes(1, 2) @ Q, np.broadcast_to(np.eye(4), Q.shape), atol=1e-10)
    costs = alignment_cost(*turned, A, C, Q)
    assert np.median(costs) < 1e-6
    if start != "printed":  # -Q has the determinant of Q: half of the rotations are out of its reach
        np.testing.assert_allclose(Q, P.swapaxes(1, 2), atol=1e-3)


def test_alignment_steps_down_the_gradient_of_its_cost():
    """One step from a start is the Cayley step along half the gradient, here by central differences."""
    rng = np.random.default_rng(1)
    systems = generated(N=2, n=3, noise=0.5)
    (A, C), (A0, C0) = ((a, c) for a, c in systems)
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    gradient = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        up, down = (alignment_cost(A, C, A0, C0, Q + sign * step) for sign in (1, -1))
        gradient[index] = (up - down) / 2e-6
    expected = ms.linalg.cayley(Q, gradient / 2, 0.1)
    reduced = -(A @ Q @ A0.T + A.T @ Q @ A0 + C.T @ C0)
    np.testing.assert_allclose(ms.linalg.cayley(Q, reduced, 0.1), expected, atol=1e-8)
    near = ms.linalg.polar(C.T @ C0)  # one step of the rule from its start
    gradient = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        up, down = (alignment_cost(A, C, A0, C0, near + sign * step) for sign in (1, -1))
        gradient[index] = (up - down) / 2e-6
    stepped = aligning_rotations(A[None], C[None], A0, C0, rate=0.1, n_steps=1, start="polar")[0]
    np.testing.assert_allclose(stepped, ms.linalg.cayley(near, gradient / 2, 0.1), atol=1e-8)
    moved = aligning_rotations(A[None], C[None], A0, C0, rate=0.05, n_steps=50)
    still = aligning_rotations(A[None], C[None], A0, C0, rate=0.05, n_steps=0)
    assert alignment_cost(A, C, A0, C0, moved[0]) < alignment_cost(A, C, A0, C0, still[0])


@pytest.mark.parametrize("seed", range(5))
def test_embedding_agrees_with_the_definition(seed):
    """Coordinates from double centring, and the row nearest to their mean, by loops."""
    rng = np.random.default_rng(seed)
    D = rng.uniform(0.5, 2, (12, 12))
    D = np.triu(D, 1) + np.triu(D, 1).T  # no metric: some eigenvalues are negative
    J = np.eye(12) - 1 / 12
    w, W = np.linalg.eigh(-J @ D**2 @ J / 2)
    for n_components in (3, None):
        kept = [i for i in np.argsort(-w)[:n_components] if w[i] > 0]
        X = np.stack([np.sqrt(w[i]) * W[:, i] for i in kept], axis=1)
        expected = min(range(12), key=lambda i: np.linalg.norm(X[i] - X.mean(axis=0)))
        assert nearest_to_the_mean(D**2, n_components) == expected


@pytest.mark.parametrize("seed", range(10))
def test_embedding_of_a_positive_kernel_gives_the_medoid(seed):
    data = generated(N=15, noise=0.6, seed=seed)
    kernel = ms.get_kernel("projection")
    K = kernel.cross(kernel.pack(data), kernel.pack(data))
    assert nearest_to_the_mean(2 * (3 - K)) == K.sum(axis=1).argmax()


def test_mds_means_are_members_chosen_by_martin_distances():
    data = generated(noise=0.4)
    fitted = LDSKMeans(2, mean=MDSMean(), kernel="martin-rbf", n_init=1, max_iter=5, random_state=0).fit(data)
    for k, centre in enumerate(fitted.systems_):
        rows = np.flatnonzero(fitted.labels_ == k)
        assert max(projection(centre, data[i]) for i in rows) == pytest.approx(3, abs=1e-6)


def test_grass_mean_is_the_leading_subspace():
    data = generated(N=6, noise=0.2)[[0, 3]]
    bases = [orth(np.vstack([C, C @ A, C @ A @ A])) for A, C in data]
    W = np.linalg.eigh(sum(basis @ basis.T for basis in bases))[1][:, -3:]
    A, C = subspace_mean(data.A, data.C, 3)
    shift = np.linalg.lstsq(W[:16], W[8:], rcond=None)[0]
    np.testing.assert_allclose(np.trace(A), np.trace(shift), atol=1e-8)
    assert subspace_angles(C, W[:8]).max() < 1e-6


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: AlignMean(rate=0), "rate=0"),
        (lambda: AlignMean(start="best"), "start='best'"),
        (lambda: AlignMean(n_steps=-1), "n_steps=-1"),
        (lambda: GrassMean(1), "n_steps=1"),
        (lambda: MDSMean(0), "n_components=0"),
    ],
)
def test_settings_of_rules_are_checked(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_rules_are_stored_with_the_model(tmp_path):
    fitted = LDSKMeans(2, n_states=2, mean=AlignMean(rate=0.3), random_state=0).fit(oscillations())
    ms.storage.save_model(fitted, tmp_path)
    again = ms.storage.load_model(tmp_path)
    assert again.mean == AlignMean(rate=0.3)
    np.testing.assert_array_equal(again.predict(oscillations()), fitted.labels_)


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
    with pytest.raises(ValueError, match="partial_fit is defined for mean='exact' and 'canonical' only"):
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


@pytest.mark.parametrize("mean", ["exact", "align", "mds", "grass", "medoid"])
def test_duplicates_and_a_single_system(mean):
    one = generated(N=1)
    assert LDSKMeans(1, mean=mean).fit(one).mean_kernel_value_ == pytest.approx(3, abs=1e-6)
    with pytest.warns(ConvergenceWarning, match="2 clusters have 1 different centres"):
        fitted = LDSKMeans(2, mean=mean, random_state=0, max_iter=4).fit(one[[0] * 5])
    assert np.bincount(fitted.labels_, minlength=2).all()
    assert fitted.mean_kernel_value_ == pytest.approx(3, abs=1e-6)
