"""Generated textures: what each class is made of, told by independent measurements on the videos."""

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_lds import dynamic_textures


@pytest.fixture(scope="module")
def videos():
    return dynamic_textures(60)[0]


def test_shapes_range_and_labels(videos):
    labels = dynamic_textures(8, size=5, frames=4)[1]
    assert labels.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    assert {video.shape for video in videos} == {(60, 32, 32)} and {video.dtype for video in videos} == {np.dtype("f4")}
    assert all(video.min() == 0 and video.max() == 1 for video in videos)


@pytest.mark.parametrize(("label", "rate"), [(0, 2.5), (1, 6.5), (2, 3 * 1.5), (4, 8.0)])
def test_periodic_classes_have_their_frequency(videos, label, rate):
    """Cycles per video, up to the random speed of 0.8 to 1.2."""
    for video in videos[label::6]:
        video = video.reshape(60, -1)
        spectrum = np.abs(np.fft.rfft(video - video.mean(axis=0), n=960, axis=0)).mean(axis=1)
        assert 0.7 * rate < spectrum.argmax() / 16 < 1.3 * rate


def test_noise_rises_and_blobs_drift(videos):
    for video in videos[3::6]:
        lags = {rows: np.corrcoef(video[0, rows:].ravel(), video[3, : 32 - rows].ravel())[0, 1] for rows in range(10)}
        assert 4 <= max(lags, key=lags.__getitem__) <= 7  # 3 frames at 2 × 0.8 to 2 × 1.2 rows each
    assert all(video.mean() < 0.45 for video in videos[5::6])  # few bright blobs on dark ground


def test_values_that_other_figures_rely_on(videos):
    """Grey levels at frame 30, row 10, column 20 of the first video of each class, seed 0."""
    expected = [0.7852347, 0.6631522, 0.6233447, 0.5144830, 0.7097707, 0.1937267]
    np.testing.assert_allclose([video[30, 10, 20] for video in videos[:6]], expected, atol=1e-5)


def test_seeds_differ_and_repeat(videos):
    again, other = dynamic_textures(6)[0], dynamic_textures(6, random_state=1)[0]
    assert all(np.array_equal(a, b) for a, b in zip(videos, again, strict=False))
    assert not any(np.array_equal(a, b) for a, b in zip(again, other, strict=True))


def test_dataset_is_the_videos_as_sequences(videos):
    data = ms.hooks.get_dataset("dynamic-textures").loader()
    assert len(data) == 60 and data.sequences[7].shape == (60, 1024)
    np.testing.assert_array_equal(data.sequences[7], videos[7].reshape(60, -1))
    assert np.bincount(data.labels).tolist() == [10] * 6


@pytest.mark.parametrize("bad", [{"n_videos": 0}, {"size": 1.5}, {"frames": 1}, {"frames": True}])
def test_bad_sizes_raise_an_error(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=rf"^{name}=.* is not valid: pass a whole number of at least"):
        dynamic_textures(**{"n_videos": 6} | bad)
