"""Doctests that need torch are left out where it is not installed."""

from importlib.util import find_spec

_NEED_TORCH = ("_layer", "_network", "_stiefel_sgd")

collect_ignore = [] if find_spec("torch") else [f"manifoldseq_hope/{name}.py" for name in _NEED_TORCH]
