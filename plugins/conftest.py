"""Doctests are left out of plugins that are not installed, and where they need torch and it is not installed.

Those that write a corpus of speech are slow.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from manifoldseq.hooks import BUNDLED
from manifoldseq.hooks._bundled import is_installed

_NEED_TORCH = [f"manifoldseq_hope/networks/{name}.py" for name in ("_convolution_layer", "_layer", "_network")]

assert all((Path(__file__).parent / name).is_file() for name in _NEED_TORCH), "a file with doctests of torch has moved"
collect_ignore = [bundled.replace("-", "_") for bundled in BUNDLED if not is_installed(bundled)]
if not find_spec("torch"):
    collect_ignore += _NEED_TORCH

_SPEECH = tuple(f"plugins/manifoldseq_papers/hope/{name}.py::" for name in ("_phone_corpus", "_timit"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the doctests that write a corpus of speech as slow."""
    for item in items:
        if item.nodeid.startswith(_SPEECH):
            item.add_marker(pytest.mark.slow)
