"""Solvers: one algorithm per file, frozen options over a pure step."""

from .._moved import moved
from ._adam import Adam
from ._alternating import Alternating
from ._augmented_lagrangian import AugmentedLagrangian
from ._base import Solver
from ._bb import BB
from ._cg import CG
from ._gd import GD
from ._lbfgs import LBFGS
from ._pgd import PGD
from ._pymanopt import Pymanopt
from ._schedules import Cosine, Halving, InverseTime, Schedule
from ._sgd import SGD
from ._stochastic import Stochastic
from ._stochastic_pgd import StochasticPGD
from ._tr import TR

__all__ = [
    "BB",
    "CG",
    "GD",
    "LBFGS",
    "PGD",
    "SGD",
    "TR",
    "Adam",
    "Alternating",
    "AugmentedLagrangian",
    "Cosine",
    "Halving",
    "InverseTime",
    "Pymanopt",
    "Schedule",
    "Solver",
    "Stochastic",
    "StochasticPGD",
]

__getattr__ = moved(__name__, {"manifoldseq.batch": ("BatchBB",)})
