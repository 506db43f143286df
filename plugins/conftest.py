"""Doctests that need torch are left out where it is not installed."""

from importlib.util import find_spec
from pathlib import Path

_NEED_TORCH = [f"manifoldseq_hope/networks/{name}.py" for name in ("_convolution_layer", "_layer", "_network")]

assert all((Path(__file__).parent / name).is_file() for name in _NEED_TORCH), "a file with doctests of torch has moved"
collect_ignore = [] if find_spec("torch") else _NEED_TORCH
