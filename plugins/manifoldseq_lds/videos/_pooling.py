"""One vector from the blocks of a video or the windows of a sequence: bags of systems and pyramid pooling."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    SequencesLike,
    check_channel_names,
    check_optional,
    check_parameters,
    check_whole,
    keep_channel_names,
    quoted,
    uninterrupted,
)

from ..clustering._kmeans import LDSKMeans
from ..coding._dictionary import LDSDictionaryLearning
from ..identification._identifier import LDSIdentifier
from ..identification._sequence_input import SequenceEstimator, whole_sequences
from ..systems._record import Systems
from ._blocks import Blocks, cut_sequence

Array = NDArray[np.floating[Any]]

_LEAST_WINDOW = 2
"""Minimum number of time steps for the identification of a system."""
_RULES: dict[str, Any] = dict.fromkeys(("window", "stride", "max_blocks"), (check_optional, check_whole))
_LEARNED = (
    "systems_",
    "atoms_",
    "objective_",
    "mean_kernel_value_",
    "choice_",
    "moment_weights_",
    "scale_",
    "n_features_in_",
    "provenance_",
)
"""The objects that blocks are compared with, and the settings of their identification and comparison."""


class BagOfSystems(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):
    """Describe a video or sequence by the histogram of the nearest codewords of its blocks.

    Blocks are identified as systems; the codewords are the centres of `LDSKMeans`. The method is due to Ravichandran et
    al. (2013); Huang et al. combine it with a support vector machine on chi-square distances of the histograms ("BoS").

    Parameters
    ----------
    n_clusters : int
        Number of codewords.
    window : int or None
        Length of the blocks of sequences, in time steps. The default is half the length of the shortest sequence of
        `fit`, at least 2. It is not used for `Blocks`.
    stride : int or None
        Distance between the starts of the blocks of a sequence, in time steps; by default half the window.
    n_states, identifier
        As in `LDSKMeans`, for the blocks.
    kernel, moments, bound, mean, n_init, max_iter, tol, n_jobs, verbose
        See `LDSKMeans`.
    max_blocks : int or None
        Maximum number of random blocks per video from which codewords are learned; None uses all blocks.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    systems_ : Systems
        The codewords.
    window_, stride_ : int
    choice_ : manifoldseq.models.Choice
        The choice of settings for ``n_states="auto"``, from the blocks; absent if the number was given.
    moment_weights_ : ndarray of shape (2 d,)
        Weights of the `MomentKernel`; absent if only dynamics are compared.
    n_features_in_ : int
        Channels of the sequences, or pixels of a block.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel, or of each pixel.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> bags = BagOfSystems(2, n_states=2, window=20, random_state=0).fit_transform(X)
    >>> bags.shape, bags.sum(axis=1).tolist()[:2]
    ((10, 2), [1.0, 1.0])
    """

    stored_types = LDSKMeans.stored_types

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        window: int | None = None,
        stride: int | None = None,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        moments: str = "auto",
        bound: float = 0.99,
        mean: Any = "exact",
        n_init: int = 1,
        max_iter: int = 20,
        tol: float = 1e-4,
        max_blocks: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.window = window
        self.stride = stride
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.moments = moments
        self.bound = bound
        self.mean = mean
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_blocks = max_blocks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: SequencesLike | Sequence[Blocks],
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn the codewords.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or list of Blocks
        y : ignored
        observers, checkpoint, resume
            As in `LDSKMeans.fit`.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        check_whole("n_clusters", self.n_clusters)  # k-means takes "auto" too
        codebook = self._codebook()
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        window, stride, bags, filler = _bags(self, X, **loop)
        sequences, groups = _flat(bags)
        learned = [sequences[i] for i in _sample(self, groups)]
        uninterrupted(codebook.fit(learned, **loop))
        self.window_, self.stride_, self.filler_ = window, stride, filler
        _hand_over(codebook, self)
        keep_channel_names(self, X)
        return self

    def transform(self, X: SequencesLike | Sequence[Blocks]) -> Array:
        """Return the histograms of videos or sequences.

        Returns
        -------
        ndarray of shape (N, n_clusters)
            Fractions of the blocks, which sum to one.
        """
        check_is_fitted(self, "window_")
        bags = _new_bags(self, X)
        codebook = _hand_over(self, self._codebook())
        sequences, groups = _flat(bags)
        counts = np.zeros((len(bags), self.n_clusters))
        np.add.at(counts, (groups, codebook.predict(sequences)), 1.0)
        return counts / counts.sum(axis=1, keepdims=True)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters

    def _codebook(self) -> LDSKMeans:
        own = {"window", "stride", "max_blocks"}
        return LDSKMeans(**{name: value for name, value in self.get_params(deep=False).items() if name not in own})


class PyramidPooling(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):
    """Describe a video or sequence by the largest sparse codes of its blocks in the cells of a pyramid.

    Blocks are identified as systems and coded over a dictionary that `LDSDictionaryLearning` learns. Level l of the
    pyramid divides a video into l parts along time, rows and columns (a sequence along time). The features of a cell
    are the largest moduli of each code over its blocks, or zero for a cell without blocks, and the whole vector is
    scaled to norm one. This is the spatio-temporal pyramid matching ("STPM") of Huang et al., after Yang et al. (2009),
    which is combined with a linear support vector machine.

    Parameters
    ----------
    n_atoms : int
        Number of atoms of the dictionary.
    levels : sequence of int
        Number of divisions of each level.
    window, stride, max_blocks
        As in `BagOfSystems`.
    n_states, identifier
        As in `LDSDictionaryLearning`, for the blocks.
    kernel, bound, alpha, method, step_size, halve_every, inner_iter, batch_size
        See `LDSDictionaryLearning`. The groups of a `batch_size` such as (20, 4) are the videos.
    init, n_init, max_iter, tol, n_jobs, verbose
        See `LDSDictionaryLearning`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    systems_ : Systems
        The atoms. A registered family also has ``atoms_``, see `LDSDictionaryLearning`.
    objective_ : float
        The objective (9) of the training blocks.
    provenance_ : dict of str to str
        See `LDSDictionaryLearning`.
    window_, stride_ : int
    cells_ : int
        Number of cells of all levels.
    choice_ : manifoldseq.models.Choice
        The choice of settings for ``n_states="auto"``, from the blocks; absent if the number was given.
    n_features_in_ : int
        Channels of the sequences, or pixels of a block.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    scale_ : ndarray of shape (d,)
        The divisor of each channel, or of each pixel.

    Examples
    --------
    >>> import numpy as np
    >>> rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2] * 5 + [0.9] * 5]
    >>> PyramidPooling(4, n_states=2, window=20, max_iter=3, random_state=0).fit_transform(X).shape
    (10, 12)
    """

    stored_types = LDSDictionaryLearning.stored_types

    def __init__(
        self,
        n_atoms: int = 16,
        *,
        levels: Sequence[int] = (1, 2),
        window: int | None = None,
        stride: int | None = None,
        n_states: int | str = "auto",
        identifier: LDSIdentifier | None = None,
        kernel: Any = "projection",
        bound: float = 0.99,
        alpha: float = 0.1,
        method: Any = "lbfgs",
        step_size: Sequence[float] = (0.1, 0.1, 1.0),
        halve_every: int | None = 10,
        inner_iter: int = 1,
        batch_size: Any = None,
        init: str | Systems = "random",
        n_init: int = 1,
        max_iter: int = 20,
        tol: float = 1e-4,
        max_blocks: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.levels = levels
        self.window = window
        self.stride = stride
        self.n_states = n_states
        self.identifier = identifier
        self.kernel = kernel
        self.bound = bound
        self.alpha = alpha
        self.method = method
        self.step_size = step_size
        self.halve_every = halve_every
        self.inner_iter = inner_iter
        self.batch_size = batch_size
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_blocks = max_blocks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: SequencesLike | Sequence[Blocks],
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn the dictionary.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d), or list of Blocks
        y : ignored
        observers, checkpoint, resume
            As in `LDSDictionaryLearning.fit`.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The checkpoint, if any, contains the results so far.
        """
        levels = _levels(self.levels)
        dictionary = self._dictionary()
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        window, stride, bags, filler = _bags(self, X, **loop)
        sequences, groups = _flat(bags)
        rows = _sample(self, groups)
        uninterrupted(dictionary.fit([sequences[i] for i in rows], groups=groups[rows], **loop))
        self.window_, self.stride_, self.filler_ = window, stride, filler
        self.cells_ = sum(level ** bags[0].positions.shape[1] for level in levels)
        _hand_over(dictionary, self)
        keep_channel_names(self, X)
        return self

    def transform(self, X: SequencesLike | Sequence[Blocks]) -> Array:
        """Return the pooled codes of videos or sequences.

        Returns
        -------
        ndarray of shape (N, n_atoms * cells)
            Features ordered by levels, then by cells along time, rows and columns. Rows have norm one, or zero if all
            codes are zero.
        """
        check_is_fitted(self, "window_")
        bags = _new_bags(self, X)
        sequences, groups = _flat(bags)
        codes = np.abs(np.asarray(_hand_over(self, self._dictionary()).transform(sequences)))
        positions = np.concatenate([bag.positions for bag in bags])
        parts = []
        for level in _levels(self.levels):
            # cells of a grid of level × level (× level) by the positions of the blocks in [0, 1]; in each cell the
            # largest code of every atom
            places = np.minimum((positions * level).astype(int), level - 1)
            cells = np.ravel_multi_index(tuple(places.T), (level,) * places.shape[1])
            pooled = np.zeros((len(bags), level ** places.shape[1], self.n_atoms))
            np.maximum.at(pooled, (groups, cells), codes)
            parts.append(pooled.reshape(len(bags), -1))
        features = np.concatenate(parts, axis=1)
        norms = np.linalg.norm(features, axis=1, keepdims=True)
        return features / np.where(norms > 0, norms, 1.0)

    @property
    def _n_features_out(self) -> int:
        return self.n_atoms * self.cells_

    def _dictionary(self) -> LDSDictionaryLearning:
        own = {"levels", "window", "stride", "max_blocks"}
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in own}
        return LDSDictionaryLearning(**settings)


def _hand_over(giver: Any, taker: Any) -> Any:
    """Copy the fitted attributes of one estimator to another, and return it."""
    for name in _LEARNED:
        taker.__dict__.pop(name, None)
        if name in vars(giver):
            setattr(taker, name, getattr(giver, name))
    return taker


def _bags(
    estimator: Any, X: Any, *, checkpoint: Any, resume: bool, **_: Any
) -> tuple[int, int, list[Blocks], LDSIdentifier | None]:
    """Return the window and stride, the blocks of each sequence, and the object that filled missing values."""
    check_parameters(estimator, _RULES)
    if (bags := _given(X)) is not None:
        return 0, 0, bags, None
    store = ms.storage.Checkpoint.at(checkpoint)
    loop: dict[str, Any] = {"checkpoint": store and store.child("filled"), "resume": resume}
    sequences, filler = whole_sequences(estimator, X, min_length=_LEAST_WINDOW, needed_by="a block", **loop)
    shortest = min(map(len, sequences))
    window = estimator.window or max(shortest // 2, _LEAST_WINDOW)
    stride = estimator.stride or max(window // 2, 1)
    return window, stride, _cut_all(sequences, window, stride), filler


def _new_bags(estimator: Any, X: Any) -> list[Blocks]:
    name = type(estimator).__name__
    if (bags := _given(X)) is None:
        if not estimator.window_:
            raise ValueError(f"this {name} was fitted on Blocks: pass Blocks, or fit it on sequences")
        check_channel_names(estimator, X)
        sequences, _ = whole_sequences(estimator, X, getattr(estimator, "filler_", None))
        bags = _cut_all(sequences, estimator.window_, estimator.stride_)
    elif estimator.window_:
        raise ValueError(f"this {name} was fitted on sequences: pass sequences, or fit it on Blocks")
    channels = bags[0].sequences.shape[2]
    if channels != estimator.n_features_in_:
        raise ValueError(
            f"X has {channels} channels but this {name} was fitted on {estimator.n_features_in_}: "
            f"pass the same channels as in fit"
        )
    return bags


def _given(X: Any) -> list[Blocks] | None:
    """Return X if it is a list of blocks, and None if it contains sequences."""
    if not isinstance(X, Sequence) or isinstance(X, str) or not any(isinstance(bag, Blocks) for bag in X):
        return None
    sizes = [bag.sequences.shape[2] if isinstance(bag, Blocks) and len(bag) else None for bag in X]
    for i, size in enumerate(sizes):
        if size is None:
            raise ValueError(
                f"item {i} has no blocks, but another item is of type Blocks: pass nonempty Blocks for all items, or "
                "for no item"
            )
        if size != sizes[0]:
            raise ValueError(
                f"the blocks of item {i} have {size} pixels, but the blocks of item 0 have {sizes[0]}: cut all videos "
                "in the same way"
            )
    return list(X)


def _cut_all(sequences: Sequence[Array], window: int, stride: int) -> list[Blocks]:
    for i, sequence in enumerate(sequences):
        if len(sequence) < window:
            raise ValueError(
                f"sequence {i} has {len(sequence)} time steps but a block has window={window}: lower window"
            )
    return [cut_sequence(sequence, window, stride) for sequence in sequences]


def _flat(bags: list[Blocks]) -> tuple[list[Array], NDArray[np.intp]]:
    """Return all blocks, and the number of the video of each."""
    sequences = [sequence for bag in bags for sequence in bag.sequences]
    return sequences, np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])


def _sample(estimator: Any, groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows of the blocks to learn from: at most `max_blocks` of each video."""
    if estimator.max_blocks is None:
        return np.arange(len(groups))
    seed = estimator.random_state if isinstance(estimator.random_state, Integral) else 0
    rng = np.random.default_rng([int(seed), 1])
    order = rng.permutation(len(groups))
    rank = np.empty(len(groups), dtype=np.intp)
    for group in np.unique(groups):
        members = order[groups[order] == group]
        rank[members] = np.arange(len(members))
    return np.flatnonzero(rank < estimator.max_blocks)


def _levels(levels: Any) -> tuple[int, ...]:
    parts = tuple(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else ()
    if not parts or not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in parts):
        raise ValueError(f"levels={quoted(levels)} is not valid: pass whole numbers of divisions, such as (1, 2)")
    return tuple(int(n) for n in parts)
