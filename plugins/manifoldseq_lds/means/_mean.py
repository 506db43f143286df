"""The mean of linear dynamical systems under a kernel: model ``lds.mean``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

from ..identification._identifier import LDSIdentifier, check_bound
from ..identification._sequence_input import chosen_identifier
from ..kernels._resolved import resolved_kernel
from ..systems._record import Systems
from . import _stable_systems as stable
from ._common_problem import checked_weights, common_problem, own_weight

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]

_MEDOID_ROWS = 256


def build(
    data: Any,
    *,
    beta: ArrayLike | None = None,
    kernel: Any = "projection",
    n_states: int | str | None = None,
    identifier: LDSIdentifier | None = None,
    bound: float = 0.99,
) -> ms.Problem:
    """Return the problem of the kernel mean, or of a weighted sum of kernels of one system with the data (11), (12).

    The objective of the mean, the system S with the smallest mean squared distance to the data, is (8), ``-2/N sum_i
    k(S, S_i)``; for kernels whose ``k(S, S)`` is not constant, ``k(S, S)`` is added, as in (7).

    Parameters
    ----------
    data : Systems or list of array-like of shape (T_i, d)
    beta : array-like of shape (N,), optional
        Weights of any sign. The objective is then ``sum_i beta_i k(S, S_i)``.
    kernel : str or kernel object
        A registered name, such as ``"projection"``, or a kernel object.
    n_states : int or str
        The number of states of the identified systems; short for ``identifier=LDSIdentifier(n_states)``.
    identifier : LDSIdentifier, optional
        The identification of sequences, by default ``LDSIdentifier()``. The object is copied, and it is not used for
        `Systems`.
    bound : float
        Bound of the singular values of the mean's transition matrix.

    Returns
    -------
    manifoldseq.Problem
        A problem on ``kernel.manifold(m, n, bound)``, with points ``(lam, V, U)`` for ``A = diag(lam) V, C = U``. It
        has the initializers ``"medoid"`` (the datum with the smallest objective) and ``"random"``; mini-batches; if no
        weight is positive, for a kernel that is ``convex_in_output``, such as the projection kernel, the block update
        ``"polar"`` of U, which never increases the objective.

    Raises
    ------
    ValueError
        If `LDSIdentifier` or the kernel raises it for the data.

    References
    ----------
    Huang, Harandi, Zhang, Fan, Sun, Huang: Efficient optimization for linear dynamical systems with applications to
    clustering and sparse coding, NIPS 2017, equations (7), (8), (11), (12).

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> data = Systems(A=[[[0.5]], [[0.7]]], C=[[[1.0], [0.0]], [[1.0], [0.0]]])
    >>> result = ms.minimize(ms.get_model("lds.mean").problem(data))
    >>> -2 <= result.fun <= -1.9
    True
    """
    kernel = resolved_kernel(kernel)
    check_bound("bound", bound)
    systems = identified(data, n_states, identifier)
    own = 1.0 if beta is None else 0.0
    return common_problem(kernel, systems, checked_weights(beta, len(systems)), own_weight(kernel, own), bound)


def prepare_stable(
    data: Any, *, kernel: Any = "projection", n_states: int | str | None = None, identifier: LDSIdentifier | None = None
) -> ms.Prepared:
    """Prepare the kernel mean (8) over all stable systems, with points [A; C] of orthonormal columns.

    Parameters
    ----------
    data : Systems or list of array-like of shape (T_i, d), or Means
        Estimators pass `Means`, which are packed and weighted already; the other parameters are then ignored.
    kernel : str or kernel object
        A function of observability subspaces, such as ``"projection"``.
    n_states, identifier
        As in the model ``"lds.mean"``.

    Raises
    ------
    ValueError
        If the kernel is not such a function, and for the reasons of `LDSIdentifier`.
    """
    if not isinstance(data, stable.Means):
        kernel, systems = resolved_kernel(kernel), identified(data, n_states, identifier)
        if not stable.covers(kernel):
            raise ValueError(
                f"kernel={kernel!r} is not a function of observability subspaces: use the model 'lds.mean'"
            )
        N = len(systems)
        data = stable.Means(kernel, kernel.pack(systems), np.full(N, -2 / N), [(0, N)])
    return ms.Prepared(data, n=len(data.packed))


def identified(data: Any, n_states: int | str | None, identifier: LDSIdentifier | None) -> Systems:
    """Return the systems of sequences; systems are returned unchanged."""
    return data if isinstance(data, Systems) else chosen_identifier(identifier, n_states).fit_transform(data)


def medoid_row(kernel: Any, packed: Any) -> int:
    """Return the row of the system with the smallest sum of squared distances to all systems."""
    N = len(packed)
    # one block whole: a kernel has half the work of a matrix with itself
    blocks = [packed] if N <= _MEDOID_ROWS else [packed[i : i + _MEDOID_ROWS] for i in range(0, N, _MEDOID_ROWS)]
    sums = np.concatenate([kernel.cross(block, packed).sum(axis=1) for block in blocks])
    return int(np.argmin(N * kernel.diag(packed) - 2 * sums))
