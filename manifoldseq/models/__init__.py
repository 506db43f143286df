"""Problems of registered models, base classes of their estimators, and records of choices among settings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._extras import needing
from ._assembly import Prepared, problem_of
from ._choice import Choice, Step, as_good, summary
from ._cluster_sums import ClusterSums
from ._clusters import choose_n_clusters, most_stable, numbers_of_clusters

if TYPE_CHECKING:
    from ._criteria import DensityCriteria
    from ._estimator import ModelEstimator
    from ._mixture import MixtureModel, MixtureSums, mixture_model
    from ._row_mixture import RowMixture

__all__ = [
    "Choice",
    "ClusterSums",
    "DensityCriteria",
    "MixtureModel",
    "MixtureSums",
    "ModelEstimator",
    "Prepared",
    "RowMixture",
    "Step",
    "as_good",
    "choose_n_clusters",
    "mixture_model",
    "most_stable",
    "numbers_of_clusters",
    "problem_of",
    "summary",
]
# estimators need scikit-learn: they are imported when they are first used
_LAZY = {
    "DensityCriteria": "_criteria",
    "MixtureModel": "_mixture",
    "MixtureSums": "_mixture",
    "ModelEstimator": "_estimator",
    "RowMixture": "_row_mixture",
    "mixture_model": "_mixture",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needing(f"{__name__}.{name} needs", "cli"):
        value = globals()[name] = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    return value
