"""min |X W - Y|² over orthogonal W, solved in closed form by the SVD of X'Y."""

import numpy as np

import manifoldseq as ms


def build(data, *, weight=1.0):
    """Return the problem for data ``(X, Y)``, two arrays of shape (N, n)."""
    X, Y = data

    def cost(W):
        return weight * float(np.sum((X @ W - Y) ** 2))

    def gradient(W):
        return 2 * weight * X.T @ (X @ W - Y)

    def closed_form(problem, rng):
        left, _, right = np.linalg.svd(X.T @ Y)
        return left @ right

    return ms.Problem(ms.manifolds.Orthogonal(X.shape[1]), ms.objective(cost, gradient), {"svd": closed_form})


def example(rng):
    """Return two point sets."""
    return rng.standard_normal((20, 4)), rng.standard_normal((20, 4))
