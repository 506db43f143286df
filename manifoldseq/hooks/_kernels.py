"""The protocols `Kernel`, `PackedItems` and `Domain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._quoted import quoted


class PackedItems(Protocol):
    """N items that a kernel has prepared, indexed by rows (slice, integer array, mask) like an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class Domain(Protocol):
    """The items of a kernel, and the map from points of a manifold to items; `DomainSpec` is one."""

    @property
    def manifold(self) -> Callable[..., Any]:
        """``manifold(m, n, bound)``, the manifold of means and atoms."""
        ...

    @property
    def to_item(self) -> Callable[[Any], Any]:
        """``to_item(point) -> item``, a tuple of arrays."""
        ...

    @property
    def example(self) -> Callable[[np.random.Generator], Iterable[Any]]:
        """``example(rng) -> items`` to try a kernel on."""
        ...


class Kernel(Protocol):
    """A similarity of items. The attributes of a kernel describe its properties; optional functions may be None.

    No base class is needed: any object with these attributes is a kernel, and type checkers report missing attributes.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> kernel: ms.kernels.Kernel = ms.get_kernel("projection")
    >>> kernel.domain, kernel.constant_diagonal, kernel.self_term
    ('lds', True, None)
    """

    @property
    def name(self) -> str:
        """The name of the kernel in messages."""
        ...

    @property
    def domain(self) -> str:
        """The registered domain of the items."""
        ...

    @property
    def constant_diagonal(self) -> bool:
        """Whether k(S, S) is the same for every item S."""
        ...

    @property
    def positive_definite(self) -> bool:
        """Whether every kernel matrix is positive semidefinite."""
        ...

    @property
    def products_only(self) -> bool:
        """Whether the kernel depends on outputs only through ``C_i' C_j``, so that means can be compressed."""
        ...

    @property
    def convex_in_output(self) -> bool:
        """Whether the kernel is convex and quadratic in the output matrix; means then have a block update."""
        ...

    def pack(self, items: Any, /) -> Any:
        """Return :class:`PackedItems`: N items, prepared once."""
        ...

    def cross(self, P: Any, Q: Any, /) -> NDArray[np.float64]:
        """Return the kernel matrix k(P_i, Q_j), (len(P), len(Q))."""
        ...

    def diag(self, P: Any, /) -> NDArray[np.float64]:
        """Return k(P_i, P_i), (len(P),)."""
        ...

    @property
    def weighted(self) -> Callable[[Any, Any, ArrayLike], tuple[float, Any]] | None:
        """``weighted(point, P, beta)``, the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``.

        beta has the shape (len(P),). The attribute is None for a kernel that only compares items and has no means.
        """
        ...

    @property
    def manifold(self) -> Callable[[int, int, float], Any] | None:
        """``manifold(m, n, bound)``, the points of items of m outputs and n states; None without `weighted`."""
        ...

    @property
    def self_term(self) -> Callable[[Any], tuple[float, Any]] | None:
        """``self_term(point)``, the value and the Euclidean gradient of k(S, S); None if k(S, S) is constant."""
        ...


_ATTRIBUTES = (
    "name domain constant_diagonal positive_definite products_only convex_in_output "
    "pack cross diag weighted manifold self_term"
).split()


def completed(kernel: Any, domain: str | None = None) -> Kernel:
    """Return a kernel object that has every attribute of `Kernel`; raise ValueError for any other.

    The error message for a function names the domain.
    """
    if isinstance(kernel, type):
        raise ValueError(f"kernel={kernel.__name__} is a class: pass an instance")
    missing = [name for name in _ATTRIBUTES if not hasattr(kernel, name)]
    if {"pack", "cross", "diag", "weighted", "manifold"} <= set(missing):
        if callable(kernel):
            raise ValueError(f"kernel={kernel!r} is a function: wrap it with @ms.kernel(domain={domain or 'lds'!r})")
        raise ValueError(
            f"kernel={quoted(kernel)} is not a kernel: pass a registered name such as 'projection' or an object"
        )
    if missing:
        raise ValueError(
            f"the kernel {kernel!r} has no {', '.join(missing)}: add these attributes of ms.kernels.Kernel"
        )
    if kernel.weighted is not None and not kernel.constant_diagonal and kernel.self_term is None:
        raise ValueError(f"the kernel {kernel!r} has no self_term, which constant_diagonal=False requires: add it")
    return kernel
