"""Records of choices: the rule of one standard error, tables and the plot."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from manifoldseq.models import Choice, Step, as_good, preferred


def test_one_standard_error_is_that_of_paired_differences() -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(50)
    assert not as_good(shared, shared + 0.1)  # always worse by the same amount, though both vary much
    assert as_good(shared, shared + rng.standard_normal(50) * 10 / np.sqrt(50) - 0.2)
    assert not as_good(np.full(50, -np.inf), shared)  # a setting that failed


def test_the_rule_prefers_more_clusters_within_one_error() -> None:
    """Means of 2, 3 and 4 clusters with two other settings each; differences have a standard error of 0.05 or 0.01."""
    means, clusters = [0.90, 0.80, 0.86, 0.88, 0.50, 0.60], [2, 2, 3, 3, 4, 4]
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((6, 12))
    noise[0] = 0
    noise -= noise.mean(axis=1, keepdims=True)
    noise[1:] /= noise[1:].std(axis=1, ddof=1, keepdims=True) / np.sqrt(12)
    for error, expected in ((0.05, 3), (0.01, 0)):
        assert preferred([mean + error * one for mean, one in zip(means, noise, strict=True)], clusters) == expected


def test_the_best_is_chosen_where_nothing_is_as_good() -> None:
    assert preferred([np.array([-np.inf, -1.0]), np.array([-np.inf, -np.inf])], [1, 2]) == 0


def test_the_plot_shows_every_setting_and_rings_the_chosen_one() -> None:
    params = [{"n_clusters": k, "center": c} for k in (2, 3, 4) for c in (True, False)]
    stability = np.array([0.5, 0.4, 0.9, 0.3, 0.2, 0.1])
    ax = Choice([Step("agreement", "of halves", params, stability, [2], np.full(6, 0.05))], params[2]).plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("n_clusters", "of halves")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"center=True", "center=False", "chosen"} <= set(labels)
    (ring,) = [line for line in ax.lines if line.get_label() == "chosen"]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (3, 0.9)
    with_mean = next(box for box in ax.containers if box.get_label() == "center=True").lines[0]
    np.testing.assert_array_equal(with_mean.get_xydata(), [[2, 0.5], [3, 0.9], [4, 0.2]])
    plt.close(ax.figure)


@pytest.mark.parametrize("names", [["short", "other"], ["a kernel with a name of many letters", None]])
def test_settings_that_are_no_numbers_are_names_along_the_axis(names: list[str | None]) -> None:
    ax = Step("accuracy", "", [{"kernel": name} for name in names], np.array([0.5, 0.75]), [1]).plot()
    ax.figure.canvas.draw()
    shown = {label.get_text() for label in ax.get_xticklabels()}
    assert len(shown) == 2 and max(map(len, shown)) <= 24
    plt.close(ax.figure)


def test_many_combinations_are_shown_in_the_order_of_the_table() -> None:
    params = [{"a": a, "b": b, "c": c} for a in range(9) for b in range(5) for c in "xy"]
    figure = np.random.default_rng(0).standard_normal(90)
    ax = Step("loss", "", params, figure, [4]).plot()
    lines = {box.get_label(): box.lines[0] for box in ax.containers}
    assert ax.get_xlabel() == "row of the table" and set(lines) == {"c='x'", "c='y'"}
    np.testing.assert_array_equal(lines["c='y'"].get_xydata(), np.column_stack([np.arange(2, 91, 2), figure[1::2]]))
    plt.close(ax.figure)


def test_figures_have_their_standard_errors() -> None:
    step = Step("loss", "", [{"C": 1}, {"C": 2}], np.array([0.5, 0.25]), [1], np.array([0.01, 0.12345]))
    expected = ["  loss             settings", "  0.5000 ± 0.0100  C=1", "> 0.2500 ± 0.1235  C=2"]
    assert str(Choice([step], {"C": 2}, ["a note"])).splitlines() == [*expected, "chosen: C=2", "a note"]


def test_long_tables_are_cut_but_show_what_was_chosen() -> None:
    step = Step("loss", "", [{"C": c} for c in range(20)], np.arange(20.0), [15])
    lines = step.lines()
    assert len(lines) == 14 and "the first 12 of 20" in lines[0] and lines[-1].startswith(">") and "C=15" in lines[-1]
