"""What the plugin registers, and its models on their manifolds."""

import pickle

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VonMisesFisherMixture


def test_names_are_found():
    assert ms.get_estimator("hope") is HOPE
    assert ms.get_estimator("vmf-mixture") is VonMisesFisherMixture
    assert ms.get_estimator("spherical-kmeans") is SphericalKMeans
    assert ms.get_estimator("pca-movmf") is PCAMovMF
    assert ms.get_model("hope.gmm").build.__module__ == "manifoldseq_hope.mixtures._likelihood"
    assert ms.get_solver("penalty-sgd", beta=0.1).beta == 0.1


MODELS = [
    ("hope.movmf", {}),
    ("hope.movmf", {"normalize_z": False, "bessel": "paper", "noise_variance": 0.1}),
    ("hope.movmf", {"rows": "scaled", "noise_variance": "bounded", "normalize_z": False}),
    ("hope.gmm", {}),
    ("hope.gmm", {"covariance_type": "full", "noise_variance": "closed"}),
    ("hope.gmm", {"rows": "scaled"}),
]


@pytest.mark.parametrize(("name", "params"), MODELS)
def test_models_obey_the_laws(name, params):
    ms.testing.check_model(name, **params).raise_for_failure()


def test_solver_obeys_the_laws():
    ms.testing.check_solver("penalty-sgd").raise_for_failure()


@pytest.mark.parametrize("name", ["hope.movmf", "hope.gmm"])
def test_free_rows_are_at_least_one_long(name):
    """Appendix A as printed (44)-(54): inequality constraints and the penalty."""
    X = ms.get_model(name).example(np.random.default_rng(0))
    problem = ms.get_model(name).build(
        X, n_components=2, n_mixtures=2, rows="free", jacobian="printed", noise_variance=0.1
    )
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    report = ms.testing.check_gradient((problem.manifold, problem.objective), (1.2 * x[0] + 0.1, *x[1:]))
    assert report.ok, str(report)
    assert len(problem.inequalities) == 2
    for bound in problem.inequalities:
        assert bound.value(x) == pytest.approx(0, abs=1e-12)
        ms.testing.check_gradient((problem.manifold, bound), x).raise_for_failure()
    sizes = {"n_components": 2, "n_mixtures": 2, "noise_variance": 0.1}
    problem = ms.get_model(name).build(X, rows="free", beta=0.0, **sizes)  # the penalty has a kink at the start
    result = ms.minimize(problem, "pca", solver="augmented-lagrangian", stop=ms.MaxIterations(100), seed=0)
    assert np.all(np.linalg.norm(result.x[0], axis=0) >= 1 - 1e-4)
    assert result.fun < problem.objective.value(x)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_no_step_leaves_the_positive_definite_covariances(kind):
    """A step to where they would be negative."""
    X = ms.get_model("hope.gmm").example(np.random.default_rng(0))
    problem = ms.get_model("hope.gmm").build(X, n_components=2, n_mixtures=2, covariance_type=kind)
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    place = problem.manifold.factors[-1]
    down = tuple(-3 * part for part in x[-1]) if kind == "full" else -3 * x[-1]
    reached = place.retract(x[-1], down)
    parts = reached if kind == "full" else map(np.diag, reached)
    assert min(np.linalg.eigvalsh(part)[0] for part in parts) > 0


def test_scaled_rows_whiten():
    """Appendix A as a product of manifolds: one Gaussian with unit variance asks for row lengths 1 / deviation."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) * [0.5, 0.25, 0.01, 0.01, 0.01]
    X -= X.mean(axis=0)
    problem = ms.get_model("hope.gmm").build(X, n_components=2, n_mixtures=1, rows="scaled", noise_variance=1e-4)
    fixed = problem.freeze("weights", "means", "variances")
    V, r, weights, means, variances = problem.initializers["pca"](problem, rng)
    start = (V, 0.9 * r, weights, 0 * means, np.ones_like(variances))
    found = ms.minimize(fixed, start, seed=0).x
    np.testing.assert_allclose(np.abs(found[1]), X.std(axis=0)[:2], rtol=0.02)


def test_tables_in_a_list_are_one_table():
    X = ms.get_model("hope.gmm").example(np.random.default_rng(0))
    whole, parts = (ms.get_model("hope.gmm").build(data) for data in (X, [X[:40], X[40:]]))
    x = whole.initializers["pca"](whole, np.random.default_rng(0))
    assert parts.objective.value(x) == whole.objective.value(x)


def test_problems_can_be_pickled():
    problem = ms.get_model("hope.movmf").build(ms.get_model("hope.movmf").example(np.random.default_rng(0)))
    again = pickle.loads(pickle.dumps(problem))
    x = problem.initializers["pca"](problem, np.random.default_rng(0))
    assert again.objective.value(x) == problem.objective.value(x)
