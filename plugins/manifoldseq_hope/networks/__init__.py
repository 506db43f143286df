"""Networks of layers behind orthonormal projections, in torch, and layers learnt without labels."""
