"""Identification of systems from sequences: subspace method, order, missing values, stabilizers."""
