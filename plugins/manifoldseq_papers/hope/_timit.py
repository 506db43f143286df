"""The folder of the TIMIT corpus: its training, development and core test sets."""

import os
from dataclasses import dataclass
from pathlib import Path

import manifoldseq as ms

CORE_TEST = tuple(
    "mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 "
    "mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0".split()
)
"""The 24 speakers of the core test set, three of each dialect region."""

DEVELOPMENT = tuple(
    "faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 mglb0 mrtk0 "
    "mtaa0 mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 "
    "fjsj0 majc0 mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1".split()
)
"""The 50 speakers of the development set of the Kaldi recipe: in the test folder, but not in the core test set."""

_AUDIO = (".wav", ".sph", ".nist", ".wav.wav")
"""Suffixes of recordings, in upper or lower case; some copies use the last for RIFF files."""


@dataclass(frozen=True)
class Utterance:
    """A sentence that a speaker read.

    Attributes
    ----------
    name : str
        ``speaker_sentence``, such as ``"fcjf0_si1027"``.
    audio, labels : Path
        The recording and its ``.phn`` file.
    """

    name: str
    audio: Path
    labels: Path


@dataclass(frozen=True)
class Timit:
    """The sets of sentences, without the sentences that every speaker reads (SA)."""

    train: tuple[Utterance, ...]
    development: tuple[Utterance, ...]
    test: tuple[Utterance, ...]


def read_timit(folder: str | os.PathLike[str]) -> Timit:
    """Find the sentences of TIMIT in a folder with the structure of the disc.

    Parameters
    ----------
    folder : path-like
        A folder with ``train/dr?/speaker/sentence.phn`` and ``test/…``, in upper or lower case, and a recording of the
        same name for each sentence; or a folder that contains such a folder, such as ``timit`` on the disc.

    Returns
    -------
    Timit
        The sentences of all speakers of the training folder (462 on the disc), and of the speakers of the development
        and core test sets, in the order of their names. Sentences of the type SA are left out.

    Raises
    ------
    ValueError
        If folders, speakers of the two lists, recordings or labels are missing; the message names them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from manifoldseq_papers import generate_phone_corpus, read_timit
    >>> with TemporaryDirectory() as folder:
    ...     generate_phone_corpus(folder, train_speakers=2, sentences=1, test_sentences=1)
    ...     corpus = read_timit(folder)
    >>> len(corpus.train), len(corpus.development), len(corpus.test)
    (2, 50, 24)
    """
    folder = Path(folder)
    places = (folder, *_folders(folder).values())
    root = next((one for one in places if {"train", "test"} <= _folders(one).keys()), None)
    if root is None:
        raise ValueError(
            f"{folder} has no folders train and test: pass the folder of TIMIT that contains them, as --data"
        )
    parts = _folders(root)
    train, test = _speakers(parts["train"]), _speakers(parts["test"])
    if not train:
        raise ValueError(f"{parts['train']} has no speakers (dr?/speaker): copy the corpus again")
    for kind, names in (("core test", CORE_TEST), ("development", DEVELOPMENT)):
        missing = [name for name in names if name not in test]
        if missing:
            raise ValueError(
                f"{parts['test']} lacks {len(missing)} of {len(names)} speakers of the {kind} set (the first missing "
                f"speaker is {missing[0]}): copy the corpus again"
            )
    return Timit(
        tuple(one for name in sorted(train) for one in _utterances(train[name])),
        tuple(one for name in sorted(DEVELOPMENT) for one in _utterances(test[name])),
        tuple(one for name in sorted(CORE_TEST) for one in _utterances(test[name])),
    )


def _folders(path: Path) -> dict[str, Path]:
    """Return the folders in a folder, by their names in lower case."""
    try:
        return {one.name.lower(): one for one in sorted(path.iterdir()) if one.is_dir()}
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): pass the folder of TIMIT as --data") from error


def _speakers(path: Path) -> dict[str, Path]:
    """Return the folders of speakers below those of the dialect regions."""
    found: dict[str, Path] = {}
    for name, region in _folders(path).items():
        if name.startswith("dr"):
            found |= _folders(region)
    return found


def _utterances(speaker: Path) -> list[Utterance]:
    """Return the sentences of a speaker, without SA."""
    files = {file.name.lower(): file for file in sorted(speaker.iterdir()) if file.is_file()}
    found = []
    for name in sorted({file.partition(".")[0] for file in files}):
        audio = next((files[name + end] for end in _AUDIO if name + end in files), None)
        labels = files.get(f"{name}.phn")
        if name.startswith("sa") or (audio is None and labels is None):
            continue
        if audio is None:
            raise ms.storage.ReadError(f"{labels} has no recording ({name}.wav) in its folder: copy the corpus again")
        if labels is None:
            raise ms.storage.ReadError(f"{audio} has no labels ({name}.phn) in its folder: copy the corpus again")
        found.append(Utterance(f"{speaker.name.lower()}_{name}", audio, labels))
    if not found:
        raise ms.storage.ReadError(f"{speaker} has no sentences of the types SI and SX: copy the corpus again")
    return found
