"""Validation of sequences: what is accepted, and the errors for other inputs."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import parametrize
from scipy.sparse import csr_array

from manifoldseq.estimators import channel_statistics, check_sequences, random_generator, validate_sequences
from manifoldseq.storage import from_frame


def two():
    return [np.arange(6.0).reshape(3, 2), np.ones((5, 2))]


@pytest.mark.parametrize(
    "X",
    [
        two(),
        tuple(two()),
        [x.tolist() for x in two()],
        [x.astype(np.float32) for x in two()],
        [x.astype(int) for x in two()],
        [np.asfortranarray(x) for x in two()],
        iter(two()),
    ],
    ids=["list", "tuple", "nested lists", "float32", "int", "Fortran", "iterator"],
)
def test_sequences_become_contiguous_float64(X):
    checked = check_sequences(X)
    for got, expected in zip(checked, two(), strict=True):
        assert got.dtype == np.float64 and got.flags.c_contiguous
        np.testing.assert_array_equal(got, expected)


def test_an_array_of_three_dimensions_is_a_list():
    X = np.arange(24.0).reshape(2, 4, 3)
    np.testing.assert_array_equal(np.stack(check_sequences(X)), X)


def test_a_time_slice_is_copied_and_a_good_array_is_not():
    x = np.arange(12.0).reshape(6, 2)
    assert check_sequences([x])[0] is x
    assert not np.shares_memory(check_sequences([x[::2]])[0], x)


def with_value(value):
    X = two()
    X[1][3, 1] = value
    return X


BAD = {
    "empty": ([], "X contains no sequences: pass at least one"),
    "NaN": (with_value(np.nan), "sequence 1 has NaN at t=3, channel 1: remove or fill it"),
    "infinite": (with_value(-np.inf), "sequence 1 has infinity at t=3, channel 1: remove or clip it"),
    "channels": ([np.ones((3, 2)), np.ones((3, 4))], "sequence 1 has 4 channels but sequence 0 has 2"),
    "no channels": ([np.ones((3, 0))], "sequence 0 has no channels"),
    "no steps": ([np.ones((3, 2)), np.ones((0, 2))], "sequence 1 has 0 time steps but at least 1 are needed"),
    "object array": (np.array([np.ones((3, 2)), np.ones((4, 2))], dtype=object), "X is an object array: pass a list"),
    "object sequence": ([np.array([[1, None]], dtype=object)], "sequence 0 has dtype object"),
    "ragged rows": ([[[1.0, 2.0], [3.0]]], "sequence 0 has rows of different lengths"),
    "one-dimensional": ([np.ones(4)], "sequence 0 has 1 dimension, not 2: pass a (T, d) array"),
    "scalars": ([1.0, 2.0], "sequence 0 has 0 dimensions, not 2"),
    "one array": (np.ones((4, 2)), "X is an array with 2 dimensions"),
    "flat array": (np.ones(4), "X is an array with 1 dimensions"),
    "text": ("words", "X is of type str: pass a list"),
    "texts": (["words"], "sequence 0 has dtype <U5"),
    "complex": ([np.ones((2, 2)) * 1j], "sequence 0 has dtype complex128"),
    "masked": ([np.ma.masked_less(np.ones((2, 2)), 2)], "sequence 0 has masked values: remove or fill them"),
    "sparse": (csr_array(np.ones((2, 2))), "X is of type csr_array: pass a list"),
    "sparse sequence": ([csr_array(np.ones((2, 2)))], "sequence 0 is a sparse matrix: convert it with .toarray()"),
    "mapping": ({"a": np.ones((2, 2))}, "X is of type dict"),
    "nothing": (None, "X is of type NoneType"),
}


LONG = pd.DataFrame({"id": ["a", "a", "b"], "time": [0, 1, 0], "x": [0.5, 1.5, 2.5]})
FRAMES = {
    "long": (LONG, "X is a data frame: pass a list of (T, d) arrays, one per sequence. If each row is a time step"),
    "numbers only": (LONG[["x"]], "X is a data frame: pass a list"),
    "index": (LONG.set_index(["id", "time"]), "X is a data frame: pass a list"),
    "arrow": (pa.table({"id": [1, 1, 2], "x": [0.5, 1.5, 2.5]}), "pass manifoldseq.storage.from_frame(X, id='id')"),
    "groups": (LONG.groupby("id"), "X contains groups of a data frame: pass a list"),
    "read": (from_frame(LONG), "X is of type SequenceData: pass its sequences, X.sequences"),
    "frames with the id": ([LONG[:2], LONG[2:]], "sequence 0, column 'id' has dtype object"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_tables_that_hold_all_sequences_get_one_sentence_with_the_cure(case):
    X, sentence = FRAMES[case]
    if case == "frames with the id":
        sentence = sentence.split(" has")[0]  # the dtype of texts depends on pandas
    with pytest.raises(ValueError) as caught:
        check_sequences(X)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_cure_for_a_long_table_works():
    assert [x.tolist() for x in check_sequences(from_frame(LONG, id="id").sequences)] == [[[0.5], [1.5]], [[2.5]]]
    assert len(check_sequences([group[["x"]] for _, group in LONG.groupby("id")])) == 2


@parametrize("case", BAD, fast=6)
def test_bad_input_raises_an_error(case):
    X, sentence = BAD[case]
    with pytest.raises(ValueError) as caught:
        check_sequences(X)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_short_sequences_name_the_setting():
    with pytest.raises(ValueError, match="sequence 1 has 5 time steps but n_states=5 needs at least 6"):
        check_sequences([np.ones((6, 2)), np.ones((5, 2))], min_length=6, needed_by="n_states=5")


def test_the_name_of_the_input_is_used():
    with pytest.raises(ValueError, match="Y contains no sequences"):
        check_sequences([], name="Y")


def test_channels_are_remembered_by_the_estimator():
    class Estimator:
        n_features_in_: int

    estimator = Estimator()
    validate_sequences(estimator, two(), reset=True)
    assert estimator.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 channels but this Estimator was fitted on 2"):
        validate_sequences(estimator, [np.ones((4, 3))], reset=False)


def test_channel_statistics():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((t, 3)) for t in (4, 9)]
    features = channel_statistics(X)
    assert features.shape == (2, 6)
    np.testing.assert_allclose(features[1, :3], [sum(X[1][:, j]) / 9 for j in range(3)])
    np.testing.assert_allclose(features[1, 3:] ** 2, (X[1] ** 2).mean(0) - X[1].mean(0) ** 2)


def test_random_generator():
    assert random_generator(7).random() == random_generator(np.int64(7)).random() == np.random.default_rng(7).random()
    assert random_generator(np.random.RandomState(3)).random() == random_generator(np.random.RandomState(3)).random()
    generator = np.random.default_rng(0)
    assert random_generator(generator) is generator
    assert random_generator().random() != random_generator(None).random()


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", True, [1]])
def test_random_generator_rejects(bad):
    with pytest.raises(ValueError, match="is not a seed: pass a non-negative int"):
        random_generator(bad)
