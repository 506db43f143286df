"""Figures of fitted linear dynamical systems: kernel matrix, spectra, reconstructions."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.report import Fitted, line_style, marker_style, prepared_axes

from .clustering._kmeans import LDSKMeans
from .identification._identifier import LDSIdentifier
from .identification._sequence_input import identifier_for, new_systems
from .identification._stabilizers import stabilizer_of_forecasts
from .kernels._moments import fitted_kernel
from .means._common_problem import items_of
from .systems._record import Systems

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating[Any]]

_MEMBERS = 240
"""Maximum number of members in a figure; members are evenly spaced."""
_TIGHT: dict[str, Any] = {"handlelength": 1.6, "handletextpad": 0.4, "columnspacing": 1.2}
_WHOLE = 1.3
"""Spectra wider than this are drawn on the whole upper half of the disc."""
_WIDE: dict[str, Any] = {"linewidth": 4, "alpha": 0.35}
_NARROW: dict[str, Any] = {"linewidth": 1.4}
_PLAIN: dict[str, Any] = {"linestyle": "-", "marker": ""}

_NAMED = 12
"""Maximum number of groups that have different colours and markers."""


def plot_kernel_matrix(result: Fitted, ax: "Axes | None" = None) -> "Axes":
    """Plot the kernel values between the systems of a clustering, sorted by cluster.

    Parameters
    ----------
    result : manifoldseq.report.Fitted
        A fitted `LDSKMeans` with its data. At most 240 evenly spaced members are shown.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `result` has another type.

    Notes
    -----
    Values of the projection kernel, (5) of Huang et al., lie between 0 and n.
    """
    model = _clustering(result)
    labels = np.asarray(model.labels_)
    order = np.argsort(labels, kind="stable")
    rows = order[_evenly(len(order), _MEMBERS)]
    kernel = fitted_kernel(model)
    systems = _systems(result, rows)
    packed = kernel.pack(items_of(kernel, systems))
    name = model.kernel if isinstance(model.kernel, str) else type(model.kernel).__name__
    return ms.report.plot_kernel_matrix(
        kernel.cross(packed, packed), ax, clusters=labels[rows], label=f"{name} kernel (no unit)"
    )


def plot_spectra(result: Any, ax: "Axes | None" = None) -> "Axes":
    """Plot the eigenvalues of transition matrices on the unit disc.

    The angle of an eigenvalue is the frequency of a mode in radians per step, and its modulus is the decay factor of
    the mode per step. Systems of sequences are shown before stabilization: eigenvalues of unstable systems may lie
    outside the disc. The centres of a clustering are means of stabilized systems, which ``"SN"`` and ``"clip"`` damp.

    Parameters
    ----------
    result : manifoldseq.report.Fitted, LDSKMeans or Systems
        For a clustering, the centres are shown, and the members are faint dots if there are data. For a fitted
        `LDSIdentifier` with its data, or for `Systems`, each system is shown.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> plot_spectra(Systems(A=[[[0.5]], [[-0.9]]], C=[[[1.0]], [[1.0]]]), ax=ax).get_xlabel()
    'real part'
    >>> plt.close(figure)
    """
    model = result.estimator if isinstance(result, Fitted) else result
    centres = model.systems_ if isinstance(model, LDSKMeans) else None
    systems = model if isinstance(model, Systems) else None
    if isinstance(result, Fitted):
        systems = _systems(result, _evenly(len(result.X), _MEMBERS))
    if systems is None and centres is None:
        raise ValueError(f"{type(result).__name__} has no systems: pass Fitted(estimator, data), LDSKMeans or Systems")
    groups: list[tuple[str, NDArray[np.complex128], dict[str, Any]]] = []
    if centres is not None and len(centres) <= _NAMED:
        groups += [(f"cluster {k}", _upper(A), marker_style(k)) for k, A in enumerate(centres.A)]
    elif centres is not None:
        groups.append((f"{len(centres)} centres", _upper(centres.A), marker_style(0)))
    if systems is not None:
        few = {} if len(systems) <= _NAMED else {"markersize": 4, "alpha": 0.6}
        style = marker_style(0) | few if centres is None else marker_style(None)
        total = len(result.X) if isinstance(result, Fitted) else len(systems)
        some = f"{len(systems)} systems" if len(systems) == total else f"{len(systems)} of {total} systems"
        groups.append((some, _upper(systems.A if systems.A_estimate is None else systems.A_estimate), style))
    ax = prepared_axes(ax)
    _disc(ax)
    for label, values, style in groups:
        ax.plot(values.real, values.imag, label=label, **style)
    columns = {"ncols": min(4, len(groups)), "handletextpad": 0.2, "columnspacing": 1.0}
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.5, frameon=False, **columns)
    ax.set(aspect="equal", xlabel="real part", ylabel="imaginary part")
    ax.set(title="Spectra of the centres" if centres is not None else "Spectra")
    _zoom(ax, np.concatenate([_core(values) for _, values, _ in groups]))
    return ax


def plot_reconstruction(
    result: Fitted, ax: "Axes | None" = None, *, member: int | None = None, worst: bool = False, n_channels: int = 3
) -> "Axes":
    """Plot channels of one recorded sequence and their reconstruction by the identified system.

    The record is compared with ``mean + C x(t)``, where the states are ``x(t) = C.T (y(t) - mean)``, and with the
    forecast one step ahead, ``mean + C A x(t - 1)``. A has the stabilizer that `LDSIdentifier.forecast` uses. The title
    gives the root mean square error of the forecast, divided by the root mean square deviation of the sequence from its
    mean. A value of 1 is no better than the mean.

    Parameters
    ----------
    result : manifoldseq.report.Fitted
        A fitted `LDSKMeans` or `LDSIdentifier` with its sequences.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used; the channels are axes inside it.
    member : int, optional
        The index of the sequence. By default, the sequence with the median error is shown (among 240 evenly spaced
        sequences, if there are more).
    worst : bool
        Show the sequence with the largest error if `member` is not given.
    n_channels : int
        The number of channels. The channels with the largest variance are shown.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `result` has another type, or was fitted on `Systems`.
    """
    if not accepts_sequences(result):
        raise ValueError("there are no sequences to reconstruct: pass Fitted(estimator, sequences)")
    if member is None:
        rows = _evenly(len(result.X), _MEMBERS)
        errors = [_Reproduced(result, i, item).error for i, item in zip(rows, _forecasting(result, rows), strict=True)]
        member = int(rows[np.argsort(errors)[-1 if worst else (len(rows) - 1) // 2]])
    made = _Reproduced(result, member, _forecasting(result, np.array([member]))[0])
    data = result.data
    rate = getattr(data, "sampling_rate", None)
    names = getattr(data, "channel_names", None) or [f"channel {c}" for c in range(made.recorded.shape[1])]
    chosen = np.sort(np.argsort(-made.deviation, kind="stable")[:n_channels])
    ax = prepared_axes(ax)
    ax.set_axis_off()
    time = np.arange(len(made.recorded)) / (rate or 1)
    height = 1 / len(chosen)
    for place, c in enumerate(chosen):
        panel = prepared_axes(ax.inset_axes((0, 1 - (place + 0.86) * height, 1, 0.8 * height)))
        panel.plot(time, made.recorded[:, c], label="recorded", **line_style(None) | _WIDE)
        panel.plot(time, made.from_states[:, c], label="from its states", **line_style(0) | _NARROW)
        panel.plot(time[1:], made.forecast[:, c], label="one step ahead", **line_style(1) | _NARROW)
        panel.set_ylabel(str(names[c]).replace("$", r"\$"))
        panel.tick_params(labelbottom=place == len(chosen) - 1)
        if place == 0:
            panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, **_TIGHT)
        if place == len(chosen) - 1:
            panel.set_xlabel("time (s)" if rate else "time step")
    name = data.ids[member] if isinstance(data, ms.storage.SequenceData) else member
    ax.set_title(f"Reconstruction of sequence {name}, error {made.error:.2f}".replace("$", r"\$"))
    return ax


class _Reproduced:
    """One sequence and its reconstruction by its system, in the units of the record."""

    def __init__(self, fitted: Fitted, member: int, item: tuple[Array, ...]) -> None:
        model = fitted.estimator
        record = np.asarray(fitted.X[member], dtype=float)
        A, C = item[:2]
        d = record.shape[1]
        delay = len(C) // d
        steps = len(record) - delay + 1
        Y = np.concatenate([record[lag : lag + steps] / model.scale_ for lag in range(delay)], axis=1)
        mean = item[4] if len(item) > 4 else np.zeros(Y.shape[1])
        X = (Y - mean) @ C
        from_states, forecast = mean + X @ C.T, mean + X[:-1] @ A.T @ C.T
        spread = np.linalg.norm(Y[1:] - Y.mean(axis=0))
        rounding = np.finfo(float).eps * Y.size * np.abs(Y).max()
        self.error = float(np.linalg.norm(Y[1:] - forecast) / spread) if spread > rounding else 0.0
        self.recorded = record[:steps]
        self.from_states = from_states[:, :d] * model.scale_
        self.forecast = forecast[:, :d] * model.scale_
        self.deviation = Y[:, :d].std(axis=0)


def accepts_clustering(result: Any) -> bool:
    """Return whether a result is a fitted `LDSKMeans` with its data."""
    return isinstance(result, Fitted) and isinstance(result.estimator, LDSKMeans)


def accepts_systems(result: Any) -> bool:
    """Return whether a result is a fitted `LDSKMeans` or `LDSIdentifier` with its data."""
    return isinstance(result, Fitted) and isinstance(result.estimator, LDSKMeans | LDSIdentifier)


def accepts_sequences(result: Any) -> bool:
    """Return whether a result is a fitted `LDSKMeans` or `LDSIdentifier` with sequences."""
    return accepts_systems(result) and not isinstance(result.X, Systems)


def _drawing(plot: Callable[..., Any]) -> Callable[["Axes", Fitted], None]:
    """Return the function ``draw(ax, result)`` of a plot, as records require."""

    def draw(ax: "Axes", result: Fitted) -> None:
        plot(result, ax)

    return draw


draw_kernel_matrix = _drawing(plot_kernel_matrix)
draw_spectra = _drawing(plot_spectra)
draw_median_reconstruction = _drawing(plot_reconstruction)
draw_worst_reconstruction = _drawing(partial(plot_reconstruction, worst=True))


def _clustering(result: Any) -> LDSKMeans:
    if not accepts_clustering(result):
        raise ValueError(f"{type(result).__name__} is not a fitted LDSKMeans with data: pass Fitted(estimator, data)")
    return result.estimator


def _systems(fitted: Fitted, rows: NDArray[Any]) -> Systems:
    """Return the systems of some members."""
    X = fitted.X
    members = X[rows] if isinstance(X, Systems) else [X[i] for i in rows]
    model = fitted.estimator
    return new_systems(model, members) if isinstance(model, LDSKMeans) else model.transform(members)


def _forecasting(fitted: Fitted, rows: NDArray[Any]) -> Systems:
    """Return the systems that forecast some members, which are sequences."""
    model, members = fitted.estimator, [fitted.X[i] for i in rows]
    identifier = identifier_for(model, members) if isinstance(model, LDSKMeans) else copy(model)
    identifier.stabilizer = stabilizer_of_forecasts(identifier.stabilizer_)
    return identifier.transform(members)


def _upper(A: Array) -> NDArray[np.complex128]:
    """Return the eigenvalues in the upper half plane; the others are their conjugates."""
    values = np.linalg.eigvals(A).ravel().astype(np.complex128)
    return values[values.imag >= 0]


def _core(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return values without the few outliers."""
    if len(values) < 100:
        return values
    return values[(values.real >= np.quantile(values.real, 0.02)) & (values.imag <= np.quantile(values.imag, 0.98))]


def _disc(ax: "Axes") -> None:
    """Draw the unit circle, and faint circles inside."""
    angle = np.linspace(0, 2 * np.pi, 361)
    for radius in (0.2, 0.4, 0.6, 0.8, 1.0):
        faint: dict[str, Any] = {} if radius == 1 else {"alpha": 0.2, "linewidth": 0.8}
        ax.plot(radius * np.cos(angle), radius * np.sin(angle), **line_style(None) | faint)
    ax.axhline(0, **line_style(None) | {"linewidth": 0.8, "alpha": 0.2})


def _zoom(ax: "Axes", values: NDArray[np.complex128]) -> None:
    """Show the upper half of the disc; if all values lie in a small part of it, show this part and its position."""
    low, high = float(values.real.min()) - 0.05, max(float(values.real.max()), 0.95) + 0.05
    size = max(high - low, float(values.imag.max()) + 0.1)
    if size > _WHOLE:
        ax.set(xlim=(-1.05, 1.05), ylim=(-0.05, 1.05), xticks=(-1, -0.5, 0, 0.5, 1), yticks=(0, 0.5, 1))
        return
    ax.set(xlim=(high - size, high), ylim=(-0.05, size - 0.05))
    overview = ax.inset_axes((1.04, 0.0, 0.3, 0.3))
    overview.set_axis_off()
    angle = np.linspace(0, 2 * np.pi, 181)
    overview.plot(np.cos(angle), np.sin(angle), **line_style(None))
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * size + (high - size, -0.05)
    overview.plot(*corners.T, **line_style(1) | _PLAIN)
    overview.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))


def _evenly(n: int, most: int) -> NDArray[Any]:
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).round().astype(int))
