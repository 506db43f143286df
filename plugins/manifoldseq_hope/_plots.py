"""Figures of fitted models: filters, concentrations, correlations of the rows of projections."""

from math import isqrt
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldseq.report import line_style, log_scale, prepared_axes

from .families._family import Array
from .mixtures._projected import ProjectedMixture
from .mixtures._spherical_kmeans import SphericalKMeans
from .networks._network import HOPENetworkClassifier
from .networks._stack import HOPEStack

_TILES = 64


def plot_filters(model: Any, ax: Any = None) -> Any:
    """Draw the weights of components or units of a model as square images, each with its own grey scale.

    Parameters
    ----------
    model : fitted HOPE, PCAMovMF, VonMisesFisherMixture, SphericalKMeans, HOPEStack or HOPENetworkClassifier
        A model of square images with side s, so that D = s^2. The centres of its components are drawn as images; for a
        network, the weights of the merged first layer. At most 64 images are drawn, for the components with the largest
        weights or the units with the longest weight vectors.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If the rows of the model are not square images, or the model is not fitted or has no filters.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manifoldseq_hope import SphericalKMeans, plot_filters
    >>> model = SphericalKMeans(9, random_state=0).fit(load_digits().data[:200])
    >>> plot_filters(model).images[0].get_array().shape
    (26, 26)
    """
    filters, weights = _filters(model)
    side = isqrt(filters.shape[1])
    if side**2 != filters.shape[1]:
        raise ValueError(
            f"{type(model).__name__} was fitted to rows of {filters.shape[1]} columns, which are not square "
            "images: pass a model that was fitted to square images"
        )
    order = np.argsort(-weights, kind="stable")[:_TILES]
    columns = int(np.ceil(np.sqrt(len(order))))
    lines = -(-len(order) // columns)
    mosaic = np.full((lines, columns, side + 1, side + 1), np.nan)
    for place, image in enumerate(filters[order]):
        largest = np.abs(image).max() or 1.0
        mosaic[place // columns, place % columns, :-1, :-1] = image.reshape(side, side) / largest
    ax = prepared_axes(ax)
    ax.imshow(
        np.ma.masked_invalid(mosaic.swapaxes(1, 2).reshape(lines * (side + 1), -1)[:-1, :-1]),
        cmap="gray",
        vmin=-1,
        vmax=1,
        interpolation="none",
    )
    ax.axis("off")
    ax.set_title("Filters")
    return ax


def accepts_filters(result: Any) -> bool:
    """Return whether the result is a fitted model of square images."""
    model = result.estimator
    if not isinstance(model, (ProjectedMixture, SphericalKMeans, HOPEStack, HOPENetworkClassifier)):
        return False
    n_features: int = vars(model)["n_features_in_"]
    return isqrt(n_features) ** 2 == n_features > 1


def draw_filters(ax: Any, result: Any) -> None:
    """Draw the filters of a fit."""
    plot_filters(result.estimator, ax)


def accepts_concentrations(result: Any) -> bool:
    """Return whether the result is a fitted mixture of von Mises-Fisher components."""
    return isinstance(result.estimator, ProjectedMixture) and result.estimator.names_[0] == "mu"


def draw_concentrations(ax: Any, result: Any) -> None:
    """Draw the histogram of the logarithms of the concentrations."""
    kappas = result.estimator.concentrations_
    kappas = kappas[kappas > 0]
    if len(kappas) and kappas.max() > 1.01 * kappas.min():
        bins = np.geomspace(kappas.min(), kappas.max(), min(30, max(5, len(kappas) // 8)) + 1)
    else:  # equal up to rounding
        middle = float(kappas.mean()) if len(kappas) else 1.0
        bins = middle * 2.0 ** np.array([-1.5, -0.5, 0.5, 1.5])
    prepared_axes(ax).hist(kappas, bins=bins.tolist(), color=line_style(0)["color"])
    log_scale(ax.xaxis)
    ax.set(xlabel="concentration", ylabel="components", title="Concentrations")
    largest = getattr(result.estimator, "largest_kappa", np.inf)
    if held := int(np.count_nonzero(kappas >= 0.999 * largest)):
        ax.set(title=f"Concentrations: {held} of {len(kappas)} at largest_kappa")


def accepts_correlations(result: Any) -> bool:
    """Return whether the result is a fitted network with projections."""
    return isinstance(result.estimator, HOPENetworkClassifier) and "correlations_0" in result.history


def draw_correlations(ax: Any, result: Any) -> None:
    """Draw the sum of the correlations of the rows of every projection by epoch (Figure 4)."""
    ax = prepared_axes(ax)
    curves = {name: values for name, values in result.history.items() if name.startswith("correlations_")}
    for series, (name, values) in enumerate(curves.items()):
        ax.plot(np.arange(len(values)), values, label=f"layer {name.split('_')[1]}", **line_style(series, len(values)))
    ax.set(xlabel="epoch", ylabel="sum of correlations", title="Correlations between rows of projections")
    ax.set_ylim(0, None if max(values.max() for values in curves.values()) > 1e-3 else 1)
    ax.legend()


def _filters(model: Any) -> tuple[Array, Array]:
    """Return the filters (K, D) and the values by which they are sorted."""
    kinds = (SphericalKMeans, ProjectedMixture, HOPEStack, HOPENetworkClassifier)
    if not isinstance(model, kinds):
        raise ValueError(f"{type(model).__name__} has no filters to draw: pass a fitted estimator, see plot_filters")
    check_is_fitted(model)
    if isinstance(model, SphericalKMeans):
        return model.cluster_centers_, np.bincount(model.labels_, minlength=len(model.cluster_centers_)).astype(float)
    if isinstance(model, ProjectedMixture):
        return model._model().family.centres(model.parameters_) @ model.components_, model.weights_
    weight = model.layers_[0].merged().weight
    return weight, np.linalg.norm(weight, axis=1)
