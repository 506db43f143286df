"""One HTML page about one run or several: tables of metrics and of clusters against labels, inline figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import needing
from .._result import Result, Run
from ._clusters import contingency, plot_cluster_sizes, plot_confusion
from ._convergence import has_columns, plot_convergence, plot_evaluations, plot_gradient_norm
from ._drawing import SQUARE, Drawing, drawn
from ._evaluation import plot_controls
from ._quality import CHANCE, MEASURES, Evaluation, cell, columns_of, name_of, number
from ._runs import FIGURES, RunFiles, as_run
from ._sources import Fitted
from ._style import DARK, LIGHT, evenly, natural, plain

_RUN = {
    "fun": "objective",
    "grad_norm": "gradient norm",
    "nit": "iterations",
    "nfev": "evaluations",
    "seconds": "seconds",
}
"""Further columns of a table of metrics, after the quality figures."""
_HISTORY = {**_RUN, "nit": "iteration", "time": "seconds", "nfev": "evaluations so far"}
_COUNTS = ("nit", "nfev", "njev", "nhev")
_ELSEWHERE = (
    "format",
    "state",
    "command",
    "about",
    "error",
    "traceback",
    "fingerprint",
    "choice",
    "chosen",
    "used",
    "resumed",
)
_POINTS = 1000  # of a line; more cannot be seen
_ROWS = 12  # of a history that is shown as a table
_CELLS = 24  # a table of more clusters or labels is drawn instead
_FIGURE_BYTES = 1_600_000  # of all figures of a page, which stays below 2 MB

_CURVES: tuple[tuple[str, tuple[str, ...], Callable[..., Any], str, str], ...] = (
    ("objective-iteration", (), plot_convergence, "nit", "The value that is minimized, after each iteration."),
    (
        "objective-time",
        ("time",),
        plot_convergence,
        "time",
        "The value that is minimized, against the seconds since the start.",
    ),
    (
        "gradient-norm",
        ("grad_norm",),
        plot_gradient_norm,
        "nit",
        "The norm of the gradient, which is zero at a stationary point; the axis is logarithmic.",
    ),
    (
        "evaluations",
        ("nfev",),
        plot_evaluations,
        "nit",
        "The number of evaluations of the objective until each iteration.",
    ),
)


Reported = RunFiles | Fitted | Result | Run


def render_html(runs: Sequence[Reported] | Mapping[str, Reported]) -> str:
    """Render a self-contained page about runs.

    The page of one run compares its figures with the figures of its controls, and shows clusters and labels, the plots
    of its estimator, and the convergence. The page of several runs has one table with the figures of all runs and their
    controls, one plot of their convergence, the parameters in which they differ, and then a section for each run.

    Parameters
    ----------
    runs : sequence of RunFiles, Fitted, Result or Run, or mapping of str to one of them
        Run directories that `read_run` has read, fitted estimators with their data, or results. A mapping gives names
        to them.

    Returns
    -------
    str
        An HTML document of at most 2 MB that opens offline, in a light or dark theme, on narrow and wide screens.

    Examples
    --------
    >>> import numpy as np
    >>> import manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    >>> page = ms.report.render_html([ms.minimize(problem, np.ones(2))])
    >>> "Gradient norm against iteration" in page
    True
    """
    with needing("reports need", "cli"):
        from jinja2 import Environment

    named = runs.items() if isinstance(runs, Mapping) else [(None, run) for run in runs]
    files = [_counted(as_run(run, name)) for name, run in named]
    if not files:
        raise ValueError("there are no runs: pass at least one")
    template = Path(__file__).with_name("template.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = number
    views = [_view(run, i, alone=len(files) == 1) for i, run in enumerate(files)]
    compared = _compared(files) if len(files) > 1 else None
    budget = _FIGURE_BYTES - sum(len(figure["svg"]) for figure in (compared or {}).get("figures", ()))
    _fit_into([figure for view in views for group in view["groups"] for figure in group["figures"]], budget)
    title = " · ".join(dict.fromkeys(_title(run) for run in files))
    return environment.from_string(template).render(
        title=title, runs=views, compared=compared, light=LIGHT, dark=DARK, folder=FIGURES
    )


def _counted(run: RunFiles) -> RunFiles:
    """Return a run whose integral counts are integers; mini-batches count fractions."""
    metrics = {name: int(n) if name in _COUNTS and n % 1 == 0 else n for name, n in run.metrics.items()}
    return replace(run, metrics=metrics)


def _title(run: RunFiles) -> str:
    what = run.run.get("estimator") or run.run.get("model") or run.name
    data = " + ".join(Path(name).name for name in str(run.run.get("data") or "").split(" + "))
    return f"{what} on {data}" if data else str(what)


def _view(run: RunFiles, place: int, *, alone: bool) -> dict[str, Any]:
    curves = _curves([run]) if alone else []  # those of several runs are overlaid
    table = _confusion(run.assignments)
    found = [*_clusters(run, drawn_labels=table is None), *run.drawings]
    groups = [
        {
            "heading": "Results of the fit",
            "figures": _embedded(found, place),
            "confusion": table,
            "members": _members(run),
        },
        {"heading": "Convergence", "figures": _embedded(curves, place), "history": _table(run.history)},
    ]
    return {
        "name": run.name,
        "title": _title(run),
        "run": run.run,
        "metrics": _metrics([run]) if alone else None,
        "controls": _embedded(_bars([run]), place) if alone else [],
        "verdict": _verdict(run.evaluation),
        "reasons": _reasons(run.evaluation),
        "groups": [group for group in groups if group["figures"] or group.get("confusion")],
        "details": _details(run),
    }


def _verdict(evaluation: Evaluation | None) -> str:
    """Return the verdict as a sentence, and the explanation of the mark of the best."""
    if evaluation is None:
        return ""
    said = f"{evaluation.verdict[:1].upper()}{evaluation.verdict[1:]}."
    return said + (f" ★: best {name_of(evaluation.measure)}." if evaluation.best else "")


def _reasons(evaluation: Evaluation | None) -> list[str]:
    """Return the reasons for missing figures, each as a sentence."""
    rows = () if evaluation is None else evaluation.rows
    return [f"{row['name']}: {row['why']}." for row in rows if "why" in row]


def _details(run: RunFiles) -> dict[str, Any]:
    own = run.run
    shown = {*_RUN, *MEASURES, *(run.evaluation.rows[0] if run.evaluation else ())}
    return {
        "Run": {name: own[name] for name in own if name not in _ELSEWHERE and isinstance(own[name], str | int | float)},
        "Parameters": _parameters(run, " (auto)"),
        "Made by": _made_by(run),
        "Further metrics": {name: number(value) for name, value in run.metrics.items() if name not in shown},
        "Versions": _mapping(own.get("versions")),
    }


def _made_by(run: RunFiles) -> dict[str, Any]:
    """Return the plugins of model, initializer, updates and solver of a run, and its plugin files with digests."""
    files = run.run.get("plugins")
    found = [one for one in files if isinstance(one, Mapping)] if isinstance(files, list) else []
    digests = {f"file {Path(str(one.get('file'))).name}": f"SHA-256 {str(one.get('sha256'))[:16]}…" for one in found}
    return {**_mapping(run.run.get("made_by")), **digests}


def _parameters(run: RunFiles, auto: str = "") -> dict[str, Any]:
    """Return the used settings of a run without duplicates; `auto` marks the settings that were chosen."""
    given, used = _mapping(run.run.get("parameters")), _mapping(run.run.get("used") or run.run.get("chosen"))
    shown: dict[str, Any] = {}
    for name, value in {**given, **{one: used[one] for one in used if "." not in one}}.items():
        _, dot, last = name.rpartition(".")
        if dot and name in used and used.get(last) == used[name]:
            continue  # the same as the parameter next to the object
        now = used.get(name, value)
        shown[name] = f"{now}{auto}" if auto and given.get(name) == "auto" != now else now
    return shown


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _metrics(runs: Sequence[RunFiles]) -> dict[str, Any] | None:
    """Return the table of metrics: one row for each run, then one row for each control."""
    rows = _rows(runs)
    names = columns_of([{name: row[name] for name in row if name not in _RUN} for row in rows])
    names += [name for name in _RUN if any(name in row for row in rows)]
    if not names:
        return None
    best: set[tuple[int, str]] = set()
    if len(runs) == 1 and (evaluation := runs[0].evaluation):
        best = {(i, evaluation.measure) for i in evaluation.best}
    elif len(runs) > 1 and _same_data(runs):
        for name in MEASURES.keys() - {"silhouette"}:  # which is in distances of each run's own
            most = max((row[name] for row in rows if name in row), default=None)
            best |= {(i, name) for i, row in enumerate(rows) if most is not None and row.get(name) == most}
    cells = [[(cell(row, name), (i, name) in best) for name in names] for i, row in enumerate(rows)]
    return {
        "header": [_RUN.get(name) or name_of(name) for name in names],
        "rows": [{"name": row["name"], "cells": cells[i], "control": i >= len(runs)} for i, row in enumerate(rows)],
        "starred": bool(best),
    }


def _rows(runs: Sequence[RunFiles]) -> list[Mapping[str, Any]]:
    """Return the results of runs and controls: one row for each run, and one for each different control."""
    rows: list[Mapping[str, Any]] = []
    controls: dict[str, dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]]] = {}
    for run in runs:
        known = {name: run.metrics[name] for name in (*MEASURES, *_RUN) if name in run.metrics}
        judged = run.evaluation.rows if run.evaluation else ({},)
        own = run.name if len(runs) > 1 else run.run.get("estimator") or run.run.get("model") or run.name
        rows.append({**known, **judged[0], "name": own})
        for row in judged[1:]:
            controls.setdefault(row["name"], {}).setdefault(tuple(row.items()), []).append((run.name, row))
    for name, variants in controls.items():
        if name == CHANCE and len(variants) > 1:
            continue  # of other clusters: what it says is the same
        for found in variants.values():
            of_whom = "" if len(variants) == 1 else f" ({', '.join(run for run, _ in found)})"
            rows.append({**found[0][1], "name": f"{name}{of_whom}"})
    return rows


def _same_data(runs: Sequence[RunFiles]) -> bool:
    return len({run.run.get("data") for run in runs}) == 1


def _bars(runs: Sequence[RunFiles]) -> list[Drawing]:
    """Draw the figure of runs and of their controls as bars, if they are compared by the same figure."""
    measures = {run.evaluation.measure if run.evaluation else "" for run in runs}
    rows, measure = _rows(runs), max(measures)
    if len(measures) > 1 or not _same_data(runs) or sum(measure in row for row in rows) < 2:
        return []
    evaluation = runs[0].evaluation
    more = "more" if evaluation is None or evaluation.greater_is_better else "less"
    caption = f"All values refer to the same data and splits; {more} is better."
    paint = partial(plot_controls, rows, measure, n_estimators=len(runs))
    return [drawn("controls", caption, paint, (5.0, 1.2 + 0.45 * len(rows)))]


def _compared(runs: Sequence[RunFiles]) -> dict[str, Any]:
    """Return the comparison of several runs: metrics, overlaid curves, differing parameters."""
    settings = [
        {
            "data": run.run.get("data"),
            "estimator": run.run.get("estimator"),
            **_parameters(run),
            **{f"{name} by": value for name, value in _made_by(run).items()},
        }
        for run in runs
    ]
    names = dict.fromkeys(name for given in settings for name in given)
    differ = {name: [str(given.get(name, "–")) for given in settings] for name in names}
    return {
        "metrics": _metrics(runs),
        "controls": _embedded(_bars(runs), "all"),
        "figures": _embedded(_curves(runs), "all"),
        "same": len({_title(run) for run in runs}) == 1,
        "names": [run.name for run in runs],
        "differ": {name: values for name, values in differ.items() if len(set(values)) > 1},
    }


def _curves(runs: Sequence[RunFiles]) -> list[Drawing]:
    """Draw the curves for which there are columns: one line, or one line for each run and a legend."""
    histories = [_thinned(run.history) for run in runs]
    drawings = []
    for name, needs, plot, against, caption in _CURVES:
        having = [i for i, history in enumerate(histories) if has_columns(history, *needs)]

        def paint(ax: Any, having: list[int] = having, plot: Any = plot, against: str = against) -> None:
            for i in having:
                label = plain(runs[i].name) if len(runs) > 1 else None
                plot(histories[i], ax, x=against, label=label, series=i)
            if len(runs) > 1:
                ax.legend()

        if having:
            drawings.append(drawn(name, caption, paint))
    return drawings


def _clusters(run: RunFiles, *, drawn_labels: bool) -> list[Drawing]:
    if not run.assignments:
        return []
    caption = "The number of members of each cluster."
    drawings = [drawn("cluster-sizes", caption, lambda ax: plot_cluster_sizes(run, ax), SQUARE)]
    if drawn_labels and _labelled(run.assignments):
        caption = "The shade is the fraction of the cluster that has the label."
        drawings.append(drawn("confusion", caption, lambda ax: plot_confusion(run, ax)))
    return drawings


def _members(run: RunFiles) -> list[tuple[str, list[str]]]:
    """Return each cluster with the names of its members."""
    if len(run.members) != len(run.assignments):
        return []
    clusters: dict[str, list[str]] = {}
    for name, (_, cluster) in zip(run.members, run.assignments, strict=True):
        clusters.setdefault(cluster, []).append(name)
    return [(cluster, clusters[cluster]) for cluster in natural(clusters)]


def _labelled(assignments: Sequence[tuple[str | None, str]]) -> bool:
    return bool(assignments) and all(label is not None for label, _ in assignments)


def _thinned(history: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    rows = evenly(len(history.get("fun", ())), _POINTS)
    return {name: np.asarray(values, dtype=float)[rows] for name, values in history.items()}


def _table(history: Mapping[str, Sequence[float]]) -> dict[str, Any] | None:
    """Return a few records of a history without constant columns."""
    rows = evenly(len(history.get("fun", ())), _ROWS)
    arrays = {name: np.asarray(column, dtype=float) for name, column in history.items()}
    names = [name for name, column in arrays.items() if len(np.unique(column[np.isfinite(column)])) > 1]
    if len(rows) < 2 or not names:
        return None
    columns = [_numbers(arrays[name][rows]) for name in names]
    header = [_HISTORY.get(name, name.replace("_", " ")) for name in names]
    return {"header": header, "rows": list(zip(*columns, strict=True))}


def _numbers(column: np.ndarray) -> list[Any]:
    return (column.astype(int) if (column % 1 == 0).all() else column).tolist()


def _embedded(drawings: Sequence[Drawing], place: Any) -> list[dict[str, Any]]:
    return [
        {"title": one.title, "caption": one.caption, "svg": one.inline(f"r{place}-{one.name}-"), "name": one.name}
        for one in drawings
    ]


def _fit_into(figures: list[dict[str, Any]], budget: int) -> None:
    """Remove the largest figures from a page that would become too large."""
    for figure in sorted(figures, key=lambda figure: -len(figure["svg"])):
        if sum(len(one["svg"]) for one in figures) <= budget:
            return
        figure["svg"] = ""


def _confusion(assignments: Sequence[tuple[str | None, str]]) -> dict[str, Any] | None:
    """Return the table of clusters and labels, or None if there is none or it has too many cells to read."""
    if not _labelled(assignments):
        return None
    labels, clusters, counts = contingency(*(np.array([pair[i] for pair in assignments]) for i in (0, 1)))
    if max(counts.shape) > _CELLS:
        return None
    rows = [
        {"cluster": cluster, "size": int(row.sum()), "cells": [(int(n), float(n / row.sum())) for n in row]}
        for cluster, row in zip(clusters, counts, strict=True)
    ]
    return {"labels": labels, "rows": rows, "upright": max(map(len, labels)) > 3}
