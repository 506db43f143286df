"""Model files: what is saved comes back, and a file cannot do more than hold numbers."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq.storage import ModelError, load_model, save_model


@dataclass(frozen=True)
class Pair:
    """A record of two arrays."""

    left: np.ndarray
    right: np.ndarray | None = None


class Part(BaseEstimator):
    """An estimator inside another."""

    stored_types = (Pair,)

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def fit(self) -> Part:
        """Learn."""
        self.pair_ = Pair(np.arange(self.size))
        self._hidden = [self.size]
        return self


class Whole(BaseEstimator):
    """An estimator that holds one of everything."""

    stored_types = (Part, Pair)

    def __init__(self, text: str = "é", table: Any = None, part: Any = None) -> None:
        self.text = text
        self.table = table
        self.part = part

    def fit(self) -> Whole:
        """Learn."""
        self.numbers_ = (1, 2.5, float("-inf"), True, None, [np.int64(3), "a\n"])
        self.arrays_ = {"a/b": np.eye(2), "a_b": np.zeros((0, 3), np.float32), "x": np.array(["u", "vw"])}
        self.part_ = Part(4).fit()
        self.pairs_ = [Pair(np.ones(2), np.array(7)), Pair(np.asfortranarray(np.arange(6.0).reshape(2, 3)))]
        self.status_ = ms.Status.MAX_TIME
        self.history_ = {"fun": np.array([2.0, 1.0]), "time": np.array([0.0, 0.125])}
        self.fit_time_ = 0.5
        self.method = np.arange(2)
        return self


class Unlisted(BaseEstimator):
    """Not registered."""


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Whole:
    """Return a fitted estimator of everything, registered for one test."""
    registry = ms.hooks.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_registered", {})
    ms.register(ms.hooks.EstimatorSpec("whole", Whole))
    return Whole(table=[1, np.arange(2)], part=Part(3)).fit()


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any], arrays: bytes | None = None) -> None:
    """Change a model's document, and its arrays, and make the digest right again, as an attacker would."""
    if arrays is not None:
        (folder / "model.npz").write_bytes(arrays)
    document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    document["sha256"] = sha256((folder / "model.npz").read_bytes()).hexdigest()
    change(document)
    (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")


def archive(**members: bytes) -> bytes:
    """Return a zip file of `.npy` members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def test_everything_comes_back(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    back = load_model(tmp_path)
    assert type(back) is Whole and back.text == "é" and back.table[0] == 1 and back.part.size == 3
    assert back.table[1].tolist() == [0, 1]
    assert back.numbers_ == (1, 2.5, float("-inf"), True, None, [3, "a\n"])
    assert [type(number) for number in back.numbers_] == [int, float, float, bool, type(None), list]
    assert list(back.arrays_) == ["a/b", "a_b", "x"]
    for key, array in whole.arrays_.items():
        assert back.arrays_[key].dtype == array.dtype and np.array_equal(back.arrays_[key], array)
    assert back.arrays_["a_b"].shape == (0, 3)
    assert type(back.part_) is Part and back.part_.size == 4 and back.part_._hidden == [4]
    assert back.part_.pair_.left.tolist() == [0, 1, 2, 3] and back.part_.pair_.right is None
    assert back.pairs_[0].right.shape == () and back.pairs_[1].left.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back.status_ is ms.Status.MAX_TIME
    assert back.history_["time"].tolist() == [0.0, 0.125] and back.fit_time_ == 0.5


def test_what_was_measured_is_not_among_the_arrays(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path / "one")
    whole.history_["time"], whole.fit_time_ = np.array([0.0, 9.0]), float("nan")
    save_model(whole, tmp_path / "two")
    assert (tmp_path / "one" / "model.npz").read_bytes() == (tmp_path / "two" / "model.npz").read_bytes()
    assert not [name for name in np.load(tmp_path / "one" / "model.npz").files if "time" in name]
    assert np.isnan(load_model(tmp_path / "two").fit_time_)


EXACT = {
    "empty": np.zeros((0, 3), np.float32),
    "zero-dimensional": np.array(2, np.int8),
    "zero-dimensional float": np.array(0.5),
    "bool": np.array([[True], [False]]),
    "int8": np.arange(-3, 3, dtype=np.int8),
    "uint64": np.array([2**64 - 1], np.uint64),
    "float16": np.array([[0.1, np.nan]], np.float16),
    "float32": np.array([0.1, -np.inf, 1e-45], np.float32),
    "big-endian": np.arange(3.0).astype(">f8"),
    "big-endian float16": np.arange(3).astype(">f2"),
    "big-endian integers": np.arange(3).astype(">i2"),
    "long double": np.array([1, 3], np.longdouble) / 3,
    "complex": np.array([1 + 2j], np.complex64),
    "Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "view": np.arange(12.0).reshape(3, 4)[::2, ::-2],
    "strings": np.array([["a", "bcd"]]),
    "empty strings": np.array([], dtype="U7"),
    "bytes": np.array([b"a", b"bc"]),
    "objects": np.array(["a", "bcd"], dtype=object),
    "texts": np.array(["a", "bcd"], dtype=np.dtypes.StringDType()),
    "dates": np.array(["2020-02-29"], dtype="M8[D]"),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", ">f8", (1,))]),
}


@pytest.mark.parametrize("name", EXACT)
def test_every_array_comes_back_as_it_was(whole: Whole, tmp_path: Path, name: str) -> None:
    """Dtype, shape and bits, whatever it is called."""
    array = EXACT[name]
    whole.history_ = {"time": array}
    whole.set_params(table={"elapsed_time": array})
    for attribute in ("x", "time", "fit_time_", "time_constants_"):
        setattr(whole, attribute, array)
    save_model(whole, tmp_path)
    loaded: Any = load_model(tmp_path)
    attributes = loaded.x, loaded.time, loaded.fit_time_, loaded.time_constants_
    for back in (*attributes, loaded.history_["time"], loaded.table["elapsed_time"]):
        assert type(back) is np.ndarray and back.dtype == array.dtype and back.dtype.str == array.dtype.str
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)
        if not array.dtype.hasobject:
            assert back.tobytes() == array.tobytes()


def test_document_says_format_versions_and_digest(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert document["format"] == 1 and document["versions"]["numpy"] == np.__version__
    assert document["sha256"] == sha256((tmp_path / "model.npz").read_bytes()).hexdigest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.npz"]


def test_result_comes_back(tmp_path: Path) -> None:
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    result = ms.minimize(problem, np.ones(2))
    save_model(result, tmp_path)
    back = ms.load(tmp_path)
    assert isinstance(back, ms.Result) and repr(back) == repr(result)
    assert np.array_equal(back.x, result.x) and back.history.keys() == result.history.keys()
    assert back.history["time"].tolist() == result.history["time"].tolist()
    again = ms.minimize(problem, back)  # a warm start
    assert again.nit == 0


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (object(), r"part_\.table is a object|table is a object"),
        (np.array([None, 1]), "an array of Python objects"),
        (np.ma.masked_equal([1, 2], 2), "table is a masked array"),
        ({1: 2}, "has the key 1: the keys of a dict"),
        ([{"deep": {1, 2}}], r"table\.0\.deep is a set"),
        (np.random.default_rng(0), "table is a Generator"),
        (Unlisted(), "table is a Unlisted"),
    ],
)
def test_what_cannot_be_held_is_named(whole: Whole, tmp_path: Path, value: Any, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        save_model(whole.set_params(table=value), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_strings_of_an_object_array_are_stored_as_strings(whole: Whole, tmp_path: Path) -> None:
    save_model(whole.set_params(table=np.array(["a", "bc"], dtype=object)), tmp_path)
    assert load_model(tmp_path).table.tolist() == ["a", "bc"]
    assert np.load(tmp_path / "model.npz")["table"].dtype == "<U2"


def test_estimator_must_be_registered(whole: Whole, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Unlisted is not registered"):
        save_model(Unlisted(), tmp_path)


def test_unknown_plugin_is_named(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    rewritten(tmp_path, lambda d: d.update(estimator="hole", plugin="gone", versions={"plugin": "gone-dist 3"}))
    with pytest.raises(ModelError, match=r"estimator 'hole' of plugin 'gone' \(gone-dist 3\), which is not available"):
        load_model(tmp_path)


def test_damage_is_found(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    data = bytearray((tmp_path / "model.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model.npz").write_bytes(data)
    with pytest.raises(ModelError, match="SHA-256 differs"):
        load_model(tmp_path)
    (tmp_path / "model.npz").unlink()
    with pytest.raises(ModelError, match=r"model\.npz cannot be read"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "cannot be read"), ("[1]", "format None"),
     ('{"format": 2}', r"model\.json has format 2, but this version reads format 1: install .*, or fit the"),
     ("[" * 100_000, "cannot be read"), ('{"format": 1}', r"model\.npz cannot be read")],
)  # fmt: skip
def test_other_documents_raise_an_error(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError, match=sentence):
        load_model(tmp_path)


def test_missing_models_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the directory .* does not exist"):
        ms.load(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"there is no model\.json"):
        ms.load(tmp_path)
    (tmp_path / "run.json").write_text('{"state": "running"}')
    with pytest.raises(ModelError, match=r"no model yet \(its state is 'running'\): continue the run with --resume"):
        ms.load(tmp_path)


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_pickles_are_not_opened(whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(whole, tmp_path)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()]), allow_pickle=True)
    for data in (archive(x=buffer.getvalue()), archive(x=pickle.dumps(Bomb())), pickle.dumps(Bomb())):
        rewritten(tmp_path, lambda d: d["parameters"].update(table={"array": "x"}), data)
        with pytest.raises(ModelError):
            load_model(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_headers_that_claim_too_much_raise_an_error(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 10)})
    rewritten(tmp_path, lambda d: d["parameters"].update(table={"array": "x"}), archive(x=header.getvalue() + bytes(8)))
    with pytest.raises(ModelError, match="has a header with shape"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        {"record": "Path", "fields": {}},
        {"record": "os:system", "fields": {"command": "touch exploded"}},
        {"estimator": "Unlisted", "parameters": {}, "attributes": {}},
        {"record": "Pair", "fields": {"wrong": 1}},
        {"python/object": "os.system"},
        {"status": "NO_SUCH"},
        {"array": "missing"},
        {},
    ],
)
def test_files_name_no_class_that_the_estimator_does_not_list(whole: Whole, tmp_path: Path, value: Any) -> None:
    save_model(whole, tmp_path)
    rewritten(tmp_path, lambda d: d["parameters"].update(table=value))
    with pytest.raises(ModelError, match="cannot be restored"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["fit", "__class__", "__dict__", "get_params", "not a name", "stored_types"])
def test_attributes_cannot_hide_a_method(whole: Whole, tmp_path: Path, name: str) -> None:
    save_model(whole, tmp_path)
    rewritten(tmp_path, lambda d: d["attributes"].update({name: 1}))
    with pytest.raises(ModelError, match="has no fitted attribute"):
        load_model(tmp_path)


@pytest.mark.parametrize("missing", ["estimator", "plugin", "parameters", "attributes"])
def test_incomplete_documents_raise_an_error(whole: Whole, tmp_path: Path, missing: str) -> None:
    save_model(whole, tmp_path)
    rewritten(tmp_path, lambda d: d.pop(missing))
    with pytest.raises(ModelError, match="cannot be restored"):
        load_model(tmp_path)


def test_every_truncation_raises_an_error(whole: Whole, tmp_path: Path) -> None:
    save_model(whole, tmp_path)
    data = (tmp_path / "model.npz").read_bytes()
    for length in range(0, len(data), 37):
        rewritten(tmp_path, lambda d: None, data[:length])
        with pytest.raises(ModelError):
            load_model(tmp_path)


def test_clustering_answers_the_same_after_loading(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sequences = [np.cumsum(rng.standard_normal((20, 4)), axis=0) for _ in range(8)]
    model = ms.get_estimator("lds-kmeans")(n_clusters=2, n_states=2, n_init=1, random_state=0).fit(sequences)
    save_model(model, tmp_path)
    back = ms.load(tmp_path)
    assert np.array_equal(back.predict(sequences), model.labels_)
    assert np.array_equal(back.transform(sequences), model.transform(sequences))
    assert repr(back) == repr(model) and back.status_ is model.status_
