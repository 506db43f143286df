"""Shrunk covariances: the posterior never falls, closed forms, what "auto" chooses, the conditional distribution."""

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import conditional, covariances, drawn, mixture
from sklearn.linear_model import Ridge
from sklearn.metrics import adjusted_rand_score

from manifoldseq_mpcca import Mixture, MixturePCCA

NAN = float("nan")
FIXED = dict(shrinkage=20.0, diagonal=0.2, gate=1.0)


@parametrize("sizes", [(5, 4), (4, 3, 3)], fast=1)
@pytest.mark.parametrize("missing", [False, True])
def test_posterior_never_falls_and_weights_count_rows(sizes, missing):
    """With two and with three views, with holes; a row of weight two is two rows."""
    rng = np.random.default_rng(0)
    views, _ = drawn(mixture(K=3, sizes=sizes), 150)
    if missing:
        views = [np.where(rng.random(view.shape) < 0.05, NAN, view) for view in views]
    first = mixture(K=3, sizes=sizes, full=True, seed=5)
    options = dict(covariance_type="shrunk", init=first, missing="em", max_iter=12, tol=0, **FIXED)
    model = MixturePCCA(3, 2, **options).fit(views)
    changes = np.diff(model.history_["fun"])
    assert (changes <= 1e-9).all() and changes[1:].sum() < -0.001
    assert model.log_likelihood_ == pytest.approx(model.score(views), abs=1e-9)
    weights = rng.integers(0, 3, len(views[0]))
    weighted = MixturePCCA(3, 2, **options).fit(views, sample_weight=weights)
    repeated = MixturePCCA(3, 2, **options).fit([np.repeat(view, weights, axis=0) for view in views])
    np.testing.assert_allclose(weighted.mixture_.means, repeated.mixture_.means, atol=1e-8)
    np.testing.assert_allclose(covariances(weighted.mixture_), covariances(repeated.mixture_), atol=1e-8)


def test_one_component_is_the_shrunk_covariance():
    """With all canonical correlations, the covariance is (N S + nu S_0) / (N + nu) by its definition."""
    views, _ = drawn(mixture(K=1), 80)
    model = MixturePCCA(1, 4, noise_floor=1e-12, **FIXED).fit(views)
    S = np.cov(np.hstack(views).T, bias=True)
    prior = 0.8 * S + 0.2 * np.diag(np.diag(S))
    np.testing.assert_allclose(covariances(model.mixture_)[0], (80 * S + 20 * prior) / 100, atol=1e-9)


def test_three_views_reach_the_likelihood_of_their_covariance():
    """Data of two latent dimensions: loadings of three views reproduce the covariance that they were drawn with."""
    m = mixture(K=1, sizes=(4, 3, 3), full=True)
    views, _ = drawn(m, 20_000)
    model = MixturePCCA(1, 2, shrinkage=1e-6, diagonal=0.0, gate=1.0, max_iter=100).fit(views)
    S = covariances(m)[0]
    assert np.linalg.norm(covariances(model.mixture_)[0] - S) < 0.05 * np.linalg.norm(S)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_weights_of_maximum_likelihood_count_rows(covariance_type):
    views, _ = drawn(mixture(K=2, full=covariance_type == "full"), 120)
    options = dict(covariance_type=covariance_type, init=mixture(K=2, full=covariance_type == "full", seed=3))
    weights = np.random.default_rng(0).integers(0, 3, 120)
    weighted = MixturePCCA(2, 2, max_iter=5, **options).fit(views, sample_weight=weights)
    repeated = MixturePCCA(2, 2, max_iter=5, **options).fit([np.repeat(view, weights, axis=0) for view in views])
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_, abs=1e-9)
    np.testing.assert_allclose(weighted.mixture_.means, repeated.mixture_.means, atol=1e-7)
    for wrong, words in (
        (weights[1:], "has shape"),
        (-1.0 * weights, "finite numbers of at least 0"),
        (0.0 * weights, "is zero for every row: pass at least 2 above 0"),
    ):
        with pytest.raises(ValueError, match=words):
            MixturePCCA(2, 2, **options).fit(views, sample_weight=wrong)


@parametrize("full", [False, True], fast=1)
@pytest.mark.parametrize("hidden", [[5, 6, 7, 8], [1, 6, 7]], ids=["a view", "columns of both views"])
def test_missing_columns_follow_the_dense_conditional(full, hidden):
    """Mean, variance and draws of what is missing, against the formulas of the normal distribution."""
    m = mixture(full=full)
    views, _ = drawn(m, 4)
    model = MixturePCCA(3, 2, covariance_type="full" if full else "diag", init=m, max_iter=1).fit(drawn(m, 60)[0])
    V, o = np.hstack(views), np.setdiff1d(np.arange(9), hidden)
    mean, variance = conditional(model.mixture_, V, hidden)
    holed = V.copy()
    holed[:, hidden] = NAN
    given = np.split(holed, [5], axis=1)
    np.testing.assert_allclose(np.hstack(model.impute(given))[:, hidden], mean, atol=1e-10)
    found = np.hstack(model.impute_variance(given))
    np.testing.assert_allclose(found[:, hidden], variance, atol=1e-10)
    assert (found[:, o] == 0).all()
    draws = np.concatenate(model.impute_samples(given, n_samples=5_000, random_state=0), axis=2)
    np.testing.assert_array_equal(draws[:, :, o], np.broadcast_to(V[:, o], (5_000, 4, len(o))))
    assert (abs(draws[:, :, hidden].mean(axis=0) - mean) < 5 * np.sqrt(variance / 5_000)).all()
    np.testing.assert_allclose(draws[:, :, hidden].var(axis=0), variance, rtol=0.2)


@pytest.mark.parametrize("full", [False, True])
def test_scores_of_pairs_are_the_densities_of_the_definition(full):
    """Bayes: ln p(y|x) - ln p(y) = ln p(x, y) - ln p(x) - ln p(y), and the latter are known of rows."""
    m = mixture(full=full)
    model = MixturePCCA(3, 2, covariance_type="full" if full else "diag", init=m, max_iter=1).fit(drawn(m, 60)[0])
    X, Y = drawn(m, 7)[0]
    found = model.pair_scores(X, Y[:5])
    for j in range(5):
        y = np.repeat(Y[j : j + 1], 7, axis=0)
        expected = model.score_samples(X, y) - model.score_samples(X, None) - model.score_samples(None, y)
        np.testing.assert_allclose(found[:, j], expected, atol=1e-9)
    with pytest.raises(ValueError, match="pair_scores"):
        model.pair_scores(X, Y[:, 1:])


@pytest.mark.slow
def test_auto_is_not_below_ridge_on_linear_data_and_far_above_on_clusters():
    """The choice is told from a quarter of the rows; errors are on others."""
    rng = np.random.default_rng(0)
    Z, A = rng.standard_normal((600, 3)), rng.standard_normal((3, 12))
    linear = Z @ A + 0.5 * rng.standard_normal((600, 12))
    mixed, _ = drawn(mixture(K=4, sizes=(7, 5), spread=2), 600)
    for rows, better in ((linear, -0.01), (np.hstack(mixed), 0.05)):
        X, Y = rows[:, :7], rows[:, 7:]
        model = MixturePCCA(random_state=0, target=1).fit(X[:300], Y[:300])
        error = np.mean((model.impute(X[300:], None)[1] - Y[300:]) ** 2) / Y[300:].var(axis=0).mean()
        peer = np.mean((Ridge(1.0).fit(X[:300], Y[:300]).predict(X[300:]) - Y[300:]) ** 2) / Y[300:].var(axis=0).mean()
        assert error <= peer - better
        best = model.choice_.best_params
        (step,) = model.choice_.steps
        chosen = step.params.index({name: getattr(model, f"{name}_") for name in step.params[0]})
        assert step.chosen == [chosen] and step.figure[chosen] < step.figure.min() + 0.02
        assert (best["n_components"], best["gate"]) == (model.n_components_, model.gate_)
        assert f"chosen: n_components={model.n_components_}" in str(model.choice_)


@parametrize("seed", [1, 2, 4, 6], fast=1)
def test_auto_does_not_find_components_in_one_gaussian(seed):
    """The least loss of a quarter of 200 rows took 5, 2, 10 and 10 components here."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 4))
    Y = X[:, :2] @ np.array([[1, 0.5], [0, 1]]) + 0.5 * rng.standard_normal((200, 2))
    assert MixturePCCA(random_state=0).fit(X, Y).n_components_ == 1


def test_too_few_rows_to_choose_from_are_said():
    X, Y = drawn(mixture(K=1), 12)[0]
    with pytest.warns(UserWarning, match="too few to choose settings, so the fit uses n_components=1, n_lat") as caught:
        model = MixturePCCA(random_state=0).fit(X, Y)
    assert caught[0].filename == __file__
    assert model.n_components_ == 1 and not hasattr(model, "choice_")


def test_the_conditional_likelihood_can_be_the_criterion():
    views, _ = drawn(mixture(K=3, spread=3), 300)
    model = MixturePCCA(n_latent=2, covariance_type="diag", criterion="likelihood", random_state=0).fit(views)
    assert model.n_components_ in (2, 5) and model.gate_ == 1.0 and np.isnan(model.shrinkage_)
    with pytest.raises(ValueError, match=r"target=2 is not one of the 2 views: pass an index from 0 to 1"):
        MixturePCCA(target=2).fit(views)
    with pytest.raises(ValueError, match=r"shrinkage=0 is not valid"):
        MixturePCCA(shrinkage=0).fit(views)
    with pytest.raises(ValueError, match=r"n_components='best' is not known"):
        MixturePCCA("best").fit(views)


def test_a_constant_column_warns_and_changes_nothing_else():
    (X, Y), _ = drawn(mixture(K=2), 200)
    flat = np.insert(Y, 2, 3.5, axis=1)
    plain = MixturePCCA(2, 2, tol=0, max_iter=10, random_state=0, **FIXED).fit(X, Y)
    with pytest.warns(UserWarning, match="column 2 of view 1 is constant: it contains no information") as caught:
        model = MixturePCCA(2, 2, tol=0, max_iter=10, random_state=0, **FIXED).fit(X, flat)
    assert caught[0].filename == __file__
    found = model.impute(X, None)[1]
    np.testing.assert_allclose(found[:, 2], 3.5)
    np.testing.assert_allclose(np.delete(found, 2, axis=1), plain.impute(X, None)[1], atol=1e-6)


@pytest.mark.slow
def test_scattered_holes_do_not_keep_the_default_from_choosing():
    """A tenth of all cells is missing, in more patterns than fits are tried with; errors are those of hidden cells."""
    views, _ = drawn(mixture(K=3, spread=3), 120)
    rng = np.random.default_rng(0)
    holed = [np.where(rng.random(view.shape) < 0.1, NAN, view) for view in views]
    model = MixturePCCA(missing="em", max_iter=10, random_state=0).fit(holed)
    hidden = np.isnan(np.hstack(holed))
    V = np.hstack(views)
    error = np.mean((np.hstack(model.impute(holed)) - V)[hidden] ** 2) / V.var()
    assert model.n_components_ > 1 and error < 0.3


def test_a_mixture_of_full_noise_takes_single_holes():
    m = mixture(full=True)
    assert isinstance(m, Mixture)
    X, Y = drawn(m, 60)[0]
    model = MixturePCCA(3, 2, init=m, max_iter=1, **FIXED).fit(X, Y)
    holed = X.copy()
    holed[3, 1] = NAN
    assert np.isfinite(model.impute(holed, Y)[0]).all()


def test_further_starts_find_the_clusters_that_the_first_start_misses():
    """The prior does not favour the clusters of the first start, from which it would be pooled."""
    rng = np.random.default_rng(1)
    means, labels = 3 * rng.standard_normal((15, 10)), np.repeat(np.arange(15), 30)
    rows = means[labels] + rng.standard_normal((450, 10))
    views = [rows[:, :5], rows[:, 5:]]
    found = []
    for n_init in (1, 12):
        model = MixturePCCA(15, 1, shrinkage=50.0, diagonal=0.2, gate=1.0, n_init=n_init, random_state=0).fit(views)
        found.append((adjusted_rand_score(labels, model.predict_proba(views).argmax(axis=1)), model.log_likelihood_))
    (one, of_one), (many, of_many) = found
    assert one < 0.9 and many > 0.98 and of_many > of_one + 0.1


def test_starts_with_missing_values_continue_from_the_mixture_of_the_prior():
    """EM has updated the mixture together with its prior, so that few iterations remain."""
    views, _ = drawn(mixture(K=3, spread=3), 300)
    views = [np.where(np.random.default_rng(0).random(view.shape) < 0.05, NAN, view) for view in views]
    model = MixturePCCA(3, 2, missing="em", random_state=0, tol=1e-5, **FIXED).fit(views)
    cold = MixturePCCA(3, 2, missing="em", random_state=0, tol=1e-5, init="random", **FIXED).fit(views)
    assert model.n_iter_ <= 3 < cold.n_iter_
