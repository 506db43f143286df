"""Gradient vectors (42)-(45) and Fisher vectors (1)-(3): definitions, finite differences, scikit-image."""

import warnings

import numpy as np
import pytest
from mpcca.problems import covariances, drawn, log_densities, mixture
from scipy.special import logsumexp, softmax
from sklearn.mixture import GaussianMixture

from manifoldseq_mpcca import Mixture, MixturePCCA, gradient_vectors, plot_shared, private_parts

SIZES = (5, 4)


def bags(full=False, lengths=(30, 1, 1, 7, 0, 300), d=2, seed=1, spread=1.0):
    m = mixture(full=full, d=d, sizes=SIZES, spread=spread)
    (X, Y), _ = drawn(m, sum(lengths), seed)
    cuts = np.cumsum(lengths)[:-1]
    return m, np.split(X + 0.3, cuts), np.split(Y - 0.2, cuts)


def likelihood(m, x, y):
    return float(logsumexp(log_densities(m, [x, y]), axis=1).sum())


def moved(m, h, means=0.0, noise=(0.0, 0.0)):
    return Mixture(m.weights, m.means + h * means, m.loadings, [p + h * q for p, q in zip(m.noise, noise, strict=True)])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("bag", [0, 1, 5])
def test_likelihood_scale_is_the_gradient_by_finite_differences(full, bag):
    """(42)-(45), by central differences of scipy's densities along random directions."""
    m, X, Y = bags(full)
    rng, h = np.random.default_rng(2), 1e-5
    found = gradient_vectors(m, X, Y, gradient_scale="likelihood")
    gradient = np.concatenate([part[bag] for part in found.means], axis=1)
    for _ in range(5):
        direction = rng.standard_normal(m.means.shape)
        slope = (
            likelihood(moved(m, h, direction), X[bag], Y[bag]) - likelihood(moved(m, -h, direction), X[bag], Y[bag])
        ) / (2 * h)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6, abs=1e-6 * np.linalg.norm(gradient))
        inward = [rng.standard_normal(part.shape) for part in m.noise]
        inward = [a + a.mT for a in inward] if full else inward
        up, down = (likelihood(moved(m, s * h, noise=inward), X[bag], Y[bag]) for s in (1, -1))
        exact = sum(float(np.sum(g[bag] * a)) for g, a in zip(found.noise, inward, strict=True))
        size = np.sqrt(sum(float(np.sum(g[bag] ** 2)) for g in found.noise))
        assert exact == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-6 * size)


@pytest.mark.parametrize("full", [False, True])
def test_paper_scale_is_the_printed_formula(full):
    """(42)-(45) term by term from dense posteriors, with x~ = x - W z and w = N_k / N."""
    m, X, Y = bags(full)
    found, at_model = gradient_vectors(m, X, Y), gradient_vectors(m, X, Y, gradient_scale="model")
    S = covariances(m)
    for b in (0, 1, 5):
        V, g = np.hstack([X[b], Y[b]]), softmax(log_densities(m, [X[b], Y[b]]), axis=1)
        for k in range(3):
            W, n = m.loadings[k], g[:, k].sum()
            z = (V - m.means[k]) @ np.linalg.solve(S[k], W)
            covariance = np.eye(2) - W.T @ np.linalg.solve(S[k], W)
            private = V - z @ W.T
            for v in (0, 1):
                c = m.columns(v)
                psi = m.noise[v][k] if full else np.diag(m.noise[v][k])
                own = psi - W[c] @ covariance @ W[c].T
                centred = private[:, c] - m.means[k, c]
                mean = 2 * n / len(V) * np.linalg.solve(psi, m.means[k, c] - g[:, k] @ private[:, c] / n)
                middle = own - (centred * g[:, [k]]).T @ centred / n
                noise = n / len(V) * np.linalg.solve(psi, np.linalg.solve(psi, middle).T)
                np.testing.assert_allclose(found.means[v][b, k], mean, rtol=1e-9, atol=1e-11)
                np.testing.assert_allclose(
                    at_model.means[v][b, k], mean * m.weights[k] * len(V) / n, rtol=1e-8, atol=1e-10
                )
                got = found.noise[v][b, k]
                np.testing.assert_allclose(got, noise if full else np.diag(noise), rtol=1e-8, atol=1e-10)
                if not full and n > 1e-6:
                    ratio = at_model.noise[v][b, k] / got
                    np.testing.assert_allclose(ratio, m.weights[k] * len(V) / n, rtol=1e-9)
            np.testing.assert_allclose(found.latent[b, k], g[:, k] @ z / n, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("full", [False, True])
def test_printed_form_is_minus_two_over_n_times_the_gradient(full):
    m, X, Y = bags(full)
    paper, uphill = gradient_vectors(m, X, Y), gradient_vectors(m, X, Y, gradient_scale="likelihood")
    for b in (0, 1, 3, 5):
        for a, c in zip(paper.means + paper.noise, uphill.means + uphill.noise, strict=True):
            np.testing.assert_allclose(a[b], -2 / len(X[b]) * c[b], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("d", [0, 2])
def test_a_bag_alone_is_the_bag_among_others(full, d):
    m, X, Y = bags(full, d=d, lengths=(30, 1, 1, 7, 0, 5000))
    together = gradient_vectors(m, X, Y)
    for b in range(6):
        if not len(X[b]):
            continue
        alone = gradient_vectors(m, X[b : b + 1], Y[b : b + 1])
        for a, c in zip(alone.means + alone.noise, together.means + together.noise, strict=True):
            np.testing.assert_allclose(a[0], c[b], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(alone.latent[0], together.latent[b], rtol=1e-12, atol=1e-12)


def test_rows_are_bags_of_one_and_three_dimensions_are_lists():
    m, (x, *_), (y, *_) = bags()
    rows, listed = gradient_vectors(m, x, y), gradient_vectors(m, list(x[:, None]), list(y[:, None]))
    assert np.array_equal(rows.noise[0], listed.noise[0])
    cube = gradient_vectors(m, x.reshape(6, 5, -1), y.reshape(6, 5, -1))
    np.testing.assert_allclose(cube.means[1], gradient_vectors(m, np.split(x, 6), np.split(y, 6)).means[1])


def test_a_component_without_rows_and_an_empty_bag_give_zeros():
    m, X, Y = bags(spread=1e4, lengths=(1, 0, 3))
    found = gradient_vectors(m, X, Y, gradient_scale="model")
    for part in (*found.means, *found.noise, found.latent):
        assert np.isfinite(part).all() and not part[1].any()
        assert (np.abs(part[0]).reshape(3, -1).max(axis=1) > 0).sum() == 1


def test_swapping_the_views_swaps_the_blocks():
    m, X, Y = bags()
    order = [*range(5, 9), *range(5)]
    swapped = Mixture(m.weights, m.means[:, order], m.loadings[:, order], m.noise[::-1])
    a, b = gradient_vectors(m, X, Y), gradient_vectors(swapped, Y, X)
    np.testing.assert_allclose(a.means[0], b.means[1], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(a.noise[1], b.noise[0], rtol=1e-12, atol=1e-13)


def test_gradient_is_zero_where_the_likelihood_has_its_maximum():
    """One Gaussian: the sample mean and variance."""
    _, X, Y = bags(lengths=(50,), d=0)
    best = Mixture([1.0], [np.hstack([X[0], Y[0]]).mean(0)], np.zeros((1, 9, 0)), [[X[0].var(0)], [Y[0].var(0)]])
    for part in (*gradient_vectors(best, X, Y).means, *gradient_vectors(best, X, Y).noise):
        np.testing.assert_allclose(part, 0, atol=1e-12)


def test_without_loadings_it_is_the_fisher_vector():
    """(1), (2) by loops over a Gaussian mixture; zero loadings are not loadings."""
    m, X, Y = bags(d=0)
    found = gradient_vectors(m, X, Y)
    zero = Mixture(m.weights, m.means, np.zeros((3, 9, 2)), m.noise)
    same = gradient_vectors(zero, X, Y)
    x, g = X[5], softmax(log_densities(m, [X[5], Y[5]]), axis=1)
    for k in range(3):
        n, mu, psi = g[:, k].sum(), m.means[k, :5], m.noise[0][k]
        np.testing.assert_allclose(found.means[0][5, k], 2 * n / len(x) / psi * (mu - g[:, k] @ x / n), rtol=1e-10)
        spread = psi - g[:, k] @ (x - mu) ** 2 / n
        np.testing.assert_allclose(found.noise[0][5, k], n / len(x) / psi**2 * spread, rtol=1e-9)
    for a, c in zip(found.means + found.noise, same.means + same.noise, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-10, atol=1e-12)


def test_fisher_scale_equals_scikit_image():
    """Block by block; the block of the variances of scikit-image 0.26 has the opposite sign."""
    feature = pytest.importorskip("skimage.feature")
    m, X, Y = bags(d=0)
    rows = np.hstack([X[5], Y[5]])
    gmm = GaussianMixture(3, covariance_type="diag")
    gmm.weights_, gmm.means_, gmm.covariances_ = m.weights, m.means, m.variances
    gmm.precisions_cholesky_ = 1 / np.sqrt(m.variances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = feature.fisher_vector(rows, gmm)[3:].reshape(2, 3, 9)
    ours = gradient_vectors(m, X[5:], Y[5:], gradient_scale="fisher")
    np.testing.assert_allclose(np.concatenate(ours.means, axis=2)[0], theirs[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(ours.noise, axis=2)[0], -theirs[1], rtol=1e-9, atol=1e-12)


def test_fisher_scale_of_full_noise_is_that_of_diagonal_noise_where_they_agree():
    m, X, Y = bags()
    full = Mixture(m.weights, m.means, m.loadings, [np.stack([np.diag(p) for p in part]) for part in m.noise])
    a, b = gradient_vectors(m, X, Y, gradient_scale="fisher"), gradient_vectors(full, X, Y, gradient_scale="fisher")
    np.testing.assert_allclose(a.means[0], b.means[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.noise[1], np.diagonal(b.noise[1], axis1=2, axis2=3), rtol=1e-8, atol=1e-11)


def test_private_parts_are_samples_less_the_shared_part():
    """(4), (9), (10), (24), (25), with z of the dense formula (18)."""
    m, X, Y = bags()
    V, S = np.hstack([X[0], Y[0]]), covariances(m)
    parts = private_parts(m, X[0], Y[0])
    for k in range(3):
        z = (V - m.means[k]) @ np.linalg.solve(S[k], m.loadings[k])
        np.testing.assert_allclose(np.hstack([part[:, k] for part in parts]), V - z @ m.loadings[k].T, atol=1e-12)


def test_private_parts_have_the_printed_variance_and_are_as_correlated_as_the_views():
    """Var(x~) is Psi - W Sz W' (the tilde of (40)), but Cov(x~, y~) is a block of Psi S^-1 Psi.

    For K = 1 its canonical correlations are those of x and y: subtracting the posterior mean of z does not lower them.
    """
    m = mixture(K=1, sizes=SIZES, d=2, full=True)
    (X, Y), _ = drawn(m, 200_000)
    private = np.hstack([part[:, 0] for part in private_parts(m, X, Y)])
    (S,), W = covariances(m), m.loadings[0]
    psi = np.zeros((9, 9))
    psi[:5, :5], psi[5:, 5:] = m.noise[0][0], m.noise[1][0]
    expected = psi @ np.linalg.solve(S, psi)
    np.testing.assert_allclose(np.cov(private.T), expected, atol=0.02 * np.abs(expected).max())
    own = psi - W @ (np.eye(2) - W.T @ np.linalg.solve(S, W)) @ W.T
    np.testing.assert_allclose(expected[:5, :5], own[:5, :5], atol=1e-12)
    np.testing.assert_allclose(expected[5:, 5:], own[5:, 5:], atol=1e-12)

    def canonical(C):
        left, right = (np.linalg.inv(np.linalg.cholesky(block)) for block in (C[:5, :5], C[5:, 5:]))
        return np.linalg.svd(left @ C[:5, 5:] @ right.T)[1]

    np.testing.assert_allclose(canonical(expected), canonical(S), atol=1e-10)


def test_a_fitted_estimator_stands_for_its_mixture():
    (X, Y), _ = drawn(mixture(), 60)
    model = MixturePCCA(2, 1, max_iter=3, random_state=0, covariance_type="diag").fit(X, Y)
    found, expected = (gradient_vectors(m, X, Y).means[0] for m in (model, model.mixture_))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(private_parts(model, X, Y)[1], private_parts(model.mixture_, X, Y)[1])
    for ask in (gradient_vectors, private_parts):
        with pytest.raises(TypeError, match="MixturePCCA is not a mixture: pass a Mixture or a fitted estimator"):
            ask(MixturePCCA(2, 2, covariance_type="diag"), X, Y)
        with pytest.raises(ValueError, match=r"^view"):
            ask(model, X, None) if ask is private_parts else ask(model, Y, X)
    with pytest.raises(TypeError, match="str is not a mixture"):
        plot_shared("mixture")


def test_another_scale_or_width_raises_an_error():
    m, X, Y = bags()
    with pytest.raises(ValueError, match="gradient_scale='unit' is not known: choose 'paper', 'model'"):
        gradient_vectors(m, X, Y, gradient_scale="unit")
    with pytest.raises(ValueError, match="views have 4 and 5 columns, but in fit they had 5 and 4"):
        gradient_vectors(m, Y, X)
