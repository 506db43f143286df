"""Quality of fits: comparison of an estimator with simple controls on the same data."""

from .._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, extra="cli")
