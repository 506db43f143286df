"""The manifolds of the core in jax, with the functions that a compiled iteration needs."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp

import manifoldseq as ms
from manifoldseq.linalg import leaves, tree_map, unflattener_of

from ._small_matrices import gram, identity, matmul, polar, symmetric, transposed

M = ms.manifolds


class Geometry:
    """Euclidean space, and the base class of the geometries of all other manifolds.

    `lift` converts an ambient point to a point of a compiled loop, such as an SPD matrix with its Cholesky factor. A
    tangent vector is a tree of *coordinates* whose dot product is the metric. In an embedded metric, the coordinates
    are the ambient vector itself. Loops therefore transport vectors by projection, and inner products are dot products
    of flat vectors.

    Your own manifold needs `project` and `retract`, and `model` unless the retraction is of second order:

    >>> import jax, jax.numpy as jnp, numpy as np, manifoldseq as ms, manifoldseq_jax as mj
    >>> class Circle(ms.manifolds.Sphere):                                # any subclass of ms.manifolds.Manifold
    ...     pass
    >>> @mj.geometry.register(Circle)
    ... class CircleGeometry(mj.Geometry):
    ...     def project(self, P, u):
    ...         return u - P * jnp.sum(P * u)
    ...     def retract(self, P, u):
    ...         return (P + u) / jnp.sqrt(jnp.sum((P + u) ** 2))
    >>> f = ms.objective(lambda x: x[0] + 2 * x[1], backend="jax")
    >>> result = ms.minimize(ms.Problem(Circle(2), f), np.array([1.0, 0.0]), solver="jax:lbfgs")
    >>> result.success, result.x.round(6).tolist()
    (True, [-0.447214, -0.894427])
    """

    bounded = False
    """Whether `retract` clips to bounds: `gradient` drops what pushes outward, and `free` says where it does."""

    def __init__(self, manifold: Any) -> None:
        self.shape, self.dim, self.open = manifold.shape, manifold.dim, manifold.open

    def lift(self, x: Any) -> Any:
        """Return the representation of an ambient point in the loop."""
        return x

    def lower(self, P: Any) -> Any:
        """Return the ambient point."""
        return P

    def project(self, P: Any, u: Any) -> Any:
        """Return the nearest coordinates of a tangent vector."""
        return u

    def gradient(self, P: Any, e: Any) -> Any:
        """Return the coordinates of the Riemannian gradient from the Euclidean gradient."""
        return self.project(P, e)

    def ambient(self, P: Any, u: Any) -> Any:
        """Return the ambient tangent vector with the given coordinates."""
        return u

    def retract(self, P: Any, u: Any) -> Any:
        """Return the point, as represented in the loop, after a step with the given coordinates."""
        return tree_map(lambda a, b: a + b, P, u)

    def model(self, P: Any, u: Any) -> Any:
        """Return an ambient point that agrees to second order with a geodesic, for the Hessian.

        A polynomial can be differentiated in forward and reverse mode, unlike a retraction with a loop.
        """
        return self.lower(self.retract(P, u))

    def scale(self, P: Any) -> Any:
        """Return the length with which steps are compared, see ``Manifold.scale``."""
        return jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in leaves(self.lower(P))))

    def pushed_inward(self, P: Any, e: Any) -> Any:
        """Return the first-order decrease towards the inside of an open manifold, see ``Manifold.pushed_inward``."""
        return jnp.zeros((), leaves(e)[0].dtype)

    def free(self, P: Any, e: Any) -> Any:
        """Return a tree of booleans that are True for the coordinates without an active bound."""
        return tree_map(lambda leaf: jnp.ones(leaf.shape, bool), e)

    def moved(self, P: Any, new: Any, u: Any) -> Any:
        """Return the coordinates of the actual step of ``retract(P, u) = new``, which clipping can make shorter."""
        return u

    def flat(self, u: Any) -> Any:
        """Return coordinates as one vector."""
        return u.reshape(-1) if not isinstance(u, tuple) else jnp.concatenate([leaf.reshape(-1) for leaf in leaves(u)])

    def tree(self, v: Any) -> Any:
        """Return a vector as coordinates."""
        return unflattener_of(self.shape)(v)


class _UnitNorm(Geometry):
    """Unit vectors along some axes of an array: the sphere and the oblique manifold."""

    axes: tuple[int, ...] = (-2,)

    def _dot(self, u: Any, v: Any) -> Any:
        return jnp.sum(u * v, self.axes, keepdims=True)

    def project(self, P: Any, u: Any) -> Any:
        return u - P * self._dot(P, u)

    def retract(self, P: Any, u: Any) -> Any:
        y = P + u
        return y / jnp.sqrt(self._dot(y, y))

    def model(self, P: Any, u: Any) -> Any:
        return P + u - 0.5 * self._dot(u, u) * P


class _Sphere(_UnitNorm):
    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold)
        self.axes = tuple(range(-len(manifold.shape), 0))


class _OrthonormalColumns(Geometry):
    """The embedded metric; square matrices stay in their component."""

    def project(self, P: Any, u: Any) -> Any:
        return u - matmul(P, symmetric(matmul(transposed(P), u)))

    def retract(self, P: Any, u: Any) -> Any:
        return polar(P + u)

    def model(self, P: Any, u: Any) -> Any:
        return P + u - 0.5 * matmul(P, gram(u))


class _CanonicalStiefel(_OrthonormalColumns):
    """The canonical metric: coordinates X A/√2 + W of U = X A + W with XᵀW = 0."""

    def _within(self, P: Any, u: Any, factor: float) -> Any:
        """Return the vector with its part in the span of the columns multiplied by 1 + factor."""
        return u + factor * matmul(P, matmul(transposed(P), u))

    def ambient(self, P: Any, u: Any) -> Any:
        return self._within(P, u, 2**0.5 - 1)

    def gradient(self, P: Any, e: Any) -> Any:
        return self.ambient(P, self.project(P, e))  # the map to ambient vectors is its own adjoint

    def retract(self, P: Any, u: Any) -> Any:
        return polar(self.model(P, u))

    def model(self, P: Any, u: Any) -> Any:
        # Edelman, Arias, Smith (1998), (2.41): Ẍ = −Ẋ ẊᵀX − X((XᵀẊ)² + ẊᵀẊ)
        U = self.ambient(P, u)
        A, UU = matmul(transposed(P), U), gram(U)
        return P + U - 0.5 * (matmul(U, transposed(A)) + matmul(P, matmul(A, A) + UU))


class _Grassmann(_OrthonormalColumns):
    def project(self, P: Any, u: Any) -> Any:
        return u - matmul(P, matmul(transposed(P), u))


class _Logarithmic(Geometry):
    """A metric in which lengths have no unit."""

    def scale(self, P: Any) -> Any:
        return jnp.ones((), leaves(P)[0].dtype)


class _SPD(_Logarithmic):
    """The affine-invariant metric: coordinates C of U = L C Lᵀ with X = L Lᵀ, so that nothing needs a matrix root."""

    def lift(self, x: Any) -> Any:
        return x, jnp.linalg.cholesky(x)

    def lower(self, P: Any) -> Any:
        return P[0]

    def project(self, P: Any, u: Any) -> Any:
        return symmetric(u)

    def gradient(self, P: Any, e: Any) -> Any:
        return transposed(P[1]) @ symmetric(e) @ P[1]

    def ambient(self, P: Any, u: Any) -> Any:
        return P[1] @ symmetric(u) @ transposed(P[1])

    def retract(self, P: Any, u: Any) -> Any:
        return self.lift(symmetric(self.model(P, symmetric(u))))

    def model(self, P: Any, u: Any) -> Any:
        return P[1] @ (identity(u) + u + 0.5 * (u @ u)) @ transposed(P[1])

    def pushed_inward(self, P: Any, e: Any) -> Any:
        lowest = jnp.linalg.eigvalsh(symmetric(e))[..., 0]
        return jnp.max(jnp.maximum(-lowest, 0) * jnp.linalg.eigvalsh(P[0])[..., -1])


class _Positive(_Logarithmic):
    """Coordinates ``u / x``: the velocity of the logarithm."""

    def gradient(self, P: Any, e: Any) -> Any:
        return e * P

    def ambient(self, P: Any, u: Any) -> Any:
        return u * P

    def retract(self, P: Any, u: Any) -> Any:
        return P * jnp.exp(jnp.clip(u, -18, 18))

    def model(self, P: Any, u: Any) -> Any:
        return P * (1 + u + 0.5 * u * u)

    def pushed_inward(self, P: Any, e: Any) -> Any:
        axes = tuple(range(-len(self.shape), 0))
        return jnp.max(jnp.maximum(-e, 0) * jnp.max(P, axes, keepdims=True))


class _OpenBox(_Logarithmic):
    """The velocity of z in ``x = bound·tanh(z/2)``."""

    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold)
        self.bound = manifold.bound

    def _rate(self, P: Any) -> Any:
        return (self.bound - P) * (self.bound + P) / (2 * self.bound)

    def gradient(self, P: Any, e: Any) -> Any:
        return e * self._rate(P)

    def ambient(self, P: Any, u: Any) -> Any:
        return u * self._rate(P)

    def retract(self, P: Any, u: Any) -> Any:
        a, b = P / self.bound, jnp.tanh(u / 2)
        inside = 1 - 2 * jnp.finfo(P.dtype).eps
        return self.bound * jnp.clip((a + b) / (1 + a * b), -inside, inside)

    def model(self, P: Any, u: Any) -> Any:
        return P + self._rate(P) * (u - 0.5 * u * u * P / self.bound)

    def pushed_inward(self, P: Any, e: Any) -> Any:
        return jnp.max(jnp.where(e > 0, e * (P + self.bound), -e * (self.bound - P)))


class _Box(Geometry):
    """Bounds kept by clipping, with an active set."""

    bounded = True

    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold)
        self.bound = manifold.bound

    def gradient(self, P: Any, e: Any) -> Any:
        return e * self.free(P, e)

    def retract(self, P: Any, u: Any) -> Any:
        return jnp.clip(P + u, -self.bound, self.bound)

    def model(self, P: Any, u: Any) -> Any:
        return P + u

    def free(self, P: Any, e: Any) -> Any:
        return (jnp.abs(P) < self.bound) | (P * e >= 0)

    def moved(self, P: Any, new: Any, u: Any) -> Any:
        return new - P


class _Power(Geometry):
    """Every operation broadcasts over the leading axis: it is the geometry of one factor."""

    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold)
        self.base = base = geometry(manifold.manifold)
        self.bounded = base.bounded
        for name in ("lift", "lower", "project", "gradient", "ambient", "retract", "model"):
            setattr(self, name, getattr(base, name))
        for name in ("pushed_inward", "free", "moved"):
            setattr(self, name, getattr(base, name))

    def scale(self, P: Any) -> Any:
        if self.open:
            return jnp.min(jax.vmap(self.base.scale)(P))
        return jnp.sqrt(jnp.sum(jax.vmap(self.base.scale)(P) ** 2))


class _Product(Geometry):
    """A product, whose points are tuples."""

    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold)
        self.factors = [geometry(factor) for factor in manifold.factors]
        self.bounded = any(factor.bounded for factor in self.factors)

    def _each(self, name: str, *trees: Any) -> tuple[Any, ...]:
        pairs = zip(self.factors, *trees, strict=True)
        return tuple([getattr(factor, name)(*parts) for factor, *parts in pairs])

    def lift(self, x: Any) -> Any:
        return self._each("lift", x)

    def lower(self, P: Any) -> Any:
        return self._each("lower", P)

    def project(self, P: Any, u: Any) -> Any:
        return self._each("project", P, u)

    def gradient(self, P: Any, e: Any) -> Any:
        return self._each("gradient", P, e)

    def ambient(self, P: Any, u: Any) -> Any:
        return self._each("ambient", P, u)

    def retract(self, P: Any, u: Any) -> Any:
        return self._each("retract", P, u)

    def model(self, P: Any, u: Any) -> Any:
        return self._each("model", P, u)

    def free(self, P: Any, e: Any) -> Any:
        return self._each("free", P, e)

    def moved(self, P: Any, new: Any, u: Any) -> Any:
        return self._each("moved", P, new, u)

    def scale(self, P: Any) -> Any:
        pairs = zip(self.factors, P, strict=True)
        return jnp.min(jnp.stack([factor.scale(part) for factor, part in pairs if factor.dim]))

    def pushed_inward(self, P: Any, e: Any) -> Any:
        return jnp.max(jnp.stack(self._each("pushed_inward", P, e)))


@singledispatch
def geometry(manifold: Any) -> Geometry:
    """Return the geometry of a manifold in jax; ``geometry.register(cls)`` adds the geometry of a class."""
    raise TypeError(
        f"{manifold!r} has no geometry in jax: use Euclidean, Sphere, Oblique, Stiefel, Orthogonal, SpecialOrthogonal, "
        "Grassmann, SymmetricPositiveDefinite, Positive, OpenBox, BoundedDiagonal, or products and powers of these "
        f"manifolds, or register a geometry with @manifoldseq_jax.geometry.register({type(manifold).__name__})"
    )


geometry.register(M.Euclidean)(Geometry)
geometry.register(M.Sphere)(_Sphere)
geometry.register(M.Oblique)(_UnitNorm)
geometry.register(M.Orthogonal)(_OrthonormalColumns)
geometry.register(M.SpecialOrthogonal)(_OrthonormalColumns)
geometry.register(M.Grassmann)(_Grassmann)
geometry.register(M.Positive)(_Positive)
geometry.register(M.OpenBox)(_OpenBox)
geometry.register(M.BoundedDiagonal)(_Box)
geometry.register(M.Power)(_Power)
geometry.register(M.Product)(_Product)
geometry.register(M.CanonicalLDS)(_Product)


@geometry.register(M.Stiefel)
def _stiefel(manifold: Any) -> Geometry:
    canonical = manifold != M.Stiefel(manifold.n, manifold.p)
    return (_CanonicalStiefel if canonical else _OrthonormalColumns)(manifold)


@geometry.register(M.SymmetricPositiveDefinite)
def _spd(manifold: Any) -> Geometry:
    if manifold != M.SymmetricPositiveDefinite(manifold.n):
        raise TypeError(f"{manifold!r} has no geometry in jax: only its affine-invariant metric is supported")
    return _SPD(manifold)
