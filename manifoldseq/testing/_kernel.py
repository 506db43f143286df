"""Checks of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .. import hooks
from .._problem import Problem
from .._result import Point
from ..hooks._lookup import made_kernel
from ..kernels import Domain, Kernel, as_kernel
from ..linalg import freeze, tree_map
from ..manifolds import Manifold
from ..objectives import Objective
from ._derivatives import gradient_laws
from ._points import distance, interior_point, magnitude, same
from ._report import Examination, Report, Verdict, unless, within

_CLOSE = 1e-10

Item = tuple[Any, ...]


def check_kernel(
    kernel: Any,
    items: Iterable[Item] | None = None,
    *,
    point: Point | None = None,
    domain: str | Domain | None = None,
    positive_definite: bool | None = None,
    constant_diagonal: bool | None = None,
    invariances: Mapping[str, Callable[[Item], Item]] | None = None,
    seed: int = 0,
) -> Report:
    """Check a kernel object: its properties, the consistency of its methods, and its gradients.

    Parameters
    ----------
    kernel : manifoldseq.kernels.Kernel, manifoldseq.hooks.KernelSpec or str
        The kernel. A record or a registered name provides items and invariances.
    items : iterable of items, optional
        Items for a kernel object; by default the example of its domain.
    point : point, optional
        The point at which gradients are checked; by default a random point of ``kernel.manifold(m, n, bound)`` for the
        sizes of the first item.
    domain : str or manifoldseq.kernels.Domain, optional
        The domain of the items; by default ``kernel.domain``.
    positive_definite, constant_diagonal : bool, optional
        The expected properties; by default the properties that the kernel object declares.
    invariances : mapping of str to callable, optional
        Functions ``transform(item) -> item`` under which the kernel is invariant.
    seed : int

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        If the domain is unknown, or there are fewer than two items.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> print(ms.testing.check_kernel("projection").ok)
    True
    """
    rng = np.random.default_rng(seed)
    if isinstance(kernel, str):
        kernel = hooks.get_record(hooks.KernelSpec, kernel)
    subject = type(kernel).__name__
    example = None
    if isinstance(kernel, hooks.KernelSpec):
        record = kernel.resolved()
        subject, example = record.name, record.example
        invariances = {**cast(Mapping[str, Any], record.invariances), **(invariances or {})}
        kernel = made_kernel(record, {})
    exam = Examination(f"kernel {subject}")
    if not exam.law("has the attributes of ms.kernels.Kernel", lambda: _attributes(kernel)):
        return exam.report()
    kernel = as_kernel(kernel)
    home: Any = kernel.domain if domain is None else domain
    if kernel.weighted is not None or (items is None and example is None):  # a comparison of given items needs none
        home = hooks.get_domain(home) if isinstance(home, str) else home
        home = home.resolved() if isinstance(home, hooks.DomainSpec) else home
    if items is None:
        items = cast(Callable[[Any], Iterable[Item]], example or home.example)(rng)
    rows = [item if isinstance(item, tuple) else tuple(item) for item in items]
    if len(rows) < 2:
        raise ValueError(f"check_kernel: {len(rows)} item(s) are too few for a check: pass at least two")
    case = _Case(kernel, rows, home, rng)
    if not exam.law("packs its items", lambda: _packs(case)):
        return exam.report()
    _gram_laws(exam, case, kernel.positive_definite if positive_definite is None else positive_definite)
    for name, transform in (invariances or {}).items():
        exam.law(f"invariant: {name}", lambda transform=transform: _invariant(case, transform))
    constant = kernel.constant_diagonal if constant_diagonal is None else constant_diagonal
    if constant:
        exam.law("constant diagonal", lambda: within(float(np.ptp(case.diag())), 1e-8 * case.scale()))
    if kernel.weighted is None:  # it only compares items: there are no points
        return exam.report()
    if exam.law("manifold(m, n, bound) gives its points", lambda: _manifold(case)):
        x = interior_point(case.manifold(), rng) if point is None else point
        _point_laws(exam, case, freeze(x), constant)
    return exam.report()


@dataclass
class _Case:
    kernel: Kernel
    items: list[Item]
    domain: Domain
    rng: np.random.Generator

    def pack(self, items: list[Item] | None = None) -> Any:
        return self.kernel.pack(self.items if items is None else items)

    def gram(self) -> np.ndarray:
        P = self.pack()
        return np.asarray(self.kernel.cross(P, P))

    def diag(self) -> np.ndarray:
        return np.asarray(self.kernel.diag(self.pack()))

    def scale(self) -> float:
        return max(float(np.abs(self.diag()).max()), 1e-300)

    def manifold(self) -> Any:
        """Return the manifold for the sizes of the first item."""
        assert self.kernel.manifold is not None
        return self.kernel.manifold(*sizes(self.items[0]), 0.99)

    def item(self, x: Point) -> Item:
        return self.domain.to_item(x)


def sizes(item: Item) -> tuple[int, int]:
    """Return m and n of an item: its tallest matrix is m×n, a vector one of m×1."""
    matrices = [np.shape(part) for part in item if np.ndim(part) == 2]
    m, n = max(matrices or [(np.size(part), 1) for part in item], key=lambda shape: shape[0] / shape[1])
    return m, n


def _attributes(kernel: Any) -> Verdict:
    try:
        kernel = as_kernel(kernel)
    except ValueError as error:
        return False, str(error)
    claims = ("constant_diagonal", "positive_definite", "products_only", "convex_in_output")
    wrong = [name for name in claims if not isinstance(getattr(kernel, name), bool)]
    return unless(f"{', '.join(wrong)} must be True or False" if wrong else None)


def _manifold(case: _Case) -> Verdict:
    manifold = case.manifold()
    return isinstance(manifold, Manifold), repr(manifold)


def _packs(case: _Case) -> Verdict:
    before = [tree_map(np.array, item) for item in case.items]
    P = case.pack()
    if len(P) != len(case.items):
        return False, f"len(pack(items)) is {len(P)} for {len(case.items)} items"
    K = case.gram()
    if K.shape != (len(P), len(P)) or K.dtype.kind != "f" or not np.all(np.isfinite(K)):
        return False, f"cross(P, P) is not a finite real matrix of shape {(len(P), len(P))}: {K.dtype}, {K.shape}"
    if not same(before, [tree_map(np.asarray, item) for item in case.items]):
        return False, "it writes into the items"
    return True, f"{len(P)} items"


def _gram_laws(exam: Examination, case: _Case, positive_definite: bool) -> None:
    limit = _CLOSE * case.scale()
    K = case.gram()
    exam.law("symmetric", lambda: within(np.abs(K - K.T).max(), limit))
    exam.law("the same answer twice", lambda: unless(None if same(K, case.gram()) else "cross(P, P) differs"))
    exam.law("diag is the diagonal of cross", lambda: within(distance(case.diag(), np.diagonal(K)), limit))
    exam.law("packed items are indexed by rows", lambda: _rows(case, K, limit))
    exam.law("items are packed one by one", lambda: _order(case, K, limit))
    if positive_definite:
        exam.law("positive semidefinite", lambda: _positive(K, 1e-8 * case.scale()))


def _positive(K: np.ndarray, limit: float) -> Verdict:
    smallest = float(np.linalg.eigvalsh((K + K.T) / 2)[0])
    return smallest >= -limit, f"smallest eigenvalue {smallest:.2g}"


def _rows(case: _Case, K: np.ndarray, limit: float) -> Verdict:
    P, n = case.pack(), len(case.items)
    for rows in (np.array([n - 1, 0]), slice(1, None), np.arange(n) % 2 == 0):
        try:
            off = distance(case.kernel.cross(P[rows], P), K[rows])
        except Exception as error:
            return False, f"P[{rows!r}] raised {type(error).__name__}: {error}"
        if not off <= limit:
            return False, f"cross(P[{rows!r}], P) differs by {off:.2g} from the same rows of cross(P, P)"
    return True, ""


def _order(case: _Case, K: np.ndarray, limit: float) -> Verdict:
    other = case.pack(case.items[::-1])
    return within(distance(case.kernel.cross(other, other), K[::-1, ::-1]), limit)


def _invariant(case: _Case, transform: Callable[[Item], Item]) -> Verdict:
    moved = case.pack([tuple(transform(item)) for item in case.items])
    return within(distance(case.kernel.cross(moved, case.pack()), case.gram()), 1e-8 * case.scale())


def _point_laws(exam: Examination, case: _Case, x: Point, constant_diagonal: bool) -> None:
    kernel, P = case.kernel, case.pack()
    of_point = kernel.weighted
    assert of_point is not None
    beta = case.rng.standard_normal(len(P))
    manifold = case.manifold()

    def weighted(y: Point) -> tuple[float, Point]:
        return of_point(y, P, beta)

    def value() -> Verdict:
        one = case.pack([case.item(x)])
        expected = float(kernel.cross(one, P)[0] @ beta)
        return within(abs(weighted(x)[0] - expected), 1e-8 * case.scale() * max(1.0, float(np.abs(beta).sum())))

    def linear() -> Verdict:
        half = of_point(x, P, 0.5 * beta)[1]
        return within(
            distance(tree_map(lambda leaf: 2 * leaf, half), weighted(x)[1]),
            1e-9 * max(magnitude(weighted(x)[1]), 1e-300),
        )

    exam.law("weighted: value is sum beta k", value)
    exam.law("weighted: linear in beta", linear)
    exam.part("weighted", lambda part: gradient_laws(part, _problem(manifold, weighted), x, case.rng))
    self_term = kernel.self_term
    if not constant_diagonal and self_term is not None:

        def at_itself() -> Verdict:
            one = case.pack([case.item(x)])
            return within(abs(self_term(x)[0] - float(kernel.diag(one)[0])), 1e-8 * case.scale())

        if exam.law("self_term: value is k(S, S)", at_itself):
            exam.part("self_term", lambda part: gradient_laws(part, _problem(manifold, self_term), x, case.rng))


def _problem(manifold: Any, fused: Callable[[Point], tuple[float, Point]]) -> Problem:
    return Problem(manifold, Objective(lambda x: fused(x)[0], fused))
