"""The Riemannian Barzilai–Borwein method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .._quoted import quoted
from ._base import whole_numbers
from ._descents import BarzilaiBorwein
from ._line_search import LineSearch
from ._search import Nonmonotone, Search


@dataclass(frozen=True)
class BB(LineSearch, BarzilaiBorwein):
    """Gradient steps of Barzilai–Borwein length: the cheapest iteration.

    The step size is the long ``⟨s, s⟩/⟨s, y⟩`` or the short ``⟨s, y⟩/⟨y, y⟩``, with ``s`` the last step and ``y`` the
    change of the gradient, both transported. Adaptive steps use the short size if the two differ much (Zhou, Gao, Dai).
    On ill-conditioned problems this saves most of the additional iterations of alternating steps. The search is
    nonmonotone: the new value must be below a weighted mean of the values so far (Zhang and Hager), so that nearly
    every first trial is accepted. The best point is returned.

    Parameters
    ----------
    step_size : {"adaptive", "alternating", "long", "short"}
        Which of the two Barzilai-Borwein quotients is used.
    retraction : str, optional
        A retraction of the manifold; by default the manifold's default retraction.
    nonmonotone : float
        Weight of earlier values in the mean, from 0 (monotone) to below 1.
    max_trials : int
        Maximum number of trial steps per line search.

    References
    ----------
    Iannazzo, Porcelli, "The Riemannian Barzilai–Borwein method with nonmonotone line search", 2018; Zhou, Gao, Dai,
    "Gradient methods with adaptive step-sizes", 2006; Zhang, Hager, "A nonmonotone line search technique", 2004; Dai,
    Fletcher, "Projected Barzilai–Borwein methods", 2005.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="bb").x.round(6).tolist()
    [1.0, 1.0]
    """

    nonmonotone: float = 0.85
    max_trials: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_numbers("BB", max_trials=self.max_trials)
        if not (isinstance(self.nonmonotone, int | float) and 0 <= self.nonmonotone < 1):
            raise ValueError(
                f"BB(nonmonotone={quoted(self.nonmonotone)}): nonmonotone must be a number from 0 to below 1"
            )

    @property
    def monotone(self) -> bool:
        return self.nonmonotone == 0

    @cached_property
    def search(self) -> Search:  # type: ignore[override]
        return Nonmonotone(self.max_trials, self.nonmonotone)
