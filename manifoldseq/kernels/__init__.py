"""Kernels from a function of two items, and from other kernels."""

from ..hooks._kernels import Domain, Kernel, PackedItems
from ._algebra import NormalizedKernel, ProductKernel, RBFKernel, SumKernel, as_kernel
from ._from_function import kernel
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
    "as_kernel",
    "kernel",
    "warn_if_indefinite",
]
