"""Linear dynamical systems: identification, kernels, means and clustering of sequences.

Names are imported on first use, so that the import of the package loads no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._plots import plot_kernel_matrix, plot_reconstruction, plot_spectra
    from .clustering._kernel_matrix import LDSKernelMatrix
    from .clustering._kmeans import LDSKMeans
    from .clustering._neighbors import LDSNeighbors
    from .clustering._selection import choose_clustering
    from .clustering._spectral import LDSSpectralClustering
    from .coding._atom_families import AtomFamily, AtomProblem
    from .coding._classifier import LDSClassifier
    from .coding._dictionary import LDSDictionaryLearning
    from .coding._lasso import sparse_codes
    from .coding._learning import hierarchical_batch
    from .coding._sparse_coder import LDSSparseCoder
    from .identification._identifier import LDSIdentifier
    from .kernels._binet_cauchy import BinetCauchyKernel
    from .kernels._grassmann import GrassmannKernel
    from .kernels._histograms import Chi2Kernel
    from .kernels._martin import MartinKernel, MartinRBFKernel
    from .kernels._moments import MomentKernel
    from .kernels._projection import ProjectionKernel
    from .kernels._symmetric import SymmetricProjectionKernel
    from .means._centre_rules import CentreRule, CentreTask
    from .means._common_problem import solve_common_problem
    from .means._span_compression import SpanCompression
    from .systems._canonical_form import canonical_form
    from .systems._modes import Modes, modes
    from .systems._record import System, Systems
    from .systems._state_estimates import StateEstimates
    from .videos._blocks import Blocks, VideoBlocks
    from .videos._generated_textures import dynamic_textures
    from .videos._lbp import LBPTOP
    from .videos._pooling import BagOfSystems, PyramidPooling
    from .videos._texture_files import VideoFiles, read_textures

_HOMES = {
    "AtomFamily": "coding._atom_families",
    "AtomProblem": "coding._atom_families",
    "BagOfSystems": "videos._pooling",
    "BinetCauchyKernel": "kernels._binet_cauchy",
    "Blocks": "videos._blocks",
    "CentreRule": "means._centre_rules",
    "CentreTask": "means._centre_rules",
    "Chi2Kernel": "kernels._histograms",
    "GrassmannKernel": "kernels._grassmann",
    "LBPTOP": "videos._lbp",
    "LDSClassifier": "coding._classifier",
    "LDSDictionaryLearning": "coding._dictionary",
    "LDSIdentifier": "identification._identifier",
    "LDSKMeans": "clustering._kmeans",
    "LDSKernelMatrix": "clustering._kernel_matrix",
    "LDSNeighbors": "clustering._neighbors",
    "LDSSparseCoder": "coding._sparse_coder",
    "LDSSpectralClustering": "clustering._spectral",
    "MartinKernel": "kernels._martin",
    "MartinRBFKernel": "kernels._martin",
    "Modes": "systems._modes",
    "MomentKernel": "kernels._moments",
    "ProjectionKernel": "kernels._projection",
    "PyramidPooling": "videos._pooling",
    "SpanCompression": "means._span_compression",
    "SymmetricProjectionKernel": "kernels._symmetric",
    "StateEstimates": "systems._state_estimates",
    "System": "systems._record",
    "Systems": "systems._record",
    "VideoBlocks": "videos._blocks",
    "VideoFiles": "videos._texture_files",
    "canonical_form": "systems._canonical_form",
    "choose_clustering": "clustering._selection",
    "dynamic_textures": "videos._generated_textures",
    "hierarchical_batch": "coding._learning",
    "modes": "systems._modes",
    "plot_kernel_matrix": "_plots",
    "plot_reconstruction": "_plots",
    "plot_spectra": "_plots",
    "read_textures": "videos._texture_files",
    "solve_common_problem": "means._common_problem",
    "sparse_codes": "coding._lasso",
}

__all__ = [
    "LBPTOP",
    "AtomFamily",
    "AtomProblem",
    "BagOfSystems",
    "BinetCauchyKernel",
    "Blocks",
    "CentreRule",
    "CentreTask",
    "Chi2Kernel",
    "GrassmannKernel",
    "LDSClassifier",
    "LDSDictionaryLearning",
    "LDSIdentifier",
    "LDSKMeans",
    "LDSKernelMatrix",
    "LDSNeighbors",
    "LDSSparseCoder",
    "LDSSpectralClustering",
    "MartinKernel",
    "MartinRBFKernel",
    "Modes",
    "MomentKernel",
    "ProjectionKernel",
    "PyramidPooling",
    "SpanCompression",
    "StateEstimates",
    "SymmetricProjectionKernel",
    "System",
    "Systems",
    "VideoBlocks",
    "VideoFiles",
    "canonical_form",
    "choose_clustering",
    "dynamic_textures",
    "hierarchical_batch",
    "modes",
    "plot_kernel_matrix",
    "plot_reconstruction",
    "plot_spectra",
    "read_textures",
    "solve_common_problem",
    "sparse_codes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
