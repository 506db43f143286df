"""Cases of the checks of a manifold: a point, vectors, a test function, and all operations that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from .._result import Point
from ..linalg import dtype_of, flatten, freeze, tree_map
from ..manifolds import Factored, Manifold
from ._points import direction, distance, interior_point, scaled
from ._report import Verdict, unless

TOLERANCE = 1e-10
MANY = 8
_VECTORS = ("project", "gradient", "hessian", "transport", "log", "inverse_retraction", "parallel_transport")
_NUMBERS = ("inner", "feasibility", "free", "dist")


@dataclass(frozen=True)
class Case:
    """A point, ambient vectors a, b, tangent vectors u, v, and a test function ½<x, q*x> + <p, x>; all read-only."""

    manifold: Manifold
    x: Any
    a: Any
    b: Any
    u: Any
    v: Any
    p: Any
    q: Any

    @classmethod
    def random(cls, manifold: Manifold, rng: np.random.Generator, dtype: Any = np.float64) -> Case:
        x = freeze(interior_point(manifold, rng, dtype))

        def ambient() -> Point:
            return freeze(tree_map(lambda leaf: rng.standard_normal(leaf.shape).astype(dtype), x))

        def tangent() -> Point:
            u = direction(manifold, x, rng)
            return freeze(tree_map(np.zeros_like, x) if u is None else u)

        # where X and X Q are one point the function must not tell them apart: only squares of whole rows remain
        p = on_quotients(manifold, np.zeros_like, ambient())
        q = on_quotients(manifold, lambda leaf: np.repeat(leaf[..., :1], leaf.shape[-1], axis=-1), ambient())
        return cls(manifold, x, ambient(), ambient(), tangent(), tangent(), freeze(p), freeze(q))

    @classmethod
    def stacked(cls, cases: list[Case], axes: tuple[int, ...]) -> Case:
        """Return cases of one manifold as one, over leading axes of the given sizes."""
        names = [field.name for field in fields(cls)[1:]]
        return cls(cases[0].manifold, *(_stacked([getattr(case, name) for case in cases], axes) for name in names))

    def value(self, y: Point) -> float:
        """Return the test function at y."""
        return float(np.dot(flatten(tree_map(lambda p, q, leaf: p + 0.5 * q * leaf, self.p, self.q, y)), flatten(y)))

    def egrad(self, y: Point) -> Point:
        """Return its Euclidean gradient at y."""
        return tree_map(lambda p, q, leaf: p + q * leaf, self.p, self.q, y)

    def hessian(self, u: Any) -> Any:
        """Return its Riemannian Hessian at x along u, of a manifold that has one."""
        assert self.manifold.hessian is not None
        return self.manifold.hessian(self.x, self.egrad(self.x), tree_map(np.multiply, self.q, u), u)

    def operations(self) -> dict[str, Callable[[], Any]]:
        """Every operation that broadcasts."""
        M, x, a, b, u, v = self.manifold, self.x, self.a, self.b, self.u, self.v
        small = scaled(0.1, u)
        near = M.retract(x, small)
        off = tree_map(np.add, x, scaled(0.1, a))
        kinds = M.retractions or (None,)
        known = range(M.components if M.components <= MANY else 0)
        return {
            "inner": lambda: M.inner(x, u, v),
            "project": lambda: M.project(x, a),
            "gradient": lambda: M.gradient(x, a),
            **({} if (curved := M.hessian) is None else {"hessian": lambda: curved(x, a, b, u)}),
            **{f"retract {kind or ''}".strip(): lambda kind=kind: M.retract(x, small, kind) for kind in kinds},
            "transport": lambda: M.transport(x, near, u),
            **_geometry(M, x, near, u, small),
            "nearest": lambda: M.nearest(off),
            "feasibility": lambda: M.feasibility(off),
            "descent_curve": lambda: M.descent_curve(x, a)(0.1),
            **({"free": lambda: tree_map(np.float64, M.free(x, a))} if M.bounded else {}),
            **{f"to_component {i}": lambda i=i: M.to_component(x, i) for i in known},
        }


def _geometry(M: Manifold, x: Point, y: Point, u: Point, step: Point) -> dict[str, Callable[[], Any]]:
    """Return the operations that a manifold may lack."""
    arguments = {
        "exp": (x, step),
        "log": (x, y),
        "dist": (x, y),
        "geodesic": (x, y, 0.5),
        "inverse_retraction": (x, y),
        "parallel_transport": (x, y, u),
    }
    return {name: partial(getattr(M, name), *args) for name, args in arguments.items() if getattr(M, name) is not None}


def _stacked(trees: list[Any], axes: tuple[int, ...]) -> Any:
    return tree_map(lambda *parts: np.stack(parts).reshape(*axes, *np.shape(parts[0])), *trees)


def on_quotients(manifold: Manifold, function: Callable[[np.ndarray], np.ndarray], tree: Any) -> Any:
    """Apply a function to the leaves where X and X Q are one point."""
    if isinstance(manifold, Factored):
        return tuple(on_quotients(f, function, part) for f, part in zip(manifold.factors, tree, strict=True))
    return tree_map(function, tree) if manifold.quotient else tree


def has_quotient(manifold: Manifold) -> bool:
    """Return whether X and X Q are one point, on the manifold or on one of its factors."""
    if isinstance(manifold, Factored):
        return any(has_quotient(factor) for factor in manifold.factors)
    return manifold.quotient


def turned(manifold: Manifold[Point], tree: Point) -> Point:
    """Return X Q with a fixed orthogonal Q, −1 of size one, where X and X Q are one point."""

    def turn(leaf: np.ndarray) -> np.ndarray:
        p = leaf.shape[-1]
        return leaf @ -np.linalg.qr(np.random.default_rng(p).standard_normal((p, p)))[0].astype(leaf.dtype)

    return on_quotients(manifold, turn, tree)


def same_at_equivalents(case: Case) -> Verdict:
    """Return whether operations at X Q are those at X, turned by Q; of points, whether they are equivalent."""

    def span(tree: Point) -> Point:
        return on_quotients(case.manifold, lambda leaf: leaf @ leaf.swapaxes(-1, -2), tree)

    there = Case(
        case.manifold, *(turned(case.manifold, getattr(case, field.name)) for field in fields(case)[1:])
    ).operations()
    wrong = []
    for name, operation in case.operations().items():
        here, moved = operation(), there[name]()
        if name in _VECTORS:
            here = turned(case.manifold, here)
        elif name not in _NUMBERS:
            here, moved = span(here), span(moved)
        if name != "feasibility" and not distance(here, moved) <= TOLERANCE:
            wrong.append(name)
    return unless(f"{', '.join(wrong)} depends on the representative" if wrong else None)


def keeps_dtype(manifold: Manifold, seed: int) -> Verdict:
    """Return whether single precision stays single, and feasible."""
    case = Case.random(manifold, np.random.default_rng(seed), np.float32)
    if dtype_of(manifold.random_point(np.random.default_rng(seed), np.float32)) != np.float32:
        return False, "random_point(rng, float32) is not float32"
    wrong = []
    for name, operation in case.operations().items():
        if name in _NUMBERS:
            continue
        value = operation()
        if dtype_of(value) != np.float32:
            wrong.append(f"{name} gives {dtype_of(value)}")
        elif name.startswith(("retract", "nearest", "exp", "geodesic")) and not manifold.feasibility(value) < 1e-5:
            wrong.append(f"{name} is infeasible by {manifold.feasibility(value):.2g}")
    return unless(", ".join(wrong))


def broadcasts(manifold: Manifold, seed: int) -> Verdict:
    """Return whether operations over leading axes agree with a loop."""
    rng = np.random.default_rng(seed)
    wrong = []
    for axes in (1,), (2, 3):
        cases = [Case.random(manifold, rng) for _ in range(int(np.prod(axes)))]
        loop = [case.operations() for case in cases]
        for name, operation in Case.stacked(cases, axes).operations().items():
            try:
                if not (off := distance(operation(), _stacked([one[name]() for one in loop], axes))) <= TOLERANCE:
                    wrong.append(f"{name} over axes {axes} differs by {off:.2g} from a loop")
            except Exception as error:
                wrong.append(f"{name} over axes {axes} raised {type(error).__name__}: {error}")
    return unless(", ".join(wrong))


def one_base(manifold: Manifold, seed: int) -> Verdict:
    """Return whether operations with one point and many vectors agree with a loop; also over leading axes of both."""
    rng = np.random.default_rng(seed)
    wrong = []
    for axes in (), (2,):
        base = Case.stacked([Case.random(manifold, rng) for _ in range(int(np.prod(axes)))], axes)
        near = manifold.retract(base.x, scaled(0.1, base.u))
        many = [tree_map(lambda leaf: rng.standard_normal(leaf.shape), base.x) for _ in range(3)]
        u = [manifold.project(base.x, v) for v in many]

        def operations(a: Point, u: Point, base: Case = base, near: Point = near) -> dict[str, Callable[[], Any]]:
            return {
                "inner": lambda: manifold.inner(base.x, u, u),
                "inner with one of the vectors": lambda: manifold.inner(base.x, base.u, u),
                "project": lambda: manifold.project(base.x, a),
                "transport": lambda: manifold.transport(base.x, near, u),
            }

        loop = [operations(*pair) for pair in zip(many, u, strict=True)]
        for name, operation in operations(_stacked(many, (3,)), _stacked(u, (3,))).items():
            try:
                if not (off := distance(operation(), _stacked([one[name]() for one in loop], (3,)))) <= TOLERANCE:
                    wrong.append(f"{name} at a point with axes {axes} differs by {off:.2g} from a loop")
            except Exception as error:
                wrong.append(f"{name} at a point with axes {axes} raised {type(error).__name__}: {error}")
    return unless(", ".join(wrong))
