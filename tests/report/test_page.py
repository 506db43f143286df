"""The page: self-contained, accessible, and right about its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from report.samples import Outline, assert_self_contained, oscillations

import manifoldseq as ms
from manifoldseq.evaluation import Evaluation
from manifoldseq.report import (
    Fitted,
    RunFiles,
    draw_plots,
    plot_cluster_sizes,
    plot_controls,
    read_run,
    render_html,
    save_drawings,
)


def flat(page: str) -> str:
    """Return a page with every run of white space as one blank."""
    return re.sub(r"\s+", " ", page)


def quadratic(n: int = 2, **options: object) -> ms.Result:
    """Return the result of a small minimization."""
    weights = np.arange(1.0, n + 1)
    objective = ms.objective(lambda x: float(x @ (weights * x)), lambda x: 2 * weights * x)
    return ms.minimize(ms.Problem(ms.manifolds.Euclidean(n), objective), np.ones(n), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def one() -> str:
    """Return the page of one clustering."""
    return render_html([oscillations()])


@pytest.fixture(scope="module")
def two() -> str:
    """Return the page of two clusterings of the same data."""
    return render_html([oscillations(), oscillations(2)])


def test_pages_are_self_contained(one: str, two: str) -> None:
    for page in (one, two, render_html([quadratic()])):
        assert_self_contained(page)
        assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
        assert "default-src 'none'" in page
        assert "#010203" not in page and "currentColor" in page


def test_everything_has_a_text(one: str, two: str) -> None:
    for page in (one, two):
        outline = Outline(page)
        pictures = [attributes for tag, attributes in outline.elements if tag == "svg"]
        assert pictures and all(one["role"] == "img" and len(one["aria-label"]) > 40 for one in pictures)
        tables = page.count("<table")
        assert tables and page.count("<caption>") == tables
        assert all(attributes["scope"] in ("row", "col") for tag, attributes in outline.elements if tag == "th")
        levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


def test_names_are_escaped_and_no_mathematics(one: str) -> None:
    assert "<b>" not in one and "slow &lt;b&gt;" in one
    assert "costs $5 to $6" in one and "y ($)" in one and "z$" in one


def test_figures_of_a_clustering(one: str) -> None:
    headings = [unescape(text) for text in re.findall(r"<h4>(.*?)</h4>", one)]
    assert headings[:4] == ["Cluster sizes", "Clusters and labels", "Kernel matrix", "Spectra of the centres"]
    assert all(re.fullmatch(r"Reconstruction of sequence \d+, error \d\.\d\d", text) for text in headings[4:6])
    assert headings[6:9] == ["Objective against iteration", "Objective against time", "Evaluations against iteration"]
    assert headings[9:] == ["Run", "Parameters"]
    assert "Heights: 8, 8, 8." in one


def test_metrics_and_confusion_of_a_clustering(one: str) -> None:
    page = flat(one)
    assert "<h1>LDSKMeans on oscillations</h1>" in page
    assert '<th scope="row">LDSKMeans</th><td>1.000</td><td>1.000</td><td>1.000</td>' in page
    assert page.count('style="--share:0.50">8</td>') == 3
    assert page.count('<td class="size">8</td>') == 3


def test_a_setting_is_shown_once_as_it_was_used() -> None:
    """``identifier.n_states`` is what ``n_states`` says, and "auto" is what it became."""
    given = {"n_states": 3, "identifier.n_states": "auto", "identifier.delay": "auto", "solver": "auto", "size": "auto"}
    used = {"n_states": 3, "identifier.n_states": 3, "identifier.delay": 2, "size": 7}
    page = flat(render_html([RunFiles("run", {"state": "done", "parameters": given, "used": used})]))
    for shown in (
        "<dt>n_states</dt><dd>3</dd>",
        "<dt>identifier.delay</dt><dd>2 (auto)</dd>",
        "<dt>solver</dt><dd>auto</dd>",
        "<dt>size</dt><dd>7 (auto)</dd>",
    ):
        assert shown in page
    assert "identifier.n_states" not in page


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:linear dynamical systems forecast:UserWarning", "ignore:6 sequences are too few:UserWarning"
)
def test_settings_that_were_left_open_are_shown_and_compared_as_used() -> None:
    sequences = [np.random.default_rng(i).standard_normal((20, 2)) for i in range(6)]
    kmeans, identifier = ms.get_estimator("lds-kmeans"), ms.get_estimator("lds-identifier")(2)
    settings: list[dict[str, Any]] = [{}, {"n_states": 1}, {"identifier": identifier}, {"n_states": 2}]
    fits = [
        Fitted(kmeans(2, n_init=1, max_iter=2, random_state=0, **one).fit(sequences), sequences) for one in settings
    ]
    found = [re.findall("<dt>n_states</dt><dd>(.*?)</dd>", flat(render_html([one]))) for one in fits]
    assert found == [["1 (auto)"], ["1"], ["2 (auto)"], ["2"]]
    assert "n_states</th>" not in render_html({"a": fits[0], "b": fits[1]})
    assert '<th scope="row">n_states</th><td>1</td><td>2</td>' in flat(render_html({"a": fits[0], "b": fits[3]}))


@pytest.mark.slow
def test_members_are_listed_by_name_with_their_cluster() -> None:
    pairs: list[tuple[str | None, str]] = [(None, "10"), (None, "2"), (None, "10")]
    run = RunFiles("run", {"state": "done"}, assignments=pairs, members=["walk <1>", "walk 2", "walk 3"])
    page = flat(render_html([run]))
    assert "<dt>cluster 2 (1)</dt><dd>walk 2</dd> <dt>cluster 10 (2)</dt><dd>walk &lt;1&gt;, walk 3</dd>" in page
    assert "The members of each cluster" in render_html([oscillations()])
    assert "The members of each cluster" not in render_html([replace(run, members=[])])


def test_unlabelled_clusters_have_sizes_only() -> None:
    fitted = oscillations()
    page = render_html([Fitted(fitted.estimator, fitted.X)])
    assert "Cluster sizes" in page and "Clusters and labels" not in page and "purity" not in page


def test_result_of_a_minimization() -> None:
    result = quadratic()
    page = flat(render_html({"my problem": result}))
    assert "<h1>my problem</h1>" in page and result.message in page
    assert "Gradient norm against iteration" in page and "Objective against time" in page
    assert f"<td>{result.nit}</td><td>{result.nfev:g}</td>" in page


def test_several_runs_side_by_side(two: str) -> None:
    page = flat(two)
    assert "2 runs side by side" in page
    assert "<h2>3 clusters</h2>" in page and "<h2>2 clusters</h2>" in page
    assert page.count("Objective against iteration</h3>") == 1  # overlaid
    assert "3 clusters: from" in page and "2 clusters: from" in page
    assert '<th scope="row">n_clusters</th><td>3</td><td>2</td>' in page
    assert '<th scope="row">n_states</th>' not in page
    assert '<th scope="row">3 clusters</th><td class="best">1.000</td>' in page
    assert "★ best value, including the controls" in page


def test_runs_on_different_data_have_no_best() -> None:
    rows = [RunFiles(name, {"state": "done", "data": name, "estimator": "e"}, {"purity": 0.5}) for name in "ab"]
    page = render_html(rows)
    assert 'class="best"' not in page and "★ best" not in page


ROWS = [
    {"name": "mine", "ari": 0.5, "own_figure": 2.0},
    {"name": "theirs", "ari": 0.75},
    {"name": "broken", "why": "no <luck>"},
]


def test_controls_stand_below_their_run_and_the_best_is_marked() -> None:
    judged = Evaluation("clusters", "ari", ROWS, "theirs is better")
    run = RunFiles("r", {"estimator": "mine"}, {"ari": 0.5, "own": 3}, evaluation=judged)
    page = flat(render_html([run]))
    assert '<th scope="col">ARI</th><th scope="col">own figure</th>' in page
    assert '<tr><th scope="row">mine</th><td>0.500</td><td>2.000</td></tr>' in page
    assert '<tr class="control"><th scope="row">theirs</th><td class="best">0.750</td><td>–</td></tr>' in page
    assert '<tr class="control"><th scope="row">broken</th><td>–</td><td>–</td></tr>' in page
    assert "Theirs is better. ★: best ARI.</p>" in page and "broken: no &lt;luck&gt;.</p>" in page
    assert "<dt>own</dt><dd>3</dd>" in page and page.count("Comparison with simple controls</h3>") == 1


def test_less_of_an_error_is_better() -> None:
    rows = [{"name": "mine", "error": 0.5}, {"name": "theirs", "error": 0.75}]
    judged = Evaluation("forecasts", "error", rows, "mine is better", greater_is_better=False)
    page = flat(render_html([RunFiles("r", {"estimator": "mine"}, evaluation=judged)]))
    assert '<th scope="row">mine</th><td class="best">0.500</td>' in page and "less is better" in page


def test_several_runs_show_their_controls_once_where_these_are_equal() -> None:
    runs = []
    for name, ari, other in (("one", 0.5, 0.75), ("two", 0.625, 0.75)):
        rows = [{"name": "mine", "ari": ari}, {"name": "theirs", "ari": other}, {"name": "pca", "ari": ari / 2}]
        judged = Evaluation("clusters", "ari", [*rows, {"name": "chance", "ari": ari / 100}], "a verdict")
        runs.append(RunFiles(name, {"estimator": "mine", "data": "d"}, {"ari": ari}, evaluation=judged))
    page = flat(render_html(runs))
    names = re.findall(r'<th scope="row">(.*?)</th><td', page.partition("<h3>Differences</h3>")[0])
    assert names == ["one", "two", "theirs", "pca (one)", "pca (two)"]
    assert '<th scope="row">theirs</th><td class="best">0.750</td>' in page
    assert page.count("Comparison with simple controls</h3>") == 1 and page.count("A verdict.") == 2


def test_bars_stand_in_the_order_of_the_rows() -> None:
    figure, ax = plt.subplots()
    plot_controls(ROWS, "ari", ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["mine", "theirs", "broken"]
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.75] and ax.yaxis_inverted()
    assert "no value" in [text.get_text().strip() for text in ax.texts]
    plt.close(figure)


def test_bars_of_cluster_sizes_stand_in_the_order_of_the_table() -> None:
    labels, clusters = np.array(list("aabbbbcc")), np.array([2, 2, 0, 0, 0, 0, 1, 1])
    run = RunFiles("r", {}, assignments=list(zip(labels.tolist(), map(str, clusters), strict=True)))
    page = flat(render_html([run]))
    table = re.findall(r'<th scope="row">(\d)</th>', page)
    figure, ax = plt.subplots()
    bars = [text.get_text() for text in plot_cluster_sizes(run, ax).get_xticklabels()]
    assert table == bars == ["2", "0", "1"] and [bar.get_height() for bar in ax.patches] == [2, 4, 2]
    plt.close(figure)


def test_counts_are_whole_numbers_unless_they_are_shares() -> None:
    run = RunFiles("r", {"model": "m"}, {"fun": 2.0, "nfev": 60.0, "njev": 7.0, "nhev": 0.5})
    page = flat(render_html([run]))
    assert '<th scope="row">m</th><td>2.000</td><td>60</td>' in page
    assert "<dt>njev</dt><dd>7</dd>" in page and "<dt>nhev</dt><dd>0.500</dd>" in page


@pytest.mark.slow
def test_run_directory_gives_the_page_of_the_run_in_memory(tmp_path: Path, one: str) -> None:
    fitted = oscillations()
    (tmp_path / "run.json").write_text(json.dumps({"state": "done", "estimator": "LDSKMeans", "data": "oscillations"}))
    columns = {name: np.asarray(column).tolist() for name, column in fitted.history.items()}
    rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    (tmp_path / "history.csv").write_text(f"{','.join(columns)}\n{rows}\n")
    pairs = zip(fitted.labels, fitted.clusters, strict=True)  # type: ignore[arg-type]
    (tmp_path / "assignments.csv").write_text("label,cluster\n" + "\n".join(f"{a},{b}" for a, b in pairs))
    drawings = draw_plots(fitted)
    save_drawings(tmp_path, drawings)
    assert [file.name for file in sorted((tmp_path / "figures").iterdir())] == [
        "01-lds-kernel-matrix.svg",
        "02-lds-spectra.svg",
        "03-lds-reconstruction.svg",
        "04-lds-worst-reconstruction.svg",
    ]
    run = read_run(tmp_path)
    assert [(each.title, each.caption, each.description, each.svg) for each in run.drawings] == [
        (each.title, each.caption, each.description, each.svg) for each in drawings
    ]
    assert run.history["fun"] == columns["fun"]
    page = render_html([run])
    assert_self_contained(page)
    assert re.findall(r"<h4>(.*?)</h4>", page)[:9] == re.findall(r"<h4>(.*?)</h4>", one)[:9]
    save_drawings(tmp_path, drawings[:1])
    assert len(list((tmp_path / "figures").iterdir())) == 1


def test_no_figures_make_no_folder(tmp_path: Path) -> None:
    save_drawings(tmp_path, [])
    assert not list(tmp_path.iterdir())


def test_unfinished_run_says_so() -> None:
    page = render_html([RunFiles("r", {"state": "failed", "error": "RuntimeError: a bug"})])
    assert "This run is failed. RuntimeError: a bug" in page
    Outline(page)


@pytest.mark.slow
def test_large_runs_stay_small() -> None:
    rng = np.random.default_rng(0)
    history = {"fun": rng.standard_normal(100_000).tolist(), "time": np.arange(100_000.0).tolist()}
    assignments = [(f"label {i}", str(k)) for i, k in rng.integers(0, 150, (5000, 2))]
    drawings = draw_plots(oscillations()) * 40
    run = RunFiles("large", {"state": "done"}, {}, history, assignments, drawings)
    page = render_html([run, run])
    assert len(page.encode()) <= 2_000_000
    assert "left out to keep the page small" in page
    assert "The shade is the fraction of the cluster that has the label." in page  # drawn, not a table


JUDGED = json.dumps(
    {"winner": "a", "task": "t", "measure": "ari", "verdict": "so"}
    | {"rows": [{"name": "a", "ari": 0.5}, {"name": "b", "ari": 0.25}]}
)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("run.json", "[]", "is not a run directory"),
        ("metrics.json", "{", "cannot be shown"),
        ("metrics.json", '{"ari": "0.5"}', "cannot be shown: its metrics.json is not a mapping of names to numbers"),
        ("evaluation.json", "[]", "cannot be shown: its evaluation.json is not valid"),
        ("evaluation.json", JUDGED.replace('"a"', "null", 1), "its evaluation.json is not valid: .*winner=None"),
        ("evaluation.json", JUDGED.replace('"so"', "null"), "its evaluation.json is not valid: .*verdict=None"),
        ("evaluation.json", JUDGED.replace("0.5", '"0.5"'), "its evaluation.json is not valid: row 'a' .*ari='0.5'"),
        ("evaluation.json", JUDGED.replace("0.5", "NaN"), "its evaluation.json is not valid: row 'a' .*ari=nan"),
        ("evaluation.json", JUDGED.replace("winner", "other"), "its evaluation.json is not valid: .* has no winner"),
        ("history.csv", "fun,nit\n1\n", "cannot be shown"),
        ("history.csv", "fun\nx\n", "cannot be shown"),
        ("figures/1-a.svg", "<html/>", "cannot be shown: the figure '1-a' has an element 'html'"),
    ],
)
def test_broken_run_directory_raises_an_error(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / "run.json").write_text('{"state": "done"}')
    (tmp_path / "figures").mkdir()
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_run(tmp_path)


def test_what_cannot_be_reported_raises_an_error() -> None:
    with pytest.raises(ValueError, match="no runs"):
        render_html([])
    with pytest.raises(ValueError, match="int cannot be reported"):
        render_html([3])  # type: ignore[list-item]


@pytest.mark.slow
def test_page_says_who_made_a_fit_and_where_runs_differ() -> None:
    given = {"model": "hope:hope.vmf 0.1.0", "update em": "hope:hope.vmf 0.1.0", "solver": "manifoldseq:em 0.1.0"}
    files = [{"file": "/somewhere/mine.py", "sha256": "0123456789abcdef" * 4, "plugin": "mine", "objects": []}]
    first = RunFiles("a", {"state": "done", "estimator": "vmf-mixture", "data": "rows", "made_by": given})
    other = {**first.run, "made_by": {**given, "model": "session:hope.vmf 5a580e8b"}, "plugins": files}
    page = flat(render_html([replace(first, run=other)]))
    table = page[page.index("<h4>Made by</h4>") :]
    for name, value in {**other["made_by"], "file mine.py": "SHA-256 0123456789abcdef"}.items():
        assert re.search(rf"<dt>{re.escape(name)}</dt>\s*<dd>{re.escape(value)}", table), name
    assert "Made by" not in render_html([quadratic()])
    both = flat(render_html([first, replace(first, name="b", run=other)]))
    assert re.search(r"model by</th>\s*<td>hope:hope.vmf 0.1.0</td>\s*<td>session:hope.vmf 5a580e8b</td>", both)
    assert "solver by" not in both, "what is the same is not in the table of differences"


@pytest.mark.slow
def test_fitted_estimator_in_memory_says_who_made_it() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    fitted = ms.get_estimator("vmf-mixture")(2, random_state=0).fit(X)
    page = render_html([Fitted(fitted, X)])
    assert all(f"<dd>{value}</dd>" in page for value in fitted.provenance_.values())


def test_damaged_entries_about_plugins_are_left_out() -> None:
    for plugins in ("text", [3], {"file": 1}, None):
        render_html([RunFiles("a", {"state": "done", "made_by": [1], "plugins": plugins})])
