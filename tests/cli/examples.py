"""Small estimators and a data set for the command line."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

import manifoldseq as ms
from manifoldseq.storage import SequenceData

COMMANDS = "fit apply solve report list check new-plugin reproduce doctor".split()
"""What `manifoldseq --help` lists (a test compares)."""


class SignClusterer(ClusterMixin, BaseEstimator):
    """Cluster sequences by the sign of their mean; `trouble` raises."""

    def __init__(self, offset: float = 0.0, name: str = "sign", trouble: Any = None, random_state: Any = None) -> None:
        self.offset = offset
        self.name = name
        self.trouble = trouble
        self.random_state = random_state

    def fit(self, X: list[np.ndarray], y: object = None) -> SignClusterer:
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


class Walker(BaseEstimator):
    """Draw a random walk towards the mean of the sequences; can be resumed, and interrupts itself when told to."""

    steps_taken: ClassVar[list[int]] = []
    trouble: ClassVar[dict[int, BaseException]] = {}

    def __init__(self, pull: float = 0.5, max_iter: int = 6, random_state: int = 0) -> None:
        self.pull = pull
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: list[np.ndarray],
        y: object = None,
        *,
        observers: Any = (),
        checkpoint: Any = None,
        resume: bool = False,
    ) -> Walker:
        """Walk."""
        if self.pull < 0:
            raise ValueError("pull=-1 is not valid: pass a positive number")
        mean = np.concatenate(X).mean(axis=0)

        def step(state: Any) -> tuple[Any, ms.Measures]:
            number = state["number"]
            if number in self.trouble:
                raise self.trouble.pop(number)
            self.steps_taken.append(number)
            rng = np.random.default_rng(0)
            rng.bit_generator.state = state["rng"]
            x = state["x"] + self.pull * (mean - state["x"]) + 0.1 * rng.standard_normal(len(mean))
            return {"x": x, "number": number + 1, "rng": rng.bit_generator.state}, ms.Measures(fun=float(abs(x).sum()))

        start = np.random.default_rng(self.random_state).bit_generator.state
        run = ms.iterate(
            step,
            {"x": np.zeros_like(mean), "number": 0, "rng": start},
            ms.Measures(fun=0.0),
            stop=ms.MaxIterations(self.max_iter),
            observers=observers,
            checkpoint=checkpoint,
            resume=resume,
        )
        self.position_, self.status_, self.history_ = run.state["x"], run.status, run.history
        return self

    def transform(self, X: list[np.ndarray]) -> np.ndarray:
        """Return the distances of the means to the position."""
        return np.array([np.abs(x.mean(axis=0) - self.position_) for x in X])
