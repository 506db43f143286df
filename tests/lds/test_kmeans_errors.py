"""Error messages of k-means of systems."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import parametrize
from lds.clusterings import generated

from manifoldseq_lds import LDSIdentifier, LDSKMeans, ProjectionKernel

X4 = np.random.default_rng(0).standard_normal((4, 20, 6))
BAD = {
    "NaN": ({}, np.where(np.arange(6) == 2, np.nan, X4), "sequence 0 has NaN at t=0, channel 2"),
    "infinite": ({}, np.full((4, 20, 6), np.inf), "sequence 0 has infinity at t=0"),
    "empty": ({}, [], "X contains no sequences"),
    "short": ({"n_states": 5}, [*X4, X4[0][:4]], "sequence 4 has 4 time steps but n_states=5 needs at least 6"),
    "channels": ({}, [*X4, X4[0][:, :5]], "sequence 4 has 5 channels but sequence 0 has 6"),
    "objects": ({}, X4.astype(object), "X is an object array"),
    "kernel": ({"kernel": "projektion"}, X4, "projection"),
    "single": (
        {"n_clusters": 2},
        X4[:1],
        "X has 1 sequences for n_clusters=2: pass more sequences or lower n_clusters",
    ),
    "few": ({"n_clusters": 5}, X4, "X has 4 sequences for n_clusters=5: pass more sequences or lower n_clusters"),
    "no clusters": ({"n_clusters": 0}, X4, "n_clusters=0 is not valid"),
    "starts": ({"n_init": 0}, X4, "n_init=0 is not valid"),
    "epochs": ({"max_iter": 1.5}, X4, "max_iter=1.5 is not valid"),
    "tolerance": ({"tol": -1}, X4, "tol=-1 is not valid"),
    "bound": ({"bound": 1}, X4, "bound=1 is not valid"),
    "mean": ({"mean": "average"}, X4, "mean='average' is not known: choose 'exact', 'canonical', 'medoid'"),
    "rate": ({"mean": 3}, X4, "mean=3 is not known"),
    "relocation": ({"relocate": 1}, X4, "relocate=1 is not valid: pass True or False"),
    "init": ({"init": "random"}, X4, "init='random' is not known: choose 'k-means++', 'medoid'"),
    "short labels": ({"init": [0, 1]}, X4, "init is not valid"),
    "missing label": ({"init": [0, 0, 2, 2]}, X4, "init does not use exactly the clusters 0 to"),
    "start systems": ({"init": generated(N=3)}, X4, "init has C of shape (3, 8, 3)"),
    "solver": ({"solver": "lbgfs"}, X4, "lbfgs"),
    "seed": ({"random_state": -1}, X4, "random_state=-1 is not a seed"),
    "identifier": ({"identifier": "LDSIdentifier"}, X4, "identifier='LDSIdentifier' is not valid: pass LDSIdentifier("),
    "states twice": (
        {"identifier": LDSIdentifier(2)},
        X4,
        "n_states=3, but the identifier has n_states=2: set only one of them",
    ),
    "center": ({"identifier": LDSIdentifier(center="no")}, X4, "center='no' is not valid: pass True, False or 'auto'"),
    "scale": ({"identifier": LDSIdentifier(scale="yes")}, X4, "scale='yes' is not valid: pass True or False"),
    "bound in words": ({"bound": "a"}, X4, "bound='a' is not valid"),
    "no bound": ({"bound": None}, X4, "bound=None is not valid"),
    "bounds": ({"bound": np.ones(2)}, X4, "bound=array([1., 1.]) is not valid"),
    "no kernel": ({"kernel": None}, X4, "kernel=None is not a kernel: pass a registered name"),
    "number for kernel": ({"kernel": 3}, X4, "kernel=3 is not a kernel"),
    "kernel of histograms": ({"kernel": "chi2"}, X4, "the kernel 'chi2' is of the domain 'histograms'"),
    "list of stabilizers": ({"identifier": LDSIdentifier(stabilizer=["SN"])}, X4, "stabilizer=['SN'] is not known"),
    "plain function": ({"kernel": np.dot}, X4, "is a function: wrap it with @ms.kernel(domain='lds')"),
    "kernel class": ({"kernel": ProjectionKernel}, X4, "kernel=ProjectionKernel is a class: pass an instance"),
    "half a kernel": ({"kernel": SimpleNamespace(pack=1, cross=1)}, X4, "has no name, domain, constant_diagonal, "),
    "solver object": ({"solver": 3}, X4, "solver=3 is not a solver: pass a name such as 'lbfgs'"),
    "masked": ({}, list(np.ma.masked_less(X4, 0)), "sequence 0 has masked values"),
    "huge": (
        {"identifier": LDSIdentifier(scale=False)},
        X4 * 1e300,
        "sequence 0 has values above 1e150 times the scale of their channel",
    ),
    "tiny": ({}, X4 * 1e-310, "channel 0 has a standard deviation near"),
    "states": ({"n_states": 7}, X4, "n_states=7 exceeds channels × delay = 6"),
}


@parametrize("case", BAD, fast=10)
def test_bad_input_raises_an_error(case):
    params, X, sentence = BAD[case]
    with pytest.raises(ValueError) as caught:
        LDSKMeans(**{"n_clusters": 3, "n_states": 3, **params}).fit(X)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_new_data_of_another_size_raise_an_error():
    fitted = LDSKMeans(2, random_state=0).fit(generated())
    with pytest.raises(ValueError, match="X has systems with 6 outputs and 3 states but this LDSKMeans was fitted"):
        fitted.predict(generated(m=6))
    fitted = LDSKMeans(2, n_states=3, random_state=0).fit(X4)
    with pytest.raises(ValueError, match="X has 5 channels but this LDSKMeans was fitted on 6"):
        fitted.predict(X4[:, :, :5])


def test_centres_keep_their_number_between_batches():
    model = LDSKMeans(2, n_states=2, n_init=1, random_state=0).partial_fit(X4)
    with pytest.raises(ValueError, match="n_clusters=3 but there are 2 centres"):
        model.set_params(n_clusters=3).partial_fit(X4)


def test_nearest_takes_whole_numbers():
    model = LDSKMeans(2, n_states=2, n_init=1, max_iter=2, random_state=0).fit(X4)
    assert model.nearest(X4, np.int64(2)).shape == (2, 2)
    with pytest.raises(ValueError, match="n=True is not valid"):
        model.nearest(X4, True)
