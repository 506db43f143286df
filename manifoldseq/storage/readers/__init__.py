"""Readers of data files, one format per file; `_clock` finds the column that is a time."""
