"""A long sequence of frames kept in about a byte per frame, and places found in it."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._closed_form import leading_directions, weighted_centroids
from ._digits import Digits
from ._filtering import along_lines, bayes, contrast
from ._moments import Array, Moments
from ._nodes import NodeSubspaces
from ._path import Path
from ._quantize import BITS, ProductQuantizer, ScalarQuantizer
from ._settings import check_choice, check_components, check_whole
from ._storage import StorageReport

LABELS = ("segments", "digits")
SUBSPACES = ("shared", "per-node")
SUMMARIES = ("mean", "key")
METHODS = ("bayes", "lines")
_NUMBERS = 5 * 8
"""Bytes of the settings that a search needs: frames, segment length, bits, branching, levels."""


class HierarchicalSequenceEncoder(TransformerMixin, BaseEstimator):
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
        Bits per coordinate.
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
        self._check()
        X = validate_data(self, X, ensure_all_finite=False, ensure_min_samples=2)
        m = check_components(self.n_components, X.shape[1])
        if len(X) < self.branching:
            raise ValueError(f"X has {len(X)} frames, fewer than branching={self.branching}: lower it")
        self.segment_length_ = max(1, min(self.segment_length, len(X) // (2 * self.branching)))
        moments = Moments.of(X, np.arange(len(X)) // self.segment_length_)
        n = len(moments.counts)
        origin = moments.mean
        points = moments.centroids if self.summary == "mean" else self._keys(X)
        points, sizes = points - origin, moments.counts
        tolerance = moments.tolerance(origin)
        B = weighted_centroids(points, sizes, np.zeros(len(origin)))
        if not np.linalg.norm(B) > tolerance:
            raise ValueError("all segments of X have the same mean, so that no place differs: pass frames that differ")
        self.components_, self.singular_values_ = None, np.empty(0)
        subspaces = None
        if self.labels == "digits":
            settings = {"branching": self.branching, "bits": self.bits, "n_components": m, "tolerance": tolerance}
            self.index_ = Digits.of(points, sizes, self._places(len(X), n)[:2], **settings)
        else:
            if self.subspace == "per-node":
                subspaces = NodeSubspaces.of(points, self.branching, m)
                points = subspaces.encode(points)
            else:
                V, self.singular_values_ = leading_directions(B, tolerance, m)
                if V.shape[1] < len(V) and (m is not None or self._saves(n, *V.shape)):
                    self.components_ = np.ascontiguousarray(V.T, np.float32)
                    points = points @ V
            quantizer = self._quantizer(points)
            codes, places = quantizer.encode(points), self._places(len(X), n)
            self.index_ = Path(codes, places, quantizer, self.branching, self.levels, subspaces)
        self.center_, self.n_frames_ = origin.astype(np.float32), len(X)
        self.tail_ = self._unfinished(moments)
        return self

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Append frames to the sequence; the subspace and the quantizer stay those of the first fit.

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
        X = validate_data(self, X, reset=False, ensure_all_finite=False)
        unfinished = self.n_frames_ % self.segment_length_
        moments = Moments.of(X, (unfinished + np.arange(len(X))) // self.segment_length_)
        sums = moments.centroids * moments.counts[:, None]
        if unfinished:
            sums[0] += self.tail_[0]
            moments.counts[0] += unfinished
        points = sums / moments.counts[:, None] - self.center_
        codes = index.quantizer.encode(points if self.components_ is None else points @ self.components_.T)
        codes = np.concatenate([index.codes[: len(index.codes) - (unfinished > 0)], codes])
        self.n_frames_ += len(X)
        places = self._places(self.n_frames_, len(codes))
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
            How many places for each, the best first.

        Returns
        -------
        places : ndarray of shape (Q, n_best), float64
            In frames; between the points of the path, they are no whole numbers.
        squared : ndarray of shape (Q, n_best), float32
            Squared distances to the path, in the coordinates of the subspace.
        """
        check_is_fitted(self, "index_")
        if isinstance(n_best, bool) or not isinstance(n_best, int | np.integer) or n_best < 1:
            raise ValueError(f"n_best={n_best!r} is not valid: pass a whole number of at least 1")
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
        found = self.predict(X)
        truth = np.arange(len(found)) if y is None else np.asarray(y)
        return float(np.mean(np.abs(found - truth) <= tolerance))

    def match(
        self,
        X: Any,
        *,
        method: str = "bayes",
        speed: tuple[float, float] = (0.5, 2.0),
        window: int = 10,
        smooth: bool = False,
    ) -> NDArray[np.float64]:
        """Place consecutive frames of another run along the same way together.

        Parameters
        ----------
        X : array-like of shape (Q, d)
            In the order in which they were seen.
        method : {"bayes", "lines"}
            A hidden Markov model of the traveller, or straight lines through the matrix of distances (SeqSLAM,
            Milford and Wyeth, 2012).
        speed : (float, float)
            The least and the largest number of frames of the sequence per query; negative backwards.
        window : int
            Queries of a line.
        smooth : bool
            With ``"bayes"``: use later queries too.

        Returns
        -------
        ndarray of shape (Q,), float64
            In frames.

        Raises
        ------
        ValueError
            For an unknown method, a range of speeds that is none, or an encoder with ``labels="digits"``.
        """
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not known: choose {', '.join(map(repr, METHODS))}")
        if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
            raise ValueError(f"window={window!r} is not valid: pass a whole number of at least 1")
        limits = np.asarray(speed, np.float64)
        if limits.shape != (2,) or not np.isfinite(limits).all() or limits[0] > limits[1]:
            raise ValueError(f"speed={speed!r} is not valid: pass the least and the largest number of frames per query")
        X = self._frames(X)
        if not isinstance(self.index_, Path):
            raise ValueError("match needs the points of segments: choose labels='segments'")
        Z = self._coordinates(X)
        squared = self.index_.distances(Z).astype(np.float64)
        slow, fast = (float(limit) / self.segment_length_ for limit in limits)
        if method == "lines":
            at = along_lines(contrast(squared), (slow, fast), int(window))
        else:
            at = bayes(squared, (slow, fast), smooth)
        return np.clip(self.index_.near(Z, at), 0, self.n_frames_ - 1)

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
        at = np.atleast_1d(np.asarray(frames, np.float64))
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

    def _frames(self, X: Any) -> NDArray:
        check_is_fitted(self, "index_")
        return validate_data(self, X, reset=False)

    def _check(self) -> None:
        check_whole(self, "segment_length", "branching", "beam")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int | np.integer) or self.levels < 0:
            raise ValueError(f"levels={self.levels!r} is not valid: pass a whole number of at least 0")
        if self.branching < 2:
            raise ValueError(f"branching={self.branching!r} is not valid: pass a whole number of at least 2")
        check_choice(self, "labels", LABELS)
        check_choice(self, "subspace", SUBSPACES)
        check_choice(self, "summary", SUMMARIES)
        if isinstance(self.bits, bool) or self.bits not in BITS:
            raise ValueError(f"bits={self.bits!r} is not known: choose one of {', '.join(map(str, BITS))}")
        if self.n_groups is not None:
            check_whole(self, "n_groups")
        if self.labels == "digits" and (self.n_groups is not None or self.subspace == "per-node"):
            raise ValueError("labels='digits' has a subspace per digit and scalar codes: leave subspace and n_groups")

    def _quantizer(self, points: NDArray) -> ScalarQuantizer | ProductQuantizer:
        if self.n_groups is None:
            return ScalarQuantizer.of(points, self.bits)
        return ProductQuantizer.of(points, self.n_groups)

    def _saves(self, n: int, d: int, m: int) -> bool:
        """Return whether V, of float32, takes less than the coordinates that it saves."""
        return self.n_groups is not None or 4 * d * m < n * (d - m) * self.bits / 8

    def _coordinates(self, X: NDArray, dtype: Any = np.float32) -> NDArray:
        Z = X.astype(dtype) - self.center_
        return Z if self.components_ is None else Z @ self.components_.T

    def _keys(self, X: NDArray) -> Array:
        starts = np.arange(0, len(X), self.segment_length_)
        return X[np.minimum(starts + self.segment_length_ // 2, len(X) - 1)].astype(np.float64)

    def _places(self, n_frames: int, n: int) -> Array:
        """Return the frame of the first point, the gap between points, the frame of the last point, the last frame."""
        length, start = self.segment_length_, (n - 1) * self.segment_length_
        last = n_frames - 1
        if self.summary == "key":
            return np.array([length // 2, length, min(start + length // 2, last), last], np.float64)
        return np.array([(length - 1) / 2, length, (start + last) / 2, last], np.float64)

    def _unfinished(self, moments: Moments) -> Array:
        """Return the sum of the frames of the last segment if it is not full, shape (1, d) or (0, d)."""
        grows = self.labels == "segments" and self.subspace == "shared" and self.summary == "mean"
        full = not grows or self.n_frames_ % self.segment_length_ == 0
        last = moments.centroids[-1:] * moments.counts[-1]
        return last[:0] if full else last
