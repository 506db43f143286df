"""Identification: systems with known answers, conventions and errors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier


def rotation(angle, radius):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def simulate(A, C, x, steps, mean=0.0):
    Y = []
    for _ in range(steps):
        Y.append(C @ x + mean)
        x = A @ x
    return np.array(Y)


def random_sequences(count=6, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((t, d)).cumsum(axis=0) for t in rng.integers(12, 15, count)]


def naive(Y, n, center=True):
    """The definition, one sequence at a time: thin SVD, least squares over consecutive states."""
    Y = Y.T - Y.T.mean(axis=1, keepdims=True) * center
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    X = np.diag(s[:n]) @ Vt[:n]
    A = np.linalg.lstsq(X[:, :-1].T, X[:, 1:].T, rcond=None)[0].T
    return A, U[:, :n], X


def test_a_noise_free_system_is_found_again():
    rng = np.random.default_rng(0)
    A = rotation(0.7, 0.95)
    C = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    Y = simulate(A, C, np.array([1.0, 2.0]), 30)
    found = LDSIdentifier(n_states=2, center=False, scale=False, stabilizer=None).fit_transform([Y])
    poles = [np.sort_complex(np.linalg.eigvals(a)) for a in (found.A[0], A)]
    np.testing.assert_allclose(*poles, atol=1e-12)
    np.testing.assert_allclose(found.C[0] @ found.C[0].T, C @ C.T, atol=1e-12)
    np.testing.assert_allclose(simulate(found.A[0], found.C[0], found.x1[0], 30), Y, atol=1e-12)
    np.testing.assert_allclose(found.noise_factor[0], 0, atol=1e-7)
    assert found.mean is None


@pytest.mark.parametrize("center", [True, False])
def test_batches_of_lengths_agree_with_the_definition(center):
    X = random_sequences()
    systems = LDSIdentifier(n_states=3, center=center, scale=False, stabilizer="clip", bound=0.9999999).fit_transform(X)
    for i, Y in enumerate(X):
        A, C, states = naive(Y, 3, center)
        signs = np.sign(np.sum(C * systems.C[i], axis=0))
        np.testing.assert_allclose(systems.C[i], C * signs, atol=1e-10)
        np.testing.assert_allclose(systems.x1[i], states[:, 0] * signs, atol=1e-9)
        U, s, Vt = np.linalg.svd(A * np.outer(signs, signs))
        np.testing.assert_allclose(systems.A[i], U @ np.diag(np.minimum(s, 0.9999999)) @ Vt, atol=1e-9)
        states = signs[:, None] * states
        residual = states[:, 1:] - systems.A[i] @ states[:, :-1]
        covariance = residual @ residual.T / residual.shape[1]
        np.testing.assert_allclose(systems.noise_factor[i] @ systems.noise_factor[i].T, covariance, atol=1e-8)
        if center:
            np.testing.assert_allclose(systems.mean[i], Y.mean(axis=0))


def test_soft_normalization_of_known_singular_values():
    """Section 5 of the notes: 1 becomes 0.848 and 0.5 becomes 0.555."""
    X = [simulate(np.diag([1.0, 0.5]), np.eye(3, 2), np.array([1.0, 1.0]), 8)]
    A = LDSIdentifier(n_states=2, center=False, scale=False, stabilizer="SN").fit_transform(X).A[0]
    s = np.linalg.svd(naive(X[0], 2, center=False)[0])[1]
    np.testing.assert_allclose(np.linalg.svd(A)[1], np.tanh(1.25 * s), rtol=1e-10)
    np.testing.assert_allclose(np.tanh(1.25 * np.array([1.0, 0.5])), [0.848, 0.555], atol=5e-4)


def test_stabilizers_bound_the_singular_values():
    X = [np.exp(0.2 * np.arange(12))[:, None] * np.random.default_rng(i).standard_normal((12, 4)) for i in range(5)]
    clipped = LDSIdentifier(n_states=4, stabilizer="clip", bound=0.8).fit_transform(X)
    assert np.linalg.norm(clipped.A, 2, axis=(1, 2)).max() <= 0.8 + 1e-12
    assert np.linalg.norm(LDSIdentifier(n_states=4).fit_transform(X).A, 2, axis=(1, 2)).max() < 1


def test_an_unstable_least_squares_system_raises_an_error():
    t = np.arange(20)
    X = [1.1 ** t[:, None] * np.ones(2) * (1 + 0.1 * np.sin(t))[:, None]]
    with pytest.raises(ValueError, match=r"system 0 is unstable: A has spectral radius 1.1.*stabilizer='SN'"):
        LDSIdentifier(n_states=1, center=False, stabilizer=None).fit_transform(X)


def test_delay_stacks_consecutive_steps():
    X = random_sequences(d=2)
    stacked = [np.hstack([Y[:-2], Y[1:-1], Y[2:]]) for Y in X]
    delayed = LDSIdentifier(n_states=4, scale=False, delay=3).fit(X)
    plain = LDSIdentifier(n_states=4, scale=False).fit_transform(stacked)
    found = delayed.transform(X)
    for name in ("A", "C", "x1", "noise_factor", "mean"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    assert delayed.n_features_in_ == 2 and found.n_outputs == 6


def test_signs_are_canonical_and_rows_independent():
    X = random_sequences()
    identifier = LDSIdentifier(n_states=3).fit(X)
    systems = identifier.transform(X)
    largest = np.take_along_axis(systems.C, np.abs(systems.C).argmax(axis=1, keepdims=True), axis=1)
    assert (largest > 0).all()
    alone = identifier.transform(X[2:3])
    np.testing.assert_allclose(alone.A[0], systems.A[2], atol=1e-10)
    negated = identifier.transform([-Y for Y in X])
    np.testing.assert_allclose(negated.C, systems.C, atol=1e-10)
    np.testing.assert_allclose(negated.x1, -systems.x1, atol=1e-9)


def test_a_constant_sequence_is_a_system_at_rest():
    found = LDSIdentifier(n_states=2).fit_transform([np.full((9, 3), 0.1)])
    np.testing.assert_array_equal(found.A, 0)
    np.testing.assert_array_equal(found.x1, 0)
    np.testing.assert_allclose(found.C[0].T @ found.C[0], np.eye(2), atol=1e-12)


def test_missing_directions_are_zero_states():
    line = np.outer(0.9 ** np.arange(10), [1.0, 2.0, 2.0])
    found = LDSIdentifier(n_states=3, center=False, stabilizer=None).fit_transform([line])
    np.testing.assert_allclose(found.A[0], np.diag([0.9, 0, 0]), atol=1e-12)


def test_scale_is_that_of_the_channels_seen_in_fit():
    X = random_sequences()
    units = np.array([1e-3, 1.0, 1e4, 1.0, 1.0, 50.0])
    identifier = LDSIdentifier(n_states=3).fit([Y * units for Y in X])
    np.testing.assert_allclose(identifier.scale_, units * np.concatenate(X).std(axis=0))
    plain = LDSIdentifier(n_states=3).fit(X).transform(X[:1])
    np.testing.assert_allclose(identifier.transform([X[0] * units]).A, plain.A)
    constant = [np.hstack([Y, np.ones((len(Y), 1))]) for Y in X]
    assert LDSIdentifier(n_states=3).fit(constant).scale_[-1] == 1
    assert (LDSIdentifier(n_states=3, scale=False).fit(X).scale_ == 1).all()


def test_conformance():
    ms.testing.check_sequence_estimator(LDSIdentifier(n_states=3)).raise_for_failure()


def test_conventions():
    X = random_sequences()
    before = [Y.copy() for Y in X]
    identifier = LDSIdentifier(n_states=3, delay=2, stabilizer="clip")
    assert clone(identifier).get_params() == identifier.get_params()
    with pytest.raises(NotFittedError):
        identifier.transform(X)
    assert identifier.fit(X) is identifier and identifier.n_features_in_ == 6
    np.testing.assert_array_equal(identifier.transform(X).A, clone(identifier).fit_transform(X).A)
    for Y, original in zip(X, before, strict=True):
        np.testing.assert_array_equal(Y, original)
    with pytest.raises(ValueError, match="X has 5 channels but this LDSIdentifier was fitted on 6"):
        identifier.transform([Y[:, :5] for Y in X])


BAD = {
    "short": ({"n_states": 5}, [np.ones((20, 6)), np.ones((4, 6))], "sequence 1 has 4 time steps but n_states=5 needs"),
    "short with delay": ({"n_states": 2, "delay": 4}, [np.ones((5, 3))], "n_states=2 with delay=4 needs at least 6"),
    "too many states": ({"n_states": 5}, [np.ones((9, 4))], "n_states=5 exceeds channels × delay = 4: lower n_states"),
    "no states": ({"n_states": 0}, [np.ones((9, 4))], "n_states=0 is not valid"),
    "half a state": ({"n_states": 1.5}, [np.ones((9, 4))], "n_states=1.5 is not valid"),
    "delay": ({"delay": 0}, [np.ones((9, 4))], "delay=0 is not valid"),
    "stabilizer": ({"stabilizer": "sn"}, [np.ones((9, 4))], "stabilizer='sn' is not known: choose 'auto', 'SN'"),
    "bound": ({"bound": 1.0}, [np.ones((9, 4))], "bound=1.0 is not valid"),
    "center": ({"center": "no"}, [np.ones((9, 6))], "center='no' is not valid: pass True, False or 'auto'"),
    "bound in words": ({"bound": "a"}, [np.ones((9, 6))], "bound='a' is not valid"),
    "NaN": ({}, [np.full((9, 6), np.nan)], "sequence 0 has NaN at t=0, channel 0"),
    "empty": ({}, [], "X contains no sequences"),
    "objects": ({}, [np.full((9, 6), None)], "sequence 0 has dtype object"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_raises_an_error(case):
    params, X, sentence = BAD[case]
    with pytest.raises(ValueError) as caught:
        LDSIdentifier(**params).fit(X)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_channel_that_is_constant_up_to_rounding_is_not_scaled():
    X = random_sequences()
    tiny = [np.hstack([Y, 0.1 + 1e-17 * Y[:, :1], np.nextafter(0.3, [[i % 2]] * len(Y))]) for i, Y in enumerate(X)]
    scale = LDSIdentifier(n_states=3).fit(tiny).scale_
    assert (scale[-2:] == 1).all() and (scale[:-2] == LDSIdentifier(n_states=3).fit(X).scale_).all()


def test_soft_normalization_of_strong_growth_stays_stable():
    X = [1000.0 ** np.arange(12)[:, None] * np.array([[1.0, 2.0, 3.0]])]
    A = LDSIdentifier(n_states=2, center=False, scale=False).fit_transform(X).A[0]
    assert np.abs(np.linalg.eigvals(A)).max() < 1


def test_a_failed_fit_leaves_the_fitted_model():
    X = random_sequences()
    identifier = LDSIdentifier(n_states=3, center=False, scale=False, stabilizer=None)
    t = np.arange(20)[:, None]
    stable = [0.9**t * np.cos(t * w + np.arange(6)) for w in (0.3, 0.4)]
    identifier.set_params(n_states=2).fit(stable)
    before = identifier.scale_
    with pytest.raises(ValueError, match="unstable"):
        identifier.fit_transform([1.2**t * np.cos(0.3 * t + np.arange(5))])
    with pytest.raises(ValueError, match="exceeds"):
        identifier.set_params(n_states=9).fit([Y[:, :3] for Y in X])
    assert identifier.n_features_in_ == 6 and identifier.scale_ is before


@pytest.mark.parametrize("shape", [(30, 70), (70, 30), (40, 40)])
def test_wide_and_long_sequences_agree_with_the_definition(shape):
    """Beyond 16 channels and steps the leading directions come from a Gram matrix; weak ones, in the second, do not."""
    rng = np.random.default_rng(0)
    smooth = rng.standard_normal(shape).cumsum(axis=0)
    weak = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1])) + 1e-6 * smooth
    systems = LDSIdentifier(n_states=4, scale=False, stabilizer="clip", bound=0.9999999).fit_transform([smooth, weak])
    for i, Y in enumerate((smooth, weak)):
        A, C, states = naive(Y, 4)
        signs = np.sign(np.sum(C * systems.C[i], axis=0))
        np.testing.assert_allclose(systems.C[i], C * signs, atol=1e-9)
        np.testing.assert_allclose(systems.C[i].T @ systems.C[i], np.eye(4), atol=1e-13)
        np.testing.assert_allclose(systems.x1[i], states[:, 0] * signs, atol=1e-9)
        U, s, Vt = np.linalg.svd(A * np.outer(signs, signs))
        np.testing.assert_allclose(systems.A[i], U @ np.diag(np.minimum(s, 0.9999999)) @ Vt, atol=1e-7)
        squares = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False) ** 2
        least = 1e-10 * squares.sum() / Y.size
        Omega = max(squares[4:].sum() / (shape[0] * (shape[1] - 4)), least)
        np.testing.assert_allclose(systems.Omega[i], Omega, rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"method": "n4sid", "n_states": 2}, {"missing": "smooth", "n_states": 2}])
def test_batches_are_the_same_on_every_executor(settings, monkeypatch):
    """Six batches or more, of sequences of two lengths; in one batch the systems differ by rounding only."""
    X = [x[: 40 + 10 * (i % 2)] for i, x in enumerate(np.random.default_rng(0).standard_normal((14, 50, 3)).cumsum(1))]
    if "missing" in settings:
        X[3][5:8, 1] = X[8][20, 0] = np.nan
    fitted = LDSIdentifier(**settings).fit(X)
    whole, filled = fitted.transform(X), fitted.interpolate(X)
    for name in ("_BATCH", "_BATCH_UNDER_NOISE"):
        monkeypatch.setattr(f"manifoldseq_lds.identification._estimation.{name}", 300)
    serial = fitted.transform(X)
    with ms.execution.using("threads", 2):
        threads, again = fitted.transform(X), fitted.interpolate(X)
    for name in ("A", "C", "x1", "noise_factor", "Omega", "mean"):
        np.testing.assert_array_equal(getattr(threads, name), getattr(serial, name))
        np.testing.assert_allclose(getattr(serial, name), getattr(whole, name), rtol=1e-9, atol=1e-9)
    for a, b in zip(again, filled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
