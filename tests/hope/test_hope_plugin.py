"""What the plugin registers, and its models on their manifolds."""

import pickle

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from helpers import parametrize
from hope.problems import gmm_naive, movmf_naive, noise_naive
from scipy.stats import multivariate_normal

import manifoldseq as ms
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VonMisesFisherMixture


def test_names_are_found():
    assert ms.get_estimator("hope") is HOPE
    assert ms.get_estimator("vmf-mixture") is VonMisesFisherMixture
    assert ms.get_estimator("spherical-kmeans") is SphericalKMeans
    assert ms.get_estimator("pca-movmf") is PCAMovMF
    assert ms.get_model("hope.gmm").prepare.__module__.startswith("manifoldseq_hope.")


MODELS = [
    ("hope.movmf", {}),
    ("hope.movmf", {"normalize_z": False, "bessel": "paper", "noise_variance": 0.1}),
    ("hope.movmf", {"rows": "scaled", "noise_variance": "bounded", "normalize_z": False}),
    ("hope.gmm", {}),
    ("hope.gmm", {"covariance_type": "full", "noise_variance": "closed"}),
    ("hope.gmm", {"rows": "scaled"}),
]


@parametrize(("name", "params"), MODELS, fast=2)
def test_models_obey_the_laws(name, params):
    ms.testing.check_model(name, **params).raise_for_failure()


def example(name):
    return ms.get_model(name).example(np.random.default_rng(0)) + 0.2  # no mean of zero


def mixture_naive(name):
    return movmf_naive if name == "hope.movmf" else gmm_naive


@pytest.mark.parametrize("name", ["hope.movmf", "hope.gmm"])
def test_objective_is_the_likelihood_written_out(name):
    """(11), (12), with the derivatives by the weights (26), (32) among all others."""
    X = example(name)
    problem = ms.get_model(name).problem(X, n_components=3, n_latent=2, noise_variance=0.3)
    V, _, *parameters = problem.initializers["random"](problem, np.random.default_rng(0))
    x = (V, np.array([0.5, 0.3, 0.2]), *parameters)

    def f(V, weights, *parameters):
        L1 = mixture_naive(name)(anp.transpose(V), weights, *parameters, X)
        return -(L1 + noise_naive(anp.transpose(V), X, 0.3)) / len(X)

    value, slope = problem.objective.value_and_gradient(x)
    assert value == pytest.approx(float(f(*x)), rel=1e-12)
    for i, part in enumerate(slope):
        np.testing.assert_allclose(part, grad(f, i)(*x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "rows"),
    [("hope.movmf", "orthonormal"), ("hope.gmm", "orthonormal"), ("hope.movmf", "scaled"), ("hope.gmm", "scaled")],
)
def test_constraints_hold_at_the_end(name, rows):
    """(13); (53) and (54) with rows that may be longer than one."""
    problem = ms.get_model(name).problem(example(name), rows=rows, noise_variance=0.01)
    x = ms.minimize(problem, "random", stop=ms.MaxIterations(10), seed=0).x
    U = x[0].T / x[1][:, None] if rows == "scaled" else x[0].T
    C = U @ U.T
    lengths = np.sqrt(np.diagonal(C))
    np.testing.assert_allclose(C, np.diag(lengths**2), atol=1e-10 * lengths.max() ** 2)
    if rows == "scaled":
        assert lengths.min() >= 1 - 1e-12 and lengths.max() > 1.05
    else:
        np.testing.assert_allclose(lengths, 1, atol=1e-12)


@pytest.mark.parametrize("name", ["hope.movmf", "hope.gmm"])
def test_scaled_rows_have_the_jacobian_of_44(name):
    """The default is a density, by scipy; as printed the term has the other sign."""
    X, scales = example(name), np.array([1.5, 2.0])
    settings = {"n_components": 1, "n_latent": 2, "rows": "scaled", "noise_variance": 0.2}
    density, printed = (ms.get_model(name).problem(X, jacobian=sign, **settings) for sign in ("density", "printed"))
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 2)))[0].T
    shape = (np.array([[2.0, 1.0]]),) if name == "hope.movmf" else (np.zeros((1, 2)), np.ones((1, 2)))
    x = (np.ascontiguousarray(Q.T), 1 / scales, np.ones(1), *shape)
    if name == "hope.movmf":
        L = mixture_naive(name)(scales[:, None] * Q, np.ones(1), *shape, X) + noise_naive(Q, X, 0.2)
        expected = L / len(X) + np.log(scales).sum()
    else:
        whole = Q.T @ np.diag(scales**-2.0) @ Q + 0.2 * (np.eye(5) - Q.T @ Q)
        expected = multivariate_normal(np.zeros(5), whole).logpdf(X).mean()
    assert -density.objective.value(x) == pytest.approx(expected, rel=1e-10)
    assert -printed.objective.value(x) == pytest.approx(expected - 2 * np.log(scales).sum(), rel=1e-10)


@pytest.mark.parametrize("name", ["hope.movmf", "hope.gmm"])
def test_objective_of_free_rows_is_52_written_out(name):
    """J of (44) as printed, L1, L2 of (48) with D - M, less the penalty for every row of the data."""
    X, beta = example(name), 0.7
    problem = ms.get_model(name).problem(
        X, n_components=3, n_latent=2, rows="free", jacobian="printed", noise_variance=0.1, beta=beta
    )
    V, *rest = problem.initializers["random"](problem, np.random.default_rng(0))
    U = 1.2 * V.T + 0.1
    n, D = X.shape
    across = X - X @ np.linalg.pinv(U) @ U
    L2 = -0.5 * n * (D - 2) * np.log(2 * np.pi * 0.1) - 0.5 * np.sum(across**2) / 0.1
    J = -0.5 * n * np.log(np.linalg.det(U @ U.T))
    cosine = abs(U[0] @ U[1]) / (np.linalg.norm(U[0]) * np.linalg.norm(U[1]))
    expected = J + mixture_naive(name)(U, *rest, X) + L2 - n * beta * cosine
    assert -n * problem.objective.value((U.T, *rest)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["hope.movmf", "hope.gmm"])
def test_free_rows_are_at_least_one_long(name):
    """Appendix A as printed (44)-(54): inequality constraints and the penalty."""
    X = ms.get_model(name).example(np.random.default_rng(0))
    problem = ms.get_model(name).problem(
        X, n_components=2, n_latent=2, rows="free", jacobian="printed", noise_variance=0.1
    )
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    report = ms.testing.check_gradient((problem.manifold, problem.objective), (1.2 * x[0] + 0.1, *x[1:]))
    assert report.ok, str(report)
    assert len(problem.inequalities) == 2
    for bound in problem.inequalities:
        assert bound.value(x) == pytest.approx(0, abs=1e-12)
        ms.testing.check_gradient((problem.manifold, bound), x).raise_for_failure()
    sizes = {"n_components": 2, "n_latent": 2, "noise_variance": 0.1}
    problem = ms.get_model(name).problem(X, rows="free", beta=0.0, **sizes)  # the penalty has a kink at the start
    result = ms.minimize(problem, "pca", solver="augmented-lagrangian", stop=ms.MaxIterations(100), seed=0)
    assert np.all(np.linalg.norm(result.x[0], axis=0) >= 1 - 1e-4)
    assert result.fun < problem.objective.value(x)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_no_step_leaves_the_positive_definite_covariances(kind):
    """A step to where they would be negative."""
    X = ms.get_model("hope.gmm").example(np.random.default_rng(0))
    problem = ms.get_model("hope.gmm").problem(X, n_components=2, n_latent=2, covariance_type=kind)
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    place = problem.manifold.factors[-1]
    reached = place.retract(x[-1], -3 * x[-1])
    parts = reached if kind == "full" else map(np.diag, reached)
    assert min(np.linalg.eigvalsh(part)[0] for part in parts) > 0


def test_scaled_rows_whiten():
    """Appendix A as a product of manifolds: one Gaussian with unit variance asks for row lengths 1 / deviation."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) * [0.5, 0.25, 0.01, 0.01, 0.01]
    X -= X.mean(axis=0)
    problem = ms.get_model("hope.gmm").problem(X, n_components=1, n_latent=2, rows="scaled", noise_variance=1e-4)
    fixed = problem.freeze("weights", "means", "variances")
    V, r, weights, means, variances = problem.initializers["pca"](problem, rng)
    start = (V, 0.9 * r, weights, 0 * means, np.ones_like(variances))
    found = ms.minimize(fixed, start, seed=0).x
    np.testing.assert_allclose(np.abs(found[1]), X.std(axis=0)[:2], rtol=0.02)


def test_tables_in_a_list_are_one_table():
    X = ms.get_model("hope.gmm").example(np.random.default_rng(0))
    whole, parts = (ms.get_model("hope.gmm").problem(data) for data in (X, [X[:40], X[40:]]))
    x = whole.initializers["pca"](whole, np.random.default_rng(0))
    assert parts.objective.value(x) == whole.objective.value(x)


def test_problems_can_be_pickled():
    problem = ms.get_model("hope.movmf").problem(ms.get_model("hope.movmf").example(np.random.default_rng(0)))
    again = pickle.loads(pickle.dumps(problem))
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    assert again.objective.value(x) == problem.objective.value(x)
