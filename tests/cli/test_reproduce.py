"""``manifoldseq reproduce``: measured figures next to those of a paper."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import manifoldseq as ms

Run = Callable[..., tuple[int, str, str]]


def table(*, n_runs: int = 2, data: Path | None = None, resume: bool = False) -> list[dict[str, Any]]:
    """Return two rows."""
    if n_runs < 1:
        raise ValueError("n_runs=0 is not valid: pass at least 1")
    row = {"model": "LDS", "setting": f"n={n_runs}", "metric": "error", "unit": "%"}
    return [{**row, "ours": 12.5, "ours_se": 0.25, "paper": 12.0}, {**row, "metric": str(data), "ours": float(resume)}]


@pytest.fixture
def registered(run: Run) -> Run:
    """Return the command line with a reproduction."""
    quick = {"n_runs": 1}
    ms.register(
        ms.hooks.ReproductionSpec("table-1", table, paper="Author 2016, Table 1", quick=quick, summary="Errors")
    )
    ms.register(ms.hooks.ReproductionSpec("figure-2", lambda: [], summary="Takes nothing"))
    return run


def test_table(registered: Run) -> None:
    status, out, err = registered("reproduce", "table-1", "--set", "n_runs=3")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Author 2016, Table 1"
    assert lines[1].split() == ["model", "setting", "metric", "ours", "±", "paper"]
    assert lines[2].split() == ["LDS", "n=3", "error", "(%)", "12.5", "0.25", "12"]
    assert lines[3].split()[-3:] == ["0", "–", "–"]


def test_json_has_the_fixed_keys(registered: Run, tmp_path: Path) -> None:
    status, out, _ = registered("reproduce", "table-1", "--data", tmp_path, "--resume", "--json")
    found = json.loads(out)
    assert status == 0 and set(found) == {"name", "rows", "command", "figures", "folder"} and found["name"] == "table-1"
    assert all(set(row) == {"model", "setting", "metric", "unit", "ours", "ours_se", "paper"} for row in found["rows"])
    assert found["rows"][1]["metric"] == str(tmp_path) and found["rows"][1]["ours"] == 1.0
    assert found["command"] == f"manifoldseq reproduce table-1 --data={tmp_path}"


def test_quick_settings_apply_unless_set(registered: Run) -> None:
    assert "n=1" in registered("reproduce", "table-1", "--quick")[1]
    _, out, _ = registered("reproduce", "table-1", "--quick", "--set", "n_runs=4", "--json")
    assert json.loads(out)["rows"][0]["setting"] == "n=4"
    assert json.loads(out)["command"] == "manifoldseq reproduce table-1 --quick --set=n_runs=4"


def test_papers_are_listed(registered: Run) -> None:
    assert "table-1" in registered("list", "reproductions")[1]
    assert registered("list", "reproductions", "table-1")[1].splitlines()[:2] == ["Errors", "Author 2016, Table 1"]


def test_a_file_that_cannot_be_written_is_an_error_with_the_options_that_select_it(run: Run, tmp_path: Path) -> None:
    def failing(*, folder: str = "runs", data: Any = None) -> list[dict[str, Any]]:
        (Path(folder) / "part.json").write_text("{}")
        return []

    ms.register(ms.hooks.ReproductionSpec("failing", failing))
    status, _, err = run("reproduce", "failing", "--set", f"folder={tmp_path / 'none'}")
    path = tmp_path / "none" / "part.json"
    said = f"failing: {path} cannot be read or written (No such file or directory): choose another path with --data"
    assert status == 2 and err.strip() == f"Error: {said} or --set folder=…"


def test_an_error_with_a_message_of_its_own_is_not_changed(run: Run) -> None:
    def failing() -> list[dict[str, Any]]:
        raise FileNotFoundError("videos has no videos: pass a folder with videos")

    ms.register(ms.hooks.ReproductionSpec("failing", failing))
    status, _, err = run("reproduce", "failing")
    assert (status, err) == (2, "Error: failing: videos has no videos: pass a folder with videos\n")


def test_an_interrupted_run_says_how_to_continue(run: Run) -> None:
    def interrupted(*, resume: bool = False) -> list[dict[str, Any]]:
        raise KeyboardInterrupt

    ms.register(ms.hooks.ReproductionSpec("long", interrupted))
    status, _, err = run("reproduce", "long")
    assert status == 130 and "To continue, run the same command with --resume." in err


def drawn(*, folder: str | None = "runs/drawn", figure: str | None = None) -> list[dict[str, Any]]:
    """Write what a reproduction writes, and return no rows."""
    if folder is not None:
        Path(folder).mkdir(parents=True)
        (Path(folder) / "figure.png").write_bytes(b"")
        (Path(folder) / "results.json").write_text("{}")
    if figure is not None:
        Path(figure).write_bytes(b"")
    return []


@pytest.mark.parametrize(
    ("settings", "figures", "folder"),
    [
        ((), ["runs/drawn/figure.png"], "runs/drawn"),
        (("--set", "folder=here", "--set", "figure=one.svg"), ["here/figure.png", "one.svg"], "here"),
        (("--set", "folder=None", "--set", "figure=one.pdf"), ["one.pdf"], None),
        (("--set", "folder=None"), [], None),
    ],
)
def test_the_places_of_figures_and_results_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...], figures: Any, folder: Any
) -> None:
    for as_json in (False, True):
        home = tmp_path / str(as_json)
        home.mkdir()
        monkeypatch.chdir(home)
        ms.register(ms.hooks.ReproductionSpec("drawn", drawn))
        status, out, err = run("reproduce", "drawn", *settings, *["--json"] * as_json)
        assert (status, err) == (0, "")
        if as_json:
            found = json.loads(out)
            assert (found["figures"], found["folder"]) == (figures, folder)
        else:
            said = [f"Figure: {', '.join(figures)}"] if figures else []
            said += [f"Results: {folder}"] if folder else []
            assert out.splitlines()[1:] == said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "pass NAME"),
        (("table-2",), "unknown reproduction 'table-2': did you mean 'table-1'?"),
        (("table-1", "--set", "nruns=3"), "has no parameter 'nruns': did you mean 'n_runs'?"),
        (("table-1", "--set", "n_runs=0"), "table-1: n_runs=0 is not valid"),
        (("table-1", "--data", "no/folder"), "Directory 'no/folder' does not exist"),
        (("figure-2", "--quick"), "has no quick settings: leave out --quick"),
        (("figure-2", "--resume"), "does not support --resume"),
        (("figure-2", "--data", "."), "does not support --data"),
    ],
)
def test_bad_input_raises_an_error(registered: Run, arguments: tuple[str, ...], sentence: str) -> None:
    status, out, err = registered("reproduce", *arguments)
    assert (status, out) == (2, "") and sentence in err
