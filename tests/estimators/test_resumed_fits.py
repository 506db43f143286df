"""Fits without iterations of a solver store their stages: a killed fit ends as if it had not been killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms

RNG = np.random.default_rng(3)
LABELS = np.arange(36) % 3


def oscillations(n: int = 36) -> list[np.ndarray]:
    """Return sequences of three frequencies and four lengths."""
    found = []
    for i in range(n):
        t = np.arange((36, 40, 44, 50)[i // 3 % 4])[:, None]
        clean = np.cos(t * (0.2, 0.5, 0.9)[i % 3] + RNG.uniform(0, 6) + np.arange(2))
        found.append(clean + 0.1 * RNG.standard_normal(clean.shape))
    return found


SEQUENCES = oscillations()
HOLED = [np.where(np.arange(len(x))[:, None] % 9 == 4, np.nan, x) for x in SEQUENCES[:12]]
WALK = RNG.standard_normal((3000, 12)).cumsum(axis=0)


def make(name: str, *data: Any, **settings: Any) -> Callable[..., Any]:
    """Return a function that fits a registered estimator to data."""

    def fit(*others: Any, **loop: Any) -> Any:
        given = {**settings, **loop.pop("changed", {})}
        given = {key: value() if callable(value) else value for key, value in given.items()}
        return ms.get_estimator(name)(**given).fit(*(others or data), **loop)

    return fit


def smoothing() -> Any:
    """Return an identifier that fills missing values."""
    return ms.get_estimator("lds-identifier")(missing="smooth")


FITS: dict[str, Callable[..., Any]] = {
    "lds-classifier, residual": make("lds-classifier", SEQUENCES, LABELS, method="residual", n_states=2),
    "lds-neighbors": make("lds-neighbors", SEQUENCES, LABELS),
    "lds-kernel-matrix": make("lds-kernel-matrix", SEQUENCES),
    "lds-spectral": make("lds-spectral", SEQUENCES, n_clusters=3, random_state=0),
    "lds-classifier": make("lds-classifier", SEQUENCES, LABELS),
    "lds-sparse-coder": make("lds-sparse-coder", SEQUENCES, n_atoms=4, random_state=0),
    "lds-sparse-coder, k-means": make(
        "lds-sparse-coder", SEQUENCES, dictionary="k-means", n_states=2, n_atoms=4, random_state=0
    ),
    "lds-identifier": make("lds-identifier", SEQUENCES, n_states="auto"),
    "lds-identifier, energy": make("lds-identifier", SEQUENCES, n_states="energy:0.9", delay=3),
    "lds-identifier, em": make("lds-identifier", oscillations(150), n_states="auto", method="em"),
    "lds-kmeans": make("lds-kmeans", SEQUENCES, n_clusters=3, random_state=0),
    "bag-of-systems": make("bag-of-systems", SEQUENCES, n_clusters=3, window=20, random_state=0),
    "bag-of-systems, missing": make(
        "bag-of-systems", HOLED, n_clusters=2, window=20, n_states=2, identifier=smoothing, random_state=0
    ),
    "pyramid-pooling": make("pyramid-pooling", SEQUENCES, n_atoms=4, window=20, max_iter=4, random_state=0),
    "hierarchical-encoder": make("hierarchical-encoder", WALK),
    "hierarchical-encoder, budget": make("hierarchical-encoder", WALK, bytes_per_frame=0.5),
}
OTHER_DATA: dict[str, tuple[Any, ...]] = {"hierarchical-encoder": (WALK[::-1],)}
OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    "lds-neighbors": {"kernel": "martin"},
    "lds-kernel-matrix": {"moments": "none"},
    "lds-spectral": {"sharpness": 2.0},
    "lds-classifier": {"C": 1.0},
    "lds-sparse-coder": {"n_atoms": 5},
    "lds-identifier": {"scale": False},
    "lds-kmeans": {"n_clusters": 2},
    "bag-of-systems": {"window": 15},
    "pyramid-pooling": {"alpha": 0.05},
    "hierarchical-encoder": {"branching": 4},
}


def unmeasured(value: Any) -> Any:
    """Return what a model document contains, without measured times."""
    if isinstance(value, dict):
        return {} if "measured" in value else {key: unmeasured(part) for key, part in value.items()}
    return [unmeasured(part) for part in value] if isinstance(value, list) else value


def bits(model: Any, folder: Path) -> tuple[bytes, Any]:
    """Return the arrays and the document of the model file of a fit."""
    ms.storage.save_model(model, folder)
    document = json.loads((folder / "model.json").read_text())
    return (folder / "model.npz").read_bytes(), unmeasured(document)


def n_events(fit: Callable[..., Any], **loop: Any) -> int:
    """Return how many events a fit sends."""
    events: list[ms.Event] = []
    fit(observers=[events.append], **loop)
    return len(events)


def raises_at(number: int, act: Callable[[], None]) -> Callable[[ms.Event], None]:
    """Return an observer that acts at an event."""
    seen = count(1)

    def observe(event: ms.Event) -> None:
        if next(seen) == number:
            act()

    return observe


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def kill() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # of settings for few data; of fork, where jax is loaded
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is of POSIX")
@parametrize("name", FITS, fast=3)
def test_a_killed_fit_is_resumed_bit_equal(name: str, tmp_path: Path) -> None:
    fit = FITS[name]
    whole = bits(fit(), tmp_path / "whole")
    store = ms.storage.Checkpoint(tmp_path / "run", every_seconds=0)
    n = n_events(fit, checkpoint=store)
    for share in (1, 2, 3):
        at, folder = max(3, n * share // 4), tmp_path / f"run-{share}"
        store = ms.storage.Checkpoint(folder, every_seconds=0)
        child = os.fork()
        if not child:
            try:
                signal.alarm(60)
                fit(checkpoint=store, observers=[raises_at(at, kill)])
            finally:
                os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert list(folder.rglob("checkpoint-*.npz"))
        events: list[ms.Event] = []
        resumed = fit(checkpoint=store, resume=True, observers=[events.append])
        assert bits(resumed, tmp_path / "resumed") == whole
        assert len(events) < n  # stored results are not computed again


@pytest.mark.filterwarnings("ignore")
@parametrize("name", FITS, fast=2)
def test_ctrl_c_leaves_a_checkpoint_that_is_resumed(name: str, tmp_path: Path) -> None:
    fit = FITS[name]
    at = max(2, n_events(fit) // 2)
    ended = []
    try:
        model = fit(checkpoint=tmp_path / "run", observers=[raises_at(at, interrupt)])
        ended = [model.status_]  # k-means and dictionaries keep the best state
    except KeyboardInterrupt:
        ended = [ms.Status.INTERRUPTED]
    assert ended == [ms.Status.INTERRUPTED]
    assert list((tmp_path / "run").rglob("checkpoint-*.npz"))
    resumed = fit(checkpoint=tmp_path / "run", resume=True)
    assert bits(resumed, tmp_path / "resumed") == bits(fit(), tmp_path / "whole")


@pytest.mark.filterwarnings("ignore")
@parametrize("name", OTHER_SETTINGS, fast=2)
def test_other_data_or_settings_are_not_resumed(name: str, tmp_path: Path) -> None:
    fit = FITS[name]
    fit(checkpoint=tmp_path)
    data = OTHER_DATA.get(name, ([2 * SEQUENCES[0] + SEQUENCES[1], *SEQUENCES[1:]], LABELS))
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        fit(*data, checkpoint=tmp_path, resume=True)
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        fit(changed=OTHER_SETTINGS[name], checkpoint=tmp_path, resume=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["em", "n4sid"])
def test_sweeps_of_an_identification_are_not_changed_by_a_resume(method: str, tmp_path: Path) -> None:
    """Fingerprints leave out `max_iter`, on which the stored systems depend."""
    settings = {"n_states": 2, "identifier": ms.get_estimator("lds-identifier")(method=method, max_iter=2)}
    fit = make("lds-neighbors", SEQUENCES[:8], **settings)
    fit(checkpoint=tmp_path)
    more = {"identifier": ms.get_estimator("lds-identifier")(method=method, max_iter=3)}
    with pytest.raises(ms.storage.CheckpointError, match="belongs to other data or settings"):
        fit(changed=more, checkpoint=tmp_path, resume=True)


def test_all_estimators_of_plugins_take_a_checkpoint() -> None:
    """The baselines of the core are short."""
    lacking = []
    for plugin, record in ms.hooks.records("estimators"):
        factory: Any = record.resolved().factory  # type: ignore[attr-defined]
        if plugin.distribution in ms.hooks.BUNDLED and {"observers", "checkpoint", "resume"} - {
            *signature(factory.fit).parameters
        }:
            lacking.append(record.name)
    assert not lacking
