"""The E-step against dense covariances and scipy; its invariances; skipping, blocks, and single precision."""

import numpy as np
import pytest
from mpcca.problems import covariances, drawn, log_densities, mixture
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

import manifoldseq_mpcca._expectation as module
from manifoldseq_mpcca import Mixture
from manifoldseq_mpcca._expectation import SKIP, Expectation

CASES = [
    dict(),
    dict(full=True),
    dict(K=1, sizes=(3, 6, 2), d=3),
    dict(spread=30),
    dict(spread=1e4),
    dict(spread=1e4, full=True),
    dict(d=0),
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    m = mixture(**request.param)
    return m, drawn(m)[0]


def sums(statistics):
    return [statistics.counts, statistics.first, *statistics.second, statistics.cross, statistics.latent_second]


def test_log_density_is_that_of_scipy(case):
    """(7), (8), (12), (15)-(17): the latent vector integrated out."""
    m, views = case
    expected = logsumexp(log_densities(m, views), axis=1)
    np.testing.assert_allclose(Expectation(m).log_density(views), expected, rtol=1e-12)
    assert Expectation(m).statistics(views).log_likelihood == pytest.approx(expected.sum(), rel=1e-12)


def test_posterior_is_that_of_dense_covariances(case):
    """(13), (14), (18), corrected (19)."""
    m, views = case
    joint = log_densities(m, views)
    e = Expectation(m)
    np.testing.assert_allclose(e.responsibilities(views), np.exp(joint - logsumexp(joint, axis=1)[:, None]), atol=1e-10)
    B = np.linalg.solve(covariances(m), m.loadings).mT
    residuals = np.hstack(views)[:, None, :] - m.means
    np.testing.assert_allclose(e.latent_means(views), np.einsum("kdj,nkj->nkd", B, residuals), atol=1e-9)
    np.testing.assert_allclose(e.latent_covariance, np.eye(m.n_latent) - B @ m.loadings, atol=1e-12)
    values = np.linalg.eigvalsh(e.latent_covariance)
    assert ((values > 0) & (values <= 1 + 1e-12)).all()


def test_statistics_are_the_sums_they_name(case):
    """(20) among them; about the origin."""
    m, views = case
    e = Expectation(m)
    s, g, z, V = e.statistics(views), e.responsibilities(views), e.latent_means(views), np.hstack(views) - e.origin
    scale = np.abs(V).max() ** 2 * len(V)
    np.testing.assert_allclose(s.counts, g.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(s.first, g.T @ V, atol=1e-12 * scale)
    for v, second in enumerate(s.second):
        x = V[:, m.columns(v)]
        expected = np.einsum("nk,ni,nj->kij", g, x, x)
        expected = expected if m.full else np.diagonal(expected, axis1=1, axis2=2)
        np.testing.assert_allclose(second, expected, atol=1e-12 * scale)
    np.testing.assert_allclose(s.cross, np.einsum("nk,ni,nkd->kid", g, V, z), atol=1e-11 * scale)
    expected = np.einsum("nk,nkd,nke->kde", g, z, z) + s.counts[:, None, None] * e.latent_covariance
    np.testing.assert_allclose(s.latent_second, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(s.worst + s.origin, np.hstack(views)[e.log_density(views).argmin()], rtol=1e-12)


@pytest.mark.parametrize("spread", [0.0, 20.0])
@pytest.mark.parametrize("full", [False, True])
def test_blocks_and_skipping_change_nothing(spread, full, monkeypatch):
    m = mixture(K=6, spread=spread, full=full)
    views, _ = drawn(m, 700)
    whole = Expectation(m).statistics(views)
    monkeypatch.setattr(module, "_BUFFER", 1)  # the smallest blocks
    parts = Expectation(m).statistics(views)
    monkeypatch.setattr(module, "_SPARSE", 1.1)  # always the pairs above SKIP alone
    sparse = Expectation(m).statistics(views)
    scale = max(np.abs(view - view.mean(axis=0)).max() ** 2 for view in views)
    for a, b, c in zip(sums(whole), sums(parts), sums(sparse), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-10 * scale)
        np.testing.assert_allclose(c, a, atol=1e-10 * scale + 700 * SKIP * scale)


def test_hard_data_are_summed_over_few_pairs(monkeypatch):
    """Responsibilities of well separated components take the short way, those of mixed ones do not."""
    taken = []
    for name in ("_add_active", "_add_all"):
        original = getattr(module._Sums, name)
        monkeypatch.setattr(
            module._Sums, name, lambda self, *a, original=original, name=name: taken.append(name) or original(self, *a)
        )
    for spread, way in ((50.0, "_add_active"), (0.0, "_add_all")):
        m = mixture(K=8, spread=spread)
        taken.clear()
        Expectation(m).statistics(drawn(m)[0])
        assert set(taken) == {way}


def test_single_precision_and_whole_numbers_are_summed_in_double():
    m = mixture()
    views = [np.round(8 * view) for view in drawn(m)[0]]
    expected = Expectation(m).statistics(views)
    for dtype in (np.float32, np.int32):
        found = Expectation(m).statistics([view.astype(dtype) for view in views])
        assert all(np.array_equal(a, b) for a, b in zip(sums(found), sums(expected), strict=True))


def test_without_latent_vector_it_is_a_gaussian_mixture():
    """W = 0 and d = 0: the same densities as scikit-learn's diagonal mixture."""
    m = mixture(d=0)
    views, _ = drawn(m)
    peer = GaussianMixture(3, covariance_type="diag")
    peer.weights_, peer.means_, peer.covariances_ = m.weights, m.means, m.variances
    peer.precisions_cholesky_ = 1 / np.sqrt(m.variances)
    np.testing.assert_allclose(Expectation(m).log_density(views), peer.score_samples(np.hstack(views)), rtol=1e-12)
    zero = Mixture(m.weights, m.means, np.zeros((3, 9, 2)), m.noise)
    np.testing.assert_allclose(Expectation(zero).responsibilities(views), peer.predict_proba(np.hstack(views)))


@pytest.mark.parametrize("full", [False, True])
def test_invariances(full):
    """Rotation of z, order of components, units of a view."""
    m = mixture(full=full)
    views, _ = drawn(m)
    density, g = Expectation(m).log_density(views), Expectation(m).responsibilities(views)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 2, 2)))[0]
    order = [2, 0, 1]
    same = Mixture(m.weights[order], m.means[order], (m.loadings @ Q)[order], [part[order] for part in m.noise])
    np.testing.assert_allclose(Expectation(same).log_density(views), density, rtol=1e-10)
    np.testing.assert_allclose(Expectation(same).responsibilities(views), g[:, order], atol=1e-10)
    np.testing.assert_allclose(Expectation(m.canonical()).log_density(views), density, rtol=1e-10)
    scale = np.concatenate([np.full(5, 100.0), np.ones(4)])
    noise = [m.noise[0] * 1e4, m.noise[1]]
    scaled = Mixture(m.weights, m.means * scale, m.loadings * scale[:, None], noise)
    shifted = Expectation(scaled).log_density([100 * views[0], views[1]])
    np.testing.assert_allclose(shifted, density - 5 * np.log(100), rtol=1e-9)


def test_marginal_of_some_columns_is_that_of_the_dense_covariance():
    for full in (False, True):
        m = mixture(full=full)
        columns = np.array([True, False, True, True, False, False, True, True, False])
        part = m.observed(columns)
        assert part.views == (3, 2)
        np.testing.assert_allclose(covariances(part), covariances(m)[:, columns][:, :, columns])
        np.testing.assert_array_equal(part.means, m.means[:, columns])
