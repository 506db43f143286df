"""`SubspaceKMeans`: conventions, descent, Lloyd's k-means and tied mixtures as special cases, starts, errors."""

import warnings
from functools import partial

import helpers
import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import frames, means, printed_F
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_hierarchical import SubspaceKMeans

Printed = partial(SubspaceKMeans, objective="printed", tol=0.0)


def within(X, labels):
    return sum(np.sum((X[labels == k] - X[labels == k].mean(axis=0)) ** 2) for k in np.unique(labels))


@pytest.mark.slow
def test_scikit_learn_conventions():
    ms.testing.check_estimator(SubspaceKMeans(2)).raise_for_failure()
    drawn = {"check_sample_weight_equivalence_on_dense_data": "starts are drawn by row, as in scikit-learn's KMeans"}
    ms.testing.check_estimator(Printed(2, n_components=1), expected_failures=drawn).raise_for_failure()


@pytest.mark.parametrize("m", [None, 1, 3, 8, 30])
@pytest.mark.parametrize("init", ["k-means++", "random", "segments"])
def test_no_step_raises_the_objective(m, init):
    X, _ = frames(600, 30, 9, spread=0.7)
    model = Printed(9, n_components=m, init=init, n_init=2, random_state=0).fit(X)
    assert np.diff(model.history_["fun"]).max() <= 1e-14
    assert model.status_ in (ms.Status.COST_CHANGE, ms.Status.ROUNDING_LEVEL)
    assert len(model.history_["nit"]) == model.n_iter_ + 1
    V = model.rotation()
    F = printed_F(V, len(model.components_), means(X, model.labels_), X.mean(axis=0), X, model.labels_)
    assert model.energy_ == pytest.approx(F, rel=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.score(X) == pytest.approx(-model.energy_, rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_score_of_new_frames_is_the_printed_objective(m):
    """(5): what m coordinates leave is all energy about mu_0 less theirs; here (1), frame by frame."""
    X, _ = frames(200, 8, 4)
    new = frames(30, 8, 4, seed=1)[0]
    model = Printed(4, n_components=m, n_init=1, random_state=0).fit(X)
    V, labels = model.rotation(), model.predict(new)
    expected = printed_F(V, m, model.cluster_centers_, model.center_, new, labels)
    assert model.score(new) == pytest.approx(-expected, rel=1e-12)


def test_each_assignment_is_the_best_one_for_its_subspace():
    X, _ = frames(200, 8, 4, spread=0.6)
    model = Printed(4, n_components=2, max_iter=2, n_init=1, random_state=0).fit(X)
    V, labels = model.rotation(), model.predict(X)
    best = printed_F(V, 2, model.cluster_centers_, model.center_, X, labels)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.where(rng.random(200) < 0.05, rng.integers(4, size=200), labels)
        assert printed_F(V, 2, model.cluster_centers_, model.center_, X, other) >= best


def test_with_the_best_number_of_coordinates_it_is_lloyds_k_means():
    X, _ = frames(500, 20, 6, spread=0.6)
    start = X[:6]
    ours = Printed(6, init=start).fit(X)
    lloyd = KMeans(6, init=start, n_init=1, tol=0.0, max_iter=300, algorithm="lloyd").fit(X)
    np.testing.assert_array_equal(ours.labels_, lloyd.labels_)
    assert ours.energy_ == pytest.approx(lloyd.inertia_, rel=1e-12)
    assert ours.components_.shape == (5, 20)


def test_few_coordinates_find_clusters_that_they_can_tell_apart():
    """Three strong directions hold four clusters; two weak ones would split them otherwise."""
    rng = np.random.default_rng(0)
    codes = rng.integers(4, size=800)
    X = rng.standard_normal((800, 40))
    X[:, :2] += 6 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])[codes]
    model = Printed(4, n_components=2, random_state=0).fit(X)
    for k in range(4):
        assert len(np.unique(codes[model.labels_ == k])) == 1
    assert np.linalg.norm(model.components_[:, :2]) ** 2 > 1.9


def test_starts():
    X, codes = frames(300, 10, 5)
    by_labels = Printed(5, init=codes).fit(X)
    by_centroids = Printed(5, init=means(X, codes)).fit(X)
    np.testing.assert_array_equal(by_labels.labels_, by_centroids.labels_)
    once = Printed(5, n_init=1, random_state=3).fit(X)
    more = Printed(5, n_init=6, random_state=3).fit(X)
    assert more.energy_ <= once.energy_
    again = Printed(5, n_init=6, random_state=3).fit(X)
    np.testing.assert_array_equal(again.labels_, more.labels_)


def test_an_empty_cluster_gets_the_worst_represented_frame():
    X, _ = frames(200, 6, 3, spread=8.0)
    far = np.vstack([means(X, np.arange(200) % 3), np.full(6, 1e4)])
    model = Printed(4, init=far).fit(X)
    assert (np.bincount(model.labels_, minlength=4) > 0).all()
    assert np.diff(model.history_["fun"]).max() <= 1e-14


def test_fewer_distinct_frames_than_clusters():
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(
        ConvergenceWarning, match="X has 3 different frames for n_clusters=5: the choice among equal clusters"
    ):
        model = Printed(5, random_state=0).fit(X)
    assert model.energy_ == pytest.approx(0, abs=1e-12)
    assert np.isfinite(model.cluster_centers_).all()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_other_dtypes_and_offsets(dtype, offset):
    X, codes = frames(400, 12, 4, spread=9.0)
    X = np.clip(X + 60 + offset, 0, 255).astype(dtype)
    model = Printed(4, init=codes).fit(X)
    reference = Printed(4, init=codes).fit(X.astype(np.float64))
    np.testing.assert_array_equal(model.labels_, reference.labels_)
    assert model.energy_ == pytest.approx(within(X.astype(float), model.labels_), rel=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.float16])
def test_random_starts_of_whole_numbers_are_those_of_floats(dtype):
    X, _ = frames(400, 12, 4, spread=9.0)
    X = (X > 0) if dtype is bool else np.clip(30 * X + 120, 0, 255).astype(dtype)
    model = Printed(4, n_init=2, random_state=0).fit(X)
    reference = Printed(4, n_init=2, random_state=0).fit(X.astype(np.float32))
    np.testing.assert_array_equal(model.labels_, reference.labels_)
    assert model.energy_ == pytest.approx(reference.energy_, rel=1e-12)


def test_a_memory_mapped_file(tmp_path):
    X, _ = frames(3000, 20, 5)
    np.save(tmp_path / "frames.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    model = Printed(5, init="segments").fit(mapped)
    np.testing.assert_array_equal(model.labels_, Printed(5, init="segments").fit(X.astype(np.float32)).labels_)


def test_a_stopped_fit_goes_on_bit_for_bit(tmp_path):
    X, _ = frames(800, 20, 12, spread=0.5)
    params = {"n_components": 3, "n_init": 2, "random_state": 0}
    whole = Printed(12, **params).fit(X)
    assert whole.n_iter_ > 6
    Printed(12, max_iter=3, **params).fit(X, checkpoint=tmp_path)
    resumed = Printed(12, **params).fit(X, checkpoint=tmp_path, resume=True)
    for name in ("labels_", "components_", "cluster_centers_", "energy_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    with pytest.raises(ValueError, match="other data or settings"):
        Printed(12, **params).fit(X + 1, checkpoint=tmp_path, resume=True)


def test_an_interrupt_keeps_the_best_state():
    X, _ = frames(300, 10, 8, spread=0.4)

    def interrupt(event):
        if event.nit == 2 and event.status is None:
            raise KeyboardInterrupt

    model = Printed(8, n_init=3, random_state=0).fit(X, observers=[interrupt])
    assert model.status_ is ms.Status.INTERRUPTED
    assert model.n_iter_ == 2 and model.predict(X).shape == (300,)


def test_saving(tmp_path):
    X, _ = frames()
    model = Printed(3, random_state=0).fit(X)
    ms.storage.save_model(model, tmp_path)
    np.testing.assert_array_equal(ms.load(tmp_path).predict(X), model.labels_)


def densities(model, X):
    """The mixture's density of each frame and cluster, by scipy."""
    laws = [multivariate_normal(mean, model.covariance_) for mean in model.cluster_centers_]
    return np.stack([w * law.pdf(X) for w, law in zip(model.weights_, laws, strict=True)], axis=1)


@pytest.mark.parametrize("m", [None, 2])
def test_the_mixture_by_scipy(m):
    """Density, probabilities, codes; an M-step at the end changes nothing; no step of EM lowers the posterior."""
    X, _ = frames(300, 6, 4, spread=1.2)
    X[:, 2] *= 50
    shrinkage = "ledoit-wolf" if m else 0.1
    model = SubspaceKMeans(4, n_components=m, shrinkage=shrinkage, tol=1e-12, max_iter=2000, random_state=0).fit(X)
    assert np.diff(model.history_["fun"]).max() <= 1e-12
    if m is None:
        assert model.shrinkage_ == pytest.approx(0.1)
    joint = densities(model, X)
    assert model.score(X) == pytest.approx(np.log(joint.sum(axis=1)).mean(), rel=1e-10)
    assert model.log_likelihood_ == pytest.approx(model.score(X), rel=1e-12)
    shares = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), shares, atol=1e-10)
    np.testing.assert_array_equal(model.labels_, shares.argmax(axis=1))
    np.testing.assert_allclose(model.weights_, shares.mean(axis=0), atol=1e-5)
    W = model.components_
    np.testing.assert_allclose(W @ model.covariance_ @ W.T, np.eye(len(W)), atol=1e-10)
    np.testing.assert_allclose(model.transform(model.inverse_transform(X[:5, : len(W)])), X[:5, : len(W)], atol=1e-9)
    within = sum((shares[:, k, None] * (X - mean)).T @ (X - mean) for k, mean in enumerate(model.cluster_centers_))
    prior = model.prior_.strength * model.prior_.level * np.diag(X.var(axis=0))
    expected = (within + prior) / (300 + model.prior_.strength)
    unit = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(model.covariance_ / unit, expected / unit, atol=1e-5)
    if m is None:
        means = (shares.T @ X) / shares.sum(axis=0)[:, None]
        np.testing.assert_allclose(model.cluster_centers_, means, rtol=1e-3, atol=1e-3)
    assert np.linalg.matrix_rank(model.cluster_centers_ - model.center_, tol=1e-8) == len(W) == (m or 3)
    assert model.gain_curve()[len(W)] == pytest.approx(
        model.scatter_ - np.square(model.singular_values_[: len(W)]).sum()
    )


def test_the_metric_finds_what_nearest_centroids_do_not():
    """Two long thin clusters side by side: k-means cuts them across, in any units of the columns."""
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 2
    X = rng.standard_normal((400, 5)) * [3, 1, 1, 1, 1]
    X[:, 1] += 5 * codes
    X += X[:, :1] * [0, 0.5, 0, 0, 0]  # columns are correlated within the clusters
    found = [
        SubspaceKMeans(2, random_state=0).fit_predict(X * unit + far)
        for unit, far in ((1, 0), ([1e-3, 9, 1, 7, 2], 1e3))
    ]
    for labels in found:
        assert adjusted_rand_score(codes, labels) > 0.95
    assert adjusted_rand_score(codes, Printed(2, random_state=0).fit_predict(X)) < 0.3


def test_a_weight_is_a_number_of_copies():
    X, codes = frames(120, 5, 3)
    weight = 1.0 + np.arange(120) % 3
    weight[::10] = 0
    copies = np.repeat(np.arange(120), weight.astype(int))
    for model in (SubspaceKMeans(3, random_state=0), Printed(3)):
        kept = weight > 0
        again = model.set_params(init=means(X[kept], codes[kept])).fit(X[copies])
        one = clone(model).fit(X, sample_weight=weight)
        np.testing.assert_allclose(one.cluster_centers_, again.cluster_centers_, rtol=1e-9)
        np.testing.assert_allclose(np.abs(one.components_), np.abs(again.components_), rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(one.labels_, one.predict(X))
        assert one.score(X[copies]) == pytest.approx(again.score(X[copies]), rel=1e-10)


def test_numbers_of_clusters_and_coordinates_are_found(tmp_path):
    rng = np.random.default_rng(1)
    codes = np.arange(400) % 5
    X = rng.standard_normal((400, 12)) @ rng.standard_normal((12, 12))
    plane = 9 * rng.standard_normal((5, 2)) @ np.linalg.qr(rng.standard_normal((12, 2)))[0].T
    X += 4 * plane[codes]
    model = SubspaceKMeans("auto", n_components="auto", n_init=2, random_state=0).fit(X)
    assert model.n_clusters_ == 5 and model.components_.shape == (2, 12)
    assert adjusted_rand_score(codes, model.labels_) > 0.98
    clusters, coordinates = model.choice_.steps
    assert model.choice_.best_params == {"n_clusters": 5, "n_components": 2}
    numbers = [one["n_clusters"] for one in clusters.params]
    assert numbers == [*range(1, len(numbers) + 1)] and numbers[int(clusters.figure.argmin())] == 5
    bic = {K: SubspaceKMeans(K, n_init=2, random_state=0).fit(X).bic_ for K in (4, 5)}
    assert clusters.figure[3] - clusters.figure[4] == pytest.approx(bic[4] - bic[5], rel=1e-2)
    assert [one["n_components"] for one in coordinates.params] == [1, 2, 3, 4]
    assert "> " in str(model.choice_) and str(model.choice_).endswith("chosen: n_clusters=5, n_components=2")
    ms.storage.save_model(model, tmp_path)
    assert str(ms.load(tmp_path).choice_) == str(model.choice_)
    assert not hasattr(model.set_params(n_clusters=2, n_components=None).fit(X), "choice_")
    with pytest.warns(UserWarning, match="chose one cluster"):
        alone = SubspaceKMeans("auto", random_state=0).fit(rng.standard_normal((300, 3)))
    assert alone.n_clusters_ == 1 and not alone.labels_.any() and np.isfinite(alone.score(X[:, :3]))


@pytest.mark.parametrize("objective", ["mixture", "printed"])
def test_mini_batches(objective, tmp_path):
    X, _ = frames(2000, 8, 4)
    whole = SubspaceKMeans(4, objective=objective, random_state=0).fit(X)
    model = SubspaceKMeans(4, objective=objective, random_state=0)
    for batch in np.split(X, 10):
        model.partial_fit(batch)
    ms.storage.save_model(model, tmp_path)
    again = ms.load(tmp_path).partial_fit(X[:100])  # goes on from a file
    for found in (model, again):
        assert adjusted_rand_score(whole.labels_, found.predict(X)) > 0.97
        assert found.score(X) >= whole.score(X) - 0.02 * abs(whole.score(X))
    if objective == "printed":
        assert model.moments_.n == 2000
        np.testing.assert_allclose(model.moments_.mean, X.mean(axis=0), atol=1e-12)
    with pytest.raises(ValueError, match="differs from the fitted objective"):
        model.set_params(objective="printed" if objective == "mixture" else "mixture").partial_fit(X[:10])


def test_many_frames_start_from_a_sample():
    X, codes = frames(25_000, 4, 3, spread=3.0)
    X = np.column_stack([X, np.full(len(X), 0.1)]).astype(np.float32)  # and a constant column
    model = SubspaceKMeans(3, n_init=1, random_state=0).fit(X)
    assert adjusted_rand_score(codes, model.labels_) > 0.95
    assert np.isfinite(model.log_likelihood_) and model.n_iter_ < 30


X, Y = frames(20, 4, 2)
HOLED = np.where(np.arange(80).reshape(20, 4) == 31, np.nan, X)
BAD = {
    "NaN": (lambda: Printed(2).fit(HOLED), "frame 7 has NaN in feature 3: remove or fill it"),
    "NaN, score": (lambda: Printed(2).fit(X).score(HOLED), "frame 7 has NaN in feature 3"),
    "no number to choose": (
        lambda: SubspaceKMeans("auto", objective="printed").fit(X),
        "which is not defined for objective='printed'",
    ),
    "starts of a number to choose": (lambda: SubspaceKMeans("auto", init=Y).fit(X), "does not support initial labels"),
    "too much shrinkage": (lambda: SubspaceKMeans(2, shrinkage=2).fit(X), "shrinkage=2 is not valid"),
    "an unknown objective": (lambda: SubspaceKMeans(2, objective="best").fit(X), "objective='best' is not known"),
    "no weight": (lambda: SubspaceKMeans(2).fit(X, sample_weight=np.zeros(20)), "sample_weight is zero for every row"),
    "too wide": (lambda: SubspaceKMeans(2).fit(np.eye(6, 6000)), "X has 6000 columns"),
    "NaN, mixture": (
        lambda: SubspaceKMeans(2).fit(np.where(HOLED == X, X, np.inf)),
        "frame 7 has infinity in feature 3",
    ),
    "constant frames": (lambda: Printed(2).fit(np.full((20, 4), 0.1)), "all frames of X are equal up to rounding"),
    "fewer frames than clusters": (lambda: Printed(21).fit(X), "n_samples=20 frames for n_clusters=21"),
    "another dimension": (lambda: Printed(2).fit(X).predict(X[:, :3]), "3 features"),
    "no cluster": (lambda: Printed(0).fit(X), "n_clusters=0 is not valid"),
    "too many coordinates": (lambda: Printed(2, n_components=5).fit(X), "n_components=5 is not valid"),
    "a negative tolerance": (lambda: Printed(2, tol=-1).fit(X), "tol=-1 is not valid"),
    "an unknown start": (lambda: Printed(2, init="pca").fit(X), "init='pca' is not known"),
    "a start of another shape": (lambda: Printed(2, init=X).fit(X), r"centroids of shape \(2, 4\)"),
    "an empty cluster at the start": (lambda: Printed(3, init=Y).fit(X), "exactly the clusters 0 to 2"),
}


@parametrize("case", BAD, fast=6)
def test_bad_input_raises_an_error(case):
    action, words = BAD[case]
    with warnings.catch_warnings(), pytest.raises(ValueError, match=words):
        warnings.simplefilter("error")
        action()


def test_starts_elsewhere_give_what_they_give_here(tmp_path, monkeypatch):
    """In copies of the task, whose dicts come back to nobody, in another folder."""
    monkeypatch.chdir(tmp_path)
    X, _ = frames(200, 10, 5, spread=0.7)
    here, there = ms.Recorder(lambda event: event.x), ms.Recorder(lambda event: event.x)
    expected = Printed(5, n_init=3, random_state=0).fit(X, observers=[here])
    with helpers.elsewhere(tmp_path / "worker"):
        model = Printed(5, n_init=3, random_state=0).fit(X, observers=[there], checkpoint="run")
        again = Printed(5, n_init=3, random_state=0).fit(X, checkpoint="run", resume=True)
    for found in (model, again):
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        np.testing.assert_array_equal(found.components_, expected.components_)
        np.testing.assert_array_equal(found.history_["fun"], expected.history_["fun"])
        assert found.status_ is expected.status_ and found.energy_ == expected.energy_
    for a, b in zip(there.records, here.records, strict=True):
        np.testing.assert_array_equal(a[1], b[1])
    assert list((tmp_path / "worker").iterdir()) == [] and len(list((tmp_path / "run").glob("start-*/*.npz"))) >= 3


def test_the_largest_number_that_is_compared_is_told(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.repeat(9 * np.eye(5), 40, axis=0) + rng.standard_normal((200, 5))
    monkeypatch.setattr("manifoldseq_hierarchical._kmeans._MOST_CLUSTERS", 4)
    said = r"n_clusters=4 is the largest of the compared numbers \(1 to 4\): try larger numbers, such as n_clusters=8"
    with pytest.warns(UserWarning, match=f"^{said}$"):
        model = SubspaceKMeans("auto", random_state=0).fit(X)
    assert model.n_clusters_ == 4 and str(model.choice_).endswith("n_clusters=8")


def test_few_frames_are_few_clusters():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0, 0], [9, 9, 9]], 3, axis=0) + 0.1 * rng.standard_normal((6, 3))
    assert SubspaceKMeans("auto", random_state=0).fit(X).n_clusters_ <= 2


def test_more_components_than_means_span_are_told():
    X = np.random.default_rng(0).standard_normal((90, 6)) + 4 * np.repeat(np.eye(6)[:3], 30, axis=0)
    with pytest.warns(UserWarning, match="n_components=4 exceeds 2, the number of directions"):
        model = SubspaceKMeans(3, n_components=4, random_state=0).fit(X)
    assert len(model.components_) == 2


def test_the_printed_objective_says_that_it_has_no_probabilities():
    model = SubspaceKMeans(2, objective="printed")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="objective='printed' assigns each frame to one cluster"):
        model.predict_proba(np.eye(4))
