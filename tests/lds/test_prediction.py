"""Simulation, forecasts, modes, the choice of the order, and sequences that stay on disk."""

import numpy as np
import pytest
from helpers import parametrize
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from manifoldseq_lds import LDSIdentifier, Systems, modes


def oscillations(steps=60, noise=0.0, seed=0, channels=6):
    """Two damped oscillations in every sequence, mixed into the channels."""
    rng, t = np.random.default_rng(seed), np.arange(steps)[:, None]
    C = rng.standard_normal((4, channels))
    X = []
    for w in (0.25, 0.4, 0.55):
        states = [
            0.99**t * np.cos(w * t),
            0.99**t * np.sin(w * t),
            0.98**t * np.cos(3 * w * t),
            0.98**t * np.sin(3 * w * t),
        ]
        X.append(5 + np.hstack(states) @ C + noise * rng.standard_normal((steps, channels)))
    return X


EXACT = {"center": False, "stabilizer": "NONE"}


@pytest.mark.parametrize("delay", [1, 3])
def test_noise_free_sequences_are_forecast(delay):
    """The constant 5 is a fifth mode of eigenvalue one, kept just inside by the stabilizer."""
    X = [x - 5 for x in oscillations()]
    identifier = LDSIdentifier(4, delay=delay, **EXACT).fit([x[:45] for x in X])
    np.testing.assert_allclose(identifier.forecast([x[:45] for x in X], 15), np.stack(X)[:, 45:], atol=1e-8)


@pytest.mark.parametrize("delay", [1, 3])
def test_noise_free_sequences_are_simulated(delay):
    X = [x - 5 for x in oscillations()]
    identifier = LDSIdentifier(4, delay=delay, **EXACT).fit(X)
    Y = identifier.simulate(identifier.transform(X), 80, noise=False)
    assert Y.shape == (3, 80, 6)
    np.testing.assert_allclose(Y[:, :60], X, atol=1e-8)


def test_forecasts_of_unequal_lengths_and_with_holes():
    X = [x[:length] for x, length in zip(oscillations(noise=0.05), (50, 40, 50), strict=True)]
    identifier = LDSIdentifier(4, stabilizer="CG", missing="smooth").fit(X)
    together = identifier.forecast(X, 5)
    for i, x in enumerate(X):
        np.testing.assert_allclose(identifier.forecast([x], 5)[0], together[i], rtol=1e-9)
    holed = [x.copy() for x in X]
    holed[0][-3:, 2] = np.nan
    clean = np.stack([x[50:55] for x in oscillations()])[0]
    assert np.abs(identifier.forecast(holed, 5)[0] - clean).max() < 0.5


def test_a_forecast_with_given_systems_continues_the_filter():
    """Systems of the first part, states from the last: by hand, for outputs almost without noise."""
    X = oscillations(noise=0.01)
    identifier = LDSIdentifier(4, stabilizer="CG").fit(X)
    S = identifier.transform([x[:30] for x in X])
    found = identifier.forecast(X, 3, S)
    for i, x in enumerate(X):
        state = S.C[i].T @ (x[-1] / identifier.scale_ - S.mean[i])
        for k in range(3):
            state = S.A[i] @ state
            expected = (S.mean[i] + S.C[i] @ state) * identifier.scale_
            np.testing.assert_allclose(found[i, k], expected, atol=0.1)


def sines(channels, steps=100):
    """Sines of several frequencies and phases that are cut off within a period."""
    phase = np.arange(channels)
    return [np.sin(w * np.arange(steps)[:, None] + phase + w) for w in (0.11, 0.3, 0.8, 2.0)]


def error(identifier, X, steps=40):
    """Root mean square error of forecasts of the last steps."""
    seen = [x[:-steps] for x in X]
    found = identifier.fit(seen).forecast(seen, steps)
    return np.sqrt(np.mean((found - np.stack([x[-steps:] for x in X])) ** 2))


def test_sines_are_forecast_without_damping():
    """A system on the unit circle, with the default stabilizer: exact where the model holds, else up to the mean."""
    for settings in ({}, {"center": True}):
        for channels in (1, 3):
            delay = 2 if channels == 1 else 1
            found = error(LDSIdentifier(2, delay=delay, **{"center": False} | settings), sines(channels))
            assert found < (0.13 if settings else 1e-6)
    shifted = [5 + x for x in sines(4)]
    assert error(LDSIdentifier(3, center=False), shifted) < 1e-4  # the mean is a third state
    # the stabilizers that damp stable systems do not forecast
    assert error(LDSIdentifier(2, stabilizer="clip", center=False), sines(3)) < 1e-6


def test_stable_least_squares_is_forecast_as_it_is():
    """Two damped pairs in noise, compared with least squares and a Kalman filter by hand."""
    X = oscillations(noise=0.3)
    identifier = LDSIdentifier(4, scale=False).fit(X)
    found = identifier.forecast(X, 20)
    for i, x in enumerate(X):
        mean, m = x.mean(axis=0), x.shape[1]
        U, s, Vt = np.linalg.svd((x - mean).T, full_matrices=False)
        C, states = U[:, :4], s[:4, None] * Vt[:4]
        A = np.linalg.lstsq(states[:, :-1].T, states[:, 1:].T, rcond=None)[0].T
        assert np.abs(np.linalg.eigvals(A)).max() < 1
        rest = states[:, 1:] - A @ states[:, :-1]
        Q, R = rest @ rest.T / rest.shape[1], (s[4:] ** 2).sum() / (x.shape[0] * (m - 4)) * np.eye(m)
        state, P = states[:, 0], Q
        for t, y in enumerate(x):
            if t:
                state, P = A @ state, A @ P @ A.T + Q
            gain = P @ C.T @ np.linalg.inv(C @ P @ C.T + R)
            state, P = state + gain @ (y - mean - C @ state), P - gain @ C @ P
        for k in range(20):
            state = A @ state
            np.testing.assert_allclose(found[i, k], mean + C @ state, atol=1e-8)


def test_unstable_least_squares_is_forecast_by_the_nearest_stable_system():
    """Growing pairs: bounded for ever, and one step ahead nearly as good as least squares itself."""
    t, rng = np.arange(60)[:, None], np.random.default_rng(0)
    X, S = [], LDSIdentifier(4, center=False, scale=False)
    for w in (0.2, 0.5, 0.9):
        turn = np.hstack([np.cos(w * t), np.sin(w * t), 0.3 * np.cos(2.5 * w * t), 0.3 * np.sin(2.5 * w * t)])
        X.append(1.02**t * turn @ rng.standard_normal((4, 5)) + 0.002 * rng.standard_normal((60, 5)))
    seen = [x[:40] for x in X]
    found = S.fit(seen).forecast(seen, 1000)
    for i, x in enumerate(X):
        U, s, Vt = np.linalg.svd(seen[i].T, full_matrices=False)
        states = s[:4, None] * Vt[:4]
        A = np.linalg.lstsq(states[:, :-1].T, states[:, 1:].T, rcond=None)[0].T
        assert np.abs(np.linalg.eigvals(A)).max() > 1 + 1e-4
        assert np.abs(found[i]).max() < 2 * np.abs(seen[i]).max()
        ahead = U[:, :4] @ A @ states[:, -1]
        assert np.linalg.norm(found[i, 0] - ahead) < 0.2 * np.linalg.norm(ahead)
        damped = S.forecast(seen, 20, S.transform(seen))[i] - x[40:]
        assert np.linalg.norm(found[i, :20] - x[40:]) < 0.8 * np.linalg.norm(damped)


def test_simulated_noise_has_the_stored_covariances():
    rng = np.random.default_rng(0)
    A, F = np.array([[[0.9, 0.2], [-0.2, 0.8]]]), np.array([[[0.3, 0.2], [0.0, 0.2]]])  # not symmetric
    C, Omega = np.linalg.qr(rng.standard_normal((1, 4, 2)))[0], np.array([[0.01, 0.04, 0.09, 0.16]])
    S = Systems(A, C, np.zeros((1, 2)), F, np.arange(4.0)[None], Omega)
    identifier = LDSIdentifier(2).fit([rng.standard_normal((20, 4))])
    Y = identifier.simulate(S, 40_000, random_state=1)[0] / identifier.scale_
    stationary = sum(
        np.linalg.matrix_power(A[0], t) @ F[0] @ F[0].T @ np.linalg.matrix_power(A[0].T, t) for t in range(200)
    )
    np.testing.assert_allclose(np.cov(Y.T), C[0] @ stationary @ C[0].T + np.diag(Omega[0]), atol=0.02)
    np.testing.assert_allclose(Y.mean(axis=0), np.arange(4.0), atol=0.05)
    again = identifier.simulate(S, 50, random_state=1)
    np.testing.assert_array_equal(again, identifier.simulate(S, 50, random_state=1))
    without = identifier.simulate(Systems(A, C, np.ones((1, 2))), 30, random_state=0)
    np.testing.assert_array_equal(without, identifier.simulate(Systems(A, C, np.ones((1, 2))), 30, noise=False))


def test_a_simulated_system_is_found_again():
    """Poles, process noise and output noise from a long simulation."""
    turn = 0.97 * np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    C = np.linalg.qr(np.random.default_rng(2).standard_normal((1, 6, 2)))[0]
    S = Systems(turn[None], C, np.ones((1, 2)), 0.5 * np.eye(2)[None], None, np.full((1, 6), 0.01))
    identifier = LDSIdentifier(2, center=False, scale=False, stabilizer=None).fit([np.ones((9, 6))])
    found = identifier.transform(identifier.simulate(S, 20_000, random_state=3))
    np.testing.assert_allclose(np.abs(np.linalg.eigvals(found.A[0])), 0.97, atol=0.01)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.noise_factor[0] @ found.noise_factor[0].T), 0.25, atol=0.03)
    np.testing.assert_allclose(found.Omega, 0.01, rtol=0.05)


def test_modes_of_known_oscillations():
    rate, X = 50.0, [x - 5 for x in oscillations()]
    S = LDSIdentifier(4, scale=False, **EXACT).fit_transform(X)
    found = modes(S, rate)
    w = np.array([0.25, 0.4, 0.55])[:, None]
    np.testing.assert_allclose(found.frequencies, np.repeat(np.hstack([3 * w, w]), 2, axis=1) / (2 * np.pi) * rate)
    decay = -np.log([0.98, 0.98, 0.99, 0.99])
    np.testing.assert_allclose(found.decay_times, np.tile(1 / decay / rate, (3, 1)), rtol=1e-6)
    np.testing.assert_allclose(
        found.damping_ratios, decay / np.hypot(decay, np.repeat(np.hstack([3 * w, w]), 2, axis=1))
    )
    for i in range(3):  # a mode alone evolves by its eigenvalue
        k = 1
        values, vectors = np.linalg.eig(S.A[i])
        place = np.argmin(np.abs(values - found.eigenvalues[i, k]))
        np.testing.assert_allclose(
            S.C[i] @ S.A[i] @ vectors[:, place], values[place] * found.shapes[i, :, k], atol=1e-9
        )


def test_modes_that_do_not_oscillate_or_are_gone_at_once():
    found = modes(Systems([np.diag([0.5, -0.5, 0.0])], [np.eye(3)]))
    np.testing.assert_allclose(found.frequencies, [[0.5, 0, 0]])
    np.testing.assert_allclose(found.damping_ratios[0, 1:], 1)
    np.testing.assert_allclose(found.decay_times[0], [1 / np.log(2), 1 / np.log(2), 0])
    for bad in (0, -1.0, np.inf):
        with pytest.raises(ValueError, match=r"sampling_rate=.* is not valid: pass a positive number"):
            modes(Systems([[[0.5]]], [[[1.0]]]), bad)


def test_order_by_energy_is_the_fewest_directions_with_the_share():
    X = oscillations(noise=0.3)
    for share in (0.5, 0.9, 0.99):
        energies = np.zeros(6)
        scale = np.concatenate(X).std(axis=0)
        for x in X:
            x = x / scale
            energies += np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
        n = next(n for n in range(1, 7) if energies[:n].sum() >= share * energies.sum())
        identifier = LDSIdentifier(f"energy:{share}").fit(X)
        assert identifier.n_states_ == n == identifier.transform(X[:1]).n_states
        (step,) = identifier.choice_.steps
        np.testing.assert_allclose(step.figure, np.cumsum(energies) / energies.sum())
        assert step.params[step.chosen[0]] == {"n_states": n}
    assert LDSIdentifier("energy:0.5").fit([np.full((9, 3), 2.0)]).n_states_ == 1


def test_held_out_order_has_the_least_error_one_step_ahead():
    """The rule by a loop over sequences and steps."""
    X = [x[:length] for x, length in zip(oscillations(noise=0.2), (60, 42, 51), strict=True)]
    scale = np.concatenate(X).std(axis=0)
    errors, total = np.zeros(6), 0.0
    for x in X:
        x = x / scale
        cut = len(x) - round(0.2 * len(x))
        mean = x[:cut].mean(axis=0)
        total += np.square(x[cut:] - mean).sum()
        for n in range(1, 7):
            C = np.linalg.svd((x[:cut] - mean).T, full_matrices=False)[0][:, :n]
            states = (x[:cut] - mean) @ C
            A = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
            for t in range(cut, len(x)):
                errors[n - 1] += np.sum((x[t] - mean - C @ A @ C.T @ (x[t - 1] - mean)) ** 2)
    model = LDSIdentifier("auto").fit(X)
    (step,) = model.choice_.steps
    assert model.n_states_ == np.argmin(errors) + 1 and model.choice_.best_params == {"n_states": model.n_states_}
    np.testing.assert_allclose(step.figure, errors / total, rtol=1e-9)
    assert step.error is not None and not hasattr(model.set_params(n_states=2).fit(X), "choice_")


def test_held_out_order_is_that_of_the_generating_system():
    """Six seeds: four states and twelve channels, all of which the rule could take; and white noise."""
    turns = [r * np.array([[np.cos(w), -np.sin(w)], [np.sin(w), np.cos(w)]]) for r, w in ((0.97, 0.3), (0.95, 1.1))]
    A = np.block([[turns[0], np.zeros((2, 2))], [np.zeros((2, 2)), turns[1]]])
    chosen = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        C = np.linalg.qr(rng.standard_normal((12, 4)))[0]
        S = Systems([A] * 3, [C] * 3, rng.standard_normal((3, 4)), [0.5 * np.eye(4)] * 3, None, np.full((3, 12), 0.05))
        identifier = LDSIdentifier("auto", center=False, scale=False).fit([np.ones((20, 12))])
        chosen.append(identifier.fit(identifier.simulate(S, 200, random_state=seed)).n_states_)
    assert np.median(chosen) == 4 and max(chosen) <= 6
    noise = [np.random.default_rng(seed).standard_normal((80, 6)) for seed in range(5)]
    assert LDSIdentifier("auto").fit(noise).n_states_ == 1


def test_a_rule_holds_in_transform_and_with_unequal_lengths():
    X = [x[:length] for x, length in zip(oscillations(noise=0.1), (60, 30, 45), strict=True)]
    identifier = LDSIdentifier("auto").fit(X)
    assert identifier.transform(X).n_states == identifier.n_states_
    np.testing.assert_array_equal(LDSIdentifier("auto").fit_transform(X).A, identifier.transform(X).A)
    with pytest.raises(ValueError, match=r"sequence 0 has 3 time steps but n_states=[0-9] needs"):
        identifier.transform([X[0][:3]])


@pytest.mark.parametrize("bad", ["energy:1.5", "energy:0", "energy", "bic", "energy:x", True, 0, 2.5])
def test_bad_orders_raise_an_error(bad):
    with pytest.raises(ValueError, match=r"^n_states=.* is not valid: pass a whole number .*'energy:0.95'.*or None"):
        LDSIdentifier(bad).fit(oscillations())


def test_bad_requests_raise_an_error():
    X = oscillations()
    identifier = LDSIdentifier(4).fit(X)
    S = identifier.transform(X)
    for call, sentence in (
        (lambda: identifier.forecast(X, 0), "n_steps=0 is not valid"),
        (lambda: identifier.simulate(S, 2.5), "n_steps=2.5 is not valid"),
        (lambda: identifier.simulate(Systems(S.A, S.C), 5), "systems have no first states x1"),
        (lambda: identifier.simulate([S[0]], 5), "systems are of type list: pass Systems"),
        (lambda: identifier.forecast(X, 5, S[:2]), "there are 2 systems with 6 outputs: pass 3 systems"),
        (lambda: Systems(S.A, S.C, Omega=-np.ones((3, 6))), "system 0 has a negative variance in Omega"),
        (lambda: Systems(S.A, S.C, Omega=np.ones((3, 4))), "Omega has shape (3, 4): pass (3, 6)"),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert sentence in str(caught.value) and "\n" not in str(caught.value)


def stored(folder, X, dtype=np.float64):
    files = [folder / f"{len(list(folder.iterdir())) + i}.npy" for i in range(len(X))]
    for file, x in zip(files, X, strict=True):
        np.save(file, x.astype(dtype))
    return [np.load(file, mmap_mode="r") for file in files]


def test_small_sequences_on_disk_are_identified_as_in_memory(tmp_path):
    X = oscillations(noise=0.1)
    memory, disk = LDSIdentifier(4), LDSIdentifier(4)
    expected, found = memory.fit_transform(X), disk.fit_transform(stored(tmp_path, X))
    np.testing.assert_allclose(disk.scale_, memory.scale_, rtol=1e-14)
    for name in ("A", "C", "x1", "noise_factor", "mean", "Omega"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-12)
    np.save(tmp_path / "all.npy", np.stack(X))
    np.testing.assert_array_equal(disk.fit_transform(np.load(tmp_path / "all.npy", mmap_mode="r")).A, found.A)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"center": False}, {"delay": 3}, {"scale": False, "delay": 2}])
def test_large_sequences_on_disk_are_identified_in_blocks(tmp_path, settings):
    """The Gram route against the singular value decomposition in memory; float32 files of more than 2**22 numbers."""
    X = [x.astype(np.float32).astype(np.float64) for x in oscillations(noise=0.1, channels=71_000)[:2]]
    assert all(x.size > 2**22 for x in X)
    expected = LDSIdentifier(4, **settings).fit_transform(X)
    found = LDSIdentifier(4, **settings).fit_transform(stored(tmp_path, X, np.float32))
    for name in ("A", "C", "x1", "noise_factor", "mean", "Omega"):
        if getattr(expected, name) is not None:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-8)


def test_a_large_sequence_that_spans_too_little_has_zero_states(tmp_path):
    line = np.outer(0.9 ** np.arange(20), np.linspace(1.0, 30.0, 210_000))
    assert line.size > 2**22
    constant = np.full(line.shape, 0.1)
    found = LDSIdentifier(3, center=False, scale=False, stabilizer=None).fit_transform(
        stored(tmp_path, [line, constant / 10 * line[:, :1]])
    )
    np.testing.assert_allclose(found.A[0], np.diag([0.9, 0, 0]), atol=1e-7)
    np.testing.assert_allclose(found.C.swapaxes(1, 2) @ found.C, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)


def test_bad_sequences_on_disk_raise_an_error(tmp_path):
    X = oscillations()
    X[1] = X[1].copy()
    X[1][7, 4] = np.nan
    for items, sentence in (
        (stored(tmp_path, X), "sequence 1 has NaN or infinity at t=7, channel 4"),
        ([*stored(tmp_path, X[:1]), X[2]], "some sequences are memory-mapped and some are not"),
        (stored(tmp_path, [X[0], X[2][:, :4]]), "sequence 1 has 4 channels but sequence 0 has 6"),
        (stored(tmp_path, [X[0], X[2][:4]]), "sequence 1 has 4 time steps but n_states=4 needs at least 5"),
        (stored(tmp_path, [X[0][:, :1] > 0, X[0][0]]), "sequence 1 has 1 dimension, not 2"),
    ):
        with pytest.raises(ValueError) as caught:
            LDSIdentifier(4).fit_transform(items)
        assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_reading_in_blocks_needs_little_memory(tmp_path):
    """Three sequences of 220 x 20000 numbers in float32: a few blocks besides the result, however many there are."""
    import tracemalloc

    rng = np.random.default_rng(0)
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (3, 220, 20_000))
    for i in range(3):
        file[i] = rng.standard_normal((220, 3)) @ rng.standard_normal((3, 20_000))
    file.flush()
    del file
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    identifier = LDSIdentifier(3, scale=False)
    tracemalloc.start()
    systems = identifier.fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = sum(getattr(systems, name).nbytes for name in ("A", "C", "x1", "noise_factor", "mean", "Omega"))
    assert peak - held < 4.2 * 8 * 2**22, peak - held


EDGES = {
    "constant": np.full((12, 3), 0.1),
    "zeros": np.zeros((12, 3)),
    "as long as it has states": np.random.default_rng(0).standard_normal((4, 5)),
    "as many states as channels": np.random.default_rng(0).standard_normal((20, 2)).cumsum(axis=0),
    "growing": 1.3 ** np.arange(12)[:, None] * np.array([[1.0, 2, 3]])
    + np.random.default_rng(0).standard_normal((12, 3)),
    "huge": 1e100 * np.random.default_rng(0).standard_normal((20, 4)),
    "tiny": 1e-100 * np.random.default_rng(0).standard_normal((20, 4)),
    "a step": np.repeat([[0.0, 0, 0], [1.0, 2, 3]], 8, axis=0),
}


@pytest.mark.parametrize("stabilizer", ["SN", "CG", "LB1"])
@parametrize("case", EDGES, fast=3)
def test_predictions_at_the_edge_are_finite(case, stabilizer):
    if stabilizer == "LB1":
        pytest.importorskip("clarabel")
    x = EDGES[case]
    identifier = LDSIdentifier(2 if case != "as long as it has states" else 3, stabilizer=stabilizer).fit([x])
    systems = identifier.transform([x])
    holed = x.copy()
    holed[2, 0] = np.nan
    made = [
        identifier.forecast([x], 30),
        identifier.simulate(systems, 30, random_state=0),
        identifier.log_likelihood([x]),
    ]
    made += [
        identifier.interpolate([holed])[0],
        identifier.interpolate([holed], systems)[0],
        modes(Systems(systems.A, systems.C)).frequencies,
        identifier.modes([x]).frequencies,
    ]
    assert all(np.isfinite(values).all() for values in made)
    if case in ("constant", "zeros"):
        np.testing.assert_allclose(made[0][0], np.broadcast_to(x[0], (30, 3)), rtol=1e-12)
        np.testing.assert_allclose(made[3], x, rtol=1e-6)


def test_score_is_r2_of_forecasts_of_the_ends_by_hand():
    X = oscillations(noise=0.05)
    identifier = LDSIdentifier(4, method="n4sid").fit(X)
    before, after = [x[:-10] for x in X], np.stack([x[-10:] for x in X])
    errors = total = 0.0
    for x, truth, guess in zip(before, after, identifier.forecast(before, 10), strict=True):
        for t, c in np.ndindex(truth.shape):
            errors += (truth[t, c] - guess[t, c]) ** 2
            total += (truth[t, c] - sum(x[:, c]) / len(x)) ** 2
    assert identifier.score(X) == pytest.approx(1 - errors / total) and identifier.score(X) > 0.8
    assert identifier.score(X, y=np.arange(len(X))) == identifier.score(X)


def test_a_grid_search_finds_the_number_of_states():
    X = [np.sin(0.3 * np.arange(60)[:, None] + phase + np.arange(3)) for phase in range(9)]
    X = [x + 0.05 * np.random.default_rng(i).standard_normal(x.shape) for i, x in enumerate(X)]
    identifier = LDSIdentifier(method="n4sid", center=False)
    scores = GridSearchCV(identifier, {"n_states": [1, 2]}, cv=3).fit(X).cv_results_["mean_test_score"]
    assert scores[0] < 0.5 and scores[1] > 0.97  # the noise is 0.5 % of the variance


def test_score_takes_the_inputs_and_says_what_it_lacks():
    rng = np.random.default_rng(0)
    U = [rng.standard_normal((60, 1)) for _ in range(3)]
    X = [np.column_stack([np.convolve(u[:, 0], kernel)[:60] for kernel in ([0, 1, 0.5], [0, 0.3])]) for u in U]
    identifier = LDSIdentifier(2, center=False, method="n4sid").fit(X, inputs=U)
    assert identifier.score(X, inputs=U) > 0.99
    with pytest.raises(ValueError, match="fitted with 1 inputs: pass inputs"):
        identifier.score(X)
    with pytest.raises(ValueError, match="8 time steps, but the comparison of forecasts needs at least 10"):
        LDSIdentifier(1).fit(X).score([x[:8] for x in X])
    with pytest.raises(ValueError, match="there is nothing to forecast"):
        LDSIdentifier(1).fit(X).score([np.ones((30, 2))])
    with pytest.raises(NotFittedError):
        LDSIdentifier(1).score(X)
