"""Folders of videos in the layouts of the published collections, generated."""

import numpy as np
import pytest
from matplotlib.image import imsave
from PIL import Image
from scipy.io import savemat

from manifoldseq_lds import VideoFiles, read_textures


@pytest.fixture
def videos():
    return np.random.default_rng(0).random((4, 6, 8, 5)).astype(np.float32)


def test_dyntex_plus_plus(tmp_path, videos):
    """MATLAB arrays (rows, columns, T), in natural order of classes and names."""
    for label, name, video in zip(("10", "2", "2", "10"), ("1", "10", "2", "2"), videos, strict=True):
        (tmp_path / label).mkdir(exist_ok=True)
        savemat(tmp_path / label / f"{name}.mat", {"video": np.moveaxis(video, 0, 2)})
    found = read_textures(tmp_path)
    assert isinstance(found, VideoFiles) and found.labels.tolist() == ["2", "2", "10", "10"]
    assert found.names == ("2", "10", "1", "2")
    for i, expected in enumerate(videos[[2, 1, 0, 3]]):
        np.testing.assert_array_equal(found[i], expected)
    assert found[1:3].labels.tolist() == ["2", "10"] and len(found[np.array([0])]) == 1


def test_yupenn(tmp_path, videos):
    """Folders of frames, colours averaged."""
    levels = np.round(videos * 255).astype(np.uint8)
    for label, video in zip(("Beach", "Fountain"), levels[:2], strict=True):
        folder = tmp_path / label / "video 1"
        folder.mkdir(parents=True)
        for t, frame in enumerate(video):
            imsave(folder / f"frame{t + 7}.png", np.repeat(frame[..., None], 3, axis=2))
    found = read_textures(tmp_path, "yupenn")
    assert found.labels.tolist() == ["Beach", "Fountain"]
    np.testing.assert_allclose(found[1], levels[1] / 255.0, atol=1e-6)


def test_dyntex(tmp_path, videos):
    for name, video in zip(("54ab110", "54ab11", "6ame100"), videos[:3], strict=True):
        np.save(tmp_path / f"{name}.npy", np.round(video * 255).astype(np.uint8))
    (tmp_path / "labels.csv").write_text("54ab110.avi,sea\n\n6ame100,grass\n")
    found = read_textures(tmp_path, "dyntex")
    assert found.names == ("6ame100", "54ab110") and found.labels.tolist() == ["grass", "sea"]
    np.testing.assert_allclose(found[1], np.round(videos[0] * 255) / 255, atol=1e-6)


def test_a_table_names_one_video_per_line(tmp_path, videos):
    """Also one that a spreadsheet wrote, with a byte order mark."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "1.npy", videos[0])
    np.save(tmp_path / "2.npy", videos[1])
    table = tmp_path / "labels.csv"
    table.write_text("2,sea\n", encoding="utf-8-sig")
    assert read_textures(tmp_path, "dyntex").names == ("2",)
    for text, sentence in (
        (b"2,sea\n1,sea\n", "line 2: '1' is both"),
        (b"2,sea\n2,fire\n", "line 2: '2' has two lines"),
        (b"2,s\xe9a\n", "the text is not UTF-8"),
    ):
        table.write_bytes(text)
        with pytest.raises(ValueError, match=sentence):
            read_textures(tmp_path, "dyntex")


def test_grey_and_coloured_frames_have_one_scale(tmp_path):
    folder = tmp_path / "fire" / "1"
    folder.mkdir(parents=True)
    Image.fromarray(np.full((8, 8), 102, dtype=np.uint8)).save(folder / "1.bmp")
    Image.fromarray(np.full((8, 8, 3), 102, dtype=np.uint8)).save(folder / "2.bmp")
    np.testing.assert_allclose(read_textures(tmp_path)[0], 0.4, atol=1e-6)


def _frames(folder, levels, ending):
    folder.mkdir()
    for t, frame in enumerate(levels):
        Image.fromarray(frame).save(folder / f"{t}{ending}")


WRITERS = {
    "npy": lambda path, levels: np.save(path.with_suffix(".npy"), levels),
    "npz": lambda path, levels: np.savez_compressed(path.with_suffix(".npz"), video=levels),
    "mat": lambda path, levels: savemat(path.with_suffix(".mat"), {"video": np.moveaxis(levels, 0, 2)}),
    "png": lambda path, levels: _frames(path, levels, ".png"),
    "tif": lambda path, levels: _frames(path, levels, ".tif"),
    "pgm": lambda path, levels: _frames(path, levels, ".pgm"),
    "colour": lambda path, levels: np.save(path.with_suffix(".npy"), np.repeat(levels[..., None], 3, axis=3)),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_eight_and_sixteen_bits_are_0_to_1_in_every_format(tmp_path, videos, kind, dtype):
    white = np.iinfo(dtype).max
    levels = np.round(videos[0] * white).astype(dtype)
    levels[0, 0, 0], levels[0, 0, 1] = 0, white
    (tmp_path / "sea").mkdir()
    WRITERS[kind](tmp_path / "sea" / "1", levels)
    (found,) = read_textures(tmp_path)
    assert found.dtype == np.float32 and found.max() == pytest.approx(1, abs=1e-6) and found.min() == 0
    np.testing.assert_allclose(found, levels / white, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint32])
def test_whole_numbers_without_a_known_white_raise_an_error(tmp_path, dtype):
    (tmp_path / "sea").mkdir()
    np.save(tmp_path / "sea" / "1.npy", np.ones((4, 8, 8), dtype))
    with pytest.raises(
        ValueError, match=f"contains {np.dtype(dtype)}, for which the value of white is unknown: save uint8, uint16, or"
    ):
        read_textures(tmp_path)[0]


def test_bad_folders_raise_an_error(tmp_path, videos):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        read_textures(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="has no videos"):
        read_textures(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"labels\.csv does not exist"):
        read_textures(tmp_path, "dyntex")
    with pytest.raises(ValueError, match="layout='ucf'"):
        read_textures(tmp_path, "ucf")
    (tmp_path / "labels.csv").write_text("missing,sea\n")
    with pytest.raises(FileNotFoundError, match="no video 'missing'"):
        read_textures(tmp_path, "dyntex")
    (tmp_path / "labels.csv").write_text("one\n")
    with pytest.raises(ValueError, match="line 1"):
        read_textures(tmp_path, "dyntex")
    (tmp_path / "waves").mkdir()
    (tmp_path / "waves" / "1.npy").write_bytes(b"no array")
    (tmp_path / "waves" / "2.mat").write_bytes(b"no matrix")
    np.save(tmp_path / "waves" / "3.npy", np.zeros(4))
    found = read_textures(tmp_path)
    for i, sentence in enumerate(("cannot be read", "is not a MATLAB file", "shape")):
        with pytest.raises(ValueError, match=sentence):
            found[i]
