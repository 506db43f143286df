"""New kernels from kernels: sums, products, normalized kernels, Gaussians of the distance."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._result import Tree
from ..hooks import get_domain, get_kernel
from ..hooks._kernels import Kernel, completed
from ..linalg import tree_map

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PackedParts:
    """Items in the packed forms of several kernels; indexed by rows like an array."""

    parts: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> PackedParts:
        return PackedParts(tuple(part[rows] for part in self.parts))


class _Several(ABC):
    """Base class of sums and products."""

    kernels: Sequence[Any]

    @property
    def domain(self) -> str:
        """What the items are."""
        return self.kernels[0].domain

    @property
    def constant_diagonal(self) -> bool:
        """Whether all kernels have a constant diagonal."""
        return all(k.constant_diagonal for k in self.kernels)

    @property
    def positive_definite(self) -> bool:
        """Whether all kernels are positive definite."""
        return all(k.positive_definite for k in self.kernels)

    @property
    def products_only(self) -> bool:
        """Whether all kernels depend on outputs through products of them only."""
        return all(k.products_only for k in self.kernels)

    def pack(self, items: Any) -> PackedParts:
        """Pack items for every kernel."""
        items = items if isinstance(items, Sized) else list(items)
        return PackedParts(tuple(k.pack(items) for k in self.kernels))

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return the manifold that all kernels share."""
        first, *rest = (k.manifold(m, n, bound) for k in self.kernels)
        if any(other != first for other in rest):
            raise ValueError(
                "the kernels have points of different manifolds: combine kernels with points of one manifold"
            )
        return first


class _Unit(ABC):
    """Base class of kernels that are derived from one kernel and have a diagonal of 1."""

    kernel: Any
    constant_diagonal = True
    convex_in_output = False
    self_term = None

    @property
    def domain(self) -> str:
        """What the items are."""
        return self.kernel.domain

    @property
    def positive_definite(self) -> bool:
        """Whether the kernel is positive definite."""
        return self.kernel.positive_definite

    @property
    def products_only(self) -> bool:
        """Whether the kernel depends on outputs through products of them only."""
        return self.kernel.products_only

    def pack(self, items: Any) -> Any:
        """Pack items for the kernel."""
        return self.kernel.pack(items)

    def diag(self, P: Any) -> Array:
        """Return ones, (len(P),)."""
        return np.ones(len(P))

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        """Return the manifold of the kernel."""
        return self.kernel.manifold(m, n, bound)


@dataclass(frozen=True)
class SumKernel(_Several):
    """The sum of kernels on the same items, with weights of at least 0.

    Parameters
    ----------
    kernels : sequence of kernel objects or registered names
    weights : sequence of float, optional
        The weights, by default all 1.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> both = ms.kernels.SumKernel(("projection", "martin"), weights=(1.0, 0.5))
    >>> packed = both.pack(ms.hooks.get_domain("lds").example(np.random.default_rng(0)))
    >>> both.diag(packed)[0]
    np.float64(3.5)
    """

    kernels: Sequence[Any]
    weights: Sequence[float] | None = None
    name = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _several(self.kernels))
        weights = (1.0,) * len(self.kernels) if self.weights is None else tuple(self.weights)
        if len(weights) != len(self.kernels) or not all(math.isfinite(w) and w >= 0 for w in weights):
            raise ValueError(f"weights={self.weights!r}: pass one non-negative number for each kernel")
        object.__setattr__(self, "weights", tuple(float(w) for w in weights))

    @property
    def convex_in_output(self) -> bool:
        """Whether all kernels are convex and quadratic in the output matrix."""
        return all(k.convex_in_output for k in self.kernels)

    def cross(self, P: PackedParts, Q: PackedParts) -> Array:
        """Return the kernel matrix, (len(P), len(Q))."""
        return sum(w * K for w, K in zip(self.weights or (), _crosses(self.kernels, P, Q), strict=True))  # type: ignore[return-value]

    def diag(self, P: PackedParts) -> Array:
        """Return k(P_i, P_i), (len(P),)."""
        return sum(w * k.diag(p) for w, k, p in zip(self.weights or (), self.kernels, P.parts, strict=True))  # type: ignore[return-value]

    def weighted(self, point: Tree, P: PackedParts, beta: ArrayLike) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        b = np.asarray(beta, dtype=float)
        triples = zip(self.weights or (), self.kernels, P.parts, strict=True)
        return _added([k.weighted(point, p, w * b) for w, k, p in triples])

    def self_term(self, point: Tree) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of k(S, S)."""
        return _added([_times(w, _own(k, point)) for w, k in zip(self.weights or (), self.kernels, strict=True)])


@dataclass(frozen=True)
class ProductKernel(_Several):
    """The product of kernels on the same items.

    Parameters
    ----------
    kernels : sequence of kernel objects or registered names

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> both = ms.kernels.ProductKernel(("projection", "martin"))
    >>> packed = both.pack(ms.hooks.get_domain("lds").example(np.random.default_rng(0)))
    >>> both.diag(packed)[0]
    np.float64(3.0)
    """

    kernels: Sequence[Any]
    name = "product"
    convex_in_output = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _several(self.kernels))

    def cross(self, P: PackedParts, Q: PackedParts) -> Array:
        """Return the kernel matrix, (len(P), len(Q))."""
        return reduce(mul, _crosses(self.kernels, P, Q))

    def diag(self, P: PackedParts) -> Array:
        """Return k(P_i, P_i), (len(P),)."""
        return reduce(mul, (k.diag(p) for k, p in zip(self.kernels, P.parts, strict=True)))

    def weighted(self, point: Tree, P: PackedParts, beta: ArrayLike) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        b = np.asarray(beta, dtype=float)
        rows = [_row(k, point, p) for k, p in zip(self.kernels, P.parts, strict=True)]
        value = float(b @ reduce(mul, rows))
        # product rule: the gradient of kernel i, weighted by beta times the values of all other kernels, (len(P),)
        others = [reduce(mul, rows[:i] + rows[i + 1 :], b) for i in range(len(rows))]
        triples = zip(self.kernels, P.parts, others, strict=True)
        return value, _added([k.weighted(point, p, other) for k, p, other in triples])[1]

    def self_term(self, point: Tree) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of k(S, S)."""
        own = [_own(k, point) for k in self.kernels]
        values = [value for value, _ in own]
        others = [math.prod(values[:i] + values[i + 1 :]) for i in range(len(values))]
        return math.prod(values), _added([_times(other, one) for other, one in zip(others, own, strict=True)])[1]


@dataclass(frozen=True)
class NormalizedKernel(_Unit):
    """The cosine in feature space, ``k(x, y) / sqrt(k(x, x) k(y, y))``: 1 for equal items.

    Parameters
    ----------
    kernel : kernel object or registered name

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> cosine = ms.kernels.NormalizedKernel("binet-cauchy")
    >>> packed = cosine.pack(ms.hooks.get_domain("lds").example(np.random.default_rng(0)))
    >>> cosine.diag(packed)[0]
    np.float64(1.0)
    """

    kernel: Any
    name = "normalized"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))

    def cross(self, P: Any, Q: Any) -> Array:
        """Return the kernel matrix, (len(P), len(Q))."""
        return self.kernel.cross(P, Q) / np.sqrt(np.multiply.outer(self._norms(P), self._norms(Q)))

    def weighted(self, point: Tree, P: Any, beta: ArrayLike) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        value, gradient = self.kernel.weighted(point, P, np.asarray(beta, dtype=float) / np.sqrt(self._norms(P)))
        if self.kernel.constant_diagonal:
            root = math.sqrt(_own(self.kernel, point)[0])
            return value / root, tree_map(lambda g: g / root, gradient)
        own, slope = self.kernel.self_term(point)
        if not own > 0:
            raise ValueError(
                f"the kernel cannot be normalized, because k(S, S) = {own:.3g} at the point S: use a kernel with "
                "positive values k(S, S)"
            )
        root = math.sqrt(own)
        # d(v / √o) = dv / √o − v do / (2 o √o) with o = k(S, S)
        return value / root, tree_map(lambda g, h: g / root - h * (value / (2 * own * root)), gradient, slope)

    def _norms(self, P: Any) -> Array:
        norms = self.kernel.diag(P)
        if len(norms) and not norms.min() > 0:
            raise ValueError(
                f"the kernel cannot be normalized, because item {int(np.argmin(norms))} has k(x, x) = "
                f"{norms.min():.3g}: remove the item"
            )
        return norms


@dataclass(frozen=True)
class RBFKernel(_Unit):
    """The Gaussian of the distance in feature space, ``exp(-(k(x, x) + k(y, y) - 2 k(x, y)) / scale)``.

    Parameters
    ----------
    kernel : kernel object or registered name
    scale : float
        The scale, above 0.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> gaussian = ms.kernels.RBFKernel("projection", scale=2.0)
    >>> packed = gaussian.pack(ms.hooks.get_domain("lds").example(np.random.default_rng(0)))
    >>> gaussian.diag(packed)[0]
    np.float64(1.0)
    """

    kernel: Any
    scale: float = 1.0
    name = "rbf"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        if not isinstance(self.scale, int | float | np.floating) or not 0 < self.scale < np.inf:
            raise ValueError(f"scale={self.scale!r} is not valid: pass a number above 0")

    def cross(self, P: Any, Q: Any) -> Array:
        """Return the kernel matrix, (len(P), len(Q))."""
        squared = np.add.outer(self.kernel.diag(P), self.kernel.diag(Q)) - 2 * self.kernel.cross(P, Q)
        return np.exp(-squared / self.scale)

    def weighted(self, point: Tree, P: Any, beta: ArrayLike) -> tuple[float, Tree]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``."""
        own, slope = _own(self.kernel, point)
        # |φ(S) − φ(Pᵢ)|² = k(S, S) + k(Pᵢ, Pᵢ) − 2 k(S, Pᵢ); each term of the sum has the slope
        # (2 dk(S, Pᵢ) − dk(S, S)) / scale times its value
        squared = own + self.kernel.diag(P) - 2 * _row(self.kernel, point, P)
        b = np.asarray(beta, dtype=float) * np.exp(-squared / self.scale)
        gradient = self.kernel.weighted(point, P, 2 * b / self.scale)[1]
        share = float(b.sum()) / self.scale
        return float(b.sum()), tree_map(lambda g, h: g - share * h, gradient, slope)


def as_kernel(kernel: str | Kernel, domain: str | None = None, **params: Any) -> Kernel:
    """Return the kernel object of a registered name, or the object itself.

    Functions and estimators that accept a kernel call this function first.

    Parameters
    ----------
    kernel : str or Kernel
    domain : str, optional
        The required domain of the kernel.
    **params
        Parameters of a registered kernel.

    Raises
    ------
    ValueError
        If the object is not a kernel or lacks attributes of `Kernel`, if the kernel has another domain, or if `params`
        are given with an object.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.kernels.as_kernel("grassmann", n_steps=2)
    GrassmannKernel(n_steps=2, dtype='float64')
    """
    if params and not isinstance(kernel, str):
        raise ValueError(f"{params} are parameters for a registered name, but the kernel is an object: pass the name")
    made = get_kernel(kernel, **params) if isinstance(kernel, str) else completed(kernel, domain)
    if domain not in (None, made.domain):
        raise ValueError(f"the kernel {kernel!r} is of the domain {made.domain!r}: use a kernel of {domain!r}")
    return made


def _several(kernels: Iterable[str | Kernel]) -> tuple[Kernel, ...]:
    """Return kernel objects of one domain."""
    made = tuple(map(as_kernel, kernels))
    if not made:
        raise ValueError("there are no kernels: pass at least one")
    domains = {k.domain for k in made}
    if len(domains) > 1:
        raise ValueError(f"the kernels have items of several domains, {sorted(domains)}: use kernels of one domain")
    return made


def _crosses(kernels: Sequence[Any], P: PackedParts, Q: PackedParts) -> list[Array]:
    return [k.cross(p, q) for k, p, q in zip(kernels, P.parts, Q.parts, strict=True)]


def _item(kernel: Any, point: Tree) -> Any:
    return kernel.pack([get_domain(kernel.domain).to_item(point)])


def _row(kernel: Any, point: Tree, P: Any) -> Array:
    """Return k(S(point), P_i), (len(P),)."""
    return kernel.cross(_item(kernel, point), P)[0]


def _own(kernel: Any, point: Tree) -> tuple[float, Tree]:
    """Return k(S, S) and its gradient, which is zero if k(S, S) is constant."""
    if not kernel.constant_diagonal:
        return kernel.self_term(point)
    return float(kernel.diag(_item(kernel, point))[0]), tree_map(np.zeros_like, point)


def _times(factor: float, one: tuple[float, Tree]) -> tuple[float, Tree]:
    return factor * one[0], tree_map(lambda g: g * g.dtype.type(factor), one[1])


def _added(parts: list[tuple[float, Tree]]) -> tuple[float, Tree]:
    value, gradient = parts[0]
    for more, other in parts[1:]:
        value, gradient = value + more, tree_map(np.add, gradient, other)
    return value, gradient
