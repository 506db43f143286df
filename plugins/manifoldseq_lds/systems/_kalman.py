"""Kalman filter, smoother and likelihood of model (1) with inputs, for many sequences of one length at once.

Outputs enter through k = min(m, n) numbers per step. With ``Omega = L L'``, ``L^-1 C = Q R`` and ``v = L^-1 (y - mean -
D u)``, restricted to the recorded outputs, ``z = Q'v`` has ``|v - L^-1 C x|^2 = |z - R x|^2 + |v - Q z|^2``, where the
second term does not depend on the states. The cost of the recursions is therefore independent of the number of outputs.

Covariances depend on which outputs are recorded, not on their values. If all outputs are recorded, covariances converge
in a few steps; afterwards they are constant, and the means follow a linear recursion with constant coefficients.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._record import Systems

Array = NDArray[np.floating[Any]]

_CHUNK = 2**22
"""Maximum number of values of a block of ``L^-1 C`` that is decomposed together."""
_CONVERGED = 1e-14
"""Change of a covariance in one step, in units of its diagonal, below which it counts as constant."""


@dataclass(frozen=True)
class Compressed:
    """Outputs as k = min(m, n) numbers ``z = R x + e`` per step, e of unit variance.

    Parameters
    ----------
    z : ndarray of shape (N, T, k)
    R : ndarray of shape (N, T, k, n) or (N, 1, k, n)
    rest : ndarray of shape (N,)
        Terms of the log-likelihood that do not depend on z.
    drive : ndarray of shape (N, T, n) or None
        The contribution of the inputs of a step to the next state.
    """

    z: Array
    R: Array
    rest: Array
    drive: Array | None = None


@dataclass(frozen=True)
class Filtered:
    """States given the outputs up to each step, and quantities for the backward pass of the smoother.

    Matrices have K <= T steps; the last matrix holds for all later steps.

    Parameters
    ----------
    x, P : ndarray of shape (N, T, n), (N, K, n, n)
        Means and covariances of the states given the outputs up to each step.
    before, P_before : ndarray of shape (N, T, n), (N, K, n, n)
        Means and covariances of the states given the outputs before each step.
    weight, gain : ndarray of shape (N, T, n), (N, K, n, n)
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


def compress(systems: Systems, Y: Array, inputs: Array | None = None) -> Compressed:
    """Return the outputs Y (N, T, m), with NaN for missing values, as min(m, n) numbers per step.

    `inputs` of shape (N, T, p) belong to systems with B and D.
    """
    noise = systems.Omega
    assert noise is not None
    _, T, m = Y.shape
    n = systems.n_states
    seen = ~np.isnan(Y)
    if systems.mean is not None:
        Y = Y - systems.mean[:, None]
    drive = None
    if inputs is not None and systems.B is not None and systems.D is not None:
        Y = Y - inputs @ systems.D.swapaxes(1, 2)
        drive = inputs @ systems.B.swapaxes(1, 2)
    # in units of the noise, C = Q R: z = Q'y, (N, T, k), says of the states all that y does, and the rest of y is noise
    complete = seen.all(axis=2)
    _, R, z, rest = _decomposed(systems.C, noise, np.where(seen, Y, 0.0))
    if complete.all():
        return Compressed(z, R[:, None], -0.5 * rest.sum(axis=1), drive)
    # a decomposition of its own for every step in which something is missing: there C is zero, and the noise is white
    R = np.repeat(R[:, None], T, axis=1)
    rows = np.argwhere(~complete)
    for part in np.array_split(rows, len(rows) * m * (n if noise.ndim == 2 else m) // _CHUNK + 1):
        i, t = part.T
        there, y = seen[i, t], np.where(seen[i, t], Y[i, t], 0.0)
        some = np.where(there, noise[i], 1.0) if noise.ndim == 2 else restricted(noise[i], there)
        _, R[i, t], found, left = _decomposed(systems.C[i] * there[:, :, None], some, y[:, None])
        z[i, t] = found[:, 0]
        rest[i, t] = left[:, 0] - np.count_nonzero(~there, axis=1) * np.log(2 * np.pi)
    return Compressed(z, R, -0.5 * rest.sum(axis=1), drive)


def _decomposed(C: Array, noise: Array, Y: Array) -> tuple[Array, Array, Array, Array]:
    """Return Q (N, m, k), R, z = Y Q (N, T, k) in units of the noise, and the part of -2 ln p per step without z."""
    if noise.ndim == 2:
        C, Y = C / np.sqrt(noise)[:, :, None], Y / np.sqrt(noise)[:, None]
        logs = np.log(2 * np.pi * noise).sum(axis=1)
    else:
        factor = np.linalg.cholesky(noise)
        inverse = np.linalg.inv(factor)
        C, Y = inverse @ C, Y @ inverse.swapaxes(1, 2)
        logs = (np.log(2 * np.pi) + 2 * np.log(np.diagonal(factor, axis1=1, axis2=2))).sum(axis=1)
    Q, R = np.linalg.qr(C)
    z = Y @ Q
    return Q, R, z, ((Y - z @ Q.swapaxes(1, 2)) ** 2).sum(axis=2) + logs[:, None]


def restricted(noise: Array, seen: NDArray[np.bool_]) -> Array:
    """Return covariances (k, m, m) of recorded outputs, (k, m); missing outputs are independent with variance 1."""
    return np.where(seen[:, :, None] & seen[:, None], noise, 0.0) + ~seen[:, :, None] * np.eye(seen.shape[1])


def kalman_filter(systems: Systems, outputs: Compressed) -> Filtered:
    """Run the filter from ``x(1) ~ N(x1, P1)``; the default of P1 is the covariance of the state noise."""
    z, R = outputs.z, outputs.R
    (N, T, k), n = z.shape, systems.n_states
    A, Q = systems.A, noise_covariance(systems)
    P = Q if systems.P1 is None else systems.P1
    P_before, P_after, gain = (np.empty((N, T, n, n)) for _ in range(3))
    root, spread = np.empty((N, T, k, n)), np.empty((N, T, k, k))
    logs, one, steps, S = np.zeros(N), np.eye(k), T, np.zeros((N, k, k))
    for t in range(T):
        P_before[:, t] = P
        Rt = R[:, min(t, R.shape[1] - 1)]
        # innovation z - R x of covariance S = R P R' + I = LL'; all that follows is a product with L^-1
        RP = Rt @ P
        last, S = S, RP @ Rt.swapaxes(1, 2) + one
        factor = np.linalg.cholesky(S)
        spread[:, t] = np.linalg.inv(factor)
        root[:, t] = spread[:, t] @ Rt  # S^-1/2 R
        RPS = spread[:, t] @ RP
        gain[:, t] = root[:, t].swapaxes(1, 2) @ root[:, t]
        P = P - RPS.swapaxes(1, 2) @ RPS
        P_after[:, t] = P = 0.5 * (P + P.swapaxes(1, 2))
        log = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        logs += log
        P = A @ P @ A.swapaxes(1, 2) + Q
        if t and R.shape[1] == 1 and _settled(P, P_before[:, t]) and _settled(S, last):
            logs += (T - 1 - t) * log
            steps = t + 1
            break
    P_before, P_after, gain, root, spread = (M[:, :steps] for M in (P_before, P_after, gain, root, spread))
    # x(t+1 | t) = A (I - P gain) x(t | t-1) + A P R' S^-1 z(t) is all that goes from step to step
    rootT = root.swapaxes(2, 3)
    added = per_step(A[:, None] @ P_before @ rootT @ spread, z)
    if outputs.drive is not None:
        added += outputs.drive
    added = np.concatenate([_first_state(systems)[:, None], added[:, :-1]], axis=1)
    before = _accumulated(A[:, None] @ (np.eye(n) - P_before @ gain), np.arange(-1, T - 1).clip(0, steps - 1), added)
    error = per_step(spread, z - per_step(R, before))
    weight = per_step(rootT, error)
    x = before + per_step(P_before, weight)
    likelihood = outputs.rest - 0.5 * (error * error).sum(axis=(1, 2)) - logs
    return Filtered(x, P_after, before, P_before, weight, gain, likelihood)


def smooth(systems: Systems, filtered: Filtered) -> tuple[Array, Array, Array]:
    """Return means, covariances and covariances of consecutive states given all outputs.

    Shapes are (N, T, n), (N, T, n, n) and, for consecutive states, (N, T - 1, n, n). The form of Bryson and Frazier
    (Bierman 1973) does not invert covariances of states.
    """
    f, A = filtered, systems.A
    (N, T, n), K = f.x.shape, f.P.shape[1]
    At = A.swapaxes(1, 2)
    # the state before the output at t: what it adds, and what is left of the later ones
    keep = np.eye(n) - f.gain @ f.P_before
    at = np.arange(T).clip(0, K - 1)
    later = _accumulated(keep @ At[:, None], at[::-1], f.weight[:, ::-1])[:, ::-1]
    x = f.before + per_step(f.P_before, later)
    # `which` of the informations belongs to each step, and the last step that it belongs to
    which, informations, last = np.empty(T, np.intp), [], []
    total, t = np.zeros((N, n, n)), T - 1
    while t >= 0:
        before = total
        total = f.gain[:, at[t]] + keep[:, at[t]] @ (At @ total @ A) @ keep[:, at[t]].swapaxes(1, 2)
        # constant once it settles, back to the steps whose matrices differ
        first = K if t > K and _settled(total, before) else t
        which[first : t + 1] = len(last)
        informations.append(total)
        last.append(t)
        t = first - 1
    place = np.array(last)
    P_before = f.P_before[:, at[place]]
    PI = P_before @ np.stack(informations, axis=1)
    P = P_before - PI @ P_before
    lagged = (np.eye(n) - PI) @ (A[:, None] @ f.P[:, at[place - 1]])
    P = 0.5 * (P + P.swapaxes(2, 3))
    return x, P[:, which], lagged[:, which[1:]]


def outputs_of(systems: Systems, x: Array, inputs: Array | None = None) -> Array:
    """Return ``mean + C x + D u`` for states of shape (N, T, n)."""
    Y = x @ systems.C.swapaxes(1, 2)
    if inputs is not None and systems.D is not None:
        Y += inputs @ systems.D.swapaxes(1, 2)
    return Y if systems.mean is None else Y + systems.mean[:, None]


def noise_covariance(systems: Systems) -> Array:
    """Return the covariances (N, n, n) of the state noise."""
    if systems.noise_factor is None:
        return np.zeros_like(systems.A)
    return systems.noise_factor @ systems.noise_factor.swapaxes(1, 2)


def output_variances(systems: Systems, P: Array) -> Array:
    """Return the variances (N, T, m) of outputs from states of covariances P (N, T, n, n)."""
    made = ((systems.C[:, None] @ P) * systems.C[:, None]).sum(axis=3)  # the diagonal of C P C'
    noise = systems.Omega
    if noise is None:
        return np.maximum(made, 0)
    return np.maximum(made, 0) + (noise if noise.ndim == 2 else np.diagonal(noise, axis1=1, axis2=2))[:, None]


def per_step(M: Array, x: Array) -> Array:
    """Return the products of matrices (N, K, k, n), the last also for later steps, and vectors (N, T, n)."""
    K = M.shape[1]
    first = (M @ x[:, :K, :, None])[..., 0]
    return first if K == x.shape[1] else np.concatenate([first, x[:, K:] @ M[:, -1].swapaxes(1, 2)], axis=1)


def _accumulated(M: Array, at: NDArray[np.intp], added: Array) -> Array:
    """Return s(t) = M(at t) s(t - 1) + added(t), (N, T, n), for matrices (N, K, n, n); s is zero before."""
    steps = np.ascontiguousarray(M.swapaxes(0, 1))
    made = np.ascontiguousarray(added.swapaxes(0, 1))[..., None]
    product = np.empty_like(made[0])
    for t in range(1, len(made)):
        np.matmul(steps[at[t]], made[t - 1], out=product)
        made[t] += product
    return np.ascontiguousarray(made[..., 0].swapaxes(0, 1))


def _settled(P: Array, before: Array) -> bool:
    """Return whether covariances (N, n, n) equal those of the previous step, in units of their diagonals."""
    size = np.sqrt(np.abs(np.diagonal(P, axis1=1, axis2=2)))
    return bool((np.abs(P - before) <= _CONVERGED * size[:, :, None] * size[:, None]).all())


def _first_state(systems: Systems) -> Array:
    return np.zeros((len(systems), systems.n_states)) if systems.x1 is None else systems.x1


def _times(M: Array, x: Array) -> Array:
    """Return the products of matrices (N, n, k) and vectors (N, k)."""
    return (M @ x[:, :, None])[:, :, 0]
