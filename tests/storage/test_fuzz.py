"""Damaged files, thousands of them: every reader returns sequences or raises one error, and never takes much memory."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from helpers import parametrize
from storage.samples import PARAMETERS, SAMPLES, damaged

from manifoldseq.storage import ReadError


def try_damaged_files(name: str, folder: Path, count: int, seed: int) -> tuple[int, int]:
    """Return how many damaged files were read and how many rejected; anything else fails."""
    sample = SAMPLES[name]
    outcomes = [0, 0]
    for i, content in enumerate(damaged(sample, count, seed)):
        path = sample.write(folder, content)
        try:
            data = sample.read(path)
        except ReadError as error:
            sentence = str(error)
            assert sentence.startswith(str(folder)) and ": " in sentence[len(str(folder)) :], (i, sentence)
            assert "\n" not in sentence and len(sentence) < len(str(folder)) + 400, (i, sentence)
            outcomes[1] += 1
        else:
            assert len(data) > 0 and all(x.dtype in (np.float32, np.float64) and x.ndim == 2 for x in data.sequences), i
            assert sum(x.size for x in data.sequences) <= 1100 * len(content), i
            assert data.labels is None or data.labels.tolist() is not None, i
            outcomes[0] += 1
    return outcomes[0], outcomes[1]


@pytest.fixture
def bounded_memory(leave_memory):
    """Let readers use 64 MiB, and hold that the process grew by no more than 300."""
    leave_memory(2 * 2**26)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024  # KiB


@parametrize("name", PARAMETERS, fast=4)
def test_damaged_files(name, tmp_path, bounded_memory):
    read, rejected = try_damaged_files(name, tmp_path, 100, seed=0)
    assert rejected > 10 and read + rejected == 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of a first line that damage has made one of numbers
@pytest.mark.parametrize("name", PARAMETERS)
def test_many_damaged_files(name, tmp_path, bounded_memory):
    _, rejected = try_damaged_files(name, tmp_path, 10_000, seed=1)
    assert rejected > 1000


@parametrize("name", PARAMETERS, fast=4)
def test_every_cut_raises_an_error_or_reads_less(name, tmp_path):
    """A file cut anywhere never gives more numbers than the whole one."""
    sample = SAMPLES[name]
    content = sample.contents()[0]
    whole = sum(x.size for x in sample.read(sample.write(tmp_path, content)).sequences)
    for size in np.linspace(0, len(content) - 1, 60).astype(int):
        path = sample.write(tmp_path, content[:size])
        try:
            assert sum(x.size for x in sample.read(path).sequences) <= whole
        except ValueError as error:
            assert str(error).startswith(str(tmp_path))
