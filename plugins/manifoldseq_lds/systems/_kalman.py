"""Kalman filter, smoother and likelihood of model (1), for many sequences of one length at once.

Outputs enter through n numbers per step. With ``Omega^-1/2 C = Q R`` and ``v = Omega^-1/2 (y - mean)``, restricted to
the outputs that are seen, ``|v - Omega^-1/2 C x|^2 = |z - R x|^2 + |v - Q z|^2``, ``z = Q'v``, where the second term
does not depend on the states. So the recursions cost the same for any number of outputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._record import Systems

Array = NDArray[np.floating[Any]]

_CHUNK = 2**22
"""Numbers of a block of ``Omega^-1/2 C`` that is decomposed at once."""


@dataclass(frozen=True)
class Compressed:
    """Outputs as n numbers ``z = R x + e`` per step, e of unit variance.

    Parameters
    ----------
    z : ndarray of shape (N, T, n)
    R : ndarray of shape (N, T, n, n) or (N, 1, n, n)
    rest : ndarray of shape (N,)
        What the log-likelihood has beside that of z.
    """

    z: Array
    R: Array
    rest: Array


@dataclass(frozen=True)
class Filtered:
    """States given the outputs until each step, and what the smoother needs to go back.

    Parameters
    ----------
    x, P : ndarray of shape (N, T, n), (N, T, n, n)
        Means and covariances of the states given the outputs until then.
    before, P_before : ndarray of shape (N, T, n), (N, T, n, n)
        The same given the outputs before.
    weight, gain : ndarray of shape (N, T, n), (N, T, n, n)
        ``R' S^-1 (z - R before)`` and ``R' S^-1 R``, with S the covariance of z given the outputs before.
    log_likelihood : ndarray of shape (N,)
    """

    x: Array
    P: Array
    before: Array
    P_before: Array
    weight: Array
    gain: Array
    log_likelihood: Array


def compress(systems: Systems, Y: Array) -> Compressed:
    """Return the outputs Y of shape (N, T, m), in which NaN marks what is missing, as n numbers per step."""
    noise = systems.Omega
    assert noise is not None
    N, T, m = Y.shape
    n = systems.n_states
    seen = ~np.isnan(Y)
    Y = Y if systems.mean is None else Y - systems.mean[:, None]
    Y = np.where(seen, Y, 0.0) / np.sqrt(noise)[:, None]
    C = systems.C / np.sqrt(noise)[:, :, None]
    # in units of the noise, C = Q R: z = Q'y, (N, T, n), says of the states all that y does, and the rest of y is noise
    if seen.all():
        Q, R = np.linalg.qr(C)
        z, R = Y @ Q, R[:, None]
        rest = ((Y - z @ Q.swapaxes(1, 2)) ** 2).sum(axis=(1, 2))
    else:
        z, R, rest = np.empty((N, T, n)), np.empty((N, T, n, n)), np.zeros(N)
        # a decomposition for every step, of the outputs that are seen in it
        rows = np.argwhere(np.ones((N, T)))
        for part in np.array_split(rows, max(1, len(rows) * m * n // _CHUNK)):
            i, t = part.T
            Q, R[i, t] = np.linalg.qr(C[i] * seen[i, t][:, :, None])
            z[i, t] = (Y[i, t][:, None] @ Q)[:, 0]
            np.add.at(rest, i, ((Y[i, t] - (Q @ z[i, t][:, :, None])[:, :, 0]) ** 2).sum(axis=1))
    logs = (seen.sum(axis=1) * np.log(2 * np.pi * noise)).sum(axis=1)
    return Compressed(z, R, -0.5 * (rest + logs))


def kalman_filter(systems: Systems, outputs: Compressed) -> Filtered:
    """Run the filter, from ``x(1) ~ N(x1, BB')``: the first state is as uncertain as one step makes it."""
    z, R = outputs.z, outputs.R
    N, T, n = z.shape
    A, Q = systems.A, _covariance(systems)
    x, P = _first_state(systems), Q.copy()
    made = Filtered(*(np.empty((N, T, n) + (n,) * k) for k in (0, 1, 0, 1, 0, 1)), log_likelihood=outputs.rest.copy())
    one = np.eye(n)
    for t in range(T):
        if t:
            x = _times(A, x)
            P = A @ P @ A.swapaxes(1, 2) + Q
        made.before[:, t], made.P_before[:, t] = x, P
        Rt = R[:, min(t, R.shape[1] - 1)]
        # innovation z - R x of covariance S = R P R' + I = LL'; all that follows is a product with L^-1
        RP = Rt @ P
        factor = np.linalg.cholesky(RP @ Rt.swapaxes(1, 2) + one)
        inverse = np.linalg.inv(factor)
        error = _times(inverse, z[:, t] - _times(Rt, x))
        RtS, RPS = inverse @ Rt, inverse @ RP  # S^-1/2 R and S^-1/2 R P
        made.log_likelihood[:] -= 0.5 * (error * error).sum(axis=1)
        made.log_likelihood[:] -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        made.weight[:, t], made.gain[:, t] = _times(RtS.swapaxes(1, 2), error), RtS.swapaxes(1, 2) @ RtS
        x = x + _times(RPS.swapaxes(1, 2), error)
        P = P - RPS.swapaxes(1, 2) @ RPS
        P = 0.5 * (P + P.swapaxes(1, 2))
        made.x[:, t], made.P[:, t] = x, P
    return made


def smooth(systems: Systems, filtered: Filtered) -> tuple[Array, Array, Array]:
    """Return means, covariances and covariances of consecutive states given all outputs.

    Of shapes (N, T, n), (N, T, n, n) and, of each state with the one before, (N, T - 1, n, n). The form of Bryson and
    Frazier (Bierman 1973), which inverts no covariance of a state.
    """
    f, A = filtered, systems.A
    N, T, n = f.x.shape
    x, P, lagged = np.empty_like(f.x), np.empty_like(f.P), np.empty((N, T - 1, n, n))
    weight, gain = np.zeros((N, n)), np.zeros((N, n, n))
    for t in range(T - 1, -1, -1):
        # the state before the output at t: what it adds, and what is left of the later ones
        keep = np.eye(n) - f.gain[:, t] @ f.P_before[:, t]
        weight = f.weight[:, t] + _times(keep, weight)
        gain = f.gain[:, t] + keep @ gain @ keep.swapaxes(1, 2)
        x[:, t] = f.before[:, t] + _times(f.P_before[:, t], weight)
        P[:, t] = f.P_before[:, t] - f.P_before[:, t] @ gain @ f.P_before[:, t]
        if t:
            lagged[:, t - 1] = (np.eye(n) - f.P_before[:, t] @ gain) @ A @ f.P[:, t - 1]
        weight, gain = _times(A.swapaxes(1, 2), weight), A.swapaxes(1, 2) @ gain @ A
    return x, 0.5 * (P + P.swapaxes(2, 3)), lagged


def outputs_of(systems: Systems, x: Array) -> Array:
    """Return ``mean + C x`` for states of shape (N, T, n)."""
    Y = x @ systems.C.swapaxes(1, 2)
    return Y if systems.mean is None else Y + systems.mean[:, None]


def _first_state(systems: Systems) -> Array:
    return np.zeros((len(systems), systems.n_states)) if systems.x1 is None else systems.x1


def _covariance(systems: Systems) -> Array:
    if systems.B is None:
        return np.zeros_like(systems.A)
    return systems.B @ systems.B.swapaxes(1, 2)


def _times(M: Array, x: Array) -> Array:
    """Return the products of matrices (N, n, k) and vectors (N, k)."""
    return (M @ x[:, :, None])[:, :, 0]
