"""Tables and figures of four papers, with their baselines and speech tools.

Names load when they are first used, so that importing the package imports no model code.
"""

from typing import Any

from manifoldseq.hooks import BUNDLED, lazy_names

_get, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        needed = (error.name or "").replace("_", "-")
        if needed not in BUNDLED:
            raise
        raise ImportError(f"{name} needs {needed}, which is not installed: run `pip install {needed}`") from error
