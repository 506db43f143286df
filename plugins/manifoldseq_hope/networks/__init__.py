"""Networks with orthonormal projections in torch, and layers learned without labels."""
