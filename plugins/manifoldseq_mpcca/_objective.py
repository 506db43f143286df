"""The likelihood of a mixture of probabilistic canonical correlation analysers, by the parts of the model ``mpcca``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_whole

from ._expectation import Expectation
from ._likelihood_gradient import Units, gradient
from ._maximization import UPDATES, maximize
from ._parameters import COVARIANCE_TYPES, Array, Mixture, check_fits
from ._patterns import by_kind, kinds, observed_views
from ._starts import Start
from ._statistics import Prior, Statistics
from ._views import CheckedViews, Moments, View, check_bounded, check_views, split

Point = tuple[Any, ...]

_COLLAPSED = 2.0
"""A component with fewer rows than this has collapsed, because it determines no variance."""
_SAME = 1e-9
"""Relative difference up to which two values count as the same cost."""
_LEAST_NOISE = 0.05
"""Minimum fraction of the variance that is noise in the start."""
_MOST_ITERATIONS, _TOL = 50, 1e-6
"""Settings of the fit of the pooled mixture."""


@dataclass(frozen=True, eq=False)
class Model:
    """Settings of a likelihood, and properties of the rows that do not depend on a sweep.

    Attributes
    ----------
    n : float
        Sum of the weights of the rows; of all rows until now, if they arrive in batches.
    sizes : tuple of int
        Columns of each view.
    n_components, n_latent : int
    full : bool
    origin, floor : ndarray of shape (D,)
    update : str
        See `maximize`.
    private : tuple of int
        Private latent dimensions of each view; () if the noise is not of low rank.
    shrinkage, diagonal : float
        Parameters of the prior, see `MixturePCCA`.
    patterns : ndarray of shape (P, ceil(D / 8)), optional
        Patterns of missing columns, as bits; see `kinds`.
    data : CheckedViews, optional
        The views, which only starts need.
    constant : ndarray of bool of shape (D,), optional
        Columns that are constant; of the model ``mpcca.shrunk``.
    pooled : ndarray of shape (D, D) or Mixture, optional
        What covariances are shrunk to: the covariance of the prior of the model ``mpcca.shrunk``, or one component.
    known : dict, optional
        The clusterings of `prepare`, by the state of the generator before k-means: its state afterwards, and the labels
        or the mixture of the start.
    """

    n: float
    sizes: tuple[int, ...]
    n_components: int
    n_latent: int
    full: bool
    origin: Array
    floor: Array
    update: str = "joint"
    private: tuple[int, ...] = ()
    shrinkage: float = 0.0
    diagonal: float = 0.0
    patterns: NDArray[np.uint8] | None = None
    data: CheckedViews | None = None
    constant: Any = None
    pooled: Any = None
    known: Any = None

    def mixture(self, point: Point) -> Mixture:
        """Return the mixture at a point."""
        weights, means, loadings, noise = point
        return Mixture.from_point((weights, means, self.structured(loadings), noise), self.private)

    def whole(self, point: Point, sums: Statistics) -> tuple[Mixture, Statistics]:
        """Return the mixture at a point, and the sums plus the rows of the prior (in proportion to the rows)."""
        mixture = self.mixture(point)
        return mixture, sums if self.prior is None else self.prior.added(sums, mixture, sums.n / self.n)

    def structured(self, loadings: Array) -> Array:
        """Return loadings with zeros for views that do not depend on a private latent dimension."""
        return loadings * self._structure if any(self.private) else loadings

    def drawn(self, rng: np.random.Generator) -> Start:
        """Draw the rows for a start."""
        data, sizes = self.data, (self.n_components, self.n_latent, self.full)
        assert data is not None and data.moments is not None  # only a sweep has no data
        return Start.of(data.views, data.moments, *sizes, self.floor, rng, data.weights)

    @cached_property
    def common(self) -> LowRank:
        """The common loadings and noise of the components, from which all starts with low-rank noise begin."""
        if self.pooled is not None:
            return LowRank(self.pooled)
        return LowRank.of(self.drawn(np.random.default_rng(0)), self.private)

    @property
    def shrunk_to(self) -> Any:
        """What covariances are shrunk to, which later batches need; None without a prior."""
        return self.common.pooled if self.private and self.shrinkage else self.pooled

    @cached_property
    def prior(self) -> Prior | None:
        """The prior as rows that shrink covariances, or None."""
        return self.common.prior(self.shrinkage, self.diagonal) if self.shrinkage else None

    @cached_property
    def _structure(self) -> Array:
        d, ends = self.n_latent, np.cumsum([0, *self.sizes])
        found = np.zeros((ends[-1], d + sum(self.private)))
        found[:, :d] = 1.0
        for v, q in enumerate(self.private):
            start = d + sum(self.private[:v])
            found[ends[v] : ends[v + 1], start : start + q] = 1.0
        return found


def prepare(
    data: Any,
    *,
    views: Sequence[int] | None = None,
    n_components: int = 2,
    n_latent: int = 2,
    covariance_type: str = "diag",
    noise_floor: float = 1e-6,
    update: str = "joint",
    n_private: int | None = None,
    shrinkage: float = 0.0,
    diagonal: float = 0.2,
) -> ms.Prepared:
    """Prepare the data of the model, whose cost is minus the mean log-likelihood (12) of the rows.

    Its manifold is ``Simplex(K) × Euclidean(K, D) × Euclidean(K, D, d) × noise``, with points `Mixture.point`, where
    the noise of each view is in ``Positive(K, d_v)`` or, if full, one symmetric positive definite matrix per component.

    Parameters
    ----------
    data : list of array-like of shape (N, d_v), or CheckedViews
        At least two views with the same rows. `MixturePCCA` passes validated views with weights and missing values.
    views : sequence of int, optional
        Numbers of columns of the views, for data that are tables with the columns of all views; the rows of all tables
        are used.
    n_components, n_latent : int
        The number K of components and the dimension d of the latent vectors, both at least 1.
    covariance_type : {"diag", "full"}
        The covariance of the noise of each view.
    noise_floor : float
        Lower bound of the noise variance of a column, relative to the variance of the column, in the block update
        ``"em"`` and in starts. The manifold has no lower bound.
    update : {"joint", "expanded", "conditional"}
        The M-step of the block update ``"em"``, see `MixturePCCA`. Solvers with running sums need ``"joint"`` or
        ``"conditional"``, because ``"expanded"`` rotates the latent axes.
    n_private : int, optional
        Private latent dimensions of each view, for diagonal noise: the noise is ``V V' + diag(psi)``. All starts then
        use clusters of k-means and common loadings and noise for all clusters.
    shrinkage : float
        With `n_private`, the weight of the prior in each component, as a number of rows, see `MixturePCCA`. The cost is
        then minus the log-posterior over the rows.
    diagonal : float
        With `n_private`, the weight of the diagonal in the prior, see `MixturePCCA`.

    Raises
    ------
    ValueError
        If a parameter or view is invalid, or if columns are collinear, because the likelihood is then unbounded without
        a floor of the noise. The message names the columns and a remedy.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((200, 1))
    >>> X, Y = (z @ rng.standard_normal((1, 3)) + 0.5 * rng.standard_normal((200, 3)) for _ in range(2))
    >>> problem = ms.get_model("mpcca").problem([X, Y], n_components=1, n_latent=1)
    >>> result = ms.minimize(problem, seed=0)
    >>> result.success, list(problem.initializers)
    (True, ['auto', 'cca', 'factors', 'random'])
    """
    full = covariance_type == "full"
    if not isinstance(data, CheckedViews):
        check_whole("n_components", n_components)
        check_whole("n_latent", n_latent)
        check_choice("covariance_type", covariance_type, COVARIANCE_TYPES)
        check_choice("update", update, UPDATES)
        check_number("noise_floor", noise_floor, 0.0, 1.0, open_=True)
        check_number("shrinkage", shrinkage)
        check_number("diagonal", diagonal, 0.0, 1.0)
        if n_private is not None:
            check_whole("n_private", n_private, 0)
        if n_private is None and shrinkage:
            raise ValueError(f"shrinkage={shrinkage:g} requires low-rank noise: pass n_private, too (0 is allowed)")
        if n_private is not None and full:
            raise ValueError("n_private requires diagonal noise: remove n_private, or pass covariance_type='diag'")
        data = checked(data, views, n_components, n_latent + (n_private or 0), n_latent, full, bool(shrinkage))
    moments: Any = data.moments
    floor = noise_floor * moments.variance if data.floor is None else data.floor
    origin = moments.mean if data.origin is None else data.origin
    private = () if n_private is None else private_sizes(n_private, data.sizes)
    table, kind = (None, None) if data.holes is None else data.holes
    sizes = data.n, data.sizes, n_components, n_latent, full
    model = Model(*sizes, origin, floor, update, private, shrinkage, diagonal, table, data)
    if data.begun is not None:
        model = replace(model, pooled=data.begun[0], n=data.begun[1])
    _ = model.prior  # here, before starts ask for it in threads
    blocks = ms.execution.RowBlocks.of(*data.views, data.weights, kind)
    return ms.Prepared(model, blocks, replace(model, shrinkage=0.0, data=None, pooled=None))


def checked(
    data: Any, views: Sequence[int] | None, K: int, reproduced: int, d: int, full: bool, bounded: bool
) -> CheckedViews:
    """Validate views; up to `reproduced` columns of a view may not determine another column without noise."""
    arrays = check_views(data if views is None else split(data, views))
    sizes = tuple(array.shape[1] for array in arrays)
    if len(sizes) == 1:
        raise ValueError(
            f"one table was passed: split its {sizes[0]} columns into views, such as views=[1, {sizes[0] - 1}]"
        )
    check_fits(sizes, len(arrays[0]), K, d)
    moments = Moments.of(arrays)
    if not bounded:
        check_bounded(arrays, moments, reproduced, full)
    return CheckedViews(arrays, moments)


def example(rng: np.random.Generator) -> list[Array]:
    """Return two views of 120 rows that share two latent dimensions, for checks of the model."""
    z = rng.standard_normal((120, 2)) + 2 * rng.integers(2, size=(120, 1))
    return [z @ rng.standard_normal((2, size)) + rng.standard_normal((120, size)) for size in (4, 3)]


def manifold(model: Model) -> ms.manifolds.Product:
    """Return Simplex(K) × means × loadings × noise."""
    M, K, sizes = ms.manifolds, model.n_components, model.sizes
    noise = M.Product(*(M.SymmetricPositiveDefinite(n) ** K if model.full else M.Positive(K, n) for n in sizes))
    D, d = sum(sizes), model.n_latent + sum(model.private)
    factors = (M.Simplex(K), M.Euclidean(K, D), M.Euclidean(K, D, d), noise)
    return M.Product(*factors, names=("weights", "means", "loadings", "noise"))


def statistics(model: Model, point: Point, block: tuple[Any, ...]) -> Statistics:
    """Return the sums over a block of rows under the posterior, including the expectations of missing values."""
    return summed(Expectation.statistics, model, point, block)


def summed(of: Callable[..., Any], model: Model, point: Point, block: tuple[Any, ...]) -> Any:
    """Return the sum of ``of(expectation, views, weights)`` over the patterns of missing values in a block of rows."""
    mixture, (*views, weights, kind) = model.mixture(point), block
    if kind is None:
        return of(Expectation(mixture, model.origin), views, weights)
    parts = []
    for columns, rows in by_kind(model.patterns, kind, len(model.origin)):  # type: ignore[arg-type]  # where kind is
        expectation = Expectation(mixture.observed(columns), model.origin[columns])
        part = of(expectation, observed_views(views, columns, rows), None if weights is None else weights[rows])
        parts.append(part if columns.all() else part.completed(mixture, columns, model.origin))
    return reduce(add, parts)


def value(model: Model, point: Point, sums: Statistics) -> float:
    """Return minus the sum of the mean log-likelihood (12) and the log-density of the prior."""
    whole = sums if model.prior is None else model.whole(point, sums)[1]
    return -whole.value / sums.n


def value_and_gradient(model: Model, point: Point, sums: Statistics) -> tuple[float, Point]:
    """Return the value and its derivatives, by Fisher's identity."""
    (mixture, whole), dtype = model.whole(point, sums), point[0].dtype
    weights, means, loadings, noise = gradient(whole, mixture)

    def scaled(part: Array) -> NDArray[Any]:
        return (part / -whole.n).astype(dtype)

    parts = tuple(map(scaled, noise))
    derivatives = scaled(weights), scaled(means), scaled(model.structured(loadings)), parts
    return -whole.value / whole.n, derivatives


def em(model: Model, point: Point, sums: Statistics) -> Point:
    """Return the mixture that maximizes the likelihood of these sums (30)-(36)."""
    mixture, whole = model.whole(point, sums)
    return maximize(whole, mixture, model.floor, model.update).point


@dataclass(frozen=True)
class _Chart:
    units: Units
    sums: Statistics

    @cached_property
    def _slope(self) -> Array:
        return -self.units.gradient(self.sums)

    def gradient(self) -> Array:
        """Return the gradient of minus the log-likelihood in the units of the complete data."""
        return self._slope

    def moved(self, step: Array) -> Point:
        """Return the point after a step."""
        return self.units.moved(step).point


def units(model: Model, point: Point, sums: Statistics) -> _Chart | None:
    """Return the units in which EM is steepest ascent to first order; None if a component has no rows."""
    mixture, whole = model.whole(point, sums)
    return _Chart(Units.of(whole, mixture, model.floor), whole) if whole.counts.min() >= 1 else None


def repair(model: Model, point: Point, sums: Statistics, tried: NDArray[np.bool_]) -> tuple[int, Point] | None:
    """Return a collapsed component, and the point with this component at the row of smallest density."""
    collapsed = np.flatnonzero((sums.counts < _COLLAPSED) & ~tried)
    if model.n_components == 1 or not len(collapsed):
        return None
    old = model.mixture(point)
    # it moves to the row with the least density, with the loadings and the noise of the heaviest component
    k = int(collapsed[sums.counts[collapsed].argmin()])
    heaviest = int(sums.counts.argmax())
    weights, means, loadings = old.weights.copy(), old.means.copy(), old.loadings.copy()
    weights[k] = max(weights[k], 1 / model.n)
    means[k], loadings[k] = sums.worst + model.origin, loadings[heaviest]
    noise = [part.copy() for part in old.noise]
    for part in noise:
        part[k] = part[heaviest]
    return k, Mixture.trusted(weights / weights.sum(), means, loadings, noise, old.private).point


def permuted(model: Model, point: Point, rng: np.random.Generator) -> Point:
    """Return the point with its components in another order: the same likelihood."""
    weights, means, loadings, noise = point
    order = rng.permutation(len(weights))
    return weights[order], means[order], loadings[order], tuple(part[order] for part in noise)


def rotated(model: Model, point: Point, rng: np.random.Generator) -> Point:
    """Return the point with other axes of the latent space of each component: W R (W R)' = W W' for orthogonal R."""
    weights, means, loadings, noise = point
    n, K = model.n_latent, len(weights)
    R = np.linalg.qr(rng.standard_normal((K, n, n)))[0]
    return weights, means, np.concatenate([loadings[..., :n] @ R, loadings[..., n:]], axis=2), noise


def _start(kind: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    model: Model = problem.data.model
    start = model.drawn(rng)
    return (model.common.mixture(start) if model.private else start.mixture(kind)).point


# "auto" is "cca" for full noise, else "factors"; "cca": k-means, then canonical correlations per cluster (Bach and
# Jordan); "factors": k-means, then principal factors per cluster; "random": means at random rows, random loadings for
# half of each variance
first, cca, factors, random = (partial(_start, kind) for kind in ("auto", "cca", "factors", "random"))


def log_likelihood(
    problem: ms.Problem,
    point: Point,
    fun: float,
    own: tuple[Any, ...],
    log_prior: Callable[[Model, Point], float] | None = None,
) -> float | None:
    """Return the mean log-likelihood of the rows at a point; None if the value `fun` belongs to another cost.

    `own` are the statistics, value and gradient of the bundled model. `log_prior` returns the log-density of the
    prior of this model, if the prior does not depend on the rows.
    """
    spec, model = problem.data.spec, problem.data.model
    if (spec.statistics, spec.value, spec.value_and_gradient) == own and (log_prior or not model.shrinkage):
        return -fun - (log_prior(model, point) / model.n if log_prior else 0.0)
    sums = problem.data.blocks.sum(own[0], problem.data.sweep, point)
    expected = own[1](problem.data.model, point, sums)
    return sums.log_likelihood / sums.n if abs(fun - expected) <= _SAME * max(1.0, abs(expected)) else None


# Noise of low rank plus a diagonal: what components have in common, pooled within clusters of k-means.


@dataclass(frozen=True, eq=False)
class LowRank:
    """The common part of the components: a mixture of one component, fitted to rows minus their cluster means."""

    pooled: Mixture

    @classmethod
    def of(cls, start: Start, private: tuple[int, ...]) -> LowRank:
        """Return the maximum-likelihood mixture of one component for the rows of a start minus their cluster means."""
        labels = start.clusters()
        rows = start.rows
        rows -= _means(start, labels, rows)[labels]
        first = _first(rows * np.sqrt(start.weights / start.weights.mean())[:, None], start, private)
        rows[start.holes] = np.nan
        views: list[View] = [rows[:, columns] for columns in start.columns]
        weights = None if (start.weights == 1).all() else start.weights
        origin = np.zeros(rows.shape[1])
        data = CheckedViews(views, weights=weights, origin=origin, floor=start.floor, holes=kinds(views))
        sizes = {"n_components": 1, "n_latent": first.n_latent, "n_private": max(private)}
        # of the bundled model, whatever has replaced it: this is about what shrinks, not about the cost
        problem = ms.get_model("mpcca:mpcca").problem(data, **sizes, update="expanded")
        stop = ms.CostChange(_TOL) | ms.MaxIterations(_MOST_ITERATIONS)
        x0 = first.point
        result = ms.minimize(problem, x0, solver="em", options={"accelerated": True}, stop=stop)
        return cls(Mixture.from_point(result.x, private))

    def prior(self, rows: float, diagonal: float) -> Prior | None:
        """Return the prior with the weight of a number of rows in each component; None for zero rows."""
        return Prior.of(self.pooled, rows, diagonal) if rows else None

    def mixture(self, start: Start) -> Mixture:
        """Return the mixture of the clusters of a start, with the pooled loadings and noise in each cluster."""
        labels, one = start.clusters(), self.pooled
        counts = np.bincount(labels, start.weights, minlength=start.n_components)
        if start.n_components == 1:
            means = one.means
        else:
            means = _means(start, labels, start.rows)
        K = len(counts)
        loadings, noise = np.repeat(one.loadings, K, axis=0), [np.repeat(part, K, axis=0) for part in one.noise]
        return Mixture.trusted(counts / counts.sum(), means + start.moments.mean, loadings, noise, one.private)


def private_sizes(n_private: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of private latent dimensions of views of these sizes, below the numbers of columns."""
    return tuple(min(n_private, size - 1) for size in sizes)


def _means(start: Start, labels: NDArray[np.int64], rows: Array) -> Array:
    """Return the means of clusters of the rows of a start, (K, D)."""
    return np.stack(
        [np.average(rows[labels == k], axis=0, weights=start.weights[labels == k]) for k in range(start.n_components)]
    )


def _first(rows: Array, start: Start, private: tuple[int, ...]) -> Mixture:
    """Return shared factors from canonical correlations of principal components, and private ones of the residuals."""
    (n, D), d = rows.shape, start.n_latent
    scale = np.sqrt(np.maximum(np.mean(rows**2, axis=0), start.floor))
    Z = rows / scale
    # orthonormal principal components of each view, side by side, (n, r): singular vectors are what views share, and
    # squared singular values 1 + (V - 1) p
    bases = []
    for columns, q in zip(start.columns, private, strict=True):
        U, s, _ = np.linalg.svd(Z[:, columns], full_matrices=False)
        found = int(min(2 * (d + q) + 1, np.count_nonzero(s > 1e-6 * s[0]), max(n // 4, 1)))
        bases.append(U[:, :found])
    V = len(bases)
    loadings, psi = np.zeros((D, d + sum(private))), np.ones(D)
    rest = Z
    if d:
        G, s, _ = np.linalg.svd(np.concatenate(bases, axis=1), full_matrices=False)
        G, s = G[:, :d], s[:d]
        p = np.clip((s**2 - 1) / (V - 1), 0.01, 0.99)
        W = Z.T @ G / np.sqrt(n)
        rest = Z - G @ (G.T @ Z)
        loadings[:, : len(s)] = W * np.sqrt(V * p / (1 + (V - 1) * p))
    end = d
    for columns, q in zip(start.columns, private, strict=True):
        _, s, Vt = np.linalg.svd(rest[:, columns], full_matrices=False)
        values = s**2 / n
        found = min(q, len(s))
        share = np.maximum(values[:found] - values[found:].mean() if len(s) > found else values[:found], 0.0)
        share = np.maximum(share, 0.1 * values[:found])
        loadings[columns, end : end + found] = Vt[:found].T * np.sqrt(share)
        end += q
    psi = np.maximum(1 - np.sum(loadings**2, axis=1), _LEAST_NOISE)
    noise: list[Array] = [np.maximum(psi * scale**2, start.floor)[None, columns] for columns in start.columns]
    return Mixture.trusted(np.ones(1), np.zeros((1, D)), (scale[:, None] * loadings)[None], noise, private)
