"""`HierarchicalSequenceEncoder`: places on the path against exhaustive geometry, growth, storage, invalid input."""

import io
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import dense_path, long_path, queries
from scipy.optimize import minimize_scalar

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder


@pytest.fixture(scope="module")
def walk():
    return long_path(3000, 24, seed=0)


def means(X, length):
    return np.array([X[start : start + length].mean(axis=0) for start in range(0, len(X), length)])


def middles(n, length):
    return np.array([np.arange(start, min(start + length, n)).mean() for start in range(0, n, length)])


def with_ends(points, places, X):
    """Points and places, and before and after them the first and the last frame, as means of three."""
    return np.vstack([X[:3].mean(axis=0), points, X[-3:].mean(axis=0)]), np.r_[0, places, len(X) - 1]


def nearest_on_path(points, places, last, q):
    """The nearest point of the polygon to `q`, line by line by a scalar search; the end lines go on to the ends."""
    best = np.inf, 0.0
    for k in range(len(points) - 1):
        gap = places[k + 1] - places[k]
        low = -places[0] / gap if k == 0 else 0.0
        high = 1 + (last - places[-1]) / gap if k == len(points) - 2 else 1.0

        def distance(w, k=k):
            return ((q - (1 - w) * points[k] - w * points[k + 1]) ** 2).sum()

        w = minimize_scalar(distance, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x
        best = min([best, *((distance(v), places[k] + v * gap) for v in (w, low, high))])
    return best


@parametrize("n", [400, 413], fast=1)
@pytest.mark.parametrize("settings", [{"levels": 0}, {"levels": 1, "branching": 3}, {"levels": 2, "branching": 2}])
def test_places_are_the_nearest_on_the_path(walk, n, settings):
    X = walk[:n]
    encoder = HierarchicalSequenceEncoder(20, bits=32, beam=1000, n_components=24, **settings).fit(X)
    points, places = means(X.astype(float), 20), middles(n, 20)
    np.testing.assert_allclose(encoder.decode(places), points, atol=1e-5)
    points, places = with_ends(points, places, X.astype(float))
    np.testing.assert_allclose(encoder.decode(places), points, atol=1e-5)
    Q = X[::37] + 0.3 * np.random.default_rng(1).standard_normal(X[::37].shape)
    found, squared = encoder.query(Q.astype(np.float32))
    for q, place, value in zip(Q, found[:, 0], squared[:, 0], strict=True):
        expected, where = nearest_on_path(points, places, n - 1, q)
        assert value == pytest.approx(expected, rel=1e-4)
        assert place == pytest.approx(where, abs=0.05)


def test_best_places_are_in_order_and_on_different_lines(walk):
    encoder = HierarchicalSequenceEncoder(20, levels=0).fit(walk)
    places, squared = encoder.query(walk[:50], n_best=5, apart=0)
    assert places.shape == squared.shape == (50, 5)
    assert (np.diff(squared, axis=1) >= -1e-4).all()
    lines = np.floor((places - 9.5) / 20)
    inside = (places - 9.5) % 20 > 1e-3  # at a point two lines meet
    assert all(len(set(row[ok])) == ok.sum() for row, ok in zip(lines, inside, strict=True))
    np.testing.assert_array_equal(places[:, 0], encoder.query(walk[:50])[0][:, 0])
    few = HierarchicalSequenceEncoder(20, levels=0).fit(walk[:40]).query(walk[:3], n_best=5)[0]
    assert few.shape == (3, 5)


@parametrize("settings", [{"levels": 0}, {"levels": 1, "beam": 200}], fast=1)
def test_best_places_are_those_of_both_visits(settings):
    way = long_path(3000, 64, seed=4)
    encoder = HierarchicalSequenceEncoder(20, bits=4, **settings).fit(np.concatenate([way, way]))
    t, Q = queries(way, 200)
    places, squared = encoder.query(Q, n_best=2)
    visits = np.stack([t, t + 3000], axis=1)
    assert np.mean((np.abs(np.sort(places, axis=1) - visits) <= 10).all(axis=1)) > 0.95
    # by loops: of the lines from best to worst, the first that is far enough from those taken
    lines, values = encoder.query(Q, n_best=299, apart=0)
    for n, apart in ((4, 40), (3, 200.5)):
        places, squared = encoder.query(Q, n_best=n, apart=apart)
        for q in range(len(Q)):
            taken = []
            for k in range(299):
                if all(abs(lines[q, k] - lines[q, j]) >= apart for j in taken) and len(taken) < n:
                    taken.append(k)
            np.testing.assert_allclose(squared[q], values[q, taken], rtol=1e-5)
            np.testing.assert_array_equal(places[q], lines[q, taken])
    assert encoder.query(Q[:2], n_best=3, apart=1e9)[0].shape == (2, 3)  # there is one: it is repeated


def test_a_wide_beam_finds_what_a_full_search_finds(walk):
    full = HierarchicalSequenceEncoder(20, levels=0, beam=200).fit(walk)
    tree = HierarchicalSequenceEncoder(20, levels=3, branching=2, beam=200).fit(walk)
    np.testing.assert_allclose(tree.query(walk[::7])[0], full.query(walk[::7])[0], atol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"bits": 2, "relative": True}, {"subspace": "per-node"}])
def test_few_queries_are_placed_as_many_are(walk, settings):
    """Through nodes few queries meet only the lines of their own nodes, many whole blocks of lines."""
    Q = walk[::60] + 0.1
    exact = HierarchicalSequenceEncoder(10, levels=0, **settings).fit(walk).query(Q, n_best=2)
    encoder = HierarchicalSequenceEncoder(10, levels=1, beam=100, **settings).fit(walk)
    single = zip(*(encoder.query(q[None], n_best=2) for q in Q), strict=True)
    for found in (encoder.query(Q, n_best=2), [np.concatenate(parts) for parts in single]):
        for got, wanted in zip(found, exact, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


def test_the_compared_codes_are_recorded(tmp_path):
    """Bytes and recall of each code are those of an encoder with that code."""
    X, rng = long_path(3000, 64), np.random.default_rng(5)
    encoder = HierarchicalSequenceEncoder().fit(X)
    (step,) = encoder.choice_.steps
    assert step.error is not None and len(step.params) == 4
    at = np.sort(rng.integers(20, 2980, size=800))
    apart = np.sqrt(np.median(np.square(X[at + 10] - X[at]).sum(axis=1)) / 64)
    Q = X[at] + apart * rng.standard_normal((800, 64))
    for one, recall, error, size in zip(
        step.params, step.figure, step.error, step.columns["bytes per frame"], strict=True
    ):
        given = HierarchicalSequenceEncoder(**one).fit(X)
        assert size == given.storage_report().per_frame and not hasattr(given, "choice_")
        found = abs(given.predict(Q) - at) <= 10
        assert abs(recall - found.mean()) <= 6 * error + 0.02
        assert error == pytest.approx(np.sqrt(recall * (1 - recall) / 799), rel=1e-9)
    assert encoder.choice_.best_params == step.params[step.chosen[0]]
    assert encoder.estimated_recall_ == step.figure[step.chosen[0]] >= step.figure.max() - 0.02
    ms.storage.save_model(encoder, tmp_path)
    assert str(ms.load(tmp_path).choice_) == str(encoder.choice_)
    budget = HierarchicalSequenceEncoder(bytes_per_frame=1).fit(X)
    assert set(budget.choice_.best_params) == {"bits", "relative"}
    again = HierarchicalSequenceEncoder(bytes_per_frame=1, **budget.choice_.best_params).fit(X)
    assert (again.segment_length_, again.estimated_recall_) == (budget.segment_length_, budget.estimated_recall_)
    assert not hasattr(encoder.set_params(bits=2).fit(X), "choice_")


def test_a_way_that_comes_back_is_not_a_miss():
    """A frame that is found on the other visit is found, also where the codes are chosen."""
    way = long_path(3000, 64)
    X = np.concatenate([way, way[::-1]])
    encoder = HierarchicalSequenceEncoder(bytes_per_frame=4).fit(X)
    assert encoder.estimated_recall_ > 0.98
    at = np.random.default_rng(0).integers(6000, size=500)
    found = encoder.predict(X[at] + 0.5 * np.random.default_rng(1).standard_normal((500, 64), dtype=np.float32))
    place = np.r_[:3000, 2999:-1:-1]
    assert np.mean(np.abs(place[found] - place[at]) <= 10) > 0.98


@pytest.mark.parametrize(
    ("settings", "least"),
    [({}, 0.9), ({"bits": 1}, 0.7), ({"bits": 8}, 0.95), ({"bits": 32}, 0.95), ({"summary": "key"}, 0.85),
     ({"subspace": "per-node", "bits": 8}, 0.9), ({"subspace": "per-node", "n_components": 3, "bits": 8}, 0.6)],
)  # fmt: skip
def test_noisy_frames_are_found(settings, least):
    X = long_path(4000, 64, seed=1)
    t, Q = queries(X, 200, noise=0.5, seed=1)
    assert HierarchicalSequenceEncoder(**settings).fit(X).score(Q, t) > least


def test_a_truncated_subspace_is_that_of_the_closed_form():
    rng = np.random.default_rng(0)
    X = (
        long_path(4000, 40, seed=2)
        * np.geomspace(3, 0.01, 40).astype(np.float32)
        @ np.linalg.qr(rng.standard_normal((40, 40)))[0].astype(np.float32)
    )
    encoder = HierarchicalSequenceEncoder(20, n_components=10, bits=8).fit(X)
    B = np.sqrt(20) * (means(X.astype(float), 20) - X.mean(axis=0, dtype=float))
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    np.testing.assert_allclose(encoder.singular_values_, s, rtol=1e-6)
    np.testing.assert_allclose(encoder.components_.T @ encoder.components_, Vt[:10].T @ Vt[:10], atol=1e-5)
    t, Q = queries(X, 200, noise=0.05, seed=0)
    assert encoder.score(Q, t) > 0.95


def test_bytes_are_those_of_the_arrays(walk):
    # identity: codes of two bits, the origin and the scales in float32
    report = HierarchicalSequenceEncoder(20, bits=2).fit(walk).storage_report()
    assert report.parts["codes"] == 150 * 24 * 2 // 8
    assert report.parts["subspace"] == report.parts["quantizer"] == 24 * 4
    assert report.parts["ends"] == 2 * 24 * 2 // 8 and report.parts["numbers"] == 5 * 8
    assert report.total == sum(report.parts.values()) and report.per_frame == report.total / 3000
    truncated = HierarchicalSequenceEncoder(20, n_components=8, bits=8).fit(walk).storage_report()
    assert truncated.parts["codes"] == 150 * 8 and truncated.parts["subspace"] == 4 * 24 * (8 + 1)
    nodes = HierarchicalSequenceEncoder(20, subspace="per-node", branching=5, bits=8).fit(walk).storage_report()
    assert nodes.parts["subspace"] == 4 * 24 * (1 + 30 * (1 + 4)) and nodes.parts["codes"] == 150 * 4
    assert HierarchicalSequenceEncoder(20, bits=2).fit(walk[:2990]).storage_report().parts["growth"] == 24 * 8


def test_what_is_saved_is_not_more_than_what_is_counted(walk, tmp_path):
    encoder = HierarchicalSequenceEncoder(20).fit(walk)
    encoder.query(walk[:5])  # the decoded points are not saved
    ms.storage.save_model(encoder, tmp_path)
    with np.load(tmp_path / "model.npz") as arrays:
        # but for what predictions do not use
        saved = sum(
            arrays[name].nbytes for name in arrays.files if not name.startswith(("singular_values_", "choice_"))
        )
    assert saved <= encoder.storage_report().total
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.query(walk[::50])[0], encoder.query(walk[::50])[0])


@pytest.mark.parametrize("settings", [{"subspace": "per-node"}, {"summary": "key"}, {"bits": 3, "relative": True}])
def test_every_kind_survives_files_and_pickle(walk, tmp_path, settings):
    encoder = HierarchicalSequenceEncoder(20, **settings).fit(walk)
    ms.storage.save_model(encoder, tmp_path)
    for again in (ms.storage.load_model(tmp_path), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(again.predict(walk[::50]), encoder.predict(walk[::50]))


SETTINGS = [
    {},
    {"levels": 1},
    {"bits": 8},
    {"bits": 2, "relative": True},
    {"subspace": "per-node"},
    {"summary": "key"},
    {"n_components": 30, "bits": 8},
]


@pytest.mark.parametrize("settings", SETTINGS)
@parametrize("n", [2000, 2017, 2001, 2003], fast=1)  # a last segment that is full, half full, and of one or three
def test_the_ends_are_places_as_others_are(settings, n):
    """The first and the last point lie half a segment from them: lines that only went on missed them by 15 frames."""
    X = long_path(n, 64, seed=3)
    encoder = HierarchicalSequenceEncoder(40, **settings).fit(X)
    ends = np.r_[0:5, n - 5 : n]
    Q = np.concatenate([X[ends]] * 20) + 0.3 * np.random.default_rng(0).standard_normal((200, 64), dtype=np.float32)
    for found in (encoder.predict(Q), [encoder.predict(q[None])[0] for q in Q]):
        assert np.mean(np.abs(found - np.tile(ends, 20)) <= 8) > 0.95


@pytest.mark.parametrize("settings", [{"bits": 8}, {"bits": 2, "relative": True}])
def test_a_grown_way_ends_at_its_last_frame(settings):
    X = long_path(3000, 64, seed=1)
    encoder = HierarchicalSequenceEncoder(40, **settings).fit(X[:2000])
    for stop in (2500, 2501, 2502, 2503, 2520, 3000):
        encoder.partial_fit(X[encoder.n_frames_ : stop])
        ends = np.r_[0:3, stop - 3 : stop]
        assert np.abs(encoder.predict(X[ends]) - ends).max() <= 6


@pytest.mark.parametrize("settings", [{"bits": 1}, {"bits": 2}, {"bits": 2, "relative": True}])
def test_the_end_of_a_way_that_grows_frame_by_frame_is_that_of_one_portion(settings):
    X = long_path(1700, 32, seed=2)
    whole = HierarchicalSequenceEncoder(20, **{"relative": False} | settings).fit(X[:1500]).partial_fit(X[1500:])
    parts = HierarchicalSequenceEncoder(20, **{"relative": False} | settings).fit(X[:1500])
    for t in range(1500, 1700):
        parts.partial_fit(X[t : t + 1])  # a third of a step is less than a level
    np.testing.assert_array_equal(parts.index_.ends, whole.index_.ends)
    assert parts.storage_report().parts["growth"] == 2 * 4 * 32


def test_a_truncated_file_raises_an_error(walk, tmp_path):
    ms.storage.save_model(HierarchicalSequenceEncoder(20).fit(walk), tmp_path)
    file = tmp_path / "model.npz"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ms.storage.ModelError, match="damaged or replaced"):
        ms.storage.load_model(tmp_path)


@pytest.mark.parametrize("settings", [{"bits": 2}, {"bits": 2, "relative": True}])
@pytest.mark.parametrize("cuts", [(1500,), (1490, 1495, 1497, 2200), (1, 2999), tuple(range(70, 3000, 70))])
def test_growth_in_any_portions_is_the_same(walk, cuts, settings):
    first = walk[:1400]
    whole = HierarchicalSequenceEncoder(20, **settings).fit(first).partial_fit(walk)
    parts = HierarchicalSequenceEncoder(20, **settings).fit(first)
    for part in np.split(walk, cuts):
        parts.partial_fit(part)
    np.testing.assert_array_equal(parts.index_.codes, whole.index_.codes)
    np.testing.assert_array_equal(parts.index_.points, whole.index_.points)
    np.testing.assert_array_equal(parts.index_.places, whole.index_.places)
    assert parts.n_frames_ == whole.n_frames_ == 4400
    np.testing.assert_allclose(parts.tail_, whole.tail_, atol=1e-9)
    assert whole.score(walk[2000:2100], np.arange(3400, 3500)) > 0.9


def test_growth_appends_the_codes_of_the_new_segments(walk):
    encoder = HierarchicalSequenceEncoder(20, bits=32).fit(walk[:1410])
    encoder.partial_fit(walk[1410:])
    np.testing.assert_allclose(encoder.decode(middles(3000, 20)), means(walk.astype(float), 20), atol=1e-5)


@pytest.mark.parametrize("settings", [{"subspace": "per-node"}, {"summary": "key"}])
def test_growth_that_is_not_possible_raises_an_error(walk, settings):
    encoder = HierarchicalSequenceEncoder(20, **settings).fit(walk)
    with pytest.raises(ValueError, match="fit all frames again"):
        encoder.partial_fit(walk)


def test_short_sequences_get_short_segments(walk):
    encoder = HierarchicalSequenceEncoder(40, branching=4).fit(walk[:100])
    assert encoder.segment_length_ == 12 and encoder.score(walk[:100], np.arange(100)) > 0.9
    assert HierarchicalSequenceEncoder().fit(walk[:8]).predict(walk[:8]).tolist() == list(range(8))


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("settings", [{}, {"bits": 8}, {"segment_length": 40}])
def test_a_few_frames_are_a_sequence(walk, n, settings):
    encoder = HierarchicalSequenceEncoder(**settings).fit(walk[: 10 * n : 10])
    assert encoder.predict(walk[: 10 * n : 10]).tolist() == list(range(n))
    assert encoder.match(walk[: 10 * n : 10], smooth=True).shape == (n,)


def test_levels_end_at_one_node(walk):
    many, few = (HierarchicalSequenceEncoder(20, levels=levels).fit(walk) for levels in (10**9, 3))
    assert len(many.index_.nodes) == 3
    np.testing.assert_array_equal(many.predict(walk[::50]), few.predict(walk[::50]))


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_a_large_common_offset_is_taken_off_first(walk, offset):
    near = walk.astype(float)  # float32 resolves 64 at 1e9
    far, plain = (HierarchicalSequenceEncoder(20, bits=32).fit(X) for X in (near + offset, near))
    (places, squared), (expected, at) = far.query(near[::37] + offset), plain.query(near[::37])
    np.testing.assert_allclose(places, expected, atol=0.1)
    np.testing.assert_allclose(squared, at, atol=0.05)


@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_frames_of_any_usual_size(walk, scale):
    plain, scaled = (HierarchicalSequenceEncoder(20).fit(X) for X in (walk, scale * walk.astype(float)))
    found = scaled.predict(scale * walk[::50].astype(float))
    np.testing.assert_allclose(found, plain.predict(walk[::50]), atol=1)


def test_a_rejected_refit_leaves_the_encoder_as_it_was(walk):
    encoder = HierarchicalSequenceEncoder(20, n_components=8).fit(walk)
    before = encoder.query(walk[::50])
    with pytest.raises(ValueError, match="at least 256 segments"):
        encoder.set_params(n_components=None, n_groups=4, segment_length=40).fit(walk)
    np.testing.assert_array_equal(encoder.query(walk[::50]), before)


@pytest.mark.parametrize(("settings", "n"), [({}, 24), ({"n_components": 5}, 5)])
def test_names_of_coordinates(walk, settings, n):
    encoder = HierarchicalSequenceEncoder(20, **settings).fit(walk)
    assert len(encoder.get_feature_names_out()) == n == encoder.transform(walk[:2]).shape[1]


def test_a_denser_path_takes_no_more_bytes():
    sizes = [
        HierarchicalSequenceEncoder(40 * k, bits=2).fit(dense_path(2000 * k, 16, length=2000)).storage_report().total
        for k in (1, 4, 16)
    ]
    assert len(set(sizes)) == 1


def test_real_types_and_memory_maps(walk, tmp_path):
    X = np.clip(40 * walk + 128, 0, 255).astype(np.uint8)
    np.save(tmp_path / "frames.npy", X)
    mapped = HierarchicalSequenceEncoder(20).fit(np.load(tmp_path / "frames.npy", mmap_mode="r"))
    np.testing.assert_array_equal(
        mapped.index_.codes, HierarchicalSequenceEncoder(20).fit(X.astype(float)).index_.codes
    )


def test_scikit_learn_conventions():
    ms.testing.check_estimator(HierarchicalSequenceEncoder()).raise_for_failure()
    ms.testing.check_estimator(HierarchicalSequenceEncoder(2, branching=2, bits=8)).raise_for_failure()


def test_product_quantization():
    pytest.importorskip("faiss", reason="faiss is not installed")
    X = long_path(12_000, 32, seed=0)
    t, Q = queries(X, 200, seed=0)
    encoder = HierarchicalSequenceEncoder(20, n_groups=8).fit(X)
    report = encoder.storage_report()
    assert report.parts["codes"] == 600 * 8 and report.parts["quantizer"] == 256 * 32 * 4
    assert encoder.score(Q, t) > 0.7
    with pytest.raises(ValueError, match="does not divide"):
        HierarchicalSequenceEncoder(20, n_groups=7).fit(X)
    with pytest.raises(ValueError, match="pass bits instead of n_groups, or pass more frames"):
        HierarchicalSequenceEncoder(200, n_groups=8).fit(X)


@parametrize(
    ("settings", "sentence"),
    [({"segment_length": 0}, "segment_length=0"), ({"segment_length": 2.5}, "segment_length=2.5"),
     ({"branching": 1}, "at least 2"), ({"levels": -1}, "at least 0"), ({"bits": 5}, "choose 1, 2, 3, 4"),
     ({"bits": 4, "relative": True}, "choose 1, 2, 3"),
     ({"bytes_per_frame": 0.01}, "pass at least"),
     ({"bytes_per_frame": 1, "n_groups": 2}, "default values of subspace and n_groups"),
     ({"bytes_per_frame": 1, "subspace": "per-node"}, "default values of subspace and n_groups"),
     ({"relative": True, "n_groups": 2}, "remove these two arguments"),
     ({"segment_length": "long"}, "segment_length='long'"),
     ({"subspace": "own"}, "'shared' or 'per-node'"),
     ({"summary": "max"}, "'mean' or 'key'"), ({"beam": 0}, "beam=0"), ({"n_groups": 0}, "n_groups=0"),
     ({"n_components": 25}, "None or a whole number from 1 to 24"),
     ({"bits": 2.0}, "bits=2.0"), ({"branching": True}, "branching=True"),
     ({"branching": 3001, "levels": 1}, "X has 3000 frames, fewer than branching=3001")], fast=6,
)  # fmt: skip
def test_settings_that_do_not_fit_raise_an_error(walk, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        HierarchicalSequenceEncoder(**{"segment_length": 20, **settings}).fit(walk)


def test_frames_that_do_not_fit_raise_an_error(walk):
    encoder = HierarchicalSequenceEncoder(20).fit(walk)
    broken = walk[:400].copy()
    broken[13, 5] = np.nan
    for use in (HierarchicalSequenceEncoder(20).fit, encoder.partial_fit):
        with pytest.raises(ValueError, match="frame 13 has NaN in feature 5"):
            use(broken)
    with pytest.raises(ValueError, match="frame 13 has NaN in feature 5"):
        encoder.predict(broken)
    with pytest.raises(ValueError, match="frames 2 to 2 overflow"):
        encoder.predict(walk[:3].astype(float) * [[1], [1], [1e30]])
    for scale in (1e-30, 1e30):
        with pytest.raises(ValueError, match="whose squares are out of range in single precision: scale X"):
            HierarchicalSequenceEncoder(20).fit(scale * walk.astype(float))
    with pytest.raises(ValueError, match="whose squares are out of range in single precision: scale X"):
        encoder.partial_fit(1e30 * walk.astype(float))
    with pytest.raises(ValueError, match="same mean"):
        HierarchicalSequenceEncoder(20).fit(np.ones((400, 3)))
    with pytest.raises(ValueError, match="features"):
        encoder.predict(walk[:, :5])
    for use in (HierarchicalSequenceEncoder(20).fit, encoder.partial_fit, encoder.predict, encoder.match):
        with pytest.raises(ValueError, match=r"^X has shape \(24,\), but rows must be frames"):
            use(walk[0])
    with pytest.raises(ValueError, match="n_best=0"):
        encoder.query(walk[:2], n_best=0)
    with pytest.raises(ValueError, match="apart=-1"):
        encoder.query(walk[:2], n_best=2, apart=-1)
    with pytest.raises(ValueError, match="more than the 3000 frames"):
        encoder.query(walk[:2], n_best=10**12)
    with pytest.raises(ValueError, match="beam=-1"):
        HierarchicalSequenceEncoder(20).fit(walk).set_params(beam=-1).query(walk[:2])
    with pytest.raises(ValueError, match=r"y has shape \(1,\) for 2 frames"):
        encoder.score(walk[:2], [0])
    with pytest.raises(ValueError, match="tolerance=-1"):
        encoder.score(walk[:2], [0, 1], tolerance=-1)
    with pytest.raises(ValueError, match="pass y, the index of the true frame"):
        encoder.score(walk[:2])
    assert encoder.score(walk[:9], np.arange(9)[:, None]) == encoder.score(walk[:9], np.arange(9))
    with pytest.raises(ValueError, match="pass indices from 0 to 2999"):
        encoder.decode([3000])
    with pytest.raises(ValueError, match="pass indices from 0 to 2999"):
        encoder.decode("last")
    assert encoder.n_frames_ == 3000, "a portion that raises an error has no effect"


def drifting(seed):
    """A walk that does not return, and noisy frames of it."""
    X = np.cumsum(np.random.default_rng(seed).standard_normal((20_000, 64)), axis=0)
    return X, *queries(X, 500, seed=seed)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_way_that_wanders_off_is_found_by_default(seed):
    X, t, Q = drifting(seed)
    encoder = HierarchicalSequenceEncoder().fit(X)
    report = encoder.storage_report()
    assert encoder.relative_ and report.per_frame <= 0.65 and encoder.score(Q, t) >= 0.9
    assert abs(encoder.estimated_recall_ - encoder.score(Q, t)) < 0.06
    plain = HierarchicalSequenceEncoder(bits=2).fit(X)
    assert plain.score(Q, t) < 0.5 and not plain.relative_


def test_a_way_that_returns_keeps_two_bits():
    X = long_path(20_000, 64)
    t, Q = queries(X, 500)
    encoder = HierarchicalSequenceEncoder().fit(X)
    plain = HierarchicalSequenceEncoder(encoder.segment_length_, bits=2).fit(X)
    assert encoder.score(Q, t) >= plain.score(Q, t) and encoder.storage_report().total <= plain.storage_report().total


@parametrize("budget", [0.4, 0.65, 2.0], fast=1)
def test_a_budget_is_kept_and_used(budget):
    X = long_path(20_000, 32)
    encoder = HierarchicalSequenceEncoder(bytes_per_frame=budget).fit(X)
    report = encoder.storage_report()
    assert 0.8 * budget < report.per_frame <= budget
    t, Q = queries(X, 400)
    for bits, relative in ((1, False), (4, False), (2, True)):
        other = HierarchicalSequenceEncoder(bytes_per_frame=budget, bits=bits, relative=relative).fit(X)
        assert other.storage_report().per_frame <= budget and other.bits_ == bits and other.relative_ is relative
        assert encoder.score(Q, t) >= other.score(Q, t) - 0.06


def test_a_budget_that_finds_little_says_so():
    X, *_ = drifting(0)
    with pytest.warns(UserWarning, match="allow more bytes_per_frame"):
        encoder = HierarchicalSequenceEncoder(bytes_per_frame=0.65).fit(X[:2000])
    t, Q = queries(X[:2000], 500, noise=1.8)
    assert abs(encoder.estimated_recall_ - encoder.score(Q, t)) < 0.1


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_few_columns_are_estimated_as_they_are_found(d):
    """The same values at other places are no visit: one column finds its frames at the rate of chance."""
    X = np.cumsum(np.random.default_rng(0).standard_normal((2000, d)), axis=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "only [0-9]+% of noisy copies")
        encoder = HierarchicalSequenceEncoder().fit(X)
        plain = HierarchicalSequenceEncoder(bits=2, relative=False).fit(X)
    t = np.random.default_rng(1).integers(2000, size=500)
    Q = X[t] + np.sqrt(10) * np.random.default_rng(2).standard_normal((500, d))
    assert encoder.bits_ >= 4 and abs(encoder.estimated_recall_ - encoder.score(Q, t)) < 0.2
    assert encoder.score(X, np.arange(2000)) > plain.score(X, np.arange(2000))


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_relative_codes_by_loops(walk, bits):
    """The mean of eight points in eight bits, and the nearest level of what is left, coordinate by coordinate."""
    X = walk[:1300]  # 65 points: eight groups, and one point
    encoder = HierarchicalSequenceEncoder(20, bits=bits, relative=True).fit(X)
    index, points = encoder.index_, means(X.astype(float), 20)
    found = encoder.decode(middles(1300, 20))
    step = index.quantizer.coarse.scale  # a 255th of the range
    levels = np.unique((index.quantizer.fine.decode(index.codes) / index.quantizer.fine.scale).round(5))
    assert len(levels) == 2**bits
    for g in range(8):
        rows = slice(8 * g, 8 * g + 8)
        mean = points[rows].mean(axis=0)
        kept = index.quantizer.coarse.decode(index.means[g : g + 1])[0] + encoder.center_
        assert (np.abs(kept - mean) <= 1.01 * step).all()
        left = np.abs((points[rows] - kept)[..., None] - levels * index.quantizer.fine.scale[:, None]).min(axis=-1)
        assert (np.abs(found[rows] - points[rows]) <= left + 1.01 * step + 1e-4).all()
    assert (np.abs(found[64] - points[64]) <= 0.51 * step).all()
    report = encoder.storage_report()
    assert report.parts["codes"] == 64 * 3 * bits + 8 * 24 + 24 and report.parts["quantizer"] == 2 * 4 * 24


@pytest.mark.parametrize("settings", [{}, {"levels": 1}, {"bits": 2, "relative": True}, {"bits": 1, "levels": 1}])
def test_memory_while_searching_is_that_of_the_codes(settings):
    X = long_path(40_000, 32)
    encoder = HierarchicalSequenceEncoder(10, **{"bits": 2, **settings}).fit(X)
    encoder.predict(X[:1])
    before = len(pickle.dumps(encoder))
    tracemalloc.start()
    encoder.predict(X[7:8])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    report = encoder.storage_report()
    made = report.resident - report.total
    assert report.resident <= 1.5 * report.total + 65_536
    assert peak <= made + 200_000  # of numpy, and a few numbers for each of the lines compared
    fresh = HierarchicalSequenceEncoder(10, **{"bits": 2, **settings}).fit(X)
    assert before == len(pickle.dumps(fresh)), "what a search makes is not pickled"


def test_storage_report_reads_as_a_table(walk):
    text = str(HierarchicalSequenceEncoder(20).fit(walk).storage_report())
    assert "codes" in text and "per frame, 3000 frames" in io.StringIO(text).readlines()[-2]
    assert type(HierarchicalSequenceEncoder(20).fit(walk).index_).__name__ == "Path"
