"""Kernels from a function of two items, and from other kernels; k-means in the feature space of a kernel."""

from ..hooks._kernels import Domain, Kernel, PackedItems
from ._algebra import NormalizedKernel, ProductKernel, RBFKernel, SumKernel, as_kernel
from ._from_function import kernel
from ._kmeans import adjusted_rand, agreements, kernel_kmeans, spread_rows
from ._rows import RowKernel, warn_if_indefinite

__all__ = [
    "Domain",
    "Kernel",
    "NormalizedKernel",
    "PackedItems",
    "ProductKernel",
    "RBFKernel",
    "RowKernel",
    "SumKernel",
    "adjusted_rand",
    "agreements",
    "as_kernel",
    "kernel",
    "kernel_kmeans",
    "spread_rows",
    "warn_if_indefinite",
]
