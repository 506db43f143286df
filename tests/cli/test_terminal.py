"""What a person at a terminal and a program at a pipe see."""

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli.examples import COMMANDS
from helpers import needs, parametrize
from strangers.distributions import MAIN, command

from manifoldseq import hooks

Run = Callable[..., tuple[int, str, str]]


def in_terminal(*arguments: str, columns: int = 80, cwd: Path | None = None) -> str:
    """Run a command in a pseudo-terminal and return what appears on it, carriage returns kept."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", MAIN, *arguments],
        stdin=follower, stdout=follower, stderr=follower, env=environment, cwd=cwd,
    )  # fmt: skip
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other side was closed
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    assert process.wait() == 0, b"".join(parts).decode()
    return b"".join(parts).decode()


@parametrize("arguments", [("list",), ("list", "manifolds"), ("list", "plugins", "lds"), ("doctor",)], fast=1)
def test_tables_fit_a_screen_of_80_columns(arguments: tuple[str, ...]) -> None:
    lines = in_terminal(*arguments).replace("\r\n", "\n").split("\n")
    assert max(map(len, lines)) <= 80
    assert not any("\x1b" in line for line in lines)


@parametrize("columns", [40, 1000], fast=1)
def test_tables_are_as_wide_as_the_environment_says(columns: int) -> None:
    lines = command(None, "list", "manifolds", COLUMNS=str(columns)).stdout.splitlines()
    assert max(map(len, lines)) <= max(columns, 27 + 2 + 11 + 2 + 16), "names, plugin and the longest word"
    assert (len(lines) == 1 + len(list(hooks.records("manifolds")))) == (columns == 1000)
    summaries = " ".join(line[42:].strip() for line in lines)
    assert "Points of one manifold along a leading axis" in summaries


@pytest.mark.slow
@needs("lds")
def test_output_of_a_run_fits_80_columns(tmp_path: Path) -> None:
    """The widest output: a table of settings that were tried, and figures of four estimators."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    for words in ("fit lds-kmeans damaged-structure --choose", "solve lds.mean basic-motions --set n_states=2"):
        done = subprocess.run(
            [sys.executable, "-m", "manifoldseq", *words.split(), "-o", words[:5]],
            capture_output=True, text=True, cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80, done.stdout


@parametrize("name", ["", *COMMANDS], fast=5)
def test_help_fits_a_screen_of_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, text, _ = run(*filter(None, [name]), "--help")
    assert status == 0 and max(map(len, text.splitlines())) <= 80, text


@pytest.mark.parametrize("name", ["fit", "apply", "solve", "report", "list", "check", "new-plugin", "reproduce"])
def test_help_has_examples(run: Run, name: str) -> None:
    status, text, _ = run(name, "--help")
    assert status == 0 and f"\n    manifoldseq {name}" in text and "Example" in text


def test_help_documents_exit_status_and_completion(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert "Exit status: 0 success; 1 failure or not solved; 2 bad input;\n  3 checked in part; 130 interrupted." in out
    assert "_MANIFOLDSEQ_COMPLETE=bash_source manifoldseq" in out and "NO_COLOR" in out


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    fit = ("fit", "lds-kmeans", "x.npy", "--set", "n_clusters=2", "--set", "n_states=2", "--set", "n_init=1")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((12, 30, 3)).cumsum(axis=1))
    shown = in_terminal(*fit, "-o", "one", cwd=tmp_path)
    assert "lds-kmeans:   0%|" in shown and "| 0/50 [00:00<?, ?it/s]" in shown  # steps, time and remaining time
    done = command(None, *fit, "-o", "two", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and "\r" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [("manifoldseq fit lds-km", "plain,lds-kmeans"), ("manifoldseq sol", "plain,solve"),
     ("manifoldseq fit lds-kmeans basic-m", "plain,basic-motions"), ("manifoldseq solve lds.", "plain,lds.mean"),
     ("manifoldseq fit --resu", "plain,--resume"),
     ("manifoldseq list ker", "plain,kernels"), ("manifoldseq list kernels mart", "plain,martin-rbf")],
)  # fmt: skip
def test_shell_completes_commands_options_and_names(words: str, offered: str) -> None:
    count = len(words.split()) - 1
    done = command(None, _MANIFOLDSEQ_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count))
    assert offered in done.stdout.splitlines()


@pytest.mark.slow
def test_reader_that_ends_early_is_no_error() -> None:
    """As in `manifoldseq list plots | head -1`."""
    shell = f'"{sys.executable}" -W error -c "{MAIN}" doctor --json | head -c 1; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stdout == "{" and done.stderr == ""
    assert done.returncode in (0, 1)  # 0 if all was written before the reader ended


def test_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "manifoldseq", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("manifoldseq ")


@pytest.mark.slow
def test_what_a_library_warns_of_is_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "same.npy", np.ones((12, 2)))  # one distinct row for two clusters
    command = [sys.executable, "-m", "manifoldseq", "fit", "kmeans", "same.npy", "--set", "n_clusters=2", "-o", "run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Warning: Number of distinct clusters (1) found smaller than")
