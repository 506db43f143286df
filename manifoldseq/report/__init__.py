"""Reports: figures of results, and self-contained HTML pages about run directories."""

from ._convergence import plot_convergence
from ._html import render_html
from ._runs import RunFiles, read_run

__all__ = ["RunFiles", "plot_convergence", "read_run", "render_html"]
