"""What a kernel, its packed items and a domain are: the protocols `Kernel`, `PackedItems` and `Domain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Protocol
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._quoted import quoted


class PackedItems(Protocol):
    """Items as a kernel prepares them once: N of them, indexed by rows (slice, integer array, mask) like an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class Domain(Protocol):
    """What the items of a kernel are, and how points of a manifold become items; `DomainSpec` is one."""

    @property
    def manifold(self) -> Callable[..., Any]:
        """``manifold(m, n, bound)``, where means and atoms live."""
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
    """A similarity of items. Its claims and abilities are attributes that every kernel has; what is absent is None.

    Nothing needs to be inherited: any object with these attributes is a kernel, and type checkers say what is missing.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> kernel: ms.kernels.Kernel = ms.get_kernel("projection")
    >>> kernel.domain, kernel.constant_diagonal, kernel.self_term
    ('lds', True, None)
    """

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def domain(self) -> str:
        """What the items are, a registered domain."""
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
        """Whether outputs of two systems enter through ``C_i' C_j`` only, so that means can be compressed."""
        ...

    @property
    def convex_in_output(self) -> bool:
        """Whether it is convex and quadratic in the output matrix of a point: then means have a block update of it."""
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

    def weighted(self, point: Any, P: Any, beta: ArrayLike, /) -> tuple[float, Any]:
        """Return the value and the Euclidean gradient of ``sum_i beta_i k(S(point), P_i)``, beta (len(P),)."""
        ...

    def manifold(self, m: int, n: int, bound: float, /) -> Any:
        """Return the manifold of the points for items of m outputs and n states."""
        ...

    @property
    def self_term(self) -> Callable[[Any], tuple[float, Any]] | None:
        """``self_term(point)``, the value and the Euclidean gradient of k(S, S); None where that is constant."""
        ...


_READ_AS: Mapping[str, Any] = {
    "positive_definite": True,
    "products_only": False,
    "convex_in_output": False,
    "self_term": None,
}
"""What kernels meant that did not say it, for one release."""


@dataclass(frozen=True)
class _Completed:
    """A kernel of the release before, with every attribute of `Kernel`."""

    kernel: Any
    name: str = field(repr=False)
    domain: str = field(repr=False)
    constant_diagonal: bool = field(repr=False)
    positive_definite: bool = field(repr=False)
    products_only: bool = field(repr=False)
    convex_in_output: bool = field(repr=False)
    pack: Callable[..., Any] = field(repr=False)
    cross: Callable[..., Any] = field(repr=False)
    diag: Callable[..., Any] = field(repr=False)
    weighted: Callable[..., Any] = field(repr=False)
    manifold: Callable[..., Any] = field(repr=False)
    self_term: Callable[[Any], tuple[float, Any]] | None = field(repr=False)


_ATTRIBUTES = tuple(one.name for one in fields(_Completed) if one.name != "kernel")


def completed(kernel: Any, read_as: Mapping[str, Any] | None = None) -> Kernel:
    """Return a kernel object if it has every attribute of `Kernel`, else one of the release before with them filled in.

    Parameters
    ----------
    kernel : object
    read_as : mapping, optional
        What its record says of it: the deprecated fields of `KernelSpec`.

    Raises
    ------
    ValueError
        For what is no kernel, or lacks what older kernels had to have, too.
    """
    if isinstance(kernel, type):
        raise ValueError(f"kernel={kernel.__name__} is a class: pass an instance of it")
    stated: dict[str, Any] = {}
    for name in _ATTRIBUTES:
        with suppress(AttributeError):
            stated[name] = getattr(kernel, name)
    if stated.keys().isdisjoint(("pack", "cross", "diag", "weighted", "manifold")):
        if callable(kernel):
            raise ValueError(f"kernel={kernel!r} is a function: wrap it with @ms.kernel(domain='lds')")
        raise ValueError(
            f"kernel={quoted(kernel)} is not a kernel: pass a registered name such as 'projection' or an object"
        )
    missing = [name for name in _ATTRIBUTES if name not in stated]
    if missing:
        known = {"name": type(kernel).__name__, "domain": "lds", **_READ_AS, **(read_as or {})}
        required = [name for name in missing if name not in known]
        if required:
            raise ValueError(f"the kernel {kernel!r} has no {', '.join(required)}: see ms.kernels.Kernel")
        warn(
            f"the kernel {kernel!r} does not state {', '.join(f'{name} = {known[name]!r}' for name in missing)}: write "
            "these attributes in its class, they are required from the next release on",
            DeprecationWarning,
            stacklevel=3,
        )
        kernel = _Completed(kernel, **{name: known[name] for name in missing}, **stated)
    if not kernel.constant_diagonal and kernel.self_term is None:
        raise ValueError(f"the kernel {kernel!r} has no self_term, which constant_diagonal=False asks for")
    return kernel
