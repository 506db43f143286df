"""Conformance checks for the tests of plugins; each returns a report of the laws that hold or fail."""

from ._derivatives import check_gradient, check_hessian
from ._estimators import check_estimator, check_multiview_estimator, check_sequence_estimator
from ._kernel import check_kernel
from ._manifold import check_manifold
from ._model import check_model
from ._objective import check_objective
from ._report import CheckFailed, Curve, Law, Report
from ._solver import check_solver

__all__ = [
    "CheckFailed",
    "Curve",
    "Law",
    "Report",
    "check_estimator",
    "check_gradient",
    "check_hessian",
    "check_kernel",
    "check_manifold",
    "check_model",
    "check_multiview_estimator",
    "check_objective",
    "check_sequence_estimator",
    "check_solver",
]
