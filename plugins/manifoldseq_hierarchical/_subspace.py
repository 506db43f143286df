"""Coordinates of frames in the subspace that separates their classes, in closed form."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_parameters, check_whole
from manifoldseq.models import ModelEstimator

from ._classes import class_codes, equal_segments, one_per_frame, segment_codes
from ._closed_form import check_components
from ._coordinates import SubspaceCodes
from ._moments import Codes, Moments
from ._objective import _summed

METHODS = ("closed-form", "eigh")
_RULES = {"n_segments": check_whole, "method": (check_choice, METHODS)}


class SubspaceEncoder(SubspaceCodes, ModelEstimator):
    """Encode frames by the coordinates that separate classes, or segments of a sequence.

    The subspace minimizes F(V, m, mu), the sum of squared distances of the frames to their class means in m coordinates
    and to mu_0 in all other coordinates. It is computed in closed form from the h class means, in one pass over the
    frames and without a d×d matrix. If m is the rank, the nearest class mean in m coordinates is also the nearest in
    all d coordinates, and `predict` loses no accuracy.

    Parameters
    ----------
    n_components : int or None
        The number m of coordinates. The default is optimal: the rank of the class means minus mu_0, which is h - 1 if
        mu_0 is the mean of the frames and d is large enough. The first m' < m coordinates are the best m' coordinates.
    n_segments : int
        The number of contiguous segments of equal length into which a sequence without labels is cut.
    center : bool or array-like of shape (d,)
        mu_0: True for the mean of the frames, False for 0, or the point itself.
    method : {"closed-form", "eigh"}
        ``"eigh"`` forms the d×d matrix Sigma (equation 8) and counts its negative eigenvalues, as printed in the paper.
        Rounding errors are counted too, so m is too large. This method is meant for comparisons.
    model, init : str
        The names of the registered model and of its initializer.
    solver : str, optional
        The solver; by default none, because the initializer of the model is its minimum.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    components_ : ndarray of shape (m, d)
        The transpose of V. The rows are orthonormal, and the largest entry of each row is positive.
    center_ : ndarray of shape (d,)
        mu_0.
    cluster_centers_ : ndarray of shape (h, d)
        The class means (4).
    classes_ : ndarray of shape (h,)
        Sorted labels, or the numbers of the segments.
    class_count_ : ndarray of shape (h,), int
    singular_values_ : ndarray of shape (min(h, d),)
        Singular values of the weighted class means; ``-singular_values_**2`` are the nonzero eigenvalues of Sigma.
    energy_ : float
        F (1) at the optimum.
    scatter_ : float
        The trace of S_0 (7): F for m = 0.
    n_features_in_ : int
    moments_ : Moments
        The sums that `partial_fit` updates.

    See Also
    --------
    SubspaceKMeans : also estimates the classes.

    References
    ----------
    Le, Xu, Hoang, Milford: Hierarchical encoding of sequential data with compact and sub-linear storage cost,
    supplementary material, equations (1)-(13).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.cumsum(rng.standard_normal((300, 50)), axis=0)
    >>> encoder = SubspaceEncoder(n_segments=10).fit(X)
    >>> encoder.transform(X).shape
    (300, 9)
    >>> bool(np.mean(encoder.predict(X) == np.arange(300) // 30) > 0.8)
    True
    """

    stored_types = (Moments,)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_segments: int = 8,
        center: bool | ArrayLike = True,
        method: str = "closed-form",
        model: str = "hierarchical.subspace",
        init: str = "closed-form",
        solver: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.init = init
        self.solver = solver
        self.random_state = random_state
        self.n_components = n_components
        self.n_segments = n_segments
        self.center = center
        self.method = method

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        segments: ArrayLike | None = None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn the subspace of labelled frames, or of the segments of a sequence.

        Parameters
        ----------
        X : array-like of shape (N, d)
            The frames, of any real dtype. A `numpy.memmap` is read block by block.
        y : array-like of shape (N,), optional
            The class of each frame.
        segments : sequence of int, optional
            In place of labels: the lengths of contiguous segments.
        observers, checkpoint, resume
            Options of the solver, as in :func:`manifoldseq.minimize`. The closed form does not use them.

        Raises
        ------
        ValueError
            For an invalid parameter or input, or if the class means do not differ; the message says what to do.
        """
        check_parameters(self, _RULES)
        X = self._frames(X, reset=True)
        check_components(self.n_components, X.shape[1])
        if y is not None and segments is not None:
            raise ValueError("y and segments both determine the labels: pass only one of them")
        if y is not None:
            classes, codes = class_codes(y, len(X))
        else:
            codes = segment_codes(equal_segments(len(X), self.n_segments) if segments is None else segments, len(X))
            classes = np.arange(codes[-1] + 1)
        moments = _summed(ms.execution.RowBlocks.of(X, codes), X, len(classes))
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        self._solve(moments, classes, (X, codes) if self.method == "eigh" else None, loop)
        if not len(self.components_):
            raise ValueError(self._why_nothing())
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add frames and new classes; the result equals the result of `fit` with all frames so far.

        Parameters
        ----------
        X : array-like of shape (N, d)
        y : array-like of shape (N,)

        Notes
        -----
        As long as the class means do not differ, for example with only one class, codes have no coordinates.
        """
        fitted = hasattr(self, "moments_")
        return self._learn([(X, y)], self.moments_.copy() if fitted else None, self.classes_ if fitted else None)

    def fit_blocks(self, blocks: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Fit to a stream of blocks in one pass, and compute the solution once at the end.

        Parameters
        ----------
        blocks : iterable of (array-like of shape (N_i, d), array-like of shape (N_i,))
            Frames and their classes; only one block is in memory at a time.

        Raises
        ------
        ValueError
            For the reasons of `fit`, and if there are no blocks.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> blocks = ((rng.standard_normal((100, 8)) + np.eye(8)[k], np.full(100, k)) for k in range(4))
        >>> SubspaceEncoder().fit_blocks(blocks).components_.shape
        (3, 8)
        """
        self._learn(blocks, None, None)
        if not len(self.components_):
            raise ValueError(self._why_nothing())
        return self

    def predict(self, X: ArrayLike) -> NDArray:
        """Return the class whose mean is nearest in the coordinates of the subspace.

        Returns
        -------
        ndarray of shape (N,)
        """
        rows, _ = self._nearest(X)
        return self.classes_[rows]

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the fraction of frames whose predicted class is `y`."""
        found = self.predict(X)
        return float(np.mean(found == one_per_frame(y, len(found))))

    def _learn(
        self, blocks: Iterable[tuple[ArrayLike, ArrayLike]], moments: Moments | None, classes: NDArray | None
    ) -> Self:
        """Add blocks to the moments of sorted classes (both None at first), and solve."""
        check_parameters(self, _RULES)
        if self.method == "eigh":
            raise ValueError("method='eigh' needs all frames at once: use fit, or method='closed-form'")
        for number, block in enumerate(blocks):
            if not isinstance(block, tuple | list) or len(block) != 2:
                raise ValueError(f"block {number} is not a pair: pass frames and their labels, (X, y)")
            X, y = block
            X = self._frames(X, reset=moments is None)
            check_components(self.n_components, X.shape[1])
            new, codes = class_codes(y, len(X))
            if moments is None or classes is None:
                moments, classes = Moments.of(X, codes, len(new)), new
                continue
            together = _union(classes, new)
            if len(together) > len(classes):
                moments.spread(np.searchsorted(together, classes), len(together))
                classes = together
            moments.add(X, np.searchsorted(classes, new)[codes])
        if moments is None or classes is None:
            raise ValueError("there are no blocks: pass at least one pair of frames and labels")
        self._solve(moments, classes, None)
        return self

    def _solve(
        self,
        moments: Moments,
        classes: NDArray,
        frames: tuple[NDArray, Codes] | None,
        loop: Mapping[str, Any] | None = None,
    ) -> None:
        params = {name: getattr(self, name) for name in ("n_components", "center", "method")}
        record = ms.get_model(self.model)
        prepared = record.entry(moments if frames is None else frames, empty=True, **params)
        self.moments_, self.classes_, self.class_count_ = moments, classes, moments.counts.copy()
        known = prepared.model
        V, mu = known.V, known.centroids
        if V.shape[1]:  # else there is nothing to choose
            problem = record.problem(prepared)
            data, run = (moments.counts, moments.sums), {"init": self.init, "solver": self.solver or "", **(loop or {})}
            V, mu = self._solved(problem, *data, **run).x
        self.components_ = np.ascontiguousarray(V.T)
        self.center_, self.cluster_centers_, self.singular_values_ = known.origin, np.asarray(mu), known.s
        self.scatter_ = known.total
        # tr S_w and what the other directions would gain: tr S_0 would lose its digits to a distant center
        self.energy_ = moments.within + float(np.square(known.s[len(self.components_) :]).sum())

    def _why_nothing(self) -> str:
        if len(self.classes_) == 1:
            return "there is only one class: pass at least two classes, or another center"
        if self.scatter_ == 0:
            return "all frames are equal: pass frames that differ"
        return "the class means are equal up to rounding, so no direction separates the classes: check the labels"


def _union(classes: NDArray, new: NDArray) -> NDArray:
    kinds = {classes.dtype.kind, new.dtype.kind}
    try:
        if kinds & set("US") and kinds & set("biuf"):
            raise TypeError("NumPy would convert the numbers to text")
        return np.union1d(classes, new)
    except TypeError:
        raise ValueError(
            f"the labels {new[:3]} cannot be sorted together with the earlier classes: use labels of one type"
        ) from None
