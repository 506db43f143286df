"""A solver of thirty lines, written from docs/develop/write-a-solver.md."""
