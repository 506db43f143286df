"""Quality of fits: figures of an estimator compared with those of simple controls on the same data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._extras import needing
from ..report._quality import Evaluation

if TYPE_CHECKING:
    from ._controls import (
        AutocovarianceClassifier,
        AutocovarianceKMeans,
        ChannelStatistics,
        LaggedAutocovariance,
        NormalizedKMeans,
        PrincipalComponents,
        RowClassifier,
        RowKMeans,
        RowNeighbors,
        SequenceFeatures,
        StatisticsClassifier,
        StatisticsKMeans,
    )
    from ._evaluate import evaluate
    from ._forecast_baselines import baseline_forecasts
    from ._imputation_error import imputation_error
    from ._sequence_baselines import (
        ConvolutionsClassifier,
        ConvolutionsKMeans,
        CurvesKMeans,
        SpectrumClassifier,
        SpectrumKMeans,
        WarpingClassifier,
        WarpingKMedoids,
    )
    from ._sequence_features import (
        AlignedCurves,
        LogSpectrum,
        RandomConvolutions,
        ResampledCurves,
        warping_distances,
    )
    from ._tasks import default_controls

__all__ = [
    "AlignedCurves",
    "AutocovarianceClassifier",
    "AutocovarianceKMeans",
    "ChannelStatistics",
    "ConvolutionsClassifier",
    "ConvolutionsKMeans",
    "CurvesKMeans",
    "Evaluation",
    "LaggedAutocovariance",
    "LogSpectrum",
    "NormalizedKMeans",
    "PrincipalComponents",
    "RandomConvolutions",
    "ResampledCurves",
    "RowClassifier",
    "RowKMeans",
    "RowNeighbors",
    "SequenceFeatures",
    "SpectrumClassifier",
    "SpectrumKMeans",
    "StatisticsClassifier",
    "StatisticsKMeans",
    "WarpingClassifier",
    "WarpingKMedoids",
    "baseline_forecasts",
    "default_controls",
    "evaluate",
    "imputation_error",
    "warping_distances",
]

_MODULES = {
    "AlignedCurves": "_sequence_features",
    "LogSpectrum": "_sequence_features",
    "RandomConvolutions": "_sequence_features",
    "ResampledCurves": "_sequence_features",
    "baseline_forecasts": "_forecast_baselines",
    "default_controls": "_tasks",
    "evaluate": "_evaluate",
    "imputation_error": "_imputation_error",
    "warping_distances": "_sequence_features",
} | dict.fromkeys(
    (
        "ConvolutionsClassifier",
        "ConvolutionsKMeans",
        "CurvesKMeans",
        "SpectrumClassifier",
        "SpectrumKMeans",
        "WarpingClassifier",
        "WarpingKMedoids",
    ),
    "_sequence_baselines",
)
"""The modules of the names that are not in `_controls`."""


def __getattr__(name: str) -> Any:
    """Import a name on first use, because these names need scikit-learn and the package itself does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needing(f"{__name__}.{name} needs", "cli"):
        import_module("sklearn")  # some import it when they are called
        value = getattr(import_module(f".{_MODULES.get(name, '_controls')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
