"""Sizes of a model, K components in M dimensions, and what their parameters were called until the last release."""

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Self, TypeVar, cast

from sklearn.base import BaseEstimator

import manifoldseq as ms
from manifoldseq.estimators import quoted

F = TypeVar("F", bound=Callable[..., Any])


SPARSE_AXES = 100
"""The most axes that ``n_latent="auto"`` takes of sparse rows: what scikit-learn recommends for text."""


def latent_dimension(n_latent: Any, D: int, most: int) -> Any:
    """Return M for rows of D columns: half of them for ``"auto"``, but at most so many as the rows allow."""
    return max(1, min(D // 2, most)) if isinstance(n_latent, str) and n_latent == "auto" else n_latent


def old_sizes(function: F) -> F:
    """Take ``n_mixtures`` for ``n_components`` for one release, and raise where old and new names could be confused."""
    owner, parameters = function.__qualname__.removesuffix(".__init__"), signature(function).parameters
    places = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]

    @wraps(function)
    def taking(*args: Any, **given: Any) -> Any:
        if places[-1] == "n_components" and len(args) > len(places):
            M, K = args[len(places) - 1 : len(places) + 1]
            raise TypeError(f"{owner} takes its sizes by name: write n_components={quoted(K)}, n_latent={quoted(M)}")
        known = {**dict(zip(places, args, strict=False)), **given}
        K = given.pop("n_mixtures", None)
        if K is not None:
            if "n_latent" in known:
                raise TypeError(f"{owner}: n_mixtures is the old name of n_components: pass n_components alone")
            if "n_components" in known:
                M = known["n_components"]
                raise TypeError(
                    f"{owner}(n_components={quoted(M)}, n_mixtures={quoted(K)}) has the names of the last release: "
                    f"write n_components={quoted(K)}, n_latent={quoted(M)}"
                )
            M = parameters["n_latent"].default
            warnings.warn(
                f"{owner}: n_mixtures={quoted(K)} is n_components={quoted(K)}, n_latent={quoted(M)} now",
                DeprecationWarning,
                stacklevel=2,
            )
            given |= {"n_components": K, "n_latent": M}
        elif "n_components" in known and "n_latent" not in known:
            raise ValueError(_without_latent(owner, known["n_components"]))
        return function(*args, **given)

    return cast(F, taking)


class OldSizes(BaseEstimator):
    """What `old_sizes` is for ``__init__``, for ``set_params``: of grids, pipelines and the command line."""

    n_latent: int | str

    def set_params(self, **params: Any) -> Self:
        """Set parameters; for one release `n_components` is set with `n_latent`, unless that is a number."""
        if "n_components" in params and "n_latent" not in params and isinstance(self.n_latent, str):
            raise ValueError(_without_latent(type(self).__name__, params["n_components"]))
        return super().set_params(**params)


def _without_latent(owner: str, n_components: Any) -> str:
    return (
        f"{owner}: n_components={quoted(n_components)} is the number of mixture components now, which was n_mixtures, "
        "and n_latent the dimension of the projection, which was n_components: pass both, such as n_latent=20, or "
        "n_latent='auto' for half of the columns"
    )


def with_n_latent(parameters: dict[str, Any], attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was stored before ``n_latent`` was a parameter as it is stored now."""
    upgrade = ms.storage.renamed(n_components="n_latent", n_mixtures="n_components")
    parameters, attributes = upgrade(parameters, attributes)
    if "structure_" in attributes:  # of batches
        attributes["structure_"] = upgrade(attributes["structure_"], {})[0]
    return {**parameters, "n_latent": "auto" if parameters["n_latent"] is None else parameters["n_latent"]}, attributes
