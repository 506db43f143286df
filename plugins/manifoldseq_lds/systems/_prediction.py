"""Simulated outputs and forecasts of systems."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kalman import outputs_of
from ._record import Systems

Array = NDArray[np.floating[Any]]


def check_steps(n_steps: Any) -> None:
    """Refuse a number of steps that is not a whole number of at least 1."""
    if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
        raise ValueError(f"n_steps={n_steps!r} is not valid: pass a whole number of at least 1")


def check_systems(systems: Any, count: int | None, outputs: int) -> None:
    """Refuse what are not `count` systems (any number, if None) with so many outputs."""
    if not isinstance(systems, Systems):
        raise ValueError(f"systems are of type {type(systems).__name__}: pass Systems, as transform returns them")
    count = len(systems) if count is None else count
    if len(systems) != count or systems.n_outputs != outputs:
        raise ValueError(
            f"systems are {len(systems)} with {systems.n_outputs} outputs: pass {count} with {outputs}, one per "
            f"sequence, with channels × delay outputs"
        )


def simulated(systems: Systems, n_steps: int, rng: np.random.Generator | None) -> Array:
    """Return outputs (N, n_steps, m) of model (1) from the first states, without noise if there is no generator."""
    assert systems.x1 is not None
    B = None if rng is None else systems.B
    x = _continued(systems, systems.x1, n_steps - 1, B, rng)
    Y = outputs_of(systems, np.concatenate([systems.x1[:, None], x], axis=1))
    if rng is not None and systems.Omega is not None:
        Y += np.sqrt(systems.Omega)[:, None] * rng.standard_normal(Y.shape)
    return Y


def expected(systems: Systems, x: Array, n_steps: int) -> Array:
    """Return the means (N, n_steps, m) of the outputs of the steps after states x of shape (N, n)."""
    return outputs_of(systems, _continued(systems, x, n_steps, None, None))


def variances(systems: Systems, P: Array, n_steps: int) -> Array:
    """Return the variances (N, n_steps, m) of the outputs of the steps after states of covariances P (N, n, n)."""
    C, A = systems.C, systems.A
    made = np.empty((len(P), n_steps, C.shape[1]))
    for t in range(n_steps):
        P = A @ P @ A.swapaxes(1, 2)
        if systems.B is not None:
            P = P + systems.B @ systems.B.swapaxes(1, 2)
        made[:, t] = ((C @ P) * C).sum(axis=2)  # the diagonal of C P C'
    return np.maximum(made, 0) + (0 if systems.Omega is None else systems.Omega[:, None])


def _continued(systems: Systems, x: Array, n_steps: int, B: Array | None, rng: np.random.Generator | None) -> Array:
    """Return the states (N, n_steps, n) of the steps after x."""
    made = np.empty((len(x), n_steps, x.shape[1]))
    noise = np.zeros_like(made)
    if B is not None and rng is not None:
        noise = rng.standard_normal(made.shape) @ B.swapaxes(1, 2)
    for t in range(n_steps):
        x = (systems.A @ x[:, :, None])[:, :, 0] + noise[:, t]
        made[:, t] = x
    return made
