"""Data of the figures and the table: recorded sequences, and systems of videos."""

from typing import Any

import manifoldseq as ms
from manifoldseq_lds import LBPTOP, LDSIdentifier, Systems

LAYOUTS = ("dyntex++", "yupenn", "dyntex")
"""The layouts of folders that `manifoldseq_lds.read_textures` knows."""


def recorded(name: str) -> ms.storage.SequenceData:
    """Return the recorded sequences of a data set."""
    return ms.hooks.get_dataset(name).loader()


def texture_systems(videos: Any, n_states: int = 10) -> Systems:
    """Return the systems of LBP-TOP features of videos, which are read one at a time."""
    sequences = [sequence for i in range(len(videos)) for sequence in LBPTOP().transform([videos[i]])]
    return LDSIdentifier(n_states, scale=False).fit_transform(sequences)
