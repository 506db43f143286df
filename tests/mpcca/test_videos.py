"""Precomputed descriptors of videos, on generated files in the published layouts."""

import gzip

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq_mpcca import MultiViewSuperVector, read_videos

CLASSES = ("brush_hair", "run")


def videos(*arguments, **settings):
    """Reproduce the table of videos, which is in manifoldseq-papers."""
    return ms.hooks.get_reproduction("mpcca-videos").run(*arguments, **settings)


def rows(rng, label, n, columns, about):
    """Return n descriptors as rows of a text file; the class moves the histograms."""
    table = rng.random((n, columns))
    table[:, about:] *= 1 + (np.arange(columns - about) % 3 == label)
    return table


def save(path, table):
    lines = "\n".join("\t".join(f"{x:.5g}" for x in row) for row in table)
    with gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w") as file:
        file.write(lines + "\n")


def hmdb(folder, per_class=6, kind=".txt.gz", columns=436, about=40):
    """Improved trajectories and the split files of HMDB51."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        lines = []
        for i in range(per_class):
            save(folder / name / f"clip (1)_{i}.avi{kind}", rows(rng, label, 8 + i, columns, about))
            lines.append(f"clip (1)_{i}.avi {1 + (i >= 4)} ")
        lines.append("unused.avi 0")
        (folder / f"{name}_test_split1.txt").write_text("\n".join(lines))
    return folder


def ucf(folder):
    """Arrays and the split files of UCF101."""
    rng = np.random.default_rng(0)
    for fold, count in (("train", 3), ("test", 2)):
        lines = []
        for label, name in enumerate(("Archery", "Biking")):
            (folder / name).mkdir(exist_ok=True)
            for i in range(count):
                parts = {d: rng.random((5 + i, n)) for d, n in (("hog", 96), ("mbhx", 96), ("mbhy", 96))}
                np.savez(folder / name / f"v_{fold}{i}.npz", **parts)
                lines.append(f"{name}/v_{fold}{i}.avi {label + 1}" if fold == "train" else f"{name}/v_{fold}{i}.avi")
        (folder / f"{fold}list02.txt").write_text("\n".join(lines))
    return folder


def test_trajectories_of_hmdb51(tmp_path):
    found = read_videos(hmdb(tmp_path), ["hog", "mbh"])
    assert found.labels.tolist() == ["brush_hair"] * 6 + ["run"] * 6
    assert found.train.tolist() == [0, 1, 2, 3, 6, 7, 8, 9] and found.test.tolist() == [4, 5, 10, 11]
    with gzip.open(tmp_path / "run" / "clip (1)_2.avi.txt.gz", "rt") as file:
        table = np.loadtxt(file, dtype=np.float32)
    i = found.names.index("run/clip (1)_2")
    np.testing.assert_array_equal(found.views[0][i], table[:, 40:136])
    np.testing.assert_array_equal(found.views[1][i], table[:, 244:436])


def test_interest_points_and_comments(tmp_path):
    hmdb(tmp_path, kind=".txt", columns=171, about=9)
    path = tmp_path / "run" / "clip (1)_0.avi.txt"
    path.write_text(
        "# point-type y-norm x-norm t-norm y x t sigma2 tau2 dscr-hog(72) dscr-hof(90)\n\n" + path.read_text()
    )
    found = read_videos(tmp_path)
    table = np.loadtxt(path, dtype=np.float32)
    np.testing.assert_array_equal(found.views[0][6], table[:, 9:81])
    np.testing.assert_array_equal(found.views[1][6], table[:, 81:])


def test_arrays_of_ucf101(tmp_path):
    found = read_videos(ucf(tmp_path), ["hog", "mbh"], split=2)
    assert len(found.names) == 10 and found.views[1][0].shape == (5, 192)
    assert found.labels[found.test].tolist() == ["Archery"] * 2 + ["Biking"] * 2
    with pytest.raises(ValueError, match="has hog, mbhx, mbhy but not hof: pass descriptors that all files contain"):
        read_videos(tmp_path, split=2).views[1][0]


def test_a_video_without_descriptors_is_a_zero_vector(tmp_path):
    hmdb(tmp_path, kind=".txt", columns=171, about=9)
    (tmp_path / "brush_hair" / "clip (1)_0.avi.txt").write_text("# nothing found\n")
    found = read_videos(tmp_path)
    vectors = MultiViewSuperVector(2, random_state=0, max_iter=3).fit_transform(found.views)
    assert not vectors[0].any() and vectors[1:].any(axis=1).all()


def test_front_end_and_fusion(tmp_path):
    rows = videos(hmdb(tmp_path), n_columns=4, n_components=[2], n_latent=[2], C=[1.0, 10.0], max_iter=3)
    errors = {row["model"]: row["ours"] for row in rows if row["unit"] == "%"}
    assert errors["M-PCCA [G, Z]"] == errors["concatenation"] == 0  # the classes are far apart
    assert {row["setting"] for row in rows} == {"hog+hof, split 1"} and all(row["ours_se"] is None for row in rows)


@parametrize(
    ("spoil", "sentence"),
    [
        (lambda f: (f / "run" / "clip (1)_1.avi.txt.gz").unlink(), "has no descriptors of run/clip \\(1\\)_1 "),
        (
            lambda f: [p.unlink() for p in f.glob("*split1.txt")],
            "has no files of split 1: put the published files there",
        ),
        (
            lambda f: (f / "run_test_split1.txt").write_text("clip.avi 7"),
            "line 1: 'clip.avi 7' is not 'name.avi N' with N = 0, 1 or 2",
        ),
        (lambda f: [p.write_text("clip (1)_0.avi 1") for p in f.glob("*1.txt")], "split 1 in .* has no test videos"),
        (
            lambda f: save(f / "run" / "clip (1)_0.avi.txt.gz", np.ones((2, 30))),
            "has 30 columns, but 436 .* are required",
        ),
        (lambda f: save(f / "run" / "clip (1)_0.avi.txt.gz", np.full((2, 436), np.nan)), "not finite in hog, row 0"),
        (lambda f: (f / "run" / "clip (1)_0.avi.txt.gz").write_bytes(b"x"), "is not a table of descriptors"),
        (lambda f: gzip.open(f / "run" / "clip (1)_0.avi.txt.gz", "w").write(b"1 2\n3\n"), "line 2 has 1 columns"),
        (
            lambda f: gzip.open(f / "run" / "clip (1)_0.avi.txt.gz", "w").write(b"a b\n"),
            "line 1 has a value that is not a number",
        ),
    ],
    fast=2,
)
def test_bad_folders_raise_an_error(tmp_path, spoil, sentence):
    spoil(hmdb(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        read_videos(tmp_path).views[0][6]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"hog": np.zeros(3)}, "array 'hog' has shape \\(3,\\)"),
        ({"hog": np.zeros((3, 2)), "hof": np.zeros((4, 2))}, "has different numbers of descriptors"),
        ({"other": np.zeros((3, 2))}, "has none of hog, hof, mbhx, mbhy"),
        ({"hog": np.array([{}])}, "array 'hog' contains Python objects"),
    ],
)
def test_bad_arrays_raise_an_error(tmp_path, arrays, sentence):
    np.savez(ucf(tmp_path) / "Archery" / "v_train0.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        read_videos(tmp_path, split=2).views[0][0]


def test_bad_settings_raise_an_error(tmp_path):
    with pytest.raises(ValueError, match="unknown descriptor 'sift': pass any of hog, hof"):
        read_videos(tmp_path, ["sift"])
    with pytest.raises(ValueError, match="descriptors='hog' is not valid: pass a list"):
        read_videos(tmp_path, "hog")


def test_bad_settings_of_the_table_get_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"descriptors=\['hog'\] is not valid: pass a list of two"):
        videos(tmp_path, descriptors=["hog"])
    with pytest.raises(ValueError, match="there is no data: pass the folder with the descriptor files"):
        videos()
    with pytest.raises(ValueError, match="n_latent=2 is not valid: pass a list of positive numbers"):
        videos(tmp_path, n_latent=2)
