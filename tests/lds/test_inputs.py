"""Inputs that act on sequences: identification, forecasts, simulation, and errors."""

import numpy as np
import pytest
from helpers import parametrize
from scipy.signal import dlsim

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, Systems

POLES = [0.9 * np.exp(0.4j), 0.8 * np.exp(1.1j)]


def system():
    rng = np.random.default_rng(0)
    A = np.kron(np.diag([1.0, 0.0]), _block(POLES[0])) + np.kron(np.diag([0.0, 1.0]), _block(POLES[1]))
    return A, rng.standard_normal((4, 2)), np.linalg.qr(rng.standard_normal((5, 4)))[0], rng.standard_normal((5, 2))


def _block(pole):
    return np.array([[pole.real, -pole.imag], [pole.imag, pole.real]])


def driven(T, seed, noise=0.0):
    """Outputs of a known system, as scipy simulates it, and inputs with a mean of their own."""
    rng = np.random.default_rng([1, seed])
    U = 5 + rng.standard_normal((T, 2)) + 0.1 * np.cumsum(rng.standard_normal((T, 2)), axis=0)
    A, B, C, D = system()
    _, Y, _ = dlsim((A, B, C, D, 1), U, x0=rng.standard_normal(4))
    return 3 + Y + noise * rng.standard_normal(Y.shape), U


def impulse_response(A, B, C, D, steps=8):
    return np.stack([D, *(C @ np.linalg.matrix_power(A, k) @ B for k in range(steps))])


@pytest.mark.parametrize("method", ["n4sid", "em"])
@parametrize(("noise", "most"), [(0.0, 0.03), (0.5, 0.1)], fast=1)
def test_impulse_responses_are_found(method, noise, most):
    X, U = zip(*(driven(400, seed, noise) for seed in range(3)), strict=True)
    identifier = LDSIdentifier(4, method=method, stabilizer="CG", scale=False)
    systems = identifier.fit_transform(X, inputs=U)
    truth = impulse_response(*system())
    scale = identifier.input_scale_
    for i in range(3):
        found = impulse_response(systems.A[i], systems.B[i] / scale, systems.C[i], systems.D[i] / scale)
        assert np.linalg.norm(found - truth) < most * np.linalg.norm(truth)
        # the mean is that without any input
        np.testing.assert_allclose(
            systems.mean[i] - (systems.D[i] + systems.C[i] @ np.linalg.solve(np.eye(4) - systems.A[i], systems.B[i]))
            @ (identifier.input_mean_ / scale), 3, atol=0.1 + 2 * noise)  # fmt: skip


@pytest.mark.slow
def test_forecasts_follow_planned_inputs():
    X, U = zip(*(driven(200, seed, 0.1) for seed in range(3)), strict=True)
    seen, known = [x[:180] for x in X], [u[:180] for u in U]
    ahead = np.stack([x[180:] for x in X])
    for delay in (1, 2):
        identifier = LDSIdentifier(4, method="em", max_iter=10, stabilizer="CG", delay=delay).fit(seen, inputs=known)
        given = {"inputs": known, "future_inputs": [u[180:] for u in U]}
        mean, std = identifier.forecast(seen, 20, return_std=True, n_bootstrap=2, **given)
        assert np.sqrt(np.mean((mean - ahead) ** 2)) < 0.2  # outputs vary by 5
        assert 0.8 < np.mean(np.abs(mean - ahead) < 1.645 * std) <= 1
        holed = [np.where(np.arange(180)[:, None] > 175, np.nan, x) for x in seen]
        filled = identifier.interpolate(holed, inputs=known)
        assert np.abs(filled[0][176:] - seen[0][176:]).max() < 1
        assert (identifier.log_likelihood(seen, inputs=known) > 0).all() or delay == 1


def test_simulations_are_those_of_scipy():
    A, B, C, D = system()
    rng = np.random.default_rng(3)
    X, U = zip(*(driven(60, seed) for seed in range(2)), strict=True)
    identifier = LDSIdentifier(4, method="em", center=False, scale=False, stabilizer="CG").fit(X, inputs=U)
    x1, V = rng.standard_normal(4), rng.standard_normal((40, 2))
    systems = Systems(A[None], C[None], x1[None], B=B[None], D=D[None])
    _, expected, _ = dlsim((A, B, C, D, 1), V, x0=x1)
    np.testing.assert_allclose(identifier.simulate(systems, 40, noise=False, inputs=[V])[0], expected, atol=1e-10)


@parametrize("delay", [1, 2], fast=1)
@parametrize(("noise", "most"), [(0.0, 1e-2), (0.5, 0.05)], fast=1)
def test_pieces_of_a_recording_with_inputs(noise, most, delay, tmp_path):
    x, u = driven(1500, 0, noise)
    given = {"method": "n4sid", "delay": delay}
    growing, whole = LDSIdentifier(4, **given), LDSIdentifier(4, **given)
    cuts = [300, 302, 900]
    for piece, known in zip(np.split(x[:1400], cuts), np.split(u[:1400], cuts), strict=True):
        growing.partial_fit([piece], inputs=[known])
    systems = whole.fit_transform([x[:1400]], inputs=[u[:1400]])
    for name in ("scale_", "input_mean_", "input_scale_"):
        np.testing.assert_allclose(getattr(growing, name), getattr(whole, name), rtol=1e-9)
    for name in ("A", "C"):
        np.testing.assert_allclose(getattr(growing.systems_, name), getattr(systems, name), atol=1e-6)
    # responses to an impulse in each input, stacked like inputs are, of the first of the stacked outputs
    found, one = growing.systems_, growing.scale_
    A, B, C, D = system()
    for column in range(2):
        impulse = np.zeros((12, 2))
        impulse[3, column] = 1
        stacked = np.concatenate([impulse[lag : 12 - delay + 1 + lag] for lag in range(delay)], axis=1)
        stacked = stacked / np.tile(growing.input_scale_, delay)
        _, made, _ = dlsim((found.A[0], found.B[0], found.C[0], found.D[0], 1), stacked)
        _, expected, _ = dlsim((A, B, C, D, 1), impulse)
        expected = expected[: len(made)]
        assert np.linalg.norm(made[:, :5] * one - expected) < most * np.linalg.norm(expected)
    planned = {"inputs": [u[1300:1400]], "future_inputs": [u[1400:1420]]}
    mean, std = growing.forecast([x[1300:1400]], 20, found, return_std=True, **planned)
    assert np.abs(mean[0] - x[1400:1420]).max() < 0.1 + 4 * noise  # outputs vary by 5
    assert noise == 0 or 0.8 < np.mean(np.abs(mean[0] - x[1400:1420]) < 1.645 * std) < 0.98
    assert np.isfinite(growing.log_likelihood([x[:1400]], found, inputs=[u[:1400]])).all()
    ms.storage.save_model(growing, tmp_path)
    again = ms.storage.load_model(tmp_path).partial_fit([x[1400:]], inputs=[u[1400:]])
    np.testing.assert_array_equal(again.systems_.B, growing.partial_fit([x[1400:]], inputs=[u[1400:]]).systems_.B)
    with pytest.raises(ValueError, match="the earlier pieces had 2 inputs, but this piece has 0: pass the same inputs"):
        growing.partial_fit([x])
    with pytest.raises(ValueError, match="the earlier pieces had 2 inputs, but this piece has 1"):
        growing.partial_fit([x], inputs=[u[:, :1]])
    with pytest.raises(ValueError, match="sequence 0 has 1500 time steps, but its inputs have 9"):
        growing.partial_fit([x], inputs=[u[:9]])
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="the piece has missing values: fill them, because partial_fit with inputs"):
        growing.set_params(missing="smooth").partial_fit([x], inputs=[u])


def test_what_raises_an_error():
    X, U = zip(*(driven(60, seed) for seed in range(2)), strict=True)
    em = LDSIdentifier(4, method="em", stabilizer="CG")
    with pytest.raises(ValueError, match="method='pca' does not support inputs: use method='n4sid' or 'em'"):
        LDSIdentifier(4).fit(X, inputs=U)
    with pytest.raises(ValueError, match="sequence 1 has 60 time steps, but its inputs have 59: pass inputs"):
        em.fit(X, inputs=[U[0], U[1][1:]])
    with pytest.raises(ValueError, match="inputs has 1 arrays, but there are 2 sequences"):
        em.fit(X, inputs=U[:1])
    with pytest.raises(ValueError, match="inputs: sequence 0 has NaN at t=3, channel 1"):
        em.fit(X, inputs=[np.where(np.arange(120).reshape(60, 2) == 7, np.nan, U[0]), U[1]])
    em.fit(X, inputs=U)
    with pytest.raises(ValueError, match="was fitted with 2 inputs: pass inputs"):
        em.transform(X)
    with pytest.raises(ValueError, match="fitted with 2 inputs: pass future_inputs of shape"):
        em.forecast(X, 3, inputs=U)
    with pytest.raises(ValueError, match=r"future_inputs has shape \(2, 2, 2\): pass an array of shape \(2, 3, 2\)"):
        em.forecast(X, 3, inputs=U, future_inputs=np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="inputs have 1 columns but this LDSIdentifier was fitted with 2"):
        em.transform(X, inputs=[u[:, :1] for u in U])
    with pytest.raises(ValueError, match="systems have 0 inputs: pass systems with 2"):
        em.log_likelihood(X, LDSIdentifier(4).fit_transform(X), inputs=U)
    with pytest.raises(ValueError, match="only one of B and D is given"):
        Systems([[[0.5]]], [[[1.0]]], B=[[[1.0]]])
    with pytest.raises(ValueError, match="system 0 has a P1 that is not a covariance"):
        Systems([[[0.5]]], [[[1.0]]], P1=[[[-1.0]]])
    X[1][5, 2] = np.nan
    with pytest.raises(ValueError, match="sequence 1 has missing values: with inputs, only method='em' accepts"):
        LDSIdentifier(4, method="n4sid", missing="smooth").fit(X, inputs=U)
