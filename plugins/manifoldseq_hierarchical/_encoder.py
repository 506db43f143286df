"""Storage of a long sequence in about one byte per frame, and search for places in it."""

import pathlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_positive,
    check_whole,
    marked,
    quoted,
    random_generator,
    validate_rows,
)
from manifoldseq.models import Choice, Stages, Step, summary

from ._classes import one_per_frame
from ._closed_form import check_components, weighted_centroids
from ._filtering import (
    SAMPLED,
    Doubt,
    Motion,
    along_lines,
    contrast,
    likelihood,
    marginals,
    news,
    scale_of,
    windows,
)
from ._moments import Array, Moments, not_finite
from ._path import AT_END, NodeSubspaces, Path
from ._quantize import BITS, WIDTH, ProductQuantizer, RelativeQuantizer, ScalarQuantizer

# What an encoded sequence takes, to the byte.


@dataclass(frozen=True)
class StorageReport:
    """Number of bytes of all data that the search of an encoded sequence needs.

    Attributes
    ----------
    parts : dict of str to int
        Bytes by part: ``codes`` of the points, ``ends`` (the first and the last frame), ``subspace`` (V and the
        origin), ``quantizer`` (scales or codebooks), ``growth`` (the sum of an unfinished segment, and the last two
        frames that were appended), ``numbers`` (frames, length of segments, bits, branching, levels).
        ``singular_values_`` is not counted: a model file contains it, but no search needs it.
    n_frames : int
    resident : int
        Bytes in memory while searching: `total`, codes of nodes above the points, and a buffer of decoded points. The
        scores of queries are not counted; they need at most a few MiB for many queries.

    Examples
    --------
    >>> report = StorageReport({"codes": 600, "subspace": 400}, n_frames=500, resident=1800)
    >>> report.total, report.per_frame
    (1000, 2.0)
    >>> print(report)
    codes               600 bytes   60.0 %
    subspace            400 bytes   40.0 %
    total              1000 bytes    2.000 per frame, 500 frames
    in memory          1800 bytes while searching
    """

    parts: dict[str, int]
    n_frames: int
    resident: int

    @property
    def total(self) -> int:
        """Total number of bytes, without `resident`."""
        return sum(self.parts.values())

    @property
    def per_frame(self) -> float:
        """Number of bytes per frame."""
        return self.total / self.n_frames

    def __str__(self) -> str:
        lines = [f"{name:<13}{size:>10} bytes  {size / self.total:6.1%}" for name, size in self.parts.items()]
        lines = [line.replace("%", " %") for line in lines]
        lines.append(f"{'total':<13}{self.total:>10} bytes   {self.per_frame:6.3f} per frame, {self.n_frames} frames")
        lines.append(f"{'in memory':<13}{self.resident:>10} bytes while searching")
        return "\n".join(lines)


SUBSPACES = ("shared", "per-node")
SUMMARIES = ("mean", "key")
METHODS = ("bayes", "lines")


def _or_auto(name: str, value: Any, rule: Any, *arguments: Any) -> None:
    if not (isinstance(value, str) and value == "auto"):
        rule(name, value, *arguments)


_RULES = {
    "segment_length": (_or_auto, check_whole),
    "branching": (check_whole, 2),
    "levels": (_or_auto, check_whole, 0),
    "subspace": (check_choice, SUBSPACES),
    "summary": (check_choice, SUMMARIES),
    "bits": (check_choice, (*BITS, "auto")),
    "relative": (check_choice, (False, True, "auto")),
    "bytes_per_frame": (check_optional, check_positive),
    "n_groups": (check_optional, check_whole),
    "beam": check_whole,
}
_LENGTH = 40
"""Default number of frames per point."""
_LONGEST = 400
"""Maximum number of frames per point within a budget."""
_FLAT = 100_000
"""Number of frames up to which a search compares all points, which is exact and equally fast."""
_ASKED = 800
"""Number of noisy copies of training frames that are queried to choose codes."""
_APART = 10
"""Tolerated error of a place in frames; the distance of frames at this interval determines the size of the noise."""
_NOISE = 1.0
"""Noise of a coordinate of the copies, relative to the difference of such frames."""
_AS_GOOD = 0.02
"""Tolerated loss of recall for fewer bytes."""
_AS_SURE = 0.001
"""Difference of recall within the errors of its estimate."""
_NUMBERS = 5 * 8
"""Number of bytes of the settings of a search: frames, segment length, bits, branching, levels."""
_FEW_COLUMNS = 8
"""Number of columns up to which four and eight bits are also compared: other data then need as many bytes."""
_UNSURE = 0.5
"""Estimated recall below which a warning is given."""
_RANGE = 1e-15, 1e17
"""Maximum distance of points from their mean, such that single precision can square and multiply it."""


@dataclass(frozen=True)
class _Fit:
    """A sequence in one code: the result of `fit`, and the recall of noisy copies of training frames."""

    length: int
    bits: int | None
    relative: bool
    index: Path
    components: NDArray[np.float32] | None
    singular_values: Array
    center: NDArray[np.float32]
    tail: Array

    @property
    def nbytes(self) -> int:
        """Total number of bytes."""
        V = 0 if self.components is None else self.components.nbytes
        index = self.index
        kept = index.nbytes + index.quantizer.nbytes + (index.subspaces.nbytes if index.subspaces else 0)
        return kept + V + self.center.nbytes + self.tail.nbytes + _NUMBERS


class HierarchicalSequenceEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Encode a long sequence of frames, and find the positions of new frames in the sequence (place recognition).

    The sequence is cut into contiguous segments, whose means are the points of a path. The points are stored with a few
    bits per coordinate in the subspace of the closed form, and a tree of means above the points speeds up the search. A
    query is projected to the straight lines between points, so that a segment can be several times as long as the
    tolerated error. The first and the last frame are stored as the ends of the path. `storage_report` counts all stored
    bytes.

    Parameters
    ----------
    segment_length : int or "auto"
        The largest number of frames per point. A short sequence has shorter segments, so that it has at least two nodes
        of points. Choose a length over which neighbouring frames are similar, or a smaller length. ``"auto"`` is 40, or
        the length that `bytes_per_frame` allows.
    branching : int
        The number of children of each node of the tree.
    levels : int or "auto"
        The number of levels of means above the points; 0 compares queries with all points. ``"auto"`` uses one level
        for more than 100,000 frames. The mean of frames that are not similar carries little information. Many levels
        therefore reduce the recall.
    subspace : {"shared", "per-node"}
        One matrix V for all points, or one matrix for each node above the points.
    n_components : int, optional
        The number m of coordinates. By default it is the rank of the segment means, as in the closed form (13), or all
        d if V would need more bytes than it saves. With m = d every V is optimal, and no V is stored.
    summary : {"mean", "key"}
        The point of a segment: the mean of its frames, or the frame in the middle (key-framing).
    bits : {"auto", 1, 2, 3, 4, 8, 32}
        The number of bits per coordinate. The quantization levels span the range of the coordinate over the whole path,
        or the range around a local mean (see `relative`). ``"auto"`` compares two bits, one or two relative bits, and
        two bits with segments that are a third shorter. It chooses the code with the fewest bytes whose recall of noisy
        copies of training frames is within 0.02 of the best, or the best code that `bytes_per_frame` allows.
    relative : bool or "auto"
        Store the mean of eight points with eight bits per coordinate, and the differences of the points from the mean
        with `bits` (1 to 3). This code suits paths that drift. ``"auto"`` tries it if `bits` is ``"auto"``, and
        otherwise means False.
    bytes_per_frame : float, optional
        A budget for all stored data, which replaces `segment_length` and `bits`. Each code is tried with the shortest
        segments within the budget, and the code with the highest recall of noisy copies of training frames is chosen.
        Ties (within 0.001) go to the code with the shortest segments.
    n_groups : int, optional
        The number of bytes per point of a product quantization, which replaces `bits` (needs faiss).
    beam : int
        The number of nodes that a search keeps at every level.
    model : str
        The name of the registered model whose first initializer gives the shared V.

    Attributes
    ----------
    components_ : ndarray of shape (m, d), float32, or None
        V' of the closed form. It is None if V is the identity, and for one subspace per node.
    center_ : ndarray of shape (d,), float32
        The mean of all frames, mu_0.
    singular_values_ : ndarray
        The singular values of the weighted segment means, which measure the information of each coordinate.
    segment_length_ : int
        The number of frames per point of this sequence.
    bits_ : int or None
        The number of bits per coordinate; None with `n_groups`.
    relative_ : bool
    choice_ : manifoldseq.models.Choice
        The recall and the bytes per frame of the compared codes. It exists only if codes were compared.
    estimated_recall_ : float or None
        The fraction of noisy copies of training frames that are found within ten frames of their position, or where the
        path passes the same place again. It is None if `bits` is given without a budget.
    index_ : Path
        The stored path and the tree of means.
    n_frames_ : int

    Notes
    -----
    The paper's main text, which describes its encoder, was not available. The design of this encoder is therefore our
    own. It uses the closed form of the supplement. If frames are isotropic (flat `singular_values_`), reduce the bits
    per coordinate and not the number of coordinates: the recall is then much higher for the same storage.

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

    stored_types = (Path, NodeSubspaces, ScalarQuantizer, ProductQuantizer, RelativeQuantizer, Choice, Step)

    components_: NDArray[np.float32] | None
    center_: NDArray[np.float32]
    singular_values_: Array
    index_: Path
    n_frames_: int
    segment_length_: int
    tail_: Array
    recent_: NDArray[np.float32]

    n_features_in_: int

    def __init__(
        self,
        segment_length: int | str = "auto",
        *,
        branching: int = 8,
        levels: int | str = "auto",
        subspace: str = "shared",
        n_components: int | None = None,
        summary: str = "mean",
        bits: int | str = "auto",
        relative: bool | str = "auto",
        bytes_per_frame: float | None = None,
        n_groups: int | None = None,
        beam: int = 32,
        model: str = "hierarchical.subspace",
    ) -> None:
        self.segment_length = segment_length
        self.branching = branching
        self.levels = levels
        self.subspace = subspace
        self.n_components = n_components
        self.summary = summary
        self.bits = bits
        self.relative = relative
        self.bytes_per_frame = bytes_per_frame
        self.n_groups = n_groups
        self.beam = beam
        self.model = model

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | pathlib.Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Encode a sequence.

        Parameters
        ----------
        X : array-like of shape (N, d)
            The frames in order, of any real dtype. A `numpy.memmap` is read block by block.
        y : None
            Ignored.
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`: an iteration measures the recall of one code, or sums up the frames of
            the segments if no codes are compared.

        Raises
        ------
        ValueError
            For an invalid parameter or frames that are not finite, equal, or too few; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.

        Warns
        -----
        UserWarning
            If codes are chosen and `estimated_recall_` is below one half.
        """
        check_parameters(self, _RULES)
        if self.bytes_per_frame is not None and (self.subspace == "per-node" or self.n_groups is not None):
            raise ValueError(
                "bytes_per_frame requires the default values of subspace and n_groups: remove these two "
                "arguments, or set segment_length instead of bytes_per_frame"
            )
        if self.relative is True and (self.subspace == "per-node" or self.n_groups is not None):
            raise ValueError(
                "relative=True requires the default values of subspace and n_groups: remove these two arguments"
            )
        if self.relative is True and self.bits not in ("auto", 1, 2, 3):
            raise ValueError(f"bits={self.bits} with relative=True is not known: choose 1, 2, 3 or 'auto'")
        X = validate_rows(self, _of_rows(X), reset=True, finite=False, least=2)
        m = check_components(self.n_components, X.shape[1])
        if self._levels(len(X)) and len(X) < self.branching:
            raise ValueError(
                f"X has {len(X)} frames, fewer than branching={self.branching}: lower branching, or set levels=0"
            )
        store = marked(checkpoint, lambda: (self, X))
        made, choice = self._chosen(X, m, Stages(observers=observers, checkpoint=store, resume=resume))
        recall = None if choice is None else float(choice.steps[0].figure[choice.steps[0].chosen[0]])
        self.__dict__.pop("choice_", None)
        if choice is not None:
            self.choice_ = choice
        if recall is not None and recall < _UNSURE:
            more = "pass bits and segment_length" if self.bytes_per_frame is None else "allow more bytes_per_frame"
            warnings.warn(
                f"only {recall:.0%} of noisy copies of frames are found at the places of the frames with this "
                f"storage: {more}, or pass frames with more columns",
                stacklevel=2,
            )
        self.center_, self.components_, self.singular_values_ = made.center, made.components, made.singular_values
        self.index_, self.segment_length_, self.n_frames_ = made.index, made.length, len(X)
        self.bits_, self.relative_, self.estimated_recall_ = made.bits, made.relative, recall
        self.tail_, self.recent_ = made.tail, np.zeros((0, 1), np.float32)
        return self

    def _chosen(self, X: NDArray, m: int | None, stages: Stages) -> tuple[_Fit, Choice | None]:
        """Return the sequence in the requested or the best code, and the record of the choice."""
        began = time.perf_counter()
        longest = max(1, len(X) // (2 * self.branching))
        length = min(_LENGTH if isinstance(self.segment_length, str) else self.segment_length, longest)
        scalar = self.n_groups is None and self.subspace == "shared"
        budget = self.bytes_per_frame
        if budget is None and (self.bits != "auto" or not scalar):
            bits = 2 if isinstance(self.bits, str) else self.bits
            (moments,) = stages.map(lambda length: vars(self._summed(X, length)), [length])
            points = {length: self._points(X, Moments(**moments), length, m)}
            return self._encoded(X, length, bits, self.relative is True, m, points), None
        points, codes = {}, self._codes(X, length, scalar)
        fits: dict[int, _Fit] = {}  # of the codes that this process measures
        copies: list[Any] = []

        def measured(k: int) -> dict[str, Any] | None:
            fit = self._candidate(X, *codes[k], m, longest, points)
            if fit is None:
                return None
            fits[k], copies[:] = fit, copies or self._copies(X)
            return {"length": fit.length, "nbytes": fit.nbytes, "found": self._found(X, fit, *copies)}

        tried = enumerate(stages.map(measured, range(len(codes))))
        made = {k: one for k, one in tried if one is not None}
        if not made:
            least = self._encoded(X, min(_LONGEST, longest), 1, False, m, points).nbytes / len(X)
            raise ValueError(
                f"bytes_per_frame={budget} is too small for {len(X)} frames of {X.shape[1]} numbers: pass at least "
                f"{least:.2g}"
            )
        lengths, sizes = ([one[name] for one in made.values()] for name in ("length", "nbytes"))
        found, error = summary(np.array([one["found"] for one in made.values()]))
        # within a budget, of codes that find as much, the shortest segments: they bear changes of speed best. The
        # tolerances are prices of bytes and of speed, not errors of the estimate, which are given in the record
        enough = found.max() - (_AS_GOOD if budget is None else _AS_SURE)
        good = [i for i in range(len(made)) if found[i] >= enough]
        best = min(good, key=lambda i: (sizes if budget is None else lengths)[i])
        params = [
            {"bits": codes[k][0], "relative": codes[k][1], "segment_length": own}
            for k, own in zip(made, lengths, strict=True)
        ]
        columns = {"bytes per frame": np.array([size / len(X) for size in sizes])}
        step = Step("recall", "fraction of noisy copies that are found", params, found, [best], error, columns)
        chosen = {name: params[best][name] for name in ("bits", "relative") if getattr(self, name) == "auto"}
        if budget is None and self.segment_length == "auto":
            chosen["segment_length"] = lengths[best]
        k = [*made][best]
        if k not in fits:  # another process has measured the code, or the fit was resumed
            fits[k] = self._encoded(X, lengths[best], *codes[k][:2], m, points)
        return fits[k], Choice([step], chosen, [], time.perf_counter() - began)

    def _codes(self, X: NDArray, length: int, scalar: bool) -> list[tuple[int, bool, int | None]]:
        """Return bits, `relative` and frames per point (None: set by the budget) of the codes to compare."""
        relative = scalar and self.relative in (True, "auto")
        plain = self.relative is not True
        codes: list[tuple[int, bool, int | None]] = []
        if self.bytes_per_frame is not None:
            codes += [(bits, False, None) for bits in (1, 2, 4, 8) if plain]
            codes += [(bits, True, None) for bits in (1, 2, 3) if relative]
            if self.bits != "auto":
                return [code for code in codes if code[0] == self.bits] or [(int(self.bits), False, None)]
            return codes
        codes += [(2, False, length)] if plain else []
        codes += [(bits, True, length) for bits in (1, 2) if relative]
        if plain and isinstance(self.segment_length, str):  # as many bytes as two bits with means take
            codes.append((2, False, -(-2 * length // 3)))
        if plain and X.shape[1] <= _FEW_COLUMNS:
            codes += [(bits, False, length) for bits in (4, 8)]
        return codes

    def _candidate(
        self,
        X: NDArray,
        bits: int,
        of_means: bool,
        own: int | None,
        m: int | None,
        longest: int,
        points: dict[int, Any],
    ) -> _Fit | None:
        """Return the sequence in one code, or None if it has too few frames or the budget is too small."""
        budget = self.bytes_per_frame
        if budget is not None:
            own = self._length_within(X, bits, of_means, m, float(budget), longest)
        if own is None or (of_means and -(-len(X) // own) < WIDTH):
            return None
        made = self._encoded(X, own, bits, of_means, m, points)
        if budget is not None and made.nbytes > budget * len(X) and own < longest:  # V, by its rank
            own = min(int(np.ceil(own * (made.nbytes / (budget * len(X))) * 1.02)), longest)
            made = self._encoded(X, own, bits, of_means, m, points)
        return made if budget is None or made.nbytes <= budget * len(X) else None

    def _length_within(
        self, X: NDArray, bits: int, relative: bool, m: int | None, budget: float, longest: int
    ) -> int | None:
        """Return the minimum length of segments within a budget, without V, or None if no length is possible."""
        N, d = X.shape
        taken = d if m is None else m
        ends = 2 * -(-taken * bits // 8)
        side = (
            4 * d + 4 * taken * (2 if relative else 1) + 8 * d + ends + _NUMBERS + (4 * d * taken if taken < d else 0)
        )
        left = budget * N - side - (8 * taken if relative else 0)
        each = -(-taken * bits // 8) + (taken / WIDTH if relative else 0)
        if left < each:
            return None
        own = max(int(np.ceil(N / (left / each))), 1)
        if not isinstance(self.segment_length, str):
            own = max(own, self.segment_length)
        return own if own <= min(_LONGEST, longest) else None

    def _copies(self, X: NDArray) -> tuple[NDArray[np.intp], Array, float]:
        """Return rows of training frames, noisy copies of the frames, and the squared distance of similar frames."""
        rng = np.random.default_rng(0)
        at = np.sort(rng.integers(len(X), size=_ASKED))
        own = X[at].astype(np.float64)
        alike = np.median(_gaps(X, at, np.where(at + _APART < len(X), at + _APART, at - _APART)))
        return at, own + _NOISE * np.sqrt(alike / X.shape[1]) * rng.standard_normal(own.shape), alike

    def _found(self, X: NDArray, fit: _Fit, at: NDArray[np.intp], asked: Array, alike: float) -> Array:
        """Return 1 for each noisy copy of a training frame that is found, else 0, (copies,).

        A copy is found if its place is within ten frames, or if the frame at that place is as similar to the original
        as frames at an interval of ten. The latter must be another visit of the same place (the frames ten before and
        after are also similar), or a stop of the path (all frames between are similar).
        """
        Z = (asked - fit.center).astype(np.float32)
        Z = Z if fit.components is None else Z @ fit.components.T
        found = np.rint(fit.index.search(Z, self.beam)[0][:, 0] - 1e-3).astype(np.intp).clip(0, len(X) - 1)
        # few columns have the same values at many places: the frames around, or between, tell
        again = [
            np.all([_gaps(X, found + way * shift, at + shift) <= alike for shift in (-_APART, 0, _APART)], axis=0)
            for way in (1, -1)
        ]
        shares = np.linspace(1, 0, 8, endpoint=False)
        still = np.all([_gaps(X, at + np.rint(s * (found - at)).astype(int), at) <= alike for s in shares], axis=0)
        return ((np.abs(found - at) <= _APART) | again[0] | again[1] | still).astype(float)

    def _summed(self, X: NDArray, length: int) -> Moments:
        """Return the moments of segments."""
        return Moments.of(X, np.arange(len(X)) // length)

    def _points(self, X: NDArray, moments: Moments, length: int, m: int | None) -> tuple[Moments, Array, Any]:
        """Return the moments of segments, their points about the mean of all frames, and V with its singular values.

        Raises
        ------
        ValueError
            If all points are equal, or exceed the range of single precision.
        """
        mean = moments.mean
        points = (moments.centroids if self.summary == "mean" else _keys(X, length)) - mean
        B = weighted_centroids(points, moments.counts, np.zeros(len(mean)))
        if not np.linalg.norm(B) > moments.tolerance(mean):
            raise ValueError(
                "all segments of X have the same mean, so places cannot be distinguished: pass frames that differ"
            )
        _check_reach(points, _RANGE[0])
        if self.subspace == "per-node":
            return moments, points, None
        # the points are means of segments, or frames as heavy as their segments
        of = moments
        if self.summary != "mean":
            of = Moments.of(_keys(X, length), np.arange(len(points)), weight=moments.counts.astype(np.float64))
        problem = ms.get_model(self.model).problem(of, n_components=m, center=mean)
        begin = next(iter(problem.initializers.values()))
        return moments, points, (begin(problem, random_generator(0))[0], problem.data.model.s)

    def _encoded(
        self, X: NDArray, length: int, bits: int, relative: bool, m: int | None, known: dict[int, Any]
    ) -> _Fit:
        """Return the sequence in one code; `known` caches points by the length of segments."""
        if length not in known:
            known[length] = self._points(X, self._summed(X, length), length, m)
        moments, points, closed_form = known[length]
        n, mean = len(moments.counts), moments.mean
        center = mean.astype(np.float32)
        points = points + (mean - center)  # about what is kept, as queries are
        components, singular_values, subspaces = None, np.empty(0), None
        if self.subspace == "per-node":
            subspaces = NodeSubspaces.of(points, self.branching, m)
            points = subspaces.encode(points)
        else:
            V, singular_values = closed_form
            taken = bits + 8 / WIDTH * relative
            saves = self.n_groups is not None or 4 * V.size < n * (len(V) - V.shape[1]) * taken / 8
            if V.shape[1] < len(V) and (m is not None or saves):
                components = np.ascontiguousarray(V.T, np.float32)
                points = points @ V
        places = _places(len(X), n, length, self.summary)
        branching, levels = self.branching, self._levels(len(X))
        if relative:
            quantizer: Any = RelativeQuantizer.of(points, bits)
            codes, means, last = quantizer.encode(points, len(X) % length == 0)
            index = Path(codes, places, quantizer, branching, levels, None, means, last)
        else:
            groups = self.n_groups
            quantizer = ScalarQuantizer.of(points, bits) if groups is None else ProductQuantizer.of(points, groups)
            index = Path(quantizer.encode(points), places, quantizer, branching, levels, subspaces)
        if length > AT_END:
            ends = np.stack([_mean(X[:AT_END]), _mean(X[-AT_END:])]) - center
            index = index.with_ends(ends if components is None else ends @ components.T)
        tail = self._unfinished(moments, len(X) % length == 0)
        used = None if self.n_groups is not None else bits
        return _Fit(length, used, relative, index, components, singular_values, center, tail)

    def _levels(self, n_frames: int) -> int:
        return int(n_frames > _FLAT) if isinstance(self.levels, str) else self.levels

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Append frames to the sequence, with the subspace and the quantizer of the first frames.

        The subspace, the quantizer and ``segment_length_`` do not change. Begin with as many frames as possible,
        because few frames lead to short segments, and to quantization levels that do not suit the rest of the path.

        Parameters
        ----------
        X : array-like of shape (N, d)
        y : None
            Ignored.

        Raises
        ------
        ValueError
            With one subspace per node or with key frames, which only `fit` supports.
        """
        if not hasattr(self, "index_"):
            return self.fit(X)
        index = self.index_
        if index.subspaces is not None or self.summary == "key":
            raise ValueError(
                "partial_fit needs subspace='shared' and summary='mean': fit all frames again, or choose these values"
            )
        X = validate_rows(self, _of_rows(X), reset=False, finite=False)
        unfinished = self.n_frames_ % self.segment_length_
        moments = Moments.of(X, (unfinished + np.arange(len(X))) // self.segment_length_)
        sums = moments.centroids * moments.counts[:, None]
        if unfinished:
            sums[0] += self.tail_[0]
            moments.counts[0] += unfinished
        points = sums / moments.counts[:, None] - self.center_
        _check_reach(points)
        points = points if self.components_ is None else points @ self.components_.T
        n = index.n - (unfinished > 0) + len(points)
        self.n_frames_ += len(X)
        places = _places(self.n_frames_, n, self.segment_length_, self.summary)
        final = self.n_frames_ % self.segment_length_ == 0
        end = None
        if index.ends is not None:
            recent = X[-AT_END:] - self.center_
            recent = recent if self.components_ is None else recent @ self.components_.T
            # of frames from before the first portion the end itself is known, their mean. It is encoded anew from the
            # frames: mixed into what was decoded, a third of a step would be less than a level, and be lost
            before = self.recent_ if len(self.recent_) else np.repeat(index.end_points[1:], AT_END - 1, axis=0)
            recent = np.concatenate([before, recent])[-AT_END:]
            end, self.recent_ = _mean(recent), recent[1 - AT_END :].astype(np.float32)
        levels = self._levels(self.n_frames_)
        self.index_ = index.appended(points, unfinished > 0, final, places, levels, end)
        left = self.n_frames_ % self.segment_length_
        self.tail_ = sums[-1:] if left else sums[:0]
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Return the coordinates of frames in the shared subspace.

        Parameters
        ----------
        X : array-like of shape (N, d)

        Returns
        -------
        ndarray of shape (N, m), in the float dtype of X
            The coordinates. V is stored in float32. If V is the identity, the coordinates are the frames minus their
            mean.
        """
        X = self._frames(X)
        return self._coordinates(X, X.dtype if X.dtype == np.float64 else np.float32)

    def query(
        self, X: ArrayLike, n_best: int = 1, *, apart: float | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Find the positions of frames in the sequence.

        Parameters
        ----------
        X : array-like of shape (Q, d)
        n_best : int
            The number of places for each frame, in order of distance. If a search finds fewer places, the last place is
            repeated. A larger `beam` finds more places.
        apart : float, optional
            The smallest distance, in frames, between the places of a query. Lines next to the best line are nearly as
            good, and would hide later passes of the path through the same place. The default is two segments, and 0
            allows neighbouring lines.

        Returns
        -------
        places : ndarray of shape (Q, n_best), float64
            The positions in frames. Between the points of the path, they are not whole numbers.
        squared : ndarray of shape (Q, n_best), float32
            Squared distances to the path, in the coordinates of the subspace.
        """
        check_is_fitted(self, "index_")
        check_parameters(self, _RULES)
        check_whole("n_best", n_best)
        if apart is not None:
            check_number("apart", apart)
        if n_best > self.n_frames_:
            raise ValueError(f"n_best={n_best} is more than the {self.n_frames_} frames of the sequence: lower n_best")
        apart = 2.0 * self.segment_length_ if apart is None else float(apart)
        places, squared = self.index_.search(self._coordinates(self._frames(X)), self.beam, int(n_best), apart)
        return np.clip(places, 0, self.n_frames_ - 1), squared

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the number of the stored frame that each frame of X resembles most, shape (Q,)."""
        # a point lies between two frames if segments have an even length: rounding errors are not to choose
        return np.rint(self.query(X)[0][:, 0] - 1e-3).clip(0).astype(np.intp)

    def score(self, X: ArrayLike, y: ArrayLike | None = None, *, tolerance: int = 10) -> float:
        """Return the fraction of frames whose estimated position is within `tolerance` frames of `y` (recall@1).

        Parameters
        ----------
        X : array-like of shape (Q, d)
        y : array-like of shape (Q,)
            Numbers of the true frames.
        tolerance : int

        Raises
        ------
        ValueError
            If `y` is missing. There is no default, because `X` need not be the beginning of the sequence.
        """
        check_number("tolerance", tolerance)
        if y is None:
            raise ValueError("score requires the true places: pass y, the index of the true frame of each query")
        found = self.predict(X)
        truth = one_per_frame(y, len(found)).astype(np.float64)
        return float(np.mean(np.abs(found - truth) <= tolerance))

    def match(
        self,
        X: ArrayLike,
        *,
        method: str = "bayes",
        speed: tuple[float, float] = (0.5, 2.0),
        window: int = 10,
        smooth: bool = False,
        tolerance: float = 10,
    ) -> NDArray[np.float64]:
        """Find the positions of consecutive frames of another run along the same path jointly.

        Parameters
        ----------
        X : array-like of shape (Q, d)
            The frames, in the order of their recording.
        method : {"bayes", "lines"}
            A hidden Markov model of the traveller's place and speed (see `match_proba`), or straight lines through the
            matrix of distances (SeqSLAM, Milford and Wyeth, 2012).
        speed : (float, float)
            The least and the largest number of frames of the sequence per query. Negative speeds go backwards. If
            the traveller may stand still, the range must include 0; if the traveller may turn round, it must include
            speeds of both signs.
        window : int
            With ``"lines"``: the number of queries on a line.
        smooth : bool
            With ``"bayes"``: use later queries too.
        tolerance : float
            With ``"bayes"``: the tolerated error in frames, see `match_proba`.

        Returns
        -------
        ndarray of shape (Q,), float64
            The positions in frames.

        Raises
        ------
        ValueError
            For an unknown method, ``smooth`` with lines, an invalid range of speeds, or a tolerance that is not
            positive.

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
        if smooth and method != "bayes":
            raise ValueError(
                f"smooth=True needs method='bayes': method={quoted(method)} uses only the last {window} queries"
            )
        if method == "bayes":
            return self._matched(X, speed, smooth, tolerance)[0]
        Z, (slow, fast), index = self._run(X, speed)
        at = along_lines(contrast(index.distances(Z).astype(np.float64)), (slow, fast), int(window))
        return np.clip(index.near(Z, at), 0, self.n_frames_ - 1)

    def match_proba(
        self, X: ArrayLike, *, speed: tuple[float, float] = (0.5, 2.0), smooth: bool = False, tolerance: float = 10
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the positions of consecutive frames along the path, and the probabilities of the positions.

        The states of a hidden Markov model are pairs of a place, in cells of an eighth of a segment (at least one
        frame), and one of seven to 41 speeds in the range. The likelihood of a cell is a normal density of the distance
        from the query to the path in this cell, with a variance estimated from all queries. Each speed shifts the place
        by a whole number of cells, and no speed is outside the range. The forward algorithm filters, and the
        forward-backward algorithm smooths (Rabiner, "A tutorial on hidden Markov models", 1989, equations 18-27). For Q
        queries, 2 √Q state vectors are in memory. The likelihood of a second model, in which the traveller moves by
        arbitrary steps, shows whether the traveller keeps to the range.

        Parameters
        ----------
        X : array-like of shape (Q, d)
            The frames, in the order of their recording.
        speed : (float, float)
            The least and the largest number of frames of the sequence per query. Negative speeds go backwards.
        smooth : bool
            Use later queries, too.
        tolerance : float
            Half of the width of a window, in frames. For each query, the most probable window is chosen.

        Returns
        -------
        places : ndarray of shape (Q,), float64
            The mean of the place within the window, in frames.
        probabilities : ndarray of shape (Q,), float64
            The probability that the window contains the place and that the traveller keeps to the range of speeds
            there. If the traveller leaves the range, the places are wrong, and the probabilities fall within about ten
            queries.

        Warns
        -----
        UserWarning
            If the traveller does not keep to the range at more than half of the queries.

        Raises
        ------
        ValueError
            For an invalid range of speeds, or a tolerance that is not positive.

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
        return self._matched(X, speed, smooth, tolerance)

    def decode(self, frames: ArrayLike) -> NDArray[np.float32]:
        """Return the stored approximation of frames of the sequence.

        Parameters
        ----------
        frames : array-like of shape (Q,)
            Numbers of frames. They need not be whole numbers: the path between two frames is straight.

        Returns
        -------
        ndarray of shape (Q, d), float32

        Raises
        ------
        ValueError
            For frames outside the sequence.
        """
        check_is_fitted(self, "index_")
        at = np.atleast_1d(_numbers(frames))
        if not (at.ndim == 1 and at.size and (at >= 0).all() and (at <= self.n_frames_ - 1).all()):
            raise ValueError(
                f"frames contains an index outside the sequence: pass indices from 0 to {self.n_frames_ - 1}"
            )
        Z = self.index_.decode(at)
        return Z + self.center_ if self.components_ is None else Z @ self.components_ + self.center_

    def storage_report(self) -> StorageReport:
        """Return the number of bytes of each part of the stored data."""
        check_is_fitted(self, "index_")
        V = 0 if self.components_ is None else self.components_.nbytes
        parts = {"codes": 0, "subspace": self.center_.nbytes + V, "quantizer": 0}
        index = self.index_
        ends = 0 if index.ends is None else index.ends.nbytes
        parts["codes"], parts["ends"], parts["quantizer"] = index.nbytes - ends, ends, index.quantizer.nbytes
        parts["subspace"] += index.subspaces.nbytes if index.subspaces is not None else 0
        parts["growth"] = self.tail_.nbytes + self.recent_.nbytes
        parts["numbers"] = _NUMBERS
        return StorageReport(parts, self.n_frames_, sum(parts.values()) + index.resident)

    def _matched(
        self, X: ArrayLike, speed: Any, smooth: bool, tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute the result of `match_proba`."""
        check_positive("tolerance", tolerance)
        Z, limits, index = self._run(X, speed)
        cells = index.cells
        width = cells[1]
        slow, fast = limits * self.segment_length_ / width
        motion = Motion.between(float(slow), float(fast), len(cells))
        some = Z[:: -(-len(Z) // SAMPLED)]
        near, least = index.nearest_of(cells, some)
        residuals = some - index.decode(near)
        scales = scale_of(some, residuals, near, self.segment_length_, least) / news(Z, residuals)

        def seen(rows: slice) -> NDArray[np.float32]:
            return likelihood(index.scores(Z[rows], cells), scales[rows])

        places, shares = np.empty(len(Z)), np.empty(len(Z))
        doubt = Doubt(len(Z), len(cells))
        for rows, probabilities in marginals(seen, len(Z), motion, smooth, doubt):
            places[rows], shares[rows] = windows(probabilities, tolerance / width)
        lost = doubt.smoothed if smooth else doubt.filtered
        if lost.mean() > 0.5:
            warnings.warn(
                f"the places of {int((lost > 0.5).sum())} of {len(Z)} queries are probably wrong, because X does "
                f"not seem to move by speed={tuple(speed)} frames per query: pass the range of the actual speeds "
                "(negative speeds for a backward path)",
                stacklevel=3,
            )
        return np.clip(places * width, 0, self.n_frames_ - 1), shares * (1 - lost)

    def _run(self, X: ArrayLike, speed: Any) -> tuple[NDArray[np.float32], NDArray[np.float64], Path]:
        """Return the coordinates of consecutive queries, the limits of their speed in points, and the points."""
        limits = _numbers(speed)
        if limits.shape != (2,) or not np.isfinite(limits).all() or limits[0] > limits[1]:
            raise ValueError(
                f"speed={quoted(speed)} is not valid: pass the least and the largest number of frames per query"
            )
        X = self._frames(X)
        return (
            self._coordinates(X),
            np.clip(limits, -self.n_frames_, self.n_frames_) / self.segment_length_,
            self.index_,
        )

    def _frames(self, X: ArrayLike) -> NDArray:
        check_is_fitted(self, "index_")
        return validate_rows(self, _of_rows(X), reset=False, finite=False)  # `_coordinates` says which are not finite

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

    def _unfinished(self, moments: Moments, full: bool) -> Array:
        """Return the sum of the frames of the last segment if it is not full, shape (1, d) or (0, d)."""
        full = full or self.subspace != "shared" or self.summary != "mean"
        last = moments.centroids[-1:] * moments.counts[-1]
        return last[:0] if full else last


def _of_rows(X: ArrayLike) -> ArrayLike:
    """Return X, or raise an error for a single dimension (the message of scikit-learn would print all numbers)."""
    shape = np.shape(X) if isinstance(X, np.ndarray) else None
    if shape is not None and len(shape) == 1:
        raise ValueError(f"X has shape {shape}, but rows must be frames. Reshape your data: X[None] is one frame")
    return X


def _gaps(X: NDArray, a: NDArray[np.intp], b: NDArray[np.intp]) -> Array:
    """Return the squared distances of frames, shape (k,); indices beyond the ends mean the first or last frame."""
    away = X[a.clip(0, len(X) - 1)].astype(np.float64) - X[b.clip(0, len(X) - 1)]
    return np.vecdot(away, away)


def _mean(X: NDArray) -> Array:
    """Return the mean of consecutive frames."""
    return X.astype(np.float64).mean(axis=0)


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
    """Raise ValueError if squares of points about the mean overflow in single precision."""
    reach = float(np.sqrt(np.vecdot(points, points).max()))
    if not least <= reach <= _RANGE[1]:
        raise ValueError(
            f"segments of X have distances up to {reach:.0e} from their mean, whose squares are out of range in single "
            "precision: scale X"
        )


def _numbers(values: Any) -> Array:
    """Return an array of numbers, or None for other values."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return np.empty(0)
