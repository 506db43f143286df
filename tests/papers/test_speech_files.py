"""Recordings, labels and folders of speech: read as written by hand; errors for bad ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

import manifoldseq as ms
from manifoldseq_papers import filter_bank, generate_phone_corpus, read_sphere, read_timit, write_sphere

PHONES = (
    "iy ih eh ey ae aa aw ay ah ao oy ow uh uw ux er ax ix axr ax-h l r w y hh hv el m n ng em en eng nx "
    "s sh z zh f th v dh jh ch b d g p t k dx q bcl dcl gcl pcl tcl kcl pau epi h#"
).split()
"""The 61 labels in the documentation of TIMIT."""
SAMPLES = np.array([0, 1, -2, 300, -32768, 32767], np.int16)


def read_audio(path: Path) -> tuple[np.ndarray, float | None]:
    """Return the samples, a column per microphone, and the rate."""
    data = ms.storage.read(path)
    return data.sequences[0], data.sampling_rate


def sphere(order: str, data: bytes, count: int = 6, **fields: object) -> bytes:
    """Return a file as the manual of NIST describes it."""
    head = f"NIST_1A\n   1024\nspeaker_id -s5 fcjf0\nsample_count -i {count}\nsample_rate -i 16000\n"
    head += f"sample_n_bytes -i 2\nsample_byte_format -s2 {order}\n"
    head += "".join(f"{name} {value}\n" for name, value in fields.items()) + "end_head\n"
    return head.encode().ljust(1024, b"\0") + data


@pytest.mark.parametrize(("order", "dtype"), [("01", "<i2"), ("10", ">i2")])
def test_sphere_files_of_both_byte_orders(tmp_path: Path, order: str, dtype: str) -> None:
    (tmp_path / "one.wav").write_bytes(sphere(order, SAMPLES.astype(dtype).tobytes(), sample_checksum="-i 298"))
    samples, rate = read_sphere(tmp_path / "one.wav")
    assert rate == 16000 and samples.dtype == np.int16
    np.testing.assert_array_equal(samples[:, 0], SAMPLES)
    data = ms.storage.read(tmp_path / "one.wav")
    assert data.sampling_rate == 16000 and data.sequences[0].shape == (6, 1)


def test_channels_take_turns(tmp_path: Path) -> None:
    file = sphere("01", SAMPLES.astype("<i2").tobytes(), count=3, channel_count="-i 2", sample_coding="-s3 pcm")
    (tmp_path / "two.sph").write_bytes(file)
    np.testing.assert_array_equal(read_sphere(tmp_path / "two.sph")[0], SAMPLES.reshape(3, 2))


def test_what_is_written_is_read_and_riff_files_too(tmp_path: Path) -> None:
    for name, samples in (("one.wav", SAMPLES), ("two.wav", SAMPLES.reshape(3, 2))):
        write_sphere(tmp_path / name, samples, 8000)
        found, rate = read_audio(tmp_path / name)
        assert rate == 8000 and (tmp_path / name).read_bytes()[:16] == b"NIST_1A\n   1024\n"
        np.testing.assert_array_equal(found, samples.reshape(len(samples), -1))
    wavfile.write(tmp_path / "riff.wav", 16000, SAMPLES)
    found, rate = read_audio(tmp_path / "riff.wav")
    assert rate == 16000
    np.testing.assert_array_equal(found[:, 0], SAMPLES)
    with pytest.raises(ValueError, match="int16"):
        write_sphere(tmp_path / "x.wav", SAMPLES.astype(float), 8000)


GOOD = SAMPLES.astype("<i2").tobytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "neither a NIST SPHERE file nor a RIFF file"),
        (b"NIST_1A\n   abcd\n", "neither"),
        (b"hello world, this is text", "neither"),
        (sphere("01", GOOD)[:500], "truncated or damaged"),
        (sphere("01", GOOD[:-2]), "truncated, because its header declares 6 samples, but it contains 5"),
        (sphere("01", GOOD, sample_checksum="-i 1"), "damaged, because its samples sum to 298"),
        (sphere("01", GOOD, sample_coding="-s26 pcm,embedded-shorten-v2.00"), "w_decode"),
        (sphere("01", GOOD, sample_coding="-s4 ulaw"), "convert it to pcm"),
        (sphere("1", GOOD), "convert them to 16 bits"),
        (sphere("01", b"").replace(b"end_head", b"").replace(b"\0", b" ").ljust(1024) + GOOD, "end_head"),
        (sphere("01", GOOD).replace(b"sample_rate -i 16000", b"sample_rate -i -1600"), "sample_rate='-1600'"),
        (sphere("01", GOOD, channel_count="-i " + 500 * "9"), "channel_count="),
        (sphere("01", GOOD).replace(b"sample_rate -i 16000", b"sample!rate;i;16000."), "name -type value"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "truncated or damaged"),
    ],
)
def test_bad_recordings_raise_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(ms.storage.ReadError) as caught:
        ms.storage.read(tmp_path / "bad.wav")
    assert words in str(caught.value) and "bad.wav" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
def test_garbled_recordings_never_end_in_another_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wavfile.write(tmp_path / "riff.wav", 16000, SAMPLES)
    for good in (sphere("01", GOOD, sample_checksum="-i 298"), (tmp_path / "riff.wav").read_bytes()):
        for _ in range(300):
            bad = bytearray(good[: rng.integers(len(good) + 1)] if rng.random() < 0.3 else good)
            for place in rng.integers(0, max(1, min(len(bad), 200)), 3):
                if bad:
                    bad[place] = rng.integers(256)
            (tmp_path / "bad.wav").write_bytes(bytes(bad))
            try:
                read_audio(tmp_path / "bad.wav")
            except ms.storage.ReadError as error:
                assert "\n" not in str(error)


def test_floats_in_a_riff_file_raise_an_error(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "float.wav", 16000, SAMPLES.astype(np.float32))
    with pytest.raises(ms.storage.ReadError, match="float32: convert them to 16 bits"):
        read_audio(tmp_path / "float.wav")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small corpus; the speakers of the two other sets are as many as ever."""
    folder = tmp_path_factory.mktemp("speech") / "timit"
    generate_phone_corpus(folder, train_speakers=3, sentences=2, test_sentences=1, seed=4)
    return folder


@pytest.fixture
def corpus(generated: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(generated, tmp_path / "timit"))


def test_speakers_of_the_two_lists(generated: Path) -> None:
    found = read_timit(generated)
    core, development = ({one.name.partition("_")[0] for one in part} for part in (found.test, found.development))
    assert (len(core), len(development)) == (24, 50) and not core & development
    assert sum(name[0] == "f" for name in core) == 8  # two men and a woman of each region


def test_a_folder_is_found_in_any_case_and_one_level_below(corpus: Path) -> None:
    found = read_timit(corpus)
    assert [len(part) for part in (found.train, found.development, found.test)] == [6, 50, 24]
    assert {one.name for one in found.test} >= {"mdab0_si1", "mwbt0_si1"}
    assert not any("sa" in one.audio.stem for part in (found.train, found.test) for one in part)
    for path in sorted(corpus.rglob("*"), key=lambda path: -len(path.parts)):
        path.rename(path.with_name(path.name.upper()))
    (corpus / "DOC").mkdir()
    (corpus / "DOC" / "README").touch()
    again = read_timit(corpus.parent)
    assert [one.name for one in again.train] == [one.name for one in found.train]


def test_a_second_copy_as_riff_file_is_no_second_sentence(corpus: Path) -> None:
    one = read_timit(corpus).test[0]
    shutil.copy(one.audio, one.audio.with_name("si1.wav.wav"))
    assert read_timit(corpus).test[0] == one
    one.audio.unlink()
    assert read_timit(corpus).test[0].audio.name == "si1.wav.wav"


def test_bad_folders_raise_an_error(corpus: Path) -> None:
    one = read_timit(corpus).test[0]
    with pytest.raises(ValueError, match="has no folders train and test"):
        read_timit(corpus / "train")
    with pytest.raises(ValueError, match="cannot be read"):
        read_timit(corpus / "nowhere")
    one.labels.rename(one.labels.with_suffix(".bak"))
    with pytest.raises(ms.storage.ReadError, match="has no labels"):
        read_timit(corpus)
    one.labels.with_suffix(".bak").rename(one.labels)
    one.audio.unlink()
    with pytest.raises(ms.storage.ReadError, match="has no recording"):
        read_timit(corpus)
    shutil.rmtree(one.audio.parent)
    with pytest.raises(
        ValueError, match=f"lacks 1 of 24 speakers of the core test set .*speaker is {one.audio.parent.name}"
    ):
        read_timit(corpus)


@pytest.mark.slow
def test_a_generated_corpus_is_the_same_for_the_same_seed(corpus: Path, tmp_path: Path) -> None:
    for seed in (4, 5):
        generate_phone_corpus(tmp_path / f"{seed}", train_speakers=3, sentences=2, test_sentences=1, seed=seed)
    files = sorted(path.relative_to(corpus) for path in corpus.rglob("*.*"))
    assert len(files) == 4 * (3 * 3 + 74 * 2)
    same = [(tmp_path / "4" / file).read_bytes() == (corpus / file).read_bytes() for file in files]
    assert all(same)
    other = (tmp_path / "5" / file for file in files)
    assert any(
        not path.exists() or path.read_bytes() != (corpus / path.relative_to(tmp_path / "5")).read_bytes()
        for path in other
    )
    with pytest.raises(ValueError, match="not an empty folder"):
        generate_phone_corpus(corpus)
    with pytest.raises(ValueError, match="sentences=0"):
        generate_phone_corpus(tmp_path / "6", sentences=0)


def test_labels_of_a_generated_corpus_cover_recordings_and_name_what_sounds(corpus: Path) -> None:
    loud: dict[str, list[float]] = {}
    for one in read_timit(corpus).train:
        samples, rate = read_audio(one.audio)
        segments = [line.split() for line in one.labels.read_text().splitlines()]
        starts, ends = ([int(row[column]) for row in segments] for column in (0, 1))
        assert rate == 16000 and starts[0] == 0 and ends[-1] == len(samples) and starts[1:] == ends[:-1]
        assert segments[0][2] == segments[-1][2] == "h#"
        words = [line.split() for line in one.labels.with_suffix(".wrd").read_text().splitlines()]
        assert {int(word[0]) for word in words} <= set(starts)
        spoken = " ".join(word[2] for word in words).capitalize()
        assert one.labels.with_suffix(".txt").read_text() == f"0 {len(samples)} {spoken}.\n"
        for start, end, phone in zip(starts, ends, (row[2] for row in segments), strict=True):
            part = samples[start:end, 0].astype(float)
            if len(part) >= 800:
                spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2
                high = spectrum[np.fft.rfftfreq(len(part), 1 / rate) > 4000].sum() / spectrum.sum()
                loud.setdefault(phone, []).append(float(high))
    assert np.median(loud["s"]) > 0.7 > 0.2 > np.median(loud["ae"] + loud["eh"] + loud["er"])


def test_every_phone_of_timit_is_spoken(generated: Path) -> None:
    """And nothing else; between words there may be a pause, before and after a sentence there is silence."""
    labels = [path.read_text().split()[2::3] for path in generated.rglob("*.phn")]
    assert {phone for one in labels for phone in one} == set(PHONES) and len(PHONES) == 61


def test_a_generated_recording_has_features(corpus: Path) -> None:
    samples, rate = read_audio(read_timit(corpus).train[0].audio)
    assert filter_bank(samples[:, 0], rate).shape == (1 + (len(samples) - 400) // 160, 41)
