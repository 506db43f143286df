"""The parameters of a mixture of probabilistic canonical correlation analysers, as one record of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating[Any]]

COVARIANCE_TYPES = ("diag", "full")
"""Types of the noise of the printed mixture."""

_ROUNDING = 1e-8
"""Tolerance for the sum of the weights and for the symmetry of covariances."""


@dataclass(frozen=True, eq=False, init=False)
class Mixture:
    """K probabilistic canonical correlation analysers of V views, with their weights.

    Component k models a sample v of concatenated views as ``v = loadings[k] @ z + means[k] + e``, (7), (8). The latent
    vector ``z ~ N(0, I)`` is shared by the views, and the noise e is independent between views: ``e ~ N(0,
    noise[0][k])`` for the first view and so on. Arrays are copied and read-only.

    Parameters
    ----------
    weights : array-like of shape (K,)
        Positive weights with the sum one (28).
    means : array-like of shape (K, D)
        Means of the D columns of all views, in the order of the views.
    loadings : array-like of shape (K, D, d)
        Loadings. With private latent dimensions the shape is (K, D, d + q_0 + q_1 + …): the shared columns are followed
        by the private columns of each view, which are zero in the rows of the other views.
    noise : sequence of array-like, one per view
        Variances of diagonal noise, of shape (K, d_v), or covariances of full noise, of shape (K, d_v, d_v).
    private : sequence of int, optional
        The number q_v of private latent dimensions of each view, by default none. The noise of a view is then ``V V' +
        diag(noise)`` with its private loadings V. Private dimensions require diagonal noise.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite, a weight is negative, or a noise is not a covariance.

    Examples
    --------
    >>> Mixture([1.0], [[0.0, 0.0, 1.0]], [[[1.0], [0.5], [2.0]]], noise=[[[1.0, 1.0]], [[0.1]]])
    Mixture(K=1, views=(2, 1), d=1, diag)
    """

    weights: Array
    means: Array
    loadings: Array
    noise: tuple[Array, ...]
    private: tuple[int, ...]

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        loadings: ArrayLike,
        noise: Sequence[ArrayLike],
        private: Sequence[int] = (),
    ) -> None:
        if not isinstance(noise, Sequence | np.ndarray):
            raise ValueError(f"noise is of type {type(noise).__name__}: pass a list of one array per view")
        parts = tuple(_real(f"noise of view {v}", part) for v, part in enumerate(noise))
        sizes = tuple(int(q) for q in private)
        self._set(_real("weights", weights), _real("means", means), _real("loadings", loadings), parts, sizes)
        self._check_shapes()
        if not (self.weights >= 0).all() or abs(self.weights.sum() - 1) > _ROUNDING:
            raise ValueError(
                f"weights have the sum {self.weights.sum():.6g}: pass non-negative numbers with the sum one"
            )
        for v, part in enumerate(self.noise):
            if self.full and not _symmetric(part):
                raise ValueError(f"the noise of view {v} is not symmetric: pass covariance matrices")
            if not _positive(part):
                raise ValueError(f"the noise of view {v} is not positive: raise its variances")

    @classmethod
    def trusted(
        cls, weights: Array, means: Array, loadings: Array, noise: Sequence[Array], private: tuple[int, ...] = ()
    ) -> Self:
        """Return a record of float64 arrays that are known to be valid; they are not copied, and become read-only."""
        made = object.__new__(cls)
        made._set(weights, means, loadings, tuple(noise), private)
        return made

    @classmethod
    def from_point(cls, point: Any, private: tuple[int, ...] = ()) -> Self:
        """Return the record of a point ``(weights, means, loadings, (noise of view 0, …))``.

        Examples
        --------
        >>> Mixture.from_point(Mixture([1.0], [[0.0]], [[[1.0]]], noise=[[[1.0]]]).point)
        Mixture(K=1, views=(1,), d=1, diag)
        """
        weights, means, loadings = (np.asarray(part, np.float64) for part in point[:3])
        return cls.trusted(weights, means, loadings, _floats(point[3]), private)

    @property
    def point(self) -> tuple[Any, ...]:
        """The arrays as a point of the manifold of the model ``mpcca``."""
        return self.weights, self.means, self.loadings, self.noise

    @property
    def n_components(self) -> int:
        """The number K of components."""
        return len(self.weights)

    @property
    def n_latent(self) -> int:
        """The dimension d of the latent vector that views share."""
        return self.loadings.shape[2] - sum(self.private)

    @property
    def shared(self) -> Array:
        """The loadings of the shared latent vector, (K, D, d)."""
        return self.loadings[:, :, : self.n_latent]

    @property
    def views(self) -> tuple[int, ...]:
        """The number of columns of each view."""
        return tuple(part.shape[1] for part in self.noise)

    @property
    def full(self) -> bool:
        """Whether the noise within a view is correlated."""
        return self.noise[0].ndim == 3

    @property
    def variances(self) -> Array:
        """The variances of the noise, (K, D)."""
        parts = [np.diagonal(part, axis1=1, axis2=2) for part in self.noise] if self.full else self.noise
        return np.concatenate(parts, axis=1)

    @property
    def n_parameters(self) -> int:
        """The number of free parameters, without rotations of the latent vectors."""
        (K, D), d = self.means.shape, self.n_latent
        noise = sum(size * (size + 1) // 2 for size in self.views) if self.full else D
        noise += sum(n * q - q * (q - 1) // 2 for n, q in zip(self.views, self.private, strict=False))
        return K - 1 + K * (D + D * d - d * (d - 1) // 2 + noise)

    def canonical(self) -> Self:
        """Return the same distribution with latent axes that are uncorrelated given a sample.

        Axes are in descending order of information, and the largest loading of each axis is positive, so that the
        rotation of the latent vector, which data do not determine, is the same in every run.
        """
        # W' Psi^-1 W, (K, d, d), is the information of a sample on z: its eigenvectors are the latent axes
        information = np.zeros((self.n_components, self.loadings.shape[2], self.loadings.shape[2]))
        for v, Psi in enumerate(self.noise):
            W = self.loadings[:, self.columns(v)]
            information += W.mT @ (np.linalg.solve(Psi, W) if self.full else W / Psi[:, :, None])
        d, W = self.n_latent, self.loadings.copy()
        of_shared = information[:, :d, :d]
        if self.private:
            # with U, what is not shared, summed over: J_zz - J_zu (I + J_uu)^-1 J_uz; each view has axes of its own
            rest = information[:, d:, d:] + np.eye(sum(self.private))
            of_shared = of_shared - information[:, :d, d:] @ np.linalg.solve(rest, information[:, d:, :d])
        W[:, :, :d] = self.shared @ np.linalg.eigh(of_shared)[1][:, :, ::-1]
        for v in range(len(self.private)):
            own = self.latent_columns(v)[d:]
            axes = np.linalg.eigh(information[:, own[:, None], own])[1][:, :, ::-1]
            W[:, :, own] = self.loadings[:, :, own] @ axes
        if W.size:
            largest = np.take_along_axis(W, np.abs(W).argmax(axis=1, keepdims=True), axis=1)
            W = W * np.where(largest < 0, -1.0, 1.0)
        return self.trusted(self.weights, self.means, W, self.noise, self.private)

    def columns(self, v: int) -> slice:
        """Return the slice of view v in the D columns."""
        views = self.views
        start = sum(views[:v])
        return slice(start, start + views[v])

    def latent_columns(self, v: int) -> NDArray[np.intp]:
        """Return the columns of the loadings of view v: shared latent dimensions, then its private dimensions."""
        d = self.n_latent
        start = d + sum(self.private[:v])
        own = self.private[v] if self.private else 0
        return np.concatenate([np.arange(d), np.arange(start, start + own)])

    @property
    def structure(self) -> list[tuple[slice, NDArray[np.intp]]]:
        """Mask of the structural nonzeros of the loadings: private latent dimensions belong to one view only."""
        if not self.private:
            return [(slice(0, self.loadings.shape[1]), np.arange(self.n_latent))]
        return [(self.columns(v), self.latent_columns(v)) for v in range(len(self.private))]

    def observed(self, columns: NDArray[np.bool_]) -> Self:
        """Return the marginal mixture of some of the columns; views without any of these columns are left out.

        Private latent dimensions of these views stay with loadings of zero, so that latent vectors keep their
        positions.

        Examples
        --------
        >>> both = Mixture([1.0], [[0.0, 0.0, 1.0]], [[[1.0], [0.5], [2.0]]], noise=[[[1.0, 1.0]], [[0.1]]])
        >>> both.observed(np.array([True, True, False]))
        Mixture(K=1, views=(2,), d=1, diag)
        """
        noise = []
        for v, part in enumerate(self.noise):
            kept = np.flatnonzero(columns[self.columns(v)])
            if len(kept):
                noise.append(part[:, kept[:, None], kept] if self.full else part[:, kept])
        return self.trusted(self.weights, self.means[:, columns], self.loadings[:, columns], noise, self.private)

    def __repr__(self) -> str:
        kind = "full" if self.full else f"private={self.private}" if self.private else "diag"
        return f"Mixture(K={self.n_components}, views={self.views}, d={self.n_latent}, {kind})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)  # copies are read-only too

    def _set(
        self,
        weights: Array,
        means: Array,
        loadings: Array,
        noise: tuple[Array, ...],
        private: tuple[int, ...] = (),
    ) -> None:
        for part in (weights, means, loadings, *noise):
            part.flags.writeable = False
        for name, value in (("weights", weights), ("means", means), ("loadings", loadings), ("noise", tuple(noise))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "private", tuple(private))

    def _check_shapes(self) -> None:
        K = self.weights.size
        if self.weights.ndim != 1 or K == 0:
            raise ValueError(f"weights have shape {self.weights.shape}: pass (K,) with at least one component")
        if not self.noise or any(part.ndim not in (2, 3) or part.ndim != self.noise[0].ndim for part in self.noise):
            raise ValueError("noise is not valid: pass one array per view, all (K, d_v) or all (K, d_v, d_v)")
        for v, part in enumerate(self.noise):
            if part.shape != (K, part.shape[1], part.shape[1])[: part.ndim] or part.size == 0:
                raise ValueError(f"the noise of view {v} has shape {part.shape}: pass (K, d_v) or (K, d_v, d_v), K={K}")
        D = sum(self.views)
        if self.means.shape != (K, D):
            raise ValueError(f"means have shape {self.means.shape}: pass (K, D) = {(K, D)}, which fits the noise")
        if self.loadings.ndim != 3 or self.loadings.shape[:2] != (K, D):
            raise ValueError(f"loadings have shape {self.loadings.shape}: pass (K, D, d) with K, D = {K}, {D}")
        if self.private:
            if len(self.private) != len(self.noise) or min(self.private) < 0 or self.full or self.n_latent < 0:
                raise ValueError(
                    f"private={self.private} does not fit {len(self.noise)} views with loadings of shape "
                    f"{self.loadings.shape}: pass one number for each view, and diagonal noise"
                )
            for v in range(len(self.noise)):
                others = self.loadings[:, self.columns(v)].copy()
                others[:, :, self.latent_columns(v)] = 0
                if others.any():
                    raise ValueError(
                        f"view {v} has nonzero loadings of the private latent dimensions of other views: set them to 0"
                    )


def mixture_of(model: Any) -> Mixture:
    """Return the mixture itself, or the mixture of a fitted estimator."""
    mixture = getattr(model, "mixture_", model)
    if not isinstance(mixture, Mixture):
        raise TypeError(f"{type(model).__name__} is not a mixture: pass a Mixture or a fitted estimator")
    return mixture


def _symmetric(noise: Array) -> bool:
    """Return whether covariances (K, n, n) are symmetric up to rounding."""
    size = np.sqrt(np.abs(np.diagonal(noise, axis1=1, axis2=2)))
    return bool((np.abs(noise - noise.mT) <= _ROUNDING * size[:, :, None] * size[:, None, :]).all())


def _positive(noise: Array) -> bool:
    """Return whether all variances are positive, or all covariances positive definite, in any units of columns."""
    if noise.ndim == 2:
        return bool((noise > 0).all())
    try:
        np.linalg.cholesky(noise)
    except np.linalg.LinAlgError:
        return False
    return True


def _real(name: str, value: ArrayLike) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths: pass an array") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}: pass real numbers")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains a value that is not finite: repair it")
    return np.array(array, dtype=np.float64, order="C")


def _floats(parts: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(part, np.float64) for part in parts)


def check_fits(sizes: tuple[int, ...], N: int, n_components: int, n_latent: int) -> None:
    """Raise ValueError for a mixture that is too large for views of these sizes and N rows."""
    if len(sizes) < 2 and n_latent:  # without a latent vector it is a mixture of Gaussians
        raise ValueError(
            "one view was passed: pass at least two views, as (X, Y) or as a list [X, Y], or set n_latent=0"
        )
    if n_components > N:
        raise ValueError(f"n_components={n_components} exceeds the {N} rows of the data: lower n_components")
    if n_latent > min(sizes):
        v = sizes.index(min(sizes))
        raise ValueError(f"n_latent={n_latent} exceeds the {min(sizes)} columns of view {v}: lower n_latent")
