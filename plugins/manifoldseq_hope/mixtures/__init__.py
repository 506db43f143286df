"""An orthonormal projection and a mixture behind it: likelihood, EM, Algorithm 1, estimators."""
