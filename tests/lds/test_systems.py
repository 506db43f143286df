"""The record of systems: rows, joining, validation; and the functions of the domain."""

import copy
import pickle

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_lds import Systems

LDS = ms.hooks.get_domain("lds")
EQUIVALENT = ms.hooks.get_record(ms.hooks.KernelSpec, "projection").invariances


def make(N=4, m=5, n=3, seed=0, **extra):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, n, n))
    A /= 1.1 * np.linalg.norm(A, 2, axis=(1, 2))[:, None, None]
    fields = {"x1": (N, n), "noise_factor": (N, n, n), "mean": (N, m)}
    more = {name: rng.standard_normal(fields[name]) for name in extra}
    return Systems(A, np.linalg.qr(rng.standard_normal((N, m, n)))[0], **more)


def outputs(item, steps=12):
    """The noise-free outputs of an item, by the definition of the model."""
    A, C, x = item[:3]
    Y = []
    for _ in range(steps):
        Y.append(C @ x)
        x = A @ x
    return np.array(Y)


def test_sizes_and_text():
    systems = make(x1=True, mean=True)
    assert len(systems) == 4 and systems.n_states == 3 and systems.n_outputs == 5
    assert repr(systems) == "Systems(N=4, m=5, n=3, x1, mean)"


@pytest.mark.parametrize(
    "index", [slice(1, 3), [2, 0], np.arange(4) % 2 == 0, np.array([-1]), slice(None, None, -1), []]
)
def test_rows(index):
    systems = make(x1=True)
    rows = systems[index]
    picked = np.arange(4)[np.asarray(index, dtype=int) if isinstance(index, list) else index]
    assert isinstance(rows, Systems) and len(rows) == len(picked) and rows.noise_factor is None
    np.testing.assert_array_equal(rows.A, systems.A[picked])
    np.testing.assert_array_equal(rows.x1, systems.x1[picked])
    assert rows.C.flags.c_contiguous and not np.shares_memory(rows.C, systems.C)


def test_items_drop_trailing_fields_that_are_none():
    assert [len(make(**extra)[0]) for extra in ({}, {"x1": 1}, {"x1": 1, "noise_factor": 1, "mean": 1})] == [2, 3, 5]
    A, C, x1, F = make(noise_factor=True)[-1]
    assert x1 is None and A.shape == (3, 3) and C.shape == (5, 3) and F.shape == (3, 3)


@pytest.mark.parametrize("extra", [{}, {"x1": 1}, {"noise_factor": 1}, {"x1": 1, "noise_factor": 1, "mean": 1}])
def test_items_make_the_record_again(extra):
    systems = make(**extra)
    again = Systems.from_items(list(systems))
    for name in ("A", "C", "x1", "noise_factor", "mean"):
        np.testing.assert_equal(getattr(again, name), getattr(systems, name))


def test_concatenate():
    a, b = make(x1=True), make(N=2, seed=1, x1=True)
    joined = Systems.concatenate([a, b])
    np.testing.assert_array_equal(joined[4:].A, b.A)
    np.testing.assert_array_equal(joined[:4].x1, a.x1)
    with pytest.raises(ValueError, match="some records have x1 and others do not"):
        Systems.concatenate([a, make()])
    with pytest.raises(ValueError, match="records differ in the shape of C"):
        Systems.concatenate([a, make(m=6, x1=True)])
    with pytest.raises(ValueError, match="no systems"):
        Systems.concatenate([])


def test_arrays_are_copies_and_read_only():
    A, C = 0.5 * np.eye(2)[None], np.eye(3, 2)[None]
    systems = Systems(A, C)
    A[0, 0, 0] = 9
    assert systems.A[0, 0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        systems.A[0, 0, 0] = 1
    with pytest.raises(AttributeError):
        systems.A = A


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(duplicate):
    systems = make(x1=True)
    again = duplicate(systems)
    np.testing.assert_array_equal(again.x1, systems.x1)
    assert not any(array.flags.writeable for array in (again.A, again.C, again.x1))


def test_splitters_of_scikit_learn_take_rows():
    from sklearn.model_selection import KFold
    from sklearn.utils import _safe_indexing

    systems = make()
    for train, test in KFold(2).split(systems):
        part = _safe_indexing(systems, train)
        assert isinstance(part, Systems) and len(part) + len(test) == 4
    with pytest.raises(IndexError, match="one axis"):
        systems[0, 1]


def unstable(rho):
    A = np.zeros((3, 2, 2))
    A[1] = [[rho, 5.0], [0.0, 0.2]]
    return A


I3 = np.broadcast_to(np.eye(4, 2), (3, 4, 2))
BAD = {
    "unstable": ((unstable(1.0), I3), "system 1 is unstable: A has spectral radius 1, which must be below 1"),
    "not orthonormal": ((unstable(0.0), I3 * np.array([1, 1, 1.1])[:, None, None]), "system 2 has a C whose columns"),
    "unit columns that are not orthogonal": (
        (unstable(0.0), np.stack([I3[0], [[1, 0.6], [0, 0.8], [0, 0], [0, 0]], I3[0]])),
        "system 1 has a C whose columns",
    ),
    "NaN": ((np.full((1, 1, 1), np.nan), np.ones((1, 1, 1))), "system 0 has a value in A that is not finite"),
    "infinite C": ((np.zeros((1, 1, 1)), np.full((1, 1, 1), np.inf)), "system 0 has a value in C that is not finite"),
    "A not square": ((np.zeros((3, 2, 3)), I3), "A has shape (3, 2, 3): pass (N, n, n)"),
    "one matrix": ((np.zeros((2, 2)), np.eye(4, 2)), "A has shape (2, 2): pass (N, n, n)"),
    "none": ((np.zeros((0, 2, 2)), np.zeros((0, 4, 2))), "A has shape (0, 2, 2)"),
    "C of another size": ((unstable(0.0), I3[:2]), "C has shape (2, 4, 2): pass (N, m, n) with N, n = 3, 2"),
    "x1": ((unstable(0.0), I3, np.zeros((3, 4))), "x1 has shape (3, 4): pass (3, 2)"),
    "complex": ((1j * unstable(0.0), I3), "A has dtype complex128: pass real numbers"),
    "objects": ((np.full((1, 1, 1), None), np.ones((1, 1, 1))), "A has dtype object"),
    "no A": ((None, I3), "A has dtype object"),
    "masked": ((np.ma.masked_less(unstable(0.0), 1), I3), "A has masked values"),
    "ragged": (([np.zeros((2, 2)), np.zeros((3, 3))], I3[:2]), "A has parts of different shapes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_systems_raise_an_error(case):
    arrays, sentence = BAD[case]
    with pytest.raises(ValueError) as caught:
        Systems(*arrays)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([], "no systems"),
        ([([[0.5]],)], "item 0 has 1 parts: pass"),
        ([3], "item 0 is of type int: pass"),
        (None, "systems are given as NoneType: pass"),
        ([([[0.5]], [[1.0]]), ([[0.5]], [[1.0], [0.0]])], "item 1 has parts of shapes"),
    ],
)
def test_bad_items_raise_an_error(items, sentence):
    with pytest.raises(ValueError, match=sentence):
        Systems.from_items(items)


def test_a_large_norm_alone_is_not_unstable():
    systems = Systems(unstable(0.999), I3)
    assert np.linalg.norm(systems.A[1], 2) > 5


def test_to_item_is_the_canonical_form():
    rng = np.random.default_rng(0)
    lam, V, U, x1 = rng.random((2, 3)), rng.random((2, 3, 3)), rng.random((2, 5, 3)), rng.random((2, 3))
    A, C, x = LDS.to_item((lam, V, U, x1))
    for i in range(2):
        np.testing.assert_allclose(A[i], np.diag(lam[i]) @ V[i])
    assert C is U and x is x1
    assert len(LDS.to_item((lam, V, U))) == 2


def test_the_kernels_name_three_changes_of_the_state_basis():
    assert sorted(EQUIVALENT) == ["order of the states", "signs of the states", "state basis (P-equivalence)"]


@pytest.mark.parametrize("transform", EQUIVALENT.values(), ids=EQUIVALENT)
def test_equivalent_items_have_the_same_outputs(transform):
    for item in LDS.example(np.random.default_rng(0)):
        other = transform(item)
        np.testing.assert_allclose(outputs(other), outputs(item), atol=1e-12)
        assert not np.allclose(other[0], item[0])
    A, C = transform(tuple(LDS.example(np.random.default_rng(0))[0][:2]))
    assert A.shape == (3, 3) and C.shape == (6, 3)


def test_example_is_drawn_from_the_generator():
    one, other = LDS.example(np.random.default_rng(1)), LDS.example(np.random.default_rng(1))
    np.testing.assert_array_equal(one.A, other.A)
