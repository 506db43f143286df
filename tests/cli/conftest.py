"""The command line in this process, with the small estimators and data of this folder registered for one test."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from cli.examples import SignClusterer, Walker, two_levels

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.cli import main


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


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
