"""What was begun with one Generator is not continued with another, by any estimator and by ``minimize``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import absent_names

import manifoldseq as ms
from manifoldseq.estimators import seed_fingerprint

ITERATIONS = {"max_iter": 2}


def spherical_kmeans() -> Any:
    """Return the mixture of two extractors of features."""
    return ms.get_estimator("spherical-kmeans")(3, max_iter=2)


SMALL: dict[str, dict[str, Any]] = {
    "hope": {"n_components": 2, "n_latent": 3, **ITERATIONS},
    "vmf-mixture": {"n_components": 2, **ITERATIONS},
    "spherical-kmeans": {"n_clusters": 3, **ITERATIONS},
    "pca-movmf": {"n_components": 2, "n_latent": 3, **ITERATIONS},
    "convolutional-features": {"patch_size": 3, "n_patches": 40, "model": spherical_kmeans},
    "vector-features": {"n_components": 3, "model": spherical_kmeans},
    "hope-stack": {"layers": [(3, 4)]},
    "hope-network": {"layers": [(3, 4)], **ITERATIONS},
    "subspace-kmeans": {"n_clusters": 3, "n_components": 2, "n_init": 1, **ITERATIONS},
    "lds-kmeans": {"n_clusters": 2, "n_states": 1, "n_init": 1, **ITERATIONS},
    "sequence-kmeans": {"n_clusters": 2, "n_init": 2},
    "lds-dictionary": {"n_atoms": 2, "n_states": 1, **ITERATIONS},
    "lds-spectral": {"n_clusters": 2, "n_states": 1},
    "lds-sparse-coder": {"n_atoms": 2, "n_states": 1},
    "bag-of-systems": {"n_clusters": 2, "n_states": 1, **ITERATIONS},
    "pyramid-pooling": {"n_atoms": 2, "n_states": 1, **ITERATIONS},
    "mixture-pcca": {"n_components": 2, "n_latent": 1, "n_init": 1, **ITERATIONS},
    "fisher-vector": {"n_components": 2, **ITERATIONS},
    "super-vector": {"n_components": 2, "n_latent": 1, **ITERATIONS},
}
DRAW_SEEDS = ("hope-stack", "fisher-vector", "super-vector", "convolutional-features", "vector-features")
"""They draw the seeds of their parts, and default_rng(0) draws the same after it was spawned from, and as 0 does."""
NEEDS = {"hope-network": "torch"}
RNG = np.random.default_rng(7)
ROWS = np.abs(RNG.standard_normal((60, 36)))
SEQUENCES = [RNG.standard_normal((12, 2)).cumsum(axis=0) for _ in range(6)]
VIEWS = [RNG.standard_normal((80, 4)), RNG.standard_normal((80, 3))]
BAGS = [[RNG.standard_normal((15, d)) for _ in range(6)] for d in (4, 3)]


def resumable() -> list[str]:
    """Return every estimator that takes a checkpoint and draws."""
    found = []
    for plugin, record in ms.hooks.records("estimators"):
        factory: Any = record.resolved().factory  # type: ignore[attr-defined]
        # the start of the encoder of subspaces is the solution: nothing is drawn
        if (
            plugin.name != "session"
            and record.name != "subspace-encoder"
            and "random_state" in signature(factory).parameters
            and "checkpoint" in signature(factory.fit).parameters
        ):
            found.append(record.name)
    return found


def test_the_list_is_whole() -> None:
    assert sorted(resumable()) == sorted(set(SMALL) - absent_names("estimators"))


def fit(name: str, random_state: Any, folder: Path, resume: bool = True) -> Any:
    """Fit a small estimator to a few data."""
    record: Any = ms.hooks.get_record(ms.hooks.EstimatorSpec, name)
    settings = {key: value() if callable(value) else value for key, value in SMALL[name].items()}
    model = record.factory(**settings, random_state=random_state)
    data = {"samples": (ROWS,), "sequences": (SEQUENCES,), "views": VIEWS, "bags": BAGS}[record.input]
    if name == "hope-network":
        data = (ROWS, np.arange(60) % 2)
    if name == "convolutional-features":
        data = (ROWS.reshape(60, 6, 6),)
    return model.fit(*data, checkpoint=ms.storage.Checkpoint(folder, every_seconds=0), resume=resume)


OTHERS: dict[str, Callable[[], Any]] = {
    "seed": lambda: np.random.default_rng(1),
    "state": lambda: drawn(np.random.default_rng(0)),
    "spawned": lambda: spawned(np.random.default_rng(0)),
    "kind": lambda: np.random.Generator(np.random.MT19937(0)),
    "RandomState": lambda: np.random.RandomState(0),
    "number": lambda: 0,
}


def drawn(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that drew."""
    rng.random()
    return rng


def spawned(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator whose next children are others."""
    rng.spawn(1)
    return rng


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a few data and two iterations: nothing converges
@pytest.mark.parametrize("name", SMALL)
def test_estimators_reject_another_generator(name: str, tmp_path: Path) -> None:
    if find_spec(NEEDS.get(name, "numpy")) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    fit(name, np.random.default_rng(0), tmp_path)
    fit(name, np.random.default_rng(0), tmp_path)
    for kind, other in OTHERS.items():
        if kind in ("spawned", "number") and name in DRAW_SEEDS:
            continue
        with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
            fit(name, other(), tmp_path)


A = np.arange(4.0)
PROBLEM = ms.Problem(ms.manifolds.Sphere(4), ms.objective(lambda x: float(x @ A), lambda x: A))


def single(**options: Any) -> Any:
    problem = ms.Problem(
        ms.manifolds.Sphere(4), ms.objective(lambda x: float(x @ np.arange(4.0)), lambda x: np.arange(4.0))
    )
    return ms.minimize(problem, stop=ms.MaxIterations(2), **options)


def batch(**options: Any) -> Any:
    problem = ms.Problem(
        ms.manifolds.Sphere(4), ms.objective(lambda x: float(x @ np.arange(4.0)), lambda x: np.arange(4.0))
    )
    return ms.minimize_batch(problem, n_problems=3, stop=ms.MaxIterations(2), **options)


@pytest.mark.parametrize("run", [single, batch])
def test_minimize_rejects_another_generator(run: Callable[..., Any], tmp_path: Path) -> None:
    for _ in range(2):
        run(seed=np.random.default_rng(0), checkpoint=tmp_path, resume=True)
    for name, other in OTHERS.items():
        if name != "RandomState":
            with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
                run(seed=other(), checkpoint=tmp_path, resume=True)


def test_fingerprints_of_seeds_are_equal_only_if_the_same_is_drawn() -> None:
    prints = {name: seed_fingerprint(other()) for name, other in OTHERS.items()}
    assert prints == {name: seed_fingerprint(other()) for name, other in OTHERS.items()}
    others = [None, 1, np.random.default_rng(0), np.random.SeedSequence(0), np.random.PCG64(0), np.random.SFC64(0)]
    assert len({*prints.values(), *map(seed_fingerprint, others)}) == len(prints) + len(others)
    assert seed_fingerprint(np.int64(3)) == seed_fingerprint(3) != seed_fingerprint(None)
    late = np.random.Generator(np.random.MT19937(0))
    late.random(10**6)  # the whole key of the state counts
    assert seed_fingerprint(late) != prints["kind"]
