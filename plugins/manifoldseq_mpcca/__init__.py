"""Mixtures of probabilistic canonical correlation analysis of two or more views, and encodings based on them.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._gradient_vector import Encoding, gradient_vectors, private_parts
    from ._mixture_pcca import MixturePCCA
    from ._parameters import Mixture
    from ._plots import plot_shared
    from ._super_vector import FisherVector, MultiViewSuperVector
    from ._videos import VideoDescriptors, read_videos

_HOMES = {
    "Encoding": "_gradient_vector",
    "FisherVector": "_super_vector",
    "Mixture": "_parameters",
    "MixturePCCA": "_mixture_pcca",
    "MultiViewSuperVector": "_super_vector",
    "VideoDescriptors": "_videos",
    "gradient_vectors": "_gradient_vector",
    "plot_shared": "_plots",
    "private_parts": "_gradient_vector",
    "read_videos": "_videos",
}

__all__ = [
    "Encoding",
    "FisherVector",
    "Mixture",
    "MixturePCCA",
    "MultiViewSuperVector",
    "VideoDescriptors",
    "gradient_vectors",
    "plot_shared",
    "private_parts",
    "read_videos",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
