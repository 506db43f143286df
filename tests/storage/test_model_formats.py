"""Models that earlier versions saved: translated when they are loaded, or refused in one sentence.

``models_of_format_1.zip`` holds a small model of every estimator and what it answered, as the last commit that wrote
format 1 saved them, and the script that did so. Only the field names of `Systems` in it are those of today.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq.storage import ModelError, load_model, renamed, save_model

FORMAT_1 = Path(__file__).parent / "models_of_format_1.zip"
with ZipFile(FORMAT_1) as _archive:
    DATA: dict[str, str] = json.loads(_archive.read("data.json"))
# `n_features_in_`, which these ask for, was not kept in format 1
WITHOUT_FEATURES = {f"{kind}-{task}" for kind in ("statistics", "autocovariance") for task in ("kmeans", "classifier")}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the models of format 1."""
    folder = tmp_path_factory.mktemp("format_1")
    with ZipFile(FORMAT_1) as archive:
        archive.extractall(folder)
    return folder


def data(folder: Path, name: str) -> Any:
    """Return what a model was fitted on: an array, a list of arrays, or of lists of them."""
    arrays = np.load(folder / "data.npz")
    if name in arrays:
        return arrays[name]
    keys = [key.split(".")[1:] for key in arrays.files if key.startswith(f"{name}.")]
    if len(keys[0]) == 1:
        return [arrays[f"{name}.{i}"] for i in range(len(keys))]
    return [[arrays[f"{name}.{i}.{j}"] for j in range(len(keys) // 2)] for i in range(2)]


def answer(model: Any, name: str, X: Any) -> np.ndarray:
    """Return what a model says, or what `fit` left in it."""
    if name.endswith("_"):
        found = getattr(model, name)
        return found["fun"] if isinstance(found, dict) else np.asarray(found)
    found = getattr(model, name)(X)
    return np.concatenate([found.A, found.C], axis=1) if hasattr(found, "A") else np.asarray(found)


def test_every_estimator_has_a_model_of_format_1() -> None:
    there = {record.name for plugin, record in ms.hooks.records("estimators") if plugin.name != "session"}
    assert there - {"nearest-rows", "vector-features"} <= set(DATA)  # but those that came with format 2


@pytest.mark.filterwarnings("ignore:this model was stored before score was a density")  # and scores as it did
@parametrize("name", sorted(DATA.keys() - WITHOUT_FEATURES), fast=10)
def test_models_of_format_1_answer_as_they_did(saved: Path, name: str, tmp_path: Path) -> None:
    assert json.loads((saved / name / "model.json").read_text(encoding="utf-8"))["format"] == 1
    model, X, before = load_model(saved / name), data(saved, DATA[name]), np.load(saved / name / "answers.npz")
    save_model(model, tmp_path)  # in today's format
    again = load_model(tmp_path)
    assert before.files
    rtol = 1e-3 if name == "lds-kernel-matrix" else 1e-5  # its stabilizer "CG" has changed unstable systems less since
    for key in before.files:
        np.testing.assert_allclose(answer(model, key, X), before[key], rtol=rtol, atol=1e-6, err_msg=key)
        np.testing.assert_array_equal(answer(again, key, X), answer(model, key, X), err_msg=key)
    assert repr(again) == repr(model)


@dataclass(frozen=True)
class Pair:
    """A record that was called ``Couple``."""

    former_names: ClassVar = ("Couple",)
    left: float
    right: float


class Inner(BaseEstimator):
    """An estimator in its first version."""

    def __init__(self, size: int = 1) -> None:
        self.size = size


def in_version_3(parameters: dict[str, Any], attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take percents for shares."""
    return {**parameters, "share": parameters["share"] / 100}, attributes


class Grown(BaseEstimator):
    """An estimator in its third version: first, ``share`` was ``part`` and ``size`` was ``share``."""

    stored_types = (Pair, Inner)
    stored_upgrades = (renamed(part="share", share="size", pair_="pairs_"), in_version_3)

    def __init__(self, share: float = 0.5, size: int = 1, inner: Any = None) -> None:
        self.share = share
        self.size = size
        self.inner = inner


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of a saved model of `Grown`, registered for one test."""
    monkeypatch.setattr(ms.hooks.register.__globals__["_registry"], "_registered", {})
    ms.register(ms.hooks.EstimatorSpec("grown", Grown))
    model = Grown(0.25, 3, Inner(2))
    model.pairs_ = [Pair(1.0, 2.0)]
    save_model(model, tmp_path)
    return tmp_path


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a model's document."""
    document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    change(document)
    (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")


def first_version(document: dict[str, Any]) -> None:
    """Make the document what the first version of `Grown` saved."""
    document["format"] = 1
    for part in (document, document["parameters"]["inner"]):
        del part["version"]
    document["parameters"] = {"part": 25, "share": 3, "inner": document["parameters"]["inner"]}
    (pair,) = document["attributes"].pop("pairs_")["list"]
    document["attributes"]["pair_"] = {"list": [{"record": "Couple", "fields": pair["fields"]}]}


def same(model: Any) -> bool:
    """Say whether a model is the one of the fixture."""
    return (model.share, model.size, model.inner.size, model.pairs_) == (0.25, 3, 2, [Pair(1.0, 2.0)])


def test_a_class_brings_its_own_files_up_to_date(grown: Path) -> None:
    assert same(load_model(grown))
    rewritten(grown, first_version)
    assert same(load_model(grown))


def test_each_version_takes_the_upgrades_that_it_lacks(grown: Path) -> None:
    def second_version(document: dict[str, Any]) -> None:
        document["version"] = 2
        document["parameters"]["share"] = 25

    rewritten(grown, second_version)
    assert same(load_model(grown))


@pytest.mark.parametrize("version", [4, 0, True, "2", None])
def test_a_later_or_impossible_version_is_refused(grown: Path, version: Any) -> None:
    rewritten(grown, lambda document: document.update(version=version))
    with pytest.raises(ModelError, match="can be loaded up to version 3: install the version of its package") as caught:
        load_model(grown)
    assert f"Grown was saved in version {version!r}" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("found", [0, 3, True, "1", None])
def test_another_format_is_refused(grown: Path, found: Any) -> None:
    rewritten(grown, lambda document: document.update(format=found))
    with pytest.raises(ModelError, match=f"has format {found!r}, this version reads 1 and 2: install"):
        load_model(grown)


def test_a_file_that_an_upgrade_cannot_read_is_refused(grown: Path) -> None:
    rewritten(grown, lambda document: (document.update(version=2), document["parameters"].pop("share")))
    with pytest.raises(ModelError, match="holds a model that cannot be restored"):
        load_model(grown)
