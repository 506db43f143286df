"""Families of components: von Mises-Fisher, Gaussian, and the special functions that they need."""
