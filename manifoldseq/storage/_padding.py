"""Series that are padded to one length with missing values."""

from dataclasses import replace
from typing import Any

import numpy as np

from ._data import SequenceData


def without_padding(data: SequenceData) -> tuple[SequenceData, str]:
    """Return series of one length without missing values at the common end, and a description of the removed steps."""
    lengths = {x.shape[0] for x in data.sequences}
    if len(data) < 2 or len(lengths) != 1 or not any(np.isnan(x[-1:]).all() for x in data.sequences if _dense(x)):
        return data, ""
    recorded = [np.flatnonzero(~np.isnan(x).all(axis=1)) for x in data.sequences]
    if not all(map(len, recorded)):
        return data, ""
    ends = [int(rows[-1]) + 1 for rows in recorded]
    cut = sum(end not in lengths for end in ends)
    message = (
        f"has {cut} series that end with missing values in every channel. These values are removed as padding, so that "
        f"the series have {min(ends)} to {max(ends)} steps"
    )
    return replace(data, sequences=[x[:end] for x, end in zip(data.sequences, ends, strict=True)]), message


def _dense(x: Any) -> bool:
    return isinstance(x, np.ndarray)
