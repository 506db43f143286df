"""`SubspaceEncoder`: conventions, segments, codes, streams, memory-mapped files, and invalid input."""

import pickle

import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import frames, rotation

import manifoldseq as ms
from manifoldseq_hierarchical import SubspaceEncoder


def same(a, b, **tolerance):
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.class_count_, b.class_count_)
    for name in ("cluster_centers_", "center_", "energy_", "scatter_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)
    projectors = [model.components_.T @ model.components_ for model in (a, b)]
    np.testing.assert_allclose(*projectors, rtol=0, atol=1e-12)


def test_scikit_learn_conventions():
    ms.testing.check_estimator(SubspaceEncoder()).raise_for_failure()
    ms.testing.check_estimator(SubspaceEncoder(n_components=1, center=False)).raise_for_failure()


def test_the_center_is_the_mean_or_zero():
    X, y = frames()
    np.testing.assert_allclose(SubspaceEncoder().fit(X, y).center_, X.mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(SubspaceEncoder(center=False).fit(X, y).center_, 0)
    same(SubspaceEncoder(center=True).fit(X, y), SubspaceEncoder(center=X.mean(axis=0)).fit(X, y))


def test_labels_of_any_kind():
    X, y = frames()
    names = np.array(["dusk", "dawn", "noon", "night", "rain"])[y]
    model = SubspaceEncoder().fit(X, names)
    assert model.classes_.tolist() == ["dawn", "dusk", "night", "noon", "rain"]
    np.testing.assert_allclose(model.cluster_centers_[1], X[y == 0].mean(axis=0), atol=1e-13)
    np.testing.assert_array_equal(
        SubspaceEncoder().fit(X, y.astype(float)).components_, SubspaceEncoder().fit(X, y).components_
    )
    assert set(model.predict(X)) <= set(names)
    assert model.score(X, names) == np.mean(model.predict(X) == names) > 0.9


def test_segments():
    X = np.cumsum(np.random.default_rng(0).standard_normal((103, 20)), axis=0)
    lengths = [11, 10, 10, 11, 10, 10, 11, 10, 10, 10]
    given = SubspaceEncoder().fit(X, segments=lengths)
    labelled = SubspaceEncoder().fit(X, np.repeat(np.arange(10), lengths))
    np.testing.assert_array_equal(given.components_, labelled.components_)
    equal = SubspaceEncoder(n_segments=10).fit(X)
    assert equal.class_count_.sum() == 103 and np.ptp(equal.class_count_) == 1
    np.testing.assert_allclose(equal.cluster_centers_[0], X[: equal.class_count_[0]].mean(axis=0), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_codes_and_back(dtype):
    X, y = frames(200, 12, 4, spread=20.0)
    X = (X - X.min()).astype(dtype)
    model = SubspaceEncoder(n_components=12).fit(X, y)
    Z = model.transform(X)
    expected = np.float32 if dtype == np.float32 else np.float64
    assert Z.shape == (200, 12) and Z.dtype == expected
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(Z, (X - model.center_) @ model.rotation(), atol=tolerance)
    np.testing.assert_allclose(model.inverse_transform(Z), X, atol=tolerance)
    assert model.inverse_transform(Z).dtype == expected
    few = SubspaceEncoder(n_components=2).fit(X, y)
    near = few.inverse_transform(few.transform(X).tolist())
    assert np.sum((X - near) ** 2) == pytest.approx(
        np.sum((X - few.center_) ** 2) - np.sum(few.transform(X).astype(float) ** 2), rel=1e-5
    )


def test_whole_rotation_on_request():
    X, y = frames(100, 30, 5)
    model = SubspaceEncoder().fit(X, y)
    V = model.rotation()
    np.testing.assert_array_equal(V[:, :4], model.components_.T)
    np.testing.assert_allclose(V.T @ V, np.eye(30), rtol=0, atol=1e-13)


def test_a_stream_of_blocks_is_one_fit():
    X, y = frames(3000, 15, 9)
    y = np.sort(y)[::-1] * 10  # contiguous, classes appear one after the other, in descending order
    whole, parts = SubspaceEncoder().fit(X, y), SubspaceEncoder()
    rows = np.array_split(np.arange(3000), 11)
    for part in rows:
        parts.partial_fit(X[part], y[part])
    same(parts, whole)
    stream = SubspaceEncoder().fit_blocks((X[part], y[part]) for part in rows)
    same(stream, whole)
    np.testing.assert_array_equal(stream.components_, parts.components_)


def test_frames_are_added_to_a_fitted_encoder():
    X, y = frames(400, 10, 6)
    model = SubspaceEncoder().fit(X[:300], y[:300])
    before = pickle.loads(pickle.dumps(model))
    same(model.partial_fit(X[300:], y[300:]), SubspaceEncoder().fit(X, y))
    same(before.partial_fit(X[300:], y[300:]), model)
    refitted = model.fit(X[:50], y[:50])
    same(refitted, SubspaceEncoder().fit(X[:50], y[:50]))


def test_a_first_block_with_one_class_has_no_coordinates_yet():
    X, y = frames(60, 5, 3)
    model = SubspaceEncoder().partial_fit(X[y == 0], y[y == 0])
    assert model.transform(X).shape == (60, 0) and model.components_.shape == (0, 5)
    assert model.partial_fit(X[y == 1], y[y == 1]).components_.shape == (1, 5)


def test_a_failed_block_leaves_the_encoder_as_it_was():
    X, y = frames(60, 5, 3)
    model = SubspaceEncoder().fit(X, y)
    holed = X.copy()
    holed[7, 2] = np.nan
    with pytest.raises(ValueError, match="frame 7 has NaN in feature 2"):
        model.partial_fit(holed, y)
    assert model.moments_.n == 60
    same(model, SubspaceEncoder().fit(X, y))


def test_a_memory_mapped_file(tmp_path):
    X, y = frames(5000, 30, 7)
    file = np.memmap(tmp_path / "frames", dtype=np.float32, mode="w+", shape=X.shape)
    file[:] = X
    file.flush()
    mapped = np.memmap(tmp_path / "frames", dtype=np.float32, mode="r", shape=X.shape)
    model = SubspaceEncoder().fit(mapped, y)
    same(model, SubspaceEncoder().fit(X.astype(np.float32), y))
    np.testing.assert_array_equal(model.transform(mapped), model.transform(X.astype(np.float32)))


def test_a_rotation_of_the_frames_changes_no_distance():
    X, y = frames(300, 25, 6)
    one, other = (SubspaceEncoder().fit(data, y) for data in (X, X @ rotation(25)))
    np.testing.assert_array_equal(one.predict(X), other.predict(X @ rotation(25)))


def test_energy_keeps_its_digits_with_a_distant_center():
    X, y = frames(spread=5.0)
    model = SubspaceEncoder(center=1e7).fit(X, y)
    within = sum(((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum() for k in np.unique(y))
    assert model.energy_ == pytest.approx(within, rel=1e-12)


def test_score_takes_a_column_of_labels():
    X, y = frames()
    model = SubspaceEncoder().fit(X, y)
    assert model.score(X, y[:, None]) == model.score(X, y) == np.mean(model.predict(X) == y)


def test_feature_names_and_saving(tmp_path):
    X, y = frames()
    model = SubspaceEncoder().fit(X, y)
    assert model.get_feature_names_out().tolist() == [f"subspaceencoder{i}" for i in range(4)]
    ms.storage.save_model(model, tmp_path)
    again = ms.load(tmp_path)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    same(again.partial_fit(X, y), model.partial_fit(X, y))


X, Y = frames(20, 4, 2)
HOLED = np.where(np.arange(80).reshape(20, 4) == 31, np.nan, X)
BAD = {
    "one class": (lambda: SubspaceEncoder().fit(X, 0 * Y), "there is only one class"),
    "constant frames": (lambda: SubspaceEncoder().fit(np.ones((20, 4)), Y), "all frames are equal"),
    "equal class means": (lambda: SubspaceEncoder().fit([[1, 2], [-1, 2]] * 2, [0, 0, 1, 1]), "class means are equal"),
    "NaN": (lambda: SubspaceEncoder().fit(HOLED, Y), "frame 7 has NaN in feature 3: remove or fill it"),
    "NaN, encoding": (lambda: SubspaceEncoder().fit(X, Y).transform(HOLED), "frame 7 has NaN in feature 3"),
    "NaN among the labels": (lambda: SubspaceEncoder().fit(X[:2], [1, np.nan]), "y has NaN at frame 1"),
    "an empty segment": (lambda: SubspaceEncoder().fit(X, segments=[12, 0, 8]), "segment 1 has length 0: pass lengths"),
    "segments of other frames": (
        lambda: SubspaceEncoder().fit(X, segments=[12, 9]),
        "the segments have 21 frames but X",
    ),
    "segments that are text": (lambda: SubspaceEncoder().fit(X, segments="ab"), "segments must be whole numbers"),
    "segments and labels": (
        lambda: SubspaceEncoder().fit(X, Y, segments=[20]),
        "y and segments both determine the labels",
    ),
    "more segments than frames": (lambda: SubspaceEncoder(n_segments=21).fit(X), "20 frames for n_segments=21"),
    "another dimension": (lambda: SubspaceEncoder().fit(X, Y).transform(X[:, :3]), "3 features"),
    "codes of another dimension": (lambda: SubspaceEncoder().fit(X, Y).inverse_transform(X), r"pass \(N, 1\)"),
    "no blocks": (lambda: SubspaceEncoder().fit_blocks([]), "there are no blocks"),
    "blocks of one class": (lambda: SubspaceEncoder().fit_blocks([(X, 0 * Y)]), "there is only one class"),
    "labels of two kinds": (
        lambda: SubspaceEncoder().fit(X, Y).partial_fit(X, np.array([{"a": 1}] * 20)),
        "cannot be sorted",
    ),
    "text after numbers": (lambda: SubspaceEncoder().fit(X, Y).partial_fit(X, ["a"] * 20), "use labels of one type"),
    "NaN among objects": (lambda: SubspaceEncoder().fit(X[:2], np.array([1, np.nan], object)), "y has NaN at frame 1"),
    "an infinite label": (lambda: SubspaceEncoder().fit(X[:2], [1, np.inf]), "one class per frame"),
    "a block that is not a pair": (lambda: SubspaceEncoder().fit_blocks([(X, Y), X]), "block 1 is not a pair"),
    "other labels to score": (lambda: SubspaceEncoder().fit(X, Y).score(X, Y[:1]), r"y has shape \(1,\) for 20"),
    "NaN among the codes": (lambda: SubspaceEncoder().fit(X, Y).inverse_transform([[np.nan]]), "NaN"),
    "complex codes": (lambda: SubspaceEncoder().fit(X, Y).inverse_transform(np.array([[1j]])), "Complex"),
    "a center beyond reach": (lambda: SubspaceEncoder(center=1e200).fit(X, Y), "finite numbers below 1e"),
    "squares that vanish": (lambda: SubspaceEncoder().fit(1e-200 * X, Y), "underflow in float64: scale X up"),
    "a stream as printed": (lambda: SubspaceEncoder(method="eigh").partial_fit(X, Y), "method='eigh' needs all frames"),
    "an unknown method": (lambda: SubspaceEncoder(method="svd").fit(X, Y), "method='svd' is not known"),
    "no whole number": (lambda: SubspaceEncoder(n_segments=2.5).fit(X), "n_segments=2.5 is not valid"),
    "too many coordinates": (lambda: SubspaceEncoder(n_components=5).fit(X, Y), "n_components=5 is not valid"),
}


@parametrize("case", BAD, fast=8)
def test_bad_input_raises_an_error(case):
    action, words = BAD[case]
    with pytest.raises(ValueError, match=words):
        action()
