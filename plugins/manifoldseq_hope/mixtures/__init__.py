"""An orthonormal projection followed by a mixture: likelihood, EM, estimators."""
