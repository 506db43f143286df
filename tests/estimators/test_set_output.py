"""`set_output` and feature names of every bundled transformer, by pandas."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from helpers import absent_names, parametrize
from sklearn.base import clone

import manifoldseq as ms

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((60, 6)) + 3 * np.repeat(RNG.standard_normal((3, 6)), 20, axis=0)
SECOND = ROWS @ RNG.standard_normal((6, 4)) + RNG.standard_normal((60, 4))
TIME = np.arange(40)[:, None]
SEQUENCES = [np.cos(TIME * w + RNG.uniform(0, 6) + np.arange(3)) for w in [0.2] * 5 + [0.9] * 5]
BAGS = [RNG.standard_normal((8, 5)) + i % 2 for i in range(12)]
VIDEOS = [RNG.standard_normal((12, 8, 8)) for _ in range(4)]

CASES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "lds-kmeans": ({"n_clusters": 2, "n_states": 2}, (SEQUENCES,)),
    "lds-kernel-matrix": ({"n_states": 2}, (SEQUENCES,)),
    "lds-sparse-coder": ({"n_atoms": 4, "n_states": 2}, (SEQUENCES,)),
    "lds-dictionary": ({"n_atoms": 4, "n_states": 2, "max_iter": 2}, (SEQUENCES,)),
    "bag-of-systems": ({"n_clusters": 3, "n_states": 2}, (SEQUENCES,)),
    "pyramid-pooling": ({"n_atoms": 3, "n_states": 2, "max_iter": 2}, (SEQUENCES,)),
    "pyramid-pooling of videos": ({"n_atoms": 3, "n_states": 2, "max_iter": 2}, (VIDEOS,)),
    "sequence-kmeans": ({"n_clusters": 2, "kernel": "sum"}, (SEQUENCES,)),
    "mixture-pcca": ({"n_components": 2, "n_latent": 2, "max_iter": 5, "covariance_type": "diag"}, (ROWS, SECOND)),
    "fisher-vector": ({"n_components": 2, "max_iter": 5}, ([BAGS],)),
    "super-vector": ({"n_components": 2, "n_latent": 1, "max_iter": 5}, (BAGS, [b[:, :3] ** 2 for b in BAGS])),
    "hope": ({"n_components": 3, "n_latent": 2, "max_iter": 5}, (ROWS,)),
    "vmf-mixture": ({"n_components": 3, "max_iter": 5}, (ROWS,)),
    "pca-movmf": ({"n_components": 3, "n_latent": 2, "max_iter": 5}, (ROWS,)),
    "spherical-kmeans": ({"n_clusters": 3}, (ROWS,)),
    "vector-features": ({"n_components": 3}, (ROWS,)),
    "subspace-encoder": ({"n_segments": 3}, (ROWS,)),
    "subspace-kmeans": ({"n_clusters": 3}, (ROWS,)),
    "hierarchical-encoder": ({"segment_length": 2, "branching": 2}, (ROWS,)),
}
OTHERS = ("predict", "predict_proba", "score_samples", "score", "reconstruction_errors")


def test_every_transformer_of_arrays_is_here() -> None:
    records = ms.hooks.records("estimators")
    names = {
        record.name
        for plugin, record in records
        if plugin.name in ("lds", "hope", "mpcca", "hierarchical", "sequences")
        and hasattr(record.resolved().factory, "transform")  # type: ignore[attr-defined]
    }
    elsewhere = {"lds-identifier", "convolutional-features", "hope-stack", "hope-network"}  # systems, images, torch
    assert names - elsewhere == {name.split(" ")[0] for name in CASES} - absent_names("estimators")


@parametrize("name", CASES, fast=5)
def test_frames_have_named_columns_and_nothing_else_changes(name: str) -> None:
    settings, data = CASES[name]
    plain = ms.get_estimator(name.split(" ")[0])(**settings)
    if "random_state" in plain.get_params():
        plain.set_params(random_state=0)
    if data[0] is VIDEOS:
        data = (import_module("manifoldseq_lds").VideoBlocks((6, 4, 4)).fit_transform(VIDEOS),)
    plain = plain.fit(*data)
    framed = clone(plain).set_output(transform="pandas").fit(*data)
    expected, frame = plain.transform(*data), framed.transform(*data)
    assert isinstance(expected, np.ndarray) and isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(framed.get_feature_names_out()) and frame.columns.is_unique
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    assert isinstance(clone(plain).set_output(transform="pandas").fit_transform(*data), pd.DataFrame)
    for method in OTHERS:
        ask: Callable[[Any], Any] | None = getattr(plain, method, None)
        if ask is not None and not (
            method == "score" and name in ("subspace-encoder", "hierarchical-encoder")
        ):  # need y
            np.testing.assert_array_equal(np.asarray(getattr(framed, method)(*data)), np.asarray(ask(*data)))


def test_rows_keep_the_index_of_the_first_view() -> None:
    X, Y = pd.DataFrame(ROWS, index=np.arange(60) + 100), pd.DataFrame(SECOND)
    X.columns, Y.columns = [f"x{i}" for i in range(6)], [f"y{i}" for i in range(4)]
    frame = (
        ms.get_estimator("mixture-pcca")(2, 1, max_iter=5, random_state=0, covariance_type="diag")
        .set_output(transform="pandas")
        .fit(X, Y)
        .transform(X, Y)
    )
    assert frame.index.tolist() == X.index.tolist() and list(frame.columns) == ["mixturepcca0", "mixturepcca1"]
