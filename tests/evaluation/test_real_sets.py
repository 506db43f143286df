"""The sets of `make bench-real`: their split, and the generated ones."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real._generators import Labelled, gait, pendulum_chains, regime_switches, topographies
from benchmarks.real._sets import DEVELOPMENT, GENERATED, UNTOUCHED
from manifoldseq.evaluation import ChannelStatistics

ROOT = Path(__file__).resolve().parents[2]


def test_no_other_benchmark_names_an_untouched_set() -> None:
    names = {one.name for one in UNTOUCHED}
    assert not names & {one.name for one in DEVELOPMENT + GENERATED}
    for path in (ROOT / "benchmarks").glob("*/*.py"):
        if path.parent.name != "real":
            quoted = set(re.findall(r'"([\w-]+)"', path.read_text()))
            assert not quoted & names, f"{path} names an untouched set"


@pytest.mark.skipif(find_spec("aeon") is None, reason="the files of aeon are not installed")
def test_sets_are_as_listed() -> None:
    for one in (one for one in DEVELOPMENT + UNTOUCHED if one.wheel == "aeon"):
        sequences, labels = one.load()
        assert (len(sequences), len(labels)) == (one.sequences,) * 2 and len(np.unique(labels)) == one.classes
        assert {x.shape[1] for x in sequences} == {one.channels} and len(sequences) <= 500


@pytest.mark.parametrize("make", [pendulum_chains, gait, topographies, regime_switches])
def test_generated_classes_do_not_differ_in_size(make: Callable[..., Labelled]) -> None:
    sequences, labels = make(0)
    again = make(0)[0]
    assert all(np.array_equal(a, b) for a, b in zip(sequences, again, strict=True))
    assert not np.array_equal(sequences[0], make(1)[0][0])
    F = ChannelStatistics().fit_transform(sequences)[:, sequences[0].shape[1] :]  # deviations
    means = np.array([F[labels == kind].mean(axis=0) for kind in np.unique(labels)])
    assert np.ptp(means, axis=0).max() < 0.35 * F.mean(axis=0).max()
