"""A descent and a search of thirty lines, written from docs/develop/write-a-solver.md."""
