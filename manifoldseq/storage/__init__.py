"""Model files, checkpoints and readers; nothing here ever unpickles."""

from ._checkpoint import Checkpoint, CheckpointError
from ._convert import from_aeon, from_lengths, read, scale, windows
from ._data import SequenceData
from ._limits import ReadError
from ._model import ModelError, load, load_model, save_model
from ._read_csv import read_csv
from ._read_directory import read_directory
from ._read_mat import read_mat
from ._read_npz import read_npy, read_npz
from ._read_parquet import read_parquet
from ._ts import read_ts

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ModelError",
    "ReadError",
    "SequenceData",
    "from_aeon",
    "from_lengths",
    "load",
    "load_model",
    "read",
    "read_csv",
    "read_directory",
    "read_mat",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_ts",
    "save_model",
    "scale",
    "windows",
]
