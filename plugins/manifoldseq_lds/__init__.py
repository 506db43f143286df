"""Linear dynamical systems: identification, kernels, means and clustering of sequences.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._centres import AlignMean, GrassMean, MDSMean
    from ._classifier import LDSClassifier
    from ._coder import LDSSparseCoder
    from ._common import solve_common_problem
    from ._dictionary import LDSDictionaryLearning
    from ._identification import LDSIdentifier
    from ._kernel_matrix import LDSKernelMatrix
    from ._kmeans import LDSKMeans
    from ._lasso import sparse_codes
    from ._lbp import LBPTOP
    from ._learning import hierarchical_batch
    from ._modes import Modes, modes
    from ._neighbors import LDSNeighbors
    from ._plots import plot_kernel_matrix, plot_reconstruction, plot_spectra
    from ._pooling import BagOfSystems, PyramidPooling
    from ._selection import ClusteringChoice, choose_clustering, plot_choice
    from ._span import SpanCompression
    from ._spectral import LDSSpectralClustering
    from ._systems import Systems
    from ._texture_files import VideoFiles, read_textures
    from ._textures import dynamic_textures
    from ._video_blocks import Blocks, VideoBlocks

_HOMES = {
    "AlignMean": "_centres",
    "BagOfSystems": "_pooling",
    "Blocks": "_video_blocks",
    "ClusteringChoice": "_selection",
    "GrassMean": "_centres",
    "LBPTOP": "_lbp",
    "LDSClassifier": "_classifier",
    "LDSDictionaryLearning": "_dictionary",
    "LDSIdentifier": "_identification",
    "LDSKMeans": "_kmeans",
    "LDSKernelMatrix": "_kernel_matrix",
    "LDSNeighbors": "_neighbors",
    "LDSSparseCoder": "_coder",
    "LDSSpectralClustering": "_spectral",
    "MDSMean": "_centres",
    "Modes": "_modes",
    "PyramidPooling": "_pooling",
    "SpanCompression": "_span",
    "Systems": "_systems",
    "VideoBlocks": "_video_blocks",
    "VideoFiles": "_texture_files",
    "choose_clustering": "_selection",
    "dynamic_textures": "_textures",
    "hierarchical_batch": "_learning",
    "modes": "_modes",
    "plot_choice": "_selection",
    "plot_kernel_matrix": "_plots",
    "plot_reconstruction": "_plots",
    "plot_spectra": "_plots",
    "read_textures": "_texture_files",
    "solve_common_problem": "_common",
    "sparse_codes": "_lasso",
}

__all__ = [
    "LBPTOP",
    "AlignMean",
    "BagOfSystems",
    "Blocks",
    "ClusteringChoice",
    "GrassMean",
    "LDSClassifier",
    "LDSDictionaryLearning",
    "LDSIdentifier",
    "LDSKMeans",
    "LDSKernelMatrix",
    "LDSNeighbors",
    "LDSSparseCoder",
    "LDSSpectralClustering",
    "MDSMean",
    "Modes",
    "PyramidPooling",
    "SpanCompression",
    "Systems",
    "VideoBlocks",
    "VideoFiles",
    "choose_clustering",
    "dynamic_textures",
    "hierarchical_batch",
    "modes",
    "plot_choice",
    "plot_kernel_matrix",
    "plot_reconstruction",
    "plot_spectra",
    "read_textures",
    "solve_common_problem",
    "sparse_codes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
