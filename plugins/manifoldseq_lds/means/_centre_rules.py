"""Rules for the centre of a cluster: the exact mean, fixed steps of Algorithm 1, and the baselines of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted

from ..kernels._moments import MomentKernel
from ..systems._canonical_form import canonical_form
from ..systems._record import Systems
from ._common_problem import common_objective, own_weight

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]
Rows = NDArray[np.int64]


# Observability subspaces of a few steps: their mean, and the system that spans it (Turaga et al. 2011).


def observability_bases(A: Array, C: Array, n_steps: int) -> Array:
    """Return orthonormal bases of ``[C; CA; ...; C A**(n_steps - 1)]``, of shape (N, n_steps m, n)."""
    blocks = [C]
    for _ in range(n_steps - 1):
        blocks.append(blocks[-1] @ A)
    return np.linalg.qr(np.concatenate(blocks, axis=1))[0]


def subspace_mean(A: Array, C: Array, n_steps: int) -> tuple[Array, Array]:
    """Return A (n, n) and C (m, n) of the system whose observability subspace is the mean of those of N systems.

    The mean is spanned by the n leading eigenvectors W of ``sum O_i O_i'``, taken as left singular vectors of the bases
    side by side. With ``W = [W_1; ...; W_L]``, A solves ``[W_1; ...; W_(L-1)] A = [W_2; ...; W_L]`` in least squares
    and C is W_1, brought to orthonormal columns; where W_1 has lost a dimension, its polar factor completes it.
    """
    N, m, n = C.shape
    bases = observability_bases(A, C, n_steps)
    # sum O_i O_i' = S S' with the bases side by side, (L m, N n); its eigenvectors by the smaller of S'S and S S'
    side = bases.transpose(1, 0, 2).reshape(-1, N * n)
    if N * n <= len(side):
        w, V = np.linalg.eigh(side.T @ side)
        W = side @ V[:, -n:] / np.sqrt(np.maximum(w[-n:], np.finfo(float).tiny))
    else:
        W = np.linalg.eigh(side @ side.T)[1][:, -n:]
    # the shift structure W[1:] = W[:-1] A; in the basis R x that makes the outputs orthonormal it is R A R^-1
    shift = np.linalg.lstsq(W[:-m], W[m:], rcond=None)[0]
    C_mean, R = np.linalg.qr(W[:m])
    if np.linalg.cond(R) > 1e8:
        return shift, ms.linalg.polar(W[:m])
    return R @ shift @ np.linalg.inv(R), C_mean


# Alignment of the state bases of systems by rotations (Afsari et al. 2012), many systems at once.


ROTATIONS = ("reflected", "printed", "polar")
"""What the search for a rotation starts from."""


def aligning_rotations(
    A: Array, C: Array, A0: Array, C0: Array, *, rate: float = 0.1, n_steps: int = 20, start: str = "reflected"
) -> Array:
    """Return the rotations Q that bring systems near to one, by steps on the Cayley curve from the best of some starts.

    Parameters
    ----------
    A : array (N, n, n)
    C : array (N, m, n)
    A0 : array (n, n)
    C0 : array (m, n)
    rate : float
        Step size along half the gradient of ``norm(Q'AQ - A0)**2 + norm(CQ - C0)**2``.
    n_steps : int
    start : {"reflected", "printed", "polar"}
        See `AlignMean`; the random rotation is always the same.

    Returns
    -------
    Q : array (N, n, n)
        Of all starts and steps, the one with the least cost.

    Examples
    --------
    >>> A, C, swap = np.diag([0.5, 0.1]), np.eye(3, 2), np.eye(2)[::-1]
    >>> Q = aligning_rotations((swap @ A @ swap)[None], (C @ swap)[None], A, C, start="polar")
    >>> np.allclose(Q[0], swap)
    True
    """
    P = C.swapaxes(1, 2) @ C0  # (N, n, n)
    transposed = A.swapaxes(1, 2)

    @ms.objectives.last_point
    def both(Q: Array) -> tuple[Any, Array]:
        """Half the cost but for a constant, (starts, N), and half its gradient, but for terms that Cayley cancels."""
        forth, back = A @ Q @ A0.T, transposed @ Q @ A0
        return -np.einsum("snij,snij->sn", Q, forth + P), -(forth + back + P)

    problem = ms.Problem(ms.manifolds.Orthogonal(len(A0)), ms.objective(value_and_gradient=both))
    starts = _starts(P, start)
    best, least = starts[0].copy(), np.full(len(A), np.inf)
    for Q in ms.solvers.fixed_steps(problem, starts, rate, n_steps):
        for one, cost in zip(Q, both(Q)[0], strict=True):
            better = cost < least
            best[better], least[better] = one[better], cost[better]
    return best


def alignment_cost(A: Array, C: Array, A0: Array, C0: Array, Q: Array) -> Array:
    """Return ``norm(Q'AQ - A0)**2 + norm(CQ - C0)**2`` of every system, of shape (N,)."""
    # over leading axes: (starts, N, n, n) and (starts, N, m, n)
    turned = Q.swapaxes(-1, -2) @ A @ Q - A0
    outputs = C @ Q - C0
    return np.square(turned).sum(axis=(-1, -2)) + np.square(outputs).sum(axis=(-1, -2))


def _starts(P: Array, start: str) -> Array:
    """Return the rotations to begin with, of shape (starts, N, n, n)."""
    n = P.shape[-1]
    if start == "polar":
        return ms.linalg.polar(P)[None]
    Q = ms.linalg.polar(np.random.default_rng(0).standard_normal((n, n)))
    flip = np.ones(n)
    flip[0] = -1
    chosen = [Q, -Q] if start == "printed" else [Q, -Q, Q * flip, -Q * flip]
    return np.broadcast_to(np.stack(chosen)[:, None], (len(chosen), *P.shape)).copy()


class Task(Protocol):
    """What a rule sees of a clustering: its systems, under its kernel, and the solver for the exact mean."""

    @property
    def kernel(self) -> Any: ...
    @property
    def manifold(self) -> Any: ...
    @property
    def systems(self) -> Systems: ...
    @property
    def solver(self) -> Any: ...
    @property
    def packed(self) -> Any: ...

    @property
    def martin(self) -> Any:
        """The Martin kernel."""

    @property
    def martin_packed(self) -> Any:
        """The systems as the Martin kernel packs them."""

    def point(self, row: int) -> Point:
        """Return one system as a point."""
        ...

    def medoid(self, rows: Rows) -> int:
        """Return the row of the member with the least sum of squared distances to the members."""
        ...


_FIRST_RATE = 0.1
"""Of (Lambda, V), on (8): what the paper takes."""


@dataclass(frozen=True)
class CanonicalMean:
    """Descend on (7), (8) within the bound of (12), from the present centre, with the solver of the clustering."""

    on_AC_only: ClassVar[bool] = False

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the new centre of the members `rows`, and the evaluations spent."""
        return descended(task, centre, task.packed[rows], np.full(len(rows), -2 / len(rows)), inner)


@dataclass(frozen=True)
class ExactMean(CanonicalMean):
    """Descend on (7), (8) over all stable systems; for kernels that are no function of the subspace, as the base."""


def descended(task: Task, centre: Point, packed: Any, beta: Array, inner: int) -> tuple[Point, float]:
    """Return a point that is no worse than a centre for ``sum_i beta_i k(S, S_i)``, and the evaluations spent.

    beta is negative; a kernel whose k(S, S) is not constant adds it, as in (7).
    """
    return _descended(task.kernel, task.manifold, task.solver, centre, packed, beta, inner)


def _descended(
    kernel: Any, manifold: Any, solver: Any, centre: Point, packed: Any, beta: Array, inner: int
) -> tuple[Point, float]:
    if isinstance(kernel, MomentKernel):  # the moments shift first; they weight what the dynamics descend on
        moments, weights = kernel.settled(centre, packed, beta)
        dynamics = ms.manifolds.Product(*manifold.factors[:-1])
        found, spent = _descended(kernel.kernel, dynamics, solver, centre[:-1], packed.dynamics, weights, inner)
        return (*found, moments), spent + 1
    solver = "lbfgs" if solver == "auto" else solver
    problem = ms.Problem(manifold, common_objective(kernel, packed, beta, own_weight(kernel, 1.0)))
    result = ms.minimize(problem, centre, solver=solver, stop=ms.MaxIterations(inner))
    if result.status is ms.Status.INTERRUPTED:
        raise KeyboardInterrupt  # the outer loop ends with its last complete state
    return result.x, result.nfev


class _Rescaled(ms.manifolds.BoundedDiagonal):
    """Bounded diagonals that come back from outside by a common factor."""

    def nearest(self, x: Array) -> Array:
        return x * (self.bound / max(self.bound, np.abs(x).max()))


@dataclass(frozen=True)
class FixedSteps:
    """Five steps of Algorithm 1 at the fixed rates .1 (Lambda, V) and 1 (U); they may raise the objective.

    On ``-(gradient_scale / N) sum k``: 2 is (8) as printed, with Lambda clipped as in (18); 1 is what the authors'
    toolbox does, which rescales all of Lambda to at most .999.
    """

    on_AC_only: ClassVar[bool] = True
    gradient_scale: float = 2.0
    rescale: bool = False

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the new centre of the members `rows`, and the evaluations spent."""
        beta = np.full(len(rows), -self.gradient_scale / len(rows))
        manifold: Any = ms.manifolds.CanonicalLDS(*centre[2].shape)  # |Lambda| at most .99
        if self.rescale:
            _, V, U = manifold.factors
            manifold = ms.manifolds.Product(_Rescaled(len(centre[0]), 0.999), V, U)
        problem = ms.Problem(manifold, common_objective(task.kernel, task.packed[rows], beta))
        # all three gradients at one point; (18) clips Lambda, (16) moves V and (17) U along Cayley curves
        *_, new = ms.solvers.fixed_steps(problem, centre, (_FIRST_RATE, _FIRST_RATE, 1.0), 5)
        return new, 5.0


@dataclass(frozen=True)
class Medoid:
    """The member nearest to the others."""

    on_AC_only: ClassVar[bool] = False

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the medoid of the members `rows`."""
        return task.point(task.medoid(rows)), 0.0


@dataclass(frozen=True)
class MDSMean:
    """The member nearest to the mean of an embedding of the members, after Ravichandran, Chaudhry and Vidal (2013).

    Classical multidimensional scaling of the Martin distances, ``d**2 = -log k`` with the Martin kernel (19); the
    embedding has the coordinates with positive eigenvalues. Pass it as ``LDSKMeans(mean=MDSMean(...))``.

    Parameters
    ----------
    n_components : int, optional
        Keep so many coordinates, those of largest spread.

    Examples
    --------
    >>> MDSMean(n_components=3)
    MDSMean(n_components=3)
    """

    on_AC_only: ClassVar[bool] = False
    n_components: int | None = None

    def __post_init__(self) -> None:
        if self.n_components is not None and not (isinstance(self.n_components, Integral) and self.n_components >= 1):
            raise ValueError(
                f"MDSMean(n_components={quoted(self.n_components)}): pass a whole number of at least 1, or None"
            )

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the member of `rows` nearest to the mean of their embedding."""
        packed = task.martin_packed[rows]
        k = np.maximum(task.martin.cross(packed, packed), np.finfo(float).tiny)  # 0: subspaces with a right angle
        squared = np.maximum(-np.log(k), 0.0)
        np.fill_diagonal(squared, 0.0)
        return task.point(int(rows[nearest_to_the_mean(squared, self.n_components)])), 0.0


def nearest_to_the_mean(squared: Array, n_components: int | None = None) -> int:
    """Return the row nearest to the mean of the classical multidimensional scaling of squared distances (N, N)."""
    # double centring, B = -1/2 J D J: Gram matrix of the embedding about its mean; squared lengths are norms to the
    # mean
    B = squared - squared.mean(axis=0)
    B = -0.5 * (B - B.mean(axis=1, keepdims=True))
    w, W = np.linalg.eigh((B + B.T) / 2)
    w, W = (w, W) if n_components is None else (w[-n_components:], W[:, -n_components:])
    norms = (W * W) @ np.maximum(w, 0.0)
    return int(np.flatnonzero(norms <= norms.min() + 1e-12 * max(1.0, norms.max()))[0])


@dataclass(frozen=True)
class AlignMean:
    """The average of the members in the state bases that bring them nearest to the present centre.

    The baseline *Align* of the paper (Afsari et al. 2012): every member is turned by the Q in O(n) with the least
    ``norm(Q'AQ - A_c)**2 + norm(CQ - C_c)**2``, found by steps on the Cayley curve, the better of several starts; A and
    C are averaged, and the mean of C is made orthonormal by its polar factor. Pass it as
    ``LDSKMeans(mean=AlignMean(...))``.

    Parameters
    ----------
    rate : float
        Step size along half the gradient.
    n_steps : int
    start : {"reflected", "printed", "polar"}
        ``"printed"``: a random Q and -Q, which for an even number of states have the same determinant. ``"reflected"``:
        also both with one column reversed. ``"polar"``: the best Q for the outputs alone.

    Examples
    --------
    >>> AlignMean(rate=0.3).n_steps
    20
    """

    on_AC_only: ClassVar[bool] = True
    rate: float = 0.1
    n_steps: int = 20
    start: str = "reflected"

    def __post_init__(self) -> None:
        if not (isinstance(self.rate, Real) and self.rate > 0):
            raise ValueError(f"AlignMean(rate={quoted(self.rate)}): pass a positive number")
        if not (isinstance(self.n_steps, Integral) and self.n_steps >= 0):
            raise ValueError(f"AlignMean(n_steps={quoted(self.n_steps)}): pass a whole number of at least 0")
        if self.start not in ROTATIONS:
            raise ValueError(f"AlignMean(start={quoted(self.start)}): choose {', '.join(map(repr, ROTATIONS))}")

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the average of the aligned members `rows`."""
        lam, V, U = centre
        A, C = task.systems.A[rows], task.systems.C[rows]
        Q = aligning_rotations(A, C, lam[:, None] * V, U, rate=self.rate, n_steps=self.n_steps, start=self.start)
        mean_A = (Q.swapaxes(1, 2) @ A @ Q).mean(axis=0)
        mean_C = np.tensordot(C, Q, ((0, 2), (0, 1))) / len(rows)  # of C_i Q_i, (m, n)
        return task.manifold.nearest(canonical_form(mean_A, ms.linalg.polar(mean_C))), 0.0


@dataclass(frozen=True)
class GrassMean:
    """The mean of observability subspaces of a few steps, and the system that spans it.

    The baseline *Grass* of the paper (Turaga et al. 2011): the n leading eigenvectors of ``sum O_i O_i'``, where O_i is
    an orthonormal basis of ``[C; CA; ...; C A**(n_steps - 1)]``. So that it can be compared as a system, C and A are
    read off by the shift structure of the basis. Pass it as ``LDSKMeans(mean=GrassMean(...))``.

    Parameters
    ----------
    n_steps : int
        Blocks of the observability matrices, at least 2.

    Examples
    --------
    >>> GrassMean().n_steps
    3
    """

    on_AC_only: ClassVar[bool] = True
    n_steps: int = 3

    def __post_init__(self) -> None:
        if not (isinstance(self.n_steps, Integral) and self.n_steps >= 2):
            raise ValueError(f"GrassMean(n_steps={quoted(self.n_steps)}): pass a whole number of at least 2")

    def __call__(self, task: Task, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the system of the mean subspace of the members `rows`."""
        A, C = subspace_mean(task.systems.A[rows], task.systems.C[rows], self.n_steps)
        return task.manifold.nearest(canonical_form(A, C)), 0.0


RULES: dict[str, Any] = {
    "exact": ExactMean(),
    "canonical": CanonicalMean(),
    "printed": FixedSteps(),
    "toolbox": FixedSteps(1.0, rescale=True),
    "align": AlignMean(),
    "mds": MDSMean(),
    "grass": GrassMean(),
    "medoid": Medoid(),
}
"""The rules that ``LDSKMeans(mean=...)`` takes by name."""

Rule = CanonicalMean | ExactMean | FixedSteps | Medoid | MDSMean | AlignMean | GrassMean


def resolved_rule(mean: Any) -> Any:
    """Return the rule that a name stands for, or the rule itself."""
    if isinstance(mean, Rule):
        return mean
    if not isinstance(mean, str) or mean not in RULES:
        raise ValueError(
            f"mean={quoted(mean)} is not known: choose {', '.join(map(repr, RULES))}, or an AlignMean, MDSMean "
            f"or GrassMean"
        )
    return RULES[mean]
