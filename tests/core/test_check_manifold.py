"""The checker of manifolds must fail on wrong ones: each operation broken separately, on each kind of geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers import parametrize

from manifoldseq.manifolds import (
    Grassmann,
    Manifold,
    Oblique,
    Orthogonal,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    SymmetricPositiveDefinite,
)
from manifoldseq.testing import check_manifold


def broken(manifold: Manifold, **operations: Any) -> Manifold:
    """Return a manifold some of whose operations or attributes are replaced."""
    for name, operation in operations.items():
        if isinstance(getattr(type(manifold), name), property):  # has no setter
            wrong = type("Wrong", (type(manifold),), {name: property(lambda self, operation=operation: operation)})
            object.__setattr__(manifold, "__class__", wrong)
        else:
            object.__setattr__(manifold, name, operation)
    return manifold


G, S, A, P, M, C, T = (
    Grassmann(6, 2),
    Sphere(4),
    Oblique(3, 2),
    Positive(3),
    Simplex(4),
    SymmetricPositiveDefinite(3),
    Stiefel(5, 2),
)


def symmetric(a: Any) -> Any:
    return 0.5 * (a + np.swapaxes(a, -1, -2))


MUTANTS: dict[str, tuple[Manifold, dict[str, Any], str]] = {
    "Grassmann with the projection of Stiefel": (Grassmann(6, 2), {"project": Stiefel(6, 2).project}, "dim is the"),
    "Grassmann with the Hessian of Stiefel's ambient part": (
        Grassmann(6, 2),
        {"hessian": lambda x, g, h, u: G.project(x, h)},
        "hessian belongs to the metric",
    ),
    "Grassmann whose steps depend on the basis": (
        Grassmann(6, 2),
        {"retract": lambda x, u, kind=None: G.retract(x, u + x[..., :1] * 0 + u * u * np.array([1.0, 0.0]), kind)},
        "X and X Q are the same point",
    ),
    "Grassmann not declared a quotient": (Grassmann(6, 2), {"quotient": False}, "hessian is symmetric"),
    "gradient with a normal part": (
        Sphere(4),
        {"gradient": lambda x, g: S.project(x, g) + x},
        "gradient is tangent",
    ),
    "gradient of another metric": (Positive(3), {"gradient": lambda x, g: x * g}, "gradient represents"),
    "half a gradient": (Simplex(4), {"gradient": lambda x, g: 0.5 * M.gradient(x, g)}, "gradient represents"),
    "gradient of one column in all": (
        Oblique(3, 2),
        {"project": lambda x, u: u - x * np.sum(x * u, axis=(-2, -1), keepdims=True)},
        "project is idempotent",
    ),
    "a metric that is not symmetric": (
        SymmetricPositiveDefinite(3),
        {"inner": lambda x, u, v: C.inner(x, u, v) + float(u[..., 0, 1] * v[..., 0, 0])},
        "inner is symmetric",
    ),
    "a metric that is called embedded": (Positive(3), {"metric": "embedded"}, "embedded metric: inner is"),
    "another metric than the Hessian's": (
        Positive(3),
        {
            "inner": lambda x, u, v: Manifold.inner(P, x, u / x**2, v / x**2),
            "gradient": lambda x, g: x**4 * g,
        },
        "hessian belongs to the metric",
    ),
    "a Hessian without its connection": (
        SymmetricPositiveDefinite(3),
        {"hessian": lambda x, g, h, u: x @ symmetric(h) @ x},
        "hessian belongs to the metric",
    ),
    "a Hessian that is not symmetric": (
        Simplex(4),
        {"hessian": lambda x, g, h, u: M.project(x, M.hessian(x, g, h, u) + np.roll(u, 1, axis=-1))},
        "hessian is symmetric",
    ),
    "a Hessian off the tangent space": (
        Sphere(4),
        {"hessian": lambda x, g, h, u: S.hessian(x, g, h, u) + x},
        "hessian is tangent",
    ),
    "first order claimed to be second": (Stiefel(5, 2), {"second_order": ("polar", "qr")}, "'qr' is of second order"),
    "softmax claimed to be second": (Simplex(4), {"second_order": ("exp", "softmax")}, "'softmax' is of second order"),
    "a claim about a retraction that is not there": (
        Sphere(4),
        {"second_order": ("polar", "exp", "qr")},
        "'qr' is of second order",
    ),
    "a retraction that doubles the step": (
        Positive(3),
        {"retract": lambda x, u, kind=None: P.retract(x, 2 * u)},
        "velocity",
    ),
    "a line that leaves the set": (
        SymmetricPositiveDefinite(3),
        {"retract": lambda x, u, kind=None: x + 3 * u - 2 * u},
        "'exp' is of second order",
    ),
    "a transport that is not linear": (
        Sphere(4),
        {"transport": lambda x, y, u: S.project(y, u) * (1 + np.sum((x - y) ** 2) * np.sum(u**2))},
        "transport is linear",
    ),
    "a transport off the tangent space": (
        Oblique(3, 2),
        {"transport": lambda x, y, u: u},
        "transported vectors are tangent",
    ),
    "single precision lost": (
        Sphere(4),
        {"retract": lambda x, u, kind=None: S.retract(x.astype(float), u.astype(float), kind)},
        "another dtype",
    ),
    "single precision that is not feasible": (
        Sphere(4),
        {"nearest": lambda x: S.nearest(x) * (1 + (np.float32(1e-3) if x.dtype == np.float32 else 0))},
        "another dtype",
    ),
    "one point for every vector, claimed to be for many": (
        Positive(3),
        {"inner": lambda x, u, v: P.inner(x.reshape(v.shape), u, v)},
        "one point and many vectors",
    ),
    "one point at a time": (
        SymmetricPositiveDefinite(3),
        {"project": lambda x, u: 0.5 * (u + u.T)},
        "every operation broadcasts",
    ),
    "one leading axis at most": (
        SymmetricPositiveDefinite(3),
        {"gradient": lambda x, g: C.gradient(x, g) if x.ndim < 4 else x},
        "every operation broadcasts",
    ),
    "the sum of a batch": (
        Oblique(3, 2),
        {"project": lambda x, u: u - x * np.sum(x * u, axis=(*range(x.ndim - 2), -2), keepdims=True)},
        "every operation broadcasts",
    ),
    "a reflection taken for a rotation": (
        SpecialOrthogonal(3),
        {"components": 2, "to_component": lambda x, i: x},
        "components are distinguished",
    ),
    "a logarithm too long": (
        Sphere(4),
        {"log": lambda x, y: 1.01 * S.log(x, y)},
        "log inverts exp",
    ),
    "the distance of the surrounding space": (
        Sphere(4),
        {"dist": lambda x, y: (lambda d: float(d) if np.ndim(d) == 0 else d)(np.linalg.norm(y - x, axis=-1))},
        "dist is the length of log",
    ),
    "a projection taken for parallel transport": (
        SpecialOrthogonal(3),
        {"parallel_transport": lambda x, y, u: Orthogonal(3).project(y, u)},
        "parallel transport",
    ),
    "an exponential map that is a retraction": (
        SymmetricPositiveDefinite(3),
        {"exp": lambda x, u: symmetric(x + u + 0.4 * u @ np.linalg.solve(x, u))},
        "exp follows the geodesic",
    ),
    "the inverse of another retraction": (
        Grassmann(6, 2),
        {"inverse_retraction": G.log},
        "inverse_retraction inverts",
    ),
    "a distance of single points": (
        Positive(3),
        {"dist": lambda x, y: float(np.linalg.norm(np.log(y / x)))},
        "every operation broadcasts",
    ),
    "a wrong dimension": (Simplex(4), {"dim": 4}, "dim is the dimension"),
}  # fmt: skip


@parametrize("name", MUTANTS, fast=10)
def test_a_wrong_manifold_fails(name: str) -> None:
    manifold, operations, word = MUTANTS[name]
    if "dim" in operations:
        manifold = type("Wrong", (type(manifold),), {"dim": operations["dim"]})(*manifold.shape)
    else:
        broken(manifold, **operations)
    report = check_manifold(manifold)
    assert any(word in str(law) for law in report.failures), report


def test_a_wrong_factor_fails_in_its_product() -> None:
    right = Product(Grassmann(5, 2), Sphere(3), Simplex(3))
    check_manifold(right).raise_for_failure()
    wrong = broken(Sphere(3), hessian=lambda x, g, h, u: Sphere(3).project(x, h))
    assert not check_manifold(Product(Grassmann(5, 2), wrong, Simplex(3))).ok


def test_what_the_mutants_are_made_from_is_right() -> None:
    for manifold in (G, S, A, P, M, C, T):
        check_manifold(manifold).raise_for_failure()
