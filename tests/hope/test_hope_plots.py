"""The figures of reports: what they draw is what was learned."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq.cli import main
from manifoldseq.report import Fitted
from manifoldseq_hope import HOPE, Dense, HOPENetworkClassifier, HOPEStack, PCAMovMF, SphericalKMeans, plot_filters

X = load_digits().data[:300]


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def tiles(ax, side):
    """Return the images of a mosaic one by one, from the pixels drawn."""
    drawn = ax.images[0].get_array()
    step = side + 1
    rows, columns = (1 + n // step for n in drawn.shape)
    cells = [drawn[i * step : i * step + side, j * step : j * step + side] for i in range(rows) for j in range(columns)]
    return [cell.data for cell in cells if not np.ma.getmaskarray(cell).all()]


def assert_same(drawn, filters):
    assert len(drawn) == len(filters)
    for image, expected in zip(drawn, filters, strict=True):
        np.testing.assert_allclose(image.ravel(), expected / np.abs(expected).max(), atol=1e-6)


@pytest.mark.parametrize("K", [1, 7])
def test_filters_of_a_mixture_by_weight(ax, K):
    model = HOPE(K, n_latent=4, random_state=0, max_iter=5).fit(X)
    plot_filters(model, ax)
    order = np.argsort(-model.weights_)
    assert_same(tiles(ax, 8), [model.components_.T @ model.parameters_[0][k] for k in order])


def test_filters_of_gaussians_and_many_components(ax):
    model = HOPE(70, n_latent=4, family="gmm", random_state=0, max_iter=3).fit(X)
    plot_filters(model, ax)
    order = np.argsort(-model.weights_)[:64]
    assert_same(tiles(ax, 8), [model.components_.T @ model.means_[k] for k in order])


def test_filters_of_the_first_layer_are_merged(ax):
    rng = np.random.default_rng(0)
    model = HOPENetworkClassifier()
    U, mu = np.linalg.qr(rng.standard_normal((16, 3)))[0].T, rng.standard_normal((5, 3))
    model.layers_ = (Dense(U, mu, np.zeros(5)), Dense(None, np.ones((2, 5)), np.zeros(2)))
    plot_filters(model, ax)
    W = mu @ U
    assert_same(tiles(ax, 4), W[np.argsort(-np.linalg.norm(W, axis=1))])


def test_rows_that_are_no_images_raise_an_error():
    model = PCAMovMF(3, n_latent=2, random_state=0).fit(X[:, :10])
    with pytest.raises(ValueError, match="rows of 10 columns, which are not square images"):
        plot_filters(model)
    with pytest.raises(ValueError, match="ndarray has no filters to draw: pass a fitted estimator"):
        plot_filters(X)
    with pytest.raises(ValueError, match="not fitted"):
        plot_filters(PCAMovMF(3, n_latent=2))
    assert [one.name for one in ms.report.draw_plots(Fitted(model, X))] == ["hope-concentrations"]


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (HOPE(6, n_latent=4, max_iter=2), ["hope-filters", "hope-concentrations"]),
        (HOPE(1, n_latent=4, max_iter=2, kappa=5.0), ["hope-filters", "hope-concentrations"]),
        (HOPE(6, n_latent=4, family="gmm-full", max_iter=2), ["hope-filters"]),
        (SphericalKMeans(4, max_iter=2), ["hope-filters"]),
        (HOPEStack([(4, 6)], mixture=HOPE(max_iter=2)), ["hope-filters"]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_reports_have_the_figures(model, names):
    model = model.set_params(random_state=0).fit(X)
    assert [one.name for one in ms.report.draw_plots(Fitted(model, X))] == names


def test_concentrations_at_the_largest_are_drawn_and_said(ax):
    """Directions that are nearly one: all are cut off, equal up to rounding, and there is something to see."""
    Z = np.array([1e4, 1.0, 1.0]) + np.random.default_rng(0).standard_normal((60, 3))
    model = PCAMovMF(3, n_latent=2, random_state=0).fit(Z)
    assert np.ptp(model.concentrations_) < 1e-6 * model.largest_kappa
    ms.hooks.get_plot("hope-concentrations").draw(ax, Fitted(model, Z))
    assert [bar.get_height() for bar in ax.patches] == [0, 3, 0]
    low, high = ax.get_xlim()
    assert high > 2 * low and ax.get_title() == "Concentrations: 3 of 3 at largest_kappa"


def test_concentrations_are_all_counted(ax):
    model = PCAMovMF(9, n_latent=4, random_state=0).fit(X)
    ms.hooks.get_plot("hope-concentrations").draw(ax, Fitted(model, X))
    bars = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in ax.patches]
    assert sum(height for *_, height in bars) == 9
    assert bars[0][0] == pytest.approx(model.concentrations_.min())
    assert bars[-1][1] == pytest.approx(model.concentrations_.max())


def test_correlations_are_those_of_the_history(ax):
    model = HOPENetworkClassifier()
    model.history_ = {"fun": np.ones(3), "correlations_0": np.array([2.0, 1.0, 0.5]), "correlations_2": np.zeros(3)}
    ms.hooks.get_plot("hope-correlations").draw(ax, Fitted(model, X))
    first, second = ax.get_lines()
    assert first.get_ydata().tolist() == [2.0, 1.0, 0.5] and second.get_label() == "layer 2"


def test_the_command_line_reports_them(tmp_path: Path):
    np.save(tmp_path / "digits.npy", X)
    run = tmp_path / "run"
    sizes = ("--set", "n_components=6", "--set", "n_latent=4", "--set", "max_iter=3")
    assert main(["fit", "hope", str(tmp_path / "digits.npy"), *sizes, "-o", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "Filters" in page and "Concentrations" in page
