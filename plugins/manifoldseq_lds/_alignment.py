"""Alignment of the state bases of systems by rotations (Afsari et al. 2012), many systems at once."""

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

Array = NDArray[np.float64]

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
    N = len(A)
    P = C.swapaxes(1, 2) @ C0
    Q = _starts(P, start)
    best, best_gain = Q[0].copy(), np.full(N, -np.inf)
    transposed = A.swapaxes(1, 2)
    for step in range(n_steps + 1):
        # their sum with P is minus half the gradient, but for terms that cancel in the generator of the Cayley curve
        forth, back = A @ Q @ A0.T, transposed @ Q @ A0
        gain = np.einsum("snij,snij->sn", Q, forth + P)
        for one, value in zip(Q, gain, strict=True):
            better = value > best_gain
            best[better], best_gain[better] = one[better], value[better]
        if step < n_steps:
            Q = ms.linalg.cayley(Q, -(forth + back + P), rate)
    return best


def alignment_cost(A: Array, C: Array, A0: Array, C0: Array, Q: Array) -> Array:
    """Return ``norm(Q'AQ - A0)**2 + norm(CQ - C0)**2`` of every system, of shape (N,)."""
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
