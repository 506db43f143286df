"""Simulated outputs and forecasts of systems."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import quoted

from ._kalman import compress, kalman_filter, noise_covariance, output_variances, outputs_of
from ._record import Systems

Array = NDArray[np.floating[Any]]


def embed(Y: Array, delay: int) -> Array:
    """Stack `delay` consecutive steps of sequences (N, T, d) into outputs (N, T - delay + 1, d * delay)."""
    if delay == 1:
        return Y
    steps = Y.shape[1] - delay + 1
    return np.concatenate([Y[:, lag : lag + steps] for lag in range(delay)], axis=2)


def check_steps(n_steps: Any) -> None:
    """Raise ValueError unless the number of steps is a whole number of at least 1."""
    if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
        raise ValueError(f"n_steps={quoted(n_steps)} is not valid: pass a whole number of at least 1")


def check_systems(systems: Any, count: int | None, outputs: int) -> None:
    """Raise ValueError unless there are `count` systems (any number, if None) with this number of outputs."""
    if not isinstance(systems, Systems):
        raise ValueError(f"systems are of type {type(systems).__name__}: pass Systems, as transform returns them")
    count = len(systems) if count is None else count
    if len(systems) != count or systems.n_outputs != outputs:
        raise ValueError(
            f"there are {len(systems)} systems with {systems.n_outputs} outputs: pass {count} systems (one per "
            f"sequence) with {outputs} outputs (channels × delay)"
        )


def simulated(systems: Systems, n_steps: int, rng: np.random.Generator | None, inputs: Array | None = None) -> Array:
    """Return outputs (N, n_steps, m) of model (1) from the first states, without noise if there is no generator.

    `inputs` of shape (N, n_steps, p) are those of the same steps.
    """
    return observed(systems, simulated_states(systems, n_steps, rng, inputs), rng, inputs)


def simulated_states(
    systems: Systems, n_steps: int, rng: np.random.Generator | None, inputs: Array | None = None
) -> Array:
    """Return states (N, n_steps, n) of model (1) from the first states, without noise if there is no generator."""
    assert systems.x1 is not None
    factor = None if rng is None else systems.noise_factor
    x = _continued(systems, systems.x1, n_steps - 1, inputs, factor, rng)
    return np.concatenate([systems.x1[:, None], x], axis=1)


def observed(systems: Systems, x: Array, rng: np.random.Generator | None, inputs: Array | None = None) -> Array:
    """Return the outputs (N, T, m) of states x (N, T, n), without noise if there is no generator."""
    Y = outputs_of(systems, x, inputs)
    if rng is not None and systems.Omega is not None:
        noise = rng.standard_normal(Y.shape)
        if systems.Omega.ndim == 2:
            Y += np.sqrt(systems.Omega)[:, None] * noise
        else:
            Y += noise @ symmetric_root(systems.Omega)
    return Y


def expected(systems: Systems, x: Array, n_steps: int, inputs: Array | None = None) -> Array:
    """Return the means (N, n_steps, m) of the outputs of the steps after states x of shape (N, n).

    `inputs` of shape (N, 1 + n_steps, p) begin with the inputs of the step of the states.
    """
    ahead = _continued(systems, x, n_steps, inputs, None, None)
    return outputs_of(systems, ahead, None if inputs is None else inputs[:, 1:])


def variances(systems: Systems, P: Array, n_steps: int) -> Array:
    """Return the variances (N, n_steps, m) of the outputs of the steps after states of covariances P (N, n, n)."""
    A, Q = systems.A, noise_covariance(systems)
    made = np.empty((len(P), n_steps, systems.n_states, systems.n_states))
    for t in range(n_steps):
        made[:, t] = P = A @ P @ A.swapaxes(1, 2) + Q
    return output_variances(systems, made)


def predicted(systems: Systems, Y: Array, inputs: Array | None, delay: int, n_steps: int) -> tuple[Array, Array]:
    """Return means and variances (N, n_steps, d) of the steps after sequences Y (N, T, d) with NaN for missing values.

    `inputs` (N, T + n_steps, p) belong to the steps of the sequences and to the predicted steps.
    """
    d, stacked = Y.shape[2], embed(Y, delay)
    U = None if inputs is None else embed(inputs, delay)
    filtered = kalman_filter(systems, compress(systems, stacked, None if U is None else U[:, : stacked.shape[1]]))
    ahead = None if U is None else U[:, -n_steps - 1 :]
    mean = expected(systems, filtered.x[:, -1], n_steps, ahead)
    return mean[:, :, -d:], variances(systems, filtered.P[:, -1], n_steps)[:, :, -d:]


def squared_errors(
    Y: Array, seen: int, channels: int, mean: Array | None, C: Array, matrices: Sequence[Array], ahead: int = 1
) -> list[Array]:
    """Return the squared errors (N,) of forecasts ``mean + C A^ahead C' (y - mean)``, for each of several A.

    The newest lag (the last `channels` rows) of stacked outputs Y (N, m, T) is forecast from step `seen` on, from
    the output `ahead` steps before. A matrix (N, n, n) belongs to the first n columns of C. With n = 0, the forecast is
    the mean, or 0 if `mean` is None.
    """
    Y = Y if mean is None else Y - mean[:, :, None]
    before, after = C.swapaxes(1, 2) @ Y[:, :, seen - ahead : -ahead], Y[:, -channels:, seen:]
    errors = []
    for A in matrices:
        n = A.shape[1]
        forecast = C[:, -channels:, :n] @ (np.linalg.matrix_power(A, ahead) @ before[:, :n])
        errors.append(np.square(after - forecast).sum(axis=(1, 2)))
    return errors


def symmetric_root(P: Array) -> Array:
    """Return the symmetric square roots of covariances (N, n, n)."""
    w, W = np.linalg.eigh(P)
    return (W * np.sqrt(np.maximum(w, 0))[:, None]) @ W.swapaxes(1, 2)


def _continued(
    systems: Systems,
    x: Array,
    n_steps: int,
    inputs: Array | None,
    factor: Array | None,
    rng: np.random.Generator | None,
) -> Array:
    """Return the states (N, n_steps, n) of the steps after x."""
    made = np.empty((len(x), n_steps, x.shape[1]))
    added = np.zeros_like(made)
    if factor is not None and rng is not None:
        added = rng.standard_normal(made.shape) @ factor.swapaxes(1, 2)
    if inputs is not None and systems.B is not None:
        added += inputs[:, :n_steps] @ systems.B.swapaxes(1, 2)
    for t in range(n_steps):
        x = (systems.A @ x[:, :, None])[:, :, 0] + added[:, t]
        made[:, t] = x
    return made
