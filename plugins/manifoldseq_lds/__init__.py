"""Linear dynamical systems: identification, kernels, means and clustering of sequences.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._common import solve_common_problem
    from ._identification import LDSIdentifier
    from ._kernel_matrix import LDSKernelMatrix
    from ._kmeans import LDSKMeans
    from ._modes import Modes, modes
    from ._plots import plot_kernel_matrix, plot_reconstruction, plot_spectra
    from ._span import SpanCompression
    from ._systems import Systems
    from ._textures import dynamic_textures

_HOMES = {
    "LDSIdentifier": "_identification",
    "LDSKMeans": "_kmeans",
    "LDSKernelMatrix": "_kernel_matrix",
    "Modes": "_modes",
    "SpanCompression": "_span",
    "Systems": "_systems",
    "dynamic_textures": "_textures",
    "modes": "_modes",
    "plot_kernel_matrix": "_plots",
    "plot_reconstruction": "_plots",
    "plot_spectra": "_plots",
    "solve_common_problem": "_common",
}

__all__ = [
    "LDSIdentifier",
    "LDSKMeans",
    "LDSKernelMatrix",
    "Modes",
    "SpanCompression",
    "Systems",
    "dynamic_textures",
    "modes",
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
