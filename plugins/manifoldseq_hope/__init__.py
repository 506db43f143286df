"""Hybrid orthogonal projection and estimation (HOPE): an orthonormal projection and a mixture model, learnt together.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bessel import bessel_ratio, concentration, log_bessel, log_normalizer, uniform_expansion
    from ._check import check_family
    from ._family import Family
    from ._gaussian import gaussian
    from ._hope import HOPE
    from ._mixtures import PCAMovMF, VonMisesFisherMixture
    from ._noise import residual_energy
    from ._penalty import correlations, penalty, penalty_gradient
    from ._penalty_sgd import PenaltySGD
    from ._spherical_kmeans import SphericalKMeans
    from ._vmf import von_mises_fisher

_HOMES = {
    "HOPE": "_hope",
    "Family": "_family",
    "PCAMovMF": "_mixtures",
    "PenaltySGD": "_penalty_sgd",
    "SphericalKMeans": "_spherical_kmeans",
    "VonMisesFisherMixture": "_mixtures",
    "bessel_ratio": "_bessel",
    "check_family": "_check",
    "concentration": "_bessel",
    "correlations": "_penalty",
    "gaussian": "_gaussian",
    "log_bessel": "_bessel",
    "log_normalizer": "_bessel",
    "penalty": "_penalty",
    "penalty_gradient": "_penalty",
    "residual_energy": "_noise",
    "uniform_expansion": "_bessel",
    "von_mises_fisher": "_vmf",
}

__all__ = [
    "HOPE",
    "Family",
    "PCAMovMF",
    "PenaltySGD",
    "SphericalKMeans",
    "VonMisesFisherMixture",
    "bessel_ratio",
    "check_family",
    "concentration",
    "correlations",
    "gaussian",
    "log_bessel",
    "log_normalizer",
    "penalty",
    "penalty_gradient",
    "residual_energy",
    "uniform_expansion",
    "von_mises_fisher",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
