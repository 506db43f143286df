"""Tables and figures of four papers, and the speech tools that only these need.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hope._audio import read_sphere, write_sphere
    from .hope._filter_bank import deltas, filter_bank
    from .hope._phone_corpus import generate_phone_corpus
    from .hope._phone_decoder import PhoneDecoder
    from .hope._timit import read_timit

_HOMES = {
    "PhoneDecoder": "hope._phone_decoder",
    "deltas": "hope._filter_bank",
    "filter_bank": "hope._filter_bank",
    "generate_phone_corpus": "hope._phone_corpus",
    "read_sphere": "hope._audio",
    "read_timit": "hope._timit",
    "write_sphere": "hope._audio",
}

__all__ = [
    "PhoneDecoder",
    "deltas",
    "filter_bank",
    "generate_phone_corpus",
    "read_sphere",
    "read_timit",
    "write_sphere",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
