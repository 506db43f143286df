"""Bessel functions against mpmath, closed forms and quadrature."""

import mpmath
import numpy as np
import pytest
from helpers import parametrize
from scipy.integrate import quad
from scipy.special import gammaln

from manifoldseq_hope import bessel_ratio, concentration, log_bessel, log_normalizer, uniform_expansion

DIMENSIONS = [2, 3, 5, 20, 36, 100, 257, 802]
KAPPAS = [1e-3, 0.1, 1.0, 30.0, 150.0, 500.0, 1118.0, 1e4]


def exact(order, kappa):
    with mpmath.workdps(40):
        return mpmath.log(mpmath.besseli(mpmath.mpf(order), mpmath.mpf(kappa)))


@pytest.mark.parametrize("M", DIMENSIONS)
def test_logarithm_and_ratio_are_exact(M):
    for kappa in KAPPAS:
        value = exact(M / 2 - 1, kappa)
        assert abs(float(log_bessel(M / 2 - 1, kappa) - value)) <= 1e-13 * max(1.0, abs(float(value)))
        ratio = mpmath.exp(exact(M / 2, kappa) - value)
        assert abs(float(bessel_ratio(M, kappa) / ratio - 1)) <= 2e-15


def by_quadrature(order, kappa):
    """ln I by the trapezoidal rule on an integral over the real line, whose integrand is analytic: 40 digits."""
    with mpmath.workdps(50):
        order, kappa = mpmath.mpf(order), mpmath.mpf(kappa)
        n = 2 * order + 1
        top = mpmath.atanh(2 * kappa / (n + mpmath.sqrt(n * n + 4 * kappa**2)))
        width = 1 / mpmath.sqrt((2 * kappa * mpmath.tanh(top) + n) / mpmath.cosh(top) ** 2)

        def exponent(u):
            return kappa * mpmath.tanh(u) - n * mpmath.log(mpmath.cosh(u))

        highest, total = exponent(top), mpmath.mpf(1)
        for side in (-1, 1):
            term, j = mpmath.mpf(1), 0
            while term > 1e-42:
                j += side
                term = mpmath.exp(exponent(top + j * width / 4) - highest)
                total += term
        first = order * mpmath.log(kappa / 2) - mpmath.log(mpmath.pi) / 2 - mpmath.loggamma(order + 0.5)
        return first + highest + mpmath.log(total * width / 4)


def test_quadrature_is_that_of_mpmath():
    for order, kappa in [(9.0, 1e-3), (200.5, 30.0), (4999.0, 1e3)]:
        assert abs(by_quadrature(order, kappa) - exact(order, kappa)) < mpmath.mpf(10) ** -30


@parametrize("M", [2, 3, 20, 41, 42, 43, 201, 399, 401, 402, 403, 802, 4096, 10_000, 100_000, 1_000_000], fast=5)
def test_to_the_last_digits_in_every_dimension(M):
    """ln I, ln C, A; and the inverse as exactly as the length of the mean, rounded, tells the concentration."""
    for kappa in [1e-3, 1.0, 19.0, 199.0, 201.0, 1e3, 1e4, 3e5, 1e6, 1e7, 1e8]:
        with mpmath.workdps(50):
            k, s = mpmath.mpf(kappa), mpmath.mpf(M) / 2 - 1
            value = by_quadrature(s, kappa) if s else mpmath.log(mpmath.besseli(0, k))
            normalizer = s * mpmath.log(k) - (s + 1) * mpmath.log(2 * mpmath.pi) - value
            A = mpmath.exp(by_quadrature(s + 1, kappa) - value)
            length = float(A)
            told = k - (A - length) / (1 - A * A - (M - 1) * A / k)  # the concentration of the rounded length
        assert abs(float(log_bessel(M / 2 - 1, kappa)) - value) <= 1e-13 * max(1, abs(value)), kappa
        assert abs(float(log_normalizer(M, kappa)) - normalizer) <= 1e-13 * max(1, abs(normalizer)), kappa
        assert abs(float(bessel_ratio(M, kappa)) / A - 1) <= 2e-15, kappa
        assert abs(float(concentration(M, length)) / told - 1) <= 5 * 2.0**-52 / (1 - length), kappa


def test_no_step_where_the_way_of_computing_changes():
    kappa = np.array([1e-300, 1e-3, 5.0, 200.0, 1e4, 1e8, 1e12])
    for function in (lambda M: log_bessel(M / 2 - 1, kappa), lambda M: log_normalizer(M, kappa)):
        third = function(404) - 3 * function(403) + 3 * function(402) - function(401)
        scale = np.maximum(1, np.abs(function(402)))
        assert np.abs(third / scale).max() < 1e-6
    uniform = log_normalizer(5000, 0.0)
    assert uniform == pytest.approx(gammaln(2500) - np.log(2) - 2500 * np.log(np.pi), rel=1e-14)


def test_arrays_mix_the_ways_of_computing():
    kappa = np.array([[1e-3, 50.0], [1e4, 1e9]])
    expected = [[float(exact(400, k)) for k in row] for row in kappa]
    np.testing.assert_allclose(log_bessel(400.0, kappa), expected, rtol=1e-13)
    assert bessel_ratio(20, np.array([0.0, 1e12])).tolist() == [0.0, 1 - 19 / 2e12]


def test_three_dimensions_have_a_closed_form():
    kappa = np.array([1e-2, 1.0, 20.0])
    np.testing.assert_allclose(log_normalizer(3, kappa), np.log(kappa / (4 * np.pi * np.sinh(kappa))), rtol=1e-13)
    np.testing.assert_allclose(bessel_ratio(3, kappa), 1 / np.tanh(kappa) - 1 / kappa, rtol=1e-11)


@pytest.mark.parametrize("M", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0])
def test_density_integrates_to_one(M, kappa):
    c = np.exp(log_normalizer(M, kappa))
    if M == 1:
        total = c * 2 * np.cosh(kappa)
    else:
        area = 2 * np.pi ** ((M - 1) / 2) / np.exp(gammaln((M - 1) / 2))  # of the sphere across the direction
        total = quad(lambda t: c * area * np.exp(kappa * np.cos(t)) * np.sin(t) ** (M - 2), 0, np.pi, epsabs=1e-13)[0]
    assert total == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("M", [1, 2, 3, 20, 802, 1_000_000])
def test_ends_of_the_inverse(M):
    assert concentration(M, 0.0) == 0
    assert concentration(M, 1.0, 2000.0) == 2000 and concentration(M, 1.0) == np.inf
    lengths = np.concatenate([np.geomspace(1e-300, 0.5, 200), 1 - np.geomspace(0.5, 2.0**-53, 200)])
    kappa = concentration(M, lengths)
    assert np.isfinite(kappa).all()
    assert (np.diff(kappa[lengths < 1 - 1e-13]) >= 0).all()
    if M == 1:
        np.testing.assert_allclose(concentration(1, np.tanh([0.1, 1.0, 10.0])), [0.1, 1.0, 10.0], rtol=1e-7)


def test_series_and_expansion():
    """(64) by its sum, (65)-(67) with more terms are nearer, (68) is the expansion with none."""
    order, kappa = 9.0, 12.0
    terms = [(kappa / 2) ** (2 * k + order) / np.exp(gammaln(order + 1 + k) + gammaln(k + 1)) for k in range(60)]
    np.testing.assert_allclose(log_bessel(order, kappa), np.log(np.sum(terms)), rtol=1e-13)
    errors = [abs(float(uniform_expansion(order, kappa, n) - log_bessel(order, kappa))) for n in range(7)]
    assert errors[0] < 1e-2 and errors[1] < 2e-4 and errors[3] < errors[1] and errors[6] < errors[4]
    x = kappa / order
    root = np.sqrt(1 + x**2)
    printed = -np.log(np.sqrt(2 * np.pi * order)) + order * (root + np.log(x) - np.log(1 + root)) - np.log(root) / 2
    assert log_bessel(order, kappa, "paper") == pytest.approx(printed, rel=1e-14)
    assert bessel_ratio(20, 30.0, "paper") == pytest.approx(float(bessel_ratio(20, 30.0)), rel=1e-3)


@pytest.mark.parametrize(("order", "kappa"), [(120.0, 0.01), (150.0, 1.0), (199.0, 5.0), (199.5, 4.5)])
def test_series_where_the_function_underflows(order, kappa):
    """(64), summed as printed in 40 digits; the relative error is that of I, not of its logarithm."""
    with mpmath.workdps(40):
        x, s = mpmath.mpf(kappa) / 2, mpmath.mpf(order)
        total = sum(x ** (2 * k + s) / (mpmath.gamma(s + 1 + k) * mpmath.factorial(k)) for k in range(40))
        assert total < 1e-290
        assert abs(log_bessel(order, kappa) - mpmath.log(total)) < 1e-11
        above = sum(x ** (2 * k + s + 1) / (mpmath.gamma(s + 2 + k) * mpmath.factorial(k)) for k in range(40))
    assert bessel_ratio(int(2 * order + 2), kappa) == pytest.approx(float(above / total), rel=1e-12)


@pytest.mark.parametrize(("order", "kappa"), [(9.0, 12.0), (2.0, 1.5), (30.0, 4.0)])
def test_uniform_expansion_is_the_printed_one(order, kappa):
    """(65)-(67) with the three polynomials written out."""
    x = kappa / order
    t = 1 / np.sqrt(1 + x**2)  # (66)
    eta = np.sqrt(1 + x**2) + np.log(x / (1 + np.sqrt(1 + x**2)))  # (67)
    u = [
        1,
        (3 * t - 5 * t**3) / 24,
        (81 * t**2 - 462 * t**4 + 385 * t**6) / 1152,
        (30375 * t**3 - 369603 * t**5 + 765765 * t**7 - 425425 * t**9) / 414720,
    ]
    for terms in range(4):
        total = sum(u[k] / order**k for k in range(terms + 1))
        value = np.exp(order * eta) / (np.sqrt(2 * np.pi * order) * (1 + x**2) ** 0.25) * total
        assert uniform_expansion(order, kappa, terms) == pytest.approx(np.log(value), rel=1e-12)


def test_derivative_of_the_normalizer_is_minus_the_ratio():
    """(57), (58)."""
    for M in (2, 7, 50):
        slope = (log_normalizer(M, 8.0 + 1e-5) - log_normalizer(M, 8.0 - 1e-5)) / 2e-5
        assert -float(slope) == pytest.approx(float(bessel_ratio(M, 8.0)), rel=1e-8)


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (log_bessel, (-1.0, 2.0), "order=-1.0 is not valid"),
        (log_bessel, (9.0, [1.0, -2.0]), "kappa has -2: pass values of at least 0"),
        (log_bessel, (9.0, 2.0, "approximate"), "method='approximate' is not known"),
        (uniform_expansion, (0.0, 2.0), "order=0.0 is not valid"),
        (uniform_expansion, (9.0, 2.0, 7), "terms=7 is not valid"),
        (bessel_ratio, (0, 2.0), "M=0 is not valid"),
        (bessel_ratio, (3, -2.0), "kappa has -2"),
        (log_normalizer, (3, -2.0), "kappa has -2"),
        (concentration, (3, [0.5, 1.5]), "length has 1.5: pass values of at least 0 and at most 1"),
        (concentration, (2.5, 0.5), "M=2.5 is not valid"),
    ],
)
def test_what_is_outside_raises_an_error(function, arguments, said):
    with pytest.raises(ValueError, match=said):
        function(*arguments)


def test_limits():
    assert log_bessel(0.0, 0.0) == 0
    assert log_bessel(9.0, 0.0) == uniform_expansion(9.0, 0.0) == -np.inf
    assert log_bessel(-0.5, 0.0) == np.inf
    assert log_bessel(500.0, 0.0) == -np.inf and log_bessel(500.0, np.inf) == np.inf
    assert bessel_ratio(5000, 0.0) == 0 and bessel_ratio(5000, np.inf) == 1 and concentration(5000, 0.0) == 0
    for function in (log_bessel, bessel_ratio, log_normalizer, concentration):
        assert np.isnan(function(3, np.nan)) and np.isnan(function(5000, np.nan))
    np.testing.assert_allclose(log_bessel(-0.25, 3.0), float(exact(-0.25, 3.0)), rtol=1e-14)


@pytest.mark.parametrize("method", ["exact", "paper"])
@pytest.mark.parametrize("M", [1, 2, 3, 60, 450, 10**6])
def test_the_far_end_is_reached_without_a_warning(M, method):
    """Next to the largest numbers ln I and -ln C are kappa, to rounding; at infinity infinite."""
    far = [1e300, np.inf, np.nan]
    np.testing.assert_array_equal(log_normalizer(M, far, method), [-1e300, -np.inf, np.nan])
    np.testing.assert_array_equal(bessel_ratio(M, far, method), [1, 1, np.nan])
    np.testing.assert_array_equal(log_bessel(M / 2 - 1, far, method), far)
    np.testing.assert_array_equal(uniform_expansion(M, far, 3), far)
