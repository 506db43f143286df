"""Measured figures of the LDS plugin: ``python -m benchmarks.lds [pairs] [mean] [epoch] [gradient] [purity]``."""
