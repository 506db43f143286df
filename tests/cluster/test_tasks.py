"""What is sent to a cluster: independent steps of every estimator, with the bits of serial fits; names of files."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.execution import Shards, _blocks
from manifoldseq.execution._executors import CURRENT, SERIAL  # a cluster without one: no kind of `using`

pytest.importorskip("distributed")

from manifoldseq.execution._dask import _dumps

MEGABYTE = 10**6


class Measuring:
    """An executor that runs copies of functions and tasks as a cluster of two workers does, and measures the copies."""

    width = 2

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return self._run([(self._copy(function), self._copy(task)) for task in tasks])

    def map_shards(self, shards: Shards[Any], function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        homes = [self._copy(shards.some(range(home, len(shards), 2))) for home in range(2)]
        calls = [(partial(_on_shard, homes[number % 2]), (number, function, task)) for number, task in tasks]
        return self._run([(run, self._copy(call)) for run, call in calls])

    def _run(self, calls: list[tuple[Callable[[Any], Any], Any]]) -> list[Any]:
        token = CURRENT.set(SERIAL)
        try:
            return [pickle.loads(_dumps(run(task))) for run, task in calls]
        finally:
            CURRENT.reset(token)

    def _copy(self, value: Any) -> Any:
        sent = _dumps(value)
        self.sizes.append(len(sent))
        return pickle.loads(sent)


def _on_shard(shards: Shards[Any], call: tuple[int, Callable[..., Any], Any]) -> Any:
    number, function, task = call
    return function(shards.here(number), task)


@contextmanager
def measuring() -> Iterator[list[int]]:
    """Run maps on copies; yield the sizes of the copies in bytes."""
    executor = Measuring()
    token = CURRENT.set(executor)
    try:
        yield executor.sizes
    finally:
        CURRENT.reset(token)


def mapped(path: Path, values: np.ndarray) -> np.ndarray:
    """Return an array in a file."""
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def rows(n: int = 9000, d: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    return 2 * rng.standard_normal((4, d))[np.arange(n) % 4] + rng.standard_normal((n, d))


def sequences(n: int, steps: int) -> list[np.ndarray]:
    """Return noisy oscillations of four frequencies in three channels."""
    rng, t = np.random.default_rng(0), np.arange(steps)[:, None]
    return [
        np.sin((0.1 + 0.15 * (i % 4)) * t + np.arange(3) + rng.uniform(0, 6)) + 0.2 * rng.standard_normal((steps, 3))
        for i in range(n)
    ]


def numbers(value: Any, name: str = "", depth: int = 0) -> dict[str, bytes]:
    """Return all arrays and numbers in a value by name, except times and what objects cache."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return {name: value.tobytes()}
    if isinstance(value, bool | int | float | str):
        return {name: repr(value).encode()}
    parts: dict[Any, Any] = {}
    if isinstance(value, dict):
        parts = value
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    elif hasattr(value, "__dict__") and not callable(value) and depth < 5:
        parts = vars(value)
    wanted = {key: part for key, part in parts.items() if key not in ("time", "_at")}
    return {k: v for key, part in wanted.items() for k, v in numbers(part, f"{name}.{key}", depth + 1).items()}


def fitted(name: str, data: Any, labels: Any, *, settings: dict[str, Any], **options: Any) -> dict[str, bytes]:
    """Return the attributes of a fit, and what it says about its data."""
    estimator: Any = ms.get_estimator(name)()
    known = estimator.get_params(deep=False)
    estimator.set_params(**{key: value for key, value in {"random_state": 0, **settings}.items() if key in known})
    options = {key: value for key, value in options.items() if key in signature(estimator.fit).parameters}
    estimator.fit(*((data,) if labels is None else (data, labels)), **options)
    found = numbers({key: value for key, value in vars(estimator).items() if key.endswith("_") and key not in known})
    for method in ("predict", "transform"):
        if hasattr(estimator, method):
            found |= numbers(getattr(estimator, method)(data), method)
    return found


SEQUENCES = """
lds-identifier lds-kmeans lds-kernel-matrix lds-spectral lds-neighbors lds-sparse-coder lds-dictionary lds-classifier
bag-of-systems pyramid-pooling sequence-kmeans sequence-classifier sequence-neighbors warping-kmedoids
""".split()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the settings that are chosen
@parametrize("name", SEQUENCES, fast=4)
def test_a_default_fit_to_sequences_sends_its_steps(name: str, tmp_path: Path) -> None:
    """With a checkpoint, as on the command line."""
    data = [x[: 60 - 10 * (i % 2)] for i, x in enumerate(sequences(24, 60))]
    labels = np.arange(24) % 4
    serial = fitted(name, data, labels, settings={})
    with measuring() as sizes:
        sent = fitted(name, data, labels, settings={}, checkpoint=tmp_path)
    assert len(sizes) > 2 and sent == serial


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize("name", ["subspace-kmeans", "hierarchical-encoder", "mixture-pcca"], fast=1)
def test_a_default_fit_to_rows_sends_its_steps(name: str, tmp_path: Path) -> None:
    X = rows(500, 8)
    data, labels = ([X[:, :4], X[:, 4:]], None) if name == "mixture-pcca" else (X, np.arange(500) % 4)
    serial = fitted(name, data, labels, settings={})
    with measuring() as sizes:
        sent = fitted(name, data, labels, settings={}, checkpoint=tmp_path)
    assert len(sizes) > 2 and sent == serial


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"n_init": n, "max_iter": 3}) for name in ("subspace-kmeans", "hope", "pca-movmf") for n in (1, 3)),
    *((name, {"n_init": n, "max_iter": 3}) for name in ("vmf-mixture", "spherical-kmeans") for n in (1, 3)),
    *(("mixture-pcca", {"n_init": n, "max_iter": 3, "n_components": 3, "n_latent": 2}) for n in (1, 3)),
    ("mixture-pcca", {"max_iter": 3}),  # which compares settings
    ("subspace-encoder", {}),
    ("hierarchical-encoder", {}),
    ("sequence-kmeans", {}),
    ("sequence-classifier", {}),
    ("lds-kmeans", {"n_states": 2, "n_init": 3, "max_iter": 3}),
    ("lds-classifier", {"n_states": 2}),
    ("lds-identifier", {}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize(("name", "settings"), SETTINGS, fast=4)
def test_fits_to_files_send_less_than_a_megabyte(
    name: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions, tasks and recipes; six blocks or more. The data are larger, so that they cannot be among them."""
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 200_000)
    if name.startswith(("lds", "sequence")):
        monkeypatch.setattr("manifoldseq_lds.identification._estimation._BATCH", 20_000)
        data: Any = mapped(tmp_path / "x.npy", np.stack(sequences(48, 1000)))
        labels, nbytes = np.arange(48) % 4, data.nbytes
    else:
        whole = mapped(tmp_path / "x.npy", rows())
        data, labels, nbytes = whole, np.arange(9000) % 4, whole.nbytes
        if name == "mixture-pcca":  # columns of one file
            data, labels = [whole[:, :8], whole[:, 8:]], None
    serial = fitted(name, data, labels, settings=settings)
    with measuring() as sizes:
        sent = fitted(name, data, labels, settings=settings)
    assert nbytes > MEGABYTE > max(sizes)
    assert sent == serial


def test_memory_maps_are_sent_as_names_of_files(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((300, 40))
    array = mapped(tmp_path / "x.npy", values)
    columns = mapped(tmp_path / "f.npy", np.asfortranarray(values))
    parts: list[Any] = [array, array[7:250], array[:, 3:9], array[::2, 1:], array.T, np.asarray(array)[9:], columns]
    for part in [*parts, array.reshape(30, 10, 40)[4:].transpose(0, 2, 1)]:
        sent = _dumps(part)
        opened = pickle.loads(sent)
        assert len(sent) < 1000 and isinstance(opened, np.memmap) and not opened.flags.writeable
        np.testing.assert_array_equal(opened, part)
        again = pickle.loads(_dumps(opened[1:]))  # a worker may send it on
        assert len(_dumps(opened[1:])) < 1000
        np.testing.assert_array_equal(again, part[1:])


def test_values_that_are_in_no_file_are_sent(tmp_path: Path) -> None:
    array = mapped(tmp_path / "x.npy", np.arange(500.0).reshape(50, 10))
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed[3, 3] = -1.0
    parts = [changed, array[::-1], array[:0], array + 1, np.arange(3)]
    for part in parts:
        np.testing.assert_array_equal(pickle.loads(_dumps(part)), part)
    os.remove(tmp_path / "x.npy")
    np.testing.assert_array_equal(pickle.loads(_dumps(array)), array)


def test_a_worker_gets_the_recipes_of_its_own_shards() -> None:
    data = np.arange(100_000.0)
    shards = Shards([partial(np.copy, data[k::10]) for k in range(10)])
    own = pickle.loads(_dumps(shards.some([3, 8])))
    assert len(_dumps(shards.some([3, 8]))) < 0.21 * len(_dumps(shards))
    assert len(own) == 10 and own.here(8)[1] == 18.0
    with pytest.raises(LookupError, match="loaded in another process"):
        own.here(4)
