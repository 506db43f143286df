"""The command line in this process, with the small estimators and data of this folder registered for one test."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from cli.examples import SignClusterer, Walker, two_levels
from matplotlib.figure import Figure

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.cli import main


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


@pytest.fixture(autouse=True)
def _figures_without_marks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what matplotlib draws, half of the time of a fit, in all tests that are not slow."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(Figure, "draw_without_rendering", lambda figure: None)
        monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(EMPTY))


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print whole lines, which tests search for texts."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return a function that runs a command with only the plugins of this file registered."""
    registry = hooks.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_loaded", [])
    monkeypatch.setattr(registry, "_registered", {})
    ms.register(hooks.EstimatorSpec("sign", SignClusterer, summary="Sign of the mean"))
    ms.register(hooks.EstimatorSpec("walker", Walker, summary="A random walk"))
    monkeypatch.setattr(Walker, "steps_taken", [])
    monkeypatch.setattr(Walker, "trouble", {})
    ms.register(hooks.DatasetSpec("two-levels", two_levels, summary="Two levels"))

    def command(*arguments: str) -> Done:
        status = main([str(argument) for argument in arguments])
        return Done(status, *capsys.readouterr())

    return command
