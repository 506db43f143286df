"""The two figures: what they draw is what was learned."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hierarchical.problems import frames

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq_hierarchical import SubspaceEncoder, SubspaceKMeans, plot_coordinates, plot_gain


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_gain(ax):
    X, y = frames(200, 12, 5)
    model = SubspaceEncoder(n_components=2).fit(X, y)
    line, used = plot_gain(Fitted(model, X), ax).lines
    np.testing.assert_allclose(line.get_ydata() * model.scatter_, model.gain_curve())
    # at m coordinates is the energy that a model of m coordinates leaves; none leaves all
    x = list(line.get_xdata())
    assert x == list(range(len(x))) and line.get_ydata()[x.index(0)] == pytest.approx(1)
    for m in (1, 2, 3):
        left = SubspaceEncoder(n_components=m).fit(X, y).energy_ / model.scatter_
        assert line.get_ydata()[x.index(m)] == pytest.approx(left)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coordinates m", "residual energy, share of tr S₀")
    assert used.get_xdata() == [2] and used.get_ydata()[0] == pytest.approx(model.energy_ / model.scatter_)


def test_coordinates(ax):
    X, _ = frames(5000, 6, 3)
    model = SubspaceKMeans(3, random_state=0).fit(X)
    drawn = plot_coordinates(Fitted(model, X), ax).lines
    assert len(drawn) == 4 and sum(len(line.get_xdata()) for line in drawn[:3]) == 2000
    centres = (model.cluster_centers_ - model.center_) @ model.components_.T
    np.testing.assert_allclose(drawn[3].get_xydata(), centres)
    own = model.predict(model.inverse_transform(drawn[1].get_xydata()))
    assert (own == 1).all()


def test_one_coordinate_and_many_classes(ax):
    X, y = frames(100, 4, 20)
    model = SubspaceEncoder(n_components=1).fit(X, y)
    assert not plot_coordinates(Fitted(model, X, y), ax).lines[0].get_ydata().any()
    assert ax.get_legend() is None


def test_what_they_reject():
    X, y = frames()
    with pytest.raises(ValueError, match="ndarray is not a fitted SubspaceEncoder"):
        plot_gain(X)
    with pytest.raises(ValueError, match="SubspaceEncoder is not a fitted"):
        plot_gain(SubspaceEncoder())
    with pytest.raises(ValueError, match="has no frames: pass Fitted"):
        plot_coordinates(SubspaceEncoder().fit(X, y))
    for name in ("subspace-gain", "subspace-coordinates"):
        accepts = ms.hooks.get_plot(name).accepts
        assert not accepts(SubspaceEncoder().fit(X, y)) and accepts(Fitted(SubspaceEncoder().fit(X, y), X))
