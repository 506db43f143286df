"""Every method of every registered estimator raises the same error for anything but an array of real numbers."""

import inspect
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from helpers import needs, parametrize
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq.estimators import check_real, check_unmasked

SENTENCE = "the argument must be free of masked values, dates, strings and other objects and contain only real numbers"
RECORDS = {record.name: record for _, record in ms.hooks.records("estimators")}
METHODS = ("partial_fit", "predict", "predict_proba", "transform", "decision_function", "score_samples", "score")
SETTINGS = {
    "n_clusters": 3,
    "n_atoms": 3,
    "n_components": 3,
    "n_latent": 1,
    "n_states": 2,
    "n_units": 4,
    "n_filters": 4,
    "max_iter": 2,
    "n_init": 1,
    "segment_length": 5,
    "random_state": 0,
}
BAD = {
    "masked": lambda x: np.ma.masked_equal(np.where(np.arange(x.size).reshape(x.shape) == 3, 999.0, x), 999.0),
    "masked, nothing hidden": lambda x: np.ma.array(x),
    "a masked row in a list": lambda x: [*x[:-1].tolist(), np.ma.masked_greater(x[-1], x[-1, 0])],
    "dates": lambda x: (1e3 * x).astype("datetime64[s]"),
    "spans of time": lambda x: (1e3 * x).astype("timedelta64[s]"),
    "text": lambda x: x.astype(str),
    "bytes": lambda x: x.astype("S"),
    "numbers as text in objects": lambda x: x.astype(str).astype(object),
    "objects": lambda x: np.where(x == x[0, 0], None, x.astype(object)),
    "records": lambda x: x.copy().view([("one", x.dtype)]),
}


def arguments(kind, change=None, where=0):
    """Return the arguments of `fit`: good ones, or with one sequence or view changed."""
    x = load_digits().data[:150] + 0.01 * np.random.default_rng(0).standard_normal((150, 64))
    change = change or (lambda part: part)
    if kind == "samples":
        return (change(x),)
    if kind == "sequences":
        return ([change(x[:20, 2:5]), *(x[start : start + 20, 2:5] for start in range(20, 140, 20))],)
    views = [x[:, 2:5], x[:, 10:14]]
    if kind == "bags":
        views = [[view[start : start + 15] for start in range(0, 150, 15)] for view in views]
        views[where][2] = change(views[where][2])
        return tuple(views)
    views[where] = change(views[where])
    return tuple(views)


def made(name):
    if name == "hope-network":
        pytest.importorskip("torch")
    estimator = RECORDS[name].resolved().factory()
    known = estimator.get_params(deep=False)
    chosen = {key: value for key, value in SETTINGS.items() if key in known}
    if "layers" in known:
        chosen["layers"] = [(3, 4)]
    return estimator.set_params(**chosen)


def labels(estimator, kind):
    takes = "y" in inspect.signature(estimator.fit).parameters
    return {"y": np.arange(150 if kind == "samples" else 7) % 3} if takes and kind != "views" else {}


@cache
def fitted(name):
    kind, estimator = RECORDS[name].input, made(name)
    return estimator.fit(*arguments(kind), **labels(estimator, kind))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", RECORDS)
def test_every_estimator_rejects_it_with_one_message(name, bad):
    kind = RECORDS[name].input
    for where in (0, 1) if kind in ("views", "bags") else (0,):
        given = arguments(kind, BAD[bad], where)
        estimator = made(name)
        with pytest.raises(ValueError) as caught:
            estimator.fit(*given, **labels(estimator, kind))
        assert SENTENCE in str(caught.value) and "\n" not in str(caught.value)
        model = fitted(name)
        for method in METHODS:
            if callable(ask := getattr(model, method, None)):
                extra = () if "y" not in inspect.signature(ask).parameters else (labels(model, kind).get("y"),)
                with pytest.raises(ValueError) as caught:
                    ask(*given, *extra)
                assert SENTENCE in str(caught.value), method


@pytest.mark.filterwarnings("ignore")
@parametrize("name", RECORDS, fast=8)
def test_numbers_stored_as_objects_are_numbers(name):
    """As scikit-learn's conventions ask."""
    kind, model = RECORDS[name].input, fitted(name)
    good, same = arguments(kind), arguments(kind, lambda x: x.astype(object))
    for method in METHODS[1:]:
        if callable(ask := getattr(model, method, None)) and "y" not in inspect.signature(ask).parameters:
            there, here = ask(*same), ask(*good)
            parts = vars(there).values() if hasattr(there, "__dict__") else [there]
            others = vars(here).values() if hasattr(here, "__dict__") else [here]
            for a, b in zip(parts, others, strict=True):
                if a is not None:
                    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("subspace-encoder", marks=needs("hierarchical")),
        pytest.param("lds-classifier", marks=needs("lds")),
        pytest.param("hope-stack", marks=needs("hope")),
    ],
)
def test_masked_labels_raise_an_error(name):
    kind, estimator = RECORDS[name].input, made(name)
    y = np.ma.masked_equal(labels(estimator, kind)["y"], 2)
    with pytest.raises(ValueError, match=f"y has masked values: remove or fill them; {SENTENCE}"):
        estimator.fit(*arguments(kind), y)


@needs("hope")
def test_masked_weights_raise_an_error():
    with pytest.raises(ValueError, match=f"sample_weight has masked values: remove or fill them; {SENTENCE}"):
        made("hope").fit(*arguments("samples"), sample_weight=np.ma.masked_equal(np.arange(150.0), 3))


def test_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "n": [1, 2]})
    assert check_real(frame) is frame
    for column in (["a", "b"], pandas.to_datetime(["2024-01-01", "2024-01-02"]), pandas.to_timedelta([1, 2], "s")):
        with pytest.raises(ValueError, match=SENTENCE):
            check_real(frame.assign(more=column))


def test_what_it_returns():
    x = np.arange(6.0).reshape(3, 2)
    assert check_real(x) is x
    for numbers in ([[1, 2.5], [True, np.float32(3)]], [[Decimal("1"), 2.5], [True, 3]]):
        np.testing.assert_array_equal(np.asarray(check_real(numbers), dtype=float), [[1, 2.5], [1, 3]])
    assert check_unmasked(["a", None]) == ["a", None]
    with pytest.raises(ValueError, match=r"X has dtype complex128: pass real numbers \(Complex data not supported\)"):
        check_real(x * 1j)
    with pytest.raises(ValueError, match="X has masked values"):
        check_real([[1.0, np.ma.masked]])
    with pytest.raises(ValueError, match="Y has dtype object and contains a NoneType"):
        check_real([[1.0, None]], "Y")
    ragged = [[1.0], [1.0, 2.0]]
    assert check_real(ragged) is ragged
