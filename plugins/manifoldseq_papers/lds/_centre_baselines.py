"""Centre rules for comparison in the paper: fixed steps of Algorithm 1, MDS, Align and Grass."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import quoted
from manifoldseq_lds import CentreRule, CentreTask, canonical_form

from ._observability import subspace_mean

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]
Rows = NDArray[np.int64]

ROTATIONS = ("reflected", "printed", "polar")
"""Starting points of the search for a rotation."""
_FIRST_RATE = 0.1
"""Step size of (Lambda, V) on (8), as in the paper."""


class _Rescaled(ms.manifolds.BoundedDiagonal):
    """Bounded diagonals that are scaled back into the bound by a common factor."""

    def nearest(self, x: Array) -> Array:
        return x * (self.bound / max(self.bound, np.abs(x).max()))


@dataclass(frozen=True)
class FixedSteps(CentreRule):
    """Five steps of Algorithm 1 at the fixed rates 0.1 (Lambda, V) and 1 (U); they may raise the objective.

    The objective is ``-(gradient_scale / N) sum k``. The value 2 gives (8) as printed, with Lambda clipped as in (18);
    the value 1 gives the rule of the authors' toolbox, which rescales all of Lambda to at most 0.999. The two rules are
    registered as ``"papers:printed"`` and ``"papers:toolbox"``.

    Parameters
    ----------
    gradient_scale : float
        Factor of the gradient of equation (8).
    rescale : bool
        Rescale states as the authors' toolbox does.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.hooks.get_rule("papers:toolbox", estimator="lds-kmeans", parameter="mean")
    FixedSteps(gradient_scale=1.0, rescale=True)
    """

    on_AC_only: ClassVar[bool] = True
    gradient_scale: float = 2.0
    rescale: bool = False

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the new centre of the members `rows`, and the evaluations spent."""
        beta = np.full(len(rows), -self.gradient_scale / len(rows))
        manifold: Any = ms.manifolds.CanonicalLDS(*centre[2].shape)  # |Lambda| at most 0.99
        if self.rescale:
            _, V, U = manifold.factors
            manifold = ms.manifolds.Product(_Rescaled(len(centre[0]), 0.999), V, U)
        problem = ms.Problem(manifold, task.objective(rows, beta))
        # all three gradients at one point; (18) clips Lambda, (16) moves V and (17) U along Cayley curves
        *_, new = ms.solvers.fixed_steps(problem, centre, (_FIRST_RATE, _FIRST_RATE, 1.0), 5)
        return new, 5.0


def toolbox_steps() -> FixedSteps:
    """Return the rule of the authors' toolbox."""
    return FixedSteps(1.0, rescale=True)


@dataclass(frozen=True)
class MDSMean(CentreRule):
    """The member nearest to the mean of an embedding of the members, after Ravichandran, Chaudhry and Vidal (2013).

    The embedding is computed by classical multidimensional scaling of the Martin distances, ``d**2 = -log k`` with the
    Martin kernel (19). It has the coordinates with positive eigenvalues. ``LDSKMeans(mean="papers:mds")`` is
    ``LDSKMeans(mean=MDSMean())``.

    Parameters
    ----------
    n_components : int, optional
        Number of coordinates. The coordinates with the largest variance are used.

    Examples
    --------
    >>> MDSMean(n_components=3)
    MDSMean(n_components=3)
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        if self.n_components is not None and not (isinstance(self.n_components, Integral) and self.n_components >= 1):
            raise ValueError(
                f"MDSMean(n_components={quoted(self.n_components)}) is not valid: pass a whole number of at least 1, "
                "or None"
            )

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the member of `rows` nearest to the mean of their embedding."""
        martin, everyone = task.packed_by("martin")
        packed = everyone[rows]
        k = np.maximum(martin.cross(packed, packed), np.finfo(float).tiny)  # 0: subspaces with a right angle
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
class AlignMean(CentreRule):
    """The average of the members in the state bases that align them with the current centre.

    The baseline *Align* of the paper (Afsari et al. 2012): every member is rotated by the Q in O(n) that minimizes
    ``norm(Q'AQ - A_c)**2 + norm(CQ - C_c)**2``, computed by steps on the Cayley curve from several starts. A and C are
    averaged, and the mean of C is replaced by its polar factor. ``LDSKMeans(mean="papers:align")`` is
    ``LDSKMeans(mean=AlignMean())``.

    Parameters
    ----------
    rate : float
        Step size along half the gradient.
    n_steps : int
        Number of steps from each start.
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
            raise ValueError(f"AlignMean(rate={quoted(self.rate)}) is not valid: pass a positive number")
        if not (isinstance(self.n_steps, Integral) and self.n_steps >= 0):
            raise ValueError(
                f"AlignMean(n_steps={quoted(self.n_steps)}) is not valid: pass a whole number of at least 0"
            )
        if self.start not in ROTATIONS:
            raise ValueError(
                f"AlignMean(start={quoted(self.start)}) is not known: choose {', '.join(map(repr, ROTATIONS))}"
            )

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the average of the aligned members `rows`."""
        lam, V, U = centre
        A, C = task.systems.A[rows], task.systems.C[rows]
        Q = aligning_rotations(A, C, lam[:, None] * V, U, rate=self.rate, n_steps=self.n_steps, start=self.start)
        mean_A = (Q.swapaxes(1, 2) @ A @ Q).mean(axis=0)
        mean_C = np.tensordot(C, Q, ((0, 2), (0, 1))) / len(rows)  # of C_i Q_i, (m, n)
        return task.manifold.nearest(canonical_form(mean_A, ms.linalg.polar(mean_C))), 0.0


@dataclass(frozen=True)
class GrassMean(CentreRule):
    """The mean of observability subspaces of a few steps, and the system that spans it.

    The baseline *Grass* of the paper (Turaga et al. 2011): the n leading eigenvectors of ``sum O_i O_i'``, where O_i is
    an orthonormal basis of ``[C; CA; ...; C A**(n_steps - 1)]``. C and A of the mean follow from the shift structure of
    the basis, so that the mean can be compared as a system. ``LDSKMeans(mean="papers:grass")`` is
    ``LDSKMeans(mean=GrassMean())``.

    Parameters
    ----------
    n_steps : int
        Number of blocks of the observability matrices, at least 2.

    Examples
    --------
    >>> GrassMean().n_steps
    3
    """

    on_AC_only: ClassVar[bool] = True
    n_steps: int = 3

    def __post_init__(self) -> None:
        if not (isinstance(self.n_steps, Integral) and self.n_steps >= 2):
            raise ValueError(
                f"GrassMean(n_steps={quoted(self.n_steps)}) is not valid: pass a whole number of at least 2"
            )

    def __call__(self, task: CentreTask, centre: Point, rows: Rows, inner: int) -> tuple[Point, float]:
        """Return the system of the mean subspace of the members `rows`."""
        A, C = subspace_mean(task.systems.A[rows], task.systems.C[rows], self.n_steps)
        return task.manifold.nearest(canonical_form(A, C)), 0.0


# Alignment of the state bases of systems by rotations (Afsari et al. 2012), many systems at once.


def aligning_rotations(
    A: Array, C: Array, A0: Array, C0: Array, *, rate: float = 0.1, n_steps: int = 20, start: str = "reflected"
) -> Array:
    """Return the rotations Q that align systems with one system, by steps on the Cayley curve from several starts.

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
        The rotations with the smallest cost among all starts and steps.

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
