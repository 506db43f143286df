"""One HTML file about one run or several side by side: nothing is fetched, figures are inline."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._convergence import plot_convergence
from ._runs import RunFiles

_INK = "#010203"  # stands for the text colour of the page, which a dark theme changes
_BASELINE = "baseline_"
_LABELS = {"purity": "purity", "nmi": "NMI", "ari": "ARI", "seconds": "seconds"}


def render_html(runs: Sequence[RunFiles]) -> str:
    """Render a self-contained page about runs: what was run, metrics beside the baseline, convergence, clusters.

    Parameters
    ----------
    runs : sequence of RunFiles
        From `read_run`; several are shown side by side.

    Returns
    -------
    str
        An HTML document that opens offline, in a light or dark theme, on narrow and wide screens.
    """
    from jinja2 import Environment

    template = Path(__file__).with_name("template.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    title = " · ".join(dict.fromkeys(f"{run.run.get('estimator', '?')} on {run.run.get('data', '?')}" for run in runs))
    return environment.from_string(template).render(title=title, runs=[_view(run) for run in runs])


def _view(run: RunFiles) -> dict[str, Any]:
    compared = [name for name in _LABELS if name in run.metrics]
    rows: list[tuple[str, list[Any]]] = [(run.run.get("estimator", "model"), [run.metrics[name] for name in compared])]
    if any(name.startswith(_BASELINE) for name in run.metrics):
        baseline = [run.metrics.get(_BASELINE + name) for name in compared]
        rows.append((run.run.get("baseline", "baseline"), baseline))
    others = {
        name: value
        for name, value in run.metrics.items()
        if name not in _LABELS and not name.startswith(_BASELINE)
    }  # fmt: skip
    return {
        "name": run.name,
        "run": run.run,
        "header": [_LABELS[name] for name in compared],
        "rows": [(name, [_number(value) for value in values]) for name, values in rows],
        "details": {
            "run": {name: run.run[name] for name in ("estimator", "data", "seed", "started") if name in run.run},
            "parameters": run.run.get("parameters"),
            "further metrics": {name: _number(value) for name, value in others.items()},
            "versions": run.run.get("versions"),
        },
        "convergence": _svg(run) if len(run.history.get("fun", ())) > 1 else None,
        "confusion": _confusion(run.assignments),
    }


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.3g}"


def _confusion(assignments: Sequence[tuple[str | None, str]]) -> dict[str, Any] | None:
    if not assignments:
        return None
    sizes = Counter(cluster for _, cluster in assignments)
    counts = Counter(assignments)
    clusters = sorted(sizes, key=_natural)
    labels = sorted({label for label, _ in assignments if label is not None}, key=_natural)
    rows = [
        {
            "cluster": cluster,
            "size": sizes[cluster],
            "share": sizes[cluster] / max(sizes.values()),
            "cells": [(counts[label, cluster], counts[label, cluster] / sizes[cluster]) for label in labels],
        }
        for cluster in clusters
    ]
    return {"labels": labels, "rows": rows}


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if text.lstrip("-").isdigit() else (1 << 62, text)


def _svg(run: RunFiles) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": run.name, "font.size": 11, "font.family": "sans-serif"}
    with rc_context({**style, **dict.fromkeys(ink, _INK)}):
        figure = Figure(figsize=(5, 3), layout="constrained")
        plot_convergence(run.history, figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :].replace(_INK, "currentColor")
