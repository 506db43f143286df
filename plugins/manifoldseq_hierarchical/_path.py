"""A sequence kept as quantized points of a path, and searched as the path: straight lines between the points.

The point of a segment of frames is their mean (or one of them). Neighbouring segments are joined, so that a query is
placed between points, and a segment can be several times as long as the tolerance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from manifoldseq.execution import cached_property

from ._closed_form import leading_directions
from ._quantize import Codes, Coordinates, Quantizer

# A subspace for each group of consecutive points: exact for the group, and dear, as every group keeps its own V.


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
        # a batch of products, one per group: (k, width, d) (k, d, m)
        away: NDArray[np.float32] = self._grouped(points) - self.origins[:, None]
        return (away @ self.components.transpose(0, 2, 1)).reshape(-1, self.components.shape[1])[: len(points)]

    def decode(self, Z: Coordinates) -> Coordinates:
        """Return the points that coordinates stand for, shape (n, d)."""
        made = self._grouped(Z) @ self.components + self.origins[:, None]
        return np.ascontiguousarray(made.reshape(-1, made.shape[2])[: len(Z)])

    def _grouped(self, rows: NDArray) -> Coordinates:
        padded = np.pad(rows, ((0, -len(rows) % self.width), (0, 0)), mode="edge")
        return padded.reshape(len(self.origins), self.width, -1).astype(np.float32)


Found = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Places in frames, and squared distances."""

_BLOCK = 1 << 22
"""Numbers in a block of scores or coordinates: 16 MiB in float32."""
_CELLS = 8
"""Cells of a filter from point to point, at most: as many as make them a frame wide."""
_SAMPLED = 512
"""Queries from which the size of errors is estimated, at most."""


@dataclass
class Path:
    """Points of a path in the coordinates of a subspace, quantized, with groups of them above.

    Parameters
    ----------
    codes : ndarray of shape (n, bytes), uint8
    places : ndarray of shape (4,), float64
        The frame of the first point, the frames from one point to the next, the frame of the last point, the last
        frame.
    quantizer : ScalarQuantizer or ProductQuantizer
    branching, levels : int
        Each level above the points holds the means of `branching` consecutive nodes of the one below. They are
        made from the codes and not stored.
    subspaces : NodeSubspaces, optional
        Of the groups of points, if each has its own; the points are then in the coordinates of frames.
    """

    codes: Codes
    places: NDArray[np.float64]
    quantizer: Quantizer
    branching: int
    levels: int
    subspaces: NodeSubspaces | None = None

    @cached_property
    def points(self) -> Coordinates:
        """The decoded points, shape (n, m); kept from the first search on."""
        Z = self.quantizer.decode(self.codes)
        return Z if self.subspaces is None else self.subspaces.decode(Z)

    @cached_property
    def nodes(self) -> list[Coordinates]:
        """The nodes of every level, the topmost first, the points last."""
        tree = [self.points]
        for _ in range(self.levels):
            below = tree[-1]
            if len(below) == 1:
                break  # further levels would repeat this node
            starts = np.arange(0, len(below), self.branching)
            sizes = np.diff(np.append(starts, len(below)))
            sums: Coordinates = np.add.reduceat(below, starts, axis=0)
            tree.append(sums / sizes[:, None].astype(np.float32))
        return tree[::-1]

    @property
    def resident(self) -> int:
        """Bytes of the decoded points and nodes."""
        return sum(level.nbytes for level in self.nodes)

    @cached_property
    def _at(self) -> NDArray[np.float64]:
        """The frame of each point, shape (n,)."""
        first, step, last, _ = self.places
        return np.append(first + step * np.arange(len(self.codes) - 1), last)

    @cached_property
    def _norms(self) -> list[NDArray[np.float32]]:
        return [np.square(level).sum(axis=1) for level in self.nodes]

    @cached_property
    def _products(self) -> NDArray[np.float32]:
        """Inner products of neighbours, shape (n - 1,)."""
        return np.einsum("ij,ij->i", self.points[:-1], self.points[1:])

    def search(self, Z: Coordinates, beam: int, n_best: int = 1) -> Found:
        """Return where on the path queries are, the best places first.

        Parameters
        ----------
        Z : ndarray of shape (Q, m), float32
            Queries in the coordinates of the subspace.
        beam : int
            Nodes that are kept at every level.
        n_best : int
            Places per query, on different lines between points.

        Returns
        -------
        places : ndarray of shape (Q, n_best), float64
            In frames. Where the path has fewer lines, the last is repeated.
        squared : ndarray of shape (Q, n_best), float32
        """
        found = [self._search(Z[rows], beam, n_best) for rows in self._blocks(len(Z), beam)]
        places, squared = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return places, squared

    def _blocks(self, n_queries: int, beam: int) -> Iterator[slice]:
        width = max(len(self.nodes[0]), beam * (self.branching + 2) * self.points.shape[1])
        step = max(1, _BLOCK // width)
        for start in range(0, n_queries, step):
            yield slice(start, start + step)

    def _search(self, Z: Coordinates, beam: int, n_best: int) -> Found:
        top = self.nodes[0]
        # down the levels: of the nodes kept at one, the children with the least |c|² - 2 z'c at the next, (Q, beam)
        scores = self._norms[0] - 2 * (Z @ top.T)
        kept = least(scores, beam)
        for level, norms in zip(self.nodes[1:-1], self._norms[1:-1], strict=True):
            children = _children(kept, self.branching, len(level))
            scores = norms[children] - 2 * _products(Z, level, children)
            kept = np.take_along_axis(children, least(scores, beam), axis=1)
        lines, products = self._lines(Z, kept, scores)
        return self._placed(Z, lines, products, n_best)

    def _lines(self, Z: Coordinates, kept: NDArray[np.intp], scores: NDArray) -> tuple[NDArray, NDArray]:
        """Return the runs of consecutive points to try, shape (Q, runs, length), and the products of queries with them.

        A run is what a node holds, with the neighbour on either side.
        """
        width = self.branching if self.levels else 1
        runs = np.clip(kept[:, :, None] * width + np.arange(-1, width + 1), 0, len(self.points) - 1)
        if self.levels:
            flat = runs.reshape(len(Z), -1)
            return runs, _products(Z, self.points, flat).reshape(runs.shape)
        # without levels the scores |c|² - 2 z'c of all points are known: z'c follows
        dense = (self._norms[-1] - scores) / 2
        return runs, np.take_along_axis(dense, runs.reshape(len(Z), -1), axis=1).reshape(runs.shape)

    def _placed(self, Z: Coordinates, runs: NDArray[np.intp], products: NDArray, n_best: int) -> Found:
        """Place each query on its best lines: the nearest point of each line, in closed form."""
        starts, ends = runs[..., :-1], runs[..., 1:]
        norms, gaps = self._norms[-1], np.diff(self._at)
        # on the line a + s (b - a): along = (z - a)'(b - a), length = |b - a|², share = along / length, all from inner
        # products; the squared distance is |z|² + |a|² - 2 z'a - s (2 along - s length), (Q, runs, lines)
        between = self._products[np.minimum(starts, len(gaps) - 1)]
        along = products[..., 1:] - products[..., :-1] + norms[starts] - between
        length = norms[starts] + norms[ends] - 2 * between
        # a run that was cut repeats a point, and points may coincide: there is no line then
        apart = (ends > starts) & (length > 1e-6 * (norms[starts] + norms[ends]))
        along, length = along * apart, np.where(apart, length, 1)
        # the first and the last line go on to the ends of the sequence
        first = np.where(starts == 0, -self._at[0] / gaps[0], 0.0)
        last = np.where(ends == len(gaps), 1 + (self.places[3] - self._at[-1]) / gaps[-1], 1.0)
        share = np.clip(along / length, first, last).astype(np.float32)
        if self.places[1] == 1:  # every frame has its point: there is nothing between
            share = np.rint(share)
        squared = norms[starts] - 2 * products[..., :-1] - share * (2 * along - share * length)
        lines, share = starts.reshape(len(Z), -1), share.reshape(len(Z), -1)
        energy = np.square(Z).sum(axis=1, keepdims=True)
        squared = np.maximum(squared.reshape(len(Z), -1) + energy, 0)
        best = _first_least(squared, lines, 1e-6 * (energy + norms[lines].max(axis=1, keepdims=True)), n_best)
        best = np.pad(best, ((0, 0), (0, n_best - best.shape[1])), mode="edge")
        line, share = np.take_along_axis(lines, best, axis=1), np.take_along_axis(share, best, axis=1)
        found = self._at[line] + share * gaps[np.minimum(line, len(gaps) - 1)]
        return found, np.take_along_axis(squared, best, axis=1)

    def distances(self, Z: Coordinates) -> NDArray[np.float32]:
        """Return the squared distances of queries to all points, shape (Q, n)."""
        energy = np.square(Z).sum(axis=1, keepdims=True)
        return np.maximum(self._norms[-1] - 2 * (Z @ self.points.T) + energy, 0)

    def near(self, Z: Coordinates, at: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return where on the lines to either side of one point each queries are, in frames, shape (Q,)."""
        runs = np.clip(at[:, None, None] + np.arange(-1, 2), 0, len(self.points) - 1)
        products = _products(Z, self.points, runs[:, 0])[:, None]
        return self._placed(Z, runs, products, 1)[0][:, 0]

    def decode(self, frames: NDArray[np.float64]) -> Coordinates:
        """Return the points of the path at some frames, shape (Q, m)."""
        line, share = self._between(frames)
        share = np.clip(share, 0, 1)[:, None]
        return ((1 - share) * self.points[line] + share * self.points[line + 1]).astype(np.float32)

    def scores(self, Z: Coordinates, frames: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the squared distances of queries to the path at some frames, less those to the origin, (Q, frames)."""
        line, share = self._between(frames)
        a, b = (1 - share).astype(np.float32), share.astype(np.float32)
        # |a p + b r|² - 2 z'(a p + b r), with p and r the ends of the line, from inner products
        norms = self._norms[-1]
        squares = a * a * norms[line] + b * b * norms[line + 1] + 2 * a * b * self._products[line]
        products = Z @ self.points.T
        scores = squares - 2 * (a * products[:, line] + b * products[:, line + 1])
        return scores.astype(np.float32, copy=False)

    @cached_property
    def cells(self) -> NDArray[np.float64]:
        """Frames at equal distances along the way, a few from point to point, shape (cells,)."""
        width = self.places[1] / min(_CELLS, int(self.places[1]))
        return np.arange(int(self.places[3] / width) + 1) * width

    def residuals(self, Z: Coordinates, frames: NDArray[np.float64]) -> tuple[Coordinates, float]:
        """Return queries less the nearest of some frames of the path, and what is nothing beside their distances.

        Of many queries, at most `_SAMPLED` that are evenly spaced.
        """
        Z = Z[:: -(-len(Z) // _SAMPLED)]
        parts = [self.scores(Z[start : start + 32], frames) for start in range(0, len(Z), 32)]
        nearest = np.concatenate([part.argmin(axis=1) for part in parts])
        away = np.concatenate([part.mean(axis=1) - part.min(axis=1) for part in parts])
        return Z - self.decode(frames[nearest]), float(np.median(away)) * 1e-5

    def _between(self, frames: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the lines that frames are on, by their first points, and where on them; at the ends beyond 0 or 1."""
        line = np.clip(np.searchsorted(self._at, frames, side="right") - 1, 0, len(self._at) - 2)
        return line, (frames - self._at[line]) / (self._at[line + 1] - self._at[line])


def _first_least(scores: NDArray, lines: NDArray[np.intp], rounding: NDArray, k: int) -> NDArray[np.intp]:
    """Return the columns of the k least scores of each row in order; of equal ones (to rounding), first lines."""
    # scores in units of rounding, so that equal ones compare by their line
    steps = np.floor((scores - scores.min(axis=1, keepdims=True)) / np.maximum(rounding, np.finfo(np.float32).tiny))
    if k == 1:
        return np.where(steps == 0, lines, np.iinfo(np.intp).max).argmin(axis=1)[:, None]
    order = np.lexsort((lines, steps), axis=1)
    ordered = np.take_along_axis(lines, order, axis=1)
    again = np.pad(ordered[:, 1:] == ordered[:, :-1], ((0, 0), (1, 0)))  # a line may be in two runs
    return np.take_along_axis(order, np.argsort(again, axis=1, kind="stable"), axis=1)[:, :k]


def least(scores: NDArray, k: int) -> NDArray[np.intp]:
    """Return the columns of the k least scores of each row, in no order."""
    if k >= scores.shape[1]:
        return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    if k == 1:
        return scores.argmin(axis=1)[:, None]
    return np.argpartition(scores, k - 1, axis=1)[:, :k]


def _children(nodes: NDArray[np.intp], branching: int, n: int) -> NDArray[np.intp]:
    """Return the children of nodes, shape (Q, nodes * branching); the last node may repeat its last one."""
    children = nodes[:, :, None] * branching + np.arange(branching)
    return np.minimum(children, n - 1).reshape(len(nodes), -1)


def _products(Z: Coordinates, rows: Coordinates, which: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the product of each query with its own rows, shape (Q, rows)."""
    return (rows[which] @ Z[:, :, None])[:, :, 0]
