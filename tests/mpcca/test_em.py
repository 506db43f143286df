"""EM: M-steps against dense formulas, never a decrease, closed forms reached, missing values, collapsed components."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import covariances, drawn, log_densities, mixture, registered
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture

import manifoldseq as ms
from manifoldseq_mpcca import Mixture, MixturePCCA
from manifoldseq_mpcca._expectation import Expectation
from manifoldseq_mpcca._likelihood_gradient import Units, gradient
from manifoldseq_mpcca._maximization import maximize, raised
from manifoldseq_mpcca._patterns import kinds
from manifoldseq_mpcca._views import CheckedViews, Moments


def problem(views, K=3, d=2, full=False, update="joint", floor=1e-6):
    """Return the problem of the registered model, of views that may have holes or collinear columns."""
    data = CheckedViews(views, Moments.of(views), holes=kinds(views))
    sizes = dict(n_components=K, n_latent=d, covariance_type="full" if full else "diag")
    return ms.get_model("mpcca").problem(data, **sizes, noise_floor=floor, update=update)


def evaluate(problem, m):
    return problem.objective.additive.sums(m.point)


def iterated(problem, start, stop, accelerated=False, **options):
    point, stop = start.point, ms.MaxIterations(stop) if isinstance(stop, int) else stop
    return ms.minimize(problem, point, solver="em", options={"accelerated": accelerated}, stop=stop, **options)


def mixture_at(problem, result):
    return problem.data.model.mixture(result.x)


@dataclass(frozen=True)
class Reached(ms.StoppingRule):
    """Ends a run at a value."""

    fun: float

    def check(self, so_far):
        return ms.Status.CONVERGED if so_far.current.fun <= self.fun else None


def start(problem, kind="random", seed=0):
    return problem.data.model.mixture(problem.initializers[kind](problem, np.random.default_rng(seed)))


def printed(m, views):
    """(30)-(36) with sums over samples, full noise."""
    e, V = Expectation(m), np.hstack(views)
    g, z, S = e.responsibilities(views), e.latent_means(views), e.latent_covariance
    weights, means, loadings, noise = g.mean(axis=0), [], [], []
    for k in range(m.n_components):
        n = g[:, k].sum()
        mu = g[:, k] @ (V - z[:, k] @ m.loadings[k].T) / n  # (31), (32)
        second = sum(gi * (np.outer(zi, zi) + S[k]) for gi, zi in zip(g[:, k], z[:, k], strict=True))  # (20)
        W = sum(gi * np.outer(v - mu, zi) for gi, v, zi in zip(g[:, k], V, z[:, k], strict=True)) @ np.linalg.inv(
            second
        )
        r = V - z[:, k] @ W.T - mu
        noise.append((r.T * g[:, k]) @ r / n + W @ S[k] @ W.T)  # (35), (36)
        means.append(mu)
        loadings.append(W)
    return weights, np.array(means), np.array(loadings), np.array(noise)


def test_conditional_update_is_as_printed():
    for full in (True, False):
        m = mixture(full=full)
        views, _ = drawn(m, 60, seed=3)
        em = problem(views, full=full)
        new = maximize(evaluate(em, m), m, em.data.model.floor, "conditional")
        weights, means, loadings, noise = printed(m, views)
        np.testing.assert_allclose(new.weights, weights, atol=1e-12)  # (30), (37)
        np.testing.assert_allclose(new.means, means, atol=1e-10)
        np.testing.assert_allclose(new.loadings, loadings, atol=1e-10)
        for v, part in enumerate(new.noise):
            c = m.columns(v)
            block = noise[:, c, c]
            np.testing.assert_allclose(part, block if full else np.diagonal(block, axis1=1, axis2=2), atol=1e-10)


@pytest.mark.parametrize("full", [False, True])
def test_forms_through_private_parts_are_the_same(full):
    """(37)-(41), with the private parts (24), (25) of the old loadings for the means, of the new ones for the noise."""
    m = mixture(full=full)
    views, _ = drawn(m, 60, seed=3)
    em = problem(views, full=full)
    new = maximize(evaluate(em, m), m, em.data.model.floor, "conditional")
    e, V = Expectation(m), np.hstack(views)
    g, z = e.responsibilities(views), e.latent_means(views)
    np.testing.assert_allclose(new.weights, g.mean(axis=0), atol=1e-12)
    for k in range(3):
        before, after = (V - z[:, k] @ one.loadings[k].T for one in (m, new))
        np.testing.assert_allclose(new.means[k], g[:, k] @ before / g[:, k].sum(), atol=1e-10)
        r, W = after - new.means[k], new.loadings[k]
        Psi = (r.T * g[:, k]) @ r / g[:, k].sum() + W @ e.latent_covariance[k] @ W.T
        np.testing.assert_allclose(new.variances[k], np.diag(Psi), atol=1e-10)


def expected_likelihood(m, old, views):
    """(21)-(29), without the factor -1/2 printed in (27): sum g (ln w + E ln p(v, z|k)), dense."""
    e, V = Expectation(old), np.hstack(views)
    g, z, S = e.responsibilities(views), e.latent_means(views), e.latent_covariance
    Psi = covariances(Mixture(m.weights, m.means, np.zeros((m.n_components, V.shape[1], 0)), m.noise))
    total = 0.0
    for k in range(m.n_components):
        r = V - z[:, k] @ m.loadings[k].T - m.means[k]
        log_p = multivariate_normal(np.zeros(V.shape[1]), Psi[k]).logpdf(r)
        log_p = log_p - 0.5 * np.trace(np.linalg.solve(Psi[k], m.loadings[k] @ S[k] @ m.loadings[k].T))
        log_p = log_p - 0.5 * (z[:, k] ** 2).sum(axis=1) - 0.5 * np.trace(S[k])
        total += g[:, k] @ (np.log(m.weights[k]) + log_p)
    return total


@pytest.mark.parametrize("full", [False, True])
def test_joint_update_maximizes_the_expected_likelihood(full):
    m = mixture(full=full)
    views, _ = drawn(m, 80, seed=3)
    em = problem(views, full=full)
    best = maximize(evaluate(em, m), m, em.data.model.floor, "joint")
    top, rng = expected_likelihood(best, m, views), np.random.default_rng(0)
    assert top > expected_likelihood(m, m, views)
    assert best.weights.sum() == pytest.approx(1, abs=1e-12)  # (28): as those of its rivals below
    for size in (1e-1, 1e-3):
        for _ in range(10):
            weights = best.weights * np.exp(size * rng.standard_normal(3))
            noise = []
            for part in best.noise:
                move = size * rng.standard_normal(part.shape)
                root = np.eye(part.shape[1]) + move if full else None
                noise.append(root @ part @ root.mT if full else part * np.exp(move))
            other = Mixture(
                weights / weights.sum(),
                best.means + size * rng.standard_normal(best.means.shape),
                best.loadings + size * rng.standard_normal(best.loadings.shape),
                noise,
            )
            assert expected_likelihood(other, m, views) < top


@pytest.mark.parametrize("full", [False, True])
def test_expanded_update_rises_at_least_as_much_as_the_joint_one(full):
    m = mixture(full=full)
    views, _ = drawn(mixture(full=full, seed=5), 200)
    em = problem(views, full=full)
    s = evaluate(em, m)
    joint, expanded = (
        evaluate(em, maximize(s, m, em.data.model.floor, u)).log_likelihood for u in ("joint", "expanded")
    )
    assert expanded > joint > s.log_likelihood


@pytest.mark.parametrize("full", [False, True])
def test_expanded_update_takes_over_the_moments_of_the_latent_vector(full):
    """Means and covariances of rows are those of the joint update if z has the mean and covariance that it is given."""
    m = mixture(full=full)
    views, _ = drawn(mixture(full=full, seed=5), 80)
    em, e = problem(views, full=full), Expectation(m)
    joint, expanded = (maximize(evaluate(em, m), m, em.data.model.floor, u) for u in ("joint", "expanded"))
    g, z = e.responsibilities(views), e.latent_means(views)
    for k in range(3):
        share = g[:, k] / g[:, k].sum()
        centre = share @ z[:, k]
        spread = sum(a * np.outer(u - centre, u - centre) for a, u in zip(share, z[:, k], strict=True))
        W, noise = joint.loadings[k], covariances(joint)[k] - joint.loadings[k] @ joint.loadings[k].T
        np.testing.assert_allclose(expanded.means[k], joint.means[k] + W @ centre, atol=1e-9)
        expected = W @ (spread + e.latent_covariance[k]) @ W.T + noise
        np.testing.assert_allclose(covariances(expanded)[k], expected, atol=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_gradient_is_that_of_finite_differences(full):
    m = mixture(full=full)
    views, _ = drawn(mixture(full=full, seed=5), 50)
    em, rng, h = problem(views, full=full), np.random.default_rng(0), 1e-5
    found = gradient(evaluate(em, m), m)
    for i in range(4):
        for v in range(2 if i == 3 else 1):
            direction = rng.standard_normal((m.noise[v] if i == 3 else m.point[i]).shape)
            if i == 3 and full:
                direction = direction + direction.mT
            values = []
            for sign in (1, -1):
                point = list(m.point)
                if i == 3:
                    point[3] = tuple(p + sign * h * direction if u == v else p for u, p in enumerate(m.noise))
                else:
                    point[i] = point[i] + sign * h * direction
                values.append(logsumexp(log_densities(Mixture.from_point(point), views), axis=1).sum())
            slope = (values[0] - values[1]) / (2 * h)
            assert np.sum((found[3][v] if i == 3 else found[i]) * direction) == pytest.approx(slope, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("full", [False, True])
def test_units_make_the_gradient_a_step_of_em(full):
    """To first order: the gradient in the units of EM moves as EM does, and it is the derivative along moves."""
    m = mixture(full=full)
    views, _ = drawn(m, 4000)
    em = problem(views, full=full)
    s = evaluate(em, m)
    units = Units.of(s, m, em.data.model.floor)
    g = units.gradient(s)
    step, plain = units.moved(g), maximize(s, m, em.data.model.floor, "joint")
    near = [np.linalg.norm(a - b) for a, b in zip(step.point[:3], plain.point[:3], strict=True)]
    far = [np.linalg.norm(a - b) for a, b in zip(m.point[:3], plain.point[:3], strict=True)]
    assert all(a < 0.1 * b for a, b in zip(near, far, strict=True))
    values = [evaluate(em, units.moved(t * g)).log_likelihood for t in (1e-4, -1e-4)]
    assert (values[0] - values[1]) / 2e-4 == pytest.approx(g @ g, rel=1e-5)


@pytest.mark.parametrize("full", [False, True])
def test_units_use_the_noise_floor(full):
    """With the noise at its noise floor, the likelihood still rises along the gradient at the rate of its square."""
    views, _ = drawn(mixture(full=full), 400)
    em = problem(views, full=full, floor=0.4)
    m = mixture_at(em, iterated(em, start(em), 5))
    floor = np.stack([np.diag(em.data.model.floor)] * 3)
    noise = covariances(Mixture(m.weights, m.means, np.zeros((3, 9, 0)), m.noise)) - floor
    assert (np.linalg.eigvalsh(noise) < 1e-9).any()
    s = evaluate(em, m)
    units = Units.of(s, m, em.data.model.floor)
    g = units.gradient(s)
    t = 1e-5
    rise = (evaluate(em, units.moved(t * g)).log_likelihood - s.log_likelihood) / t
    assert rise == pytest.approx(g @ g, rel=1e-2)


@parametrize("spread", [0.3, 4.0], fast=1, ids=["soft", "hard"])
@parametrize("update", ["conditional", "joint", "expanded", "accelerated"], fast=2)
def test_likelihood_never_falls(update, spread):
    """Twenty seeds; the likelihood is that of scipy, not EM's own."""
    for seed in range(20):
        full = seed % 4 == 3
        views, _ = drawn(mixture(spread=spread, full=full, seed=seed), 80, seed)
        em = problem(views, full=full, update="expanded" if update == "accelerated" else update)
        run = iterated(em, start(em, seed=seed), 15, update == "accelerated")
        assert (np.diff(run.history["fun"]) <= 0).all()
        assert run.history["fun"][-1] < run.history["fun"][0]
        density = logsumexp(log_densities(mixture_at(em, run), views), axis=1).mean()
        assert run.fun == pytest.approx(-density, rel=1e-10)


def correlated(N=1000, sizes=(10, 8), d=3, seed=0):
    """Two views that share d directions, with correlated noise of their own."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((N, d))
    return [z @ rng.standard_normal((d, n)) + rng.standard_normal((N, n)) @ rng.standard_normal((n, n)) for n in sizes]


def closed_form(views, d):
    """The likelihood per row of Bach and Jordan's maximum: canonical correlations by QR and SVD."""
    V = np.hstack(views)
    Q = [np.linalg.qr(view - view.mean(axis=0))[0] for view in views]
    p = np.linalg.svd(Q[0].T @ Q[1])[1][:d]
    determinants = sum(np.linalg.slogdet(np.cov(view.T, bias=True))[1] for view in views)
    return -0.5 * (V.shape[1] * (np.log(2 * np.pi) + 1) + determinants + np.log1p(-(p**2)).sum())


@pytest.mark.slow
def test_one_component_with_full_noise_reaches_the_closed_form_from_anywhere():
    views = correlated()
    em = problem(views, K=1, d=3, full=True, update="expanded")
    best = closed_form(views, 3)
    for seed in range(20):
        run = iterated(em, start(em, seed=seed), Reached(1e-8 - best) | ms.MaxIterations(75), accelerated=True)
        assert run.status is ms.Status.CONVERGED and run.nfev <= 75
        assert run.fun >= -best - 1e-10


def test_cca_start_is_the_closed_form():
    views = correlated()
    em = problem(views, K=1, d=3, full=True)
    found = evaluate(em, start(em, "cca")).log_likelihood / 1000
    assert found == pytest.approx(closed_form(views, 3), abs=1e-11)


@parametrize("seed", range(3), fast=1)
def test_one_component_with_diagonal_noise_reaches_factor_analysis(seed):
    """From the random start, and with its noise replaced by uniform(0.02, 1.5)."""
    m = mixture(K=1, sizes=(10, 8), d=3, seed=seed)
    views, _ = drawn(m, 500, seed)
    peer = FactorAnalysis(3, tol=1e-10, max_iter=3000).fit(np.hstack(views)).score(np.hstack(views))
    em = problem(views, K=1, d=3, update="expanded")
    first = start(em, seed=seed)
    rng = np.random.default_rng(seed)
    other = Mixture(first.weights, first.means, first.loadings, [rng.uniform(0.02, 1.5, p.shape) for p in first.noise])
    for begin in (first, other):
        run = iterated(em, begin, Reached(1e-6 - peer) | ms.MaxIterations(100), accelerated=True)
        assert run.status is ms.Status.CONVERGED


def test_without_latent_vector_it_is_em_of_a_gaussian_mixture():
    views, _ = drawn(mixture(spread=2), 200)
    V = np.hstack(views)
    em = problem(views, d=0, floor=1e-12)
    first = start(em, "factors")
    peer = GaussianMixture(
        3,
        covariance_type="diag",
        weights_init=first.weights,
        means_init=first.means,
        precisions_init=1 / first.variances,
        reg_covar=0,
        tol=1e-13,
        max_iter=500,
    ).fit(V)
    run = iterated(em, first, 400)
    assert -run.fun == pytest.approx(peer.score(V), abs=1e-8)


def test_recovers_what_data_were_drawn_from():
    m = mixture(K=2, spread=2)
    views, _ = drawn(m, 20_000)
    em = problem(views, K=2, update="expanded")
    found = mixture_at(em, iterated(em, start(em, "factors"), 60, accelerated=True))
    order, true = (np.argsort(one.means[:, 0]) for one in (found, m))
    a, b = covariances(found)[order], covariances(m)[true]
    assert np.linalg.norm(a - b) <= 0.05 * np.linalg.norm(b)
    np.testing.assert_allclose(found.weights[order], m.weights[true], atol=0.02)
    np.testing.assert_allclose(found.variances[order], m.variances[true], rtol=0.15)


def missing(views, full, seed=0):
    rng = np.random.default_rng(seed)
    views = [view.copy() for view in views]
    rows = rng.permutation(len(views[0]))
    views[0][rows[:40]], views[1][rows[40:90]] = np.nan, np.nan
    if not full:
        views[0][rows[100:140], 2] = np.nan
        views[1][rows[120:160], 1] = np.nan
    return views


@parametrize("full", [False, True], fast=1)
def test_missing_values_are_summed_over_the_posterior(full):
    """The likelihood is that of the observed columns, its gradient that of finite differences, and EM raises it."""
    m = mixture(full=full)
    views = missing(drawn(m, 200)[0], full)
    em = problem(views, full=full, update="expanded")
    assert len({tuple(row) for row in np.isnan(np.hstack(views))}) > 2

    def likelihood(m):
        S, V = covariances(m), np.hstack(views)
        total = 0.0
        for v in V:
            o = ~np.isnan(v)
            parts = [multivariate_normal(m.means[k, o], S[k][np.ix_(o, o)]).logpdf(v[o]) for k in range(3)]
            total += logsumexp(np.log(m.weights) + parts)
        return total

    s = evaluate(em, m)
    assert s.log_likelihood == pytest.approx(likelihood(m), rel=1e-11)
    found, rng, h = gradient(s, m), np.random.default_rng(0), 1e-5
    directions = [rng.standard_normal(part.shape) for part in m.point[:3]]
    bend = [rng.standard_normal(part.shape) for part in m.noise]
    bend = [part + part.mT if full else part for part in bend]
    slope = sum(np.sum(a * b) for a, b in zip(found[:3], directions, strict=True))
    slope += sum(np.sum(a * b) for a, b in zip(found[3], bend, strict=True))
    values = []
    for t in (h, -h):
        point = [part + t * move for part, move in zip(m.point[:3], directions, strict=True)]
        point.append(tuple(part + t * move for part, move in zip(m.noise, bend, strict=True)))
        values.append(likelihood(Mixture.from_point(point)))
    assert slope == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-6)
    run = iterated(em, start(em, "factors"), 30, accelerated=True)
    assert (np.diff(run.history["fun"]) <= 0).all()
    assert -run.fun * 200 == pytest.approx(likelihood(mixture_at(em, run)), rel=1e-10)


def test_a_collapsed_component_is_put_where_it_helps():
    """One component far from all rows, and a cluster that nobody describes."""
    views, _ = drawn(mixture(K=2, spread=6), 200)
    em = problem(views, K=2)
    first = start(em, "factors")
    means = first.means.copy()
    means[1] = 1e4
    lost = Mixture([0.999, 0.001], means, first.loadings, first.noise)
    run = iterated(em, lost, 40)
    assert run.history["repairs"][-1] == 1 and (np.diff(run.history["fun"]) <= 0).all()
    assert evaluate(em, mixture_at(em, run)).counts.min() > 50


def test_a_repair_that_does_not_help_is_not_made():
    """A component on a single row, as narrow as the noise floor allows, is likeliest there, and EM continues."""
    views, _ = drawn(mixture(K=1), 100)
    one, em = problem(views, K=1), problem(views, K=2)
    first = mixture_at(one, iterated(one, start(one), 5))
    row = np.hstack(views)[:1]
    means, loadings = np.concatenate([first.means, row]), np.concatenate([first.loadings, 0 * first.loadings])
    noise = [np.concatenate([part, em.data.model.floor[None, first.columns(v)]]) for v, part in enumerate(first.noise)]
    spike = Mixture([0.99, 0.01], means, loadings, noise)
    assert evaluate(em, spike).counts[1] < 2
    tried: list[list[bool]] = []
    watch = [lambda event: tried.append(event.state["tried"].tolist())]
    run = iterated(em, spike, ms.CostChange(1e-6) | ms.MaxIterations(50), observers=watch)
    assert tried[-1] == [False, True] and run.history["repairs"][-1] == 0
    assert run.nit > 5 and (np.diff(run.history["fun"]) <= 0).all()
    assert run.history["nfev"][1] == 3  # the start, the repair that was rejected, EM


def test_noise_is_at_least_the_noise_floor():
    """A column that the others determine: the likelihood would grow without bound."""
    views, _ = drawn(mixture(K=1), 100)
    views[1][:, 0] = views[0][:, 0]
    for full in (False, True):
        em = problem(views, K=1, full=full, update="expanded", floor=1e-4)
        run = iterated(em, start(em), 60, accelerated=True)
        m = mixture_at(em, run)
        assert (np.diff(run.history["fun"]) <= 0).all()
        least = [
            np.linalg.eigvalsh(n - np.diag(em.data.model.floor[m.columns(v)])).min()
            if full
            else (n - em.data.model.floor[m.columns(v)]).min()
            for v, n in enumerate(m.noise)
        ]
        assert min(least) >= -1e-12
    S = np.array([[1.0, 0.999], [0.999, 1.0]])
    lifted = raised(S, np.array([0.01, 0.01]))
    assert np.linalg.eigvalsh(lifted - 0.01 * np.eye(2)).min() >= -1e-15
    np.testing.assert_allclose(raised(S, np.array([1e-4, 1e-4])), S, atol=1e-14)


def test_resumed_run_is_bit_identical(tmp_path):
    views, _ = drawn(mixture(), 150)
    em = problem(views, update="expanded")
    first = start(em)
    whole = iterated(em, first, 14, accelerated=True)
    iterated(em, first, 8, accelerated=True, checkpoint=tmp_path)
    again = iterated(em, first, 14, accelerated=True, checkpoint=tmp_path, resume=True)
    assert again.nit == 14 and np.array_equal(again.history["fun"], whole.history["fun"])
    for a, b in zip(again.x[:3], whole.x[:3], strict=True):
        assert np.array_equal(a, b)


def failing(name, value, fails):
    """Register a model whose sweeps have a log-likelihood of `value` where ``fails(number of the sweep)``."""
    statistics, count = ms.get_model("mpcca:mpcca").statistics, itertools.count()

    def failing(model, point, block):
        found = statistics(model, point, block)
        return replace(found, log_likelihood=value) if fails(next(count)) else found

    return registered(name, statistics=failing)


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("acceleration", ["lbfgs", None])
def test_a_likelihood_that_is_not_finite_is_no_convergence(value, acceleration):
    """Every E-step of the second iteration fails; before, EM took NaN for the end of what it can gain."""
    views, _ = drawn(mixture(), 200)
    options = dict(covariance_type="diag", model=failing("mpcca-fails-late", value, lambda sweep: sweep >= 2))
    with pytest.warns(UserWarning, match="the objective is not finite after 1 iterations, so the fit ended"):
        model = MixturePCCA(3, 2, acceleration=acceleration, random_state=0, **options).fit(views)
    assert model.status_ is ms.Status.NON_FINITE and model.n_iter_ == 1
    assert np.isfinite(model.log_likelihood_) and model.log_likelihood_ == pytest.approx(model.score(views))


def test_a_start_that_fails_is_not_the_best():
    views, _ = drawn(mixture(), 200)
    options = dict(covariance_type="diag", model=failing("mpcca-fails-first", np.nan, lambda sweep: sweep == 0))
    model = MixturePCCA(3, 2, n_init=2, random_state=0, **options).fit(views)
    assert model.status_.success and model.log_likelihood_ == pytest.approx(model.score(views))
