"""A subspace for each group of consecutive points: exact for the group, and dear, as every group keeps its own V."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ._closed_form import leading_directions
from ._quantize import Coordinates


@dataclass(frozen=True)
class NodeSubspaces:
    """The means of groups of `width` consecutive points, and the leading directions of each about its mean.

    Parameters
    ----------
    width : int
    origins : ndarray of shape (k, d), float32
    components : ndarray of shape (k, m, d), float32
    """

    width: int
    origins: Coordinates
    components: Coordinates

    @classmethod
    def of(cls, points: NDArray, width: int, n_components: int | None) -> Self:
        """Return the subspaces of points, shape (n, d); by default of as many directions as tell a group apart."""
        groups = [points[start : start + width] for start in range(0, len(points), width)]
        m = min(width - 1, points.shape[1]) if n_components is None else n_components
        origins = np.array([group.mean(axis=0) for group in groups])
        directions = [
            leading_directions(group - origin, 0.0, m)[0].T for group, origin in zip(groups, origins, strict=True)
        ]
        return cls(width, origins.astype(np.float32), np.ascontiguousarray(directions, np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes of the origins and the directions."""
        return self.origins.nbytes + self.components.nbytes

    def encode(self, points: NDArray) -> Coordinates:
        """Return the coordinates of points in the subspaces of their groups, shape (n, m)."""
        away = self._grouped(points) - self.origins[:, None]
        return (away @ self.components.transpose(0, 2, 1)).reshape(-1, self.components.shape[1])[: len(points)]

    def decode(self, Z: Coordinates) -> Coordinates:
        """Return the points that coordinates stand for, shape (n, d)."""
        made = self._grouped(Z) @ self.components + self.origins[:, None]
        return np.ascontiguousarray(made.reshape(-1, made.shape[2])[: len(Z)])

    def _grouped(self, rows: NDArray) -> Coordinates:
        padded = np.pad(rows, ((0, -len(rows) % self.width), (0, 0)), mode="edge")
        return padded.reshape(len(self.origins), self.width, -1).astype(np.float32)
