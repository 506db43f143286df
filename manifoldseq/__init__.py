"""A plugin-based manifold-optimization engine for sequences and multi-view data.

``minimize`` solves a problem over a manifold. ``get_model``, ``get_estimator``, ``get_kernel`` and ``get_solver``
return registered objects by name. Other public names are in the packages ``linalg``, ``manifolds``, ``objectives``,
``kernels``, ``solvers``, ``batch``, ``interop``, ``estimators``, ``models``, ``evaluation``, ``hooks``, ``testing``,
``execution``, ``storage``, ``report``, ``reproduction``, ``losses`` and ``poses``.
"""

from importlib import import_module

from ._lazy import lazy_names as _lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = _lazy_names(__name__, __file__)

import_module(f"{__name__}.catalogue")  # hands the core's own records to the hooks
