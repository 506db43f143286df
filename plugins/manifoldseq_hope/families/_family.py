"""The record `Family`: an exponential family of mixture components, as functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

Array = NDArray[Any]
Parameters = tuple[Any, ...]
"""Arrays with a leading axis of length K."""


@dataclass(frozen=True)
class Family:
    """An exponential family ``ln f(z | theta) = <t(z), natural> + offset`` on R^M, for the components of a mixture (7).

    A sweep over data needs only matrix products of t(z); everything else is done once per component. `check_family`
    tests that the functions are consistent with each other.

    Attributes
    ----------
    name : str
    names : tuple of str
        Names of the parameters.
    directional : bool
        Whether the density is defined on the unit sphere. If it is, z is scaled to unit length (30) by default.
    manifolds : callable
        ``manifolds(K, M)``: one manifold per parameter; the points of each manifold have a leading axis of length K, or
        are tuples of length K.
    statistics : callable
        ``statistics(Z)``: the sufficient statistics t(z) of rows, (b, M) -> (b, F), of the same dtype.
    pullback : callable
        ``pullback(Z, G)``: the sums over f of G_f dt_f/dz, (b, M), (b, F) -> (b, M).
    natural : callable
        ``natural(parameters, M)``: natural parameters (K, F) and offsets (K,), in float64.
    gradient : callable
        ``gradient(parameters, S, counts, M)``: the derivative of ``sum_k S_k . natural_k + counts_k offset_k`` with
        respect to every parameter.
    maximize : callable
        ``maximize(S, counts, M)``: the parameters that maximize this sum. They are finite for components without rows.
    start : callable
        ``start(S, counts, M)``: initial parameters from the statistics of clusters; all components have the same
        spread.
    centres : callable
        ``centres(parameters)``: the mode of each component, (K, M).
    rotate : callable
        ``rotate(S, counts, R)``: the statistics after z -> R z, (K, F) -> (K, F).
    sample : callable
        ``sample(parameters, labels, M, rng)``: one draw from the component named by each label, (n, M).
    capped : callable, optional
        ``capped(parameters)``: which components are at a bound that `maximize` keeps, (K,) bool.

    Examples
    --------
    >>> from manifoldseq_hope import gaussian, von_mises_fisher
    >>> von_mises_fisher().names, gaussian("diag").names
    (('mu',), ('means', 'variances'))
    """

    name: str
    names: tuple[str, ...]
    directional: bool
    manifolds: Callable[[int, int], tuple[ms.manifolds.Manifold, ...]]
    statistics: Callable[[Array], Array]
    pullback: Callable[[Array, Array], Array]
    natural: Callable[[Parameters, int], tuple[Array, Array]]
    gradient: Callable[[Parameters, Array, Array, int], Parameters]
    maximize: Callable[[Array, Array, int], Parameters]
    start: Callable[[Array, Array, int], Parameters]
    centres: Callable[[Parameters], Array]
    rotate: Callable[[Array, Array, Array], Array]
    sample: Callable[[Parameters, NDArray[np.intp], int, np.random.Generator], Array]
    capped: Callable[[Parameters], NDArray[np.bool_]] | None = None
