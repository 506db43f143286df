"""Robust losses of least squares."""

from ._losses import GRADUATION as GRADUATION
from ._losses import Cauchy, GemanMcClure, Graduated, Huber, Loss, Squared, Truncated, Welsch
from ._losses import loss_of as loss_of

__all__ = ["Cauchy", "GemanMcClure", "Graduated", "Huber", "Loss", "Squared", "Truncated", "Welsch"]
