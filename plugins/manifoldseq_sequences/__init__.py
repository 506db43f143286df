"""Sequences of which little is known: kernels of several descriptions, and estimators that choose among them.

Names load when they are first used, so that importing the package imports no model code.
"""

from manifoldseq.hooks import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
