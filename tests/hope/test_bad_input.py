"""Rows of any size, and errors for rows that cannot be learned from."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits

from manifoldseq_hope import HOPE, HOPEStack, PCAMovMF, SphericalKMeans, VonMisesFisherMixture, concentration, gaussian

X, y = (part[:150] for part in load_digits(return_X_y=True))

DIRECTIONAL = {
    "hope": lambda: HOPE(4, n_latent=5, max_iter=5, random_state=0),
    "vmf-mixture": lambda: VonMisesFisherMixture(4, max_iter=5, random_state=0),
    "pca-movmf": lambda: PCAMovMF(4, n_latent=5, max_iter=5, random_state=0),
    "spherical-kmeans": lambda: SphericalKMeans(4, max_iter=5, random_state=0),
}


@pytest.mark.parametrize(("dtype", "scale"), [(float, 1e200), (float, 1e-200), (np.float32, 1e30), (np.float32, 1e-38)])
@pytest.mark.parametrize("name", DIRECTIONAL)
def test_directions_do_not_depend_on_the_unit(name, dtype, scale):
    """Squares of these rows over- or underflow."""
    rows = (X * scale).astype(dtype)
    here, there = (DIRECTIONAL[name]().fit(data) for data in (X, rows))
    np.testing.assert_allclose(there.transform(rows), here.transform(X), atol=0.05 if dtype == np.float32 else 1e-6)
    assert (there.predict(rows) == here.predict(X)).mean() > 0.99


@pytest.mark.parametrize("family", ["gmm", "gmm-full"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.ones((30, 8)), "X does not vary"),
        (np.zeros((30, 8)), "X does not vary"),
        (X * 1e200, "too large to be squared in float64"),
        ((X * 1e30).astype(np.float32), "too large to be squared in float32"),
    ],
    ids=["constant", "zero", "huge", "huge float32"],
)
def test_gaussians_reject_what_has_no_variance(family, rows, words):
    with pytest.raises(ValueError, match=words) as caught:
        HOPE(2, n_latent=3, family=family, random_state=0).fit(rows)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("M", "K"), [(1, 1), (1, 4), (64, 1), (64, 3)])
@pytest.mark.filterwarnings("ignore:X has . different direction:sklearn.exceptions.ConvergenceWarning")  # on a line
@pytest.mark.parametrize("family", ["movmf", "gmm", "gmm-full"])
def test_smallest_and_largest_sizes(family, M, K):
    model = HOPE(K, n_latent=M, family=family, max_iter=4, random_state=0).fit(X)
    for values in (model.transform(X), model.score_samples(X), model.inverse_transform(model.transform(X[:5]))):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.sample(3, random_state=0)[0].shape == (3, 64)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threshold": np.inf}, "threshold=inf is not valid: pass a finite number"),
        ({"threshold": "a"}, "threshold='a' is not valid: pass a finite number"),
        ({"noise_floor": np.inf}, "noise_floor=inf is not valid: pass a finite number of at least 0"),
        ({"family": "gmm", "variance_floor": np.inf}, "variance_floor=inf is not valid: pass a finite number above 0"),
        ({"quantile": 2}, "quantile=2 is not valid: pass a number of at least 0 and at most 1"),
        ({"normalize_z": "no"}, "normalize_z='no' is not valid: pass True or False"),
        ({"family": gaussian("diag"), "prepare": "l2"}, "prepare='l2' is not known"),
        ({"solver": "lbfgs", "solver_options": 3}, "solver_options=3 is not valid: pass a dict"),
    ],
)
def test_settings_that_make_no_sense_raise_an_error(settings, words):
    with pytest.raises(ValueError, match=words):
        HOPE(2, n_latent=3, max_iter=2, random_state=0, **settings).fit(X)


@pytest.mark.parametrize("model", [HOPE(2, n_latent=3), SphericalKMeans(2), HOPEStack([(3, 4)])])
def test_a_checkpoint_is_a_folder(model):
    with pytest.raises(ValueError, match="checkpoint=3 is not valid: name a folder, or pass a Checkpoint"):
        model.fit(X, checkpoint=3)


def test_no_cap_of_concentrations():
    assert HOPE(2, n_latent=3, largest_kappa=np.inf, max_iter=2, random_state=0).fit(X).n_capped_ == 0
    assert concentration(3, 0.5, largest=np.inf) == pytest.approx(concentration(3, 0.5))


def test_a_stack_names_what_is_wrong():
    with pytest.raises(ValueError, match="network=3 is not valid: pass a HOPENetworkClassifier"):
        HOPEStack([(3, 4)], network=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="y has one class, 7: pass rows of at least two"):
        HOPEStack([(3, 4)], random_state=0).fit(X, np.full(len(X), 7))


@pytest.mark.parametrize("make", [lambda: HOPE("auto", n_latent=2), lambda: SphericalKMeans("auto")])
def test_a_number_that_is_not_chosen_here_names_who_chooses_it(make):
    words = "='auto' is supported only by VonMisesFisherMixture and PCAMovMF, which choose"
    with pytest.raises(ValueError, match=words):
        make().fit(np.random.default_rng(0).random((20, 5)))


SPARSE = random_array((50, 20), density=0.3, random_state=0).tocsr()


def with_entry(value: Any) -> csr_array:
    data = SPARSE.astype(np.result_type(SPARSE.dtype, type(value))).data.copy()
    data[SPARSE.indptr[7]] = value
    return csr_array((data, SPARSE.indices, SPARSE.indptr), SPARSE.shape)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.nan, "X has NaN in row 7, column {column}: remove or fill it"),
        (-np.inf, "X has infinity in row 7, column {column}: remove or clip it"),
        (1j, "X has dtype complex128: pass real numbers"),
    ],
)
@pytest.mark.parametrize("kind", [VonMisesFisherMixture, PCAMovMF, SphericalKMeans])
def test_sparse_rows_get_the_same_short_sentences_as_dense_ones(kind: Any, value: Any, sentence: str) -> None:
    model = kind(3, **({"n_latent": 2} if kind is PCAMovMF else {}))
    bad = with_entry(value)
    for X in (bad, bad.toarray()):
        with pytest.raises(ValueError) as caught:
            model.fit(X)
        assert str(caught.value).startswith(sentence.format(column=SPARSE.indices[SPARSE.indptr[7]]))
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 120


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, PCAMovMF])
def test_sparse_features_are_located_as_dense_ones(kind: Any) -> None:
    model = kind(3, random_state=0, threshold=-5.0, **({"n_latent": 2} if kind is PCAMovMF else {})).fit(SPARSE)
    eta = model.transform(SPARSE)
    np.testing.assert_array_equal(model.locate(csr_array(eta)), model.locate(eta))
    np.testing.assert_array_equal(model.inverse_transform(csr_array(eta)), model.inverse_transform(eta))
