"""The likelihood and its gradients, off the manifold too, against autograd and scipy."""

import numpy as np
import pytest
from autograd import grad
from hope.problems import clusters, gmm_naive, movmf_naive, noise_naive, unit
from scipy.stats import multivariate_normal, vonmises_fisher

import manifoldseq as ms
from manifoldseq_hope import correlations, gaussian, penalty, penalty_gradient, residual_energy, von_mises_fisher
from manifoldseq_hope.mixtures._expectation import Expectation, second_moment
from manifoldseq_hope.mixtures._noise import Noise
from manifoldseq_hope.mixtures._parameters import Data, Model
from manifoldseq_hope.mixtures._projection_factors import Rows

RNG = np.random.default_rng(5)
M, D, K = 3, 6, 4
U = RNG.standard_normal((M, D)) * 0.6  # no orthonormal rows
W = np.array([0.4, 0.3, 0.2, 0.1])
MU = RNG.standard_normal((K, M)) * 3
VARIANCES = RNG.uniform(0.5, 2, (K, M))
ROOTS = RNG.standard_normal((K, M, M)) * 0.3 + np.eye(M)
FULL = ROOTS @ ROOTS.mT
X = unit(clusters(80, D)) * 1.3


def movmf(normalize=True, bessel="exact", mu=MU):
    return Model(U, W, (mu,), von_mises_fisher(bessel), normalize)


def gmm(full=False):
    return Model(U, W, (MU / 3, FULL if full else VARIANCES), gaussian("full" if full else "diag"), False)


@pytest.mark.parametrize(("times", "sparse"), [(1, 0), (1, 1), (30, 0), (30, 1)])
@pytest.mark.parametrize("normalize", [True, False])
def test_movmf_against_autograd(normalize, times, sparse, monkeypatch):
    """L1 (29) and its derivatives (32)-(34), (55)-(63); concentrated too, by products of both kinds."""
    monkeypatch.setattr("manifoldseq_hope.mixtures._expectation._SPARSE", sparse)
    mus = MU * times
    model = movmf(normalize, mu=mus)
    found = Expectation(model, X.dtype).statistics(X)

    def f(u, w, mu):
        return movmf_naive(u, w, mu, X, normalize)

    assert found.log_likelihood == pytest.approx(float(f(U, W, mus)), rel=1e-12)
    np.testing.assert_allclose(found.slope, grad(f, 0)(U, W, mus), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.counts / W, grad(f, 1)(U, W, mus), rtol=1e-9)
    (by_mu,) = model.family.gradient(model.parameters, found.sums, found.counts, M)
    np.testing.assert_allclose(by_mu, grad(f, 2)(U, W, mus), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_gmm_against_autograd(full):
    """L1 (24) and its derivatives (25)-(28)."""
    model = gmm(full)
    found = Expectation(model, X.dtype).statistics(X)

    def f(u, w, means, spread):
        return gmm_naive(u, w, means, spread, X)

    at = (U, W, *model.parameters)
    assert found.log_likelihood == pytest.approx(float(f(*at)), rel=1e-12)
    np.testing.assert_allclose(found.slope, grad(f, 0)(*at), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.counts / W, grad(f, 1)(*at), rtol=1e-9)
    by_means, by_spread = model.family.gradient(model.parameters, found.sums, found.counts, M)
    np.testing.assert_allclose(by_means, grad(f, 2)(*at), rtol=1e-9, atol=1e-9)
    free = grad(f, 3)(*at)
    np.testing.assert_allclose(by_spread, 0.5 * (free + free.mT) if full else free, rtol=1e-9, atol=1e-9)


def test_component_densities_are_those_of_scipy():
    """(9), (10), (37), (38); (8)."""
    model = movmf()
    z = unit(X @ U.T)
    parts = [vonmises_fisher(m / np.linalg.norm(m), np.linalg.norm(m)).logpdf(z) for m in MU]
    phi = Expectation(model, X.dtype).phi(X)
    np.testing.assert_allclose(phi, np.log(W) + np.stack(parts, axis=1), rtol=1e-10)
    np.testing.assert_allclose(Expectation(model, X.dtype).log_density(X), np.logaddexp.reduce(phi, axis=1), rtol=1e-12)
    normal = [multivariate_normal(m / 3, S).logpdf(X @ U.T) for m, S in zip(MU, FULL, strict=True)]
    phi = Expectation(gmm(True), X.dtype).phi(X)
    np.testing.assert_allclose(phi, np.log(W) + np.stack(normal, axis=1), rtol=1e-10)
    gamma = Expectation(gmm(True), X.dtype).responsibilities(X)
    np.testing.assert_allclose(gamma, np.exp(phi - np.logaddexp.reduce(phi, axis=1)[:, None]), rtol=1e-10)


@pytest.mark.parametrize("variance", [0.1, 0.7])
def test_noise_against_autograd(variance):
    """(19)-(22), with the constant."""
    S = second_moment(X)
    value, slope = Noise(variance).value_and_gradient(U, S, len(X))
    assert value == pytest.approx(float(noise_naive(U, X, variance)), rel=1e-12)
    np.testing.assert_allclose(slope, grad(noise_naive)(U, X, variance), rtol=1e-9, atol=1e-9)
    rest = X - X @ U.T @ U
    assert residual_energy(U, S) == pytest.approx(float(np.sum(rest**2)), rel=1e-12)


def test_closed_form_of_the_variance_is_the_best():
    """(23), and L2 as its profile."""
    S, Q = second_moment(X), ms.linalg.polar(U.T).T
    closed = Noise("closed")
    variance = closed.variance(Q, S, len(X))
    assert variance == pytest.approx(residual_energy(Q, S) / (len(X) * (D - M)))
    best = closed.log_likelihood(Q, S, len(X))
    assert all(best > Noise(variance * f).log_likelihood(Q, S, len(X)) for f in (0.9, 1.1))
    move = RNG.standard_normal(Q.shape) * 1e-5
    up, down = (closed.log_likelihood(Q + sign * move, S, len(X)) for sign in (1, -1))
    slope = closed.value_and_gradient(Q, S, len(X))[1]
    assert (up - down) / 2 == pytest.approx(float(np.sum(slope * move)), rel=1e-6)


def test_bound_of_the_variance_follows_the_least_variance_of_z():
    S, Q = np.diag([9.0, 4.0, 0.1, 5.0, 3.0, 2.0]), np.eye(6)[:3]
    noise = Noise("bounded")
    assert noise.variance(Q, S, 1.0) == pytest.approx(0.1)
    move = RNG.standard_normal(Q.shape) * 1e-5
    up, down = (noise.log_likelihood(Q + sign * move, S, 1.0) for sign in (1, -1))
    assert (up - down) / 2 == pytest.approx(float(np.sum(noise.value_and_gradient(Q, S, 1.0)[1] * move)), rel=1e-6)


def test_simplified_gradient_holds_on_the_constraint_only():
    """Footnote 3."""
    S, Q = second_moment(X), ms.linalg.polar(U.T).T
    full, simple = Noise(0.1), Noise(0.1, gradient="simplified")
    manifold = ms.manifolds.Stiefel(D, M)
    tangents = [manifold.project(Q.T, noise.value_and_gradient(Q, S, len(X))[1].T) for noise in (full, simple)]
    np.testing.assert_allclose(*tangents, atol=1e-8)
    assert full.log_likelihood(Q, S, len(X)) == pytest.approx(simple.log_likelihood(Q, S, len(X)))
    off = abs(full.log_likelihood(U, S, len(X)) / simple.log_likelihood(U, S, len(X)) - 1)
    assert off > 0.05


def test_the_gradient_of_the_model_is_the_unsimplified_one():
    """Footnote 3: of the objective itself, at rows that are not orthonormal."""
    problem = ms.get_model("hope.movmf").problem(X, n_components=K, n_latent=M, noise_variance=0.1)

    def f(u):
        return -(movmf_naive(u, W, MU, X) + noise_naive(u, X, 0.1)) / len(X)

    value, slope = problem.objective.value_and_gradient((U.T, W, MU))
    assert value == pytest.approx(float(f(U)), rel=1e-12)
    np.testing.assert_allclose(slope[0].T, grad(f)(U), rtol=1e-9, atol=1e-9)


def test_appendix_a():
    """(45)-(51): free rows; the Jacobian (50) is that of (51) for orthogonal rows only."""
    S, n = second_moment(X), len(X)
    data = Data(X, None, S, float(n))
    rows = Rows("free", Noise(0.3), sign=-1)
    value, (slope,) = rows.value_and_gradient((U.T,), np.zeros_like(U), data)

    def naive(u):
        import autograd.numpy as anp

        C = anp.dot(u, u.T)
        T = anp.linalg.solve(C, u)
        energy = anp.sum(X**2) - anp.sum(anp.dot(X, u.T) * anp.dot(X, T.T))  # (47)
        jacobian = -0.5 * n * anp.linalg.slogdet(C)[1]
        return jacobian - 0.5 * n * (D - M) * anp.log(2 * anp.pi * 0.3) - 0.5 * energy / 0.3

    assert value == pytest.approx(float(naive(U)), rel=1e-12)
    np.testing.assert_allclose(slope.T, grad(naive)(U), rtol=1e-9, atol=1e-9)
    signal = X @ U.T @ np.linalg.inv(U @ U.T) @ U  # (45): the rest is across
    assert np.sum(signal**2) + np.sum((X - signal) ** 2) == pytest.approx(np.sum(X**2))  # (46)
    scales = np.array([1.5, 2.0, 3.0])
    orthogonal = scales[:, None] * ms.linalg.polar(U.T).T
    printed = -n * np.sum(np.log(np.linalg.norm(orthogonal, axis=1)))
    assert -0.5 * n * np.linalg.slogdet(orthogonal @ orthogonal.T)[1] == pytest.approx(printed, rel=1e-12)
    assert abs(-0.5 * np.linalg.slogdet(U @ U.T)[1] + np.sum(np.log(np.linalg.norm(U, axis=1)))) > 1e-2
    scaled = Rows("scaled", Noise(0.3), sign=-1)
    head = (ms.linalg.polar(U.T), 1 / scales)
    np.testing.assert_allclose(scaled.projection(head, None), orthogonal, atol=1e-12)
    same, _ = scaled.value_and_gradient(head, np.zeros_like(U), data)
    free, _ = rows.value_and_gradient((orthogonal.T,), np.zeros_like(U), data)
    assert same == pytest.approx(free, rel=1e-10)


def test_density_of_scaled_rows_is_one():
    """The change of variables has the determinant of U, not of its inverse as printed in (6), (44)."""
    Q, scales = ms.linalg.polar(U.T).T, np.array([1.5, 2.0, 3.0])
    model = Model(scales[:, None] * Q, np.ones(1), (np.zeros((1, M)), np.ones((1, M))), gaussian(), False)
    data = Data(X, None, second_moment(X), float(len(X)))
    L1 = Expectation(model, X.dtype).statistics(X)
    rest, _ = Rows("scaled", Noise(0.2)).value_and_gradient((Q.T, 1 / scales), L1.slope, data)
    whole = Q.T @ np.diag(scales**-2) @ Q + 0.2 * (np.eye(D) - Q.T @ Q)
    assert L1.log_likelihood + rest == pytest.approx(multivariate_normal(np.zeros(D), whole).logpdf(X).sum(), rel=1e-10)


def test_penalty_against_autograd():
    """(15)-(18); orthogonal to every row, as lengths do not matter; zero at orthogonal rows."""
    import autograd.numpy as anp

    def naive(u):
        unit_rows = u / anp.sqrt(anp.sum(u**2, axis=1, keepdims=True))
        return 0.5 * (anp.sum(anp.abs(anp.dot(unit_rows, unit_rows.T))) - len(U))

    assert penalty(U) == pytest.approx(float(naive(U)), rel=1e-12)
    slope = penalty_gradient(U)
    np.testing.assert_allclose(slope, grad(naive)(U), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.sum(slope * U, axis=1), 0, atol=1e-12)
    Q = np.eye(D)[:M]
    assert penalty(Q) == 0 and not penalty_gradient(Q).any()
    for function in (correlations, penalty, penalty_gradient):
        with pytest.raises(ValueError, match="row 1 of U is all zeros"):
            function([[1.0, 2.0], [0.0, 0.0]])
    g = correlations(U)  # (16), (17) by loops
    printed = [
        sum(g[i, j] * (U[j] / (U[i] @ U[j]) - U[i] / (U[i] @ U[i])) for j in range(M) if j != i) for i in range(M)
    ]
    np.testing.assert_allclose(slope, printed, atol=1e-12)


def test_decomposition():
    """(1)-(6): signal and residual, and the density as their product."""
    Q = ms.linalg.polar(U.T).T
    z, rest = X @ Q.T, X - X @ Q.T @ Q
    np.testing.assert_allclose(z @ Q + rest, X)
    np.testing.assert_allclose(rest @ Q.T, 0, atol=1e-12)
    means, S = MU[:1] / 3, FULL[:1]
    model = Model(Q, np.ones(1), (means, S), gaussian("full"), False)
    log_p = Expectation(model, X.dtype).log_density(X) - 0.5 * (
        (D - M) * np.log(2 * np.pi * 0.2) + np.sum(rest**2, axis=1) / 0.2
    )
    whole = Q.T @ S[0] @ Q + 0.2 * (np.eye(D) - Q.T @ Q)
    np.testing.assert_allclose(log_p, multivariate_normal(means[0] @ Q, whole).logpdf(X), rtol=1e-10)


@pytest.mark.parametrize("make", [movmf, gmm])
def test_invariance(make):
    """A rotation of z, an order of the components, a sign of a row with its coordinate change nothing."""
    model = make()
    model = gmm(True) if make is gmm else model
    Q = np.linalg.qr(RNG.standard_normal((M, M)))[0]
    p = np.array([2, 0, 3, 1])
    parts = [model.parameters[0] @ Q.T, *(Q @ part @ Q.T for part in model.parameters[1:])]
    turned = Model(Q @ U, W[p], tuple(part[p] for part in parts), model.family, model.normalize_z)
    first, second = (Expectation(m, X.dtype).statistics(X).log_likelihood for m in (model, turned))
    assert first == pytest.approx(second, rel=1e-12)


@pytest.mark.parametrize("make", [movmf, gmm, lambda: movmf(mu=20 * MU)])
def test_blocks_weights_and_single_precision(make, monkeypatch):
    model = make()
    whole = Expectation(model, X.dtype).statistics(X)
    monkeypatch.setattr("manifoldseq_hope.mixtures._expectation._SPARSE", 0.6)  # of some blocks
    monkeypatch.setattr("manifoldseq_hope.mixtures._expectation._PATIENCE", 1)
    monkeypatch.setattr("manifoldseq_hope.mixtures._expectation._BLOCK", 4)
    e = Expectation(model, X.dtype)
    e._rows = 7
    parts = e.statistics(X)
    assert parts.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(parts.sums, whole.sums, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.slope, whole.slope, rtol=1e-11, atol=1e-11)
    single = Expectation(model, np.float32).statistics(X.astype(np.float32))
    assert single.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-4)
    np.testing.assert_allclose(single.slope, whole.slope, rtol=1e-4, atol=1e-3)
    times = np.arange(len(X)) % 3
    weighted = Expectation(model, X.dtype).statistics(X, times.astype(float))
    repeated = Expectation(model, X.dtype).statistics(np.repeat(X, times, axis=0))
    assert weighted.n == repeated.n
    np.testing.assert_allclose(weighted.sums, repeated.sums, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(weighted.slope, repeated.slope, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("make", [movmf, gmm])
def test_the_sweep_finds_the_log_likelihood_of_the_rows(make):
    e = Expectation(make(), X.dtype)
    e._rows = 7
    assert e.statistics(X).log_likelihood == pytest.approx(e.log_density(X).sum(), rel=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_the_others_are_exact(dtype):
    """Log-densities far apart: concentration 10000, and rows against it."""
    family = von_mises_fisher()
    mu = np.array([[1e4, 0, 0], [0, 5.0, 0]])
    model = Model(np.eye(3), np.array([0.5, 0.5]), (mu,), family, True)
    rows = np.vstack([np.tile([1.0, 0, 0], (300, 1)), np.tile([0, -1.0, 0], (300, 1)), np.eye(3), -np.eye(3)])
    e = Expectation(model, np.dtype(dtype))
    e._rows = 64
    found = e.statistics(rows.astype(dtype))
    natural, offset = family.natural((mu,), 3)
    phi = rows @ natural.T + offset + np.log(0.5)
    expected = float(np.logaddexp.reduce(phi, axis=1).sum())
    assert found.log_likelihood == pytest.approx(expected, rel=1e-4 if dtype == np.float32 else 1e-12)
    assert found.counts[0] == pytest.approx(301, rel=1e-4)


@pytest.mark.parametrize("sparse", [0, 1])
def test_row_as_far_as_rounding_is_wide_keeps_its_nearest_component(sparse, monkeypatch):
    """Its log-densities are 1e8 times the largest difference that matters, and have fewer digits than that."""
    monkeypatch.setattr("manifoldseq_hope.mixtures._expectation._SPARSE", sparse)
    rows = np.vstack([MU, 1e5 * MU[:1]]).astype(np.float32)
    model = Model(np.eye(M), W, (MU, np.full((K, M), 0.1)), gaussian("diag"), False)
    found = Expectation(model, rows.dtype).statistics(rows)
    assert found.counts.sum() == pytest.approx(K + 1)
    assert np.isfinite(found.log_likelihood) and np.isfinite(found.slope).all()


def test_row_across_the_projection_is_guarded():
    model = Model(np.eye(3)[:2], np.ones(1), (np.array([[3.0, 0.0]]),), von_mises_fisher(), True)
    found = Expectation(model, np.dtype(float)).statistics(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert np.isfinite(found.log_likelihood) and np.isfinite(found.slope).all()
