"""The likelihood of a HOPE model as a problem on a manifold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number

from ..families._family import Array, Family
from ..families._gaussian import gaussian
from ..families._rows import check_directions, check_rows, check_sizes
from ..families._von_mises_fisher import LARGEST, von_mises_fisher
from ._em import Data, maximized
from ._expectation import second_moment
from ._noise import Noise
from ._parameters import Model, Statistics
from ._projection_factors import KINDS, Rows
from ._seeding import projection, seeded
from ._sizes import latent_dimension, old_sizes

Point = tuple[Any, ...]


@old_sizes
def build_movmf(
    data: Any,
    *,
    n_components: int = 3,
    n_latent: int | str = 2,
    noise_variance: Any = "closed",
    noise_floor: float = 1e-6,
    noise_gradient: str = "full",
    normalize_z: bool = True,
    bessel: str = "exact",
    kappa: Any = None,
    largest_kappa: float = LARGEST,
    rows: str = "orthonormal",
    jacobian: str = "density",
    beta: float = 1.0,
) -> ms.Problem:
    """Return the problem of the likeliest projection and mixture of von Mises-Fisher distributions.

    Minus the mean of ln p(x) (11) over the rows, with all constants: L1 (29) and L2 (21).

    Parameters
    ----------
    data : array-like of shape (N, D), or list of tables with D columns
        As they are: bring rows to unit length before, as the paper does. float32 is multiplied in float32.
    n_components : int
        K. For one release it must be given with `n_latent`, which was called ``n_components``.
    n_latent : int or "auto"
        M; ``"auto"`` is half of the columns.
    noise_variance : float, "closed" or "bounded"
        A fixed variance of the residual; the closed form (23), the likelihood being its profile; or (23) up to
        the least variance of z, which excludes minor subspaces.
    noise_floor : float
        The variance is at least this share of the mean square of a column.
    noise_gradient : {"full", "simplified"}
        ``"simplified"`` uses U U' = I in L2 and its gradient (footnote 3): another function off the constraint.
    normalize_z : bool
        Whether z is brought to unit length (30). Footnote 4 skips it.
    bessel : {"exact", "paper"}
        The Bessel function, or the leading term (68).
    kappa, largest_kappa
        Of the M-step, see `von_mises_fisher`.
    rows : {"orthonormal", "scaled", "free"}
        ``"orthonormal"``: U U' = I (13). Appendix A: ``"scaled"``, orthogonal rows of length at least one (53), (54),
        as a product of manifolds; ``"free"``, any rows of length at least one (inequality constraints), with the
        residual energy (47), and the penalty (15) times `beta`, as printed. The penalty has a kink where rows are
        orthogonal: line searches may stop there.
    jacobian : {"density", "printed"}
        The term for the row lengths: N/2 ln det U U', with which ln p(x) is a density, or minus that, as printed (44),
        (50), (51). As printed it only ever shortens rows to length one.
    beta : float
        Only for ``rows="free"``, per row of the data.

    Returns
    -------
    manifoldseq.Problem
        On ``Stiefel(D, M) [× BoundedDiagonal(M)] × Simplex(K) × Euclidean(K, M)``: U', the inverse row lengths, the
        weights, mu. Initializers ``"pca"`` and ``"random"``; mini-batches; the block update ``"em"`` of the mixture.

    Raises
    ------
    ValueError
        For an invalid parameter, NaN, or rows of zeros; one sentence says which and what to do.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(5)[:3], 40, axis=0) + 0.1 * rng.standard_normal((120, 5))
    >>> problem = ms.get_model("hope.movmf").build(X, n_components=3, n_latent=3)
    >>> ms.minimize(problem, seed=0).x[0].shape
    (5, 3)
    """
    family = von_mises_fisher(bessel, kappa, largest_kappa)
    sizes = (n_components, n_latent)
    return _build(data, family, sizes, noise_variance, noise_floor, noise_gradient, normalize_z, rows, jacobian, beta)


@old_sizes
def build_gmm(
    data: Any,
    *,
    n_components: int = 3,
    n_latent: int | str = 2,
    covariance_type: str = "diag",
    variance_floor: float = 1e-6,
    noise_variance: Any = "bounded",
    noise_floor: float = 1e-6,
    noise_gradient: str = "full",
    rows: str = "orthonormal",
    jacobian: str = "density",
    beta: float = 1.0,
) -> ms.Problem:
    """Return the problem of the likeliest projection and Gaussian mixture.

    Minus the mean of ln p(x) (11) over the rows, with all constants: L1 (24) and L2 (21), an honest density of x.

    Parameters
    ----------
    data : array-like of shape (N, D)
        As they are: subtract the mean before (footnote 1).
    covariance_type : {"diag", "full"}
    variance_floor : float
        The starts and the block update keep variances at this share of the mean variance of a column. The manifold
        itself has no floor.
    n_components, n_latent, noise_variance, noise_floor, noise_gradient, rows, jacobian, beta
        As in `build_movmf`.

    Returns
    -------
    manifoldseq.Problem
        On ``Stiefel(D, M) [× BoundedDiagonal(M)] × Simplex(K) × Euclidean(K, M)`` times ``Positive(K, M)``, or for full
        covariances times K symmetric positive definite matrices.

    Raises
    ------
    ValueError
        For an invalid parameter or NaN; one sentence says which and what to do.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> X = np.random.default_rng(0).standard_normal((200, 4)) * [3.0, 2.0, 0.1, 0.1]
    >>> problem = ms.get_model("hope.gmm").build(X - X.mean(axis=0), n_components=1, n_latent=2)
    >>> ms.minimize(problem, seed=0).success
    True
    """
    check_number("variance_floor", variance_floor, open_=True)
    X = check_rows(data)
    family = gaussian(covariance_type, max(variance_floor * mean_square(X), np.finfo(float).tiny))
    sizes = (n_components, n_latent)
    return _build(X, family, sizes, noise_variance, noise_floor, noise_gradient, False, rows, jacobian, beta)


def example(rng: np.random.Generator) -> Array:
    """Return 150 unit rows of five columns about three directions, to check the models on."""
    X = np.repeat(rng.standard_normal((3, 5)), 50, axis=0) + 0.4 * rng.standard_normal((150, 5))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def mean_square(X: Array) -> float:
    """Return the mean square of the entries."""
    return float(np.mean(np.einsum("nd,nd->n", X, X, dtype=np.float64)) / X.shape[1])


def _build(
    data: Any,
    family: Family,
    sizes: tuple[Any, Any],
    noise_variance: Any,
    noise_floor: float,
    noise_gradient: str,
    normalize_z: bool,
    rows: str,
    jacobian: str,
    beta: float,
) -> ms.Problem:
    check_choice("rows", rows, KINDS)
    check_choice("jacobian", jacobian, ("density", "printed"))
    check_number("noise_floor", noise_floor)
    check_number("beta", beta)
    X = check_rows(data)
    K, M = sizes[0], latent_dimension(sizes[1], X.shape[1], X.shape[0] - 1)
    check_sizes(len(X), X.shape[1], M, K)
    if family.directional and normalize_z:
        check_directions(X)
    noise = Noise(noise_variance, noise_floor * mean_square(X), noise_gradient)
    if rows == "free" and noise.kind == "bounded":
        noise = replace(noise, kind="closed")
    head = Rows(rows, noise, beta if rows == "free" else 0.0, 1 if jacobian == "density" else -1)
    model = Model(np.eye(M, X.shape[1]), np.full(K, 1 / K), (), family, normalize_z)
    return problem_of(Data(X, None, second_moment(X), float(len(X))), head, model)


def problem_of(data: Data, rows: Rows, model: Model) -> ms.Problem:
    """Return the problem of models like this one on these rows."""
    (M, D), K, family = model.U.shape, model.n_components, model.family
    likelihood = Likelihood(data, rows, model)
    factors = rows.factors(M, D) | {"weights": ms.manifolds.Simplex(K)}
    factors |= dict(zip(family.names, family.manifolds(K, M), strict=True))
    short = range(M) if rows.kind == "free" else ()
    bounds = tuple(ms.objective(partial(_short, i), partial(_short_slope, i)) for i in short)
    return ms.Problem(
        ms.manifolds.Product(*factors.values(), names=tuple(factors)),
        likelihood.objective(tuple(factors)[rows.size :]),
        {kind: partial(_start, likelihood, kind) for kind in ("pca", "random")},
        inequalities=bounds,
    )


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of rows as a function of points; its methods are what an objective needs."""

    data: Data
    rows: Rows
    model: Model

    def objective(self, mixture: tuple[str, ...]) -> ms.Objective:
        """Return minus the mean log-likelihood; `mixture` names the factors behind the projection."""
        statistics = ms.objectives.last_point(self.statistics)
        update = ms.objectives.BlockUpdate("em", mixture, partial(_em, self, statistics))
        return ms.Objective(
            partial(_value, self, statistics),
            partial(_value_and_gradient, self, statistics),
            terms=ms.objectives.FiniteTerms(len(self.data.X), partial(_batch, self, mixture)),
            updates=(update,),
        )

    def at(self, point: Point) -> Model:
        """Return the model at a point."""
        size = self.rows.size
        return replace(
            self.model,
            U=np.asarray(self.rows.projection(point[:size]), dtype=np.float64),
            weights=np.asarray(point[size], dtype=np.float64),
            parameters=tuple(point[size + 1 :]),
        )

    def statistics(self, point: Point) -> tuple[Model, Statistics]:
        """Return the model and the statistics at a point."""
        model = self.at(point)
        return model, self.data.statistics(model)

    def of_rows(self, rows: np.ndarray) -> Likelihood:
        """Return the likelihood of some rows."""
        X, whole = self.data.X[rows], (self.data.S, self.data.n)
        weight, n = None, self.data.n * len(rows) / len(self.data.X)
        if self.data.weight is not None:
            weight = self.data.weight[rows]
        return replace(self, data=Data(X, weight, second_moment(X, weight), n, whole))


# Module-level functions under partial, so that the problem can be pickled.


def _start(likelihood: Likelihood, kind: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    data, model = likelihood.data, likelihood.model
    U = projection(kind, data.S, len(model.U), rng)
    found = seeded(U, data.X, model.n_components, model.family, model.normalize_z, rng)
    return (*likelihood.rows.head(U), found.weights, *_as_factors(found, problem.manifold.shape))


def _as_factors(model: Model, shapes: Any) -> tuple[Any, ...]:
    """Return the parameters of the family, those of a product of manifolds as tuples."""
    ends = shapes[len(shapes) - len(model.parameters) :]
    return tuple(
        tuple(part) if shape and isinstance(shape[0], tuple) else part
        for part, shape in zip(model.parameters, ends, strict=True)
    )


@np.errstate(all="ignore")  # a line search may step too far
def _value(likelihood: Likelihood, statistics: Any, point: Point) -> float:
    data, (_, found) = likelihood.data, statistics(point)
    rest, _ = likelihood.rows.value_and_gradient(point[: likelihood.rows.size], found.slope, data)
    return -(found.log_likelihood + rest) / data.n


@np.errstate(all="ignore")
def _value_and_gradient(likelihood: Likelihood, statistics: Any, point: Point) -> tuple[float, Point]:
    data, (model, found), size = likelihood.data, statistics(point), likelihood.rows.size
    dtype, n = point[0].dtype, data.n
    rest, by_head = likelihood.rows.value_and_gradient(point[:size], found.slope, data)
    by_mixture = model.family.gradient(model.parameters, found.sums, found.counts, model.M)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_weights = np.where(found.counts > 0, found.counts / model.weights, 0.0)  # (26), (32)

    def scaled(part: Array) -> Array:
        return (part / -n).astype(dtype)

    tail = [
        tuple(map(scaled, part)) if isinstance(old, tuple) else scaled(part)
        for part, old in zip(by_mixture, point[size + 1 :], strict=True)
    ]
    return -(found.log_likelihood + rest) / n, (*map(scaled, by_head), scaled(by_weights), *tail)


def _em(likelihood: Likelihood, statistics: Any, point: Point) -> Point:
    model, found = statistics(point)
    # the M-step for fixed U maximizes in all factors behind the projection at once
    size = likelihood.rows.size
    new = maximized(model, found)
    weights = np.maximum(new.weights, np.finfo(float).eps)  # the simplex is open
    parameters = [
        tuple(part) if isinstance(old, tuple) else part
        for part, old in zip(new.parameters, point[size + 1 :], strict=True)
    ]
    return (*point[:size], weights / weights.sum(), *parameters)


def _batch(likelihood: Likelihood, mixture: tuple[str, ...], rows: np.ndarray) -> ms.Objective:
    return likelihood.of_rows(rows).objective(mixture)


def _short(i: int, point: Point) -> float:
    """Return 1 - |u_i|^2, at most zero where (54) holds."""
    return float(1 - point[0][:, i] @ point[0][:, i])


def _short_slope(i: int, point: Point) -> Point:
    found = np.zeros_like(point[0])
    found[:, i] = -2 * point[0][:, i]
    return (found, *(_zeros(part) for part in point[1:]))


def _zeros(part: Any) -> Any:
    return tuple(map(_zeros, part)) if isinstance(part, tuple) else np.zeros_like(part)
