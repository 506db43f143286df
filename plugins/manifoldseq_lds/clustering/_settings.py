"""Settings chosen without labels: states, delay, mean, stabilizer, and the weight of means and deviations.

All estimators of sequences use one rule with three steps. **Forecasts**: settings of the identification are compared by
one-step-ahead errors on held-out steps; errors within 25 % of the smallest error count as equal. **Agreement with the
dynamics**: a Gaussian kernel of the levels or sizes of the channels multiplies the kernel of the dynamics only where
the two agree on which sequences are similar. **Stability**: among the remaining settings, the one whose clusterings of
random halves of the data agree best is chosen; ties go to the setting that uses the most information.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster._spectral import cluster_qr  # which has no public name

from manifoldseq.estimators import random_generator
from manifoldseq.execution import one_blas_thread
from manifoldseq.kernels import agreements
from manifoldseq.models import AGREEMENT, Choice, Stages, Step, preferred, summary

from ..identification._identifier import LDSIdentifier
from ..identification._missing import embed, interpolated
from ..identification._order import held_out_errors
from ..identification._sequence_input import SequencesOrSystems, channel_moments, identifier_of
from ..identification._stabilizers import stabilize
from ..identification._stored_sequences import channel_scale, is_large, on_disk
from ..identification._subspace_method import Subspace, least_squares, subspace
from ..kernels._moments import MomentKernel, moment_weights
from ..kernels._projection import ProjectionKernel
from ..kernels._resolved import resolved_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems, check_stable

Array = NDArray[np.floating[Any]]
Setting = dict[str, Any]

DELAYS = (1, 2, 4, 8, 16)
STATES = (1, 2, 3, 4, 6, 8, 12, 16)
_OUTPUTS = 256
"""Maximum of channels times delay, unless the delay is one."""
_BLOCK = 2**22
"""Maximum number of values of stacked sequences that are decomposed together."""
_SEQUENCES = 200
"""Maximum number of sequences for the comparison of forecasts."""
_EQUAL = 1.25
"""Forecast errors within this factor of the least one count as equal: stability decides between them."""
_SHORTLIST = 8
"""Maximum number of these settings that are compared."""
_ALIGNED = 0.3
"""Minimum alignment of a Gaussian kernel of moments with the kernel of the dynamics."""
_COMPARED = 240
"""Maximum number of sequences for the stability; more if 40 per cluster are more."""
_HALVINGS = (2, 8)
"""Numbers of pairs of halves for all candidates, and for the remaining candidates."""
_FINALISTS = 6
_CLUSTERS = (2, 4, 8)
"""Numbers of clusters over which the stability is averaged if no number is given."""
_CONTROL_LAGS = 6
_FORECAST = ("n_states", "delay", "center")
"""The settings that are compared by forecasts."""
_CLEAR = 0.05
"""A control is recommended if its stability is higher by more than this, and by more than the standard error."""


def is_open(estimator: Any, X: SequencesOrSystems) -> bool:
    """Return whether the rule chooses the settings of the identification."""
    given = estimator.identifier
    return (
        estimator.n_states == "auto"
        and (given is None or given.n_states in (None, "auto"))
        and not isinstance(X, Systems)
        and not on_disk(X)
    )


def settled(
    estimator: Any,
    X: SequencesOrSystems,
    n_clusters: int | None = None,
    *,
    dynamics_only: bool = False,
    stages: Stages | None = None,
) -> Any:
    """Return the estimator itself, or a copy with chosen settings if its settings are not given; store the choice.

    The attribute `choice_` of the given estimator is set or removed.
    """
    choice = None
    if is_open(estimator, X):
        choice = choose_settings(estimator, X, n_clusters, dynamics_only=dynamics_only, stages=stages)
    estimator.__dict__.pop("choice_", None)  # not before: where nothing can be chosen the last fit stays whole
    if choice is None:
        return estimator
    made = cast(Any, clone(estimator)).set_params(**choice.best_params)
    estimator.choice_ = choice
    return made


def choose_settings(
    estimator: Any,
    X: Any,
    n_clusters: int | None = None,
    *,
    dynamics_only: bool = False,
    stages: Stages | None = None,
) -> Choice | None:
    """Return the settings that the rule chooses for ``n_states="auto"``; None if sequences are too short or too few.

    Settings of the estimator's `identifier` are kept unless they are "auto"; a kernel that was set explicitly is
    compared without level and size. The steps are the forecasts (squared error of one-step-ahead forecasts of held-out
    steps, relative to the error of the mean of the training part), the stability of descriptions without dynamical
    systems, and the stability of the compared settings. The last two are absent if there are too few sequences.

    The tasks of the `stages` of the fit are the forecasts of sequences of one length with one delay, the kernel
    matrices of the settings with one delay and one choice of centring, and the clusterings of one pair of halves with a
    setting.
    """
    began, stages = time.perf_counter(), stages or Stages()
    identifier = identifier_of(estimator)
    sequences = identifier._check(X)
    if any(map(is_large, sequences)):
        return None
    seed = getattr(estimator, "random_state", 0)
    rng = seed.spawn(1)[0] if isinstance(seed, np.random.Generator) else random_generator(0 if seed is None else seed)
    scale = channel_scale(sequences) if identifier.scale else np.ones(sequences[0].shape[1])
    scaled = [filled(np.asarray(x, dtype=np.float64)) / scale for x in sequences]
    free = _open(estimator.identifier)
    kernel = resolved_kernel(estimator.kernel)
    moments = getattr(estimator, "moments", "none")
    may_count = moments == "auto" and not dynamics_only
    may_count = may_count and isinstance(kernel, ProjectionKernel)
    if not any(map(_moves, scaled)):
        note = "no sequence varies in time, so dynamical systems do not describe the sequences: "
        note += "the levels of the channels are compared" if may_count else "compare the means of the channels instead"
        warnings.warn(note, stacklevel=4)
        # one state, uncentred, and a comparison of levels: without their means only rounding errors would remain
        chosen = {"n_states": 1, "delay": 1, "center": False, "moments": "level"}
        params = _params(chosen, identifier, free & {"center"}, moments)
        return Choice([], params, [note], time.perf_counter() - began) if may_count else None
    with one_blas_thread():
        forecasts, predictive = _forecasts(scaled, identifier, free, rng, stages)
        lengths = np.array([len(x) for x in scaled])
        for_all = [one for one in forecasts if _least(one) <= lengths.min()]
        if not for_all:
            warnings.warn(
                "n_states='auto' uses the defaults of LDSIdentifier, because most sequences are too short for the "
                f"forecasts that choose settings (the shortest has {lengths.min()} steps): set n_states, or compare "
                "the means and standard deviations of the channels instead",
                stacklevel=4,
            )
            return None
        clusters = _numbers_of_clusters(n_clusters, len(scaled))
        compared, controls = [], []
        if clusters:
            compared, controls = _compared(
                scaled, identifier, kernel, free, may_count, predictive, for_all, clusters, rng, stages
            )
    default = {"stabilizer": identifier.stabilizer_, "moments": "none"}
    chosen = _best(compared) if compared else {**for_all[0], **default}
    notes = [
        *_of_short(lengths, forecasts, for_all),
        *([] if predictive else [_of_noise(chosen, chosen["moments"] if moments == "auto" else moments)]),
        *([] if clusters or n_clusters == 1 else [_of_few(len(scaled), n_clusters, may_count)]),
    ]
    for note in notes:
        warnings.warn(note, stacklevel=4)
    steps = [_step("forecast error", "forecast error, relative", _FORECAST, forecasts, chosen)]
    if compared:
        steps += _of_stability(compared, controls, chosen, clusters)
        notes += _of_controls(chosen, controls)
    params = _params(chosen, identifier, free, moments)
    return Choice(steps, params, notes, time.perf_counter() - began)


def _params(chosen: Setting, identifier: LDSIdentifier, free: frozenset[str], moments: str) -> Setting:
    """Return the chosen settings under the names of the parameters of an estimator."""
    params = {"n_states": chosen["n_states"]}
    if identifier.delay == "auto":
        params["identifier__delay"] = chosen["delay"]
    params |= {f"identifier__{name}": chosen[name] for name in ("center", "stabilizer") if name in free}
    return params | ({"moments": chosen["moments"]} if moments == "auto" else {})


def _step(heading: str, label: str, names: Sequence[str], rows: list[Setting], chosen: Setting) -> Step:
    """Return a step of the settings `names` of rows, which have a ``figure`` and may have an ``error``."""
    params = [{name: one[name] for name in names} for one in rows]
    marked = [i for i, one in enumerate(params) if one.items() <= chosen.items()]
    figure, error = (np.array([one[name] for one in rows if name in one]) for name in ("figure", "error"))
    return Step(heading, label, params, figure, marked, error if len(error) else None)


def _of_stability(
    compared: list[Setting], controls: list[Setting], chosen: Setting, clusters: tuple[int, ...]
) -> list[Step]:
    """Return the steps of descriptions without dynamical systems and of the compared settings.

    A mean over several numbers of clusters is well below 1 (for example 0.5) even for repeatable clusters, because at
    most one of the numbers is the true number: it serves to compare settings, not to judge a clustering.
    """
    *some, last = map(str, clusters)
    heading = f"mean stability over {', '.join(some)} and {last} clusters" if some else "stability"
    rows = sorted(compared, key=lambda one: (-len(one["values"]), -one["figure"]))
    names = (*_FORECAST, "stabilizer", "moments")
    alone = _step(heading, AGREEMENT, ("description",), controls, chosen)
    return [alone, _step(heading, AGREEMENT, names, rows, chosen)]


def _of_controls(chosen: Setting, controls: list[Setting]) -> list[str]:
    """Return a note if a description without dynamical systems is clearly more stable."""
    clear = [
        one
        for one in controls
        if one["figure"] - chosen["figure"] > max(_CLEAR, float(np.hypot(one["error"], chosen["error"])))
    ]
    if not clear:
        return []
    top = max(clear, key=lambda one: one["figure"])
    return [
        f"clusterings of halves of the data agree better if sequences are compared by {top['description']} "
        f"({top['figure']:.2f}) than by dynamical systems ({chosen['figure']:.2f}): try clusters by "
        f"{top['description']} first"
    ]


def _open(identifier: LDSIdentifier | None) -> frozenset[str]:
    """Return which of centring and stabilizer the rule chooses: without identifier, and for the value "auto".

    Only stabilizers of ``method="pca"`` are compared.
    """
    given, default = identifier or LDSIdentifier(), LDSIdentifier()
    names = ("center", "stabilizer") if given.method == "pca" else ("center",)
    return frozenset(name for name in names if getattr(given, name) == getattr(default, name))


def _numbers_of_clusters(n_clusters: int | None, N: int) -> tuple[int, ...]:
    """Return the numbers of clusters for which halves of N sequences are compared; none for too few sequences."""
    return tuple(k for k in ((n_clusters,) if n_clusters else _CLUSTERS) if 1 < k and 4 * k <= N)


def _least(setting: Setting) -> int:
    """Return the number of time steps that a setting needs."""
    return setting["n_states"] + setting["delay"]


def _of_short(lengths: Array, forecasts: list[Setting], for_all: list[Setting]) -> list[str]:
    """Return a note about sequences that are too short for the settings of the others."""
    lost = [one for one in _equal(forecasts) if _least(one) > lengths.min()]
    if not lost:
        return []
    short = np.flatnonzero(lengths < _least(lost[0]))
    more = len(short) - 1
    others = f" ({more} more sequence{'s are' if more > 1 else ' is'} too short)" if more else ""
    return [
        f"sequence {lengths.argmin()} has {lengths.min()} time steps, but n_states={lost[0]['n_states']} with "
        f"delay={lost[0]['delay']}, the setting that forecasts the other sequences best, needs "
        f"{_least(lost[0])}{others}. A setting that suits every sequence is chosen instead (forecast error "
        f"{for_all[0]['figure']:.2g} instead of {lost[0]['figure']:.2g}): remove short sequences, or set n_states "
        "and the identifier"
    ]


def _of_noise(chosen: Setting, moments: str) -> str:
    """Return a note about sequences that dynamics do not predict."""
    counted = {
        "none": "the compared dynamics may be noise",
        "level": "the levels of the channels are compared instead",
        "size": "the sizes of the channels are compared instead",
        "both": "levels and sizes of the channels are compared instead",
    }
    said = f"; the agreement of clusterings of halves is {chosen['figure']:.2f}" if "values" in chosen else ""
    return (
        f"linear dynamical systems forecast these sequences no better than a constant does, so {counted[moments]}{said}"
    )


def _of_few(N: int, n_clusters: int | None, may_count: bool) -> str:
    """Return a note about too few sequences for the clustering of halves."""
    least = 4 * (n_clusters or min(_CLUSTERS))
    return (
        f"{N} sequences are too few to compare clusterings of halves (at least {least} are needed): settings are "
        "chosen by forecasts alone" + (", and level and size of the channels are not compared" if may_count else "")
    )


def filled(x: Array) -> Array:
    """Return a sequence with linearly interpolated missing values."""
    return interpolated(x[None])[0] if np.isnan(x).any() else x


def _moves(x: Array) -> bool:
    """Return whether a sequence varies in time by more than rounding errors."""
    return bool((np.ptp(x, axis=0) > 1e-12 * np.abs(x).max(axis=0)).any())


# Forecasts one step ahead: the first two thirds of a sequence are seen, the last third is forecast.


def _grid(lengths: NDArray[np.intp], channels: int, identifier: LDSIdentifier) -> list[tuple[int, int]]:
    """Return pairs (n_states, delay), with larger values for more channels and longer sequences.

    Up to a tenth of the sequences may be too short for some pairs.
    """
    typical = int(np.quantile(lengths, 0.1))
    delays = DELAYS if identifier.delay == "auto" else (int(identifier.delay),)
    pairs = []
    for delay in delays:
        outputs = channels * delay
        if identifier.delay == "auto" and delay > 1 and (4 * delay > typical or outputs > _OUTPUTS):
            continue
        most = min(outputs, (2 * typical // 3 - delay) // 2)
        pairs += [(n, delay) for n in STATES if n <= most]
    return pairs


def _forecasts(
    sequences: Sequence[Array],
    identifier: LDSIdentifier,
    free: frozenset[str],
    rng: np.random.Generator,
    stages: Stages,
) -> tuple[list[Setting], bool]:
    """Return the settings of the grid with their forecast errors in ascending order; none for short sequences.

    The second value states whether the best setting beats a constant by more than its standard error over sequences.
    """
    channels = sequences[0].shape[1]
    grid = _grid(np.array([len(x) for x in sequences]), channels, identifier)
    if not grid:
        return [], True
    need = max(n + delay for n, delay in grid)
    rows = [i for i in rng.permutation(len(sequences)) if 2 * len(sequences[i]) // 3 >= need][:_SEQUENCES]
    by_length: dict[int, list[Array]] = {}
    for i in rows:
        by_length.setdefault(len(sequences[i]), []).append(sequences[i])
    errors: dict[tuple[int, int, bool], list[Array]] = {}
    totals, levels, tasks = [], [], []
    centers = (True, False) if "center" in free else (identifier.center in (True, "auto"),)
    for length, some in by_length.items():
        Y, seen = np.stack(some), 2 * length // 3
        totals.append(np.square(Y[:, seen:] - Y[:, :seen].mean(axis=1, keepdims=True)).sum(axis=(1, 2)))
        levels.append(np.square(Y[:, seen:]).sum(axis=(1, 2)))
        tasks += [(Y, seen, delay, center) for center in centers for delay in sorted({delay for _, delay in grid})]

    def states_of(delay: int) -> list[int]:
        return [n for n, other in grid if other == delay]

    def errors_of(task: tuple[Array, int, int, bool]) -> tuple[Array, ...]:
        Y, seen, delay, center = task
        lagged = embed(Y, delay).swapaxes(1, 2)
        return tuple(held_out_errors(lagged, seen - delay + 1, channels, states_of(delay), center))

    for (_, _, delay, center), found in zip(tasks, stages.map(errors_of, tasks), strict=True):
        for n, error in zip(states_of(delay), found, strict=True):
            errors.setdefault((n, delay, center), []).append(error)
    total = np.concatenate(totals)
    if not total.sum() > 0:
        return [], True
    # a constant that nothing is learned for, zero, is no worse than a mean where sequences have none: it is the
    # reference where it forecasts better, so that a gain is one by dynamics
    level = np.concatenate(levels)
    constant = level if level.sum() < total.sum() else total
    rows_of, gains = [], []
    for (n, delay, center), parts in errors.items():
        error = np.concatenate(parts)
        one = {"n_states": n, "delay": delay, "center": center, "figure": float(error.sum() / total.sum())}
        rows_of.append(one | ({"error": float(summary(error / total.mean())[1])} if len(error) > 1 else {}))
        gains.append(constant - error)
    order = sorted(range(len(rows_of)), key=lambda i: rows_of[i]["figure"])
    gain = gains[order[0]]
    mean, doubt = summary(gain) if len(gain) > 1 else (gain[0], 0.0)
    return [rows_of[i] for i in order], bool(mean > doubt)


# Stability: the clusters of one half of the data, carried to the other, against its own.


def _compared(
    sequences: Sequence[Array],
    identifier: LDSIdentifier,
    kernel: Any,
    free: frozenset[str],
    may_count: bool,
    predictive: bool,
    forecasts: list[Setting],
    clusters: tuple[int, ...],
    rng: np.random.Generator,
    stages: Stages,
) -> tuple[list[Setting], list[Setting]]:
    """Return the compared settings with their stability, and the stability of the controls."""
    rows = np.sort(rng.permutation(len(sequences))[: max(_COMPARED, 40 * max(clusters))])
    some = [sequences[i] for i in rows]
    orders = [rng.permutation(len(rows)) for _ in range(_HALVINGS[1])]
    moments = channel_moments(some)
    gaussians: dict[str, Array] = {}
    if may_count:
        gaussians = {which: _gaussian(moments, which) for which in ("level", "size", "both")}
    stabilizers = ("SN", "clip") if "stabilizer" in free else (identifier.stabilizer_,)
    tried = [(one, stabilizer) for one in _equal(forecasts) for stabilizer in stabilizers]
    # without dynamics there is nothing for moments to agree with: they are admitted with the systems that differ
    # least, those with most states in fewest outputs
    alike = None
    if gaussians and not predictive:
        widest = max(forecasts, key=lambda one: (-one["delay"], one["n_states"], one["center"]))
        alike = (widest, stabilizers[0])
        tried = [alike, *(one for one in tried if one != alike)]
    most = max(one["n_states"] for one, _ in tried)
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, (one, _) in enumerate(tried):
        groups.setdefault((one["delay"], one["center"]), []).append(i)
    tasks = [(*which, [(tried[i][0]["n_states"], tried[i][1]) for i in rows]) for which, rows in groups.items()]
    found: dict[int, Array | None] = {}
    for rows, parts in zip(
        groups.values(), stages.map(partial(_matrices, some, identifier.bound, kernel, most), tasks), strict=True
    ):
        found |= dict(zip(rows, parts, strict=True))
    candidates, matrices = [], []
    for i, (one, stabilizer) in enumerate(tried):
        D = found[i]
        if D is None:
            continue
        admitted = (one, stabilizer) == alike
        parts = {"none": D}
        parts |= {which: D * G for which, G in gaussians.items() if admitted or _alignment(D, G) >= _ALIGNED}
        for which, K in parts.items():
            setting = {name: one[name] for name in _FORECAST}
            candidates.append({**setting, "stabilizer": stabilizer, "moments": which, "values": []})
            matrices.append(K)
    descriptions = {
        "mean and deviation of the channels": _gaussian(moments, "both"),
        f"covariances of the channels at lags 0 to {_CONTROL_LAGS - 1}": _width_one(_covariances(some)),
    }
    controls: list[Setting] = [{"description": name, "values": []} for name in descriptions]

    def measure(rows: list[tuple[Setting, Array]], orders: Sequence[NDArray[np.intp]]) -> None:
        """Append the agreement of pairs of halves to the values of settings with their kernel matrices."""

        found = stages.map(partial(_agreement, clusters), [(K, order) for order in orders for _, K in rows])
        for value, (one, _) in zip(found, rows * len(orders), strict=True):
            one["values"].append(value)

    everyone, first = list(zip(candidates, matrices, strict=True)), _HALVINGS[0]
    measure(everyone, orders[:first])
    finalists = sorted(everyone, key=lambda one: -float(np.mean(one[0]["values"])))[:_FINALISTS]
    measure(finalists, orders[first:])
    measure(list(zip(controls, descriptions.values(), strict=True)), orders)
    for one in (*candidates, *controls):
        one["figure"], one["error"] = summary(np.array(one["values"]))
    return candidates, controls


def _agreement(clusters: Sequence[int], task: tuple[Array, NDArray[np.intp]]) -> float:
    """Return the mean agreement of the clusterings of two halves."""
    return float(np.mean(agreements(*task, clusters, spectral_labels)))


def _equal(forecasts: list[Setting]) -> list[Setting]:
    """Return the settings whose errors count as equal to the smallest error."""
    return [one for one in forecasts if one["figure"] <= _EQUAL * forecasts[0]["figure"]][:_SHORTLIST]


def _best(compared: list[Setting]) -> Setting:
    """Return the setting that uses the most information of those whose halves agree as well as the most stable one."""
    last = [one for one in compared if len(one["values"]) == _HALVINGS[1]]  # in the order of their forecast errors
    parts = {"none": 0, "level": 1, "size": 1, "both": 2}
    return last[preferred([np.array(one["values"]) for one in last], [parts[one["moments"]] for one in last])]


def _matrices(
    sequences: Sequence[Array],
    bound: float,
    kernel: Any,
    most: int,
    task: tuple[int, bool, list[tuple[int, Any]]],
) -> tuple[Array | None, ...]:
    """Return the kernel matrices of settings (n_states, stabilizer) with one delay and one choice of centring.

    One decomposition serves all numbers of states, and one least squares all stabilizers.
    """
    delay, center, settings = task
    directions = _decomposed(sequences, delay, center, most)
    unstable = {n: _least_squares(directions, n) for n in dict.fromkeys(n for n, _ in settings)}
    return tuple(_dynamics(_stabilized(unstable[n], stabilizer, bound), kernel) for n, stabilizer in settings)


def _decomposed(
    sequences: Sequence[Array], delay: int, center: bool, n: int
) -> list[tuple[NDArray[np.intp], Subspace]]:
    """Return the n leading directions of sequences, with the rows of each length."""
    lengths, channels, found = np.array([len(x) for x in sequences]), sequences[0].shape[1], []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        size = max(1, _BLOCK // (int(length) * channels * delay))
        for some in (rows[start : start + size] for start in range(0, len(rows), size)):
            Y = embed(np.stack([sequences[i] for i in some]), delay).swapaxes(1, 2)
            found.append((some, subspace(Y, center, n)))
    return found


def _least_squares(parts: list[tuple[NDArray[np.intp], Subspace]], n: int) -> list[tuple[Any, ...]]:
    """Return rows, C, states X and A of systems with n states."""
    found = [(rows, *one.states(n)) for rows, one in parts]
    return [(rows, C, X, least_squares(X)) for rows, C, X in found]


def _stabilized(parts: list[tuple[Any, ...]], stabilizer: Any, bound: float) -> Systems:
    """Return the systems of `LDSIdentifier` with PCA, without their noise."""
    stabilizer = {"auto": "SN", None: "NONE"}.get(stabilizer, stabilizer)
    N, made = sum(len(rows) for rows, *_ in parts), {}
    for rows, C, X, A in parts:
        values = {"A": stabilize(stabilizer, A, X, bound), "C": C, "x1": X[:, :, 0]}
        for name, value in values.items():
            made.setdefault(name, np.empty((N, *value.shape[1:])))[rows] = value
    if stabilizer == "NONE":
        check_stable(made["A"])
    return Systems.trusted(made)


def _dynamics(systems: Systems, kernel: Any) -> Any:
    """Return the normalized kernel matrix of systems; None if it is not defined."""
    try:
        packed = kernel.pack(items_of(kernel, systems))
    except ValueError:
        return None
    own = kernel.diag(packed)
    if not (own > 0).all():
        return None
    return kernel.cross(packed, packed) / np.sqrt(own[:, None] * own)


def _gaussian(moments: Array, which: str) -> Array:
    return MomentKernel("projection", tuple(moment_weights(moments, which))).gaussian(moments, moments)


def _width_one(F: Array) -> Array:
    """Return the Gaussian kernel of standardized rows with the median of their squared distances as width."""
    deviation = F.std(axis=0)
    F = (F - F.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    norms = np.square(F).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * F @ F.T, 0.0)
    width = float(np.median(squared[np.triu_indices(len(F), 1)]))
    return np.exp(-squared / width) if width > 0 else np.ones_like(squared)


def _covariances(sequences: Sequence[Array]) -> Array:
    """Return covariances of the channels at lags 0 to 5 of each sequence; autocovariances for many channels."""
    rows = []
    for x in sequences:
        z = x - x.mean(axis=0)
        lagged = [(z[: len(z) - lag], z[lag:]) for lag in range(_CONTROL_LAGS) if lag < len(z)]
        many = x.shape[1] > 16
        parts = [((a * b).sum(axis=0) if many else a.T @ b).ravel() / len(z) for a, b in lagged]
        parts += [np.zeros_like(parts[0])] * (_CONTROL_LAGS - len(parts))
        rows.append(np.concatenate(parts))
    return np.stack(rows)


def _alignment(D: Array, G: Array) -> float:
    """Return the cosine of two centred kernel matrices without their diagonals (Cortes et al. 2012)."""
    one, other = (_centred(K) for K in (D, G))
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float((one * other).sum()) / norm if norm > 0 else 0.0


def _centred(K: Array) -> Array:
    K = K - np.diag(K.diagonal())
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    np.fill_diagonal(K, 0.0)
    return K


def spectral_labels(K: Array, clusters: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return labels by spectral clustering of a kernel matrix, for each number of clusters.

    Eigenvectors of the normalized affinity, negative values set to zero, are clustered by `cluster_qr` of scikit-learn
    (Damle, Minden and Ying 2019), which is deterministic.
    """
    W = np.maximum((K + K.T) / 2, 0.0)
    root = np.sqrt(np.maximum(W.sum(axis=1), np.finfo(float).tiny))
    N = len(W)
    V = scipy.linalg.eigh(W / (root[:, None] * root), subset_by_index=(N - min(max(clusters), N), N - 1))[1][:, ::-1]
    return [cluster_qr(V[:, :k]) for k in clusters]
