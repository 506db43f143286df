"""Sums of sines, damped or not: frequencies, forecasts and least squares, modes before stabilization, the delay."""

import warnings

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKernelMatrix, LDSNeighbors, Systems, modes

METHODS = ("pca", "n4sid", "em")
AHEAD = 60


def sines(count, channels, damping, noise, seed=0, steps=300):
    """Return a record in noise, the steps after it without noise, and the frequencies in radians per step."""
    rng = np.random.default_rng(seed)
    w = np.linspace(0.15, 1.2, count) + rng.uniform(-0.04, 0.04, count)
    radius = np.exp(-damping * rng.uniform(0.5, 1, count))
    t = np.arange(steps + AHEAD)[:, None]
    phase = rng.uniform(0, 2 * np.pi, (count, 1, channels))
    Y = sum(radius[k] ** t * np.cos(w[k] * t + phase[k]) for k in range(count))
    record = Y[:steps] + noise * Y[:steps].std() * rng.standard_normal((steps, channels))
    return record, Y[steps:], w


def dynamic_mode_decomposition(X, n, delay, n_steps):
    """Forecast by least squares in the n leading directions of stacked steps, never stabilized."""
    scale = X.std(axis=0)
    H = np.concatenate([(X / scale)[i : len(X) - delay + 1 + i] for i in range(delay)], axis=1).T
    U = np.linalg.svd(H, full_matrices=False)[0][:, :n]
    Z = U.T @ H
    A = np.linalg.lstsq(Z[:, :-1].T, Z[:, 1:].T, rcond=None)[0].T
    x, made = Z[:, -1], []
    for _ in range(n_steps):
        x = A @ x
        made.append((U @ x)[-X.shape[1] :] * scale)
    return np.array(made)


@pytest.mark.parametrize("method", METHODS)
@parametrize("channels", [1, 2, 3], fast=1)
@parametrize("damping", [0, 0.005], fast=1)
def test_sums_of_sines_are_forecast_as_by_dynamic_mode_decomposition(method, channels, damping):
    cases = {1: ((2, 0), (5, 1e-2)), 2: ((4, 0), (3, 1e-4)), 3: ((5, 0), (2, 1e-2))}
    for count, noise in cases[channels]:
        n = 2 * count
        delay = 3 * n if noise else max(2, -(-2 * n // channels))
        X, expected, w = sines(count, channels, damping, noise)
        identifier = LDSIdentifier(n, delay=delay, center=False, method=method, max_iter=5).fit([X])
        size = np.abs(X).max()
        error = np.abs(identifier.forecast([X], AHEAD)[0] - expected).max() / size
        reference = np.abs(dynamic_mode_decomposition(X, n, delay, AHEAD) - expected).max() / size
        assert error < 2 * reference + 1e-6, (count, noise, error, reference)
        found = np.sort(identifier.modes([X]).frequencies[0])[::2] * 2 * np.pi
        np.testing.assert_allclose(found, w, atol=1e-6 if noise == 0 else 0.02 * noise)


@parametrize("stabilizer", ["CG", "WLS", "DWLS", "MN", "HZP"], fast=1)
@pytest.mark.parametrize("method", METHODS)
def test_stabilizers_keep_the_frequencies_of_undamped_sines(stabilizer, method):
    X, _, w = sines(3, 2, 0, 0)
    identifier = LDSIdentifier(6, delay=4, center=False, method=method, stabilizer=stabilizer, max_iter=5).fit([X])
    values = np.linalg.eigvals(identifier.transform([X]).A[0])
    np.testing.assert_allclose(np.sort(np.abs(np.angle(values)))[::2], w, atol=1e-6)
    np.testing.assert_allclose(np.abs(values), 1, atol=1e-7)


def test_a_trend_and_a_sine_are_forecast():
    """Two equal eigenvalues of one, whose eigenvectors are parallel."""
    t = np.arange(160)[:, None]
    Y = 0.05 * t * [1.0, -1.0, 0.5] + 2 + np.cos(0.3 * t + [0, 1, 2])
    identifier = LDSIdentifier(4, delay=3, center=False).fit([Y[:120]])
    np.testing.assert_allclose(identifier.forecast([Y[:120]], 40)[0], Y[120:], atol=1e-3)


@parametrize("stabilizer", ["SN", "clip", "UN", "LB1", "LB2"], fast=1)
def test_stabilizers_that_damp_do_not_forecast(stabilizer):
    if stabilizer in ("LB1", "LB2"):
        pytest.importorskip("clarabel")
    X, expected, _ = sines(2, 2, 0, 1e-3)
    settings = {"n_states": 4, "delay": 8, "center": False}
    close = LDSIdentifier(**settings, stabilizer="CG").fit([X])
    damping = LDSIdentifier(**settings, stabilizer=stabilizer).fit([X])
    np.testing.assert_array_equal(damping.forecast([X], AHEAD), close.forecast([X], AHEAD))
    assert np.abs(damping.forecast([X], AHEAD)[0] - expected).max() < 0.01
    for mine, other in zip(
        damping.forecast_interval([X], 5, n_bootstrap=2), close.forecast_interval([X], 5, n_bootstrap=2), strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    found, estimate = damping.transform([X]), close.transform([X]).A_estimate
    np.testing.assert_array_equal(found.A_estimate, estimate)
    if stabilizer != "LB2":  # which keeps what is stable, and this is
        assert not np.array_equal(found.A, close.transform([X]).A)  # what kernels compare is what was chosen
        given = damping.forecast([X], AHEAD, found)  # systems that are given are used as they are
        assert np.abs(given[0] - expected).max() > 0.2
    np.testing.assert_array_equal(damping.modes([X]).eigenvalues, close.modes([X]).eigenvalues)


def test_intervals_without_a_stabilizer_are_those_of_a_stable_estimate():
    """Systems of simulated sequences may be unstable where that of the sequence is not."""
    X = [sines(1, 3, 0.0005, 0.05, seed=1, steps=80)[0]]
    bounds = [
        LDSIdentifier(2, center=False, stabilizer=stabilizer).fit(X).forecast_interval(X, 5)
        for stabilizer in ("CG", None, "NONE")
    ]
    for other in bounds[1:]:
        np.testing.assert_array_equal(bounds[0], other)


@pytest.mark.slow
def test_gaps_of_driven_sequences_are_filled_as_they_are_forecast():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((200, 1))
    x = np.cos(0.3 * np.arange(200)[:, None] + [0, 1, 2]) + 0.3 * u + 0.01 * rng.standard_normal((200, 3))
    holed = np.where((np.arange(200)[:, None] > 100) & (np.arange(200)[:, None] < 115), np.nan, x)
    filled = []
    for stabilizer in ("SN", "CG"):
        identifier = LDSIdentifier(2, method="em", stabilizer=stabilizer, max_iter=5).fit([x], inputs=[u])
        filled.append(identifier.interpolate([holed], inputs=[u])[0])
    np.testing.assert_array_equal(*filled)


def test_the_error_of_forecasts_is_that_of_the_systems_that_forecast():
    X = [sines(2, 2, 0, 1e-3, seed)[0] for seed in range(2)]
    for stabilizer in ("SN", "clip", "UN"):
        model = LDSIdentifier(4, delay=8, center=False, stabilizer=stabilizer).fit(X)
        found = ms.evaluation.evaluate(model, X, controls=())
        assert found.rows[0]["r2"] > 0.999


def tones(noise, channels=3, rate=100.0, frequencies=(1.0, 2.0), seconds=10, seed=0):
    """Tones at known frequencies in Hz; the same number of periods whatever the rate."""
    rng, t = np.random.default_rng(seed), np.arange(int(seconds * rate))[:, None] / rate
    phase = rng.uniform(0, 2 * np.pi, (len(frequencies), channels))
    clean = sum(np.cos(2 * np.pi * f * t + p) for f, p in zip(frequencies, phase, strict=True))
    return clean + noise * rng.standard_normal(clean.shape)


@parametrize("method", METHODS, fast=1)
@pytest.mark.parametrize(("channels", "delay"), [(1, 32), (3, 16)])
def test_modes_are_those_before_stabilization(method, channels, delay):
    """At 1, 100 and 2500 steps per second, with every stabilizer that damps."""
    X = [tones(0.01, channels, seed=seed) for seed in range(2)]
    for stabilizer in ("auto", "SN", "clip"):
        identifier = LDSIdentifier(4, delay=delay, method=method, stabilizer=stabilizer, max_iter=5).fit(X)
        for factor in (1.0, 0.01, 25.0) if stabilizer == "SN" else (1.0,):
            found = identifier.modes(X, sampling_rate=100 * factor)
            np.testing.assert_allclose(found.frequencies, factor * np.array([[2, 2, 1, 1]] * 2), rtol=0.02)
            assert np.abs(found.damping_ratios).max() < 0.02
            assert found.shapes.shape == (2, channels * delay, 4)


def test_without_a_rate_frequencies_are_in_cycles_per_step_and_unstable_modes_are_returned():
    t = np.arange(80)[:, None]
    x = 1.01**t * np.cos(0.3 * t + [0, 1, 2])
    identifier = LDSIdentifier(2, center=False, stabilizer=None).fit([x])
    found = identifier.modes([x])
    np.testing.assert_allclose(found.frequencies, [[0.3 / (2 * np.pi)] * 2], rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.eigenvalues), 1.01, rtol=1e-9)
    np.testing.assert_allclose(found.decay_times, -1 / np.log(1.01), rtol=1e-6)
    assert (found.damping_ratios < 0).all()
    with pytest.raises(ValueError, match="system 0 is unstable"):
        identifier.transform([x])
    with pytest.raises(ValueError, match=r"sampling_rate=0 is not valid"):
        identifier.modes([x], sampling_rate=0)


def test_an_undamped_mode_decays_never():
    A = np.array([[0.0, -1.0], [1.0, 0.0]])
    systems = Systems.trusted({"A": np.stack([A, np.eye(2)]), "C": np.stack([np.eye(2)] * 2)})
    found = modes(systems, 4.0)
    np.testing.assert_array_equal(found.frequencies, [[1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(found.decay_times, np.inf)
    np.testing.assert_array_equal(found.damping_ratios, 0)


def test_modes_of_driven_sequences_are_those_of_the_system():
    rng, t = np.random.default_rng(0), 400
    u = rng.standard_normal((t, 1))
    A = 0.98 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    state, x = np.zeros(2), np.empty((t, 2))
    for i in range(t):
        x[i] = state
        state = A @ state + [1.0, 0.0] * u[i]
    identifier = LDSIdentifier(2, method="n4sid", stabilizer="SN", center=False).fit([x], inputs=[u])
    found = identifier.modes([x], sampling_rate=10, inputs=[u])
    np.testing.assert_allclose(found.frequencies, 0.4 / (2 * np.pi) * 10, rtol=1e-5)
    np.testing.assert_allclose(np.abs(found.eigenvalues), 0.98, rtol=1e-5)


MOVED = r"moved an eigenvalue of system \d by \d+% of its modulus .* use LDSIdentifier.modes\(X\)"


def test_modes_of_systems_warn_where_stabilization_has_moved_them(tmp_path):
    X = [tones(0.01)]
    identifier = LDSIdentifier(4, delay=16).fit(X)
    systems = identifier.transform(X)
    with pytest.warns(UserWarning, match=MOVED):
        found = modes(systems, 100)
    angles = np.sort(np.abs(np.angle(np.linalg.eigvals(systems.A[0]))))
    np.testing.assert_allclose(angles, found.frequencies[0][::-1] * 2 * np.pi / 100)
    # what holds the systems keeps the estimate: parts, joined records, models and their files
    for kept in (systems[:1], systems[np.array([True])], Systems.concatenate([systems, systems])):
        with pytest.warns(UserWarning, match=MOVED):
            modes(kept)
    classes = [tones(0.01, seed=seed) for seed in range(4)]
    for i, model in enumerate((LDSNeighbors(2, n_states=4), LDSKernelMatrix(n_states=4))):
        model.set_params(identifier=LDSIdentifier(delay=16)).fit(classes)
        ms.storage.save_model(model, tmp_path / str(i))
        with pytest.warns(UserWarning, match=MOVED):
            modes(ms.storage.load_model(tmp_path / str(i)).systems_)
    # nothing is said of systems that stay, or that were not identified
    modes(LDSIdentifier(4, delay=16, stabilizer="CG").fit_transform(X))
    modes(LDSIdentifier(4, delay=16, method="n4sid").fit_transform(X))
    modes(Systems(systems.A, systems.C))


def test_a_change_of_one_percent_is_the_limit():
    """Of known eigenvalues; the largest change counts, of each eigenvalue to its own successor."""
    C = [np.eye(2)]
    for factor, warned in ((0.992, False), (0.988, True)):
        systems = Systems([np.diag([0.5, 0.9 * factor])], C, A_estimate=[np.diag([0.9, 0.5])])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            modes(systems)
        assert bool(caught) == warned


@pytest.mark.slow
def test_growing_recordings_keep_the_estimate(tmp_path):
    x = tones(0.01)
    identifier = LDSIdentifier(4, delay=4, method="n4sid", stabilizer="SN")
    free = LDSIdentifier(4, delay=4, method="n4sid", stabilizer="CG")
    for piece in np.array_split(x, 2):
        identifier.partial_fit([piece])
        free.partial_fit([piece])
    ms.storage.save_model(identifier, tmp_path)
    again = ms.storage.load_model(tmp_path).systems_
    with pytest.warns(UserWarning, match=MOVED):
        modes(again)
    np.testing.assert_array_equal(again.A_estimate, free.systems_.A_estimate)
    np.testing.assert_allclose(np.sort(modes(free.systems_, 100).frequencies[0])[::2], [1, 2], rtol=0.05)


def test_systems_check_the_estimate():
    with pytest.raises(ValueError, match=r"A_estimate has shape \(1, 2, 2\): pass \(1, 1, 1\)"):
        Systems([[[0.5]]], [[[1.0]]], A_estimate=[np.eye(2)])
    with pytest.raises(ValueError, match="system 0 has a value in A_estimate that is not finite"):
        Systems([[[0.5]]], [[[1.0]]], A_estimate=[[[np.nan]]])
    assert Systems([[[0.5]]], [[[1.0]]], A_estimate=[[[1.5]]]).A_estimate is not None  # it may be unstable


@parametrize(
    ("method", "channels", "delay", "noise"),
    [("pca", 3, 4, 0.2), ("pca", 3, 2, 0.1), ("pca", 1, 8, 0.01), ("n4sid", 1, 4, 0.01), ("em", 1, 4, 0.01)],
    fast=1,
)
def test_a_delay_that_is_too_short_is_reported_with_the_cure(method, channels, delay, noise):
    X = [tones(noise, channels)]
    settings = {"n_states": 4, "method": method, "max_iter": 5}
    sentence = rf"delay={delay} is too short for the modes of 1 of 1 sequences\. .* of sequence 0 .* Hz with delay=\d+"
    with pytest.warns(UserWarning, match=sentence) as caught:
        wrong = LDSIdentifier(delay=delay, **settings).fit(X).modes(X, sampling_rate=100).frequencies[0]
    assert np.abs(wrong[[0, 2]] - [2, 1]).max() > 0.1
    # the delay that the message names: right, and no warning
    cure = int(str(caught[0].message).rsplit("=", 1)[1])
    found = LDSIdentifier(delay=cure, **settings).fit(X).modes(X, sampling_rate=100).frequencies[0]
    np.testing.assert_allclose(found, [2, 2, 1, 1], rtol=0.05)


@pytest.mark.slow
def test_nothing_is_said_of_delays_that_suffice_or_of_records_without_modes():
    rng = np.random.default_rng(0)
    records = {
        "tones without noise": (tones(0), 4, 4),
        "tones": (tones(0.05), 4, 8),
        "white noise": (rng.standard_normal((500, 3)), 4, 4),
        "random walks": (rng.standard_normal((500, 3)).cumsum(axis=0), 3, 2),
        "a damped pair and noise states": (sines(1, 3, 0.02, 0.05)[0], 5, 4),
        "constant": (np.ones((100, 2)), 2, 2),
        "short": (tones(0.2)[:12], 4, 4),
    }
    for x, n, delay in records.values():
        LDSIdentifier(n, delay=delay).fit([x]).modes([x])
    x, n, delay = records["tones"]
    LDSIdentifier(n, delay=delay, method="n4sid").fit([x]).modes([x])


def test_missing_values_are_filled_before_modes():
    x = tones(0.01)
    x[100:110, 1] = np.nan
    found = LDSIdentifier(4, delay=8, missing="smooth").fit([x]).modes([x], sampling_rate=100)
    np.testing.assert_allclose(found.frequencies, [[2, 2, 1, 1]], rtol=0.03)
