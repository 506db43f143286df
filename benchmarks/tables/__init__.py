"""Tables of text of 300,000 rows, compared with ``pandas.read_csv``: ``python -m benchmarks.tables``."""
