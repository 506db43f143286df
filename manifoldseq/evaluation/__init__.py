"""Quality of fits: figures of an estimator compared with those of simple controls on the same data."""

from .._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, extra="cli")
