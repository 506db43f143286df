"""Linear dynamical systems: identification, kernels, means and clustering of sequences.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._centres import AlignMean, GrassMean, MDSMean
    from ._common import solve_common_problem
    from ._identification import LDSIdentifier
    from ._kernel_matrix import LDSKernelMatrix
    from ._kmeans import LDSKMeans
    from ._modes import Modes, modes
    from ._neighbors import LDSNeighbors
    from ._plots import plot_kernel_matrix, plot_reconstruction, plot_spectra
    from ._selection import ClusteringChoice, choose_clustering, plot_choice
    from ._span import SpanCompression
    from ._spectral import LDSSpectralClustering
    from ._systems import Systems
    from ._textures import dynamic_textures

_HOMES = {
    "AlignMean": "_centres",
    "ClusteringChoice": "_selection",
    "GrassMean": "_centres",
    "LDSIdentifier": "_identification",
    "LDSKMeans": "_kmeans",
    "LDSKernelMatrix": "_kernel_matrix",
    "LDSNeighbors": "_neighbors",
    "LDSSpectralClustering": "_spectral",
    "MDSMean": "_centres",
    "Modes": "_modes",
    "SpanCompression": "_span",
    "Systems": "_systems",
    "choose_clustering": "_selection",
    "dynamic_textures": "_textures",
    "modes": "_modes",
    "plot_choice": "_selection",
    "plot_kernel_matrix": "_plots",
    "plot_reconstruction": "_plots",
    "plot_spectra": "_plots",
    "solve_common_problem": "_common",
}

__all__ = [
    "AlignMean",
    "ClusteringChoice",
    "GrassMean",
    "LDSIdentifier",
    "LDSKMeans",
    "LDSKernelMatrix",
    "LDSNeighbors",
    "LDSSpectralClustering",
    "MDSMean",
    "Modes",
    "SpanCompression",
    "Systems",
    "choose_clustering",
    "dynamic_textures",
    "modes",
    "plot_choice",
    "plot_kernel_matrix",
    "plot_reconstruction",
    "plot_spectra",
    "solve_common_problem",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
