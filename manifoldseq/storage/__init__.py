"""Model files, checkpoints and readers; nothing is unpickled."""

from ._arrays import load_array, load_arrays
from ._checkpoint import Checkpoint, CheckpointError
from ._convert import from_aeon, from_lengths, interpolate, read, scale, windows
from ._data import SequenceData
from ._frames import from_frame
from ._limits import ReadError, available_memory, inflation_limit, open_file, read_bytes, require_memory
from ._model import ModelError, load, load_model, save_model
from .readers._ascii_numbers import decimals
from .readers._csv import read_csv
from .readers._directory import read_directory
from .readers._mat import read_mat
from .readers._npz import read_npy, read_npz
from .readers._parquet import read_parquet
from .readers._text import read_cells
from .readers._ts import read_ts

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ModelError",
    "ReadError",
    "SequenceData",
    "available_memory",
    "decimals",
    "from_aeon",
    "from_frame",
    "from_lengths",
    "inflation_limit",
    "interpolate",
    "load",
    "load_array",
    "load_arrays",
    "load_model",
    "open_file",
    "read",
    "read_bytes",
    "read_cells",
    "read_csv",
    "read_directory",
    "read_mat",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_ts",
    "require_memory",
    "save_model",
    "scale",
    "windows",
]
