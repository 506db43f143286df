"""Settings of a classifier of sequences, chosen by cross-validation on its labels for ``n_states="auto"``.

Each setting gives a kernel matrix, which is judged by the leave-one-out error of kernel ridge regression to the classes
(squared error) or of the nearest neighbour (fraction of errors). Neither error requires another fit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq.execution import one_blas_thread
from manifoldseq.models import Choice, Stages, Step, summary

from ..clustering._settings import (
    DELAYS,
    STATES,
    _decomposed,
    _gaussian,
    _least_squares,
    _moves,
    _open,
    _stabilized,
    filled,
)
from ..identification._identifier import LDSIdentifier
from ..identification._sequence_input import MOMENTS, channel_moments, identifier_of
from ..identification._stored_sequences import channel_scale, is_large
from ..kernels._projection import ProjectionKernel
from ..kernels._resolved import resolved_kernel
from ..means._common_problem import items_of
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]
Compared = tuple[int, int, bool, Sequence[str]]
"""Numbers of states and of delays, centring, and moments that are compared with them."""

_Figures = tuple[tuple[float, float, float], ...]

_COMPARED = 300
"""Maximum number of sequences for the comparison of settings: the time is cubic in their number."""
_FINALISTS = 3
"""Number of settings that are compared with other choices of centring and of moments."""
_NAMES = ("n_states", "delay", "center", "moments")
_FIGURES = ("accuracy", "loss", "error")
HEADING, LABEL = "loss", "leave-one-out squared error of predicted classes"
_OUTPUTS = 256
"""Maximum of channels times delay, unless the delay is one."""


def choose_by_labels(estimator: Any, X: Any, codes: NDArray[np.intp], stages: Stages) -> Choice | None:
    """Return the settings with the smallest leave-one-out loss.

    The figure is the squared error of predicted classes (for ``method="nearest"`` the fraction of errors). A column is
    the accuracy, the fraction of sequences with a correctly predicted class.

    None if labels cannot decide: if a class has one sequence, if sequences are too short, too large or constant, or if
    the kernel is zero.

    Parameters
    ----------
    estimator : LDSClassifier
    X : list of array-like of shape (T_i, d)
    codes : ndarray of shape (N,)
        Classes as whole numbers from 0.
    stages : Stages
        The stages of the fit. A task measures the settings with one delay and one choice of centring.
    """
    began = time.perf_counter()
    identifier = identifier_of(estimator)
    sequences = identifier._check(X)
    if len(sequences) != len(codes) or any(map(is_large, sequences)) or np.bincount(codes).min() < 2:
        return None
    rows = _drawn(codes)
    scale = channel_scale(sequences) if identifier.scale else np.ones(sequences[0].shape[1])
    some = [filled(np.asarray(sequences[i], dtype=np.float64)) / scale for i in rows]
    pairs = _pairs(some, identifier)
    if not pairs or not any(map(_moves, some)):
        return None
    search = _Search(estimator, identifier, some, codes[rows], max(n for n, _ in pairs))
    with one_blas_thread():
        search.compare([(*pair, search.centers[0], search.moments[:2]) for pair in pairs], stages)
        best = list(dict.fromkeys((one["n_states"], one["delay"]) for one in search.ordered()))
        finalists = [(*pair, center, search.moments) for pair in best[:_FINALISTS] for center in search.centers]
        search.compare(finalists, stages)
    if not search.compared:
        return None
    compared = search.ordered()
    top = compared[0]
    params: dict[str, Any] = {"n_states": top["n_states"]}
    if identifier.delay == "auto":
        params["identifier__delay"] = top["delay"]
    if len(search.centers) > 1:
        params["identifier__center"] = top["center"]
    if estimator.moments == "auto":
        params["moments"] = top["moments"]
    settings = [{name: one[name] for name in _NAMES} for one in compared]
    loss, error, accuracy = (np.array([one[name] for one in compared]) for name in ("loss", "error", "accuracy"))
    step = Step(HEADING, LABEL, settings, loss, [0], error, {"accuracy": accuracy})
    return Choice([step], params, [], time.perf_counter() - began)


def _drawn(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows for the comparison of settings: the same fraction of every class, and at least two rows of it."""
    if len(codes) <= _COMPARED:
        return np.arange(len(codes))
    order = np.random.default_rng(0).permutation(len(codes))
    place = np.empty(len(codes))  # of each row in its class, as a share
    for kind in np.unique(codes):
        members = order[codes[order] == kind]
        place[members] = np.where(np.arange(len(members)) < 2, -1.0, np.arange(len(members)) / len(members))
    most = max(_COMPARED, int(np.sum(place < 0)))
    return np.sort(np.argsort(place, kind="stable")[:most])


def _pairs(sequences: Sequence[Array], identifier: LDSIdentifier) -> list[tuple[int, int]]:
    """Return pairs (n_states, delay) that suit every sequence."""
    shortest, channels = min(map(len, sequences)), sequences[0].shape[1]
    delays = DELAYS if identifier.delay == "auto" else (int(identifier.delay),)
    return [
        (n, delay)
        for delay in delays
        for n in STATES
        if n <= channels * delay and n + delay < shortest and (delay == 1 or channels * delay <= _OUTPUTS)
    ]


class _Search:
    """Measurements of settings on some sequences.

    The kernel matrices of the dynamics are cached where they were computed; they are not sent to other processes.
    """

    def __init__(
        self, estimator: Any, identifier: LDSIdentifier, sequences: Sequence[Array], codes: NDArray[np.intp], most: int
    ) -> None:
        self.compared: list[dict[str, Any]] = []
        self._identifier, self._codes = identifier, codes
        self._kernel, self._method, self._C = resolved_kernel(estimator.kernel), estimator.method, float(estimator.C)
        free = "center" in _open(estimator.identifier)
        self.centers = (True, False) if free else (identifier.center in (True, "auto"),)
        moments = channel_moments(sequences)
        if estimator.moments == "auto":
            self.moments = ("none", "both", "level", "size")
            if not isinstance(self._kernel, ProjectionKernel):
                self.moments = ("none",)
        else:
            self.moments = (estimator.moments,)
        self._gaussians = {which: _gaussian(moments, which) for which in self.moments if which in MOMENTS}
        self._sequences, self._most = sequences, most
        self._matrices: dict[tuple[int, int, bool], Array | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "compared": [], "_matrices": {}}

    def compare(self, settings: Sequence[Compared], stages: Stages) -> None:
        """Measure settings with each choice of moments, unless that is done."""
        done = [tuple(one[name] for name in _NAMES) for one in self.compared]
        left: list[Compared] = [
            (n, delay, center, [which for which in moments if (n, delay, center, which) not in done])
            for n, delay, center, moments in settings
        ]
        groups: dict[tuple[int, bool], list[int]] = {}
        for i, (_, delay, center, _) in enumerate(left):
            groups.setdefault((delay, center), []).append(i)
        tasks = [[left[i] for i in rows] for rows in groups.values()]
        measured: dict[int, _Figures] = {}
        for rows, found in zip(groups.values(), stages.map(self._measured, tasks), strict=True):
            measured |= dict(zip(rows, found, strict=True))
        for i, (*dynamics, moments) in enumerate(left):
            for which, figures in zip(moments, measured[i], strict=bool(measured[i])):
                setting = dict(zip(_NAMES, (*dynamics, which), strict=True))
                self.compared.append({**setting, **dict(zip(_FIGURES, figures, strict=True))})

    def _measured(self, settings: Sequence[Compared]) -> tuple[_Figures, ...]:
        """Return the figures of settings with one delay and one choice of centring, each with its moments.

        A setting whose dynamics are not defined has no figures.
        """
        if any(tuple(dynamics) not in self._matrices for *dynamics, _ in settings):
            _, delay, center, _ = settings[0]
            directions = _decomposed(self._sequences, delay, center, self._most)
            for n, *_ in settings:
                if (n, delay, center) not in self._matrices:
                    self._matrices[n, delay, center] = self._of_dynamics(_least_squares(directions, n))
        found = []
        for n, delay, center, moments in settings:
            D = self._matrices[n, delay, center]
            kernels = () if D is None else (D * self._gaussians.get(which, 1.0) for which in moments)
            found.append(tuple(left_out(K, self._codes, self._method, self._C) for K in kernels))
        return tuple(found)

    def ordered(self) -> list[dict[str, Any]]:
        """Return the measurements in ascending order of the loss; ties keep their order, with fewer states first."""
        return sorted(self.compared, key=lambda one: one["loss"])

    def _of_dynamics(self, parts: list[tuple[Any, ...]]) -> Array | None:
        """Return the kernel matrix of systems (see `_least_squares`), or None if it is not defined."""
        try:
            systems: Systems = _stabilized(parts, self._identifier.stabilizer_, self._identifier.bound)
            packed = self._kernel.pack(items_of(self._kernel, systems))
        except ValueError:
            return None
        gram = self._kernel.cross(packed, packed)
        size = float(gram.diagonal().mean())
        return (gram + gram.T) / (2 * size) if size > 0 and np.isfinite(gram).all() else None


def left_out(K: Array, codes: NDArray[np.intp], method: str, C: float) -> tuple[float, float, float]:
    """Return accuracy, loss and standard error of the loss of leave-one-out predictions from a kernel matrix.

    ``"nearest"`` predicts the class of the nearest other member. The alternative is kernel ridge regression to the
    classes with penalty ``1 / C``, whose predictions without a member are ``y_i - (G^-1 y)_i / (G^-1)_ii`` with ``G = K
    + 1 + I / C``.
    """
    targets = np.eye(int(codes.max()) + 1)[codes]
    if method == "nearest":
        squared = K.diagonal()[:, None] + K.diagonal() - 2 * K
        np.fill_diagonal(squared, np.inf)
        scores = np.stack([-squared[:, codes == c].min(axis=1) for c in range(targets.shape[1])], axis=1)
        losses = scores.argmax(axis=1) != codes
    else:
        inverse = np.linalg.pinv(K + 1.0 + np.eye(len(K)) / C, hermitian=True)
        scores = targets - (inverse @ targets) / inverse.diagonal()[:, None]
        losses = (targets - scores) ** 2
    error = summary(losses.reshape(len(codes), -1).mean(axis=1))[1]
    return float(np.mean(scores.argmax(axis=1) == codes)), float(losses.mean()), float(error)
