"""Kernels: similarities of items, made from a function of two items, or from other kernels."""

from ._algebra import NormalizedKernel, ProductKernel, RBFKernel, SumKernel
from ._from_function import kernel
from ._rows import RowKernel, warn_if_indefinite

__all__ = [
    "NormalizedKernel",
    "ProductKernel",
    "RBFKernel",
    "RowKernel",
    "SumKernel",
    "kernel",
    "warn_if_indefinite",
]
