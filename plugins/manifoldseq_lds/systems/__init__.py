"""Linear dynamical systems: the record of many, their canonical form, what they predict."""
