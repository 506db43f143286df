"""Measured figures of the engine beside those of its peers: ``python -m benchmarks.engine [section …] [--quick]``."""
