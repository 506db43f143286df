"""Hybrid orthogonal projection and estimation (HOPE): an orthonormal projection and a mixture model, learnt together.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bessel import bessel_ratio, concentration, log_bessel, log_normalizer, uniform_expansion
    from ._check import check_family
    from ._convolution import ConvolutionalFeatures
    from ._decoder import PhoneDecoder
    from ._dense import Dense
    from ._family import Family
    from ._filterbank import deltas, filter_bank
    from ._gaussian import gaussian
    from ._hope import HOPE
    from ._layer import HOPELayer
    from ._mixtures import PCAMovMF, VonMisesFisherMixture
    from ._network import HOPENetworkClassifier
    from ._noise import residual_energy
    from ._penalty import correlations, penalty, penalty_gradient
    from ._penalty_sgd import PenaltySGD
    from ._phone_corpus import generate_phone_corpus
    from ._plots import plot_filters
    from ._schedule import Exponential, Halving, Ramp
    from ._sphere import read_sphere, write_sphere
    from ._spherical_kmeans import SphericalKMeans
    from ._stack import HOPEStack
    from ._start import uniform
    from ._stiefel_sgd import StiefelSGD
    from ._timit import read_timit
    from ._vmf import von_mises_fisher
    from ._windows import Windows

_HOMES = {
    "ConvolutionalFeatures": "_convolution",
    "Dense": "_dense",
    "Exponential": "_schedule",
    "Family": "_family",
    "HOPE": "_hope",
    "HOPELayer": "_layer",
    "HOPENetworkClassifier": "_network",
    "HOPEStack": "_stack",
    "Halving": "_schedule",
    "PCAMovMF": "_mixtures",
    "PenaltySGD": "_penalty_sgd",
    "PhoneDecoder": "_decoder",
    "Ramp": "_schedule",
    "SphericalKMeans": "_spherical_kmeans",
    "StiefelSGD": "_stiefel_sgd",
    "VonMisesFisherMixture": "_mixtures",
    "Windows": "_windows",
    "bessel_ratio": "_bessel",
    "check_family": "_check",
    "concentration": "_bessel",
    "correlations": "_penalty",
    "deltas": "_filterbank",
    "filter_bank": "_filterbank",
    "gaussian": "_gaussian",
    "generate_phone_corpus": "_phone_corpus",
    "log_bessel": "_bessel",
    "log_normalizer": "_bessel",
    "penalty": "_penalty",
    "penalty_gradient": "_penalty",
    "plot_filters": "_plots",
    "read_sphere": "_sphere",
    "read_timit": "_timit",
    "residual_energy": "_noise",
    "uniform": "_start",
    "uniform_expansion": "_bessel",
    "von_mises_fisher": "_vmf",
    "write_sphere": "_sphere",
}

__all__ = [
    "HOPE",
    "ConvolutionalFeatures",
    "Dense",
    "Exponential",
    "Family",
    "HOPELayer",
    "HOPENetworkClassifier",
    "HOPEStack",
    "Halving",
    "PCAMovMF",
    "PenaltySGD",
    "PhoneDecoder",
    "Ramp",
    "SphericalKMeans",
    "StiefelSGD",
    "VonMisesFisherMixture",
    "Windows",
    "bessel_ratio",
    "check_family",
    "concentration",
    "correlations",
    "deltas",
    "filter_bank",
    "gaussian",
    "generate_phone_corpus",
    "log_bessel",
    "log_normalizer",
    "penalty",
    "penalty_gradient",
    "plot_filters",
    "read_sphere",
    "read_timit",
    "residual_energy",
    "uniform",
    "uniform_expansion",
    "von_mises_fisher",
    "write_sphere",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
