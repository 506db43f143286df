"""Sparse codes and dictionaries of systems (9), (10), and classifiers."""
