"""The model ``hierarchical.subspace``: F(V, m, mu) of labelled frames over subspaces and class centroids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ._classes import Members, frames_and_members, member_rows
from ._closed_form import check_components, completed, leading_directions, resolved_origin, weighted_centroids
from ._moments import Array, Moments
from ._sigma import lowest_directions, printed_sigma

Point = tuple[Array, Array]


def prepare(
    data: Any,
    *,
    n_components: int | None = None,
    center: Any = True,
    manifold: str = "grassmann",
    partition: bool = True,
    method: str = "closed-form",
    empty: bool = False,
) -> ms.Prepared:
    """Return the problem of the subspace in which class means represent frames best, (1) and (2) of the paper.

    ``F(V, mu)`` is the sum of squared distances of the frames to their class centroids in the m coordinates ``V' x``,
    plus the sum of squared distances to ``mu_0`` in the other coordinates. The data or `n_components` determine m.

    Parameters
    ----------
    data : list of array-like of shape (T_k, d), or tuple (X, labels)
        Each array of a list is one class. In a pair, X has shape (N, d) and `labels` has shape (N,), with whole numbers
        or text. With ``partition=False``, -1 marks a frame in no class, and booleans of shape (N, h) are allowed.
    n_components : int, optional
        The number m. The default is optimal, (13) with a tolerance: the rank of the weighted centroids, which is h - 1
        if mu_0 is the mean, and h if mu_0 is not a combination of the centroids.
    center : bool or array-like of shape (d,)
        mu_0: True for the mean of the frames, False for 0, or the point itself.
    manifold : {"grassmann", "orthogonal"}
        The manifold of V. F does not change under a rotation of the first m columns or of the others, so that a point
        of Grassmann(d, m) suffices. ``"orthogonal"`` has all d columns, for your own costs that need them.
    partition : bool
        Whether every frame must belong to exactly one class. If not, the d×d matrix Sigma (8) is formed, which may be
        indefinite.
    method : {"closed-form", "eigh"}
        ``"eigh"`` computes V and m as printed in the paper: m is the number of negative eigenvalues of Sigma. Rounding
        errors count as negative eigenvalues, too.
    empty : bool
        Accept m = 0 (no subspace separates the classes) instead of raising an error.

    Returns
    -------
    manifoldseq.Problem
        Points ``(V, mu)``; initializers ``"closed-form"``, which is the optimum, and ``"random"``; Hessian products;
        block updates ``"mu"`` (4) and ``"V"`` (optimal for the given mu); mini-batches over frames for a partition.

    Raises
    ------
    ValueError
        If frames contain NaN, if labels do not match, if frames are in no class although `partition` is True, or if m =
        0.

    References
    ----------
    Le, Xu, Hoang, Milford: Hierarchical encoding of sequential data with compact and sub-linear storage cost,
    supplementary material, equations (1)-(13).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> rng = np.random.default_rng(0)
    >>> data = [rng.standard_normal((20, 6)) + 3 * rng.standard_normal(6) for _ in range(4)]
    >>> problem = ms.get_model("hierarchical.subspace").problem(data)
    >>> result = ms.minimize(problem)
    >>> result.success, result.nit, problem.manifold.shape
    (True, 0, ((6, 3), (4, 6)))

    The next example adds a penalty and starts at the closed form:

    >>> import dataclasses, autograd.numpy as anp
    >>> sparse = ms.objective(lambda point: anp.sum(anp.sqrt(point[0] ** 2 + 1e-6)))
    >>> mine = dataclasses.replace(problem, objective=problem.objective + 10 * sparse)
    >>> ms.minimize(mine).success
    True
    """
    X: Any = None
    members: Any = None
    blocks = None
    if isinstance(data, Moments):  # of frames that were seen in a stream
        moments = data
    else:
        X, members = frames_and_members(data, partition)
        blocks = ms.execution.RowBlocks.of(X, members)
        moments = _summed(blocks, X, int(members.max(initial=-1)) + 1) if partition else None
    if moments is not None:
        energy = _of_moments(moments, resolved_origin(center, moments.mean))
    else:
        energy = _general(X, members, center)
    V, s = _directions(energy, X, members, check_components(n_components, energy.centroids.shape[1]), method)
    d, m = V.shape
    if m == 0 and X is not None and not empty:
        raise ValueError(
            "every class centroid coincides with mu_0, so there is no subspace: pass at least two classes that differ, "
            "or another center"
        )
    if manifold == "orthogonal":
        V = completed(V, d)
    elif manifold != "grassmann":
        raise ValueError(f"manifold={manifold!r} is not known: choose 'grassmann' or 'orthogonal'")
    return ms.Prepared(replace(energy, m=m, V=V, s=s, kind=manifold, moments=moments), blocks if partition else None)


def _summed(blocks: Any, X: Array, h: int) -> Moments:
    """Return the moments of blocks of frames: counts, sums and scatter, which are additive."""
    first = Moments.empty(X, h)
    found = blocks.sum(_moments_of, first)
    return found


def _moments_of(first: Moments, block: tuple[Any, Any]) -> Moments:
    made = first.copy()
    made.add(*block)
    return made


# the other parts


def manifold(energy: _Energy) -> ms.manifolds.Product:
    """Return the manifold of V (up to rotations, or of all columns) and of the class centroids."""
    d, m = energy.V.shape
    of_V = ms.manifolds.Grassmann(d, m) if energy.kind == "grassmann" else ms.manifolds.Orthogonal(d)
    return ms.manifolds.Product(of_V, ms.manifolds.Euclidean(*energy.centroids.shape), names=("V", "mu"))


def update_factors(energy: _Energy) -> dict[str, tuple[str, ...]]:
    """Return the block updates; each replaces the factor of its name."""
    return {"mu": ("mu",), "V": ("V",)}


def closed_form(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return the optimum (4), (9)-(13)."""
    return problem.data.model.V, problem.data.model.centroids


def random(problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return a random subspace and random centroids."""
    return problem.manifold.random_point(rng)


def batch(whole: _Energy, block: tuple[Any, Any]) -> _Energy:
    """Return F of some frames."""
    X, codes = block
    return replace(_of_moments(Moments.of(X, codes, len(whole.centroids)), whole.origin), m=whole.m)


def example(rng: np.random.Generator) -> list[Array]:
    """Return four noisy classes of frames around separate centroids."""
    return [rng.standard_normal((12, 7)) + 2 * rng.standard_normal(7) for _ in range(4)]


@dataclass(frozen=True)
class _Energy:
    """F as a quadratic form: ``total + tr(V' Sigma V) + |D V|²`` with V of m columns, ``D = roots (mu - centroids)``.

    Sigma is ``-factor' factor`` (a partition) or the matrix `sigma`. `total` is the trace of S_0, `roots` sqrt(n_k).
    """

    total: float
    roots: Array
    centroids: Array
    origin: Array
    tolerance: float
    factor: Array | None = None
    sigma: Array | None = None
    m: int = 0
    V: Any = None
    s: Any = None
    kind: str = "grassmann"
    moments: Any = None

    def sigma_times(self, V: Array) -> Array:
        if self.factor is not None:
            return -(self.factor.T @ (self.factor @ V))
        assert self.sigma is not None
        return self.sigma @ V

    def deviations(self, mu: Array) -> Array:
        return self.roots[:, None] * (mu - self.centroids)

    def value_and_gradient(self, point: Point) -> tuple[float, Point]:
        whole, mu = point
        # F = tr S_0 + tr V'(Sigma + D'D) V with rows sqrt(n_k) (mu_k - class mean) of D, (h, d): zero at the closed
        # form
        V, D = whole[:, : self.m], self.deviations(mu)
        SV, DV = self.sigma_times(V), D @ V
        value = self.total + float(np.vdot(V, SV)) + float(np.vdot(DV, DV))
        return value, (_padded(2 * (SV + D.T @ DV), whole), 2 * self.roots[:, None] * (DV @ V.T))

    def hessian_product(self, point: Point, tangent: Point) -> Point:
        whole, mu = point
        V, U, D = whole[:, : self.m], tangent[0][:, : self.m], self.deviations(mu)
        # the derivative of both gradients along (U, N), N in units of D
        N = self.roots[:, None] * tangent[1]
        moved = D @ U + N @ V
        HV = self.sigma_times(U) + D.T @ moved + N.T @ (D @ V)
        return _padded(2 * HV, whole), 2 * self.roots[:, None] * (moved @ V.T + (D @ V) @ U.T)

    def with_best_mu(self, point: Point) -> Point:
        return point[0], self.centroids.astype(point[1].dtype)  # (4), whatever V and m are

    def with_best_V(self, point: Point) -> Point:
        whole, mu = point
        D = self.deviations(mu)
        if self.factor is None or 2 * len(D) >= len(whole):
            Sigma = self.sigma_times(np.eye(len(whole))) + D.T @ D
            V = lowest_directions(Sigma, self.m)[0]
        else:
            V = _lowest_of_difference(D, self.factor, self.m)
        return completed(V, whole.shape[1]).astype(whole.dtype), mu


def _lowest_of_difference(D: Array, B: Array, m: int) -> Array:
    """Return eigenvectors of the m smallest eigenvalues of ``D' D - B' B``, without forming it."""
    # D'D - B'B has its range in the rows of D and B: [D; B]' = Q R, and the eigenvalues are those of R diag(±1) R',
    # 2h×2h
    Q, R = np.linalg.qr(np.concatenate([D, B]).T)
    signs = np.repeat([1.0, -1.0], [len(D), len(B)])
    eigenvalues, W = np.linalg.eigh((R * signs) @ R.T)
    zeros = min(m, len(Q) - len(eigenvalues))  # the eigenvalue of everything orthogonal to both
    order = np.argsort(np.concatenate([eigenvalues, np.zeros(zeros)]), kind="stable")[:m]
    inside = order[order < len(eigenvalues)]
    outside = completed(Q, len(eigenvalues) + len(order) - len(inside))[:, len(eigenvalues) :]
    return np.concatenate([Q @ W[:, inside], outside], axis=1)


def _of_moments(moments: Moments, origin: Array) -> _Energy:
    centroids = moments.centroids
    return _Energy(
        moments.scatter(origin),
        np.sqrt(moments.counts),
        centroids,
        origin,
        moments.tolerance(origin),
        factor=weighted_centroids(centroids, moments.counts, origin),
    )


def _general(X: Array, members: Members, center: Any) -> _Energy:
    everything = Moments.of(X, np.zeros(len(X), np.int64))
    origin = resolved_origin(center, everything.mean)
    rows = member_rows(members)
    centroids = np.stack([X[of_class].mean(axis=0, dtype=np.float64) for of_class in rows])
    total = everything.scatter(origin)
    return _Energy(
        total,
        np.sqrt([len(of_class) for of_class in rows]),
        centroids,
        origin,
        total * everything.tolerance(origin) / max(np.sqrt(everything.scatter(0 * origin)), 1e-300),
        sigma=printed_sigma(X, members, centroids, origin),
    )


def _directions(
    energy: _Energy, X: Array, members: Members, n_components: int | None, method: str
) -> tuple[Array, Array]:
    if method == "eigh":
        V, values = lowest_directions(printed_sigma(X, members, energy.centroids, energy.origin), n_components)
        return V, np.sqrt(np.maximum(-values, 0.0))
    if method != "closed-form":
        raise ValueError(f"method={quoted(method)} is not known: choose 'closed-form' or 'eigh'")
    if energy.factor is None:
        assert energy.sigma is not None
        return lowest_directions(energy.sigma, n_components, energy.tolerance)
    return leading_directions(energy.factor, energy.tolerance, n_components)


def _padded(gradient: Array, like: Array) -> Array:
    """Return the gradient in the first columns of zeros of the shape of `like`."""
    if gradient.shape == like.shape:
        return gradient
    return np.concatenate([gradient, np.zeros((len(like), like.shape[1] - gradient.shape[1]))], axis=1)
