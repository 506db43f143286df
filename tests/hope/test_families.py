"""Families of components, a third one in one file among them."""

import dataclasses

import numpy as np
import pytest
from hope.problems import clusters
from hope.spherical_gaussian import SPHERICAL
from scipy.stats import multivariate_normal, vonmises_fisher

from manifoldseq_hope import HOPE, check_family, gaussian, von_mises_fisher


@pytest.mark.parametrize(
    "family", [von_mises_fisher(), gaussian("diag"), gaussian("full"), SPHERICAL], ids=lambda family: family.name
)
def test_laws(family):
    check_family(family).raise_for_failure()


def test_approximate_bessel_function_has_another_maximum():
    report = check_family(von_mises_fisher("paper"), M=10)
    assert [law.name for law in report.failures] == ["maximize is where the gradient vanishes"]


def test_check_finds_a_wrong_function():
    wrong = dataclasses.replace(SPHERICAL, pullback=lambda Z, G: Z * G[:, :1] + G[:, 1:])
    assert [law.name for law in check_family(wrong).failures] == ["pullback is the derivative of the statistics"]
    wrong = dataclasses.replace(SPHERICAL, natural=lambda p, M: (SPHERICAL.natural(p, M)[0], np.zeros(len(p[0]))))
    assert not check_family(wrong).ok


def test_third_family_is_learned():
    X = clusters()
    model = HOPE(4, n_latent=3, family=SPHERICAL, random_state=0).fit(X)
    assert model.parameters_[1].shape == (4,)
    full = HOPE(4, n_latent=3, family="gmm", random_state=0).fit(X)
    assert full.log_likelihood_ > model.log_likelihood_  # it has more parameters


def test_mixture_of_a_third_family_is_that_of_scipy():
    """(7): weights times densities."""
    X = clusters()
    model = HOPE(4, n_latent=3, family=SPHERICAL, prepare=None, random_state=0).fit(np.vstack([X, X[:90]]))
    assert model.weights_.max() > 1.5 * model.weights_.min()
    z, parts = X @ model.components_.T, zip(*model.parameters_, strict=True)
    expected = np.stack([multivariate_normal(mean, variance).logpdf(z) for mean, variance in parts], axis=1)
    np.testing.assert_allclose(model.log_contributions(X), np.log(model.weights_) + expected, rtol=1e-9)


def test_shared_and_fixed_concentrations():
    S, counts = np.array([[30.0, 0, 0], [0, 5.0, 0]]), np.array([40.0, 10.0])
    (shared,) = von_mises_fisher(kappa="shared").maximize(S, counts, 3)
    (alone,) = von_mises_fisher().maximize(np.array([[35.0, 0, 0]]), np.array([50.0]), 3)
    np.testing.assert_allclose(np.linalg.norm(shared, axis=1), np.linalg.norm(alone))
    (fixed,) = von_mises_fisher(kappa=7).maximize(S, counts, 3)
    np.testing.assert_allclose(np.linalg.norm(fixed, axis=1), 7)


def test_covariances_stay_positive_definite():
    """Rows in a plane: the likeliest covariance is the one of the rows with its eigenvalues raised to the floor."""
    Z = np.random.default_rng(0).standard_normal((50, 3)) @ np.array([[2.0, 1, 0], [0, 1, 1], [0, 0, 0]])
    family = gaussian("full", 0.1)
    means, covariances = family.maximize(np.sum(family.statistics(Z), axis=0)[None], np.array([50.0]), 3)
    values, vectors = np.linalg.eigh(np.cov(Z.T, bias=True))
    np.testing.assert_allclose(covariances[0], vectors @ np.diag(np.maximum(values, 0.1)) @ vectors.T, atol=1e-12)
    np.testing.assert_allclose(means[0], Z.mean(axis=0))
    family = gaussian("diag", 0.1)
    flat = Z * [1, 1, 0.01]
    _, variances = family.maximize(np.sum(family.statistics(flat), axis=0)[None], np.array([50.0]), 3)
    np.testing.assert_allclose(variances[0], np.maximum(flat.var(axis=0), 0.1), rtol=1e-9)


def test_draws_are_those_of_scipy():
    mu = np.array([[0.0, 0.0, 5.0, 0.0]])
    rng = np.random.default_rng(0)
    ours = von_mises_fisher().sample((mu,), np.zeros(20000, int), 4, rng)[:, 2]
    theirs = vonmises_fisher(mu[0] / 5, 5.0).rvs(20000, random_state=rng)[:, 2]
    np.testing.assert_allclose(np.quantile(ours, [0.1, 0.5, 0.9]), np.quantile(theirs, [0.1, 0.5, 0.9]), atol=0.02)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: von_mises_fisher("exakt"), "bessel='exakt'"),
        (lambda: von_mises_fisher(kappa=-1), "kappa=-1"),
        (lambda: von_mises_fisher(largest=0), "largest=0"),
        (lambda: check_family(3), "family=3 is not valid: pass a Family"),
        (lambda: gaussian("tied"), "covariance_type='tied'"),
        (lambda: gaussian(floor=0.0), "floor=0.0"),
    ],
)
def test_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()
