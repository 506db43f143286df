"""Clusterings and classifications of recorded sequences that other libraries ship, and of generated ones."""
