"""Inputs that act on sequences: checks and units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import SequencesLike, check_sequences

Array = NDArray[np.floating[Any]]


def check_inputs(inputs: SequencesLike, sequences: list[Any], method: str) -> Sequence[Array]:
    """Return inputs as (T_i, p) arrays, or raise unless there is one for each step of each sequence."""
    if method == "pca":
        raise ValueError("method='pca' does not support inputs: use method='n4sid' or 'em'")
    try:
        found = check_sequences(inputs)
    except (TypeError, ValueError) as error:
        raise type(error)(f"inputs: {error}") from None
    if len(found) != len(sequences):
        raise ValueError(
            f"inputs has {len(found)} arrays, but there are {len(sequences)} sequences: pass one array of inputs for "
            "each sequence"
        )
    for i, (u, x) in enumerate(zip(found, sequences, strict=True)):
        if len(u) != len(x):
            raise ValueError(
                f"sequence {i} has {len(x)} time steps, but its inputs have {len(u)}: pass inputs for each time step"
            )
        if method == "n4sid" and np.isnan(x).any():
            raise ValueError(f"sequence {i} has missing values: with inputs, only method='em' accepts them")
    return found


def standardization(inputs: Sequence[Array] | None, center: bool, scale: bool) -> tuple[Array, Array]:
    """Return the means and the divisors that standardize inputs."""
    if inputs is None:
        return np.zeros(0), np.ones(0)
    U = np.concatenate(inputs)
    deviation = U.std(axis=0)
    constant = ~(deviation > np.finfo(float).eps * len(U) * np.abs(U).max(axis=0))
    mean = U.mean(axis=0) if center else np.zeros(U.shape[1])
    return mean, np.where(constant, 1.0, deviation) if scale else np.ones(U.shape[1])


def future_of(identifier: Any, inputs: SequencesLike | None, count: int, n_steps: int, name: str) -> Array | None:
    """Return standardized inputs (count, n_steps, p) of steps that are simulated or predicted, or None."""
    p = getattr(identifier, "n_inputs_", 0)
    if inputs is None:
        if p:
            raise ValueError(
                f"this {type(identifier).__name__} was fitted with {p} inputs: pass {name} of shape "
                f"{(count, n_steps, p)}"
            )
        return None
    try:
        found = np.stack(check_sequences(inputs))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if found.shape != (count, n_steps, p):
        raise ValueError(f"{name} has shape {found.shape}: pass an array of shape {(count, n_steps, p)}")
    return (found - identifier.input_mean_) / identifier.input_scale_
