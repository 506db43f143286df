"""Tables of text of 300,000 rows, read beside ``pandas.read_csv``: ``python -m benchmarks.tables``."""
