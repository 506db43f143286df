"""DATA on the command line: the name of a data set, or a file or folder that a registered reader knows."""

from pathlib import Path

import numpy as np

from .. import hooks
from ..estimators import check_sequences
from ..storage import ReadError, SequenceData, read
from ._shared import BadInput


def load_data(data: str) -> SequenceData:
    """Read the file or folder of that name if there is one, else load the data set of that name."""
    path = Path(data)
    try:
        loaded = read(path) if path.exists() else hooks.get_dataset(data).loader()
        check_sequences(loaded.sequences)
    except hooks.UnknownName as error:
        raise BadInput(f"{data!r} is neither a file nor a data set: {error}") from error
    except ReadError as error:
        raise BadInput(str(error)) from error
    except (ValueError, ImportError, OSError) as error:
        raise BadInput(f"{data}: {error}") from error
    return loaded


def load_labels(path: Path, n_sequences: int) -> np.ndarray:
    """Read one label per line, or a ``.npy`` array, and compare the number with that of the sequences."""
    try:
        labels = (
            np.load(path, allow_pickle=False)
            if path.suffix == ".npy"
            else np.array(path.read_text("utf-8").splitlines())
        )
    except (ValueError, OSError) as error:
        raise BadInput(f"{path} holds no labels: {error}") from error
    if labels.shape != (n_sequences,):
        raise BadInput(f"{path} holds labels of shape {labels.shape} for {n_sequences} sequences: give one label each")
    return labels
