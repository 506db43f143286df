"""Convolutional features against naive loops, their conventions and bad input."""

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq_hope import HOPE, ConvolutionalFeatures, PCAMovMF, SphericalKMeans, VonMisesFisherMixture

DIGITS, LABELS = load_digits(return_X_y=True)
IMAGES = DIGITS.reshape(-1, 8, 8)[:24]
N = len(IMAGES)


def naive(
    model, images, patch=(3, 3), stride=(1, 1), grid=(2, 2), threshold=0.0, power=0.5, respond=None, overlap=False
):
    """Return features by loops over images, patches and pixels; constant patches give nothing."""
    respond = respond or (lambda x: model.log_contributions(x[None])[0] - np.log(model.weights_))
    found = []
    for image in images.astype(float):
        (H, W), (h, w) = image.shape[:2], patch
        down, right = range(0, H - h + 1, stride[0]), range(0, W - w + 1, stride[1])
        sums = None
        for a, i in enumerate(down):
            for b, j in enumerate(right):
                x = image[i : i + h, j : j + w].ravel()
                if np.ptp(x) == 0:
                    continue
                eta = np.maximum(respond((x - x.mean()) / x.std()) - threshold, 0)
                sums = np.zeros((grid[0] * grid[1], len(eta))) if sums is None else sums
                where = ((a, len(down), grid[0]), (b, len(right), grid[1]))
                if overlap:  # distances to the centres of cells in widths of cells, a patch reaching from at to at + 1
                    far = [[abs((at + 0.5) / (n / cells) - (c + 0.5)) for c in range(cells)] for at, n, cells in where]
                    for c, (i_cell, j_cell) in enumerate(np.ndindex(*grid)):
                        sums[c] += max(0, 1 - far[0][i_cell]) * max(0, 1 - far[1][j_cell]) * eta
                    continue
                cell = [
                    next(c for c, part in enumerate(np.array_split(np.arange(n), cells)) if at in part)
                    for at, n, cells in where
                ]
                sums[cell[0] * grid[1] + cell[1]] += eta
        found.append(np.zeros(0) if sums is None else sums.ravel() ** power)
    width = max(map(len, found))
    return np.array([row if len(row) else np.zeros(width) for row in found])


MIXTURES = [
    HOPE(7, n_latent=4, kappa=20.0),
    HOPE(7, n_latent=4, normalize_z=False),
    HOPE(3, n_latent=8, normalize_z=False),
    HOPE(7, n_latent=4, family="gmm", max_iter=20),
    HOPE(4, n_latent=3, family="gmm-full", prepare=None, max_iter=20),
    PCAMovMF(7, n_latent=4),
    VonMisesFisherMixture(7, kappa="shared"),
]


@parametrize("model", MIXTURES, fast=2, ids=lambda model: f"{type(model).__name__}-{model.n_components}")
def test_features_are_those_of_loops(model):
    features = ConvolutionalFeatures(model, patch_size=3, n_patches=700, random_state=0).fit(IMAGES)
    expected = naive(features.model_, IMAGES, threshold=features.threshold_)
    assert features.transform(IMAGES).shape == (N, 4 * model.n_components) and expected.any()
    np.testing.assert_allclose(features.transform(IMAGES), expected, atol=1e-6)
    np.testing.assert_allclose(features.transform(IMAGES.astype(np.float32)), expected, atol=0.02)


def test_other_units_are_those_of_loops():
    def cosine(x):
        return centres @ x / np.linalg.norm(x)

    def distance(x):
        return np.linalg.norm(x - centres, axis=1)

    def triangle(x):
        return distance(x).mean() - distance(x)

    for model, kmeans, respond in (
        (SphericalKMeans(6), "triangle", cosine),
        (KMeans(6, n_init=1), "triangle", triangle),
        (MiniBatchKMeans(6, n_init=1), "distance", distance),
    ):
        features = ConvolutionalFeatures(
            model, patch_size=3, n_patches=1000, kmeans=kmeans, quantile=0.5, random_state=0
        ).fit(IMAGES)
        centres = features.model_.cluster_centers_
        expected = naive(None, IMAGES, threshold=features.threshold_, respond=respond)
        np.testing.assert_allclose(features.transform(IMAGES), expected, atol=1e-6)


def test_weights_power_stride_grid_and_shape():
    model = HOPE(5, n_latent=3, random_state=0)
    settings = {"patch_size": (2, 4), "stride": (2, 1), "pooling": (3, 2), "power": 1.0, "n_patches": 400}
    images = IMAGES.reshape(-1, 4, 16)[:, :, :11]
    features = ConvolutionalFeatures(model, keep_weights=True, threshold=-3.0, random_state=0, **settings)
    with pytest.raises(ValueError, match=r"images of 4 x 11 pixels .* smaller than the 6 x 5 .*pooling=\(3, 2\)"):
        features.fit(images)
    features.set_params(pooling=(2, 3)).fit(images)
    expected = naive(
        features.model_,
        images,
        (2, 4),
        (2, 1),
        (2, 3),
        -3.0,
        1.0,
        lambda x: features.model_.log_contributions(x[None])[0],
    )
    np.testing.assert_allclose(features.transform(images), expected, atol=1e-6)
    rows = ConvolutionalFeatures(**features.get_params(deep=False)).set_params(image_shape=(4, 11))
    np.testing.assert_array_equal(rows.fit(images.reshape(N, -1)).transform(images), features.transform(images))
    assert len(features.get_feature_names_out()) == 6 * 5


@parametrize("overlap", [False, True], fast=1)
def test_channels_and_cells_that_overlap_are_those_of_loops(overlap):
    images = np.stack([IMAGES, IMAGES[::-1], IMAGES.transpose(0, 2, 1)], axis=-1)[:, :7]
    images[:, :4, :5] = images[:, :4, :5, :1] * [1, 0, 0] + [0, 3, 4]  # patches that vary in one channel only
    images[5] = 7  # and an image that is constant
    images[6] = [1, 2, 3]  # each channel is, their patches are not
    settings = {"patch_size": (3, 2), "pooling": (3, 2), "overlap": overlap, "n_patches": 900, "random_state": 0}
    features = ConvolutionalFeatures(HOPE(5, n_latent=6, kappa=20.0), **settings).fit(images)
    found = features.transform(images)
    expected = naive(features.model_, images, (3, 2), (1, 1), (3, 2), features.threshold_, overlap=overlap)
    assert features.image_shape_ == (7, 8, 3) and found[6].any() and not found[5].any()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    features.set_params(image_shape=(7, 8, 3))
    np.testing.assert_array_equal(features.fit(images.reshape(N, -1)).transform(images), found)
    one = ConvolutionalFeatures(HOPE(5, n_latent=6, kappa=20.0), **settings).fit(IMAGES[..., None])
    assert one.image_shape_ == (8, 8)
    np.testing.assert_array_equal(one.transform(IMAGES), one.transform(IMAGES[..., None]))


def test_a_second_layer_learns_from_the_cells_of_the_first():
    first = ConvolutionalFeatures(HOPE(6, n_latent=4, kappa=20.0), patch_size=3, pooling=4, random_state=0)
    second = ConvolutionalFeatures(
        HOPE(5, n_latent=8, kappa=20.0), patch_size=2, pooling=1, image_shape=(4, 4, 6), random_state=0
    )
    both = make_pipeline(first, second).fit(IMAGES)
    maps = first.transform(IMAGES).reshape(N, 4, 4, 6)
    expected = naive(second.model_, maps, (2, 2), (1, 1), (1, 1), second.threshold_)
    np.testing.assert_allclose(both.transform(IMAGES), expected, atol=1e-6)


@pytest.mark.slow
def test_quadrants_of_23_are_12_and_11_and_pieces_do_not_matter():
    """28 x 28 pixels, patches of 6 x 6 (6.1.1); more images than are held at a time."""
    images = np.random.default_rng(0).integers(256, size=(70, 28, 28)).astype(np.uint8)
    images[1, :20] = 0
    features = ConvolutionalFeatures(HOPE(9, n_latent=5, kappa=30.0), n_patches=500, random_state=0).fit(images)
    whole = features.transform(images)
    alone = np.concatenate([features.transform(image[None]) for image in images])
    np.testing.assert_allclose(alone, whole, rtol=2e-3, atol=2e-3)
    some = [0, 1, 26, 27, 28, 69]
    exact = naive(features.model_, images[some], (6, 6), threshold=features.threshold_)
    np.testing.assert_allclose(whole[some], exact, rtol=2e-3, atol=5e-3)
    # every unit answers to a model of one component: its sums count the 144, 132, 132 and 121 patches of the quadrants
    everywhere = ConvolutionalFeatures(PCAMovMF(1, n_latent=5), quantile=0.0, power=1.0, n_patches=500, random_state=0)
    everywhere.fit(images[2:]).threshold_ = -1e6
    np.testing.assert_allclose(everywhere.transform(images[2:3])[0], 1e6 * np.array([144, 132, 132, 121]), rtol=1e-3)


@pytest.mark.parametrize("model", [HOPE(30, n_latent=4, kappa=40.0), KMeans(6, n_init=1)])
def test_features_do_not_depend_on_how_patches_are_grouped(model):
    """300 images have 10,800 patches, some thousand of which are taken at a time."""
    images = DIGITS.reshape(-1, 8, 8)[:300]
    features = ConvolutionalFeatures(model, patch_size=3, n_patches=1000, random_state=0).fit(images)
    whole = features.transform(images)
    alone = np.concatenate([features.transform(image[None]) for image in images])
    np.testing.assert_allclose(alone, whole, atol=1e-6)


def test_threshold_is_the_quantile_of_responses():
    features = ConvolutionalFeatures(
        HOPE(7, n_latent=4, kappa=20.0), patch_size=3, quantile=0.7, power=1.0, random_state=0
    )
    features.fit(IMAGES)  # fewer patches than n_patches: all of them are used
    windows = np.lib.stride_tricks.sliding_window_view(IMAGES, (3, 3), axis=(1, 2)).reshape(-1, 9)
    x = windows[np.ptp(windows, axis=1) > 0]
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    phi = features.model_.log_contributions(x) - np.log(features.model_.weights_)
    assert features.threshold_ == pytest.approx(np.quantile(phi, 0.7), abs=1e-9)


@pytest.mark.slow
def test_blank_images_and_flat_patches_give_zeros():
    images = np.concatenate([IMAGES, np.full((1, 8, 8), 7.0), np.zeros((1, 8, 8))])
    images[0, :, :4] = 3.3
    for scale, shift in ((1, 0), (1e-3, 0.1), (1e6, 1e7)):
        moved = images * scale + shift
        features = ConvolutionalFeatures(HOPE(7, n_latent=4, kappa=20.0), patch_size=3, random_state=0).fit(moved)
        found = features.transform(moved)
        assert np.isfinite(found).all() and not found[-2:].any() and found[0].any()
        assert not features.transform(moved.astype(np.float32))[-2:].any()
        np.testing.assert_allclose(found, naive(features.model_, images, threshold=features.threshold_), atol=1e-5)
    with pytest.raises(ValueError, match="every patch of X is constant"):
        features.fit(images[-2:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model", [HOPE(7, n_latent=4, kappa=20.0, max_iter=3), SphericalKMeans(5), KMeans(5, n_init=1)]
)
def test_pixels_whose_squares_underflow_are_constant_and_those_that_overflow_rejected(model, dtype):
    images = IMAGES.astype(dtype)
    images[3] = np.finfo(dtype).tiny * np.arange(64).reshape(8, 8)
    features = ConvolutionalFeatures(model, patch_size=3, random_state=0).fit(images)  # images[3] is among the patches
    found = features.transform(images)
    assert not found[3].any() and found[2].any() and np.isfinite(found).all()
    images[5] = np.sqrt(np.finfo(dtype).max) * (images[5] > 8)
    for call in (features.fit, features.transform):
        with pytest.raises(ValueError, match=f"image 5 of X has pixels as large as .* in {np.dtype(dtype)}: divide X"):
            call(images)


def test_empty_units_are_dropped_on_request():
    """Footnote 7."""
    model = VonMisesFisherMixture(5, kappa=20.0, random_state=0)
    settings = {"patch_size": 3, "random_state": 0}
    every = ConvolutionalFeatures(model, **settings).fit(IMAGES)
    fitted = every.model_
    fitted.weights_ = np.where([False, True, False, True, False], 0.0, fitted.weights_)
    some = ConvolutionalFeatures(fitted, prefit=True, drop_empty=True, **settings).fit(IMAGES)
    assert some.units_.tolist() == [0, 2, 4]
    kept = every.transform(IMAGES).reshape(N, 4, 5)[:, :, [0, 2, 4]].reshape(N, -1)
    np.testing.assert_allclose(some.transform(IMAGES), kept, rtol=1e-6)
    means = KMeans(4, n_init=1, random_state=0).fit(np.random.default_rng(0).standard_normal((50, 9)))
    means.cluster_centers_[2] = 100
    some = ConvolutionalFeatures(means, prefit=True, drop_empty=True, **settings).fit(IMAGES)
    assert some.units_.tolist() == [0, 1, 3] and some.transform(IMAGES).shape == (N, 12)


def test_115_empty_clusters_leave_2740_features():
    """Footnote 7: of 800 clusters; one with few patches is not empty."""
    rng = np.random.default_rng(0)
    images, model = rng.random((20, 8, 8)), SphericalKMeans(2, random_state=0).fit(rng.random((30, 9)))
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2)).reshape(-1, 9)
    x = windows[:685] - windows[:685].mean(axis=1, keepdims=True)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    model.cluster_centers_ = np.vstack([x, x[:115]])  # of two that are the same the first is taken
    features = ConvolutionalFeatures(model, patch_size=3, prefit=True, drop_empty=True, random_state=0).fit(images)
    assert features.units_.tolist() == list(range(685)) and features.transform(images).shape == (20, 2740)
    mixture = VonMisesFisherMixture(5, kappa="shared", random_state=0).fit(windows)
    mixture.weights_ = np.array([0.5, 0.002, 0.0, 0.498, 0.0001])
    features.set_params(model=mixture).fit(images)
    assert features.units_.tolist() == [0, 1, 3]


def test_units_of_the_sizes_one_and_of_fitted_models():
    features = ConvolutionalFeatures(HOPE(1, n_latent=1), patch_size=2, pooling=1, random_state=0).fit(IMAGES)
    assert features.transform(IMAGES).shape == (N, 1)
    again = ConvolutionalFeatures(features.model_, prefit=True, patch_size=2, pooling=1, random_state=0).fit(IMAGES)
    assert again.model_ is features.model_
    np.testing.assert_array_equal(again.transform(IMAGES), features.transform(IMAGES))
    with pytest.raises(ValueError, match="fitted to rows of 4 columns, but patches have 9 pixels"):
        again.set_params(patch_size=3).fit(IMAGES)


@pytest.mark.slow
def test_conventions_and_files(tmp_path):
    ms.testing.check_estimator(ConvolutionalFeatures()).raise_for_failure()
    assert ms.get_estimator("convolutional-features") is ConvolutionalFeatures
    for model in (HOPE(7, n_latent=4, kappa=20.0), KMeans(5, n_init=1)):
        features = ConvolutionalFeatures(model, patch_size=3, n_patches=800, random_state=0).fit(IMAGES)
        ms.storage.save_model(features, tmp_path)
        np.testing.assert_array_equal(ms.storage.load_model(tmp_path).transform(IMAGES), features.transform(IMAGES))


def test_an_interrupted_fit_resumes(tmp_path):
    settings = {"patch_size": 3, "n_patches": 900, "random_state": 0}
    whole = ConvolutionalFeatures(HOPE(7, n_latent=4, batch_size=200, tol=0.0, max_iter=6), **settings).fit(IMAGES)
    part = ConvolutionalFeatures(HOPE(7, n_latent=4, batch_size=200, tol=0.0, max_iter=3), **settings)
    part.fit(IMAGES, checkpoint=tmp_path)
    part.set_params(model__max_iter=6).fit(IMAGES, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(part.transform(IMAGES), whole.transform(IMAGES))


@parametrize(
    ("settings", "words"),
    [
        ({"patch_size": 9}, "images of 8 x 8 pixels .* are smaller than the 9 x 9 pixels that patch_size=9"),
        ({"patch_size": 0}, "patch_size=0 is not valid"),
        ({"patch_size": 1}, "patch_size=1 gives patches of one pixel, which are always constant"),
        ({"model": None, "prefit": True}, "prefit=True needs a fitted model"),
        ({"patch_size": (3, 3, 3)}, "patch_size="),
        ({"stride": 1.5}, "stride=1.5 is not valid"),
        ({"pooling": 7}, "smaller than the 9 x 9 .* pooling=7"),
        ({"image_shape": (4, 8)}, r"image_shape=\(4, 8\) does not fit X"),
        ({"image_shape": (4, 4, 4, 1)}, r"image_shape=\(4, 4, 4, 1\) is not valid: pass \(height, width\)"),
        ({"overlap": "yes"}, "overlap='yes' is not"),
        ({"n_patches": 0}, "n_patches=0"),
        ({"n_patches": 5}, "n_components=7 exceeds n_samples=5"),
        ({"quantile": 1.5}, "quantile=1.5"),
        ({"power": 0}, "power=0 is not valid"),
        ({"kmeans": "soft"}, "kmeans='soft' is not known: choose 'triangle' or 'distance'"),
        ({"threshold": np.nan}, "threshold=nan"),
        ({"model": np.mean}, "cannot compute features of patches"),
        ({"model": LABELS}, "cannot compute features of patches"),
    ],
    fast=6,
)
def test_bad_settings_raise_an_error(settings, words):
    made = {"model": HOPE(7, n_latent=4), "patch_size": 3, "random_state": 0} | settings
    with pytest.raises(ValueError, match=words) as caught:
        ConvolutionalFeatures(**made).fit(IMAGES)
    assert "\n\n" not in str(caught.value)


def test_bad_images_raise_an_error():
    features = ConvolutionalFeatures(HOPE(7, n_latent=4), patch_size=3, random_state=0).fit(IMAGES)
    bad = IMAGES.copy()
    bad[17, 2, 2] = np.nan
    for call in (features.fit, features.transform):
        with pytest.raises(ValueError, match="image 17 of X has NaN or infinity"):
            call(bad)
    with pytest.raises(ValueError, match=r"X has shape \(24, 8, 8, 1, 1\): pass images of shape \(N, H, W\), "):
        features.fit(IMAGES[..., None, None])
    with pytest.raises(ValueError, match=r"X has images of shapes \(7, 8\), \(8, 8\): resize all images to one shape"):
        features.fit([IMAGES[0], IMAGES[1, 1:]])
    features.fit(IMAGES)
    with pytest.raises(ValueError, match="images of shape \\(4, 16\\): pass images of shape \\(8, 8\\)"):
        features.transform(IMAGES.reshape(N, 4, 16))
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 64\)\)"):
        features.transform(IMAGES[:0])


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.empty((N, 3)), r"out has shape \(24, 3\) and dtype float64: pass an array of floats of shape \(24, 28\)"),
        (np.empty((N, 28), int), "dtype int64: pass an array of floats"),
        ([0.0], "out has type list"),
    ],
)
def test_an_output_that_cannot_hold_features_raises_an_error(out, words):
    features = ConvolutionalFeatures(HOPE(7, n_latent=4, kappa=20.0), patch_size=3, random_state=0).fit(IMAGES)
    with pytest.raises(ValueError, match=words):
        features.transform(IMAGES, out=out)


def test_channels_are_the_last_axis():
    """Images as torch has them are told, not read as 3 x 9 pixels of 9 channels, unless that is said."""
    rng = np.random.default_rng(0)
    images = rng.random((20, 9, 9, 3))
    first = np.moveaxis(images, -1, 1)
    make = ConvolutionalFeatures(SphericalKMeans(3, random_state=0), patch_size=3, random_state=0)
    with pytest.raises(ValueError, match=r"\(20, 3, 9, 9\), which looks like .* pass X.transpose\(0, 2, 3, 1\)"):
        make.fit(first)
    a, b = make.fit(images).transform(images), make.fit(first.transpose(0, 2, 3, 1)).transform(images)
    np.testing.assert_array_equal(a, b)
    assert clone(make).set_params(image_shape=(3, 9, 9)).fit(first).image_shape_ == (3, 9, 9)
    assert make.fit(rng.random((20, 3, 3, 9))).image_shape_ == (3, 3, 9)  # cells of another one


def test_colour_images_in_the_shell(tmp_path, capsys):
    """A file of four axes holds no sequences; what the message says can be done."""
    images = np.random.default_rng(0).random((20, 6, 6, 3))
    np.savez(tmp_path / "images.npz", X=images)
    common = ["--set", "patch_size=3", "--seed", "0", "-o", str(tmp_path / "run")]
    assert main(["fit", "convolutional-features", str(tmp_path / "images.npz"), *common]) != 0
    assert "X.reshape(20, -1), with --set 'image_shape=[6, 6, 3]'" in capsys.readouterr().err
    np.savez(tmp_path / "rows.npz", X=images.reshape(20, -1))
    shape = ["--set", "image_shape=[6, 6, 3]"]
    assert main(["fit", "convolutional-features", str(tmp_path / "rows.npz"), *shape, *common]) == 0


def test_parts_of_images_are_the_same_on_every_executor(monkeypatch):
    """Six parts or more, with the numbers of invalid images."""
    features = ConvolutionalFeatures(SphericalKMeans(5, random_state=0), patch_size=3, random_state=0).fit(IMAGES)
    whole = features.transform(IMAGES)
    monkeypatch.setattr("manifoldseq_hope.features._patches._PIXELS", 9 * 36 * 2)  # two images of 36 patches
    monkeypatch.setattr("manifoldseq_hope.features._convolution._TOGETHER", 4)
    serial = features.transform(IMAGES)
    np.testing.assert_allclose(serial, whole, rtol=1e-9, atol=1e-12)
    bad = IMAGES.copy()
    bad[17, 2, 3] = np.nan
    with ms.execution.using("threads", 2):
        np.testing.assert_array_equal(features.transform(IMAGES), serial)
        with pytest.raises(ValueError, match="image 17 of X has NaN or infinity"):
            features.transform(bad)
