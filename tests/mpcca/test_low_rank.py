"""Private latent vectors inside EM: densities of the definition, no decrease, closed forms, what is filled in."""

import copy
import re

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import conditional, covariances, drawn, log_densities, mixture
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import manifoldseq as ms
from manifoldseq_mpcca import Mixture, MixturePCCA, gradient_vectors
from manifoldseq_mpcca._statistics import Prior

NAN = float("nan")
FIXED = dict(covariance_type="low-rank", n_private=2, diagonal=0.2, gate=1.0, random_state=0)


def private(K=3, sizes=(6, 5), d=2, q=(2, 1), seed=0):
    """Return a mixture with private latent vectors."""
    m, rng = mixture(K=K, sizes=sizes, d=d, spread=3), np.random.default_rng(seed)
    own = np.zeros((K, sum(sizes), sum(q)))
    own[:, : sizes[0], : q[0]] = rng.standard_normal((K, sizes[0], q[0]))
    own[:, sizes[0] :, q[0] :] = rng.standard_normal((K, sizes[1], q[1]))
    return Mixture(m.weights, m.means, np.concatenate([m.loadings, own], axis=2), m.noise, q)


@pytest.fixture(scope="module")
def fitted():
    views, _ = drawn(private(), 300)
    return MixturePCCA(3, 2, shrinkage=20.0, max_iter=40, **FIXED).fit(*views), views


@pytest.mark.parametrize("shrinkage", [0.0, 20.0])
@pytest.mark.parametrize("update", ["expanded", "joint", "conditional"])
@parametrize("acceleration", ["lbfgs", None], fast=1)
def test_never_falls_and_keeps_the_structure(shrinkage, update, acceleration):
    views, _ = drawn(private(), 200)
    options = dict(FIXED, shrinkage=shrinkage, update=update, acceleration=acceleration)
    model = MixturePCCA(3, 2, max_iter=15, tol=0, **options).fit(*views)
    m = model.mixture_
    assert (np.diff(model.history_["fun"]) < 0).all() and m.private == (2, 2) and model.n_private_ == 2
    assert (m.loadings[:, :6, 4:] == 0).all() and (m.loadings[:, 6:, 2:4] == 0).all()
    Mixture(m.weights, m.means, m.loadings, m.noise, m.private)  # passes the checks
    assert model.log_likelihood_ == pytest.approx(model.score(*views), rel=1e-10)


def test_densities_are_those_of_the_dense_covariance(fitted):
    model, views = fitted
    joint = log_densities(model.mixture_, views)
    np.testing.assert_allclose(model.score_samples(*views), logsumexp(joint, axis=1), rtol=1e-10)
    X, Y = views
    S, m = covariances(model.mixture_), model.mixture_
    log_x = [multivariate_normal(m.means[k, :6], S[k, :6, :6]).logpdf(X) for k in range(3)]
    np.testing.assert_allclose(model.score_samples(X, None), logsumexp(log_x, axis=0, b=m.weights[:, None]), rtol=1e-10)
    found = model.pair_scores(X[:4], Y[:3])
    for j in range(3):
        y = np.repeat(Y[j : j + 1], 4, axis=0)
        expected = model.score_samples(X[:4], y) - model.score_samples(X[:4], None) - model.score_samples(None, y)
        np.testing.assert_allclose(found[:, j], expected, atol=1e-9)


@parametrize("hidden", [[6, 7, 8, 9, 10], [1, 7, 8]], fast=1, ids=["a view", "columns of both views"])
def test_missing_columns_follow_the_dense_conditional(fitted, hidden):
    model, views = fitted
    V = np.hstack(views)[:4]
    mean, variance = conditional(model.mixture_, V, hidden)
    holed = V.copy()
    holed[:, hidden] = NAN
    given = np.split(holed, [6], axis=1)
    np.testing.assert_allclose(np.hstack(model.impute(given))[:, hidden], mean, atol=1e-9)
    np.testing.assert_allclose(np.hstack(model.impute_variance(given))[:, hidden], variance, atol=1e-9)
    draws = np.concatenate(model.impute_samples(given, n_samples=4_000, random_state=0), axis=2)[:, :, hidden]
    assert (abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4_000)).all()
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.2)
    samples, labels = model.sample(40_000, random_state=0)
    of = np.hstack(samples)[labels == 0]
    S = covariances(model.mixture_)[0]
    assert np.linalg.norm(np.cov(of.T) - S) < 0.1 * np.linalg.norm(S)


@parametrize("shrinkage", [0.0, 20.0], fast=1)
def test_fits_with_holes_and_weights(shrinkage):
    """With holes no step falls, in L-BFGS and EM; a row of weight two is two rows."""
    rng = np.random.default_rng(0)
    views, _ = drawn(private(), 120)
    holed = [np.where(rng.random(view.shape) < 0.03, NAN, view) for view in views]
    holed[1][:10] = NAN
    first = private(q=(2, 2), seed=3)
    options = dict(FIXED, shrinkage=shrinkage, missing="em", init=first, tol=0)
    model = MixturePCCA(3, 2, max_iter=10, **options).fit(holed)
    assert (np.diff(model.history_["fun"]) < 0).all()
    assert model.log_likelihood_ == pytest.approx(model.score(holed), rel=1e-9)
    if not shrinkage:  # the prior is from k-means, which draws in another order
        weights = rng.integers(0, 3, 120)
        options |= dict(max_iter=3, acceleration=None)
        weighted = MixturePCCA(3, 2, **options).fit(views, sample_weight=weights)
        repeated = MixturePCCA(3, 2, **options).fit([np.repeat(view, weights, axis=0) for view in views])
        np.testing.assert_allclose(covariances(weighted.mixture_), covariances(repeated.mixture_), atol=1e-7)


def test_one_component_without_private_latents_is_factor_analysis():
    views, _ = drawn(mixture(K=1), 200)
    diag = MixturePCCA(1, 2, covariance_type="diag", tol=1e-13, max_iter=500, random_state=0).fit(*views)
    options = FIXED | dict(n_private=0, diagonal=0.0)
    low = MixturePCCA(1, 2, shrinkage=0.0, tol=1e-13, max_iter=500, **options).fit(*views)
    assert low.log_likelihood_ == pytest.approx(diag.log_likelihood_, abs=1e-9)
    np.testing.assert_allclose(covariances(low.mixture_), covariances(diag.mixture_), atol=1e-3)
    assert low.bic(*views) == pytest.approx(diag.bic(*views), abs=1e-5)


def test_the_prior_is_its_definition():
    """Minus nu/2 (ln det Sigma + tr(Sigma^-1 S_0)), and the M-step's statistics are its rows: Fisher's identity."""
    m, one = private(), private(K=1)
    prior = Prior.of(one, 7.0, 0.3)
    S0 = covariances(one)[0]
    low = one.loadings[0] @ one.loadings[0].T
    S0 = S0 - 0.3 * (low - np.diag(np.diag(low)))
    model = MixturePCCA(3, 2, shrinkage=0.0, max_iter=1, **FIXED | dict(n_private=2)).fit(*drawn(m, 60)[0])
    views, _ = drawn(m, 60)
    from manifoldseq_mpcca._expectation import Expectation  # of a fixed mixture, with and without the prior
    from manifoldseq_mpcca._likelihood_gradient import gradient

    found = prior.added(Expectation(m, np.zeros(11)).statistics(views), m)
    Sigma = covariances(m)
    expected = sum(np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, S0)) for S in Sigma)
    assert found.log_prior == pytest.approx(-3.5 * expected, rel=1e-12)

    def value(x):
        loadings = m.loadings.copy()
        loadings[0, :6, :4] = x.reshape(6, 4)
        moved = Mixture(m.weights, m.means, loadings, m.noise, m.private)
        return prior.added(Expectation(moved, np.zeros(11)).statistics(views), moved).value

    slope = gradient(found, m)[2][0, :6, :4]
    np.testing.assert_allclose(
        approx_fprime(m.loadings[0, :6, :4].ravel(), value).reshape(6, 4), slope, rtol=1e-3, atol=1e-2
    )
    assert model.mixture_.private == (2, 2)


def test_latent_vectors_are_the_shared_ones_and_axes_change_nothing(fitted):
    model, (X, Y) = fitted
    assert model.transform(X, Y).shape == (300, 3 * 2)
    m = private()
    np.testing.assert_allclose(covariances(m.canonical()), covariances(m), atol=1e-10)
    # z given a row has uncorrelated axes: the block of (I + W' Psi^-1 W)^-1 is diagonal
    turned = m.canonical()
    information = np.eye(5) + (turned.loadings / turned.variances[:, :, None]).mT @ turned.loadings
    covariance = np.linalg.inv(information)[:, :2, :2]
    np.testing.assert_allclose(covariance[:, 0, 1], 0, atol=1e-10)


@pytest.mark.slow
def test_is_chosen_stored_and_copied(tmp_path):
    views, _ = drawn(private(), 100)
    model = MixturePCCA(2, 2, covariance_type="low-rank", shrinkage=50.0, max_iter=5, random_state=0).fit(*views)
    assert model.n_private_ in (0, 4, 5) and "n_private" in str(model.choice_)
    ms.storage.save_model(model, tmp_path / "model")
    again = ms.storage.load_model(tmp_path / "model")
    assert again.mixture_.private == model.mixture_.private == copy.deepcopy(model.mixture_).private
    assert str(again.choice_) == str(model.choice_)
    np.testing.assert_array_equal(again.impute(views[0], None)[1], model.impute(views[0], None)[1])


def test_more_private_latents_than_columns_are_as_many_as_fit():
    X, Y = np.random.default_rng(0).standard_normal((2, 100, 3))
    model = MixturePCCA(1, 1, max_iter=2, **FIXED | dict(n_private=50, shrinkage=10.0)).fit(X, Y[:, :2])
    assert model.n_private_ == 2 and model.mixture_.private == (2, 1)


def test_one_sentence_for_what_does_not_fit():
    m = private()
    views, _ = drawn(m, 40)
    with pytest.raises(ValueError, match=re.escape("private=(1,) does not fit 2 views")):
        Mixture(m.weights, m.means, m.loadings, m.noise, (1,))
    with pytest.raises(
        ValueError, match=r"view 0 has nonzero loadings of the private latent dimensions of other views"
    ):
        Mixture(m.weights, m.means, np.ones_like(m.loadings), m.noise, m.private)
    with pytest.raises(ValueError, match=re.escape("pass a Mixture with K=3, views=(6, 5), d=2, private=(2, 2)")):
        MixturePCCA(3, 2, init=mixture(sizes=(6, 5)), shrinkage=0.0, **FIXED).fit(*views)
    with pytest.raises(ValueError, match="private latent"):
        gradient_vectors(m, views)
