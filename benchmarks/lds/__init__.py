"""Measured figures of the LDS plugin: ``python -m benchmarks.lds [section ...]``; ``--help`` lists the sections."""
