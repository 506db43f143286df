"""Doctests of the room of torch are left out where torch is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["manifoldseq/torch"]
