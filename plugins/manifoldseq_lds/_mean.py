"""The mean of linear dynamical systems under a kernel (model ``lds.mean``), and the canonical form that it lives in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

from ._settings import check_bound, resolved_kernel
from ._systems import Systems

Array = NDArray[np.float64]
Point = tuple[Array, ...]

_MEDOID_ROWS = 256


def build(
    data: Any,
    *,
    kernel: Any = "projection",
    n_states: int = 5,
    center: bool = True,
    scale: bool = True,
    delay: int = 1,
    stabilizer: str | None = "SN",
    bound: float = 0.99,
) -> ms.Problem:
    """Return the problem of the kernel mean: the system S with the least mean squared distance to the data.

    The objective is (8), ``-2/N sum_i k(S, S_i)``; a kernel whose ``k(S, S)`` is not constant adds it, as (7) demands.

    Parameters
    ----------
    data : Systems or list of array-like of shape (T_i, d)
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or an object with the methods of a kernel.
    n_states, center, scale, delay, stabilizer
        How sequences are identified, see `LDSIdentifier`; without effect on `Systems`.
    bound : float
        Bound of the singular values of the mean's transition matrix; also of ``stabilizer="clip"``.

    Returns
    -------
    manifoldseq.Problem
        On ``kernel.manifold(m, n, bound)``, with points ``(lam, V, U)`` for ``A = diag(lam) V, C = U``. Initializers
        ``"medoid"`` (the datum with the least mean squared distance to all) and ``"random"``; mini-batches; for a
        kernel that is ``convex_in_output``, such as the projection kernel, the block update ``"polar"`` of U, which
        never raises the objective.

    Raises
    ------
    ValueError
        If the data are refused by `LDSIdentifier` or the kernel.

    References
    ----------
    Huang, Harandi, Zhang, Fan, Sun, Huang: Efficient optimization for linear dynamical systems with applications to
    clustering and sparse coding, NIPS 2017, equations (7), (8), (11), (12).

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> data = Systems(A=[[[0.5]], [[0.7]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]])
    >>> result = ms.minimize(ms.get_model("lds.mean").build(data))
    >>> -2 <= result.fun <= -1.9
    True
    """
    kernel = resolved_kernel(kernel)
    check_bound(bound)
    if not isinstance(data, Systems):
        from ._identification import LDSIdentifier

        data = LDSIdentifier(
            n_states, center=center, scale=scale, delay=delay, stabilizer=stabilizer, bound=bound
        ).fit_transform(data)
    manifold = kernel.manifold(data.n_outputs, data.n_states, bound)
    items = items_on(manifold, data)
    packed = kernel.pack(items)
    medoid = _Medoid(kernel, items, packed)
    return ms.Problem(manifold, mean_objective(kernel, packed), {"medoid": medoid, "random": _random})


def mean_objective(kernel: Any, packed: Any) -> ms.Objective:
    """Return the objective of the mean of packed systems: (8), and k(S, S) where it is not constant, as in (7)."""
    N = len(packed)
    both = ms.objectives.last_point(partial(_both, kernel, packed, np.full(N, -2 / N)))
    polar = ms.objectives.BlockUpdate("polar", ("U",), partial(_polar, both))
    return ms.Objective(
        partial(_value, both),
        both,
        terms=ms.objectives.FiniteTerms(N, partial(_batch, kernel, packed)),
        updates=(polar,) if getattr(kernel, "convex_in_output", False) and kernel.constant_diagonal else (),
    )


# Module-level functions under partial, so that the problem can be pickled.


def _both(kernel: Any, packed: Any, beta: Array, point: Point) -> tuple[float, Point]:
    value, gradient = kernel.weighted(point, packed, beta)
    if kernel.constant_diagonal:
        return value, gradient
    own, own_gradient = kernel.self_term(point)
    return value + own, tuple(g + h for g, h in zip(gradient, own_gradient, strict=True))


def _value(both: Any, point: Point) -> float:
    return both(point)[0]


def _polar(both: Any, point: Point) -> Point:
    lam, V, _ = point
    return lam, V, ms.linalg.polar(-both(point)[1][2])  # (8) is concave and quadratic in U: minorize, maximize


def _batch(kernel: Any, packed: Any, rows: np.ndarray) -> ms.Objective:
    return mean_objective(kernel, packed[rows])


def items_on(manifold: Any, systems: Systems) -> Systems:
    """Return systems with the fields that points of the manifold have: A, C, and the first state if it has one."""
    with_state = len(manifold.shape) > 3
    if with_state and systems.x1 is None:
        raise ValueError("the kernel needs first states: pass Systems with x1, or sequences")
    return Systems.trusted({"A": systems.A, "C": systems.C, "x1": systems.x1 if with_state else None})


def medoid_row(kernel: Any, packed: Any) -> int:
    """Return the row of the system with the least sum of squared distances to all."""
    N = len(packed)
    blocks = (packed[i : i + _MEDOID_ROWS] for i in range(0, N, _MEDOID_ROWS))
    sums = np.concatenate([kernel.cross(block, packed).sum(axis=1) for block in blocks])
    return int(np.argmin(N * kernel.diag(packed) - 2 * sums))


@dataclass(frozen=True)
class _Medoid:
    """The initializer that starts from the datum with the least mean squared distance in feature space to all."""

    kernel: Any
    systems: Systems
    packed: Any

    def __call__(self, problem: ms.Problem, rng: np.random.Generator) -> Point:
        best = self.systems[[medoid_row(self.kernel, self.packed)]]
        return problem.manifold.nearest(tuple(leaf[0] for leaf in canonical_form(best.A, best.C, best.x1)))


def _random(problem: ms.Problem, rng: np.random.Generator) -> Point:
    return problem.manifold.random_point(rng)


def canonical_form(A: ArrayLike, C: ArrayLike, x1: ArrayLike | None = None, *, bound: float | None = None) -> Point:
    """Return the canonical tuple ``(lam, V, U)`` of systems, with ``A`` P-equivalent to ``diag(lam) V`` (Theorem 1).

    From the singular value decomposition ``A = W diag(s) Z'``: ``lam = s``, ``V = Z' W``, ``U = C W``. A bound clips
    lam, so that the system is no longer equivalent where it acts.

    Parameters
    ----------
    A : array (..., n, n)
    C : array (..., m, n)
    x1 : array (..., n), optional
        First states: then the tuple has the fourth part ``W' x1``.
    bound : float, optional

    Returns
    -------
    lam : array (..., n)
    V : array (..., n, n)
    U : array (..., m, n)

    Examples
    --------
    >>> import numpy as np
    >>> lam, V, U = canonical_form(np.array([[0.0, 0.5], [0.0, 0.0]]), np.eye(3, 2))
    >>> lam.tolist()
    [0.5, 0.0]
    """
    W, s, Zt = np.linalg.svd(np.asarray(A))
    lam = s if bound is None else np.minimum(s, bound)
    form = lam, Zt @ W, np.asarray(C) @ W
    return form if x1 is None else (*form, (W.swapaxes(-1, -2) @ np.asarray(x1)[..., None])[..., 0])
