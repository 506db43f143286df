"""From sequences to systems: subspace method, order, missing values, stabilizers."""
