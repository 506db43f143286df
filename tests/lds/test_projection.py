"""The projection kernel against 50 digits, truncated observability matrices, closed forms, and finite differences."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_lds import Systems

KERNEL = ms.get_kernel("projection")
EQUIVALENT = ms.hooks.get_record(ms.hooks.KernelSpec, "projection").invariances
JORDAN = 0.6 * np.eye(3) + np.diag(np.ones(2), 1)


def systems(N, m, n, seed=0, radius=(0.3, 0.95)):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, n, n))
    A *= (rng.uniform(*radius, N) / np.abs(np.linalg.eigvals(A)).max(-1))[:, None, None]
    return Systems(A, np.linalg.qr(rng.standard_normal((N, m, n)))[0])


def kernel_value(first, second):
    P = KERNEL.pack([first, second])
    return KERNEL.cross(P, P)[0, 1]


def exact(first, second):
    """Return (5) with 50 digits: every Gramian by its Kronecker system."""
    with mpmath.workdps(50):

        def gramian(one, two):
            (A1, C1), (A2, C2) = one, two
            n = A1.rows
            Q = C1.T * C2
            system = mpmath.eye(n * n)
            for a, b, c, d in np.ndindex(n, n, n, n):
                system[a * n + b, c * n + d] -= A1[c, a] * A2[d, b]
            X = mpmath.lu_solve(system, mpmath.matrix([Q[a, b] for a, b in np.ndindex(n, n)]))
            return mpmath.matrix([[X[a * n + b] for b in range(n)] for a in range(n)])

        x, y = ((mpmath.matrix(A.tolist()), mpmath.matrix(C.tolist())) for A, C in (first, second))
        G12 = gramian(x, y)
        product = gramian(x, x) ** -1 * G12 * gramian(y, y) ** -1 * G12.T
        return float(sum(product[i, i] for i in range(product.rows)))


@pytest.mark.parametrize("radius", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_against_50_digits(radius, seed):
    first, second = systems(2, 5, 3, seed, (radius, radius + 1e-12))
    assert abs(kernel_value(first, second) - exact(first, second)) <= 1e-12


@pytest.mark.parametrize("scale", [1.0, 1.4])
def test_accuracy_for_defective_transitions(scale):
    C = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 5, 3)))[0]
    first, second = (JORDAN * scale, C[0]), (JORDAN.T * scale, C[1])
    assert abs(kernel_value(first, second) - exact(first, second)) <= 1e-12
    third = (np.diag(np.ones(2), 1) * 0.9, C[0])  # nilpotent
    assert abs(kernel_value(third, second) - exact(third, second)) <= 1e-12


@pytest.mark.parametrize("coupling", [0.01, 0.1, 0.5])
@pytest.mark.parametrize(("n", "m"), [(3, 5), (5, 8), (10, 20)])
def test_accuracy_for_defective_transitions_near_the_unit_circle(n, m, coupling):
    A = 0.999 * np.eye(n) + np.diag(np.full(n - 1, coupling), 1)
    for seed in range(10):
        C = np.linalg.qr(np.random.default_rng(seed).standard_normal((2, m, n)))[0]
        P = KERNEL.pack([(A, C[0]), (A.T, C[1]), (0.9 * A, C[1])])
        assert np.abs(np.diag(KERNEL.cross(P, P)) - n).max() <= (1e-12 if n < 10 else 3e-12) * n
    if n == 3:
        assert abs(KERNEL.cross(P, P)[0, 1] - exact((A, C[0]), (A.T, C[1]))) <= 1e-12 * n


def test_equals_the_angles_of_truncated_observability_subspaces():
    data = systems(4, 6, 3, seed=2, radius=(0.9, 0.9 + 1e-12))
    frames = [np.linalg.qr(np.concatenate([C @ np.linalg.matrix_power(A, t) for t in range(400)]))[0] for A, C in data]
    P = KERNEL.pack(data)
    expected = [[np.linalg.norm(a.T @ b) ** 2 for b in frames] for a in frames]
    np.testing.assert_allclose(KERNEL.cross(P, P), expected, rtol=0, atol=1e-12)


def test_equals_the_closed_form_for_diagonal_transitions():
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-0.98, 0.98, (2, 4))
    C1, C2 = np.linalg.qr(rng.standard_normal((2, 6, 4)))[0]
    expected = np.sum((C1.T @ C2) ** 2 * np.outer(1 - a**2, 1 - b**2) / (1 - np.outer(a, b)) ** 2)
    assert abs(kernel_value((np.diag(a), C1), (np.diag(b), C2)) - expected) <= 1e-12


@pytest.mark.parametrize("transform", EQUIVALENT.values(), ids=EQUIVALENT)
def test_invariant_under_p_equivalence(transform):
    data = systems(6, 7, 4, seed=4)
    P, moved = KERNEL.pack(data), KERNEL.pack([transform(item) for item in data])
    np.testing.assert_allclose(KERNEL.cross(P, moved), KERNEL.cross(P, P), rtol=0, atol=1e-12)


def test_invariant_under_every_change_of_basis():
    data = systems(5, 7, 3, seed=5)
    T = np.random.default_rng(0).standard_normal((3, 3))
    moved = [(T @ A @ np.linalg.inv(T), C @ np.linalg.inv(T)) for A, C in data]
    P = KERNEL.pack(data)
    np.testing.assert_allclose(KERNEL.cross(P, KERNEL.pack(moved)), KERNEL.cross(P, P), rtol=0, atol=1e-11)


def test_gram_matrix_has_the_properties_of_a_kernel():
    P = KERNEL.pack(systems(40, 8, 4, seed=6))
    K = KERNEL.cross(P, P)
    np.testing.assert_allclose(np.diag(K), 4, rtol=0, atol=1e-12)
    assert np.array_equal(KERNEL.diag(P), np.full(40, 4.0))
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12)
    assert K.min() >= 0 and K.max() <= 4 + 1e-12
    assert np.linalg.eigvalsh(K).min() >= -1e-12


def test_slow_and_fast_systems_meet():
    data = systems(3, 5, 3, seed=7, radius=(0.001, 0.002))
    slow = systems(3, 5, 3, seed=8, radius=(0.9999, 0.99991))
    P, Q = KERNEL.pack(data), KERNEL.pack(slow)
    both = KERNEL.pack([*data, *slow])
    np.testing.assert_allclose(KERNEL.cross(P, Q), KERNEL.cross(both, both)[:3, 3:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(KERNEL.cross(Q, P), KERNEL.cross(P, Q).T, rtol=0, atol=1e-12)


def test_blocks_and_executors_change_no_value():
    """More systems than one task takes on either side, against a few at a time."""
    P, Q = KERNEL.pack(systems(70, 6, 3, seed=9)), KERNEL.pack(systems(4000, 6, 3, seed=10))
    blocks = KERNEL.cross(P, Q)
    for i in (0, 31, 32, 63, 64, 69):
        for j in range(0, 4000, 100):
            np.testing.assert_allclose(
                blocks[i, j : j + 100], KERNEL.cross(P[[i]], Q[j : j + 100])[0], rtol=0, atol=1e-13
            )
    with ms.execution.using("threads", 2):
        assert np.array_equal(KERNEL.cross(P, Q), blocks)


def test_packed_systems_are_indexed_by_rows():
    data = systems(6, 5, 2, seed=11)
    P = KERNEL.pack(data)
    K = KERNEL.cross(P, P)
    for rows in ([4, 0, 4], slice(1, 5, 2), np.arange(6) % 2 == 0, np.array([], dtype=int)):
        assert len(P[rows]) == len(np.arange(6)[rows])
        np.testing.assert_allclose(KERNEL.cross(P[rows], P), K[rows], rtol=0, atol=1e-13)
    assert len(P[2]) == 1
    np.testing.assert_allclose(KERNEL.cross(P[2], P)[0], K[2], rtol=0, atol=1e-13)


def test_bad_items_are_named():
    A, C = 0.5 * np.eye(2), np.eye(3, 2)
    with pytest.raises(ValueError, match=r"system 1 is unstable: A has spectral radius 1\.25.*stabilize the system"):
        KERNEL.pack([(A, C), (2.5 * A, C)])
    with pytest.raises(ValueError, match=r"system 1 has .* C of shape \(4, 2\).*2 states and 3 outputs"):
        KERNEL.pack([(A, C), (A, np.eye(4, 2))])
    with pytest.raises(ValueError, match="system 1 is not observable"):
        KERNEL.pack([(A, C), (A, 0 * C)])
    for items in ("abc", None, [3], [(1, 2)], [(A * 1j, C)], [(A, C * 1j)], Systems([A], [C])[[]]):
        with pytest.raises(ValueError, match=r"system|item 0|complex128"):
            KERNEL.pack(items)
    with pytest.raises(ValueError, match="cross got Systems, not packed systems"):
        KERNEL.cross(Systems([A], [C]), KERNEL.pack([(A, C)]))


def problem(N=7, m=6, n=3, seed=0):
    rng = np.random.default_rng(seed)
    point = KERNEL.manifold(m, n).random_point(rng)
    return point, systems(N, m, n, seed), rng.standard_normal(N), tuple(rng.standard_normal(p.shape) for p in point)


@pytest.mark.parametrize("size", [(7, 6, 3), (1, 3, 1), (40, 12, 5)])
def test_weighted_value_is_the_weighted_row(size):
    point, data, beta, _ = problem(*size)
    P = KERNEL.pack(data)
    row = KERNEL.cross(KERNEL.pack([(point[0][:, None] * point[1], point[2])]), P)
    assert abs(KERNEL.weighted(point, P, beta)[0] - row[0] @ beta) <= 1e-12 * np.abs(beta).sum()


@pytest.mark.parametrize("size", [(7, 6, 3), (1, 3, 1), (40, 12, 5)])
def test_weighted_gradient_has_slope_two_and_seven_digits(size):
    point, data, beta, direction = problem(*size)
    P = KERNEL.pack(data)
    value, gradient = KERNEL.weighted(point, P, beta)
    for i in range(3):  # Lambda, V, U apart

        def moved(h, i=i):
            there = tuple(p + h * d if j == i else p for j, (p, d) in enumerate(zip(point, direction, strict=True)))
            return KERNEL.weighted(there, P, beta)[0]

        slope = np.sum(gradient[i] * direction[i])
        errors = [abs(moved(h) - value - h * slope) for h in (1e-2, 1e-3, 1e-4)]
        assert all(np.log10(a / b) > 1.9 for a, b in pairwise(errors))
        assert abs((moved(1e-5) - moved(-1e-5)) / 2e-5 - slope) <= 1e-7 * max(1, abs(slope))


def test_weighted_in_blocks_is_the_same():
    """More systems than one block takes, against the sum over fifty at a time."""
    point, data, beta, _ = problem(6000)
    P = KERNEL.pack(data)
    value, gradient = KERNEL.weighted(point, P, beta)
    parts = [KERNEL.weighted(point, P[i : i + 50], beta[i : i + 50]) for i in range(0, 6000, 50)]
    assert abs(value - sum(part for part, _ in parts)) <= 1e-12 * np.abs(beta).sum()
    for i, whole in enumerate(gradient):
        np.testing.assert_allclose(whole, sum(part[i] for _, part in parts), rtol=0, atol=1e-12 * np.abs(beta).sum())


def test_gradient_is_that_of_the_kernel_up_to_a_normal_vector():
    """Autograd of (5) with the Gramian of (A, C) itself: the same in Lambda and V, and in the Cayley generator of U."""
    import autograd
    import autograd.numpy as anp

    point, data, beta, _ = problem()

    def cost(x, outputs):
        A, C = x[0][:, None] * x[1], x[2]
        inverse = anp.linalg.inv(ms.linalg.stein(A, A, outputs(C)))
        total = 0.0
        for b, (A2, C2) in zip(beta, data, strict=True):
            G12 = ms.linalg.stein(A, A2, anp.dot(C.T, C2))
            G22 = np.linalg.inv(ms.linalg.gramians(A2, C2))
            total = total + b * anp.trace(anp.dot(anp.dot(inverse, G12), anp.dot(G22, G12.T)))
        return total

    _, gradient = KERNEL.weighted(point, KERNEL.pack(data), beta)
    for a, b in zip(gradient, autograd.grad(cost)(point, lambda C: np.eye(3)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    full = autograd.grad(cost)(point, lambda C: anp.dot(C.T, C))
    for a, b in zip(gradient[:2], full[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    U = point[2]
    np.testing.assert_allclose(gradient[2] @ U.T - U @ gradient[2].T, full[2] @ U.T - U @ full[2].T, rtol=0, atol=1e-12)
    assert np.abs(gradient[2] - full[2]).max() > 1e-3


def test_gradient_follows_the_dtype_of_the_point():
    point, data, beta, _ = problem()
    P = KERNEL.pack(data)
    single = tuple(p.astype(np.float32) for p in point)
    value, gradient = KERNEL.weighted(single, P, beta)
    expected, exact = KERNEL.weighted(tuple(p.astype(float) for p in single), P, beta)
    assert isinstance(value, float) and value == pytest.approx(expected, rel=1e-6)
    for a, b in zip(gradient, exact, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_no_systems_weigh_nothing():
    point, data, *_ = problem()
    value, gradient = KERNEL.weighted(point, KERNEL.pack(data)[[]], [])
    assert value == 0 and all(not g.any() for g in gradient)


def test_a_point_off_the_manifold_raises_an_error():
    point, data, beta, _ = problem()
    with pytest.raises(ValueError, match="the point is unstable"):
        KERNEL.weighted((point[0] * 0 + 1.0, *point[1:]), KERNEL.pack(data), beta)


def test_weights_and_points_of_another_shape_raise_an_error():
    point, data, beta, _ = problem()
    P = KERNEL.pack(data)
    for bad, weights in ((point, beta[:3]), ((*point[:2], point[2][:4]), beta), (point, beta[:, None])):
        with pytest.raises(ValueError, match=r"pass beta of shape \(7,\) and U of shape"):
            KERNEL.weighted(bad, P, weights)
    with pytest.raises(ValueError, match="beta has dtype complex128"):
        KERNEL.weighted(point, P, 1j * beta)


def test_the_gradient_at_an_integer_point_is_not_rounded():
    _, data, beta, _ = problem()
    P, point = KERNEL.pack(data), (np.zeros(3), np.eye(3), np.eye(6, 3))
    for a, b in zip(
        KERNEL.weighted(tuple(p.astype(int) for p in point), P, beta)[1],
        KERNEL.weighted(point, P, beta)[1],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
