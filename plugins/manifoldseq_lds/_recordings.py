"""Recorded sequences from the wheel of aeon, read without importing aeon."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from manifoldseq.storage import SequenceData, read_ts


def japanese_vowels() -> SequenceData:
    """Return 640 utterances of two vowels by nine speakers: 12 cepstrum coefficients, 7 to 29 time steps.

    The training part (270) comes before the test part (370). The labels are the speakers, ``"1"`` to ``"9"``.
    Kudo, Toyama and Shimbo 1999.

    Raises
    ------
    FileNotFoundError
        If the files of aeon are not installed.
    """
    return _read("JapaneseVowels")


def basic_motions() -> SequenceData:
    """Return 80 recordings of four motions by a smart watch: 6 channels, 100 time steps at 10 Hz.

    The channels are those of an accelerometer and a gyroscope. The training part comes before the test part (40 each).

    Raises
    ------
    FileNotFoundError
        If the files of aeon are not installed.
    """
    return _read("BasicMotions", sampling_rate=10.0)


def _read(name: str, sampling_rate: float | None = None) -> SequenceData:
    folder = _folder() / name
    train, test = (read_ts(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST"))
    assert train.labels is not None and test.labels is not None
    labels = np.concatenate([train.labels, test.labels])
    return SequenceData(train.sequences + test.sequences, labels, name=name, sampling_rate=sampling_rate)


def _folder() -> Path:
    spec = find_spec("aeon")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "datasets" / "data"
        if folder.is_dir():
            return folder
    raise FileNotFoundError("aeon's data files are not installed: run `pip install --no-deps aeon`")
