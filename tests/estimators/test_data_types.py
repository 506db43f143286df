"""Types of data: every argument of an estimator that holds data has one, and no method returns `Any`.

`make test` also runs pyright on this file, which checks every `assert_type` and every call that it must reject.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import importlib
import inspect
import re
import typing
from typing import Any, assert_type

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import manifoldseq as ms
from manifoldseq_hope import VonMisesFisherMixture
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems
from manifoldseq_mpcca import FisherVector, MixturePCCA

DATA = {"X", "Y", "y", "more", "sample_weight", "inputs", "future_inputs", "segments", "blocks", "groups", "validation"}
PACKAGES = ("models", "evaluation"), ("lds", "hope", "mpcca", "hierarchical", "sequences", "papers")
OTHER_RESULTS = {"module"}  # of torch, which is imported when it is needed


def estimators() -> dict[str, type]:
    """Return the registered estimators and all other public classes with a method `fit`."""
    core, plugins = PACKAGES
    names = [f"manifoldseq.{name}" for name in core] + [f"manifoldseq_{name}" for name in plugins]
    modules = [importlib.import_module(name) for name in names]
    found = [getattr(module, name) for module in modules for name in module.__all__]
    found += [ms.hooks.get_estimator(record.name) for _, record in ms.hooks.records("estimators")]
    classes = {one for one in found if inspect.isclass(one) and callable(getattr(one, "fit", None))}
    return {one.__name__: one for one in sorted(classes, key=lambda one: one.__name__)}


def is_open(hint: Any) -> bool:
    """Return whether a type is `Any`, or a container or union with `Any`; arrays of any dtype are arrays."""
    if hint is Any:
        return True
    if getattr(typing.get_origin(hint) or hint, "__module__", "").startswith("numpy"):
        return False
    return any(map(is_open, typing.get_args(hint)))


def faults(cls: type) -> list[str]:
    """Return the data arguments and the results of public methods without a type."""
    found = []
    for name in ["__init__", *(name for name in dir(cls) if not name.startswith("_"))]:
        method = inspect.unwrap(function) if inspect.isroutine(function := getattr(cls, name)) else None
        if not inspect.isfunction(method) or method.__module__.startswith("sklearn."):
            continue
        hints = typing.get_type_hints(method)
        says = inspect.getdoc(cls if name == "__init__" else method) or ""
        arrays = re.findall(r"\w+", " ".join(re.findall(r"^([\w, *]+) : [^\n]*array-like", says, re.MULTILINE)))
        for parameter in inspect.signature(method).parameters:
            if parameter in {*DATA, *arrays} and is_open(hints.get(parameter, Any)):
                found.append(f"{name}({parameter})")
        if name not in OTHER_RESULTS and is_open(hints.get("return", Any)):
            found.append(f"{name} -> ")
    return found


def test_all_estimators_are_checked() -> None:
    assert {"RowMixture", "VideoBlocks", "LDSKMeans", "SequenceKMeans", "RowNeighbors"} < set(estimators())
    assert len(estimators()) > 45


@pytest.mark.parametrize("name", estimators())
def test_data_and_results_have_types(name: str) -> None:
    assert not faults(estimators()[name])


class Untyped:
    """An estimator with one fault of each kind.

    Parameters
    ----------
    start : array-like of shape (K, d)
    """

    def __init__(self, start: Any = None) -> None: ...

    def fit(self, X, y: object = None) -> Untyped: ...

    def predict(self, X: NDArray[Any], *more: Any) -> Any: ...

    def score(self, X: list[Any], y: tuple[NDArray[Any], Any] | None) -> float: ...


def test_missing_types_are_found() -> None:
    assert faults(Untyped) == ["__init__(start)", "fit(X)", "predict(more)", "predict -> ", "score(X)", "score(y)"]


def test_calls_with_data_of_every_kind() -> None:
    rng = np.random.default_rng(0)
    sequences = rng.standard_normal((6, 20, 2))
    frames = [pd.DataFrame(x, columns=["a", "b"]) for x in sequences]
    identifier = LDSIdentifier(n_states=2).fit(frames)
    assert_type(identifier.forecast(frames, 3), NDArray[np.float64])
    mean, deviation = identifier.forecast(sequences, 3, return_std=True, n_bootstrap=0)
    assert mean.shape == deviation.shape == (6, 3, 2)
    systems = identifier.transform(list(sequences))
    assert_type(systems, Systems)
    assert_type(LDSKMeans(2, n_states=2, random_state=0).fit(systems).predict(systems), NDArray[np.int64])

    rows = pd.DataFrame(rng.standard_normal((40, 3)))
    mixture = VonMisesFisherMixture(2, random_state=0, max_iter=2)
    assert np.isfinite(mixture.fit(rows, sample_weight=[1.0] * 40).score(rows.to_numpy().tolist()))
    assert len(mixture.fit(csr_array(rows.to_numpy())).predict(csr_array(rows.to_numpy()))) == 40

    views = MixturePCCA(1, n_latent=1, random_state=0).fit(rows, rows.to_numpy()[:, :2])
    filled = views.impute([rows, None])
    assert [view.shape for view in filled] == [(40, 3), (40, 2)]
    bags = [rng.standard_normal((5, 2)) for _ in range(4)]
    assert len(FisherVector(1, random_state=0).fit_transform([bags])) == 4


def test_other_data_is_a_type_error() -> None:
    with pytest.raises((TypeError, ValueError)):
        LDSKMeans(2).fit(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises((TypeError, ValueError)):
        ms.evaluation.StatisticsKMeans(2).fit(None)  # pyright: ignore[reportArgumentType]
    with pytest.raises((TypeError, ValueError)):
        MixturePCCA(1).fit(np.eye(3), object())  # pyright: ignore[reportArgumentType]
    with pytest.raises((TypeError, ValueError)):
        LDSIdentifier().fit(Systems([[[0.5]]], [[[1.0]]]))  # pyright: ignore[reportArgumentType]
