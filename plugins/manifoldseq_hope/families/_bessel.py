"""Modified Bessel functions for von Mises-Fisher densities: logarithms, ratios, and the concentration by inversion."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ive

from manifoldseq.estimators import check_choice, check_number, check_whole, quoted

Array = NDArray[np.float64]

METHODS = ("exact", "paper")
_TINY = 1e-290
"""Below this value `ive` is inaccurate and the power series (64) is used, whose terms are all positive."""
_HUGE = 1e8
"""Above this argument, the first terms of the expansion for large arguments are exact up to rounding."""
_LARGE = 200
"""Order from which the uniform expansion with six terms is exact up to rounding; `ive` returns NaN at high orders."""
_TERMS = 6
_LARGE_RATIO, _TERMS_RATIO = 20, 14
"""Order for ratios, with more terms; lower orders follow by recursion. Ratios of `ive` have errors up to 2e-13."""


def _debye(terms: int) -> tuple[tuple[float, ...], ...]:
    """Return c of u_k(t) = t^k sum_i c_i t^(2i), exactly rounded, for k up to the number of terms.

    ``u_(k+1) = t^2 (1 - t^2) / 2 u_k' + 1/8 * integral of (1 - 5 s^2) u_k from 0 to t``, monomial by monomial.
    """
    found = [[Fraction(1)]]
    for k in range(terms):
        following = [Fraction(0)] * (k + 2)
        for i, c in enumerate(found[-1]):
            # of the monomial c t^p, p = k + 2i: the derivative gives c p (t^(p+1) - t^(p+3)) / 2, the integral
            # c (t^(p+1) / (p + 1) - 5 t^(p+3) / (p + 3)) / 8
            power = k + 2 * i
            following[i] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            following[i + 1] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        found.append(following)
    return tuple(tuple(map(float, coefficients)) for coefficients in found)


_U = np.array([np.pad(row, (0, _TERMS_RATIO + 1 - len(row))) for row in _debye(_TERMS_RATIO)])
"""Row k contains the coefficients c of u_k."""


_CANCELS = 1e3
"""Multiple of M from which the terms of A' suffer from cancellation."""


def log_bessel(order: float, kappa: Any, method: str = "exact") -> Array:
    """Return ln I_order(kappa), the logarithm of the modified Bessel function of the first kind.

    Equivalent to ``np.log(scipy.special.iv(order, kappa))`` if `iv` neither overflows nor underflows.

    Parameters
    ----------
    order : float
        At least -1/2.
    kappa : array-like
        At least zero.
    method : {"exact", "paper"}
        ``"exact"``: `scipy.special.ive` below order 200, replaced by the power series (64) where it underflows, and the
        uniform expansion with six terms from order 200 on. The error is about 1e-14 times the larger of 1 and the
        value, for orders up to 5e5 and kappa up to 1e8. Near a zero of the logarithm, the error equals the effect of
        rounding kappa. ``"paper"``: the leading term (68) of the uniform expansion. For orders up to zero, where (68)
        divides by zero, the value is exact.

    Returns
    -------
    ndarray of the shape of `kappa`

    Raises
    ------
    ValueError
        If the order or kappa is out of range, or the method is unknown. NaN in kappa yields NaN.

    Examples
    --------
    >>> from manifoldseq_hope import log_bessel
    >>> float(log_bessel(9.0, 1e-3).round(6))
    -81.20995
    >>> float(log_bessel(9.0, 1e4).round(6))
    9994.471854
    """
    check_number("order", order, -0.5)
    check_choice("method", method, METHODS)
    kappa, infinite = _finite(_within("kappa", kappa))
    return np.where(infinite, np.inf, _log_bessel(order, kappa, method))


def _log_bessel(order: float, kappa: Array, method: str) -> Array:
    if method == "paper" and order > 0:
        return _expanded(order, kappa, terms=0)
    if order == -0.5:  # the sphere of dimension zero: sqrt(2 / (pi kappa)) cosh kappa
        with np.errstate(divide="ignore"):
            return kappa + np.log1p(np.exp(-2 * kappa)) - np.log(2) + 0.5 * np.log(2 / (np.pi * kappa))
    if order >= _LARGE:
        return _expanded(order, kappa, _TERMS)
    # ive is exp(-kappa) I; where it underflows the power series takes over, beyond _HUGE the expansion for large
    # arguments
    scaled = ive(order, np.minimum(kappa, _HUGE))
    good = scaled > _TINY
    with np.errstate(divide="ignore"):
        found = np.log(scaled) + kappa
        if not np.all(good):
            found = np.where(good, found, _log_series(order, np.where(good, 1.0, np.minimum(kappa, _HUGE))))
    if np.any(kappa > _HUGE):
        far = kappa - 0.5 * np.log(2 * np.pi * kappa) - (4 * order**2 - 1) / (8 * kappa)
        found = np.where(kappa > _HUGE, far, found)
    return found


def _within(name: str, value: Any, most: float = np.inf) -> Array:
    """Return values in double precision; raise ValueError below zero and above the maximum. NaN is accepted."""
    value = np.asarray(value, dtype=np.float64)
    outside = (value < 0) | (value > most)
    if np.any(outside):
        above = "" if most == np.inf else f" and at most {most:g}"
        raise ValueError(f"{name} has {value[outside].flat[0]:g}: pass values of at least 0{above}")
    return value


def _finite(kappa: Array) -> tuple[Array, Array]:
    """Return values with infinity replaced by 1, and the mask of the replaced values."""
    infinite = np.isinf(kappa)
    return np.where(infinite, 1.0, kappa), infinite


def _log_series(order: float, kappa: Array) -> Array:
    """Return the logarithm of the power series (64)."""
    return order * np.log(kappa / 2) - gammaln(order + 1) + np.log(_series(order, kappa))


def _series(order: float, kappa: Array) -> Array:
    """Return the sum of (64) divided by its first term."""
    square, term = kappa * kappa / 4, np.ones_like(kappa)
    total, k = np.ones_like(kappa), 0
    while np.any(term > 1e-17 * total):
        k += 1
        term = term * square / (k * (order + k))
        total += term
    return total


def uniform_expansion(order: float, kappa: Any, terms: int = 3) -> Array:
    """Return ln I_order(kappa) by the uniform expansion for large orders (65)-(67).

    The relative error is of order ``order ** (-terms - 1)``.

    Parameters
    ----------
    order : float
        Above zero.
    kappa : array-like
        At least zero.
    terms : int
        Number of terms u_1, u_2, …, up to 6. The paper prints three; 0 gives (68).

    Returns
    -------
    ndarray of the shape of `kappa`

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> from manifoldseq_hope import log_bessel, uniform_expansion
    >>> [f"{abs(float(uniform_expansion(17.0, 50.0, terms) - log_bessel(17.0, 50.0))):.0e}" for terms in (0, 1, 2, 3)]
    ['2e-03', '1e-05', '1e-08', '7e-09']
    """
    check_number("order", order, open_=True)
    if terms not in range(_TERMS + 1):
        raise ValueError(f"terms={quoted(terms)} is not valid: pass a whole number from 0 to {_TERMS}")
    kappa, infinite = _finite(_within("kappa", kappa))
    return np.where(infinite, np.inf, _expanded(order, kappa, terms))


def _expanded(order: float, kappa: Array, terms: int) -> Array:
    """Return (65) with r^2 = order^2 + kappa^2, order * eta = r - order arsinh(order / kappa) and order * root = r."""
    # ln of exp(order eta) / sqrt(2 pi order root) (1 + sum u_k(t) / order^k), t = order / r
    r = np.hypot(order, kappa)
    with np.errstate(divide="ignore", over="ignore"):  # at kappa = 0, and next to it
        exponent = r - order * np.arcsinh(order / kappa)
    return exponent - 0.5 * np.log(2 * np.pi * r) + np.log1p(_correction(order, r, terms))


def _correction(order: float, r: Array, terms: int = _TERMS) -> Array:
    """Return the sum of u_k(t) / order^k at t = order / r from k = 1 on."""
    # u_k / order^k is r^-k times a polynomial in t^2
    k = np.arange(1, terms + 1)
    square = np.square(order / r)[..., None] ** np.arange(terms + 1)
    with np.errstate(over="ignore"):  # of powers of r, which divide
        return np.sum(square @ _U[1 : terms + 1, : terms + 1].T / r[..., None] ** k, axis=-1)


def bessel_ratio(M: int, kappa: Any, method: str = "exact") -> Array:
    """Return A_M(kappa) = I_(M/2)(kappa) / I_(M/2-1)(kappa), the length of the mean of a von Mises-Fisher distribution.

    Parameters
    ----------
    M : int
        Dimension of the space around the sphere.
    kappa : array-like
        At least zero.
    method : {"exact", "paper"}
        As in `log_bessel`. The relative error of ``"exact"`` is about 1e-15, for M up to 1e6 and kappa up to 1e8.

    Returns
    -------
    ndarray of the shape of `kappa`

    Examples
    --------
    In three dimensions, the ratio is coth(kappa) - 1 / kappa:

    >>> import numpy as np
    >>> from manifoldseq_hope import bessel_ratio
    >>> bool(np.isclose(bessel_ratio(3, 2.0), 1 / np.tanh(2.0) - 0.5, rtol=1e-14))
    True
    """
    check_whole("M", M)
    check_choice("method", method, METHODS)
    kappa = _within("kappa", kappa)
    if M == 1:
        return np.tanh(kappa)
    order = M / 2 - 1
    if method == "paper" and M > 2:
        positive = np.where(kappa > 0, np.minimum(kappa, _HUGE), 1.0)
        found = np.exp(log_bessel(M / 2, positive, method) - log_bessel(order, positive, method))
        found = np.where(kappa > _HUGE, 1 - (M - 1) / (2 * np.maximum(kappa, _HUGE)), found)
        return np.where(kappa > 0, found, np.where(np.isnan(kappa), np.nan, 0.0))
    # 1 / A = 2 (order + 1) / kappa + that of the next order, in which an error is A^2 times as large
    steps = max(0, int(np.ceil(_LARGE_RATIO - order)))
    found = _ratio_of_expansions(order + steps, kappa)
    with np.errstate(divide="ignore", over="ignore"):
        for n in range(steps, 0, -1):
            found = 1 / (2 * (order + n) / kappa + found)
    return found


def _ratio_of_expansions(order: float, kappa: Array) -> Array:
    """Return I_(order+1) / I_order; differences of large terms are simplified before they are evaluated."""
    # the difference of the two exponents of (65); `rise` is above - here, by the difference of their squares
    here, above = np.hypot(order, kappa), np.hypot(order + 1, kappa)
    terms = _TERMS if order >= _LARGE else _TERMS_RATIO
    with np.errstate(divide="ignore", over="ignore"):  # at kappa = 0, and next to it
        rise, slope = (2 * order + 1) / (above + here), (order + 1) / kappa
    exponent = rise - order * np.log1p((1 + rise) / (order + here)) - 0.5 * np.log1p(rise / here)
    exponent += np.log1p(_correction(order + 1, above, terms)) - np.log1p(_correction(order, here, terms))
    return np.exp(exponent) / (slope + np.hypot(slope, 1.0))  # exp(-arsinh(slope))


def log_normalizer(M: int, kappa: Any, method: str = "exact") -> Array:
    """Return ln C_M(kappa) (10), the logarithm of the constant of a von Mises-Fisher density.

    Parameters
    ----------
    M : int
    kappa : array-like
        At least zero; at zero the density is uniform, at infinity the logarithm is minus infinity.
    method : {"exact", "paper"}

    Returns
    -------
    ndarray of the shape of `kappa`

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import log_normalizer
    >>> bool(np.isclose(log_normalizer(3, 2.0), np.log(2 / (4 * np.pi * np.sinh(2.0))), rtol=1e-14))
    True
    """
    check_whole("M", M)
    check_choice("method", method, METHODS)
    kappa, infinite = _finite(_within("kappa", kappa))
    return np.where(infinite, -np.inf, _log_normalizer(M / 2 - 1, kappa, method))


def _log_normalizer(s: float, kappa: Array, method: str) -> Array:
    if method == "exact" and s >= _LARGE:  # s ln kappa + s arsinh(s / kappa) of (65) is s ln(s + r)
        r = np.hypot(s, kappa)
        found = s * np.log((s + r) / (2 * np.pi)) - r - np.log(2 * np.pi)
        return found + 0.5 * np.log(2 * np.pi * r) - np.log1p(_correction(s, r))
    # ln C_M = s ln kappa - (s + 1) ln 2 pi - ln I_s(kappa) (10); at kappa = 0 it is that of the uniform density
    small = kappa < 1e-12
    k = np.where(small, 1.0, kappa)
    found = s * np.log(k) - (s + 1) * np.log(2 * np.pi) - _log_bessel(s, k, method)
    return np.where(small, gammaln(s + 1) - np.log(2) - (s + 1) * np.log(np.pi), found)


def concentration(M: int, length: Any, largest: float = np.inf) -> Array:
    """Return the kappa with A_M(kappa) = length, the norm of the mean of a von Mises-Fisher distribution.

    Newton's method starts at the approximation of Banerjee et al. (2005) and stays between the bounds of Amos (1974).
    The relative error is a few rounding units divided by ``1 - length``, which is the effect of rounding the length.

    Parameters
    ----------
    M : int
    length : array-like
        In [0, 1].
    largest : float
        Upper bound of the result; a length of 1 gives this value.

    Returns
    -------
    ndarray of the shape of `length`

    Examples
    --------
    >>> from manifoldseq_hope import bessel_ratio, concentration
    >>> concentration(20, bessel_ratio(20, [0.1, 10.0, 1000.0])).round(6).tolist()
    [0.1, 10.0, 1000.0]
    """
    check_whole("M", M)
    if largest != np.inf:
        check_number("largest", largest)
    length = _within("length", length, 1.0)
    r = np.minimum(length, 1 - 2.0**-53)
    if M == 1:
        return np.where(length >= 1, largest, np.minimum(np.arctanh(r), largest))
    gap = (1 - r) * (1 + r)
    low, high = r * max(M - 2, 0) / gap, r * M / gap  # Amos: (M - 2) r / (1 - r^2) < kappa < M r / (1 - r^2)
    low, high = np.minimum(low, 2 * largest), np.minimum(high, 2 * largest)
    kappa = np.minimum(r * (M - r * r) / gap, high)
    # Newton's method with A' = 1 - A² - (M - 1) A / kappa; where that cancels, with the derivative of the bound
    # kappa / (s + root) of Amos, root² = s² + kappa², which is A' up to terms of order 1 / kappa
    s = (M - 1) / 2
    for _ in range(8):
        A, positive = bessel_ratio(M, kappa), np.where(kappa > 0, kappa, 1.0)
        root = np.hypot(s, kappa)
        slope = np.where(kappa > _CANCELS * M, s / (root * (s + root)), 1 - A * A - 2 * s * A / positive)
        step = np.where(kappa > 0, (A - r) / slope, 0.0)
        kappa = np.clip(kappa - step, low, high)
        if np.all(np.abs(step) <= 1e-8 * kappa):  # the next one would be below rounding
            break
    kappa = np.where(length >= 1, largest, kappa)
    return np.minimum(kappa, largest)
