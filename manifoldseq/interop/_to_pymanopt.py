"""Manifolds of manifoldseq as manifolds of pymanopt."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..manifolds import Manifold


def to_pymanopt(manifold: Manifold, *, seed: int | np.random.Generator | None = None) -> Any:
    """Convert a manifold to a subclass of pymanopt's ``Manifold``, which all of its optimizers accept.

    Parameters
    ----------
    manifold : Manifold
    seed : int or numpy.random.Generator, optional
        Of ``random_point`` and ``random_tangent_vector``; numpy's global generator is never used.

    Returns
    -------
    pymanopt.manifolds.manifold.Manifold
        Its points are arrays, or, of a product, lists of the arrays of all factors, those of nested products too; a
        cost takes them as that many arguments. Tangent vectors are in ambient coordinates. Points keep their dtype.

    Raises
    ------
    TypeError
        If `manifold` is none of ours.
    ImportError
        If pymanopt is missing.

    Notes
    -----
    ``exp``, ``log``, ``dist``, ``pair_mean`` and ``typical_dist`` are those of the manifold's own geometry, and keep
    its laws. Where the manifold has no ``log``, or it is NaN, as of distant points of `Stiefel`, ``log(x, y)`` is the
    projection of y − x, an inverse of the retraction to first order, and ``dist`` the Euclidean norm of y − x: half of
    its square has the gradient −log, which is enough for ParticleSwarm and NelderMead. Active bounds are kept by
    clipping, of which pymanopt knows nothing: its optimizers may then stop early.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> sphere = ms.to_pymanopt(ms.manifolds.Sphere(3), seed=0)
    >>> sphere.dim, sphere.random_point().shape
    (2, (3,))
    """
    if not isinstance(manifold, Manifold):
        raise TypeError(f"to_pymanopt needs a manifold such as ms.manifolds.Stiefel(5, 2), got {manifold!r}")
    from ._as_pymanopt import OurManifold  # imports pymanopt

    return OurManifold(manifold, np.random.default_rng(seed))
