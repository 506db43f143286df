"""Kernels on sequences: statistics, spectra, autocovariances, shapes, warping, random convolutions."""
