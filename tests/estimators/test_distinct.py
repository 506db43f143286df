"""Fewer different members than clusters: the count against `np.unique`, and one warning of every clustering."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from manifoldseq.estimators import count_distinct, differing, distinct_rows, row_blocks, warn_of_few_distinct
from manifoldseq_hierarchical import SubspaceKMeans
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VonMisesFisherMixture
from manifoldseq_lds import LDSDictionaryLearning, LDSKMeans, LDSSpectralClustering
from manifoldseq_mpcca import MixturePCCA


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", [1, 1000])
def test_the_count_is_that_of_numpy(dtype: Any, sparse: bool, scale: int) -> None:
    rng = np.random.default_rng(0)
    for different in (1, 2, 7):
        X = scale * rng.integers(-3, 4, (different, 5)).astype(dtype)[rng.integers(different, size=300)]
        expected = len(np.unique(X, axis=0))
        blocks = [csr_array(X[part]) if sparse else X[part] for part in row_blocks(len(X), 64)]
        assert [count_distinct(blocks, most) for most in (1, 5, 20)] == [min(most, expected) for most in (1, 5, 20)]


@pytest.mark.parametrize("sparse", [False, True])
def test_merged_rows_have_the_weights_of_their_copies(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X, weight = rng.integers(0, 2, (60, 4)).astype(float), rng.integers(0, 3, 60).astype(float)
    rows, total, place = distinct_rows(csr_array(X) if sparse else X, weight)
    rows = rows.toarray() if sparse else rows
    np.testing.assert_array_equal(rows, np.unique(X, axis=0))
    np.testing.assert_array_equal(rows[place], X)
    assert total.tolist() == [weight[(X == row).all(axis=1)].sum() for row in rows]


def test_members_that_differ_come_with_the_farthest_first() -> None:
    """By a loop, from nothing and from known members."""
    x = np.random.default_rng(0).standard_normal(40).round(1)
    for known in ([], [0.0, 1.0]):
        expected: list[float] = []
        for _ in range(5):
            away = [min((abs(one - other) for other in [*known, *expected]), default=np.inf) for one in x]
            expected.append(float(x[int(np.argmax(away))]))
        apart = np.array([min(((one - other) ** 2 for other in known), default=np.inf) for one in x])
        found = differing(lambda i: (x - x[i]) ** 2, apart, 1e-9, 5)
        assert x[found].tolist() == expected
    assert len(differing(lambda i: (x - x[i]) ** 2, np.full(40, np.inf), 1e-9, 40)) == len(np.unique(x))


def test_rounding_makes_no_difference_and_a_small_angle_does() -> None:
    angles = np.array([0.3, 0.3 + 1e-16, 0.3 + 1e-6])
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    assert count_distinct([X[:1] * (1 + 2e-16), X], 5) == 2


def test_blocks_that_are_not_needed_are_not_asked_for() -> None:
    def blocks() -> Any:
        yield np.eye(3)
        raise AssertionError("asked for more")

    assert count_distinct(blocks(), 3) == 3


T = np.arange(40)[:, None]
SEQUENCES = [np.cos(w * T + np.arange(3)) for w in (0.3, 0.9)]
ROWS = np.random.default_rng(1).standard_normal((2, 4))
AGAIN = np.linspace(1, 5, 20)[:, None]
CASES: dict[str, tuple[Any, str, Any]] = {
    # rows that are multiples of two: two directions, up to rounding
    "spherical-kmeans": (SphericalKMeans, "n_clusters", np.vstack([AGAIN * row for row in ROWS])),
    "spherical-kmeans, sparse": (SphericalKMeans, "n_clusters", csr_array(np.vstack([AGAIN * row for row in ROWS]))),
    "spherical-kmeans, float32": (
        SphericalKMeans,
        "n_clusters",
        np.vstack([AGAIN * row for row in ROWS]).astype(np.float32),
    ),
    "spherical-kmeans, one column": (SphericalKMeans, "n_clusters", np.vstack([AGAIN, -AGAIN])),
    "vmf-mixture": (VonMisesFisherMixture, "n_components", np.vstack([AGAIN * row for row in ROWS])),
    "vmf-mixture, sparse": (VonMisesFisherMixture, "n_components", csr_array(np.vstack([AGAIN * r for r in ROWS]))),
    # any rows have two directions behind a projection onto a line
    "pca-movmf": (
        lambda n_components: PCAMovMF(n_components, n_latent=1),
        "n_components",
        np.random.default_rng(0).standard_normal((40, 4)),
    ),
    "hope": (
        lambda n_components: HOPE(n_components, n_latent=2),
        "n_components",
        np.vstack([AGAIN * row for row in ROWS]),
    ),
    "hope, Gaussians": (
        lambda n_components: HOPE(n_components, n_latent=1, family="gmm", normalize_z=False),
        "n_components",
        np.repeat(ROWS, 20, axis=0),
    ),
    "subspace-kmeans": (SubspaceKMeans, "n_clusters", np.repeat(ROWS, 20, axis=0)),
    "lds-kmeans": (lambda n_clusters: LDSKMeans(n_clusters, n_states=2), "n_clusters", SEQUENCES * 6),
    "lds-spectral": (lambda n_clusters: LDSSpectralClustering(n_clusters, n_states=2), "n_clusters", SEQUENCES * 6),
    "lds-dictionary": (lambda n_atoms: LDSDictionaryLearning(n_atoms, n_states=2), "n_atoms", SEQUENCES * 6),
}


@pytest.mark.parametrize("name", CASES)
def test_clusterings_warn_of_fewer_different_members_than_clusters(name: str) -> None:
    kind, parameter, X = CASES[name]
    model = kind(**{parameter: 3}).set_params(random_state=0)
    with pytest.warns(ConvergenceWarning, match="2 different (direction|row|frame|system|centre)s"):
        model.fit(X)
    with warnings.catch_warnings(record=True, action="always") as caught:
        kind(**{parameter: 2}).set_params(random_state=0).fit(X)
    assert not [one for one in caught if issubclass(one.category, ConvergenceWarning)]


def test_mixtures_that_choose_their_components_say_nothing() -> None:
    X = np.vstack([AGAIN * row for row in ROWS])
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert len(VonMisesFisherMixture("auto", random_state=0).fit(X).weights_) <= 2
    assert not [one for one in caught if issubclass(one.category, ConvergenceWarning)]


def test_a_mixture_of_views_raises() -> None:
    X = np.repeat(ROWS, 20, axis=0)
    with pytest.raises(ValueError, match="n_components=3 exceeds the 2 distinct rows"):
        MixturePCCA(3, 1, random_state=0).fit(X[:, :2], X[:, 2:])


def test_the_warning_counts() -> None:
    with pytest.warns(
        ConvergenceWarning, match="^X has 1 different row for n_clusters=3: the choice among equal clusters"
    ):
        warn_of_few_distinct(1, 3, "n_clusters", "rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_few_distinct(3, 3, "n_clusters", "rows")
