"""Hierarchical encoding: closed-form subspaces that separate classes of frames, and codes in these subspaces.

Names are imported on first use, so that the import of the package loads no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.estimators import quoted

if TYPE_CHECKING:
    from ._encoder import HierarchicalSequenceEncoder, StorageReport
    from ._encoder_plots import plot_distances, plot_storage
    from ._kmeans import SubspaceKMeans
    from ._subspace import SubspaceEncoder
    from ._subspace_plots import plot_coordinates, plot_gain

_HOMES = {
    "HierarchicalSequenceEncoder": "_encoder",
    "StorageReport": "_encoder",
    "SubspaceEncoder": "_subspace",
    "SubspaceKMeans": "_kmeans",
    "plot_coordinates": "_subspace_plots",
    "plot_distances": "_encoder_plots",
    "plot_gain": "_subspace_plots",
    "plot_storage": "_encoder_plots",
}

__all__ = [
    "HierarchicalSequenceEncoder",
    "StorageReport",
    "SubspaceEncoder",
    "SubspaceKMeans",
    "plot_coordinates",
    "plot_distances",
    "plot_gain",
    "plot_storage",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {quoted(__name__)} has no attribute {quoted(name)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
