"""What the plugin registers, and its figure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from mpcca.problems import covariances, drawn, mixture

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq_mpcca import MixturePCCA, plot_shared
from manifoldseq_mpcca._plots import accepts, draw_shared, shared_variance


def test_names_are_found():
    assert ms.get_estimator("mixture-pcca") is MixturePCCA
    assert ms.get_model("mpcca").build.__module__ == "manifoldseq_mpcca._objective"


@pytest.mark.parametrize("full", [False, True])
def test_shared_variance_is_one_less_the_share_of_the_noise(full):
    m = mixture(full=full)
    total = np.diagonal(covariances(m), axis1=1, axis2=2)
    share = 1 - m.variances / total
    expected = np.stack([share[:, :5].mean(axis=1), share[:, 5:].mean(axis=1)], axis=1)
    np.testing.assert_allclose(shared_variance(m), expected, atol=1e-12)


def test_figure_shows_it():
    views, _ = drawn(mixture(), 100)
    fitted = Fitted(MixturePCCA(3, 2, max_iter=3).fit(views), views)
    assert accepts(fitted)
    figure, ax = plt.subplots()
    draw_shared(ax, fitted)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, shared_variance(fitted.estimator.mixture_).T.ravel())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["view 0", "view 1"]
    plt.close(figure)
    ax = plot_shared(fitted.estimator.mixture_)
    assert len(ax.patches) == 6
    plt.close(ax.figure)
