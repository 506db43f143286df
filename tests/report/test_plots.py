"""Every general figure: drawn from each kind of result, with labelled axes and the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report.samples import oscillations
from sklearn.metrics.cluster import contingency_matrix

import manifoldseq as ms
from manifoldseq.report import (
    Fitted,
    RunFiles,
    clustering_measures,
    plot_cluster_sizes,
    plot_confusion,
    plot_convergence,
    plot_evaluations,
    plot_gradient_norm,
    plot_kernel_matrix,
)

matplotlib.use("Agg")
HISTORY = {"fun": [3.0, 2.0, 1.5], "time": [0.0, 0.5, 2.0], "grad_norm": [4.0, 0.0, 0.1], "nfev": [1, 3, 4]}
LABELS = ["b", "a", "b", "a", "a", "c"]
CLUSTERS = [10, 2, 10, 2, 2, 2]
PLOTS: list[tuple[Callable[..., Axes], Any]] = [
    (plot_convergence, HISTORY),
    (plot_gradient_norm, HISTORY),
    (plot_evaluations, HISTORY),
    (plot_cluster_sizes, CLUSTERS),
    (plot_confusion, (LABELS, CLUSTERS)),
    (plot_kernel_matrix, np.eye(4)),
]


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


@pytest.fixture
def ax() -> Axes:
    """Return empty axes."""
    return plt.subplots()[1]


@pytest.mark.parametrize(("plot", "result"), PLOTS, ids=lambda value: getattr(value, "__name__", ""))
def test_plots_draw_into_given_or_new_axes_and_label_them(plot: Callable[..., Axes], result: Any, ax: Axes) -> None:
    assert plot(result, ax) is ax
    made = plot(result)
    assert made is not ax
    assert made.get_title() and made.get_xlabel() and made.get_ylabel()


@pytest.mark.parametrize("against", ["nit", "time", "nfev"])
def test_convergence_draws_the_columns(ax: Axes, against: str) -> None:
    (line,) = plot_convergence(HISTORY, ax, x=against).get_lines()
    assert line.get_ydata().tolist() == HISTORY["fun"]  # type: ignore[union-attr]
    assert line.get_xdata().tolist() == (HISTORY | {"nit": [0, 1, 2]})[against]  # type: ignore[union-attr]
    assert ax.get_xlabel() == {"nit": "iteration", "time": "time (s)", "nfev": "evaluations"}[against]


def test_convergence_of_every_kind_of_result() -> None:
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    result = ms.minimize(problem, np.ones(2))
    run = ms.Run(None, result.status, ms.Measures(0.0), result.nit, 0.0, result.history)
    fitted = oscillations()
    sources: list[tuple[Any, Any]] = [
        (result, result.history),
        (run, result.history),
        (fitted, fitted.history),
        (fitted.estimator, fitted.history),
        (RunFiles("r", {}, history={"fun": [2.0, 1.0]}), {"fun": [2.0, 1.0]}),
    ]
    for source, history in sources:
        (line,) = plot_convergence(source).get_lines()
        assert np.array_equal(line.get_ydata(), history["fun"])


def test_several_runs_by_name_share_the_axes_and_get_a_legend(ax: Axes) -> None:
    other = {"fun": [3.0, 1.0], "time": [0.0, 0.1], "feasibility": [0.5, 0.0], "grad_norm": [1.0, 0.1], "nfev": [1, 2]}
    runs = {"$one": HISTORY, "two": other}
    lines = plot_convergence(runs, ax, x="time", y="gap").get_lines()
    np.testing.assert_array_equal(lines[0].get_ydata(), [2.0, 1.0, 0.5])
    np.testing.assert_array_equal(lines[1].get_ydata(), [2.0, np.nan])
    assert ax.get_yscale() == "log" and ax.get_title() == "Objective minus its lowest value against time"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [r"\$one", "two"]
    assert len({line.get_color() for line in lines}) == 2
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    results = {name: ms.minimize(problem, np.ones(2), solver=name) for name in ("lbfgs", "pgd")}
    for y in ("fun", "grad_norm", "nfev"):
        first, second = plot_convergence(results, x="nfev", y=y).get_lines()
        np.testing.assert_array_equal(first.get_xdata(), results["lbfgs"].history["nfev"])
        values = results["pgd"].history[y]
        shown = np.where(values > 0, values, np.nan) if y == "grad_norm" else values  # on a logarithmic axis
        np.testing.assert_array_equal(second.get_ydata(), shown)
    with pytest.raises(ValueError, match="no column 'feasibility'"):
        plot_convergence(runs, y="feasibility")


def test_gradient_norm_is_logarithmic_and_leaves_zeros_out(ax: Axes) -> None:
    (line,) = plot_gradient_norm(HISTORY, ax).get_lines()
    assert ax.get_yscale() == "log"
    assert np.array_equal(line.get_ydata(), [4.0, np.nan, 0.1], equal_nan=True)


def test_overlaid_evaluations_keep_all_lines_in_view(ax: Axes) -> None:
    plot_evaluations(HISTORY, ax, label="one")
    plot_evaluations({"fun": [1.0, 0.0], "nfev": [5, 50]}, ax, label="two", series=1)
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] >= 50
    first, second = ax.get_lines()
    assert first.get_color() != second.get_color() and first.get_linestyle() != second.get_linestyle()


def test_evaluations_name_what_differs(ax: Axes) -> None:
    plot_evaluations(HISTORY | {"njev": [1, 3, 4], "nhev": [0, 2, 7]}, ax)
    assert [line.get_label() for line in ax.get_lines()] == ["objective", "Hessian products"]


def test_history_that_lacks_something_raises_an_error() -> None:
    with pytest.raises(ValueError, match="no column 'fun': it has cost"):
        plot_convergence({"cost": [1.0]})
    with pytest.raises(ValueError, match="no column 'grad_norm'"):
        plot_gradient_norm({"fun": [1.0]})
    with pytest.raises(ValueError, match="object has no history"):
        plot_convergence(object())


def test_cluster_sizes_are_in_natural_order(ax: Axes) -> None:
    plot_cluster_sizes(CLUSTERS, ax)
    assert [bar.get_height() for bar in ax.patches] == [4, 2]  # type: ignore[attr-defined]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "10"]


def test_confusion_has_the_counts_of_scikit_learn(ax: Axes) -> None:
    plot_confusion((LABELS, CLUSTERS), ax)
    rows, columns = ([text.get_text() for text in axis.get_ticklabels()] for axis in (ax.yaxis, ax.xaxis))
    assert (rows, columns) == (["2", "10"], ["a", "b", "c"])
    counts = contingency_matrix(LABELS, CLUSTERS).T
    assert np.allclose(ax.images[0].get_array(), counts / counts.sum(axis=1, keepdims=True))  # type: ignore[arg-type]
    assert sorted(text.get_text() for text in ax.texts) == ["1", "2", "3"]


def test_confusion_needs_labels() -> None:
    with pytest.raises(ValueError, match="no labels"):
        plot_confusion(CLUSTERS)
    with pytest.raises(ValueError, match=r"labels have shape \(1,\)"):
        plot_confusion((["a"], CLUSTERS))
    with pytest.raises(ValueError, match="has no clusters"):
        plot_cluster_sizes(Fitted(object(), []))


def test_kernel_matrix_is_sorted_by_cluster(ax: Axes) -> None:
    K = np.arange(16.0).reshape(4, 4)
    plot_kernel_matrix(K, ax, clusters=[10, 2, 10, 2], label="likeness")
    order = [1, 3, 0, 2]
    assert np.array_equal(ax.images[0].get_array(), K[np.ix_(order, order)])  # type: ignore[arg-type]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "10"]
    assert ax.get_xticks().tolist() == [0.5, 2.5]


def test_large_kernel_matrix_is_thinned(ax: Axes) -> None:
    plot_kernel_matrix(np.eye(1000), ax, clusters=np.arange(1000) % 3)
    assert ax.images[0].get_array().shape == (256, 256)  # type: ignore[union-attr]


def test_kernel_matrix_rejects_wrong_shapes() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\): pass a square matrix"):
        plot_kernel_matrix(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"clusters have shape \(1,\) for 2 rows"):
        plot_kernel_matrix(np.eye(2), clusters=[0])


def test_clustering_measures_by_hand() -> None:
    measures = clustering_measures(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 1])
    assert measures["purity"] == pytest.approx((2 + 2) / 6)
    assert clustering_measures(["a", "b"], [5, 3]) == {"purity": 1.0, "nmi": 1.0, "ari": 1.0}


@pytest.mark.parametrize("decades", [1e-3, 0.05, 0.3, 0.7, 1.0, 1.6, 2.5, 7.0, 20.0])
@pytest.mark.parametrize("low", [3e-9, 0.0021, 0.9, 11.0, 4e5])
def test_logarithmic_axes_have_two_labels_or_more(low: float, decades: float) -> None:
    ax = ms.report.prepared_axes(Figure(figsize=(2.4, 2.0)).subplots())
    ax.plot([low, low * 10**decades], [low, low * 10**decades])
    for axis, view in ((ax.xaxis, ax.get_xlim), (ax.yaxis, ax.get_ylim)):
        ms.report.log_scale(axis)
        first, last = view()
        ticks = axis.get_majorticklocs().tolist()
        labels = axis.get_major_formatter().format_ticks(ticks)
        assert 2 <= len(labels) <= 9 and len(set(labels)) == len(labels)
        for tick, label in zip(ticks, labels, strict=True):
            assert first <= tick <= last
            number = label.strip("$").replace(r" \times ", "*").replace("10^{", "1e").rstrip("}")
            factor, _, power = number.rpartition("*")
            assert float(factor or 1) * float(power) == pytest.approx(tick, rel=1e-5)
