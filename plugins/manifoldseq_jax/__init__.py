"""Compiled solvers on manifolds in jax, and derivatives of their solutions.

Names are imported on first use, so that the import of the package does not import jax.
"""

from manifoldseq.hooks import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
