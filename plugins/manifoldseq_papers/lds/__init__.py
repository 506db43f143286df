"""Huang et al., Efficient optimization for linear dynamical systems: Figures 1 and 2, Table 1."""
