"""Common parts of the estimators with several kernels: parameters, checks and coordinates of sequences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    ObjectParameters,
    SequencesLike,
    check_channel_names,
    keep_channel_names,
    quoted,
    validate_sequences,
)
from manifoldseq.execution import map_ordered, one_blas_thread, width
from manifoldseq.models import Choice, Step, all_done

from ._components import Components, as_items, components_of, fitted_to, gram_of
from ._weights import BUNDLED

Array = NDArray[np.float64]
DOMAIN = "sequences"
AUTO, SUM = "auto", "sum"


def check_kernel(name: str, value: Any) -> None:
    """Raise ValueError unless a value is "auto", "sum", a kernel on sequences, or a dict from kernels to weights."""
    if isinstance(value, str) and value in (AUTO, SUM):
        return
    if isinstance(value, Mapping):
        weights = list(value.values())
        if not weights or not all(isinstance(w, int | float) and 0 <= w < np.inf for w in weights) or not sum(weights):
            raise ValueError(
                f"{name}={quoted(value)} is not valid: pass a dict from kernel names to weights of at least 0"
            )
        for one in value:
            ms.kernels.as_kernel(one, DOMAIN)
        return
    ms.kernels.as_kernel(value, DOMAIN)


def check_kernels(name: str, value: Any) -> None:
    """Raise ValueError unless a value is None or a sequence of kernels on sequences."""
    if value is None:
        return
    if isinstance(value, str) or not isinstance(value, Sequence) or not len(value):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a list of names of kernels, or None")
    for one in value:
        ms.kernels.as_kernel(one, DOMAIN)


RULES = {"kernel": check_kernel, "kernels": check_kernels}


class KernelsOfSequences(ObjectParameters, BaseEstimator):
    """An estimator that describes sequences by the principal components of one or several kernels."""

    stored_types: ClassVar[tuple[type, ...]] = (Components, Choice, Step)
    kernel: Any
    kernels: Any
    components_: dict[str, Components]
    sequences_: list[Array]
    weights_: dict[str, float]

    def _sequences(self, X: SequencesLike, reset: bool) -> list[Array]:
        """Return checked sequences."""
        if reset:
            sequences = validate_sequences(self, X, reset=True)
            keep_channel_names(self, X)
            return sequences
        check_is_fitted(self, "components_")
        check_channel_names(self, X)
        return validate_sequences(self, X, reset=False)

    def _descriptions(
        self, sequences: list[Array], n_clusters: int | None, start: Mapping[str, Any] | None = None, **loop: Any
    ) -> tuple[list[Components], dict[str, Array], list[str], Mapping[str, Any]]:
        """Return the fitted kernels that apply, the coordinates of the sequences under each, notes and the state.

        With a checkpoint, an iteration computes as many matrices as the executor runs at the same time; otherwise one
        iteration computes all matrices. `start` is a part of the state; its entry ``rows`` selects the sequences that
        are compared (by default all).
        """
        asked = self._asked()
        optional = isinstance(self.kernel, str) and self.kernel in (AUTO, SUM) and self.kernels is None
        at_once = len(asked) if loop.get("checkpoint") is None else width()
        known: dict[str, Any] = {}

        def described(task: tuple[str, Any, list[Array]]) -> tuple[Any, Array | str]:
            name, kernel, compared = task
            try:
                return gram_of(name, kernel, compared, n_clusters)
            except ValueError as error:
                if not optional:
                    raise
                return None, f"the kernel {quoted(name)} does not apply to these sequences: {error}"

        def begin() -> tuple[dict[str, Any], ms.Measures]:
            state = {"rows": np.arange(len(sequences)), **(start or {}), "grams": ()}
            return state, ms.Measures(fun=1.0, extra={"of": float(-(-len(asked) // at_once))})

        def step(state: dict[str, Any]) -> tuple[dict[str, Any], ms.Measures]:
            compared = [sequences[i] for i in state["rows"]]
            done = len(state["grams"])
            tasks = [(*entry, compared) for entry in asked[done : done + at_once]]
            found = map_ordered(described, tasks)
            known.update({task[0]: fitted for task, (fitted, _) in zip(tasks, found, strict=True)})
            grams = (*state["grams"], *(gram for _, gram in found))
            return {**state, "grams": grams}, ms.Measures(fun=1 - len(grams) / len(asked))

        with one_blas_thread():
            run = ms.iterate(step, begin, stop=all_done, **loop)
            if run.status is ms.Status.INTERRUPTED:
                raise KeyboardInterrupt
            state: Any = run.state
            grams: list[Any] = list(state["grams"])
            applied = []
            for (name, kernel), gram in zip(asked, grams, strict=True):
                if not isinstance(gram, str):
                    # the kernels of a run that was resumed are fitted again, to these items
                    again = None if name in known else as_items([sequences[i] for i in state["rows"]])
                    applied.append((name, known.get(name, kernel), again, gram))

            def components(task: tuple[str, Any, Any, Array]) -> tuple[Components, Array]:
                name, kernel, again, gram = task
                return components_of(name, kernel if again is None else fitted_to(kernel, again, n_clusters), gram)

            found = map_ordered(components, applied)
        coordinates = {one.name: Z for one, Z in found}
        return [one for one, _ in found], coordinates, [gram for gram in grams if isinstance(gram, str)], state

    def _asked(self) -> list[tuple[str, Any]]:
        """Return the names and kernels that are compared or used."""
        if isinstance(self.kernel, Mapping):
            return [(name, ms.kernels.as_kernel(name, DOMAIN)) for name, w in self.kernel.items() if w > 0]
        if not (isinstance(self.kernel, str) and self.kernel in (AUTO, SUM)):
            return [_named(self.kernel)]
        return [_named(one) for one in (available() if self.kernels is None else self.kernels)]

    def _keep(self, components: list[Components], weights: Mapping[str, float], sequences: list[Array]) -> None:
        """Store the kernels, their weights and the sequences with which new sequences are compared."""
        total = float(sum(weights.values()))
        self.weights_ = {name: float(w) / total for name, w in weights.items()}
        self.components_ = {one.name: one for one in components if self.weights_.get(one.name, 0.0) > 0}
        self.sequences_ = sequences

    def _joined(self, coordinates: Mapping[str, Array]) -> Array:
        """Return the concatenated coordinates, scaled so that their kernel is the weighted sum of kernels."""
        return np.hstack([np.sqrt(self.weights_[name]) * coordinates[name] for name in self.components_])

    def _coordinates(self, sequences: list[Array]) -> dict[str, Array]:
        """Return the coordinates of new sequences under each kernel."""
        with one_blas_thread():
            return {name: one.coordinates(sequences, self.sequences_) for name, one in self.components_.items()}


def several(sequences: list[Array]) -> None:
    """Raise ValueError unless there are two sequences or more."""
    if len(sequences) < 2:
        raise ValueError("X has 1 sequence (n_samples=1), but kernels compare sequences: pass at least two sequences")


def available() -> list[str]:
    """Return the bundled kernels whose distribution is installed, without kernels of other plugins."""
    known = {record.name for plugin, record in ms.hooks.records("kernels") if plugin.distribution in ms.hooks.BUNDLED}
    return [name for name in BUNDLED if name in known]


def warn_of(notes: list[str]) -> None:
    """Raise the notes of a choice as warnings."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)


def _named(kernel: Any) -> tuple[str, Any]:
    made = ms.kernels.as_kernel(kernel, DOMAIN)
    return (kernel if isinstance(kernel, str) else made.name), made
