"""The choice of settings by held-out imputation: components, latent dimensions, prior and gate."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.execution import map_ordered
from manifoldseq.models import Choice, Step, preferred, summary

from ._expectation import Conditional
from ._parameters import Array, Mixture
from ._patterns import observed_views, patterns
from ._starts import TooFewRows
from ._views import CheckedViews, View

CRITERIA = ("imputation", "likelihood")
GATES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
_MOST_ROWS = 4000
"""Maximum number of rows for a choice."""
_FOLDS = 4
"""Number of parts of the rows, one of which is held out."""
_ALL_FOLDS = 1000
"""Number of rows below which each part is held out in turn, because one part alone is too small."""
SIZES = ("n_components", "n_latent", "n_private")
"""Parameters with the smallest value within one standard error of the best, if all parts are held out."""


@dataclass(frozen=True)
class Setting:
    """The settings that are chosen; see `MixturePCCA`."""

    n_components: int
    n_latent: int
    n_private: int
    shrinkage: float
    diagonal: float
    gate: float


Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Held-out rows, and the remaining rows."""
Fit = Callable[[Setting, CheckedViews], Mixture]


def choose(
    fit: Fit,
    data: CheckedViews,
    variance: Array,
    first: Setting,
    grid: Mapping[str, Sequence[Any]],
    criterion: str,
    target: int | None = None,
) -> tuple[Setting, Choice]:
    """Return the setting with the best predictions of held-out rows, and the record of all compared settings.

    The parameters are optimized one after the other in the order of the grid, and then the first parameter again. The
    gate is chosen together with each of them, because it needs no additional fit. For the numbers of components and
    latent dimensions, the smallest number is chosen whose loss is within one standard error of the smallest loss
    (`manifoldseq.models.preferred`): among many settings, the smallest loss on few rows is often due to noise. With
    1000 or more rows, where one quarter is held out, this rule is applied only to one component, with the losses of all
    quarters. The fits of several settings to several parts of the rows are mapped by the executor.

    Parameters
    ----------
    fit : callable
        ``fit(setting, part) -> Mixture``, fitted to a part of the rows.
    data : CheckedViews
    variance : ndarray of shape (D,)
        Variances of the columns, which are the units of losses.
    first : Setting
    grid : mapping of str to sequence
        The candidate values of each parameter that is chosen.
    criterion, target
        See `MixturePCCA`.
    """
    begin = time.perf_counter()
    rng = np.random.default_rng(0)  # the same rows are held out in every fit
    order = rng.permutation(len(data.views[0]))[:_MOST_ROWS]
    if not any(isinstance(view, np.memmap) for view in data.views):  # tasks have these rows, or the names of files
        some = np.sort(order)
        data, order = data.of_rows(some), np.searchsorted(some, order)
    parts = np.array_split(order, _FOLDS)
    quarters = [(np.sort(part), np.sort(np.setdiff1d(order, part))) for part in parts]
    folds = quarters if len(order) < _ALL_FOLDS else quarters[:1]
    gates = grid.get("gate", (first.gate,))
    tried: dict[Setting, Array] = {}
    """The losses of held-out rows, whose mean is the loss; infinity if there is no loss."""

    def measured(asked: list[tuple[Setting, Sequence[float]]], folds: list[Fold]) -> list[Array]:
        """Return the losses of the held-out rows for settings and their gates, (gates, rows)."""
        tasks = [(*one, fold) for one in asked for fold in folds]
        found = map_ordered(partial(_held_out, fit, data, variance, criterion, target), tasks)
        return [np.concatenate(found[i : i + len(folds)], axis=1) for i in range(0, len(found), len(folds))]

    def best_of(settings: list[Setting], name: str | None = None) -> Setting:
        new = [s for s in dict.fromkeys(settings) if replace(s, gate=gates[0]) not in tried]
        for setting, found in zip(new, measured([(s, gates) for s in new], folds), strict=True):
            tried.update({replace(setting, gate=g): of for g, of in zip(gates, found, strict=True)})
        found = [min((replace(s, gate=g) for g in gates), key=lambda s: tried[s].mean()) for s in settings]
        if name in SIZES and len(folds) > 1:
            return found[preferred([-tried[s] for s in found], [-asdict(s)[name] for s in found])]
        best = min(found, key=lambda s: tried[s].mean())
        one = next((s for s in found if s.n_components == 1), best)
        if name == SIZES[0] and one != best:
            # one quarter does not tell 10 components from 40; whether there is more than one all quarters say
            pair = one, best
            of_pair = measured([(s, [s.gate]) for s in pair], quarters)
            return pair[preferred([-found[0] for found in of_pair], (1, 0))]
        return best

    stages = [name for name in grid if name != "gate"]
    current = best_of([first])
    for name in [*stages, *stages[:1]] if len(stages) > 1 else stages:
        current = best_of([current, *(replace(current, **{name: value}) for value in grid[name])], name)
    shown: dict[Setting, tuple[Setting, Array]] = {}  # the best gate of each setting, the smallest loss first
    for setting, rows in sorted(tried.items(), key=lambda one: one[1].mean()):
        shown.setdefault(replace(setting, gate=first.gate), (setting, rows))
    settings = [setting for setting, _ in shown.values()]
    params = [{name: asdict(setting)[name] for name in grid} for setting in settings]
    chosen, (loss, error) = settings.index(current), summary(np.array([rows for _, rows in shown.values()]))
    step = Step("held-out loss", "loss of held-out rows", params, loss, [chosen], error)
    return current, Choice([step], params[chosen], [], time.perf_counter() - begin)


def _held_out(
    fit: Fit,
    data: CheckedViews,
    variance: Array,
    criterion: str,
    target: int | None,
    task: tuple[Setting, Sequence[float], Fold],
) -> Array:
    """Return the losses of the held-out rows of a fold for a setting with each gate, (gates, rows)."""
    setting, gates, (held, kept) = task
    test = data.of_rows(held)
    try:
        return losses(fit(setting, data.of_rows(kept)), test.views, variance, gates, criterion, target, test.weights)
    except TooFewRows:
        return np.full((len(gates), len(test.views[0])), np.inf)


def losses(
    mixture: Mixture,
    views: list[View],
    variance: Array,
    gates: Sequence[float],
    criterion: str,
    target: int | None = None,
    weights: Array | None = None,
) -> Array:
    """Return the losses of rows for each gate, (gates, N), for one view given the others, or averaged over views.

    For ``"imputation"``, the mean over the rows is the mean squared error of the conditional expectation divided by the
    variance of a column. For ``"likelihood"``, it is minus the mean of ln p(y|x) per observed value, in the same units.
    Losses that are not finite become infinity.
    """
    n = len(views[0])
    sums, counts = np.zeros((len(mixture.views), len(gates), n)), np.zeros(len(mixture.views))
    for columns, rows in patterns(views):
        every = np.arange(n) if rows is None else rows
        for v in range(len(mixture.views)) if target is None else [target]:
            own = np.zeros(len(columns), bool)
            own[mixture.columns(v)] = True
            given, wanted = columns & ~own, columns & own
            if not given.any() or not wanted.any():
                continue
            parts = observed_views(views, columns, every)
            rest = observed_views(views, given, every)
            y = np.concatenate([part[:] for part in parts], axis=1)[:, wanted[columns]]
            w = np.ones(len(y)) if weights is None else weights[every]
            counts[v] += w.sum() * y.shape[1]
            one = mixture.observed(columns)
            for g, gate in enumerate(gates):
                conditional = Conditional(one, given[columns], gate)
                if criterion == "imputation":
                    error = conditional.expectations(rest) - y
                    sums[v, g, every] = w * np.sum(error**2 / variance[wanted], axis=1)
                else:
                    density = conditional.log_densities(rest, y) + 0.5 * np.log(variance[wanted]).sum()
                    sums[v, g, every] = -w * density
    asked = counts > 0
    if not asked.any():
        return np.full((len(gates), n), np.inf)
    found = (sums[asked] * (n / counts[asked])[:, None, None]).mean(axis=0)
    found[~np.isfinite(found).all(axis=1)] = np.inf
    return found
