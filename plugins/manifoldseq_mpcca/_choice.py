"""Which setting fills in held-out values best: the number of components, of latent dimensions, the prior, the gate."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._em import observed_views, patterns
from ._expectation import Conditional
from ._parameters import Array, Mixture
from ._starts import TooFewRows
from ._views import View

CRITERIA = ("imputation", "likelihood")
GATES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
_MOST_ROWS = 4000
"""Rows that a choice looks at."""
_FOLDS = 4
"""One of so many parts of the rows is held out."""


@dataclass(frozen=True)
class Setting:
    """What is chosen; see `MixturePCCA`."""

    n_components: int
    n_latent: int
    shrinkage: float
    diagonal: float
    gate: float


@dataclass(frozen=True, eq=False)
class ImputationChoice:
    """What `MixturePCCA` tried where its settings are "auto"; ``print`` shows the table.

    Attributes
    ----------
    params : list of dict
        The settings that were tried.
    loss : ndarray of shape (len(params),)
        Of the held-out rows; see the parameter `criterion`.
    best_params : dict
        Those of the least loss, where they were "auto".
    time : float
        Seconds that it took.
    """

    params: list[dict[str, Any]]
    loss: Array
    best_params: dict[str, Any]
    time: float = 0.0

    def __str__(self) -> str:
        """Return the table of the best gate of each setting, and what was chosen."""
        lines, seen = ["  held-out loss  settings"], set()
        for i in np.argsort(self.loss, kind="stable"):
            rest = ", ".join(f"{k}={v:g}" for k, v in self.params[i].items() if k != "gate" and v == v)
            if rest not in seen:
                seen.add(rest)
                lines.append(f"  {self.loss[i]:13.4f}  {rest}, gate={self.params[i]['gate']:g}")
        return "\n".join([*lines, "chosen: " + ", ".join(f"{k}={v:g}" for k, v in self.best_params.items())])


Fit = Callable[[Setting, NDArray[np.intp]], Mixture]


def choose(
    fit: Fit,
    views: list[View],
    variance: Array,
    first: Setting,
    grid: Mapping[str, Sequence[Any]],
    criterion: str,
    target: int | None = None,
    weights: Array | None = None,
) -> tuple[Setting, ImputationChoice]:
    """Return the setting of the least held-out loss and the table of all that were tried.

    One parameter after the other is replaced by the best of its grid, in the order of the grid, then the first once
    more; the gate is chosen along with each, as it needs no fit of its own.

    Parameters
    ----------
    fit : callable
        ``fit(setting, rows) -> Mixture``, of the rows with these numbers.
    views : list of ndarray of shape (N, d_v)
    variance : ndarray of shape (D,)
        Of the columns: losses of columns are in these units.
    first : Setting
    grid : mapping of str to sequence
        The values of each parameter that is to be chosen.
    criterion, target
        See `MixturePCCA`.
    weights : ndarray of shape (N,), optional
    """
    begin = time.perf_counter()
    rng = np.random.default_rng(0)  # the same rows are held out in every fit
    order = rng.permutation(len(views[0]))[:_MOST_ROWS]
    held, kept = np.sort(order[: max(len(order) // _FOLDS, 1)]), np.sort(order[max(len(order) // _FOLDS, 1) :])
    test, of_test = [view[held] for view in views], None if weights is None else weights[held]
    gates = grid.get("gate", (first.gate,))
    tried: dict[Setting, float] = {}

    def best_of(settings: list[Setting]) -> Setting:
        for setting in settings:
            if replace(setting, gate=gates[0]) not in tried:
                try:
                    found = losses(fit(setting, kept), test, variance, gates, criterion, target, of_test)
                except TooFewRows:
                    found = [np.inf] * len(gates)
                tried.update({replace(setting, gate=g): loss for g, loss in zip(gates, found, strict=True)})
        return min((replace(s, gate=g) for s in settings for g in gates), key=tried.__getitem__)

    stages = [name for name in grid if name != "gate"]
    current = best_of([first])
    for name in [*stages, *stages[:1]] if len(stages) > 1 else stages:
        current = best_of([current, *(replace(current, **{name: value}) for value in grid[name])])
    best = {name: asdict(current)[name] for name in grid}
    spent = time.perf_counter() - begin
    return current, ImputationChoice([asdict(s) for s in tried], np.array(list(tried.values())), best, spent)


def losses(
    mixture: Mixture,
    views: list[View],
    variance: Array,
    gates: Sequence[float],
    criterion: str,
    target: int | None = None,
    weights: Array | None = None,
) -> list[float]:
    """Return the loss of each gate: that of one view given the others, or the mean over the views.

    ``"imputation"`` is the mean squared error of the conditional expectation, over the variance of a column;
    ``"likelihood"`` is minus the mean of ln p(y|x) over its observed values, in these units. Infinity where it is not
    finite.
    """
    sums, counts = np.zeros((len(mixture.views), len(gates))), np.zeros(len(mixture.views))
    for columns, rows in patterns(views):
        every = np.arange(len(views[0])) if rows is None else rows
        for v in range(len(mixture.views)) if target is None else [target]:
            own = np.zeros(len(columns), bool)
            own[mixture.columns(v)] = True
            given, wanted = columns & ~own, columns & own
            if not given.any() or not wanted.any():
                continue
            parts = observed_views(views, columns, every)
            rest = observed_views(views, given, every)
            y = np.concatenate(parts, axis=1)[:, wanted[columns]]
            w = np.ones(len(y)) if weights is None else weights[every]
            counts[v] += w.sum() * y.shape[1]
            one = mixture.observed(columns)
            for g, gate in enumerate(gates):
                conditional = Conditional(one, given[columns], gate)
                if criterion == "imputation":
                    error = conditional.expectations(rest) - y
                    sums[v, g] += np.sum(w @ (error**2 / variance[wanted]))
                else:
                    density = conditional.log_densities(rest, y) + 0.5 * np.log(variance[wanted]).sum()
                    sums[v, g] -= w @ density
    asked = counts > 0
    if not asked.any():
        return [np.inf] * len(gates)
    found = (sums[asked] / counts[asked, None]).mean(axis=0)
    return np.where(np.isfinite(found), found, np.inf).tolist()
