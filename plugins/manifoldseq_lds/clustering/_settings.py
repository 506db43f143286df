"""Settings chosen without labels: states, delay, mean, stabilizer, and whether level and size count beside dynamics.

One rule for every estimator of sequences, in three steps. **Forecasts**: each setting of the identification is
judged by the error one step ahead on what was not seen; those within a quarter of the least error count as equal.
**Agreement with the dynamics**: a Gaussian of the levels or sizes of the channels is admitted beside the kernel of the
dynamics only where the two say the same about which sequences are alike. **Stability**: of what is left, the clusters
of random halves of the data are compared; what agrees most is taken, and at ties what looks at most.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import clone

from manifoldseq.estimators import random_generator
from manifoldseq.execution import one_blas_thread

from ..identification._identifier import LDSIdentifier
from ..identification._missing import embed, interpolated
from ..identification._sequence_input import channel_moments, identifier_of
from ..identification._stored_sequences import channel_scale, is_large, on_disk
from ..identification._subspace_method import least_squares, subspace
from ..kernels._moments import MomentKernel, moment_weights
from ..kernels._projection import ProjectionKernel
from ..kernels._resolved import resolved_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]
Find = Callable[[Array, Sequence[int]], list[NDArray[np.intp]]]

DELAYS = (1, 2, 4, 8, 16)
STATES = (1, 2, 3, 4, 6, 8, 12, 16)
_OUTPUTS = 256
"""Channels times delay are at most this, unless the delay is one."""
_SEQUENCES = 200
"""So many sequences judge forecasts."""
_EQUAL = 1.25
"""Forecast errors within this factor of the least one count as equal: stability decides between them."""
_SHORTLIST = 8
"""So many of these are compared."""
_ALIGNED = 0.3
"""The least alignment of a Gaussian of moments with the kernel of the dynamics."""
_COMPARED = 240
"""Stability is measured on so many sequences, or on 40 per cluster."""
_HALVINGS = (2, 8)
"""Pairs of halves for all candidates, and for those that are left then."""
_FINALISTS = 6
_CLUSTERS = (2, 4, 8)
"""Numbers of clusters over which stability is averaged where none is given."""
_CONTROL_LAGS = 6
_CLEAR = 0.05
"""A control is recommended if its stability is higher by more than this, and by more than the standard error."""


@dataclass(frozen=True, eq=False)
class SettingsChoice:
    """What was chosen for ``n_states="auto"``, and why.

    Attributes
    ----------
    forecasts : list of dict
        ``n_states``, ``delay``, ``center`` and ``error``: the squared error of forecasts one step ahead on what was not
        seen, relative to that of the mean of what was seen; the least first.
    compared : list of dict
        ``n_states``, ``delay``, ``center``, ``stabilizer``, ``moments``, and ``stability``, the mean adjusted Rand
        index between clusterings of random halves, with ``error``, its standard error, and ``halvings``, their number.
        Empty if there are too few sequences.
    controls : list of dict
        ``name``, ``stability`` and ``error`` of descriptions without dynamical systems: mean and deviation of the
        channels, and their covariances at lags 0 to 5.
    best_params : dict
        The chosen settings, for ``estimator.set_params(**choice.best_params)``.
    best : int
        Their row in `compared`.
    time : float
        Seconds that it took.
    """

    forecasts: list[dict[str, Any]]
    compared: list[dict[str, Any]]
    controls: list[dict[str, Any]]
    best_params: dict[str, Any]
    best: int = 0
    time: float = 0.0

    @property
    def stability(self) -> float:
        """The stability of the chosen settings; NaN if nothing was compared."""
        return float(self.compared[self.best]["stability"]) if self.compared else float("nan")

    @property
    def advice(self) -> str:
        """A sentence if a description without dynamical systems is clearly more stable; else nothing."""
        if not self.compared:
            return ""
        own = self.compared[self.best]
        clear = [
            one
            for one in self.controls
            if one["stability"] - own["stability"] > max(_CLEAR, float(np.hypot(one["error"], own["error"])))
        ]
        if not clear:
            return ""
        top = max(clear, key=lambda one: one["stability"])
        return (
            f"clusters by {top['name']} agree better between halves of the data ({top['stability']:.2f}) than those by "
            f"dynamical systems ({own['stability']:.2f}): try them first"
        )

    def __str__(self) -> str:
        """Three tables: forecasts, stability of what was compared, controls; what was chosen, and the advice."""
        names = ("n_states", "delay", "center")
        kept = {tuple(one[name] for name in names) for one in self.compared}
        chosen = self.compared[self.best] if self.compared else self.forecasts[0]
        lines = ["  forecast error  settings"]
        for one in self.forecasts[: max(len(kept), 5)]:
            mark = ">" if all(one[name] == chosen[name] for name in names) else " "
            lines.append(f"{mark} {one['error']:<14.4f}  " + ", ".join(f"{name}={one[name]!r}" for name in names))
        if self.compared:
            lines.append("  stability        settings")
            order = [(-one["halvings"], -one["stability"], i) for i, one in enumerate(self.compared)]
            for *_, i in sorted(order)[:12]:
                one = self.compared[i]
                figure = f"{one['stability']:.3f} ± {one['error']:.3f}"
                settings = ", ".join(f"{name}={one[name]!r}" for name in (*names, "stabilizer", "moments"))
                lines.append(f"{'>' if i == self.best else ' '} {figure:<15}  {settings}")
        lines += [f"  {one['stability']:.3f} ± {one['error']:.3f}    {one['name']} alone" for one in self.controls]
        lines.append("chosen: " + ", ".join(f"{name}={value!r}" for name, value in self.best_params.items()))
        return "\n".join([*lines, self.advice] if self.advice else lines)


def is_open(estimator: Any, X: Any) -> bool:
    """Return whether the settings of the identification are left to the rule."""
    given = estimator.identifier
    return (
        estimator.n_states == "auto"
        and (given is None or given.n_states == "auto")
        and not isinstance(X, Systems)
        and not on_disk(X)
    )


def settled(estimator: Any, X: Any, n_clusters: int | None = None, *, dynamics_only: bool = False) -> Any:
    """Return the estimator itself, or, where its settings are open, a copy with chosen ones; keep the choice.

    Sets or removes the attribute `choice_` of the estimator that is given.
    """
    estimator.__dict__.pop("choice_", None)
    choice = None
    if is_open(estimator, X):
        choice = choose_settings(estimator, X, n_clusters, dynamics_only=dynamics_only)
    if choice is None:
        return estimator
    made = cast(Any, clone(estimator)).set_params(**choice.best_params)
    estimator.choice_ = choice
    return made


def choose_settings(
    estimator: Any, X: Any, n_clusters: int | None = None, *, dynamics_only: bool = False
) -> SettingsChoice | None:
    """Return the settings that the rule chooses for ``n_states="auto"``; None where sequences are too short or few.

    What an `identifier` of the estimator says is kept but for "auto"; a kernel that was chosen is compared as it is,
    without level and size.
    """
    began = time.perf_counter()
    identifier = identifier_of(estimator)
    sequences = identifier._check(X)
    if any(map(is_large, sequences)):
        return None
    seed = getattr(estimator, "random_state", 0)
    rng = seed.spawn(1)[0] if isinstance(seed, np.random.Generator) else random_generator(0 if seed is None else seed)
    scale = channel_scale(sequences) if identifier.scale else np.ones(sequences[0].shape[1])
    scaled = [filled(np.asarray(x, dtype=np.float64)) / scale for x in sequences]
    free = estimator.identifier is None
    kernel = resolved_kernel(estimator.kernel)
    may_count = getattr(estimator, "moments", None) == "auto" and not dynamics_only
    may_count = may_count and isinstance(kernel, ProjectionKernel)
    if not any(map(_moves, scaled)):
        warnings.warn(
            "no sequence varies in time, so that dynamical systems say nothing of them"
            + (": their levels are compared" if may_count else ": compare the means of their channels instead"),
            stacklevel=4,
        )
        return _of_levels(identifier, free, time.perf_counter() - began) if may_count else None
    with one_blas_thread():
        forecasts = _forecasts(scaled, identifier, free, rng)
        if not forecasts:
            warnings.warn(
                "n_states='auto' takes the defaults of LDSIdentifier, as most sequences are too short for forecasts "
                f"that choose settings (one has {min(map(len, scaled))} steps): give n_states, or compare the means "
                "and deviations of their channels instead",
                stacklevel=4,
            )
            return None
        compared, controls = _compared(scaled, identifier, kernel, free, may_count, forecasts, n_clusters, rng)
    best = _best(compared) if compared else 0
    chosen = compared[best] if compared else {**forecasts[0], "stabilizer": identifier.stabilizer_, "moments": "none"}
    params: dict[str, Any] = {"n_states": chosen["n_states"]}
    if free or identifier.delay == "auto":
        params["identifier__delay"] = chosen["delay"]
    if free:
        params |= {"identifier__center": chosen["center"], "identifier__stabilizer": chosen["stabilizer"]}
    if getattr(estimator, "moments", None) == "auto":
        params["moments"] = chosen["moments"]
    for one in compared:
        one.pop("values")
    return SettingsChoice(forecasts, compared, controls, params, best, time.perf_counter() - began)


def filled(x: Array) -> Array:
    """Return a sequence with straight lines in place of missing values."""
    return interpolated(x[None])[0] if np.isnan(x).any() else x


def _moves(x: Array) -> bool:
    """Return whether a sequence varies in time beyond rounding."""
    return bool((np.ptp(x, axis=0) > 1e-12 * np.abs(x).max(axis=0)).any())


def _of_levels(identifier: LDSIdentifier, free: bool, seconds: float) -> SettingsChoice:
    """Return the settings for sequences that are constant: one state that keeps the mean, and their levels.

    Without their means there would be nothing left of them but rounding.
    """
    forecasts = [{"n_states": 1, "delay": 1, "center": False, "error": 0.0}]
    params: dict[str, Any] = {"n_states": 1, "moments": "level"}
    if free or identifier.delay == "auto":
        params["identifier__delay"] = 1
    if free:
        params["identifier__center"] = False
    return SettingsChoice(forecasts, [], [], params, 0, seconds)


# Forecasts one step ahead: the first two thirds of a sequence are seen, the last third is forecast.


def _grid(lengths: NDArray[np.intp], channels: int, identifier: LDSIdentifier) -> list[tuple[int, int]]:
    """Return pairs (n_states, delay): more of both for more channels and longer sequences."""
    typical, shortest = int(np.quantile(lengths, 0.1)), int(lengths.min())
    delays = DELAYS if identifier.delay == "auto" else (int(identifier.delay),)
    pairs = []
    for delay in delays:
        outputs = channels * delay
        if identifier.delay == "auto" and delay > 1 and (4 * delay > typical or outputs > _OUTPUTS):
            continue
        most = min(outputs, (2 * typical // 3 - delay) // 2, shortest - delay)
        pairs += [(n, delay) for n in STATES if n <= most]
    return pairs


def _forecasts(
    sequences: Sequence[Array], identifier: LDSIdentifier, free: bool, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Return the settings of the grid with their forecast errors, the least first; none for short sequences."""
    channels = sequences[0].shape[1]
    grid = _grid(np.array([len(x) for x in sequences]), channels, identifier)
    if not grid:
        return []
    need = max(n + delay for n, delay in grid)
    rows = [i for i in rng.permutation(len(sequences)) if 2 * len(sequences[i]) // 3 >= need][:_SEQUENCES]
    by_length: dict[int, list[Array]] = {}
    for i in rows:
        by_length.setdefault(len(sequences[i]), []).append(sequences[i])
    errors: dict[tuple[int, int, bool], float] = {}
    total = 0.0
    for length, some in by_length.items():
        Y, seen = np.stack(some), 2 * length // 3
        total += float(np.square(Y[:, seen:] - Y[:, :seen].mean(axis=1, keepdims=True)).sum())
        for center in (True, False) if free else (bool(identifier.center),):
            for delay in sorted({delay for _, delay in grid}):
                states = [n for n, other in grid if other == delay]
                found = _squared_errors(embed(Y, delay).swapaxes(1, 2), seen - delay + 1, channels, states, center)
                for n, error in zip(states, found, strict=True):
                    errors[n, delay, center] = errors.get((n, delay, center), 0.0) + error
    if not total > 0:
        return []
    rows_of = [
        {"n_states": n, "delay": delay, "center": center, "error": error / total}
        for (n, delay, center), error in errors.items()
    ]
    return sorted(rows_of, key=lambda one: one["error"])


def _squared_errors(Y: Array, seen: int, channels: int, states: list[int], center: bool) -> list[float]:
    """Return the summed squared errors of forecasts of the newest lag of outputs (N, m, T) after `seen` steps.

    One decomposition of what was seen serves all numbers of states: those of the leading n directions.
    """
    found = subspace(Y[:, :, :seen], center, max(states))
    if found.mean is not None:
        Y = Y - found.mean[:, :, None]
    before, after = Y[:, :, seen - 1 : -1], Y[:, -channels:, seen:]
    errors = []
    for n in states:
        C, X = found.states(n)
        forecast = C[:, -channels:] @ (least_squares(X) @ (C.swapaxes(1, 2) @ before))
        errors.append(float(np.square(after - forecast).sum()))
    return errors


# Stability: the clusters of one half of the data, carried to the other, against its own.


def _compared(
    sequences: Sequence[Array],
    identifier: LDSIdentifier,
    kernel: Any,
    free: bool,
    may_count: bool,
    forecasts: list[dict[str, Any]],
    n_clusters: int | None,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what was compared with its stability, and the stability of the controls."""
    clusters = (n_clusters,) if n_clusters else _CLUSTERS
    clusters = tuple(k for k in clusters if 1 < k and len(sequences) >= 4 * k)
    if not clusters:
        return [], []
    rows = np.sort(rng.permutation(len(sequences))[: max(_COMPARED, 40 * max(clusters))])
    some = [sequences[i] for i in rows]
    orders = [rng.permutation(len(rows)) for _ in range(_HALVINGS[1])]
    moments = channel_moments(some)
    gaussians: dict[str, Array] = {}
    if may_count:
        gaussians = {which: _gaussian(moments, which) for which in ("level", "size", "both")}
    equal = [one for one in forecasts if one["error"] <= _EQUAL * forecasts[0]["error"]][:_SHORTLIST]
    candidates, matrices = [], []
    for one in equal:
        for stabilizer in ("SN", "clip") if free else (identifier.stabilizer_,):
            D = _dynamics(some, {**one, "stabilizer": stabilizer}, identifier, kernel)
            if D is None:
                continue
            parts = {"none": D}
            parts |= {which: D * G for which, G in gaussians.items() if _alignment(D, G) >= _ALIGNED}
            for which, K in parts.items():
                setting = {name: one[name] for name in ("n_states", "delay", "center")}
                candidates.append({**setting, "stabilizer": stabilizer, "moments": which, "values": []})
                matrices.append(K)
    left = list(range(len(candidates)))
    for number, order in enumerate(orders):
        if number == _HALVINGS[0]:
            left = sorted(left, key=lambda i: -float(np.mean(candidates[i]["values"])))[:_FINALISTS]
        for i in left:
            candidates[i]["values"].append(float(np.mean(agreements(matrices[i], order, clusters, spectral_labels))))
    for one in candidates:
        _summarize(one)
    descriptions = {
        "mean and deviation of the channels": _gaussian(moments, "both"),
        f"covariances of the channels at lags 0 to {_CONTROL_LAGS - 1}": _width_one(_covariances(some)),
    }
    controls = []
    for name, K in descriptions.items():
        values = [float(np.mean(agreements(K, order, clusters, spectral_labels))) for order in orders]
        one: dict[str, Any] = {"name": name, "values": values}
        _summarize(one)
        controls.append({key: one[key] for key in ("name", "stability", "error")})
    return candidates, controls


def _summarize(one: dict[str, Any]) -> None:
    values = np.array(one["values"])
    one["stability"], one["halvings"] = float(values.mean()), len(values)
    one["error"] = float(values.std(ddof=1) / np.sqrt(len(values)))


def _best(compared: list[dict[str, Any]]) -> int:
    """Return the row that looks at most of those within one paired standard error of the most stable one."""
    last = [i for i, one in enumerate(compared) if one["halvings"] == _HALVINGS[1]]
    values = {i: np.array(compared[i]["values"]) for i in last}
    top = max(last, key=lambda i: values[i].mean())  # the first of equals: the least forecast error
    good = []
    for i in last:
        behind = values[top] - values[i]
        if behind.mean() <= behind.std(ddof=1) / np.sqrt(len(behind)):
            good.append(i)
    parts = {"none": 0, "level": 1, "size": 1, "both": 2}
    most = max(parts[compared[i]["moments"]] for i in good)
    return max((i for i in good if parts[compared[i]["moments"]] == most), key=lambda i: values[i].mean())


def _dynamics(sequences: Sequence[Array], setting: dict[str, Any], identifier: LDSIdentifier, kernel: Any) -> Any:
    """Return the normalized kernel matrix of the systems of scaled sequences; None where the kernel has none."""
    made = LDSIdentifier(
        setting["n_states"],
        delay=setting["delay"],
        center=setting["center"],
        stabilizer=setting["stabilizer"],
        scale=False,
        bound=identifier.bound,
    )
    systems = made.fit_transform(list(sequences))
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
    """Return the Gaussian of standardized rows, as wide as the median of their squared distances."""
    deviation = F.std(axis=0)
    F = (F - F.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    norms = np.square(F).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * F @ F.T, 0.0)
    width = float(np.median(squared[np.triu_indices(len(F), 1)]))
    return np.exp(-squared / width) if width > 0 else np.ones_like(squared)


def _covariances(sequences: Sequence[Array]) -> Array:
    """Return the covariances of the channels at lags 0 to 5 of each sequence; of its own variances with many."""
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
    """Return the cosine of two kernel matrices after centring, their diagonals left out (Cortes et al. 2012)."""
    one, other = (_centred(K) for K in (D, G))
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float((one * other).sum()) / norm if norm > 0 else 0.0


def _centred(K: Array) -> Array:
    K = K - np.diag(K.diagonal())
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    np.fill_diagonal(K, 0.0)
    return K


def agreements(K: Array, order: NDArray[np.intp], clusters: Sequence[int], find: Find) -> list[float]:
    """Return the adjusted Rand index of two halves' clusters, each carried to the other half, per number of clusters.

    Parameters
    ----------
    K : array of shape (N, N)
        A kernel matrix.
    order : array of shape (N,)
        Its rows, of which the first half and the others are compared.
    clusters : sequence of int
    find : callable
        ``find(K, clusters)`` returns the labels of a half for each number of clusters.
    """
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    inner = [K[np.ix_(rows, rows)] for rows in halves]
    across = K[np.ix_(*halves)]
    found = []
    for k, labels in zip(clusters, zip(*(find(one, clusters) for one in inner), strict=True), strict=True):
        both = []
        for a, b, cross in ((0, 1, across.T), (1, 0, across)):
            members = np.eye(k)[labels[a]]
            members /= np.maximum(members.sum(axis=0), 1.0)
            # |phi(x) - centre|^2 but for k(x, x), with the mean of the members as centre
            squared = np.einsum("ik,ij,jk->k", members, inner[a], members, optimize=True) - 2 * cross @ members
            both.append(_adjusted_rand(labels[b], squared.argmin(axis=1), k))
        found.append(float(np.mean(both)))
    return found


def _adjusted_rand(one: NDArray[np.intp], other: NDArray[np.intp], k: int) -> float:
    """Return the adjusted Rand index of two assignments to the clusters 0 to k - 1.

    Equivalent to `sklearn.metrics.adjusted_rand_score`, whose checks of its input took half of the time of a choice
    (``python -m benchmarks.lds settings``: 1.9 times as long on 80 sequences).
    """
    table = np.bincount(one * k + other, minlength=k * k).reshape(k, k).astype(float)
    pairs, rows, columns, total = (
        float((n * (n - 1)).sum()) for n in (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    )
    expected, most = rows * columns / max(total, 1.0), (rows + columns) / 2
    return (pairs - expected) / (most - expected) if most > expected else 1.0


def spectral_labels(K: Array, clusters: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return labels by spectral clustering of a kernel matrix, for each number of clusters.

    Eigenvectors of the normalized affinity, negative values set to zero; a pivoted QR factorization of them names one
    row per cluster, and a rotation assigns all others (Damle, Minden and Ying 2019). Nothing is random.
    """
    W = np.maximum((K + K.T) / 2, 0.0)
    root = np.sqrt(np.maximum(W.sum(axis=1), np.finfo(float).tiny))
    N = len(W)
    V = scipy.linalg.eigh(W / (root[:, None] * root), subset_by_index=(N - min(max(clusters), N), N - 1))[1][:, ::-1]
    labels = []
    for k in clusters:
        Q = V[:, :k]
        pivots: Any = cast(Any, scipy.linalg.qr(Q.T, mode="r", pivoting=True))[1][:k]
        left, _, right = np.linalg.svd(Q[pivots].T)
        labels.append(np.abs(Q @ (left @ right)).argmax(axis=1))
    return labels
