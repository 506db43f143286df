"""
Means of covariance matrices
============================

The arithmetic mean of two long ellipses at right angles is a large circle: its determinant exceeds those of both. The
means of the affine-invariant and the log-Euclidean metric keep the determinant. The determinant of the
Bures–Wasserstein mean lies in between.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
shape = np.diag([4.0, 0.25])
angles = rng.normal(np.repeat([0.3, 1.5], 6), 0.15)
turns = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles])
covariances = turns @ shape @ turns.mT

# %%
# All twelve covariance matrices have the determinant 1.

means = {"arithmetic": covariances.mean(axis=0)}
for metric in ("affine-invariant", "log-euclidean", "bures-wasserstein"):
    means[metric] = ms.frechet_mean(ms.manifolds.SymmetricPositiveDefinite(2, metric=metric), covariances)
for name, mean in means.items():
    print(f"{name}: determinant {np.linalg.det(mean):.2f}")

circle = np.stack([np.cos(t := np.linspace(0, 2 * np.pi, 100)), np.sin(t)])
fig, axes = plt.subplots(1, 4, figsize=(9, 3.2), sharex=True, sharey=True, layout="constrained")
for ax, (name, mean) in zip(axes, means.items(), strict=True):
    for covariance in covariances:
        ax.plot(*np.linalg.cholesky(covariance) @ circle, color="0.7", linewidth=0.7)
    ax.plot(*np.linalg.cholesky(mean) @ circle, color="C3", linewidth=2)
    ax.set(aspect="equal", title=f"{name}\ndeterminant {np.linalg.det(mean):.2f}")
plt.show()
