"""Families of components, von Mises-Fisher and Gaussian, and their special functions."""
