"""Identification under output noise: subspaces of past and future (N4SID), and expectation maximization, in batches."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._kalman import compress, kalman_filter, noise_covariance
from ..systems._prediction import symmetric_root
from ..systems._record import Systems, chosen, replaced
from ._em import sweep
from ._missing import finite_systems
from ._subspace_method import Subspace, noise_factor, subspace

Array = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]

_BLOCK_ROWS = 5
_COVARIANCE_SWEEPS = 10
_RANK = 1e-8
"""States below this fraction of the strongest state count as missing: the sequence spans fewer than n dimensions."""
_FAR = 1.0
"""Maximum loss of log-likelihood per recorded value compared with PCA: a standard deviation too large by e costs 1."""
_SLOWEST = 0.999
"""Maximum spectral radius for the propagation of effects of inputs through a sequence."""


def block_rows(T: int, m: int, n: int, delay: int, n_inputs: int = 0) -> tuple[int, int] | None:
    """Return the block rows i and the directions k of the outputs for T steps; None if T is too short.

    The preferred values are i = 5 and k = m, with at least twice as many columns as rows in the past. For shorter
    sequences, the number of directions is reduced first, then the number of block rows, then the number of columns,
    which must still determine the past. Rows of inputs are reserved first. With fewer outputs than states, all
    directions and more rows are needed: preferably 1 + 2 n / m, at least 1 + n / m, so that all block rows except one
    contain all states.
    """
    least = 1 + -(-n // m)
    for enough in (2, 1):
        for i in range(most_rows(n, m), least - 1, -1):
            columns = T - 2 * i - delay + 2 - 2 * n_inputs * (i + delay - 1)
            k = min(m, T, columns // (enough * i))
            if k >= min(m, n):
                return i, k
    return None


def most_rows(n: int, m: int) -> int:
    """Return the number of block rows for n states and m outputs, in sequences that are long enough."""
    return max(_BLOCK_ROWS, 1 - (-2 * n // m))


def n4sid(
    Y: Array, n: int, center: bool, delay: int, inputs: Array | None = None, covariance_type: str = "diag"
) -> tuple[Systems, Flags]:
    """Identify systems from the correlation of past and future, to which output noise does not contribute.

    Van Overschee and De Moor (1994); A by shift invariance of the observability matrix (Verhaegen 1994), covariances of
    the noises by ten sweeps of expectation maximization with fixed A and C. Future inputs are projected out, and past
    inputs are part of the past (Verhaegen 1994, PO-MOESP); B and D follow by least squares.

    Parameters
    ----------
    Y : ndarray of shape (N, m, T)
        Outputs of `delay` stacked steps; long enough for `block_rows`.
    n : int
    center : bool
    delay : int
        Distance between past and future, so that they share no noise.
    inputs : ndarray of shape (N, T, p), optional
        Stacked like the outputs.
    covariance_type : {"diag", "full"}

    Returns
    -------
    systems : Systems
        Systems with the estimated A, which may be unstable. C is orthonormal; with fewer outputs than states, the
        observability matrix is orthonormal instead.
    found : ndarray of bool of shape (N,)
        False for a sequence that spans fewer than n dimensions, whose system is meaningless.
    """
    sizes = block_rows(Y.shape[2], Y.shape[1], n, delay, 0 if inputs is None else inputs.shape[2] // delay)
    assert sizes is not None
    i, k = sizes
    parts = subspace(Y, center, k)
    Z = parts.s[:, :k, None] * parts.Vt[:, :k]
    # Hankel matrices of past and future, (N, k i, columns)
    columns = Z.shape[2] - 2 * i - delay + 2
    first = i + delay - 1
    past, future = _hankel(Z, 0, i, columns), _hankel(Z, first, i, columns)
    if inputs is not None:
        U = inputs.swapaxes(1, 2)
        U = U - U.mean(axis=2, keepdims=True) if center else U
        ahead = row_space(_hankel(U, first, i, columns), _RANK)
        past = np.concatenate([past, _hankel(U, 0, i, columns)], axis=1)
        past, future = (M - M @ ahead.swapaxes(1, 2) @ ahead for M in (past, future))
    # the future projected on the rows of the past: F V V' = G X, with observability G of i block rows
    future, Vt = _on_rows(future, past)
    U, s, Wt = np.linalg.svd(future, full_matrices=False)
    G, X = U[:, :, :n], (s[:, :n, None] * Wt[:, :n]) @ Vt
    found = s[:, n - 1] > _RANK * s[:, 0]
    A, first_rows, full, R = _shifted(G, k)
    found &= full
    X, C = R @ X, parts.U[:, :, :k] @ first_rows
    signs = _signs(C)
    A, X, C = signs.swapaxes(1, 2) * A * signs, signs.swapaxes(1, 2) * X, C * signs
    if inputs is None:
        seen = Y if parts.mean is None else Y - parts.mean[:, :, None]
        made = _with_noises(A, C, X, seen[:, :, first : first + columns], seen, parts)
        # The first state is estimated from the first i outputs. C'y(1) is no estimate where a single output hardly
        # shows a state: its noise is then multiplied by the condition number of C, and the sweeps do not recover.
        x1 = R @ (G.swapaxes(1, 2) @ _hankel(Z, 0, i, 1))
        made = replaced(made, x1=signs[:, 0] * x1[:, :, 0])
    else:
        # what inputs leave is a sequence of its own, whose states say how large the noises are
        driven, seen = with_inputs(Systems.trusted({"A": A, "C": C, "mean": parts.mean}), Y.swapaxes(1, 2), inputs)
        seen = seen.swapaxes(1, 2)
        left = parts.U[:, :, :k].swapaxes(1, 2) @ seen
        future, Vt = _on_rows(_hankel(left, first, i, columns), _hankel(left, 0, i, columns))
        X = signs.swapaxes(1, 2) * (R @ (G.swapaxes(1, 2) @ future @ Vt))
        made = _with_noises(A, C, X, seen[:, :, first : first + columns], seen, parts)
        made = replaced(made, x1=driven.x1, mean=driven.mean, B=driven.B, D=driven.D)
    made = shaped(made, covariance_type)
    return improved(made, Y.swapaxes(1, 2), inputs, _COVARIANCE_SWEEPS, covariance_type, held=True), found


def checked_by(reference: Systems, systems: Systems, Y: Array, inputs: Array | None, covariance_type: str) -> Systems:
    """Return systems after each that is much less likely than the `reference` of PCA has been recomputed.

    Ten sweeps of expectation maximization, which do not lower the likelihood, then learn all parameters, starting from
    the reference. Y is (N, T, m), NaN where missing.
    """
    own, least = (kalman_filter(one, compress(one, Y, inputs)).log_likelihood for one in (systems, reference))
    far = ~(own > least - _FAR * np.count_nonzero(~np.isnan(Y), axis=(1, 2)))
    if not far.any():
        return systems
    some = None if inputs is None else inputs[far]
    again = maximized(reference[far], Y[far], some, _COVARIANCE_SWEEPS, covariance_type)
    again = chosen(finite_systems(again), again, reference[far])
    made = {one.name: getattr(systems, one.name) for one in fields(Systems)}
    for name, value in made.items():
        if value is not None:
            made[name] = value.copy()
            made[name][far] = getattr(again, name)
    return Systems.trusted(made)


def _shifted(G: Array, m: int) -> tuple[Array, Array, Flags, Array]:
    """Return A, C, whether it has full rank, and R from observability matrices G (N, m i, n) = [C; C A; …] R."""
    A = np.linalg.pinv(G[:, :-m], rtol=1e-12) @ G[:, m:]
    N, _, n = G.shape
    if m < n:
        return A, G[:, :m], np.ones(N, bool), np.broadcast_to(np.eye(n), (N, n, n))
    # in the basis in which C is orthonormal: the first block of G is C R, and the states are R X
    C, R = np.linalg.qr(G[:, :m])
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    full = diagonal.min(axis=1) > _RANK * np.maximum(diagonal.max(axis=1), 1e-300)
    R = np.where(full[:, None, None], R, np.eye(n))
    return _changed(A, R), C, full, R


def basis_of(G: Array, m: int) -> tuple[Array, Array, Flags]:
    """Return A and C of observability matrices G (N, m i, n), with canonical signs, and whether C has full rank."""
    A, C, full, _ = _shifted(G, m)
    signs = _signs(C)
    return signs.swapaxes(1, 2) * A * signs, C * signs, full


def _hankel(Z: Array, start: int, rows: int, columns: int) -> Array:
    return np.concatenate([Z[:, :, start + j : start + j + columns] for j in range(rows)], axis=1)


def row_space(M: Array, rank: float) -> Array:
    """Return an orthonormal basis of the rows, padded with zeros."""
    _, s, Vt = np.linalg.svd(M, full_matrices=False)
    return Vt * (s > rank * s[..., :1])[..., None]


def _on_rows(future: Array, past: Array) -> tuple[Array, Array]:
    """Return the future in coordinates of the orthonormalized rows of the past, and these rows."""
    Vt = row_space(past, 1e-10)
    return future @ Vt.swapaxes(1, 2), Vt


def _with_noises(A: Array, C: Array, X: Array, Y: Array, whole: Array, parts: Subspace) -> Systems:
    """Return systems with the covariances of the residuals of states X and outputs Y, both (N, ., columns)."""
    variance = np.mean((Y - C @ X) ** 2, axis=2)
    least = np.maximum(1e-10 * np.mean(whole**2, axis=(1, 2)), (np.finfo(float).eps * parts.peak) ** 2)
    Omega = np.maximum(variance, np.maximum(least, 1e-100)[:, None])
    return Systems.trusted({"A": A, "C": C, "noise_factor": noise_factor(A, X), "mean": parts.mean, "Omega": Omega})


def with_inputs(systems: Systems, Y: Array, inputs: Array) -> tuple[Systems, Array]:
    """Return systems with B, D, first states and means by least squares, and the residuals of the outputs.

    The expected outputs ``mean + D u(t) + C (A^t x1 + sum_s A^(t-1-s) B u(s))`` are linear in all unknowns.

    Parameters
    ----------
    systems : Systems
        Systems; the mean is estimated if they have one.
    Y : ndarray of shape (N, T, m)
    inputs : ndarray of shape (N, T, p)
    """
    A, C = systems.A, systems.C
    (N, T, p), n = inputs.shape, systems.n_states
    radius = np.abs(np.linalg.eigvals(np.nan_to_num(A))).max(axis=1)
    A = A * np.minimum(1, _SLOWEST / np.maximum(radius, 1e-300))[:, None, None]
    # the states that follow from each entry of x1 and from each entry of B, (N, T, n, n + n p)
    H = np.empty((N, T, n, n + n * p))
    H[:, 0] = np.eye(n, n + n * p)
    for t in range(1, T):
        H[:, t] = A @ H[:, t - 1]
        H[:, t, :, n:] += (np.eye(n)[:, :, None] * inputs[:, t - 1, None, None]).reshape(N, n, n * p)
    # coordinates C'y of the outputs, or y where C has no orthonormal columns, with what [u; 1] explains left out
    E, H_seen = coordinates(C), H if C.shape[1] >= n else C[:, None] @ H
    direct = inputs if systems.mean is None else np.concatenate([inputs, np.ones((N, T, 1))], axis=2)
    base = row_space(direct.swapaxes(1, 2), 1e-12)

    def remainder(M: Array) -> Array:
        return M - base.swapaxes(1, 2) @ (base @ M)

    left = remainder(H_seen.reshape(N, T, -1)).reshape(N, T * E.shape[2], -1)
    right = remainder(Y @ E).reshape(N, T * E.shape[2], 1)
    theta = np.linalg.pinv(left, rtol=1e-10) @ right
    dynamic = (H @ theta[:, None])[..., 0] @ C.swapaxes(1, 2)
    W = (np.linalg.pinv(direct, rtol=1e-12) @ (Y - dynamic)).swapaxes(1, 2)
    B = np.ascontiguousarray(theta[:, n:, 0].reshape(N, n, p))
    D = np.ascontiguousarray(W[:, :, :p])
    mean = None if systems.mean is None else np.ascontiguousarray(W[:, :, p])
    found = replaced(systems, x1=theta[:, :n, 0].copy(), B=B, D=D, mean=mean)
    return found, Y - dynamic - direct @ W.swapaxes(1, 2)


def coordinates(C: Array) -> Array:
    """Return E such that ``y E`` contains the information of outputs y about states: C, or I for few outputs."""
    m, n = C.shape[-2:]
    return C if m >= n else np.broadcast_to(np.eye(m), (*C.shape[:-2], m, m))


def maximized(systems: Systems, Y: Array, inputs: Array | None, sweeps: int, covariance_type: str) -> Systems:
    """Return systems after sweeps of expectation maximization on outputs Y (N, T, m), NaN where missing.

    All parameters are estimated; C is orthonormalized at the end, unless there are fewer outputs than states.
    """
    systems = improved(systems, Y, inputs, sweeps, covariance_type, held=False)
    if systems.n_outputs < systems.n_states:
        return systems
    Q, R = np.linalg.qr(systems.C)
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    # an output matrix that lost its rank has no such basis: the caller keeps the start
    lost = ~(diagonal.min(axis=1) > _RANK * diagonal.max(axis=1))
    R = np.where(lost[:, None, None], np.nan, R)
    signs = _signs(Q)
    R, C = signs.swapaxes(1, 2) * R, Q * signs
    assert systems.x1 is not None and systems.P1 is not None
    factor = symmetric_root(np.nan_to_num(R @ noise_covariance(systems) @ R.swapaxes(1, 2)))
    x1, P1 = (R @ systems.x1[:, :, None])[:, :, 0], R @ systems.P1 @ R.swapaxes(1, 2)
    B = None if systems.B is None else R @ systems.B
    P1 = 0.5 * (P1 + P1.swapaxes(1, 2))
    return replaced(systems, A=_changed(systems.A, R), C=C, x1=x1, noise_factor=factor, P1=P1, B=B)


def improved(
    systems: Systems, Y: Array, inputs: Array | None, sweeps: int, covariance_type: str, *, held: bool
) -> Systems:
    """Perform one sweep; systems with non-finite new parameters or likelihoods are not changed."""
    for _ in range(sweeps):
        better, filtered = sweep(systems, Y, inputs, covariance_type=covariance_type, held=held)
        systems = chosen(finite_systems(better) & np.isfinite(filtered.log_likelihood), better, systems)
    return systems


def shaped(systems: Systems, covariance_type: str) -> Systems:
    """Return systems with all covariances: of the first state, and of the outputs as a matrix if "full"."""
    P1 = noise_covariance(systems) if systems.P1 is None else systems.P1
    Omega = systems.Omega
    if covariance_type == "full" and Omega is not None and Omega.ndim == 2:
        Omega = Omega[:, :, None] * np.eye(Omega.shape[1])
    return replaced(systems, P1=P1, Omega=Omega)


def _changed(A: Array, R: Array) -> Array:
    """Return R A R^-1."""
    return np.linalg.solve(R.swapaxes(1, 2), (R @ A).swapaxes(1, 2)).swapaxes(1, 2)


def _signs(C: Array) -> Array:
    """Return the signs (N, 1, n) that make the largest entry of each column of C positive."""
    largest = np.take_along_axis(C, np.abs(C).argmax(axis=1, keepdims=True), axis=1)
    return np.where(largest < 0, -1.0, 1.0)
