"""Model selection for clusterings without labels: by forecast errors and by agreement of halves of the data."""

import time
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin, clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import ParameterGrid

import manifoldseq as ms
from manifoldseq.estimators import check_whole, quoted, random_generator, uninterrupted
from manifoldseq.execution import map_ordered, one_blas_thread
from manifoldseq.models import (
    AGREEMENT,
    COMPARED,
    SPLITS,
    Choice,
    Step,
    at_end_of_range,
    numbers_of_clusters,
    preferred,
    summary,
)

from ..identification._identifier import LDSIdentifier
from ..identification._order import default_sizes
from ..identification._resumed import stages_of
from ..identification._sequence_input import SequenceEstimator, SequencesOrSystems, identifier_of, learned_systems
from ..kernels._moments import fitted_kernel, keep_moment_weights
from ..kernels._resolved import check_kernel
from ..means._common_problem import items_of
from ..systems._prediction import embed, squared_errors
from ..systems._record import Systems
from ._settings import choose_settings, filled, is_open

Array = NDArray[np.floating[Any]]

# How well the systems of sequences predict what they have not seen: one step ahead, on the last third.


def usable(sequences: Sequence[Array], need: int) -> list[Array]:
    """Return the sequences whose first two thirds have `need` time steps; raise ValueError if they are too few."""
    kept = [x for x in sequences if 2 * len(x) // 3 >= need]
    if 2 * len(kept) < len(sequences):
        raise ValueError(
            f"only {len(kept)} of {len(sequences)} sequences have at least {need} time steps in their first two "
            "thirds, as the largest compared setting requires: lower n_states or delay"
        )
    return kept


def one_step_error(sequences: Sequence[Array], identifier: LDSIdentifier, delay: int) -> float:
    """Return the squared error of one-step-ahead forecasts, relative to the error of the mean of the training part.

    Each sequence is identified on its first two thirds. Every step of the last third is then forecast from the previous
    step, ``mean + C A C' (y(t) - mean)``, where y(t) stacks `delay` steps and only the newest step is compared.
    """
    seen = [x[: 2 * len(x) // 3] for x in sequences]
    systems = identifier.fit_transform(seen)
    channels = sequences[0].shape[1]
    error = total = 0.0
    for i, (x, first) in enumerate(zip(sequences, seen, strict=True)):
        one, stacked = systems[[i]], embed(x[None], delay).swapaxes(1, 2)
        error += float(squared_errors(stacked, len(first) - delay + 1, channels, one.mean, one.C, [one.A])[0][0])
        total += float(np.square(x[len(first) :] - first.mean(axis=0)).sum())
    return error / total if total else 0.0


def _identification(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are compared by forecasts."""
    return {name: value for name, value in params.items() if _identifies(name)}


def _identifies(name: str) -> bool:
    """Return whether a setting is compared by forecasts."""
    return name.partition("__")[0] in ("n_states", "identifier")


class Chosen:
    """Attributes of a clustering that describe its choice, in addition to the table."""

    @property
    def stability_(self) -> float:
        """Agreement of the clusters of random halves of the data, by `choice_`; absent if nothing was compared."""
        steps = getattr(vars(self).get("choice_"), "steps", [])
        if not steps or steps[-1].label != AGREEMENT:
            raise AttributeError(
                "fit compared no settings: stability_ exists only with n_states='auto' or n_clusters='auto'"
            )
        return float(steps[-1].figure[steps[-1].chosen[0]])


def choose_clustering(
    estimator: Any,
    X: SequencesOrSystems,
    grid: Mapping[str, Sequence[Any]],
    *,
    n_splits: int = 10,
    random_state: Any = None,
    observers: Sequence[Any] = (),
    checkpoint: ms.storage.Checkpoint | str | Path | None = None,
    resume: bool = False,
) -> Choice:
    """Choose settings of a clustering, such as `n_states` and `n_clusters`, without labels.

    The rule has two steps. First, the settings of the identification (`n_states`, ``identifier__delay`` and others)
    with the smallest forecast errors are chosen: a system is identified from the first two thirds of each sequence, and
    it forecasts every later step from the previous step. Settings that are neither given nor in the grid are chosen
    once, as for ``n_states="auto"``. Second, `n_clusters` and all other settings are chosen by stability (Lange, Roth,
    Braun and Buhmann 2004): the data are split into random halves, the same for all settings, and each half is
    clustered separately. The clusters that one half predicts for the other half are compared with the clustering of the
    other half by the adjusted Rand index. Candidates are the settings with the best forecasts whose halves agree as
    well as the halves of the most stable setting (see `manifoldseq.models.preferred`). Among the candidates, the
    setting with the largest number of clusters is chosen. Ties go to the most stable setting.

    If only `n_clusters` is compared, halves are clustered on the kernel matrix of at most 480 sequences, or of eight
    sequences for each cluster. The best of ten runs of k-means in feature space is used; its centres are not systems.
    This comparison is as reliable as fits of the estimator and takes a few seconds. Otherwise the estimator is fitted
    to every half with every setting.

    Parameters
    ----------
    estimator : LDSKMeans or LDSSpectralClustering
        Any other clustering with ``fit``, ``labels_`` and ``predict`` is fitted to all halves. If its `random_state` is
        an integer, all fits have the same seed; if it is None, each fit gets a seed that is drawn from `random_state`.
    X : list of array-like of shape (T_i, d), or Systems
    grid : dict of str to sequence
        Names of settings, as in ``set_params``, and the values to compare.
    n_splits : int
        Number of pairs of halves, at least 2.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    observers, checkpoint, resume
        As in `manifoldseq.iterate`: one iteration is one pair of halves, clustered with every compared setting; its
        ``fun`` is one minus the best mean agreement so far, and ``measures.extra["of"]`` is `n_splits`.

    Returns
    -------
    manifoldseq.models.Choice
        Its steps are the choice of the settings of the identification (if they were not given), the forecast errors (if
        the grid has settings of the identification), and the agreement of halves.

    Raises
    ------
    ValueError
        If the grid is empty or has unknown names, or the halves are too small for a number of clusters.
    KeyboardInterrupt
        After Ctrl-C, after a checkpoint is saved, because a choice requires all pairs of halves.

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
    check_whole("n_splits", n_splits, 2)
    known = estimator.get_params(deep=False)
    if not isinstance(grid, Mapping):
        raise ValueError(f"the grid is of type {type(grid).__name__}: pass a dict of lists of values to try")
    for name, values in grid.items():
        if name.partition("__")[0] not in known:
            raise ValueError(f"the grid has {quoted(name)}, but {type(estimator).__name__} has no such parameter")
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise ValueError(f"the grid has {name}={quoted(values)}: pass a list of values to try")
    for n in grid.get("n_clusters", ()):
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"the grid has n_clusters={quoted(n)}: pass whole numbers of at least 1")
    if not grid:
        raise ValueError("the grid is empty: pass for example {'n_states': [3, 5], 'n_clusters': [2, 3, 4]}")
    began = time.perf_counter()
    params = [dict(one) for one in ParameterGrid(dict(grid))]
    rng, N = random_generator(random_state), len(X)
    largest = max(one.get("n_clusters", known.get("n_clusters", 1)) for one in params)
    if N // 2 < largest:
        raise ValueError(f"half of the {N} sequences of X are too few for n_clusters={largest}: pass more sequences")
    settings = None
    if hasattr(estimator, "n_states") and is_open(estimator, X) and not any(map(_identifies, grid)):
        stages = stages_of(estimator, identifier_of(estimator), X, checkpoint=checkpoint, resume=resume)
        clusters = known["n_clusters"] if "n_clusters" not in grid else None
        settings = choose_settings(estimator, X, clusters, stages=stages)
        if settings is not None:
            estimator = cast(Any, clone(estimator)).set_params(**settings.best_params)
            X = learned_systems(estimator, X, stages)[0]
    gram = _kernel_matrix(estimator, X, 8 * largest, rng) if set(grid) == {"n_clusters"} else None
    N = N if gram is None else len(gram)

    def start() -> tuple[dict[str, Any], ms.Measures]:
        prediction = _predictions(estimator, X, params)
        kept = np.flatnonzero(np.isnan(prediction) | (prediction == np.nanmin([*prediction, np.inf])))
        splits = [(rng.permutation(N), rng.integers(2**31, size=2)) for _ in range(n_splits)]
        orders, seeds = (np.stack(parts) for parts in zip(*splits, strict=True))
        empty = np.empty((len(kept), 0))
        state = {"prediction": prediction, "kept": kept, "orders": orders, "seeds": seeds, "agreement": empty}
        return state, ms.Measures(fun=1.0, extra={"of": float(n_splits)})

    def step(state: dict[str, Any]) -> tuple[dict[str, Any], ms.Measures]:
        """Cluster the halves of the next split with every remaining setting."""
        number = state["agreement"].shape[1]
        order, seeds = state["orders"][number], state["seeds"][number]
        if gram is not None:
            generator = np.random.default_rng(seeds)
            with one_blas_thread():
                values = ms.kernels.agreements(
                    gram,
                    order,
                    [params[row]["n_clusters"] for row in state["kept"]],
                    lambda K, clusters: [ms.kernels.kernel_kmeans(K, k, generator)[0] for k in clusters],
                )
            return measured(state, values)
        halves = [_rows(X, order[: N // 2]), _rows(X, order[N // 2 :])]

        def agreement(row: int) -> float:
            models = []
            for half, seed in zip(halves, seeds, strict=True):
                model: Any = clone(estimator)
                model.set_params(**params[row])
                if known.get("random_state", 0) is None:
                    model.set_params(random_state=int(seed))
                models.append(uninterrupted(model.fit(half)))
            pairs = ((0, 1), (1, 0))
            return float(
                np.mean([adjusted_rand_score(models[b].labels_, models[a].predict(halves[b])) for a, b in pairs])
            )

        return measured(state, map_ordered(agreement, state["kept"].tolist()))

    def measured(state: dict[str, Any], values: Sequence[float]) -> tuple[dict[str, Any], ms.Measures]:
        found = np.column_stack([state["agreement"], values])
        best = float(found.mean(axis=1).max())
        return {**state, "agreement": found}, ms.Measures(fun=1 - best, extra={"of": float(n_splits)})

    run = ms.iterate(
        step,
        start,
        stop=ms.MaxIterations(n_splits),
        observers=observers,
        checkpoint=checkpoint,
        resume=resume,
    )
    if run.status is ms.Status.INTERRUPTED:
        raise KeyboardInterrupt
    values, kept = run.state["agreement"], run.state["kept"]
    figures, errors = summary(values)
    row = preferred(list(values), [params[i].get("n_clusters", 0) for i in kept])
    best, prediction = params[kept[row]], np.array(run.state["prediction"])
    choice = settings or Choice([], {})
    steps = [*choice.steps]
    if np.isfinite(prediction).any():
        texts = [repr(_identification(one)) for one in params]
        rows = sorted({texts.index(one) for one in texts})
        compared = [_identification(params[i]) for i in rows]
        chosen = [rows.index(texts.index(texts[kept[row]]))]
        steps.append(Step("forecast error", "forecast error, relative", compared, prediction[rows], chosen))
    steps.append(Step("agreement", AGREEMENT, [params[i] for i in kept], figures, [row], errors))
    at_end = at_end_of_range(best["n_clusters"], grid["n_clusters"]) if "n_clusters" in grid else []
    for note in at_end:
        warnings.warn(note, stacklevel=2)
    return Choice(
        steps, best | choice.best_params, [*choice.notes, *at_end], max(run.time, time.perf_counter() - began)
    )


def _kernel_matrix(estimator: Any, X: SequencesOrSystems, least: int, rng: np.random.Generator) -> Array | None:
    """Return kernel values between (a random subset of) sequences; None if the estimator has no kernel of systems.

    At least `least` sequences are compared, if there are that many.
    """
    if not (isinstance(estimator, SequenceEstimator) and isinstance(estimator, ClusterMixin)):
        return None
    most = max(COMPARED, least)
    if len(X) > most:
        X = _rows(X, np.sort(rng.permutation(len(X))[:most]))
    check_kernel("kernel", cast(Any, estimator).kernel)
    made: Any = clone(estimator)
    systems, _ = learned_systems(made, X)
    keep_moment_weights(made, made.moments, systems)
    kernel = fitted_kernel(made)
    with one_blas_thread():
        packed = kernel.pack(items_of(kernel, systems))
        gram = kernel.cross(packed, packed)
    return (gram + gram.T) / 2


_LEAST = 4
"""Minimum number of sequences, such that halves can have two clusters."""


def default_grid(X: SequencesOrSystems) -> dict[str, list[int]]:
    """Return the grid of ``n_clusters="auto"``: two to twelve clusters, at most a quarter of the sequences."""
    return {"n_clusters": numbers_of_clusters(len(X))}


def chosen_by_default(
    estimator: Any,
    X: SequencesOrSystems,
    *,
    observers: Sequence[Any] = (),
    checkpoint: Any = None,
    resume: bool = False,
) -> Choice:
    """Choose by the default grid, with the `random_state` of the estimator; a Generator is copied before it is used.

    Raises
    ------
    ValueError
        If there are fewer than four sequences, so that halves of them cannot have two clusters.
    """
    if not isinstance(X, Systems) and len(X) < _LEAST:
        identifier_of(estimator)._check(X)  # raises its own error for anything but a list of sequences
    if len(X) < _LEAST:
        items = ("system" if isinstance(X, Systems) else "sequence") + "s" * (len(X) != 1)
        raise ValueError(
            f"X has {len(X)} {items}, but n_clusters='auto' compares clusterings of halves of the data: "
            f"pass {_LEAST} or more, or set n_clusters"
        )
    seed = estimator.random_state
    if isinstance(seed, np.random.Generator):
        seed = seed.spawn(1)[0]
    grid = default_grid(X)
    options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
    return choose_clustering(estimator, X, grid, n_splits=SPLITS, random_state=seed, **options)


def cost_of_choice(estimator: Any, X: SequencesOrSystems) -> str:
    """Return a description of the computations of a fit; an empty text if the number of clusters is given."""
    if estimator.n_clusters != "auto" or len(X) < _LEAST:
        return ""
    clusters = default_grid(X)["n_clusters"]
    first = "chooses settings of the identification by forecasts and stability, then " if is_open(estimator, X) else ""
    if len(clusters) == 1:
        return (
            f"n_clusters='auto' {first}uses n_clusters={clusters[0]}, because {len(X)} sequences are too few for a "
            "choice: pass n_clusters if it is known"
        )
    compared = min(len(X), COMPARED)
    return (
        f"n_clusters='auto' {first}compares n_clusters from {clusters[0]} to {clusters[-1]} by the agreement of "
        f"{SPLITS} pairs of halves, on one kernel matrix of {compared} sequences"
    )


def _predictions(estimator: Any, X: SequencesOrSystems, params: list[dict[str, Any]]) -> Array:
    """Return the forecast error of every setting; NaN if the grid does not change the identification."""
    if not any(map(_identifies, params[0])):
        return np.full(len(params), np.nan)
    if isinstance(X, Systems):
        raise ValueError(
            "X contains Systems, which are already identified: remove n_states and the identifier from the grid"
        )
    sequences = [filled(np.asarray(x, dtype=float)) for x in identifier_of(estimator)._check(X)]
    scale = np.concatenate(sequences).std(axis=0)
    shortest = min(2 * len(x) // 3 for x in sequences)
    chosen: list[tuple[LDSIdentifier, int]] = []
    need = 0
    for one in params:
        identifier = identifier_of(cast(Any, clone(estimator)).set_params(**one)).set_params(
            scale=False, missing="error"
        )
        n, delay = default_sizes(identifier.n_states, identifier.delay, len(scale), shortest, identifier.method)
        chosen.append((identifier.set_params(n_states=n, delay=delay), delay))
        need = max(need, (1 if isinstance(n, str) else n) + delay)
    some = usable([x / np.where(scale > 0, scale, 1.0) for x in sequences], need)
    errors: dict[str, float] = {}
    for one in chosen:
        if repr(one) not in errors:
            errors[repr(one)] = one_step_error(some, *one)
    return np.array([errors[repr(one)] for one in chosen])


def _rows(X: SequencesOrSystems, rows: NDArray[np.int64]) -> Any:
    return X[rows] if isinstance(X, Systems | np.ndarray) else [X[i] for i in rows]
