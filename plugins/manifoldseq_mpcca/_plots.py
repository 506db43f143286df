"""Figures of a fitted mixture: shared variance of views and of columns."""

from typing import Any

import numpy as np

from ._mixture_pcca import MixturePCCA
from ._parameters import Array, Mixture, mixture_of

_BEST, _ROWS, _LONGEST = 6, 12, 24
"""Maximum number of columns of each view, of columns in total, and of letters of a name in a figure."""
_BELOW: dict[str, Any] = {
    "loc": "upper center",
    "bbox_to_anchor": (0.5, 0.0),
    "frameon": False,
    "fontsize": "small",
}
"""Position of a legend below the axes and their labels."""


def plot_shared(mixture: Any, ax: Any = None) -> Any:
    """Draw the fraction of each view's variance that the latent vector explains, per component.

    Parameters
    ----------
    mixture : Mixture or fitted MixturePCCA
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from manifoldseq_mpcca import Mixture, plot_shared
    >>> mixture = Mixture([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], noise=[[[1.0]], [[1.0]]])
    >>> [float(bar.get_height()) for bar in plot_shared(mixture).patches]
    [0.5, 0.8]
    """
    from manifoldseq.report import line_style, prepared_axes

    names = getattr(mixture, "feature_names_in_", None)
    mixture = mixture_of(mixture)
    ax = prepared_axes(ax)
    shares = shared_variance(mixture)
    K, V = shares.shape
    width = 0.8 / V
    for v in range(V):
        places, colour = np.arange(K) + (v - (V - 1) / 2) * width, line_style(v)["color"]
        ax.bar(places, shares[:, v], width, label=view_label(v, names), color=colour)
    ax.set_xticks(range(K), [f"{k}\n{weight:.0%}" for k, weight in enumerate(mixture.weights)])
    ax.set(xlabel="component, weight", ylabel="shared variance", ylim=(0, 1), title="Shared variance of the views")
    ax.legend(ncols=3 if names is None else 2, borderaxespad=5.5, **_BELOW)
    return ax


def view_label(v: int, names: Any) -> str:
    """Return the label of a view in a legend: its number, and its first and last column if they have names."""
    if names is None:
        return f"view {v}"
    return f"view {v}: {' … '.join(dict.fromkeys((_shown(names[v][0]), _shown(names[v][-1]))))}"


def _shown(name: str) -> str:
    """Return a name for a figure, shortened and escaped for matplotlib."""
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return short.replace("$", r"\$")


def shares_of_columns(mixture: Mixture) -> Array:
    """Return the fraction of the variance of each column that the shared latent vector explains, (K, D)."""
    return np.sum(mixture.shared**2, axis=2) / (np.sum(mixture.loadings**2, axis=2) + mixture.variances)


def shared_variance(mixture: Mixture) -> Array:
    """Return the fraction of variance that the latent vector explains, averaged over the columns of a view, (K, V)."""
    share = shares_of_columns(mixture)
    return np.stack([share[:, mixture.columns(v)].mean(axis=1) for v in range(len(mixture.views))], axis=1)


def draw_columns(ax: Any, result: Any) -> None:
    """Draw the columns of each view with the largest explained variance, averaged over the rows."""
    from manifoldseq.report import line_style, prepared_axes

    ax, model = prepared_axes(ax), result.estimator
    mixture, names = mixture_of(model), getattr(model, "feature_names_in_", None)
    share = mixture.weights @ shares_of_columns(mixture) / mixture.weights.sum()
    place, ticks = 0, []
    for v, columns in enumerate(mixture.columns(v) for v in range(len(mixture.views))):
        of_view = share[columns]
        best = np.argsort(-of_view, kind="stable")[: max(1, min(_BEST, _ROWS // len(mixture.views)))]
        rows = place + np.arange(len(best))
        ax.barh(rows, of_view[best], label=f"view {v}", color=line_style(v)["color"])
        ticks += [f"column {j}" if names is None else _shown(names[v][j]) for j in best]
        place += len(best)
    ax.set_yticks(range(place), ticks)
    ax.invert_yaxis()
    ax.set(xlabel="shared variance", xlim=(0, 1), title="Columns with the largest shared variance")
    ax.tick_params(axis="y", labelsize="small")
    ax.legend(ncols=3, borderaxespad=4.5, **_BELOW)


def accepts(result: Any) -> bool:
    """Return whether the result is a fitted `MixturePCCA`."""
    return isinstance(result.estimator, MixturePCCA)


def draw_shared(ax: Any, result: Any) -> None:
    """Draw the shared variances of a fit."""
    plot_shared(result.estimator, ax)
