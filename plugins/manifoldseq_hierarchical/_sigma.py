"""Sigma (8) as a d×d matrix: for classes that are not a partition of the frames, and as a reference."""

import numpy as np
from numpy.typing import NDArray

from ._classes import Members, member_rows
from ._closed_form import signed
from ._moments import Array, centred, frame_blocks


def scatter_matrix(X: NDArray, point: Array) -> Array:
    """Return the sum of ``(x - point)(x - point)'`` over frames, d×d: S_0 (7), or the term of a class in S_w."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in frame_blocks(X):
        block = centred(X[rows], point)
        total += block.T @ block
    return total


def printed_sigma(X: NDArray, members: Members, centroids: Array, origin: Array) -> Array:
    """Return Sigma (8): the scatter of every class about its mean, minus S_0, each formed and then subtracted."""
    classes = zip(member_rows(members), centroids, strict=True)
    return sum(scatter_matrix(X[rows], centre) for rows, centre in classes) - scatter_matrix(X, origin)


def lowest_directions(Sigma: Array, n_components: int | None = None, tolerance: float = 0.0) -> tuple[Array, Array]:
    """Return eigenvectors of Sigma in ascending order of the eigenvalues (9)-(12), and all eigenvalues.

    Parameters
    ----------
    Sigma : ndarray of shape (d, d)
    n_components : int, optional
        By default the number of eigenvalues below ``-tolerance``. With 0 this is (13) as printed, which counts rounding
        errors.
    tolerance : float

    Returns
    -------
    V : ndarray of shape (d, m)
    eigenvalues : ndarray of shape (d,)
    """
    # (13): every direction of negative eigenvalue lowers F, and no other one does
    eigenvalues, Q = np.linalg.eigh(Sigma)
    m = int((eigenvalues < -tolerance).sum()) if n_components is None else n_components
    return signed(Q[:, :m]), eigenvalues
