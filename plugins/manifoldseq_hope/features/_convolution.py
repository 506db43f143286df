"""Features of images: responses of a model to all patches, pruned and summed over the cells of a grid (6.1.1)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import isqrt, prod
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_positive,
    check_real,
    check_whole,
    quoted,
    random_generator,
    validate_rows,
)
from manifoldseq.execution import map_ordered, one_blas_thread, width

from ..families._family import Array
from ..mixtures._hope import HOPE
from ..mixtures._spherical_kmeans import SphericalKMeans
from ..mixtures._without_hope import PCAMovMF, VonMisesFisherMixture
from ._patches import Patches, read, sizes_of
from ._responses import KMEANS, OWN, Responses, check_model, empty_units, responses_of

_ENTRIES = 44_000
"""Number of responses of a block, small enough for the cache while they are rectified and summed."""
_TOGETHER = 512
"""Number of images of a task of `transform`."""
_PATCH, _GRID = 6, 2
_RULES = {
    "model": (check_optional, lambda _, model: check_model(model)),
    "n_patches": check_whole,
    "quantile": (check_number, 0.0, 1.0),
    "power": check_positive,
    "kmeans": (check_choice, KMEANS),
    "overlap": (check_choice, (True, False)),
    "threshold": (check_optional, check_number, -np.inf),
}
_ROWS = 10_000
"""Number of training patches for a quantile."""


class ConvolutionalFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn units from image patches without labels, and describe images by sums of the responses in a few cells.

    Every patch is normalized to mean zero and standard deviation one. The response of every unit of the model to a
    patch is ``eta = max(0, response - threshold)`` (39). The features of an image are the sums of eta over the patches
    of each cell of a grid, raised to a power. A constant patch has no direction: all its features are zero.

    Parameters
    ----------
    model : estimator, optional
        `HOPE`, `PCAMovMF`, `VonMisesFisherMixture` (response: phi, equation 37), `SphericalKMeans` (the cosine), or
        scikit-learn's ``KMeans`` or ``MiniBatchKMeans``. The default is ``HOPE(400, n_latent="auto", kappa=40.0)``,
        with fewer units if there are fewer than ten patches per unit.
    patch_size : int or (int, int), optional
        Height and width of a patch; by default 6, or the size of the images if it is smaller.
    stride : int or (int, int)
        The number of pixels between neighbouring patches.
    image_shape : (int, int) or (int, int, int), optional
        Height, width and (if there are several) the number of channels, for images that are passed as rows of pixels.
        By default, images have one channel and are square, or a single line if the number of pixels is not a square. A
        patch of several channels is normalized as a whole.
    n_patches : int
        The number of patches for the fit of the model. They are drawn at random, and constant patches are drawn again.
    pooling : int or (int, int), optional
        The numbers of cells vertically and horizontally; by default 2 (the quadrants of the paper), or 1 if there is
        only one patch. If the patches cannot be divided equally, the first cells have one patch more: 23 patches become
        12 and 11.
    overlap : bool
        Whether cells overlap, so that each patch contributes to up to four cells. The weight of a patch decreases
        linearly, vertically and horizontally, from one at the centre of a cell to zero at the centres of the
        neighbouring cells. Features then change less if an image is shifted.
    threshold : float, optional
        The threshold epsilon in equation (39), by default the `quantile` of the responses to the patches of the fit.
    quantile : float
        The threshold of a unit is this quantile of its responses to the patches of `fit`.
    power : float
        The exponent of the sums: 0.5 takes square roots, 1 keeps the sums.
    keep_weights : bool
        Whether responses of mixtures contain ln pi_k, as in equation (37).
    kmeans : {"triangle", "distance"}
        The response of k-means: ``"triangle"`` is the mean distance to all centres minus the distance to the centre of
        the unit, and ``"distance"`` is the distance to this centre, as printed in the paper.
    drop_empty : bool
        Whether to remove units without patches (footnote 7): clusters without a nearest patch, and components with a
        weight below 0.001 / K.
    prefit : bool
        Whether the model is already fitted. In this case, `fit` only computes the threshold.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        The random state of the patches, and of a model without its own random state.

    Attributes
    ----------
    model_ : estimator
        The fitted model.
    threshold_ : float
    units_ : ndarray of int
        The K units of the model that yield features.
    image_shape_ : (int, int) or (int, int, int)
    n_features_in_ : int
        Pixels of an image, times channels.

    Notes
    -----
    Images may have an integer dtype, float32, or float64, which takes twice the time. Images are read in parts, so that
    memory-mapped arrays (``numpy.load(mmap_mode="r")``) are never in memory as a whole. With 6 x 6 patches, 28 x 28
    images, M = 20 and K = 400 the responses are matrix products of the projections, (patches x 21) (21 x 400).

    The features of a grid of cells are an image with one channel per unit. A second layer is another
    `ConvolutionalFeatures` with ``image_shape=(down, right, units)`` after the first, in a pipeline.

    References
    ----------
    Zhang, Jiang, sections 5.2 and 6.1.1; Coates, Lee, Ng, AISTATS 2011 (patches, quadrants, ``"triangle"``).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import LinearSVC
    >>> from manifoldseq_hope import HOPE, ConvolutionalFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> features = ConvolutionalFeatures(HOPE(50, n_latent=8, kappa=40.0), patch_size=4, random_state=0).fit(X[:1000])
    >>> eta = features.transform(X)
    >>> eta.shape, LinearSVC(C=0.01).fit(eta[:1000], y[:1000]).score(eta[1000:], y[1000:]) > 0.93
    ((1797, 200), True)
    """

    stored_types = (HOPE, PCAMovMF, VonMisesFisherMixture, SphericalKMeans, KMeans, MiniBatchKMeans)

    def __init__(
        self,
        model: Any = None,
        *,
        patch_size: Any = None,
        stride: Any = 1,
        image_shape: Any = None,
        n_patches: int = 400_000,
        pooling: Any = None,
        overlap: bool = False,
        threshold: float | None = None,
        quantile: float = 0.85,
        power: float = 0.5,
        keep_weights: bool = False,
        kmeans: str = "triangle",
        drop_empty: bool = False,
        prefit: bool = False,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.patch_size = patch_size
        self.stride = stride
        self.image_shape = image_shape
        self.n_patches = n_patches
        self.pooling = pooling
        self.overlap = overlap
        self.threshold = threshold
        self.quantile = quantile
        self.power = power
        self.keep_weights = keep_weights
        self.kmeans = kmeans
        self.drop_empty = drop_empty
        self.prefit = prefit
        self.random_state = random_state

    @one_blas_thread()
    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit the model to patches of images, and compute the threshold.

        Parameters
        ----------
        X : array-like of shape (N, H, W), (N, H, W, channels) or (N, pixels)
        y : ignored
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for the model; not available for models of scikit-learn.

        Raises
        ------
        ValueError
            For an invalid parameter, images smaller than a patch, NaN, constant images, fewer patches than units, or
            images that look like (N, channels, H, W).
        """
        check_parameters(self, _RULES)
        images = self._images(X, reset=True)
        rng, dtype = random_generator(self.random_state), _dtype(images)
        rows = self._patches.drawn(images, self.n_patches, dtype, rng)
        if not len(rows):
            raise ValueError(
                f"every patch of X is constant (n_features={images.shape[1]}): pass images that are not blank"
            )
        self.model_ = self._fitted(rows, rng, {"observers": observers, "checkpoint": checkpoint, "resume": resume})
        responses = self._responses(dtype)
        self.threshold_ = self._threshold(responses, rows)
        self.units_ = np.arange(len(responses.W))
        if self.drop_empty:
            self.units_ = np.flatnonzero(~empty_units(self.model_, self.model_.predict(rows)))
        return self

    @one_blas_thread()
    def transform(self, X: ArrayLike, out: Array | None = None) -> Array:
        """Return the features of images.

        Parameters
        ----------
        X : array-like of shape (N, H, W), (N, H, W, channels) or (N, pixels)
        out : ndarray of shape (N, cells * K), optional
            The array for the result, such as a `numpy.memmap`.

        Returns
        -------
        ndarray of shape (N, cells * K)
            Cell by cell; float64 for float64 images, else float32.
        """
        check_is_fitted(self, "threshold_")
        images = self._images(X, reset=False)
        dtype, shape = _dtype(images), (len(images), self._n_features_out)
        if out is None:
            out = np.empty(shape, dtype)
        elif getattr(out, "shape", None) != shape or out.dtype.kind != "f":
            array = hasattr(out, "dtype")
            found = f"shape {out.shape} and dtype {out.dtype}" if array else f"type {type(out).__name__}"
            raise ValueError(f"out has {found}: pass an array of floats of shape {shape}")
        several, at_once = self._patches.groups()[0], width()
        size = several * max(1, _TOGETHER // several)
        parts = [slice(begin, min(begin + size, len(images))) for begin in range(0, len(images), size)]
        for k in range(0, len(parts), at_once):  # not all at once: `out` may be larger than memory
            some = parts[k : k + at_once]
            tasks = [(images[part], part.start) for part in some]
            for part, features in zip(some, map_ordered(partial(self._features, dtype), tasks), strict=True):
                out[part] = features
        return out

    def _features(self, dtype: Any, task: tuple[Array, int]) -> Array:
        """Return the features of consecutive images, the first of which has the given number."""
        images, first = task
        found = np.empty((len(images), self._n_features_out), dtype)
        for some, pooled in self._sums(images, dtype, first):
            if self.power == 0.5:
                np.sqrt(pooled, out=pooled)
            elif self.power != 1:
                np.power(pooled, self.power, out=pooled)
            found[some] = pooled
        return found

    def _sums(self, images: Array, dtype: Any, first: int) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of images with the sums of eta over the patches of each cell, (n, cells K)."""
        patches, responses, threshold = self._patches, self._responses(dtype), dtype(self.threshold_)
        factor = responses.factor(self.threshold_)
        if responses.finish is None:  # else it has to see all units
            factor = np.ascontiguousarray(factor[:, self.units_])
        C, K, size, most = self._cells, len(self.units_), images[0].size, max(1, _ENTRIES // factor.shape[1])
        zeros = np.zeros((most, K), dtype)

        def rectified(t: Array) -> Array:
            eta = t @ factor
            if responses.finish is not None:
                responses.finish(eta)
                eta = np.subtract(eta[:, self.units_], threshold, order="C")
            # an array of zeros, not the number 0: with that `transform` takes 1.17 times as long
            # (`python -m benchmarks.tricks rectify`)
            return np.maximum(eta, zeros[: len(eta)], out=eta)

        several, parts = patches.groups()
        places = [(np.arange(several)[:, None] * size + patches.corners[part]).ravel() for part in parts]
        shares = patches.shares.astype(dtype)
        for begin in range(0, len(images), several):
            some = slice(begin, min(begin + several, len(images)))
            pixels = read(images, some, dtype, first)
            varied, number = patches.varied(pixels), np.arange(some.stop - begin)
            pooled = np.zeros((len(number) * C, K), dtype)
            for part, place in zip(parts, places, strict=True):
                each = part.stop - part.start
                at = place[: len(number) * each]
                used = np.flatnonzero(varied[at])
                t = responses.inputs(patches.cut(pixels, at[used]))
                if self.overlap:
                    ends = used.searchsorted(np.arange(len(number) + 1) * each)
                    pooled += _shared(rectified, t.T, shares[part][used % each], ends, most, K)
                    continue
                # where the varied patches of each image and cell begin among all that are used
                begins = number[:, None] * each + patches.cells[part].searchsorted(np.arange(C))
                ends = used.searchsorted(np.append(begins, len(at)))
                pooled += _pooled(rectified, t.T, ends, most, K)
            yield some, pooled.reshape(len(number), C * K)

    @property
    def _cells(self) -> int:
        grid = self._sizes[2]
        return grid[0] * grid[1]

    @property
    def _patches(self) -> Patches:
        return Patches.of(self.image_shape_, *self._sizes, self.overlap)

    @property
    def _sizes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Patch, stride and grid, each vertically and horizontally."""
        (H, W, _), stride = sizes_of(self.image_shape_), _pair("stride", self.stride)
        patch = (min(H, _PATCH), min(W, _PATCH)) if self.patch_size is None else _pair("patch_size", self.patch_size)
        if self.pooling is not None:
            return patch, stride, _pair("pooling", self.pooling)
        down, right = ((n - size) // step + 1 for n, size, step in zip((H, W), patch, stride, strict=True))
        return patch, stride, (max(1, min(down, _GRID)), max(1, min(right, _GRID)))

    @property
    def _n_features_out(self) -> int:
        return self._cells * len(self.units_)

    def _images(self, X: Any, reset: bool) -> Array:
        """Return images as rows of pixels; arrays are not copied."""
        X, shape = check_real(X), None
        if isinstance(X, list | tuple):
            sizes = {np.shape(image) for image in X if isinstance(image, np.ndarray)}
            if len(sizes) > 1:
                raise ValueError(
                    f"X has images of shapes {', '.join(map(str, sorted(sizes)))}: resize all images to one shape"
                )
            X = np.asarray(X)
        if isinstance(X, np.ndarray) and X.ndim > 4:
            raise ValueError(
                f"X has shape {X.shape}: pass images of shape (N, H, W), (N, H, W, channels) or (N, pixels)"
            )
        if isinstance(X, np.ndarray) and X.ndim > 2:
            shape = X.shape[1:3] if X.shape[3:] == (1,) else X.shape[1:]
            if reset and self.image_shape is None:
                _check_channels_last(X.shape)
            X = X.reshape(len(X), prod(shape))
        X = validate_rows(self, X, reset=reset, finite=False)
        if reset:
            self.image_shape_ = self._shape(X.shape[1], shape)
            self._check_room()
        elif shape is not None and shape != self.image_shape_:
            raise ValueError(f"X has images of shape {shape}: pass images of shape {self.image_shape_}, as in fit")
        return X

    def _shape(self, size: int, found: tuple[int, ...] | None) -> tuple[int, ...]:
        side = isqrt(size)
        shape = found or ((side, side) if side * side == size else (1, size))
        if self.image_shape is not None:
            if not _whole(self.image_shape, (2, 3)):
                raise ValueError(
                    f"image_shape={quoted(self.image_shape)} is not valid: pass (height, width) or (height, width, "
                    "channels)"
                )
            shape = tuple(int(n) for n in self.image_shape)
            shape = shape[:2] if shape[2:] == (1,) else shape
            if prod(shape) != size or (found is not None and found != shape):
                raise ValueError(
                    f"image_shape={quoted(self.image_shape)} does not fit X, whose images have {found or size} "
                    "pixels: pass the shape of the images in X"
                )
        return shape

    def _check_room(self) -> None:
        (H, W, channels), sizes = sizes_of(self.image_shape_), self._sizes
        h, w = ((n - 1) * step + size for size, step, n in zip(*sizes, strict=True))
        if sizes[0] == (1, 1) != (H, W) and channels == 1:
            raise ValueError(
                f"patch_size={quoted(self.patch_size)} gives patches of one pixel, which are always constant: increase "
                "patch_size"
            )
        if h > H or w > W:
            raise ValueError(
                f"images of {H} x {W} pixels (n_features={H * W}) are smaller than the {h} x {w} pixels that "
                f"patch_size={quoted(self.patch_size)}, stride={quoted(self.stride)} and "
                f"pooling={quoted(self.pooling)} need: lower these parameters, or set image_shape"
            )

    def _fitted(self, rows: Array, rng: np.random.Generator, loop: dict[str, Any]) -> Any:
        if self.prefit:
            if self.model is None:
                raise ValueError("prefit=True needs a fitted model: pass model=...")
            check_is_fitted(self.model)
            if self.model.n_features_in_ != rows.shape[1]:
                raise ValueError(
                    f"the model was fitted to rows of {self.model.n_features_in_} columns, but patches have "
                    f"{rows.shape[1]} pixels: pass another patch_size"
                )
            return self.model
        model: Any = self.model  # an estimator with `fit` and `random_state`
        model = HOPE(min(400, -(-len(rows) // 10)), n_latent="auto", kappa=40.0) if model is None else clone(model)
        if model.random_state is None:
            model.set_params(random_state=int(rng.integers(2**31)))
        return model.fit(rows, **loop) if isinstance(model, OWN) else model.fit(rows)

    def _responses(self, dtype: Any) -> Responses:
        D = self._patches.offsets.size
        return responses_of(self.model_, D, self.keep_weights, self.kmeans).astype(dtype)

    def _threshold(self, responses: Responses, rows: Array) -> float:
        if self.threshold is not None:
            return float(self.threshold)
        some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(np.intp))]
        found = responses.inputs(np.ascontiguousarray(some.T)).T @ responses.factor()
        if responses.finish is not None:
            responses.finish(found)
        return float(np.quantile(found, self.quantile))


def _pooled(rectified: Callable[[Array], Array], t: Array, ends: NDArray[np.intp], most: int, K: int) -> Array:
    """Return the sums of the K responses to patches, (n, F + 1), over cells; cell c begins at ends[c]."""
    # several small cells share one product; cell by cell `transform` takes 1.09 to 1.23 times as long
    # (`python -m benchmarks.tricks pool`)
    pooled, ones, begins = np.empty((len(ends) - 1, K), t.dtype), np.ones(most, t.dtype), ends.tolist()
    together = max(1, most // max(1, int(np.diff(ends).max())))
    for first in range(0, len(pooled), together):
        last = min(first + together, len(pooled))
        start = begins[first]
        eta = rectified(t[start : min(start + most, begins[last])])
        for cell in range(first, last):
            of_cell = eta[begins[cell] - start : begins[cell + 1] - start]
            ones[: len(of_cell)].dot(of_cell, out=pooled[cell])
        for more in range(start + most, begins[last], most):  # of a cell with more patches than a block
            eta = rectified(t[more : min(more + most, begins[last])])
            pooled[first] += ones[: len(eta)].dot(eta)
    return pooled


def _shared(
    rectified: Callable[[Array], Array], t: Array, shares: Array, ends: NDArray[np.intp], most: int, K: int
) -> Array:
    """Return the sums over cells of the K responses to patches, weighted by shares; image i begins at ends[i]."""
    C = shares.shape[1]
    pooled = np.zeros(((len(ends) - 1) * C, K), t.dtype)
    for image, (begin, end) in enumerate(pairwise(ends.tolist())):
        of_image = pooled[image * C : (image + 1) * C]
        for start in range(begin, end, most):
            some = slice(start, min(start + most, end))
            of_image += shares[some].T @ rectified(t[some])
    return pooled


def _check_channels_last(shape: tuple[int, ...]) -> None:
    """Raise ValueError for images whose first axis is one or three channels, as in torch."""
    if len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) > 4:
        raise ValueError(
            f"X has shape {shape}, which looks like (N, channels, H, W), but the last axis must be the channels: pass "
            f"X.transpose(0, 2, 3, 1), or set image_shape={shape[1:]} if the images have {shape[3]} channels"
        )


def _dtype(images: Array) -> Any:
    return np.float64 if images.dtype == np.float64 else np.float32


def _pair(name: str, value: Any) -> tuple[int, int]:
    """Validate two whole numbers above zero."""
    pair = (value, value) if isinstance(value, Integral) else value
    if not _whole(pair, (2,)):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass one or two whole numbers above zero")
    return int(pair[0]), int(pair[1])


def _whole(values: Any, lengths: tuple[int, ...]) -> bool:
    """Return whether there are `n` values, all of them whole numbers above zero."""
    return (
        isinstance(values, Sequence)
        and len(values) in lengths
        and all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) > 0 for n in values)
    )
