"""``--resume``: what was interrupted ends as if it had not been; nothing is lost by a wrong command."""

import fcntl
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from cli.examples import Walker
from helpers import parametrize
from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq.models import Stages

Run = Callable[..., tuple[int, str, str]]
FIT = ("fit", "walker", "two-levels", "--checkpoint-every", "0", "--no-quality")


def state(folder: Path) -> str:
    """Return what `run.json` says."""
    return json.loads((folder / "run.json").read_text())["state"]


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@parametrize(
    ("trouble", "status", "ending"),
    [(KeyboardInterrupt(), 130, "interrupted"), (RuntimeError("a bug"), 1, "failed"), (ValueError("x"), 1, "failed")],
    fast=1,
)
def test_resumed_run_is_bit_equal(run: Run, tmp_path: Path, trouble: BaseException, status: int, ending: str) -> None:
    assert run(*FIT, "-o", tmp_path / "whole")[0] == 0
    Walker.steps_taken.clear()
    Walker.trouble[3] = trouble
    broken = tmp_path / "broken"
    assert run(*FIT, "-o", broken)[0] == status
    assert state(broken) == ending and Walker.steps_taken == [0, 1, 2]
    with pytest.raises(ValueError, match="no model yet"):
        ms.load(broken)
    assert run(*FIT, "--resume", "-o", broken)[0] == 0
    assert Walker.steps_taken == [0, 1, 2, 3, 4, 5]
    assert state(broken) == "done" and not (broken / "checkpoint").exists()
    assert (broken / "model.npz").read_bytes() == (tmp_path / "whole" / "model.npz").read_bytes()
    assert len(json.loads((broken / "run.json").read_text())["resumed"]) == 1
    assert len((broken / "history.csv").read_text().splitlines()) == 1 + 7


def test_resume_starts_where_there_is_nothing_and_says_when_it_is_finished(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "missing", tmp_path / "empty"):
        assert run(*FIT, "--resume", "-o", folder)[0] == 0
        before = files(folder)
        done = run(*FIT, "--resume", "-o", folder)
        assert done == (0, f"The run in {folder} is finished: nothing to resume.\n", "")
        assert files(folder) == before
    status, _, err = run(*FIT, "--resume")
    assert status == 2 and "add -o RUN_DIR" in err


def test_unfinished_run_is_not_started_over(run: Run, tmp_path: Path) -> None:
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", tmp_path)
    before = files(tmp_path)
    status, _, err = run(*FIT, "-o", tmp_path)
    assert status == 2 and "contains an unfinished run: continue it with --resume" in err
    assert files(tmp_path) == before


@pytest.mark.parametrize("more", [("--set", "pull=0.25"), ("--seed", "1"), ("--labels", "labels.npy")])
def test_other_settings_raise_an_error_and_leave_the_run_as_it_was(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("labels.npy", np.arange(20))
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", "run")
    before = files(tmp_path / "run")
    status, _, err = run(*FIT, *more, "--resume", "-o", "run")
    assert status == 2 and "run contains an unfinished run with other data or settings: " in err
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize("cure", ["config", "other directory", "remove the run", "remove the checkpoints"])
def test_the_message_about_other_settings_names_cures_that_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", "run")
    other = (*FIT, "--set", "pull=0.25", "--resume", "-o")
    said = run(*other, "run")[2]
    assert said.strip().endswith(
        "run contains an unfinished run with other data or settings: continue it with --config run/run.toml, choose "
        "another directory with -o, or remove it"
    )
    if cure == "config":
        arguments: tuple[str, ...] = ("fit", "--config", "run/run.toml", "--no-quality", "--resume", "-o", "run")
    else:
        arguments = (*other, "new" if cure == "other directory" else "run")
        if cure.startswith("remove"):
            shutil.rmtree("run" if cure == "remove the run" else "run/checkpoint")
    status, _, err = run(*arguments)
    assert (status, err) == (0, "")
    assert ms.load(arguments[-1]).pull == (0.5 if cure == "config" else 0.25)


def test_a_damaged_checkpoint_is_a_message_whose_cure_works(run: Run, tmp_path: Path) -> None:
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoint").glob("*.npz"):
        file.write_bytes(b"junk")
    status, _, err = run(*FIT, "--resume", "-o", tmp_path / "run")
    assert status == 2 and "can be read" in err
    assert err.strip().endswith("choose another directory, or delete the old checkpoints")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    assert run(*FIT, "--resume", "-o", tmp_path / "run")[0] == 0


def test_resumed_run_may_go_further(run: Run, tmp_path: Path) -> None:
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", tmp_path)
    assert run(*FIT, "--set", "max_iter=9", "--resume", "-o", tmp_path)[0] == 0
    assert Walker.steps_taken == list(range(9))


def test_bad_input_leaves_no_directory(run: Run, tmp_path: Path) -> None:
    status, _, err = run(*FIT, "--set", "pull=-1", "-o", tmp_path / "run")
    assert status == 2 and "pull=-1 is not valid" in err and not (tmp_path / "run").exists()


class Means(BaseEstimator):
    """The mean of each sequence, a stage, and the largest mean, which must be below a bound."""

    computed: ClassVar[list[int]] = []

    def __init__(self, bound: float = 10.0) -> None:
        self.bound = bound

    def fit(
        self, X: Any, y: object = None, *, observers: Any = (), checkpoint: Any = None, resume: bool = False
    ) -> Self:
        """Compute the means."""

        def mean(i: int) -> np.ndarray:
            self.computed.append(i)
            return X[i].mean(axis=0)

        stages = Stages(observers=observers, checkpoint=checkpoint, resume=resume)
        self.means_ = np.stack(list(stages.map(mean, range(len(X)))))
        if not self.means_.max() < self.bound:
            raise ValueError(f"bound={self.bound} is below a mean: raise it")
        return self


@pytest.fixture
def means() -> list[int]:
    """Register the estimator of means; return the list of the sequences whose means it computes."""
    ms.register(ms.hooks.EstimatorSpec("means", Means, summary="Means"))
    Means.computed.clear()
    return Means.computed


@pytest.mark.parametrize("exists", [False, True])
def test_bad_input_after_a_stage_leaves_no_directory(run: Run, means: list[int], tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "run"
    if exists:
        folder.mkdir()
    status, _, err = run("fit", "means", "two-levels", "--set", "bound=-1", "--checkpoint-every", "0", "-o", folder)
    assert status == 2 and "bound=-1 is below a mean: raise it" in err
    assert len(means) == 20 and folder.exists() is exists
    assert set(files(tmp_path)) <= {"run/.lock"}


def test_fit_in_stages_is_resumed(run: Run, means: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ("fit", "means", "two-levels", "--checkpoint-every", "0", "--no-quality")
    assert run(*fit, "-o", tmp_path / "whole")[0] == 0
    means.clear()

    def interrupt(event: ms.Event) -> None:
        if event.nit == 5:
            raise KeyboardInterrupt

    part = tmp_path / "part"
    with monkeypatch.context() as patch:
        patch.setattr("manifoldseq.cli._fit.Watch", lambda *options: interrupt)
        status, _, err = run(*fit, "-o", part)
    assert status == 130 and f"To continue, run the same command with --resume -o {part}." in err
    assert means == list(range(6)) and state(part) == "interrupted"
    status, _, err = run(*fit, "--set", "bound=5", "--resume", "-o", part)
    assert status == 2 and "unfinished run with other data or settings" in err
    assert run(*fit, "--resume", "-o", part)[0] == 0
    assert means == list(range(20)) and not (part / "checkpoint").exists()
    assert (part / "model.npz").read_bytes() == (tmp_path / "whole" / "model.npz").read_bytes()


def test_estimator_without_checkpoints_says_so(run: Run, tmp_path: Path) -> None:
    status, _, err = run("fit", "sign", "two-levels", "--resume", "-o", tmp_path / "run")
    assert status == 0 and "sign writes no checkpoints: the fit starts from the beginning." in err


def test_two_processes_cannot_write_one_run(run: Run, tmp_path: Path) -> None:
    Walker.trouble[2] = KeyboardInterrupt()
    run(*FIT, "-o", tmp_path)
    before = files(tmp_path)
    with (tmp_path / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the other process does
        status, _, err = run(*FIT, "--resume", "-o", tmp_path)
    assert status == 2 and f"another process is writing the run in {tmp_path}" in err
    assert files(tmp_path) == before
    assert run(*FIT, "--resume", "-o", tmp_path)[0] == 0


@pytest.mark.slow
def test_solve_is_resumed_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np, manifoldseq as ms\n"
        "def value(x): return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)\n"
        "def build(): return ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: 100 * (x[1] - x[0] ** 2) ** 2"
        " + (1 - x[0]) ** 2), {'start': lambda p, rng: np.array([-1.2, 1.0])})\n"
    )
    solve = ("solve", tmp_path / "mine.py:build", "--checkpoint-every", "0")
    assert run(*solve, "-o", tmp_path / "whole")[0] == 0
    calls = []

    def interrupt(event: object) -> None:
        calls.append(event)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr("manifoldseq.cli._solve.Watch", lambda *options: interrupt)
    assert run(*solve, "-o", tmp_path / "run")[0] == 130
    assert run(*solve, "--resume", "-o", tmp_path / "run")[0] == 0
    first = json.loads((tmp_path / "run" / "metrics.json").read_text())["nit"]
    assert len(calls) < 5 + first + 2  # it went on, and did not start again
    assert (tmp_path / "run" / "model.npz").read_bytes() == (tmp_path / "whole" / "model.npz").read_bytes()
    assert "finished" in run(*solve, "--resume", "-o", tmp_path / "run")[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_process_leaves_a_run_to_resume(tmp_path: Path, number: signal.Signals) -> None:
    """A start is finished by then, so the estimator itself would end with what it has."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((40, 30, 3)).cumsum(axis=1))
    fit = ["fit", "lds-kmeans", "x.npy", "--set=n_clusters=4", "--set=n_states=2", "--set=tol=0", "--set=n_init=50"]
    process = subprocess.Popen(
        [sys.executable, "-m", "manifoldseq", *fit, "--checkpoint-every=0", "-o", "run"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while process.poll() is None and not list(tmp_path.rglob("start-1/checkpoint-*.npz")):
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "Interrupted.")
    assert "the same command with --resume -o run" in err
    assert state(tmp_path / "run") == "interrupted" and not (tmp_path / "run" / "model.npz").exists()
