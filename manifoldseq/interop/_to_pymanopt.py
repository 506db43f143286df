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
        The seed of ``random_point`` and ``random_tangent_vector``; numpy's global generator is never used.

    Returns
    -------
    pymanopt.manifolds.manifold.Manifold
        Its points are arrays or, for a product, lists of the arrays of all factors, including nested products. A cost
        takes each array as one argument. Tangent vectors are in ambient coordinates. Points keep their dtype.

    Raises
    ------
    TypeError
        If `manifold` is not a manifold of manifoldseq.
    ImportError
        If pymanopt is missing.

    Notes
    -----
    ``exp``, ``log``, ``dist``, ``pair_mean`` and ``typical_dist`` are the functions of the manifold. If the manifold
    has no ``log``, or if the logarithm is NaN, as for distant points of `Stiefel`, ``log(x, y)`` is the projection of y
    − x, an inverse of the retraction to first order. In this case ``dist`` is the Euclidean norm of y − x. Half of its
    square has the gradient −log, which is sufficient for ParticleSwarm and NelderMead. Active bounds are kept by
    clipping. The optimizers of pymanopt do not take clipping into account, so they may stop early.

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
