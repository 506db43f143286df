"""The comparison of fusions: its pieces against independent computations, and the reproduction in small."""

import numpy as np
import pytest
from mpcca.test_multiple_features import write
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from manifoldseq_mpcca import FisherVector, MultiViewSuperVector
from manifoldseq_papers.mpcca._digit_descriptors import digit_descriptors
from manifoldseq_papers.mpcca._fusion import (
    FrontEnd,
    Settings,
    Task,
    _candidates,
    _error,
    measure,
    shared_between,
    stratified,
)
from manifoldseq_papers.mpcca._fusion_tables import _rows, fusion

SMALL = {"n_splits": 2, "n_components": [2], "n_latent": [2], "C": [1.0], "max_iter": 2}


def blobs(n=60, d=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return 2.0 * rng.standard_normal((classes, d))[labels] + rng.standard_normal((n, d)), labels


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_one_kernel_is_a_linear_support_vector_machine(classes):
    X, labels = blobs(classes=classes, d=2)
    train, test = np.arange(30), np.arange(30, 60)
    error = _error([X @ X[train].T], labels, (train, train), test, 1.0)
    machine = SVC(C=1.0, kernel="linear", break_ties=True).fit(X[train], labels[train])
    assert 0 < error == pytest.approx(np.mean(machine.predict(X[test]) != labels[test]))


def test_scores_of_one_kernel_twice_are_its_scores():
    X, labels = blobs(d=2)
    train, test = np.arange(30), np.arange(30, 60)
    K = X @ X[train].T
    assert _error([K, K], labels, (train, train), test, 1.0) == _error([K], labels, (train, train), test, 1.0)


def test_front_end_whitens_and_drops_what_is_constant():
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.standard_normal((500, 3)) @ rng.standard_normal((3, 6)) * 100, np.ones((500, 2))])
    front = FrontEnd(6).fit(rows)
    np.testing.assert_allclose(np.cov(front(rows).T), np.eye(3), atol=1e-8)
    assert front(rows[:0]).shape == (0, 3)
    roots = FrontEnd(2, roots=True).fit(np.abs(rows))
    np.testing.assert_allclose(roots(np.abs(rows)), roots(5 * np.abs(rows)), atol=1e-9)


def test_splits_have_every_class_on_both_sides():
    labels = np.array([0] * 10 + [1] * 2)
    first, second = stratified(labels, 0.9, np.random.default_rng(0))
    assert labels[first].tolist() == [0] * 9 + [1] and labels[second].tolist() == [0, 1]
    with pytest.raises(ValueError, match="class 1 has one object: pass at least two objects per class"):
        stratified(np.array([0, 0, 1]), 0.5, np.random.default_rng(0))


def test_canonical_correlation_of_known_blocks():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40_000, 3))
    b = np.array([0.9, 0.5, 0.1]) * a + np.sqrt(1 - np.array([0.9, 0.5, 0.1]) ** 2) * rng.standard_normal(a.shape)
    mixed = [block @ rng.standard_normal((3, 5)) for block in (a, b)]
    found = shared_between(*mixed, np.arange(20_000), np.arange(20_000, 40_000))
    assert found == pytest.approx(0.5, abs=0.02)


def test_fusions_compare_the_vectors_that_they_are_named_for():
    X, labels = blobs(60)
    Y = X[:, :3] ** 2 + np.random.default_rng(1).standard_normal((60, 3))
    train, test = np.arange(0, 60, 2), np.arange(1, 60, 2)
    task, settings = Task(X, Y, labels, train, test), Settings(n_components=(2,), n_latent=(2,), max_iter=3)
    found = {name: kernels for name, kernels, _ in _candidates(task, settings, 0)}
    fisher, ours = FisherVector(2, max_iter=3, random_state=0), MultiViewSuperVector(2, max_iter=3, random_state=0)
    joint, whole = (model.fit(X[train], Y[train]).transform(X, Y) for model in (fisher, ours))
    alone = [FisherVector(2, max_iter=3, random_state=0).fit([V[train]]).transform([V]) for V in (X, Y)]
    for name, vectors in {
        "concatenation": [joint],
        "score-level": alone,
        "M-PCCA [G, Z]": [whole],
        "M-PCCA G alone": [whole[:, :-4]],
        "M-PCCA Z alone": [whole[:, -4:]],
    }.items():
        for kernel, v in zip(found[name], vectors, strict=True):
            np.testing.assert_allclose(kernel, v @ v[train].T / np.mean(np.sum(v[train] ** 2, axis=1)), atol=1e-12)


def test_labels_of_test_objects_are_not_used():
    X, labels = blobs(90)
    Y = X[:, :3] + 0.1
    train, test = np.arange(0, 90, 2), np.arange(1, 90, 2)
    settings = Settings(n_components=(2,), n_latent=(1, 2), max_iter=3)
    first = measure(Task(X, Y, labels, train, test), settings, 0)
    lied = labels.copy()
    lied[test] = (lied[test] + 1) % 3
    second = measure(Task(X, Y, lied, train, test), settings, 0)
    errors = [key for key in first if key[1] == "error"]
    assert len(errors) == 8
    for key in errors:
        assert first[key] + second[key] >= 1 - 1e-12  # the predictions are the same: never right for both
        assert first[key] < 0.5 < second[key]


def test_rows_have_means_standard_errors_and_paired_differences():
    errors = {
        "M-PCCA [G, Z]": (0.1, 0.3),
        "concatenation": (0.2, 0.4),
        "kernel-level": (0.1, 0.2),
        "score-level": (0, 0),
    }
    splits = [{(name, "error"): values[i] for name, values in errors.items()} for i in (0, 1)]
    found = {row["model"]: (row["ours"], row["ours_se"]) for row in _rows("here", splits, differences=True)}
    assert found["M-PCCA [G, Z]"] == pytest.approx((20, 10))
    assert found["M-PCCA [G, Z] minus concatenation"] == pytest.approx((-10, 0), abs=1e-12)
    assert found["M-PCCA [G, Z] minus kernel-level"] == pytest.approx((5, 5))


@pytest.mark.slow
def test_reproduction_in_small(tmp_path):
    write(tmp_path)  # numbers without meaning: one error in ten is right by chance
    rows = fusion(tmp_path, task="mfeat", n_train=4, **SMALL)
    assert len({row["setting"] for row in rows}) == 16
    errors = [row for row in rows if row["metric"] == "test error"]
    assert len(errors) == 16 * 8 and all(85 < row["ours"] < 95 for row in errors)
    assert [row["paper"] for row in rows] == [None] * len(rows)


@pytest.mark.slow
def test_digits_in_small():
    rows = fusion(task="digits", n_train=10, **SMALL)
    errors = {row["model"]: row["ours"] for row in rows if row["metric"] == "test error"}
    assert errors["concatenation"] < 15 and errors["M-PCCA [G, Z]"] < 15


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"task": "faces"}, "task='faces' is not valid: pass 'all', 'mfeat' or 'digits'"),
        ({"n_splits": 1}, "n_splits=1 is not valid: pass a whole number of at least 2"),
        ({"C": []}, r"C=\[\] is not valid: pass a list of positive numbers"),
        ({"n_components": 4}, "n_components=4 is not valid: pass a list of positive numbers"),
        (
            {"n_train": 70, "task": "digits"},
            "n_train=70 requires 210 training objects per class, but a class has 174: lower",
        ),
    ],
)
def test_bad_settings_raise_an_error(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        fusion(**settings)


def test_digit_descriptors_by_loops():
    patches, histograms, labels = digit_descriptors()
    image = load_digits().images[7]
    down, right = np.gradient(image)
    expected = []
    for i in range(5):
        for j in range(5):
            patch = image[i : i + 4, j : j + 4]
            if patch.std() < 1:
                continue
            bins = np.zeros((8, 2, 2))
            for a in range(4):
                for b in range(4):
                    angle = np.arctan2(down[i + a, j + b], right[i + a, j + b]) / (2 * np.pi) % 1
                    bins[int(angle * 8) % 8, a // 2, b // 2] += np.hypot(down[i + a, j + b], right[i + a, j + b])
            expected.append((patch.ravel(), bins.ravel()))
    np.testing.assert_array_equal(patches[7], [p for p, _ in expected])
    np.testing.assert_allclose(histograms[7], [h for _, h in expected], atol=1e-12)
    assert len(patches) == len(histograms) == len(labels) == 1797
