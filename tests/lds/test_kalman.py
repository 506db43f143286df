"""Filter, smoother and likelihood against the dense Gaussian of all states and outputs; what rests on them."""

import dataclasses
import itertools

import mpmath
import numpy as np
import pytest
from helpers import parametrize
from scipy.stats import multivariate_normal

from manifoldseq_lds import LDSIdentifier, Systems
from manifoldseq_lds.identification import _missing
from manifoldseq_lds.identification._em import sweep
from manifoldseq_lds.systems import _kalman
from manifoldseq_lds.systems._kalman import compress, kalman_filter, smooth

N, M, STATES, T = 3, 5, 3, 9


def systems(seed=0, m=M, **without):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, STATES, STATES))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max(axis=1)[:, None, None]
    fields = {
        "A": A,
        "C": np.linalg.qr(rng.standard_normal((N, m, STATES)))[0],
        "x1": rng.standard_normal((N, STATES)),
        "noise_factor": 0.5 * rng.standard_normal((N, STATES, STATES)),
        "mean": rng.standard_normal((N, m)),
        "Omega": rng.uniform(0.1, 1, (N, m)),
    }
    return Systems(**fields | without)


def outputs(seed=1, holes=True):
    Y = np.random.default_rng(seed).standard_normal((N, T, M))
    if holes:  # entries, a whole step, most of the first step, a channel for ever
        Y[0, 2, 1] = Y[1, 4] = Y[2, 0, :3] = Y[0, :, 0] = np.nan
    return Y


def parts(S, i):
    return [None if part is None else part[i] for part in (S.A, S.C, S.x1, S.noise_factor, S.mean, S.Omega)]


def dense(S, i, Y, U=None):
    """Means and covariances of all states, and of those seen: the model multiplied out."""
    A, C, x1, F, mean, Omega = parts(S, i)
    n, steps = len(A), len(Y)
    Q = np.zeros((n, n)) if F is None else F @ F.T
    mu, P = [x1], [Q if S.P1 is None else S.P1[i]]
    for t in range(steps - 1):
        mu.append(A @ mu[-1] + (0 if U is None else S.B[i] @ U[t]))
        P.append(A @ P[-1] @ A.T + Q)
    K = np.zeros((steps, n, steps, n))
    for t in range(steps):
        across = P[t]
        for s in range(t, steps):
            K[s, :, t], K[t, :, s] = across, across.T
            across = A @ across
    K = K.reshape(steps * n, steps * n)
    seen = ~np.isnan(Y.ravel())
    H = np.kron(np.eye(steps), C)[seen]
    center = H @ np.concatenate(mu) + (0 if mean is None else np.tile(mean, steps)[seen])
    center = center + (0 if U is None else (U @ S.D[i].T).ravel()[seen])
    noise = np.kron(np.eye(steps), Omega if Omega.ndim == 2 else np.diag(Omega))[np.ix_(seen, seen)]
    S = H @ K @ H.T + noise
    gain = K @ H.T @ np.linalg.inv(S)
    x = np.concatenate(mu) + gain @ (Y.ravel()[seen] - center)
    rest = (K - gain @ H @ K).reshape(steps, n, steps, n)
    return multivariate_normal(center, S).logpdf(Y.ravel()[seen]), x.reshape(steps, n), rest


def covariances(k, seed):
    F = np.random.default_rng(seed).standard_normal((N, k, k))
    return F @ F.swapaxes(1, 2) / k + 0.1 * np.eye(k)


RNG = np.random.default_rng(9)
MORE = {"B": RNG.standard_normal((N, STATES, 2)), "D": RNG.standard_normal((N, M, 2))}
INPUTS = RNG.standard_normal((N, T, 2))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mean": None},
        {"noise_factor": None},
        {"P1": covariances(STATES, 7), "Omega": covariances(M, 8)},
        {"P1": covariances(STATES, 7), **MORE},
    ],
    ids=["all", "no mean", "no noise", "full", "inputs"],
)
@pytest.mark.parametrize("holes", [False, True])
def test_smoother_and_likelihood_equal_the_dense_gaussian(holes, given):
    S, Y = systems(**given), outputs(holes=holes)
    U = INPUTS if "B" in given else None
    filtered = kalman_filter(S, compress(S, Y, U))
    x, P, lagged = smooth(S, filtered)
    for i in range(N):
        likelihood, means, covariance = dense(S, i, Y[i], None if U is None else U[i])
        np.testing.assert_allclose(filtered.log_likelihood[i], likelihood, rtol=1e-11)
        np.testing.assert_allclose(x[i], means, atol=1e-12)
        np.testing.assert_allclose(P[i], covariance[np.arange(T), :, np.arange(T)], atol=1e-12)
        np.testing.assert_allclose(lagged[i], covariance[np.arange(1, T), :, np.arange(T - 1)], atol=1e-12)


@pytest.mark.parametrize("radius", [0.5, 0.9, 0.999])
def test_covariances_that_settle_are_those_of_all_steps(radius, monkeypatch):
    S = systems(P1=covariances(STATES, 7))
    S = Systems(S.A * (radius / 0.9), S.C, S.x1, S.noise_factor, S.mean, S.Omega, S.P1)
    Y = np.random.default_rng(0).standard_normal((N, 400, M))
    short = kalman_filter(S, compress(S, Y))
    found = smooth(S, short)
    monkeypatch.setattr(_kalman, "_CONVERGED", -1.0)
    whole = kalman_filter(S, compress(S, Y))
    assert short.P.shape[1] < 250 and whole.P.shape[1] == 400
    np.testing.assert_allclose(short.log_likelihood, whole.log_likelihood, rtol=1e-12)
    for one, other in zip((short.x, *found), (whole.x, *smooth(S, whole)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.parametrize("kind", ["diag", "full", "inputs"])
@pytest.mark.parametrize("gap", [False, True])
def test_sweeps_are_the_textbook_ones(kind, gap):
    """Shumway and Stoffer's formulas, one system at a time, with expectations of the dense Gaussian, five times.

    Steps without any output take no part in the regression of the outputs.
    """
    given = {"P1": covariances(STATES, 7)} | ({"Omega": covariances(M, 8)} if kind == "full" else {})
    S = systems(**given, **(MORE if kind == "inputs" else {}))
    Y, U = outputs(holes=False), INPUTS if kind == "inputs" else None
    if gap:
        Y[:, 3:5] = np.nan
    own = S
    for _ in range(5):
        own, _ = sweep(own, Y, U, covariance_type="full" if kind == "full" else "diag")
    likelihood = kalman_filter(own, compress(own, Y, U)).log_likelihood
    for i in range(N):
        naive = S[[i]]
        for _ in range(5):
            naive = textbook(naive, Y[i], None if U is None else U[i], full=kind == "full")
        expected = dense(naive, 0, Y[i], None if U is None else U[i])[0]
        assert abs(likelihood[i] - expected) < 1e-9


def textbook(S, y, u, full):
    _, x, K = dense(S, 0, y, u)
    steps, n = x.shape
    r = x if u is None else np.hstack([x, u])
    one = np.hstack([r, np.ones((steps, 1))])

    def moment(a, t, b, s):
        made = np.outer(a[t], b[s])
        made[:n, :n] += K[t, :, s]
        return made

    before = sum(moment(r, t, r, t) for t in range(steps - 1))
    across = sum(moment(x, t + 1, r, t) for t in range(steps - 1))
    after = sum(moment(x, t, x, t) for t in range(1, steps))
    W = np.linalg.solve(before, across.T).T
    Q = (after - W @ across.T - across @ W.T + W @ before @ W.T) / (steps - 1)
    there = [t for t in range(steps) if not np.isnan(y[t]).any()]
    gram = sum(moment(one, t, one, t) for t in there)
    right = sum(np.outer(y[t], one[t]) for t in there)
    V = np.linalg.solve(gram, right.T).T
    R = (sum(np.outer(y[t], y[t]) for t in there) - V @ right.T - right @ V.T + V @ gram @ V.T) / len(there)
    made = {"A": W[:, :n], "noise_factor": np.linalg.cholesky(Q), "C": V[:, :n], "mean": V[:, -1], "x1": x[0]}
    made |= {"P1": K[0, :, 0], "Omega": R if full else np.diag(R).copy()}
    if u is not None:
        made |= {"B": W[:, n:], "D": V[:, n:-1]}
    return Systems.trusted({name: part[None].copy() for name, part in made.items()})


def test_filter_is_the_smoother_of_what_was_seen_until_then():
    S, Y = systems(), outputs()
    filtered = kalman_filter(S, compress(S, Y))
    for t in (0, 4, T - 1):
        for i in range(N):
            _, means, covariance = dense(S, i, Y[i, : t + 1])
            np.testing.assert_allclose(filtered.x[i, t], means[-1], atol=1e-12)
            np.testing.assert_allclose(filtered.P[i, t], covariance[t, :, t], atol=1e-12)


def test_nearly_noise_free_outputs_keep_their_digits():
    """Omega of 1e-10: the likelihood, against the dense Gaussian in higher precision."""
    S = systems(Omega=np.full((N, M), 1e-10))
    Y = S.mean[:, None] + np.random.default_rng(3).standard_normal((N, T, STATES)) @ S.C.swapaxes(1, 2)
    Y += 1e-5 * np.random.default_rng(4).standard_normal(Y.shape)
    found = kalman_filter(S, compress(S, Y)).log_likelihood
    with mpmath.workdps(60):
        A, C, x1, F, mean, Omega = (mpmath.matrix(part.tolist()) for part in parts(S, 0))
        n, P, x, Q = STATES, F * F.T, x1, F * F.T
        total = mpmath.mpf(0)
        for t in range(T):
            if t:
                x, P = A * x, A * P * A.T + Q
            V = C * P * C.T + mpmath.diag(list(Omega))
            e = mpmath.matrix(Y[0, t].tolist()) - mean - C * x
            total -= (mpmath.log(mpmath.det(2 * mpmath.pi * V)) + (e.T * mpmath.inverse(V) * e)[0]) / 2
            gain = P * C.T * mpmath.inverse(V)
            x, P = x + gain * e, P - gain * C * P
        assert abs(found[0] / float(total) - 1) < 1e-9 and n == 3


@pytest.mark.parametrize("covariance_type", ["spherical", "diag", "full"])
@pytest.mark.parametrize("U", [None, INPUTS], ids=["", "inputs"])
def test_a_sweep_never_lowers_the_likelihood(covariance_type, U):
    """Expectation maximization from poor starts, with holes; C need not be orthonormal on the way."""
    S, Y = systems(seed=5, Omega=np.full((N, M), 0.7), **({} if U is None else MORE)), outputs(seed=6)
    values = []
    for _ in range(20):
        S, filtered = sweep(S, Y, U, covariance_type=covariance_type)
        values.append(filtered.log_likelihood)
        if covariance_type == "full" and values[-1].max() > 0:  # so few steps: the likelihood has no bound
            break
    assert (np.diff(values, axis=0) > -1e-6).all() and (values[-1] > values[0] + 1).all()


def test_the_noise_after_a_sweep_is_the_mean_of_what_is_left_of_all_steps():
    """F F' is the expected square of what A leaves of each state but the first, by a loop over the steps."""
    S, Y = systems(seed=5), outputs(seed=6)
    after = sweep(S, Y)[0]
    for i in range(N):
        _, x, covariance = dense(S, i, Y[i])
        A, left = after.A[i], np.zeros((STATES, STATES))
        np.testing.assert_allclose(after.x1[i], x[0], atol=1e-8)
        np.testing.assert_allclose(after.P1[i], covariance[0, :, 0], atol=1e-8)
        for t in range(1, T):
            mean, across = x[t] - A @ x[t - 1], A @ covariance[t - 1, :, t]
            spread = covariance[t, :, t] - across - across.T + A @ covariance[t - 1, :, t - 1] @ A.T
            left += np.outer(mean, mean) + spread
        np.testing.assert_allclose(after.noise_factor[i] @ after.noise_factor[i].T, left / (T - 1), atol=1e-6)


def turning(count=3, steps=60, noise=0.0, seed=0):
    """Two damped oscillations in eight channels."""
    rng, t = np.random.default_rng(seed), np.arange(steps)[:, None]
    C = rng.standard_normal((4, 8))
    rates = (0.2, 0.3, 0.4)[:count]
    decay = 0.98**t
    X = [
        np.hstack([np.cos(w * t), np.sin(w * t), decay * np.cos(3 * w * t), decay * np.sin(3 * w * t)]) @ C
        for w in rates
    ]
    return [x + noise * rng.standard_normal(x.shape) for x in X]


HOLES = {
    "entries": lambda rng, x: rng.random(x.shape) < 0.2,
    "whole steps": lambda rng, x: np.repeat(rng.random((len(x), 1)) < 0.2, x.shape[1], axis=1),
    "a gap": lambda rng, x: np.repeat((np.abs(np.arange(len(x)) - 30) < 5)[:, None], x.shape[1], axis=1),
}


@parametrize("delay", [1, 2], fast=1)
@pytest.mark.parametrize("kind", HOLES)
def test_missing_values_of_a_noise_free_system_are_found(kind, delay):
    rng = np.random.default_rng(0)
    X = turning()
    holed = [np.where(HOLES[kind](rng, x), np.nan, x) for x in X]
    identifier = LDSIdentifier(4, center=False, missing="smooth", stabilizer="CG", delay=delay).fit(holed)
    for x, y in zip(X, identifier.interpolate(holed), strict=True):
        np.testing.assert_allclose(y, x, atol=1e-5)
    whole = LDSIdentifier(4, center=False, scale=False, stabilizer="CG", delay=delay)
    whole.fit(X).scale_ = identifier.scale_
    poles = [np.sort_complex(np.linalg.eigvals(S.A)) for S in (identifier.transform(holed), whole.transform(X))]
    np.testing.assert_allclose(*poles, atol=1e-5)


@pytest.mark.parametrize("kind", HOLES)
def test_missing_values_in_noise_are_found_up_to_the_noise(kind):
    rng = np.random.default_rng(1)
    clean, X = turning(), turning(noise=0.1)
    holes = [HOLES[kind](rng, x) for x in X]
    holed = [np.where(hole, np.nan, x) for hole, x in zip(holes, X, strict=True)]
    filled = LDSIdentifier(4, center=False).fit(X).interpolate(holed)
    error = np.concatenate([(y - x)[hole] for y, x, hole in zip(filled, clean, holes, strict=True)])
    assert np.sqrt(np.mean(error**2)) < 0.08  # linear interpolation: above 0.3
    for x, y, hole in zip(holed, filled, holes, strict=True):
        np.testing.assert_array_equal(x[~hole], y[~hole])


def test_a_likelihood_that_is_not_finite_ends_the_sweeps(monkeypatch):
    """That of sequence 0 fails in the third sweep, that of 1 in the first, and 2 has NaN in its next A; 3 goes on.

    Sequence 1 keeps the straight lines that it began with.
    """
    rng, X = np.random.default_rng(2), [*turning(noise=0.1), turning(noise=0.1, seed=1)[0]]
    holed = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in X]
    identifier = LDSIdentifier(4, center=False).fit(X)
    expected = identifier.interpolate(holed)
    with monkeypatch.context() as patched:
        patched.setattr(_missing, "_SWEEPS", 1)
        twice = identifier.interpolate(holed)
    calls = itertools.count()

    def failing(S, Y):
        better, filtered = sweep(S, Y)
        call = next(calls)
        if call == 0:
            filtered.log_likelihood[1] = np.nan
        elif call == 1:
            fields = {one.name: getattr(better, one.name) for one in dataclasses.fields(better)}
            hole = np.array([0, np.nan, 0])[:, None, None]  # of sequence 2: 1 is no longer there
            better = Systems.trusted(fields | {"A": better.A + hole})
        elif call == 2:
            filtered.log_likelihood[0] = np.nan
        return better, filtered

    monkeypatch.setattr(_missing, "sweep", failing)
    with pytest.warns(
        UserWarning, match=r"the likelihood of 3 of 4 sequences \(the first is sequence 0\) is not finite"
    ):
        found = identifier.interpolate(holed)
    np.testing.assert_allclose(found[0], twice[0])
    t = np.arange(60)
    for c in range(8):
        seen = ~np.isnan(holed[1][:, c])
        np.testing.assert_allclose(found[1][:, c], np.interp(t, t[seen], holed[1][seen, c]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[2], twice[2])
    np.testing.assert_allclose(found[3], expected[3])


def test_interpolation_with_given_systems_is_their_smoother():
    X = turning(noise=0.1)
    identifier = LDSIdentifier(4, stabilizer="CG").fit(X)
    S = identifier.transform(X)
    holed = [x.copy() for x in X]
    holed[1][20:25, 3] = np.nan
    _, means, _ = dense(S, 1, holed[1] / identifier.scale_)
    expected = (means @ S.C[1].T + S.mean[1]) * identifier.scale_
    found = identifier.interpolate(holed, S)
    np.testing.assert_allclose(found[1][20:25, 3], expected[20:25, 3], rtol=1e-8)
    np.testing.assert_array_equal(found[0], X[0])


def test_the_likelihood_of_the_estimator_is_that_of_the_dense_gaussian():
    X = [x[:t] for x, t in zip(turning(noise=0.1), (30, 24, 30), strict=True)]
    identifier = LDSIdentifier(4).fit(X)
    S = identifier.transform(X)
    expected = [dense(S, i, x / identifier.scale_)[0] for i, x in enumerate(X)]
    np.testing.assert_allclose(identifier.log_likelihood(X), expected, rtol=1e-9)
    np.testing.assert_allclose(identifier.log_likelihood(X[::-1], S[::-1]), expected[::-1], rtol=1e-9)


def test_the_system_of_a_sequence_likes_it_better_than_others_do():
    X = turning(noise=0.1)
    identifier = LDSIdentifier(4, stabilizer="CG").fit(X)
    S = identifier.transform(X)
    own = identifier.log_likelihood(X, S)
    assert (own > identifier.log_likelihood(X, S[[1, 2, 0]]) + 10).all()


@pytest.mark.parametrize("delay", [1, 2])
def test_filter_and_smoother_of_the_estimator_are_those_of_the_dense_gaussian(delay):
    X = [x[:t] for x, t in zip(turning(noise=0.1), (30, 24, 30), strict=True)]
    X[1][20:22, 3] = np.nan
    identifier = LDSIdentifier(3, delay=delay, missing="smooth", method="em", stabilizer="CG").fit(X)
    S = identifier.transform(X)
    smoothed, filtered = identifier.smooth(X, S), identifier.filter(X, S)
    np.testing.assert_allclose(smoothed.log_likelihood, identifier.log_likelihood(X, S))
    for i, x in enumerate(X):
        y = x / identifier.scale_
        stacked = np.hstack([y[k : len(y) - delay + 1 + k] for k in range(delay)])
        _, means, K = dense(S, i, stacked)
        steps = np.arange(len(means))
        np.testing.assert_allclose(smoothed.means[i], means, atol=1e-9)
        np.testing.assert_allclose(smoothed.covariances[i], K[steps, :, steps], atol=1e-9)
        _, means, K = dense(S, i, stacked[:16])
        np.testing.assert_allclose(filtered.means[i][15], means[-1], atol=1e-9)
        np.testing.assert_allclose(filtered.covariances[i][15], K[15, :, 15], atol=1e-9)
        # the newest copy of a value: the last of its stack
        mean = (S.C[i] @ means[-1] + S.mean[i])[-8:] * identifier.scale_
        std = np.sqrt(np.diag(S.C[i] @ K[15, :, 15] @ S.C[i].T)[-8:] + S.Omega[i][-8:]) * identifier.scale_
        np.testing.assert_allclose(filtered.outputs[i][15 + delay - 1], mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(filtered.output_std[i][15 + delay - 1], std, rtol=1e-6)
    hole = smoothed.outputs[1][20:22, 3]
    np.testing.assert_allclose(hole, identifier.interpolate(X, S)[1][20:22, 3], rtol=1e-9)


def test_an_irregular_channel_or_step_raises_an_error():
    X = turning()
    identifier = LDSIdentifier(4, missing="smooth").fit(X)
    X[1][:, 2] = np.nan
    for call in (identifier.transform, identifier.interpolate, identifier.fit):
        with pytest.raises(ValueError, match=r"^sequence 1 has no value in channel 2: remove the sequence or the"):
            call(X)
    X[1][0, 2] = np.inf
    with pytest.raises(ValueError, match="sequence 1 has infinity at t=0, channel 2"):
        identifier.transform(X)
    with pytest.raises(ValueError, match="sequence 1 has NaN at t=1, channel 2"):
        LDSIdentifier(4).fit(X[:1]).transform([X[0], np.where(np.isinf(X[1]), 0, X[1])])
    with pytest.raises(ValueError, match="missing='drop' is not known: choose 'error' or 'smooth'"):
        LDSIdentifier(4, missing="drop").fit(X[:1])
    with pytest.raises(ValueError, match="sequence 0 has masked values"):
        identifier.fit([np.ma.masked_less(X[0], 0)])
    with pytest.raises(ValueError, match="systems lack Omega"):
        S = LDSIdentifier(4).fit_transform(X[:1])
        identifier.log_likelihood(X[:1], Systems(S.A, S.C, S.x1, S.noise_factor, S.mean))
