"""Measured figures of hierarchical encoding: ``python -m benchmarks.hierarchical [accuracy] [solvers] [labels] …``."""
