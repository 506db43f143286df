"""``manifoldseq check`` exercises what it can, names what it only imported, and its exit status tells them apart."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import parametrize
from strangers.distributions import command, registry, write_one

from manifoldseq import hooks
from manifoldseq.cli import main

Check = Callable[..., tuple[int, list[str]]]

START = """
import numpy as np
import manifoldseq as ms

def build(data):
    f = ms.objective(lambda x: float(x @ x), lambda x: 2 * x)
    return ms.Problem(ms.manifolds.Euclidean(3), f)

def read(path):
    return ms.storage.SequenceData([np.loadtxt(path, ndmin=2)])

def example(folder):
    np.savetxt(folder / "small.stranger", np.eye(3))
    return folder / "small.stranger"

def data():
    return ms.storage.SequenceData([np.eye(3)])

def absent():
    raise FileNotFoundError("put the table into /data")

def items(rng):
    return [(rng.standard_normal((4, 2)),) for _ in range(3)]

class Mean:
    def __init__(self, random_state=None): self.random_state = random_state
    def get_params(self, deep=True): return {"random_state": self.random_state}
    def set_params(self, **params): self.random_state = params["random_state"]; return self
    def fit(self, X, y=None): self.mean_ = np.mean([x.mean() for x in X]); return self

def is_mean(result):
    return isinstance(result.estimator, Mean)

def draw(ax, result):
    ax.plot([result.estimator.mean_, 1.0])

def stiefel(m, n, bound):
    return ms.manifolds.Stiefel(m, n)
"""


def plugin(*records: tuple[str, str]) -> str:
    """Return the module of a plugin that registers records, given as (hook, code)."""
    return START + "".join(
        f"\n@ms.hookimpl\ndef manifoldseq_{hook}():\n    yield ms.hooks.{code}\n" for hook, code in records
    )


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that gives the exit status of a check of records, and what it printed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("stranger_new", "stranger_new._plugin"):  # of the test before
        sys.modules.pop(name, None)

    def run(*records: tuple[str, str], options: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        if records:
            write_one(tmp_path, "new", plugin(*records))
        monkeypatch.setitem(hooks.register.__globals__, "_registry", registry(tmp_path))
        status = main(["check", "stranger_new", *options])
        out, err = capsys.readouterr()
        assert bool(err) == (status == 2)
        return status, (out + err).splitlines()

    return run


RUN = [
    ("models", 'ModelSpec("m", build=build, example=lambda rng: None)'),
    ("readers", 'ReaderSpec("r", ("*.stranger",), read, example=example)'),
    ("datasets", 'DatasetSpec("d", data)'),
    ("domains", 'DomainSpec("o", stiefel, lambda x: (x,), items)'),
    ("manifolds", 'ManifoldSpec("f", stiefel, lambda rng: stiefel(4, 2, 1.0))'),
]


def test_what_passes_was_exercised(checked: Check) -> None:
    status, lines = checked(*RUN)
    assert status == 0 and lines[-1] == "5 records checked: 5 tested and passed."
    assert "  ok      reads it as SequenceData: 1 sequences" in lines
    assert "  ok      to_item converts a point to an item with the shapes of the example" in lines


def test_reproductions_are_never_run_and_named(checked: Check) -> None:
    status, lines = checked(RUN[0], ("reproductions", 'ReproductionSpec("t", absent)'))
    assert status == 0, "there is nothing to be done about it"
    assert lines[-1] == "2 records checked: 1 tested and passed, 1 only imported (reproduction t)."


@parametrize(
    ("record", "reason"),
    [
        (
            ("models", 'ModelSpec("x", build=build)'),
            "model x: only imported: it has no example: set ModelSpec(example=…)",
        ),
        (("readers", 'ReaderSpec("x", ("*.stranger",), read)'), "reader x: only imported: it has no example"),
        (
            ("datasets", 'DatasetSpec("x", absent)'),
            "dataset x: only imported: its data are not installed: put the table into",
        ),
        (("plots", 'PlotSpec("x", is_mean, draw)'), "plot x: only imported: no estimator of this package names it"),
        (
            ("solvers", 'SolverSpec("x", "stranger_new._plugin:Picky")'),
            "solver x: only imported: it needs batched, which the problems of check_solver do not have",
        ),
    ],
    fast=1,
)
def test_what_is_only_imported_counts_as_such(checked: Check, record: tuple[str, str], reason: str) -> None:
    picky = (
        "manifolds",
        'ManifoldSpec("f", stiefel, lambda rng: stiefel(4, 2, 1.0))\n\n'
        'class Picky(ms.solvers.LBFGS): needs = ("batched",)',
    )
    status, lines = checked(picky, record)
    assert status == 3 and any(line.startswith(reason) for line in lines), lines
    kind = record[0].removesuffix("s")
    assert lines[-1] == f"2 records checked: 1 tested and passed, 1 only imported ({kind} x)."
    for name in ("x", record[0]):
        status, lines = checked(options=("--import-only", name))
        assert status == 0 and f"{kind} x: only imported: as --import-only says" in lines


def test_plots_draw_the_estimators_that_name_them(checked: Check) -> None:
    named = 'EstimatorSpec("mean", Mean, plots=("good", "bad", "picky"))'
    plots = (
        'PlotSpec("good", is_mean, draw)\n    yield ms.hooks.PlotSpec("bad", is_mean, lambda ax, result: 1 / 0)'
        '\n    yield ms.hooks.PlotSpec("picky", lambda result: False, draw)'
    )
    status, lines = checked(("estimators", named), ("plots", plots))
    assert status == 1
    assert "  ok      draws a fit of mean: Good" in lines, lines[-4:]
    assert any(line.startswith("  FAILED  draws a fit of mean: raised ZeroDivisionError") for line in lines)
    assert "plot picky: only imported: it does not accept a small fit of mean" in lines
    assert lines[-1].endswith("1 only imported (plot picky).")


@pytest.mark.parametrize(
    ("record", "failure"),
    [
        (("datasets", 'DatasetSpec("x", lambda: [np.eye(3)])'), "loads as SequenceData: it gave list in place of"),
        (("datasets", 'DatasetSpec("x", lambda: 1 / 0)'), "ZeroDivisionError"),
        (
            ("readers", 'ReaderSpec("x", ("*.edf",), read, example=example)'),
            "small.stranger is not a file that matches *.edf",
        ),
        (("readers", 'ReaderSpec("x", ("*",), lambda path: 3, example=example)'), "it gave int in place of"),
        (
            ("domains", 'DomainSpec("x", stiefel, lambda x: (x.T,), items)'),
            "a part has shape (2, 4), but the example has",
        ),
        (("domains", 'DomainSpec("x", stiefel, lambda x: (x,), lambda rng: [(np.nan,)] * 2)'), "item 0 is not a tuple"),
        (("reproductions", 'ReproductionSpec("x", "nowhere:run")'), "No module named 'nowhere'"),
    ],
)
def test_what_is_wrong_fails(checked: Check, record: tuple[str, str], failure: str) -> None:
    status, lines = checked(record)
    assert status == 1 and failure in "\n".join(lines), lines
    assert lines[-1] == "1 record checked: 0 tested and passed, 1 FAILED."


def test_a_name_to_import_only_exists(checked: Check) -> None:
    status, lines = checked(RUN[0], options=("--import-only", "absent"))
    assert status == 2 and "nor a kind of records" in lines[-1]


@pytest.mark.parametrize(
    "package",
    [
        pytest.param("manifoldseq_mpcca", marks=pytest.mark.slow),
        pytest.param("manifoldseq_hierarchical", marks=pytest.mark.slow),
        pytest.param("manifoldseq_sequences", marks=pytest.mark.slow),
        pytest.param("manifoldseq_lds", marks=pytest.mark.slow),
        pytest.param("manifoldseq_hope", marks=pytest.mark.slow),
    ],
)
def test_everything_bundled_is_exercised_but_reproductions(package: str) -> None:
    """Data sets apart: most need an extra, or to be fetched."""
    done = command(None, "check", package, "--import-only", "datasets")
    assert done.returncode == 0, done.stdout + done.stderr
    imported = [line for line in done.stdout.splitlines() if ": only imported: " in line]
    assert {line.split()[0] for line in imported} <= {"dataset", "reproduction"}
