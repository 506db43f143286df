"""The performance profile of Dolan and Moré: the share of problems solved within a factor of the fastest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from manifoldseq.report import line_style

from . import _ours

MEASURES = {
    "CPU time": lambda one: one["seconds"],
    "gradients and Hessian products": lambda one: one["gradients"] + one["hessians"],
}
MARKERS, LAST = "osD^vP", 60


def ordered(race: list[dict[str, Any]]) -> list[str]:
    """Return the names of all contestants, ours first."""
    names = dict.fromkeys(name for one in race for name in one["contestants"])
    return sorted(names, key=lambda name: (_ours.NAMES.index(name) if name in _ours.NAMES else len(_ours.NAMES), name))


def draw(race: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel per measure; our solvers are coloured and solid, peers are grey with a marker."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(MEASURES), figsize=(10, 4.8), sharey=True, layout="constrained")
    for ax, (label, measure) in zip(axes, MEASURES.items(), strict=True):
        for number, name in enumerate(ordered(race)):
            factors = [_factor(one["contestants"], name, measure) for one in race]
            reached = np.sort([factor for factor in factors if np.isfinite(factor)])
            share = np.arange(1, len(reached) + 1) / len(race)
            x, y = [1, *reached, LAST], [0, *share, share[-1] if len(share) else 0]
            style = line_style(number)
            look = {"color": style["color"], "linewidth": 2.2}
            if name not in _ours.NAMES:
                look = {"color": "0.45", "linewidth": 1.1, "marker": MARKERS[number % len(MARKERS)], "markersize": 4.5}
            ax.step(x, y, where="post", label=name, **look)
        ax.set(xscale="log", xlim=(0.97, LAST), ylim=(0, 1.03), xlabel=f"{label}, as a multiple of the best")
        ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"share of {len(race)} problems solved")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _factor(contestants: dict[str, Any], name: str, measure: Callable[[Any], float]) -> float:
    best = min((measure(one) for one in contestants.values() if one["solved"]), default=np.inf)
    mine = contestants.get(name)
    return measure(mine) / best if mine and mine["solved"] else np.inf
