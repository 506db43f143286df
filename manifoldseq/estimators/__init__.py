"""What sequence and multi-view estimators share: validation, conventions and the baseline features."""

from ..storage._real import check_real, check_unmasked, warn_of_order
from ._random import random_generator, seed_fingerprint
from ._sequences import channel_statistics, check_sequences, validate_sequences

__all__ = [
    "channel_statistics",
    "check_real",
    "check_sequences",
    "check_unmasked",
    "random_generator",
    "seed_fingerprint",
    "validate_sequences",
    "warn_of_order",
]
