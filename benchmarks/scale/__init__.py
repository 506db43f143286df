"""Data larger than one wants in one process: principal components of sharded files, ``python -m benchmarks.scale``."""
