"""Checkpoints of a fit, marked with the data and settings that they belong to."""

import dataclasses
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import seed_fingerprint

from ..families._family import Array

_UNMARKED = ("max_iter", "tol", "n_init", "random_state")
"""Settings that may change when a fit is resumed; the seed is marked apart."""
_BLOCK = 4096


def store_of(checkpoint: Any) -> ms.storage.Checkpoint | None:
    """Return the checkpoint that an argument is or names, or None."""
    if checkpoint is None or isinstance(checkpoint, ms.storage.Checkpoint):
        return checkpoint
    if not isinstance(checkpoint, str | Path):
        raise ValueError(f"checkpoint={checkpoint!r} is not valid: name a folder, or pass a Checkpoint")
    return ms.storage.Checkpoint(checkpoint)


def checkpoint_of(estimator: Any, checkpoint: Any, *arrays: Array | None) -> ms.storage.Checkpoint | None:
    """Return the checkpoint with a fingerprint of the settings of an estimator and of its data, or None.

    It is taken before anything is drawn from a Generator.
    """
    store = store_of(checkpoint)
    if store is None:
        return None
    if store.fingerprint is not None:
        return store
    digest = sha256()
    for array in arrays:
        if array is not None:
            digest.update(repr((array.shape, array.dtype.str)).encode())
            for start in range(0, len(array), _BLOCK):
                digest.update(np.ascontiguousarray(array[start : start + _BLOCK]).tobytes())
    settings = {name: value for name, value in estimator.get_params().items() if name not in _UNMARKED}
    init = settings.get("init")
    if isinstance(init, np.ndarray):
        settings["init"] = init.tolist()
    family = settings.get("family")
    settings["family"] = getattr(family, "name", family)
    digest.update(repr([sorted(settings.items()), seed_fingerprint(estimator.random_state)]).encode())
    return dataclasses.replace(store, fingerprint=digest.hexdigest())
