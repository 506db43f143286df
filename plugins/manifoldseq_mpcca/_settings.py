"""Checks of settings that the estimators and the model share; one sentence each."""

from numbers import Integral, Real
from typing import Any

from ._parameters import Mixture
from ._starts import STARTS

COVARIANCE_TYPES = ("diag", "full")


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not valid: pass a whole number of at least {least}")


def check_number(name: str, value: Any, least: float = 0.0, most: float = float("inf"), open_: bool = False) -> None:
    """Refuse what is no number from `least` to `most`, or above `least` if `open_`."""
    good = isinstance(value, Real) and not isinstance(value, bool) and least <= float(value) <= most
    if not good or (open_ and value == least):
        above = f"above {least:g}" if open_ else f"of at least {least:g}"
        raise ValueError(f"{name}={value!r} is not valid: pass a number {above} and at most {most:g}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse what is none of the choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def check_problem(n_components: Any, n_latent: Any, covariance_type: Any, noise_floor: Any) -> None:
    """Refuse an invalid size or kind of mixture."""
    check_whole("n_components", n_components)
    check_whole("n_latent", n_latent, 0)
    check_choice("covariance_type", covariance_type, COVARIANCE_TYPES)
    check_number("noise_floor", noise_floor, 0.0, 1.0, open_=True)


def check_fits(sizes: tuple[int, ...], N: int, n_components: int, n_latent: int) -> None:
    """Refuse a mixture that is too large for views of these sizes and N rows."""
    if len(sizes) < 2 and n_latent:  # without a latent vector it is a mixture of Gaussians
        raise ValueError("one view was passed: pass at least two, as (X, Y) or as a list [X, Y], or n_latent=0")
    if n_components > N:
        raise ValueError(f"n_components={n_components} exceeds the {N} rows of the data: lower n_components")
    if n_latent > min(sizes):
        v = sizes.index(min(sizes))
        raise ValueError(f"n_latent={n_latent} exceeds the {min(sizes)} columns of view {v}: lower n_latent")


def check_same(mixture: Mixture, n_components: int, n_latent: int, full: bool) -> None:
    """Refuse to go on with a mixture that the settings no longer describe."""
    if (mixture.n_components, mixture.n_latent, mixture.full) != (n_components, n_latent, full):
        raise ValueError(f"the batches so far made {mixture!r}: keep its settings, or begin with a new estimator")


def check_init(init: Any, sizes: tuple[int, ...], n_components: int, n_latent: int, full: bool) -> None:
    """Refuse what is neither the name of a start nor a mixture of this size."""
    if not isinstance(init, Mixture):
        check_choice("init", init, STARTS)
        return
    wanted = (n_components, sizes, n_latent, full)
    if (init.n_components, init.views, init.n_latent, init.full) != wanted:
        kind = "full" if full else "diag"
        raise ValueError(f"init is {init!r}: pass a Mixture with K={n_components}, views={sizes}, d={n_latent}, {kind}")
