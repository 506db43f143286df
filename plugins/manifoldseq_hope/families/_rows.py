"""Checks of rows: sizes, directions and unit length."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from manifoldseq.estimators import check_real, check_whole, row_blocks

from ._family import Array


def check_sizes(N: int, D: int, M: Any, K: Any) -> None:
    """Raise ValueError for sizes that are not possible with N rows of D columns."""
    check_whole("n_latent", M)
    check_number_of("n_components", K)
    if M > D:
        raise ValueError(f"n_latent={M} exceeds n_features={D}: lower n_latent")
    if K > N:
        raise ValueError(f"n_components={K} exceeds n_samples={N}: lower n_components")


def check_number_of(name: str, K: Any) -> None:
    """Raise ValueError for an invalid number of components; the message names the estimators that choose it."""
    if isinstance(K, str) and K == "auto":
        raise ValueError(
            f"{name}='auto' is supported only by VonMisesFisherMixture and PCAMovMF, which choose the number by bic: "
            "pass a whole number"
        )
    check_whole(name, K)


def check_rows(X: Any) -> Array:
    """Validate an (N, D) array of float32 or float64; the rows of several tables in a list are concatenated."""
    X = check_real(X)
    if isinstance(X, list | tuple) and X and all(np.ndim(part) == 2 for part in X):
        X = np.concatenate([np.asarray(part) for part in X])
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiu" or 0 in X.shape:
        raise ValueError(f"X has shape {X.shape} and dtype {X.dtype}: pass an (N, D) array of real numbers")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if len(bad):
        raise ValueError(f"row {bad[0]} of X has NaN or infinity: remove or fill it")
    return X


def has_direction(X: Any) -> NDArray[np.bool_]:
    """Return which rows of an array, a sparse matrix or a memory map are not all zeros."""
    if isinstance(X, ScaledRows):
        return np.concatenate([X[rows].any(axis=1) for rows in row_blocks(len(X))])
    return np.asarray(abs(X).sum(axis=1)).ravel() > 0 if issparse(X) else X.any(axis=1)


def check_directions(X: Any) -> None:
    """Raise ValueError for rows of zeros, which have no direction."""
    zero = np.flatnonzero(~has_direction(X))
    if len(zero):
        raise ValueError(
            f"row {zero[0]} of X is all zeros ({len(zero)} of {X.shape[0]} rows are) and has no direction: remove it"
        )


def with_direction(X: Any, weight: Array | None) -> tuple[Any, Array | None]:
    """Return the rows that have a direction, with their weights; warn about rows of zeros.

    Rows of a memory map are not copied: rows of zeros stay and get a weight of zero.
    """
    good = has_direction(X)
    if good.all():
        return X, weight
    zero = np.flatnonzero(~good)
    if not good.any():
        raise ValueError("every row of X is all zeros and has no direction: pass other rows")
    warnings.warn(
        f"row {zero[0]} of X is all zeros ({len(zero)} of {X.shape[0]} rows are): it has no direction and is ignored",
        stacklevel=5,
    )
    if isinstance(X, np.memmap):
        return X, good * (1.0 if weight is None else weight)
    return X[good], None if weight is None else weight[good]


def unit_rows(X: Any) -> Any:
    """Return the rows scaled to unit length, without overflow or underflow of squares; rows of zeros stay."""
    if issparse(X):
        where = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        largest = np.zeros(X.shape[0], X.dtype)
        np.maximum.at(largest, where, np.abs(X.data))
        values = X.data / np.where(largest > 0, largest, 1)[where]
        length = np.sqrt(np.bincount(where, weights=np.square(values, dtype=np.float64), minlength=X.shape[0]))
        values = (values / np.where(length > 0, length, 1)[where]).astype(X.dtype)
        return csr_array((values, X.indices, X.indptr), X.shape)
    limits = np.finfo(X.dtype)
    with np.errstate(over="ignore", under="ignore"):
        length = np.sqrt(np.einsum("nd,nd->n", X, X))
    beyond = np.flatnonzero(~((length > np.sqrt(limits.tiny) / limits.eps) & (length < np.inf)))
    length[beyond] = 1
    rows = X / length[:, None]
    if len(beyond):
        far = X[beyond]
        far = far / np.maximum(np.abs(far).max(axis=1, keepdims=True), limits.smallest_subnormal)
        rows[beyond] = far / np.maximum(np.linalg.norm(far, axis=1, keepdims=True), 1)
    return rows


@dataclass(frozen=True)
class Scaling:
    """The preparation of rows: subtraction of a mean, or scaling to unit length.

    Attributes
    ----------
    mean : ndarray of shape (D,) or None
    unit : bool
    """

    mean: Array | None = None
    unit: bool = False

    def __call__(self, rows: Any) -> Any:
        """Return rows in memory, scaled."""
        if self.mean is not None:
            rows = rows - self.mean.astype(rows.dtype)
        return unit_rows(rows) if self.unit else rows

    def of(self, rows: Any) -> Any:
        """Return scaled rows; rows of a memory map are scaled when they are read, slice by slice."""
        return ScaledRows(rows, self) if isinstance(rows, np.memmap) else self(rows)


@dataclass(frozen=True)
class ScaledRows:
    """Rows of a memory map, (N, D), that are scaled when they are read; unread rows take no memory."""

    rows: np.memmap
    scaling: Scaling

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype:
        return self.rows.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: Any) -> Any:
        return self.scaling(np.asarray(self.rows[some]))
