"""Responses of the units of a fitted model to patches, as matrix products before the threshold."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans

from manifoldseq.estimators import quoted

from ..families._family import Array
from ..mixtures._projected import ProjectedMixture
from ..mixtures._spherical_kmeans import SphericalKMeans
from ._patches import centred

KMEANS = ("triangle", "distance")
OWN, OTHERS = (ProjectedMixture, SphericalKMeans), (KMeans, MiniBatchKMeans)
"""Models that have responses."""

Statistics = Callable[[Array], Array]
Finish = Callable[[Array], None]


@dataclass(frozen=True)
class Responses:
    """Responses ``t(z) W' + b`` of K units to patches x, with ``z = (U x - c) / length``.

    Attributes
    ----------
    U : ndarray of shape (M, D) or None
        None takes x as it is.
    c : ndarray of shape (M, 1) or None
    unit : {"x", "z", None}
        The vector that is scaled to unit length.
    statistics : callable
        t(z), (n, M) -> (n, F).
    W : ndarray of shape (K, F)
    b : ndarray of shape (K,)
    finish : callable, optional
        Turns products into responses, (n, K), in place.
    """

    U: Array | None
    c: Array | None
    unit: str | None
    statistics: Statistics
    W: Array
    b: Array
    finish: Finish | None = None

    def inputs(self, x: Array) -> Array:
        """Return t(z) with a row of ones, (F + 1, n), of patches, (D, n), that are not constant; x is overwritten.

        Patches are normalized to mean zero and standard deviation one, and x is scaled to unit length if `unit` says
        so. Scalings that cancel are omitted, and operations are applied to z rather than to x where possible, because x
        has more rows.
        """
        # z = U (x - mean) / deviation is brought to unit length: the deviation cancels, and the mean moves into U, (M,
        # D)
        if self.unit == "z" and self.c is None and self.U is not None:
            z = (self.U - self.U.mean(axis=1, keepdims=True)) @ x
        else:
            deviation = centred(x)
            deviation *= np.sqrt(len(x)) if self.unit == "x" else 1.0  # |x|
            z = x if self.U is None else self.U @ x
            z *= 1 / deviation
        if self.c is not None:
            z -= self.c
        if self.unit == "z":
            z *= 1 / np.maximum(np.sqrt(np.einsum("mn,mn->n", z, z)), np.finfo(z.dtype).tiny)
        t = self.statistics(z.T).T
        return np.concatenate([t, np.ones((1, t.shape[1]), t.dtype)])

    @property
    def linear(self) -> bool:
        """Whether responses are ``W z + b``, that is, t(z) = z and products are not changed."""
        probe = np.linspace(0.5, 2.0, self.W.shape[1])[None]
        return self.finish is None and np.array_equal(self.statistics(probe), probe)

    def astype(self, dtype: Any) -> "Responses":
        """Return the responses in another dtype."""
        parts = {name: getattr(self, name) for name in ("U", "c", "W", "b")}
        return replace(self, **{name: None if part is None else part.astype(dtype) for name, part in parts.items()})

    def factor(self, threshold: float = 0.0) -> Array:
        """Return the factor of inputs, (F + 1, K); it subtracts the threshold if products are responses."""
        b = self.b if self.finish is not None else self.b - self.b.dtype.type(threshold)
        return np.ascontiguousarray(np.concatenate([self.W, b[:, None]], axis=1).T)


def responses_of(model: Any, D: int, weights: bool, kmeans: str) -> Responses:
    """Return the responses of a fitted model to patches of D pixels.

    `weights` keeps ln pi_k in phi (37); `kmeans` selects the response of k-means.
    """
    if isinstance(model, ProjectedMixture):
        return _of_mixture(model, D, weights)
    if isinstance(model, SphericalKMeans):
        centres = model.cluster_centers_
        return Responses(None, None, "x", _same, centres, np.zeros(len(centres)))
    centres = np.asarray(model.cluster_centers_, dtype=np.float64)
    # |x - c|² = |x|² - 2 x'c + |c|²: coefficients of [x, |x|²], (K, D + 1)
    W = np.concatenate([-2 * centres, np.ones((len(centres), 1))], axis=1)
    finish = _nearness if kmeans == "triangle" else _distance
    return Responses(None, None, None, _with_square, W, np.einsum("kd,kd->k", centres, centres), finish)


def check_model(model: Any) -> None:
    """Raise ValueError for a model without responses."""
    if not isinstance(model, OWN + OTHERS):
        raise ValueError(
            f"model={quoted(model)} cannot compute features of patches: pass HOPE, PCAMovMF, "
            "VonMisesFisherMixture, SphericalKMeans, or KMeans or MiniBatchKMeans of scikit-learn"
        )


def _of_mixture(estimator: ProjectedMixture, D: int, weights: bool) -> Responses:
    model = estimator._model()
    M = model.M
    W, b = model.family.natural(model.parameters, M)
    if weights:
        with np.errstate(divide="ignore"):
            b = np.maximum(b + np.log(model.weights), -1e30)
    c = None if estimator.mean_ is None else (model.U @ estimator.mean_)[:, None]
    unit = "z" if model.normalize_z else "x" if estimator._unit else None
    projected = len(model.U) and not (M == D and np.array_equal(model.U, np.eye(D)))
    return Responses(model.U if projected else None, c, unit, model.family.statistics, W, b)


def empty_units(model: Any, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which units are empty: mixture weights below a thousandth of an equal share, clusters without a row."""
    if isinstance(model, ProjectedMixture):
        return model.weights_ < 1e-3 / len(model.weights_)
    return np.bincount(labels, minlength=len(model.cluster_centers_)) == 0


def _same(Z: Array) -> Array:
    return Z


def _with_square(Z: Array) -> Array:
    return np.concatenate([Z, np.einsum("nd,nd->n", Z, Z)[:, None]], axis=1)


def _distance(found: Array) -> None:
    np.maximum(found, 0, out=found)
    np.sqrt(found, out=found)


def _nearness(found: Array) -> None:
    """Convert squared distances to the mean distance of all units minus the distance of a unit."""
    _distance(found)
    np.subtract(found.mean(axis=1, keepdims=True), found, out=found)
