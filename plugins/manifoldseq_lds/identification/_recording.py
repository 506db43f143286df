"""One system of a recording that grows: N4SID and covariances from sums over windows, whatever its length."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._kalman import compress, kalman_filter, smooth
from ..systems._prediction import embed, symmetric_root
from ..systems._record import Systems, replaced
from ._output_noise import basis_of, block_rows

Array = NDArray[np.floating[Any]]
Sums = dict[str, Any]

_ROWS = 5
_SWEEPS = 30


def least_steps(d: int, n: int, delay: int) -> int:
    """Return the least number of steps that `systems_of` can take."""
    return next(T for T in range(2**31) if block_rows(T - delay + 1, d * delay, n, delay) == (_ROWS, d * delay))


def grown(sums: Sums | None, x: Array, delay: int) -> Sums:
    """Return the sums of a recording with x (T, d) after it, over windows of 2 i + 2 delay - 2 steps, i = 5.

    A dict of the number of steps, the sum and the sum of squares of the values, less a constant near their mean, the
    sum of w w' and of w over all windows w, and the first and the last steps.
    """
    length = 2 * _ROWS + 2 * delay - 2
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
    """Return the standard deviation of each channel; one where it does not vary."""
    steps = sums["steps"]
    variance = sums["squares"] / steps - (sums["total"] / steps) ** 2
    size = np.finfo(float).eps * steps * (np.abs(sums["shift"]) + np.sqrt(sums["squares"] / steps))
    deviation = np.sqrt(np.maximum(variance, 0))
    return np.where(deviation > size, deviation, 1.0)


def systems_of(sums: Sums, scale: Array, n: int, center: bool, delay: int) -> Systems:
    """Return the one system of a recording.

    A, C and the mean are those of `n4sid` on the whole, up to the square root of the precision. The covariances make
    windows likeliest, as if they were independent, by 30 sweeps of expectation maximization with A and C held: its
    expectations depend on the windows by their second moments only. A first state is any state: x1 is zero, and P1 is
    the covariance of the states of the recording.
    """
    d, T = len(scale), sums["steps"]
    length = len(sums["windows"]) // d
    # the mean of each of the stacked steps, over all but the first or last ones of the recording
    mean = np.empty((delay, d))
    for lag in range(delay):
        after = delay - 1 - lag
        edges = sums["head"][:lag].sum(axis=0) + (sums["tail"][-after:].sum(axis=0) if after else 0)
        mean[lag] = (sums["total"] - edges) / (T - delay + 1)
    mean = mean if center else -np.repeat(sums["shift"][None], delay, axis=0)
    # second moments of the stacked outputs of a window about this mean, in units of the scale
    step = np.arange(length - delay + 1)[:, None, None] + np.arange(delay)[:, None]
    rows = (step * d + np.arange(d)).reshape(len(step), -1)
    many, center_of = rows.ravel(), np.tile(mean.ravel(), len(rows))
    gram, windows = sums["gram"][np.ix_(many, many)], sums["windows"][many]
    gram = gram - np.outer(windows, center_of) - np.outer(center_of, windows)
    gram = (gram / sums["count"] + np.outer(center_of, center_of)) / np.outer(*[np.tile(scale, len(many) // d)] * 2)
    m = d * delay
    past = np.arange(_ROWS * m)
    future = past + (_ROWS + delay - 1) * m
    # the projection of the future on the past, F V V' = G X: its square is S_fp S_pp^-1 S_pf = G X X' G'
    w, V = np.linalg.eigh(gram[np.ix_(past, past)])
    V = V[:, w > 1e-12 * w[-1]] / np.sqrt(w[w > 1e-12 * w[-1]])
    U, s, _ = np.linalg.svd(gram[np.ix_(future, past)] @ V, full_matrices=False)
    A, C, found = basis_of(U[None, :, :n], m)
    if not (found[0] and s[n - 1] > 1e-6 * s[0]):
        raise ValueError(f"the recording spans fewer than n_states={n} dimensions: lower n_states")
    given = (sums["shift"] + mean) / scale
    systems = _with_covariances(Systems.trusted({"A": A, "C": C}), gram, m)
    return replaced(systems, mean=np.ascontiguousarray(given.reshape(1, m)) if center else None)


def _with_covariances(systems: Systems, gram: Array, m: int) -> Systems:
    """Return systems with noises and the covariance of states, from second moments of windows of outputs."""
    w, V = np.linalg.eigh(gram)
    keep = w > 1e-14 * w[-1]
    # windows whose second moments add up to those of all: (J, steps, m)
    Y = (V[:, keep] * np.sqrt(w[keep])).T.reshape(int(keep.sum()), -1, m)
    A, C, steps = systems.A[0], systems.C[0], Y.shape[1]
    second = (Y @ C).transpose(1, 2, 0) @ (Y @ C).transpose(1, 0, 2)  # of C'y, (steps, n, n)
    variance = (Y * Y).sum(axis=(0, 1)) / steps
    least = 1e-10 * variance.mean() + 1e-100
    P1, noise, Omega = second[0], 0.5 * second.mean(axis=0), np.maximum(0.5 * variance, least)
    for _ in range(_SWEEPS):
        B = symmetric_root(noise[None])[0]
        parts = {"A": A, "C": C, "B": B, "Omega": Omega, "P1": 0.5 * (P1 + P1.T)}
        systems = Systems.trusted({name: np.repeat(part[None], len(Y), axis=0) for name, part in parts.items()})
        x, P, lagged = smooth(systems, kalman_filter(systems, compress(systems, Y)))
        # sums over the windows; their covariances are equal, and of weight one in all
        second = np.einsum("jtk,jtl->tkl", x, x) + P[0]
        across = (np.einsum("jtk,jtl->tkl", x[:, 1:], x[:, :-1]) + lagged[0]).mean(axis=0)
        before, after = second[:-1].mean(axis=0), second[1:].mean(axis=0)
        noise = after - A @ across.T - across @ A.T + A @ before @ A.T
        left = ((Y - x @ C.T) ** 2).sum(axis=(0, 1)) / steps + np.einsum("mk,kl,ml->m", C, P[0].mean(axis=0), C)
        P1, Omega = second[0], np.maximum(left, least)
    B, x1 = symmetric_root(noise[None]), np.zeros((1, len(A)))
    return Systems.trusted({"A": A[None], "C": C[None], "x1": x1, "B": B, "Omega": Omega[None], "P1": P1[None]})
