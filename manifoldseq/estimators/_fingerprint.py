"""Fingerprints of data and settings, for checkpoints and run directories."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from ..storage import Checkpoint
from ._random import seed_fingerprint
from ._rows import row_blocks

MAY_CHANGE = ("max_iter", "tol", "n_init", "n_jobs", "device", "verbose")
"""Parameters that may change before a fit is resumed. `n_jobs` and `device` can change the last digits of iterates."""
_SEEDS = (np.random.Generator, np.random.BitGenerator, np.random.SeedSequence, np.random.RandomState)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BYTES = 1 << 22
"""Number of bytes of an array that are copied together."""


def fingerprint(*parts: Any) -> str:
    """Return a digest that is equal only for equal parts, in every process.

    Compute the digest before anything is drawn from a generator among the parts.

    Parameters
    ----------
    *parts
        Arrays and sparse matrices, by their bytes, dtypes and shapes; numbers and strings; mappings, sequences and
        dataclasses of them; generators, as in `seed_fingerprint`; estimators, by their classes and parameters except
        `max_iter`, `tol`, `n_init`, `n_jobs`, `device` and `verbose`, which may change before a fit is resumed. Other
        objects are represented by their class and repr, without addresses in memory. For a function of your own, also
        pass some of its values.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import SphericalKMeans
    >>> X = np.eye(3)
    >>> fingerprint(SphericalKMeans(2, max_iter=5), X) == fingerprint(SphericalKMeans(2), X)
    True
    >>> fingerprint(SphericalKMeans(2), X) == fingerprint(SphericalKMeans(3), X)
    False
    """
    digest = sha256()
    for part in parts:
        _feed(digest.update, part)
    return digest.hexdigest()


def marked(checkpoint: Checkpoint | str | Path | None, parts: Callable[[], Any]) -> Checkpoint | None:
    """Return a checkpoint from a Checkpoint or a directory, with a fingerprint of the parts unless it has one.

    Parameters
    ----------
    checkpoint : Checkpoint, str, Path or None
        The checkpoint; None is returned unchanged.
    parts : callable
        ``parts() -> tuple``, for `fingerprint`; called only if there is no fingerprint yet.

    Raises
    ------
    ValueError
        If `checkpoint` is anything else.

    Examples
    --------
    >>> marked("runs/one", lambda: (1, 2)).fingerprint == fingerprint(1, 2)
    True
    """
    store = Checkpoint.at(checkpoint)
    if store is None or store.fingerprint is not None:
        return store
    return dataclasses.replace(store, fingerprint=fingerprint(*parts()))


def _feed(update: Callable[[bytes], None], part: Any) -> None:
    """Feed a value to a digest, with lengths and types before contents, so that different values differ."""
    if isinstance(part, np.generic):
        part = part.item()
    if isinstance(part, _PLAIN):
        update(f"{type(part).__name__} {part!r};".encode())
    elif isinstance(part, np.ndarray) and not part.dtype.hasobject:
        update(f"array {part.dtype.str} {part.shape};".encode())
        rows = part if part.ndim else part[None]
        for block in row_blocks(len(rows), max(1, _BYTES // max(1, rows[:1].nbytes))):
            update(rows[block].tobytes())
    elif issparse(part):
        rows = csr_array(part)
        _feed(update, ["sparse", rows.shape, rows.data, rows.indices, rows.indptr])
    elif isinstance(part, _SEEDS):
        update(f"seed {seed_fingerprint(part)};".encode())
    elif isinstance(part, Mapping):
        update(b"mapping;")
        _feed(update, sorted(part.items(), key=lambda item: repr(item[0])))
    elif isinstance(part, list | tuple | set | frozenset | np.ndarray):
        items = sorted(part, key=repr) if isinstance(part, set | frozenset) else list(part)
        update(f"{type(part).__name__} {len(items)};".encode())
        if all(type(item) in _PLAIN for item in items):
            update(repr(items).encode())
        else:
            for item in items:
                _feed(update, item)
    elif isinstance(part, type):
        update(f"{part.__module__}.{part.__qualname__};".encode())
    else:
        _feed(update, type(part))
        if callable(getattr(part, "get_params", None)):
            settings = part.get_params(deep=False)
            _feed(update, {name: value for name, value in settings.items() if name not in MAY_CHANGE})
        elif dataclasses.is_dataclass(part):
            _feed(update, {one.name: getattr(part, one.name) for one in dataclasses.fields(part) if one.compare})
        else:
            update(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part)).encode())
