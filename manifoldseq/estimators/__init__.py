"""Parts of estimators: checks of inputs and parameters, starts, fingerprints, row blocks, baseline features."""

from .._checks import (
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_positive,
    check_switch,
    check_whole,
)
from .._quoted import quoted
from ..storage._real import check_real, check_unmasked, warn_of_order
from ._available import available_where
from ._data_types import BagsLike, RowsLike, SequencesLike, ViewsLike
from ._distinct import count_distinct, differing, distinct_rows, warn_of_few_distinct
from ._fingerprint import fingerprint, marked
from ._names import check_channel_names, column_names, keep_channel_names
from ._object_parameters import ObjectParameters
from ._random import random_generator, seed_fingerprint
from ._rows import check_sample_weight, row_blocks, validate_rows
from ._sequences import channel_statistics, check_sequences, validate_sequences
from ._starts import fit_starts, uninterrupted

__all__ = [
    "BagsLike",
    "ObjectParameters",
    "RowsLike",
    "SequencesLike",
    "ViewsLike",
    "available_where",
    "channel_statistics",
    "check_channel_names",
    "check_choice",
    "check_number",
    "check_optional",
    "check_parameters",
    "check_positive",
    "check_real",
    "check_sample_weight",
    "check_sequences",
    "check_switch",
    "check_unmasked",
    "check_whole",
    "column_names",
    "count_distinct",
    "differing",
    "distinct_rows",
    "fingerprint",
    "fit_starts",
    "keep_channel_names",
    "marked",
    "quoted",
    "random_generator",
    "row_blocks",
    "seed_fingerprint",
    "uninterrupted",
    "validate_rows",
    "validate_sequences",
    "warn_of_few_distinct",
    "warn_of_order",
]
