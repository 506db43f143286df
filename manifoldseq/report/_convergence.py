"""Objective and gradient norm against iteration."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._result import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_convergence(result: "Result | Run | Mapping[str, Any]", ax: "Axes | None" = None) -> "Axes":
    """Plot the objective, and the gradient norm if it is known, against the iteration.

    Parameters
    ----------
    result : Result, Run or mapping of str to sequence of float
        A result with a `history`, or a history itself: equally long columns with ``"fun"`` and, if there are,
        ``"nit"`` and ``"grad_norm"``.
    ax : matplotlib.axes.Axes, optional
        By default those of a new pyplot figure. The gradient norm gets a logarithmic axis of its own on the right.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the history has no column ``"fun"``.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> ms.report.plot_convergence({"fun": [3.0, 1.0, 0.5]}, ax=ax).get_ylabel()
    'objective'
    >>> plt.close(figure)
    """
    history = result.history if isinstance(result, (Result, Run)) else result
    if "fun" not in history:
        raise ValueError(f"the history has no column 'fun': it has {', '.join(history) or 'no columns'}")
    fun = np.asarray(history["fun"], dtype=float)
    nit = np.asarray(history.get("nit", np.arange(len(fun))), dtype=float)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1]
    from matplotlib.ticker import MaxNLocator

    ax.plot(nit, fun, color="C0", marker="o" if len(fun) <= 40 else "", markersize=3)
    ax.set_xlabel("iteration")
    ax.set_ylabel("objective")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    norms = np.asarray(history.get("grad_norm", ()), dtype=float)
    if norms.size and (norms > 0).any():
        right = ax.twinx()
        right.semilogy(nit, np.where(norms > 0, norms, np.nan), color="C1", linestyle="--", linewidth=1)
        right.set_ylabel("gradient norm (dashed)")
    return ax
