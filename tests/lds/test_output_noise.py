"""Identification under output noise: N4SID, expectation maximization, standard deviations of forecasts."""

import numpy as np
import pytest
from helpers import parametrize
from scipy.linalg import solve_discrete_lyapunov, toeplitz
from scipy.optimize import linear_sum_assignment
from scipy.stats import multivariate_normal, norm

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKernelMatrix, LDSKMeans, Systems
from manifoldseq_lds.identification._parameter_error import _first_step, _plausible, _with_noises_of_steps
from manifoldseq_lds.systems._kalman import noise_covariance

POLES = [0.95 * np.exp(0.4j), 0.9 * np.exp(1.1j)]


def noisy(T, seed, noise=1.0, m=6):
    rng = np.random.default_rng(seed)
    A = np.kron(np.diag([1.0, 0.0]), _block(POLES[0])) + np.kron(np.diag([0.0, 1.0]), _block(POLES[1]))
    C = np.linalg.qr(rng.standard_normal((m, 4)))[0]
    x, Y = np.zeros(4), []
    for _ in range(T + 200):
        x = A @ x + 0.3 * rng.standard_normal(4)
        Y.append(C @ x + noise * rng.standard_normal(m))
    return np.array(Y[200:])


def _block(pole):
    return np.array([[pole.real, -pole.imag], [pole.imag, pole.real]])


def error(A):
    distance = np.abs(np.linalg.eigvals(A)[:, None] - np.array([*POLES, *np.conj(POLES)]))
    return distance[linear_sum_assignment(distance)].mean()


@pytest.mark.parametrize("method", ["n4sid", "em"])
def test_eigenvalues_under_output_noise(method):
    X = [noisy(400, seed) for seed in range(8)]
    wrong = {
        name: np.median([error(A) for A in LDSIdentifier(4, stabilizer="CG", method=name).fit_transform(X).A])
        for name in ("pca", method)
    }
    assert wrong["pca"] > 0.3
    assert wrong[method] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", ["n4sid", "em"])
def test_defaults_do_not_damp_what_output_noise_left_alone(method):
    """Against the true eigenvalues; soft normalization errs by 0.13 here, and is less likely than n4sid without it."""
    X = [noisy(1000, seed) for seed in range(6)]
    identifier = LDSIdentifier(4, method=method)
    assert identifier.stabilizer == "auto" and identifier.stabilizer_ == "CG"
    systems = identifier.fit_transform(X)
    assert np.median([error(A) for A in systems.A]) < 0.04
    # what filters, smooths and forecasts is what `transform` returns, and none of it is stabilized, as all are stable
    free = LDSIdentifier(4, method=method, stabilizer=None).fit(X)
    np.testing.assert_array_equal(systems.A, free.transform(X).A)
    short = [x[:300] for x in X]
    systems = identifier.fit_transform(short)
    likelihood = identifier.log_likelihood(short)
    np.testing.assert_array_equal(likelihood, identifier.log_likelihood(short, systems))
    np.testing.assert_array_equal(identifier.filter(short).log_likelihood, likelihood)
    np.testing.assert_array_equal(identifier.smooth(short).means[0], identifier.smooth(short, systems).means[0])
    np.testing.assert_array_equal(identifier.forecast(short, 5), identifier.forecast(short, 5, systems))
    assert (likelihood > LDSIdentifier(4, method=method, stabilizer="SN").fit(short).log_likelihood(short)).all()
    if method == "n4sid":
        growing = [LDSIdentifier(4, method=method).partial_fit([x[:600]]).partial_fit([x[600:]]) for x in X]
        assert np.median([error(one.systems_.A[0]) for one in growing]) < 0.04


def test_the_stabilizer_that_stands_for_auto():
    X = [noisy(60, seed) for seed in range(4)]
    pca = LDSIdentifier(2)
    assert pca.stabilizer_ == "SN" and LDSIdentifier(2, method="em", stabilizer="SN").stabilizer_ == "SN"
    np.testing.assert_array_equal(pca.fit_transform(X).A, LDSIdentifier(2, stabilizer="SN").fit_transform(X).A)
    for identifier, used in (
        (None, "SN"),
        (LDSIdentifier(method="n4sid"), "CG"),
        (LDSIdentifier(stabilizer="clip"), "clip"),
    ):
        model = LDSKernelMatrix(n_states=2, identifier=identifier).fit(X)
        assert model.used_parameters_["identifier.stabilizer"] == used
    # a choice of settings, which keeps what an identifier says, names what stands for it
    model = LDSKMeans(2, identifier=LDSIdentifier(method="n4sid"), random_state=0).fit(X * 2)
    assert {one["stabilizer"] for one in model.choice_.steps[-1].params} == {"CG"}


def test_covariances_are_those_of_the_noise():
    systems = LDSIdentifier(4, stabilizer="CG", scale=False, method="em").fit_transform([noisy(3000, 0, noise=0.5)])
    np.testing.assert_allclose(systems.Omega, 0.25, rtol=0.12)
    np.testing.assert_allclose(np.linalg.eigvalsh(systems.noise_factor[0] @ systems.noise_factor[0].T), 0.09, rtol=0.45)


@pytest.mark.parametrize("method", ["n4sid", "em"])
def test_likelihood_is_above_that_of_pca(method):
    X = [noisy(150, seed) for seed in range(4)]
    given = {"stabilizer": "CG"}
    before = LDSIdentifier(4, **given).fit(X).log_likelihood(X)
    assert (LDSIdentifier(4, method=method, **given).fit(X).log_likelihood(X) > before).all()


@pytest.mark.parametrize("method", ["n4sid", "em"])
@parametrize("delay", [1, 2], fast=1)
def test_noise_free_systems_are_exact(method, delay):
    t = np.arange(80)[:, None]
    x = 0.98**t * np.cos(0.5 * t + [0.0, 1.0, 2.0])
    identifier = LDSIdentifier(2, center=False, stabilizer="CG", method=method, delay=delay)
    assert np.allclose(np.abs(np.linalg.eigvals(identifier.fit_transform([x]).A)), 0.98, atol=1e-3)


@pytest.mark.slow
def test_batches_equal_single_sequences_and_single_precision():
    X = [noisy(120, 0), noisy(120, 1), noisy(90, 2)]
    identifier = LDSIdentifier(4, stabilizer="CG", method="em").fit(X)
    together = identifier.transform(X)
    for i, x in enumerate(X):
        np.testing.assert_allclose(together.A[i], identifier.transform([x]).A[0], atol=1e-7)
    single = identifier.transform([x.astype(np.float32) for x in X])
    np.testing.assert_allclose(single.A, together.A, atol=1e-3)


@pytest.mark.slow
def test_expectation_maximization_takes_recorded_values_alone():
    X = [noisy(400, seed) for seed in range(6)]
    rng = np.random.default_rng(0)
    holed = [np.where(rng.random(x.shape) < 0.15, np.nan, x) for x in X]
    systems = LDSIdentifier(4, stabilizer="CG", method="em", missing="smooth").fit_transform(holed)
    assert np.median([error(A) for A in systems.A]) < 0.08


@parametrize("method", ["n4sid", "em"], fast=1)
@pytest.mark.parametrize("kind", ["constant", "constant channel", "one channel"])
def test_degenerate_sequences_have_systems(method, kind):
    x = noisy(60, 0)
    if kind == "constant":
        x = np.ones_like(x)
    elif kind == "constant channel":
        x[:, 2] = 3.0
    else:
        x = x[:, :1]
    identifier = LDSIdentifier(2, method=method, stabilizer="CG", delay=2 if kind == "one channel" else 1)
    systems = identifier.fit_transform([x])
    assert np.isfinite(systems.A).all()
    np.testing.assert_allclose(systems.C[0].T @ systems.C[0], np.eye(2), atol=1e-8)
    mean, std = identifier.forecast([x], 3, return_std=True)
    assert np.isfinite(mean).all() and (std >= 0).all()


def test_short_sequences():
    X = [noisy(8, 0)]
    with pytest.raises(ValueError, match=r"sequence 0 has 8 time steps, but method='n4sid' needs 1\d for 4 states"):
        LDSIdentifier(4, method="n4sid").fit_transform(X)
    assert np.isfinite(LDSIdentifier(4, method="em", stabilizer="CG").fit_transform(X).A).all()


def test_unknown_method():
    with pytest.raises(ValueError, match="method"):
        LDSIdentifier(2, method="moesp").fit([noisy(50, 0)])


def test_standard_deviations_are_those_of_the_joint_normal_distribution():
    x, ahead = noisy(12, 3), 3
    identifier = LDSIdentifier(2, stabilizer="CG", scale=False).fit([x])
    systems = identifier.transform([x])
    mean, std = identifier.forecast([x], ahead, systems, return_std=True)
    # the covariance of all outputs, recorded and to come, from the model written out, and its conditional
    A, C, F = systems.A[0], systems.C[0], systems.noise_factor[0]
    T, m = len(x) + ahead, x.shape[1]
    G = np.zeros((T * m, T * 2))
    centre = np.zeros(T * m)
    for t in range(T):
        centre[t * m : (t + 1) * m] = systems.mean[0] + C @ np.linalg.matrix_power(A, t) @ systems.x1[0]
        for s in range(t + 1):
            G[t * m : (t + 1) * m, 2 * s : 2 * s + 2] = C @ np.linalg.matrix_power(A, t - s) @ F
    S = G @ G.T + np.diag(np.tile(systems.Omega[0], T))
    k = x.size
    gain = np.linalg.solve(S[:k, :k], S[:k, k:]).T
    np.testing.assert_allclose(mean[0].ravel(), centre[k:] + gain @ (x.ravel() - centre[:k]), atol=1e-8)
    np.testing.assert_allclose(std[0].ravel() ** 2, np.diag(S[k:, k:] - gain @ S[:k, k:]), rtol=1e-7)
    expected = multivariate_normal(centre[:k], S[:k, :k]).logpdf(x.ravel())
    np.testing.assert_allclose(identifier.log_likelihood([x], systems), expected, rtol=1e-8)


@pytest.mark.slow
def test_full_covariances_of_the_noise_are_found():
    x = noisy(1500, 0, noise=0.0)
    rng = np.random.default_rng(1)
    F = np.linalg.qr(rng.standard_normal((6, 6)))[0] * np.array([1, 0.8, 0.6, 0.5, 0.4, 0.3])
    x = x + rng.standard_normal(x.shape) @ F.T
    given = {"stabilizer": "CG", "scale": False, "method": "em"}
    full = LDSIdentifier(4, covariance_type="full", **given).fit([x])
    systems, plain = full.transform([x]), LDSIdentifier(4, **given).fit_transform([x])
    assert np.abs(systems.Omega[0] - F @ F.T).max() < 0.15
    assert full.log_likelihood([x], systems) > full.log_likelihood([x], plain) + 100


@pytest.mark.slow
def test_the_error_of_parameters_is_in_intervals_of_short_sequences():
    X = [noisy(60, seed, noise=0.3) for seed in range(10)]
    seen, ahead = [x[:50] for x in X], np.stack([x[50:] for x in X])
    identifier = LDSIdentifier(4, stabilizer="CG", method="em", max_iter=5).fit(seen)
    mean, std = identifier.forecast(seen, 10, return_std=True)
    again, without = identifier.forecast(seen, 10, return_std=True, n_bootstrap=0)
    np.testing.assert_array_equal(mean, again)
    shares = [np.mean(np.abs(ahead - mean) < 1.645 * s) for s in (std, without)]
    assert shares[0] > shares[1] + 0.02 and 0.84 < shares[0] < 0.97
    systems = identifier.transform(seen)  # which are taken as they are, unless asked otherwise
    np.testing.assert_array_equal(identifier.forecast(seen, 10, systems, return_std=True)[1], without)
    often = [identifier.forecast(seen, 10, systems, return_std=True, n_bootstrap=2)[1] for _ in range(2)]
    np.testing.assert_array_equal(*often)


@pytest.mark.slow
def test_intervals_hold_their_share_of_what_comes():
    """Of sequences that are generated further: 24 of 10 steps and 6 channels, wide bounds."""
    X = [noisy(80, seed, noise=0.3) for seed in range(24)]
    seen, ahead = [x[:70] for x in X], np.stack([x[70:] for x in X])
    identifier = LDSIdentifier(4, method="n4sid").fit(seen)
    mean, std = identifier.forecast(seen, 10, return_std=True, n_bootstrap=8)
    for coverage in (0.5, 0.9):
        lower, upper = identifier.forecast_interval(seen, 10, coverage=coverage, n_bootstrap=8)
        assert coverage - 0.08 < np.mean((lower < ahead) & (ahead < upper)) < coverage + 0.08
        np.testing.assert_allclose(0.5 * (lower + upper), mean, atol=1e-9)
    np.testing.assert_allclose(upper - lower, 2 * norm.ppf(0.95) * std, rtol=1e-9)


def test_plausible_systems_undo_the_bias_of_least_squares():
    """One pole a: Kendall (1954), -(1 + 3 a) / T. Several: against least squares on simulated sequences."""
    # nothing public says what the bootstrap simulates from
    T, rng = 200, np.random.default_rng(0)
    for A in (np.array([[0.9]]), np.array([[0.8, 0.3], [-0.2, 0.7]])):
        n = len(A)
        x = np.zeros((4000, n))
        steps = np.empty((4000, T, n))
        for t in range(-300, T):
            x = x @ A.T + rng.standard_normal(x.shape)
            if t >= 0:
                steps[:, t] = x
        centred = steps - steps.mean(axis=1, keepdims=True)
        before, after = centred[:, :-1], centred[:, 1:]
        least = np.linalg.solve(before.swapaxes(1, 2) @ before, before.swapaxes(1, 2) @ after).swapaxes(1, 2)
        systems = Systems(A[None], np.eye(n)[None], noise_factor=np.eye(n)[None])
        made = np.concatenate([_plausible(systems, one[None], 20, True, rng) for one in steps[:200]])
        np.testing.assert_allclose(made.mean(axis=0) - A, A - least.mean(axis=0), atol=0.004)
        np.testing.assert_allclose(made.std(axis=0), least.std(axis=0), rtol=0.15)
        if n == 1:
            np.testing.assert_allclose(made.mean() - 0.9, (1 + 3 * 0.9) / T, rtol=0.2)
    still = Systems([[[1 - 1e-9]]], [[[1.0]]], noise_factor=[[[0.0]]])
    np.testing.assert_array_equal(_plausible(still, np.ones((1, 50, 1)), 3, True, rng), still.A.repeat(3, axis=0))


@pytest.mark.slow
def test_noises_of_single_steps_make_them_likelier():
    """Under the stationary normal distribution of all steps, written out: those of stacked steps share their noise."""
    x = cycles(6, 300)
    identifier = LDSIdentifier(2, delay=4, scale=False, method="n4sid").fit(list(x))
    systems = identifier.transform(list(x))
    first = _first_step(systems, 1)
    better = _with_noises_of_steps(systems, first, x, None, "diag")

    def likelihood(found, i):
        A, c, P = (
            found.A[i],
            found.C[i],
            solve_discrete_lyapunov(found.A[i], found.noise_factor[i] @ found.noise_factor[i].T),
        )
        lags = [(c @ np.linalg.matrix_power(A, k) @ P @ c.T).item() for k in range(300)]
        return multivariate_normal(np.repeat(found.mean[i], 300), toeplitz(lags) + found.Omega[i] * np.eye(300)).logpdf(
            x[i, :, 0]
        )

    gains = [likelihood(better, i) - likelihood(first, i) for i in range(6)]
    assert min(gains) > 0 and np.median(gains) > 1, gains
    x[:, 100:110] = np.nan
    holed = _with_noises_of_steps(systems, first, x, None, "full")
    np.testing.assert_allclose(holed.Omega[:, 0, 0], better.Omega[:, 0], rtol=0.3)


@parametrize("delay", [1, 2], fast=1)
@parametrize("center", [True, False], fast=1)
def test_pieces_of_a_recording_say_what_the_whole_says(delay, center):
    x = noisy(900, 0, noise=0.5) * np.arange(1, 7) + (1000 if center else 0)
    given = {"method": "n4sid", "stabilizer": "CG", "delay": delay, "center": center}
    growing, whole = LDSIdentifier(4, **given), LDSIdentifier(4, **given)
    for piece in np.split(x, [300, 301, 303, 600]):
        growing.partial_fit([piece])
    systems, found = whole.fit_transform([x]), growing.systems_
    np.testing.assert_allclose(growing.scale_, whole.scale_, rtol=1e-10)
    for name in ("A", "C", *(["mean"] if center else [])):
        np.testing.assert_allclose(getattr(found, name), getattr(systems, name), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.Omega, systems.Omega, rtol=0.25)
    # nearly as likely as the covariances that were learned from all steps at once
    both = [whole.log_likelihood([x], one)[0] / len(x) for one in (found, systems)]
    assert abs(both[0] - both[1]) < 0.05
    # the state covariance is that of a stationary system
    expected = solve_discrete_lyapunov(found.A[0], found.noise_factor[0] @ found.noise_factor[0].T)
    np.testing.assert_allclose(np.trace(found.P1[0]), np.trace(expected), rtol=0.3)
    mean, std = growing.forecast([x[-60:]], 5, found, return_std=True)
    late = growing.forecast([x], 5, found)
    assert (np.abs(mean - late) < 0.1 * std).all()


def test_what_partial_fit_rejects(tmp_path):
    x = noisy(200, 0)
    with pytest.raises(ValueError, match="partial_fit supports method='n4sid' only, but method='pca'"):
        LDSIdentifier(2).partial_fit([x])
    identifier = LDSIdentifier(4, method="n4sid", stabilizer="CG")
    with pytest.raises(
        ValueError, match=r"the first piece has 20 time steps, but partial_fit needs \d+: pass a longer"
    ):
        identifier.partial_fit([x[:20]])
    with pytest.raises(ValueError, match="X contains 2 sequences: pass one piece of one recording"):
        identifier.partial_fit([x, x])
    identifier.partial_fit([x])
    before = identifier.systems_
    with pytest.raises(ValueError, match="X has 3 channels but the earlier pieces had 6"):
        identifier.partial_fit([x[:, :3]])
    with pytest.raises(ValueError, match=r"NaN at t=0, channel 0: .* or let LDSIdentifier\(missing='smooth'\) fill it"):
        identifier.partial_fit([np.full((3, 6), np.nan)])
    assert identifier.systems_ is before
    ms.storage.save_model(identifier, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.partial_fit([x]).systems_.A, identifier.partial_fit([x]).systems_.A)
    assert not hasattr(identifier.fit([x]), "systems_")


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e9 / 7])
def test_recordings_that_span_too_little(value):
    """The constant 0.1 less its mean is rounding, which spans every dimension."""
    sentence = (
        "the observations of the recording span fewer than n_states=2 dimensions: lower n_states, or pass a first piece"
    )
    for x in (np.full((200, 3), value), value + np.cos(np.arange(200) * np.pi)[:, None] * [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=sentence):
            LDSIdentifier(2, method="n4sid").partial_fit([x])
    with pytest.raises(ValueError, match=sentence):
        LDSIdentifier(2, method="n4sid", center=False).partial_fit([np.full((200, 3), value)])


@pytest.mark.slow
def test_pieces_with_missing_values_are_filled():
    """Against the truth, with a tenth missing; and a channel that says nothing for a whole piece."""
    wrong = []
    for seed in range(4):
        x = noisy(1200, seed, noise=0.3)
        holed = np.where(np.random.default_rng(seed).random(x.shape) < 0.1, np.nan, x)
        holed[600:640, 2] = np.nan
        identifier = LDSIdentifier(4, method="n4sid", missing="smooth")
        for piece in np.split(holed, [300, 301, 600, 640]):
            identifier.partial_fit([piece])
        assert np.isfinite(identifier.recording_["gram"]).all()
        wrong.append(error(identifier.systems_.A[0]))
    assert np.median(wrong) < 0.04
    holed[:300, 1] = np.nan
    with pytest.raises(ValueError, match="sequence 0 has no value in channel 1"):
        LDSIdentifier(4, method="n4sid", missing="smooth").partial_fit([holed[:300]])


def cycles(N, T):
    """Sequences (N, T, 1) of a damped cycle in state noise 0.3 and output noise 0.3."""
    rng, pole = np.random.default_rng(0), 0.97 * np.exp(0.5j)
    A, x = np.array([[pole.real, -pole.imag], [pole.imag, pole.real]]), np.zeros((N, 2))
    Y = np.empty((N, T + 200, 1))
    for t in range(Y.shape[1]):
        x = x @ A.T + 0.3 * rng.standard_normal(x.shape)
        Y[:, t, 0] = x[:, 0] + 0.3 * rng.standard_normal(N)
    return Y[:, 200:]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["n4sid", "em"])
def test_intervals_with_a_delay_hold_their_share(method):
    """One channel in output noise, whose stacked steps share it: without the bootstrap about 0.8 instead of 0.9."""
    Y = cycles(60, 120)
    seen, ahead = list(Y[:, :100]), Y[:, 100:]
    identifier = LDSIdentifier(2, delay=4, method=method).fit(seen)
    share, without = (
        np.mean((ahead > lower) & (ahead < upper))
        for lower, upper in (identifier.forecast_interval(seen, 20, n_bootstrap=count) for count in ("auto", 0))
    )
    assert 0.86 <= share <= 0.94
    assert without < share


@pytest.mark.slow
def test_intervals_of_slow_modes_hold_their_share():
    """Poles of 0.95, 0.8 and 0.5, all of which are estimated too small in 80 steps: 0.85 if they are believed."""
    X = []
    for seed in range(60):
        rng = np.random.default_rng([6, 100 + seed])
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        A, x, Y = Q @ np.diag([0.95, 0.8, 0.5]) @ Q.T, np.zeros(3), []
        for _ in range(300):
            x = A @ x + rng.standard_normal(3)
            Y.append(x)
            rng.standard_normal(3)
        X.append(np.array(Y[200:]))
    seen, ahead = [x[:80] for x in X], np.stack([x[80:] for x in X])
    lower, upper = LDSIdentifier(3, method="n4sid").fit(seen).forecast_interval(seen, 20)
    assert 0.86 <= np.mean((ahead > lower) & (ahead < upper)) <= 0.94


def autoregression(rng, root, T, size=1.0):
    x = np.zeros(T)
    for t in range(1, T):
        x[t] = root * x[t - 1] + size * rng.standard_normal()
    return x


def weather(seed, T=400):
    """Five channels: daily cycles on pressure and wind, and one that hardly varies."""
    rng, day = np.random.default_rng(seed), 2 * np.pi * np.arange(T) / 24
    pressure, wind = autoregression(rng, 0.98, T, 0.2), autoregression(rng, 0.8, T, 0.6)
    temperature = 3 * np.sin(day) + 1.5 * pressure + 0.3 * rng.standard_normal(T)
    humidity = 0.5 * wind - 2 * np.sin(day + 0.3) + 0.3 * rng.standard_normal(T)
    return np.c_[temperature, humidity, pressure, wind, 5 + 1e-3 * rng.standard_normal(T)]


def machine(seed, T=300):
    """Two channels that show one load, the second a step later, and one that hardly varies."""
    rng = np.random.default_rng(seed)
    load = autoregression(rng, 0.9, T)
    first, second = load + 0.2 * rng.standard_normal(T), 0.5 * np.roll(load, 1) + 0.2 * rng.standard_normal(T)
    return np.c_[first, second, 1 + 1e-4 * rng.standard_normal(T)]


def tides(seed, T=300):
    """Two periods in three channels, and one whose level is a million times its noise."""
    rng, t = np.random.default_rng(seed), np.arange(T)
    waves = np.c_[np.sin(0.5 * t) + 0.5 * np.sin(0.26 * t), np.cos(0.5 * t), np.sin(0.26 * t + 1)]
    return np.c_[waves + 0.1 * rng.standard_normal((T, 3)), 10 + 1e-5 * rng.standard_normal(T)]


ROLLING = {
    "weather": (weather(2), 5, range(215, 260, 5)),
    "machine": (machine(5), 3, range(100, 150, 5)),
    "machine, later": (machine(1), 3, range(170, 220, 5)),
    "tides": (tides(0), 4, range(100, 300, 25)),
}


@parametrize("name", ROLLING, fast=1)
def test_intervals_of_neighbouring_origins_are_alike(name):
    """Intervals stay narrow where one output hardly shows a state, and where the level is large next to the noise.

    The interval of the next step is no wider than that of the sample: 3.3 standard deviations hold 90 %.
    """
    x, n, origins = ROLLING[name]
    widths = []
    for origin in origins:
        identifier = LDSIdentifier(n, method="n4sid").fit([x[:origin]])
        lower, upper = identifier.forecast_interval([x[:origin]], 1, n_bootstrap=0)
        widths.append((upper - lower)[0, 0] / x.std(axis=0))
    ratios = np.exp(np.abs(np.diff(np.log(widths), axis=0)))
    assert ratios.max() < 2
    assert np.max(widths) < 1.3 * 3.3 and np.min(widths) > 0.1


def test_the_least_noise_does_not_depend_on_the_level():
    """A sequence at a level of 1e6 standard deviations has the system of the sequence without that level."""
    x = machine(0)[:150]
    identifier = LDSIdentifier(2, method="em", max_iter=5).fit([x])
    low, high = identifier.transform([x]), identifier.transform([x + 1e6 * x.std(axis=0)])
    np.testing.assert_allclose(high.Omega, low.Omega, rtol=1e-3)
    np.testing.assert_allclose(high.A, low.A, atol=1e-3)


@pytest.mark.parametrize("inputs", [False, True])
def test_an_estimate_that_is_far_less_likely_than_that_of_pca_is_rejected(inputs):
    """Two outputs with one large noise, which is no state: with independent noises N4SID is less likely than PCA."""
    rng, T = np.random.default_rng(0), 300
    common, slow = 300 * rng.standard_normal(T), autoregression(rng, 0.95, T, 0.3)
    x = np.c_[common + slow, slow - common] + 0.05 * rng.standard_normal((T, 2))
    u = [rng.standard_normal((T, 1))] * 2 if inputs else None
    X = [x, autoregression(rng, 0.9, T)[:, None] * [1, 2] + rng.standard_normal((T, 2))]  # the second is kept
    found = LDSIdentifier(1, method="n4sid", stabilizer="CG").fit(X, inputs=u)
    likelihood = found.log_likelihood(X, inputs=u)
    reference = LDSIdentifier(1, stabilizer="CG").fit(X).log_likelihood(X)
    assert (likelihood > reference - x.size).all()
    np.testing.assert_allclose(np.abs(found.transform(X, inputs=u).A[1]), 0.9, atol=0.1)


def three_states(seed, T, channels, noise=0.2):
    """An oscillation and a decay in one or two channels, with noise in the outputs."""
    rng = np.random.default_rng(seed)
    A = np.zeros((3, 3))
    A[:2, :2], A[2, 2] = _block(0.97 * np.exp(0.8j)), 0.9
    C = np.array([[1.0, 0.3, 1.2], [0.4, -1.0, 0.8]])[:channels]
    x, Y = np.zeros(3), []
    for _ in range(T + 100):
        x = A @ x + 0.3 * rng.standard_normal(3)
        Y.append(C @ x + noise * rng.standard_normal(channels))
    return A, C, np.array(Y[100:])


@pytest.mark.parametrize("method", ["n4sid", "em"])
@parametrize("channels", [1, 2], fast=1)
def test_more_states_than_outputs(channels, method):
    """Eigenvalues of three states from one and two channels without delay."""
    A, _, x = three_states(0, 1500, channels)
    X = [x[:800], x[800:1500]]
    identifier = LDSIdentifier(3, method=method).fit(X)
    systems = identifier.transform(X)
    assert (systems.n_states, systems.n_outputs, identifier.delay_) == (3, channels, 1)
    for eigenvalues in np.linalg.eigvals(systems.A):
        distance = np.abs(eigenvalues[:, None] - np.linalg.eigvals(A))
        assert distance[linear_sum_assignment(distance)].max() < 0.1
    assert repr(Systems.from_items(list(systems))) == f"Systems(N=2, m={channels}, n=3, x1, noise_factor, mean)"


@pytest.mark.parametrize("channels", [1, 2])
def test_likelihood_with_more_states_than_outputs_is_that_of_the_joint_normal(channels):
    """With values missing; and forecasts are the conditional mean and variance of the same normal distribution."""
    x = three_states(1, 60, channels)[2]
    identifier = LDSIdentifier(3, method="em", max_iter=3).fit([x])
    (systems, T) = (identifier.transform([x]), len(x) + 2)
    A, C, Q = systems.A[0], systems.C[0], noise_covariance(systems)[0]
    means, covariance = [systems.x1[0]], np.zeros((T, 3, T, 3))
    P = systems.P1[0]
    for t in range(T):
        S = P
        for s in range(t, T):
            covariance[s, :, t], covariance[t, :, s] = S, S.T
            S = A @ S
        P = A @ P @ A.T + Q
        means.append(A @ means[-1])
    mean = (np.array(means[:T]) @ C.T + systems.mean[0]).ravel()
    K = np.einsum("ak,skul,bl->saub", C, covariance, C).reshape(T * channels, -1)
    K += np.kron(np.eye(T), np.diag(systems.Omega[0]))
    holed = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    identifier.set_params(missing="smooth")
    y = (holed / identifier.scale_).ravel()
    seen = np.flatnonzero(~np.isnan(y))
    known = multivariate_normal(mean[seen], K[np.ix_(seen, seen)])
    found = identifier.set_params(missing="error")
    np.testing.assert_allclose(
        found.set_params(missing="smooth").smooth([holed], systems).log_likelihood, known.logpdf(y[seen]), rtol=1e-9
    )
    ahead = np.arange(len(y), len(mean))
    weight = np.linalg.solve(K[np.ix_(seen, seen)], K[np.ix_(seen, ahead)]).T
    said, std = found.forecast([holed], 2, systems, return_std=True)
    np.testing.assert_allclose(
        (said[0] / found.scale_).ravel(), mean[ahead] + weight @ (y[seen] - mean[seen]), rtol=1e-8, atol=1e-10
    )
    variance = np.diagonal(K[np.ix_(ahead, ahead)] - weight @ K[np.ix_(seen, ahead)])
    np.testing.assert_allclose((std[0] / found.scale_).ravel(), np.sqrt(variance), rtol=1e-8)


@parametrize("rule", [None, "auto"], fast=1)
@pytest.mark.parametrize("method", ["n4sid", "em"])
def test_order_is_the_true_one_whatever_the_number_of_outputs(rule, method):
    for channels, noise in ((1, 0.2), (2, 0.2), (1, 0.5), (2, 0.5)):
        found = [
            LDSIdentifier(rule, method=method).fit([three_states(seed, 500, channels, noise)[2]]).n_states_
            for seed in range(10)
        ]
        assert np.median(found) == 3 and np.mean(np.array(found) == 3) >= 0.6 and np.ptp(found) <= 2, (channels, found)
    white = np.random.default_rng(0).standard_normal((3, 300, 2))
    assert LDSIdentifier(rule, method=method).fit(list(white)).n_states_ == 1
    t = np.arange(400)[:, None]
    for tones in (2, 4, 5):  # of two states each, in one channel
        x = sum(np.cos(w * t + w**2) for w in np.linspace(0.2, 2.5, tones))
        noise = 0.05 * np.random.default_rng(tones).standard_normal(x.shape)
        assert 0 <= LDSIdentifier(rule, method=method).fit([x + noise]).n_states_ - 2 * tones <= 1


def test_order_with_inputs_does_not_count_their_states():
    """The states of a periodic input are not those of the system."""
    rng, T = np.random.default_rng(0), 600
    u = np.sin(0.4 * np.arange(T))[:, None] + 0.3 * rng.standard_normal((T, 1))
    x = autoregression(rng, 0.9, T)
    y = (x + 0.3 * rng.standard_normal(T))[:, None] + 4 * u
    assert LDSIdentifier(method="n4sid").fit([y], inputs=[u]).n_states_ == 1
    assert LDSIdentifier(method="n4sid").fit([y]).n_states_ >= 3


@pytest.mark.slow
def test_recording_with_more_states_than_outputs():
    """A and the mean are those of a fit on the whole; inputs act as generated."""
    A, C, x = three_states(2, 3000, 1)
    whole = LDSIdentifier(3, method="n4sid").fit([x])
    grown = LDSIdentifier(3, method="n4sid")
    for piece in np.array_split(x, 5):
        grown.partial_fit([piece])
    np.testing.assert_allclose(
        np.sort_complex(np.linalg.eigvals(grown.systems_.A[0])),
        np.sort_complex(np.linalg.eigvals(whole.transform([x]).A[0])),
        rtol=1e-5,
    )
    tail = [x[-300:]]
    assert grown.log_likelihood(tail, grown.systems_) > whole.log_likelihood(tail, whole.transform([x])) - 15
    rng = np.random.default_rng(0)
    u, state, y = rng.standard_normal((3000, 1)), np.zeros(3), []
    for t in range(3000):
        y.append(C @ state + 0.7 * u[t] + 0.2 * rng.standard_normal(1))
        state = A @ state + [1.0, 0.5, -1.0] * u[t] + 0.1 * rng.standard_normal(3)
    driven = LDSIdentifier(3, method="n4sid", scale=False)
    for piece, inputs in zip(np.array_split(np.array(y), 4), np.array_split(u, 4), strict=True):
        driven.partial_fit([piece], inputs=[inputs])
    at_once = LDSIdentifier(3, method="n4sid", scale=False).fit([np.array(y)], inputs=[u])
    for systems in (driven.systems_, at_once.transform([np.array(y)], inputs=[u])):
        # the responses to an impulse do not depend on the basis
        response = [systems.D[0, 0, 0]]
        expected, effect, true = [0.7], systems.B[0, :, 0], np.array([1.0, 0.5, -1.0])
        for _ in range(8):
            response.append(systems.C[0, 0] @ effect)
            expected.append(C[0] @ true)
            effect, true = systems.A[0] @ effect, A @ true
        np.testing.assert_allclose(response, expected, atol=0.05)


def test_kernels_ask_for_as_many_outputs_as_states():
    X = [three_states(seed, 100, 1)[2] for seed in range(6)]
    identifier = LDSIdentifier(3, method="n4sid")
    with pytest.raises(ValueError, match="n_states=3 exceeds channels × delay = 1: lower n_states or raise delay"):
        LDSKernelMatrix(identifier=identifier).fit(X)
    with pytest.raises(ValueError, match=r"n_states=3 exceeds channels × delay = 1: .* or use method='n4sid'"):
        LDSIdentifier(3).fit(X)
    assert LDSKernelMatrix(identifier=identifier.set_params(delay=3)).fit_transform(X).shape == (6, 6)
