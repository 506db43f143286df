"""Figures of linear dynamical systems: what is drawn is what the systems say."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import matplotlib.pyplot as plt
import numpy as np
import pytest
from report.samples import oscillations

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems, plot_kernel_matrix, plot_reconstruction, plot_spectra

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


def dots(ax: Any) -> dict[str, np.ndarray]:
    """Return the points of each entry of the legend as complex numbers."""
    named = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): line.get_xdata() + 1j * line.get_ydata() for line in named}


def test_kernel_matrix_holds_the_kernel_of_pairs() -> None:
    fitted = oscillations()
    image = plot_kernel_matrix(fitted).images[0].get_array()
    order = np.argsort(fitted.estimator.labels_, kind="stable")
    systems = LDSIdentifier(2).fit_transform(fitted.X)
    kernel = ms.get_kernel("projection")
    i, j = 3, 17
    pair = kernel.cross(kernel.pack([systems[order[i]][:2]]), kernel.pack([systems[order[j]][:2]]))
    assert image is not None
    assert image[i, j] == pytest.approx(float(pair[0, 0]))
    assert np.allclose(np.diag(image), 2)


def test_spectra_are_the_eigenvalues_of_the_centres() -> None:
    fitted = oscillations()
    shown = dots(plot_spectra(fitted))
    for k in range(3):
        values = np.linalg.eigvals(fitted.estimator.systems_.A[k])
        assert np.allclose(shown[f"cluster {k}"], values[values.imag >= 0])
    assert len(shown["24 systems"]) >= 24
    assert set(dots(plot_spectra(fitted.estimator))) == {"cluster 0", "cluster 1", "cluster 2"}


def test_spectra_of_oscillations_lie_at_their_angles() -> None:
    """A noise-free oscillation of radius r and angle w has the eigenvalues r exp(iw)."""
    t = np.arange(60)[:, None]
    X = [0.95**t * np.cos(t * w + np.arange(3)) for w in (0.3, 2.5)]
    identifier = LDSIdentifier(2, center=False, scale=False, stabilizer=None).fit(X)
    ax = plot_spectra(Fitted(identifier, X))
    assert np.allclose(
        np.sort_complex(dots(ax)["2 systems"]), np.sort_complex(0.95 * np.exp(1j * np.array([0.3, 2.5])))
    )
    assert ax.get_xlim() == (-1.05, 1.05)  # the whole half disc
    near = plot_spectra(identifier.transform(X[:1]))
    assert near.get_xlim()[0] > 0.5 and len(near.child_axes) == 1  # a part of it, and where it is


@pytest.mark.parametrize("model", [LDSIdentifier(4, delay=4, center=False), LDSKMeans(2, n_states=4, random_state=0)])
def test_spectra_are_those_before_stabilization(model: Any) -> None:
    """Tones of 0.1 and 0.3 rad per step: the default SN would draw them at other angles, inside the disc."""
    t = np.arange(200)[:, None]
    X = [np.cos(0.1 * t + k * np.arange(5)) + np.cos(0.3 * t + k * np.arange(5) ** 2) for k in (1, 2, 3, 4)]
    expected = np.exp(1j * np.repeat([0.1, 0.3], 4))
    if isinstance(model, LDSKMeans):
        model.set_params(identifier=LDSIdentifier(center=False))
    fitted = Fitted(model.fit(X), X)
    shown = np.sort_complex(dots(plot_spectra(fitted))["4 systems"])
    np.testing.assert_allclose(shown, np.sort_complex(expected), atol=1e-8)
    systems = LDSIdentifier(4, center=False).fit_transform(X)
    np.testing.assert_allclose(np.sort_complex(dots(plot_spectra(systems))["4 systems"]), shown, atol=1e-8)
    assert np.abs(np.linalg.eigvals(systems.A)).max() < 0.98


def test_many_centres_share_one_colour() -> None:
    fitted = oscillations(14)
    assert set(dots(plot_spectra(fitted))) == {"14 centres", "24 systems"}


@pytest.mark.parametrize("delay", [1, 2])
@pytest.mark.parametrize("center", [True, False])
def test_reconstruction_is_exact_where_the_model_is(delay: int, center: bool) -> None:
    """A sequence that a system generates is reproduced from its states and forecast without error."""
    t = np.arange(60)[:, None]
    X = [100.0 * 0.97**t * np.cos(t * 0.4 + np.arange(3)) for _ in range(2)]
    identifier = LDSIdentifier(2 + center, delay=delay, center=False, stabilizer=None).fit(X)
    fitted = Fitted(identifier, ms.storage.SequenceData(X, sampling_rate=10.0))
    ax = plot_reconstruction(fitted, n_channels=2)
    assert ax.get_title().endswith("error 0.00")
    recorded, states, forecast = ax.child_axes[0].get_lines()
    assert len(ax.child_axes) == 2 and ax.child_axes[1].get_xlabel() == "time (s)"
    assert np.allclose(states.get_ydata(), recorded.get_ydata())
    assert np.allclose(forecast.get_ydata(), recorded.get_ydata()[1:])
    assert np.allclose(recorded.get_xdata(), np.arange(61 - delay) / 10)


def test_reconstruction_by_the_formulas() -> None:
    fitted = oscillations()
    ax = plot_reconstruction(fitted, member=5, n_channels=4)
    Y = fitted.X[5] / fitted.estimator.scale_
    A, C, _, _, mean = LDSIdentifier(2, scale=False, stabilizer="CG").fit_transform([Y])[0]
    forecast = np.array([mean + C @ A @ C.T @ (y - mean) for y in Y[:-1]])
    error = np.sqrt(((Y[1:] - forecast) ** 2).sum() / ((Y[1:] - Y.mean(axis=0)) ** 2).sum())
    assert ax.get_title() == f"Reconstruction of sequence 5, error {error:.2f}"
    for channel, panel in enumerate(ax.child_axes):
        lines = panel.get_lines()
        assert np.allclose(lines[0].get_ydata(), fitted.X[5][:, channel])
        assert np.allclose(lines[2].get_ydata(), forecast[:, channel] * fitted.estimator.scale_[channel])
    assert [panel.get_ylabel() for panel in ax.child_axes][:2] == ["x (m)", r"y (\$)"]


@pytest.mark.slow
def test_median_and_worst_reconstruction() -> None:
    fitted = oscillations()
    axes = [matplotlib.figure.Figure().subplots() for _ in fitted.X]
    titles = [plot_reconstruction(fitted, ax, member=i).get_title() for i, ax in enumerate(axes)]
    errors = sorted(float(title.split()[-1]) for title in titles)
    assert float(plot_reconstruction(fitted, worst=True).get_title().split()[-1]) == errors[-1]
    assert float(plot_reconstruction(fitted).get_title().split()[-1]) == errors[(len(errors) - 1) // 2]


def test_delay_and_constant_sequences_are_drawn() -> None:
    X = [np.ones((12, 2)), np.cumsum(np.random.default_rng(0).standard_normal((12, 2)), axis=0), np.zeros((12, 2))]
    model = LDSKMeans(2, n_states=2, identifier=LDSIdentifier(delay=2), n_init=1, random_state=0).fit(X)
    fitted = Fitted(model, X)
    assert plot_reconstruction(fitted, member=0).get_title().endswith("error 0.00")
    assert len(plot_reconstruction(fitted, member=1).child_axes) == 2
    plot_spectra(fitted)
    plot_kernel_matrix(fitted)


def test_systems_have_no_sequences_to_reconstruct() -> None:
    systems = LDSIdentifier(2).fit_transform(oscillations().X)
    fitted = Fitted(LDSKMeans(3, n_init=1, random_state=0).fit(systems), systems)
    assert [drawing.name for drawing in ms.report.draw_plots(fitted)] == ["lds-kernel-matrix", "lds-spectra"]
    with pytest.raises(ValueError, match="no sequences to reconstruct"):
        plot_reconstruction(fitted)


def test_other_results_raise_an_error() -> None:
    with pytest.raises(ValueError, match="list is not a fitted LDSKMeans"):
        plot_kernel_matrix([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="object has no systems"):
        plot_spectra(object())
    assert isinstance(LDSIdentifier(2).fit_transform(oscillations().X), Systems)
