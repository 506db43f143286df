"""A sequence stored as quantized points of a path, and search along the straight lines between the points.

The point of a segment is the mean of its frames (or one of the frames). Neighbouring points are joined by lines, so
that queries are placed between points, and segments can be several times as long as the tolerance.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manifoldseq.execution import cached_property

from ._closed_form import leading_directions
from ._quantize import WIDTH, Codes, Coordinates, ProductQuantizer, Quantizer, RelativeQuantizer, ScalarQuantizer

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
        """Return the subspaces of points, shape (n, d); the default dimension is ``min(width - 1, d)``."""
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
        """Return the points of coordinates, shape (n, d)."""
        made = self._grouped(Z) @ self.components + self.origins[:, None]
        return np.ascontiguousarray(made.reshape(-1, made.shape[2])[: len(Z)])

    def decode_some(self, Z: Coordinates, at: NDArray[np.intp]) -> Coordinates:
        """Return the points with these numbers from their coordinates."""
        groups = at // self.width
        return np.matmul(Z[:, None], self.components[groups])[:, 0] + self.origins[groups]

    def _grouped(self, rows: NDArray) -> Coordinates:
        padded = np.pad(rows, ((0, -len(rows) % self.width), (0, 0)), mode="edge")
        return padded.reshape(len(self.origins), self.width, -1).astype(np.float32)


Found = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Places (in frames) and squared distances."""
Parts = Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Rows of queries, and the numbers of the points between which the queries are searched."""

_BLOCK = 1 << 18
"""Number of values in a block of scores: 1 MiB in float32."""
_BUFFER = 3 << 14, 1 << 18
"""Bytes of decoded points in memory during a search, plus 17 points: minimum, and value for long sequences."""
_AT_ONCE = 1 << 15
"""Number of scores that are computed together: 128 kB, so that four arrays fit into the cache."""
_FEW = 24
"""Queries up to which a search through nodes decodes only the lines near those of each: 1.1 ms for one query at 10⁶
frames, instead of 6.9. Blocks of lines, decoded for many, hold others too: none was better in 2000 queries."""
_CELLS = 8
"""Maximum number of cells of a filter between two points; cells are at least one frame wide."""
AT_END = 3
"""Number of frames whose mean represents the first or the last frame."""


@dataclass
class Path:
    """Points of a path in the coordinates of a subspace, quantized.

    A search decodes points into a buffer in blocks and compares them with all queries. With levels of nodes above the
    points, they are compared only with the queries whose nearest nodes include their node.

    Parameters
    ----------
    codes : ndarray of shape (n, bytes), uint8
        Codes of the points; with a `RelativeQuantizer`, of the points in full groups.
    places : ndarray of shape (4,), float64
        The frame of the first point, the frames from one point to the next, the frame of the last point, the last
        frame.
    quantizer : ScalarQuantizer, ProductQuantizer or RelativeQuantizer
    branching, levels : int
        Each level above the points holds the means of `branching` consecutive nodes of the level below. The first
        search computes them from the codes and stores them as codes.
    subspaces : NodeSubspaces, optional
        The subspaces of groups of points, if each group has its own; the points are then in the coordinates of frames.
    means, last : ndarrays of shape (g, m) and (at most 8, m), uint8, optional
        The data that a `RelativeQuantizer` stores in addition to the codes.
    ends : ndarray of shape (2, bytes), uint8, optional
        The first and the last frame, as means of `AT_END` frames, in the code of points (with a `RelativeQuantizer`,
        minus the neighbouring point). They are stored because the first and the last point are half a segment away from
        the ends, so that extrapolated lines would miss the ends. Without ends, the first and the last line are
        extrapolated.
    """

    codes: Codes
    places: NDArray[np.float64]
    quantizer: Quantizer
    branching: int
    levels: int
    subspaces: NodeSubspaces | None = None
    means: Codes | None = None
    last: Codes | None = None
    ends: Codes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.codes) + (0 if self.last is None else len(self.last))

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return sum(part.nbytes for part in (self.codes, self.means, self.last, self.ends) if part is not None)

    @property
    def _range(self) -> tuple[int, int]:
        """The number of the first point and the number after the last point; the ends are the points -1 and n."""
        return -self._at.begins, self.n + self._at.ends

    def with_ends(self, ends: NDArray) -> Self:
        """Return the path with these points as its ends, shape (2, m); with `subspaces`, frames of shape (2, d)."""
        base, quantizer = self._ends_code
        return replace(self, ends=quantizer.encode(ends - base))

    @property
    def end_points(self) -> Coordinates:
        """The ends, shape (2, m)."""
        assert self.ends is not None
        base, quantizer = self._ends_code
        return quantizer.decode(self.ends) + base

    @property
    def _ends_code(self) -> tuple[Coordinates, ScalarQuantizer | ProductQuantizer]:
        """The offset of the ends, shape (2, m), and the quantizer of the remainder."""
        quantizer, nothing = self.quantizer, np.zeros((2, 1), np.float32)
        if self.subspaces is not None:
            # the subspace of a group of points does not hold what leads away from it: eight bits for each column, out
            # to a quarter beyond the means of the groups
            reach = 1.25 * np.abs(self.subspaces.origins).max(axis=0) / 127.5
            return nothing, ScalarQuantizer(8, np.where(reach > 0, reach, 1).astype(np.float32))
        if isinstance(quantizer, RelativeQuantizer):
            return np.concatenate([self.decoded(0, 1), self.decoded(self.n - 1, self.n)]), quantizer.fine
        return nothing, quantizer

    def decoded(self, start: int, stop: int) -> Coordinates:
        """Return the points from one number to another, shape (stop - start, m)."""
        stop = min(stop, self.n)
        if not isinstance(self.quantizer, RelativeQuantizer):
            Z = self.quantizer.decode(self.codes[start:stop])
            return Z if self.subspaces is None else self.subspaces.decode_some(Z, np.arange(start, stop))
        assert self.means is not None and self.last is not None
        coarse, full = self.quantizer.coarse, len(self.codes)
        Z = self.quantizer.fine.decode(self.codes[start:stop])
        first = start // WIDTH
        means = coarse.decode(self.means[first : -(-min(stop, full) // WIDTH)])
        Z += means[np.arange(start, start + len(Z)) // WIDTH - first] if len(Z) else 0
        if stop <= full:
            return Z
        return np.concatenate([Z, coarse.decode(self.last[max(start - full, 0) : stop - full])])

    def _with_ends(self, start: int, stop: int) -> Coordinates:
        """Return the points from one number to another, within -1 (the first frame) to n (the last frame)."""
        inner = self.decoded(max(start, 0), stop)
        if start >= 0 and stop <= self.n:
            return inner
        ends = self.end_points
        return np.concatenate([ends[: int(start < 0)], inner, ends[2 - int(stop > self.n) :]])

    def _decoded_at(self, at: NDArray[np.intp]) -> Coordinates:
        """Return the points with these ascending numbers from -1 to n, shape (len(at), m)."""
        if at[0] < 0 or at[-1] >= self.n:
            inner = self._decoded_at(at[(at >= 0) & (at < self.n)])
            ends = self.end_points
            first, last = ends[: int(at[0] < 0)], ends[2 - int(at[-1] >= self.n) :]
            return np.concatenate([first, inner, last])
        if not isinstance(self.quantizer, RelativeQuantizer):
            Z = self.quantizer.decode(self.codes[at])
            return Z if self.subspaces is None else self.subspaces.decode_some(Z, at)
        assert self.means is not None and self.last is not None
        coarse, full = self.quantizer.coarse, len(self.codes)
        inside = at[: np.searchsorted(at, full)]
        Z = self.quantizer.fine.decode(self.codes[inside])
        groups, own = np.unique(inside // WIDTH, return_inverse=True)
        Z += coarse.decode(self.means[groups])[own]
        return np.concatenate([Z, coarse.decode(self.last[at[len(inside) :] - full])])

    def appended(
        self,
        points: NDArray,
        again: bool,
        final: bool,
        places: NDArray[np.float64],
        levels: int,
        end: NDArray | None,
    ) -> "Path":
        """Return the path with more points.

        Parameters
        ----------
        points : ndarray of shape (n, m)
        again, final : bool
            Whether the first new point replaces the last point so far, and whether the last new point is final.
        places : ndarray of shape (4,)
        levels : int
        end : ndarray of shape (m,), optional
            The mean of the last frames; None without ends.
        """
        path = self._longer(points, again, final, places, levels)
        return path if end is None else path.with_ends(np.stack([self.end_points[0], end]))

    def _longer(self, points: NDArray, again: bool, final: bool, places: NDArray[np.float64], levels: int) -> "Path":
        """Return the path with more points, without ends."""
        if not isinstance(self.quantizer, RelativeQuantizer):
            codes = self.codes[: len(self.codes) - again]
            codes = np.concatenate([codes, self.quantizer.encode(points)])
            return Path(codes, places, self.quantizer, self.branching, levels)
        assert self.means is not None and self.last is not None
        codes, means, last = self.codes, self.means, self.last
        if again:
            last = last[:-1]
        fine, more, last = self.quantizer.encode(points, final, last)
        codes, means = np.concatenate([codes, fine]), np.concatenate([means, more])
        return Path(codes, places, self.quantizer, self.branching, levels, None, means, last)

    @property
    def points(self) -> Coordinates:
        """All points, shape (n, m), which are not cached."""
        return self.decoded(0, self.n)

    @cached_property
    def nodes(self) -> list[tuple[Codes, ScalarQuantizer]]:
        """Codes of the nodes of every level above the points, the topmost first."""
        tree: list[tuple[Codes, ScalarQuantizer]] = []
        count, made = self.n, None
        for _ in range(self.levels):
            if count == 1:
                break  # further levels would repeat this node
            # means of the nodes below, some at a time: so many are a level that may be held in floats
            width, parts = self.branching, []
            step = max(_BLOCK // (width * self._m), 1) * width
            for start in range(0, count, step):
                below = self.decoded(start, start + step) if made is None else made[start : start + step]
                starts = np.arange(0, len(below), width)
                sizes = np.diff(np.append(starts, len(below)))
                parts.append(np.add.reduceat(below, starts, axis=0) / sizes[:, None].astype(np.float32))
            made = np.concatenate(parts)
            count = len(made)
            few = isinstance(self.quantizer, ScalarQuantizer) and self.quantizer.bits <= 2
            quantizer = ScalarQuantizer.of(made, 4 if few else 8)
            tree.append((quantizer.encode(made), quantizer))
        return tree[::-1]

    @property
    def resident(self) -> int:
        """Bytes in memory while searching, without the codes: codes of the nodes, and the buffer of decoded points."""
        first, after = self._range
        return self._node_bytes + 4 * self._m * min(self._step + 1, after - first)

    @property
    def _node_bytes(self) -> int:
        return sum(codes.nbytes + quantizer.nbytes for codes, quantizer in self.nodes)

    @property
    def _m(self) -> int:
        return self.subspaces.components.shape[2] if self.subspaces is not None else self.decoded(0, 1).shape[1]

    @property
    def _step(self) -> int:
        """Number of lines that are searched together: all memory is at most 1.5 times the codes plus 64 kB."""
        least, most = _BUFFER
        spare = max(self.nbytes // 2 - self._node_bytes, 0)
        return max(min(least + spare // 2, most) // (4 * self._m), 16)

    @cached_property
    def _at(self) -> "_Evenly":
        """The frames of the points."""
        first, step, last, final = self.places.tolist()
        kept = self.ends is not None
        # the point at an end is a mean of few frames: nearer than that, it says no more than its neighbour
        begins, ends = kept and first > AT_END // 2, kept and final - last > AT_END // 2
        return _Evenly(first, step, last, final, self.n, begins, ends)

    def search(self, Z: Coordinates, beam: int, n_best: int = 1, apart: float = 0.0) -> Found:
        """Place queries on the path.

        Parameters
        ----------
        Z : ndarray of shape (Q, m), float32
            Queries in the coordinates of the subspace.
        beam : int
            The number of nodes that are kept at every level.
        n_best : int
            The number of places for each query, each the best place of a line, in order of distance.
        apart : float
            The minimum distance between the places of a query, in frames.

        Returns
        -------
        places : ndarray of shape (Q, n_best), float64
            Places in frames. If there are fewer, the last place is repeated.
        squared : ndarray of shape (Q, n_best), float32
        """
        lines = self._step
        rows = max(1, _BLOCK // lines)
        # a place excludes the lines within `apart` frames of it, at most `excluded` of them
        excluded = 2 * int(min(apart / self.places[1], self.n) + 2) + 1 if apart > 0 else 1
        low, high = self._range
        wanted = min((n_best - 1) * excluded + 1, high - low - 1)
        found = [self._search(Z[start : start + rows], beam, wanted, lines) for start in range(0, len(Z), rows)]
        places, squared = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return (places, squared) if n_best == 1 else _apart(places, squared, n_best, apart)

    def _search(self, Z: Coordinates, beam: int, n_best: int, lines: int) -> Found:
        energy = np.vecdot(Z, Z)
        low, high = self._range
        k = min(n_best, high - low - 1)
        best = np.full((len(Z), k), np.inf, np.float32)
        where = np.zeros((len(Z), k))
        mine = np.arange(len(Z))
        # rows of queries, and the points between which they are placed
        if not self.nodes:
            parts = ((mine, np.arange(start, min(start + lines + 1, high))) for start in range(low, high - 1, lines))
        else:
            some = max(1, 4 * _BLOCK // len(self.nodes[-1][0]))
            kept = np.concatenate(
                [self._nearest(Z[start : start + some], beam, lines) for start in range(0, len(Z), some)]
            )
            parts = self._near_few(kept, lines) if len(Z) <= _FEW else self._near(kept, lines)
        for rows, at in parts:
            found = self._placed(Z[rows], energy[rows], at, k)
            if k == 1:
                # of distances that are equal to rounding, the first one stays
                better = found[1][:, 0] < best[rows, 0] - 1e-6 * (energy[rows] + found[2])
                where[rows, 0] = np.where(better, found[0][:, 0], where[rows, 0])
                best[rows, 0] = np.where(better, found[1][:, 0], best[rows, 0])
                continue
            both = np.concatenate([best[rows], found[1]], axis=1)
            order = np.argsort(both, axis=1, kind="stable")[:, :k]
            where[rows] = np.take_along_axis(np.concatenate([where[rows], found[0]], axis=1), order, axis=1)
            best[rows] = np.take_along_axis(both, order, axis=1)
        # where a search met fewer lines than asked for, the last one is repeated
        met = np.maximum(np.isfinite(best).sum(axis=1), 1)
        column = np.minimum(np.arange(n_best), met[:, None] - 1)
        return np.take_along_axis(where, column, axis=1), np.take_along_axis(best, column, axis=1)

    def _nearest(self, Z: Coordinates, beam: int, lines: int) -> NDArray[np.intp]:
        """Return the best nodes of the lowest level of each query, shape (Q, at most beam)."""
        kept = None
        for codes, quantizer in self.nodes:
            # of the nodes kept at one level, the children with the least |c|² - 2 z'c at the next, (Q, beam)
            if kept is None:
                twice = -2 * Z
                scores = np.empty((len(Z), len(codes)), np.float32)
                for start in range(0, len(codes), lines):
                    C = quantizer.decode(codes[start : start + lines])
                    part = np.matmul(twice, C.T, out=scores[:, start : start + lines])
                    part += np.vecdot(C, C)
                kept = least(scores, beam)
            else:
                children = _children(kept, self.branching, len(codes))
                chosen = []
                for z, own in zip(Z, children, strict=True):
                    C = quantizer.decode(codes[own])
                    chosen.append(own[least((np.vecdot(C, C) - 2 * (C @ z))[None], beam)[0]])
                kept = np.array(chosen)
        assert kept is not None
        return kept

    def _near(self, kept: NDArray[np.intp], lines: int) -> Parts:
        """Yield queries and consecutive points: blocks of lines with nodes that are kept for a query."""
        low, high = self._range
        wanted = np.zeros((len(kept), -(-(high - low - 1) // lines)), bool)
        rows = np.arange(len(kept))[:, None]
        # lines from the point before a node to the point after it
        for point in (kept * self.branching - 1, np.minimum((kept + 1) * self.branching, self.n) - 1):
            wanted[rows, (np.clip(point, low, high - 2) - low) // lines] = True
        for inner in range(0, self.branching, lines):
            wanted[rows, (np.minimum(kept * self.branching + inner, high - 2) - low) // lines] = True
        for number in np.flatnonzero(wanted.any(axis=0)):
            start = low + number * lines
            yield np.flatnonzero(wanted[:, number]), np.arange(start, min(start + lines + 1, high))

    def _near_few(self, kept: NDArray[np.intp], lines: int) -> Parts:
        """Yield single queries and points of their nodes, with one point before and one after."""
        around, (low, high) = np.arange(-1, self.branching + 1), self._range
        for row, nodes in enumerate(kept):
            points = np.unique(np.clip(nodes[:, None] * self.branching + around, low, high - 1))
            for start in range(0, len(points) - 1, lines):
                yield np.array([row]), points[start : start + lines + 1]

    def _placed(
        self, Z: Coordinates, energy: NDArray[np.float32], at: NDArray[np.intp], k: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float32], float]:
        """Place queries on the best lines between neighbouring points, with the nearest point in closed form.

        Parameters
        ----------
        at : ndarray of shape (p,), int
            Ascending numbers of the points; at least `k` of them are followed by the next number.

        Returns
        -------
        places, squared : ndarrays of shape (Q, k)
        largest : float
            Squared norm of the points, for rounding.
        """
        start, stop = int(at[0]), int(at[-1]) + 1
        whole = stop - start == len(at)
        P = self._with_ends(start, stop) if whole else self._decoded_at(at)
        norms, between = np.vecdot(P, P), np.vecdot(P[1:], P[:-1])
        # on the line a + s (b - a) with length = |b - a|², from |p|² - 2 z'p of points alone: t = 2 (z - a)'(b - a) =
        # |z - a|² - |z - b|² + length, s = t / (2 length), and the squared distance |z - a|² - s (t - s length)
        length = norms[:-1] + norms[1:] - 2 * between
        apart = length > 1e-6 * (norms[:-1] + norms[1:])  # points may coincide: there is no line then
        half = (np.where(apart, 0.5, 0) / np.where(apart, length, 1)).astype(np.float32)
        first, last = np.zeros(len(at) - 1, np.float32), np.ones(len(at) - 1, np.float32)
        if start == 0:  # without ends the first and the last line go on to the first and the last frame
            first[0] = self._at.before
        if stop == self.n:
            last[-1] = self._at.after
        first, last = np.where(apart, first, 0), np.where(apart, last, 0)
        largest = float(norms.max())
        places = np.empty((len(Z), min(k, len(at) - 1)))
        found = np.empty(places.shape, np.float32)
        some = max(_AT_ONCE // len(at), 1)
        for rows in (slice(begin, begin + some) for begin in range(0, len(Z), some)):
            scores = (-2 * Z[rows]) @ P.T
            scores += norms
            t = scores[:, :-1] - scores[:, 1:]
            t += length
            share = t * half
            np.clip(share, first, last, out=share)
            if self.places[1] == 1:  # every frame has its point: there is nothing between
                np.rint(share, out=share)
            squared = share * length
            squared -= t
            squared *= share
            squared += scores[:, :-1]
            if not whole:  # points that are not neighbours have no line
                squared[:, np.diff(at) > 1] = np.inf
            if k == 1:
                # of distances that are equal to rounding, the first line
                floor = squared.min(axis=1, keepdims=True) + 1e-6 * (energy[rows, None] + largest)
                column = (squared <= floor).argmax(axis=1)[:, None]
            else:
                column = np.argsort(squared, axis=1, kind="stable")[:, :k]
            places[rows] = self._at.between(at[column], np.take_along_axis(share, column, axis=1))
            found[rows] = np.take_along_axis(squared, column, axis=1) + energy[rows, None]
        return places, np.maximum(found, 0), largest

    def distances(self, Z: Coordinates) -> NDArray[np.float32]:
        """Return the squared distances of queries to all points, shape (Q, n)."""
        products, norms, _ = self._against(Z)
        points = slice(-self._range[0], self.n - self._range[0])
        return np.maximum(norms[points] - 2 * products[:, points] + np.square(Z).sum(axis=1, keepdims=True), 0)

    def near(self, Z: Coordinates, at: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the places of queries on the two lines at one point each, in frames, shape (Q,)."""
        places, (low, high) = np.empty(len(Z)), self._range
        for q, point in enumerate(at.tolist()):
            z, start = Z[q : q + 1], max(point - 1, low)
            places[q] = self._placed(z, np.vecdot(z, z), np.arange(start, min(point + 2, high)), 1)[0][0, 0]
        return places

    def decode(self, frames: NDArray[np.float64]) -> Coordinates:
        """Return the points of the path at some frames, shape (Q, m)."""
        line, share = self._at.lines(frames)
        share = np.clip(share, 0, 1)[:, None]
        ends = np.unique(np.concatenate([line, line + 1]))
        P = np.concatenate([self._with_ends(i, i + 1) for i in ends.tolist()])
        a, b = P[np.searchsorted(ends, line)], P[np.searchsorted(ends, line + 1)]
        return ((1 - share) * a + share * b).astype(np.float32)

    def scores(self, Z: Coordinates, frames: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return squared distances of queries to the path at some frames, minus those to the origin, (Q, frames)."""
        line, share = self._at.lines(frames)
        a, b = (1 - share).astype(np.float32), share.astype(np.float32)
        # |a p + b r|² - 2 z'(a p + b r), with p and r the ends of the line, from inner products
        products, norms, between = self._against(Z)
        line = line - self._range[0]
        squares = a * a * norms[line] + b * b * norms[line + 1] + 2 * a * b * between[line]
        scores = np.take(products, line, axis=1)
        scores *= -2 * a
        after = np.take(products, line + 1, axis=1)
        after *= -2 * b
        scores += after
        scores += squares
        return scores

    def _against(self, Z: Coordinates) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Return products of queries and points (Q, p), squared norms (p,), products of neighbouring points.

        The points are all points that lines join, including the ends of the path.
        """
        low, high = self._range
        products = np.empty((len(Z), high - low), np.float32)
        norms, between = np.empty(high - low, np.float32), np.zeros(high - low, np.float32)
        step = self._step
        for start in range(low, high, step):
            P = self._with_ends(start, min(start + step + 1, high))
            rows = slice(start - low, min(start + step, high) - low)
            products[:, rows] = Z @ P[:step].T
            norms[rows] = np.vecdot(P[:step], P[:step])
            pairs = np.vecdot(P[1:], P[:-1])
            between[start - low : start - low + len(pairs)] = pairs
        return products, norms, between

    @cached_property
    def cells(self) -> NDArray[np.float64]:
        """Frames at equal distances along the path, with a few cells between points, shape (cells,)."""
        width = self.places[1] / min(_CELLS, int(self.places[1]))
        return np.arange(int(self.places[3] / width) + 1) * width

    def nearest_of(self, frames: NDArray[np.float64], Z: Coordinates) -> tuple[NDArray[np.float64], float]:
        """Return the frame nearest to each query, and a distance that is negligible compared with the others."""
        parts = [self.scores(Z[start : start + 32], frames) for start in range(0, len(Z), 32)]
        nearest = np.concatenate([part.argmin(axis=1) for part in parts])
        away = np.concatenate([part.mean(axis=1) - part.min(axis=1) for part in parts])
        return frames[nearest], float(np.median(away)) * 1e-5


@dataclass(frozen=True)
class _Evenly:
    """Frames of points at equal gaps except for the last point and the ends, without arrays of the path's length.

    A line has the number of its first point. Line -1 starts at the first frame and exists if the path `begins` with an
    end; line n - 1 ends at the frame `final` and exists if the path `ends` with an end.
    """

    first: float
    step: float
    last: float
    final: float
    n: int
    begins: bool
    ends: bool

    @property
    def _gap(self) -> float:
        """Number of frames from the second last point to the last point."""
        return self.last - (self.first + self.step * (self.n - 2))

    @property
    def before(self) -> float:
        """The start of line 0, as a fraction of the line: the first frame, unless another line starts there."""
        return 0.0 if self.begins else -self.first / (self.step if self.n > 2 else self._gap)

    @property
    def after(self) -> float:
        """The end of line n - 2, as a fraction of the line: the last frame, unless another line ends there."""
        return 1.0 if self.ends else 1 + (self.final - self.last) / self._gap

    def between(self, line: NDArray[np.intp], share: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the frames at some fractions of lines."""
        return self._starts(line) + share.astype(np.float64) * self._gaps(line)

    def lines(self, frames: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the lines of frames, and the positions on the lines, which can exceed 0 to 1 without ends."""
        line = np.clip(np.floor((frames - self.first) / self.step), 0, self.n - 2).astype(np.intp)
        line[frames >= self.last] = self.n - 2
        line[frames < self.first] = -int(self.begins)
        line[frames > self.last] = self.n - 2 + self.ends
        return line, (frames - self._starts(line)) / self._gaps(line)

    def _starts(self, line: NDArray[np.intp]) -> NDArray[np.float64]:
        starts = np.where(line < 0, 0.0, self.first + self.step * line)
        return np.where(line == self.n - 1, self.last, starts)

    def _gaps(self, line: NDArray[np.intp]) -> NDArray[np.float64]:
        gaps = np.where(line < 0, self.first, self.step)
        gaps = np.where(line == self.n - 2, self._gap, gaps)
        return np.where(line == self.n - 1, self.final - self.last, gaps)


def _apart(places: NDArray[np.float64], squared: NDArray[np.float32], n_best: int, apart: float) -> Found:
    """Return the best places at a minimum distance from better places; the last is repeated if there are fewer.

    Parameters
    ----------
    places, squared : ndarrays of shape (Q, k)
        Places in descending order of quality.
    n_best : int
    apart : float
    """
    rows, left = np.arange(len(places)), np.ones(places.shape, bool)
    column = np.zeros((len(places), n_best), np.intp)
    for rank in range(n_best):
        first = left.argmax(axis=1)
        column[:, rank] = np.where(left[rows, first], first, column[:, max(rank - 1, 0)])
        left &= np.abs(places - places[rows, column[:, rank]][:, None]) >= apart
        left[rows, column[:, rank]] = False
    return np.take_along_axis(places, column, axis=1), np.take_along_axis(squared, column, axis=1)


def least(scores: NDArray, k: int) -> NDArray[np.intp]:
    """Return the columns of the k smallest scores of each row, in arbitrary order."""
    if k >= scores.shape[1]:
        return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    if k == 1:
        return scores.argmin(axis=1)[:, None]
    return np.argpartition(scores, k - 1, axis=1)[:, :k]


def _children(nodes: NDArray[np.intp], branching: int, n: int) -> NDArray[np.intp]:
    """Return the children of nodes, shape (Q, nodes * branching); the last node may repeat its last child."""
    children = nodes[:, :, None] * branching + np.arange(branching)
    return np.minimum(children, n - 1).reshape(len(nodes), -1)
