"""A kernel from a function of two items: equal to the batched kernel, and right where k(S, S) is not constant."""

from itertools import pairwise

import autograd.numpy as anp
import numpy as np
import pytest
from lds.items import example

import manifoldseq as ms
from manifoldseq_lds import ProjectionKernel, Systems


@ms.kernel(constant_diagonal=True)
def projection(first, second):
    """The definition (5), pair by pair."""
    (A1, C1), (A2, C2) = first, second
    G11, G22 = ms.linalg.gramians(A1), ms.linalg.gramians(A2)
    G12 = ms.linalg.stein(A1, A2, anp.dot(C1.T, C2))
    return anp.trace(anp.dot(anp.linalg.solve(G11, G12), anp.linalg.solve(G22, G12.T)))


@ms.kernel(name="overlap")
def first_state_overlap(first, second):
    """Inner product of the noise-free outputs from the first unit state: k(S, S) is not constant."""
    (A1, C1), (A2, C2) = first, second
    return ms.linalg.stein(A1, A2, anp.dot(C1.T, C2))[0, 0]


@pytest.fixture
def data():
    systems = example(np.random.default_rng(0))
    return Systems(systems.A, systems.C)


@pytest.fixture
def point():
    return ms.manifolds.CanonicalLDS(6, 3).random_point(np.random.default_rng(1))


def test_equals_the_batched_kernel(data, point):
    fast = ProjectionKernel()
    P, Q = projection.pack(data), fast.pack(data)
    np.testing.assert_allclose(projection.cross(P, P[1:3]), fast.cross(Q, Q[1:3]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(projection.diag(P), fast.diag(Q), rtol=0, atol=1e-12)
    beta = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    value, gradient = projection.weighted(point, P, beta)
    expected, expected_gradient = fast.weighted(point, Q, beta)
    assert isinstance(value, float)
    assert value == pytest.approx(expected, abs=1e-12)
    for a, b in zip(gradient, expected_gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert projection.manifold(6, 3, 0.9) == fast.manifold(6, 3, 0.9)


def test_self_term_has_slope_two(point):
    value, gradient = first_state_overlap.self_term(point)
    item = (point[0][:, None] * point[1], point[2])
    assert value == pytest.approx(first_state_overlap(item, item))
    rng = np.random.default_rng(2)
    direction = tuple(rng.standard_normal(p.shape) for p in point)
    slope = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))

    def error(h):
        moved = tuple(p + h * d for p, d in zip(point, direction, strict=True))
        return abs(first_state_overlap.self_term(moved)[0] - value - h * slope)

    assert all(np.log10(a / b) > 1.9 for a, b in pairwise(error(h) for h in (1e-2, 1e-3, 1e-4)))


def test_gram_matrix_equals_the_sum_of_outputs(data):
    outputs = [np.stack([C @ np.linalg.matrix_power(A, t)[:, 0] for t in range(700)]).ravel() for A, C in data]
    P = first_state_overlap.pack(data)
    np.testing.assert_allclose(first_state_overlap.cross(P, P), np.array(outputs) @ np.array(outputs).T, atol=1e-12)


def test_packed_items_are_indexed_by_rows(data):
    P = projection.pack(data)
    for rows in ([4, 0, 4], slice(1, 5, 2), np.arange(5) % 2 == 0, np.array([], dtype=int)):
        assert len(P[rows]) == len(np.arange(5)[rows])
    assert len(P[2]) == 1
    assert P[[3, 1]].items == (P.items[3], P.items[1])
    assert projection.cross(P[[]], P).shape == (0, 5)


def test_executors_change_no_value(data):
    P = projection.pack(data)
    with ms.execution.using("threads", 2):
        threaded = projection.cross(P, P)
    assert np.array_equal(threaded, projection.cross(P, P))


def test_decorator_and_function_say_the_same():
    made = ms.kernel(first_state_overlap.pair_function, name="named", positive_definite=False)
    assert (made.name, made.domain, made.constant_diagonal, made.positive_definite) == ("named", "lds", False, False)
    assert (projection.name, first_state_overlap.name) == ("projection", "overlap")


def test_domain_is_looked_up_when_it_is_needed(data, point):
    odd = ms.kernel(first_state_overlap.pair_function, domain="no-such-domain")
    P = odd.pack(data)
    assert odd.cross(P, P).shape == (5, 5)
    with pytest.raises(ValueError, match="no-such-domain"):
        odd.weighted(point, P, np.ones(5))


def test_no_items_raises_an_error():
    with pytest.raises(ValueError, match="the kernel overlap got no items"):
        first_state_overlap.pack([])


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (None, "NoneType None"),
        (1j, "complex 1j"),
        (np.nan, "float nan"),
        (np.eye(2), "an array of shape"),
        ("a", "str"),
    ],
)
def test_what_is_no_number_raises_an_error(data, point, value, got):
    odd = ms.kernel(lambda first, second: value, name="odd")
    P = odd.pack(data)
    for use in (lambda: odd.cross(P, P), lambda: odd.diag(P), lambda: odd.weighted(point, P, np.ones(5))):
        with pytest.raises(ValueError, match=f"the kernel odd returned {got}"):
            use()


def test_bad_weights_and_functions_raise_an_error(data, point):
    P = projection.pack(data)
    for beta in (np.ones(4), 1j * np.ones(5)):
        with pytest.raises(ValueError, match="pass 5 real numbers"):
            projection.weighted(point, P, beta)
    with pytest.raises(ValueError, match=r"ms\.kernel needs a function of two items, got 3"):
        ms.kernel(3)
