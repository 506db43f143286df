"""The likelihood of a mixture of probabilistic canonical correlation analysers as a problem on a manifold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_whole

from ._em import grouped
from ._expectation import Expectation
from ._likelihood_gradient import Units, gradient
from ._maximization import maximize
from ._parameters import COVARIANCE_TYPES, Array, Mixture, check_fits
from ._starts import Start
from ._statistics import Prior, Statistics
from ._views import Moments, View, check_bounded, check_views, split

Point = tuple[Any, ...]

_COLLAPSED = 2.0
"""A component with fewer rows than this describes no variance: it has collapsed."""


@dataclass(frozen=True)
class Model:
    """Settings of a likelihood, and what is known of the rows before a sweep; `views` and `weights` are for starts."""

    n: float
    sizes: tuple[int, ...]
    n_components: int
    n_latent: int
    full: bool
    origin: Array
    floor: Array
    update: str = "joint"
    private: tuple[int, ...] = ()
    prior: Prior | None = None
    views: Any = None
    moments: Any = None
    weights: Array | None = None

    def mixture(self, point: Point) -> Mixture:
        """Return the mixture at a point."""
        *others, noise = point
        parts = tuple(np.stack(part) if isinstance(part, tuple) else part for part in noise)
        return Mixture.from_point((*others, parts), self.private)

    def point(self, mixture: Mixture) -> Point:
        """Return the point of a mixture."""
        return (*mixture.point[:3], tuple(tuple(part) for part in mixture.noise) if self.full else mixture.noise)

    def whole(self, point: Point, found: Statistics) -> tuple[Mixture, Statistics]:
        """Return the mixture at a point, and the sums with the rows of the prior."""
        mixture = self.mixture(point)
        return mixture, found if self.prior is None else self.prior.added(found, mixture)


def prepare(
    data: Any,
    *,
    views: Sequence[int] | None = None,
    n_components: int = 2,
    n_latent: int = 2,
    covariance_type: str = "diag",
    noise_floor: float = 1e-6,
) -> ms.Prepared:
    """Return the problem of the likeliest mixture: minus the mean log-likelihood (12) of the rows.

    Parameters
    ----------
    data : list of array-like of shape (N, d_v)
        At least two views with the same rows.
    views : sequence of int, optional
        Columns of each view, where the data are tables with the columns of all views instead: the rows of all of them.
    n_components, n_latent : int
        K and d, both at least 1.
    covariance_type : {"diag", "full"}
        Of the noise of each view.
    noise_floor : float
        Share of the variance of a column that the block update ``"em"`` and the starts leave to its noise at least.
        The manifold itself has no floor.

    Returns
    -------
    manifoldseq.Problem
        On ``Simplex(K) × Euclidean(K, D) × Euclidean(K, D, d) × noise``, points `Mixture.point`, where the noise of
        each view is in ``Positive(K, d_v)`` or, if full, one symmetric positive definite matrix per component.
        Initializers ``"cca"``, ``"factors"``, ``"random"`` (see `MixturePCCA`), the closed form that fits the noise
        first; mini-batches; the block update ``"em"`` of all factors, which never raises the objective.

    Raises
    ------
    ValueError
        For an invalid parameter or view, and for collinear columns: they make the likelihood infinite where the noise
        has no floor. One sentence says which and what to do.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((200, 1))
    >>> X, Y = (z @ rng.standard_normal((1, 3)) + 0.5 * rng.standard_normal((200, 3)) for _ in range(2))
    >>> problem = ms.get_model("mpcca").problem([X, Y], n_components=1, n_latent=1)
    >>> result = ms.minimize(problem, seed=0)
    >>> result.success, list(problem.initializers)
    (True, ['factors', 'cca', 'random'])
    """
    check_whole("n_components", n_components)
    check_whole("n_latent", n_latent)
    check_choice("covariance_type", covariance_type, COVARIANCE_TYPES)
    check_number("noise_floor", noise_floor, 0.0, 1.0, open_=True)
    arrays = check_views(data if views is None else split(data, views))
    sizes = tuple(array.shape[1] for array in arrays)
    if len(sizes) == 1:
        raise ValueError(f"one table was passed: share its {sizes[0]} columns out, such as views=[1, {sizes[0] - 1}]")
    check_fits(sizes, len(arrays[0]), n_components, n_latent)
    moments, full = Moments.of(arrays), covariance_type == "full"
    check_bounded(arrays, moments, n_latent, full)
    return of_views(arrays, moments, n_components, n_latent, full, noise_floor * moments.variance)


def of_views(
    views: list[View],
    moments: Moments,
    K: int,
    d: int,
    full: bool,
    floor: Array,
    update: str = "joint",
    weights: Array | None = None,
    private: tuple[int, ...] = (),
    prior: Prior | None = None,
    origin: Array | None = None,
) -> ms.Prepared:
    """Return what the model makes of checked views: rows that have the same columns are a block."""
    n = len(views[0]) if weights is None else float(weights.sum())
    sizes = tuple(view.shape[1] for view in views)
    model = Model(n, sizes, K, d, full, moments.mean if origin is None else origin, floor, update, private, prior)
    groups = list(grouped(views, weights))
    if len(groups) == 1:
        blocks = ms.execution.RowBlocks.of(*views, weights)
    else:  # a block tells by what is NaN in its first row which columns it has
        parts = [((columns, some, w), len(some[0])) for columns, some, w in groups]
        blocks = ms.execution.RowBlocks([partial(tuple, part) for part, _ in parts], [size for _, size in parts])
    return ms.Prepared(
        replace(model, views=views, moments=moments, weights=weights), blocks, replace(model, prior=None)
    )


def chosen(data: Any, **params: Any) -> ms.Prepared:
    """Prepare what `MixturePCCA` has checked: (views, moments), see `of_views`."""
    return of_views(*data, **params)


def example(rng: np.random.Generator) -> list[Array]:
    """Return two views of 120 rows that share two latent dimensions, to check the model on."""
    z = rng.standard_normal((120, 2)) + 2 * rng.integers(2, size=(120, 1))
    return [z @ rng.standard_normal((2, size)) + rng.standard_normal((120, size)) for size in (4, 3)]


def _manifold(K: int, d: int, sizes: tuple[int, ...], full: bool) -> ms.manifolds.Manifold:
    M = ms.manifolds
    if full:
        noise = M.Product(*(M.Product(*[M.SymmetricPositiveDefinite(size)] * K) for size in sizes))
    else:
        noise = M.Product(*(M.Positive(K, size) for size in sizes))
    D = sum(sizes)
    factors = (M.Simplex(K), M.Euclidean(K, D), M.Euclidean(K, D, d), noise)
    return M.Product(*factors, names=("weights", "means", "loadings", "noise"))


# the other parts


def manifold(model: Model) -> ms.manifolds.Product:
    """Simplex(K) × means × loadings × noise."""
    return _manifold(model.n_components, model.n_latent + sum(model.private), model.sizes, model.full)


def statistics(model: Model, point: Point, block: tuple[Any, ...]) -> Statistics:
    """Return the sums over a block of rows; the posterior fills what is missing."""
    return evaluated(model, model.mixture(point), block)


def evaluated(model: Model, mixture: Mixture, block: tuple[Any, ...]) -> Statistics:
    """Return the sums over a block of rows under the posterior of a mixture."""
    if block[0].dtype != bool:
        *views, weights = block
        return Expectation(mixture, model.origin).statistics(views, weights)
    columns, views, weights = block
    part = Expectation(mixture.observed(columns), model.origin[columns]).statistics(views, weights)
    return part if columns.all() else part.completed(mixture, columns, model.origin)


def value(model: Model, point: Point, found: Statistics) -> float:
    """Return minus the mean log-likelihood (12), and the log-density of the prior."""
    return -model.whole(point, found)[1].value / found.n


def value_and_gradient(model: Model, point: Point, found: Statistics) -> tuple[float, Point]:
    """Return it with its derivatives, by Fisher's identity."""
    (mixture, found), dtype = model.whole(point, found), point[0].dtype
    weights, means, loadings, noise = gradient(found, mixture)

    def scaled(part: Array) -> NDArray[Any]:
        return (part / -found.n).astype(dtype)

    parts = tuple(tuple(map(scaled, part)) if model.full else scaled(part) for part in noise)
    return -found.value / found.n, (scaled(weights), scaled(means), scaled(loadings), parts)


def em(model: Model, point: Point, found: Statistics) -> Point:
    """Return the mixture that explains these sums best (30)-(36)."""
    mixture, found = model.whole(point, found)
    return model.point(maximize(found, mixture, model.floor, model.update))


@dataclass(frozen=True)
class _Chart:
    model: Model
    units: Units
    found: Statistics

    def gradient(self) -> Array:
        """Return the gradient of minus the log-likelihood in the units of the complete data."""
        return -self.units.gradient(self.found)

    def moved(self, step: Array) -> Point:
        return self.model.point(self.units.moved(step))


def units(model: Model, point: Point, found: Statistics) -> _Chart | None:
    """Return the units in which EM is steepest ascent to first order; None where a component has lost its rows."""
    mixture, found = model.whole(point, found)
    return _Chart(model, Units.of(found, mixture, model.floor), found) if found.counts.min() >= 1 else None


def repair(model: Model, point: Point, found: Statistics, tried: NDArray[np.bool_]) -> tuple[int, Point] | None:
    """Return a collapsed component, and the point with it where the density is least."""
    old = model.mixture(point)
    collapsed = np.flatnonzero((found.counts < _COLLAPSED) & ~tried)
    if old.n_components == 1 or not len(collapsed):
        return None
    # it moves to the row with the least density, with the loadings and the noise of the heaviest component
    k = int(collapsed[found.counts[collapsed].argmin()])
    heaviest = int(found.counts.argmax())
    weights, means, loadings = old.weights.copy(), old.means.copy(), old.loadings.copy()
    weights[k] = max(weights[k], 1 / model.n)
    means[k], loadings[k] = found.worst + model.origin, loadings[heaviest]
    noise = [part.copy() for part in old.noise]
    for part in noise:
        part[k] = part[heaviest]
    return k, model.point(Mixture.trusted(weights / weights.sum(), means, loadings, noise, old.private))


def first(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """``"cca"`` for full noise, else ``"factors"``."""
    return _start("auto", problem, rng)


def cca(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """k-means, then canonical correlations per cluster (Bach and Jordan)."""
    return _start("cca", problem, rng)


def factors(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """k-means, then principal factors per cluster."""
    return _start("factors", problem, rng)


def random(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Means at random rows, random loadings for half of each variance."""
    return _start("random", problem, rng)


def drawn(model: Model, rng: np.random.Generator) -> Start:
    """Draw the rows that a start looks at."""
    sizes = model.n_components, model.n_latent, model.full
    return Start.of(model.views, model.moments, *sizes, model.floor, rng, model.weights)


def _start(kind: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    return problem.data.model.point(drawn(problem.data.model, rng).mixture(kind))
