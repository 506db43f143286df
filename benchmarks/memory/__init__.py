"""The memory of fits to files as large as memory may be: ``python -m benchmarks.memory``."""
