"""Every kernel on systems: 50 digits, conformance, finite differences, bad input; and what is special to each."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq_lds import Systems

SIZE = (6, 3)


def systems(N=5, m=SIZE[0], n=SIZE[1], seed=0, radius=(0.3, 0.95), norm=None):
    """Return random stable systems with first states; with `norm`, that is the largest singular value."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, n, n))
    size = np.abs(np.linalg.eigvals(A)).max(-1) if norm is None else np.linalg.norm(A, 2, axis=(1, 2)) / norm
    A *= ((rng.uniform(*radius, N) if norm is None else 1) / size)[:, None, None]
    return Systems(A, np.linalg.qr(rng.standard_normal((N, m, n)))[0], x1=rng.standard_normal((N, n)))


def stein(A1, A2, Q):
    """Solve A1' X A2 - X + Q = 0 with mpmath, as one linear system."""
    rows, columns = Q.rows, Q.cols
    system = mpmath.eye(rows * columns)
    for a, b, c, d in np.ndindex(rows, columns, rows, columns):
        system[a * columns + b, c * columns + d] -= A1[c, a] * A2[d, b]
    X = mpmath.lu_solve(system, mpmath.matrix([Q[a, b] for a in range(rows) for b in range(columns)]))
    return mpmath.matrix([[X[a * columns + b] for b in range(columns)] for a in range(rows)])


def cosines(first, second):
    """Return G11^-1 G12 G22^-1 G21, whose eigenvalues are the squared cosines."""
    (A1, C1), (A2, C2) = first[:2], second[:2]
    G12 = stein(A1, A2, C1.T * C2)
    return stein(A1, A1, C1.T * C1) ** -1 * G12 * stein(A2, A2, C2.T * C2) ** -1 * G12.T


def projection(first, second):
    product = cosines(first, second)
    return sum(product[i, i] for i in range(product.rows))


def martin(first, second):
    return mpmath.det(cosines(first, second))


EXACT = {
    "projection": ({}, projection),
    "martin": ({}, martin),
    "martin-rbf": ({"scale": 100.0}, lambda first, second: martin(first, second) ** (mpmath.mpf(1) / 100)),
}
CASES = [pytest.param(name, *case, id=name) for name, case in EXACT.items()]


def as_items(kernel, data):
    """Return systems with the parts that points of the kernel have."""
    first_state = len(kernel.manifold(*SIZE).shape) > 3
    return Systems(data.A, data.C, data.x1 if first_state else None)


@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_values_against_50_digits(name, params, exact):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    norm = 0.97 if name.startswith("symmetric") else None
    data = as_items(kernel, systems(4, norm=norm))
    P = kernel.pack(data)
    with mpmath.workdps(50):
        items = [tuple(mpmath.matrix(np.asarray(part).tolist()) for part in item) for item in data]
        expected = np.array([[float(exact(a, b)) for b in items] for a in items])
    np.testing.assert_allclose(kernel.cross(P, P), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(P), np.diag(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_conformance(name, params, exact):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    record = ms.hooks.get_record(ms.hooks.Kernel, name.split(":")[0]).resolved()
    report = ms.testing.check_kernel(kernel, invariances=record.invariances, positive_definite=kernel.positive_definite)
    report.raise_for_failure()


@pytest.mark.parametrize("part", ["weighted", "self_term"])
@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_gradients_have_slope_two_and_seven_digits(name, params, exact, part):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    if part == "self_term" and kernel.constant_diagonal:
        return
    rng = np.random.default_rng(1)
    manifold = kernel.manifold(*SIZE)
    point = manifold.random_point(rng)
    P, beta = kernel.pack(as_items(kernel, systems(7))), rng.standard_normal(7)
    fused = (lambda x: kernel.weighted(x, P, beta)) if part == "weighted" else kernel.self_term
    value, gradient = fused(point)
    for i in range(len(point)):  # every factor apart
        direction = rng.standard_normal(point[i].shape)
        slope = np.sum(gradient[i] * direction)

        def moved(h, i=i, direction=direction):
            return fused(tuple(p + h * direction if j == i else p for j, p in enumerate(point)))[0]

        errors = [abs(moved(h) - value - h * slope) for h in (1e-2, 1e-3, 1e-4)]
        assert all(np.log10(a / b) > 1.9 for a, b in pairwise(errors)), (i, errors)
        assert abs((moved(1e-5) - moved(-1e-5)) / 2e-5 - slope) <= 1e-7 * max(1, abs(slope))


@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_bad_items_are_refused(name, params, exact):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    A, C, x = 0.5 * np.eye(2), np.eye(3, 2), np.ones(2)
    with pytest.raises(ValueError, match=r"system 1 is unstable: A has spectral radius"):
        kernel.pack([(A, C, x), (3 * A, C, x)])
    with pytest.raises(ValueError, match=r"system 1 .*not finite"):
        kernel.pack([(A, C, x), (A, C * np.nan, x)])
    with pytest.raises(ValueError, match="no systems"):
        kernel.pack([])
    with pytest.raises(ValueError, match="pack systems first"):
        kernel.cross([(A, C, x)], kernel.pack([(A, C, x)]))
    with pytest.raises(ValueError, match="3 outputs on one side"):
        kernel.cross(kernel.pack([(A, C, x)]), kernel.pack([(A, np.eye(4, 2), x)]))


def test_martin_is_at_most_the_mean_projection_to_the_nth_power():
    data = systems(8)
    values = {name: ms.get_kernel(name) for name in ("projection", "martin")}
    P = values["projection"].pack(data)
    k_p, k_m = (values[name].cross(P, P) for name in ("projection", "martin"))
    assert np.all(k_m <= (k_p / 3) ** 3 + 1e-12) and np.all(k_m >= 0)


def test_martin_of_orthogonal_systems_is_zero_with_zero_gradient():
    """A singular product matrix: value 0, a finite gradient, a distance that is floored and announced."""
    A, C = 0.5 * np.eye(2), np.eye(4)
    items = [(A, C[:, :2]), (A, C[:, [0, 2]]), (A, C[:, 2:])]
    point = (np.full(2, 0.5), np.eye(2), C[:, :2])
    for name in ("martin", "martin-rbf"):
        kernel = ms.get_kernel(name)
        P = kernel.pack(items)
        np.testing.assert_allclose(kernel.cross(P, P), np.eye(3), atol=1e-15)
        value, gradient = kernel.weighted(point, P, [0.0, 1.0, 1.0])
        assert value == 0 and all(np.all(g == 0) for g in gradient)
        with pytest.warns(UserWarning, match="6 pairs have a singular product matrix"):
            d = kernel.distances(P, P)
        assert np.all(np.isfinite(d)) and d[0, 1] > 700 and abs(d[0, 0]) < 1e-12


def test_martin_distance_is_minus_the_logarithm():
    kernel = ms.get_kernel("martin")
    P = kernel.pack(systems(5))
    np.testing.assert_allclose(np.exp(-kernel.distances(P, P)), kernel.cross(P, P), rtol=1e-12)
    rbf = ms.get_kernel("martin-rbf", scale=7.0)
    np.testing.assert_allclose(rbf.cross(P, P), np.exp(-kernel.distances(P, P) / 7), rtol=1e-12)
    for scale in (0, -1.0, np.inf, "a"):
        with pytest.raises(ValueError, match="pass a number above 0"):
            ms.get_kernel("martin-rbf", scale=scale)


@pytest.mark.parametrize("name", ["projection", "martin"])
def test_single_precision_packs_half_and_loses_six_digits(name):
    data = systems(20, 40, 4)
    double, single = ms.get_kernel(name), ms.get_kernel(name, dtype="float32")
    P, Q = double.pack(data), single.pack(data)
    assert Q.Ct.dtype == np.float32 and Q.Ct.nbytes * 2 == P.Ct.nbytes
    K = single.cross(Q, Q)
    assert K.dtype == np.float64 and 0 < np.abs(K - double.cross(P, P)).max() < 1e-5
    point = double.manifold(40, 4).random_point(np.random.default_rng(0))
    (f, g), (value, gradient) = (k.weighted(point, R, np.ones(20)) for k, R in ((double, P), (single, Q)))
    assert abs(f - value) < 1e-5 * abs(f)
    for a, b in zip(g, gradient, strict=True):
        assert b.dtype == np.float64 and np.abs(a - b).max() < 1e-4
    with pytest.raises(ValueError, match="choose 'float64' or 'float32'"):
        ms.get_kernel(name, dtype="float16")


def test_the_packing_of_a_record_is_kept_as_long_as_the_record():
    data = systems(3)
    kernel = ms.get_kernel("projection")
    assert kernel.pack(data) is kernel.pack(data) is ms.get_kernel("martin").pack(data)
    assert kernel.pack(data) is not kernel.pack(data[:])
    assert kernel.pack(list(data)) is not kernel.pack(list(data))


def test_duplicate_systems_are_no_trouble():
    data = systems(2)
    twice = Systems.concatenate([data, data])
    for name in ("projection", "martin", "martin-rbf"):
        kernel = ms.get_kernel(name)
        P = kernel.pack(twice)
        K = kernel.cross(P, P)
        np.testing.assert_allclose(K[:2, 2:], K[:2, :2], rtol=0, atol=1e-12)


def test_packing_in_portions_is_packing_at_once(monkeypatch):
    from manifoldseq_lds import _output_normal

    data = systems(9)
    kernel = ms.get_kernel("projection")
    whole = kernel.pack(list(data))
    monkeypatch.setattr(_output_normal, "_PACK_BYTES", 8 * 3 * 9 * 2)
    parts = kernel.pack(list(data))
    np.testing.assert_allclose(kernel.cross(parts, parts), kernel.cross(whole, whole), rtol=0, atol=1e-13)
    bad = [*data, (2 * np.eye(3), np.eye(6, 3))]
    with pytest.raises(ValueError, match="system 9 is unstable"):
        kernel.pack(bad)
