"""Linear dynamical systems: the record of many systems, their canonical form, and their forecasts."""
