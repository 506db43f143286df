"""A long sequence of frames kept in about a byte per frame, and places found in it."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_positive,
    check_whole,
    validate_rows,
)

from ._classes import one_per_frame
from ._closed_form import check_components, leading_directions, weighted_centroids
from ._digit_classes import Digits
from ._filtering import Motion, along_lines, contrast, likelihood, marginals, scale_of, windows
from ._moments import Array, Moments, not_finite
from ._path import NodeSubspaces, Path
from ._quantize import BITS, ProductQuantizer, ScalarQuantizer

# What an encoded sequence takes, to the byte.


@dataclass(frozen=True)
class StorageReport:
    """Bytes of everything that must be kept to search an encoded sequence.

    Attributes
    ----------
    parts : dict of str to int
        Bytes by part: ``codes`` of the points, ``subspace`` (V and the origin), ``quantizer`` (scales or codebooks),
        ``growth`` (the sum of an unfinished segment), ``numbers`` (lengths and places). Not ``singular_values_``, which
        a model file keeps too and no search needs.
    n_frames : int
    resident : int
        Bytes of the decoded points and nodes that a search makes from these and keeps in memory.

    Examples
    --------
    >>> report = StorageReport({"codes": 600, "subspace": 400}, n_frames=500, resident=8000)
    >>> report.total, report.per_frame
    (1000, 2.0)
    >>> print(report)
    codes               600 bytes   60.0 %
    subspace            400 bytes   40.0 %
    total              1000 bytes    2.000 per frame, 500 frames
    in memory          8000 bytes, made from them by the first search
    """

    parts: dict[str, int]
    n_frames: int
    resident: int

    @property
    def total(self) -> int:
        """Bytes in all, without `resident`."""
        return sum(self.parts.values())

    @property
    def per_frame(self) -> float:
        """Bytes per frame."""
        return self.total / self.n_frames

    def __str__(self) -> str:
        lines = [f"{name:<13}{size:>10} bytes  {size / self.total:6.1%}" for name, size in self.parts.items()]
        lines = [line.replace("%", " %") for line in lines]
        lines.append(f"{'total':<13}{self.total:>10} bytes   {self.per_frame:6.3f} per frame, {self.n_frames} frames")
        lines.append(f"{'in memory':<13}{self.resident:>10} bytes, made from them by the first search")
        return "\n".join(lines)


LABELS = ("segments", "digits")
SUBSPACES = ("shared", "per-node")
SUMMARIES = ("mean", "key")
METHODS = ("bayes", "lines")
_RULES = {
    "segment_length": check_whole,
    "branching": (check_whole, 2),
    "levels": (check_whole, 0),
    "labels": (check_choice, LABELS),
    "subspace": (check_choice, SUBSPACES),
    "summary": (check_choice, SUMMARIES),
    "bits": (check_choice, BITS),
    "n_groups": (check_optional, check_whole),
    "beam": check_whole,
}
_NUMBERS = 5 * 8
"""Bytes of the settings that a search needs: frames, segment length, bits, branching, levels."""
_RANGE = 1e-15, 1e17
"""Distances of points from their mean that single precision, in which places are searched, can square and multiply."""


class HierarchicalSequenceEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Encoder of a long sequence of frames for finding where in it new frames belong (place recognition).

    The sequence is cut into contiguous segments; their means are the points of a path, kept as a few bits per
    coordinate in the subspace of the closed form, with a tree of means above them for the search. A query is placed on
    the straight lines between points, so that a segment can be several times as long as the error that is tolerated.
    `storage_report` counts every byte.

    Parameters
    ----------
    segment_length : int
        Frames per point, at most: a short sequence gets at least two nodes of points. Best about as long as
        neighbouring frames resemble each other, or less.
    branching : int
        Nodes per node of the level above; with ``labels="digits"`` the base of the digits.
    levels : int
        Levels of means above the points; 0 compares queries with all points. A mean of frames that no longer resemble
        each other says little: many levels lose recall.
    labels : {"segments", "digits"}
        Points for contiguous segments, or shared classes for the digits of the number of a segment: storage
        logarithmic in the length, and hardly any recall, since distant segments share their classes.
    subspace : {"shared", "per-node"}
        One V for all points, or one for each node above them.
    n_components : int, optional
        Coordinates m; by default the rank of the segment means, as in the closed form (13), or all d where V would take
        more bytes than it saves. With m = d every V is optimal, and none is stored.
    summary : {"mean", "key"}
        The point of a segment: the mean of its frames, or the frame in the middle (key-framing).
    bits : {1, 2, 4, 8, 32}
        Bits per coordinate. The levels span what a coordinate takes along the whole way: one that wanders off and does
        not return needs 4 or 8.
    n_groups : int, optional
        In place of `bits`: product quantization with so many bytes per point (needs faiss).
    beam : int
        Nodes that a search keeps at every level.

    Attributes
    ----------
    components_ : ndarray of shape (m, d), float32, or None
        V' of the closed form; None stands for the identity, and for subspaces per node or digit.
    center_ : ndarray of shape (d,), float32
        The mean of all frames, mu_0.
    singular_values_ : ndarray
        Of the weighted segment means: what each coordinate tells.
    segment_length_ : int
        Frames per point of this sequence.
    index_ : Path or Digits
        What is searched.
    n_frames_ : int

    Notes
    -----
    The paper's main text, which describes its encoder, was not available: the encoder is this package's own design on
    the closed form of the supplement. Isotropic frames (flat `singular_values_`) leave nothing to truncate: fewer bits
    per coordinate keep far more recall than fewer coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> path = np.cumsum(rng.standard_normal((2000, 64)), axis=0)
    >>> encoder = HierarchicalSequenceEncoder(segment_length=20).fit(path)
    >>> frames = np.array([100, 1234])
    >>> bool((abs(encoder.predict(path[frames] + 0.1) - frames) <= 10).all())
    True
    >>> encoder.storage_report().per_frame < 8 * 64 / 50
    True
    """

    stored_types = (Path, Digits, NodeSubspaces, ScalarQuantizer, ProductQuantizer)

    components_: NDArray[np.float32] | None
    center_: NDArray[np.float32]
    singular_values_: Array
    index_: Path | Digits
    n_frames_: int
    segment_length_: int
    tail_: Array

    n_features_in_: int

    def __init__(
        self,
        segment_length: int = 40,
        *,
        branching: int = 8,
        levels: int = 1,
        labels: str = "segments",
        subspace: str = "shared",
        n_components: int | None = None,
        summary: str = "mean",
        bits: int = 2,
        n_groups: int | None = None,
        beam: int = 32,
    ) -> None:
        self.segment_length = segment_length
        self.branching = branching
        self.levels = levels
        self.labels = labels
        self.subspace = subspace
        self.n_components = n_components
        self.summary = summary
        self.bits = bits
        self.n_groups = n_groups
        self.beam = beam

    def fit(self, X: Any, y: None = None) -> Self:
        """Encode a sequence.

        Parameters
        ----------
        X : array-like of shape (N, d)
            Frames in order, of any real dtype; a `numpy.memmap` is read block by block.
        y : None
            Ignored.

        Raises
        ------
        ValueError
            For an invalid parameter or frames that are not finite, equal, or too few; one sentence says what to do.
        """
        check_parameters(self, _RULES)
        if self.labels == "digits" and (self.n_groups is not None or self.subspace == "per-node"):
            raise ValueError("labels='digits' has a subspace per digit and scalar codes: leave subspace and n_groups")
        X = validate_rows(self, X, reset=True, finite=False, least=2)
        m = check_components(self.n_components, X.shape[1])
        if len(X) < self.branching:
            raise ValueError(f"X has {len(X)} frames, fewer than branching={self.branching}: lower it")
        length = max(1, min(self.segment_length, len(X) // (2 * self.branching)))
        moments = Moments.of(X, np.arange(len(X)) // length)
        n, mean, sizes = len(moments.counts), moments.mean, moments.counts
        points = (moments.centroids if self.summary == "mean" else _keys(X, length)) - mean
        tolerance = moments.tolerance(mean)
        B = weighted_centroids(points, sizes, np.zeros(len(mean)))
        if not np.linalg.norm(B) > tolerance:
            raise ValueError("all segments of X have the same mean, so that no place differs: pass frames that differ")
        _check_reach(points, _RANGE[0])
        center = mean.astype(np.float32)
        points += mean - center  # about what is kept, as queries are
        places = _places(len(X), n, length, self.summary)
        components, singular_values, subspaces = None, np.empty(0), None
        if self.labels == "digits":
            settings = {"branching": self.branching, "bits": self.bits, "n_components": m, "tolerance": tolerance}
            index: Path | Digits = Digits.of(points, sizes, places[:2], **settings)
        else:
            if self.subspace == "per-node":
                subspaces = NodeSubspaces.of(points, self.branching, m)
                points = subspaces.encode(points)
            else:
                V, singular_values = leading_directions(B, tolerance, m)
                if V.shape[1] < len(V) and (m is not None or self._saves(n, *V.shape)):
                    components = np.ascontiguousarray(V.T, np.float32)
                    points = points @ V
            quantizer = self._quantizer(points)
            index = Path(quantizer.encode(points), places, quantizer, self.branching, self.levels, subspaces)
        self.center_, self.components_, self.singular_values_ = center, components, singular_values
        self.index_, self.segment_length_, self.n_frames_ = index, length, len(X)
        self.tail_ = self._unfinished(moments)
        return self

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Append frames to the sequence; what was learned from the first ones stays.

        That is the subspace, the quantizer and ``segment_length_``: begin with as many frames as there are, since a few
        would make short segments, and levels that do not suit the rest of the way.

        Parameters
        ----------
        X : array-like of shape (N, d)
        y : None
            Ignored.

        Raises
        ------
        ValueError
            With subspaces per node, digits or key frames, which only `fit` makes.
        """
        if not hasattr(self, "index_"):
            return self.fit(X)
        index = self.index_
        if not isinstance(index, Path) or index.subspaces is not None or self.summary == "key":
            raise ValueError(
                "only segments with mean points in a shared subspace can be appended to: fit all frames again, "
                "or choose labels='segments', subspace='shared', summary='mean'"
            )
        X = validate_rows(self, X, reset=False, finite=False)
        unfinished = self.n_frames_ % self.segment_length_
        moments = Moments.of(X, (unfinished + np.arange(len(X))) // self.segment_length_)
        sums = moments.centroids * moments.counts[:, None]
        if unfinished:
            sums[0] += self.tail_[0]
            moments.counts[0] += unfinished
        points = sums / moments.counts[:, None] - self.center_
        _check_reach(points)
        codes = index.quantizer.encode(points if self.components_ is None else points @ self.components_.T)
        codes = np.concatenate([index.codes[: len(index.codes) - (unfinished > 0)], codes])
        self.n_frames_ += len(X)
        places = _places(self.n_frames_, len(codes), self.segment_length_, self.summary)
        self.index_ = Path(codes, places, index.quantizer, index.branching, index.levels)
        left = self.n_frames_ % self.segment_length_
        self.tail_ = sums[-1:] if left else sums[:0]
        return self

    def transform(self, X: Any) -> NDArray:
        """Return the coordinates of frames in the shared subspace.

        Parameters
        ----------
        X : array-like of shape (N, d)

        Returns
        -------
        ndarray of shape (N, m), in the float dtype of X
            V itself is of float32. With the identity in place of V, the frames less their mean.
        """
        X = self._frames(X)
        return self._coordinates(X, X.dtype if X.dtype == np.float64 else np.float32)

    def query(self, X: Any, n_best: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Find where in the sequence frames belong.

        Parameters
        ----------
        X : array-like of shape (Q, d)
        n_best : int
            How many places for each, the best first, on different lines between points. Where a search meets fewer, the
            last is repeated; a larger `beam` meets more.

        Returns
        -------
        places : ndarray of shape (Q, n_best), float64
            In frames; between the points of the path, they are not whole numbers.
        squared : ndarray of shape (Q, n_best), float32
            Squared distances to the path, in the coordinates of the subspace.
        """
        check_is_fitted(self, "index_")
        check_parameters(self, _RULES)
        check_whole("n_best", n_best)
        if n_best > self.n_frames_:
            raise ValueError(f"n_best={n_best} is more than the {self.n_frames_} frames of the sequence: lower it")
        places, squared = self.index_.search(self._coordinates(self._frames(X)), self.beam, int(n_best))
        return np.clip(places, 0, self.n_frames_ - 1), squared

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the number of the frame that each frame resembles most, shape (Q,)."""
        # a point lies between two frames if segments have an even length: rounding errors are not to choose
        return np.rint(self.query(X)[0][:, 0] - 1e-3).clip(0).astype(np.intp)

    def score(self, X: Any, y: Any = None, *, tolerance: int = 10) -> float:
        """Return the share of frames that are found within so many frames of where they are (recall@1).

        Parameters
        ----------
        X : array-like of shape (Q, d)
        y : array-like of shape (Q,), optional
            Numbers of the true frames; by default 0, 1, 2, …
        tolerance : int
        """
        check_number("tolerance", tolerance)
        found = self.predict(X)
        truth = np.arange(len(found)) if y is None else one_per_frame(y, len(found)).astype(np.float64)
        return float(np.mean(np.abs(found - truth) <= tolerance))

    def match(
        self,
        X: Any,
        *,
        method: str = "bayes",
        speed: tuple[float, float] = (0.5, 2.0),
        window: int = 10,
        smooth: bool = False,
        tolerance: float = 10,
    ) -> NDArray[np.float64]:
        """Place consecutive frames of another run along the same way together.

        Parameters
        ----------
        X : array-like of shape (Q, d)
            In the order in which they were seen.
        method : {"bayes", "lines"}
            A hidden Markov model of the traveller's place and speed (see `match_proba`), or straight lines through the
            matrix of distances (SeqSLAM, Milford and Wyeth, 2012).
        speed : (float, float)
            The least and the largest number of frames of the sequence per query; negative backwards. A traveller who
            may stand still needs 0 in the range, one who may turn round speeds of both signs.
        window : int
            Queries of a line.
        smooth : bool
            With ``"bayes"``: use later queries too.
        tolerance : float
            With ``"bayes"``: the error in frames that does not matter.

        Returns
        -------
        ndarray of shape (Q,), float64
            In frames.

        Raises
        ------
        ValueError
            For an unknown method, a range of speeds that is none, a tolerance that is not positive, or an encoder with
            ``labels="digits"``.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> way = np.cumsum(rng.standard_normal((2000, 64)), axis=0)
        >>> encoder = HierarchicalSequenceEncoder(segment_length=20, bits=8).fit(way)
        >>> frames = np.arange(500, 600, 2)
        >>> found = encoder.match(way[frames] + 9 * rng.standard_normal((50, 64)), speed=(1, 3), smooth=True)
        >>> bool((abs(found - frames) <= 10).all())
        True
        """
        check_choice("method", method, METHODS)
        check_whole("window", window)
        if method == "bayes":
            return self.match_proba(X, speed=speed, smooth=smooth, tolerance=tolerance)[0]
        Z, (slow, fast), index = self._run(X, speed)
        at = along_lines(contrast(index.distances(Z).astype(np.float64)), (slow, fast), int(window))
        return np.clip(index.near(Z, at), 0, self.n_frames_ - 1)

    def match_proba(
        self, X: Any, *, speed: tuple[float, float] = (0.5, 2.0), smooth: bool = False, tolerance: float = 10
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Place consecutive frames along the way, and say how probable the places are.

        A hidden Markov model whose state is a place, in cells of an eighth of a segment (at least a frame), and a speed
        out of seven to 41 in the range. What a query says of a cell is a normal density of its distance to the path
        there, of a variance estimated from all queries; a speed shifts the place by whole cells, so that no speed
        outside the range comes about by rounding. The forward algorithm filters, the forward-backward algorithm smooths
        (Rabiner, "A tutorial on hidden Markov models", 1989, equations 18-27). Of Q states, 2 √Q are in memory.

        Parameters
        ----------
        X : array-like of shape (Q, d)
            In the order in which they were seen.
        speed : (float, float)
            The least and the largest number of frames of the sequence per query; negative backwards.
        smooth : bool
            Use later queries too.
        tolerance : float
            Frames. Of each query the window of this reach to either side that is most probable is chosen.

        Returns
        -------
        places : ndarray of shape (Q,), float64
            The mean of the place within the window, in frames.
        probabilities : ndarray of shape (Q,), float64
            That the window holds the place, if the traveller's speeds are in the range; with a range that is wrong they
            are too high, and no alarm.

        Raises
        ------
        ValueError
            For a range of speeds that is none, a tolerance that is not positive, or an encoder with
            ``labels="digits"``.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> way = np.cumsum(rng.standard_normal((2000, 64)), axis=0)
        >>> encoder = HierarchicalSequenceEncoder(segment_length=20, bits=8).fit(way)
        >>> places, probabilities = encoder.match_proba(way[500:550] + 9 * rng.standard_normal((50, 64)), smooth=True)
        >>> places.shape, bool(probabilities.min() > 0.9)
        ((50,), True)
        """
        check_positive("tolerance", tolerance)
        Z, limits, index = self._run(X, speed)
        cells = index.cells
        width = cells[1]
        slow, fast = limits * self.segment_length_ / width
        motion = Motion.between(float(slow), float(fast), len(cells))
        scale = scale_of(*index.residuals(Z, cells))

        def seen(rows: slice) -> NDArray[np.float32]:
            return likelihood(index.scores(Z[rows], cells), scale)

        places, shares = np.empty(len(Z)), np.empty(len(Z))
        for rows, probabilities in marginals(seen, len(Z), motion, smooth):
            places[rows], shares[rows] = windows(probabilities, tolerance / width)
        return np.clip(places * width, 0, self.n_frames_ - 1), shares

    def decode(self, frames: Any) -> NDArray[np.float32]:
        """Return what is kept of some frames of the sequence.

        Parameters
        ----------
        frames : array-like of shape (Q,)
            Numbers of frames, between which the path is straight.

        Returns
        -------
        ndarray of shape (Q, d), float32

        Raises
        ------
        ValueError
            For frames outside the sequence, or an encoder with ``labels="digits"``.
        """
        check_is_fitted(self, "index_")
        at = np.atleast_1d(_numbers(frames))
        if not (at.ndim == 1 and at.size and (at >= 0).all() and (at <= self.n_frames_ - 1).all()):
            raise ValueError(f"frames must lie between 0 and {self.n_frames_ - 1}, the last frame of the sequence")
        if not isinstance(self.index_, Path):
            raise ValueError("decode needs the points of segments: choose labels='segments'")
        Z = self.index_.decode(at)
        return Z + self.center_ if self.components_ is None else Z @ self.components_ + self.center_

    def storage_report(self) -> StorageReport:
        """Return the bytes of everything that is kept, by part."""
        check_is_fitted(self, "index_")
        V = 0 if self.components_ is None else self.components_.nbytes
        parts = {"codes": 0, "subspace": self.center_.nbytes + V, "quantizer": 0}
        index = self.index_
        if isinstance(index, Path):
            parts["codes"], parts["quantizer"] = index.codes.nbytes, index.quantizer.nbytes
            parts["subspace"] += index.subspaces.nbytes if index.subspaces is not None else 0
            resident = index.resident
        else:
            parts["codes"] = sum(codes.nbytes for codes in index.codes)
            parts["subspace"] += sum(components.nbytes for components in index.components)
            parts["quantizer"] = sum(quantizer.nbytes for quantizer in index.quantizers)
            resident = 0
        parts["growth"] = self.tail_.nbytes
        parts["numbers"] = index.places.nbytes + _NUMBERS
        return StorageReport(parts, self.n_frames_, resident)

    def _run(self, X: Any, speed: Any) -> tuple[NDArray[np.float32], NDArray[np.float64], Path]:
        """Return the coordinates of consecutive queries, the limits of their speed in points, and the points."""
        limits = _numbers(speed)
        if limits.shape != (2,) or not np.isfinite(limits).all() or limits[0] > limits[1]:
            raise ValueError(f"speed={speed!r} is not valid: pass the least and the largest number of frames per query")
        X = self._frames(X)
        if not isinstance(self.index_, Path):
            raise ValueError("match needs the points of segments: choose labels='segments'")
        return (
            self._coordinates(X),
            np.clip(limits, -self.n_frames_, self.n_frames_) / self.segment_length_,
            self.index_,
        )

    def _frames(self, X: Any) -> NDArray:
        check_is_fitted(self, "index_")
        return validate_rows(self, X, reset=False, finite=False)  # `_coordinates` says which are not finite

    def _quantizer(self, points: NDArray) -> ScalarQuantizer | ProductQuantizer:
        if self.n_groups is None:
            return ScalarQuantizer.of(points, self.bits)
        return ProductQuantizer.of(points, self.n_groups)

    def _saves(self, n: int, d: int, m: int) -> bool:
        """Return whether V, of float32, takes less than the coordinates that it saves."""
        return self.n_groups is not None or 4 * d * m < n * (d - m) * self.bits / 8

    def _coordinates(self, X: NDArray, dtype: Any = np.float32) -> NDArray:
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - self.center_).astype(dtype, copy=False)
            Z = Z if self.components_ is None else Z @ self.components_.T
            finite = np.isfinite(np.vecdot(Z, Z))
        if not finite.all():
            row = int(finite.argmin())
            raise ValueError(not_finite(X[row : row + 1], row))
        return Z

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_ if self.components_ is None else len(self.components_)

    def _unfinished(self, moments: Moments) -> Array:
        """Return the sum of the frames of the last segment if it is not full, shape (1, d) or (0, d)."""
        grows = self.labels == "segments" and self.subspace == "shared" and self.summary == "mean"
        full = not grows or self.n_frames_ % self.segment_length_ == 0
        last = moments.centroids[-1:] * moments.counts[-1]
        return last[:0] if full else last


def _keys(X: NDArray, length: int) -> Array:
    """Return the frame in the middle of each segment."""
    starts = np.arange(0, len(X), length)
    return X[np.minimum(starts + length // 2, len(X) - 1)].astype(np.float64)


def _places(n_frames: int, n: int, length: int, summary: str) -> Array:
    """Return the frame of the first point, the gap between points, the frame of the last point, the last frame."""
    start, last = (n - 1) * length, n_frames - 1
    if summary == "key":
        return np.array([length // 2, length, min(start + length // 2, last), last], np.float64)
    return np.array([(length - 1) / 2, length, (start + last) / 2, last], np.float64)


def _check_reach(points: Array, least: float = 0.0) -> None:
    """Refuse points about the mean whose squares single precision does not hold."""
    reach = float(np.sqrt(np.vecdot(points, points).max()))
    if not least <= reach <= _RANGE[1]:
        raise ValueError(
            f"segments of X lie {reach:.0e} from their mean, which single precision cannot square: scale X"
        )


def _numbers(values: Any) -> Array:
    """Return numbers, or none if they are something else."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return np.empty(0)
