"""Objectives: what is minimized, how it is differentiated, how it splits over data; kernels made from functions."""

from ._kernel import kernel
from ._memo import last_point
from ._objective import BlockUpdate, FiniteTerms, Objective, finite_sum, objective
from ._sharded import sharded

__all__ = ["BlockUpdate", "FiniteTerms", "Objective", "finite_sum", "kernel", "last_point", "objective", "sharded"]
