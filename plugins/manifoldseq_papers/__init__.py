"""Tables and figures of four papers, with their baselines and speech tools.

Names load when they are first used, so that importing the package imports no model code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manifoldseq.hooks import BUNDLED

if TYPE_CHECKING:
    from .hope._audio import read_sphere, write_sphere
    from .hope._filter_bank import deltas, filter_bank
    from .hope._penalty_sgd import PenaltySGD
    from .hope._phone_corpus import generate_phone_corpus
    from .hope._phone_decoder import PhoneDecoder
    from .hope._timit import read_timit
    from .lds._atom_baselines import GrassmannAtoms, SymmetricAtoms
    from .lds._centre_baselines import AlignMean, FixedSteps, GrassMean, MDSMean

_HOMES = {
    "AlignMean": "lds._centre_baselines",
    "FixedSteps": "lds._centre_baselines",
    "GrassMean": "lds._centre_baselines",
    "GrassmannAtoms": "lds._atom_baselines",
    "MDSMean": "lds._centre_baselines",
    "PenaltySGD": "hope._penalty_sgd",
    "PhoneDecoder": "hope._phone_decoder",
    "SymmetricAtoms": "lds._atom_baselines",
    "deltas": "hope._filter_bank",
    "filter_bank": "hope._filter_bank",
    "generate_phone_corpus": "hope._phone_corpus",
    "read_sphere": "hope._audio",
    "read_timit": "hope._timit",
    "write_sphere": "hope._audio",
}

__all__ = [
    "AlignMean",
    "FixedSteps",
    "GrassMean",
    "GrassmannAtoms",
    "MDSMean",
    "PenaltySGD",
    "PhoneDecoder",
    "SymmetricAtoms",
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
    try:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        needed = (error.name or "").replace("_", "-")
        if needed not in BUNDLED:
            raise
        raise ImportError(f"{name} needs {needed}, which is not installed: run `pip install {needed}`") from error


def __dir__() -> list[str]:
    return sorted(__all__)
