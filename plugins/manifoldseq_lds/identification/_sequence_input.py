"""Input of estimators that accept sequences or `Systems`: identification in `fit`, and the same scale for new data."""

from collections.abc import Iterable
from dataclasses import fields
from numbers import Integral
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    ObjectParameters,
    SequencesLike,
    check_channel_names,
    check_choice,
    check_parameters,
    check_sequences,
    quoted,
    validate_sequences,
)
from manifoldseq.models import Choice, Stages, Step

from ..systems._record import Systems
from ._identifier import RULES, LDSIdentifier
from ._missing import OR_NAN
from ._order import check_order
from ._resumed import stages_of

Array = NDArray[np.floating[Any]]

SequencesOrSystems: TypeAlias = SequencesLike | Systems
"""What estimators with a kernel of systems accept: sequences, from which systems are identified, or systems."""

_KERNELS = (ms.kernels.NormalizedKernel, ms.kernels.ProductKernel, ms.kernels.RBFKernel, ms.kernels.SumKernel)


def _check_identifier(name: str, value: Any) -> None:
    if not isinstance(value, LDSIdentifier | None):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass LDSIdentifier(…), or None for its defaults")
    if value is not None:
        check_parameters(value, RULES)


IDENTIFICATION = {"n_states": lambda _, value: check_order(value), "identifier": _check_identifier}
"""Constraints of the parameters that all estimators of sequences have."""
MOMENTS = ("level", "size", "both")
"""Moments that may be compared in addition to the dynamics."""


def check_moments(name: str, value: Any) -> None:
    """Raise ValueError unless a value names moments."""
    check_choice(name, value, ("auto", "none", *MOMENTS))


class SequenceEstimator(ObjectParameters, BaseEstimator):
    """Base class of estimators of sequences or `Systems`, with the parameters `identifier` and `n_states`."""

    stored_types: ClassVar[tuple[type, ...]] = (Systems, LDSIdentifier, *_KERNELS, Choice, Step)
    n_states: int | str | None
    identifier: LDSIdentifier | None

    @property
    def used_parameters_(self) -> dict[str, Any]:
        """The number of states, the delay and the stabilizer that were used, for reports."""
        systems, n_outputs = getattr(self, "systems_", None), getattr(self, "n_features_in_", 0)
        if isinstance(systems, Systems) and n_outputs and hasattr(self, "scale_"):  # not fitted on systems
            found = {"n_states": systems.n_states, "identifier.delay": systems.n_outputs // n_outputs}
        else:
            found = {"n_states": identifier_of(self).n_states}
        chosen = getattr(getattr(self, "choice_", None), "best_params", {})
        used = chosen.get("identifier__stabilizer", identifier_of(self).stabilizer_)
        return {**found, "identifier.n_states": found["n_states"], "identifier.stabilizer": used}


def identifier_of(estimator: SequenceEstimator) -> LDSIdentifier:
    """Return an unfitted identifier with the settings of an estimator."""
    return chosen_identifier(estimator.identifier, estimator.n_states)


def chosen_identifier(identifier: LDSIdentifier | None, n_states: int | str | None) -> LDSIdentifier:
    """Return an unfitted copy of an identifier, by default a new one, with the number of states if that is given.

    Raises
    ------
    ValueError
        If the object is not an `LDSIdentifier`, has an invalid setting, or has another number of states.
    """
    _check_identifier("identifier", identifier)
    made = LDSIdentifier() if identifier is None else cast(LDSIdentifier, clone(identifier))
    if n_states is not None and not (isinstance(n_states, str) and n_states == "auto"):
        if made.n_states not in (None, "auto", n_states):
            raise ValueError(
                f"n_states={quoted(n_states)}, but the identifier has n_states={quoted(made.n_states)}: set only one "
                "of them"
            )
        made.n_states = n_states
    return made


_SMALLEST = 1e-3
"""Smallest standard deviation that differs from zero, in units of the scale of the channel."""


def channel_moments(sequences: Iterable[Any]) -> Array:
    """Return the mean of each channel of scaled sequences and the logarithm of its standard deviation, (N, 2 d)."""
    rows = [np.concatenate([np.nanmean(x, axis=0), np.nanstd(x, axis=0)]) for x in sequences]
    made = np.stack(rows)
    d = made.shape[1] // 2
    made[:, d:] = np.log(np.maximum(made[:, d:], _SMALLEST))
    return made


def with_moments(systems: Systems, X: SequencesLike, scale: Array) -> Systems:
    """Return the systems of sequences together with the moments of the sequences."""
    given = {one.name: getattr(systems, one.name) for one in fields(systems)}
    return Systems.trusted({**given, "moments": channel_moments(np.asarray(x, dtype=np.float64) / scale for x in X)})


def whole_sequences(
    estimator: Any,
    X: SequencesLike,
    filler: LDSIdentifier | None = None,
    *,
    checkpoint: ms.storage.Checkpoint | None = None,
    resume: bool = False,
    **least: Any,
) -> tuple[list[Any], LDSIdentifier | None]:
    """Return validated sequences for cutting, and the object that filled missing values (None if nothing was filled).

    Values are filled before cutting, from the whole sequence, by `filler` or by an identifier that is fitted here. The
    checkpoint contains the batches of filled sequences.
    """
    settings = identifier_of(estimator)
    if settings.missing == "error":
        return check_sequences(X, or_nan=OR_NAN, **least), None
    stages = stages_of(estimator, settings, X, checkpoint=checkpoint, resume=resume)
    if filler is None:
        filler = settings.fit(X, **stages.part())
    return check_sequences(filler._interpolated(X, stages=stages), **least), filler


def learned_systems(
    estimator: Any, X: SequencesOrSystems, stages: Stages | None = None
) -> tuple[Systems, LDSIdentifier | None]:
    """Return the systems for a fit, and the identifier (None if systems were given).

    The systems have moments if the estimator compares moments. The batches of an identification are tasks of the
    stages of the fit.
    """
    if isinstance(X, Systems):
        if not len(X):
            raise ValueError("X contains no systems: pass at least one")
        return X, None
    identifier, stages = identifier_of(estimator), stages or Stages()
    identifier.fit(X, **stages.part())
    # kernels that have centres need orthonormal outputs, and so as many outputs as states
    most = identifier.n_features_in_ * identifier.delay_
    if identifier.n_states_ > most:
        if isinstance(identifier.n_states, Integral):
            raise ValueError(
                f"n_states={identifier.n_states} exceeds channels × delay = {most}: lower n_states or raise delay "
                "(identifier.delay)"
            )
        identifier.set_params(n_states=most).fit(X)
    systems = identifier._identified(X, None, stages)
    if getattr(estimator, "moments", "none") in MOMENTS:
        systems = with_moments(systems, X, identifier.scale_)
    return systems, identifier


def remember(estimator: Any, systems: Systems, identifier: LDSIdentifier | None) -> None:
    """Store the systems and the scale for new data."""
    estimator.n_features_in_ = systems.n_outputs if identifier is None else identifier.n_features_in_
    for name in ("scale_", "feature_names_in_"):
        estimator.__dict__.pop(name, None)
        if identifier is not None and hasattr(identifier, name):
            setattr(estimator, name, getattr(identifier, name))


def identifier_for(estimator: Any, X: SequencesLike) -> LDSIdentifier:
    """Return the identifier of a fitted estimator for new sequences, which are validated."""
    if not hasattr(estimator, "scale_"):
        name = type(estimator).__name__
        raise ValueError(f"this {name} was fitted on Systems: pass Systems, or fit it on sequences")
    choice = getattr(estimator, "choice_", None)
    settings = estimator
    if choice is not None:
        settings = cast(Any, clone(estimator)).set_params(**choice.best_params)
    identifier, known = identifier_of(settings), estimator.systems_
    check_channel_names(estimator, X)
    if identifier.missing == "error":
        validate_sequences(estimator, X, reset=False, or_nan=OR_NAN)
    identifier.n_features_in_, identifier.scale_ = estimator.n_features_in_, estimator.scale_
    identifier.n_states_, identifier.delay_ = known.n_states, known.n_outputs // estimator.n_features_in_
    return identifier


def new_systems(estimator: Any, X: SequencesOrSystems) -> Systems:
    """Return the systems of new sequences, or systems of the size of the estimator's `systems_`."""
    check_is_fitted(estimator, "systems_")
    known = estimator.systems_
    if not isinstance(X, Systems):
        systems = identifier_for(estimator, X).transform(X)
        return with_moments(systems, X, estimator.scale_) if hasattr(estimator, "moment_weights_") else systems
    if (X.n_outputs, X.n_states) != (known.n_outputs, known.n_states):
        raise ValueError(
            f"X has systems with {X.n_outputs} outputs and {X.n_states} states but this {type(estimator).__name__} was "
            f"fitted on {known.n_outputs} and {known.n_states}: pass systems of the same size"
        )
    return X
