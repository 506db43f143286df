"""Hybrid orthogonal projection and estimation (HOPE): an orthonormal projection and a mixture model, learned together.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._plots import plot_filters
    from .families._bessel import bessel_ratio, concentration, log_bessel, log_normalizer, uniform_expansion
    from .families._family import Family
    from .families._gaussian import gaussian
    from .families._laws import check_family
    from .families._von_mises_fisher import von_mises_fisher
    from .features._convolution import ConvolutionalFeatures
    from .features._vector import VectorFeatures
    from .mixtures._dense import Dense
    from .mixtures._hope import HOPE
    from .mixtures._noise import residual_energy
    from .mixtures._penalty import correlations, penalty, penalty_gradient
    from .mixtures._spherical_kmeans import SphericalKMeans
    from .mixtures._without_hope import PCAMovMF, VonMisesFisherMixture
    from .networks._convolution_layer import HOPEConvolution
    from .networks._initial_weights import uniform
    from .networks._layer import HOPELayer
    from .networks._network import HOPENetworkClassifier
    from .networks._schedule import Exponential, Ramp, ReduceOnPlateau
    from .networks._stack import HOPEStack
    from .networks._windows import Windows

_HOMES = {
    "ConvolutionalFeatures": "features._convolution",
    "Dense": "mixtures._dense",
    "Exponential": "networks._schedule",
    "Family": "families._family",
    "HOPE": "mixtures._hope",
    "HOPEConvolution": "networks._convolution_layer",
    "HOPELayer": "networks._layer",
    "HOPENetworkClassifier": "networks._network",
    "HOPEStack": "networks._stack",
    "PCAMovMF": "mixtures._without_hope",
    "Ramp": "networks._schedule",
    "ReduceOnPlateau": "networks._schedule",
    "SphericalKMeans": "mixtures._spherical_kmeans",
    "VectorFeatures": "features._vector",
    "VonMisesFisherMixture": "mixtures._without_hope",
    "Windows": "networks._windows",
    "bessel_ratio": "families._bessel",
    "check_family": "families._laws",
    "concentration": "families._bessel",
    "correlations": "mixtures._penalty",
    "gaussian": "families._gaussian",
    "log_bessel": "families._bessel",
    "log_normalizer": "families._bessel",
    "penalty": "mixtures._penalty",
    "penalty_gradient": "mixtures._penalty",
    "plot_filters": "_plots",
    "residual_energy": "mixtures._noise",
    "uniform": "networks._initial_weights",
    "uniform_expansion": "families._bessel",
    "von_mises_fisher": "families._von_mises_fisher",
}

__all__ = [
    "HOPE",
    "ConvolutionalFeatures",
    "Dense",
    "Exponential",
    "Family",
    "HOPEConvolution",
    "HOPELayer",
    "HOPENetworkClassifier",
    "HOPEStack",
    "PCAMovMF",
    "Ramp",
    "ReduceOnPlateau",
    "SphericalKMeans",
    "VectorFeatures",
    "VonMisesFisherMixture",
    "Windows",
    "bessel_ratio",
    "check_family",
    "concentration",
    "correlations",
    "gaussian",
    "log_bessel",
    "log_normalizer",
    "penalty",
    "penalty_gradient",
    "plot_filters",
    "residual_energy",
    "uniform",
    "uniform_expansion",
    "von_mises_fisher",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
