"""Sequences without prior knowledge: kernels on several descriptions, and estimators that choose among these kernels.

Names load when they are first used, so that importing the package imports no model code.
"""

from manifoldseq.hooks import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
