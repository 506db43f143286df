"""What sequence and multi-view estimators share: validation, conventions and the baseline features."""

from ._random import random_generator
from ._sequences import channel_statistics, check_sequences, validate_sequences

__all__ = ["channel_statistics", "check_sequences", "random_generator", "validate_sequences"]
