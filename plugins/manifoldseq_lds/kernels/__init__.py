"""Kernels on systems, and on histograms."""
