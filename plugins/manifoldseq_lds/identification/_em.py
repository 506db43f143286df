"""An iteration of expectation maximization for model (1), with missing values (Shumway and Stoffer 1982)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..systems._kalman import Filtered, compress, kalman_filter, restricted, smooth
from ..systems._prediction import symmetric_root
from ..systems._record import Systems, replaced

Array = NDArray[np.floating[Any]]

COVARIANCE_TYPES = ("diag", "full", "spherical")
_RIDGE = 1e-13
"""Ridge of normal equations relative to their diagonal: coefficients of variables that are always zero are zero."""
_RIDGE_OF_FEW = 1e-8
"""The ridge for an output that is recorded in fewer steps than it has unknowns."""
_CHUNK = 2**22
"""Maximum number of values of covariances that are inverted together, for steps in which some outputs are missing."""
_LEAST_NOISE = 1e-10
"""Minimum variance of the output noise, in units of the mean square of the outputs about their means."""


def sweep(
    systems: Systems,
    Y: Array,
    inputs: Array | None = None,
    *,
    covariance_type: str = "spherical",
    held: bool = False,
) -> tuple[Systems, Filtered]:
    """Return systems with at least the likelihood of the given systems, and the filter of the given systems.

    Parameters
    ----------
    systems : Systems
        Systems with arbitrary C, with or without a mean.
    Y : ndarray of shape (N, T, m)
        NaN marks missing values.
    inputs : ndarray of shape (N, T, p), optional
        Inputs, for systems with B and D.
    covariance_type : {"spherical", "diag", "full"}
        Estimate one variance of the output noise per system, one variance per output, or a covariance matrix.
    held : bool
        Keep A and C fixed, and without inputs also the mean.

    Returns
    -------
    systems : Systems
        Systems with updated parameters, except those that are fixed; C need not be orthonormal. ``P1`` and a full Omega
        can shrink to zero in directions that one sequence does not determine; Omega is kept above 1e-10 of the mean
        square of the outputs.
    filtered : Filtered
        The filter; its log-likelihood refers to the given systems.
    """
    filtered = kalman_filter(systems, compress(systems, Y, inputs))
    x, P, lagged = smooth(systems, filtered)
    n = systems.n_states
    # [A B] = (sum E[x(t+1) r(t)']) (sum E[r(t) r(t)'])^-1 with r = [x; u]; what it leaves is the state noise
    r = x if inputs is None else np.concatenate([x, inputs], axis=2)
    gram = _gram(r[:, :-1], P[:, :-1].sum(axis=1))
    across = x[:, 1:].swapaxes(1, 2) @ r[:, :-1]
    across[:, :, :n] += lagged.sum(axis=1)
    W = _coefficients(gram, across, systems.A if held else None)
    noise = _left(_gram(x[:, 1:], P[:, 1:].sum(axis=1)), across, W, gram) / max(1, Y.shape[1] - 1)
    made: dict[str, Any] = {"A": W[:, :, :n], "x1": x[:, 0], "P1": _nonnegative(P[:, 0])}
    made["noise_factor"] = symmetric_root(noise)
    if systems.mean is None:
        made |= _outputs(r, P, Y, systems, covariance_type, held)
    else:
        # Outputs about the mean: the level of a sequence says nothing about its noise, and would cancel in the sums.
        s = np.concatenate([r, np.ones((*r.shape[:2], 1))], axis=2)
        about = replaced(systems, mean=np.zeros_like(systems.mean))
        learned = _outputs(s, P, Y - systems.mean[:, None], about, covariance_type, held)
        change = learned["mean"]
        assert change is not None
        made |= learned | {"mean": systems.mean + change}
    made["B"] = None if inputs is None else W[:, :, n:]
    kept = {name: None if part is None else np.array(part, order="C") for name, part in made.items()}
    return Systems.trusted(kept), filtered


def _outputs(
    s: Array, P: Array, Y: Array, systems: Systems, covariance_type: str, held: bool
) -> dict[str, Array | None]:
    """Regress outputs on s = [x; u; 1]; return C, D, the mean and Omega, the covariance of the residuals."""
    n, p, k = systems.n_states, systems.n_inputs, s.shape[2]
    seen = ~np.isnan(Y)
    count = np.maximum(seen.sum(axis=1), 1)
    y = np.where(seen, Y, 0.0)
    least = _LEAST_NOISE * (y * y).sum(axis=(1, 2)) / count.sum(axis=1) + 1e-100
    fixed = systems.C if held else None
    if held and not p and systems.mean is not None:
        fixed = np.concatenate([systems.C, systems.mean[:, :, None]], axis=2)
    if seen.all() or covariance_type == "full":
        # one Gram matrix for all outputs, over the steps in which any is seen
        any_seen = np.any(seen, axis=2)
        gram = _gram(s * any_seen[:, :, None], np.einsum("it,itkl->ikl", any_seen.astype(float), P))
        right, squares = y.swapaxes(1, 2) @ s, y.swapaxes(1, 2) @ y
        if not seen.all():
            _expect_missing(y, seen, s, P, systems, right, squares)
        W = _coefficients(gram, right, fixed)
        Omega = _left(squares, right, W, gram) / any_seen.sum(axis=1)[:, None, None]
        if covariance_type == "full":
            Omega = _nonnegative(Omega, least)
        else:
            Omega = np.diagonal(Omega, axis1=1, axis2=2)
    else:
        # of each output its own normal equations, over the steps in which it is seen, (N, m, k, k) and (N, m, k)
        there = seen.swapaxes(1, 2).astype(float)
        second = _outer(s, s)
        second[:, :, :n, :n] += P
        gram = (there @ second.reshape(*s.shape[:2], k * k)).reshape(*there.shape[:2], k, k)
        right = (y.swapaxes(1, 2) @ s)[:, :, None]
        W = _coefficients(gram, right, None if fixed is None else fixed[:, :, None], count < k)
        left = _left((y * y).sum(axis=1)[:, :, None, None], right, W, gram)[:, :, 0, 0]
        # a spherical variance weighs outputs by how often they are seen
        Omega, W = left / (count if covariance_type == "diag" else count.mean(axis=1)[:, None]), W[:, :, 0]
    if covariance_type == "spherical":
        Omega = np.repeat(Omega.mean(axis=1)[:, None], Y.shape[2], axis=1)
    if covariance_type != "full":
        Omega = np.maximum(Omega, least[:, None])
    D, mean = W[:, :, n : n + p] if p else None, None if systems.mean is None else W[:, :, -1]
    return {"C": W[:, :, :n], "D": D, "mean": mean, "Omega": Omega}


def _gram(s: Array, P: Array) -> Array:
    """Return the sums of s s' (N, k, k) plus the covariances P of the states, the first entries of s."""
    made = s.swapaxes(1, 2) @ s
    made[:, : P.shape[1], : P.shape[1]] += P
    return made


def _coefficients(gram: Array, right: Array, fixed: Array | None, few: Array | None = None) -> Array:
    """Solve W gram = right for coefficients W (..., m, k); leading coefficients may be fixed."""
    if fixed is not None:
        f = fixed.shape[-1]
        if f == gram.shape[-1]:
            return fixed
        rest = _coefficients(gram[..., f:, f:], right[..., f:] - fixed @ gram[..., :f, f:], None, few)
        return np.concatenate([fixed, rest], axis=-1)
    # in units of the diagonal, so that inputs and states may have any size
    size = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 1e-300))
    ridge = _RIDGE if few is None else np.where(few, _RIDGE_OF_FEW, _RIDGE)[..., None, None]
    scaled = gram / (size[..., :, None] * size[..., None, :]) + ridge * np.eye(gram.shape[-1])
    return np.linalg.solve(scaled, (right / size[..., None, :]).swapaxes(-1, -2)).swapaxes(-1, -2) / size[..., None, :]


def _nonnegative(P: Array, least: Array | float = 0.0) -> Array:
    """Return symmetric matrices with eigenvalues raised to `least`, because rounding may have lowered them."""
    w, V = np.linalg.eigh(P)
    least = np.broadcast_to(least, len(P))[:, None]
    raised = (V * np.maximum(w, least)[:, None]) @ V.swapaxes(1, 2)
    return np.where((w[:, :1] < least)[:, :, None], raised, P)


def _left(squares: Array, right: Array, W: Array, gram: Array) -> Array:
    """Return the residuals of W: squares - W right' - right W' + W gram W'."""
    explained = W @ right.swapaxes(-1, -2)
    made = squares - explained - explained.swapaxes(-1, -2) + W @ gram @ W.swapaxes(-1, -2)
    return 0.5 * (made + made.swapaxes(-1, -2))


def _expect_missing(
    y: Array, seen: NDArray[np.bool_], s: Array, P: Array, systems: Systems, right: Array, squares: Array
) -> None:
    """Add expectations of partially missing outputs under correlated noise to the sums of y s' and y y', in place."""
    assert systems.Omega is not None
    Omega = systems.Omega if systems.Omega.ndim == 3 else systems.Omega[:, :, None] * np.eye(y.shape[2])
    parts = [systems.C, systems.D, None if systems.mean is None else systems.mean[:, :, None]]
    W = np.concatenate([part for part in parts if part is not None], axis=2)
    rows = np.argwhere(seen.any(axis=2) & ~seen.all(axis=2))
    for part in np.array_split(rows, len(rows) * y.shape[2] ** 2 // _CHUNK + 1):
        i, t = part.T
        there, noise, yt, st = seen[i, t], Omega[i], y[i, t], s[i, t]
        # E[y | what is seen, x] = K y + (I - K) W s, with K the identity on what is seen
        K = (noise * there[:, None]) @ np.linalg.inv(restricted(noise, there))
        K = np.where(there[:, :, None], np.eye(y.shape[2]), K)
        b, M = (K @ yt[:, :, None])[:, :, 0], W[i] - K @ W[i]
        second = _outer(st, st)
        second[:, : P.shape[2], : P.shape[2]] += P[i, t]
        # the plain product of what is seen is in the sums already
        np.add.at(right, i, _outer(b - yt, st) + M @ second)
        mixed = _outer(b, (M @ st[:, :, None])[:, :, 0])
        known = _outer(b, b) - _outer(yt, yt) + mixed + mixed.swapaxes(1, 2) + M @ second @ M.swapaxes(1, 2)
        np.add.at(squares, i, known + noise - K @ noise)


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]
