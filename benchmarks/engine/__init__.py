"""Measure the engine and its peers: ``python -m benchmarks.engine [section …] [--quick]``."""
