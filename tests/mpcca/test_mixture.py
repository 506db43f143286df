"""The record of parameters: its errors, axes and copies."""

import pickle

import numpy as np
import pytest
from mpcca.problems import covariances, mixture

from manifoldseq_mpcca import Mixture


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(weights=[0.5, 0.6]), "weights have the sum 1.1"),
        (dict(weights=[]), "at least one component"),
        (dict(means=np.zeros((2, 4))), r"means have shape \(2, 4\): pass \(K, D\) = \(2, 3\)"),
        (dict(loadings=np.zeros((2, 3))), "loadings have shape"),
        (dict(noise=[np.ones((2, 2)), np.zeros((2, 1))]), "noise of view 1 is not positive"),
        (dict(noise=[np.ones((2, 2)), np.ones((3, 1))]), "noise of view 1 has shape"),
        (dict(noise=[np.ones((2, 2)), np.ones((2, 1, 1))]), "one array per view"),
        (dict(noise=[-np.stack([np.eye(2)] * 2), np.ones((2, 1, 1))]), "noise of view 0 is not positive"),
        (dict(noise=[[[[1, 0.5], [0, 1]]] * 2, np.ones((2, 1, 1))]), "noise of view 0 is not symmetric"),
        (dict(noise=[[[[1, 2], [2, 1]]] * 2, np.ones((2, 1, 1))]), "noise of view 0 is not positive"),
        (dict(noise=None), "noise is of type NoneType: pass a list of one array per view"),
        (dict(means=[[0.0], [1.0, 2.0]]), "means has rows of different lengths: pass an array"),
        (dict(means=np.full((2, 3), np.nan)), "means contains a value that is not finite"),
        (dict(means=np.full((2, 3), "a")), "means has dtype"),
    ],
)
def test_errors(change, words):
    good = dict(
        weights=[0.5, 0.5],
        means=np.zeros((2, 3)),
        loadings=np.ones((2, 3, 1)),
        noise=[np.ones((2, 2)), np.ones((2, 1))],
    )
    Mixture(**good)
    with pytest.raises(ValueError, match=words):
        Mixture(**{**good, **change})


def test_arrays_are_copied_read_only_and_survive_pickling():
    means = np.zeros((1, 2))
    m = Mixture([1.0], means, np.ones((1, 2, 1)), [[[1.0]], [[2.0]]])
    means += 1
    again = pickle.loads(pickle.dumps(m))
    for one in (m, again):
        assert one.means[0, 0] == 0 and one.noise[1][0, 0] == 2
        with pytest.raises(ValueError, match="read-only"):
            one.noise[0][0, 0] = 3


@pytest.mark.parametrize("full", [False, True])
def test_canonical_axes(full):
    """The same distribution whatever the rotation: information diagonal and falling, largest loadings positive."""
    m = mixture(full=full, d=3).canonical()
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3, 3)))[0]
    turned = Mixture(m.weights, m.means, m.loadings @ Q, m.noise).canonical()
    np.testing.assert_allclose(turned.loadings, m.loadings, atol=1e-10)
    np.testing.assert_allclose(covariances(turned), covariances(m), atol=1e-10)
    noise = covariances(Mixture(m.weights, m.means, np.zeros((3, 9, 0)), m.noise))
    information = m.loadings.mT @ np.linalg.solve(noise, m.loadings)
    values = np.diagonal(information, axis1=1, axis2=2)
    np.testing.assert_allclose(information, values[:, :, None] * np.eye(3), atol=1e-9)
    assert (np.diff(values, axis=1) < 0).all()


def test_number_of_free_parameters():
    """K = 1: D means, the D (D + 1) / 2 of a covariance once d = D - 1 allows any, by a rank count of the map."""
    m = Mixture([1.0], np.zeros((1, 4)), np.random.default_rng(0).standard_normal((1, 4, 1)), [np.ones((1, 2))] * 2)

    def covariance(vector):
        W, psi = vector[:4].reshape(4, 1), vector[4:]
        return (W @ W.T + np.diag(psi))[np.triu_indices(4)]

    at = np.concatenate([m.loadings.ravel(), m.variances.ravel()])
    jacobian = np.stack([covariance(at + 1e-6 * e) - covariance(at - 1e-6 * e) for e in np.eye(8)]) / 2e-6
    assert m.n_parameters == 4 + np.linalg.matrix_rank(jacobian, tol=1e-4)
