"""How estimators of sequences or `Systems` take their data: identification at `fit`, the same scale for new data."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from manifoldseq.estimators import validate_sequences

from ..systems._record import Systems
from ._identifier import IDENTIFICATION, LDSIdentifier


def identifier_of(estimator: Any) -> LDSIdentifier:
    """Return an unfitted identifier with the settings of an estimator."""
    return LDSIdentifier(**{name: getattr(estimator, name) for name in IDENTIFICATION})


def learned_systems(estimator: Any, X: Any) -> tuple[Systems, LDSIdentifier | None]:
    """Return the systems to fit to, and what identified them: None if they were given."""
    if isinstance(X, Systems):
        if not len(X):
            raise ValueError("X holds no systems: pass at least one")
        return X, None
    identifier = identifier_of(estimator)
    return identifier.fit_transform(X), identifier


def remember(estimator: Any, systems: Systems, identifier: LDSIdentifier | None) -> None:
    """Keep what new data are compared with and scaled by."""
    estimator.n_features_in_ = systems.n_outputs if identifier is None else identifier.n_features_in_
    estimator.__dict__.pop("scale_", None)
    if identifier is not None:
        estimator.scale_ = identifier.scale_


def new_systems(estimator: Any, X: Any) -> Systems:
    """Return the systems of new sequences, or systems of the size of the estimator's `systems_`."""
    check_is_fitted(estimator, "systems_")
    name, known = type(estimator).__name__, estimator.systems_
    if not isinstance(X, Systems):
        if not hasattr(estimator, "scale_"):
            raise ValueError(f"this {name} was fitted on Systems: pass Systems, or fit it on sequences")
        identifier = identifier_of(estimator)
        identifier.n_features_in_, identifier.scale_ = estimator.n_features_in_, estimator.scale_
        identifier.n_states_, identifier.delay_ = known.n_states, known.n_outputs // estimator.n_features_in_
        validate_sequences(estimator, X, reset=False)
        return identifier.transform(X)
    if (X.n_outputs, X.n_states) != (known.n_outputs, known.n_states):
        raise ValueError(
            f"X has systems with {X.n_outputs} outputs and {X.n_states} states but this {name} was "
            f"fitted on {known.n_outputs} and {known.n_states}: pass systems of the same size"
        )
    return X
