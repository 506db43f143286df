"""What the plugin registers, and its figure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from mpcca.problems import covariances, drawn, mixture

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq_mpcca import MixturePCCA, plot_shared

SHARED, COLUMNS = ms.hooks.get_plot("mpcca-shared"), ms.hooks.get_plot("mpcca-columns")


def heights(ax):
    """Return the heights of the bars of two views, a row per component."""
    found = np.array([bar.get_height() for bar in ax.patches]).reshape(2, -1).T
    plt.close(ax.figure)
    return found


def test_names_are_found():
    assert ms.get_estimator("mixture-pcca") is MixturePCCA
    assert ms.get_model("mpcca").prepare.__module__.startswith("manifoldseq_mpcca.")


@pytest.mark.parametrize("full", [False, True])
def test_shared_variance_is_one_less_the_share_of_the_noise(full):
    m = mixture(full=full)
    total = np.diagonal(covariances(m), axis1=1, axis2=2)
    share = 1 - m.variances / total
    expected = np.stack([share[:, :5].mean(axis=1), share[:, 5:].mean(axis=1)], axis=1)
    np.testing.assert_allclose(heights(plot_shared(m)), expected, atol=1e-12)


def test_figure_shows_it():
    views, _ = drawn(mixture(), 100)
    fitted = Fitted(MixturePCCA(3, 2, max_iter=3, covariance_type="diag").fit(views), views)
    assert SHARED.accepts(fitted) and not SHARED.accepts(Fitted(ms.evaluation.RowKMeans(2), views))
    ax = plt.subplots()[1]
    SHARED.draw(ax, fitted)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["view 0", "view 1"]
    ax_of_mixture = plot_shared(fitted.estimator.mixture_)
    assert len(ax_of_mixture.patches) == 6
    np.testing.assert_allclose(heights(ax), heights(ax_of_mixture))


def test_columns_that_are_shared_most_are_drawn_with_their_names():
    views, _ = drawn(mixture(), 300)
    names = [["a", "b", "c", "d", "a name that is too long for a figure"], ["u", "v", "w", "$y$"]]
    model = MixturePCCA(3, 2, max_iter=5, random_state=0, covariance_type="diag").fit(views, feature_names=names)
    total = np.diagonal(covariances(model.mixture_), axis1=1, axis2=2)
    share = model.mixture_.weights @ (1 - model.mixture_.variances / total)
    figure, ax = plt.subplots()
    COLUMNS.draw(ax, Fitted(model, views))
    best = [np.argsort(-share[:5]), 5 + np.argsort(-share[5:])]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], share[np.concatenate(best)], rtol=1e-10)
    shown = [name[:23] + "…" if len(name) > 24 else name.replace("$", r"\$") for one in names for name in one]
    assert [text.get_text() for text in ax.get_yticklabels()] == [shown[j] for j in np.concatenate(best)]
    plt.close(figure)
    figure, ax = plt.subplots()
    SHARED.draw(ax, Fitted(model, views))
    assert ax.get_legend().get_texts()[1].get_text() == r"view 1: u … \$y\$"
    plt.close(figure)
