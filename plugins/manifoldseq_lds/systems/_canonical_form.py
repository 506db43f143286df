"""The canonical form of linear dynamical systems (Theorem 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Point = tuple[NDArray[Any], ...]


def canonical_form(A: ArrayLike, C: ArrayLike, x1: ArrayLike | None = None, *, bound: float | None = None) -> Point:
    """Return the canonical tuple ``(lam, V, U)`` of systems, with ``A`` P-equivalent to ``diag(lam) V`` (Theorem 1).

    The singular value decomposition ``A = W diag(s) Z'`` gives ``lam = s``, ``V = Z' W`` and ``U = C W``. A bound clips
    the entries of lam; if an entry is clipped, the result is not equivalent to the system.

    Parameters
    ----------
    A : array (..., n, n)
    C : array (..., m, n)
    x1 : array (..., n), optional
        First states. If they are given, the tuple has the fourth part ``W' x1``.
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
    # Theorem 1: with A = W S Z', in the basis W the system is (W'AW, CW) = (S Z'W, CW), and V = Z'W is orthogonal
    W, s, Zt = np.linalg.svd(np.asarray(A))
    lam = s if bound is None else np.minimum(s, bound)
    form = lam, Zt @ W, np.asarray(C) @ W
    return form if x1 is None else (*form, (W.swapaxes(-1, -2) @ np.asarray(x1)[..., None])[..., 0])
