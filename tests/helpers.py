"""What tests share: seeded generators and small problems with known answers. Use as `import helpers`."""

from __future__ import annotations

import numpy as np

import manifoldseq as ms


def rng(seed: int = 0) -> np.random.Generator:
    """Return a fresh generator; every test names its own seed."""
    return np.random.default_rng(seed)


def eigenspace(n: int = 12, p: int = 3, seed: int = 0) -> tuple[ms.Problem, float]:
    """Return the problem min -tr(X' S X) on the Stiefel manifold St(n, p), and its minimum by `eigvalsh`."""
    half = rng(seed).standard_normal((n, n))
    matrix = half + half.T
    objective = ms.objective(lambda X: -float(np.sum(X * (matrix @ X))), lambda X: -2 * matrix @ X)
    return ms.Problem(ms.manifolds.Stiefel(n, p), objective), -float(np.linalg.eigvalsh(matrix)[-p:].sum())
