"""Figures of a fitted mixture: what views share."""

from typing import Any

import numpy as np

from ._mixture_pcca import MixturePCCA
from ._parameters import Array, Mixture, mixture_of


def plot_shared(mixture: Any, ax: Any = None) -> Any:
    """Draw the share of each view's variance that the latent vector explains, per component.

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
    from manifoldseq.report import prepared_axes

    mixture = mixture_of(mixture)
    ax = prepared_axes(ax)
    shares = shared_variance(mixture)
    K, V = shares.shape
    width = 0.8 / V
    for v in range(V):
        ax.bar(np.arange(K) + (v - (V - 1) / 2) * width, shares[:, v], width, label=f"view {v}")
    ax.set_xticks(range(K), [f"{k}\n{weight:.2g}" for k, weight in enumerate(mixture.weights)])
    ax.set(xlabel="component, weight", ylabel="shared variance", ylim=(0, 1), title="What the views share")
    ax.legend()
    return ax


def shared_variance(mixture: Mixture) -> Array:
    """Return the mean over a view's columns of the share of variance that the latent vector explains, (K, V)."""
    shared = np.sum(mixture.loadings**2, axis=2)
    share = shared / (shared + mixture.variances)
    return np.stack([share[:, mixture.columns(v)].mean(axis=1) for v in range(len(mixture.views))], axis=1)


def accepts(result: Any) -> bool:
    """Say whether the result is of a fitted `MixturePCCA`."""
    return isinstance(result.estimator, MixturePCCA)


def draw_shared(ax: Any, result: Any) -> None:
    """Draw the shared variances of a fit."""
    plot_shared(result.estimator, ax)
