"""Features of vectors: the formula, what they do not depend on, what the lift is for, bad input, files."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

import manifoldseq as ms
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VectorFeatures, VonMisesFisherMixture

X, y = (part[:240] for part in load_digits(return_X_y=True))


@pytest.mark.parametrize(
    ("model", "projected"),
    [
        (None, False),
        (HOPE(7, n_latent=5, max_iter=4), True),
        (PCAMovMF(7, n_latent=5, max_iter=4), True),
        (SphericalKMeans(7, max_iter=4), False),
    ],
    ids=["default", "hope", "pca", "spherical"],
)
@pytest.mark.parametrize("lift", [0.0, 0.7])
def test_features_are_those_of_the_formula(model, projected, lift):
    """Distances are taken one by one, as lengths of differences."""
    features = VectorFeatures(7, model=model, lift=lift, random_state=0).fit(X)
    centred = X - X.mean(axis=0)
    length = lift * np.sqrt(np.mean(np.sum(centred**2, axis=1)))
    m = features.model_.cluster_centers_ if isinstance(model, SphericalKMeans) else features.model_.directions_
    for x, found in zip(centred[:20], features.transform(X[:20]), strict=True):
        z = np.append(x, length) if lift else x
        z = features.model_.components_ @ z if projected else z
        d = np.array([np.linalg.norm(z / np.linalg.norm(z) - one) for one in m])
        np.testing.assert_allclose(found, np.maximum(0, d.mean() - d), atol=1e-7)


@pytest.mark.parametrize("scale", [1e-200, 3.0, 1e200])
def test_unit_and_origin_do_not_matter(scale):
    here = VectorFeatures(9, random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(VectorFeatures(9, random_state=0).fit(X * scale).transform(X * scale), here, atol=1e-9)
    moved = X + np.linspace(-50, 50, 64)
    np.testing.assert_allclose(VectorFeatures(9, random_state=0).fit(moved).transform(moved), here, atol=1e-6)


def test_the_lift_tells_lengths_apart():
    """Two classes have the same directions, one is four times as far."""
    rng = np.random.default_rng(0)
    rows, far = rng.standard_normal((400, 3)), np.arange(400) % 2
    rows *= np.where(far, 4.0, 1.0)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)

    def accuracy(lift):
        eta = VectorFeatures(30, lift=lift, random_state=0).fit(rows[:200]).transform(rows)
        return LinearSVC(C=10).fit(eta[:200], far[:200]).score(eta[200:], far[200:])

    assert accuracy(1.0) > 0.95 > 0.65 > accuracy(0.0)


def test_a_row_at_the_mean_and_few_rows():
    with_mean = np.concatenate([X, X.mean(axis=0, keepdims=True)])
    assert not VectorFeatures(5, lift=0, random_state=0).fit(with_mean).transform(with_mean)[-1].any()
    features = VectorFeatures(random_state=0).fit(X)
    assert features.transform(X).shape == (240, 80) and features.transform(X.astype(np.float32)).dtype == np.float32
    assert VectorFeatures(random_state=0).fit(X[:2]).transform(X[:2]).shape == (2, 2)
    assert features.get_feature_names_out()[0] == "vectorfeatures0"


@pytest.mark.parametrize(
    ("settings", "rows", "words"),
    [
        ({"n_components": 0}, X, "n_components=0 is not valid: pass a whole number of at least 1"),
        ({"n_components": 300}, X, "n_components=300 exceeds n_samples=240"),
        ({"lift": -1.0}, X, "lift=-1.0 is not valid"),
        ({"center": "yes"}, X, "center='yes' is not valid"),
        ({"model": HOPE(4, n_latent=3, family="gmm")}, X, "has no directions: pass VonMisesFisherMixture"),
        ({"model": LinearSVC()}, X, "has no directions"),
        ({}, np.full((20, 4), 0.1), "all rows of X are equal"),
        ({}, X * 1e306, "too large to be summed"),
        ({"center": False, "lift": 0.0}, np.zeros((20, 4)), "every row of X is all zeros"),
    ],
)
def test_bad_input_raises_an_error(settings, rows, words):
    with pytest.raises(ValueError, match=words) as caught:
        VectorFeatures(**{"n_components": 4, "random_state": 0, **settings}).fit(rows)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_conventions_and_files(tmp_path):
    ms.testing.check_estimator(VectorFeatures()).raise_for_failure()
    assert ms.get_estimator("vector-features") is VectorFeatures
    features = VectorFeatures(model=VonMisesFisherMixture(6, kappa="shared"), random_state=0).fit(X)
    ms.storage.save_model(features, tmp_path)
    np.testing.assert_array_equal(ms.storage.load_model(tmp_path).transform(X), features.transform(X))


POSITIVE = np.abs(np.random.default_rng(0).standard_normal((300, 40))) + 3


def test_a_concentration_that_makes_components_alike_is_told():
    """Rows that all point the same way: features tell nothing, of the mixture itself and of `VectorFeatures`."""
    words = "kappa=40 is too low for these rows, so all components have the same direction"
    with pytest.warns(UserWarning, match=words):
        VectorFeatures(center=False, model=PCAMovMF(20, n_latent=5, kappa=40.0), random_state=0).fit(POSITIVE)
    for model in (VonMisesFisherMixture(4, kappa=40.0), HOPE(4, n_latent=5, kappa=40.0)):
        with pytest.warns(UserWarning, match=words):
            model.set_params(random_state=0).fit(POSITIVE)
        assert (model.directions_ @ model.directions_.T).min() > 0.999
        model.fit(POSITIVE - POSITIVE.mean(axis=0))  # says nothing
    VonMisesFisherMixture(1, kappa=40.0).fit(POSITIVE)


def test_features_that_are_all_zero_are_told():
    rows = np.random.default_rng(0).standard_normal((60, 4))
    with pytest.warns(UserWarning, match="one component was learned, whose feature is zero for every row"):
        features = VectorFeatures(model=VonMisesFisherMixture("auto"), random_state=0).fit(rows)
    assert not features.transform(rows).any()


def test_a_number_together_with_a_model_warns():
    rows = np.random.default_rng(0).standard_normal((60, 4))
    with pytest.warns(UserWarning, match=r"n_components=7 is ignored, since model=VonMises"):
        features = VectorFeatures(7, model=VonMisesFisherMixture(3), random_state=0).fit(rows)
    assert features.transform(rows).shape == (60, 3)


def test_sparse_rows_raise_an_error():
    rows = np.random.default_rng(0).random((60, 10))
    features = VectorFeatures(5, random_state=0).fit(rows)
    for call in (features.fit, features.transform):
        with pytest.raises(TypeError, match=r"X is sparse, but centred rows are dense: pass X.toarray\(\)"):
            call(csr_array(rows))
