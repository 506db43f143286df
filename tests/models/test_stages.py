"""`Stages.map` computes each task once, before or after an interrupt, and stores its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.models import Stages


def test_stages_compute_each_task_once(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def task(name: str, ends: int = -1) -> Callable[[int], Any]:
        def function(x: int) -> Any:
            if x == ends:
                raise KeyboardInterrupt
            calls.append((name, x))
            return {"x": np.full(2, x), "none": None}

        return function

    def fit(ends: int, **loop: Any) -> list[int]:
        stages = Stages("settings", **loop)
        list(stages.map(task("first"), range(3)))
        assert list(stages.map(task("empty"), [])) == []
        return [int(one["x"][0]) for one in stages.map(task("second", ends), range(5, 9))]

    store = ms.storage.Checkpoint(tmp_path, fingerprint="data")
    for ends in (7, 5):
        with pytest.raises(KeyboardInterrupt):
            fit(ends, checkpoint=store, resume=True) if ends == 7 else fit(ends, checkpoint=tmp_path / "other")
    assert calls == [*(("first", x) for x in range(3)), ("second", 5), ("second", 6), *(("first", x) for x in range(3))]
    calls.clear()
    assert fit(-1, checkpoint=store, resume=True) == [5, 6, 7, 8]
    assert calls == [("second", 7), ("second", 8)]
    assert fit(-1) == [5, 6, 7, 8]
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        Stages("others", checkpoint=store, resume=True).map(task("first"), range(3))
    with pytest.raises(ValueError, match="resume=True needs a checkpoint"):
        Stages(resume=True)
    with pytest.raises(ValueError, match="checkpoint=3 is not valid"):
        Stages(checkpoint=3)  # type: ignore[arg-type]


def test_an_executor_computes_several_tasks_in_an_iteration(tmp_path: Path) -> None:
    calls: list[int] = []

    def square(x: int) -> int:
        if x == 5 and len(calls) < 8:
            raise KeyboardInterrupt
        calls.append(x)
        return x * x

    seen = ms.Recorder(lambda event: (event.nit, event.measures.fun, event.measures.extra.get("of")))
    with ms.execution.using("threads", 3):
        assert list(Stages().map(square, range(4))) == [0, 1, 4, 9]
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            Stages(checkpoint=tmp_path, observers=[seen]).map(square, range(8))
    assert set(calls) >= {0, 1, 2} and seen.records[:1] == [(0, 1 - 3 / 8, 2.0)]
    calls[:] = [-1] * 8
    assert list(Stages(checkpoint=tmp_path, resume=True).map(square, range(8))) == [x * x for x in range(8)]
    assert calls[8:] == [3, 4, 5, 6, 7]  # with another executor, of which an iteration computes one


def test_an_error_of_the_first_task_leaves_no_checkpoint(tmp_path: Path) -> None:
    def fail(x: int) -> int:
        raise ValueError(f"item {x} is not valid")

    with pytest.raises(ValueError, match="item 0 is not valid"):
        Stages(checkpoint=tmp_path).map(fail, range(2))
    assert not list(tmp_path.rglob("checkpoint-*.npz"))
    assert next(Stages(checkpoint=tmp_path, resume=True).map(str, range(2))) == "0"
