"""Solvers, one algorithm per file, and the public parts for new solvers.

Names that are not in ``__all__`` are for other packages of the project and are not public: the constants of the
searches, of the default rule and of the confirmation before a success, and :class:`Look`, the criteria of a
confirmation.
"""

from .._stopping import LAST as LAST
from .._stopping import LEAST_PRODUCTS as LEAST_PRODUCTS
from .._stopping import LOOSE as LOOSE
from .._stopping import MOST_PRODUCTS as MOST_PRODUCTS
from .._stopping import ROUNDING as ROUNDING
from .._stopping import SHARE as SHARE
from .._stopping import WINDOW as WINDOW
from .._stopping import Look as Look
from .._stopping import tolerances as tolerances
from ..linalg import flatten, tree_map, unflattener
from ._adam import Adam
from ._alternating import Alternating
from ._augmented_lagrangian import AugmentedLagrangian
from ._auto import choose_solver
from ._base import Solver
from ._batches import MiniBatches
from ._bb import BB
from ._cg import CG
from ._descents import (
    BarzilaiBorwein,
    Conjugate,
    Descent,
    Direction,
    QuasiNewton,
    Steepest,
    secant_pair,
    two_loop,
)
from ._em import EM, in_structure_of
from ._gd import GD
from ._hessian import first_step, hessian_product
from ._iterates import Iterate, evaluate, inner_product
from ._lbfgs import LBFGS
from ._lbfgs_tr import LBFGSTR
from ._line_search import LineSearch
from ._lm import LM
from ._online_em import OnlineEM, learned, share_of_batch
from ._pgd import PGD
from ._pymanopt import Pymanopt
from ._saddle import PROBES as PROBES
from ._saddle import PRODUCTS as PRODUCTS
from ._saddle import THOROUGH as THOROUGH
from ._saddle import UNSEEN as UNSEEN
from ._saddle import leave_saddle, stationary
from ._schedules import Cosine, Halving, InverseTime, Schedule
from ._search import SUFFICIENT as SUFFICIENT
from ._search import Armijo, Found, Given, Line, Nonmonotone, Search, StrongWolfe, armijo, backtrack, wolfe
from ._sgd import SGD
from ._sqp import SQP
from ._steps import fixed_steps, take_steps
from ._stochastic import Stochastic
from ._stochastic_pgd import StochasticPGD
from ._tr import TR

__all__ = [
    "BB",
    "CG",
    "EM",
    "GD",
    "LBFGS",
    "LBFGSTR",
    "LM",
    "PGD",
    "SGD",
    "SQP",
    "TR",
    "Adam",
    "Alternating",
    "Armijo",
    "AugmentedLagrangian",
    "BarzilaiBorwein",
    "Conjugate",
    "Cosine",
    "Descent",
    "Direction",
    "Found",
    "Given",
    "Halving",
    "InverseTime",
    "Iterate",
    "Line",
    "LineSearch",
    "MiniBatches",
    "Nonmonotone",
    "OnlineEM",
    "Pymanopt",
    "QuasiNewton",
    "Schedule",
    "Search",
    "Solver",
    "Steepest",
    "Stochastic",
    "StochasticPGD",
    "StrongWolfe",
    "armijo",
    "backtrack",
    "choose_solver",
    "evaluate",
    "first_step",
    "fixed_steps",
    "flatten",
    "hessian_product",
    "in_structure_of",
    "inner_product",
    "learned",
    "leave_saddle",
    "secant_pair",
    "share_of_batch",
    "stationary",
    "take_steps",
    "tree_map",
    "two_loop",
    "unflattener",
    "wolfe",
]
