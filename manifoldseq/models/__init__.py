"""Problems of registered models, base classes of their estimators, and records of choices among settings."""

from .._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, extra="cli")
