"""Model files, checkpoints and readers; nothing here ever unpickles."""

from ._checkpoint import Checkpoint, CheckpointError
from ._data import SequenceData
from ._ts import read_ts

__all__ = ["Checkpoint", "CheckpointError", "SequenceData", "read_ts"]
