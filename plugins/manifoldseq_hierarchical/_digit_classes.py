"""Segments named by the digits of their number: what is stored grows with the logarithm of their number.

Level l has one class per digit, shared by all segments whose number has that digit at place l. A query finds each digit
by the nearest class mean of its level. Distant segments share their classes, so the means say little about either.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._closed_form import leading_directions, weighted_centroids
from ._path import Found, least
from ._quantize import Codes, Coordinates, ScalarQuantizer


@dataclass
class Digits:
    """Class means of every digit at every place, in a subspace per place, quantized.

    Parameters
    ----------
    components : list of ndarray of shape (m_l, d), float32
        The subspace of each place, the least significant digit first.
    codes : list of ndarray of shape (h, bytes), uint8
    quantizers : list of ScalarQuantizer
    n : int
        Number of segments.
    places : ndarray of shape (2,), float64
        The frame of the first segment's middle, and the frames from one segment to the next.
    """

    components: list[Coordinates]
    codes: list[Codes]
    quantizers: list[ScalarQuantizer]
    n: int
    places: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        points: NDArray,
        sizes: NDArray[np.int64],
        places: NDArray[np.float64],
        *,
        branching: int,
        bits: int,
        n_components: int | None,
        tolerance: float,
    ) -> "Digits":
        """Return the digits of the segments with these points about the origin, shape (n, d), and sizes, shape (n,)."""
        made = cls([], [], [], len(points), places)
        number = np.arange(len(points))
        while True:
            number, digit = np.divmod(number, branching)
            # the class of a segment is its digit: class means weighted by frames, then their subspace as in (9)-(13)
            counts = np.bincount(digit, sizes)
            sums = np.zeros((len(counts), points.shape[1]))
            np.add.at(sums, digit, points * sizes[:, None])
            means = sums / counts[:, None]
            B = weighted_centroids(means, counts, np.zeros(points.shape[1]))
            m = None if n_components is None else min(n_components, *B.shape)
            V, _ = leading_directions(B, tolerance, m)
            Z = means @ V
            made.quantizers.append(ScalarQuantizer.of(Z, bits))
            made.codes.append(made.quantizers[-1].encode(Z))
            made.components.append(np.ascontiguousarray(V.T, np.float32))
            if not number.any():
                return made

    def search(self, X: Coordinates, beam: int, n_best: int = 1) -> Found:
        """Return the segments whose digits fit queries about the origin, shape (Q, d), best, and how well.

        Squared distances are those in the subspaces of the digits, summed over the places.
        """
        numbers = np.zeros((len(X), 1), np.int64)
        squared = np.zeros((len(X), 1), np.float32)
        for place in reversed(range(len(self.codes))):
            Z = X @ self.components[place].T
            means = self.quantizers[place].decode(self.codes[place])
            scores = np.square(means).sum(axis=1) - 2 * (Z @ means.T) + np.square(Z).sum(axis=1, keepdims=True)
            squared = (squared[:, :, None] + scores[:, None, :]).reshape(len(X), -1)
            digits = np.arange(len(means))
            # the digits of a number are appended from the most significant on
            base = len(self.codes[0])
            numbers = (numbers[:, :, None] * base + digits).reshape(len(X), -1)
            lowest = numbers * base**place
            squared = np.where(lowest < self.n, squared, np.inf)
            kept = least(squared, max(beam, n_best))
            numbers = np.take_along_axis(numbers, kept, axis=1)
            squared = np.take_along_axis(squared, kept, axis=1)
        order = np.argsort(squared, axis=1, kind="stable")[:, :n_best]
        order = np.pad(order, ((0, 0), (0, n_best - order.shape[1])), mode="edge")
        numbers = np.take_along_axis(numbers, order, axis=1)
        return self.places[0] + self.places[1] * numbers, np.take_along_axis(squared, order, axis=1)
