"""Identification of validated sequences in batches of one length that fit in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.estimators import SequencesLike, check_sequences
from manifoldseq.models import Stages

from ..systems._kalman import compress, kalman_filter, smooth
from ..systems._prediction import embed
from ..systems._record import Systems, check_stable, chosen, replaced
from ._missing import OR_NAN, check_holed, fill, finite_systems
from ._output_noise import block_rows, checked_by, maximized, n4sid, shaped, with_inputs
from ._stabilizers import stabilize
from ._stored_sequences import check_on_disk, gram_subspace, is_large, loaded, on_disk
from ._subspace_method import Subspace, least_squares, noise_factor, subspace

Array = NDArray[np.floating[Any]]

_BATCH = 2**19
"""Maximum number of values of sequences that are identified together: a task of 50 ms by ``method="pca"``."""
_BATCH_UNDER_NOISE = 2**17
"""The number by the other methods, which take a hundred times as long."""


def checked(X: SequencesLike, n: int, delay: int, setting: str, missing: str, method: str) -> list[Any]:
    """Validate sequences; return arrays in memory, or memory-mapped arrays that are not read."""
    if on_disk(X):
        sequences = check_on_disk(X, n + delay, setting)
    elif missing == "smooth":
        sequences = check_holed(X, n + delay, setting)
    else:
        sequences = check_sequences(X, min_length=n + delay, needed_by=setting, or_nan=OR_NAN)
    outputs = sequences[0].shape[1] * delay
    if n > outputs and method == "pca":
        raise ValueError(
            f"n_states={n} exceeds channels × delay = {outputs}: lower n_states or raise delay (identifier.delay), or "
            "use method='n4sid'"
        )
    return sequences


def stabilized(systems: Systems, stabilizer: str, X: Array, bound: float) -> Systems:
    """Return systems with stable transition matrices; `A_estimate` contains the estimated matrices."""
    return replaced(systems, A=stabilize(stabilizer, systems.A, X, bound), A_estimate=systems.A)


@dataclass(frozen=True)
class Estimation:
    """The settings of an identification, with the scale of each channel."""

    scale: Array
    n: int
    center: bool
    delay: int
    stabilizer: str
    bound: float
    method: str = "pca"
    covariance_type: str = "diag"
    max_iter: int = 30

    def batches(self, sequences: Sequence[Any]) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield rows and their scaled sequences of one length, (rows, T, d)."""
        for rows in self.rows(sequences):
            yield rows, self.scaled([sequences[i] for i in rows], rows)

    def rows(self, sequences: Sequence[Any]) -> Iterator[NDArray[np.intp]]:
        """Yield the rows of each batch."""
        lengths = np.array([len(x) for x in sequences])
        small = np.array([not is_large(x) for x in sequences])
        for length in np.unique(lengths[small]):
            rows = np.flatnonzero(small & (lengths == length))
            most = _BATCH if self.method == "pca" else _BATCH_UNDER_NOISE
            size = max(1, most // (int(length) * len(self.scale) * self.delay))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    def scaled(self, batch: Sequence[Any], rows: NDArray[np.intp]) -> Array:
        """Return the scaled sequences of a batch, (rows, T, d)."""
        Y = np.stack([loaded(x, i) for x, i in zip(batch, rows, strict=True)]) / self.scale
        for i in rows[~(np.nanmax(np.abs(Y), axis=(1, 2)) < 1e150)]:
            raise ValueError(
                f"sequence {i} has values above 1e150 times the scale of their channel (scale_): scale the sequence "
                "down"
            )
        return Y

    def identify(
        self, sequences: Sequence[Any], inputs: list[Array] | None = None, stages: Stages | None = None
    ) -> Systems:
        """Fill missing values and return the systems of sequences, with inputs (T, p) each or without inputs."""
        systems = self.estimated(sequences, inputs, stages)
        if self.stabilizer == "NONE":
            check_stable(systems.A)
        return systems

    def estimated(
        self, sequences: Sequence[Any], inputs: list[Array] | None = None, stages: Stages | None = None
    ) -> Systems:
        """Return the systems of sequences; without a stabilizer they may be unstable. A batch is a task of a stage."""
        N, made = len(sequences), {}
        large = [np.array([i]) for i, x in enumerate(sequences) if is_large(x)]
        batches = [*self.rows(sequences), *large]
        tasks = [
            (rows, [sequences[i] for i in rows], None if inputs is None else [inputs[i] for i in rows])
            for rows in batches
        ]
        for rows, part in zip(batches, (stages or Stages()).map(self._part, tasks), strict=True):
            for name, values in part.items():
                made.setdefault(name, np.empty((N, *values.shape[1:])))[rows] = values
        return Systems.trusted(made)

    def stacked_inputs(self, inputs: list[Array] | None, rows: Any) -> Array | None:
        """Return the inputs of sequences of one length, stacked like their outputs, (N, T - delay + 1, p * delay)."""
        return None if inputs is None else embed(np.stack([inputs[i] for i in rows]), self.delay)

    def filled(self, Y: Array, rows: NDArray[np.intp]) -> Array:
        """Return scaled sequences (N, T, d) with filled missing values; `rows` are their numbers."""
        holed = np.flatnonzero(np.isnan(Y).any(axis=(1, 2)))
        if len(holed):
            Y[holed] = fill(Y[holed], self.delay, self._unstabilized, rows[holed])
        return Y

    def stacked(self, Y: Array) -> Array:
        """Return the outputs (N, m, T - delay + 1) of scaled sequences (N, T, d)."""
        return embed(Y, self.delay).swapaxes(1, 2)

    def _part(self, task: tuple[NDArray[np.intp], Sequence[Any], list[Array] | None]) -> dict[str, NDArray[Any]]:
        """Return the fields of the systems of a batch, or of a sequence that is read in blocks.

        A task has the numbers of the sequences, for messages, the sequences and their inputs.
        """
        rows, batch, inputs = task
        first, i = batch[0], int(rows[0])
        if not is_large(first):
            Y = self.scaled(batch, rows)
            if self.method == "pca":
                systems = self._systems(self._decomposed(self.filled(Y, rows)), self.stabilizer)
            else:
                systems = self._under_noise(Y, rows, self.stacked_inputs(inputs, range(len(rows))))
        elif self.method == "pca":
            found = gram_subspace(first, i, self.scale, self.n, self.delay, self.center)
            systems = self._systems(found, self.stabilizer)
        else:
            raise ValueError(
                f"sequence {i} is read in blocks, which method={self.method!r} does not support: use method='pca', or "
                "fewer channels"
            )
        return {one.name: part for one in fields(Systems) if (part := getattr(systems, one.name)) is not None}

    def _under_noise(self, Y: Array, rows: NDArray[np.intp], inputs: Array | None) -> Systems:
        """Return systems by N4SID or expectation maximization, or by PCA for sequences that span too few dimensions."""
        recorded = embed(Y, self.delay).copy()
        filled = self.filled(Y, rows)
        outputs = self.stacked(filled)
        systems = shaped(self._unstabilized(filled), self.covariance_type)
        if inputs is not None:
            systems, _ = with_inputs(systems, outputs.swapaxes(1, 2), inputs)
        _, m, T = outputs.shape
        n_inputs = 0 if inputs is None else inputs.shape[2] // self.delay
        if block_rows(T, m, self.n, self.delay, n_inputs) is not None:
            better, found = n4sid(outputs, self.n, self.center, self.delay, inputs, self.covariance_type)
            better = chosen(found, better, systems)
            systems = checked_by(systems, better, recorded, inputs, self.covariance_type)
        elif self.method == "n4sid":
            least = next(t for t in range(T, 2**31) if block_rows(t, m, self.n, self.delay, n_inputs))
            raise ValueError(
                f"sequence {rows[0]} has {T + self.delay - 1} time steps, but method='n4sid' needs "
                f"{least + self.delay - 1} for {self.n} states: lower n_states, or use method='em' or 'pca'"
            )
        if self.method == "em":
            better = maximized(systems, recorded, inputs, self.max_iter, self.covariance_type)
            systems = chosen(finite_systems(better), better, systems)
        X = smooth(systems, kalman_filter(systems, compress(systems, recorded, inputs)))[0].swapaxes(1, 2)
        return stabilized(systems, self.stabilizer, X, self.bound)

    def _unstabilized(self, Y: Array) -> Systems:
        return self._systems(self._decomposed(Y), "NONE")

    def _decomposed(self, Y: Array) -> Subspace:
        # fewer outputs than states: those of several steps, of which `_systems` keeps the first
        steps = -(-self.n // (Y.shape[2] * self.delay))
        return subspace(embed(embed(Y, self.delay), steps).swapaxes(1, 2), self.center, self.n)

    def _systems(self, found: Subspace, stabilizer: str) -> Systems:
        C, X = found.states(self.n)
        m = len(self.scale) * self.delay
        estimate = least_squares(X)
        A = stabilize(stabilizer, estimate, X, self.bound)
        Omega = np.repeat(found.noise(self.n)[:, None], m, axis=1)
        mean = None if found.mean is None else found.mean[:, :m].copy()
        made = {"A": A, "C": np.ascontiguousarray(C[:, :m]), "x1": X[:, :, 0], "noise_factor": noise_factor(A, X)}
        return Systems.trusted({**made, "mean": mean, "Omega": Omega, "A_estimate": estimate})
