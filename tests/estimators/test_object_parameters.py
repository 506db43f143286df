"""Parameters that are objects: set by name in copies, listed, and made again from plain settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from helpers import needs
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq.estimators import ObjectParameters
from manifoldseq.estimators._object_parameters import all_settings, plain_settings, with_objects


@dataclass(frozen=True)
class Noise:
    """A dataclass with a kernel inside."""

    level: float = 0.5
    kernel: Any = "projection"


class Chain(BaseEstimator):
    """An estimator that holds another of its own kind."""

    def __init__(self, size: int = 1, inner: Chain | None = None) -> None:
        self.size = size
        self.inner = inner


class Whole(ObjectParameters, BaseEstimator):
    """An estimator with parameters of every kind."""

    def __init__(
        self,
        width: int = 3,
        *,
        noise: Noise | None = None,
        ridge: Ridge | None = None,
        chain: Chain | None = None,
        kernel: Any = "grassmann",
        solver: Any = "auto",
        text: str | None = None,
    ) -> None:
        self.width = width
        self.noise = noise
        self.ridge = ridge
        self.chain = chain
        self.kernel = kernel
        self.solver = solver
        self.text = text


def test_what_stands_for_an_object_is_made_when_a_setting_is_given() -> None:
    whole = Whole()
    assert whole.set_params(noise__level=2.0, ridge__alpha=3.0, kernel__n_steps=5, width=4) is whole
    assert (whole.noise, whole.width) == (Noise(2.0), 4)
    assert whole.ridge is not None and whole.ridge.alpha == 3.0
    assert whole.kernel == ms.get_kernel("grassmann", n_steps=5)
    assert whole.set_params(solver="lbfgs", solver__memory=3).solver == ms.solvers.LBFGS(memory=3)
    assert Whole().set_params(kernel="projection", kernel__dtype="float32").kernel.dtype == "float32"


def test_objects_that_were_passed_stay_as_they_are() -> None:
    noise, ridge, inner = Noise(), Ridge(), Chain(2)
    whole = Whole(noise=noise, ridge=ridge, chain=Chain(1, inner))
    whole.set_params(noise__level=9.0, ridge__alpha=9.0, chain__inner__size=9)
    assert (noise.level, ridge.alpha, inner.size) == (0.5, 1.0, 2)
    assert whole.chain is not None and whole.chain.inner is not None and whole.chain.inner.size == 9
    whole.set_params(noise__kernel__dtype="float32")
    assert whole.noise == Noise(9.0, ms.get_kernel("projection", dtype="float32"))


def test_it_is_an_estimator_of_scikit_learn() -> None:
    whole = Whole(noise=Noise(2.0), kernel=ms.get_kernel("grassmann", n_steps=2), chain=Chain(4))
    copy: Any = clone(whole)
    assert repr(copy) == repr(whole) and copy.chain is not whole.chain and copy.noise == whole.noise
    assert whole.get_params()["chain__size"] == 4 and set(Whole().get_params()) == set(Whole().get_params(deep=False))
    made = Whole().set_params(**{name: value for name, value in whole.get_params().items() if value is not None})
    assert repr(made) == repr(whole)

    class Machine(ObjectParameters, SVC):
        """Scores are its kernel's gamma, of a machine in a parameter."""

        def __init__(self, noise: Noise | None = None) -> None:
            super().__init__()
            self.noise = noise

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Return the level."""
            return 0.0 if self.noise is None else self.noise.level

    search = GridSearchCV(Machine(), {"noise__level": [1.0, 4.0, 2.0]}, cv=2)
    search.fit([[0.0], [1.0], [0.1], [1.1]], [0, 1, 0, 1])
    assert search.best_params_ == {"noise__level": 4.0}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"noise__levl": 1}, "noise has no setting 'levl': did you mean 'level'? It has level, kernel"),
        ({"kernel__n_stps": 1}, "kernel has no setting 'n_stps': did you mean 'n_steps'? It has n_steps, dtype"),
        ({"kernel": "projection", "kernel__n_steps": 1}, "kernel has no setting 'n_steps': It has dtype"),
        ({"noise__kernel__dtyp": 1}, "kernel has no setting 'dtyp': did you mean 'dtype'?"),
        ({"width__x": 1, "width__y": 2}, "width=3 is not an object with settings: leave out width__x"),
        ({"solver__memory": 1}, "solver='auto' is not an object with settings: leave out solver__memory"),
        ({"text__x": 1}, "text=None is not an object with settings"),
        ({"wdth__x": 1}, "Whole has no parameter 'wdth': did you mean 'width'? It has "),
        ({"what": 1}, "Invalid parameter 'what' for estimator Whole()"),
        ({"kernel__n_steps": 0}, "n_steps=0 is not valid"),
    ],
)
def test_names_that_are_not_known_raise_an_error(params: dict[str, Any], sentence: str) -> None:
    whole = Whole()
    before = whole.get_params()
    with pytest.raises(ValueError) as caught:
        whole.set_params(**params)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert sentence.startswith("Invalid") or whole.get_params() == before


@needs("lds")
def test_all_settings_are_listed_and_a_class_that_holds_itself_ends() -> None:
    found = all_settings(Whole, Whole().get_params(deep=False))
    assert found["noise__level"] == 0.5 and found["noise__kernel__dtype"] == "float64" and found["noise"] is None
    assert found["kernel__n_steps"] == 3 and found["ridge__alpha"] == 1.0 and found["chain__size"] == 1
    assert "chain__inner" in found and "chain__inner__size" not in found
    assert not any(name.startswith(("solver__", "text__")) for name in found)


def test_plain_settings_make_the_objects_again() -> None:
    whole = Whole().set_params(
        noise__level=2.0,
        noise__kernel="grassmann",
        noise__kernel__n_steps=4,
        ridge__alpha=0.25,
        kernel__dtype="float32",
    )
    params = whole.get_params(deep=False)
    plain = plain_settings(params)
    kinds = {type(value) for name, value in plain.items() if not name.startswith("ridge")}
    assert kinds <= {int, float, str, type(None)} and plain["noise__kernel"] == plain["kernel"] == "grassmann"
    again = Whole(**with_objects(Whole, Whole().get_params(deep=False), plain))
    assert repr(again) == repr(whole) and plain_settings(again.get_params(deep=False)) == plain


def test_functions_have_parameters_that_are_objects_too() -> None:
    def build(data: Any, *, noise: Noise = Noise(1.0), kernel: Any = "projection") -> Any:
        return noise, kernel

    made = with_objects(
        build, {"noise": Noise(1.0), "kernel": "projection"}, {"noise__level": 3, "kernel__dtype": "float32"}
    )
    assert build(None, **made) == (Noise(3), ms.get_kernel("projection", dtype="float32"))


def test_an_annotation_that_is_not_there_at_run_time_names_no_class() -> None:
    def build(noise: Missing | None = None) -> Any:  # noqa: F821  # pyright: ignore
        return noise

    assert all_settings(build, {"noise": None}) == {"noise": None}
