"""The model `mpcca`: conformance, the same optimum as EM, batches, starts."""

import pickle

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import drawn, log_densities, mixture
from scipy.special import logsumexp

import manifoldseq as ms
from manifoldseq_mpcca import Mixture, MixturePCCA

build = ms.get_model("mpcca").problem


@parametrize("params", [dict(), dict(covariance_type="full")], fast=1, ids=str)
def test_conforms(params):
    ms.testing.check_model("mpcca", **params).raise_for_failure()


@pytest.mark.slow
def test_three_views_conform():
    views, _ = drawn(mixture(sizes=(3, 2, 4)), 60)
    ms.testing.check_model("mpcca", views).raise_for_failure()


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_value_is_the_mean_log_likelihood(covariance_type):
    views, _ = drawn(mixture(), 150)
    problem = build(views, n_components=3, covariance_type=covariance_type)
    for name, start in problem.initializers.items():
        point = start(problem, np.random.default_rng(0))
        *others, parts = point
        m = Mixture.from_point((*others, tuple(np.stack(part) for part in parts)))
        density = logsumexp(log_densities(m, views), axis=1).mean()
        assert problem.objective.value(point) == pytest.approx(-density, rel=1e-10), name


def test_solver_and_em_find_the_same_optimum():
    """One component: both reach the only maximum that there is up to rotation."""
    views, _ = drawn(mixture(K=1), 400)
    problem = build(views, n_components=1, n_latent=2)
    solved = ms.minimize(problem, seed=0, stop=ms.GradientNorm(1e-7) | ms.MaxIterations(500))
    fitted = MixturePCCA(1, 2, tol=1e-13, max_iter=500, covariance_type="diag").fit(views)
    assert solved.success
    assert solved.fun == pytest.approx(-fitted.score(views), abs=1e-9)
    m = Mixture.from_point(solved.x).canonical()
    np.testing.assert_allclose(m.variances, fitted.mixture_.variances, rtol=1e-3)
    np.testing.assert_allclose(m.loadings, fitted.mixture_.loadings, atol=1e-3)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_em_is_a_block_update(covariance_type):
    """Repeated, it does what plain EM does."""
    views, _ = drawn(mixture(), 150)
    problem = build(views, n_components=3, covariance_type=covariance_type)
    (update,) = problem.objective.updates
    point = problem.initializers["random"](problem, np.random.default_rng(0))
    values = [problem.objective.value(point)]
    for _ in range(10):
        point = update.apply(point)
        values.append(problem.objective.value(point))
    assert (np.diff(values) < 0).all()
    start = problem.initializers["random"](problem, np.random.default_rng(0))
    *others, parts = start
    init = Mixture.from_point((*others, tuple(np.stack(part) for part in parts)))
    plain = dict(update="joint", acceleration=None, tol=0, max_iter=10)
    model = MixturePCCA(3, 2, covariance_type=covariance_type, init=init, **plain).fit(views)
    np.testing.assert_allclose(model.history_["fun"], values, rtol=1e-12)


def test_alternating_solver_is_em():
    """The closed-form update alone, until the gradient is small."""
    views, _ = drawn(mixture(K=1), 200)
    problem = build(views, n_components=1, n_latent=1)
    result = ms.minimize(
        problem, "random", seed=0, solver="alternating", stop=ms.GradientNorm(1e-5) | ms.MaxIterations(2000)
    )
    assert result.success and (np.diff(result.history["fun"]) <= 1e-12).all()
    assert result.fun == pytest.approx(
        -MixturePCCA(1, 1, tol=1e-13, max_iter=500, covariance_type="diag").fit(views).score(views), abs=1e-6
    )


def test_tables_are_split_into_views():
    """As `manifoldseq solve mpcca table.npy --set views=[5,4]` does."""
    views, _ = drawn(mixture(), 80)
    table = np.hstack(views)
    one, other = build(views), build([table[:50], table[50:]], views=[5, 4])
    point = one.initializers["factors"](one, np.random.default_rng(0))
    assert one.objective.value(point) == other.objective.value(point)
    with pytest.raises(ValueError, match=r"views=\[5, 5\] is not valid: pass whole numbers of columns with the sum 9"):
        build([table], views=[5, 5])
    for tables, options, words in (
        ([table], {}, r"one table was passed: split its 9 columns into views, such as views=\[1, 8\]"),
        ([table, table[:, 1:]], dict(views=[5, 4]), r"the tables have \[8, 9\] columns: pass at least one table, and"),
        ([], dict(views=[5, 4]), r"the tables have \[\] columns: pass at least one"),
    ):
        with pytest.raises(ValueError, match=words):
            build(tables, **options)


def test_problem_can_be_pickled():
    views, _ = drawn(mixture(), 50)
    problem = build(views)
    again = pickle.loads(pickle.dumps(problem))
    point = problem.initializers["factors"](problem, np.random.default_rng(0))
    assert again.objective.value(point) == problem.objective.value(point)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(n_latent=0), "n_latent=0 is not valid: pass a whole number of at least 1"),
        (dict(n_latent=5), "n_latent=5 exceeds the 4 columns of view 1"),
        (dict(covariance_type="tied"), "covariance_type='tied' is not known: choose 'diag' or 'full'"),
    ],
)
def test_errors(options, words):
    with pytest.raises(ValueError, match=words):
        build(drawn(mixture(), 50)[0], **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_collinear_columns_are_named(covariance_type, dtype):
    """They make the likelihood infinite: the estimator has a noise floor, the manifold has none."""
    (X, Y), _ = drawn(mixture(K=1), 120)
    X, Y = X.astype(dtype), Y.astype(dtype)
    options = dict(n_components=1, n_latent=1, covariance_type=covariance_type)
    words = "column {} is a linear function of column {}, and the likelihood of collinear columns has no maximum"
    twice = np.column_stack([X, 1e6 * X[:, 1] - 7])
    for views, found in (
        ([twice, Y], ("5 of view 0", "1 of view 0")),
        ([Y, twice], ("5 of view 1", "1 of view 1")),
        ([X, np.column_stack([Y, -X[:, 2]])], ("4 of view 1", "2 of view 0")),
    ):
        with pytest.raises(ValueError, match=words.format(*found)):
            build(views, **options)
        assert np.isfinite(MixturePCCA(1, 1, covariance_type=covariance_type, random_state=0).fit(*views).score(*views))


def test_a_sum_of_columns_needs_a_full_noise_or_as_many_latent_dimensions():
    (X, Y), _ = drawn(mixture(K=1), 120)
    views = [np.column_stack([X[:, :2], X[:, 0] + X[:, 1]]), Y]
    for options in (dict(n_latent=1, covariance_type="full"), dict(n_latent=2)):
        with pytest.raises(ValueError, match=r"is a linear function of column . of view 0, column . of view 0, and"):
            build(views, n_components=1, **options)
    assert ms.minimize(build(views, n_components=1, n_latent=1), seed=0, max_iter=5).nit == 5
    with pytest.raises(ValueError, match=r"with 8 rows and 9 columns, .* has no maximum"):
        build([X[:8], Y[:8]], covariance_type="full")


def test_the_likelihood_of_collinear_columns_has_no_bound():
    """What `build` says, by the densities of scipy: the value grows with every decimal that the noise loses."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100)
    views, values = [x[:, None], 2 * x[:, None]], []
    for noise in (1e-2, 1e-4, 1e-6, 1e-8):
        m = Mixture([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[[noise]], [[noise]]])
        values.append(float(log_densities(m, views).mean()))
    assert (np.diff(values) > 2.2).all(), values
