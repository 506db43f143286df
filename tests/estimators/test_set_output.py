"""`set_output` and feature names of every bundled transformer, by pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder, SubspaceEncoder, SubspaceKMeans
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VectorFeatures, VonMisesFisherMixture
from manifoldseq_lds import (
    BagOfSystems,
    LDSDictionaryLearning,
    LDSKernelMatrix,
    LDSKMeans,
    LDSSparseCoder,
    PyramidPooling,
    VideoBlocks,
)
from manifoldseq_mpcca import FisherVector, MixturePCCA, MultiViewSuperVector

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((60, 6)) + 3 * np.repeat(RNG.standard_normal((3, 6)), 20, axis=0)
SECOND = ROWS @ RNG.standard_normal((6, 4)) + RNG.standard_normal((60, 4))
TIME = np.arange(40)[:, None]
SEQUENCES = [np.cos(TIME * w + RNG.uniform(0, 6) + np.arange(3)) for w in [0.2] * 5 + [0.9] * 5]
BAGS = [RNG.standard_normal((8, 5)) + i % 2 for i in range(12)]
BLOCKS = VideoBlocks((6, 4, 4)).fit_transform([RNG.standard_normal((12, 8, 8)) for _ in range(4)])

CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "lds-kmeans": (LDSKMeans(2, n_states=2, random_state=0), (SEQUENCES,)),
    "lds-kernel-matrix": (LDSKernelMatrix(n_states=2), (SEQUENCES,)),
    "lds-sparse-coder": (LDSSparseCoder(n_atoms=4, n_states=2, random_state=0), (SEQUENCES,)),
    "lds-dictionary": (LDSDictionaryLearning(4, n_states=2, max_iter=2, random_state=0), (SEQUENCES,)),
    "bag-of-systems": (BagOfSystems(3, n_states=2, random_state=0), (SEQUENCES,)),
    "pyramid-pooling": (PyramidPooling(3, n_states=2, max_iter=2, random_state=0), (SEQUENCES,)),
    "pyramid-pooling of videos": (PyramidPooling(3, n_states=2, max_iter=2, random_state=0), (BLOCKS,)),
    "mixture-pcca": (MixturePCCA(2, 2, max_iter=5, random_state=0, covariance_type="diag"), (ROWS, SECOND)),
    "fisher-vector": (FisherVector(2, max_iter=5, random_state=0), ([BAGS],)),
    "super-vector": (
        MultiViewSuperVector(2, n_latent=1, max_iter=5, random_state=0),
        (BAGS, [b[:, :3] ** 2 for b in BAGS]),
    ),
    "hope": (HOPE(3, n_latent=2, max_iter=5, random_state=0), (ROWS,)),
    "vmf-mixture": (VonMisesFisherMixture(3, max_iter=5, random_state=0), (ROWS,)),
    "pca-movmf": (PCAMovMF(3, n_latent=2, max_iter=5, random_state=0), (ROWS,)),
    "spherical-kmeans": (SphericalKMeans(3, random_state=0), (ROWS,)),
    "vector-features": (VectorFeatures(3, random_state=0), (ROWS,)),
    "subspace-encoder": (SubspaceEncoder(n_segments=3), (ROWS,)),
    "subspace-kmeans": (SubspaceKMeans(3, random_state=0), (ROWS,)),
    "hierarchical-encoder": (HierarchicalSequenceEncoder(segment_length=2, branching=2), (ROWS,)),
}
OTHERS = ("predict", "predict_proba", "score_samples", "score", "reconstruction_errors")


def test_every_transformer_of_arrays_is_here() -> None:
    records = ms.hooks.records("estimators")
    names = {
        record.name
        for plugin, record in records
        if plugin.name in ("lds", "hope", "mpcca", "hierarchical") and hasattr(record.resolved().factory, "transform")  # type: ignore[attr-defined]
    }
    elsewhere = {"lds-identifier", "convolutional-features", "hope-stack", "hope-network"}  # systems, images, torch
    assert names - elsewhere == {name.split(" ")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_frames_have_named_columns_and_nothing_else_changes(name: str) -> None:
    plain, data = CASES[name]
    plain = clone(plain).fit(*data)
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
        MixturePCCA(2, 1, max_iter=5, random_state=0, covariance_type="diag")
        .set_output(transform="pandas")
        .fit(X, Y)
        .transform(X, Y)
    )
    assert frame.index.tolist() == X.index.tolist() and list(frame.columns) == ["mixturepcca0", "mixturepcca1"]
