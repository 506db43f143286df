"""Measurements of speed and memory, one package per part of the project: ``python -m benchmarks.NAME``."""
