"""Parameter checks: the same messages for every estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from sklearn.base import BaseEstimator

from manifoldseq.estimators import (
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_positive,
    check_switch,
    check_whole,
    validate_rows,
)


@pytest.mark.parametrize("X", [[[1.0, 2.0], [3.0]], [np.ones((4, 2)), np.ones((5, 2))]], ids=["rows", "sequences"])
def test_rows_of_different_lengths_are_told(X: Any) -> None:
    with pytest.raises(ValueError, match=r"^the rows of X have different lengths: pass one array of shape \(N, d\)$"):
        validate_rows(BaseEstimator(), X, reset=True)


INVALID: list[tuple[Any, Any, tuple[Any, ...], str]] = [
    (check_whole, 0, (), "n=0 is not valid: pass a whole number of at least 1"),
    (check_whole, -1, (0,), "n=-1 is not valid: pass a whole number of at least 0"),
    *((check_whole, value, (), "pass a whole number of at least 1") for value in (True, 1.0, "1", None, np.array([2]))),
    (check_number, -1, (), "n=-1 is not valid: pass a finite number of at least 0"),
    (check_number, 3, (0.0, 1.0), "n=3 is not valid: pass a number of at least 0 and at most 1"),
    (check_number, 0.0, (0.0, 1.0, True), "n=0.0 is not valid: pass a number above 0 and at most 1"),
    (check_number, np.inf, (-np.inf,), "n=inf is not valid: pass a finite number"),
    *((check_number, value, (), "pass a finite number of at least 0") for value in (True, np.nan, "1", None, 1j)),
    *((check_positive, value, (), "pass a finite number above 0") for value in (0, -1.5, np.inf, False)),
    (check_choice, "c", (("a", "b"),), "n='c' is not known: choose 'a' or 'b'"),
    (check_choice, "c", (("a", "b", None),), "n='c' is not known: choose 'a', 'b' or None"),
    (check_choice, ["a"], (("a",), "a number"), "n=['a'] is not known: choose 'a' or a number"),
    (check_choice, np.array(["a", "b"]), (("a", "b"),), "is not known: choose 'a' or 'b'"),
    *((check_switch, value, (), "pass True or False") for value in (0, 1, "yes", None)),
    (check_optional, 0, (check_whole, 1), "pass a whole number of at least 1"),
]


@parametrize(("check", "value", "limits", "sentence"), INVALID, fast=8)
def test_an_invalid_value_raises_an_error(check: Any, value: Any, limits: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        check("n", value, *limits)
    assert sentence in str(caught.value) and str(caught.value).startswith("n=")


def test_valid_values_pass() -> None:
    for value in (1, np.int64(7), np.uint8(1)):
        check_whole("n", value)
    for value in (0, 0.5, np.float32(1), np.int64(1), 1):
        check_number("n", value, 0.0, 1.0)
    check_choice("n", None, ("a", None))
    check_switch("n", np.True_)
    check_optional("n", None, check_whole)
    check_optional("n", 5, check_whole, 5)


class Plain(BaseEstimator):
    """An estimator with two parameters of its own and three of all."""

    def __init__(
        self, size: Any = 1, *, share: Any = 0.5, n_init: Any = 1, n_jobs: Any = None, verbose: Any = 0
    ) -> None:
        self.size, self.share, self.n_init, self.n_jobs, self.verbose = size, share, n_init, n_jobs, verbose


RULES = {"size": check_whole, "share": (check_number, 0.0, 1.0)}


def test_a_table_checks_every_parameter_and_the_common_ones() -> None:
    for valid in (
        {},
        {"n_jobs": -1},
        {"n_jobs": 3},
        {"n_jobs": np.int64(2)},
        {"verbose": True},
        {"verbose": 2},
        {"size": 9, "share": 1},
    ):
        check_parameters(Plain(**valid), RULES)
    for name, values in {
        "size": [0],
        "share": [2],
        "n_init": [0, 1.5],
        "n_jobs": [0, -2, 1.0, True],
        "verbose": [-1, "a"],
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^{name}={value!r} is not valid: pass"):
                check_parameters(Plain(**{name: value}), RULES)
