"""Principal components of a fitted kernel: the same coordinates for the sequences of the fit and for new ones."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-5
"""Eigenvalues below this share of the largest eigenvalue are left out: they are rounding errors, or the negative part
of a kernel that is not positive definite."""


@dataclass(frozen=True, eq=False)
class Components:
    """A kernel with its principal components of N reference sequences, scaled so that their mean square norm is 1.

    Attributes
    ----------
    name : str
        The name under which the kernel was requested.
    kernel : kernel object
        Fitted to the reference sequences.
    means : ndarray of shape (N,)
        Means of the rows of the kernel matrix.
    axes : ndarray of shape (N, r)
        ``V (w trace / N)**-0.5``, with the eigenvalues w > 0 and the eigenvectors V of the centred matrix.
    """

    name: str
    kernel: Any
    means: Array
    axes: Array

    @property
    def reference(self) -> Array:
        """The components of the reference sequences, (N, r)."""
        # axes have squared lengths 1 / (w m) with the mean square m, and the coordinates are the axes times w
        eigenvalues = 1 / np.square(self.axes).sum(axis=0)
        return self.axes * (eigenvalues / np.sqrt(eigenvalues.sum() / len(self.axes)))

    def coordinates(self, sequences: Sequence[Array], reference: Sequence[Array]) -> Array:
        """Return the components of new sequences, (n, r)."""
        try:
            packed = self.kernel.pack(as_items(sequences))
        except ValueError as error:
            raise ValueError(
                f"the kernel {self.name!r}, which this model uses, does not apply to these sequences: {error}. To "
                "compare such sequences, fit with kernels=[…] without this kernel"
            ) from error
        known = self.kernel.pack(as_items(reference))
        cross = self.kernel.cross(packed, known)
        centred = cross - cross.mean(axis=1, keepdims=True) - self.means + self.means.mean()
        return centred @ self.axes


def gram_of(name: str, kernel: Any, sequences: Sequence[Array], n_clusters: int | None) -> tuple[Any, Array]:
    """Return the kernel after fitting it to the sequences, and its kernel matrix, (N, N)."""
    items = as_items(sequences)
    fitted = fitted_to(kernel, items, n_clusters)
    packed = fitted.pack(items)
    K = np.asarray(fitted.cross(packed, packed), dtype=float)
    if not np.isfinite(K).all():
        raise ValueError(f"the kernel {name!r} has values that are not finite: check the kernel, or pass other kernels")
    return fitted, (K + K.T) / 2


def components_of(name: str, fitted: Any, gram: Array) -> tuple[Components, Array]:
    """Return the components of a fitted kernel and the coordinates of the sequences, (N, r), from its values.

    If all sequences are equal under the kernel, there are no axes.
    """
    means = gram.mean(axis=0)
    w, V = np.linalg.eigh(gram - means - means[:, None] + means.mean())
    kept = w > max(NEGLIGIBLE * float(w[-1]), 1e-12 * float(np.abs(gram).max()))
    w, V = w[kept], V[:, kept]
    mean_square = w.sum() / len(gram)
    # K V = V w, so that the centred matrix times the axes gives the coordinates V w**0.5, scaled
    return Components(name, fitted, means, V / np.sqrt(w * mean_square)), V * np.sqrt(w / mean_square)


def fitted_to(kernel: Any, items: Any, n_clusters: int | None) -> Any:
    """Return the kernel with the settings that it learns from the items, if it learns any."""
    fitted = getattr(kernel, "fitted", None)
    if fitted is None:
        return kernel
    return fitted(items, n_clusters) if "n_clusters" in inspect.signature(fitted).parameters else fitted(items)


def as_items(sequences: Sequence[Array]) -> list[tuple[Array]]:
    """Return sequences as items of the domain `sequences`."""
    return [(x,) for x in sequences]
