"""What a registered model becomes: its problem, and estimators that solve it."""

from typing import TYPE_CHECKING, Any

from ._assembly import Prepared, problem_of

if TYPE_CHECKING:
    from ._estimator import ModelEstimator

__all__ = ["ModelEstimator", "Prepared", "problem_of"]


def __getattr__(name: str) -> Any:
    """Import `ModelEstimator`, which needs scikit-learn, when it is first used."""
    if name == "ModelEstimator":
        from ._estimator import ModelEstimator

        return ModelEstimator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
