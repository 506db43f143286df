"""Every kernel on systems: 50 digits, conformance, finite differences, bad input; and what is special to each."""

from itertools import combinations, pairwise

import mpmath
import numpy as np
import pytest
from helpers import parametrize

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


def grassmann(first, second):
    def gramian(one, two):
        (A1, C1), (A2, C2) = one[:2], two[:2]
        return sum(((C1 * A1**t).T * (C2 * A2**t) for t in range(1, 3)), C1.T * C2)

    G12 = gramian(first, second)
    product = gramian(first, first) ** -1 * G12 * gramian(second, second) ** -1 * G12.T
    return sum(product[i, i] for i in range(product.rows))


def part_of(skew):
    def exact(first, second):
        sign = -1 if skew else 1
        return projection(*(((A + sign * A.T) / 2, C) for A, C in (first[:2], second[:2])))

    return exact


def discounted(first, second):
    """Return C1 M C2' of (20)."""
    (A1, C1, x1), (A2, C2, x2) = first, second
    root = mpmath.exp(-mpmath.mpf(0.1) / 2)
    return C1 * stein(root * A1.T, root * A2.T, x1 * x2.T) * C2.T


def binet_cauchy_trace(first, second):
    K = discounted(first, second)
    return sum(K[i, i] for i in range(K.rows))


def binet_cauchy_determinant(first, second):
    """Return the trace of the n-th compound of C1 M C2': the sum of its principal n-rowed minors."""
    K, n = discounted(first, second), first[0].rows
    rows = combinations(range(K.rows), n)
    return sum(mpmath.det(mpmath.matrix([[K[i, j] for j in chosen] for i in chosen])) for chosen in rows)


EXACT = {
    "projection": ({}, projection),
    "martin": ({}, martin),
    "martin-rbf": ({"scale": 100.0}, lambda first, second: martin(first, second) ** (mpmath.mpf(1) / 100)),
    "grassmann": ({"n_steps": 3}, grassmann),
    "symmetric-projection": ({}, part_of(skew=False)),
    "symmetric-projection:skew": ({"part": "skew"}, part_of(skew=True)),
    "symmetric-projection:both": (
        {"part": "both"},
        lambda first, second: (part_of(False)(first, second) + part_of(True)(first, second)) / 2,
    ),
    "binet-cauchy": ({}, binet_cauchy_determinant),
    "binet-cauchy:trace": ({"form": "trace"}, binet_cauchy_trace),
}
CASES = [pytest.param(name, *case, id=name) for name, case in EXACT.items()]


def as_items(kernel, data):
    """Return systems with the parts that points of the kernel have."""
    first_state = len(kernel.manifold(*SIZE).shape) > 3
    return Systems(data.A, data.C, data.x1 if first_state else None)


@parametrize(("name", "params", "exact"), CASES, fast=4)
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


@parametrize(("name", "params", "exact"), CASES, fast=3)
def test_conformance(name, params, exact):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    record = ms.hooks.get_record(ms.hooks.KernelSpec, name.split(":")[0]).resolved()
    report = ms.testing.check_kernel(
        kernel,
        None if record.example is None else record.example(np.random.default_rng(0)),
        invariances=record.invariances,
        positive_definite=kernel.positive_definite,
    )
    report.raise_for_failure()


def assert_gradient(fused, point, seed=2):
    """Assert that the Taylor remainder has slope two and central differences agree to 1e-7, for every factor apart."""
    rng = np.random.default_rng(seed)
    value, gradient = fused(point)
    for i in range(len(point)):
        direction = rng.standard_normal(point[i].shape)
        direction /= np.linalg.norm(direction)
        slope = np.sum(gradient[i] * direction)

        def moved(h, i=i, direction=direction):
            return fused(tuple(p + h * direction if j == i else p for j, p in enumerate(point)))[0]

        errors = [abs(moved(h) - value - h * slope) for h in (1e-2, 2e-3, 4e-4)]
        linear = errors[0] <= 1e-13 * max(1, abs(value))  # then there is no remainder
        assert linear or all(np.log(a / b) / np.log(5) > 1.9 for a, b in pairwise(errors)), (i, errors)
        assert abs((moved(1e-5) - moved(-1e-5)) / 2e-5 - slope) <= 1e-7 * max(1, abs(slope))


@pytest.mark.parametrize("part", ["weighted", "self_term"])
@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_gradients_have_slope_two_and_seven_digits(name, params, exact, part):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    if part == "self_term" and kernel.constant_diagonal:
        return
    rng = np.random.default_rng(1)
    point = kernel.manifold(*SIZE).random_point(rng)
    P, beta = kernel.pack(as_items(kernel, systems(7, norm=0.9))), rng.standard_normal(7)
    assert_gradient((lambda x: kernel.weighted(x, P, beta)) if part == "weighted" else kernel.self_term, point)


@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_bad_items_raise_an_error(name, params, exact):
    kernel = ms.get_kernel(name.split(":")[0], **params)
    A, C, x = 0.5 * np.eye(2), np.eye(3, 2), np.ones(2)
    with pytest.raises(ValueError, match=r"system 1 is unstable: A has spectral radius"):
        kernel.pack([(A, C, x), (3 * A, C, x)])
    with pytest.raises(ValueError, match=r"system 1 .*not finite"):
        kernel.pack([(A, C, x), (A, C * np.nan, x)])
    with pytest.raises(ValueError, match="no systems"):
        kernel.pack([])
    with pytest.raises(ValueError, match="not packed systems"):
        kernel.cross([(A, C, x)], kernel.pack([(A, C, x)]))
    with pytest.raises(ValueError, match="2 states and 3 outputs, the second systems have 2 and 4"):
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
        with pytest.warns(UserWarning, match="6 pairs of systems have a singular product matrix"):
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


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("projection", {}),
        ("martin", {}),
        ("grassmann", {}),
        ("symmetric-projection", {"part": "both"}),
        ("symmetric-projection", {"part": "skew"}),
        ("binet-cauchy", {}),
        ("binet-cauchy", {"form": "trace"}),
    ],
)
def test_single_precision_packs_half_and_loses_six_digits(name, options):
    data = systems(20, 40, 4, norm=0.95)
    double, single = ms.get_kernel(name, **options), ms.get_kernel(name, dtype="float32", **options)
    P, Q = double.pack(data), single.pack(data)
    assert Q.Ct.dtype in (np.float32, np.complex64) and Q.Ct.nbytes * 2 == P.Ct.nbytes
    K = single.cross(Q, Q)
    assert K.dtype == np.float64 and 0 < np.abs(K - double.cross(P, P)).max() < 1e-5 * max(1, np.abs(K).max())
    point = double.manifold(40, 4).random_point(np.random.default_rng(0))
    (f, g), (value, gradient) = (k.weighted(point, R, np.ones(20)) for k, R in ((double, P), (single, Q)))
    assert abs(f - value) < 1e-5 * abs(f)
    for a, b in zip(g, gradient, strict=True):
        assert b.dtype == np.float64 and np.abs(a - b).max() < 1e-4 * max(1, np.abs(a).max())
    with pytest.raises(ValueError, match="choose 'float64' or 'float32'"):
        ms.get_kernel(name, dtype="float16")


def test_duplicate_systems_are_no_trouble():
    data = systems(2)
    twice = Systems.concatenate([data, data])
    for name in ("projection", "martin", "martin-rbf"):
        kernel = ms.get_kernel(name)
        P = kernel.pack(twice)
        K = kernel.cross(P, P)
        np.testing.assert_allclose(K[:2, 2:], K[:2, :2], rtol=0, atol=1e-12)


def test_many_systems_are_packed_as_few_are():
    data = systems(500, m=100, n=10)
    kernel = ms.get_kernel("projection")
    parts = kernel.pack(list(data))
    for rows in ([0, 1, 2], [475, 476, 477], [497, 498, 499]):
        few = kernel.pack([data[i] for i in rows])
        np.testing.assert_allclose(kernel.cross(parts[rows], parts[rows]), kernel.cross(few, few), rtol=0, atol=1e-12)
    bad = [*data, (2 * np.eye(10), np.eye(100, 10))]
    with pytest.raises(ValueError, match="system 500 is unstable"):
        kernel.pack(bad)


@pytest.mark.parametrize(("name", "params", "exact"), CASES)
def test_matrix_of_systems_with_themselves_is_that_with_a_copy(name, params, exact, monkeypatch):
    # several tiles of 32 and, with small blocks, several panels: only those above the diagonal are computed
    monkeypatch.setattr("manifoldseq_lds.kernels._output_normal._CHUNK_BYTES", 2**10)
    kernel = ms.get_kernel(name.split(":")[0], **params)
    P = kernel.pack(systems(100, seed=3, norm=0.97 if name.startswith("symmetric") else None))
    K, expected = kernel.cross(P, P), kernel.cross(P, P[:])
    np.testing.assert_allclose(K, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_allclose(K[40:], kernel.cross(P[40:], P), rtol=1e-9, atol=1e-11 * np.abs(expected).max())


def test_binet_cauchy_with_fewer_outputs_than_states_is_the_printed_determinant():
    """(20) for m < n: values with 50 digits and gradients; there is no manifold, because C cannot be orthonormal."""
    rng = np.random.default_rng(0)
    kernel, m, n = ms.get_kernel("binet-cauchy"), 2, 4
    A = rng.standard_normal((5, n, n))
    A *= 0.9 / np.linalg.norm(A, 2, axis=(1, 2))[:, None, None]
    items = list(zip(A, rng.standard_normal((5, m, n)), rng.standard_normal((5, n)), strict=True))
    P = kernel.pack(items)
    with mpmath.workdps(50):
        exact = [tuple(mpmath.matrix(part.tolist()) for part in item) for item in items]
        expected = np.array([[float(mpmath.det(discounted(a, b))) for b in exact] for a in exact])
    np.testing.assert_allclose(kernel.cross(P, P), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(P), np.diag(expected), rtol=1e-12, atol=1e-12)
    point = (rng.uniform(0.1, 0.9, n), np.linalg.qr(rng.standard_normal((n, n)))[0], *items[0][1:])
    beta = rng.standard_normal(5)
    assert_gradient(lambda x: kernel.weighted(x, P, beta), point)
    assert_gradient(kernel.self_term, point)
    with pytest.raises(ValueError, match="state dimension n cannot exceed the output dimension m"):
        kernel.manifold(m, n)


def test_binet_cauchy_trace_is_the_discounted_sum_of_outputs():
    data = systems(3)
    kernel = ms.get_kernel("binet-cauchy", form="trace", decay=0.2)
    outputs = [
        np.array([np.exp(-0.1 * t) * C @ np.linalg.matrix_power(A, t) @ x for t in range(400)]).ravel()
        for A, C, x in data
    ]
    P = kernel.pack(data)
    np.testing.assert_allclose(kernel.cross(P, P), np.array(outputs) @ np.array(outputs).T, rtol=1e-12, atol=1e-12)


def test_binet_cauchy_gradient_of_a_singular_matrix_is_the_adjugate():
    """A zero first state makes M = 0; with n = 1 the determinant is linear in it, with n = 2 its gradient vanishes."""
    kernel = ms.get_kernel("binet-cauchy")
    for n in (1, 2):
        data = systems(3, 4, n)
        P = kernel.pack(data)
        point = (np.full(n, 0.5), np.eye(n), np.eye(4, n), np.zeros(n))
        assert_gradient(lambda x, P=P: kernel.weighted(x, P, np.ones(3)), point)


def test_binet_cauchy_rejects_what_it_cannot_use():
    kernel = ms.get_kernel("binet-cauchy")
    data = systems(2)
    with pytest.raises(
        ValueError, match="no first states x1, which the Binet-Cauchy kernel requires: pass Systems with x1"
    ):
        kernel.pack(Systems(data.A, data.C))
    with pytest.raises(ValueError, match="system 1 has no first state of shape"):
        kernel.pack([data[0], data[1][:2]])
    with pytest.raises(ValueError, match="system 0 has a first state that is not finite"):
        kernel.pack([(*data[0][:2], np.full(3, np.nan))])
    for bad in ({"form": "both"}, {"decay": -1}, {"decay": np.inf}):
        with pytest.raises(ValueError, match=r"is not known|is not valid"):
            ms.get_kernel("binet-cauchy", **bad)


def test_grassmann_with_many_steps_is_the_projection_kernel():
    data = systems(5)
    many, all_ = ms.get_kernel("grassmann", n_steps=600), ms.get_kernel("projection")
    P, Q = many.pack(data), all_.pack(data)
    np.testing.assert_allclose(many.cross(P, P), all_.cross(Q, Q), rtol=0, atol=1e-12)
    for steps in (0, 1.5, True):
        with pytest.raises(ValueError, match="pass a whole number"):
            ms.get_kernel("grassmann", n_steps=steps)


def test_symmetric_projection_is_the_projection_kernel_of_symmetric_systems():
    data = systems(5, norm=0.99)
    symmetric = Systems((data.A + data.A.swapaxes(1, 2)) / 2, data.C)
    kernel, full = ms.get_kernel("symmetric-projection"), ms.get_kernel("projection")
    P, Q, R = kernel.pack(data), kernel.pack(symmetric), full.pack(symmetric)
    np.testing.assert_allclose(kernel.cross(P, P), full.cross(R, R), rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel.cross(Q, P), kernel.cross(P, P), rtol=0, atol=1e-12)
    wild = Systems([[[0.5, 3.0], [0.0, 0.5]]], [np.eye(2)])
    with pytest.raises(ValueError, match="system 0 has a transition whose symmetric part has spectral radius 2"):
        kernel.pack(wild)
    with pytest.raises(ValueError, match="choose 'symmetric', 'skew', 'both'"):
        ms.get_kernel("symmetric-projection", part="all")


@pytest.mark.parametrize("scale", [1.0, 0.3, None])
def test_chi2_equals_its_definition_and_its_gradient(scale):
    kernel = ms.get_kernel("chi2", scale=scale)
    items = ms.hooks.get_domain("histograms").example(np.random.default_rng(0))
    P = kernel.pack(items)
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(float(v)) for v in h] for (h,) in items]
        d = [
            [sum((a - b) ** 2 / (a + b) for a, b in zip(x, y, strict=True) if a + b > 0) / 2 for y in rows]
            for x in rows
        ]
        value = (lambda v: 1 - v) if scale is None else (lambda v: mpmath.exp(-v / mpmath.mpf(scale)))
        expected = np.array([[float(value(v)) for v in row] for row in d])
    np.testing.assert_allclose(kernel.cross(P, P), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(kernel.pack(np.stack([h for (h,) in items])), P)
    point, beta = np.random.default_rng(1).dirichlet(np.ones(6)), np.array([1.0, -2.0, 0.5, 0.1, 3.0])

    def fused(x):
        value, gradient = kernel.weighted(x[0], P, beta)
        return value, (gradient,)

    assert_gradient(fused, (point,))
    check = ms.testing.check_kernel(kernel, items, domain="histograms")
    check.raise_for_failure()


def test_chi2_of_empty_bins_and_bad_histograms():
    kernel = ms.get_kernel("chi2", scale=None)
    P = kernel.pack(np.array([[0.0, 1.0, 0.0]]))
    value, gradient = kernel.weighted(np.array([0.0, 0.5, 0.5]), P, [1.0])
    assert value == pytest.approx(2 * 0.5 / 1.5) and np.all(np.isfinite(gradient))
    for bad, match in (
        (np.array([[0.5, -0.5]]), r"histogram 0 has -0.5 in bin 1"),
        (np.array([[0.5, np.nan]]), r"histogram 0 has nan in bin 1"),
        (np.ones(3), r"pass \(N, d\)"),
        ([(np.ones(3),), (np.ones(2),)], "different shapes"),
    ):
        with pytest.raises(ValueError, match=match):
            kernel.pack(bad)
    with pytest.raises(ValueError, match="pass a number above 0, or None"):
        ms.get_kernel("chi2", scale=0)
    with pytest.raises(ValueError, match="the first histograms have 3 bins, the second have 2"):
        kernel.cross(P, np.ones((1, 2)))
    with pytest.raises(ValueError, match="beta has shape"):
        kernel.weighted(np.ones(3), P, [1.0, 2.0])
