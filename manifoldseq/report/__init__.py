"""Reports: figures of results, and self-contained HTML pages about runs."""

from ._clusters import clustering_measures, plot_cluster_sizes, plot_confusion, plot_kernel_matrix
from ._convergence import plot_convergence, plot_evaluations, plot_gradient_norm
from ._drawing import Drawing, draw_plots
from ._evaluation import draw_evaluation, plot_controls, plot_features, plot_nearest
from ._html import render_html
from ._runs import RunFiles, read_run, save_drawings
from ._sources import Fitted
from ._style import line_style, log_scale, marker_style, prepared_axes

__all__ = [
    "Drawing",
    "Fitted",
    "RunFiles",
    "clustering_measures",
    "draw_evaluation",
    "draw_plots",
    "line_style",
    "log_scale",
    "marker_style",
    "plot_cluster_sizes",
    "plot_confusion",
    "plot_controls",
    "plot_convergence",
    "plot_evaluations",
    "plot_features",
    "plot_gradient_norm",
    "plot_kernel_matrix",
    "plot_nearest",
    "prepared_axes",
    "read_run",
    "render_html",
    "save_drawings",
]
