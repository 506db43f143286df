"""Linear dynamical systems: identification, kernels, means and clustering of sequences.

Names are imported on first use, so that the import of the package loads no model code.
"""

from manifoldseq.hooks import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
