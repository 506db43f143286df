"""`MixturePCCA`: conventions, answers against dense formulas, missing views, online steps, resume, errors."""

import re

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import covariances, drawn, log_densities, mixture
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import manifoldseq as ms
from manifoldseq_mpcca import Mixture, MixturePCCA

NAN = float("nan")


@pytest.fixture(scope="module", params=[False, True], ids=["diag", "full"])
def fitted(request):
    m = mixture(spread=3, full=request.param)
    views, labels = drawn(m, 400)
    model = MixturePCCA(3, 2, covariance_type="full" if request.param else "diag", n_init=2, random_state=0).fit(*views)
    return model, views, labels


@parametrize(
    "options",
    [
        {},
        dict(n_components=2, n_latent=2, covariance_type="full", update="conditional", acceleration=None),
        dict(n_components=2, n_latent=2, covariance_type="diag", missing="em"),
    ],
    fast=1,
)
def test_keeps_the_conventions(options):
    report = ms.testing.check_multiview_estimator(MixturePCCA(**options))
    failures = [law.name for law in report.failures]
    assert failures == (["fit raises ValueError for NaN"] if options.get("missing") else [])


@pytest.mark.slow
def test_passes_the_checks_of_scikit_learn():
    """With 2-D targets in place of the second view; what fails has to do with there being two."""
    one_view = "a view is an array (N, d): the check passes y of shape (N,)"
    own_words = "the message names the view and says what to pass"
    expected = {
        "check_transformer_data_not_an_array": one_view,
        "check_transformer_general": one_view,
        "check_transformer_n_iter": one_view,
        "check_transformer_preserve_dtypes": one_view,
        "check_sample_weight_equivalence_on_dense_data": "the second view is called Y: the check passes y",
        "check_n_features_in": "columns of both views are counted",
        "check_n_features_in_after_fitting": "columns of both views are counted",
        "check_estimators_empty_data_messages": own_words,
        "check_fit2d_predict1d": own_words,
        "check_requires_y_none": own_words,
        "check_estimators_nan_inf": "all methods but fit take NaN",
    }
    ms.testing.check_estimator(MixturePCCA(1, 1, covariance_type="diag"), expected).raise_for_failure()


def test_finds_the_components_and_their_densities(fitted):
    model, views, labels = fitted
    joint = log_densities(model.mixture_, views)
    assert adjusted_rand_score(labels, model.predict(*views)) > 0.9
    np.testing.assert_allclose(model.score_samples(*views), logsumexp(joint, axis=1), rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba(*views).sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(*views), joint.argmax(axis=1))
    assert model.log_likelihood_ == pytest.approx(model.score(*views), rel=1e-10)
    assert model.status_.success and model.n_evaluations_ >= model.n_iter_


def test_latent_means_come_times_their_responsibilities(fitted):
    """(14), (18): of each component by its dense covariance."""
    model, views, _ = fitted
    m, joint = model.mixture_, log_densities(model.mixture_, views)
    g = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    parts = []
    for k in range(3):
        z = np.linalg.solve(covariances(m)[k], (np.hstack(views) - m.means[k]).T).T @ m.loadings[k]
        parts.append(g[:, [k]] * z)
    np.testing.assert_allclose(model.transform(*views), np.hstack(parts), atol=1e-9)


def test_a_missing_view_is_summed_out(fitted):
    """Densities, responsibilities and latents from the other view; impute is E[y | x], by dense conditioning."""
    model, (X, Y), _ = fitted
    m, S = model.mixture_, covariances(model.mixture_)
    x, y = m.columns(0), m.columns(1)
    alone = m.observed(np.arange(9) < 5)
    joint = log_densities(alone, [X])
    g = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba([X, None]), g, atol=1e-10)
    expected = 0
    for k in range(3):
        gain = np.linalg.solve(S[k, x, x], S[k, x, y])
        expected = expected + g[:, [k]] * (m.means[k, y] + (X - m.means[k, x]) @ gain)
    found = model.impute(X, None)
    np.testing.assert_allclose(found[1], expected, atol=1e-9)
    np.testing.assert_array_equal(found[0], X)
    holed = X.copy()
    holed[7] = NAN
    np.testing.assert_allclose(model.impute([holed, Y])[0][7], model.impute([None, Y])[0][7], rtol=1e-10)
    np.testing.assert_allclose(model.transform(None, Y)[7], model.transform(holed, Y)[7], rtol=1e-9, atol=1e-12)


def test_single_values_are_imputed_with_diagonal_noise():
    model = MixturePCCA(2, 2, random_state=0, covariance_type="diag").fit(*drawn(mixture(K=2), 300)[0])
    m, S = model.mixture_, covariances(model.mixture_)
    views, _ = drawn(mixture(K=2), 1, seed=9)
    holed = [view.copy() for view in views]
    holed[0][0, 2] = NAN
    o, v = np.arange(9) != 2, np.hstack(views)[0]
    joint = log_densities(m.observed(o), [v[None, o]])[0]
    g = np.exp(joint - logsumexp(joint))
    expected = sum(
        g[k] * (m.means[k, 2] + S[k, 2, o] @ np.linalg.solve(S[k][np.ix_(o, o)], v[o] - m.means[k, o]))
        for k in range(2)
    )
    assert model.impute(holed)[0][0, 2] == pytest.approx(expected, rel=1e-9)


def test_latents_are_shared_by_the_views():
    """K = 1: the latent means of both views predict the latent vector that the data were drawn with."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 2))
    X, Y = (z @ rng.standard_normal((2, n)) + 0.1 * rng.standard_normal((500, n)) for n in (6, 5))
    latent = MixturePCCA(1, 2, random_state=0, covariance_type="diag").fit_transform(X, Y)
    assert latent.shape == (500, 2)
    residual = z - latent @ np.linalg.lstsq(latent, z, rcond=None)[0]
    assert residual.var() < 0.01
    np.testing.assert_allclose(np.cov(latent.T, bias=True), np.diag(latent.var(axis=0)), atol=0.02)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_one_component_has_the_covariances_of_each_view(covariance_type):
    """At the maximum W W' + Psi is the sample covariance within a view, on its diagonal if Psi is diagonal."""
    full = covariance_type == "full"
    views, _ = drawn(mixture(K=1, full=full), 300)
    options = {"covariance_type": covariance_type, "init": "random", "acceleration": None, "tol": 1e-9}
    m = MixturePCCA(1, 2, max_iter=500, random_state=0, **options).fit(*views).mixture_
    for v, view in enumerate(views):
        found, expected = covariances(m)[0, m.columns(v), m.columns(v)], np.cov(view.T, bias=True)
        found, expected = (S if full else np.diag(S) for S in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_three_views_and_bic():
    """The criterion finds the two latent dimensions of three views."""
    views, _ = drawn(mixture(K=1, sizes=(4, 3, 5), d=2), 600)
    bic = [MixturePCCA(1, d, random_state=0, covariance_type="diag").fit(views).bic(views) for d in range(4)]
    assert np.argmin(bic) == 2
    model = MixturePCCA(1, 2, covariance_type="full", random_state=0).fit(*views)
    assert model.impute(None, views[1], None)[2].shape == (600, 5)


def test_samples_follow_the_mixture(fitted):
    model, _, _ = fitted
    m = model.mixture_
    views, labels = model.sample(40_000, random_state=0)
    again, _ = model.sample(40_000, random_state=0)
    V, S = np.hstack(views), covariances(m)
    assert np.array_equal(views[0], again[0]) and [view.shape[1] for view in views] == [5, 4]
    np.testing.assert_allclose(np.bincount(labels) / 40_000, m.weights, atol=0.01)
    for k in range(3):
        own = V[labels == k]
        np.testing.assert_allclose(own.mean(axis=0), m.means[k], atol=0.1)
        assert np.linalg.norm(np.cov(own.T) - S[k]) < 0.05 * np.linalg.norm(S[k])


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_fit_with_missing_rows(covariance_type):
    """A third of each view misses; the fit is near that of all rows, better than dropping them."""
    m = mixture(K=1, full=covariance_type == "full")
    views, _ = drawn(m, 600)
    holed = [view.copy() for view in views]
    holed[0][:200], holed[1][200:400] = NAN, NAN
    model = MixturePCCA(1, 2, covariance_type=covariance_type, missing="em", random_state=0).fit(holed)
    kept = MixturePCCA(1, 2, covariance_type=covariance_type, random_state=0).fit([view[400:] for view in views])
    test, _ = drawn(m, 5000, seed=7)
    whole = MixturePCCA(1, 2, covariance_type=covariance_type, random_state=0).fit(views)
    assert kept.score(test) < model.score(test) < whole.score(test)


def test_online_steps_approach_the_fit():
    m = mixture(K=2, spread=3)
    views, _ = drawn(m, 6000)
    model = MixturePCCA(2, 2, random_state=0, covariance_type="diag")
    scores = []
    for rows in np.split(np.arange(6000), 30):
        scores.append(model.partial_fit([view[rows] for view in views]).score(views))
    batch = MixturePCCA(2, 2, random_state=0, covariance_type="diag").fit(views).score(views)
    assert scores[0] < scores[-1] <= batch and batch - scores[-1] < 0.02
    assert model.batches_ == 30 and model.n_rows_ == 6000
    assert not hasattr(model.fit(views), "batches_")
    assert not hasattr(model.partial_fit(views), "log_likelihood_") and model.batches_ == 1


def test_settings_hold_from_batch_to_batch():
    views, _ = drawn(mixture(K=2), 60)
    model = MixturePCCA(2, 2, random_state=0, covariance_type="diag").partial_fit(views)
    with pytest.raises(
        ValueError, match=r"differ from the settings of Mixture\(K=2, .*restore the earlier settings, or use"
    ):
        clone(model).partial_fit(views).set_params(n_components=3).partial_fit(views)
    for other in ({"covariance_type": "full"}, {"covariance_type": "shrunk"}, {"n_latent": 1}):
        with pytest.raises(ValueError, match="the settings differ"):
            clone(model).partial_fit(views).set_params(**other).partial_fit(views)
    with pytest.raises(ValueError, match="update='old' is not known"):
        model.set_params(update="old").partial_fit(views)
    shrunk = MixturePCCA(2, 2, random_state=0).partial_fit(views).partial_fit([view[:1] for view in views])
    assert (model.batches_, shrunk.batches_) == (1, 2)
    with pytest.raises(ValueError, match="the settings differ"):
        shrunk.set_params(shrinkage=15.0).partial_fit(views)


def test_resume_and_interrupt(tmp_path):
    views, _ = drawn(mixture(), 200)
    whole = MixturePCCA(3, 2, n_init=2, max_iter=12, tol=0, random_state=0, covariance_type="diag").fit(views)

    def interrupting(event):
        if event.nit == 5 and event.status is None:
            raise KeyboardInterrupt

    model = clone(whole).set_params(max_iter=5).fit(views, checkpoint=tmp_path)
    model.set_params(max_iter=12).fit(views, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(model.mixture_.loadings, whole.mixture_.loadings)
    np.testing.assert_array_equal(model.history_["fun"], whole.history_["fun"])
    with pytest.raises(ms.storage.CheckpointError, match="other data"):
        model.fit([view + 1 for view in views], checkpoint=tmp_path, resume=True)
    with pytest.raises(ms.storage.CheckpointError, match="other data or settings"):
        model.set_params(random_state=1).fit(views, checkpoint=tmp_path, resume=True)
    early = clone(whole).fit(views, observers=[interrupting])
    assert early.status_ is ms.Status.INTERRUPTED and np.isfinite(early.score(views))


def test_generators_with_another_seed_do_not_resume(tmp_path):
    views, _ = drawn(mixture(), 200)
    for seed in (0, 0):
        MixturePCCA(2, 2, max_iter=3, random_state=np.random.default_rng(seed), covariance_type="diag").fit(
            views, checkpoint=tmp_path, resume=True
        )
    with pytest.raises(ms.storage.CheckpointError, match="other data or settings"):
        MixturePCCA(2, 2, max_iter=3, random_state=np.random.default_rng(1), covariance_type="diag").fit(
            views, checkpoint=tmp_path, resume=True
        )


def test_a_saved_model_is_the_same(fitted, tmp_path):
    model, (X, Y), _ = fitted
    ms.storage.save_model(model, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X, Y), model.predict_proba(X, Y))
    online = clone(model).partial_fit(X, Y)
    ms.storage.save_model(online, tmp_path)
    again = ms.storage.load_model(tmp_path).partial_fit(X, Y)
    np.testing.assert_array_equal(again.mixture_.means, online.partial_fit(X, Y).mixture_.means)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_a_saved_model_of_columns_in_other_units_comes_back(covariance_type, tmp_path):
    """Covariances whose eigenvalues differ by more than rounding are positive definite all the same."""
    units = 10.0 ** np.array([0, 8, -8, 4])
    model = MixturePCCA(2, 1, covariance_type=covariance_type, random_state=0).fit(X * units, Y)
    ms.storage.save_model(model, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X * units, Y), model.predict_proba(X * units, Y))


def test_starts_from_a_mixture_and_stays_there():
    views, _ = drawn(mixture(), 300)
    model = MixturePCCA(3, 2, random_state=0, tol=1e-10, covariance_type="diag").fit(views)
    again = MixturePCCA(3, 2, init=model.mixture_, max_iter=1, covariance_type="diag").fit(views)
    assert again.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1e-3)
    assert again.log_likelihood_ >= model.log_likelihood_ - 1e-8


X, Y = np.random.default_rng(0).standard_normal((2, 30, 4))


def changed(view, place, value):
    view = view.copy()
    view[place] = value
    return view


@parametrize(
    ("options", "views", "words"),
    [
        ({}, [X, Y[1:]], "view 1 has 29 rows but view 0 has 30: pass the same samples in every view"),
        (dict(n_latent=5), [X, Y], "n_latent=5 exceeds the 4 columns of view 0: lower n_latent"),
        (
            {},
            [X, np.tile([3.3, 1.0], (30, 1))],
            "column 0, column 1 of view 1 are constant: remove them, because constant columns have no density",
        ),
        (dict(n_components=31), [X, Y], "n_components=31 exceeds the 30 rows of the data: lower n_components"),
        (
            dict(n_components=4),
            [np.tile(X[:3], (10, 1)), np.tile(Y[:3], (10, 1))],
            "n_components=4 exceeds the 3 distinct rows of the data: lower n_components",
        ),
        (
            {},
            [X, changed(Y, (4, 1), NAN)],
            "view 1 has NaN at row 4, column 1: remove or fill it, or fit with missing='em'",
        ),
        ({}, [X, changed(Y, (4, 1), np.inf)], "view 1 has infinity at row 4, column 1: remove or clip it"),
        (
            dict(missing="em", covariance_type="full"),
            [X, changed(Y, (4, 1), NAN)],
            "view 1 misses some columns in row 4, but covariance_type='full' needs views that are complete or missing "
            "as a whole in each row: use 'diag'",
        ),
        (dict(missing="em"), [changed(X, 2, NAN), changed(Y, 2, NAN)], "row 2 has no value in any view: remove it"),
        (
            dict(missing="em"),
            [X, changed(Y, (slice(None), 1), NAN)],
            "column 1 of view 1 is missing in every row: remove it",
        ),
        ({}, [], "no view was passed: pass the views as (X, Y) or as a list [X, Y]"),
        (
            {},
            [X, changed(Y, (4, 1), -1e200)],
            "view 1 has -1e+200 at row 4, column 1, which is too large to be squared: rescale the column",
        ),
        ({}, [X, 1e-160 * Y], "which is too little to be squared: rescale the column"),
        (
            dict(covariance_type="full"),
            [X, np.tile(Y, (1, 3000))],
            "covariance_type='full' needs 1.1 GiB for the covariances of 1 components of 12004 columns: "
            "pass covariance_type='low-rank' or 'diag', which do not store them",
        ),
        (
            dict(n_components=10, n_latent=1),
            [X, np.tile(Y, (1, 1000))],
            "covariance_type='shrunk' needs 1.2 GiB for the covariances of 10 components of 4004 columns: ",
        ),
        (
            dict(n_components=1, n_latent=1),
            [X[:1], Y[:1]],
            "the views have 1 sample, whose columns do not vary: pass at least two rows",
        ),
        ({}, [X], "one view was passed: pass at least two views, as (X, Y) or as a list [X, Y]"),
        ({}, [X, None], "view 1 is None: pass all views to fit, with NaN where rows are missing"),
        ({}, [X, Y[:, 0]], "view 1 has shape (30,): pass an (N, d) array with at least one row and column"),
        ({}, [X, Y.astype(str)], "view 1 has dtype <U32: pass real numbers"),
        (dict(n_components=0), [X, Y], "n_components=0 is not valid: pass a whole number of at least 1"),
        (dict(covariance_type="tied"), [X, Y], "='tied' is not known: choose 'shrunk', 'low-rank', 'diag' or 'full'"),
        (dict(update="old"), [X, Y], "update='old' is not known: choose 'expanded', 'joint' or 'conditional'"),
        (dict(init="best"), [X, Y], "init='best' is not known: choose 'auto', 'cca', 'factors', 'random' or a Mixture"),
        (dict(acceleration="squarem"), [X, Y], "acceleration='squarem' is not known: choose 'lbfgs' or None"),
        (dict(noise_floor=0), [X, Y], "noise_floor=0 is not valid: pass a number above 0 and at most 1"),
        (
            dict(init=Mixture([1.0], [[0.0] * 2], [[[1.0]] * 2], [[[1.0]], [[1.0]]]), covariance_type="diag"),
            [X, Y],
            "pass a Mixture with K=1, views=(4, 4), d=1, diag",
        ),
    ],
    fast=8,
)
def test_one_sentence_for_bad_input(options, views, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        MixturePCCA(**options).fit(views)
    assert "\n" not in str(caught.value)


def test_one_sentence_for_bad_questions(fitted):
    model, (X, Y), _ = fitted
    for views, words in [
        (
            (X, Y[:, 1:]),
            "the views have (5, 3) columns but this MixturePCCA was fitted on (5, 4): pass the same columns",
        ),
        ((X, Y, Y), "3 views were passed, but the mixture was fitted on 2 views"),
        ((None, None), "every view is None: pass at least one"),
        ((3, None), "view 0 has shape (): pass an (N, d) array"),
        (([[1.0], [1.0, 2.0]], Y), "view 0 has rows of different lengths: pass an (N, d) array"),
        ((1e200 * X, None), "too large to be squared: rescale the column"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            model.predict(*views)
    with pytest.raises(ValueError, match="one ndarray was passed: pass the views as"):
        MixturePCCA().fit(X)


def test_duplicated_rows_and_tiny_components_are_survived():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 6))
    V = np.concatenate([rows, np.repeat(rows[:2], 20, axis=0)])
    with pytest.warns(UserWarning, match="describe fewer than two rows: lower n_components") as caught:
        model = MixturePCCA(10, 2, random_state=0, covariance_type="diag").fit(V[:, :3], V[:, 3:])
    assert caught[0].filename == __file__
    assert (np.diff(model.history_["fun"]) <= 0).all() and np.isfinite(model.score_samples(V[:, :3], V[:, 3:])).all()


def test_weights_of_a_batch_count_rows():
    m = mixture(K=2)
    views, _ = drawn(m, 120)
    weights = np.random.default_rng(0).integers(0, 3, 120)
    options = dict(covariance_type="diag", init=mixture(K=2, seed=3))
    weighted, repeated = MixturePCCA(2, 2, **options), MixturePCCA(2, 2, **options)
    for _ in range(3):
        weighted.partial_fit(*views, sample_weight=weights)
        repeated.partial_fit(*(np.repeat(view, weights, axis=0) for view in views))
    np.testing.assert_allclose(weighted.mixture_.means, repeated.mixture_.means, atol=1e-9)
    np.testing.assert_allclose(weighted.mixture_.variances, repeated.mixture_.variances, atol=1e-9)
    with pytest.raises(ValueError, match="sample_weight is zero for every row: pass at least 1 above 0"):
        weighted.partial_fit(*views, sample_weight=np.zeros(120))


@pytest.mark.parametrize(("covariance_type", "passes"), [("shrunk", 1), ("low-rank", 4)])
def test_batches_are_shrunk_like_all_rows(covariance_type, passes, tmp_path):
    """The target comes from the first batch, its weight is compared with all rows; a file continues like the model."""
    m = mixture(K=2, spread=3, full=covariance_type == "shrunk")
    views, _ = drawn(m, 3000)
    options = dict(covariance_type=covariance_type, shrinkage=100.0, diagonal=0.2, random_state=0)
    options |= {"n_private": 1} if covariance_type == "low-rank" else {}
    model, whole = MixturePCCA(2, 2, **options), MixturePCCA(2, 2, **options).fit(views)
    scores = []
    for rows in np.split(np.arange(3000), 20) * passes:
        scores.append(model.partial_fit([view[rows] for view in views]).score(views))
    assert scores[0] < scores[-1] and whole.score(views) - scores[-1] < 0.02
    assert (model.batches_, model.n_rows_, model.weight_) == (20 * passes, 3000 * passes, 3000.0 * passes)
    ms.storage.save_model(model, tmp_path)
    batch = [view[:100] for view in views]
    again = ms.storage.load_model(tmp_path).partial_fit(batch)
    np.testing.assert_array_equal(again.mixture_.loadings, model.partial_fit(batch).mixture_.loadings)


def test_the_first_batch_is_one_iteration_and_later_ones_weigh_the_prior_by_all_rows():
    """Oracle: the M-step written out for one component, whose mean and covariance need no responsibilities."""
    rng = np.random.default_rng(0)
    V = rng.standard_normal((120, 5)) @ rng.standard_normal((5, 5))
    batches = V[:80], V[80:]
    options = dict(covariance_type="shrunk", shrinkage=30.0, diagonal=0.5, noise_floor=1e-6, random_state=0)
    model = MixturePCCA(1, 2, **options)
    for batch in batches:
        model.partial_fit(batch[:, :3], batch[:, 3:])
    share = 2.0**-0.6
    first, second = (1 - share) / 80, share / 40
    mean = first * batches[0].sum(axis=0) + second * batches[1].sum(axis=0)
    moment = first * batches[0].T @ batches[0] + second * batches[1].T @ batches[1]
    pooled = np.cov(batches[0].T, bias=True)
    variance = np.diag(pooled)
    target = 0.5 * pooled + np.diag(0.5 * (variance + 1e-6 * variance) + 0.5 * 1e-6 * variance)
    nu = 30.0 / 120
    S = (moment - np.outer(mean, mean) + nu * target) / (1 + nu)
    np.testing.assert_allclose(model.mixture_.means[0], mean, atol=1e-12)
    found = model.mixture_
    for v, c in enumerate((slice(0, 3), slice(3, 5))):  # views keep their covariance; with d = 2 the rest is kept, too
        own = found.loadings[0, c] @ found.loadings[0, c].T + found.noise[v][0]
        np.testing.assert_allclose(own, S[c, c], atol=1e-10)
    np.testing.assert_allclose(found.loadings[0, :3] @ found.loadings[0, 3:].T, S[:3, 3:], atol=1e-8)


def test_scores_of_pairs_say_what_they_compare(fitted):
    model, (A, B), _ = fitted
    with pytest.raises(ValueError, match="view 0 has NaN at row 1, column 2: fill it by impute"):
        model.pair_scores(changed(A[:4], (1, 2), NAN), B)
    three = MixturePCCA(1, 1, covariance_type="diag", random_state=0).fit([A, B, B + A[:, :4]])
    with pytest.raises(ValueError, match="pair_scores compares rows of two views, but this mixture has 3 views: fit a"):
        three.pair_scores(A, B)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict_proba", "score_samples", "transform", "impute"])
def test_one_blas_thread(method):
    seen = []

    class Watched:
        """A view that notes how many threads BLAS has when it is read."""

        def __len__(self):
            return len(X)

        def __array__(self, dtype=None, copy=None):
            seen.append(ms.execution.blas_threads())
            return X

    model = MixturePCCA(2, 2, max_iter=1, random_state=0, covariance_type="diag").fit(X, Y)
    with threadpool_limits(2, user_api="blas"):
        getattr(model, method)(Watched(), Y)
        assert ms.execution.blas_threads() == 2
    assert seen and set(seen) == {1}
