"""Blocks, LBP-TOP, bags of systems and pyramids: against naive loops, inside scikit-learn, and their errors."""

import numpy as np
import pandas as pd
import pytest
from helpers import parametrize
from lds.sparse_problems import oscillations
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import manifoldseq as ms
from manifoldseq_lds import (
    LBPTOP,
    BagOfSystems,
    Blocks,
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSKMeans,
    PyramidPooling,
    VideoBlocks,
    dynamic_textures,
)


@pytest.mark.parametrize("stride", [None, 2, (5, 3, 4)])
def test_blocks_are_the_naive_cuts(stride):
    video = np.random.default_rng(0).random((13, 9, 8))
    size = (5, 4, 4)
    steps = size if stride is None else (2, 2, 2) if stride == 2 else stride
    found = VideoBlocks(size, stride).fit_transform([video])[0]
    starts = [range(0, n - s + 1, step) for n, s, step in zip(video.shape, size, steps, strict=True)]
    expected, places = [], []
    for t in starts[0]:
        for r in starts[1]:
            for c in starts[2]:
                expected.append([video[k, r : r + 4, c : c + 4].ravel() for k in range(t, t + 5)])
                places.append([(t + 2.5) / 13, (r + 2) / 9, (c + 2) / 8])
    np.testing.assert_array_equal(found.sequences, expected)
    np.testing.assert_allclose(found.positions, places)


@pytest.mark.parametrize(
    ("videos", "sentence"),
    [
        ([np.zeros((30, 8, 8)), np.zeros((24, 8, 8))], "video 1 has 24 x 8 x 8"),
        ([np.zeros((30, 8))], "video 0"),
        ([np.full((30, 8, 8), np.nan)], "video 0 contains a value that is not finite"),
        ([np.ma.masked_less(np.eye(3), 1)], "video 0 has masked values"),
        ([[[[1.0]], [[1.0, 2.0]]]], "video 0 has frames of different sizes"),
        ([], "no videos"),
        ("film.avi", "type str"),
    ],
)
def test_bad_videos_raise_an_error(videos, sentence):
    for transformer in (VideoBlocks((25, 8, 8)), LBPTOP(25)):
        with pytest.raises(ValueError, match=sentence):
            transformer.fit_transform(videos)


@pytest.mark.parametrize(
    "transformer",
    [VideoBlocks((0, 8, 8)), VideoBlocks(stride=(1, 2)), LBPTOP(2), LBPTOP(8, overlap=8), LBPTOP(overlap=-1)],
)
def test_bad_settings(transformer):
    with pytest.raises(ValueError, match=r"(size|stride|length|overlap)="):
        transformer.fit([])


def naive_histograms(video, length, overlap):
    """LBP-TOP by loops over pixels: eight neighbours on a circle, bilinear interpolation, uniform patterns."""
    uniform = [p for p in range(256) if bin(p ^ ((p >> 1) | ((p & 1) << 7))).count("1") <= 2]
    planes = ((1, 2), (0, 2), (0, 1))
    rows = []
    for start in range(0, len(video) - length + 1, length - overlap):
        part, row = video[start : start + length], []
        for a, b in planes:
            histogram = np.zeros(59)
            for place in np.ndindex(tuple(n - 2 for n in part.shape)):
                centre, pattern = np.array(place) + 1, 0
                for bit in range(8):
                    x, y = np.cos(bit * np.pi / 4), -np.sin(bit * np.pi / 4)
                    value = 0.0
                    for dx in (np.floor(x + 1e-9), np.ceil(x - 1e-9)):
                        for dy in (np.floor(y + 1e-9), np.ceil(y - 1e-9)):
                            spot = centre.copy()
                            spot[a] += int(dy)
                            spot[b] += int(dx)
                            share = max(1 - abs(x - dx), 0) * max(1 - abs(y - dy), 0)
                            n = (1 + (abs(x - round(x)) < 1e-9)) * (1 + (abs(y - round(y)) < 1e-9))
                            value += share * part[tuple(spot)] / n
                    pattern |= int(value >= part[tuple(centre)] - 1e-12) << bit
                histogram[uniform.index(pattern) if pattern in uniform else 58] += 1
            row.append(histogram / histogram.sum())
        rows.append(np.concatenate(row))
    return np.array(rows)


def test_lbp_top_is_the_naive_loop():
    video = np.random.default_rng(0).random((7, 6, 5))
    found = LBPTOP(4, overlap=2).fit_transform([video])[0]
    np.testing.assert_allclose(found, naive_histograms(video, 4, 2), atol=1e-12)
    assert found.shape == (2, 177)


def test_lbp_patterns_are_those_of_scikit_image():
    """The same pixels share a pattern; scikit-image numbers the patterns in another order."""
    features = pytest.importorskip("skimage.feature")
    image = np.random.default_rng(1).integers(0, 255, (40, 30), dtype=np.uint8)
    video = np.repeat(image[None].astype(float), 3, axis=0)
    theirs = np.bincount(features.local_binary_pattern(image, 8, 1, "nri_uniform")[1:-1, 1:-1].astype(int).ravel())
    ours = LBPTOP(3, overlap=0).fit_transform([video])[0][0, :59] * 38 * 28
    np.testing.assert_allclose(np.sort(ours), np.sort(np.pad(theirs, (0, 59 - len(theirs)))), atol=1e-9)
    assert round(ours[58]) == theirs[58]


def test_bag_is_the_histogram_of_nearest_codewords():
    whole = oscillations(12, T=48)
    X = [np.concatenate([x[:24], y[24:]]) for x, y in zip(whole, np.roll(whole, 1, axis=0), strict=True)]
    model = BagOfSystems(3, n_states=2, window=16, stride=8, random_state=0).fit(X)
    windows = [[x[s : s + 16] for s in range(0, 33, 8)] for x in X]
    codebook = LDSKMeans(3, n_states=2, n_init=1, max_iter=20, random_state=0).fit([w for ws in windows for w in ws])
    assert (np.count_nonzero(model.transform(X), axis=1) > 1).any()
    for row, parts in zip(model.transform(X), windows, strict=True):
        np.testing.assert_allclose(row, np.bincount(codebook.predict(parts), minlength=3) / 5)


def sines(levels=(0.0,), sizes=(1.0,), noise=0.2, turns=(0.2, 0.9)):
    """Return noisy sequences of frequencies in turn; levels and sizes of the channels alternate too."""
    rng, t, made = np.random.default_rng(0), np.arange(60)[:, None], []
    for i in range(20):
        x = np.cos(t * turns[i % len(turns)] + rng.uniform(0, 6) + [0, 1, 2]) + noise * rng.standard_normal((60, 3))
        made.append(sizes[i % len(sizes)] * x + levels[i % len(levels)])
    return made


def halves(X):
    """Return the blocks of a default window of 30 steps, and of a stride of 15: three of each sequence."""
    return [x[s : s + 30] for x in X for s in (0, 15, 30)]


CHOICES = [
    ({}, {}, {"identifier__center": False, "identifier__stabilizer": "clip", "moments": "none"}),
    ({"noise": 0.5}, {}, {"identifier__center": False, "identifier__delay": 4}),
    ({"sizes": (1.0, 3.0)}, {}, {"moments": "size"}),
    ({"levels": (0.0, 5.0), "noise": 0.5}, {}, {"moments": "level"}),
    ({"noise": 0.5}, {"identifier": LDSIdentifier(center=False, stabilizer="clip")}, {"moments": "none"}),
    ({"levels": (0.0, 5.0), "turns": (0.5,)}, {"n_states": 2, "moments": "level"}, None),
]
"""Data, settings, and what the rule chooses then."""


@parametrize(("data", "settings", "choice"), CHOICES, fast=1)
def test_bags_are_compared_with_the_settings_that_were_chosen(data, settings, choice, tmp_path):
    """Histograms are those of the codebook's own `predict`, also after a round trip through a file."""
    X = sines(**data)
    model = BagOfSystems(3, random_state=0, **settings).fit(X)
    codebook = LDSKMeans(3, n_init=1, max_iter=20, random_state=0, **settings).fit(halves(X))
    expected = [np.bincount(row, minlength=3) / 3 for row in codebook.predict(halves(X)).reshape(20, 3)]
    np.testing.assert_allclose(model.transform(X), expected)
    assert hasattr(model, "choice_") == (choice is not None)
    if choice is not None:
        assert choice.items() <= model.choice_.best_params.items()
        assert str(model.choice_).splitlines()[-1] == str(codebook.choice_).splitlines()[-1]
    assert hasattr(model, "moment_weights_") == hasattr(codebook, "moment_weights_")
    ms.storage.save_model(model, tmp_path)
    loaded = ms.load(tmp_path)
    np.testing.assert_allclose(loaded.transform(X), expected)
    assert str(getattr(loaded, "choice_", None)) == str(getattr(model, "choice_", None))
    model.set_params(n_states=2, moments="none", identifier=None).fit(X)
    assert not hasattr(model, "choice_") and not hasattr(model, "moment_weights_")


@pytest.mark.parametrize("method", ["lbfgs", "papers:grassmann"])
def test_pyramids_are_coded_with_the_settings_that_were_chosen(method, tmp_path):
    X, settings = sines(), {"method": method, "max_iter": 2, "random_state": 0}
    model = PyramidPooling(4, levels=(1,), **settings).fit(X)
    assert {"identifier__center": False, "identifier__stabilizer": "clip"}.items() <= model.choice_.best_params.items()
    codes = LDSDictionaryLearning(4, **settings).fit(halves(X)).transform(halves(X))
    expected = np.abs(codes).reshape(20, 3, 4).max(axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-9)
    ms.storage.save_model(model, tmp_path)
    np.testing.assert_allclose(ms.load(tmp_path).transform(X), expected, atol=1e-9)
    assert not hasattr(model.set_params(n_states=2).fit(X), "choice_")


def test_quality_figures_refit_with_the_settings_that_were_chosen():
    """What evaluates an estimator sets what it chose on a copy of it."""
    model = BagOfSystems(3, random_state=0).fit(sines())
    again = BagOfSystems(3, random_state=0).set_params(**model.choice_.best_params).fit(sines())
    np.testing.assert_array_equal(again.transform(sines()), model.transform(sines()))


def test_pyramid_is_the_largest_code_of_each_cell():
    """Against a loop over levels, cells and blocks; empty cells are zero."""
    rng = np.random.default_rng(0)
    positions = [np.array([[0.2, 0.2, 0.2], [0.7, 0.9, 0.6], [0.8, 0.8, 0.9]]), np.array([[0.1, 0.6, 0.4]] * 3)]
    bags = [Blocks(np.cumsum(rng.standard_normal((3, 20, 4)), axis=1), p) for p in positions]
    model = PyramidPooling(3, n_states=2, levels=(1, 2), max_iter=2, random_state=0).fit(bags)
    dictionary = model._dictionary()
    for name in ("systems_", "objective_", "scale_", "n_features_in_"):
        setattr(dictionary, name, getattr(model, name))
    for bag, row in zip(bags, model.transform(bags), strict=True):
        codes, expected = np.abs(dictionary.transform(list(bag.sequences))), []
        for level in (1, 2):
            for cell in np.ndindex(level, level, level):
                inside = [
                    z for z, p in zip(codes, bag.positions, strict=True) if tuple((p * level).astype(int)) == cell
                ]
                expected.append(np.max(inside, axis=0) if inside else np.zeros(3))
        expected = np.concatenate(expected)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-9)


@parametrize("estimator", [BagOfSystems(2, n_states=2, window=12), PyramidPooling(3, n_states=2, window=12)], fast=1)
def test_conventions(estimator):
    ms.testing.check_sequence_estimator(estimator).raise_for_failure()


@parametrize("missing", ["error", "smooth"], fast=1)
@pytest.mark.parametrize("kind", [BagOfSystems, PyramidPooling])
def test_names_of_channels_are_kept_and_compared(kind, missing, tmp_path):
    X, names = oscillations(6), ["x", "y", "z", "w"]
    frames = [pd.DataFrame(x, columns=names) for x in X]
    model = kind(2, n_states=2, identifier=LDSIdentifier(missing=missing), max_iter=1, random_state=0).fit(frames)
    assert model.feature_names_in_.tolist() == names
    ms.storage.save_model(model, tmp_path)
    assert ms.load(tmp_path).feature_names_in_.tolist() == names
    np.testing.assert_array_equal(model.transform(X), model.transform(frames))  # arrays have no names
    with pytest.raises(ValueError, match="channel 0 of X is 'w' but it was 'x' in fit: pass the channels of fit"):
        model.transform([frame[names[::-1]] for frame in frames])
    with pytest.raises(ValueError, match="channel 1 is 'w' in sequence 1 but 'y' in sequence 0: pass the same columns"):
        kind(2, n_states=2).fit([frames[0], frames[1][["x", "w", "z", "y"]], *frames[2:]])
    assert not hasattr(model.fit(X), "feature_names_in_")
    bag = Blocks(np.stack([x[:20] for x in X]), np.full((6, 1), 0.5))
    assert not hasattr(model.fit(frames).fit([bag]), "feature_names_in_")


def test_videos_through_pipelines_and_grid_search():
    """Leave one video out with chi-square machines, and a grid over codewords."""
    videos, y = dynamic_textures(12, size=16, frames=24)
    keep = np.flatnonzero(np.isin(y, (0, 1)))
    videos, y = [videos[i] for i in keep], y[keep]
    blocks = VideoBlocks((12, 8, 8)).transform(videos)
    bags = make_pipeline(BagOfSystems(3, n_states=3, max_iter=2, random_state=0), SVC(kernel=chi2_kernel))
    assert cross_val_score(bags, blocks, y, cv=LeaveOneOut()).shape == (4,)
    pyramid = make_pipeline(
        VideoBlocks((12, 8, 8)), PyramidPooling(n_states=3, max_iter=1, random_state=0), LinearSVC()
    )
    search = GridSearchCV(pyramid, {"pyramidpooling__n_atoms": [2, 3]}, cv=2).fit(videos, y)
    assert search.best_params_["pyramidpooling__n_atoms"] in (2, 3)


def test_max_blocks_and_the_hierarchical_sampler():
    bags = VideoBlocks((12, 8, 8)).transform(dynamic_textures(6, size=16, frames=24)[0])
    settings = {"n_states": 3, "max_iter": 1, "random_state": 0}
    model = PyramidPooling(4, method="pgd", batch_size=(4, 2), max_blocks=4, **settings).fit(bags)
    assert model.transform(bags).shape == (6, 36)
    assert BagOfSystems(2, max_blocks=2, **settings).fit_transform(bags).shape == (6, 2)


def test_the_sampler_is_told_the_video_of_every_block(monkeypatch):
    """The hierarchical sampler draws videos and then blocks of each: what it gets, block by block."""
    bags = VideoBlocks((12, 8, 8)).transform(dynamic_textures(6, size=16, frames=24)[0])
    seen = []

    def fit(self, X, y=None, **options):
        seen.append((X, options["groups"]))
        return learn(self, X, y, **options)

    learn = LDSDictionaryLearning.fit
    monkeypatch.setattr(LDSDictionaryLearning, "fit", fit)
    PyramidPooling(4, n_states=3, method="pgd", batch_size=(4, 2), max_blocks=3, max_iter=1, random_state=0).fit(bags)
    ((blocks, groups),) = seen
    assert np.bincount(groups).tolist() == [3] * 6
    for block, video in zip(blocks, groups, strict=True):
        assert any(np.array_equal(block, other) for other in bags[video].sequences)


def test_errors():
    X = oscillations(6)
    with pytest.raises(ValueError, match="sequence 2 has 5 time steps but a block has window=20"):
        BagOfSystems(2, n_states=2, window=20).fit([*X[:2], X[2][:5], *X[3:]])
    with pytest.raises(ValueError, match="levels="):
        PyramidPooling(2, n_states=2, levels=(0, 2)).fit(X)
    with pytest.raises(ValueError, match="max_blocks=0"):
        BagOfSystems(2, n_states=2, max_blocks=0).fit(X)
    with pytest.raises(ValueError, match="n_clusters='auto' is not valid"):
        BagOfSystems("auto", n_states=2).fit(X)
    fitted = BagOfSystems(2, n_states=2).fit(X)
    bag = Blocks(np.zeros((1, 20, 4)), np.array([[0.5]]))
    with pytest.raises(ValueError, match="fitted on sequences"):
        fitted.transform([bag])
    with pytest.raises(ValueError, match="item 1 has no blocks"):
        BagOfSystems(2).fit([bag, X[0]])
