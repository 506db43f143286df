"""What tests share: seeded generators and small problems with known answers. Use as `import helpers`."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

try:
    import cloudpickle  # comes with joblib, thus with scikit-learn
except ImportError:
    from joblib.externals import cloudpickle  # joblib before 1.6 carries it

import manifoldseq as ms
from manifoldseq.execution._executors import CURRENT, SERIAL  # a cluster without one: no kind of `using`
from manifoldseq.hooks._bundled import NAMES

INSTALLED = {point.name for point in entry_points(group="manifoldseq")}
"""The names of the installed plugins."""


def needs(*plugins: str) -> pytest.MarkDecorator:
    """Mark a test that needs bundled plugins, where no error message would say so; others are skipped by conftest."""
    absent = [f"manifoldseq-{name} is not installed" for name in plugins if name not in INSTALLED]
    return pytest.mark.skipif(bool(absent), reason=absent[0] if absent else "")


def parametrize(names: str | Sequence[str], rows: Iterable[Any], *, fast: int, **options: Any) -> pytest.MarkDecorator:
    """Parametrize a test as pytest does, with all but `fast` rows, spread evenly over the table, marked as slow."""
    rows, one = list(rows), isinstance(names, str) and "," not in names
    kept = {i * (len(rows) - 1) // max(fast - 1, 1) for i in range(fast)}
    if len(kept) < fast:
        raise ValueError(f"fast={fast} of {len(rows)} rows: use pytest.mark.parametrize")
    return pytest.mark.parametrize(
        names, [row if i in kept else _slow(row, one) for i, row in enumerate(rows)], **options
    )


def _slow(row: Any, one: bool) -> Any:
    """Return a row of a table of parameters with the mark ``slow``."""
    if isinstance(row, type(pytest.param())):
        return pytest.param(*row.values, marks=[*row.marks, pytest.mark.slow], id=row.id)
    return pytest.param(*((row,) if one else row), marks=pytest.mark.slow)


def register_models(plugin: str) -> None:
    """Register the models of a bundled plugin, for tests that run without the plugins that are installed."""
    module = importlib.import_module(f"manifoldseq_{plugin}._plugin")
    for record in module.manifoldseq_models():
        ms.register(record)


def absent_names(kind: str) -> set[str]:
    """Return the names of a kind that bundled plugins would register which are not installed."""
    absent = [kinds for name, kinds in NAMES.items() if name.removeprefix("manifoldseq-") not in INSTALLED]
    return {name for kinds in absent for name in kinds.get(kind, "").split()}


def rng(seed: int = 0) -> np.random.Generator:
    """Return a fresh generator; every test names its own seed."""
    return np.random.default_rng(seed)


def eigenspace(n: int = 12, p: int = 3, seed: int = 0) -> tuple[ms.Problem, float]:
    """Return the problem min -tr(X' S X) on the Stiefel manifold St(n, p), and its minimum by `eigvalsh`."""
    half = rng(seed).standard_normal((n, n))
    matrix = half + half.T
    objective = ms.objective(lambda X: -float(np.sum(X * (matrix @ X))), lambda X: -2 * matrix @ X)
    return ms.Problem(ms.manifolds.Stiefel(n, p), objective), -float(np.linalg.eigvalsh(matrix)[-p:].sum())


class _Copying:
    """Tasks as a cluster runs them: on copies of function and tasks, in another folder; results are copies too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        sent = [cloudpickle.dumps((function, task)) for task in tasks]
        home, token = os.getcwd(), CURRENT.set(SERIAL)
        os.chdir(self.folder)
        try:
            returned = []
            for parcel in sent:
                run, task = pickle.loads(parcel)
                returned.append(cloudpickle.dumps(run(task)))
        finally:
            os.chdir(home)
            CURRENT.reset(token)
        return [pickle.loads(parcel) for parcel in returned]

    def map_shards(self, shards: Any, function: Any, tasks: Sequence[Any]) -> list[Any]:
        return self.map(lambda task: function(shards.here(task[0]), task[1]), tasks)


@contextmanager
def elsewhere(folder: Path) -> Iterator[None]:
    """Run maps as on a cluster whose workers are in this folder, without processes."""
    folder.mkdir(exist_ok=True)
    token = CURRENT.set(_Copying(folder))
    try:
        yield
    finally:
        CURRENT.reset(token)
