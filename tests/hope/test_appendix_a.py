"""Rows of U that are not orthonormal (appendix A) in the estimator: likelihood, answers, parameters, errors."""

import numpy as np
import pytest
from hope.problems import clusters, unit
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import manifoldseq as ms
from manifoldseq_hope import HOPE

X = clusters(240, 6, K=3, spread=0.4)
SOLVERS = {"scaled": "lbfgs", "free": "augmented-lagrangian"}


def fitted(rows, **params):
    options = {"n_components": 3, "n_latent": 2, "family": "gmm", "tol": 1e-10, "max_iter": 300, "random_state": 0}
    return HOPE(**options | {"rows": rows, "solver": SOLVERS[rows]} | params).fit(X)


@pytest.mark.parametrize("family", ["gmm", "gmm-full"])
@pytest.mark.parametrize("rows", SOLVERS)
def test_the_likelihood_is_the_density_of_scipy(rows, family):
    """(44), (45): a mixture of normal distributions of x = U' (U U')^-1 z + n, and draws from it."""
    model = fitted(rows, family=family)
    U = model.components_
    lengths = np.linalg.norm(U, axis=1)
    assert lengths.min() >= 1 - 1e-4 and lengths.max() > 1.001
    back = np.linalg.lstsq(U, np.eye(2), rcond=None)[0].T  # the x of least norm with U x = z
    rest = model.noise_variance_ * (np.eye(6) - back.T @ U)
    spread = [np.diag(S) if S.ndim == 1 else S for S in model.covariances_]
    each = [(model.mean_ + m @ back, back.T @ S @ back + rest) for m, S in zip(model.means_, spread, strict=True)]
    expected = logsumexp([multivariate_normal(*part).logpdf(X) for part in each], axis=0, b=model.weights_[:, None])
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-8)
    assert model.log_likelihood_ == pytest.approx(expected.mean(), rel=1e-8)
    drawn, labels = model.sample(40_000, random_state=0)
    for k, (mean, covariance) in enumerate(each):
        own = drawn[labels == k]
        np.testing.assert_allclose(own.mean(axis=0), mean, atol=0.03)
        np.testing.assert_allclose(np.cov(own.T), covariance, atol=0.05)


@pytest.mark.parametrize("rows", SOLVERS)
def test_signal_and_residual_are_those_of_least_squares(rows):
    """(45)-(47): the residual of x by the rows of U, its variance (23), and the way back from features."""
    model = fitted(rows, noise_variance="closed")
    centred, U = X - model.mean_, model.components_
    coordinates = np.linalg.lstsq(U.T, centred.T, rcond=None)[0]
    energy = np.sum((centred - coordinates.T @ U) ** 2, axis=1)
    np.testing.assert_allclose(model.residual_energy(X), energy, rtol=1e-8)
    assert model.noise_variance_ == pytest.approx(energy.mean() / 4)
    assert model.residual_share_ == pytest.approx(energy.sum() / np.sum(centred**2))
    eta = model.transform(X)
    np.testing.assert_allclose(model.project(model.inverse_transform(eta)), model.locate(eta), atol=1e-8)
    assert np.abs(model.residual_energy(model.inverse_transform(eta))).max() < 1e-12


def test_lengths_follow_the_gaussians_and_more_freedom_is_not_worse():
    """The likelihood of scaled rows is that of orthonormal rows; full covariances follow every map of z."""
    for family, rows in (("gmm", "scaled"), ("gmm-full", "scaled"), ("gmm-full", "free")):
        model = fitted(rows, family=family, init=np.eye(6)[:2])
        U = model.components_
        before = HOPE(3, n_latent=2, family=family, solver="lbfgs", tol=1e-10, max_iter=300, init=np.eye(6)[:2])
        assert model.objective_ == pytest.approx(before.fit(X).objective_, abs=1e-4)
        assert rows == "free" or abs(U[0] @ U[1]) < 1e-10
    orthogonal, free = fitted("scaled"), fitted("free")
    assert free.objective_ < orthogonal.objective_ - 1e-4
    U = free.components_
    apart = fitted("free", beta=0.5, init=np.linalg.qr(U.T)[0].T).components_
    assert abs(apart[0] @ apart[1]) < abs(U[0] @ U[1])


def test_as_printed_lengths_cost_likelihood():
    """(50), (51) with the printed sign: the rows end at length one, where the likelihood is that of both signs."""
    printed, density = fitted("scaled", jacobian="printed"), fitted("scaled")
    np.testing.assert_allclose(np.linalg.norm(printed.components_, axis=1), 1, atol=1e-9)
    assert printed.objective_ == pytest.approx(density.objective_, abs=1e-4)


def test_directions_with_longer_rows_have_no_upper_bound():
    """In the model itself: a common length is free of cost for directions, and gains its logarithm per dimension."""
    problem = ms.get_model("hope.movmf").problem(unit(X), n_components=3, n_latent=2, rows="scaled")
    V, r, *rest = problem.initializers["pca"](problem, np.random.default_rng(0))
    values = [problem.objective.value((V, r / length, *rest)) for length in (1.0, 1e3, 1e6)]
    np.testing.assert_allclose(np.diff(values), -2 * np.log(1e3), rtol=1e-9)


def distinct(model):
    """Return the number of parameters that change the density: the rank of its derivatives by all entries."""
    point = [model.weights_, model.components_, *model.parameters_]
    sizes = np.cumsum([part.size for part in point])[:-1]
    flat = np.concatenate([part.ravel() for part in point])

    def density(v):
        parts = [part.reshape(old.shape) for part, old in zip(np.split(v, sizes), point, strict=True)]
        model.weights_, model.components_, *rest = parts
        model.weights_ = np.abs(model.weights_) / np.abs(model.weights_).sum()
        model.parameters_ = tuple(rest)
        return model.score_samples(X)

    slopes = [(density(flat + e) - density(flat - e)) / 2e-5 for e in 1e-5 * np.eye(len(flat))]
    return int(np.linalg.matrix_rank(np.array(slopes), tol=1e-5))


@pytest.mark.parametrize("family", ["gmm", "gmm-full"])
def test_criteria_count_what_changes_the_density(family):
    """By the rank of the derivatives of ln p(x); free rows move everywhere."""
    model = fitted("free", family=family)
    count = distinct(model) + 4 + 1  # the mean of the rows across the projection, and the noise
    assert model._n_parameters() == count
    turns = 1 if family == "gmm" else 0
    assert fitted("scaled", family=family)._n_parameters() == count - turns


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"rows": "short"}, "rows='short' is not known"),
        ({"rows": "scaled", "solver": "em"}, "rows='scaled' needs .* solver='lbfgs': EM learns orthonormal rows only"),
        ({"rows": "free"}, "rows='free' needs .* jacobian='density' and solver='augmented-lagrangian'"),
        ({"rows": "scaled", "solver": "lbfgs", "normalize_z": True}, "normalize_z=False .* no upper bound"),
        ({"rows": "scaled", "solver": "lbfgs", "family": "movmf"}, "family='gmm', .* no upper bound"),
        ({"rows": "scaled", "solver": "lbfgs", "family": "movmf", "normalize_z": False}, "no upper bound"),
        ({"rows": "free", "solver": "sqp", "jacobian": "printed"}, "jacobian='density' .* no upper bound"),
        ({"rows": "free", "solver": "lbfgs"}, "does not support constraints"),
        ({"jacobian": "negative"}, "jacobian='negative' is not known"),
        ({"beta": -1.0}, "beta=-1.0 is not valid"),
        ({"noise_gradient": "half"}, "noise_gradient='half' is not known"),
    ],
)
def test_errors(params, words):
    with pytest.raises(ValueError, match=words):
        HOPE(**{"n_components": 3, "n_latent": 2, "family": "gmm"} | params).fit(X)


def test_batches_learn_orthonormal_rows():
    with pytest.raises(ValueError, match="partial_fit does not support rows='scaled': use fit"):
        HOPE(3, n_latent=2, family="gmm", rows="scaled", solver="lbfgs").partial_fit(X)
