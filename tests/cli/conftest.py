"""A small estimator and data set, registered for one test, and the command line in this process."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.cli import main
from manifoldseq.storage import SequenceData


class SignClusterer(ClusterMixin, BaseEstimator):
    """Cluster sequences by the sign of their mean; `trouble` raises."""

    def __init__(self, offset: float = 0.0, name: str = "sign", trouble: Any = None, random_state: Any = None) -> None:
        self.offset = offset
        self.name = name
        self.trouble = trouble
        self.random_state = random_state

    def fit(self, X: list[np.ndarray], y: object = None) -> "SignClusterer":
        """Cluster."""
        if self.trouble == "value":
            raise ValueError("offset=nan is not valid: pass a number")
        if self.trouble == "bug":
            raise RuntimeError("a bug")
        if self.trouble == "interrupt":
            raise KeyboardInterrupt
        self.labels_ = np.array([int(x.mean() > self.offset) for x in X])
        self.history_ = {"nit": np.arange(3), "fun": np.array([3.0, 2.0, 1.5])}
        return self


def two_levels() -> SequenceData:
    """Return ten noisy sequences around -1 and ten around 1."""
    rng = np.random.default_rng(0)
    levels = np.repeat([-1.0, 1.0], 10)
    return SequenceData(
        [level + 0.1 * rng.standard_normal((8, 2)) for level in levels], np.where(levels > 0, "up", "down")
    )


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
    ms.register(hooks.Estimator("sign", SignClusterer, summary="Sign of the mean"))
    ms.register(hooks.Dataset("two-levels", two_levels, summary="Two levels"))

    def command(*arguments: str) -> Done:
        status = main([str(argument) for argument in arguments])
        return Done(status, *capsys.readouterr())

    return command
