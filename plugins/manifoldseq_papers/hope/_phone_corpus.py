"""A generated corpus in the shape of TIMIT: made-up words in synthetic voices, with exact labels."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.signal import lfilter

from manifoldseq.reproduction import check_whole

from ._audio import write_sphere
from ._timit import CORE_TEST, DEVELOPMENT

Float = NDArray[np.float64]

RATE = 16000
_BLOCK = 80
"""Number of samples from one shape of the vocal tract to the next: 5 ms."""
_SIZE = 512
"""Length of the Fourier transforms that filter sounds."""
_UPPER = (3500.0, 4500.0, 6000.0)
"""Formants (Hz) above the three of a phone."""
_WORDS = 160


@dataclass(frozen=True)
class _Sound:
    """Acoustics of a phone: formants (Hz) at its start and end, its sources, and its duration."""

    begin: tuple[float, float, float]
    end: tuple[float, float, float]
    voice: float = 1.0
    breath: float = 0.02
    noise: float = 0.0
    centre: float = 3000.0
    width: float = 2000.0
    duration: float = 90.0


def _vowel(duration: float, *formants: float, **sources: float) -> _Sound:
    first = (formants[0], formants[1], formants[2])
    last = (formants[3], formants[4], formants[5]) if len(formants) > 3 else first
    return _Sound(first, last, duration=duration, **sources)


def _noise(duration: float, noise: float, centre: float, width: float, voice: float = 0.0, f2: float = 1600) -> _Sound:
    formants = (350.0, float(f2), 2600.0)
    return _Sound(formants, formants, voice, 0.02, noise, centre, width, duration)


SOUNDS: dict[str, _Sound] = {
    "iy": _vowel(100, 280, 2280, 3000),
    "ih": _vowel(75, 390, 1990, 2560),
    "eh": _vowel(90, 530, 1840, 2480),
    "ae": _vowel(130, 670, 1720, 2410),
    "aa": _vowel(125, 730, 1090, 2440),
    "ao": _vowel(120, 570, 850, 2410),
    "uh": _vowel(75, 440, 1030, 2240),
    "uw": _vowel(100, 310, 880, 2240),
    "ux": _vowel(95, 320, 1500, 2280),
    "ah": _vowel(85, 630, 1190, 2390),
    "ax": _vowel(50, 500, 1450, 2480),
    "ix": _vowel(50, 400, 1760, 2540),
    "ax-h": _vowel(40, 500, 1450, 2480, voice=0.15, breath=0.35),
    "er": _vowel(115, 480, 1340, 1690),
    "axr": _vowel(75, 490, 1320, 1760),
    "ey": _vowel(125, 490, 1950, 2550, 330, 2200, 2750),
    "ay": _vowel(150, 730, 1200, 2450, 360, 2000, 2560),
    "oy": _vowel(155, 550, 860, 2400, 370, 1900, 2500),
    "aw": _vowel(155, 730, 1280, 2450, 440, 950, 2300),
    "ow": _vowel(125, 540, 1000, 2350, 390, 800, 2300),
    "l": _vowel(60, 360, 1080, 2750, voice=0.7),
    "el": _vowel(85, 430, 900, 2680, voice=0.8),
    "r": _vowel(60, 340, 1150, 1520, voice=0.7),
    "w": _vowel(60, 300, 640, 2200, voice=0.7),
    "y": _vowel(55, 270, 2250, 3050, voice=0.7),
    "hh": _vowel(65, 500, 1500, 2500, voice=0.0, breath=0.5),
    "hv": _vowel(60, 500, 1500, 2500, voice=0.4, breath=0.3),
    "m": _vowel(65, 270, 1000, 2150, voice=0.45),
    "n": _vowel(60, 270, 1550, 2600, voice=0.45),
    "ng": _vowel(65, 270, 2050, 2800, voice=0.45),
    "em": _vowel(85, 320, 950, 2200, voice=0.55),
    "en": _vowel(85, 320, 1500, 2600, voice=0.55),
    "eng": _vowel(90, 320, 2000, 2800, voice=0.55),
    "nx": _vowel(30, 300, 1650, 2600, voice=0.5),
    "dx": _vowel(28, 350, 1700, 2650, voice=0.3),
    "q": _vowel(60, 500, 1400, 2500, voice=0.12, breath=0.02),
    "s": _noise(110, 0.5, 6000, 1600),
    "z": _noise(80, 0.35, 5900, 1700, voice=0.2),
    "sh": _noise(115, 0.55, 3400, 1300),
    "zh": _noise(80, 0.4, 3300, 1400, voice=0.2),
    "f": _noise(100, 0.12, 4500, 5000, f2=1100),
    "v": _noise(60, 0.07, 4500, 5000, voice=0.35, f2=1100),
    "th": _noise(90, 0.1, 5600, 3500, f2=1500),
    "dh": _noise(38, 0.06, 5400, 3500, voice=0.35, f2=1500),
    "ch": _noise(85, 0.5, 3600, 1700),
    "jh": _noise(60, 0.4, 3500, 1800, voice=0.15),
    "p": _noise(45, 0.18, 900, 1000, f2=1000),
    "b": _noise(18, 0.18, 800, 900, voice=0.25, f2=1000),
    "t": _noise(50, 0.4, 4300, 2400, f2=1750),
    "d": _noise(25, 0.3, 4000, 2400, voice=0.25, f2=1750),
    "k": _noise(52, 0.35, 1950, 800, f2=2000),
    "g": _noise(28, 0.3, 1850, 800, voice=0.25, f2=2000),
    "pcl": _noise(65, 0.0, 900, 1000, f2=1000),
    "tcl": _noise(55, 0.0, 4300, 2400, f2=1750),
    "kcl": _noise(60, 0.0, 1950, 800, f2=2000),
    "bcl": _noise(60, 0.0, 900, 1000, voice=0.08, f2=1000),
    "dcl": _noise(50, 0.0, 4300, 2400, voice=0.08, f2=1750),
    "gcl": _noise(50, 0.0, 1950, 800, voice=0.08, f2=2000),
    "epi": _noise(40, 0.0, 3000, 2000),
    "pau": _noise(120, 0.0, 3000, 2000),
    "h#": _noise(160, 0.0, 3000, 2000),
}
"""The 61 phones."""

_ONSETS = (
    "pcl p;bcl b;tcl t;dcl d;kcl k;gcl g;s;z;sh;zh;f;v;th;dh;tcl ch;dcl jh;m;n;l;r;w;y;hh;hv;q;s tcl t;s pcl p;s kcl k;"
    "pcl p l;tcl t r;kcl k l;gcl g r;f l;s epi l;bcl b r;th r"
).split(";")
_INNER = "dx;nx;pcl p;dcl d;s;v;m;n;l;kcl k;r;z;bcl b;w".split(";")
"""Consonants that may stand between two vowels of a word."""
_NUCLEI = "iy ih eh ae aa ao uh uw ux ah ax ix ax-h er axr ey ay oy aw ow ih ix iy eh ae ah ax er el em en eng".split()
_CODAS = ";m;n;ng;l;r;s;z;tcl;tcl t;dcl d;kcl k;pcl p;sh;f;v;th;n dcl;s tcl t;gcl g;;n z;bcl b;dcl jh;tcl ch".split(";")


def generate_phone_corpus(
    folder: str | os.PathLike[str],
    *,
    train_speakers: int = 60,
    sentences: int = 4,
    test_sentences: int = 2,
    seed: int = 0,
) -> None:
    """Write a corpus in the shape of TIMIT: SPHERE files with ``.phn``, ``.wrd`` and ``.txt`` files of the same names.

    Sentences consist of made-up words of the 61 phones, so successive phones are strongly dependent. Voices are
    pulses and noise in resonators that glide from phone to phone; speakers differ in the length of the vocal tract,
    pitch, pace, accent and microphone, and no phone sounds the same twice. Speakers of the core test set and of the
    development set have the names of the TIMIT disc. Every speaker also reads one sentence of the type SA.

    Parameters
    ----------
    folder : path-like
        A folder that does not exist yet or is empty.
    train_speakers : int
    sentences, test_sentences : int
        Number of sentences of each speaker of the training set, and of the two other sets.
    seed : int
        Seed of the generator: the same seed and sizes yield the same corpus.

    Raises
    ------
    ValueError
        If the folder is not empty, or a number is not positive.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manifoldseq_papers import generate_phone_corpus
    >>> with TemporaryDirectory() as folder:
    ...     generate_phone_corpus(folder, train_speakers=1, sentences=1, test_sentences=1)
    ...     files = sorted(file.name for file in Path(folder).glob("train/*/*/si*"))
    >>> files
    ['si1.phn', 'si1.txt', 'si1.wav', 'si1.wrd']
    """
    folder = Path(folder)
    for name, value in (
        ("train_speakers", train_speakers),
        ("sentences", sentences),
        ("test_sentences", test_sentences),
    ):
        check_whole(name, value)
    check_whole("seed", seed, 0)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not an empty folder: pass a new folder for the corpus")
    language = np.random.default_rng([seed, 0])
    words = _lexicon(language)
    fixed = _sentence(words, language)
    people = [("train", name, place % 8, sentences) for place, name in enumerate(_names(language, train_speakers))]
    people += [("test", name, place % 8, test_sentences) for place, name in enumerate(DEVELOPMENT)]
    people += [("test", name, place // 3, test_sentences) for place, name in enumerate(CORE_TEST)]
    for number, (part, name, region, count) in enumerate(people):
        rng = np.random.default_rng([seed, 1, number])
        voice = _Voice.drawn(rng, name[0] == "f")
        place = folder / part / f"dr{region + 1}" / name
        place.mkdir(parents=True)
        for turn in range(count + 1):
            stem, spoken = ("sa1", fixed) if turn == 0 else (f"si{turn}", _sentence(words, rng))
            _write(place / stem, spoken, voice, rng)


Spoken = list[tuple[str, tuple[str, ...]]]
"""Words with their phones; pauses are words without letters."""


def _lexicon(rng: np.random.Generator) -> list[tuple[str, tuple[str, ...]]]:
    """Return words of one to three syllables, the frequent ones first, in which every phone but pauses occurs."""
    onsets, inner, nuclei, codas = (_cycle(rng, parts) for parts in (_ONSETS, _INNER, _NUCLEI, _CODAS))
    words = []
    for _ in range(_WORDS):
        phones = [*next(onsets).split(), next(nuclei)]
        for _ in range(int(rng.choice(3, p=(0.45, 0.4, 0.15)))):
            phones += [*next(inner).split(), next(nuclei)]
        phones += next(codas).split()
        spelled = "".join(one for one in phones if not one.endswith("cl") and one not in ("q", "epi"))
        words.append((spelled.replace("-h", ""), tuple(phones)))
    return words


def _cycle(rng: np.random.Generator, parts):
    while True:
        yield from (parts[i] for i in rng.permutation(len(parts)))


def _sentence(words: list[tuple[str, tuple[str, ...]]], rng: np.random.Generator) -> Spoken:
    weights = 1 / (np.arange(len(words)) + 8)
    chosen = rng.choice(len(words), size=int(rng.integers(4, 8)), p=weights / weights.sum())
    spoken: Spoken = [("", ("h#",))]
    for place, word in enumerate(chosen):
        if place and rng.random() < 0.1:
            spoken.append(("", ("pau",)))
        spoken.append(words[word])
    return [*spoken, ("", ("h#",))]


def _names(rng: np.random.Generator, count: int) -> list[str]:
    """Return names of speakers in the form of TIMIT that do not occur in the test folder."""
    found: dict[str, None] = {}
    while len(found) < count:
        name = ("f" if rng.random() < 0.3 else "m") + "".join(rng.choice(list("abcdefghjklmprstw"), 3)) + "0"
        if name not in CORE_TEST and name not in DEVELOPMENT:
            found[name] = None
    return list(found)


@dataclass(frozen=True)
class _Voice:
    """Properties of a speaker that are the same in all sentences."""

    tract: float
    pitch: float
    pace: float
    breath: float
    tilt: float
    level: float
    background: float
    accent: dict[str, Float]

    @classmethod
    def drawn(cls, rng: np.random.Generator, female: bool) -> "_Voice":
        return cls(
            tract=(1.15 if female else 1.0) * float(np.exp(0.05 * rng.standard_normal())),
            pitch=(205.0 if female else 118.0) * float(np.exp(0.12 * rng.standard_normal())),
            pace=float(np.exp(0.12 * rng.standard_normal())),
            breath=float(np.exp(0.5 * rng.standard_normal())),
            tilt=float(rng.uniform(0.85, 0.97)),
            level=float(np.exp(0.3 * rng.standard_normal())),
            background=float(10 ** rng.uniform(-2.2, -1.0)),
            accent={phone: np.exp(0.08 * rng.standard_normal(3)) for phone in SOUNDS},
        )


def _write(stem: Path, spoken: Spoken, voice: _Voice, rng: np.random.Generator) -> None:
    """Speak a sentence, and write its four files."""
    phones = [phone for _, part in spoken for phone in part]
    blocks = [_blocks(SOUNDS[phone].duration, voice, rng) for phone in phones]
    ends = _BLOCK * np.cumsum(blocks)
    samples = _speak(phones, blocks, voice, rng)
    starts = ends - _BLOCK * np.array(blocks)
    write_sphere(stem.with_suffix(".wav"), samples, RATE)
    lines = [f"{a} {b} {phone}\n" for a, b, phone in zip(starts, ends, phones, strict=True)]
    stem.with_suffix(".phn").write_text("".join(lines), "ascii")
    place, lines, text = 0, [], []
    for word, part in spoken:
        if word:
            lines.append(f"{starts[place]} {ends[place + len(part) - 1]} {word}\n")
            text.append(word)
        place += len(part)
    stem.with_suffix(".wrd").write_text("".join(lines), "ascii")
    stem.with_suffix(".txt").write_text(f"0 {len(samples)} {' '.join(text).capitalize()}.\n", "ascii")


def _blocks(duration: float, voice: _Voice, rng: np.random.Generator) -> int:
    length = 0.85 * duration * voice.pace * np.exp(0.25 * rng.standard_normal())
    return max(2, round(length * RATE / 1000 / _BLOCK))


def _speak(phones: list[str], blocks: list[int], voice: _Voice, rng: np.random.Generator) -> NDArray[np.int16]:
    """Return the samples of phones of given lengths."""
    tracks, sources = [], []
    for phone, count in zip(phones, blocks, strict=True):
        sound = SOUNDS[phone]
        scale = voice.tract * voice.accent[phone] * np.exp(0.1 * rng.standard_normal(3))
        way = np.linspace(0, 1, count)[:, None]
        tracks.append(scale * ((1 - way) * np.array(sound.begin) + way * np.array(sound.end)))
        loud = float(np.exp(0.2 * rng.standard_normal()))
        moved = float(np.exp(0.1 * rng.standard_normal())) * voice.tract**0.5
        one = [
            loud * sound.voice,
            loud * voice.breath * sound.breath,
            loud * sound.noise,
            moved * sound.centre,
            sound.width,
        ]
        sources.append(np.tile(one, (count, 1)))
    formants = _smoothed(np.concatenate(tracks), 9)
    source = np.concatenate(sources)
    source[:, :3] = _smoothed(source[:, :3], 3)
    total = len(source) * _BLOCK
    loud, breath, noise, centre, width = source.T[:, :, None]
    vowels, band = np.ones((1, _SIZE // 2 + 1), complex), _resonance(centre, width)
    for peak in (*np.multiply(voice.tract, _UPPER)[:, None], *formants.T):  # those that stand still first
        one = _resonance(peak[:, None], 60 + 0.04 * peak[:, None])
        vowels = vowels * (one / one[:, :1])
    hiss, rustle = rng.standard_normal((2, total))
    spectra = (loud * _frames(_pulses(total, voice, rng)) + breath * _frames(hiss)) * vowels
    spectra += noise * _frames(rustle) * band * (1 - np.exp(-np.pi * width / RATE))
    out = _overlapped(spectra, total)
    out = np.asarray(lfilter([1, -voice.tilt], [1], out))
    out = voice.level * out / np.sqrt(np.mean(out**2))
    out += voice.background * np.asarray(lfilter([1], [1, -0.7], rng.standard_normal(total)))
    return np.clip(np.round(1200 * out), -32768, 32767).astype(np.int16)


def _pulses(total: int, voice: _Voice, rng: np.random.Generator) -> Float:
    """Return rounded glottal pulses whose pitch falls and fluctuates."""
    knots = np.arange(0, total + 1600, 1600)
    pitch = voice.pitch * (1.12 - 0.24 * knots / total) * np.exp(0.05 * rng.standard_normal(len(knots)))
    phase = np.cumsum(np.interp(np.arange(total), knots, pitch)) / RATE
    pulses = np.diff(np.floor(phase), prepend=0.0)
    return 8 * np.asarray(lfilter([1], [1, -1.86, 0.866], pulses))


def _smoothed(rows: Float, width: int) -> Float:
    """Return moving averages over blocks, the ends repeated."""
    padded = np.pad(rows, ((width // 2, width // 2), (0, 0)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=0).mean(axis=-1)


def _resonance(peak: Float, width: Float) -> NDArray[np.complex128]:
    """Return the response (n, frequencies) of a pair of poles at a frequency with a width, both (n, 1) in Hz."""
    pole: NDArray[np.complex128] = np.exp((-np.pi * width + 2j * np.pi * np.minimum(peak, 0.48 * RATE)) / RATE)
    back = np.exp(-2j * np.pi * np.arange(_SIZE // 2 + 1) / _SIZE)
    return np.asarray(1 / (1 - 2 * pole.real * back + np.abs(pole) ** 2 * back**2), complex)


def _frames(signal: Float) -> NDArray[np.complex128]:
    """Return the spectra of overlapping frames, one per block, whose windows sum to 1."""
    padded = np.pad(signal, (_BLOCK // 2, _BLOCK + _BLOCK // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, 2 * _BLOCK)[::_BLOCK][: len(signal) // _BLOCK]
    return np.asarray(rfft(frames * np.hanning(2 * _BLOCK + 1)[:-1], _SIZE, axis=1))


def _overlapped(spectra: NDArray[np.complex128], total: int) -> Float:
    """Return the overlap-add signal of spectra of frames, including the part that extends past the end of a frame."""
    frames = np.asarray(irfft(spectra, _SIZE, axis=1))
    parts = -(-_SIZE // _BLOCK)
    frames = np.pad(frames, ((0, 0), (0, parts * _BLOCK - _SIZE))).reshape(len(frames), parts, _BLOCK)
    out = np.zeros((len(frames) + parts - 1, _BLOCK))
    for part in range(parts):
        out[part : part + len(frames)] += frames[:, part]
    return out.ravel()[_BLOCK // 2 :][:total]
