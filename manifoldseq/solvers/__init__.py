"""Solvers: one algorithm per file, frozen options over a pure step."""

from ._base import Solver
from ._lbfgs import LBFGS
from ._pgd import PGD

__all__ = ["LBFGS", "PGD", "Solver"]
