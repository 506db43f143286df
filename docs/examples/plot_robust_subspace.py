"""
Robust subspace estimation with a registered model
==================================================

The model is registered in one file, as in *Write a model*. It is the subspace with the smallest mean distance to the
rows. A second plugin adds an initializer, as in *Write an initializer*. Both are compared with principal components for
growing shares of outliers.
"""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import subspace_angles

import manifoldseq as ms


@dataclass(frozen=True)
class Sums(ms.objectives.Sums):
    """Sums over rows: their number, their distances, and the reweighted second moment."""

    n: float
    total: float
    moment: Any


def prepare(data, *, n_components=2, width=0.1):
    """Return the settings and the rows in blocks."""
    settings = (data.shape[1], n_components, width)
    return ms.Prepared(settings, ms.execution.RowBlocks.of(data), settings)


def statistics(settings, U, block):
    """Return the sums over one block of rows at U."""
    X = block[0]
    distances = np.sqrt(np.sum((X - X @ U @ U.T) ** 2, axis=1) + settings[2] ** 2)
    return Sums(len(X), distances.sum(), (X / distances[:, None]).T @ X)


def pca(problem, rng):
    """Return the leading principal axes."""
    blocks = problem.data.blocks
    X = blocks.take(np.arange(blocks.n))[0]
    return np.linalg.svd(X, full_matrices=False)[2][: problem.manifold.shape[1]].T


def few_rows(problem, rng):
    """Return the axes of the random subset whose rows are nearest to their subspace."""
    blocks, (D, n_components) = problem.data.blocks, problem.manifold.shape

    def candidate():
        X = blocks.take(np.sort(rng.choice(blocks.n, 2 * D, replace=False)))[0]
        U = np.linalg.svd(X, full_matrices=False)[2][:n_components].T
        return np.median(np.sum((X - X @ U @ U.T) ** 2, axis=1)), U

    return min((candidate() for _ in range(20)), key=lambda pair: pair[0])[1]


ms.register(
    ms.hooks.ModelSpec(
        "robust-subspace",
        prepare,
        manifold=lambda settings: ms.manifolds.Stiefel(*settings[:2]),
        statistics=statistics,
        value=lambda settings, U, sums: sums.total / sums.n,
        value_and_gradient=lambda settings, U, sums: (sums.total / sums.n, -sums.moment @ U / sums.n),
        updates={"reweighted": lambda settings, U, sums: np.linalg.eigh(sums.moment)[1][:, -settings[1] :]},
        initializers={"pca": pca},
        example=lambda rng: rng.normal(size=(120, 5)),
    )
)
ms.register(ms.hooks.InitializerSpec("few-rows", few_rows, model="robust-subspace"))

# %%
# The largest angle to the true plane in eight dimensions, over ten data sets for each share of outliers.

shares = np.linspace(0, 0.4, 9)
angles = {"principal components": [], "robust, from pca": [], "robust, from few-rows": []}
for share in shares:
    of_share = {name: [] for name in angles}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        plane = np.linalg.qr(rng.standard_normal((8, 2)))[0]
        X = rng.standard_normal((300, 2)) @ plane.T + 0.05 * rng.standard_normal((300, 8))
        outliers = int(share * 300)
        X[:outliers] = rng.standard_normal((outliers, 1)) * 8 * np.eye(8)[0] + rng.standard_normal((outliers, 8))
        problem = ms.get_model("robust-subspace").problem(X)
        for name, init in zip(angles, ("pca", "pca", "few-rows"), strict=True):
            start = problem.initializers[init](problem, np.random.default_rng(0))
            U = start if name == "principal components" else ms.minimize(problem, start, solver="em", seed=0).x
            of_share[name].append(np.degrees(subspace_angles(U, plane)[0]))
    for name, values in of_share.items():
        angles[name].append(np.mean(values))

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, marker in zip(angles, "os^", strict=True):
    ax.plot(shares, angles[name], marker=marker, label=name)
ax.set(xlabel="share of outliers", ylabel="mean largest angle (degrees)")
ax.legend(fontsize="small")
plt.show()
