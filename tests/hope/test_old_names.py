"""Names of parameters of the last release: taken with a warning, or refused where they mean something else now."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import manifoldseq as ms
from manifoldseq_hope import HOPE, HOPENetworkClassifier, PCAMovMF, VonMisesFisherMixture

X = np.random.default_rng(0).standard_normal((60, 6))
BOTH = [HOPE, PCAMovMF]
MODELS = [ms.get_model("hope.movmf").problem, ms.get_model("hope.gmm").problem]


@pytest.mark.parametrize("make", BOTH)
def test_components_without_latent_raise_and_name_the_change(make: Callable[..., Any]) -> None:
    pipeline = make_pipeline(make())
    step = f"{make.__name__.lower()}__n_components"
    for call in (
        lambda: make(3),
        lambda: make(n_components=3),
        lambda: make().set_params(n_components=3),
        lambda: pipeline.set_params(**{step: 3}),
    ):
        with pytest.raises(ValueError, match="n_components=3 is the number of mixture components now") as caught:
            call()
        said = str(caught.value)
        assert "which was n_mixtures" in said and "which was n_components" in said and "\n" not in said
    both = make(3, n_latent=2)
    assert clone(both).set_params(n_components=4).get_params() == make(4, n_latent=2).get_params()


@pytest.mark.parametrize("make", BOTH)
def test_old_and_new_names_together_raise(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="write n_components=3, n_latent=2"):
        make(n_components=2, n_mixtures=3)
    with pytest.raises(TypeError, match="write n_components=3, n_latent=2"):
        make(2, n_mixtures=3)
    with pytest.raises(TypeError, match="write n_components=3, n_latent=2"):
        make(2, 3)
    with pytest.raises(TypeError, match="n_mixtures is the old name of n_components"):
        make(n_latent=2, n_mixtures=3)


@pytest.mark.parametrize("make", BOTH)
def test_mixtures_alone_are_components_with_a_warning(make: Callable[..., Any]) -> None:
    with pytest.warns(DeprecationWarning, match="n_mixtures=3 is n_components=3, n_latent='auto' now"):
        old = make(n_mixtures=3, random_state=0)
    assert "n_mixtures" not in old.get_params()
    new = make(3, n_latent=3, random_state=0).fit(X)
    np.testing.assert_array_equal(old.fit(X).transform(X), new.transform(X))


@pytest.mark.parametrize("make", BOTH)
def test_latent_alone_and_automatic(make: Callable[..., Any]) -> None:
    shapes = [
        (len(model.weights_), model.components_.shape)
        for model in (make().fit(X), make(n_latent=2).fit(X), make(4, n_latent="auto").fit(X))
    ]
    assert shapes == [(8, (3, 6)), (8, (2, 6)), (4, (3, 6))]
    with pytest.raises(ValueError, match="n_latent='half' is not valid"):
        make(4, n_latent="half").fit(X)


@pytest.mark.parametrize("build", MODELS)
def test_models_keep_to_the_same_rules(build: Callable[..., ms.Problem]) -> None:
    with pytest.raises(ValueError, match="n_components=3 is the number of mixture components now"):
        build(X, n_components=3)
    with pytest.raises(TypeError, match="write n_components=3, n_latent=2"):
        build(X, n_components=2, n_mixtures=3)
    with pytest.warns(DeprecationWarning, match="n_mixtures=4 is n_components=4, n_latent=2 now"):
        old = build(X, n_mixtures=4)
    assert old.manifold == build(X, n_components=4, n_latent=2).manifold != build(X).manifold


@pytest.mark.parametrize(
    ("make", "old", "new"),
    [(VonMisesFisherMixture, "n_mixtures", "n_components"), (HOPENetworkClassifier, "start", "init")],
)
def test_names_that_mean_the_same_are_taken_with_a_warning(make: Callable[..., Any], old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"the parameter {old} is called {new} now"):
        model = make(**{old: 3})
    assert model.get_params()[new] == 3 and old not in model.get_params()
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(TypeError, match=f"{old} is the old name of {new}: pass {new} alone"):
        make(**{old: 3, new: 3})
