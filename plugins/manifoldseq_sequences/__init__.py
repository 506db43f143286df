"""Sequences without prior knowledge: kernels on several descriptions, and estimators that choose among these kernels.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._classifier import SequenceClassifier
    from ._kmeans import SequenceKMeans
    from ._neighbors import SequenceNeighbors
    from .kernels._autocovariance import AutocovarianceKernel
    from .kernels._convolutions import ConvolutionsKernel
    from .kernels._description import DescriptionKernel, SequenceKernel
    from .kernels._shape import ShapeKernel
    from .kernels._spectrum import SpectrumKernel
    from .kernels._statistics import StatisticsKernel
    from .kernels._warping import WarpingKernel

_HOMES = {
    "AutocovarianceKernel": "kernels._autocovariance",
    "ConvolutionsKernel": "kernels._convolutions",
    "DescriptionKernel": "kernels._description",
    "SequenceClassifier": "_classifier",
    "SequenceKMeans": "_kmeans",
    "SequenceKernel": "kernels._description",
    "SequenceNeighbors": "_neighbors",
    "ShapeKernel": "kernels._shape",
    "SpectrumKernel": "kernels._spectrum",
    "StatisticsKernel": "kernels._statistics",
    "WarpingKernel": "kernels._warping",
}

__all__ = [
    "AutocovarianceKernel",
    "ConvolutionsKernel",
    "DescriptionKernel",
    "SequenceClassifier",
    "SequenceKMeans",
    "SequenceKernel",
    "SequenceNeighbors",
    "ShapeKernel",
    "SpectrumKernel",
    "StatisticsKernel",
    "WarpingKernel",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
