"""Nothing finished is lost: a model is on the disk before its report begins, and a failing report leaves it."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.examples import SignClusterer, Walker
from helpers import parametrize

import manifoldseq as ms

Run = Callable[..., tuple[int, str, str]]
FIT = ("fit", "walker", "two-levels", "--checkpoint-every", "0", "--no-quality")
PROBLEM = (
    "import numpy as np, manifoldseq as ms\n"
    "problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: x @ x), {'s': lambda p, r: np.ones(2)})\n"
)


def about(folder: Path) -> dict[str, Any]:
    """Return what `run.json` says."""
    return json.loads((folder / "run.json").read_text())


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


FAILURES = {
    "exception": (RuntimeError("a\nbug"), 1, "failed (RuntimeError: a bug)"),
    "value": (ValueError("wrong"), 1, "failed (ValueError: wrong)"),
    "full disk": (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 1, "failed (OSError: [Errno 28] No space left"),
    "memory": (MemoryError(), 1, "failed (MemoryError)"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "was interrupted"),
}
PLACES = [("_procedure.render_html", name) for name in FAILURES]
PLACES += [(place, name) for place in ("_fit.Fitted", "_fit.draw_plots") for name in ("exception", "Ctrl-C")]


@parametrize(("place", "name"), PLACES, fast=3)
def test_a_failing_report_leaves_the_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    error, expected, sentence = FAILURES[name]
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(f"manifoldseq.cli.{place}", raising(error))
        status, out, err = run("fit", "sign", "two-levels", "-o", folder)
    assert (status, out) == (expected, "")
    said = f"The model is finished and saved in {folder}, but its report {sentence}"
    assert said in err and f": write it by the same command with --resume -o {folder}" in err
    assert len(list(filter(None, err.splitlines()))) == 1 + (name == "Ctrl-C")
    assert about(folder)["state"] == ("interrupted" if name == "Ctrl-C" else "failed")
    assert ms.load(folder).labels_.tolist() == [0] * 10 + [1] * 10


def test_a_report_is_written_later_without_another_fit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("manifoldseq.cli._procedure.render_html", raising(RuntimeError("a bug")))
        assert run("fit", "sign", "two-levels", "-o", folder)[0] == 1
    status, _, err = run("fit", "sign", "two-levels", "-o", folder)
    assert status == 2 and "contains a model without its report: write it by the same command with --resume" in err
    status, _, err = run("fit", "sign", "two-levels", "--set", "offset=1", "--resume", "-o", folder)
    assert status == 2 and "contains the model with other data or settings" in err
    monkeypatch.setattr(SignClusterer, "fit", raising(AssertionError("fitted again")))
    status, out, err = run("fit", "sign", "two-levels", "--resume", "--no-quality", "-o", folder)
    assert (status, err) == (0, "") and "seconds" in out
    metrics = json.loads((folder / "metrics.json").read_text())
    assert about(folder)["state"] == "done" and metrics["seconds"] > 0 and (folder / "report.html").exists()
    assert "is finished" in run("fit", "sign", "two-levels", "--resume", "-o", folder)[1]


def test_a_report_that_fails_again_still_leaves_the_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("manifoldseq.cli._procedure.render_html", raising(RuntimeError("a bug")))
        for more in ((), ("--resume",), ("--resume",)):
            assert run("fit", "sign", "two-levels", *more, "-o", tmp_path / "run")[0] == 1
            assert hasattr(ms.load(tmp_path / "run"), "labels_")
    assert run("fit", "sign", "two-levels", "--resume", "-o", tmp_path / "run")[0] == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["seconds"] > 0


def fill_disk(patch: pytest.MonkeyPatch, full: Callable[[], bool], written: list[str]) -> None:
    """Let no file reach the disk any more when it is full; `written` gets the names of those that did."""
    sync, replace = os.fsync, Path.replace

    def limited(handle: int) -> None:
        if full() and not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    patch.setattr(os, "fsync", limited)
    patch.setattr(Path, "replace", lambda self, target: written.append(target.name) or replace(self, target))


@parametrize("after", ["model.json", "metrics.json"], fast=1)
def test_a_disk_that_is_full_from_some_file_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Not even run.json can be written then; the model is there, and the exit status is not 0."""
    written: list[str] = []
    with monkeypatch.context() as patch:
        fill_disk(patch, lambda: after in written, written)
        status, _, err = run(*FIT, "-o", tmp_path / "run")
    assert status == 1 and "The model is finished and saved in" in err and "No space left" in err
    assert ms.load(tmp_path / "run").position_.shape == (2,)
    assert about(tmp_path / "run")["state"] == "running"
    steps = list(Walker.steps_taken)
    assert run(*FIT, "--resume", "-o", tmp_path / "run")[0] == 0 and Walker.steps_taken == steps
    assert about(tmp_path / "run")["state"] == "done" and not (tmp_path / "run" / "checkpoint").exists()


def test_a_disk_that_is_full_before_the_model_leaves_the_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fill_disk(patch, lambda: (tmp_path / "run" / ".model.npz.tmp").exists(), [])
        status, _, err = run(*FIT, "-o", tmp_path / "run")
    assert status == 1 and "No space left" in err and "is finished" not in err
    steps = list(Walker.steps_taken)
    assert run(*FIT, "--resume", "-o", tmp_path / "run")[0] == 0 and Walker.steps_taken == steps


def test_a_full_disk_leaves_the_model_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files are whole under other names before either is replaced."""
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    ms.storage.save_model(ms.minimize(problem, np.ones(2)), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result, synced = ms.minimize(problem, np.full(2, 3.0)), []
    sync = os.fsync

    def second_fails(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", second_fails)
    with pytest.raises(OSError, match="No space left"):
        ms.storage.save_model(result, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync") or sync(handle))
    monkeypatch.setattr(Path, "replace", lambda self, target: done.append(target.name) or replace(self, target))
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    ms.storage.save_model(ms.minimize(problem, np.ones(2)), tmp_path)
    assert done == ["sync", "sync", "model.npz", "model.json", "sync"]


@parametrize("name", ["exception", "Ctrl-C"], fast=1)
def test_solve_keeps_its_result(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    error, expected, sentence = FAILURES[name]
    (tmp_path / "mine.py").write_text(PROBLEM)
    solve = ("solve", f"{tmp_path / 'mine.py'}:problem", "-o", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("manifoldseq.cli._procedure.render_html", raising(error))
        status, _, err = run(*solve)
    assert status == expected and sentence in err and "is finished and saved in" in err
    assert ms.load(tmp_path / "run").success
    monkeypatch.setattr("manifoldseq.cli._solve.minimize", raising(AssertionError("solved again")))
    assert run(*solve, "--resume")[0] == 0 and (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_process_that_ends_during_the_report_leaves_the_model(tmp_path: Path, number: signal.Signals) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((6, 20, 2)).cumsum(axis=1))
    script = (
        "import os, sys, manifoldseq.cli._procedure as procedure\n"
        f"procedure.render_html = lambda *_: os.kill(os.getpid(), {int(number)})\n"
        "from manifoldseq.cli import main\n"
        "sys.exit(main('fit lds-kmeans x.npy --set n_clusters=2 --set n_states=1 --set n_init=1 -o run'.split()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (130 if number is signal.SIGTERM else -9), done.stderr
    assert ms.load(tmp_path / "run").labels_.shape == (6,)


def test_apply_says_before_it_computes_that_it_cannot_write(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*FIT, "-o", tmp_path / "run")[0] == 0
    monkeypatch.setattr(Walker, "transform", raising(AssertionError("computed")))
    status, _, err = run("apply", tmp_path / "run", "two-levels", "-o", tmp_path / "nowhere" / "out.csv")
    assert status == 2 and "cannot be written: the folder" in err
