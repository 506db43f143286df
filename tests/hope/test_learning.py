"""Learners: EM in full batches and in mini-batches, solvers of the engine."""

import dataclasses
import itertools

import mpmath
import numpy as np
import pytest
from helpers import parametrize
from hope.problems import clusters, directions, likelihood, unit
from scipy.optimize import brentq
from scipy.stats import entropy

import manifoldseq as ms
from manifoldseq_hope import (
    HOPE,
    SphericalKMeans,
    VonMisesFisherMixture,
    bessel_ratio,
    gaussian,
    penalty,
    von_mises_fisher,
)
from manifoldseq_hope.mixtures._expectation import Expectation, second_moment
from manifoldseq_hope.mixtures._likelihood import starting
from manifoldseq_hope.mixtures._parameters import Data, Model
from manifoldseq_hope.mixtures._seeding import projection


def data_of(X):
    return Data(X, None, second_moment(X), float(len(X)))


@pytest.mark.parametrize("family", [von_mises_fisher(), gaussian("diag"), gaussian("full")], ids=lambda f: f.name)
@parametrize("kind", [0.1, "bounded"], fast=1)
def test_full_batches_never_lower_the_likelihood(family, kind):
    for seed in range(20):
        X = clusters(120, seed=seed)
        X = unit(X) if family.directional else X - X.mean(axis=0)
        data, rng = data_of(X), np.random.default_rng(seed)
        U = projection(("pca", "random")[seed % 2], data.S, 3, rng)
        settings = {"noise_variance": kind, "noise_floor": 1e-9, "normalize_z": family.directional}
        problem = ms.get_model("hope.family").problem(data, family=family, n_components=4, n_latent=3, **settings)
        run = ms.minimize(problem, starting(problem, U, rng), solver="em", stop=ms.MaxIterations(25))
        assert np.diff(run.history["fun"]).max(initial=-1.0) <= 1e-12 * abs(run.history["fun"][-1])
        U = run.x[0].T
        np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-12)


def failing(calls, value=np.nan):
    """A family of which some E-steps, counted from zero, have this in place of their log-normalizers."""
    whole, count = von_mises_fisher(), itertools.count()

    def natural(parameters, M):
        mu, offset = whole.natural(parameters, M)
        return mu, np.full_like(offset, value) if next(count) in calls else offset

    return dataclasses.replace(whole, natural=natural)


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_a_likelihood_that_is_not_finite_is_no_convergence(value):
    """Every E-step of the third iteration fails: four polar steps and one of EM alone."""
    X = unit(clusters(120, seed=1))
    with pytest.warns(UserWarning, match="the objective is not finite after 2 iterations, so the fit ended"):
        model = HOPE(4, n_latent=3, family=failing(range(3, 8), value), tol=0.0, random_state=0).fit(X)
    assert model.status_ is ms.Status.NON_FINITE and model.n_iter_ == 2
    assert np.isfinite(model.log_likelihood_) and model.log_likelihood_ == pytest.approx(likelihood(model, X))
    assert model.log_likelihood_ == -model.history_["fun"][-1]


def test_mini_batches_that_end_without_a_likelihood_have_not_converged():
    """One pass of three batches, whose mean settles it for so large a tolerance; then the E-step of all rows fails."""
    X = unit(clusters(120, seed=1))
    options = dict(solver="online-em", batch_size=40, tol=1e9, random_state=0)
    with pytest.warns(UserWarning, match="the objective is not finite after 1 iterations"):
        model = HOPE(4, n_latent=3, family=failing([4]), **options).fit(X)
    assert model.status_ is ms.Status.NON_FINITE and np.isnan(model.log_likelihood_)
    assert HOPE(4, n_latent=3, **options).fit(X).status_ is ms.Status.COST_CHANGE


def test_a_start_that_fails_is_not_the_best():
    X = unit(clusters(120, seed=1))
    model = HOPE(4, n_latent=3, family=failing([0]), n_init=2, random_state=0).fit(X)
    assert model.status_.success and model.log_likelihood_ == pytest.approx(likelihood(model, X))


@pytest.mark.slow
def test_directions_in_more_than_four_thousand_columns():
    """Two components far apart, the likelihood of each by hand: concentrations near the number of columns."""
    D = 4096
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((2, D)), 10, axis=0) + 2.2 * rng.standard_normal((20, D))
    model = VonMisesFisherMixture(2, random_state=0).fit(X)
    assert model.status_.success and np.bincount(model.predict(X)).tolist() == [10, 10]
    expected, unit_rows = 0.0, unit(X)
    for rows in (unit_rows[:10], unit_rows[10:]):
        length = np.linalg.norm(rows.mean(axis=0))
        kappa = brentq(lambda k, r=length: _ratio(D, k) - r, 1e3, 1e4, rtol=1e-14)
        expected += 0.5 * (kappa * length + _normalizer(D, kappa) + np.log(0.5))
    assert 2600 < model.concentrations_.min() < model.concentrations_.max() < 3000
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    assert model.score(X) == pytest.approx(expected, rel=1e-9)


def _normalizer(M, kappa):
    with mpmath.workdps(30):
        s, k = mpmath.mpf(M) / 2 - 1, mpmath.mpf(kappa)
        return float(s * mpmath.log(k) - (s + 1) * mpmath.log(2 * mpmath.pi) - mpmath.log(mpmath.besseli(s, k)))


def _ratio(M, kappa):
    with mpmath.workdps(30):
        return float(mpmath.besseli(mpmath.mpf(M) / 2, kappa) / mpmath.besseli(mpmath.mpf(M) / 2 - 1, kappa))


def test_weights_and_concentrations_of_a_known_mixture():
    X, weights = directions()
    model = VonMisesFisherMixture(5, random_state=0).fit(X)
    order = np.argsort(-model.weights_)
    assert entropy(weights, model.weights_[order]) < 1e-3
    np.testing.assert_allclose(model.concentrations_[order], [2000, 60, 60, 30, 30], rtol=0.12)
    joint = HOPE(5, n_latent=6, init="random", n_init=2, max_iter=150, tol=1e-7, random_state=0).fit(X)
    assert entropy(weights, np.sort(joint.weights_)[::-1]) < 1e-3


def test_single_gaussian_finds_the_best_eigenvectors():
    """K = 1, full covariance: eigenvectors, for a fixed variance those with the largest l/s2 - 1 - ln(l/s2)."""
    lam = np.array([10.0, 9.9, 3.0, 0.5, 0.01])
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X = np.sqrt(5 * lam)[:, None] * Q.T
    X = np.vstack([X, -X])  # its second moment is Q diag(lam) Q', its mean zero
    S = second_moment(X)
    np.testing.assert_allclose(np.linalg.eigvalsh(S / 10), np.sort(lam), rtol=1e-10)

    def best(chosen, variance):
        rest = np.setdiff1d(np.arange(5), chosen)
        signal = -0.5 * (2 * np.log(2 * np.pi) + np.log(lam[chosen]).sum() + 2)
        return signal - 0.5 * (3 * np.log(2 * np.pi * variance) + lam[rest].sum() / variance)

    for variance, chosen in ((1e-3, [0, 1]), (9.95, [3, 4])):
        problem = ms.get_model("hope.gmm").problem(
            X, n_components=1, n_latent=2, covariance_type="full", noise_variance=variance
        )
        found = min((ms.minimize(problem, "random", seed=seed) for seed in range(4)), key=lambda r: r.fun)
        assert -found.fun == pytest.approx(best(np.array(chosen), variance), abs=1e-8)
        span = found.x[0] @ found.x[0].T
        np.testing.assert_allclose(span, Q[:, chosen] @ Q[:, chosen].T, atol=1e-5)
    # with (23) alone a minor subspace is likeliest; its bound by the variances of z gives the principal one
    free, bounded = (
        HOPE(1, n_latent=2, family="gmm-full", noise_variance=kind, variance_floor=1e-9, init=Q.T[[3, 4]], prepare=None)
        .fit(X)
        .score(X)
        for kind in ("closed", "bounded")
    )
    assert free > best(np.array([0, 1]), lam[2:].mean()) > bounded


@pytest.mark.slow
def test_mini_batches_reach_what_full_batches_reach():
    X = unit(clusters(6000, 8, K=6, spread=0.5)).astype(np.float32)
    full = HOPE(6, n_latent=4, solver="em", tol=1e-7, random_state=0).fit(X)
    online = HOPE(6, n_latent=4, batch_size=500, max_iter=30, random_state=0).fit(X)
    assert online.log_likelihood_ > full.log_likelihood_ - 0.05
    U = online.components_
    np.testing.assert_allclose(U @ U.T, np.eye(4), atol=1e-12)
    stream = HOPE(6, n_latent=4, random_state=0)
    order = np.random.default_rng(0).permutation(len(X))
    for rows in np.array_split(np.tile(order, 6), 72):
        stream.partial_fit(X[rows])
    assert stream.score(X) > full.log_likelihood_ - 0.1
    assert stream.n_seen_ == 36000


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"n_components": 5, "n_latent": "auto"},
            "n_components=5 differs from 6, the value in the first call of partial_fit: fit again",
        ),
        ({"n_latent": 3}, "n_latent=3 differs from 4"),
        ({"family": "gmm"}, "family='gmm' differs from 'movmf'"),
        ({"prepare": None}, "prepare=None differs from 'unit'"),
        ({"normalize_z": False}, "normalize_z=False differs from True"),
    ],
)
def test_a_stream_keeps_its_structure(changed, words, tmp_path):
    X = unit(clusters(120, 8, K=6, spread=0.5))
    stream = HOPE(6, n_latent="auto", random_state=0).partial_fit(X[:60])
    before = stream.components_.copy()
    with pytest.raises(ValueError, match=words):
        stream.set_params(**changed).partial_fit(X[60:])
    np.testing.assert_array_equal(stream.components_, before)
    stream.set_params(n_components=6, n_latent=4, family="movmf", prepare="auto", normalize_z=True, kappa="shared")
    stream.partial_fit(X[60:])  # M = D / 2 by name, and what is not a size may change
    assert stream.n_seen_ == 120
    ms.storage.save_model(stream, tmp_path)
    with pytest.raises(ValueError, match=words):
        ms.storage.load_model(tmp_path).set_params(**changed).partial_fit(X[60:])
    stream.set_params(**changed).fit(X).partial_fit(X[60:])
    assert stream.n_seen_ == 60


@pytest.mark.parametrize("solver", ["em", "online-em", "sgd", "adam"])
def test_every_learner_improves_and_resumes(solver, tmp_path):
    X = unit(clusters(300, 8, K=6, spread=0.5))
    options = {} if "em" in solver else {"step_size": 0.01, "batch_size": 50}
    settings = {"solver": solver, "solver_options": options, "batch_size": 100, "tol": 0.0, "random_state": 0}
    whole = HOPE(6, n_latent=4, max_iter=4, **settings).fit(X)
    assert whole.log_likelihood_ > -whole.history_["fun"][0]
    np.testing.assert_allclose(whole.components_ @ whole.components_.T, np.eye(4), atol=1e-10)
    HOPE(6, n_latent=4, max_iter=2, **settings).fit(X, checkpoint=tmp_path)
    again = HOPE(6, n_latent=4, max_iter=4, **settings).fit(X, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.components_, whole.components_)
    np.testing.assert_array_equal(again.weights_, whole.weights_)


def test_checkpoint_of_other_data_or_settings_raises_an_error(tmp_path):
    X = clusters(120)
    SphericalKMeans(3, max_iter=1, tol=0, random_state=0).fit(X, checkpoint=tmp_path / "k")
    HOPE(3, n_latent=2, max_iter=1, random_state=0).fit(X, checkpoint=tmp_path / "h")
    SphericalKMeans(3, random_state=0).fit(X, checkpoint=tmp_path / "k", resume=True)
    for estimator, where in ((SphericalKMeans(3, random_state=0), "k"), (HOPE(3, n_latent=2, random_state=0), "h")):
        with pytest.raises(ms.storage.CheckpointError):
            estimator.fit(X[1:], checkpoint=tmp_path / where, resume=True)
        with pytest.raises(ms.storage.CheckpointError):
            estimator.set_params(threshold=0.5).fit(X, checkpoint=tmp_path / where, resume=True)


def test_likelihood_grows_without_bound_where_rows_collapse():
    """(14) with normalized z: the penalty is paid once, concentration pays for ever; not so with orthonormal rows."""
    X = unit(clusters(100, 6, K=1, spread=0.3))
    collapsed = np.tile(unit(X.mean(axis=0, keepdims=True)), (3, 1))
    kappas, values = (30.0, 300.0, 3000.0), []
    for kappa in kappas:
        model = Model(collapsed, np.ones(1), (kappa * np.ones((1, 3)) / np.sqrt(3),), von_mises_fisher(), True)
        values.append(Expectation(model, X.dtype).statistics(X).log_likelihood / len(X))
    np.testing.assert_allclose(np.diff(values), np.log(10), atol=0.1)  # (M - 1) / 2 ln 10 each, for ever
    assert penalty(collapsed) == pytest.approx(3)


def test_statistics_turn_with_the_projection():
    """After z -> R z the M-step gives turned parameters."""
    X, rng = clusters(200, 3, K=3), np.random.default_rng(0)
    R = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    gamma = rng.random((len(X), 4))
    counts = gamma.sum(axis=0)
    for family in (von_mises_fisher(), gaussian("full")):
        turned = family.rotate(gamma.T @ family.statistics(X), counts, R)
        np.testing.assert_allclose(turned, gamma.T @ family.statistics(X @ R.T), atol=1e-9)
    diagonal = gaussian("diag")
    turned = diagonal.rotate(gamma.T @ diagonal.statistics(X), counts, R)
    means, _ = diagonal.maximize(turned, counts, 3)
    np.testing.assert_allclose(means, (gamma.T @ X / counts[:, None]) @ R.T)


def test_largest_concentration_is_reported():
    X = np.vstack([np.tile([1.0, 0, 0], (20, 1)), unit(np.random.default_rng(0).standard_normal((50, 3)))])
    model = VonMisesFisherMixture(2, largest_kappa=500, random_state=0).fit(X)
    assert model.concentrations_.max() == pytest.approx(500) and model.n_capped_ == 1
    assert bessel_ratio(3, 500.0) < 1
