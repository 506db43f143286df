"""Settings of a clustering chosen without labels: by forecasts, then by how well two halves of the data agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import ParameterGrid

from manifoldseq.estimators import check_sequences, random_generator
from manifoldseq.execution import map_ordered
from manifoldseq.report import line_style, prepared_axes

from ..identification._identifier import IDENTIFICATION, LDSIdentifier
from ..identification._order import default_sizes
from ..systems._record import Systems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# How well the systems of sequences predict what they have not seen: one step ahead, on the last third.


def usable(sequences: Sequence[Array], need: int) -> list[Array]:
    """Return the sequences whose first two thirds have at least so many time steps; refuse to go on with under half."""
    kept = [x for x in sequences if 2 * len(x) // 3 >= need]
    if 2 * len(kept) < len(sequences):
        raise ValueError(
            f"only {len(kept)} of {len(sequences)} sequences have {need} time steps in their first two thirds, "
            "which the largest setting needs: lower n_states or delay"
        )
    return kept


def one_step_error(sequences: Sequence[Array], settings: dict[str, Any]) -> float:
    """Return the squared error of forecasts one step ahead, relative to that of the mean of what was seen.

    Each sequence is identified on its first two thirds; every step of the last third is then forecast from the step
    before it, ``mean + C A C' (y(t) - mean)``, with `delay` steps as one y(t), of which the newest counts.
    """
    seen = [x[: 2 * len(x) // 3] for x in sequences]
    options: dict[str, Any] = {**settings, "scale": False}
    systems = LDSIdentifier(**options).fit_transform(seen)
    delay, channels = settings["delay"], sequences[0].shape[1]
    error = total = 0.0
    for i, (x, first) in enumerate(zip(sequences, seen, strict=True)):
        start, steps = len(first) - delay, len(x) - len(first)
        y = np.concatenate([x[start + lag : start + lag + steps] for lag in range(delay)], axis=1)
        mean = 0.0 if systems.mean is None else systems.mean[i]
        A, C = systems.A[i], systems.C[i]
        forecast = (mean + (y - mean) @ C @ A.T @ C.T)[:, -channels:]
        error += float(np.square(x[len(first) :] - forecast).sum())
        total += float(np.square(x[len(first) :] - first.mean(axis=0)).sum())
    return error / total if total else 0.0


_IDENTIFICATION = ("n_states", "center", "delay", "stabilizer")
"""Settings that a forecast judges."""


@dataclass(frozen=True, eq=False)
class ClusteringChoice:
    """What `choose_clustering` found.

    Attributes
    ----------
    params : list of dict
        The settings of the grid.
    prediction : ndarray of shape (len(params),)
        Squared error of forecasts one step ahead on what was held out, relative to that of the mean; NaN where the grid
        has no settings of the identification.
    stability : ndarray of shape (len(params),)
        Mean agreement of two halves, an adjusted Rand index: 1 is perfect, 0 chance. NaN where the forecasts are not
        the best ones.
    error : ndarray of shape (len(params),)
        Its standard errors.
    best : int
        The chosen row: of the settings with the best forecasts those within one standard error of the highest
        stability, of these those with the most clusters, and of these the most stable one.
    """

    params: list[dict[str, Any]]
    prediction: Array
    stability: Array
    error: Array

    @property
    def best(self) -> int:
        top = int(np.nanargmax(self.stability))
        good = np.flatnonzero(self.stability >= self.stability[top] - self.error[top])
        clusters = np.array([self.params[i].get("n_clusters", 0) for i in good])
        good = good[clusters == clusters.max()]
        return int(good[self.stability[good].argmax()])

    @property
    def best_params(self) -> dict[str, Any]:
        """The chosen settings, for ``estimator.set_params(**choice.best_params)``."""
        return dict(self.params[self.best])

    def __str__(self) -> str:
        rows = ["  forecast error  agreement        settings"]
        for i, params in enumerate(self.params):
            agreement = "-" if np.isnan(self.stability[i]) else f"{self.stability[i]:.3f} ± {self.error[i]:.3f}"
            forecast = "-" if np.isnan(self.prediction[i]) else f"{self.prediction[i]:.4f}"
            settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
            rows.append(f"{'>' if i == self.best else ' '} {forecast:<16}{agreement:<17}{settings}")
        return "\n".join(rows)


def choose_clustering(
    estimator: Any, X: Any, grid: Mapping[str, Sequence[Any]], *, n_splits: int = 10, random_state: Any = None
) -> ClusteringChoice:
    """Choose settings of a clustering, such as `n_states` and `n_clusters`, without labels.

    One rule in two steps. Settings of the identification (`n_states`, `center`, `delay`, `stabilizer`) are those whose
    systems forecast best: each sequence is identified on its first two thirds, and every later step is forecast from
    the one before. With these, `n_clusters` and all other settings are the most stable ones (Lange, Roth, Braun and
    Buhmann 2004): the data are cut into random halves, the same for all settings; each half is clustered by itself;
    what the clusters of one half say about the other is compared with the other's own clusters by the adjusted Rand
    index. See `ClusteringChoice` for the last word.

    Parameters
    ----------
    estimator : LDSKMeans
        Or any clustering with ``fit``, ``labels_`` and ``predict``. An integer `random_state` of its own gives all
        fits the same seed; with None each fit is given its own, drawn from `random_state`.
    X : list of array-like of shape (T_i, d), or Systems
    grid : dict of str to sequence
        Names of settings and what to try.
    n_splits : int
        Pairs of halves, at least 2.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None

    Returns
    -------
    ClusteringChoice

    Raises
    ------
    ValueError
        If the grid is empty or has unknown names, or the halves are too small for a number of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_lds import LDSKMeans
    >>> rng, t = np.random.default_rng(0), np.arange(40)[:, None]
    >>> X = [np.cos(t * w + rng.uniform(0, 6) + [0, 1, 2]) for w in [0.2, 0.9] * 6]
    >>> choice = choose_clustering(LDSKMeans(n_states=2), X, {"n_clusters": [2, 3]}, n_splits=3, random_state=0)
    >>> choice.best_params
    {'n_clusters': 2}
    """
    if not isinstance(n_splits, int) or isinstance(n_splits, bool) or n_splits < 2:
        raise ValueError(f"n_splits={n_splits!r} is not valid: pass a whole number of at least 2")
    known = estimator.get_params(deep=False)
    if not isinstance(grid, Mapping):
        raise ValueError(f"the grid is of type {type(grid).__name__}: pass a dict of lists of values to try")
    for name, values in grid.items():
        if name not in known:
            raise ValueError(f"the grid has {name!r}, but {type(estimator).__name__} has no such parameter")
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise ValueError(f"the grid has {name}={values!r}: pass a list of values to try")
    for n in grid.get("n_clusters", ()):
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"the grid has n_clusters={n!r}: pass whole numbers of at least 1")
    if not grid:
        raise ValueError("the grid is empty: pass for example {'n_states': [3, 5], 'n_clusters': [2, 3, 4]}")
    params = [dict(one) for one in ParameterGrid(dict(grid))]
    rng, N = random_generator(random_state), len(X)
    largest = max(one.get("n_clusters", known.get("n_clusters", 1)) for one in params)
    if N // 2 < largest:
        raise ValueError(f"X has {N} sequences, and half of them are too few for n_clusters={largest}: pass more")
    prediction = _predictions(known, X, params)
    kept = np.flatnonzero(np.isnan(prediction) | (prediction == np.nanmin([*prediction, np.inf])))
    splits = [(rng.permutation(N), rng.integers(2**31, size=2)) for _ in range(n_splits)]

    def agreement(task: tuple[dict[str, Any], tuple[NDArray[np.int64], NDArray[np.int64]]]) -> float:
        settings, (order, seeds) = task
        halves = [_rows(X, order[: N // 2]), _rows(X, order[N // 2 :])]
        models = []
        for half, seed in zip(halves, seeds, strict=True):
            model: Any = clone(estimator)
            model.set_params(**settings)
            if known.get("random_state", 0) is None:
                model.set_params(random_state=int(seed))
            models.append(model.fit(half))
        pairs = ((0, 1), (1, 0))
        return float(np.mean([adjusted_rand_score(models[b].labels_, models[a].predict(halves[b])) for a, b in pairs]))

    found = map_ordered(agreement, [(params[i], split) for i in kept for split in splits])
    values = np.array(found).reshape(len(kept), n_splits)
    stability, error = np.full((2, len(params)), np.nan)
    stability[kept], error[kept] = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(n_splits)
    return ClusteringChoice(params, prediction, stability, error)


_CLUSTERS = range(2, 9)
_STATES = (2, 3, 5, 8)


def choose_from_shell(estimator: Any, X: Any, seed: int, fixed: frozenset[str]) -> ClusteringChoice:
    """Choose the number of clusters and of states from a default grid, except for what is fixed.

    Two to eight clusters, as many as a quarter of the sequences; 2, 3, 5 and 8 states, as far as every sequence allows.
    """
    sequences = check_sequences(X)
    grid: dict[str, Sequence[Any]] = {}
    if "n_clusters" not in fixed:
        grid["n_clusters"] = [k for k in _CLUSTERS if 4 * k <= len(sequences)] or [2]
    if "n_states" not in fixed:
        shortest, channels = min(map(len, sequences)), sequences[0].shape[1]
        delay = estimator.delay if isinstance(estimator.delay, int) else 2 if channels == 1 else 1
        most = min(channels * delay, shortest // 3 - delay)
        grid["n_states"] = [n for n in _STATES if n <= most] or ["auto"]
    if not grid:
        raise ValueError("n_clusters and n_states are both set: there is nothing left to choose")
    return choose_clustering(estimator, sequences, grid, random_state=seed)


def _predictions(known: dict[str, Any], X: Any, params: list[dict[str, Any]]) -> Array:
    """Return the forecast error of every setting; NaN if the grid leaves the identification alone."""
    if not any(name in params[0] for name in _IDENTIFICATION):
        return np.full(len(params), np.nan)
    if isinstance(X, Systems):
        raise ValueError("X is Systems, which are identified already: leave n_states, center, delay, stabilizer out")
    sequences = check_sequences(X)
    scale = np.concatenate(sequences).std(axis=0)
    chosen = [{name: one.get(name, known[name]) for name in IDENTIFICATION} for one in params]
    shortest = min(2 * len(x) // 3 for x in sequences)
    for one in chosen:
        one["n_states"], one["delay"] = default_sizes(one["n_states"], one["delay"], len(scale), shortest)
    need = max((1 if isinstance(one["n_states"], str) else one["n_states"]) + one["delay"] for one in chosen)
    some = usable([x / np.where(scale > 0, scale, 1.0) for x in sequences], need)
    errors: dict[str, float] = {}
    for one in chosen:
        if repr(one) not in errors:
            errors[repr(one)] = one_step_error(some, one)
    return np.array([errors[repr(one)] for one in chosen])


def plot_choice(choice: ClusteringChoice, ax: "Axes | None" = None) -> "Axes":
    """Plot why settings were chosen; the chosen one is ringed.

    The agreement of halves, with standard errors, where several settings were compared by it; else the forecast errors.

    Parameters
    ----------
    choice : ClusteringChoice
    ax : matplotlib.axes.Axes, optional
        By default those of a new pyplot figure.

    Returns
    -------
    matplotlib.axes.Axes
        The setting with the most values runs along the axis, the others are lines.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> params = [{"n_clusters": 2}, {"n_clusters": 3}]
    >>> choice = ClusteringChoice(params, np.full(2, np.nan), np.array([0.9, 0.4]), np.array([0.1, 0.1]))
    >>> figure, ax = plt.subplots()
    >>> plot_choice(choice, ax).get_xlabel()
    'n_clusters'
    >>> plt.close(figure)
    """
    ax = prepared_axes(ax)
    stable = np.count_nonzero(np.isfinite(choice.stability)) > 1
    heights, errors = (choice.stability, choice.error) if stable else (choice.prediction, None)
    shown = [i for i in range(len(choice.params)) if np.isfinite(heights[i])]
    values = {name: sorted({choice.params[i][name] for i in shown}) for name in choice.params[0]}
    along = max(values, key=lambda name: (len(values[name]), name == "n_clusters"))
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i in shown:
        groups.setdefault(tuple((name, choice.params[i][name]) for name in values if name != along), []).append(i)
    for series, (others, rows) in enumerate(groups.items()):
        rows = sorted(rows, key=lambda i: choice.params[i][along])
        x = [choice.params[i][along] for i in rows]
        label = ", ".join(f"{name}={value}" for name, value in others) or None
        spread = None if errors is None else errors[rows]
        ax.errorbar(x, heights[rows], spread, capsize=2, label=label, **line_style(series, len(x)))
    ring = {"marker": "o", "markersize": 13, "fillstyle": "none", "color": line_style(None)["color"]}
    ax.plot(choice.params[choice.best][along], heights[choice.best], linestyle="", label="chosen", **ring)
    ax.set(xlabel=along, ylabel="agreement of two halves" if stable else "forecast error, relative")
    if all(isinstance(value, int | np.integer) for value in values[along]):
        ax.set_xticks(values[along])
    ax.legend(frameon=False, fontsize="small")
    return ax


def _rows(X: Any, rows: NDArray[np.int64]) -> Any:
    return X[rows] if isinstance(X, Systems | np.ndarray) else [X[i] for i in rows]
