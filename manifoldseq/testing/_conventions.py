"""Checks of conventions of all estimators, for all kinds of data."""

from __future__ import annotations

import inspect
import json
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from .._extras import needing
from ..storage._model_codec import Encoder, Outside, attributes, decode_estimator, parameters, stored_types
from ._points import same
from ._report import Examination, Verdict, unless

_METHODS = ("predict", "transform", "predict_proba", "decision_function", "score_samples", "score")


@dataclass(frozen=True)
class Case:
    """An estimator, the data, and the form of the data for ``fit`` and the other methods."""

    estimator: Any
    data: list[np.ndarray]
    y: Any
    arguments: Callable[[Any], tuple[Any, ...]]
    seed: int

    def new(self) -> Any:
        """Return an unfitted copy with a fixed seed and few iterations, as in scikit-learn's checks."""
        from sklearn.base import clone

        return quick(cast(Any, clone(self.estimator)), self.seed)

    @cached_property
    def once(self) -> Any:
        """The estimator fitted to the data, shared by checks that do not change it."""
        return self.fit(self.new(), self.copies())

    def copies(self) -> list[np.ndarray]:
        """Return the data for an estimator that may write into them."""
        return [array.copy() for array in self.data]

    def fit(self, estimator: Any, data: Any) -> Any:
        """Fit without warnings, because few iterations may be too few."""
        labels = self._labels(data) if "y" in inspect.signature(estimator.fit).parameters else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return estimator.fit(*self.arguments(data), **({} if labels is None else {"y": labels}))

    def _labels(self, data: Any) -> Any:
        return None if self.y is None else self.y[: len(data)]

    def methods(self) -> list[str]:
        return [name for name in _METHODS if callable(getattr(self.estimator, name, None))]

    def ask(self, fitted: Any, name: str, data: Any = None) -> Any:
        data = self.copies() if data is None else data
        labels = self._labels(data) if name == "score" and _needs_labels(fitted) else None
        return getattr(fitted, name)(*self.arguments(data), *(() if labels is None else (labels,)))

    def answers(self, fitted: Any) -> dict[str, Any]:
        return {name: self.ask(fitted, name) for name in self.methods()}


def quick(estimator: Any, seed: int) -> Any:
    """Return the estimator with a fixed seed and few iterations, where it has such parameters."""
    values = {"random_state": seed, "n_init": 1, "max_iter": 5}
    params = estimator.get_params(deep=False)
    return estimator.set_params(**{name: value for name, value in values.items() if name in params})


def instance(estimator: Any) -> Any:
    """Return an estimator from one or from its class."""
    with needing("checks of estimators need", "cli"):
        import sklearn.base  # noqa: F401  the laws use it, and one that fails for lack of it would mislead
    made = estimator() if isinstance(estimator, type) else estimator
    if not (callable(getattr(made, "fit", None)) and callable(getattr(made, "get_params", None))):
        raise TypeError(
            f"{made!r} is not an estimator: it needs fit, get_params and set_params, as sklearn.base.BaseEstimator has"
        )
    return made


def _needs_labels(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    tags = get_tags(estimator)
    return tags.target_tags.required or tags.estimator_type == "classifier"


def common_laws(exam: Examination, case: Case) -> bool:
    """Check the conventions of all estimators; return False if the estimator cannot be fitted."""
    exam.law("parameters are stored unchanged and copied by clone", lambda: _parameters(case))
    exam.law("an unfitted estimator raises NotFittedError", lambda: _unfitted(case))
    if not exam.law("fit returns the estimator", lambda: _fits(case)):
        return False
    exam.law("its display works before and after fit", lambda: displayed(case.new(), case.once))
    exam.law("only fitted attributes end in an underscore", lambda: _attributes(case))
    exam.law("fit does not change its input and its parameters", lambda: _untouched(case))
    exam.law("a second fit with the same random_state gives the same result", lambda: _reproducible(case))
    exam.law("the same results when repeated and after pickling", lambda: _answers_again(case))
    exam.law("the same results after saving and loading", lambda: _answers_from_file(case))
    return True


def _parameters(case: Case) -> Verdict:
    from sklearn.base import clone

    copied = cast(Callable[[Any], Any], clone)
    init = type(case.estimator).__init__
    names = [] if init is object.__init__ else [name for name in inspect.signature(init).parameters if name != "self"]
    params = case.estimator.get_params(deep=False)
    if sorted(names) != sorted(params):
        return False, f"__init__ has the parameters {sorted(names)}, but get_params returns {sorted(params)}"
    copy = copied(case.estimator)  # raises if a parameter was changed by __init__
    if not alike(copy.get_params(deep=False), params):
        return False, "a clone has different parameters"
    marker = object()
    for name in names:
        if getattr(copied(case.estimator).set_params(**{name: marker}), name, None) is not marker:
            return False, f"set_params({name}=value) does not store the value"
    return True, f"{len(names)} parameters"


def _unfitted(case: Case) -> Verdict:
    from sklearn.exceptions import NotFittedError

    for name in case.methods():
        try:
            case.ask(case.new(), name)
        except NotFittedError:
            continue
        except Exception as error:
            return False, f"{name} raised {type(error).__name__} in place of sklearn.exceptions.NotFittedError"
        return False, f"{name} raised no NotFittedError"
    return True, ", ".join(case.methods())


def _fits(case: Case) -> Verdict:
    fitted = case.once
    return (True, "") if type(fitted) is type(case.estimator) else (False, f"it returned {fitted!r}")


def displayed(*estimators: Any) -> Verdict:
    """Return whether estimators have a text and an HTML display, which notebooks use."""
    for estimator in estimators:
        repr(estimator)
        html = getattr(estimator, "_repr_html_", None)
        if html is not None and type(estimator).__name__ not in html():
            return False, "_repr_html_ does not name the class"
    return True, ""


def _attributes(case: Case) -> Verdict:
    before, after = vars(case.new()), vars(case.once)
    early = [name for name in before if name.endswith("_") and not name.startswith("_")]
    if early:
        return False, f"set before fit: {early}"
    late = [name for name in after if name not in before and not name.endswith("_") and not name.startswith("_")]
    return unless(f"set by fit without an underscore: {late}" if late else None)


def _untouched(case: Case) -> Verdict:
    data, estimator = case.copies(), case.new()
    params = dict(estimator.get_params(deep=False))
    fitted = case.fit(estimator, data)
    if not same(data, case.data):
        return False, "fit wrote into its input"
    changed = [name for name, value in fitted.get_params(deep=False).items() if value is not params[name]]
    if changed:
        return False, f"fit replaced the parameters {changed}"
    for name in case.methods():
        case.ask(fitted, name, data)
        if not same(data, case.data):
            return False, f"{name} wrote into its input"
    return (True, "") if fitted is estimator else (False, "fit did not return self")


def _reproducible(case: Case) -> Verdict:
    other = case.fit(case.new(), case.copies())
    if not alike(learned(case.once), learned(other)):
        return False, "two fits with one random_state differ"
    case.fit(other, case.copies())
    return unless(None if alike(learned(case.once), learned(other)) else "a second fit depends on the first")


def _answers_again(case: Case) -> Verdict:
    fitted = case.once
    first = case.answers(fitted)
    if not alike(first, case.answers(fitted)):
        return False, "the repeated results differ"
    return unless(
        None if alike(first, case.answers(pickle.loads(pickle.dumps(fitted)))) else "the results after pickling differ"
    )


def _answers_from_file(case: Case) -> Verdict:
    fitted, encoder = case.once, Encoder()
    cls = type(fitted)
    types = stored_types(cls)
    try:
        document = {
            "parameters": encoder.members(parameters(fitted), "", types),
            "attributes": encoder.members(attributes(fitted), "", types),
        }
    except Outside as error:
        return False, str(error)
    again = decode_estimator(cls, json.loads(json.dumps(document)), encoder.arrays, types)
    return unless(None if alike(case.answers(fitted), case.answers(again)) else "they differ")


def raises(action: Callable[[], Any], words: str) -> Verdict:
    """Return whether an action raises a ValueError whose message contains certain words."""
    try:
        action()
    except ValueError as error:
        return words in str(error), str(error) if words in str(error) else f"the message has no {words!r}: {error}"
    except Exception as error:
        return False, f"raised {type(error).__name__} in place of ValueError: {error}"
    return False, "accepted it"


def unreal(array: np.ndarray) -> list[tuple[str, Any]]:
    """Return, by name, objects that resemble an array of numbers but must be rejected."""
    objects = array.astype(object)
    objects[0, 0] = None
    return [
        ("a masked array", np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)),
        ("dates", (1e3 * array).astype("datetime64[s]")),
        ("text", array.astype(str)),
        ("objects", objects),
    ]


def learned(fitted: Any) -> dict[str, Any]:
    """Return the public fitted attributes except measured times."""
    attributes = {
        name: value for name, value in vars(fitted).items() if name.endswith("_") and not name.startswith("_")
    }
    for name, value in attributes.items():
        if isinstance(value, Mapping):
            attributes[name] = {key: column for key, column in value.items() if "time" not in str(key)}
    return {name: value for name, value in attributes.items() if "time" not in name}


def alike(a: Any, b: Any) -> bool:
    """Return whether two results are bit-identical; objects are compared by their attributes without times."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if type(a) is type(b) and type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        left, right = ({name: value for name, value in vars(one).items() if "time" not in name} for one in (a, b))
        return a is b or alike(left, right)
    return same(a, b)
