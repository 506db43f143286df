"""Quality of fits: figures of an estimator beside those of simple controls on the same data."""

from ..report._quality import Evaluation
from ._controls import (
    AutocovarianceClassifier,
    AutocovarianceKMeans,
    ChannelStatistics,
    LaggedAutocovariance,
    PrincipalComponents,
    RowClassifier,
    RowKMeans,
    RowNeighbors,
    StatisticsClassifier,
    StatisticsKMeans,
)
from ._evaluate import evaluate
from ._tasks import default_controls

__all__ = [
    "AutocovarianceClassifier",
    "AutocovarianceKMeans",
    "ChannelStatistics",
    "Evaluation",
    "LaggedAutocovariance",
    "PrincipalComponents",
    "RowClassifier",
    "RowKMeans",
    "RowNeighbors",
    "StatisticsClassifier",
    "StatisticsKMeans",
    "default_controls",
    "evaluate",
]
