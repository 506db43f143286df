"""Recordings, labels and folders of speech: read as written by hand, bad ones refused in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

import manifoldseq as ms
from manifoldseq_papers import filter_bank, generate_phone_corpus, read_sphere, read_timit
from manifoldseq_papers.hope import _phone_corpus as _phone_corpus
from manifoldseq_papers.hope import _timit as _timit
from manifoldseq_papers.hope._audio import read_audio, write_sphere
from manifoldseq_papers.hope._phones import CLASSES, FOLDED, PHONES, edit_distance, fold, phone_error, read_phn

SAMPLES = np.array([0, 1, -2, 300, -32768, 32767], np.int16)


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
        (b"", "neither as a NIST SPHERE file nor as a RIFF file"),
        (b"NIST_1A\n   abcd\n", "neither"),
        (b"hello world, this is text", "neither"),
        (sphere("01", GOOD)[:500], "truncated or damaged"),
        (sphere("01", GOOD[:-2]), "truncated: its header says 6 samples, 5"),
        (sphere("01", GOOD, sample_checksum="-i 1"), "damaged: its samples sum to 298"),
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
def test_bad_recordings_are_refused_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(ms.storage.ReadError) as caught:
        ms.storage.read(tmp_path / "bad.wav")
    assert words in str(caught.value) and "bad.wav" in str(caught.value) and "\n" not in str(caught.value)


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


def test_floats_in_a_riff_file_are_refused(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "float.wav", 16000, SAMPLES.astype(np.float32))
    with pytest.raises(ms.storage.ReadError, match="float32: convert them to 16 bits"):
        read_audio(tmp_path / "float.wav")


def test_phones_fold_to_the_39_of_lee_and_hon() -> None:
    theirs = "iy ih eh ae ah uw uh aa ey ay oy aw ow er l r w y m n ng v f dh th z s sh jh ch b p d dx t g k hh sil"
    assert sorted(CLASSES) == sorted(theirs.split()) and len(PHONES) == 61
    same = {"ao": "aa", "ax": "ah", "ix": "ih", "axr": "er", "ux": "uw", "zh": "sh", "nx": "n", "eng": "ng", "hv": "hh"}
    assert {phone: FOLDED[phone] for phone in same} == same
    assert sum(kept == "sil" for kept in FOLDED.values()) == 9 and FOLDED["q"] is None
    codes = [PHONES.index(phone) for phone in "h# q ih ix pau".split()]
    assert [CLASSES[code] for code in fold(codes)] == ["sil", "ih", "ih", "sil"]


def recursive(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return recursive(a[1:], b[1:])
    return 1 + min(recursive(a[1:], b), recursive(a, b[1:]), recursive(a[1:], b[1:]))


def test_edit_distance_is_that_of_the_recursion() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (tuple(rng.integers(0, 3, rng.integers(0, 7)).tolist()) for _ in range(2))
        assert edit_distance(a, b) == recursive(a, b)


def test_phone_error_counts_classes_and_no_glottal_stops() -> None:
    h, q, ih, ix, s = (PHONES.index(phone) for phone in ("h#", "q", "ih", "ix", "s"))
    assert phone_error([[h, ix, s, h]], [[h, q, ih, h]]) == pytest.approx(100 / 3)
    with pytest.raises(ValueError, match="no phones"):
        phone_error([[s]], [[q]])


def test_labels_of_segments(tmp_path: Path) -> None:
    (tmp_path / "one.phn").write_text("0 10 h#\n10 30 IY\n\n30 31 q\n")
    segments = read_phn(tmp_path / "one.phn")
    assert [PHONES[code] for code in segments.phones] == ["h#", "iy", "q"]
    assert segments.places([0, 9, 10, 29, 30, 31, 99]).tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no segments"),
        ("0 10 h#\n10 20\n", "line 2: '10 20'"),
        ("0 10 h#\n10 x iy\n", "line 2"),
        ("0 10 h#\n10 20 iyy\n", "line 2: 'iyy' is no phone of TIMIT"),
        ("0 10 h#\n20 20 iy\n", "empty"),
        ("0 10 h#\n3 8 iy\n", "ends before the one above"),
        ("0 99999999999999999999 h#\n", "line 1"),
        ("0 " + 5000 * "9" + " h#\n", "line 1"),
    ],
)
def test_bad_labels_are_refused_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bad.phn").write_text(content)
    with pytest.raises(ms.storage.ReadError) as caught:
        read_phn(tmp_path / "bad.phn")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a generated corpus whose lists of speakers are short."""
    for module in (_timit, _phone_corpus):
        monkeypatch.setattr(module, "CORE_TEST", _timit.CORE_TEST[:2])
        monkeypatch.setattr(module, "DEVELOPMENT", _timit.DEVELOPMENT[:2])
    generate_phone_corpus(tmp_path / "timit", train_speakers=3, sentences=2, test_sentences=1, seed=4)
    return tmp_path / "timit"


def test_speakers_of_the_two_lists() -> None:
    assert (len(set(_timit.CORE_TEST)), len(set(_timit.DEVELOPMENT))) == (24, 50)
    assert not set(_timit.CORE_TEST) & set(_timit.DEVELOPMENT)
    assert sum(name[0] == "f" for name in _timit.CORE_TEST) == 8  # two men and a woman of each region


def test_a_folder_is_found_in_any_case_and_one_level_below(corpus: Path) -> None:
    found = read_timit(corpus)
    assert [len(part) for part in (found.train, found.development, found.test)] == [6, 2, 2]
    assert [one.name for one in found.test] == ["mdab0_si1", "mwbt0_si1"]
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


def test_bad_folders_are_refused_in_one_sentence(corpus: Path) -> None:
    one = read_timit(corpus).test[0]
    with pytest.raises(ValueError, match="has no folders train and test"):
        read_timit(corpus / "train")
    with pytest.raises(ValueError, match="cannot be read"):
        read_timit(corpus / "nowhere")
    one.labels.rename(one.labels.with_suffix(".bak"))
    with pytest.raises(ms.storage.ReadError, match="no labels beside it"):
        read_timit(corpus)
    one.labels.with_suffix(".bak").rename(one.labels)
    one.audio.unlink()
    with pytest.raises(ms.storage.ReadError, match="no recording beside it"):
        read_timit(corpus)
    shutil.rmtree(one.audio.parent)
    with pytest.raises(ValueError, match="lacks 1 of 2 speakers of the core test set, first mdab0"):
        read_timit(corpus)


def test_a_generated_corpus_is_the_same_for_the_same_seed(corpus: Path, tmp_path: Path) -> None:
    for seed in (4, 5):
        generate_phone_corpus(tmp_path / f"{seed}", train_speakers=3, sentences=2, test_sentences=1, seed=seed)
    files = sorted(path.relative_to(corpus) for path in corpus.rglob("*.*"))
    assert len(files) == 4 * (3 * 3 + 4 * 2)
    same = [(tmp_path / "4" / file).read_bytes() == (corpus / file).read_bytes() for file in files]
    assert all(same)
    other = (tmp_path / "5" / file for file in files)
    assert any(
        not path.exists() or path.read_bytes() != (corpus / path.relative_to(tmp_path / "5")).read_bytes()
        for path in other
    )
    with pytest.raises(ValueError, match="no empty folder"):
        generate_phone_corpus(corpus)
    with pytest.raises(ValueError, match="sentences=0"):
        generate_phone_corpus(tmp_path / "6", sentences=0)


def test_labels_of_a_generated_corpus_cover_recordings_and_name_what_sounds(corpus: Path) -> None:
    loud: dict[str, list[float]] = {}
    for one in read_timit(corpus).train:
        samples, rate = read_audio(one.audio)
        segments = read_phn(one.labels)
        assert rate == 16000 and segments.starts[0] == 0 and segments.ends[-1] == len(samples)
        np.testing.assert_array_equal(segments.starts[1:], segments.ends[:-1])
        assert PHONES[segments.phones[0]] == PHONES[segments.phones[-1]] == "h#"
        words = [line.split() for line in one.labels.with_suffix(".wrd").read_text().splitlines()]
        assert {int(word[0]) for word in words} <= set(segments.starts.tolist())
        spoken = " ".join(word[2] for word in words).capitalize()
        assert one.labels.with_suffix(".txt").read_text() == f"0 {len(samples)} {spoken}.\n"
        for start, end, phone in zip(segments.starts, segments.ends, segments.phones, strict=True):
            part = samples[start:end, 0].astype(float)
            if len(part) >= 800:
                spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2
                high = spectrum[np.fft.rfftfreq(len(part), 1 / rate) > 4000].sum() / spectrum.sum()
                loud.setdefault(PHONES[phone], []).append(float(high))
    assert np.median(loud["s"]) > 0.7 > 0.2 > np.median(loud["ae"] + loud["eh"] + loud["er"])


def test_every_phone_of_timit_is_in_the_words() -> None:
    words = _phone_corpus._lexicon(np.random.default_rng(0))
    assert {phone for _, phones in words for phone in phones} == set(PHONES) - {"h#", "pau"}
    assert set(_phone_corpus.SOUNDS) == set(PHONES)


def test_a_generated_recording_has_features(corpus: Path) -> None:
    samples, rate = read_audio(read_timit(corpus).train[0].audio)
    assert filter_bank(samples[:, 0], rate).shape == (1 + (len(samples) - 400) // 160, 41)
