"""Figures 4 and 5: correlations of the rows of projections during the training of a network."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from manifoldseq.report import line_style, prepared_axes

from ._digits import Array


def draw_correlations(curves: Mapping[str, Array], images: Mapping[str, Array], file: Path | str) -> None:
    """Write a figure of the sums of the correlations of rows by epoch (Figure 4) and of the correlations (Figure 5).

    Parameters
    ----------
    curves : mapping of str to ndarray of shape (epochs + 1,)
        Sums of correlations, by model.
    images : mapping of str to ndarray of shape (M, M)
    file : path-like
        The suffix selects the format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * (1 + len(images)), 3.6), layout="constrained")
    axes = figure.subplots(1, 1 + len(images))
    ax = prepared_axes(axes[0])
    for series, (model, curve) in enumerate(curves.items()):
        ax.plot(np.arange(len(curve)), curve, label=model, **line_style(series, len(curve)))
    ax.set(xlabel="epoch", ylabel="sum of correlations", title="Rows of U")
    ax.legend()
    for ax, (model, image) in zip(axes[1:], images.items(), strict=True):
        ax.imshow(image, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        ax.set(title=model, xlabel="row", ylabel="row")
    figure.colorbar(axes[-1].images[0], ax=axes[1:], label="|cos|")
    figure.savefig(file, dpi=120)
