"""The system of a growing recording: N4SID, inputs and covariances from sums over windows of constant size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._kalman import compress, kalman_filter, smooth
from ..systems._prediction import embed, symmetric_root
from ..systems._record import Systems, replaced
from ._output_noise import basis_of, block_rows, coordinates, most_rows

Array = NDArray[np.floating[Any]]
Sums = dict[str, Any]

_SWEEPS = 30
_RANK = 1e-12
"""Second moments below this fraction of the largest are rounding errors."""


def least_steps(d: int, n: int, delay: int, n_inputs: int = 0) -> int:
    """Return the minimum number of steps for `systems_of`."""
    best = most_rows(n, d * delay), d * delay
    return next(T for T in range(2**31) if block_rows(T - delay + 1, d * delay, n, delay, n_inputs) == best)


def grown(sums: Sums | None, x: Array, delay: int, rows: int) -> Sums:
    """Return the sums of a recording continued by x (T, d), over windows of 2 i + 2 delay - 2 steps, i = `rows`.

    Inputs are the last channels of x. The result is a dict with the number of steps, the sum and the sum of squares of
    the values minus a constant near their mean, the sums of w w' and of w over all windows w, and the first and the
    last steps.
    """
    length = 2 * rows + 2 * delay - 2
    if sums is None:
        d = x.shape[1]
        sums = {"shift": x.mean(axis=0), "steps": 0, "total": np.zeros(d), "squares": np.zeros(d)}
        sums |= {"gram": np.zeros((length * d, length * d)), "windows": np.zeros(length * d), "count": 0}
        sums |= {"head": np.empty((0, d)), "tail": np.empty((0, d))}
    x = x - sums["shift"]
    joined = np.concatenate([sums["tail"], x])
    W = embed(joined[None], length)[0] if len(joined) >= length else np.empty((0, len(sums["windows"])))
    return {
        "shift": sums["shift"],
        "steps": sums["steps"] + len(x),
        "total": sums["total"] + x.sum(axis=0),
        "squares": sums["squares"] + (x * x).sum(axis=0),
        "gram": sums["gram"] + W.T @ W,
        "windows": sums["windows"] + W.sum(axis=0),
        "count": sums["count"] + len(W),
        "head": np.concatenate([sums["head"], x])[:length],
        "tail": joined[-(length - 1) :],
    }


def scale_of(sums: Sums) -> Array:
    """Return the standard deviation of each channel; one for constant channels."""
    steps = sums["steps"]
    variance = sums["squares"] / steps - (sums["total"] / steps) ** 2
    size = np.finfo(float).eps * steps * (np.abs(sums["shift"]) + np.sqrt(sums["squares"] / steps))
    deviation = np.sqrt(np.maximum(variance, 0))
    return np.where(deviation > size, deviation, 1.0)


def mean_of(sums: Sums) -> Array:
    """Return the mean of each channel."""
    return sums["shift"] + sums["total"] / sums["steps"]


def systems_of(sums: Sums, scale: Array, n: int, center: bool, delay: int, n_inputs: int = 0) -> Systems:
    """Return the one system of a recording, whose last channels are inputs.

    A, C and the mean are those of `n4sid` on the whole recording, up to the square root of the precision. B, D and the
    covariances maximize the likelihood of the windows, treated as independent, by 30 sweeps of expectation maximization
    with fixed A and C, whose expectations depend only on the second moments of the windows. The first state is
    arbitrary: x1 is zero, and P1 is the covariance of the states of the recording.
    """
    channels, T = len(scale), sums["steps"]
    d = channels - n_inputs
    length = len(sums["windows"]) // channels
    i = (length - 2 * delay + 2) // 2
    # the mean of each of the stacked steps, over all but the first or last ones of the recording
    mean = np.empty((delay, channels))
    for lag in range(delay):
        after = delay - 1 - lag
        edges = sums["head"][:lag].sum(axis=0) + (sums["tail"][-after:].sum(axis=0) if after else 0)
        mean[lag] = (sums["total"] - edges) / (T - delay + 1)
    mean = mean if center else -np.repeat(sums["shift"][None], delay, axis=0)
    # second moments of the stacked outputs of a window, then its inputs, about this mean, in units of the scale
    steps = length - delay + 1
    place = np.arange(steps)[:, None, None] + np.arange(delay)[:, None]
    rows = place * channels + np.arange(channels)
    many = np.concatenate([rows[:, :, :d].ravel(), rows[:, :, d:].ravel()])
    about, unit = (
        np.concatenate([np.tile(part[:, :d].ravel(), steps), np.tile(part[:, d:].ravel(), steps)])
        for part in (mean, np.repeat(scale[None], delay, axis=0))
    )
    gram, windows = sums["gram"][np.ix_(many, many)], sums["windows"][many]
    gram = gram - np.outer(windows, about) - np.outer(about, windows)
    gram = (gram / sums["count"] + np.outer(about, about)) / np.outer(unit, unit)
    m, q = d * delay, n_inputs * delay
    y, u = np.arange(steps * m), steps * m + np.arange(steps * q)
    first = i + delay - 1
    past = np.concatenate([y[: i * m], u[: i * q]])
    future, ahead = y[first * m : (first + i) * m], u[first * q : (first + i) * q]
    left = gram if not n_inputs else gram - gram[:, ahead] @ _inverse(gram[np.ix_(ahead, ahead)]) @ gram[ahead]
    # the projection of the future on the past: F V V' = G X, with inputs of the future projected out of both; its
    # square is S_fp S_pp^-1 S_pf = G X X' G'
    w, V = np.linalg.eigh(left[np.ix_(past, past)])
    level = (np.finfo(float).eps * np.abs((sums["shift"] + mean)[:, :d] / scale[:d]).max()) ** 2 * T
    if np.diagonal(gram)[y].max() > level:  # otherwise constant up to rounding
        V = V[:, w > _RANK * w[-1]] / np.sqrt(w[w > _RANK * w[-1]])
        U, s, _ = np.linalg.svd(left[np.ix_(future, past)] @ V, full_matrices=False)
        if len(s) >= n and s[n - 1] > 1e-6 * s[0]:
            A, C, found = basis_of(U[None, :, :n], m)
            if found[0]:
                systems = _with_covariances(Systems.trusted({"A": A, "C": C}), gram, m, q)
                if not center:
                    return systems
                given = ((sums["shift"] + mean) / scale)[:, :d].reshape(m)
                if systems.B is not None and systems.D is not None:
                    # inputs are centred by the mean of all steps, whatever the lag: that of a lag has a steady state
                    apart = ((mean - sums["total"] / T)[:, d:] / scale[d:]).ravel()
                    state = np.linalg.lstsq(np.eye(n) - A[0], systems.B[0] @ apart, rcond=None)[0]
                    given = given - C[0] @ state - systems.D[0] @ apart
                return replaced(systems, mean=np.ascontiguousarray(given[None]))
    raise ValueError(
        f"the observations of the recording span fewer than n_states={n} dimensions: lower n_states, or pass a "
        "first piece whose observations span more dimensions"
    )


def _inverse(S: Array) -> Array:
    """Return the pseudo-inverse of second moments."""
    return np.linalg.pinv(S, rcond=_RANK, hermitian=True)


def _with_covariances(systems: Systems, gram: Array, m: int, q: int) -> Systems:
    """Return systems with noises, inputs and the covariance of states, from second moments of windows.

    `gram` contains m outputs of each step of a window, followed by q inputs of each step. The first state of a window
    is modelled as K u + e with all inputs u of the window, which are correlated with the earlier inputs.
    """
    w, V = np.linalg.eigh(gram)
    keep = w > 1e-14 * w[-1]
    steps = len(gram) // (m + q)
    # windows whose second moments add up to those of all: (J, steps, m) and (J, steps, q)
    both = (V[:, keep] * np.sqrt(w[keep])).T
    Y, U = both[:, : steps * m].reshape(-1, steps, m), both[:, steps * m :].reshape(len(both), steps, q)
    A, C = systems.A[0], systems.C[0]
    B, D, K = _driven(A, C, gram, m, q)
    whole = U.reshape(len(U), steps * q)
    # of the inputs of steps, of steps but the last, and of whole windows
    each, before, inverse = (
        _inverse(u.T @ u) for u in (U.reshape(len(U) * steps, q), U[:, :-1].reshape(len(U) * (steps - 1), q), whole)
    )
    seen = Y - U @ D.T
    if m < len(A):  # of the states that follow from windows
        start = seen.reshape(len(seen), steps * m) @ np.linalg.pinv(_observability(A, C, steps)).T
        second = (start.T @ start)[None]
    else:
        second = (seen @ C).transpose(1, 2, 0) @ (seen @ C).transpose(1, 0, 2)  # of C'y, (steps, n, n)
    variance = (seen * seen).sum(axis=(0, 1)) / steps
    least = 1e-10 * (Y * Y).sum(axis=(0, 1)).mean() / steps + 1e-100
    P1, noise, Omega = second[0], 0.5 * second.mean(axis=0), np.maximum(0.5 * variance, least)
    for _ in range(_SWEEPS):
        parts = {"A": A, "C": C, "Omega": Omega, "P1": 0.5 * (P1 + P1.T), "B": B, "D": D}
        parts["noise_factor"] = symmetric_root(noise[None])[0]
        parts = {name: np.repeat(part[None], len(Y), axis=0) for name, part in parts.items()}
        systems = Systems.trusted({**parts, "x1": whole @ K.T})
        x, P, lagged = smooth(systems, kalman_filter(systems, compress(systems, Y, U)))
        # sums over the windows; their covariances are equal, and of weight one in all
        step, left, begin = x[:, 1:] - x[:, :-1] @ A.T, Y - x @ C.T, x[:, 0]
        B = np.einsum("jtk,jtl->kl", step, U[:, :-1]) @ before
        D = np.einsum("jtk,jtl->kl", left, U) @ each
        K = begin.T @ whole @ inverse
        step, left, begin = step - U[:, :-1] @ B.T, left - U @ D.T, begin - whole @ K.T
        own, across = P[0], lagged[0] @ A.T
        spread = own[1:] - across - across.swapaxes(1, 2) + A @ own[:-1] @ A.T
        noise = np.einsum("jtk,jtl->kl", step, step) / (steps - 1) + spread.mean(axis=0)
        P1 = begin.T @ begin + own[0]
        left = (left * left).sum(axis=(0, 1)) / steps + np.einsum("mk,kl,ml->m", C, own.mean(axis=0), C)
        Omega = np.maximum(left, least)
    P1 = P1 + K @ (whole.T @ whole) @ K.T  # of any state, whatever the inputs
    factor, x1 = symmetric_root(noise[None]), np.zeros((1, len(A)))
    made = {"A": A, "C": C, "Omega": Omega, "P1": 0.5 * (P1 + P1.T)} | ({"B": B, "D": D} if q else {})
    return Systems.trusted(
        {**{name: np.ascontiguousarray(part[None]) for name, part in made.items()}, "x1": x1, "noise_factor": factor}
    )


def _observability(A: Array, C: Array, steps: int) -> Array:
    """Return [C; C A; …] with the given number of block rows."""
    rows = [C]
    for _ in range(steps - 1):
        rows.append(rows[-1] @ A)
    return np.concatenate(rows)


def _driven(A: Array, C: Array, gram: Array, m: int, q: int) -> tuple[Array, Array, Array]:
    """Return B, D and K, the first state given the inputs, by least squares of outputs on inputs of windows."""
    n, steps = len(A), len(gram) // (m + q)
    if not q:
        return np.zeros((n, 0)), np.zeros((m, 0)), np.zeros((n, 0))
    S = gram[steps * m :, steps * m :]
    w, V = np.linalg.eigh(S)
    keep = w > _RANK * w[-1]
    V, root = V[:, keep], np.sqrt(w[keep])
    # inputs whose second moments are those of all, and what of the outputs goes with each: (J, steps, .)
    U = (V * root).T.reshape(-1, steps, q)
    Y = ((gram[: steps * m, steps * m :] @ V) / root).T.reshape(-1, steps, m)
    # in coordinates E'y, c each: E'C (A^t x1 + sum_s A^(t-1-s) B u(s)) + E'D u(t), (J, steps, c, (n + c) q)
    E = coordinates(C)
    c = E.shape[1]
    EC = E.T @ C if m < n else np.eye(n)
    direct = (np.eye(c)[:, :, None] * U[:, :, None, None]).reshape(len(U), steps, c, c * q)
    H = np.zeros((len(U), steps, n, n * q))
    powers = np.empty((steps, n, n))
    powers[0] = np.eye(n)
    for t in range(1, steps):
        added = (np.eye(n)[:, :, None] * U[:, t - 1, None, None]).reshape(len(U), n, n * q)
        H[:, t], powers[t] = A @ H[:, t - 1] + added, A @ powers[t - 1]
    first = (EC @ powers).reshape(-1, n)
    back = np.linalg.pinv(first)
    design = np.concatenate([EC @ H, direct], axis=3).reshape(len(U), steps * c, -1)
    right = (Y @ E).reshape(len(U), steps * c, 1)
    remainder = np.eye(steps * c) - first @ back
    theta = np.linalg.pinv((remainder @ design).reshape(-1, (n + c) * q), rtol=1e-10) @ (remainder @ right).reshape(-1)
    x1 = (back @ (right - design @ theta[:, None]))[:, :, 0]
    x = (powers @ x1[:, None, :, None] + H @ theta[: n * q, None])[..., 0]
    D = np.einsum("jtm,jtq->mq", Y - x @ C.T, U) @ _inverse(np.einsum("jtk,jtl->kl", U, U))
    return theta[: n * q].reshape(n, q), D, (x1.T / root) @ V.T
