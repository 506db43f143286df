"""Doctests of `manifoldseq.torch` are skipped where torch is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["manifoldseq/torch"]
