"""Clustering of sequences by their systems, neighbours, kernel matrices, and the choice of settings."""
