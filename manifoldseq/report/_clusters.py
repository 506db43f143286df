"""Figures of clusters: sizes, agreement with labels, the kernel between members; purity, NMI, ARI."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._extras import needing
from ._sources import assignment_of, labels_and_clusters_of
from ._style import (
    IMAGE_SIDE,
    LIGHT,
    SEQUENTIAL,
    colourbar,
    evenly,
    few_ticks,
    gridded,
    natural,
    plain,
    prepared_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 24
"""Maximum number of bars or rows that are all named."""
_LETTERS, _LETTERS_OF_SQUARES = 40, 28
"""Numbers of letters that fit below axes, and below axes of equal aspect with a colour scale."""


def clustering_measures(labels: ArrayLike, clusters: ArrayLike) -> dict[str, float]:
    """Return purity, normalized mutual information and adjusted Rand index, each at most one.

    Purity is ``sum_k max_i c_ik / N`` for the contingency counts c of label i and cluster k.

    Parameters
    ----------
    labels, clusters : array-like of shape (N,)

    Examples
    --------
    >>> clustering_measures(["a", "a", "b"], [1, 1, 0])
    {'purity': 1.0, 'nmi': 1.0, 'ari': 1.0}
    """
    with needing("measures of clusterings need", "cli"):
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
        from sklearn.metrics.cluster import contingency_matrix

    counts = contingency_matrix(labels, clusters)
    return {
        "purity": float(counts.max(axis=0).sum() / counts.sum()),
        "nmi": float(normalized_mutual_info_score(labels, clusters)),
        "ari": float(adjusted_rand_score(labels, clusters)),
    }


def plot_cluster_sizes(result: Any, ax: "Axes | None" = None) -> "Axes":
    """Plot the number of members of each cluster.

    If there are labels, clusters are in the order of `plot_confusion`, and otherwise in the order of their names.

    Parameters
    ----------
    result : fitted clustering, Fitted, RunFiles, or array-like of shape (N,)
        The clustering, or the cluster of each member.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> [bar.get_height() for bar in ms.report.plot_cluster_sizes([0, 0, 1], ax=ax).patches]
    [np.int64(2), np.int64(1)]
    >>> plt.close(figure)
    """
    labels, clusters = assignment_of(result)
    if labels is None:
        names, sizes = np.unique(clusters, return_counts=True)
        order = _order(names)
        names, sizes = names[order].tolist(), sizes[order]
    else:
        _, names, counts = contingency(labels, clusters)
        sizes = counts.sum(axis=1)
    ax = prepared_axes(ax)
    bars = ax.bar(range(len(names)), sizes, color=LIGHT[0], width=0.7)
    if len(names) * (len(str(sizes.max())) + 1) <= _LETTERS:
        ax.bar_label(bars, padding=2)
    _name_ticks(ax.xaxis, names, _LETTERS)
    few_ticks(ax.yaxis, whole=True)
    gridded(ax, "y")
    ax.set(title="Cluster sizes", xlabel="cluster", ylabel="members")
    return ax


def plot_confusion(
    result: Any, ax: "Axes | None" = None, *, share: str = "share of the cluster", in_order: bool = False
) -> "Axes":
    """Plot the number of members of each cluster with each label; the shade is the fraction of the cluster.

    Clusters are in the order of their most frequent labels.

    Parameters
    ----------
    result : Fitted, RunFiles, or pair (labels, clusters) of array-like of shape (N,)
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.
    share : str
        The description of the shade.
    in_order : bool
        Sort clusters by their names, for clusters that are predicted labels.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there are no labels or no clusters, or if their numbers differ.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_confusion((["a", "a", "b"], [1, 1, 0]), ax=ax).get_xlabel()
    'label'
    >>> plt.close(figure)
    """
    labels, clusters, counts = contingency(*labels_and_clusters_of(result))
    if in_order:
        rows = natural(range(len(clusters)), key=clusters.__getitem__)
        clusters, counts = [clusters[i] for i in rows], counts[rows]
    shares = counts / counts.sum(axis=1, keepdims=True)
    ax = prepared_axes(ax)
    image = ax.imshow(shares, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="equal", interpolation="none")
    if counts.size <= _NAMED**2:
        for i, j in np.argwhere(counts):
            ink = "black" if shares[i, j] > 0.55 else "white"
            ax.text(j, i, str(counts[i, j]), ha="center", va="center", color=ink)
    _name_ticks(ax.xaxis, labels, _LETTERS_OF_SQUARES)
    _name_ticks(ax.yaxis, clusters, _LETTERS_OF_SQUARES)
    colourbar(image, ax, share)
    ax.set(title="Clusters and labels", xlabel="label", ylabel="cluster")
    return ax


def plot_kernel_matrix(
    matrix: ArrayLike, ax: "Axes | None" = None, *, clusters: ArrayLike | None = None, label: str = "kernel value"
) -> "Axes":
    """Plot a kernel matrix, its rows and columns sorted by cluster.

    Parameters
    ----------
    matrix : array-like of shape (N, N)
        Similarities. If there are more than 256 rows, 256 evenly spaced rows of the sorted order are drawn.
    ax : matplotlib.axes.Axes, optional
        By default, the axes of a new pyplot figure are used.
    clusters : array-like of shape (N,), optional
        The cluster of each row; without it rows keep their order.
    label : str
        The description of the values, for the scale.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the matrix is not square, or there is not one cluster for each row.

    Examples
    --------
    >>> import numpy as np
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_kernel_matrix(np.eye(3), ax=ax, clusters=[0, 1, 0]).images[0].get_array().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> plt.close(figure)
    """
    K = np.asarray(matrix, dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"the matrix has shape {K.shape}: pass a square matrix, (N, N)")
    groups = np.zeros(len(K), dtype=int) if clusters is None else np.asarray(clusters)
    if groups.shape != (len(K),):
        raise ValueError(f"clusters have shape {groups.shape} for {len(K)} rows: pass one cluster for each row")
    names = natural(np.unique(groups))
    rows = sorted_rows(groups, IMAGE_SIDE)
    sizes = np.array([np.count_nonzero(groups[rows] == name) for name in names])
    ax = prepared_axes(ax)
    image = ax.imshow(K[np.ix_(rows, rows)], cmap=SEQUENTIAL, aspect="equal", interpolation="none")
    ends = np.cumsum(sizes)
    if len(names) <= _NAMED:
        for end in ends[:-1] - 0.5:
            ax.axhline(end, color="white", linewidth=0.8)
            ax.axvline(end, color="white", linewidth=0.8)
    ax.set(title="Kernel matrix", xlabel="member", ylabel="member")
    if clusters is not None:
        places = ends - sizes / 2 - 0.5
        kept = _apart(places, names, len(rows))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(places[kept], [plain(names[i]) for i in kept])
            axis.set_tick_params(length=0)
        ax.set(xlabel="members by cluster", ylabel="members by cluster")
    colourbar(image, ax, label)
    return ax


def sorted_rows(clusters: ArrayLike, most: int) -> NDArray[np.int64]:
    """Return the rows sorted by cluster, and only `most` evenly spaced rows of this order if there are more.

    Examples
    --------
    >>> sorted_rows([1, 0, 1, 0], 4).tolist()
    [1, 3, 0, 2]
    """
    groups = np.asarray(clusters)
    names = natural(np.unique(groups))
    rows = np.concatenate([np.flatnonzero(groups == name) for name in names])
    return rows[evenly(len(rows), most)]


def contingency(labels: NDArray, clusters: NDArray) -> tuple[list[Any], list[Any], NDArray[np.int64]]:
    """Return label names, cluster names and counts (clusters × labels), clusters by their most frequent label."""
    (columns, column), (rows, row) = (np.unique(values, return_inverse=True) for values in (labels, clusters))
    counts = np.zeros((len(rows), len(columns)), dtype=np.int64)
    np.add.at(counts, (row, column), 1)
    counts = counts[:, _order(columns)]
    order = np.lexsort((-counts.max(axis=1), counts.argmax(axis=1)))
    return natural(columns), rows[order].tolist(), counts[order]


def _order(names: NDArray) -> list[int]:
    return natural(range(len(names)), key=names.__getitem__)


def _name_ticks(axis: Any, names: Any, letters: int) -> None:
    """Name bars or rows; along the horizontal axis, names are rotated or limited to those that fit."""
    longest = max(len(str(name)) for name in names)
    upright = axis.axis_name == "x" and (longest + 1) * len(names) > letters
    kept = evenly(len(names), _NAMED)
    axis.set_ticks(kept, [plain(names[i]) for i in kept])
    if upright:
        axis.set_tick_params(rotation=90)


def _apart(places: NDArray, names: list[Any], length: int) -> list[int]:
    """Return the names that fit along an axis without overlap, beginning with the first."""
    spacing = length * max(0.06, max(len(str(name)) for name in names) / _LETTERS)
    kept: list[int] = []
    for i, place in enumerate(places):
        if not kept or place - places[kept[-1]] >= spacing:
            kept.append(i)
    return kept
