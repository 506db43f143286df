"""The parts of the models ``hope.movmf``, ``hope.gmm``, ``hope.family`` and ``hope.vmf``.

A `HopeModel` is the first argument of every part. Points are the head of a projection (`Rows`), the weights, and the
parameters of the family. All other quantities are functions of the `Statistics`, which one pass over the rows computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number

from ..families._family import Array, Family
from ..families._gaussian import gaussian
from ..families._rows import ScaledRows, Scaling, check_directions, check_rows, check_sizes, unit_rows
from ..families._von_mises_fisher import LARGEST, von_mises_fisher
from ._expectation import Expectation, second_moment
from ._noise import Noise
from ._parameters import Data, Model, Statistics
from ._projection_factors import KINDS, Rows
from ._seeding import projection, seeded
from ._sizes import latent_dimension

Point = tuple[Any, ...]


@dataclass(frozen=True)
class HopeModel:
    """Settings of a likelihood, and quantities of the rows that do not depend on the parameters.

    Attributes
    ----------
    rows : Rows
        The parametrization of the projection.
    kind : Model
        A model that determines the kind of the points.
    data : Data
        Second moment, number and weights of the rows, without the rows themselves.
    dtype : dtype
        The dtype of the matrix products.
    slope : bool
        Whether the derivative with respect to U is summed.
    scaling : Scaling or None
        The preparation of rows of memory maps, which is applied when they are read. None if the rows are prepared
        already.
    """

    rows: Rows
    kind: Model
    data: Data
    dtype: Any
    slope: bool = True
    scaling: Scaling | None = None

    def at(self, point: Point) -> Model:
        """Return the model at a point."""
        size = self.rows.size
        U = self.rows.projection(point[:size], self.kind.U)
        weights, parameters = np.asarray(point[size], dtype=np.float64), tuple(point[size + 1 :])
        return Model(U, weights, parameters, self.kind.family, self.kind.normalize_z)


# prepare


def movmf(
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
    learn_projection: bool = True,
) -> ms.Prepared:
    """Prepare the maximum-likelihood problem of a projection and a von Mises-Fisher mixture, with parameters of `HOPE`.

    Parameters
    ----------
    n_components : int
        The number K of mixture components.
    n_latent : int or "auto"
        The number M of rows of U.
    noise_gradient : {"full", "simplified"}
        The full gradient (equations 21, 22), or the simplified gradient for U U' = I (footnote 3).
    rows : {"orthonormal", "scaled", "free"}
        Constraints on the rows of U: orthonormal; orthogonal with a length of at least one (equations 53, 54); or none,
        with the penalty (equation 15).
    jacobian : {"density", "printed"}
        Sign of the term N/2 ln det U U': the sign of the change of variables, or the printed sign (equations 44, 51).
    beta : float
        Factor of the penalty (equation 15), for free rows.
    learn_projection : bool
        False fixes the projection.
    """
    family = von_mises_fisher(bessel, kappa, largest_kappa)
    return _prepared(
        _rows(data), family, n_components, n_latent, noise_variance, noise_floor, noise_gradient, normalize_z, rows,
        jacobian, beta, learn_projection,
    )  # fmt: skip


def gmm(
    data: Any,
    *,
    n_components: int = 3,
    n_latent: int | str = 2,
    covariance_type: str = "diag",
    variance_floor: float = 1e-6,
    noise_variance: Any = "bounded",
    noise_floor: float = 1e-6,
    noise_gradient: str = "full",
    normalize_z: bool = False,
    rows: str = "orthonormal",
    jacobian: str = "density",
    beta: float = 1.0,
    learn_projection: bool = True,
) -> ms.Prepared:
    """Prepare the maximum-likelihood problem of a projection and a Gaussian mixture, with parameters of `movmf`.

    Parameters
    ----------
    covariance_type : {"diag", "full"}
        Diagonal or full covariances of the components.
    """
    check_number("variance_floor", variance_floor, open_=True)
    data = _rows(data)
    family = gaussian(covariance_type, max(variance_floor * data.mean_square, np.finfo(float).tiny))
    return _prepared(
        data, family, n_components, n_latent, noise_variance, noise_floor, noise_gradient, normalize_z, rows, jacobian,
        beta, learn_projection,
    )  # fmt: skip


def of_family(
    data: Any,
    *,
    family: Family | None = None,
    n_components: int = 3,
    n_latent: int | str = 2,
    noise_variance: Any = "bounded",
    noise_floor: float = 1e-6,
    noise_gradient: str = "full",
    normalize_z: bool = False,
    rows: str = "orthonormal",
    jacobian: str = "density",
    beta: float = 1.0,
    learn_projection: bool = True,
) -> ms.Prepared:
    """Prepare the maximum-likelihood problem of a projection and a mixture of a user-defined `Family`, as `movmf`.

    Parameters
    ----------
    family : Family, optional
        The family of the components, by default von Mises-Fisher distributions.
    """
    family = von_mises_fisher() if family is None else family
    return _prepared(
        _rows(data), family, n_components, n_latent, noise_variance, noise_floor, noise_gradient, normalize_z, rows,
        jacobian, beta, learn_projection,
    )  # fmt: skip


def vmf(
    data: Any,
    *,
    n_components: int = 3,
    kappa: Any = None,
    largest_kappa: float = LARGEST,
    bessel: str = "exact",
) -> ms.Prepared:
    """Prepare a mixture of von Mises-Fisher distributions (9) of unit rows, otherwise as `VonMisesFisherMixture`.

    Parameters
    ----------
    n_components : int
        The number K of mixture components.
    """
    data = data if isinstance(data, Data) else _data(unit_rows(check_rows(data)), moment=False)
    N, D = data.X.shape
    check_sizes(N, D, D, n_components)
    kind = Model(np.empty((0, D)), np.empty(n_components), (), von_mises_fisher(bessel, kappa, largest_kappa), True)
    return _with_blocks(HopeModel(Rows("none", Noise(1.0)), kind, data, data.X.dtype, slope=False))


def _rows(data: Any) -> Data:
    return data if isinstance(data, Data) else _data(check_rows(data))


def _data(X: Array, moment: bool = True) -> Data:
    return Data(X, None, second_moment(X) if moment else None, float(len(X)))


def _prepared(
    data: Data,
    family: Family,
    K: Any,
    n_latent: Any,
    noise_variance: Any,
    noise_floor: float,
    noise_gradient: str,
    normalize_z: bool,
    rows: str,
    jacobian: str,
    beta: float,
    learn: bool,
) -> ms.Prepared:
    check_choice("rows", rows, KINDS)
    check_choice("jacobian", jacobian, ("density", "printed"))
    check_number("noise_floor", noise_floor)
    check_number("beta", beta)
    N, D = data.X.shape
    M = latent_dimension(n_latent, D, N - 1)
    check_sizes(N, D, M, K)
    if family.directional and normalize_z and not data.checked:
        check_directions(data.X)
    noise = Noise(noise_variance, noise_floor * data.mean_square, noise_gradient)
    if rows == "free" and noise.kind == "bounded":
        noise = replace(noise, kind="closed")
    head = Rows(rows, noise, beta if rows == "free" else 0.0, 1 if jacobian == "density" else -1)
    kind = Model(np.eye(M, D), np.full(K, 1 / K), (), family, normalize_z)
    return _with_blocks(HopeModel(head, kind, data, data.X.dtype, learn))


def _with_blocks(model: HopeModel) -> ms.Prepared:
    data, X, scaling = model.data, model.data.X, None
    if isinstance(X, ScaledRows):
        X, scaling = X.rows, X.scaling
    blocks = ms.execution.RowBlocks.of(X, data.weight)
    model = replace(model, data=replace(data, X=None), scaling=scaling)
    return ms.Prepared(model, blocks, replace(model, data=None))


def example(rng: np.random.Generator) -> Array:
    """Return 150 unit rows of five columns around three directions, as example data."""
    X = np.repeat(rng.standard_normal((3, 5)), 50, axis=0) + 0.4 * rng.standard_normal((150, 5))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


# the other parts


def manifold(model: HopeModel) -> ms.manifolds.Product:
    """Head × Simplex(K) × the parameters of the family."""
    K, M, family = model.kind.n_components, model.kind.M, model.kind.family
    factors = model.rows.factors(M, model.kind.U.shape[1]) | {"weights": ms.manifolds.Simplex(K)}
    factors |= dict(zip(family.names, family.manifolds(K, M), strict=True))
    return ms.manifolds.Product(*factors.values(), names=tuple(factors))


def constraints(model: HopeModel) -> tuple[ms.Objective, ...]:
    """Rows of length at least one (54), of free rows."""
    short = range(len(model.kind.U)) if model.rows.kind == "free" else ()
    return tuple(ms.objective(partial(_short, i), partial(_short_slope, i)) for i in short)


def statistics(model: HopeModel, point: Point, block: tuple[Any, Any]) -> Statistics:
    """Return the sums over a block of rows."""
    X, weight = block
    rows = X if model.scaling is None else model.scaling.of(X)
    return Expectation(model.at(point), model.dtype).statistics(rows, weight, model.slope)


@np.errstate(all="ignore")  # a line search may step too far
def minus_log_likelihood(model: HopeModel, point: Point, found: Statistics) -> float:
    """Return minus the mean log-likelihood (11)."""
    return -(found.log_likelihood + _rest(model, point, found)[0]) / found.n


def _rest(model: HopeModel, point: Point, found: Statistics) -> tuple[float, tuple[Any, ...]]:
    """Return the part of the likelihood outside the latent space for the rows in the sums, and its derivative.

    The derivative includes the derivative of the sums.
    """
    data = model.data
    if found.n != data.n:
        S = None if data.S is None else data.S * (found.n / data.n)
        data = replace(data, S=S, n=found.n, whole=data.whole or (data.S, data.n))
    return model.rows.value_and_gradient(point[: model.rows.size], found.slope, data)


@np.errstate(all="ignore")
def value_and_gradient(model: HopeModel, point: Point, found: Statistics) -> tuple[float, Point]:
    """Return minus the mean log-likelihood and its derivatives, by Fisher's identity: (22), (25)-(28), (32)-(34)."""
    size, at = model.rows.size, model.at(point)
    dtype, n = point[0].dtype, found.n
    rest, by_head = _rest(model, point, found)
    by_mixture = at.family.gradient(at.parameters, found.sums, found.counts, at.M)
    by_weights = np.where(found.counts > 0, found.counts / at.weights, 0.0)  # (26), (32)

    def scaled(part: Array) -> Array:
        return (part / -n).astype(dtype)

    tail = [
        tuple(map(scaled, part)) if isinstance(old, tuple) else scaled(part)
        for part, old in zip(by_mixture, point[size + 1 :], strict=True)
    ]
    return -(found.log_likelihood + rest) / n, (*map(scaled, by_head), scaled(by_weights), *tail)


def batch(model: HopeModel, block: tuple[Any, Any]) -> HopeModel:
    """Return the model of a batch of rows, with their own second moment."""
    X, weight = block
    whole, n = model.data, float(len(X)) if weight is None else float(weight.sum())
    S = None if whole.S is None else second_moment(X if model.scaling is None else model.scaling(X), weight)
    return replace(model, data=replace(whole, S=S, n=n, weight=weight, whole=(whole.S, whole.n)))


def _start(name: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    model, kind = problem.data.model, problem.data.model.kind
    U = kind.U if name == "none" else projection(name, model.data.S, kind.M, rng)
    return starting(problem, np.asarray(U, dtype=np.float64), rng)


# components at k-means++ seeds behind principal axes, a uniformly random projection, or of the rows as they are
pca, random, seeds = (partial(_start, name) for name in ("pca", "random", "none"))


def starting(problem: ms.Problem, U: Array, rng: np.random.Generator) -> Point:
    """Return the start with this projection and with components at k-means++ seeds of the projected rows."""
    model, kind = problem.data.model, problem.data.model.kind
    sizes = kind.n_components, kind.family, kind.normalize_z
    found = seeded(U, problem.data.blocks, *sizes, rng, model.data.weight, model.scaling)
    return (*model.rows.head(U), found.weights, *_like(found.parameters, problem.manifold.shape[model.rows.size + 1 :]))


def _like(parameters: Any, shapes: Any) -> tuple[Any, ...]:
    """Return the parameters of the family; parameters on a product of manifolds become tuples."""
    return tuple(
        tuple(part) if shape and isinstance(shape[0], tuple) else part
        for part, shape in zip(parameters, shapes, strict=True)
    )


def em(model: HopeModel, point: Point, found: Statistics) -> Point:
    """Return the maximum-likelihood mixture for these sums with the same projection: the M-step."""
    size, kind = model.rows.size, model.kind
    weights = found.counts / found.counts.sum()
    if not weights.min() >= np.finfo(float).tiny:  # the simplex is open
        weights = np.maximum(weights, np.finfo(float).eps)
        weights = weights / weights.sum()
    parameters = kind.family.maximize(found.sums, found.counts, kind.M)
    shapes = [tuple(map(np.shape, old)) if isinstance(old, tuple) else () for old in point[size + 1 :]]
    return (*point[:size], weights, *_like(parameters, shapes))


def polar(model: HopeModel, point: Point, found: Statistics, damping: float) -> Point:
    """Return the projection that maximizes a linear minorant, polar(g1 + g2 + c U), and the rotated M-step mixture.

    g1 is the derivative of the mean of L1 (34), g2 = U S / (n sigma²) that of the signal part of L2 (22), which is
    convex in U; c is in units of |g1|.
    """
    data, at = model.data, model.at(point)
    assert found.slope is not None  # summed wherever the projection is learned
    slope = found.slope / found.n
    noise = model.rows.noise
    signal = at.U @ data.S / (data.n * noise.variance(at.U, data.S, data.n))
    c = damping * max(float(np.linalg.norm(slope, 2)), 1e-12)
    U = ms.linalg.polar((slope + signal + c * at.U).T).T
    return em(model, (*model.rows.head(U), *point[1:]), _turned(model, at.U, U, found))


def update_factors(model: HopeModel) -> dict[str, tuple[str, ...]]:
    """Return the updates of the model: the polar step requires orthonormal rows and is not available for appendix A."""
    mixture = ("weights", *model.kind.family.names)
    return {"polar": (), "em": mixture} if model.rows.kind == "orthonormal" else {"em": mixture}


def carry(model: HopeModel, old: Point, new: Point, found: Statistics) -> Statistics:
    """Return running sums in the coordinates of a new projection; the derivative is taken from the next batch only."""
    if not model.rows.size:
        return found
    return _turned(model, model.at(old).U, model.at(new).U, found)


def _turned(model: HopeModel, old: Array, new: Array, found: Statistics) -> Statistics:
    # the rotation of the coordinates z that the new rows come nearest to, so that components keep their places
    R = ms.linalg.polar(new @ old.T)
    return replace(found, sums=model.kind.family.rotate(found.sums, found.counts, R), slope=None)


def permuted(model: HopeModel, point: Point, rng: np.random.Generator) -> Point:
    """Return the point with its components in another order: the same likelihood."""
    size, order = model.rows.size, rng.permutation(model.kind.n_components)
    tail = [tuple(part[k] for k in order) if isinstance(part, tuple) else part[order] for part in point[size:]]
    return (*point[:size], *tail)


def _short(i: int, point: Point) -> float:
    """Return 1 - |u_i|^2, which is at most zero if (54) holds."""
    return float(1 - point[0][:, i] @ point[0][:, i])


def _short_slope(i: int, point: Point) -> Point:
    found = np.zeros_like(point[0])
    found[:, i] = -2 * point[0][:, i]
    return (found, *(_zeros(part) for part in point[1:]))


def _zeros(part: Any) -> Any:
    return tuple(map(_zeros, part)) if isinstance(part, tuple) else np.zeros_like(part)
