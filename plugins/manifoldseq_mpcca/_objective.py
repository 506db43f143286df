"""The likelihood of a mixture of probabilistic canonical correlation analysers as a problem on a manifold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_whole

from ._em import EM
from ._likelihood_gradient import gradient
from ._maximization import maximize
from ._parameters import COVARIANCE_TYPES, Array, Mixture, check_fits
from ._starts import Start
from ._statistics import Statistics
from ._views import Moments, View, check_bounded, check_views, split

Point = tuple[Any, ...]

_INITIALIZERS = ("cca", "factors", "random")


def build(
    data: Any,
    *,
    views: Sequence[int] | None = None,
    n_components: int = 2,
    n_latent: int = 2,
    covariance_type: str = "diag",
    noise_floor: float = 1e-6,
) -> ms.Problem:
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
    >>> problem = ms.get_model("mpcca").build([X, Y], n_components=1, n_latent=1)
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
    em = EM.of(arrays, moments, noise_floor, "joint", accelerated=False)
    kinds = _INITIALIZERS if full else ("factors", "cca", "random")
    start = partial(_start, arrays, moments, n_components, n_latent, full, em.floor)
    return ms.Problem(
        _manifold(n_components, n_latent, sizes, full),
        _objective(em, full),
        {kind: partial(start, kind) for kind in kinds},
    )


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


def _objective(em: EM, full: bool) -> ms.Objective:
    statistics = ms.objectives.last_point(partial(_statistics, em))
    update = ms.objectives.BlockUpdate(
        "em", ("weights", "means", "loadings", "noise"), partial(_em_step, em, statistics, full)
    )
    return ms.Objective(
        partial(_value, em.n, statistics),
        partial(_value_and_gradient, em.n, statistics, full),
        terms=ms.objectives.FiniteTerms(int(em.n), partial(_batch, em, full)),
        updates=(update,),
    )


# Module-level functions under partial, so that the problem can be pickled.


def _start(
    views: list[View],
    moments: Moments,
    n_components: int,
    n_latent: int,
    full: bool,
    floor: Array,
    kind: str,
    problem: ms.Problem,
    rng: np.random.Generator,
) -> Point:
    start = Start.of(views, moments, n_components, n_latent, full, floor, rng)
    return _to_point(start.mixture(kind), full)


def _statistics(em: EM, point: Point) -> tuple[Mixture, Statistics]:
    *others, noise = point
    mixture = Mixture.from_point((*others, tuple(np.stack(part) for part in noise)))
    return mixture, em.evaluate(mixture)


def _value(n: float, statistics: Any, point: Point) -> float:
    return -statistics(point)[1].log_likelihood / n


def _value_and_gradient(n: float, statistics: Any, full: bool, point: Point) -> tuple[float, Point]:
    mixture, found = statistics(point)
    dtype = point[0].dtype
    weights, means, loadings, noise = gradient(found, mixture)

    def scaled(part: Array) -> NDArray[Any]:
        return (part / -n).astype(dtype)

    parts = tuple(tuple(map(scaled, part)) if full else scaled(part) for part in noise)
    return _value(n, statistics, point), (scaled(weights), scaled(means), scaled(loadings), parts)


def _em_step(em: EM, statistics: Any, full: bool, point: Point) -> Point:
    mixture, found = statistics(point)
    return _to_point(maximize(found, mixture, em.floor, em.update), full)


def _to_point(mixture: Mixture, full: bool) -> Point:
    noise = tuple(tuple(part) for part in mixture.noise) if full else mixture.noise
    return (*mixture.point[:3], noise)


def _batch(em: EM, full: bool, rows: np.ndarray) -> ms.Objective:
    return _objective(em.of_rows(rows), full)
